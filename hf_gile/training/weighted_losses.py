"""Computes losses of `(B, C)` logits over weighted labels, such as a sample: sigmoid (Eq. 15, 17) and softmax.

Shapes: B documents, L labels, C scored labels (all L, or a sample), P gold labels per document (padded).
"""

import torch
from torch import Tensor
from torch.nn import functional

from ..models.losses_gile import IGNORE, check_gold, widened


def binary_cross_entropy(logits: Tensor, targets: Tensor, column_weights: Tensor | None = None) -> Tensor:
    """Computes the multi-label loss of `losses_gile.py` over weighted labels, in float32 or better.

    Args:
        logits: `(B, C)` scores.
        targets: `(B, C)` zeros and ones.
        column_weights: `(C,)` or `(B, C)`: number of labels of the full set that each scored label represents. For
            uniformly sampled negatives, (number of negatives) / (number sampled) gives an unbiased estimate of the
            loss over all labels (Eq. 17 omits the weights, and so estimates a different loss).
    """
    logits = widened(logits)
    targets = targets.to(logits.dtype)
    loss = functional.binary_cross_entropy_with_logits(logits, targets, column_weights, reduction="sum")
    return loss / len(logits)


def cross_entropy(logits: Tensor, targets: Tensor, column_weights: Tensor | None = None) -> Tensor:
    """Computes the single-label loss of `losses_gile.py` over weighted labels, in float32 or better.

    Arguments are those of `binary_cross_entropy`, with a single 1 per row of the targets. With weights, the sum in the
    denominator of the softmax is estimated without bias; its logarithm, and so this loss, is only consistent (it
    approaches the full loss as the sample grows). A gold label of weight 0 counts once.
    """
    logits = widened(logits)
    targets = targets.to(logits.dtype)
    total = logits if column_weights is None else logits + column_weights.to(logits.dtype).log()
    total = torch.where((targets > 0) & total.isneginf(), logits, total)  # an empty sum has a gradient of NaN
    return (total.logsumexp(-1) - (logits * targets).sum(-1)).mean()


def gold_positions(labels: Tensor, num_labels: int, columns: Tensor | None = None) -> Tensor:
    """Checks `(B, P)` gold labels, and returns their positions among `(C,)` ascending scored labels, by default all.

    Raises:
        ValueError: If a gold label is out of range, repeated, or not scored.

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
    """Returns the positions of `(B, P)` label indices among `(C,)` ascending ones; -100 for others.

    Example:
        >>> positions_among(torch.tensor([3, 5, 7]), torch.tensor([[7, 4, -100]]))
        tensor([[   2, -100, -100]])
    """
    positions = torch.searchsorted(columns, labels)
    is_scored = functional.pad(columns, (0, 1), value=IGNORE)[positions] == labels
    return positions.masked_fill(~is_scored | (labels == IGNORE), IGNORE)


LOSSES = {"binary_cross_entropy": binary_cross_entropy, "cross_entropy": cross_entropy}
