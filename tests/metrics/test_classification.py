import numpy as np
import pytest
import torch
from batches import batch, sparse
from sklearn.metrics import accuracy_score, f1_score

from hf_gile.metrics import F1Metrics

AVERAGES = {"micro_f1": "micro", "macro_f1": "macro", "example_f1": "samples"}


def sklearn_f1(scores, gold, threshold=0.5):
    predicted = torch.tensor(scores).sigmoid().numpy() >= threshold
    figures = {name: f1_score(gold, predicted, average=average, zero_division=0) for name, average in AVERAGES.items()}
    measured = gold.any(axis=0)
    by_label = f1_score(gold[:, measured], predicted[:, measured], average=None, zero_division=0)
    return {**figures, "macro_f1": by_label.mean() if measured.any() else np.nan}


def streamed(scores, labels, *args, **kwargs):
    metrics = F1Metrics(scores.shape[1], *args, **kwargs)
    metrics.update(scores, labels)
    return metrics.compute()


@pytest.mark.parametrize(("threshold", "gold_share"), [(0.0, 0.03), (0.3, 0.3), (0.5, 0.03), (0.99, 0.95)])
def test_f1_equals_scikit_learn(threshold, gold_share):
    for seed in range(2):
        scores, gold = batch(seed, gold_share=gold_share)
        expected = pytest.approx(sklearn_f1(scores, gold, threshold), abs=1e-12)
        assert streamed(scores, gold, threshold) == expected
        assert streamed(scores, sparse(gold), threshold) == expected


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_a_threshold_equal_to_a_computed_probability_predicts_that_label(dtype):
    torch.manual_seed(0)
    scores = torch.randn(23, 17).to(dtype)
    probabilities = scores.sigmoid() if dtype == torch.float64 else scores.float().sigmoid()
    gold = probabilities >= probabilities[11]
    result = streamed(scores, gold, probabilities[11])
    assert result["macro_f1"] == 1
    assert streamed(scores[:, :1], gold[:, :1], probabilities[11, 0].item())["micro_f1"] == 1


def test_groups_equal_scikit_learn_on_their_columns():
    for seed in range(2):
        scores, gold = batch(seed)
        random = np.random.default_rng(seed)
        seen, threshold = random.permutation(17) < 11, random.random(17)
        expected = sklearn_f1(scores, gold, threshold)
        for prefix, group in (("seen_", seen), ("unseen_", ~seen)):
            values = sklearn_f1(scores[:, group], gold[:, group], threshold[group])
            expected |= {prefix + name: value for name, value in values.items()}
        result = streamed(scores, sparse(gold), threshold, seen=seen)
        assert result == pytest.approx(expected, abs=1e-12)


def test_macro_f1_ignores_labels_excluded_from_every_document():
    scores = torch.tensor([[2.0, -1.0, -torch.inf], [-1.0, 3.0, -torch.inf]])
    gold = torch.tensor([[0], [1]])
    metrics = F1Metrics(num_labels=3)
    metrics.update(scores, gold)
    assert metrics.compute()["macro_f1"] == 1.0
    metrics.update(scores[:, [0, 2, 1]], torch.tensor([[0], [2]]))
    assert metrics.compute()["macro_f1"] == 1.0


def test_single_label_metrics_equal_scikit_learn():
    random = np.random.default_rng(3)
    scores, gold = random.normal(size=(61, 5)) - 4, random.integers(5, size=61)  # no probability reaches 0.5
    seen = np.array([True, True, False, True, False])
    figures = streamed(scores, gold[:, None], seen=seen, one_label=True)
    best = scores.argmax(axis=1)
    assert figures["accuracy"] == pytest.approx(accuracy_score(gold, best))
    assert figures["micro_f1"] == pytest.approx(figures["accuracy"])
    assert figures["macro_f1"] == pytest.approx(f1_score(gold, best, average="macro"))
    for group, columns in {"seen": seen, "unseen": ~seen}.items():
        of_group = columns[gold]
        assert figures[f"{group}_accuracy"] == pytest.approx(accuracy_score(gold[of_group], best[of_group]))
    assert "accuracy" not in streamed(scores, gold[:, None])


def test_a_document_without_predicted_labels_can_get_its_best_label():
    _, gold = batch(seed=2)
    scores = np.random.default_rng(2).normal(size=gold.shape)
    scores[0, :5] = -np.inf
    predicted = torch.tensor(scores).sigmoid().numpy() >= 0.85
    expected = predicted.copy()
    for row in np.flatnonzero(~predicted.any(axis=1)):
        expected[row, scores[row].argmax()] = True
    assert expected.sum() > predicted.sum() > 0
    figures = streamed(scores, gold, 0.85, force_label=True)
    assert figures["micro_f1"] == pytest.approx(f1_score(gold, expected, average="micro"))
