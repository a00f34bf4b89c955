"""Fits thresholds of single labels, shrunk towards the common threshold for labels with few gold documents.

The best threshold of a label on few validation documents is mostly noise, and worse than a common threshold on other
documents. A label with n gold documents therefore gets

    t = (n * best threshold of the label + m * common threshold) / (n + m)

where m is chosen by cross-validation: thresholds are fitted on half of the documents and evaluated on the other half.

Shapes: `C` labels, `E` edges.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .score_counts import EDGES, LOWER_BOUNDS, counts_above

OBJECTIVES = ("micro_f1", "macro_f1")
"""Objectives of thresholds of single labels."""

SHRINKAGES = (0.0, *(2.0**power for power in range(11)), math.inf)
"""Candidate values of m; 0 selects the best threshold of each label, infinity the common threshold."""

_CHUNK_SIZE = 2048

_ROUNDS = 3
"""Number of iterations, as the best threshold of a label and the micro-F1 of all labels depend on each other."""


def group_threshold(
    cells: Tensor, gold: Tensor, num_gold: int, forced: tuple[Tensor, Tensor] | None = None
) -> tuple[float, float]:
    """Finds the common threshold with the best micro-F1.

    Args:
        cells: `(BINS,)` documents with a label, by rounded logit, as in `ScoreCounts`.
        gold: `(BINS,)` documents in which the label is gold.
        num_gold: Total number of gold labels.
        forced: The part of cells and gold labels that is assigned at any threshold, `(BINS,)` each.

    Returns:
        A logit, and its micro-F1. Among equally good thresholds, it is halfway between the lowest accepted score and
        the next lower score, so that other documents may have slightly lower scores.

    Raises:
        ValueError: If no gold label has a positive probability.
    """
    forced_cells, forced_gold = (torch.zeros_like(cells),) * 2 if forced is None else forced
    hits = (gold - forced_gold).flip(0).cumsum(0).double() + forced_gold.sum()
    predicted = (cells - forced_cells).flip(0).cumsum(0).double() + forced_cells.sum()
    if not hits[-1] > 0:
        raise ValueError("a threshold needs a gold label that is a candidate, got none; check the validation documents")
    micro_f1 = 2 * hits / (predicted + num_gold).clamp(min=1)
    best = int(micro_f1.argmax())  # the first of the best
    last = int((predicted == predicted[best]).nonzero()[-1])  # no scores in between but forced ones
    if forced is not None:
        accepted = forced_cells.flip(0)[best : last + 1].nonzero()
        best += int(accepted.max()) if len(accepted) else 0
    threshold = LOWER_BOUNDS[len(LOWER_BOUNDS) - 1 - best]
    if last < len(LOWER_BOUNDS) - 1:
        threshold = (threshold + LOWER_BOUNDS[len(LOWER_BOUNDS) - 1 - last]) / 2
    return float(threshold), float(micro_f1[best])


@dataclass(frozen=True)
class LabelCounts:
    """Counts on which thresholds of single labels are fitted, for half of the documents or all of them.

    Args:
        cells: `(C, E + 2)` documents with at least the logit of each edge, from `above_edges`.
        gold: `(C, E + 2)` documents in which the label is gold.
        num_gold: `(C,)` gold documents of each label.
        common: Common threshold, a logit.
    """

    cells: Tensor
    gold: Tensor
    num_gold: Tensor
    common: float

    def count_predicted(self, thresholds: Tensor) -> tuple[Tensor, Tensor]:
        """Counts hits and predicted documents of each label.

        Args:
            thresholds: `(C,)` logits.

        Returns:
            `(C,)` hits and `(C,)` predicted documents.
        """
        return counts_above(self.gold, thresholds), counts_above(self.cells, thresholds)

    def figures(self, thresholds: Tensor) -> dict[str, float]:
        """Computes the F1 of thresholds.

        Args:
            thresholds: `(C,)` logits.

        Returns:
            `micro_f1` and `macro_f1`, as in `LabelMetrics`.
        """
        hits, predicted = self.count_predicted(thresholds)
        return _f1(hits, predicted, self.num_gold)

    def best_thresholds(self, objective: str, micro_f1: float) -> Tensor:
        """Finds the best threshold of each label; among equally good thresholds, the closest to the common threshold.

        For micro-F1, the best threshold maximizes `2 * hits - micro_f1 * predicted` (Dinkelbach).

        Args:
            objective: An element of `OBJECTIVES`.
            micro_f1: Micro-F1 of all labels.

        Returns:
            `(C,)` logits; the common threshold for labels without gold documents.
        """
        candidates = torch.cat([EDGES, EDGES.new_tensor([self.common])])
        common = self.count_predicted(torch.full((len(self.num_gold),), self.common))
        best_thresholds = []
        for start in range(0, len(self.num_gold), _CHUNK_SIZE):
            chunk = slice(start, start + _CHUNK_SIZE)
            hits, predicted = (
                torch.cat([above[chunk, 1:-1].double(), at_common[chunk, None]], dim=1)
                for above, at_common in zip((self.gold, self.cells), common, strict=True)
            )
            if objective == "micro_f1":
                objective_values = 2 * hits - micro_f1 * predicted
            else:
                objective_values = 2 * hits / (predicted + self.num_gold[chunk, None]).clamp(min=1)
            best = objective_values >= objective_values.max(1, keepdim=True).values - 1e-9
            best_thresholds.append(candidates[torch.where(best, (candidates - self.common).abs(), torch.inf).argmin(1)])
        return torch.where(self.num_gold > 0, torch.cat(best_thresholds), self.common)

    def shrink(self, thresholds: Tensor, shrinkage: float) -> Tensor:
        """Shrinks thresholds towards the common threshold.

        Args:
            thresholds: `(C,)` logits.
            shrinkage: m in the formula above.

        Returns:
            `(C,)` logits.
        """
        if math.isinf(shrinkage):
            return torch.full_like(thresholds, self.common)
        number = self.num_gold.double()
        share = number / (number + shrinkage).clamp(min=1e-9)
        return self.common + share * (thresholds - self.common)


@dataclass(frozen=True)
class LabelThresholds:
    """Thresholds of single labels, and their quality on held-out documents.

    Args:
        thresholds: `(C,)` logits.
        shrinkage: The best m; infinity selects the common threshold.
        held_out: For each candidate m, `micro_f1` and `macro_f1` of thresholds fitted on half of the documents and
            evaluated on the other half, both ways.
    """

    thresholds: Tensor
    shrinkage: float
    held_out: dict[float, dict[str, float]]


def fit_label_thresholds(
    halves: Sequence[LabelCounts],
    whole: LabelCounts,
    objective: str = "micro_f1",
    shrinkages: Sequence[float] = SHRINKAGES,
) -> LabelThresholds:
    """Fits thresholds of single labels.

    Args:
        halves: Counts of each half of the documents.
        whole: Counts of all documents.
        objective: `"micro_f1"` or `"macro_f1"`.
        shrinkages: Candidate values of m; the highest of equally good values is used.

    Returns:
        Thresholds fitted on all documents, with the m that is best in cross-validation.

    Raises:
        ValueError: If the objective does not exist.
    """
    check_objective(objective)
    micro_f1 = _cross_validate(halves, [torch.full((len(half.num_gold),), half.common) for half in halves])["micro_f1"]
    for _ in range(_ROUNDS if objective == "micro_f1" else 1):
        half_thresholds = [half.best_thresholds(objective, micro_f1) for half in halves]
        held_out = {
            shrinkage: _cross_validate(
                halves,
                [half.shrink(thresholds, shrinkage) for half, thresholds in zip(halves, half_thresholds, strict=True)],
            )
            for shrinkage in shrinkages
        }
        best = max(shrinkages, key=lambda shrinkage: (held_out[shrinkage][objective], shrinkage))
        micro_f1 = held_out[best]["micro_f1"]
    thresholds = whole.shrink(whole.best_thresholds(objective, micro_f1), best)
    return LabelThresholds(thresholds, best, held_out)


def check_objective(objective: str) -> None:
    """Checks that an objective exists.

    Raises:
        ValueError: If it does not exist.
    """
    if objective not in OBJECTIVES:
        raise ValueError(f"objective must be {', '.join(OBJECTIVES)} or, for example, recall@0.8, got {objective!r}")


def _cross_validate(halves: Sequence[LabelCounts], thresholds: Sequence[Tensor]) -> dict[str, float]:
    """Computes the F1 of thresholds fitted on each half and applied to the other."""
    counted = [half.count_predicted(fitted) for half, fitted in zip(halves, reversed(thresholds), strict=True)]
    hits, predicted = (torch.cat(counts) for counts in zip(*counted, strict=True))
    return _f1(hits, predicted, torch.cat([half.num_gold for half in halves]))


def _f1(hits: Tensor, predicted: Tensor, gold: Tensor) -> dict[str, float]:
    total = predicted + gold
    return {
        "micro_f1": float(2 * hits.sum() / total.sum().clamp(min=1)),
        "macro_f1": float((2 * hits / total.clamp(min=1e-9)).mean()),
    }
