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
