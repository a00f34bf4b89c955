"""Fits calibrated probabilities, and thresholds of independent labels, on validation documents.

Independent labels are fitted on counts; the softmax of a single-label model needs all logits of a document.

Shapes: `B` documents in the batch, `N` documents, `C` candidate labels.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ...metrics.calibration import calibration_error, softmax_to_sigmoid_logits
from ...models.checks_gile import GROUPS
from ...models.losses_gile import IGNORE, widened
from ...models.search_gile import calibrated
from .curves import fit_calibration, fit_softmax_calibration, smoothed
from .raising import PRICE, SharedRanking, lift, lift_calibration
from .score_counts import TOP_K, VALUES, GroupCounts, ScoreCounts
from .thresholds import (
    MIN_DOCUMENTS,
    MIN_GOLD,
    SHRINKAGES,
    fit_label_thresholds,
    promised_threshold,
    rounded,
    tells_enough,
)

_BINS = 15

_MAX_LOGITS = 1 << 25
"""Maximum number of logits in memory (128 MB); beyond it, only every k-th document is used."""

_CONVERTED_AT_ONCE = 64

IDENTITY = {"method": "platt", "scale": 1.0, "offset": 0.0}
"""Identity calibration of a group; a group without an entry would use the calibration of the other group."""


@dataclass(frozen=True)
class Calibration:
    """The result of fitting on validation documents.

    Args:
        calibration: `GileConfig.calibration`.
        thresholds: `GileConfig.thresholds`.
        label_thresholds: `(C,)` probabilities of the candidate labels; NaN for labels with the threshold of their
            group.
        figures: The return value of `calibrate`.
        usual_score: `GileConfig.usual_score`.
        crowding: See `SharedRanking.crowding`; as stored before if it was not measured.
    """

    calibration: Mapping[str, Any] = field(default_factory=dict)
    thresholds: Mapping[str, float] = field(default_factory=dict)
    label_thresholds: Tensor = field(default_factory=lambda: torch.empty(0))
    figures: dict[str, Any] = field(default_factory=dict)
    usual_score: float = 0.0
    crowding: float = 1.0


def fit(
    counts: ScoreCounts,
    method: str | None = "spline",
    *,
    objective: str = "micro_f1",
    label_thresholds: bool = True,
    ranking: SharedRanking | None = None,
    stored: Calibration | None = None,
    shrinkages: Sequence[float] = SHRINKAGES,
) -> Calibration:
    """Fits calibration and thresholds of each group with enough documents.

    Args:
        counts: Counts of validation documents, with the recall to guarantee, if any.
        method: As in `calibrate`; None to skip the calibration.
        objective: Metric that thresholds of single labels maximize.
        label_thresholds: As in `calibrate`; not fitted if a recall is guaranteed.
        ranking: Ranking of the same documents, by which to raise calibrated logits of unseen labels.
        stored: What is replaced, for the figures before.
        shrinkages: As in `fit_label_thresholds`.

    Returns:
        The fitted values.

    Raises:
        ValueError: If no document has one of the labels, or too few have for the recall.
    """
    stored = stored or Calibration()
    calibration: dict[str, Any] = {}
    thresholds: dict[str, float] = {}
    thresholds_by_label = torch.full((len(counts.seen),), math.nan, dtype=torch.double)
    figures: dict[str, Any] = {"documents": counts.documents}
    crowding = stored.crowding
    for group in fitted_groups(counts):
        calibration[group] = _fit_curve(counts, group, method)
        if ranking is not None and len(calibration) == len(GROUPS):
            calibration["unseen"], figures["unseen_raised"] = _raise(ranking, calibration)
            crowding = _mapped(ranking, calibration).crowding()
        curve = partial(_of_group, group=group, calibration=calibration)
        thresholds[group], measured = _fit_threshold(counts, group, curve)
        of_group = counts.of_group(group)
        measured |= {"threshold": thresholds[group]} | _measure_before(of_group, group, stored)
        measured |= calibration_errors(of_group, curve(VALUES).sigmoid(), "after")
        if label_thresholds and counts.recall is None:
            fitted = fit_label_thresholds(counts, group, objective, shrinkages)
            if fitted is not None:
                logits, held_out = fitted
                differs = (logits - of_group.best_threshold()[0]).abs() > 1e-6
                thresholds_by_label[counts.of_labels(group)] = torch.where(differs, curve(logits).sigmoid(), math.nan)
                measured |= held_out | {"label_thresholds": int(differs.sum())}
        figures |= {f"{group}_{name}": value for name, value in measured.items()}
    unseen = counts.of_group("unseen")
    if unseen.has_gold and "unseen" not in thresholds:
        keeps = "unseen" in stored.thresholds
        outcome = "keep theirs" if keeps else "use the calibration and the threshold of seen labels"
        figures["note"] = note_of_few(unseen.num_documents, unseen.num_gold, outcome)
    elif not thresholds:
        raise ValueError(
            f"none of the {counts.documents} documents has one of the {len(counts.seen)} candidate labels as a gold "
            "label: check that the documents were encoded with the label set of the model, and columns"
        )
    return Calibration(calibration, thresholds, thresholds_by_label, figures, crowding=crowding)


def _fit_curve(counts: ScoreCounts, group: str, method: str | None) -> Mapping[str, Any]:
    """Fits the calibration curve of a group; it stays the identity without a method, or where that is no worse."""
    if method is None or not _improves(method, counts, group):
        return IDENTITY
    return fit_calibration(method, VALUES, *counts.of_group(group).cells)


def _raise(ranking: SharedRanking, calibration: Mapping[str, Any]) -> tuple[Mapping[str, Any], float]:
    """Returns the calibration of unseen labels with their logits raised at the usual price, and the raise."""
    raised = max(0.0, _mapped(ranking, calibration).best_raise(PRICE, lift))
    return lift_calibration(calibration["unseen"], raised) if raised else calibration["unseen"], raised


def _fit_threshold(counts: ScoreCounts, group: str, curve: Callable[[Tensor], Tensor]) -> tuple[float, dict[str, Any]]:
    """Fits the common threshold of a group, a probability: the best by micro-F1, or one that guarantees the recall.

    Args:
        counts: Counts of validation documents.
        group: "seen" or "unseen".
        curve: Calibrates logits of the group.

    Returns:
        The threshold, and figures of the documents at it.
    """
    of_group = counts.of_group(group)
    if counts.recall is None:
        logit, _ = of_group.best_threshold()
        return rounded(curve(torch.tensor([logit])).sigmoid().item()), _measure(of_group, logit <= VALUES)
    threshold = promised_threshold([curve(logits).sigmoid() for logits in counts.gold_logits[group]], counts.recall)
    reached = curve(VALUES).sigmoid() >= threshold
    per_document = of_group.assigned(reached)[0] / counts.documents
    recall = _measure(of_group, reached)["recall"]
    return threshold, {"recall": recall, "promised_recall": counts.recall, "labels_per_document": per_document}


def fitted_groups(counts: ScoreCounts) -> list[str]:
    """Returns the groups that are calibrated: those with gold labels, and unseen labels only with enough of them."""
    seen = counts.of_group("seen")
    unseen = counts.of_group("unseen")
    is_fitted = {
        "seen": seen.has_gold,
        "unseen": unseen.has_gold and tells_enough(unseen.num_documents, unseen.num_gold),
    }
    return [group for group in GROUPS if is_fitted[group]]


def calibration_errors(counts: GroupCounts, probabilities: Tensor, when: str) -> dict[str, float]:
    """Returns the expected calibration errors of a group, given the `(BINS,)` probabilities of `VALUES`."""
    positions = (probabilities * _BINS).long().clamp(max=_BINS - 1)
    figures = {}
    for name, (cells, gold) in {"": counts.cells, f"top_{TOP_K}_": counts.best}.items():
        sums = torch.zeros(3, _BINS, dtype=torch.double)
        sums.index_add_(1, positions, torch.stack([cells.double(), probabilities.double() * cells, gold.double()]))
        figures[f"{name}expected_calibration_error_{when}"] = calibration_error(*sums)
    return figures


def note_of_few(documents: int, gold: int, outcome: str) -> str:
    """Says that too few documents have unseen labels, and what happens to these."""
    return (
        f"{documents:,} document{'s have' if documents > 1 else ' has'} unseen labels, {gold:,} in total: too few to "
        f"fit (at least {MIN_DOCUMENTS} documents and {MIN_GOLD} labels), so unseen labels {outcome}"
    )


def _measure(counts: GroupCounts, reached: Tensor) -> dict[str, float]:
    """Returns the micro-F1 and recall of a group, given which of `VALUES` reach the threshold."""
    assigned, hits = counts.assigned(reached)
    return {"micro_f1": 2 * hits / (assigned + counts.num_gold), "recall": hits / counts.num_gold}


def _measure_before(counts: GroupCounts, group: str, stored: Calibration) -> dict[str, float]:
    """Measures a group with what was stored."""
    probabilities = _of_group(VALUES, group, stored.calibration).sigmoid()
    threshold = stored.thresholds.get(group, stored.thresholds.get("seen", 0.5))
    measured = _measure(counts, probabilities >= threshold)
    figures = {f"{name}_before": value for name, value in measured.items()}
    return figures | calibration_errors(counts, probabilities, "before")


def _mapped(ranking: SharedRanking, calibration: Mapping[str, Any]) -> SharedRanking:
    """Returns a ranking of calibrated logits."""
    seen, unseen = (partial(_of_group, group=group, calibration=calibration) for group in GROUPS)
    return ranking.mapped(seen, unseen)


def _of_group(logits: Tensor, group: str, calibration: Mapping[str, Any]) -> Tensor:
    """Calibrates `(..., C)` logits of labels that are all seen, or all unseen."""
    return calibrated(logits, torch.full(logits.shape[-1:], group == "seen"), calibration)


def _improves(method: str, counts: ScoreCounts, group: str) -> bool:
    """Tests whether a calibration fitted on half of the documents improves the other half.

    If a half has no gold label, this cannot be tested, and returns True.
    """
    if not counts.has_gold_in_both_halves(group):
        return True
    halves = [counts.of_group(group, half).cells for half in (slice(0, 1), slice(1, 2))]
    gain = 0.0
    for fitted_on, others in (halves, reversed(halves)):
        logits = _of_group(VALUES, "seen", {"seen": fit_calibration(method, VALUES, *fitted_on)})
        gain += _likelihood(logits, *others) - _likelihood(VALUES, *others)
    return gain > 0


def _likelihood(logits: Tensor, cells: Tensor, gold: Tensor) -> float:
    """Returns the log-likelihood of the gold labels, `smoothed`."""
    logits, cells, gold = smoothed(logits, cells, gold)
    return float((gold * logits - cells * functional.softplus(logits)).sum())


def fit_softmax(
    documents: Iterable[tuple[Tensor, Tensor]], seen: Tensor, stored: Calibration
) -> tuple[Calibration, Tensor, Tensor]:
    """Fits "platt" on documents with a gold label each: `(B, C)` logits, and `(B, P)` gold indices, of each batch.

    Returns:
        The fitted values, and the `(N,)` probabilities of the best labels before and after.

    Raises:
        ValueError: If a document has several gold labels, or none has any.
    """
    all_logits, gold, number = _collect(documents, len(seen))
    num_unseen = int((~seen[gold]).sum())
    is_enough = tells_enough(num_unseen, num_unseen)
    calibration: dict[str, Any] = {}
    if is_enough:
        calibration = fit_softmax_calibration(all_logits, gold, seen)
    elif num_unseen < len(gold):  # too few: all labels use the calibration of seen labels
        calibration = fit_softmax_calibration(all_logits, gold, torch.ones_like(seen))
    figures: dict[str, Any] = {"documents": number}
    best = []
    for when, applied in (("before", stored.calibration), ("after", calibration)):
        logits = calibrated(all_logits, seen, applied)
        counts = ScoreCounts(seen)
        for block, columns in zip(logits.split(_CONVERTED_AT_ONCE), gold.split(_CONVERTED_AT_ONCE), strict=True):
            counts.update(softmax_to_sigmoid_logits(block), columns[:, None])
        for group in fitted_groups(counts):
            errors = calibration_errors(counts.of_group(group), VALUES.sigmoid(), when)
            figures |= {f"{group}_{name}": error for name, error in errors.items()}
        figures[f"accuracy_{when}"] = float((logits.argmax(-1) == gold).double().mean())
        best.append(logits.softmax(-1).max(-1).values)
    if num_unseen and not is_enough:
        figures["note"] = note_of_few(num_unseen, num_unseen, "use the calibration of seen labels")
    none = torch.full((len(seen),), math.nan, dtype=torch.double)
    before, after = best
    return Calibration(calibration, {}, none, figures, crowding=stored.crowding), before, after


def _collect(documents: Iterable[tuple[Tensor, Tensor]], num_labels: int) -> tuple[Tensor, Tensor, int]:
    """Returns the `(N, C)` logits and the `(N,)` gold labels of documents that have one, and the number of all."""
    collected: list[tuple[Tensor, Tensor]] = []
    size = max(1, _MAX_LOGITS // num_labels)
    step = 1
    number = 0
    for logits, gold in documents:
        several = (gold != IGNORE).sum(1) > 1
        if bool(several.any()):
            raise ValueError(
                f"document {number + int(several.nonzero()[0])} has several gold labels, but this model assigns "
                "a single label (problem_type 'single_label_classification'): leave such documents out"
            )
        for row, column in zip(widened(logits), gold[:, 0], strict=True):
            if number % step == 0:
                collected.append((row.clone(), column))  # a copy, so that the batch can be freed
                if len(collected) > size:  # halves the documents, and the share of later ones
                    collected = collected[::2]
                    step *= 2
            number += 1
    collected = [(row, column) for row, column in collected if column != IGNORE and not row[column].isneginf()]
    if not collected:
        raise ValueError(f"none of the {number} documents has one of the {num_labels} candidate labels as a gold label")
    rows, columns = zip(*collected, strict=True)
    return torch.stack(rows), torch.stack(columns), number
