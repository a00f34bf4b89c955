"""Fits on counts of rounded logits equal fits on all cells, for a real model and real data."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from hf_gile.models.checks_gile import check_calibration
from hf_gile.models.search_gile import calibrated
from hf_gile.training.calibration.curves import fit_calibration, fit_softmax_calibration
from hf_gile.training.calibration.score_counts import BINS, VALUES, round_to_bins


@pytest.fixture(scope="module")
def digits():
    """Returns log probabilities of a naive Bayes classifier, which is overconfident, for held-out digits."""
    images, digits = load_digits(return_X_y=True)
    model = GaussianNB(var_smoothing=1e-2).fit(images[::2], digits[::2])
    return model.predict_joint_log_proba(images[1::2]), digits[1::2]


@pytest.fixture(scope="module")
def cells(digits):
    """Returns an independent logit for each digit, and whether it is correct."""
    joint, gold = digits
    rest = np.stack([np.logaddexp.reduce(np.delete(joint, digit, axis=1), axis=1) for digit in range(10)], axis=1)
    return (joint - rest).ravel(), (gold[:, None] == np.arange(10)).ravel()


def counted(logits, gold):
    bins = round_to_bins(torch.from_numpy(logits))
    return [torch.bincount(occurrences, minlength=BINS) for occurrences in (bins, bins[torch.from_numpy(gold)])]


def apply(calibration, logits):
    logits = torch.from_numpy(logits)
    check_calibration({"seen": calibration})
    return calibrated(logits, torch.ones(logits.shape[-1], dtype=torch.bool), {"seen": calibration}).sigmoid().numpy()


def test_a_fit_on_counts_equals_logistic_regression_on_all_cells(cells):
    logits, gold = cells
    ours = fit_calibration("platt", VALUES, *counted(logits, gold))
    positive, negative = (gold.sum() + 1) / (gold.sum() + 2), 1 / ((~gold).sum() + 2)
    shares = np.where(gold, positive, negative)  # Platt's targets, as weights of both outcomes
    twice, outcomes = np.concatenate([logits, logits])[:, None], np.repeat([True, False], len(logits))
    theirs = LogisticRegression(C=np.inf, tol=1e-10).fit(twice, outcomes, np.concatenate([shares, 1 - shares]))
    # Rounding changes logits by at most 2^-12 of their size; the prior weighs less than one of 898 gold labels.
    assert ours["scale"] == pytest.approx(theirs.coef_[0, 0], rel=2e-3)
    assert ours["scale"] < 0.5
    assert ours["offset"] == pytest.approx(theirs.intercept_[0], abs=2e-3)
    probabilities = theirs.predict_proba(logits[:, None])[:, 1]
    np.testing.assert_allclose(apply(ours, logits), probabilities, atol=1e-3)


def test_scores_without_an_error_are_not_certain():
    for method in ("platt", "spline"):
        apart = fit_calibration(method, torch.tensor([-3.0, 3.0]), torch.tensor([50, 50]), torch.tensor([0, 50]))
        probabilities = apply(apart, np.array([-3.0, 3.0]))
        np.testing.assert_allclose(probabilities, [1 / 52, 51 / 52], atol=2e-3)
        for cells, gold in (([7], [7]), ([7, 3], [0, 1]), ([1, 9, 9], [0, 1, 8]), ([3, 1], [2, 0])):
            values = torch.arange(len(cells)).float()
            check_calibration({"seen": fit_calibration(method, values, torch.tensor(cells), torch.tensor(gold))})


def test_a_spline_recovers_a_changing_slope():
    values = torch.linspace(-12, 8, 2001, dtype=torch.float64)
    bent = -4 + torch.where(values < -3, 1.2, 0.4) * (values + 3)
    cells = 1e4 * torch.exp(-((values + 4) ** 2) / 20)
    gold = cells * bent.sigmoid()
    ours = fit_calibration("spline", values, cells, gold)
    assert 10 < len(ours["logits"]) < 64
    np.testing.assert_allclose(apply(ours, values.numpy()), bent.sigmoid(), atol=0.01)


def test_a_softmax_is_fitted_as_a_whole(digits):
    joint, gold = (torch.from_numpy(array) for array in digits)

    def loss(logits):
        return torch.nn.functional.cross_entropy(logits, gold).item()

    seen = torch.ones(10, dtype=torch.bool)
    ours = fit_softmax_calibration(joint, gold, seen)
    best = loss(calibrated(joint, seen, ours))
    scale = ours["seen"]["scale"]
    assert scale < 0.5
    assert all(best <= loss(joint * other) + 1e-4 for other in np.geomspace(0.01, 1, 301))  # up to the prior
    assert ours["seen"]["offset"] == pytest.approx(0.0, abs=1e-6)  # a constant has no effect
    seen = torch.arange(10) < 7
    shifted = torch.where(seen, joint, 2 * joint + 30)  # for more confident labels
    both = fit_softmax_calibration(shifted, gold, seen)
    assert both["unseen"]["scale"] == pytest.approx(both["seen"]["scale"] / 2, rel=0.2)
    assert both["unseen"]["offset"] - both["seen"]["offset"] < -1
    assert loss(calibrated(shifted, seen, both)) <= best + 1e-4
