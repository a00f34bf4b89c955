"""Losses over all stored labels: sigmoid (Eq. 15) and softmax. `hf_gile.training.GileLoss` has further losses.

Shapes: B documents, L labels, P gold labels of a document (padded).
"""

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedConfig

IGNORE = -100
"""Padding of gold label indices, as in Transformers."""


def label_loss(
    logits: Tensor,
    labels: Tensor,
    config: PreTrainedConfig,
    num_items_in_batch: Tensor | int | None = None,
    shift_labels: Tensor | None = None,
) -> Tensor:
    """Computes the loss over all stored labels: the default `loss_function` of a classifier.

    This is `binary_cross_entropy` or `cross_entropy`, by `problem_type`; if it is None, the first labels determine it.

    Args:
        logits: `(B, L)` scores, the lowest number for labels that are not candidates of a document.
        labels: `(B, P)` gold label indices padded with -100, `(B,)` gold label indices, or `(B, L)` zeros and ones.
        config: The `GileConfig` of the model.
        num_items_in_batch: Number of items that `Trainer` counts in all batches of a step.
        shift_labels: `(B,)` from a `GileDataCollator`, by which `Trainer` counts documents.

    Returns:
        The loss, averaged over the B documents, or over the documents of a step: a scalar in float32 or better.

    Raises:
        ValueError: If labels do not match the logits or the problem type, or `num_items_in_batch` counts gold labels.
    """
    single = is_single_label(labels, len(logits), config)
    targets = make_targets(labels, config.num_labels)
    check_candidates(labels, logits, config)
    loss = (cross_entropy if single else binary_cross_entropy)(logits, targets)
    return scale_to_step(loss, labels, num_items_in_batch, shift_labels)


