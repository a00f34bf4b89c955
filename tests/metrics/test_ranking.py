import numpy as np
import pytest
import torch
from batches import batch, sparse
from sklearn.metrics import coverage_error, label_ranking_average_precision_score, label_ranking_loss

from hf_gile.metrics import RankingMetrics, propensities, ranking_metrics

MEANS = ("average_precision", "ranking_loss", "one_error", "coverage")


def literal_one_error(scores, gold):
    errors = []
    for row, chosen in zip(scores, gold, strict=True):
        negatives = row[~chosen]
        errors.append(bool(len(negatives)) and negatives.max() >= row[chosen].max())
    return np.mean(errors)


def sklearn_means(scores, gold):
    some = gold.any(axis=1)
    scores, gold = scores[some], gold[some]
    return {
        "average_precision": label_ranking_average_precision_score(gold, scores),
        "ranking_loss": label_ranking_loss(gold, scores),
        "one_error": literal_one_error(scores, gold),
        "coverage": coverage_error(gold, scores),
        "documents": some.sum(),
        "skipped": (~some).sum(),
    }


def streamed(scores, labels, num_labels=17, **kwargs):
    metrics = RankingMetrics(num_labels, **kwargs)
    metrics.update(scores, labels)
    return metrics.compute()


@pytest.mark.parametrize(("ties", "gold_share"), [(True, 0.03), (False, 0.3), (True, 0.95)])
def test_means_equal_scikit_learn(ties, gold_share):
    for seed in range(4):
        scores, gold = batch(seed, ties=ties, gold_share=gold_share)
        expected = pytest.approx(sklearn_means(scores, gold), abs=1e-12)
        assert streamed(scores, gold) == expected


def test_sparse_and_multi_hot_gold_labels_give_the_same_metrics():
    for seed in range(2):
        scores, gold = batch(seed)
        forms = [gold, gold.astype(np.float32), torch.tensor(gold).double(), sparse(gold, seed)]
        forms += [sparse(gold, seed).astype(np.int32), torch.tensor(sparse(gold, seed + 1))]
        results = [streamed(scores, form) for form in forms]
        assert all(result == pytest.approx(results[0], abs=1e-12) for result in results)


def test_a_tie_counts_against_the_model():
    result = ranking_metrics(torch.zeros(1, 5), torch.tensor([[2]]))
    assert {name: result[name].item() for name in MEANS} == {
        "average_precision": 0.2,
        "ranking_loss": 1.0,
        "one_error": 1.0,
        "coverage": 5.0,
    }


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_scores_keep_their_ties(dtype):
    scores, gold = batch(seed=3, ties=False)
    scores = torch.tensor(scores).to(dtype)
    expected = sklearn_means(scores.double().numpy(), gold)
    assert streamed(scores, gold) == pytest.approx(expected, abs=1e-12)


def test_labels_with_a_score_of_minus_infinity_are_excluded():
    rng = np.random.default_rng(0)
    scores, gold = rng.normal(size=(7, 11)), np.zeros((7, 11), dtype=bool)
    gold[np.arange(7), rng.integers(5, size=7)] = True
    scores[:, 5:] = -np.inf
    left_out = ranking_metrics(scores, gold)
    restricted = ranking_metrics(scores[:, :5], gold[:, :5])
    for name, values in restricted.items():
        torch.testing.assert_close(left_out[name], values)


def test_documents_without_gold_are_skipped_and_counted():
    scores = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 2.0]])
    labels = torch.tensor([[-100, -100], [-100, 2]])
    result = ranking_metrics(scores, labels)
    assert result["counted"].tolist() == [False, True]
    assert all(result[name][0].isnan() for name in MEANS)
    means = streamed(scores, labels, num_labels=3)
    assert (means["average_precision"], means["documents"], means["skipped"]) == (1, 1, 1)


def literal_at_k(scores, gold, k):
    """Computes metrics from sorted labels; gold labels rank last among equal scores."""
    precision, recall, ndcg = [], [], []
    for row, chosen in zip(scores, gold, strict=True):
        best = sorted(range(len(row)), key=lambda label: (-row[label], chosen[label]))[:k]
        hits = [rank for rank, label in enumerate(best) if chosen[label] and row[label] > -np.inf]
        ideal = sum(1 / np.log2(rank + 2) for rank in range(min(k, chosen.sum())))
        precision.append(len(hits) / k)
        recall.append(len(hits) / chosen.sum())
        ndcg.append(sum(1 / np.log2(rank + 2) for rank in hits) / ideal)
    return {f"precision_at_{k}": np.mean(precision), f"recall_at_{k}": np.mean(recall), f"ndcg_at_{k}": np.mean(ndcg)}


