"""Which labels of a label index an answer holds, with their probabilities: calibrated, above a threshold, the best.

Shapes: B documents, P pieces of a document, L labels of the index, J joint size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .calibration_gile import calibrated
from .exact_search_gile import best_of, top_k_of_each

SCORES_AT_ONCE = 1 << 24
"""Scores that exist at once, of as many documents (one at least) with all labels."""


class BestLabels(NamedTuple):
    """The labels of one document's answer, best first.

    Of labels with one score, that with the better score before calibration goes first, then that of the lower column.

    Args:
        scores: `(K,)` probabilities.
        columns: `(K,)` columns of these labels in the index.
    """

    scores: Tensor
    columns: Tensor


@dataclass(frozen=True)
class Choice:
    """What labels are wanted.

    Args:
        is_multi_label: Whether each label is scored on its own, by a sigmoid; else by a softmax over all labels.
        top_k: The most labels of an answer; by default any number.
        threshold: The least probability: one for all labels, or `(L,)` one for each; None for none.
        force_label: Whether a document gets its best label where none reaches the threshold.
        calibration: As `GileConfig.calibration`.
        seen: `(L,)` bool, whether each label was trained on; only read with a calibration.
    """

    is_multi_label: bool = True
    top_k: int | None = None
    threshold: float | Tensor | None = None
    force_label: bool = False
    calibration: Mapping[str, Any] = field(default_factory=dict)
    seen: Tensor | None = None


@torch.no_grad()
def best_labels(index: Any, text_codes: Tensor | Sequence[Tensor], choice: Choice) -> list[BestLabels]:
    """Chooses labels for documents, exactly.

    Where each label is scored on its own and one threshold serves all, an exact search finds the best, as calibration
    keeps the order among the seen labels, and among the others. Otherwise all scores are made, of some documents at a
    time.

    Args:
        index: A `LabelIndex`.
        text_codes: `(B, J)` codes of documents; or for each `(P, J)` codes of its pieces, the best of which gives a
            label its score.
        choice: What is wanted.

    Returns:
        The labels of each document. With a threshold they are those that reach it; with `top_k`, too, the best of
        these.

    Raises:
        ValueError: Codes of another shape.
    """
    is_searched = choice.is_multi_label and not torch.is_tensor(choice.threshold)
    if torch.is_tensor(text_codes) and choice.top_k is not None and is_searched:
        return _search(index, text_codes, choice, choice.top_k)
    found = []
    size = max(1, SCORES_AT_ONCE // len(index))
    for start in range(0, len(text_codes), size):
        found += _choose(_logits(index, text_codes[start : start + size], size), choice)
    return found


def _search(index: Any, text_codes: Tensor, choice: Choice, k: int) -> list[BestLabels]:
    seen = choice.seen
    if not choice.calibration or seen is None:
        logits, columns = index.top_k(text_codes, k)
    elif bool(seen.all() | ~seen.any()):
        logits, columns = index.top_k(text_codes, k)
        logits = calibrated(logits, seen[:1].expand(logits.shape[1]), choice.calibration)
    else:
        found = top_k_of_each(text_codes, index.codes, index.bias, k, [seen, ~seen])
        # Calibration keeps the order within each group, so the best are among the best of both.
        raw = torch.cat([own.scores for own in found], dim=-1)
        logits = torch.cat(
            [
                calibrated(own.scores, torch.full(own.scores.shape[1:], is_seen), choice.calibration)
                for own, is_seen in zip(found, (True, False), strict=True)
            ],
            dim=-1,
        )
        columns = torch.cat([own.columns for own in found], dim=-1)
        order = columns.argsort(dim=-1)
        order = order.gather(1, raw.gather(1, order).argsort(dim=-1, descending=True, stable=True))
        logits, columns = best_of(logits.gather(1, order), columns.gather(1, order), min(k, len(index)))
    scores = logits.sigmoid()
    answers = []
    for row, own in zip(scores, columns, strict=True):
        if choice.threshold is not None:
            kept = ~(row < choice.threshold)  # as written, what is not a number shows
            kept[0] |= choice.force_label  # the best
            row, own = row[kept], own[kept]
        answers.append(BestLabels(row, own))
    return answers


def _logits(index: Any, text_codes: Tensor | Sequence[Tensor], size: int) -> Tensor:
    """`(B, L)` logits of documents, or the best of their pieces; of `size` pieces at a time."""
    if torch.is_tensor(text_codes):
        return index.scores(text_codes)
    best = index.scores(torch.stack([pieces[0] for pieces in text_codes]))
    owners = [place for place, pieces in enumerate(text_codes) for _ in pieces[1:]]
    if owners:
        rest = torch.cat([pieces[1:] for pieces in text_codes])
        for start in range(0, len(rest), size):
            scores = index.scores(rest[start : start + size])
            for row, place in enumerate(owners[start : start + size]):
                torch.maximum(best[place], scores[row], out=best[place])
    return best


def _choose(raw: Tensor, choice: Choice) -> list[BestLabels]:
    """The labels of each row of `(B, L)` logits."""
    logits = raw
    if choice.calibration and choice.seen is not None:
        logits = calibrated(logits, choice.seen.to(logits.device), choice.calibration)
    scores = logits.sigmoid() if choice.is_multi_label else logits.softmax(-1)
    threshold = choice.threshold
    if threshold is not None:
        passing = ~(scores < (threshold.to(logits.device) if torch.is_tensor(threshold) else threshold))
    elif choice.top_k is None or 2 * choice.top_k > logits.shape[1]:
        order = _ranking(logits, raw)[:, : choice.top_k]
        return [BestLabels(*pair) for pair in zip(scores.gather(1, order), order, strict=True)]
    else:
        passing = ~(logits < logits.topk(choice.top_k).values[:, -1:])  # as written, what is not a number shows
    found = []
    for row, kept in enumerate(passing):
        most = choice.top_k
        if choice.force_label and not bool(kept.any()):
            kept, most = ~(logits[row] < logits[row].max()), 1
        own = kept.nonzero().squeeze(1)
        own = own[_ranking(logits[row, own], raw[row, own])][:most]
        found.append(BestLabels(scores[row, own], own))
    return found


def _ranking(logits: Tensor, raw: Tensor) -> Tensor:
    """`(..., C)` places from the best logit on.

    Where calibration is flat, its rounding makes many scores one: what they were before it decides, in the search too.
    """
    order = raw.argsort(dim=-1, descending=True, stable=True)
    if logits is raw:
        return order
    return order.gather(-1, logits.gather(-1, order).argsort(dim=-1, descending=True, stable=True))


__all__ = ["SCORES_AT_ONCE", "BestLabels", "Choice", "best_labels"]
