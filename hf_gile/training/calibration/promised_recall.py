"""Computes thresholds that guarantee an expected recall, by conformal risk control (Angelopoulos et al., 2022).

For n documents, R(t) is the mean fraction of gold labels of a document below the threshold t. With

    (n R(t) + 1) / (n + 1) <= 1 - recall

the expected fraction of gold labels above t in another document from the same distribution is at least `recall`, for
any model.
"""

import math
import re

import torch
from torch import Tensor

from ...metrics.calibration import make_gold_mask
from ...models.checks_gile import GROUPS
from ...models.losses_gile import widened
from .label_thresholds import OBJECTIVES

_OBJECTIVE = re.compile(r"recall@(0?\.\d+)")
_MARGIN = 1 - 1e-5
"""Factor of a threshold, so that the lowest accepted label stays above it although probabilities are rounded."""


def guaranteed_recall(objective: str) -> float | None:
    """Returns the recall that an objective guarantees, or None for `OBJECTIVES`.

    Raises:
        ValueError: If there is no such objective.

    Example:
        >>> guaranteed_recall("recall@0.8"), guaranteed_recall("micro_f1")
        (0.8, None)
    """
    if objective in OBJECTIVES:
        return None
    match = _OBJECTIVE.fullmatch(objective)
    if match is None or float(match[1]) == 0:
        raise ValueError(f"objective must be {', '.join(OBJECTIVES)} or, for example, recall@0.8, got {objective!r}")
    return float(match[1])


class GoldLogits:
    """The logits of the gold labels of each document with gold labels in a group.

    Args:
        seen: `(C,)` booleans, whether each candidate label is seen.

    Attributes:
        by_group: A tensor for each such document, for "seen" and "unseen".
    """

    def __init__(self, seen: Tensor) -> None:
        self.seen = seen
        self.by_group: dict[str, list[Tensor]] = {group: [] for group in GROUPS}

    def update(self, logits: Tensor, gold: Tensor) -> None:
        """Adds `(B, C)` logits and `(B, P)` gold label indices, padded with -100."""
        is_gold = make_gold_mask(gold, len(self.seen))
        for group, collected in self.by_group.items():
            of_group = is_gold & (self.seen == (group == "seen"))
            has_gold = of_group.any(1)
            rows = zip(widened(logits)[has_gold], of_group[has_gold], strict=True)
            collected.extend(row[mask] for row, mask in rows)


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
