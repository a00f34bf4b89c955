"""Exact search among label codes: scores and the best labels, in bounded memory.

Shapes: B documents, L labels, J joint size, K labels returned.
"""

import operator
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

# Documents and labels of a block of scores at most: on a CPU so that a block stays in its cache.
_CPU_BLOCK = (256, 1 << 12)
_GPU_BLOCK = (1 << 9, 1 << 17)


class TopLabels(NamedTuple):
    """The best labels of each document, best first; of labels with one score, that of the lower column first.

    Args:
        scores: `(B, K)` scores, before the sigmoid.
        columns: `(B, K)` columns of these labels.
    """

    scores: Tensor
    columns: Tensor


@torch.no_grad()
def scores_of(text_codes: Tensor, codes: Tensor, bias: float) -> Tensor:
    """The scores of documents with labels, as `LabelIndex.scores`.

    Args:
        text_codes: `(B, J)`.
        codes: `(L, J)` label codes.
        bias: The constant of the score.

    Returns:
        `(B, L)` logits.
    """
    check_text_codes(text_codes, codes)
    if codes.dtype == wide_type(text_codes, codes):
        with torch.autocast(codes.device.type, enabled=False):
            return torch.addmm(codes.new_tensor(bias), text_codes.to(codes), codes.T)
    scores = torch.empty(len(text_codes), len(codes), device=codes.device, dtype=wide_type(text_codes, codes))
    for _ in _blocks(text_codes, codes, bias, scores):
        pass
    return scores


@torch.no_grad()
def top_k_of(text_codes: Tensor, codes: Tensor, bias: float, k: int) -> TopLabels:
    """The best labels of each document, as `LabelIndex.top_k`.

    Args:
        text_codes: `(B, J)`.
        codes: `(L, J)` label codes.
        bias: The constant of the score.
        k: Number of labels wanted, at least 1.

    Returns:
        Scores and columns, each `(B, min(k, L))`.
    """
    k = min(check_text_codes(text_codes, codes, k), len(codes))
    if 2 * k > len(codes):  # most of the answer is everything
        scores, columns = scores_of(text_codes, codes, bias).sort(dim=-1, descending=True, stable=True)
        return TopLabels(scores[:, :k].contiguous(), columns[:, :k].contiguous())
    return _search(text_codes, codes, bias, k, [None])[0]


@torch.no_grad()
def top_k_of_each(text_codes: Tensor, codes: Tensor, bias: float, k: int, groups: Sequence[Tensor]) -> list[TopLabels]:
    """The best labels of each document in each of several groups of labels, which are scored once.

    Args:
        text_codes: `(B, J)`.
        codes: `(L, J)` label codes.
        bias: The constant of the score.
        k: Number of labels wanted of each group, at least 1.
        groups: `(L,)` bool each, the labels of a group.

    Returns:
        For each group scores and columns, each `(B, min(k, L))`; minus infinity behind the labels of a smaller group.
    """
    k = min(check_text_codes(text_codes, codes, k), len(codes))
    return _search(text_codes, codes, bias, k, [~group.to(codes.device) for group in groups])


def _search(
    text_codes: Tensor, codes: Tensor, bias: float, k: int, excluded: Sequence[Tensor | None]
) -> list[TopLabels]:
    """The best labels, of all or without some: an answer for each `(L,)` bool that says which are not candidates."""
    shape, wide = (len(text_codes), k), wide_type(text_codes, codes)
    found = [
        TopLabels(
            torch.full(shape, -torch.inf, device=codes.device, dtype=wide),
            torch.zeros(shape, device=codes.device, dtype=torch.long),
        )
        for _ in excluded
    ]
    for rows, labels, scores in _blocks(text_codes, codes, bias, fewest=k):
        for best, others in zip(found, excluded, strict=True):
            own = scores if others is None else scores.masked_fill(others[labels], -torch.inf)
            _improve(best.scores[rows], best.columns[rows], own, labels.start)
    return found


def check_text_codes(text_codes: Tensor, codes: Tensor, k: Any = 1) -> int:
    """Refuses text codes that cannot be of the model of these label codes, and numbers of labels below one.

    Args:
        text_codes: `(B, J)`.
        codes: `(L, J)` label codes.
        k: Number of labels wanted.

    Returns:
        k, which may come as a whole number of NumPy, too.

    Raises:
        ValueError: Text codes of another shape, or k below 1.
    """
    if not torch.is_tensor(text_codes):
        raise ValueError(
            f"text_codes must be a tensor, got {type(text_codes).__name__}; project_texts of the model of these "
            "label codes makes it of texts"
        )
    if text_codes.dim() != 2 or text_codes.shape[1] != codes.shape[1]:
        raise ValueError(
            f"text_codes must have shape (B, {codes.shape[1]}), as project_texts of the model of these label codes "
            f"makes them, got {tuple(text_codes.shape)}"
        )
    if not hasattr(k, "__index__") or getattr(k, "ndim", False) or k < 1:
        raise ValueError(f"k must be a whole number, at least 1, got {k!r}")
    return operator.index(k)


