import numpy as np
import pytest
import torch
from transformers import TrainerState

from hf_gile.models.losses_gile import multi_hot
from hf_gile.training import EpochCallback, LabelSampler
from hf_gile.training.weighted_losses import binary_cross_entropy

L = 101
GOLD = [[7, 3], [7, 50, 99], []]
LABELS = torch.tensor([[7, 3, -100], [7, 50, 99], [-100, -100, -100]])
COUNTS = 1000 / np.arange(1, L + 1)


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


def test_by_default_all_columns_are_used_without_weights():
    columns, weights = LabelSampler(L)(GOLD)
    assert columns.tolist() == list(range(L))
    assert weights is None


def test_too_many_negatives_means_all_labels():
    columns, weights = LabelSampler(L, num_negatives=1000)(GOLD)
    assert len(columns) == L
    assert weights is None


def test_only_allowed_columns_and_gold_labels_are_sampled():
    columns, weights = LabelSampler(L, num_negatives=4, columns=range(20, 30))(GOLD)
    assert set(columns.tolist()) - {3, 7, 50, 99} <= set(range(20, 30))
    assert weights.sum() == 4 + 10


@pytest.mark.slow  # exact tests with fewer labels: test_the_loss_of_all_*
@pytest.mark.parametrize("per_document", [False, True], ids=["shared", "per document"])
@pytest.mark.parametrize("frequencies", [None, COUNTS], ids=["uniform", "by frequency"])
def test_the_weighted_sampled_loss_is_unbiased(per_document, frequencies):
    logits = torch.randn(len(GOLD), L, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    full = loss(logits, LABELS)
    sampler = LabelSampler(L, num_negatives=13, per_document=per_document, frequencies=frequencies)
    estimates = [loss(logits, LABELS, *sampler(GOLD, key)) for key in range(1000)]
    error = np.std(estimates) / len(estimates) ** 0.5
    assert abs(np.mean(estimates) - full) < 4 * error
    assert error < 0.035 * full


SMALL = [[1], [4, 1]]
SMALL_LABELS = torch.tensor([[1, -100], [4, 1]])


def count_samples(sampler):
    """Returns each distinct sample of a sampler with its frequency."""
    samples = {}
    for key in range(4000):
        columns, weights = sampler(SMALL, key)
        samples.setdefault(tuple(columns.tolist()), [columns, weights, 0])[2] += 1
    return list(samples.values())


def test_the_loss_of_all_uniform_samples_averages_to_the_full_loss():
    logits = torch.randn(2, 7, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    samples = count_samples(LabelSampler(7, num_negatives=2))
    assert len(samples) == 10  # 2 of the 5 negatives
    assert all(abs(number / 4000 - 1 / 10) < 0.03 for *_, number in samples)
    mean = np.mean([loss(logits, SMALL_LABELS, columns, weights) for columns, weights, _ in samples])
    assert mean == pytest.approx(loss(logits, SMALL_LABELS), rel=1e-6)


def test_the_loss_of_all_samples_by_frequency_averages_to_the_full_loss():
    logits = torch.randn(2, 7, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    samples = count_samples(LabelSampler(7, num_negatives=3, frequencies=[9, 9, 1, 5, 9, 2, 2]))
    assert len(samples) == 32  # every subset of the 5 negatives
    weight = {}
    for columns, weights, _ in samples:
        if weights is not None:  # only gold columns
            weight |= dict(zip(columns.tolist(), weights.tolist(), strict=True))
    assert weight.pop(1) == weight.pop(4) == 1.0
    assert weight[0] < weight[3] < weight[5] == weight[6] < weight[2]
    estimate = total = 0.0
    for columns, weights, number in samples:
        sampled = columns.tolist()
        probability = np.prod([1 / w if column in sampled else 1 - 1 / w for column, w in weight.items()])
        assert abs(number / 4000 - probability) < 0.03
        total += probability
        estimate += probability * loss(logits, SMALL_LABELS, columns, weights)
    assert total == pytest.approx(1, rel=1e-6)
    assert estimate == pytest.approx(loss(logits, SMALL_LABELS), rel=1e-6)


def test_sampling_by_frequency_prefers_frequent_columns():
    for labels, number in ((101, 30), (5000, 30)):
        frequencies = 1 / np.arange(1, labels + 1)
        sampler = LabelSampler(labels, num_negatives=number, frequencies=frequencies)
        counts, sizes = np.zeros(labels), []
        for key in range(1000):
            columns, weights = sampler([[]], key)
            counts[columns.numpy()] += 1
            sizes.append(len(columns))
            assert torch.equal(weights, weights.sort().values)
        assert abs(np.mean(sizes) - number) < 4 * np.std(sizes) / 1000**0.5
        assert counts[:5].min() > 3 * counts[-50:].max()
    assert np.std(sizes) < number**0.5


def test_in_batch_sampling_uses_only_gold_labels():
    columns, weights = LabelSampler(L, num_negatives=0)(GOLD)
    assert columns.tolist() == [3, 7, 50, 99]
    assert weights is None
    columns, weights = LabelSampler(L, num_negatives=0, frequencies=COUNTS)([[], []])
    assert len(columns) == 0


def test_gold_columns_outside_the_allowed_columns_are_added():
    columns, weights = LabelSampler(L, columns=range(20, 60))(GOLD)
    assert columns.tolist() == [3, 7, *range(20, 60), 99]
    assert weights is None


def test_per_document_samples_differ_between_documents():
    columns, weights = LabelSampler(L, num_negatives=13, per_document=True, weighted=False)(GOLD)
    for row, gold in zip(weights, map(set, GOLD), strict=True):
        sampled = set(columns[row > 0].tolist())
        assert gold <= sampled
        assert len(sampled - gold) == 13
        assert set(row.tolist()) <= {0.0, 1.0}
    assert not torch.equal(weights[0] > 0, weights[1] > 0)


def test_unweighted_shared_samples_equal_equation_17():
    columns, weights = LabelSampler(L, num_negatives=13, weighted=False)(GOLD)
    assert len(columns) == 17
    assert weights is None


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


def test_every_column_is_drawn_equally_often():
    # 5 of 20 is sampled by a permutation, 5 of 60 by rejection of repetitions.
    for labels in (20, 60):
        counts = np.zeros(labels)
        sampler = LabelSampler(labels, num_negatives=5)
        for key in range(4000):
            counts[sampler([[]], key)[0].numpy()] += 1
        assert abs(counts / 4000 - 5 / labels).max() < 0.03


@pytest.mark.parametrize("per_document", [False, True], ids=["shared", "per document"])
def test_label_weights_multiply_sampling_weights(per_document):
    label_weights = np.random.default_rng(0).random(L)
    label_weights[7] = 0
    options = {"num_negatives": 13, "per_document": per_document}
    columns, unscaled = LabelSampler(L, **options)(GOLD, 3)
    weighted_columns, weights = LabelSampler(L, label_weights=label_weights, **options)(GOLD, 3)
    assert torch.equal(weighted_columns, columns)
    assert weights.dtype == unscaled.dtype
    torch.testing.assert_close(weights, unscaled * torch.tensor(label_weights[columns]).float())


def test_without_sampling_weights_columns_have_the_label_weights():
    label_weights = np.arange(1, L + 1)
    for options in ({}, {"num_negatives": 0}, {"num_negatives": 13, "weighted": False}):
        columns, weights = LabelSampler(L, label_weights=label_weights, **options)(GOLD)
        assert torch.equal(weights, columns.float() + 1)


def test_the_sampled_loss_with_label_weights_is_unbiased():
    logits = torch.randn(len(GOLD), L, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    label_weights = np.random.default_rng(0).random(L) * 2
    full = loss(logits, LABELS, weights=torch.tensor(label_weights))
    sampler = LabelSampler(L, num_negatives=13, label_weights=label_weights)
    estimates = [loss(logits, LABELS, *sampler(GOLD, key)) for key in range(1000)]
    error = np.std(estimates) / len(estimates) ** 0.5
    assert abs(np.mean(estimates) - full) < 4 * error
    assert error < 0.035 * full


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0] * 5, r"must have shape \(101,\), a number for each label, got \(5,\)"),
        ([1.0] * 100 + [-2.0], "must be finite and not negative, got -2.0 for label 100"),
        ([1.0, np.inf] + [1.0] * 99, "must be finite and not negative, got inf for label 1"),
        ([np.nan] * 101, "must be finite and not negative, got nan for label 0"),
    ],
    ids=["shape", "negative", "infinite", "no number"],
)
def test_invalid_label_weights_are_refused(weights, message):
    with pytest.raises(ValueError, match=f"label_weights {message}"):
        LabelSampler(L, label_weights=weights)


@pytest.mark.parametrize("wrong", [-1, -100, L])
def test_gold_columns_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=f"gold label {wrong}, but there are 101 labels"):
        LabelSampler(L, num_negatives=7)([[3], [5, wrong]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_negatives": -1}, "num_negatives must not be negative"),
        ({"columns": []}, "columns is empty"),
        ({"columns": [3, 101]}, "columns has 101, but there are 101 labels"),
        ({"columns": [-1, 3]}, "columns has -1"),
        ({"columns": [3, 3]}, "columns has 1 repeated"),
        ({"num_negatives": 5, "frequencies": [1.0] * 5}, r"frequencies must have shape \(101,\).*got \(5,\)"),
        (
            {"num_negatives": 5, "frequencies": [1.0] * 70 + [0.0] * 31},
            r"frequencies must be positive, got 0.0 for label 70: .*exclude labels without .* from columns",
        ),
        (
            {"num_negatives": 5, "frequencies": [1.0, float("nan")] + [1.0] * 99},
            "must be positive, got nan for label 1",
        ),
    ],
    ids=["no negatives", "no columns", "too high", "negative", "twice", "shape", "zero frequency", "no number"],
)
def test_invalid_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LabelSampler(L, **options)
