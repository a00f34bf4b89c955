"""The plain losses over all stored labels: sigmoid (Eq. 15) and softmax; `hf_gile.training.GileLoss` has the others.

Shapes: B documents, L labels, P gold labels of a document (padded).
"""

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedConfig

IGNORE = -100
"""Padding of gold columns, as everywhere in Transformers."""


def label_loss(
    logits: Tensor,
    labels: Tensor,
    config: PreTrainedConfig,
    num_items_in_batch: Tensor | int | None = None,
    shift_labels: Tensor | None = None,
) -> Tensor:
    """The loss of documents with all stored labels: the `loss_function` of a classifier that is given no other.

    It is `binary_cross_entropy` or `cross_entropy`, by `problem_type`; where that is None the first labels set it.

    Args:
        logits: `(B, L)` scores, the lowest number where a label is no candidate for a document.
        labels: `(B, P)` gold columns padded with -100, `(B,)` gold columns, or `(B, L)` zeros and ones.
        config: The `GileConfig` of the model.
        num_items_in_batch: What `Trainer` counts in all batches of a step.
        shift_labels: `(B,)` of a `GileDataCollator`, by which `Trainer` counts documents.

    Returns:
        The loss, averaged over the B documents, or over those of all batches of a step: a scalar in float32 or better.

    Raises:
        ValueError: The labels do not fit the logits or the problem type, or `num_items_in_batch` counts gold labels.
    """
    single = is_single_label(labels, len(logits), config)
    targets = targets_of(labels, config.num_labels)
    check_candidates(labels, logits, config)
    loss = (cross_entropy if single else binary_cross_entropy)(logits, targets)
    return in_step(loss, labels, num_items_in_batch, shift_labels)


def binary_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """The multi-label loss of `(B, L)` scores and zeros and ones: summed over the labels, averaged over the documents.

    Eq. 15 divides by the number of labels as well. With many labels that leaves gradients of 1e-8, as small as the
    epsilon of Adam, which then stops adapting; the sum has the same minimum and trains at any number of labels.
    """
    logits = widened(logits)
    loss = functional.binary_cross_entropy_with_logits(logits, targets.to(logits.dtype), reduction="sum")
    return loss / len(logits)


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """The single-label loss of `(B, L)` scores and zeros and ones, a single one in a row: softmax over the labels."""
    logits = widened(logits)
    return (logits.logsumexp(-1) - (logits * targets).sum(-1)).mean()


def widened(scores: Tensor) -> Tensor:
    """Takes scores of half precision to float32; the same tensor comes back if it was float32 or float64."""
    return scores if scores.dtype == torch.float64 else scores.float()


def without_infinities(logits: Tensor) -> Tensor:
    """Puts the lowest number for minus infinity, whose gradient would be NaN; `(B, L)` in float32 or better."""
    logits = widened(logits)
    return logits.masked_fill(logits.isneginf(), torch.finfo(logits.dtype).min)


def is_single_label(labels: Tensor, documents: int, config: PreTrainedConfig) -> bool:
    """Checks the shape of labels, and says whether documents have one gold label each, as `problem_type` says."""
    integer = is_columns(labels)
    if config.problem_type is None:  # set, so that pipelines answer as the model was trained
        single = integer and labels.dim() == 1
        config.problem_type = "single_label_classification" if single else "multi_label_classification"
    if len(labels) != documents or labels.dim() > 2 or (labels.dim() == 1 and not integer):
        raise ValueError(
            f"labels must have shape ({documents}, P) as gold columns padded with -100, ({documents},) as one gold "
            f"column each, or ({documents}, {config.num_labels}) as zeros and ones (floats), got "
            f"{tuple(labels.shape)} of {labels.dtype}"
        )
    return config.problem_type == "single_label_classification"


def is_columns(labels: Tensor) -> bool:
    """Whether labels are gold columns, and not zeros and ones."""
    return not labels.is_floating_point() and labels.dtype != torch.bool


def targets_of(labels: Tensor, num_labels: int) -> Tensor:
    """Makes `(B, L)` zeros and ones of labels in any of their forms."""
    if is_columns(labels):
        return multi_hot(labels.reshape(len(labels), -1), num_labels)
    if labels.shape[1] != num_labels:
        raise ValueError(
            f"labels of zeros and ones must have {num_labels} columns, one for each stored label, got "
            f"{labels.shape[1]}; pass integers to give the gold columns alone"
        )
    return labels


