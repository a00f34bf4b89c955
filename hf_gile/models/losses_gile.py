"""The training losses, over all labels or over sampled ones: sigmoid (Eq. 15, 17), softmax, WARP and hinge.

Shapes: B documents, L labels, C columns scored (L of them, or a sample), P gold labels of a document (padded).
"""

import torch
from torch import Tensor
from torch.nn import functional

IGNORE = -100
"""Padding of gold columns, as everywhere in Transformers."""


def widened(scores: Tensor) -> Tensor:
    """Takes half-precision scores to float32; equal scores stay equal.

    Args:
        scores: `(B, L)` scores.

    Returns:
        `(B, L)` scores of float32 or float64, the same tensor if they were that.

    Example:
        >>> widened(torch.ones(2, 3, dtype=torch.bfloat16)).dtype
        torch.float32
    """
    return scores if scores.dtype == torch.float64 else scores.float()


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


def check_excluded(excluded_columns: Tensor, documents: int, num_labels: int) -> None:
    """Refuses columns that cannot be those of labels that are no candidates.

    Args:
        excluded_columns: `(B, E)` columns, padded with -100.
        documents: Number B of documents.
        num_labels: Number L of labels the columns count in.

    Raises:
        ValueError: A column is out of range, or there is not one row for each document.
    """
    if excluded_columns.ndim != 2 or len(excluded_columns) != documents or (excluded_columns >= num_labels).any():
        raise ValueError(
            f"excluded_columns must be columns below {num_labels}, ({documents}, E) padded with -100, got shape "
            f"{tuple(excluded_columns.shape)} with the largest {int(excluded_columns.max())}"
        )


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
    gold = labels != IGNORE
    if bool(((labels < 0) & gold).any()) or bool((labels >= num_labels).any()):
        wrong = labels[gold & ((labels < 0) | (labels >= num_labels))][0].item()
        raise ValueError(f"labels holds column {wrong}, but there are {num_labels} labels (0 to {num_labels - 1})")
    if columns is not None:
        places = places_among(columns, labels)
        if bool((gold & (places == IGNORE)).any()):
            wrong = labels[gold & (places == IGNORE)][0].item()
            raise ValueError(
                f"labels holds column {wrong}, which is not in sampled_columns: a sample keeps all gold labels "
                "(hf_gile.training.LabelSampler does), in ascending order; with an IterableDataset set "
                "TrainingArguments(accelerator_config={'dispatch_batches': False}), or the sample is cut to the batch"
            )
        labels = places
    ordered = labels.sort(dim=1).values
    if bool(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any()):
        raise ValueError(
            "labels names a gold column twice for one document; give each once, and zeros and ones as floats"
        )
    return labels


def multi_hot(labels: Tensor, num_labels: int, columns: Tensor | None = None) -> Tensor:
    """Turns gold columns into zeros and ones.

    Args:
        labels: `(B, P)` integer columns, padded with -100.
        num_labels: Number L of labels the columns count in.
        columns: `(C,)` columns wanted, ascending; all of them by default. Must hold every gold column.

    Returns:
        `(B, C)` floats, one where the label is gold.

    Raises:
        ValueError: As `gold_places`.

    Example:
        >>> multi_hot(torch.tensor([[2, -100], [0, 1]]), num_labels=3)
        tensor([[0., 0., 1.],
                [1., 1., 0.]])
        >>> multi_hot(torch.tensor([[2, -100]]), num_labels=3, columns=torch.tensor([0, 2]))
        tensor([[0., 1.]])
    """
    places = gold_places(labels, num_labels, columns)
    size = num_labels if columns is None else len(columns)
    # Padding goes to a column of its own, which is cut off again.
    target = torch.zeros(len(labels), size + 1, device=labels.device)
    return target.scatter_(1, places.masked_fill(places == IGNORE, size), 1.0)[:, :size]


