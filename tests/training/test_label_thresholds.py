import math

import numpy as np
import pytest
import torch

from hf_gile.metrics import LabelMetrics
from hf_gile.metrics.batch import read_batch
from hf_gile.training.calibration.score_counts import ScoreCounts
from hf_gile.training.calibration.thresholds import LabelCounts, fit_label_thresholds


def batch(seed, documents=211, biases=(0.0,) * 13, share=0.15):
    """Returns calibrated logits with an additional unknown bias for each label, and gold labels."""
    random = torch.Generator().manual_seed(seed)
    prior = math.log(share / (1 - share))
    true = 2.5 * torch.randn(documents, len(biases), generator=random) + prior
    gold = torch.rand(true.shape, generator=random) < true.sigmoid()
    logits = (true + torch.tensor(biases)).half().float()
    return logits, gold


def counted(logits, gold):
    counts = ScoreCounts(torch.ones(logits.shape[1], dtype=torch.bool))
    counts.update(*read_batch(logits, gold))
    return counts


def f1(logits, gold, thresholds):
    metrics = LabelMetrics(logits.shape[1], threshold=thresholds.sigmoid())
    metrics.update(logits.double(), gold)
    return metrics.compute()


def test_a_threshold_that_accepts_every_label_is_at_most_a_half():
    scores = torch.linspace(5, 9, 60).reshape(20, 3)
    threshold, micro_f1 = counted(scores, torch.ones(20, 3, dtype=torch.bool)).of_group("seen").best_threshold()
    assert (threshold, micro_f1) == (0, 1)


def test_few_documents_of_equal_labels_leave_the_common_threshold():
    logits, gold = batch(seed=4, documents=120, biases=(0.0,) * 199, share=0.02)
    counts = counted(logits, gold)
    all_counts = LabelCounts.of_group(counts, "seen")
    raw, held_out = fit_label_thresholds(counts, "seen", shrinkages=(0.0,))
    shrunk, figures = fit_label_thresholds(counts, "seen")
    assert figures["shrinkage"] is None  # the common threshold is best
    more, right = batch(seed=5, documents=1500, biases=(0.0,) * 199, share=0.02)
    raw_f1, shrunk_f1 = (f1(more, right, thresholds)["micro_f1"] for thresholds in (raw, shrunk))
    common = f1(more, right, torch.full((199,), all_counts.common).double())["micro_f1"]
    assert raw_f1 < common - 0.01  # raw thresholds are mostly noise
    assert shrunk_f1 > common - 0.003
    seen = f1(logits, gold, raw)["micro_f1"]
    assert seen > raw_f1 + 0.05  # the F1 on the documents of the fit hides this,
    assert held_out["held_out_micro_f1_of_label_thresholds"] < seen - 0.05  # cross-validation does not


@pytest.mark.parametrize("objective", ["micro_f1", "macro_f1"])
def test_different_labels_get_separate_thresholds(objective):
    biases = np.random.default_rng(0).normal(scale=2.0, size=53).tolist()
    logits, gold = batch(seed=6, documents=1001, biases=biases)
    counts = counted(logits, gold)
    all_counts = LabelCounts.of_group(counts, "seen")
    fitted, figures = fit_label_thresholds(counts, "seen", objective)
    assert figures["shrinkage"] <= 16
    more, right = batch(seed=7, documents=1500, biases=biases)
    ours = f1(more, right, fitted)[objective]
    common = f1(more, right, torch.full((53,), all_counts.common).double())[objective]
    assert ours > common + 0.03
    best = f1(more, right, torch.tensor(biases).double() - 0.5)[objective]  # the best thresholds, from the true biases
    assert ours > best - 0.02
    assert figures[f"held_out_{objective}_of_label_thresholds"] == pytest.approx(ours, abs=0.03)
