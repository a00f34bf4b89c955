"""Thresholds that promise a share of the right labels, by conformal risk control (Angelopoulos et al., 2022).

Of n documents, R(t) is the mean share of the gold labels of a document that are below the threshold t. With

    (n R(t) + 1) / (n + 1) <= 1 - recall

the expected share of the gold labels of another document like them that reach t is at least `recall`, whatever the
model is worth.
"""

import math
import re
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from ...models.configuration_gile import GROUPS
from ...models.losses_gile import IGNORE, widened

_OBJECTIVE = re.compile(r"recall@(0?\.\d+)")
_BELOW = 1 - 1e-5
"""A threshold is this much lower than the label that it is to let through: probabilities are rounded."""


def recall_of(objective: str, one_label: bool = False) -> float | None:
    """The recall that an objective promises; None of another objective.

    Args:
        objective: Such as "recall@0.8".
        one_label: Whether the model gives a document one label.

    Raises:
        ValueError: It does, and a recall is to be promised.

    Example:
        >>> recall_of("recall@0.8"), recall_of("micro_f1")
        (0.8, None)
    """
    found = _OBJECTIVE.fullmatch(objective)
    if found is None or float(found[1]) == 0:
        return None
    if one_label:
        raise ValueError(f"objective {objective}: the model gives a document one label, its best, by no threshold")
    return float(found[1])


class GoldLogits:
    """The logits of the gold labels of documents, by group, collected while documents pass by.

    Args:
        seen: `(C,)` booleans, of the candidate labels.

    Attributes:
        of_group: For "seen" and "unseen", of each document with such gold labels, their logits.
    """

    def __init__(self, seen: Tensor) -> None:
        self.seen = seen
        self.of_group: dict[str, list[Tensor]] = {group: [] for group in GROUPS}

    def through(self, documents: Iterable[tuple[Tensor, Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
        """Passes documents on.

        Args:
            documents: Of each batch `(B, C)` logits and `(B, P)` gold columns, padded with -100.
        """
        for logits, gold in documents:
            for row, columns in zip(widened(logits).cpu(), gold.cpu(), strict=True):
                columns = columns[columns != IGNORE]
                for group, kept in self.of_group.items():
                    own = columns[self.seen[columns] == (group == "seen")]
                    if len(own):
                        kept.append(row[own])
            yield logits, gold


def promised_threshold(gold: list[Tensor], recall: float) -> float:
    """The highest threshold that keeps the promise.

    Args:
        gold: Of each document the probabilities of its gold labels, one at least.
        recall: What is promised, below 1.

    Raises:
        ValueError: There are too few documents to promise that much, whatever the threshold.
    """
    number, risk = len(gold), 1 - recall + 1e-9  # which lets 4 documents promise 0.8
    if 1 / (number + 1) > risk:
        raise ValueError(
            f"{number:,} documents are too few for a recall of {recall:g}: at least {math.ceil(1 / risk) - 1:,} are "
            "needed"
        )
    values, order = torch.cat(gold).double().sort()
    shares = torch.cat([torch.full((len(own),), 1 / len(own), dtype=torch.double) for own in gold])[order]
    lost = torch.cat([shares.new_zeros(1), shares.cumsum(0)])  # of thresholds above that many labels
    lost = lost[torch.searchsorted(values, values)]
    return float(values[(lost + 1) / (number + 1) <= risk].max()) * _BELOW
