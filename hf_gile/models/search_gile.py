"""Label codes: computed from label texts, searched exactly in bounded memory, with the choice of answers.

Shapes: B documents, P pieces of a document, L labels, C labels of a batch, J joint size, K labels returned.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils import logging

from .labels_gile import LabelSet
from .losses_gile import widened
from .processing_gile import GileProcessor
from .stored_labels_gile import is_finite

_logger = logging.get_logger(__name__)

# Documents and labels of a block of scores at most: on a CPU so that a block stays in its cache.
_CPU_BLOCK = (256, 1 << 12)
_GPU_BLOCK = (1 << 9, 1 << 17)

SCORES_AT_ONCE = 1 << 24
"""Scores that exist at once, of as many documents (one at least) with all labels."""

Bias = float | Tensor | Callable[[slice], Tensor]
"""What is added to scores: a number, `(B, L)` numbers, or what makes these for some of the documents."""


class TopLabels(NamedTuple):
    """The best labels of documents, best first, ties by column: `(B, K)` or `(K,)` logits or probabilities, columns."""

    scores: Tensor
    columns: Tensor


@torch.no_grad()
def scores_of(text_codes: Tensor, codes: Tensor, bias: Bias) -> Tensor:
    """The `(B, L)` scores of documents and labels by their codes, in 32 bits (64, where either codes have as many)."""
    check_text_codes(text_codes, codes)
    if callable(bias):
        return torch.cat([scores_of(*part) for part in _parts(text_codes, codes, bias)])
    if codes.dtype == wide_type(text_codes, codes):
        with torch.autocast(codes.device.type, enabled=False):
            return torch.addmm(
                torch.as_tensor(bias, dtype=codes.dtype, device=codes.device), text_codes.to(codes), codes.T
            )
    scores = torch.empty(len(text_codes), len(codes), device=codes.device, dtype=wide_type(text_codes, codes))
    for _ in _blocks(text_codes, codes, bias, scores):
        pass
    return scores


@torch.no_grad()
def top_k_of(text_codes: Tensor, codes: Tensor, bias: Bias, k: int) -> TopLabels:
    """Returns the `min(k, L)` best labels of each document, without storing all scores (except for k above L / 2)."""
    k = min(check_text_codes(text_codes, codes, k), len(codes))
    if 2 * k > len(codes):  # most labels are returned anyway
        scores, columns = scores_of(text_codes, codes, bias).sort(dim=-1, descending=True, stable=True)
        return TopLabels(scores[:, :k].contiguous(), columns[:, :k].contiguous())
    return top_k_of_each(text_codes, codes, bias, k, [None])[0]


@torch.no_grad()
def top_k_of_each(
    text_codes: Tensor, codes: Tensor, bias: Bias, k: int, groups: Sequence[Tensor | None]
) -> list[TopLabels]:
    """Returns the `min(k, L)` best labels of each document for each group of labels, `(L,)` bool or None for all.

    Minus infinity fills the rows of a smaller group.
    """
    k = min(check_text_codes(text_codes, codes, k), len(codes))
    if callable(bias):
        parts = [top_k_of_each(*part, k, groups) for part in _parts(text_codes, codes, bias)]
        return [TopLabels(*map(torch.cat, zip(*own, strict=True))) for own in zip(*parts, strict=True)]
    others = [None if group is None else ~group.to(codes.device) for group in groups]
    scores = torch.full((len(text_codes), k), -torch.inf, device=codes.device, dtype=wide_type(text_codes, codes))
    answers = [TopLabels(scores.clone(), torch.zeros_like(scores, dtype=torch.long)) for _ in groups]
    for rows, labels, block in _blocks(text_codes, codes, bias, fewest=k):
        for best, excluded in zip(answers, others, strict=True):
            own = block if excluded is None else block.masked_fill(excluded[labels], -torch.inf)
            _improve(best.scores[rows], best.columns[rows], own, labels.start)
    return answers


def _parts(
    text_codes: Tensor, codes: Tensor, bias: Callable[[slice], Tensor]
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yields documents in parts, each with the values to add to its scores."""
    size = max(1, SCORES_AT_ONCE // len(codes))
    for start in range(0, max(1, len(text_codes)), size):
        rows = slice(start, min(start + size, len(text_codes)))
        yield text_codes[rows], codes, bias(rows).to(codes.device, wide_type(text_codes, codes))


def check_text_codes(text_codes: Tensor, codes: Tensor, k: Any = 1) -> int:
    """Checks that text codes come from the model of these label codes, and that k is at least 1; returns k."""
    if not torch.is_tensor(text_codes):
        raise ValueError(f"text_codes must be a tensor, got {type(text_codes).__name__}; project_texts returns it")
    if text_codes.dim() != 2 or text_codes.shape[1] != codes.shape[1]:
        raise ValueError(
            f"text_codes must have shape (B, {codes.shape[1]}), as project_texts of the same model returns them, "
            f"got {tuple(text_codes.shape)}"
        )
    if not hasattr(k, "__index__") or getattr(k, "ndim", False) or k < 1:
        raise ValueError(f"k must be a whole number, at least 1, got {k!r}")
    return operator.index(k)


def wide_type(text_codes: Tensor, codes: Tensor) -> torch.dtype:
    """The type of scores of these codes: 32 bits, or 64 where either have as many."""
    # Scores of 16 bits would put most of a million labels in ties.
    return torch.promote_types(torch.promote_types(text_codes.dtype, codes.dtype), torch.float32)


def _blocks(
    text_codes: Tensor, codes: Tensor, bias: float | Tensor, into: Tensor | None = None, fewest: int = 1
) -> Iterator[tuple[slice, slice, Tensor]]:
    """Yields blocks of scores, the first of `fewest` labels or more: documents, labels, what lasts until the next."""
    wide = wide_type(text_codes, codes)
    # A GPU multiplies 16 bits and sums in 32.
    native = codes.is_cuda and text_codes.dtype == codes.dtype != wide and hasattr(torch.ops.aten.mm, "dtype_out")
    text_codes = text_codes.to(codes.device, codes.dtype if native else wide)
    documents, most = _GPU_BLOCK if codes.is_cuda else _CPU_BLOCK
    size, documents = documents * most, min(documents, len(text_codes))
    most = max(fewest, min(len(codes), size // max(1, documents), 8 * most))
    # Reused memory stays in the cache as well.
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
            yield rows, labels, block.add_(bias[rows, labels] if torch.is_tensor(bias) else bias)


def _improve(best: Tensor, best_columns: Tensor, scores: Tensor, first: int) -> None:
    """Puts scores of a chunk of labels, the first of which is column `first`, among the best so far, in place.

    The first chunk has at least k labels; the n-th has about k / n better ones, which are sorted. Ties do not count.
    """
    k = best.shape[1]
    if first == 0:
        found_best = best_of(scores, torch.arange(scores.shape[1], device=scores.device).expand_as(scores), k)
    else:
        rows, positions = (~(scores <= best[:, -1:])).nonzero(as_tuple=True)  # as written, what is not a number shows
        if len(rows) == 0:
            return
        counts = rows.bincount(minlength=len(scores))
        slots = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts)[rows]
        found = scores.new_full((len(scores), int(counts.max())), -torch.inf)
        columns = torch.zeros_like(found, dtype=torch.long)
        found[rows, slots] = scores[rows, positions]
        columns[rows, slots] = positions + first
        found_best = best_of(torch.cat([best, found], dim=1), torch.cat([best_columns, columns], dim=1), k)
    best.copy_(found_best.scores)
    best_columns.copy_(found_best.columns)


def best_of(scores: Tensor, columns: Tensor, k: int) -> TopLabels:
    """The k best of `(B, C)` scores, in which equal ones stand in the order of their columns, `(B, C)`."""
    found = scores.topk(min(k + 1, scores.shape[1]))
    # topk takes any of equal scores, in any order.
    order = found.indices[:, :k].sort().values
    cut = (found.values[:, k - 1] == found.values[:, -1]).nonzero().squeeze(1)
    if len(cut) and scores.shape[1] > k:
        order[cut] = scores[cut].sort(dim=-1, descending=True, stable=True).indices[:, :k].sort().values
    best, again = scores.gather(1, order).sort(dim=-1, descending=True, stable=True)
    return TopLabels(best, columns.gather(1, order.gather(1, again)))


def calibrated(logits: Tensor, seen: Tensor, calibration: Mapping[str, Any]) -> Tensor:
    """Calibrates logits: `sigmoid` (or for single-label problems `softmax`) then gives probabilities to be trusted.

    Minus infinity stays: the label is not a candidate. Of a label's logit x, by the method of its group:

        platt     scale * x + offset
        spline    the line through the points (logits[k], values[k]); outside of them x, shifted

    Both are increasing, so the order of scores stays within each group. A group without one uses that of the other.

    Args:
        logits: `(..., C)` logits of a model; of half precision, they are taken to float32 first.
        seen: `(C,)` bool, whether each label was trained on: `StoredLabels.seen`.
        calibration: As in `GileConfig.calibration`, fitted by `hf_gile.training.calibrate`.

    Raises:
        ValueError: If `seen` does not have an entry for each label.
    """
    if seen.shape != logits.shape[-1:]:
        raise ValueError(
            f"seen must be true or false for each of the {logits.shape[-1]} labels, got shape "
            f"{tuple(seen.shape)}; use model.stored_labels.seen(labels)"
        )
    logits = widened(logits)
    if not calibration:
        return logits
    seen = seen.to(logits.device)
    if len(calibration) == 1 or bool(seen.all()) or not bool(seen.any()):
        group = "seen" if bool(seen.any()) else "unseen"
        return _apply(logits, calibration.get(group) or next(iter(calibration.values())))
    return torch.where(seen, _apply(logits, calibration["seen"]), _apply(logits, calibration["unseen"]))


def _apply(logits: Tensor, own: Mapping[str, Any]) -> Tensor:
    if own["method"] == "platt":
        return logits * own["scale"] + own["offset"]
    knots, values = (torch.tensor(own[name], dtype=logits.dtype, device=logits.device) for name in ("logits", "values"))
    one, infinite = knots.new_ones(1), knots.new_full((1,), torch.inf)
    slopes = torch.cat([one, values.diff() / knots.diff(), one])
    interval = torch.bucketize(logits, knots, right=True)  # 0 is below the first knot
    before = (interval - 1).clamp(min=0)
    moved = values[before] + slopes[interval] * (logits - knots[before])
    # Rounding must not carry a logit over the knot behind it.
    return torch.minimum(moved, torch.cat([values, infinite])[interval])


@dataclass(frozen=True)
class Choice:
    """The choice of labels for an answer.

    Args:
        is_multi_label: Whether each label is scored on its own, by a sigmoid; else by a softmax over all labels.
        top_k: Maximum number of labels of an answer; by default unlimited.
        threshold: The lowest probability: one for all labels, or `(L,)` one for each; None for none.
        force_label: Whether a document gets its best label if none reaches the threshold.
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
def best_labels(text_codes: Tensor | Sequence[Tensor], codes: Tensor, bias: Bias, choice: Choice) -> list[TopLabels]:
    """Chooses labels for documents, exactly; of one probability, that of the better logit, then of the lower column.

    Where each label is scored on its own and one threshold serves all, a search finds the best, as calibration keeps
    the order within a group. Otherwise all scores are made, of some documents at a time.

    Args:
        text_codes: `(B, J)` codes of documents; or for each `(P, J)` codes of its pieces, the best of which gives a
            label its score.
        codes: `(L, J)` label codes.
        bias: What is added.
        choice: The choice of labels.

    Returns:
        Probabilities and columns of the labels of each document.
    """
    is_searched = choice.is_multi_label and not torch.is_tensor(choice.threshold)
    if torch.is_tensor(text_codes) and choice.top_k is not None and is_searched:
        return _best_by_search(text_codes, codes, bias, choice, choice.top_k)
    answers = []
    size = max(1, SCORES_AT_ONCE // len(codes))
    for start in range(0, len(text_codes), size):
        logits = _logits(text_codes[start : start + size], codes, size)
        added = bias(slice(start, start + len(logits))).to(logits) if callable(bias) else bias
        answers += _choose(logits + added, choice)
    return answers


def _best_by_search(text_codes: Tensor, codes: Tensor, bias: Bias, choice: Choice, k: int) -> list[TopLabels]:
    seen = choice.seen if choice.calibration else None
    if seen is None or bool(seen.all() | ~seen.any()):
        logits, columns = top_k_of(text_codes, codes, bias, k)
        if seen is not None:
            logits = calibrated(logits, seen[:1].expand(logits.shape[1]), choice.calibration)
    else:
        groups = top_k_of_each(text_codes, codes, bias, k, [seen, ~seen])
        # Calibration keeps the order within each group, so the best are among the best of both.
        raw = torch.cat([group.scores for group in groups], dim=-1)
        is_seen = torch.arange(raw.shape[1]) < groups[0].scores.shape[1]
        logits = calibrated(raw, is_seen, choice.calibration)
        columns = torch.cat([group.columns for group in groups], dim=-1)
        order = columns.argsort(dim=-1)
        order = order.gather(1, raw.gather(1, order).argsort(dim=-1, descending=True, stable=True))
        logits, columns = best_of(logits.gather(1, order), columns.gather(1, order), min(k, len(codes)))
    answers = []
    for scores, labels in zip(logits.sigmoid(), columns, strict=True):
        if choice.threshold is not None:
            passing = ~(scores < choice.threshold)  # as written, what is not a number shows
            passing[0] |= choice.force_label  # the best
            scores, labels = scores[passing], labels[passing]
        answers.append(TopLabels(scores, labels))
    return answers


def _logits(text_codes: Tensor | Sequence[Tensor], codes: Tensor, size: int) -> Tensor:
    """`(B, L)` inner products of documents, or the best of their pieces; of `size` pieces at a time."""
    if torch.is_tensor(text_codes):
        return scores_of(text_codes, codes, 0.0)
    best = scores_of(torch.stack([pieces[0] for pieces in text_codes]), codes, 0.0)
    owners = [place for place, pieces in enumerate(text_codes) for _ in pieces[1:]]
    if owners:
        rest = torch.cat([pieces[1:] for pieces in text_codes])
        for start in range(0, len(rest), size):
            scores = scores_of(rest[start : start + size], codes, 0.0)
            for row, place in enumerate(owners[start : start + size]):
                torch.maximum(best[place], scores[row], out=best[place])
    return best


def _choose(raw: Tensor, choice: Choice) -> list[TopLabels]:
    """The labels of each row of `(B, L)` logits."""
    logits = raw if choice.seen is None else calibrated(raw, choice.seen, choice.calibration)
    scores = logits.sigmoid() if choice.is_multi_label else logits.softmax(-1)
    threshold = choice.threshold
    if threshold is not None:
        passing = ~(scores < (threshold.to(logits.device) if torch.is_tensor(threshold) else threshold))
    elif choice.top_k is None or 2 * choice.top_k > logits.shape[1]:
        order = _ranking(logits, raw)[:, : choice.top_k]
        return [TopLabels(*pair) for pair in zip(scores.gather(1, order), order, strict=True)]
    else:
        passing = ~(logits < logits.topk(choice.top_k).values[:, -1:])  # as written, what is not a number shows
    found = []
    for row, kept in enumerate(passing):
        most = choice.top_k
        if choice.force_label and not bool(kept.any()):
            kept, most = ~(logits[row] < logits[row].max()), 1
        own = kept.nonzero().squeeze(1)
        own = own[_ranking(logits[row, own], raw[row, own])][:most]
        found.append(TopLabels(scores[row, own], own))
    return found


def _ranking(logits: Tensor, raw: Tensor) -> Tensor:
    """`(..., C)` positions from the best logit on.

    Where calibration is flat, its rounding makes many scores one: what they were before it decides, in the search too.
    """
    order = raw.argsort(dim=-1, descending=True, stable=True)
    if logits is raw:
        return order
    return order.gather(-1, logits.gather(-1, order).argsort(dim=-1, descending=True, stable=True))


def bias_of(gile: PreTrainedModel, language: str | None) -> float:
    """The constant b of a model's scores for documents in a language; of a linear unit 0, its codes hold their own."""
    if gile.config.output_layer == "linear":
        return 0.0
    return gile.output_layer.bias(language).item()


def project_label_set(
    model: PreTrainedModel,
    processor: GileProcessor | None,
    label_set: LabelSet,
    language: str | None = None,
    label_language: str | None = None,
    batch_size: int = 1024,
    dtype: torch.dtype | None = None,
    seen_words: list[Tensor] | None = None,
) -> Tensor:
    """The `(L, J)` codes of labels by their words and what the model has learned of them.

    Arguments are those of `LabelIndex.build`; `seen_words` gets the distinct words of each batch.

    Raises:
        ValueError: A model with a linear unit, no processor, an unknown language, or codes with NaN or infinity.
    """
    gile = getattr(model, "gile", model)
    if gile.config.output_layer == "linear":
        gile.project_labels()  # raises an error with the reason
    if processor is None or not hasattr(processor, "pad_documents"):
        raise ValueError("pass processor=, the GileProcessor saved with the model: it tokenizes label texts")
    processor.check_fits(gile.config)
    default = label_language or language
    tokenizer = processor.tokenizer
    nothing = torch.tensor([one for one in (tokenizer.unk_token_id, tokenizer.pad_token_id) if one is not None])
    unknown: list[int] = []

    def batches() -> Iterator[Tensor]:
        for start in range(0, len(label_set), batch_size):
            labels = [label_set[column] for column in range(start, min(start + batch_size, len(label_set)))]
            # A label that names its own language is read in that.
            languages = [label.language or default for label in labels] if gile.config.languages else None
            texts = [label.text for label in labels]
            words = processor(label_text=texts, label_language=languages, return_tensors="pt")
            is_nothing = torch.isin(words["label_input_ids"], nothing).all(-1)
            unknown.extend((start + is_nothing.nonzero()[:, 0]).tolist())
            words = words.to(gile.device)
            if seen_words is not None:
                seen_words.append(words["label_input_ids"].unique())
            rows = model.rows_of(labels, default) if hasattr(model, "rows_of") else None
            yield gile.project_labels(**words, language=language, label_language=languages, label_rows=rows)

    codes = join_codes(batches(), len(label_set), dtype)
    if unknown and not gile.config.text_config.reads_pretrained and gile.label_rows is None:
        names = ", ".join(repr(label_set[column].name) for column in unknown[:3])
        more = f" and {len(unknown) - 3:,} more" if len(unknown) > 3 else ""
        of = f"label{'s' if len(unknown) > 1 else ''} {names}{more}"
        _logger.warning(f"the model knows no word of the {of}, and scores all such labels alike")
    return codes


def join_codes(batches: Iterable[Tensor], size: int, dtype: torch.dtype | None) -> Tensor:
    """Copies batches of `(C, J)` label codes into one tensor, `(L, J)`, where `size` is L; by default of their type.

    Raises:
        ValueError: A code contains NaN or infinity.
    """
    codes: Tensor | None = None
    start = 0
    with torch.inference_mode(False), torch.no_grad():
        for batch in batches:
            if codes is None:
                codes = torch.empty(size, batch.shape[1], dtype=dtype or batch.dtype, device=batch.device)
            codes[start : start + len(batch)] = batch
            start += len(batch)
        assert codes is not None
        return finite_codes(codes)


def finite_codes(codes: Tensor) -> Tensor:
    """Returns `(L, J)` label codes whose numbers are all finite.

    Raises:
        ValueError: If a code contains NaN or infinity; the message names the label.
    """
    for start in range(0, len(codes), 4096):
        part = codes[start : start + 4096]
        if not is_finite(part):
            fine = part.isfinite().all(-1)
            raise ValueError(
                f"the code of label {start + int((~fine).nonzero()[0])} contains NaN or infinity in "
                f"{codes.dtype}; use torch.bfloat16, which has the range of float32"
            )
    return codes
