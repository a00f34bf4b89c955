from fractions import Fraction

import numpy as np
import pytest
import torch
from papers.label_weights import class_balanced_weights, propensity_weights

from hf_gile.metrics import propensities
from hf_gile.training.weighted_losses import binary_cross_entropy

COUNTS = np.array([1, 2, 0, 30, 4000, 1])


@pytest.mark.parametrize("beta", [0, 0.9, 0.999, 0.999999])
def test_class_balanced_weights_equal_the_formula_of_the_paper(beta):
    beta = Fraction(beta)
    exact = [(1 - beta) / (1 - beta ** int(count)) for count in COUNTS if count]
    mean = sum(exact) / len(exact)
    weights = class_balanced_weights(COUNTS, float(beta))
    np.testing.assert_allclose(weights[COUNTS > 0], [float(weight / mean) for weight in exact], rtol=1e-8)
    assert weights[COUNTS > 0].mean() == pytest.approx(1)
    assert weights[2] == 1


def test_class_balanced_weights_range_from_equal_to_inverse_counts():
    assert class_balanced_weights([1, 2, 1000], beta=0).tolist() == [1, 1, 1]
    nearly = class_balanced_weights([1, 2, 1000], beta=1 - 1e-9)
    np.testing.assert_allclose(nearly / nearly[0], [1, 1 / 2, 1 / 1000], rtol=1e-5)


@pytest.mark.parametrize("beta", [1, -0.1, float("nan")])
def test_a_beta_out_of_range_is_refused(beta):
    with pytest.raises(ValueError, match=f"beta must be from 0 to below 1, got {beta}"):
        class_balanced_weights([1, 2], beta)


def test_all_zero_and_negative_counts_are_refused():
    with pytest.raises(ValueError, match="counts must contain a label with training documents, got only zeros"):
        class_balanced_weights([0, 0], 0.9)
    with pytest.raises(ValueError, match="counts must be numbers of at least 0, got -1 for label 1"):
        class_balanced_weights([1, -1], 0.9)


def test_propensity_weights_follow_inverse_propensities():
    inverse = 1 / propensities(COUNTS, 5000, a=0.6, b=2.6)
    np.testing.assert_allclose(propensity_weights(COUNTS, 5000, a=0.6, b=2.6, convex=False), inverse)
    np.testing.assert_allclose(propensity_weights(torch.tensor(COUNTS), 5000, a=0.6, b=2.6), 2 * inverse - 1)
    assert propensity_weights(COUNTS, 5000).min() >= 1


def test_the_convex_weight_is_unbiased_for_the_zero_one_loss():
    # 1/p times the loss of a gold label, and 1 - 1/p times that of a negative, up to a constant.
    scores = torch.tensor([-2.0, 3.0])
    wrong = (scores < 0).double()
    for inverse, weight in zip(
        propensity_weights(COUNTS, 5000, convex=False), propensity_weights(COUNTS, 5000), strict=True
    ):
        unbiased = inverse * wrong + (1 - inverse) * (1 - wrong)
        assert (unbiased - weight * wrong).tolist() == pytest.approx([1 - inverse] * 2)


def test_inverse_propensities_compensate_for_missing_labels():
    generator = torch.Generator().manual_seed(0)
    p = torch.tensor([0.2, 0.5, 0.9], dtype=torch.double)
    true = (torch.rand(40_000, 3, generator=generator) < 0.3).double()
    observed = true * (torch.rand(true.shape, generator=generator) < p)
    scores = torch.randn(3, dtype=torch.double, generator=generator).expand_as(true)
    # The terms of gold labels: those of all labels minus those of negatives.
    ones = torch.ones(3, dtype=torch.double)
    expected = binary_cross_entropy(scores, true, None, ones) - binary_cross_entropy(scores, true, None, 0 * ones)
    got = binary_cross_entropy(scores, observed, None, 1 / p) - binary_cross_entropy(scores, observed, None, 0 * ones)
    assert got.item() == pytest.approx(expected.item(), rel=0.05)
    short = binary_cross_entropy(scores, observed, None, ones) - binary_cross_entropy(scores, observed, None, 0 * ones)
    assert short.item() < 0.8 * expected.item()