def binary_cross_entropy(logits: Tensor, targets: Tensor, column_weights: Tensor | None = None) -> Tensor:
    """Computes the multi-label loss of `(B, C)` scores and 0/1 targets: summed over labels, averaged over documents.

    Eq. 15 also divides by the number of labels. With many labels, gradients then become as small as the epsilon of
    Adam, 1e-8, and Adam stops adapting. The sum has the same minimum and works for any number of labels.

    `column_weights`, `(C,)` or `(B, C)`, are the numbers of labels of the full set that each scored label represents.
    For uniformly sampled negatives, (number of negatives) / (number sampled) gives an unbiased estimate of the loss
    over all labels (Eq. 17 omits the weights, and so estimates a different loss).
    """
    logits = widened(logits)
    targets = targets.to(logits.dtype)
    loss = functional.binary_cross_entropy_with_logits(logits, targets, column_weights, reduction="sum")
    return loss / len(logits)


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Computes the single-label loss of `(B, L)` scores and one-hot targets, with a softmax over the labels."""
    logits = widened(logits)
    return (logits.logsumexp(-1) - (logits * targets).sum(-1)).mean()


def widened(scores: Tensor) -> Tensor:
    """Converts half-precision scores to float32; float32 and float64 tensors are returned unchanged."""
    return scores if scores.dtype == torch.float64 else scores.float()


def without_infinities(logits: Tensor) -> Tensor:
    """Replaces minus infinity, whose gradient would be NaN, by the lowest number; `(B, L)` in float32 or better."""
    logits = widened(logits)
    return logits.masked_fill(logits.isneginf(), torch.finfo(logits.dtype).min)


def is_single_label(labels: Tensor, documents: int, config: PreTrainedConfig) -> bool:
    """Checks the shape of labels; returns whether the problem is single-label, by `problem_type`."""
    integer = is_columns(labels)
    if config.problem_type is None:  # set, so that pipelines work as the model was trained
        single = integer and labels.dim() == 1
        config.problem_type = "single_label_classification" if single else "multi_label_classification"
    if len(labels) != documents or labels.dim() > 2 or (labels.dim() == 1 and not integer):
        raise ValueError(
            f"labels must have shape ({documents}, P) as gold label indices padded with -100, ({documents},) as a gold "
            f"label index each, or ({documents}, {config.num_labels}) as zeros and ones (floats), got "
            f"{tuple(labels.shape)} of {labels.dtype}"
        )
    return config.problem_type == "single_label_classification"


def is_columns(labels: Tensor) -> bool:
    """Checks whether labels are indices of gold labels, not zeros and ones."""
    return not labels.is_floating_point() and labels.dtype != torch.bool


def make_targets(labels: Tensor, num_labels: int) -> Tensor:
    """Converts labels in any form to `(B, L)` zeros and ones."""
    if is_columns(labels):
        return multi_hot(labels.reshape(len(labels), -1), num_labels)
    if labels.shape[1] != num_labels:
        raise ValueError(
            f"labels of zeros and ones must have {num_labels} columns, one for each stored label, got "
            f"{labels.shape[1]}; pass integers for gold label indices"
        )
    return labels


def multi_hot(labels: Tensor, num_labels: int) -> Tensor:
    """Converts `(B, P)` gold label indices, padded with -100, to `(B, L)` zeros and ones.

    Raises:
        ValueError: If an index is out of range, or repeated for a document.
    """
    check_gold(labels, num_labels)
    # Padding is mapped to an extra column, which is removed.
    target = torch.zeros(len(labels), num_labels + 1, device=labels.device)
    return target.scatter_(1, labels.masked_fill(labels == IGNORE, num_labels), 1.0)[:, :num_labels]


def check_gold(labels: Tensor, num_labels: int) -> None:
    """Refuses `(B, P)` gold label indices that are out of range, or repeated for a document."""
    wrong = (labels != IGNORE) & ((labels < 0) | (labels >= num_labels))
    if bool(wrong.any()):
        row, column = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"labels has index {labels[row, column]}, but there are {num_labels} labels (0 to "
            f"{num_labels - 1}); see document {row} of the batch; pad with {IGNORE}"
        )
    ordered = labels.sort(dim=1).values
    repeated = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    if bool(repeated.any()):
        row = int(repeated.nonzero()[0, 0])
        raise ValueError(
            f"labels contains a gold label of a document twice, of document {row} of the batch; "
            "pass distinct indices, or zeros and ones as floats"
        )


def check_excluded(excluded_columns: Tensor, documents: int, num_labels: int) -> None:
    """Checks `(B, E)` indices of excluded labels: in range, with a row for each document."""
    if excluded_columns.ndim != 2 or len(excluded_columns) != documents or (excluded_columns >= num_labels).any():
        raise ValueError(
            f"excluded_columns must be label indices below {num_labels}, ({documents}, E) padded with -100, got shape "
            f"{tuple(excluded_columns.shape)} with maximum {int(excluded_columns.max())}"
        )


def check_candidates(labels: Tensor, logits: Tensor, config: PreTrainedConfig, columns: Tensor | None = None) -> None:
    """Refuses gold labels that the problem type or the candidates do not allow.

    Labels and `(B, C)` logits are as in `label_loss`, for `(C,)` label indices, by default all.
    """
    if is_columns(labels):
        positions = labels.reshape(len(labels), -1)
        gold = positions != IGNORE
        # A row without labels has no gold label either.
        scores = logits.gather(1, positions.clamp(min=0)) if logits.shape[1] else torch.zeros_like(positions)
    else:
        positions = torch.arange(logits.shape[1]).expand_as(labels)
        gold = labels > 0
        scores = logits
    if config.problem_type == "single_label_classification" and bool((gold.sum(-1) != 1).any()):
        raise ValueError(ONE_GOLD_LABEL)
    excluded = gold & (scores == torch.finfo(logits.dtype).min)
    if bool(excluded.any()):
        row, position = excluded.nonzero()[0].tolist()
        column = int(positions[row, position])
        raise ValueError(format_not_a_candidate(row, column if columns is None else int(columns[column]), config))


ONE_GOLD_LABEL = (
    "problem_type 'single_label_classification' takes exactly one gold label for each document; "
    "use 'multi_label_classification' for any number"
)


def format_not_a_candidate(row: int, column: int, config: PreTrainedConfig) -> str:
    """Formats the error for a gold label that is not a candidate of a document."""
    return (
        f"document {row} of the batch has the gold label {column} ({config.id2label[column]!r}), which belongs to "
        "another language, or is in its excluded_columns"
    )


def scale_to_step(
    loss: Tensor, labels: Tensor, num_items_in_batch: Tensor | int | None, shift_labels: Tensor | None
) -> Tensor:
    """Scales the mean loss of a batch to its contribution to the mean over all documents of a step."""
    if num_items_in_batch is None:
        return loss
    if shift_labels is not None or labels.dim() == 1:
        return loss * len(labels) / num_items_in_batch
    if not is_columns(labels):
        return loss * labels.numel() / num_items_in_batch
    if bool((labels != IGNORE).sum() != num_items_in_batch):
        raise ValueError(
            "num_items_in_batch counts gold labels, but losses are averaged over documents: use a GileDataCollator, or "
            "add shift_labels, torch.zeros(len(labels)), to each batch, which Trainer counts instead"
        )
    return loss  # a single batch
