from types import SimpleNamespace

import numpy as np
import pytest
import torch
from batches import batch

from hf_gile.metrics import F1Metrics, LabelMetrics, RankingMetrics

SEEN = np.arange(17) % 5 != 2


def prediction(scores, labels):
    return SimpleNamespace(predictions=scores, label_ids=labels)


def full(scores, gold, **kwargs):
    metrics = LabelMetrics(17, **kwargs)
    metrics.update(scores, gold)
    return metrics.compute()


def test_calls_with_batches_compute_at_the_last_batch_and_reset():
    scores, gold = (torch.tensor(each) for each in batch(0))
    metrics = LabelMetrics(17, SEEN)
    for _ in range(2):
        assert metrics(prediction(scores[:7], gold[:7]), compute_result=False) == {}
        result = metrics(prediction(scores[7:], gold[7:]), compute_result=True)
        assert result == pytest.approx(full(scores, gold, seen=SEEN), abs=1e-12)


def test_a_refused_batch_resets_the_evaluation():
    scores, gold = batch(0)
    metrics = LabelMetrics(17)
    metrics(prediction(-scores, gold), compute_result=False)
    with pytest.raises(ValueError, match="a column for each of the 17 labels"):
        metrics(prediction(scores[:, 1:], gold), compute_result=False)
    assert metrics(prediction(scores, gold)) == full(scores, gold)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_an_accelerator_gives_the_same_metrics():
    scores, gold = batch(0)
    tails = {"top_k": [1, 5], "propensities": torch.linspace(0.1, 1, 17)}
    expected = pytest.approx(full(scores, gold, seen=SEEN, **tails), abs=1e-12, nan_ok=True)
    scores = torch.tensor(scores, device="cuda")
    tails["propensities"] = tails["propensities"].cuda()
    for labels in (torch.tensor(gold, device="cuda"), gold):
        assert full(scores, labels, seen=torch.tensor(SEEN, device="cuda"), **tails) == expected


def test_label_metrics_combine_ranking_and_f1():
    scores, gold = batch(0)
    threshold, propensities = np.linspace(0.1, 0.9, 17), np.linspace(0.1, 1, 17)
    ranking, f1 = RankingMetrics(17, SEEN, [1, 5], propensities), F1Metrics(17, threshold, SEEN)
    ranking.update(scores, gold)
    f1.update(scores, gold)
    result = full(scores, gold, seen=list(SEEN), threshold=threshold, top_k=[1, 5], propensities=propensities)
    assert result == pytest.approx(ranking.compute() | f1.compute(), abs=1e-12, nan_ok=True)
    assert {type(value) for value in result.values()} == {int, float}  # which JSON can hold


def test_predictions_of_several_outputs_and_gold_labels_of_one_dimension_are_read():
    scores, gold = batch(0)[0], np.arange(23) % 17
    metrics = LabelMetrics(17)
    for _ in range(2):  # each call starts again
        assert metrics(prediction((scores, scores[:, :3]), gold)) == full(scores, gold[:, None])
