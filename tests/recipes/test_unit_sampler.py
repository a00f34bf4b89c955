"""Label sampling and loss of units: by frequency, for each document, with weights of labels."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from papers.label_sampling import UnitSampler
from papers.label_weights import class_balanced_weights
from papers.unit_loss import UnitLoss

from hf_gile import GileConfig
from hf_gile.models.losses_gile import multi_hot
from hf_gile.training.losses import binary_cross_entropy

L = 101
GOLD = [[7, 3], [7, 50, 99], []]
LABELS = torch.tensor([[7, 3, -100], [7, 50, 99], [-100, -100, -100]])
COUNTS = 1000 / np.arange(1, L + 1)


def loss(logits, labels, columns=None, weights=None):
    targets = multi_hot(labels, logits.shape[1])
    if columns is not None:
        logits = logits[:, columns]
        targets = targets[:, columns]
    return binary_cross_entropy(logits, targets, weights).item()


SAMPLES = [(False, COUNTS, True), (True, None, True), (True, COUNTS, False)]


@pytest.mark.parametrize(("per_document", "frequencies", "weighted"), SAMPLES)
def test_the_sampled_loss_is_unbiased(per_document, frequencies, weighted):
    logits = torch.randn(len(GOLD), L, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    label_weights = np.random.default_rng(0).random(L) * 2 if weighted else np.ones(L)
    full = loss(logits, LABELS, weights=torch.tensor(label_weights))
    options = {"per_document": per_document, "frequencies": frequencies, "label_weights": label_weights}
    sampler = UnitSampler(L, num_negatives=13, **options)
    estimates = [loss(logits, LABELS, *sampler(GOLD, key)) for key in range(250)]
    error = np.std(estimates) / len(estimates) ** 0.5
    assert abs(np.mean(estimates) - full) < 4 * error
    assert error < 0.07 * full


def test_per_document_samples_differ_between_documents():
    columns, weights = UnitSampler(L, num_negatives=13, per_document=True, weighted=False)(GOLD)
    for row, gold in zip(weights, map(set, GOLD), strict=True):
        sampled = set(columns[row > 0].tolist())
        assert gold <= sampled
        assert len(sampled - gold) == 13
        assert set(row.tolist()) <= {0.0, 1.0}
    assert not torch.equal(weights[0] > 0, weights[1] > 0)


def sample(**options):
    UnitSampler(L, num_negatives=5, **options)


def check_loss(**options):
    UnitLoss(**options).check_fits(GileConfig(vocab_size=11))


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (sample, {"label_weights": [1.0] * 5}, r"label_weights must have shape \(101,\), .*, got \(5,\)"),
        (sample, {"label_weights": [1.0] * 100 + [-2.0]}, "label_weights must be finite and not negative, got -2.0"),
        (sample, {"frequencies": [1.0] * 70 + [0.0] * 31}, "must be positive, got 0.0 for label 70: .*exclude"),
        (check_loss, {"refresh_steps": -1}, "refresh_steps must not be negative, got -1"),
        (check_loss, {"row_dropout": 1}, "row_dropout must be at least 0 and below 1, got 1"),
        (check_loss, {"refresh_steps": 2}, "refresh_steps needs labels read by a pretrained encoder, .* got 'mean'"),
        (check_loss, {"row_dropout": 0.5}, "row_dropout needs config.label_rows"),
    ],
)
def test_invalid_options_are_refused(make, options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


@pytest.mark.parametrize("beta", [0, 0.9, 0.999999])
def test_class_balanced_weights_equal_the_formula_of_the_paper(beta):
    counts = np.array([1, 2, 0, 30, 4000, 1])
    exact = [(1 - Fraction(beta)) / (1 - Fraction(beta) ** int(count)) for count in counts if count]
    mean = sum(exact) / len(exact)
    weights = class_balanced_weights(counts, beta)
    np.testing.assert_allclose(weights[counts > 0], [float(weight / mean) for weight in exact], rtol=1e-8)
    assert weights[counts > 0].mean() == pytest.approx(1)
    assert weights[2] == 1