def wide_type(text_codes: Tensor, codes: Tensor) -> torch.dtype:
    """The type of scores: 32 bits, or 64 where either codes have as many.

    Args:
        text_codes: `(B, J)`.
        codes: `(L, J)` label codes.
    """
    # Scores of 16 bits would put most of a million labels in ties.
    return torch.promote_types(torch.promote_types(text_codes.dtype, codes.dtype), torch.float32)


def _blocks(
    text_codes: Tensor, codes: Tensor, bias: float, into: Tensor | None = None, fewest: int = 1
) -> Iterator[tuple[slice, slice, Tensor]]:
    """Yields blocks of scores, the first of `fewest` labels or more: documents, labels, what lasts until the next."""
    wide = wide_type(text_codes, codes)
    # A GPU multiplies 16 bits and sums in 32.
    native = codes.is_cuda and text_codes.dtype == codes.dtype != wide and hasattr(torch.ops.aten.mm, "dtype_out")
    text_codes = text_codes.to(codes.device, codes.dtype if native else wide)
    documents, most = _GPU_BLOCK if codes.is_cuda else _CPU_BLOCK
    size, documents = documents * most, min(documents, len(text_codes))
    most = max(fewest, min(len(codes), size // max(1, documents), 8 * most))
    # Memory that is used again and again stays in the cache, too.
    room = text_codes.new_empty(0 if into is not None else documents * most, dtype=wide)
    converted = text_codes.new_empty(0 if text_codes.dtype == codes.dtype else most, codes.shape[1])
    for start in range(0, len(codes), most):
        labels = slice(start, min(start + most, len(codes)))
        own = codes[labels]
        if len(converted):
            own = converted[: len(own)].copy_(own)
        for first in range(0, len(text_codes), max(1, documents)):
            rows = slice(first, min(first + documents, len(text_codes)))
            shape = (rows.stop - rows.start, len(own))
            block = room[: shape[0] * shape[1]].view(shape) if into is None else into[rows, labels]
            if native:
                torch.mm(text_codes[rows], own.T, out_dtype=wide, out=block)
            else:
                torch.mm(text_codes[rows], own.T, out=block)
            yield rows, labels, block.add_(bias) if bias else block


def _improve(best: Tensor, best_columns: Tensor, scores: Tensor, first: int) -> None:
    """Puts scores of a chunk of labels, the first of which is column `first`, among the best so far, in place.

    The first chunk, of column 0, has at least k labels.

    Of labels in any order, the n-th chunk has about k / n that beat the k-th best so far: these are looked for, and
    they alone are sorted. An equal score does not beat it, for its column is higher.
    """
    k = best.shape[1]
    if first == 0:
        found_best = best_of(scores, torch.arange(scores.shape[1], device=scores.device).expand_as(scores), k)
    else:
        rows, places = (~(scores <= best[:, -1:])).nonzero(as_tuple=True)  # as written, what is not a number shows
        if len(rows) == 0:
            return
        counts = rows.bincount(minlength=len(scores))
        slots = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts)[rows]
        found = scores.new_full((len(scores), int(counts.max())), -torch.inf)
        columns = torch.zeros_like(found, dtype=torch.long)
        found[rows, slots] = scores[rows, places]
        columns[rows, slots] = places + first
        found_best = best_of(torch.cat([best, found], dim=1), torch.cat([best_columns, columns], dim=1), k)
    best.copy_(found_best.scores)
    best_columns.copy_(found_best.columns)


def best_of(scores: Tensor, columns: Tensor, k: int) -> TopLabels:
    """The k best of each row, in which equal scores stand in the order of their columns.

    Args:
        scores: `(B, C)`.
        columns: `(B, C)` columns of these scores.
        k: Number of scores wanted, at most C.

    Returns:
        Scores and columns, each `(B, k)`.
    """
    found = scores.topk(min(k + 1, scores.shape[1]))
    # topk takes any of equal scores, in any order.
    order = found.indices[:, :k].sort().values
    cut = (found.values[:, k - 1] == found.values[:, -1]).nonzero().squeeze(1)
    if len(cut) and scores.shape[1] > k:
        order[cut] = scores[cut].sort(dim=-1, descending=True, stable=True).indices[:, :k].sort().values
    best, again = scores.gather(1, order).sort(dim=-1, descending=True, stable=True)
    return TopLabels(best, columns.gather(1, order.gather(1, again)))


__all__ = [
    "TopLabels",
    "best_of",
    "check_text_codes",
    "scores_of",
    "top_k_of",
    "top_k_of_each",
    "wide_type",
]
