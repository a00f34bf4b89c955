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
from typing import Any

import torch
from torch import Tensor

from .score_counts import BOTH_HALVES, EDGES, ScoreCounts, above_edges, counts_above

OBJECTIVES = ("micro_f1", "macro_f1")
"""Objectives of thresholds of single labels."""

SHRINKAGES = (0.0, *(2.0**power for power in range(11)), math.inf)
"""Candidate values of m; 0 selects the best threshold of each label, infinity the common threshold."""

_ROUNDS = 3
"""Number of iterations, as the best threshold of a label and the micro-F1 of all labels depend on each other."""

_MAX_COARSE_ERROR = 0.05
"""Maximum relative error of the micro-F1 computed from coarse counts. A larger error means that most logits are outside
`EDGES` or within a single interval, where thresholds of single labels would be arbitrary."""


@dataclass(frozen=True)
class LabelCounts:
    """Counts on which thresholds of single labels are fitted, for half of the documents or all of them.

    Args:
        above: `(2, C, E + 2)` documents with at least the logit of each edge, from `above_edges`; and those of them in
            which the label is gold.
        num_gold: `(C,)` gold documents of each label.
        common: Common threshold with the best micro-F1, a logit.
        micro_f1: This micro-F1.
    """

    above: Tensor
    num_gold: Tensor
    common: float
    micro_f1: float

    @classmethod
    def of_group(cls, counts: ScoreCounts, group: str, halves: slice = BOTH_HALVES) -> "LabelCounts":
        """Returns the counts of the C labels of a group in one or both halves of the documents.

        Raises:
            ValueError: If none of the labels is gold in these documents.
        """
        labels = counts.of_labels(group)
        above = above_edges(counts.label_cells[:, halves, labels].sum(1, dtype=torch.int32))
        num_gold = counts.num_gold[halves, labels].sum(0)
        return cls(above, num_gold, *counts.of_group(group, halves).best_threshold())

    @property
    def common_thresholds(self) -> Tensor:
        """The common threshold of each label, `(C,)`."""
        return torch.full((len(self.num_gold),), self.common)

    @property
    def is_resolved(self) -> bool:
        """Whether these coarse counts agree with the fine counts of all labels."""
        coarse = _f1([self], [self.common_thresholds])["micro_f1"]
        return abs(coarse - self.micro_f1) <= _MAX_COARSE_ERROR * self.micro_f1

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
        at_common = counts_above(self.above, self.common_thresholds)
        predicted, hits = torch.cat([self.above[..., 1:-1].double(), at_common[..., None]], -1)
        if objective == "micro_f1":
            worth = 2 * hits - micro_f1 * predicted
        else:
            worth = 2 * hits / (predicted + self.num_gold[:, None]).clamp(min=1)
        best = worth >= worth.max(1, keepdim=True).values - 1e-9
        closest = torch.where(best, (candidates - self.common).abs(), torch.inf).argmin(1)
        return torch.where(self.num_gold > 0, candidates[closest], self.common)

    def shrink(self, thresholds: Tensor, shrinkage: float) -> Tensor:
        """Shrinks `(C,)` thresholds towards the common threshold; `shrinkage` is m in the formula above."""
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

    @property
    def figures(self) -> dict[str, Any]:
        """The held-out figures of `calibrate`: of the common threshold, and of these thresholds."""
        best = self.held_out[self.shrinkage]
        common = self.held_out.get(math.inf, best)
        figures: dict[str, Any] = {f"held_out_{name}": value for name, value in common.items()}
        figures |= {f"held_out_{name}_of_label_thresholds": value for name, value in best.items()}
        figures["shrinkage"] = None if math.isinf(self.shrinkage) else self.shrinkage
        return figures


def fit_label_thresholds(
    counts: ScoreCounts, group: str, objective: str = "micro_f1", shrinkages: Sequence[float] = SHRINKAGES
) -> LabelThresholds | None:
    """Fits thresholds of the labels of a group.

    Args:
        counts: Counts of validation documents.
        group: "seen" or "unseen".
        objective: `"micro_f1"` or `"macro_f1"`.
        shrinkages: Candidate values of m; the highest of equally good values is used.

    Returns:
        Thresholds fitted on all documents, with the m that is best in cross-validation. None if a half of the documents
        has no gold labels of the group, or the coarse counts of single labels do not resolve their logits.
    """
    if not counts.has_gold_in_both_halves(group):
        return None
    first = LabelCounts.of_group(counts, group, slice(0, 1))
    second = LabelCounts.of_group(counts, group, slice(1, 2))
    every = LabelCounts.of_group(counts, group)
    if not (first.is_resolved and second.is_resolved and every.is_resolved):
        return None
    micro_f1 = _f1([first, second], [second.common_thresholds, first.common_thresholds])["micro_f1"]
    for _ in range(_ROUNDS if objective == "micro_f1" else 1):
        of_first = first.best_thresholds(objective, micro_f1)
        of_second = second.best_thresholds(objective, micro_f1)
        held_out = {}
        for shrinkage in shrinkages:
            others = [second.shrink(of_second, shrinkage), first.shrink(of_first, shrinkage)]
            held_out[shrinkage] = _f1([first, second], others)
        best = max(shrinkages, key=lambda shrinkage: (held_out[shrinkage][objective], shrinkage))
        micro_f1 = held_out[best]["micro_f1"]
    thresholds = every.shrink(every.best_thresholds(objective, micro_f1), best)
    return LabelThresholds(thresholds, best, held_out)


def _f1(parts: Sequence[LabelCounts], thresholds: Sequence[Tensor]) -> dict[str, float]:
    """Computes the F1 of `(C,)` thresholds for each part of the documents."""
    counted = [counts_above(part.above, logits) for part, logits in zip(parts, thresholds, strict=True)]
    predicted, hits = torch.cat(counted, 1)
    total = predicted + torch.cat([part.num_gold for part in parts])
    return {
        "micro_f1": float(2 * hits.sum() / total.sum().clamp(min=1)),
        "macro_f1": float((2 * hits / total.clamp(min=1e-9)).mean()),
    }