def multi_hot(labels: Tensor, num_labels: int) -> Tensor:
    """Turns `(B, P)` gold columns, padded with -100, into `(B, L)` zeros and ones.

    Raises:
        ValueError: A column is out of range, or named twice for a document.
    """
    check_gold(labels, num_labels)
    # Padding goes to a column of its own, which is cut off again.
    target = torch.zeros(len(labels), num_labels + 1, device=labels.device)
    return target.scatter_(1, labels.masked_fill(labels == IGNORE, num_labels), 1.0)[:, :num_labels]


def check_gold(labels: Tensor, num_labels: int) -> None:
    """Refuses `(B, P)` gold columns that are out of range, or named twice for a document."""
    wrong = (labels != IGNORE) & ((labels < 0) | (labels >= num_labels))
    if bool(wrong.any()):
        raise ValueError(
            f"labels holds column {labels[wrong][0].item()}, but there are {num_labels} labels (0 to {num_labels - 1})"
        )
    ordered = labels.sort(dim=1).values
    if bool(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any()):
        raise ValueError(
            "labels names a gold column twice for one document; give each once, and zeros and ones as floats"
        )


def check_excluded(excluded_columns: Tensor, documents: int, num_labels: int) -> None:
    """Refuses `(B, E)` columns of labels that are no candidates, if one is out of range or a document has no row."""
    if excluded_columns.ndim != 2 or len(excluded_columns) != documents or (excluded_columns >= num_labels).any():
        raise ValueError(
            f"excluded_columns must be columns below {num_labels}, ({documents}, E) padded with -100, got shape "
            f"{tuple(excluded_columns.shape)} with the largest {int(excluded_columns.max())}"
        )


def check_candidates(labels: Tensor, logits: Tensor, config: PreTrainedConfig, columns: Tensor | None = None) -> None:
    """Refuses gold labels that the problem type or the candidates do not allow.

    Labels and `(B, C)` logits are as in `label_loss`, but of `(C,)` columns, by default of all.
    """
    if is_columns(labels):
        places = labels.reshape(len(labels), -1)
        gold = places != IGNORE
        # A row without columns has no gold label either.
        scores = logits.gather(1, places.clamp(min=0)) if logits.shape[1] else torch.zeros_like(places)
    else:
        places, gold, scores = torch.arange(logits.shape[1]).expand_as(labels), labels > 0, logits
    if config.problem_type == "single_label_classification" and bool((gold.sum(-1) != 1).any()):
        raise ValueError(ONE_GOLD_LABEL)
    foreign = gold & (scores == torch.finfo(logits.dtype).min)
    if bool(foreign.any()):
        row, place = foreign.nonzero()[0].tolist()
        column = int(places[row, place])
        raise ValueError(no_candidate(row, column if columns is None else int(columns[column]), config))


ONE_GOLD_LABEL = (
    "problem_type 'single_label_classification' takes exactly one gold label for each document; "
    "use 'multi_label_classification' for any number"
)


def no_candidate(row: int, column: int, config: PreTrainedConfig) -> str:
    """Says that a gold label is no candidate for a document."""
    return (
        f"labels of document {row} of the batch hold column {column} ({config.id2label[column]!r}), "
        "which is a label of another language than the document, or one of its excluded_columns"
    )


def in_step(
    loss: Tensor, labels: Tensor, num_items_in_batch: Tensor | int | None, shift_labels: Tensor | None
) -> Tensor:
    """The part that the mean loss of some documents has in the mean over the documents of all batches of a step."""
    if num_items_in_batch is None:
        return loss
    if shift_labels is not None or labels.dim() == 1:
        return loss * len(labels) / num_items_in_batch
    if not is_columns(labels):
        return loss * labels.numel() / num_items_in_batch
    if bool((labels != IGNORE).sum() != num_items_in_batch):
        raise ValueError(
            "num_items_in_batch counts gold labels, and batches count by their documents: let a GileDataCollator make "
            "the batches, or add shift_labels, torch.zeros(len(labels)), to each; Trainer counts these instead"
        )
    return loss  # there is no other batch
