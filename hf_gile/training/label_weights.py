"""What labels count in the loss, by the number of their training documents.

Shapes: L labels.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..metrics.batch import Array
from ..metrics.frequency import propensities, read_counts


def class_balanced_weights(counts: Array | Sequence[float], beta: float) -> NDArray[np.float64]:
    """Weights by the effective number of a label's documents (Cui et al., CVPR 2019).

        w_l = (1 - beta) / (1 - beta^n_l), then divided by their mean over the labels with training documents

    With n far below 1 / (1 - beta) this is about 1 / n, far above it is the same for all labels; `beta` 0 weights all
    alike. For `LabelSampler(label_weights=...)`, or as `column_weights` of the loss.

    Args:
        counts: `(L,)` training documents n of each label.
        beta: From 0 to below 1, such as 0.9, 0.99, 0.999.

    Returns:
        `(L,)` weights with a mean of 1 over the labels that have training documents; 1 for those that have none, which
        the formula does not define.

    Raises:
        ValueError: Counts that are no numbers from 0 on or all zero, or a `beta` out of range.

    Example:
        >>> class_balanced_weights([0, 1, 10, 1000], beta=0.9).round(3)
        array([1.   , 2.393, 0.367, 0.239])
    """
    if not 0 <= beta < 1:
        raise ValueError(f"beta must be from 0 to below 1, got {beta}")
    known = read_counts(counts)
    seen = known > 0
    if not seen.any():
        raise ValueError("counts must hold a label with training documents, got only zeros")
    weights = np.ones(len(known))
    weights[seen] = (1 - beta) / (1 - beta ** known[seen])
    weights[seen] /= weights[seen].mean()
    return weights


def propensity_weights(
    counts: Array | Sequence[float], num_documents: int, a: float = 0.55, b: float = 1.5, convex: bool = True
) -> NDArray[np.float64]:
    """Weights of the terms where a label is gold, for gold labels that are missing in the data.

    If annotators assign a label that applies with a chance p, its propensity, a loss over the assigned ones is too low
    for the true ones. Counting an assigned label 1/p times, and 1 - 1/p times as not assigned, is right in expectation
    (Jain et al., KDD 2016), but not convex. Of the 0-1 loss the two terms come to 2/p - 1 times the first, whose convex
    bound is the one to train with (Qaraei et al., WWW 2021).

    For `GileLoss(positive_weights=...)`. Scores are then higher, and most so those of rare labels: tune the threshold.

    Args:
        counts: `(L,)` training documents of each label.
        num_documents: The number of training documents.
        a: As in `hf_gile.metrics.propensities`.
        b: As in `hf_gile.metrics.propensities`.
        convex: Whether to take 2/p - 1; otherwise 1/p.

    Returns:
        `(L,)` weights, each at least 1.

    Raises:
        ValueError: As `hf_gile.metrics.propensities`.

    Example:
        >>> propensity_weights([0, 1, 1000], num_documents=1000).round(2)
        array([16.65, 12.82,  1.44])
    """
    inverse = 1 / propensities(counts, num_documents, a, b)
    return 2 * inverse - 1 if convex else inverse
