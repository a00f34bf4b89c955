"""Computes losses of `(B, C)` logits over weighted labels, such as a sample: sigmoid (Eq. 15, 17) and softmax.

Shapes: B documents, L labels, C scored labels (all L, or a sample), P gold labels per document (padded).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ..models.losses_gile import IGNORE, check_gold, widened


def binary_cross_entropy(
    logits: Tensor, targets: Tensor, column_weights: Tensor | None = None, positive_weights: Tensor | None = None
) -> Tensor:
    """Computes the multi-label loss of `losses_gile.py` over weighted labels.

    Args:
        logits: `(B, C)` scores.
        targets: `(B, C)` zeros and ones.
        column_weights: `(C,)` or `(B, C)`: number of labels of the full set that each scored label represents. For
            uniformly sampled negatives, (number of negatives) / (number sampled) gives an unbiased estimate of the
            loss over all labels (Eq. 17 omits the weights, and so estimates a different loss).
        positive_weights: `(C,)`: additional weights of the terms of gold labels, `-log sigmoid(s)`. Weights by
            inverse propensity compensate for gold labels that are missing in the data, which are mostly rare labels.

    Returns:
        The loss, a scalar in float32 or better.
    """
    logits = widened(logits)
    if positive_weights is not None:
        positive_weights = positive_weights.to(logits.dtype)
    loss = functional.binary_cross_entropy_with_logits(
        logits, targets.to(logits.dtype), column_weights, reduction="sum", pos_weight=positive_weights
    )
    return loss / len(logits)


def cross_entropy(logits: Tensor, targets: Tensor, column_weights: Tensor | None = None) -> Tensor:
    """Computes the single-label loss of `losses_gile.py` over weighted labels.

    Args:
        logits: `(B, C)` scores.
        targets: `(B, C)` zeros and ones, with a single 1 per row.
        column_weights: `(C,)` or `(B, C)`: number of labels of the full set that each scored label represents. The
            sum in the denominator of the softmax is estimated without bias; its logarithm, and so this loss, is only
            consistent (it approaches the full loss as the sample grows). A gold label of weight 0 counts once.

    Returns:
        The loss, a scalar in float32 or better.
    """
    logits = widened(logits)
    targets = targets.to(logits.dtype)
    total = logits if column_weights is None else logits + column_weights.to(logits.dtype).log()
    total = torch.where((targets > 0) & total.isneginf(), logits, total)  # an empty sum has a gradient of NaN
    return (total.logsumexp(-1) - (logits * targets).sum(-1)).mean()


def decoupled_softmax(logits: Tensor, targets: Tensor, column_weights: Tensor | None = None) -> Tensor:
    """Computes a softmax loss for any number of gold labels, each against the other labels (Gupta et al., ICLR 2024).

        sum over gold labels of  -log(exp(s_gold) / (exp(s_gold) + sum over labels that are not gold of exp(s))

    In a softmax over all labels, the gold labels of a document would compete with each other.

    Args:
        logits: `(B, C)` scores.
        targets: `(B, C)` zeros and ones.
        column_weights: `(C,)` or `(B, C)`: number of labels of the full set that each scored label represents; the
            estimate is consistent, as in `cross_entropy`.

    Returns:
        The loss, averaged over the documents: a scalar in float32 or better.
    """
    logits = widened(logits)
    others = logits if column_weights is None else logits + column_weights.to(logits.dtype).log()
    # Not minus infinity, because the gradient would be NaN for documents without negatives.
    others = others.masked_fill((targets > 0) | others.isneginf(), torch.finfo(logits.dtype).min)
    total = others.logsumexp(-1, keepdim=True)
    return (functional.softplus(total - logits) * targets).sum() / len(logits)


def gold_positions(labels: Tensor, num_labels: int, columns: Tensor | None = None) -> Tensor:
    """Checks gold labels, and returns their positions among the scored labels.

    Args:
        labels: `(B, P)` label indices, padded with -100.
        num_labels: Number L of all labels.
        columns: `(C,)` indices of the scored labels, ascending; all by default. Must contain every gold label.

    Returns:
        `(B, P)` positions in `columns`, padded with -100.

    Raises:
        ValueError: If a gold label is out of range, repeated, or not among `columns`.

    Example:
        >>> gold_positions(torch.tensor([[7, -100], [3, 7]]), num_labels=9, columns=torch.tensor([3, 5, 7]))
        tensor([[   2, -100],
                [   0,    2]])
    """
    check_gold(labels, num_labels)
    if columns is None:
        return labels
    positions = positions_among(columns, labels)
    missing = (labels != IGNORE) & (positions == IGNORE)
    if bool(missing.any()):
        raise ValueError(
            f"labels contains index {labels[missing][0].item()}, which sampled_columns lacks: a sample must contain "
            "all gold labels in ascending order (use hf_gile.training.LabelSampler); with an IterableDataset set "
            "TrainingArguments(accelerator_config={'dispatch_batches': False}), which would truncate the sample"
        )
    return positions


def positions_among(columns: Tensor, labels: Tensor) -> Tensor:
    """Returns the positions of label indices in an ascending list.

    Args:
        columns: `(C,)` ascending label indices; may be empty.
        labels: `(B, P)` label indices, padded with -100.

    Returns:
        `(B, P)` positions in `columns`, -100 for labels that are not among them.

    Example:
        >>> positions_among(torch.tensor([3, 5, 7]), torch.tensor([[7, 4, -100]]))
        tensor([[   2, -100, -100]])
    """
    positions = torch.searchsorted(columns, labels)
    is_scored = functional.pad(columns, (0, 1), value=IGNORE)[positions] == labels
    return positions.masked_fill(~is_scored | (labels == IGNORE), IGNORE)


LOSSES = {
    "binary_cross_entropy": binary_cross_entropy,
    "cross_entropy": cross_entropy,
    "decoupled_softmax": decoupled_softmax,
}


def read_weights(name: str, weights: Sequence[float] | NDArray[Any], num_labels: int | None = None) -> Tensor:
    """Checks label weights.

    Args:
        name: Name of the weights, for messages.
        weights: `(L,)` finite non-negative numbers.
        num_labels: Number L of labels, if known.

    Returns:
        `(L,)` float32.

    Raises:
        ValueError: If the weights are invalid.
    """
    array = np.asarray(weights, dtype=np.float32)
    if array.ndim != 1 or num_labels not in (None, len(array)):
        expected = "(L,)" if num_labels is None else f"({num_labels},)"
        raise ValueError(f"{name} must have shape {expected}, a number for each label, got {array.shape}")
    wrong = np.flatnonzero(~(array >= 0) | ~np.isfinite(array))
    if len(wrong):
        raise ValueError(f"{name} must be finite and not negative, got {array[wrong[0]]} for label {wrong[0]}")
    return torch.from_numpy(array.copy())
