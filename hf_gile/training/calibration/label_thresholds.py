"""Thresholds of single labels, drawn towards the one of all where a label has few gold documents to tell its own by.

The best threshold of a label on validation documents is mostly chance if few of them have the label, and raw ones do
worse on other documents than one threshold for all. So a label with n gold documents gets

    t = (n * own best + m * common one) / (n + m)

with the m that does best where it counts: thresholds are made on one half of the documents, and measured on the other.

Shapes: `C` labels, `E` edges.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .score_counts import BEGINS, EDGES, counts_above

OBJECTIVES = ("micro_f1", "macro_f1")
"""What thresholds of single labels can be best for."""

SHRINKAGES = (0.0, *(2.0**power for power in range(11)), math.inf)
"""Values of m that are tried; 0 takes each label's own best threshold, infinity the common one."""

_LABELS_AT_ONCE = 2048

_ROUNDS = 3
"""The best threshold of a label depends on the micro-F1 of all of them, which depends on it in turn."""


def group_threshold(cells: Tensor, gold: Tensor, num_gold: int) -> tuple[float, float]:
    """The one threshold with the best micro-F1 for all labels.

    Args:
        cells: `(BINS,)` documents with a label, by rounded logit, as in `ScoreCounts`.
        gold: `(BINS,)` those in which the label is gold.
        num_gold: Number of gold labels, found by a threshold or not.

    Returns:
        A logit, and its micro-F1. Of equally good ones, the one half-way between the lowest score it accepts and the
        next one below, so that other documents may have somewhat lower scores.

    Raises:
        ValueError: No threshold finds a gold label.
    """
    hits, predicted = (counts.flip(0).cumsum(0).double() for counts in (gold, cells))
    if not hits[-1] > 0:
        raise ValueError("a threshold needs a gold label that is a candidate, got none; check the validation documents")
    micro_f1 = 2 * hits / (predicted + num_gold).clamp(min=1)
    best = int(micro_f1.argmax())  # the first of the best
    last = int((predicted == predicted[best]).nonzero()[-1])  # no score is between
    threshold = BEGINS[len(BEGINS) - 1 - best]
    if last < len(BEGINS) - 1:
        threshold = (threshold + BEGINS[len(BEGINS) - 1 - last]) / 2
    return float(threshold), float(micro_f1[best])


@dataclass(frozen=True)
class LabelCounts:
    """What the thresholds of single labels are fitted on: a half of the documents, or all of them.

    Args:
        cells: `(C, E + 2)` documents with at least the logit of each edge, of `above_edges`.
        gold: `(C, E + 2)` those in which the label is gold.
        num_gold: `(C,)` gold documents of each label.
        common: The threshold of all labels, a logit.
    """

    cells: Tensor
    gold: Tensor
    num_gold: Tensor
    common: float

    def named(self, thresholds: Tensor) -> tuple[Tensor, Tensor]:
        """Of each label, the gold documents that thresholds find, and all that they take for it.

        Args:
            thresholds: `(C,)` logits.

        Returns:
            `(C,)` and `(C,)`.
        """
        return counts_above(self.gold, thresholds), counts_above(self.cells, thresholds)

    def figures(self, thresholds: Tensor) -> dict[str, float]:
        """The F1 of thresholds.

        Args:
            thresholds: `(C,)` logits.

        Returns:
            `micro_f1` and `macro_f1`, as in `LabelMetrics`.
        """
        hits, predicted = self.named(thresholds)
        return _f1(hits, predicted, self.num_gold)

    def own_thresholds(self, objective: str, micro_f1: float) -> Tensor:
        """The best threshold of each label by itself; of equally good ones that next to the common one.

        The best for micro-F1 is the one with the most `2 * hits - micro_f1 * predicted` (Dinkelbach).

        Args:
            objective: One of `OBJECTIVES`.
            micro_f1: The micro-F1 of all labels.

        Returns:
            `(C,)` logits; the common one for labels without gold documents.
        """
        tried = torch.cat([EDGES, EDGES.new_tensor([self.common])])
        common = self.named(torch.full((len(self.num_gold),), self.common))
        own = []
        for start in range(0, len(self.num_gold), _LABELS_AT_ONCE):
            chunk = slice(start, start + _LABELS_AT_ONCE)
            hits, predicted = (
                torch.cat([above[chunk, 1:-1].double(), at_common[chunk, None]], dim=1)
                for above, at_common in zip((self.gold, self.cells), common, strict=True)
            )
            if objective == "micro_f1":
                worth = 2 * hits - micro_f1 * predicted
            else:
                worth = 2 * hits / (predicted + self.num_gold[chunk, None]).clamp(min=1)
            best = worth >= worth.max(1, keepdim=True).values - 1e-9
            own.append(tried[torch.where(best, (tried - self.common).abs(), torch.inf).argmin(1)])
        return torch.where(self.num_gold > 0, torch.cat(own), self.common)

    def shrunk(self, own: Tensor, shrinkage: float) -> Tensor:
        """Thresholds between each label's own and the common one.

        Args:
            own: `(C,)` logits.
            shrinkage: The m of the formula above.

        Returns:
            `(C,)` logits.
        """
        if math.isinf(shrinkage):
            return torch.full_like(own, self.common)
        number = self.num_gold.double()
        share = number / (number + shrinkage).clamp(min=1e-9)
        return self.common + share * (own - self.common)


