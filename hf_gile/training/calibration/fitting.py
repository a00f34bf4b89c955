"""Fits calibrated probabilities and thresholds on validation documents, and stores them in the model."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ...metrics.batch import read_batch
from ...metrics.calibration import calibration_error, softmax_to_sigmoid_logits
from ...models import GileForSequenceClassification, LabelSet
from ...models.checks_gile import GROUPS
from ...models.losses_gile import IGNORE, widened
from ...models.search_gile import calibrated
from .curves import check_method, fit_calibration, fit_softmax_calibration
from .label_thresholds import LabelCounts, LabelThresholds, check_objective, fit_label_thresholds, group_threshold
from .promised_recall import GoldLogits, guaranteed_recall, promised_threshold
from .raising import PRICE, SharedRanking, lift, lift_calibration
from .score_counts import VALUES, ScoreCounts, above_edges
from .thresholds import MIN_DOCUMENTS, MIN_GOLD, best_threshold, rounded, tells_enough

_BINS = 15
_MAX_LOGITS = 1 << 25
"""Maximum number of logits stored for a single-label model (128 MB); beyond it, only every k-th document is stored."""

Stored = tuple[Mapping[str, Any], Mapping[str, float]]
"""A calibration and thresholds, as in `GileConfig`."""

NOTHING_STORED: Stored = ({}, {})

_IDENTITY = {"method": "platt", "scale": 1.0, "offset": 0.0}
"""Identity calibration of a group; a group without an entry would use the calibration of the other group."""

_UNUSUAL = 0.1
"""Share of the documents whose best label does not reach `GileConfig.usual_score`."""

_FEWEST, _ENOUGH = 10, 50
"""Numbers of documents: with fewer, `usual_score` stays unknown, or is that of the lowest."""

_NO_GUARANTEE = (
    "no recall is guaranteed for unseen labels, because too few of these documents have any; they keep their "
    "threshold, or use that of seen labels"
)

_MAX_COARSE_ERROR = 0.05
"""Maximum relative error of the micro-F1 computed from coarse counts. A larger error means that most logits are outside
`EDGES` or within a single interval, where thresholds of single labels would be arbitrary."""


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

    calibration: dict[str, Any]
    thresholds: dict[str, float]
    label_thresholds: Tensor
    figures: dict[str, Any] = field(default_factory=dict)
    usual_score: float = 0.0
    crowding: float = 1.0


@torch.no_grad()
def calibrate(
    model: GileForSequenceClassification,
    batches: Iterable[dict[str, Any]],
    *,
    method: str | None = None,
    label_thresholds: bool = True,
    objective: str = "micro_f1",
    columns: Sequence[int] | None = None,
    raise_unseen: bool = False,
    bf16: bool = False,
) -> dict[str, Any]:
    """Fits calibration and thresholds on validation documents, and sets them in the model.

        rows = encode_dataset(validation, processor, labels)
        figures = calibrate(model, DataLoader(rows, 64, collate_fn=GileDataCollator(processor)))

    Seen and unseen labels are calibrated separately and have separate thresholds. With fewer than 30 documents that
    have unseen labels, or 50 such gold labels, these share the calibration and the threshold of seen labels, and `note`
    says so. A group stays uncalibrated if its calibration does not improve held-out documents. If `config.force_label`
    is set, thresholds are fitted for the labels that a document has beside its best one.

    This sets `config.calibration`, `config.usual_score`, `config.thresholds` (the best micro-F1 of each group) and, in
    `label_set`, the thresholds of labels that differ from their group. It replaces earlier label thresholds, except in
    a group without gold labels in these documents. On an error, nothing is set. A model with
    `problem_type="single_label_classification"` gets no thresholds: it assigns the best label.

    Args:
        model: A `GileForSequenceClassification`.
        batches: Validation batches of `GileDataCollator`, with `labels`. Without `columns`, they are read twice.
        method: `"platt"` or `"spline"`, see `calibrated` of `hf_gile.models.search_gile`, or `"none"` to fit thresholds
            only. By default "spline", which is best on held-out documents, and "platt" for single-label models.
        label_thresholds: Whether to fit thresholds for single labels.
        objective: Metric that label thresholds maximize, `"micro_f1"` or `"macro_f1"`; or a guarantee, `"recall@0.8"`:
            the highest threshold of each group with this expected recall (`promised_recall.py`).
        columns: Candidate labels. By default all seen labels, and the unseen labels that are gold in a document.
        raise_unseen: Whether to `lift` separately calibrated unseen labels, few of which reach the top of a list.
        bf16: Whether to run under bfloat16 autocast.

    Returns:
        `documents`; `unusual_documents`, the share whose best label does not reach `config.usual_score` as stored
        before, where a tenth is usual; and for each fitted group, with the prefix `seen_` or `unseen_`:

        - `expected_calibration_error` and `top_5_expected_calibration_error` on these documents, as
          `CalibrationMetrics` computes them, with the suffixes `_before`, as stored in the model, and `_after`;
        - with `raise_unseen`, `raised`, see `lift`;
        - `threshold`, and `micro_f1` and `recall` at this threshold on these documents; with the suffix `_before`, at
          the stored one, by default 0.5; for a guarantee, also `promised_recall` and `labels_per_document`;
        - with `label_thresholds`: `held_out_micro_f1` and `held_out_macro_f1` of a common threshold fitted on half of
          the documents and measured on the other half; the same for label thresholds, with the suffix
          `_of_label_thresholds`; `shrinkage` (None if the common threshold is best); and `label_thresholds`, the number
          of labels with a separate threshold. These are missing if all logits are below 1/8 or above 60.

        Single-label models only have the calibration errors, `accuracy_before` and `accuracy_after`.

    Raises:
        ValueError: If an option is unknown, batches have no labels, or too few documents have candidate labels.
    """
    single = model.config.problem_type == "single_label_classification"
    fits = _read_method(method, model.config.problem_type)
    recall = _read_recall(objective, single)
    chosen = _select_candidates(model, batches, columns)
    seen = model.stored_labels.seen()[chosen]
    was_training = model.training
    stored = model.config.calibration, model.config.thresholds
    usual = model.config.usual_score
    try:
        documents = _score_candidates(model.eval(), batches, chosen, bf16)
        if single:
            fitted = _fit_softmax(documents, seen, stored[0], usual)
        else:
            best = _BestLogits(seen)
            documents = best.collect(documents)
            fitted = _fit_groups(documents, seen, fits, recall, label_thresholds, objective, raise_unseen, stored)
            fitted = best.summarized(fitted, stored, usual)
            if recall is not None and "unseen" not in fitted.thresholds and not model.stored_labels.seen().all():
                fitted.figures["note"] = _NO_GUARANTEE
    finally:
        model.train(was_training)
    _store(model, chosen, fitted)
    return fitted.figures


def _read_method(method: str | None, problem_type: str | None) -> str | None:
    """Returns the calibration method, or None for thresholds only."""
    single = problem_type == "single_label_classification"
    if method == "none" and not single:
        return None
    method = method or ("platt" if single else "spline")
    check_method(method, problem_type)
    return method


def _read_recall(objective: str, single: bool) -> float | None:
    """Returns the recall that an objective guarantees; None for other objectives, which must exist."""
    recall = guaranteed_recall(objective, single)
    if recall is None:
        check_objective(objective)
    return recall


class _BestLogits:
    """The highest logits of seen and of unseen labels of each document: calibration keeps the order within a group."""

    def __init__(self, seen: Tensor) -> None:
        self._groups = [seen, ~seen]
        self._best: list[Tensor] = []

    def collect(self, documents: Iterable[tuple[Tensor, Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
        """Adds batches of documents, and yields them unchanged."""
        for logits, gold in documents:
            ranked = widened(logits).cpu()
            highest = [ranked.masked_fill(~group, -torch.inf).max(1).values for group in self._groups]
            self._best.append(torch.stack(highest, 1))
            yield logits, gold

    def probabilities(self, calibration: Mapping[str, Any]) -> Tensor:
        """Returns the `(N,)` calibrated probabilities of the best labels."""
        logits = torch.cat(self._best)
        return calibrated(logits, torch.tensor([True, False]), calibration).max(1).values.sigmoid()

    def summarized(self, fitted: Calibration, stored: Stored, usual: float) -> Calibration:
        """Adds the summary of `_with_usual_score`."""
        before, after = map(self.probabilities, (stored[0], fitted.calibration))
        return _with_usual_score(fitted, usual, before, after)


def _with_usual_score(
    fitted: Calibration,
    usual: float,
    before: Tensor,
    after: Tensor,
) -> Calibration:
    """Adds the summary of the probabilities of the best label of N documents.

    Args:
        fitted: The fit.
        usual: The stored `usual_score`, or 0.
        before: `(N,)` probabilities with the stored calibration.
        after: `(N,)` probabilities with the new calibration.
    """
    figures = dict(fitted.figures)
    if usual:
        figures["unusual_documents"] = float((before < usual).double().mean())
    if len(after) < _FEWEST:
        return replace(fitted, figures=figures)
    share = _UNUSUAL if len(after) >= _ENOUGH else 0.0  # the lowest of few
    return replace(fitted, figures=figures, usual_score=rounded(float(after.double().quantile(share))))


def _fit_groups(
    documents: Iterable[tuple[Tensor, Tensor]],
    seen: Tensor,
    method: str | None,
    recall: float | None,
    label_thresholds: bool,
    objective: str,
    raise_unseen: bool,
    stored: Stored,
) -> Calibration:
    """Fits calibration and thresholds of seen and unseen labels on logits and gold labels of batches."""
    ranking = SharedRanking() if raise_unseen and method is not None else None
    documents = documents if ranking is None else ranking.collect(documents, seen)
    if recall is not None:
        return fit_promise(documents, seen, method, recall, ranking, stored)
    counts = _count_scores(documents, seen, bool(stored[1].get("at_least")))
    return fit(counts, method, label_thresholds, objective, ranking, stored)


def fit_promise(
    documents: Iterable[tuple[Tensor, Tensor]],
    seen: Tensor,
    method: str | None,
    recall: float,
    ranking: SharedRanking | None = None,
    stored: Stored = NOTHING_STORED,
) -> Calibration:
    """Fits a calibration and thresholds that guarantee a recall, for each group with enough documents.

    Args:
        documents: For each batch, `(B, C)` logits of the candidates and `(B, P)` gold label indices, padded with -100.
        seen: `(C,)` booleans.
        method: As in `calibrate`.
        recall: The guaranteed recall.
        ranking: As in `fit`; it is complete when the documents were read.
        stored: As in `fit`.

    Returns:
        As in `fit`; `thresholds` contains only groups with a guarantee.
    """
    gold = GoldLogits(seen)
    counts = _count_scores(gold.collect(documents), seen, bool(stored[1].get("at_least")))
    fitted = fit(counts, method, label_thresholds=False, ranking=ranking, stored=stored)
    thresholds, figures = dict(fitted.thresholds), dict(fitted.figures)
    for group in fitted.thresholds:
        probabilities = [_of_group(logits, group, fitted.calibration).sigmoid() for logits in gold.by_group[group]]
        thresholds[group] = promised_threshold(probabilities, recall)
        assigned = _of_group(VALUES, group, fitted.calibration).sigmoid() >= thresholds[group]
        hits, num_assigned = counts.hits(group, assigned)
        figures[f"{group}_recall"] = hits / counts.evidence(group)[1]
        figures[f"{group}_threshold"], figures[f"{group}_promised_recall"] = thresholds[group], recall
        figures[f"{group}_labels_per_document"] = num_assigned / counts.documents
        figures.pop(f"{group}_micro_f1")
    return replace(fitted, thresholds=thresholds, figures=figures)


def _count_scores(
    documents: Iterable[tuple[Tensor, Tensor]],
    seen: Tensor,
    force_label: bool,
) -> ScoreCounts:
    counts = ScoreCounts(seen, force_label=force_label)
    for logits, gold in documents:
        counts.update(logits, gold)
    return counts


def fit(
    counts: ScoreCounts,
    method: str | None = "spline",
    label_thresholds: bool = True,
    objective: str = "micro_f1",
    ranking: SharedRanking | None = None,
    stored: Stored = NOTHING_STORED,
    **options: Any,
) -> Calibration:
    """Fits calibration and thresholds on counts of logits.

    Args:
        counts: Counts of validation documents.
        method: As in `calibrate`; None to skip the calibration.
        label_thresholds: As in `calibrate`.
        objective: As in `calibrate`.
        ranking: Ranking of the same documents, by which to raise calibrated logits of unseen labels.
        stored: The calibration and thresholds that are replaced, for the figures before.
        options: Options of `fit_label_thresholds`.

    Returns:
        The fitted values.

    Raises:
        ValueError: If no document has one of the labels.
    """
    calibration: dict[str, Any] = {}
    thresholds: dict[str, float] = {}
    thresholds_by_label = torch.full((len(counts.seen),), math.nan, dtype=torch.double)
    figures: dict[str, Any] = {"documents": counts.documents}
    crowding: float = stored[0].get("unseen", {}).get("crowding", 1.0)
    for group in GROUPS:
        index, labels = int(group == "seen"), counts.seen == (group == "seen")
        cells, gold = counts.cells[:, index], counts.gold[:, index]
        if not gold.any():
            continue
        evidence = counts.evidence(group)
        num_gold = evidence[1]
        if group == "unseen" and not tells_enough(*evidence):
            shared = "keep theirs" if "unseen" in stored[1] else "use the calibration and the threshold of seen labels"
            figures["note"] = _note(*evidence, shared)
            continue
        calibration[group] = _IDENTITY
        if method is not None and _improves(method, cells, gold):
            calibration[group] = fit_calibration(method, VALUES, cells.sum(0), gold.sum(0))
        if ranking is not None and {"seen", "unseen"} == set(calibration):
            figures["unseen_raised"] = raised = _best_raise(ranking, calibration)
            if raised:
                calibration["unseen"] = lift_calibration(calibration["unseen"], raised)
            crowding = ranking.crowding(
                lambda logits: _of_group(logits, "seen", calibration),
                lambda logits: _of_group(logits, "unseen", calibration),
            )
        common, micro_f1 = best_threshold(counts, group)
        thresholds[group] = rounded(_of_group(torch.tensor([common]), group, calibration).sigmoid().item())
        figures[f"{group}_threshold"] = thresholds[group]
        figures[f"{group}_micro_f1"] = micro_f1
        figures[f"{group}_recall"] = counts.hits(group, common <= VALUES)[0] / num_gold
        compared = _compare(counts, group, stored, _of_group(VALUES, group, calibration).sigmoid())
        figures |= {f"{group}_{name}": value for name, value in compared.items()}
        if label_thresholds and gold.any(1).all():
            parts = _parts(counts, labels)
            if all(_is_resolved(*part) for part in parts):
                *halves, whole = (part for part, _ in parts)
                fitted = fit_label_thresholds(halves, whole, objective, **options)
                differs = (fitted.thresholds - common).abs() > 1e-6
                probabilities = _of_group(fitted.thresholds, group, calibration).sigmoid()
                thresholds_by_label[labels] = torch.where(differs, probabilities, math.nan)
                summary = _figures(fitted, int(differs.sum()))
                figures |= {f"{group}_{name}": value for name, value in summary.items()}
    if not thresholds and "note" not in figures:
        raise ValueError(
            f"none of the {counts.documents} documents has one of the {len(counts.seen)} candidate labels as a gold "
            "label: check that the documents were encoded with the label set of the model, and columns"
        )
    return Calibration(calibration, thresholds, thresholds_by_label, figures, crowding=crowding)


def _compare(counts: ScoreCounts, group: str, stored: Stored, after: Tensor) -> dict[str, float]:
    """Measures a group with what was stored, and its calibration errors `after` the fit, probabilities of `VALUES`."""
    index = int(group == "seen")
    cells, gold = counts.of_group(group)
    _, num_gold = counts.evidence(group)
    before = _of_group(VALUES, group, stored[0]).sigmoid()
    hits, assigned = counts.hits(group, before >= stored[1].get(group, stored[1].get("seen", 0.5)))
    figures = {"micro_f1_before": 2 * hits / (assigned + num_gold), "recall_before": hits / num_gold}
    scores = {"": (cells, gold), f"top_{counts.top_k}_": (counts.best_cells[index], counts.best_gold[index])}
    for name, (number, correct) in scores.items():
        figures[f"{name}expected_calibration_error_before"] = _error(before, number, correct)
        figures[f"{name}expected_calibration_error_after"] = _error(after, number, correct)
    return figures


def _best_raise(ranking: SharedRanking, calibration: Mapping[str, Any]) -> float:
    """Returns r of `lift` for unseen labels that are calibrated separately."""
    raised = ranking.best_raise(
        PRICE,
        lambda logits: _of_group(logits, "seen", calibration),
        lambda logits, raised: lift(_of_group(logits, "unseen", calibration), raised),
    )
    return max(0.0, raised)


def _of_group(logits: Tensor, group: str, calibration: Mapping[str, Any]) -> Tensor:
    """Calibrates `(..., C)` logits of labels that are all seen, or all unseen."""
    return calibrated(logits, torch.full(logits.shape[-1:], group == "seen"), calibration)


def _note(documents: int, gold: int, outcome: str) -> str:
    return (
        f"{documents:,} document{'s have' if documents > 1 else ' has'} unseen labels, {gold:,} in total: too few to "
        f"fit (at least {MIN_DOCUMENTS} documents and {MIN_GOLD} labels), so unseen labels {outcome}"
    )


def _improves(method: str, cells: Tensor, gold: Tensor) -> bool:
    """Tests whether a calibration of one half of the documents improves the other half, `(2, BINS)` each.

    If a half has no gold label, this cannot be tested, and returns True.
    """
    if not bool(gold.any(1).all()):
        return True
    gain = 0.0
    for half in range(2):
        fitted = {"seen": fit_calibration(method, VALUES, cells[half], gold[half])}
        logits = _of_group(VALUES, "seen", fitted)
        gain += _likelihood(logits, cells[1 - half], gold[1 - half]) - _likelihood(
            VALUES, cells[1 - half], gold[1 - half]
        )
    return gain > 0


def _likelihood(logits: Tensor, cells: Tensor, gold: Tensor) -> float:
    """Returns the log-likelihood of the gold labels."""
    occurs = cells > 0
    logits, cells, gold = logits[occurs].double(), cells[occurs].double(), gold[occurs].double()
    return float((gold * logits - cells * functional.softplus(logits)).sum())


def _parts(counts: ScoreCounts, labels: Tensor) -> list[tuple[LabelCounts, float]]:
    """Returns counts of labels for each half of the documents and for all, with the best common micro-F1."""
    group = int(counts.seen[labels][0])
    parts = []
    for part in (slice(0, 1), slice(1, 2), slice(0, 2)):
        num_gold = counts.num_gold[part, labels].sum(0)
        forced = counts.forced_cells[part, group].sum(0), counts.forced_gold[part, group].sum(0)
        common, micro_f1 = group_threshold(
            counts.cells[part, group].sum(0), counts.gold[part, group].sum(0), int(num_gold.sum()), forced
        )
        cells, gold = (above_edges(table[part, labels].sum(0)) for table in (counts.label_cells, counts.label_gold))
        parts.append((LabelCounts(cells, gold, num_gold, common), micro_f1))
    return parts


def _is_resolved(part: LabelCounts, micro_f1: float) -> bool:
    """Checks whether the coarse counts of single labels agree with the fine counts of all labels."""
    coarse = part.figures(torch.full((len(part.num_gold),), part.common))["micro_f1"]
    return abs(coarse - micro_f1) <= _MAX_COARSE_ERROR * micro_f1


def _figures(fitted: LabelThresholds, number: int) -> dict[str, Any]:
    best = fitted.held_out[fitted.shrinkage]
    common = fitted.held_out.get(math.inf, best)
    return {
        **{f"held_out_{name}": value for name, value in common.items()},
        **{f"held_out_{name}_of_label_thresholds": value for name, value in best.items()},
        "shrinkage": None if math.isinf(fitted.shrinkage) else fitted.shrinkage,
        "label_thresholds": number,
    }


def _fit_softmax(
    documents: Iterator[tuple[Tensor, Tensor]], seen: Tensor, stored_calibration: Mapping[str, Any], usual: float
) -> Calibration:
    """Fits a single-label model on logits of whole documents, since a softmax needs all logits of a document."""
    stored: list[tuple[Tensor, Tensor]] = []
    size, step, number = max(1, _MAX_LOGITS // len(seen)), 1, 0
    for logits, gold in documents:
        several = (gold != IGNORE).sum(1) > 1
        if bool(several.any()):
            raise ValueError(
                f"document {number + int(several.nonzero()[0])} has several gold labels, but this model assigns "
                "a single label (problem_type 'single_label_classification'): leave such documents out"
            )
        for row, columns in zip(widened(logits).cpu(), gold[:, 0].cpu(), strict=True):
            if number % step == 0:
                stored.append((row.clone(), columns))  # a copy, so that the batch can be freed
                if len(stored) > size:  # halves the stored documents, and the share of later documents to store
                    stored, step = stored[::2], 2 * step
            number += 1
    stored = [(row, column) for row, column in stored if column != IGNORE and not row[column].isneginf()]
    if not stored:
        raise ValueError(f"none of the {number} documents has one of the {len(seen)} candidate labels as a gold label")
    all_logits, gold = torch.stack([row for row, _ in stored]), torch.stack([column for _, column in stored])
    unseen = int((~seen[gold]).sum())
    calibration: dict[str, Any] = {}
    if tells_enough(unseen, unseen):
        calibration = fit_softmax_calibration(all_logits, gold, seen)
    elif unseen < len(gold):  # too few: all labels use the calibration of seen labels
        calibration = fit_softmax_calibration(all_logits, gold, torch.ones_like(seen))
    logits_before = calibrated(all_logits, seen, stored_calibration)
    before, after = ScoreCounts(seen), ScoreCounts(seen)
    for start in range(0, len(all_logits), before.chunk_size):
        rows, columns = all_logits[start : start + before.chunk_size], gold[start : start + before.chunk_size, None]
        before.update(softmax_to_sigmoid_logits(logits_before[start : start + before.chunk_size]), columns)
        after.update(softmax_to_sigmoid_logits(calibrated(rows, seen, calibration)), columns)
    figures: dict[str, Any] = {"documents": number}
    for when, counts, logits in (
        ("before", before, logits_before),
        ("after", after, calibrated(all_logits, seen, calibration)),
    ):
        errors = fit(counts, None, label_thresholds=False).figures
        figures |= {f"{name.removesuffix('_before')}_{when}": errors[name] for name in errors if "error_before" in name}
        figures[f"accuracy_{when}"] = float((logits.argmax(-1) == gold).double().mean())
    if unseen and not tells_enough(unseen, unseen):
        figures["note"] = _note(unseen, unseen, "use the calibration of seen labels")
    fitted = Calibration(
        calibration,
        {},
        torch.full((len(seen),), math.nan, dtype=torch.double),
        figures,
        crowding=stored_calibration.get("unseen", {}).get("crowding", 1.0),
    )
    logits_after = calibrated(all_logits, seen, calibration)
    best_before, best_after = (each.softmax(-1).max(-1).values for each in (logits_before, logits_after))
    return _with_usual_score(fitted, usual, best_before, best_after)


def _error(probabilities: Tensor, cells: Tensor, gold: Tensor) -> float:
    positions = (probabilities * _BINS).long().clamp(max=_BINS - 1)
    sums = torch.zeros(3, _BINS, dtype=torch.double)
    sums.index_add_(1, positions, torch.stack([cells.double(), probabilities.double() * cells, gold.double()]))
    return calibration_error(*sums)


def _select_candidates(
    model: GileForSequenceClassification, batches: Iterable[dict[str, Any]], columns: Sequence[int] | None
) -> Tensor:
    """Returns `(C,)` indices of the candidate labels, ascending."""
    number = model.config.num_labels
    if columns is not None:
        chosen = torch.as_tensor(columns, dtype=torch.long).cpu()
        if not len(chosen) or len(chosen.unique()) < len(chosen) or not bool(((chosen >= 0) & (chosen < number)).all()):
            raise ValueError(
                f"columns must be distinct indices of the {number} stored labels, got {len(chosen)}, such as "
                f"{chosen[:8].tolist()}"
            )
        return chosen.sort().values
    chosen = model.stored_labels.seen()
    if not bool(chosen.all()):
        if iter(batches) is batches:
            raise ValueError(
                "without columns=, batches are read twice, to collect their unseen labels: pass a DataLoader or "
                "a list, not a generator; or the candidate labels as columns="
            )
        for batch in batches:
            gold = _gold(batch)
            gold_columns = gold[gold >= 0] if not _is_multi_hot(gold) else gold.nonzero()[:, 1]
            if len(gold_columns) and int(gold_columns.max()) >= number:
                raise ValueError(
                    f"a batch has gold label index {int(gold_columns.max())}, but the model has {number} labels"
                )
            chosen[gold_columns.long().cpu()] = True
    if not bool(chosen.any()):
        raise ValueError(
            "there are no candidate labels: no stored label is marked as seen, and no document has a gold label; mark "
            "the labels of training documents with label_set.with_counts(...)"
        )
    return chosen.nonzero().flatten()


def _score_candidates(
    model: GileForSequenceClassification, batches: Iterable[dict[str, Any]], chosen: Tensor, bf16: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields `(B, C)` logits and `(B, P)` gold positions among the candidates, padded with -100, for each batch."""
    positions = torch.full((model.config.num_labels + 1,), IGNORE)
    positions[chosen] = torch.arange(len(chosen))
    is_complete = len(chosen) == model.config.num_labels
    for batch in batches:
        gold = _gold(batch)
        inputs = {
            name: value.to(model.device) if isinstance(value, Tensor) else value
            for name, value in batch.items()
            if name != "labels"
        }
        with torch.no_grad(), torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
            logits = model(**inputs).logits
        logits, gold = read_batch(logits, gold)
        logits = logits if is_complete else logits[:, chosen.to(logits.device)]
        yield logits, positions.to(gold.device)[gold.masked_fill(gold == IGNORE, -1)]


