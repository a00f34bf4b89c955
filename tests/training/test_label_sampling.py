from collections import Counter

import numpy as np
import pytest
import torch
from transformers import TrainerState

from hf_gile.models.losses_gile import multi_hot
from hf_gile.training import EpochCallback, LabelSampler
from hf_gile.training.losses import binary_cross_entropy

L = 101
GOLD = [[7, 3], [7, 50, 99], []]


def loss(logits, labels, columns=None, weights=None):
    targets = multi_hot(labels, logits.shape[1])
    targets = targets if columns is None else targets[:, columns]
    return binary_cross_entropy(logits if columns is None else logits[:, columns], targets, weights).item()


def test_samples_contain_all_gold_labels_in_ascending_order():
    columns, weights = LabelSampler(L, num_negatives=11)(GOLD)
    assert {3, 7, 50, 99} <= set(columns.tolist())
    assert len(columns) == 4 + 11
    assert (columns.diff() > 0).all()
    assert len(weights) == len(columns)
    assert LabelSampler(L, num_negatives=13, weighted=False)(GOLD)[1] is None


def test_by_default_all_columns_are_used_without_weights():
    for options in ({}, {"num_negatives": 1000}):
        columns, weights = LabelSampler(L, **options)(GOLD)
        assert columns.tolist() == list(range(L))
        assert weights is None
    columns, weights = LabelSampler(L, columns=range(20, 60))(GOLD)
    assert columns.tolist() == [3, 7, *range(20, 60), 99]
    assert weights is None


SMALL = [[1], [4, 1]]
SMALL_LABELS = torch.tensor([[1, -100], [4, 1]])


def test_the_loss_of_all_uniform_samples_averages_to_the_full_loss():
    logits = torch.randn(2, 7, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    sampler = LabelSampler(7, num_negatives=2)
    draws = [sampler(SMALL, key) for key in range(2000)]
    samples = {tuple(columns.tolist()): (columns, weights) for columns, weights in draws}
    counts = Counter(tuple(columns.tolist()) for columns, _ in draws)
    assert len(samples) == 10  # 2 of the 5 negatives
    assert all(abs(number / 2000 - 1 / 10) < 0.05 for number in counts.values())
    mean = np.mean([loss(logits, SMALL_LABELS, *sample) for sample in samples.values()])
    assert mean == pytest.approx(loss(logits, SMALL_LABELS), rel=1e-6)


def test_in_batch_sampling_uses_only_gold_labels():
    columns, weights = LabelSampler(L, num_negatives=0)(GOLD)
    assert columns.tolist() == [3, 7, 50, 99]
    assert weights is None
    columns, weights = LabelSampler(L, num_negatives=0)([[], []])
    assert len(columns) == 0


def test_samples_depend_only_on_seed_and_batch():
    draws = [LabelSampler(L, 11, seed=seed)(GOLD, key)[0] for seed, key in ((0, 5), (0, 5), (1, 5), (0, 6))]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert not torch.equal(draws[0], draws[3])


def test_a_repeated_batch_gets_another_sample_in_each_epoch():
    sampler = LabelSampler(L, num_negatives=7)
    draws = []
    for epoch in (0, 1, 0):
        callback = EpochCallback(sampler)
        callback.on_train_begin(None, TrainerState(epoch=epoch + 0.25), None)
        callback.on_epoch_begin(None, TrainerState(), None)
        draws.append(sampler([[3]], 5)[0])
    assert torch.equal(draws[0], draws[2])
    assert not torch.equal(draws[0], draws[1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": []}, "columns must be distinct labels to sample from, got 0"),
        ({"columns": [3, 101]}, "columns has 101, but there are 101 labels"),
        ({"columns": [3, 3]}, "columns must be distinct labels to sample from, got 2: .3, 3"),
    ],
    ids=str,
)
def test_invalid_options_and_gold_columns_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LabelSampler(L, **options)
    for wrong in (-1, L):
        with pytest.raises(ValueError, match=f"gold label {wrong}, but there are 101 labels"):
            LabelSampler(L, num_negatives=7)([[3], [5, wrong]])
