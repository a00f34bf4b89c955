import numpy as np
import pytest
import torch

from hf_gile.metrics import propensities


def test_propensities_equal_the_formula_of_the_paper():
    counts, n = np.array([0, 1, 3, 900]), 5000
    c = (np.log(n) - 1) * (1.5 + 1) ** 0.55
    expected = [1 / (1 + c * np.exp(-0.55 * np.log(count + 1.5))) for count in counts]
    for form in (counts, counts.tolist(), torch.tensor(counts), counts.astype(float)):
        np.testing.assert_allclose(propensities(form, n), expected, rtol=1e-14)
    c = (np.log(n) - 1) * (0.4 + 1) ** 0.5
    expected = [1 / (1 + c * np.exp(-0.5 * np.log(count + 0.4))) for count in counts]
    np.testing.assert_allclose(propensities(counts, n, a=0.5, b=0.4), expected, rtol=1e-14)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([1, -2], r"counts must be a number of at least 0 for each label, got \[1, -2\]"),
        ([[1, 2]], r"counts must be a number of at least 0 for each label, got \[\[1, 2\]\]"),
        ([1, 101], "a label has 101 training documents, but num_documents is 100"),
    ],
)
def test_invalid_counts_are_refused(counts, message):
    with pytest.raises(ValueError, match=message):
        propensities(counts, num_documents=100)