def _gold(batch: Mapping[str, Any]) -> Tensor:
    gold = batch.get("labels") if hasattr(batch, "get") else None
    if not isinstance(gold, Tensor):
        raise ValueError(
            "batches must come from a GileDataCollator, with labels: DataLoader(encode_dataset(...), 64, collate_fn="
            f"GileDataCollator(processor)); got {sorted(batch) if gold is None else type(gold).__name__}"
        )
    return gold


def _is_multi_hot(gold: Tensor) -> bool:
    return gold.is_floating_point() or gold.dtype == torch.bool


def with_number(calibration: Mapping[str, Any], number: int, crowding: float) -> dict[str, Any]:
    """Notes the number of unseen labels that their calibration was fitted with, and their crowding; see `calibrated`.

    A missing group gets the calibration of the other, which it is calibrated by in any case.
    """
    either = next(iter(calibration.values()), _IDENTITY)
    noted = {"labels": number, "crowding": crowding}
    seen = {name: value for name, value in calibration.get("seen", either).items() if name not in noted}
    return {"seen": seen, "unseen": calibration.get("unseen", either) | noted}


def _store(model: GileForSequenceClassification, chosen: Tensor, fitted: Calibration) -> None:
    """Stores the result in the model; on invalid values, the model stays unchanged."""
    config, before = model.config, (model.config.calibration, model.config.thresholds)
    labels, single = model.label_set, config.problem_type == "single_label_classification"
    if labels is not None:
        changed = list(labels)
        for column, threshold in zip(chosen.tolist(), fitted.label_thresholds.tolist(), strict=True):
            if single or ("seen" if labels[column].seen else "unseen") in fitted.thresholds:
                threshold = None if math.isnan(threshold) else rounded(threshold)
                changed[column] = replace(changed[column], threshold=threshold)
        labels = LabelSet(changed)
    config.calibration, config.thresholds = fitted.calibration or before[0], fitted.thresholds
    if not single:  # groups of a softmax are only valid together
        unchanged = before[1].keys() - fitted.thresholds.keys() - {"at_least"}
        others = {group: before[0].get(group, _IDENTITY) for group in unchanged}
        config.calibration, config.thresholds = others | fitted.calibration, before[1] | fitted.thresholds
        if all(entry == _IDENTITY for entry in config.calibration.values()):
            config.calibration = {}
    number = before[0].get("unseen", {}).get("labels")
    if "unseen" in fitted.calibration:
        number = int((~model.stored_labels.seen()[chosen]).sum())
    if number:
        config.calibration = with_number(config.calibration, number, fitted.crowding)
    try:
        config.validate_calibration()
    except ValueError:
        config.calibration, config.thresholds = before
        raise
    config.usual_score = fitted.usual_score
    model.label_set = labels
