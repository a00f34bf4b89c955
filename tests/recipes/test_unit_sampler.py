"""Label sampling of units: by frequency, for each document, with weights of labels."""

import numpy as np
import pytest
import torch
from papers.label_sampling import UnitSampler

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


@pytest.mark.parametrize(
    ("per_document", "frequencies", "weighted"),
    [(False, COUNTS, True), (True, None, True), (True, COUNTS, False)],
    ids=["shared", "per document", "per document by frequency"],
)
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label_weights": [1.0] * 5}, r"label_weights must have shape \(101,\), a number for each label, got \(5,\)"),
        (
            {"label_weights": [1.0] * 100 + [-2.0]},
            "label_weights must be finite and not negative, got -2.0",
        ),
        (
            {"frequencies": [1.0] * 70 + [0.0] * 31},
            "frequencies must be positive, got 0.0 for label 70: .*exclude",
        ),
    ],
)
def test_invalid_weights_and_frequencies_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        UnitSampler(L, num_negatives=5, **options)
