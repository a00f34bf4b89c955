import math

import numpy as np
import pytest
import torch

from hf_gile.metrics import LabelMetrics
from hf_gile.metrics.batch import read_batch
from hf_gile.training import tune_threshold
from hf_gile.training.calibration.label_thresholds import LabelCounts, fit_label_thresholds
from hf_gile.training.calibration.score_counts import EDGES, ScoreCounts


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


def test_a_group_threshold_is_the_best_of_all_distinct_scores():
    for seed in range(5):
        logits, gold = batch(seed, documents=23)
        logits[0, :3] = -torch.inf  # an excluded gold label counts as missed
        gold[0, 0] = True
        counts = counted(logits, gold)
        ours, micro_f1 = counts.of_group("seen").best_threshold()
        theirs = math.log((p := tune_threshold(logits.double(), gold)) / (1 - p))
        assert not ((logits >= min(ours, theirs)) & (logits < max(ours, theirs) - 1e-6)).any()
        figures = f1(logits, gold, torch.full((13,), ours, dtype=torch.double))
        assert figures["micro_f1"] == pytest.approx(micro_f1, abs=1e-12)
    with pytest.raises(ValueError, match="needs a gold label that is a candidate, got none"):
        counted(logits, gold & False).of_group("seen").best_threshold()


@pytest.mark.parametrize("objective", ["micro_f1", "macro_f1"])
def test_a_label_threshold_is_the_best_of_all_edges(objective):
    logits, gold = batch(seed=1, documents=37)
    gold[:, 4] = False
    all_counts = LabelCounts.of_group(counted(logits, gold), "seen")
    fitted = all_counts.best_thresholds(objective, micro_f1=0.4)
    tried = [*EDGES.tolist(), all_counts.common]

    def worth(label, threshold):
        predicted, right = logits[:, label] >= threshold, gold[:, label]
        hits = int((predicted & right).sum())
        if objective == "micro_f1":
            return 2 * hits - 0.4 * int(predicted.sum())
        return 2 * hits / int(predicted.sum() + right.sum())

    for label in range(13):
        if label == 4:
            assert fitted[label] == all_counts.common
            continue
        best = max(worth(label, threshold) for threshold in EDGES.tolist())
        # The common threshold lies between edges, where counts are interpolated.
        if fitted[label] != all_counts.common:
            assert worth(label, float(fitted[label])) == pytest.approx(best)
            equals = [edge for edge in tried[:-1] if worth(label, edge) == pytest.approx(best)]
            assert abs(fitted[label] - all_counts.common) == min(abs(edge - all_counts.common) for edge in equals)


def test_labels_with_more_gold_documents_shrink_less():
    logits, gold = batch(seed=2)
    all_counts = LabelCounts.of_group(counted(logits, gold), "seen")
    thresholds = torch.linspace(-3, 3, 13).double()
    for shrinkage in (0.0, 3.0, 1e6, math.inf):
        for label, threshold in enumerate(all_counts.shrink(thresholds, shrinkage).tolist()):
            n = int(all_counts.num_gold[label])
            expected = all_counts.common
            if math.isfinite(shrinkage):
                expected = (n * float(thresholds[label]) + shrinkage * all_counts.common) / (n + shrinkage)
            assert threshold == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("objective", ["micro_f1", "macro_f1"])
def test_few_documents_of_equal_labels_leave_the_common_threshold(objective):
    logits, gold = batch(seed=4, documents=120, biases=(0.0,) * 199, share=0.02)
    counts = counted(logits, gold)
    all_counts = LabelCounts.of_group(counts, "seen")
    raw = fit_label_thresholds(counts, "seen", objective, shrinkages=(0.0,))
    shrunk = fit_label_thresholds(counts, "seen", objective)
    assert shrunk.shrinkage >= 4 * all_counts.num_gold.double().mean()  # individual thresholds weigh at most a fifth
    more, right = batch(seed=5, documents=3000, biases=(0.0,) * 199, share=0.02)
    raw_f1, shrunk_f1 = (f1(more, right, result.thresholds)[objective] for result in (raw, shrunk))
    common = f1(more, right, torch.full((199,), all_counts.common).double())[objective]
    assert raw_f1 < common - 0.01  # raw thresholds are mostly noise
    assert shrunk_f1 > common - 0.003
    seen = f1(logits, gold, raw.thresholds)[objective]
    assert seen > raw_f1 + 0.05  # the F1 on the documents of the fit hides this,
    assert raw.held_out[0.0][objective] < seen - 0.05  # cross-validation does not


@pytest.mark.parametrize("objective", ["micro_f1", "macro_f1"])
def test_different_labels_get_separate_thresholds(objective):
    biases = np.random.default_rng(0).normal(scale=2.0, size=53).tolist()
    logits, gold = batch(seed=6, documents=1501, biases=biases)
    counts = counted(logits, gold)
    all_counts = LabelCounts.of_group(counts, "seen")
    fitted = fit_label_thresholds(counts, "seen", objective)
    assert fitted.shrinkage <= 16
    more, right = batch(seed=7, documents=3000, biases=biases)
    ours = f1(more, right, fitted.thresholds)[objective]
    common = f1(more, right, torch.full((53,), all_counts.common).double())[objective]
    assert ours > common + 0.03
    best = f1(more, right, torch.tensor(biases).double() - 0.5)[objective]  # the best thresholds, from the true biases
    assert ours > best - 0.02
    assert fitted.held_out[fitted.shrinkage][objective] == pytest.approx(ours, abs=0.03)
