"""Label codes: computing them from label texts, searching them exactly in bounded memory, and selecting labels.

Shapes: B documents, P pieces of a document, L labels, C labels of a batch, J joint size, K labels returned.
"""

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils import logging

from .checks_gile import check_whole_number
from .labels_gile import LabelSet
from .losses_gile import widened
from .processing_gile import GileProcessor, check_processor
from .stored_labels_gile import is_finite

_logger = logging.get_logger(__name__)

# Maximum numbers of documents and labels of a block of scores; on a CPU, a block fits into its cache.
_CPU_BLOCK = (256, 1 << 12)
_GPU_BLOCK = (1 << 10, 1 << 17)

SCORES_AT_ONCE = 1 << 24
"""Maximum number of scores in memory, or the number of labels if that is larger."""

Bias = float | Tensor | Callable[[slice], Tensor]
"""Addend of scores: a number, a `(B, L)` tensor, or a function that returns the rows of some documents."""


class TopLabels(NamedTuple):
    """Best labels of documents, in order: `(B, K)` or `(K,)` logits or probabilities, and indices, which break ties."""

    scores: Tensor
    columns: Tensor


@torch.no_grad()
def compute_scores(text_codes: Tensor, codes: Tensor, bias: Bias) -> Tensor:
    """Computes `(B, L)` scores of text codes and label codes, in float32, or float64 if either is float64."""
    check_text_codes(text_codes, codes)
    if callable(bias):
        return torch.cat([compute_scores(*part) for part in _parts(text_codes, codes, bias)])
    wide = wide_type(text_codes, codes)
    if codes.dtype == wide:
        with torch.autocast(codes.device.type, enabled=False):
            addend = torch.as_tensor(bias, dtype=codes.dtype, device=codes.device)
            return torch.addmm(addend, text_codes.to(codes), codes.T)
    scores = torch.empty(len(text_codes), len(codes), device=codes.device, dtype=wide)
    for rows, labels, block in _blocks(text_codes, codes, bias):
        scores[rows, labels] = block
    return scores


@torch.no_grad()
def search_top_k(text_codes: Tensor, codes: Tensor, bias: Bias, k: int) -> TopLabels:
    """Returns the `min(k, L)` best labels of each document, without storing all scores (except for k above L / 2)."""
    k = min(check_text_codes(text_codes, codes, k), len(codes))
    if 2 * k > len(codes):  # most labels are returned anyway
        scores, columns = compute_scores(text_codes, codes, bias).sort(dim=-1, descending=True, stable=True)
        return TopLabels(scores[:, :k].contiguous(), columns[:, :k].contiguous())
    return search_top_k_by_group(text_codes, codes, bias, k, [None])[0]


@torch.no_grad()
def search_top_k_by_group(
    text_codes: Tensor, codes: Tensor, bias: Bias, k: int, groups: Sequence[Tensor | None]
) -> list[TopLabels]:
    """Returns the `min(k, L)` best labels of each document for each group of labels, `(L,)` bool or None for all.

    The results of groups with fewer labels are padded with minus infinity.
    """
    k = min(check_text_codes(text_codes, codes, k), len(codes))
    if callable(bias):
        parts = [search_top_k_by_group(*part, k, groups) for part in _parts(text_codes, codes, bias)]
        return [TopLabels(*map(torch.cat, zip(*results, strict=True))) for results in zip(*parts, strict=True)]
    masks = [None if group is None else ~group.to(codes.device) for group in groups]
    scores = torch.full((len(text_codes), k), -torch.inf, device=codes.device, dtype=wide_type(text_codes, codes))
    answers = [TopLabels(scores.clone(), torch.zeros_like(scores, dtype=torch.long)) for _ in groups]
    for rows, labels, block in _blocks(text_codes, codes, bias, min_labels=k):
        for best, mask in zip(answers, masks, strict=True):
            scores = block if mask is None else block.masked_fill(mask[labels], -torch.inf)
            _merge(best.scores[rows], best.columns[rows], scores, labels.start)
    return answers


