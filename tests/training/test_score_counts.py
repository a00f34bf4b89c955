import itertools

import numpy as np
import torch

from hf_gile.metrics.batch import read_batch
from hf_gile.training.calibration.score_counts import (
    BINS,
    EDGES,
    LOWER_BOUNDS,
    VALUES,
    ScoreCounts,
    above_edges,
    assign_halves,
    counts_above,
    round_to_bins,
)

SEEN = torch.arange(11) % 3 != 1


def batch(seed, documents=23, num_labels=11):
    random = torch.Generator().manual_seed(seed)
    logits = 4 * torch.randn(documents, num_labels, generator=random) - 2
    logits[:3, :2] = -torch.inf  # excluded labels, some of which are gold
    logits[3, :2] = torch.finfo(torch.float32).min
    gold = torch.rand(logits.shape, generator=random) < 0.2
    gold[0, 0] = True
    return logits, gold, read_batch(logits, gold)[1]


def counted(logits, columns, sizes):
    counts = ScoreCounts(SEEN)
    for rows, gold in zip(logits.split(sizes), columns.split(sizes), strict=True):
        counts.update(rows, gold)
    return counts


def test_logits_are_rounded_to_the_nearest_float16():
    logits = torch.cat([torch.linspace(-70, 70, 9973), torch.tensor([1e9, -1e9, torch.inf, -torch.inf, -0.0, 1e-30])])
    expected = logits.clamp(-65504, 65504).half().double()
    assert torch.equal(VALUES[round_to_bins(logits)], expected)
    assert torch.equal(round_to_bins(VALUES), torch.arange(BINS, dtype=torch.int32))
    assert (VALUES.diff() > 0).all()
    nearer = torch.where(VALUES[1:] > 0, 0.999, 1.001) * LOWER_BOUNDS[1:]  # rounded to the next lower value
    near_zero = LOWER_BOUNDS[1:].abs() < 1e-4  # where 0.1 percent is below the resolution of float32
    assert ((round_to_bins(nearer) < torch.arange(1, BINS)) | near_zero).all()


def test_counts_equal_a_literal_loop():
    logits, gold, columns = batch(seed=1)
    counts = counted(logits, columns, 5)
    assert counts.documents == 23
    for half in range(2):
        chosen = assign_halves(torch.arange(23)) == half
        scores, right = logits[chosen], gold[chosen]
        candidate = scores > torch.finfo(torch.float32).min
        assert torch.equal(counts.num_gold[half], right.sum(0))
        for group, labels in enumerate((~SEEN, SEEN)):
            for actual, mask in ((counts.cells[0], candidate), (counts.cells[1], candidate & right)):
                values = scores[:, labels][mask[:, labels]]
                assert torch.equal(actual[half, group], torch.bincount(round_to_bins(values), minlength=BINS))
        for label in range(11):
            for actual, mask in ((counts.label_cells[0], candidate), (counts.label_cells[1], candidate & right)):
                values = scores[:, label][mask[:, label]]
                above = [int((values >= edge).sum()) for edge in EDGES]
                assert above_edges(actual[half])[label].tolist() == [len(values), *above, 0]
                assert int(actual[half, label].sum()) == len(values)
    for group, labels in enumerate((~SEEN, SEEN)):
        best = [
            (value, is_gold)
            for row, right in zip(logits[:, labels], gold[:, labels], strict=True)
            for value, is_gold in sorted(zip(row.tolist(), right.tolist(), strict=True), reverse=True)[:5]
            if value > -1e38
        ]
        values = torch.tensor([value for value, _ in best])
        assert torch.equal(counts.best[0, group], torch.bincount(round_to_bins(values), minlength=BINS))
        right = values[torch.tensor([is_gold for _, is_gold in best])]
        assert torch.equal(counts.best[1, group], torch.bincount(round_to_bins(right), minlength=BINS))


def test_both_halves_are_balanced_for_periodic_data():
    halves = assign_halves(torch.arange(10_000))
    for period in (1, 2, 3, 4, 7, 64):
        for start in range(period):
            sample = halves[start::period]
            # Five standard deviations of fair coin tosses.
            assert abs(int(sample.sum()) - len(sample) / 2) < 2.5 * len(sample) ** 0.5


def test_counts_do_not_depend_on_batches():
    logits, _, columns = batch(seed=2)
    expected = vars(counted(logits, columns, 23))
    for size in (1, 4, 7):
        for name, value in vars(counted(logits, columns, size)).items():
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(expected[name]))


def test_documents_are_spread_evenly_between_edges():
    logits, _, columns = batch(seed=3, documents=211)
    counts = counted(logits, columns, 64)
    edges = above_edges(counts.label_cells[0].sum(0))

    def above(logit):
        return counts_above(edges, torch.full((11,), logit))

    for index, edge in enumerate(EDGES.tolist()):
        assert torch.equal(above(edge), edges[:, index + 1].double())
    for index, (edge, after) in enumerate(itertools.pairwise(EDGES.tolist()), start=1):
        torch.testing.assert_close(above((edge + after) / 2), edges[:, [index, index + 1]].double().mean(1))
    assert torch.equal(above(-99.0), edges[:, 0].double())
    assert not above(99.0).any()
    steps = [above(logit) for logit in np.sort(np.random.default_rng(0).uniform(-70, 70, 997)).tolist()]
    assert (torch.stack(steps).diff(dim=0) <= 0).all()