def check_positive_weights(positive_weights: Tensor, loss: str, columns: int) -> None:
    """Refuses weights of positive terms that a loss cannot take.

    Args:
        positive_weights: `(C,)` weights.
        loss: The name of the loss function.
        columns: Number C of columns scored.

    Raises:
        ValueError: The loss is not a sum of terms of single labels, as binary cross-entropy alone is, or there is not
            one weight for each column.
    """
    if loss != binary_cross_entropy.__name__:
        raise ValueError(
            f"positive_weights are of the positive terms of binary_cross_entropy, and the loss is {loss}; leave them "
            "out, or train with training_loss='cross_entropy' and problem_type='multi_label_classification'"
        )
    if positive_weights.shape != (columns,):
        raise ValueError(
            f"positive_weights must have shape ({columns},), one weight for each column scored, got "
            f"{tuple(positive_weights.shape)}"
        )


def binary_cross_entropy(
    logits: Tensor, targets: Tensor, column_weights: Tensor | None = None, positive_weights: Tensor | None = None
) -> Tensor:
    """The multi-label loss: summed over the labels, averaged over the documents.

    Eq. 15 divides by the number of labels as well. With many labels that leaves gradients of 1e-8, as small as the
    epsilon of Adam, which then stops adapting; the sum has the same minimum and trains at any number of labels. Of
    several languages (Eq. 16) each document thus counts with all labels of its language, and where Eq. 16 sums over the
    languages of a step, this averages over its documents.

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
    """The single-label loss: softmax over the columns, averaged over the documents.

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


def _violations(logits: Tensor, targets: Tensor, column_weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """For each of M gold labels, `(M, C)`: by how much each other label comes too near, and for how many it counts."""
    logits = widened(logits)
    rows, columns = targets.nonzero(as_tuple=True)
    margins = (1 - logits[rows, columns][:, None] + logits[rows]).clamp(min=0)
    counts = 1 - targets[rows].to(logits.dtype)
    # The lowest number marks a label that is no candidate for this document.
    counts = counts * (logits[rows] > torch.finfo(logits.dtype).min)
    return margins, counts if column_weights is None else counts * column_weights.expand_as(targets)[rows]


def hinge(logits: Tensor, targets: Tensor, column_weights: Tensor | None = None) -> Tensor:
    """The hinge loss between each gold label and each other label: `max(0, 1 - s_gold + s_other)`.

    The paper tried one (section 4.1.1, note 5) without giving its form. Chosen here: averaged over the other labels,
    summed over the gold labels, averaged over the documents.

    Args:
        logits: `(B, C)` scores.
        targets: `(B, C)` zeros and ones.
        column_weights: `(C,)` or `(B, C)`: how many columns of the full set each one stands for.

    Returns:
        The loss, a scalar in float32 or better.
    """
    margins, counts = _violations(logits, targets, column_weights)
    return ((margins * counts).sum(-1) / counts.sum(-1).clamp(min=1)).sum() / len(logits)


def warp(logits: Tensor, targets: Tensor, column_weights: Tensor | None = None) -> Tensor:
    """The WARP loss (Weston et al., 2010): a gold label with many labels above it counts more.

        sum over gold labels of  (1 + 1/2 + ... + 1/r) * mean of the violations (1 - s_gold + s_other) > 0

    with r the number of violations. The original draws other labels until one violates, and estimates r from the number
    of draws; here all scores are at hand, so r is counted and the mean taken: what the draws estimate.

    Args:
        logits: `(B, C)` scores.
        targets: `(B, C)` zeros and ones.
        column_weights: `(C,)` or `(B, C)`: how many columns of the full set each one stands for.

    Returns:
        The loss, averaged over the documents: a scalar in float32 or better.
    """
    margins, counts = _violations(logits, targets, column_weights)
    rank = ((margins > 0) * counts).sum(-1).detach()
    # The harmonic number of r: digamma(r + 1) + Euler's constant, which also serves between whole numbers.
    weight = torch.digamma(rank + 1) + 0.5772156649015329
    return (weight * (margins * counts).sum(-1) / rank.clamp(min=1)).sum() / len(logits)


LOSSES = {
    "cross_entropy": binary_cross_entropy,
    "decoupled_softmax": decoupled_softmax,
    "warp": warp,
    "hinge": hinge,
}

__all__ = [
    "IGNORE",
    "LOSSES",
    "binary_cross_entropy",
    "check_excluded",
    "check_positive_weights",
    "cross_entropy",
    "decoupled_softmax",
    "gold_places",
    "hinge",
    "multi_hot",
    "places_among",
    "warp",
    "widened",
]
