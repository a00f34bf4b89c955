"""Computes weights of labels in the loss from their numbers of training documents.

Shapes: L labels.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hf_gile.metrics.batch import Array
from hf_gile.metrics.frequency import propensities, read_counts


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


def propensity_weights(
    counts: Array | Sequence[float], num_documents: int, a: float = 0.55, b: float = 1.5, convex: bool = True
) -> NDArray[np.float64]:
    """Computes weights of positive terms that compensate for missing gold labels in the data.

    If annotators assign a relevant label with probability p, its propensity, the loss underestimates relevant labels.
    Counting an assigned label 1/p times, and 1 - 1/p times as not assigned, is unbiased (Jain et al., KDD 2016), but
    not convex. For the 0-1 loss, the two terms sum to 2/p - 1 times the first, whose convex bound is used for training
    (Qaraei et al., WWW 2021).

    Use them in `GileLoss(positive_weights=...)`. Scores become higher, especially for rare labels, so tune the
    threshold.

    Args:
        counts: `(L,)` numbers of training documents per label.
        num_documents: The number of training documents.
        a: As in `hf_gile.metrics.propensities`.
        b: As in `hf_gile.metrics.propensities`.
        convex: Whether to use 2/p - 1; otherwise 1/p.

    Returns:
        `(L,)` weights, each at least 1.

    Raises:
        ValueError: As in `hf_gile.metrics.propensities`.

    Example:
        >>> propensity_weights([0, 1, 1000], num_documents=1000).round(2)
        array([16.65, 12.82,  1.44])
    """
    inverse = 1 / propensities(counts, num_documents, a, b)
    return 2 * inverse - 1 if convex else inverse
