"""Fits calibrated probabilities of single-label models, whose softmax needs all logits of a document.

Shapes: `B` documents in the batch, `N` documents, `C` candidate labels.
"""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from ...metrics.calibration import softmax_to_sigmoid_logits
from ...models.losses_gile import IGNORE, widened
from ...models.search_gile import calibrated
from .curves import fit_softmax_calibration
from .fitting import Calibration, calibration_errors, fitted_groups, note_of_few
from .score_counts import VALUES, ScoreCounts
from .thresholds import tells_enough

_MAX_LOGITS = 1 << 25
"""Maximum number of logits in memory (128 MB); beyond it, only every k-th document is used."""

_CONVERTED_AT_ONCE = 64


def fit_softmax(
    documents: Iterable[tuple[Tensor, Tensor]], seen: Tensor, stored: Calibration
) -> tuple[Calibration, Tensor, Tensor]:
    """Fits "platt" on documents with one gold label each.

    Args:
        documents: `(B, C)` logits and `(B, P)` gold label indices, padded with -100, of each batch.
        seen: `(C,)` booleans.
        stored: What is replaced, for the figures before.

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
