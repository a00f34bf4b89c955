"""Input validation of all metrics: scores, gold labels and groups of labels.

Shapes: B documents in the batch, L labels scored, P gold labels per document, padded.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..models.losses_gile import IGNORE, check_gold

Array = Tensor | NDArray[Any]


def read_batch(scores: Array, labels: Array, num_labels: int | None = None) -> tuple[Tensor, Tensor]:
    """Checks a batch and converts its gold labels to a uniform form.

    Args:
        scores: `(B, L)` floating point.
        labels: `(B, P)` label indices padded with -100, `(B,)` a label index each, or `(B, L)` multi-hot.
        num_labels: L, if known.

    Returns:
        `(B, L)` scores without gradient, and `(B, P)` int64 gold label indices padded with -100, on the device of the
        scores; P is at least 1.

    Raises:
        ValueError: If scores and labels do not match.

    Example:
        >>> read_batch(torch.zeros(2, 3), torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))[1]
        tensor([[   0,    2],
                [   1, -100]])
    """
    scores = _to_tensor(scores, "scores").detach()
    if scores.ndim != 2 or scores.shape[1] == 0 or not scores.is_floating_point():
        raise ValueError(
            "scores must be float16, bfloat16, float32 or float64 of shape (documents, labels), "
            f"got {_describe(scores)}; pass the logits of the whole label set"
        )
    if num_labels is not None and scores.shape[1] != num_labels:
        raise ValueError(
            f"scores must have a column for each of the {num_labels} labels, got "
            f"{scores.shape[1]} columns; score the label set of the metrics"
        )
    labels = _to_tensor(labels, "labels").detach().to(scores.device)
    if labels.ndim == 1 and labels.dtype != torch.bool and not labels.is_floating_point():
        labels = labels[:, None]
    if labels.ndim != 2 or len(labels) != len(scores):
        raise ValueError(
            f"labels must have a row for each of the {len(scores)} documents, got "
            f"{_describe(labels)}; pass label indices (documents, gold) padded with -100 or "
            "multi-hot (documents, labels)"
        )
    # amax passes NaN on and needs no (B, L) mask
    undefined = int(scores.amax(dim=1).isnan().sum()) if len(scores) else 0
    if undefined:
        raise ValueError(
            f"scores must be numbers, got NaN in {undefined} of {len(scores)} documents; "
            "check whether training diverged or half precision overflowed"
        )
    if labels.dtype == torch.bool or labels.is_floating_point():
        return scores, _read_multi_hot(labels, scores.shape[1])
    return scores, _read_label_indices(labels, scores.shape[1])


def read_columns(columns: Array | Sequence[bool], num_labels: int) -> Tensor:
    """Checks a group of labels.

    Args:
        columns: `(L,)` bool, True for the labels of the group.
        num_labels: Number of labels L.

    Returns:
        `(L,)` bool.

    Raises:
        ValueError: If it is not boolean, not of length L, or selects nothing.

    Example:
        >>> read_columns([True, False], num_labels=2)
        tensor([ True, False])
    """
    mask = _to_tensor(columns, "a group of labels").detach()
    if mask.dtype != torch.bool or mask.shape != (num_labels,):
        raise ValueError(
            f"a group of labels must be a bool mask of shape ({num_labels},), got "
            f"{_describe(mask)}; pass True or False for each label of the scores"
        )
    if not mask.any():
        raise ValueError(
            f"a group of labels must contain at least one of the {num_labels} labels, got none; leave the group out"
        )
    return mask


def read_indices(columns: Sequence[int] | Tensor | None, num_labels: int) -> Tensor:
    """Returns label indices, by default all, in ascending order and on the CPU.

    Raises:
        ValueError: If they are repeated, out of range, no whole numbers, or none.

    Example:
        >>> read_indices([2, 0], num_labels=3)
        tensor([0, 2])
    """
    listed = torch.arange(num_labels) if columns is None else torch.as_tensor(columns).cpu()
    chosen = listed[torch.isin(listed, torch.arange(num_labels))].unique()
    if not 0 < len(chosen) == len(listed):
        raise ValueError(
            f"columns must be distinct indices of the {num_labels} stored labels, "
            f"got {len(listed)}, such as {listed[:8].tolist()}"
        )
    return chosen.long()


def renumbered(gold: Tensor, columns: Tensor, num_labels: int) -> Tensor:
    """Renumbers padded label indices to positions among `(C,)` columns; others become -100.

    Example:
        >>> renumbered(torch.tensor([[2, 1, -100]]), torch.tensor([0, 2]), num_labels=3)
        tensor([[   1, -100, -100]])
    """
    positions = torch.full((num_labels + 1,), IGNORE, device=gold.device)
    positions[columns] = torch.arange(len(columns), device=gold.device)
    return positions[gold.masked_fill(gold < 0, num_labels)]


def read_groups(num_labels: int, seen: Array | Sequence[bool] | None) -> dict[str, Tensor]:
    """Returns the groups of labels to evaluate, by prefix of metric names.

    Args:
        num_labels: Number of labels L.
        seen: `(L,)` bool, True for the labels that were seen in training.

    Returns:
        `(L,)` bool for each group, on the CPU: all labels under "", and with a mask of seen labels
        also "seen_" and "unseen_".

    Raises:
        ValueError: If the mask has a wrong shape, or a group is empty.

    Example:
        >>> read_groups(2, seen=[True, False])["unseen_"]
        tensor([False,  True])
    """
    groups = {"": torch.ones(num_labels, dtype=torch.bool)}
    if seen is None:
        return groups
    mask = read_columns(seen, num_labels).cpu().clone()
    if mask.all():
        raise ValueError(f"seen must leave at least one unseen label, got all {num_labels} labels seen; leave seen out")
    return {**groups, "seen_": mask, "unseen_": ~mask}


def require_documents(documents: int) -> None:
    """Raises an error if there are no documents.

    Args:
        documents: Number of documents so far.

    Raises:
        ValueError: If it is 0.

    Example:
        >>> require_documents(1)
    """
    if documents == 0:
        raise ValueError("metrics need at least one document, got none; call update(...) first")


def _to_tensor(array: Array | Sequence[bool], name: str) -> Tensor:
    if isinstance(array, Tensor):
        return array
    try:
        return torch.from_numpy(np.require(array, requirements=["C", "W"]))  # torch needs both
    except TypeError as error:
        raise ValueError(f"{name} must be a torch tensor or a numeric numpy array: {error}") from None


def _read_label_indices(labels: Tensor, num_labels: int) -> Tensor:
    gold = labels.long()
    check_gold(gold, num_labels)
    return gold if gold.shape[1] else gold.new_full((len(gold), 1), IGNORE)


def _read_multi_hot(labels: Tensor, num_labels: int) -> Tensor:
    if labels.shape[1] != num_labels:
        raise ValueError(
            f"multi-hot labels must have {num_labels} columns, got {_describe(labels)}; "
            "score the same label set, or pass gold label indices as integers"
        )
    soft = (labels != 0) & (labels != 1)
    if soft.any():
        raise ValueError(
            f"multi-hot labels must be 0 or 1, got {labels[soft][0].item():g}; "
            "round soft labels, and pass gold label indices as integers"
        )
    document, column = labels.nonzero(as_tuple=True)
    counts = document.bincount(minlength=len(labels))
    position = torch.arange(len(document), device=labels.device)
    position = position - (counts.cumsum(dim=0) - counts)[document]
    gold = column.new_full((len(labels), max([1, *counts.tolist()])), IGNORE)
    gold[document, position] = column
    return gold


def _describe(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
