from fractions import Fraction

import numpy as np
import pytest
from papers.label_weights import class_balanced_weights

COUNTS = np.array([1, 2, 0, 30, 4000, 1])


@pytest.mark.parametrize("beta", [0, 0.9, 0.999999])
def test_class_balanced_weights_equal_the_formula_of_the_paper(beta):
    beta = Fraction(beta)
    exact = [(1 - beta) / (1 - beta ** int(count)) for count in COUNTS if count]
    mean = sum(exact) / len(exact)
    weights = class_balanced_weights(COUNTS, float(beta))
    np.testing.assert_allclose(weights[COUNTS > 0], [float(weight / mean) for weight in exact], rtol=1e-8)
    assert weights[COUNTS > 0].mean() == pytest.approx(1)
    assert weights[2] == 1


def test_zero_and_negative_counts_and_a_beta_of_one_are_refused():
    with pytest.raises(ValueError, match="beta must be from 0 to below 1, got 1"):
        class_balanced_weights([1, 2], 1)
    with pytest.raises(ValueError, match="counts must contain a label with training documents, got only zeros"):
        class_balanced_weights([0, 0], 0.9)
    with pytest.raises(ValueError, match="counts must be numbers of at least 0, got -1 for label 1"):
        class_balanced_weights([1, -1], 0.9)
