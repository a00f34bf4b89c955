"""Losses of `(B, C)` logits whose columns have weights, as those of a sample: sigmoid (Eq. 15, 17) and softmax.

Shapes: B documents, L labels, C columns scored (L of them, or a sample), P gold labels of a document (padded).
"""

import torch
from torch import Tensor
from torch.nn import functional

from ..models.losses_gile import IGNORE, check_gold, widened
from .chunked_losses import check_positive_weights


def binary_cross_entropy(
    logits: Tensor, targets: Tensor, column_weights: Tensor | None = None, positive_weights: Tensor | None = None
) -> Tensor:
    """The multi-label loss of `losses_gile.py`, over weighted columns.

    Args:
        logits: `(B, C)` scores.
        targets: `(B, C)` zeros and ones.
        column_weights: `(C,)` or `(B, C)`: how many columns of the full set each one stands for. With weights of
            (number of unsampled columns) / (number sampled) this is an unbiased estimate of the loss over all labels
            (Eq. 17 leaves the weights out, and so estimates something else).
        positive_weights: `(C,)`: what the terms of a column count where it is gold, `-log sigmoid(s)`, beside the
            column weight. Weights of `hf_gile.training.propensity_weights` make up for labels that are missing in the
            data, and so for rare ones.

    Returns:
        The loss, a scalar in float32 or better.

    Raises:
        ValueError: There is not one positive weight for each column.
    """
    logits = widened(logits)
    if positive_weights is not None:
        check_positive_weights(positive_weights, "binary_cross_entropy", logits.shape[1])
        positive_weights = positive_weights.to(logits.dtype)
    loss = functional.binary_cross_entropy_with_logits(
        logits, targets.to(logits.dtype), column_weights, reduction="sum", pos_weight=positive_weights
    )
    return loss / len(logits)


def cross_entropy(logits: Tensor, targets: Tensor, column_weights: Tensor | None = None) -> Tensor:
    """The single-label loss of `losses_gile.py`, over weighted columns.

    Args:
        logits: `(B, C)` scores.
        targets: `(B, C)` zeros and ones, a single one in a row.
        column_weights: `(C,)` or `(B, C)`: how many columns of the full set each one stands for, so that the sampled
            columns estimate the whole sum below the fraction. The sum is unbiased; its logarithm, and so this loss,
            is only consistent (it nears the full loss as the sample grows). A gold column of weight 0 counts once.

    Returns:
        The loss, a scalar in float32 or better.
    """
    logits = widened(logits)
    targets = targets.to(logits.dtype)
    total = logits if column_weights is None else logits + column_weights.to(logits.dtype).log()
    total = torch.where((targets > 0) & total.isneginf(), logits, total)  # a sum of nothing has a gradient of NaN
    return (total.logsumexp(-1) - (logits * targets).sum(-1)).mean()


def decoupled_softmax(logits: Tensor, targets: Tensor, column_weights: Tensor | None = None) -> Tensor:
    """A softmax for any number of gold labels, each against the labels that are not gold (Gupta et al., ICLR 2024).

        sum over gold labels of  -log(exp(s_gold) / (exp(s_gold) + sum over the others of exp(s_other)))

    A softmax over all labels would let the gold labels of a document push each other down.

    Args:
        logits: `(B, C)` scores.
        targets: `(B, C)` zeros and ones.
        column_weights: `(C,)` or `(B, C)`: how many columns of the full set each one stands for; consistent, as in
            `cross_entropy`.

    Returns:
        The loss, averaged over the documents: a scalar in float32 or better.
    """
    logits = widened(logits)
    others = logits if column_weights is None else logits + column_weights.to(logits.dtype).log()
    # The lowest number: of minus infinities alone, where no label is a negative, the gradient is NaN.
    others = others.masked_fill((targets > 0) | others.isneginf(), torch.finfo(logits.dtype).min)
    total = others.logsumexp(-1, keepdim=True)
    return (functional.softplus(total - logits) * targets).sum() / len(logits)


def gold_places(labels: Tensor, num_labels: int, columns: Tensor | None = None) -> Tensor:
    """Checks gold columns, and finds their places among the columns that are scored.

    Args:
        labels: `(B, P)` integer columns, padded with -100.
        num_labels: Number L of labels the columns count in.
        columns: `(C,)` columns scored, ascending; all of them by default. Must hold every gold column.

    Returns:
        `(B, P)` places in `columns`, padded with -100.

    Raises:
        ValueError: A gold column is out of range, is given twice, or is not among `columns`.

    Example:
        >>> gold_places(torch.tensor([[7, -100], [3, 7]]), num_labels=9, columns=torch.tensor([3, 5, 7]))
        tensor([[   2, -100],
                [   0,    2]])
    """
    check_gold(labels, num_labels)
    if columns is None:
        return labels
    places = places_among(columns, labels)
    missing = (labels != IGNORE) & (places == IGNORE)
    if bool(missing.any()):
        raise ValueError(
            f"labels holds column {labels[missing][0].item()}, which is not in sampled_columns: a sample keeps all "
            "gold labels (hf_gile.training.LabelSampler does), in ascending order; with an IterableDataset set "
            "TrainingArguments(accelerator_config={'dispatch_batches': False}), or the sample is cut to the batch"
        )
    return places


def places_among(columns: Tensor, wanted: Tensor) -> Tensor:
    """Finds columns among others.

    Args:
        columns: `(C,)` ascending columns; there may be none.
        wanted: `(B, P)` columns, padded with -100.

    Returns:
        `(B, P)` places in `columns`, -100 where a column is not among them.

    Example:
        >>> places_among(torch.tensor([3, 5, 7]), torch.tensor([[7, 4, -100]]))
        tensor([[   2, -100, -100]])
    """
    places = torch.searchsorted(columns, wanted)
    found = functional.pad(columns, (0, 1), value=IGNORE)[places] == wanted
    return places.masked_fill(~found | (wanted == IGNORE), IGNORE)


LOSSES = {
    "binary_cross_entropy": binary_cross_entropy,
    "cross_entropy": cross_entropy,
    "decoupled_softmax": decoupled_softmax,
}
