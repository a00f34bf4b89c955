"""Label frequencies in training: propensities.

Shapes: `L` labels scored.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

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
        ValueError: If counts are not between 0 and N, or `a` or `b` is not positive.

    Example:
        >>> propensities([0, 1, 1000], num_documents=1000).round(3)
        array([0.113, 0.145, 0.821])
    """
    if not (a > 0 and b > 0):
        raise ValueError(f"a and b must be positive, got a={a} and b={b}")
    frequencies = read_counts(counts)
    if frequencies.max(initial=0) > num_documents:
        raise ValueError(
            f"a label has {frequencies.max():g} training documents, but num_documents is {num_documents}; count each "
            "document of a label once, and pass the number of all training documents"
        )
    scale = max(math.log(max(num_documents, 1)) - 1, 0) * (b + 1) ** a
    return 1 / (1 + scale * (frequencies + b) ** -a)


def read_counts(counts: Array | Sequence[float]) -> NDArray[np.float64]:
    """Checks `(L,)` counts of training documents, and returns a copy of them in float64.

    Raises:
        ValueError: If counts are negative, NaN or infinite.

    Example:
        >>> read_counts([3, 0])
        array([3., 0.])
    """
    return _check_numbers(counts, "counts", None, lambda array: array >= 0, "of at least 0")


def read_propensities(values: Array | Sequence[float], num_labels: int) -> Tensor:
    """Checks propensities.

    Args:
        values: `(L,)` propensities.
        num_labels: Number of labels L.

    Returns:
        `(L,)` float64 on the CPU, a copy.

    Raises:
        ValueError: If they are not above 0 and at most 1, or their number is wrong.

    Example:
        >>> read_propensities([0.5, 1], num_labels=2)
        tensor([0.5000, 1.0000], dtype=torch.float64)
    """
    array = _check_numbers(
        values, "propensities", num_labels, lambda array: (array > 0) & (array <= 1), "above 0 and up to 1"
    )
    return torch.from_numpy(array)


def _check_numbers(
    values: Array | Sequence[float],
    name: str,
    num_labels: int | None,
    is_valid: Callable[[NDArray[np.float64]], NDArray[np.bool_]],
    requirement: str,
) -> NDArray[np.float64]:
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.dtype.kind not in "iuf" or array.ndim != 1 or num_labels not in (None, len(array)):
        shape = "(L,)" if num_labels is None else f"({num_labels},)"
        raise ValueError(
            f"{name} must have shape {shape}, a number for each label, got {array.dtype} of shape {array.shape}"
        )
    array = array.astype(np.float64)
    wrong = np.flatnonzero(~(np.isfinite(array) & is_valid(array)))
    if len(wrong):
        raise ValueError(f"{name} must be numbers {requirement}, got {array[wrong[0]]:g} for label {wrong[0]}")
    return array
