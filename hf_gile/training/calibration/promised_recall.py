"""Computes thresholds that guarantee an expected recall, by conformal risk control (Angelopoulos et al., 2022).

For n documents, R(t) is the mean fraction of gold labels of a document below the threshold t. With

    (n R(t) + 1) / (n + 1) <= 1 - recall

the expected fraction of gold labels above t in another document from the same distribution is at least `recall`, for
any model.
"""

import math
import re
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from ...models.checks_gile import GROUPS
from ...models.losses_gile import IGNORE, widened

_OBJECTIVE = re.compile(r"recall@(0?\.\d+)")
_MARGIN = 1 - 1e-5
"""Factor of a threshold, so that the lowest accepted label stays above it although probabilities are rounded."""


def guaranteed_recall(objective: str, one_label: bool = False) -> float | None:
    """Returns the recall that an objective guarantees, or None for other objectives.

    Args:
        objective: Objective, such as "recall@0.8".
        one_label: Whether the model is single-label.

    Raises:
        ValueError: If a recall is requested of a single-label model.

    Example:
        >>> guaranteed_recall("recall@0.8"), guaranteed_recall("micro_f1")
        (0.8, None)
    """
    match = _OBJECTIVE.fullmatch(objective)
    if match is None or float(match[1]) == 0:
        return None
    if one_label:
        raise ValueError(f"objective {objective}: a single-label model has no thresholds")
    return float(match[1])


class GoldLogits:
    """Collects the logits of gold labels by group while iterating over documents.

    Args:
        seen: `(C,)` booleans, whether each candidate label is seen.

    Attributes:
        by_group: Logits of the gold labels of each document with gold labels in the group, for "seen" and "unseen".
    """

    def __init__(self, seen: Tensor) -> None:
        self.seen = seen
        self.by_group: dict[str, list[Tensor]] = {group: [] for group in GROUPS}

    def collect(self, documents: Iterable[tuple[Tensor, Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
        """Collects the logits of gold labels, and yields the documents unchanged.

        Args:
            documents: `(B, C)` logits and `(B, P)` gold label indices, padded with -100, for each batch.
        """
        for logits, gold in documents:
            for row, columns in zip(widened(logits).cpu(), gold.cpu(), strict=True):
                columns = columns[columns != IGNORE]
                for group, collected in self.by_group.items():
                    members = columns[self.seen[columns] == (group == "seen")]
                    if len(members):
                        collected.append(row[members])
            yield logits, gold


def promised_threshold(gold: list[Tensor], recall: float) -> float:
    """Finds the highest threshold that guarantees a recall.

    Args:
        gold: Probabilities of the gold labels of each document, with at least one gold label.
        recall: The recall to guarantee, below 1.

    Raises:
        ValueError: If there are too few documents to guarantee this recall at any threshold.
    """
    number, risk = len(gold), 1 - recall + 1e-9  # so that 4 documents suffice for 0.8
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
