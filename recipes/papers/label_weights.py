"""Computes weights of labels in the loss from their numbers of training documents.

Shapes: L labels.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hf_gile.metrics.batch import Array
from hf_gile.metrics.ranking import read_counts


def class_balanced_weights(counts: Array | Sequence[float], beta: float) -> NDArray[np.float64]:
    """Computes weights by the effective number of documents of a label (Cui et al., CVPR 2019).

        w_l = (1 - beta) / (1 - beta^n_l), then divided by their mean over the labels with training documents

    For n far below 1 / (1 - beta) this is about 1 / n, and far above it is constant; `beta` 0 gives equal weights. Use
    them in `UnitSampler(label_weights=...)`, or as `column_weights` of the loss.

    Args:
        counts: `(L,)` numbers n of training documents per label.
        beta: From 0 to below 1, such as 0.9, 0.99, 0.999.

    Returns:
        `(L,)` weights with a mean of 1 over labels with training documents; 1 for labels without, where the formula is
        not defined.

    Raises:
        ValueError: If counts are negative, NaN, infinite or all zero, or `beta` is out of range.

    Example:
        >>> class_balanced_weights([0, 1, 10, 1000], beta=0.9).round(3)
        array([1.   , 2.393, 0.367, 0.239])
    """
    if not 0 <= beta < 1:
        raise ValueError(f"beta must be from 0 to below 1, got {beta}")
    documents = read_counts(counts)
    seen = documents > 0
    if not seen.any():
        raise ValueError("counts must contain a label with training documents, got only zeros")
    weights = np.ones(len(documents))
    weights[seen] = (1 - beta) / (1 - beta ** documents[seen])
    weights[seen] /= weights[seen].mean()
    return weights
