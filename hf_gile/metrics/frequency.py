"""Label frequencies in training: propensities.

Shapes: `L` labels scored.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .batch import Array


def propensities(
    counts: Array | Sequence[float], num_documents: int, a: float = 0.55, b: float = 1.5
) -> NDArray[np.float64]:
    """Estimates the probability that a relevant label was assigned to a document (Jain et al., KDD 2016).

        p_l = 1 / (1 + C (N_l + b)^-a),  C = (log N - 1) (b + 1)^a

    with N_l training documents of label l among N. The defaults are those of the authors, except for data from
    Wikipedia (a 0.5, b 0.4) and Amazon (a 0.6, b 2.6).

    Args:
        counts: `(L,)` training documents of each label, 0 for a label unseen in training.
        num_documents: N, the number of training documents. Of less than 3, C would be negative and is 0.
        a: Exponent of the frequency.
        b: Offset of the frequency.

    Returns:
        `(L,)` propensities, in 0..1, higher for more frequent labels.

    Raises:
        ValueError: If counts are not between 0 and N.

    Example:
        >>> propensities([0, 1, 1000], num_documents=1000).round(3)
        array([0.113, 0.145, 0.821])
    """
    frequencies = read_counts(counts)
    if frequencies.max(initial=0) > num_documents:
        raise ValueError(
            f"a label has {frequencies.max():g} training documents, but num_documents is {num_documents}; count each "
            "document of a label once, and pass the number of all training documents"
        )
    scale = max(math.log(max(num_documents, 1)) - 1, 0) * (b + 1) ** a
    return 1 / (1 + scale * (frequencies + b) ** -a)


def read_counts(counts: Array | Sequence[float]) -> NDArray[np.float64]:
    """Checks `(L,)` counts of training documents, and returns them in float64.

    Raises:
        ValueError: If they are not a number of at least 0 for each label.

    Example:
        >>> read_counts([3, 0])
        array([3., 0.])
    """
    numbers = np.asarray(counts, np.float64)
    if numbers.ndim != 1 or not (numbers >= 0).all():
        raise ValueError(f"counts must be a number of at least 0 for each label, got {counts!r:.200}")
    return numbers
