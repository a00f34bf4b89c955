import numpy as np
import pytest
import torch
from transformers import TrainerState

from hf_gile.models.losses_gile import binary_cross_entropy, multi_hot
from hf_gile.training import EpochCallback, LabelSampler

L = 101
GOLD = [[7, 3], [7, 50, 99], []]


def test_all_gold_labels_are_in_and_columns_ascend():
    columns, weights = LabelSampler(L, num_negatives=11)(GOLD)
    assert {3, 7, 50, 99} <= set(columns.tolist())
    assert len(columns) == 4 + 11
    assert (columns.diff() > 0).all()
    assert len(weights) == len(columns)


def test_without_a_number_all_columns_are_taken_unweighted():
    columns, weights = LabelSampler(L)(GOLD)
    assert columns.tolist() == list(range(L))
    assert weights is None


def test_more_negatives_than_labels_is_all_of_them():
    columns, weights = LabelSampler(L, num_negatives=1000)(GOLD)
    assert len(columns) == L
    assert weights is None


def test_only_the_given_columns_and_gold_labels_are_sampled():
    columns, weights = LabelSampler(L, num_negatives=4, columns=range(20, 30))(GOLD)
    assert set(columns.tolist()) - {3, 7, 50, 99} <= set(range(20, 30))
    assert weights.sum() == 4 + 10


@pytest.mark.parametrize("per_document", [False, True], ids=["shared", "per document"])
def test_weighted_sampled_loss_estimates_the_full_loss_without_bias(per_document):
    logits = torch.randn(len(GOLD), L, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    labels = torch.tensor([[7, 3, -100], [7, 50, 99], [-100, -100, -100]])
    full = binary_cross_entropy(logits, multi_hot(labels, L))
    sampler = LabelSampler(L, num_negatives=13, per_document=per_document)
    estimates = []
    for key in range(3000):
        columns, weights = sampler(GOLD, key)
        estimates.append(binary_cross_entropy(logits[:, columns], multi_hot(labels, L, columns), weights).item())
    error = np.std(estimates) / len(estimates) ** 0.5
    assert abs(np.mean(estimates) - full.item()) < 4 * error
    assert error < 0.005 * full.item()


def test_per_document_samples_give_each_document_its_own_negatives():
    columns, weights = LabelSampler(L, num_negatives=13, per_document=True, weighted=False)(GOLD)
    gold = [set(one) for one in GOLD]
    for row, own in zip(weights, gold, strict=True):
        drawn = set(columns[row > 0].tolist())
        assert own <= drawn
        assert len(drawn - own) == 13
        assert set(row.tolist()) <= {0.0, 1.0}
    assert not torch.equal(weights[0] > 0, weights[1] > 0)


def test_unweighted_shared_samples_are_equation_17():
    columns, weights = LabelSampler(L, num_negatives=13, weighted=False)(GOLD)
    assert len(columns) == 17
    assert weights is None


def test_draws_depend_on_seed_and_batch_alone():
    draws = [LabelSampler(L, 11, seed=seed)(GOLD, key)[0] for seed, key in ((0, 5), (0, 5), (1, 5), (0, 6))]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert not torch.equal(draws[0], draws[3])


def test_a_batch_that_comes_again_draws_other_columns_in_another_epoch():
    sampler = LabelSampler(L, num_negatives=7)
    draws = []
    for epoch in (0, 1, 0):
        EpochCallback(sampler).on_epoch_begin(None, TrainerState(epoch=epoch + 0.25), None)
        draws.append(sampler([[3]], 5)[0])
    assert torch.equal(draws[0], draws[2])
    assert not torch.equal(draws[0], draws[1])


def test_every_column_is_drawn_alike():
    # 5 of 20 takes the way for many of few, 5 of 60 the way for few of many.
    for labels in (20, 60):
        counts = np.zeros(labels)
        sampler = LabelSampler(labels, num_negatives=5)
        for key in range(4000):
            counts[sampler([[]], key)[0].numpy()] += 1
        assert abs(counts / 4000 - 5 / labels).max() < 0.03


@pytest.mark.parametrize("wrong", [-1, -100, L])
def test_gold_columns_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=f"gold column {wrong}, but there are 101 labels"):
        LabelSampler(L, num_negatives=7)([[3], [5, wrong]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_negatives": 0}, "num_negatives must be at least 1"),
        ({"columns": []}, "columns is empty"),
        ({"columns": [3, 101]}, "columns holds 101, but there are 101 labels"),
        ({"columns": [-1, 3]}, "columns holds -1"),
        ({"columns": [3, 3]}, "columns holds 1 columns twice"),
    ],
    ids=["no negatives", "no columns", "too high", "negative", "twice"],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LabelSampler(L, **options)
