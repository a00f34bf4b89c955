"""Calibrates a model on batches of validation documents, and stores the calibration and the thresholds in it.

Shapes: `B` documents in the batch, `C` candidate labels, `P` gold labels of a document, padded.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ...metrics.batch import read_batch, read_indices, renumbered
from ...models import GileForSequenceClassification, LabelSet
from ...models.checks_gile import check_calibration
from ...models.losses_gile import make_targets, widened
from ...models.registration import evaluating
from ...models.search_gile import calibrated
from ..settings import check_choice
from .fitting import IDENTITY, Calibration, fit, fit_softmax
from .raising import SharedRanking
from .score_counts import ScoreCounts
from .thresholds import guaranteed_recall, rounded

_UNUSUAL = 0.1
"""Share of the documents whose best label does not reach `GileConfig.usual_score`."""

_FEWEST, _ENOUGH = 10, 50
"""Numbers of documents: with fewer, `usual_score` stays unknown, or is that of the lowest."""

_NO_GUARANTEE = (
    "no recall is guaranteed for unseen labels, because too few of these documents have any; they keep their "
    "threshold, or use that of seen labels"
)


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

    Seen and unseen labels have separate calibrations and thresholds. With fewer than 30 documents that have unseen
    labels, or 50 such gold labels, unseen labels share those of seen labels, and `note` says so. A group stays
    uncalibrated if that is better on held-out documents. With `config.force_label`, thresholds leave out best labels.

    This sets `config.calibration`, `config.usual_score`, `config.thresholds` and, in `label_set`, the thresholds of
    labels that differ from their group, except in a group without gold labels. On an error, nothing is set.
    Single-label models get no thresholds.

    Args:
        model: A `GileForSequenceClassification`.
        batches: Batches of `GileDataCollator`, or `labels` with `logits`; read twice without `columns`.
        method: `"platt"` or `"spline"`, see `calibrated` of `hf_gile.models.search_gile`, or `"none"` to fit thresholds
            only. By default "spline", which is best on held-out documents, and "platt" for single-label models.
        label_thresholds: Whether to fit thresholds for single labels.
        objective: Metric that label thresholds maximize, `"micro_f1"` or `"macro_f1"`; or a guarantee, `"recall@0.8"`.
        columns: Candidate labels. By default all seen labels, and the unseen labels that are gold in a document.
        raise_unseen: Whether to `lift` separately calibrated unseen labels, few of which reach the top of a list.
        bf16: Whether to run under bfloat16 autocast.

    Returns:
        `documents`; `unusual_documents`, the share whose best label does not reach `config.usual_score` as stored
        before; and for each fitted group, with the prefix `seen_` or `unseen_`:

        - `expected_calibration_error` and `top_5_expected_calibration_error`, as in `CalibrationMetrics`, with the
          suffixes `_before`, as stored in the model, and `_after`; with `raise_unseen`, `raised`, see `lift`;
        - `threshold`, and `micro_f1` and `recall` at it; with the suffix `_before`, at the stored one, by default 0.5;
          for a guarantee, also `promised_recall` and `labels_per_document`;
        - with `label_thresholds`, the figures of `fit_label_thresholds`, and `label_thresholds`, the number of labels
          with a separate threshold; missing if all logits are below 1/8 or above 60.

        Single-label models only have the calibration errors, `accuracy_before` and `accuracy_after`.

    Raises:
        ValueError: If an option is unknown, batches have no labels, or too few documents have candidate labels.
    """
    config = model.config
    single = config.problem_type == "single_label_classification"
    fits = _read_method(method, config.problem_type)
    recall = guaranteed_recall(objective)
    if single and recall is not None:
        raise ValueError(f"objective {objective}: a single-label model has no thresholds")
    chosen = _select_candidates(model, batches, columns)
    all_seen = model.stored_labels.seen()
    seen = all_seen[chosen]
    crowding = config.calibration.get("unseen", {}).get("crowding", 1.0)
    stored = Calibration(config.calibration, config.thresholds, usual_score=config.usual_score, crowding=crowding)
    with evaluating(model):
        documents = _score_candidates(model, batches, chosen, bf16)
        if single:
            fitted, before, after = fit_softmax(documents, seen, stored)
        else:
            counts = ScoreCounts(seen, config.force_label, recall)
            ranking = SharedRanking() if raise_unseen and fits else None
            options = {"method": fits, "objective": objective, "label_thresholds": label_thresholds}
            fitted, before, after = _fit_groups(documents, counts, ranking, stored, **options)
    if recall is not None and "unseen" not in fitted.thresholds and not all_seen.all():
        fitted.figures["note"] = _NO_GUARANTEE
    if stored.usual_score:
        fitted.figures["unusual_documents"] = float((before < stored.usual_score).double().mean())
    _store(model, chosen, replace(fitted, usual_score=_usual_score(after)))
    return fitted.figures


def _read_method(method: str | None, problem_type: str | None) -> str | None:
    """Returns the calibration method, or None for thresholds only."""
    methods = ["platt"] if problem_type == "single_label_classification" else ["spline", "platt", "none"]
    method = method or methods[0]
    check_choice(f"method for problem_type {problem_type!r}", method, methods)
    return None if method == "none" else method


