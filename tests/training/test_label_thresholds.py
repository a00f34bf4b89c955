import math

import numpy as np
import pytest
import torch

from hf_gile.metrics import LabelMetrics
from hf_gile.training import tune_threshold
from hf_gile.training.calibration.label_thresholds import LabelCounts, fit_label_thresholds, group_threshold
from hf_gile.training.calibration.score_counts import EDGES, ScoreCounts, above_edges


def batch(seed, documents=211, biases=(0.0,) * 13, share=0.15):
    """Logits that are right as often as they say, but for a bias of each label that the model does not know of."""
    random = torch.Generator().manual_seed(seed)
    prior = math.log(share / (1 - share))
    true = 2.5 * torch.randn(documents, len(biases), generator=random) + prior
    gold = torch.rand(true.shape, generator=random) < true.sigmoid()
    logits = (true + torch.tensor(biases)).half().float()
    return logits, gold


def counted(logits, gold):
    counts = ScoreCounts(torch.ones(logits.shape[1], dtype=torch.bool))
    columns = torch.full(gold.shape, -100)
    for row, mask in zip(columns, gold, strict=True):
        row[: mask.sum()] = mask.nonzero().flatten()
    counts.update(logits, columns)
    return counts


def fitted_on(logits, gold):
    """Counts of both halves and of the whole."""
    counts = counted(logits, gold)
    parts = []
    for half in (slice(0, 1), slice(1, 2), slice(0, 2)):
        number = counts.num_gold[half].sum(0)
        common, _ = group_threshold(counts.cells[half, 1].sum(0), counts.gold[half, 1].sum(0), int(number.sum()))
        above = (above_edges(own[half].sum(0)) for own in (counts.label_cells, counts.label_gold))
        parts.append(LabelCounts(*above, number, common))
    return parts[:2], parts[2]


def f1(logits, gold, thresholds):
    metrics = LabelMetrics(logits.shape[1], threshold=thresholds.sigmoid())
    metrics.update(logits.double(), gold)
    return metrics.compute()


def test_a_group_threshold_is_the_best_of_all_distinct_scores():
    for seed in range(5):
        logits, gold = batch(seed, documents=23)
        logits[0, :3] = -torch.inf  # one that is gold after all counts as missed
        gold[0, 0] = True
        counts = counted(logits, gold)
        ours, micro_f1 = group_threshold(counts.cells.sum((0, 1)), counts.gold.sum((0, 1)), int(gold.sum()))
        theirs = math.log((p := tune_threshold(logits.double(), gold)) / (1 - p))
        assert not ((logits >= min(ours, theirs)) & (logits < max(ours, theirs) - 1e-6)).any()
        found = f1(logits, gold, torch.full((13,), ours, dtype=torch.double))
        assert found["micro_f1"] == pytest.approx(micro_f1, abs=1e-12)
    with pytest.raises(ValueError, match="needs a gold label that is a candidate, got none"):
        group_threshold(counts.cells.sum((0, 1)), torch.zeros_like(counts.gold[0, 0]), 7)


@pytest.mark.parametrize("objective", ["micro_f1", "macro_f1"])
def test_a_label_threshold_is_the_best_of_all_edges(objective):
    logits, gold = batch(seed=1, documents=37)
    gold[:, 4] = False
    _, whole = fitted_on(logits, gold)
    own = whole.best_thresholds(objective, micro_f1=0.4)
    tried = [*EDGES.tolist(), whole.common]

    def worth(label, threshold):
        predicted, right = logits[:, label] >= threshold, gold[:, label]
        hits = int((predicted & right).sum())
        if objective == "micro_f1":
            return 2 * hits - 0.4 * int(predicted.sum())
        return 2 * hits / int(predicted.sum() + right.sum())

    for label in range(13):
        if label == 4:
            assert own[label] == whole.common
            continue
        best = max(worth(label, threshold) for threshold in EDGES.tolist())
        # The common threshold is between edges, where counts are spread evenly and not exact.
        if own[label] != whole.common:
            assert worth(label, float(own[label])) == pytest.approx(best)
            equals = [one for one in tried[:-1] if worth(label, one) == pytest.approx(best)]
            assert abs(own[label] - whole.common) == min(abs(one - whole.common) for one in equals)


def test_labels_with_more_gold_documents_shrink_less():
    logits, gold = batch(seed=2)
    _, whole = fitted_on(logits, gold)
    own = torch.linspace(-3, 3, 13).double()
    for shrinkage in (0.0, 3.0, 1e6, math.inf):
        for label, threshold in enumerate(whole.shrink(own, shrinkage).tolist()):
            n = int(whole.num_gold[label])
            expected = whole.common
            if math.isfinite(shrinkage):
                expected = (n * float(own[label]) + shrinkage * whole.common) / (n + shrinkage)
            assert threshold == pytest.approx(expected, abs=1e-9)


def test_figures_equal_the_metrics_at_edges():
    logits, gold = batch(seed=3)
    _, whole = fitted_on(logits, gold)
    thresholds = EDGES[torch.arange(13) * 3 + 40]
    theirs = f1(logits, gold, thresholds)
    ours = whole.figures(thresholds)
    assert ours == pytest.approx({name: theirs[name] for name in ours}, abs=1e-12)


@pytest.mark.parametrize("objective", ["micro_f1", "macro_f1"])
def test_few_documents_of_equal_labels_leave_the_common_threshold(objective):
    logits, gold = batch(seed=4, documents=120, biases=(0.0,) * 199, share=0.02)
    halves, whole = fitted_on(logits, gold)
    raw = fit_label_thresholds(halves, whole, objective, shrinkages=(0.0,))
    found = fit_label_thresholds(halves, whole, objective)
    assert found.shrinkage >= 4 * whole.num_gold.double().mean()  # at most a fifth is the label's own
    more, right = batch(seed=5, documents=3000, biases=(0.0,) * 199, share=0.02)
    of_raw, of_shrunk = (f1(more, right, one.thresholds)[objective] for one in (raw, found))
    common = f1(more, right, torch.full((199,), whole.common).double())[objective]
    assert of_raw < common - 0.01  # own thresholds are chance
    assert of_shrunk > common - 0.003
    seen = f1(logits, gold, raw.thresholds)[objective]
    assert seen > of_raw + 0.05  # which the documents that they were made on do not tell,
    assert raw.held_out[0.0][objective] < seen - 0.05  # and held-out ones do


@pytest.mark.parametrize("objective", ["micro_f1", "macro_f1"])
def test_different_labels_get_separate_thresholds(objective):
    biases = np.random.default_rng(0).normal(scale=2.0, size=53).tolist()
    logits, gold = batch(seed=6, documents=1501, biases=biases)
    halves, whole = fitted_on(logits, gold)
    found = fit_label_thresholds(halves, whole, objective)
    assert found.shrinkage <= 16
    more, right = batch(seed=7, documents=3000, biases=biases)
    ours = f1(more, right, found.thresholds)[objective]
    common = f1(more, right, torch.full((53,), whole.common).double())[objective]
    assert ours > common + 0.03
    best = f1(more, right, torch.tensor(biases).double() - 0.5)[objective]  # all that can be known: the biases
    assert ours > best - 0.02
    assert found.held_out[found.shrinkage][objective] == pytest.approx(ours, abs=0.03)


def test_an_unknown_objective_is_refused():
    halves, whole = fitted_on(*batch(seed=8))
    with pytest.raises(
        ValueError, match=r"objective must be micro_f1, macro_f1 or, for example, recall@0\.8, got 'f1'"
    ):
        fit_label_thresholds(halves, whole, "f1")