PROPENSITIES = np.random.default_rng(9).choice([0.1, 0.25, 0.6, 1.0], 17)


def literal_psp(scores, gold, propensities, k):
    """Computes metrics from sorted labels; gold labels rank last among equal scores, the rarest at the end."""
    gained = best = 0.0
    for row, chosen in zip(scores, gold, strict=True):
        order = sorted(range(len(row)), key=lambda label: (-row[label], chosen[label], -propensities[label]))
        gained += sum(1 / propensities[label] for label in order[:k] if chosen[label] and row[label] > -np.inf)
        best += sum(sorted(1 / propensities[chosen])[::-1][:k])
    return gained / best


@pytest.mark.parametrize(("ties", "gold_share"), [(True, 0.03), (False, 0.3), (True, 0.95)])
def test_metrics_at_k_equal_those_of_the_sorted_labels(ties, gold_share):
    for seed in range(4):
        scores, gold = batch(seed, ties=ties, gold_share=gold_share)
        if seed % 2:
            scores[np.random.default_rng(seed).random(scores.shape) < 0.2] = -np.inf
        some = gold.any(axis=1)
        for labels in (gold, sparse(gold, seed)):
            result = streamed(scores, labels, top_k=(1, 3, 23), propensities=PROPENSITIES)
            for k in (1, 3, 23):
                expected = literal_at_k(scores[some], gold[some], k)
                expected[f"psp_at_{k}"] = literal_psp(scores, gold, PROPENSITIES, k)
                assert {name: result[name] for name in expected} == pytest.approx(expected, abs=1e-12)


def test_groups_equal_the_formulas_on_their_columns():
    scores, gold = batch(3)
    seen = np.random.default_rng(3).permutation(17) < 11
    expected = {}
    for prefix, group in (("", seen | ~seen), ("seen_", seen), ("unseen_", ~seen)):
        among, right = scores[:, group], gold[:, group]
        means = sklearn_means(among, right)
        some = right.any(axis=1)
        means |= literal_at_k(among[some], right[some], 5)
        means["psp_at_5"] = literal_psp(among, right, PROPENSITIES[group], 5)
        expected |= {prefix + name: value for name, value in means.items()}
    among_all = sklearn_means(np.where(gold & seen, -9, scores), gold & ~seen)  # without the seen gold labels
    expected["unseen_among_all_average_precision"] = among_all["average_precision"]
    for labels in (gold, sparse(gold)):
        result = streamed(scores, labels, seen=seen, top_k=[5], propensities=PROPENSITIES)
        assert {name: result[name] for name in expected} == pytest.approx(expected, abs=1e-12)


def test_batch_sizes_do_not_change_the_metrics():
    scores, gold = batch(seed=2)
    options = {"seen": np.arange(17) < 11, "top_k": [1, 5], "propensities": PROPENSITIES}
    expected = pytest.approx(streamed(scores, gold, **options), abs=1e-12, nan_ok=True)
    metrics = RankingMetrics(17, **options)
    for rows in (slice(0, 3), slice(3, 3), slice(3, 7), slice(7, None)):
        metrics.update(scores[rows], sparse(gold)[rows])
    assert metrics.compute() == expected
    metrics.reset()
    metrics.update(scores, gold)
    assert metrics.compute() == expected


def test_propensities_equal_the_formula_of_the_paper():
    counts, n = np.array([0, 1, 3, 900]), 5000
    c = (np.log(n) - 1) * (1.5 + 1) ** 0.55
    expected = [1 / (1 + c * np.exp(-0.55 * np.log(count + 1.5))) for count in counts]
    for form in (counts, counts.tolist(), torch.tensor(counts), counts.astype(float)):
        np.testing.assert_allclose(propensities(form, n), expected, rtol=1e-14)
    c = (np.log(n) - 1) * (0.4 + 1) ** 0.5
    expected = [1 / (1 + c * np.exp(-0.5 * np.log(count + 0.4))) for count in counts]
    np.testing.assert_allclose(propensities(counts, n, a=0.5, b=0.4), expected, rtol=1e-14)