def _parts(
    text_codes: Tensor, codes: Tensor, bias: Callable[[slice], Tensor]
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yields parts of the documents with all label codes and the addends of their scores."""
    size = max(1, SCORES_AT_ONCE // len(codes))
    for start in range(0, max(1, len(text_codes)), size):
        rows = slice(start, min(start + size, len(text_codes)))
        yield text_codes[rows], codes, bias(rows).to(codes.device, wide_type(text_codes, codes))


def check_text_codes(text_codes: Tensor, codes: Tensor, k: Any = 1) -> int:
    """Checks that text codes come from the model of these label codes, and that k is at least 1; returns k."""
    if not torch.is_tensor(text_codes) or text_codes.dim() != 2 or text_codes.shape[1] != codes.shape[1]:
        raise ValueError(
            f"text_codes must be a tensor of shape (B, {codes.shape[1]}), as project_texts of the same model returns "
            f"it, got {getattr(text_codes, 'shape', type(text_codes).__name__)}"
        )
    check_whole_number("k", k)
    return operator.index(k)


def wide_type(text_codes: Tensor, codes: Tensor) -> torch.dtype:
    """Returns the type of the scores: float32, or float64 if either codes are float64."""
    # In 16 bits, most of a million labels would have equal scores.
    return torch.promote_types(torch.promote_types(text_codes.dtype, codes.dtype), torch.float32)


def _blocks(
    text_codes: Tensor, codes: Tensor, bias: float | Tensor, min_labels: int = 1
) -> Iterator[tuple[slice, slice, Tensor]]:
    """Yields blocks of scores, the first with at least `min_labels`: rows, labels, and a tensor that is reused."""
    wide = wide_type(text_codes, codes)
    # A GPU multiplies 16-bit numbers and sums in float32.
    native = codes.is_cuda and text_codes.dtype == codes.dtype != wide and hasattr(torch.ops.aten.mm, "dtype_out")
    text_codes = text_codes.to(codes.device, codes.dtype if native else wide)
    documents, num_labels = _GPU_BLOCK if codes.is_cuda else _CPU_BLOCK
    size = documents * num_labels
    documents = min(documents, len(text_codes))
    num_labels = max(min_labels, min(len(codes), size // max(1, documents), 8 * num_labels))
    # Reused memory stays in the cache as well.
    buffer = text_codes.new_empty(documents * num_labels, dtype=wide)
    converted = text_codes.new_empty(0 if text_codes.dtype == codes.dtype else num_labels, codes.shape[1])
    for start in range(0, len(codes), num_labels):
        labels = slice(start, min(start + num_labels, len(codes)))
        label_codes = codes[labels]
        if len(converted):
            label_codes = converted[: len(label_codes)].copy_(label_codes)
        for first in range(0, len(text_codes), max(1, documents)):
            rows = slice(first, min(first + documents, len(text_codes)))
            shape = (rows.stop - rows.start, len(label_codes))
            block = buffer[: shape[0] * shape[1]].view(shape)
            if native:
                torch.mm(text_codes[rows], label_codes.T, out_dtype=wide, out=block)
            else:
                torch.mm(text_codes[rows], label_codes.T, out=block)
            yield rows, labels, block.add_(bias[rows, labels] if torch.is_tensor(bias) else bias)


def _merge(best: Tensor, best_columns: Tensor, scores: Tensor, first: int) -> None:
    """Merges scores of a chunk of labels, starting at index `first`, into the best so far, in place.

    The first chunk has at least k labels; the n-th has about k / n better labels, which are sorted. Ties are ignored.
    """
    k = best.shape[1]
    if first == 0:
        merged = select_best(scores, torch.arange(scores.shape[1], device=scores.device).expand_as(scores), k)
    else:
        rows, positions = (~(scores <= best[:, -1:])).nonzero(as_tuple=True)  # not `scores > best`: includes NaN
        if len(rows) == 0:
            return
        counts = rows.bincount(minlength=len(scores))
        slots = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts)[rows]
        better = scores.new_full((len(scores), int(counts.max())), -torch.inf)
        columns = torch.zeros_like(better, dtype=torch.long)
        better[rows, slots] = scores[rows, positions]
        columns[rows, slots] = positions + first
        merged = select_best(torch.cat([best, better], dim=1), torch.cat([best_columns, columns], dim=1), k)
    best.copy_(merged.scores)
    best_columns.copy_(merged.columns)


def select_best(scores: Tensor, columns: Tensor, k: int) -> TopLabels:
    """Selects the k best of `(B, C)` scores with `(B, C)` label indices; equal scores must be in order of these."""
    top = scores.topk(min(k + 1, scores.shape[1]))
    # topk selects an arbitrary label among equal scores, in arbitrary order.
    order = top.indices[:, :k].sort().values
    ties = (top.values[:, k - 1] == top.values[:, -1]).nonzero().squeeze(1)
    if len(ties) and scores.shape[1] > k:
        order[ties] = scores[ties].sort(dim=-1, descending=True, stable=True).indices[:, :k].sort().values
    best, ranking = scores.gather(1, order).sort(dim=-1, descending=True, stable=True)
    return TopLabels(best, columns.gather(1, order.gather(1, ranking)))


def calibrated(logits: Tensor, seen: Tensor, calibration: Mapping[str, Any], num_unseen: int | None = None) -> Tensor:
    """Calibrates logits, so that `sigmoid` (or `softmax` for single-label problems) gives reliable probabilities.

    Minus infinity is unchanged: the label is not a candidate. The logit x of a label is mapped by its group's method:

        platt     scale * x + offset
        spline    the line through the points (logits[k], values[k]); beyond the first and last point x plus a constant

    Both are increasing, so the order within a group does not change. A missing group is calibrated like the other.
    Beside seen labels, unseen ones lose c log(k / m) if there are k, more than the m they were fitted with, so that
    about as many rank above a seen label, however many compete. c is "crowding", by default 1.

    Args:
        logits: `(..., C)` logits of a model; half precision is converted to float32.
        seen: `(C,)` bool, whether each label was trained on: `StoredLabels.seen`.
        calibration: As in `GileConfig.calibration`, fitted by `hf_gile.training.calibrate`.
        num_unseen: k, if these are only the best of all candidates; by default the unseen labels of `seen`.

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
    number = int((~seen).sum()) if num_unseen is None else num_unseen
    unseen = calibration["unseen"]
    lost = unseen.get("crowding", 1.0) * math.log(max(1.0, number / unseen.get("labels", number)))
    return torch.where(seen, _apply(logits, calibration["seen"]), _apply(logits, unseen) - lost)


def _apply(logits: Tensor, method: Mapping[str, Any]) -> Tensor:
    """Applies the calibration of a group to logits."""
    if method["method"] == "platt":
        return logits * method["scale"] + method["offset"]
    knots, values = (logits.new_tensor(method[name]) for name in ("logits", "values"))
    slope_1 = knots.new_ones(1)
    infinite = knots.new_full((1,), torch.inf)
    slopes = torch.cat([slope_1, values.diff() / knots.diff(), slope_1])
    interval = torch.bucketize(logits, knots, right=True)  # 0 is below the first knot
    knot = (interval - 1).clamp(min=0)
    moved = values[knot] + slopes[interval] * (logits - knots[knot])
    # Rounding must not move a logit beyond the next knot.
    return torch.minimum(moved, torch.cat([values, infinite])[interval])


@dataclass(frozen=True)
class Choice:
    """Rules to select the labels of an answer.

    Args:
        is_multi_label: Whether labels are scored independently by a sigmoid; otherwise by a softmax over all labels.
        top_k: Maximum number of labels of an answer; by default unlimited.
        threshold: Lowest probability, for all labels or `(L,)` for each; by default unlimited.
        force_label: Whether a document gets its best label if no label reaches the threshold.
        calibration: As `GileConfig.calibration`.
        seen: `(L,)` bool, whether each label was trained on; only read with a calibration.
        returns_logits: Whether scores are logits instead of probabilities.
    """

    is_multi_label: bool = True
    top_k: int | None = None
    threshold: float | Tensor | None = None
    force_label: bool = False
    calibration: Mapping[str, Any] = field(default_factory=dict)
    seen: Tensor | None = None
    returns_logits: bool = False


@torch.no_grad()
def best_labels(text_codes: Tensor | Sequence[Tensor], codes: Tensor, bias: Bias, choice: Choice) -> list[TopLabels]:
    """Selects labels of documents exactly; equal probabilities are sorted by logit, then by label index.

    If labels are scored independently with the same threshold, the best are searched, as calibration does not change
    the order within a group. Otherwise all scores are computed, for some documents at a time.

    Args:
        text_codes: `(B, J)` text codes, or `(P, J)` codes of the pieces of each document; the score of a label is then
            that of the best piece.
        codes: `(L, J)` label codes.
        bias: Addend of scores.
        choice: Rules to select labels.

    Returns:
        Probabilities and indices of the labels of each document.
    """
    is_searched = choice.is_multi_label and not choice.returns_logits and not torch.is_tensor(choice.threshold)
    if torch.is_tensor(text_codes) and choice.top_k is not None and is_searched:
        return _best_by_search(text_codes, codes, bias, choice, choice.top_k)
    answers = []
    size = max(1, SCORES_AT_ONCE // len(codes))
    for start in range(0, len(text_codes), size):
        logits = _logits(text_codes[start : start + size], codes, size)
        addend = bias(slice(start, start + len(logits))).to(logits) if callable(bias) else bias
        answers += _choose(logits + addend, choice)
    return answers


def _best_by_search(text_codes: Tensor, codes: Tensor, bias: Bias, choice: Choice, k: int) -> list[TopLabels]:
    """Selects at most k labels of documents without storing all scores."""
    seen = choice.seen if choice.calibration else None
    if seen is None or bool(seen.all() | ~seen.any()):
        logits, columns = search_top_k(text_codes, codes, bias, k)
        if seen is not None:
            logits = calibrated(logits, seen[:1].expand(logits.shape[1]), choice.calibration)
    else:
        groups = search_top_k_by_group(text_codes, codes, bias, k, [seen, ~seen])
        # Calibration does not change the order within a group, so the best are among the best of both groups.
        raw = torch.cat([group.scores for group in groups], dim=-1)
        is_seen = torch.arange(raw.shape[1]) < groups[0].scores.shape[1]
        logits = calibrated(raw, is_seen, choice.calibration, int((~seen).sum()))
        columns = torch.cat([group.columns for group in groups], dim=-1)
        order = columns.argsort(dim=-1)
        order = order.gather(1, raw.gather(1, order).argsort(dim=-1, descending=True, stable=True))
        logits, columns = select_best(logits.gather(1, order), columns.gather(1, order), min(k, len(codes)))
    answers = []
    for scores, labels in zip(logits.sigmoid(), columns, strict=True):
        if choice.threshold is not None:
            passing = ~(scores < choice.threshold)  # not `>=`: includes NaN
            passing[0] |= choice.force_label  # the best label
            scores = scores[passing]
            labels = labels[passing]
        answers.append(TopLabels(scores, labels))
    return answers


def _logits(text_codes: Tensor | Sequence[Tensor], codes: Tensor, size: int) -> Tensor:
    """Computes `(B, L)` inner products of documents, or the maxima over their pieces, `size` pieces at a time."""
    if torch.is_tensor(text_codes):
        return compute_scores(text_codes, codes, 0.0)
    best = compute_scores(torch.stack([pieces[0] for pieces in text_codes]), codes, 0.0)
    documents = [document for document, pieces in enumerate(text_codes) for _ in pieces[1:]]
    if documents:
        rest = torch.cat([pieces[1:] for pieces in text_codes])
        for start in range(0, len(rest), size):
            scores = compute_scores(rest[start : start + size], codes, 0.0)
            for row, document in enumerate(documents[start : start + size]):
                torch.maximum(best[document], scores[row], out=best[document])
    return best


def _choose(raw: Tensor, choice: Choice) -> list[TopLabels]:
    """Selects the labels of each row of `(B, L)` logits."""
    logits = raw if choice.seen is None else calibrated(raw, choice.seen, choice.calibration)
    if choice.returns_logits:
        scores = logits
    elif choice.is_multi_label:
        scores = logits.sigmoid()
    else:
        scores = logits.softmax(-1)
    if choice.threshold is not None:
        threshold = torch.as_tensor(choice.threshold, dtype=scores.dtype, device=scores.device)
        passing = ~(scores < threshold)  # not `>=`: includes NaN
    else:
        size = logits.shape[1]
        passing = ~(logits < logits.topk(min(choice.top_k or size, size)).values[:, -1:])
    answers = []
    for row, mask in enumerate(passing):
        limit = choice.top_k
        if choice.force_label and not bool(mask.any()):
            mask = ~(logits[row] < logits[row].max())
            limit = 1
        columns = mask.nonzero().squeeze(1)
        columns = columns[_ranking(logits[row, columns], raw[row, columns])][:limit]
        answers.append(TopLabels(scores[row, columns], columns))
    return answers


def _ranking(logits: Tensor, raw: Tensor) -> Tensor:
    """Returns `(..., C)` positions sorted by calibrated logit, best first.

    A flat calibration rounds many logits to the same number; the `raw` logits then decide, as in the search.
    """
    order = raw.argsort(dim=-1, descending=True, stable=True)
    if logits is raw:
        return order
    return order.gather(-1, logits.gather(-1, order).argsort(dim=-1, descending=True, stable=True))


def get_bias(gile: PreTrainedModel, language: str | None) -> float:
    """Returns the constant b of scores for documents in a language; 0 for a linear unit, whose codes contain it."""
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
) -> Tensor:
    """Computes `(L, J)` codes of labels from their texts, and from the rows of stored labels.

    Arguments are as in `LabelIndex.build`.

    Raises:
        ValueError: For a linear unit, an unknown language, or codes with NaN or infinity, or without a processor.
    """
    gile = getattr(model, "gile", model)
    if gile.config.output_layer == "linear":
        gile.project_labels()  # raises an error with the reason
    processor = check_processor(processor, gile.config)
    default = label_language or language
    tokenizer = processor.tokenizer
    special = [x for x in (tokenizer.unk_token_id, tokenizer.pad_token_id) if x is not None]
    unknown: list[str] = []

    def batches() -> Iterator[Tensor]:
        for start in range(0, len(label_set), batch_size):
            labels = [label_set[column] for column in range(start, min(start + batch_size, len(label_set)))]
            # The language of a label takes precedence.
            languages = [label.language or default for label in labels] if gile.config.languages else None
            texts = [label.text for label in labels]
            words = processor(label_text=texts, label_language=languages, return_tensors="pt").to(gile.device)
            is_unknown = torch.isin(words["label_input_ids"], words["label_input_ids"].new_tensor(special)).all(-1)
            unknown.extend(repr(labels[row].name) for row in is_unknown.nonzero()[:, 0].tolist())
            rows = model.get_label_rows(labels, default) if hasattr(model, "get_label_rows") else None
            yield gile.project_labels(**words, language=language, label_language=languages, label_rows=rows)

    codes = join_codes(batches(), len(label_set), dtype)
    if unknown and not gile.config.text_config.reads_pretrained and gile.label_rows is None:
        _logger.warning(
            "the model knows no word of some labels, and gives them the same score "
            f"({len(unknown):,}): {', '.join(unknown[:3])}"
        )
    return codes


def join_codes(batches: Iterable[Tensor], size: int, dtype: torch.dtype | None) -> Tensor:
    """Copies batches of `(C, J)` label codes into an `(L, J)` tensor: `size` is L, `dtype` by default that of batches.

    Raises:
        ValueError: If a code contains NaN or infinity.
    """
    codes = torch.empty(0)
    start = 0
    with torch.inference_mode(False), torch.no_grad():
        for batch in batches:
            if start == 0:
                codes = torch.empty(size, batch.shape[1], dtype=dtype or batch.dtype, device=batch.device)
            codes[start : start + len(batch)] = batch
            start += len(batch)
        return finite_codes(codes)


def finite_codes(codes: Tensor) -> Tensor:
    """Returns `(L, J)` label codes whose numbers are all finite.

    Raises:
        ValueError: If a code contains NaN or infinity; the message names the label.
    """
    for start in range(0, len(codes), 4096):
        part = codes[start : start + 4096]
        if not is_finite(part):
            is_valid = part.isfinite().all(-1)
            raise ValueError(
                f"the code of label {start + int((~is_valid).nonzero()[0])} contains NaN or infinity in "
                f"{codes.dtype}; use torch.bfloat16, which has the range of float32"
            )
    return codes