@dataclass(frozen=True)
class LabelThresholds:
    """Thresholds of single labels, and how good they are on documents that they were not made on.

    Args:
        thresholds: `(C,)` logits.
        shrinkage: The m that was best; infinity means that the common threshold is.
        held_out: By each m that was tried, `micro_f1` and `macro_f1` of thresholds made on one half of the documents
            and measured on the other, both ways.
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
        halves: The counts of each half of the documents.
        whole: Those of all.
        objective: `"micro_f1"` or `"macro_f1"`: what is to be best over all labels.
        shrinkages: Values of m to try; of equally good ones the highest is taken.

    Returns:
        Those of all documents, with the m that does best from one half to the other.

    Raises:
        ValueError: There is no such objective.
    """
    check_objective(objective)
    micro_f1 = _across(halves, [torch.full((len(one.num_gold),), one.common) for one in halves])["micro_f1"]
    for _ in range(_ROUNDS if objective == "micro_f1" else 1):
        own = [half.own_thresholds(objective, micro_f1) for half in halves]
        held_out = {
            shrinkage: _across(halves, [half.shrunk(one, shrinkage) for half, one in zip(halves, own, strict=True)])
            for shrinkage in shrinkages
        }
        best = max(shrinkages, key=lambda shrinkage: (held_out[shrinkage][objective], shrinkage))
        micro_f1 = held_out[best]["micro_f1"]
    thresholds = whole.shrunk(whole.own_thresholds(objective, micro_f1), best)
    return LabelThresholds(thresholds, best, held_out)


def check_objective(objective: str) -> None:
    """Refuses an objective that does not exist.

    Raises:
        ValueError: It does not.
    """
    if objective not in OBJECTIVES:
        raise ValueError(f"objective must be {', '.join(OBJECTIVES)} or such as recall@0.8, got {objective!r}")


def _across(halves: Sequence[LabelCounts], thresholds: Sequence[Tensor]) -> dict[str, float]:
    """The F1 of the thresholds of each half on the other one."""
    named = [half.named(own) for half, own in zip(halves, reversed(thresholds), strict=True)]
    hits, predicted = (torch.cat(counts) for counts in zip(*named, strict=True))
    return _f1(hits, predicted, torch.cat([half.num_gold for half in halves]))


def _f1(hits: Tensor, predicted: Tensor, gold: Tensor) -> dict[str, float]:
    named = predicted + gold
    return {
        "micro_f1": float(2 * hits.sum() / named.sum().clamp(min=1)),
        "macro_f1": float((2 * hits / named.clamp(min=1e-9)).mean()),
    }
