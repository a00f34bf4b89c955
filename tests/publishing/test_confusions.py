"""Pairs of labels that a model confuses."""

from collections import Counter

import pytest
import torch

from hf_gile.publishing.confusions import ConfusedPairs


def random_batch(documents, labels, gold, seed):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(documents, labels, generator=generator)
    columns = torch.rand(documents, labels, generator=generator).argsort(dim=1)[:, :gold]
    columns[torch.rand(documents, gold, generator=generator) < 0.3] = -100
    return scores > 0.8, scores, columns


def literal(batches):
    """Counts the pairs of all documents, and ranks them by the formula of the docstring."""
    pairs, missed_of, wrong_of, documents = Counter(), Counter(), Counter(), 0
    for predicted_batch, _, gold in batches:
        for row, columns in zip(predicted_batch, gold, strict=True):
            true, predicted = {c for c in columns.tolist() if c >= 0}, set(row.nonzero().flatten().tolist())
            pairs.update((missed, wrong) for missed in true - predicted for wrong in predicted - true)
            missed_of.update(true - predicted)
            wrong_of.update(predicted - true)
            documents += 1
    excess = {(m, w): n - missed_of[m] * wrong_of[w] / documents for (m, w), n in pairs.items()}
    return pairs, sorted(pairs, key=lambda pair: (-round(excess[pair], 9), pair))


def test_pairs_equal_a_literal_count():
    batches = [random_batch(23, 11, 3, seed) for seed in range(5)]
    pairs = ConfusedPairs(11)
    for batch in batches:
        pairs.update(*batch)
    counts, ranked = literal(batches)
    actual = pairs.most(1000)
    assert {(missed, wrong): number for missed, wrong, number in actual} == counts
    assert [(missed, wrong) for missed, wrong, _ in actual][:7] == ranked[:7]
    assert actual[:3] == pairs.most(3)


def test_chance_pairs_of_frequent_labels_rank_last():
    pairs = ConfusedPairs(5)
    gold = torch.tensor([[0]] * 10 + [[2]] * 3)
    predicted = torch.zeros(13, 5, dtype=torch.bool)
    predicted[:, 1] = True  # wrong for every document
    predicted[10:, 3] = True  # wrong if 2 is missed
    pairs.update(predicted, predicted.float(), gold)
    assert pairs.most(1) == [(2, 3, 3)]


def test_only_the_best_scored_wrong_labels_of_a_document_count():
    pairs = ConfusedPairs(101)
    scores = torch.arange(101.0)[None]
    pairs.update(
        torch.ones(1, 101, dtype=torch.bool).index_fill(1, torch.tensor([0]), False), scores, torch.tensor([[0]])
    )
    assert sorted(wrong for _, wrong, _ in pairs.most(1000)) == list(range(81, 101))


def test_memory_is_bounded_and_dropped_counts_are_reported(monkeypatch):
    monkeypatch.setattr("hf_gile.publishing.confusions._BUFFER_SIZE", 17)
    batches = [random_batch(7, 29, 3, seed) for seed in range(31)]
    few, every = ConfusedPairs(29, max_pairs=53), ConfusedPairs(29)
    for batch in batches:
        few.update(*batch)
        every.update(*batch)
    counted = few.most(1000)
    assert len(counted) <= 53 + 20 * 3 * 7  # the last term is the maximum that a batch adds
    true = {(missed, wrong): number for missed, wrong, number in every.most(10_000)}
    assert few.forgotten > 0
    for missed, wrong, number in counted:
        assert number <= true[missed, wrong] <= number + few.forgotten


def test_no_confusions_give_an_empty_list():
    pairs = ConfusedPairs(3)
    assert pairs.most(5) == []
    pairs.update(torch.tensor([[True, False, False]]), torch.zeros(1, 3), torch.tensor([[0]]))
    assert pairs.most(5) == []


@pytest.mark.parametrize("size", [{"num_labels": 0}, {"num_labels": 3, "max_pairs": 0}])
def test_sizes_below_one_are_refused(size):
    with pytest.raises(ValueError, match="must be at least 1, got 0"):
        ConfusedPairs(**size)
