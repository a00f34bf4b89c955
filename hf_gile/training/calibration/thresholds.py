"""Sets decision thresholds: for the best F1, also of single labels, or for an expected recall.

The best threshold of a label on few validation documents is mostly noise, and worse than a common threshold on other
documents. A label with n gold documents therefore gets

    t = (n * best threshold of the label + m * common threshold) / (n + m)

where m is chosen by cross-validation: thresholds are fitted on half of the documents and evaluated on the other half.

A threshold guarantees an expected recall by conformal risk control (Angelopoulos et al., 2022). For n documents, R(t)
is the mean fraction of gold labels of a document below the threshold t. With

    (n R(t) + 1) / (n + 1) <= 1 - recall

the expected fraction of gold labels above t in another document from the same distribution is at least `recall`, for
any model.

Shapes: `N` documents, `L` labels scored, `C` labels of a group, `P` gold labels per document, padded, `E` edges.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .score_counts import BOTH_HALVES, EDGES, ScoreCounts, above_edges, counts_above

MIN_DOCUMENTS = 30
MIN_GOLD = 50
"""Minimum numbers of validation documents with unseen gold labels, and of such gold labels; with fewer, unseen labels
use the calibration and the threshold of seen labels. On samples of MEDLINE documents (60 per size), thresholds fitted
on 20 documents with 28 labels lost more than a point of micro-F1 in 23 % of the samples, on 50 with 70 in 10 %, and on
80 with 111 in 3 %."""

OBJECTIVES = ("micro_f1", "macro_f1")
"""Objectives of thresholds of single labels."""

SHRINKAGES = (0.0, *(2.0**power for power in range(11)), math.inf)
"""Candidate values of m; 0 selects the best threshold of each label, infinity the common threshold."""

_ROUNDS = 3
"""Number of iterations, as the best threshold of a label and the micro-F1 of all labels depend on each other."""

_MAX_COARSE_ERROR = 0.05
"""Maximum relative error of the micro-F1 computed from coarse counts. A larger error means that most logits are outside
`EDGES` or within a single interval, where thresholds of single labels would be arbitrary."""

_RECALL = re.compile(r"recall@(0?\.\d+)")

_MARGIN = 1 - 1e-5
"""Factor of a threshold, so that the lowest accepted label stays above it although probabilities are rounded."""


def tells_enough(documents: int, gold: int) -> bool:
    """Checks whether enough documents have unseen gold labels for a separate threshold or calibration."""
    return documents >= MIN_DOCUMENTS and gold >= MIN_GOLD


def rounded(probability: float) -> float:
    """Rounds to six significant digits; near 1 rounds the difference from 1, since no probability reaches 1."""
    if probability > 0.999:
        return 1 - rounded(1 - probability)
    return float(f"{probability:.6g}")


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
        """Finds the `(C,)` best thresholds; the common threshold for labels without gold documents.

        Among equally good thresholds, it takes the closest to the common threshold. For micro-F1, the best threshold
        maximizes `2 * hits - micro_f1 * predicted`, with the micro-F1 of all labels (Dinkelbach).
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
        number = self.num_gold.double()
        share = number / (number + shrinkage).clamp(min=1e-9)
        return self.common + share * (thresholds - self.common)


def fit_label_thresholds(
    counts: ScoreCounts,
    group: str,
    objective: str = "micro_f1",
    shrinkages: Sequence[float] = SHRINKAGES,
) -> tuple[Tensor, dict[str, Any]] | None:
    """Fits thresholds of the labels of a group.

    Args:
        counts: Counts of validation documents.
        group: "seen" or "unseen".
        objective: `"micro_f1"` or `"macro_f1"`.
        shrinkages: Candidate values of m; the highest of equally good values is used.

    Returns:
        `(C,)` logits, fitted on all documents with the m that is best in cross-validation; and figures of thresholds
        that were fitted on half of the documents and evaluated on the other half, both ways: of the common threshold,
        of these thresholds, and `shrinkage`, m. None if a half of the documents has no gold labels of the group, or the
        coarse counts of single labels do not resolve their logits.
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
    common = held_out.get(math.inf, held_out[best])
    figures: dict[str, Any] = {f"held_out_{name}": value for name, value in common.items()}
    figures |= {f"held_out_{name}_of_label_thresholds": value for name, value in held_out[best].items()}
    figures["shrinkage"] = None if math.isinf(best) else best
    return thresholds, figures


def _f1(parts: Sequence[LabelCounts], thresholds: Sequence[Tensor]) -> dict[str, float]:
    """Computes the F1 of `(C,)` thresholds for each part of the documents."""
    counted = [counts_above(part.above, logits) for part, logits in zip(parts, thresholds, strict=True)]
    predicted, hits = torch.cat(counted, 1)
    total = predicted + torch.cat([part.num_gold for part in parts])
    return {
        "micro_f1": float(2 * hits.sum() / total.sum().clamp(min=1)),
        "macro_f1": float((2 * hits / total.clamp(min=1e-9)).mean()),
    }


def guaranteed_recall(objective: str) -> float | None:
    """Returns the recall that an objective such as "recall@0.8" guarantees, or None for `OBJECTIVES`.

    Raises:
        ValueError: If there is no such objective.
    """
    if objective in OBJECTIVES:
        return None
    match = _RECALL.fullmatch(objective)
    if match is None or float(match[1]) == 0:
        raise ValueError(f"objective must be {', '.join(OBJECTIVES)} or, for example, recall@0.8, got {objective!r}")
    return float(match[1])


def promised_threshold(gold: list[Tensor], recall: float) -> float:
    """Finds the highest threshold that guarantees a recall.

    Args:
        gold: Probabilities of the gold labels of each document, with at least one gold label.
        recall: The recall to guarantee, below 1.

    Raises:
        ValueError: If there are too few documents to guarantee this recall at any threshold.
    """
    number = len(gold)
    risk = 1 - recall + 1e-9  # so that 4 documents suffice for 0.8
    if 1 / (number + 1) > risk:
        raise ValueError(
            f"{number:,} documents are too few for a recall of {recall:g}: at least {math.ceil(1 / risk) - 1:,} are "
            "needed"
        )
    values, order = torch.cat(gold).double().sort()
    shares = torch.cat([torch.full((len(row),), 1 / len(row), dtype=torch.double) for row in gold])[order]
    lost = torch.cat([shares.new_zeros(1), shares.cumsum(0)])  # lost[i]: threshold above the i lowest labels
    lost = lost[torch.searchsorted(values, values)]
    return float(values[(lost + 1) / (number + 1) <= risk].max()) * _MARGIN