def _fit_groups(
    documents: Iterable[tuple[Tensor, Tensor]],
    counts: ScoreCounts,
    ranking: SharedRanking | None,
    stored: Calibration,
    **options: Any,
) -> tuple[Calibration, Tensor, Tensor]:
    """Fits seen and unseen labels by `fit`; also returns the probabilities of the best labels before and after."""
    highest = []
    for logits, gold in documents:
        counts.update(logits, gold)
        highest.append(_highest_of_groups(logits, counts.seen))
        if ranking is not None:
            ranking.update(logits, gold, counts.seen)
    fitted = fit(counts, ranking=ranking, stored=stored, **options)
    before, after = (_probabilities(highest, each.calibration) for each in (stored, fitted))
    return fitted, before, after


def _highest_of_groups(logits: Tensor, seen: Tensor) -> Tensor:
    """Returns the `(B, 2)` highest logits of seen and of unseen labels: calibration keeps the order within a group."""
    ranked = widened(logits)
    return torch.stack([ranked.masked_fill(~group, -torch.inf).max(1).values for group in (seen, ~seen)], 1)


def _probabilities(highest: Sequence[Tensor], calibration: Mapping[str, Any]) -> Tensor:
    """Returns the calibrated probabilities of the best labels of documents, from `_highest_of_groups` of batches."""
    return calibrated(torch.cat([*highest]), torch.tensor([True, False]), calibration).max(1).values.sigmoid()


def _usual_score(best: Tensor) -> float:
    """Returns the score that the best labels of most documents reach, from their `(N,)` probabilities; 0 if unknown."""
    if len(best) < _FEWEST:
        return 0.0
    share = _UNUSUAL if len(best) >= _ENOUGH else 0.0  # the lowest of few
    return rounded(float(best.double().quantile(share)))


def _select_candidates(
    model: GileForSequenceClassification, batches: Iterable[dict[str, Any]], columns: Sequence[int] | None
) -> Tensor:
    """Returns `(C,)` indices of the candidate labels, ascending."""
    if columns is not None:
        return read_indices(columns, model.config.num_labels)
    chosen = model.stored_labels.seen()
    if not bool(chosen.all()):
        if iter(batches) is batches:
            raise ValueError(
                "without columns=, batches are read twice, to collect their unseen labels: pass a DataLoader or "
                "a list, not a generator; or the candidate labels as columns="
            )
        for batch in batches:
            chosen |= make_targets(batch["labels"], len(chosen)).any(0).cpu()
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
    for batch in batches:
        logits = batch.get("logits")
        if logits is None:
            inputs = {
                name: value.to(model.device) if isinstance(value, Tensor) else value
                for name, value in batch.items()
                if name != "labels"
            }
            with torch.no_grad(), torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
                logits = model(**inputs).logits
        logits, gold = (tensor.cpu() for tensor in read_batch(logits, batch["labels"]))
        yield logits[:, chosen], renumbered(gold, chosen, model.config.num_labels)


def with_number(calibration: Mapping[str, Any], number: int, crowding: float) -> dict[str, Any]:
    """Notes the number of unseen labels that their calibration was fitted with, and their crowding; see `calibrated`.

    A missing group gets the calibration of the other, which it is calibrated by in any case.
    """
    either = next(iter(calibration.values()), IDENTITY)
    noted = {"labels": number, "crowding": crowding}
    seen = {name: value for name, value in calibration.get("seen", either).items() if name not in noted}
    return {"seen": seen, "unseen": calibration.get("unseen", either) | noted}


def _store(model: GileForSequenceClassification, chosen: Tensor, fitted: Calibration) -> None:
    """Stores the result in the model.

    Raises:
        ValueError: If a calibration is invalid; nothing is set then.
    """
    config = model.config
    before = config.calibration
    single = config.problem_type == "single_label_classification"
    if single:  # groups of a softmax are only valid together
        calibration = dict(fitted.calibration or before)
        thresholds = fitted.thresholds
    else:
        calibration = {group: before.get(group, IDENTITY) for group in config.group_thresholds}
        calibration |= fitted.calibration
        thresholds = config.thresholds | fitted.thresholds
        if all(entry == IDENTITY for entry in calibration.values()):
            calibration = {}
    number = before.get("unseen", {}).get("labels")
    if "unseen" in fitted.calibration:
        number = int((~model.stored_labels.seen()[chosen]).sum())
    if number:
        calibration = with_number(calibration, number, fitted.crowding)
    check_calibration(calibration, config.problem_type)
    if model.label_set is not None:
        labels = list(model.label_set)
        for column, threshold in zip(chosen.tolist(), fitted.label_thresholds.tolist(), strict=True):
            if single or ("seen" if labels[column].seen else "unseen") in fitted.thresholds:
                threshold = None if math.isnan(threshold) else rounded(threshold)
                labels[column] = replace(labels[column], threshold=threshold)
        model.label_set = LabelSet(labels)
    config.calibration = calibration
    config.thresholds = thresholds
    config.usual_score = fitted.usual_score
