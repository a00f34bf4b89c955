"""Finds labels that two collections use differently for similar documents."""

from dataclasses import dataclass

import torch

from .findings import MOST, Audit


@dataclass(frozen=True)
class Drift:
    """A label that two collections use differently.

    Args:
        column: Index of the label.
        used: Number of documents with the label in the first and in the second collection.
        expected: The same numbers according to the model.
        score: Difference in use from the first to the second collection, in standard deviations.
    """

    column: int
    used: tuple[int, int]
    expected: tuple[float, float]
    score: float


def drift(first: Audit, second: Audit, most: int = MOST) -> list[Drift]:
    """Ranks labels by how differently two collections use them.

    The predictions of the model account for topics: a label that is used more often because more documents are on its
    topic has not drifted. If both collections use a label in the same way, of n documents with the label

        n e2 / (e1 + e2)

    are expected in the second collection, where e1 and e2 are the numbers that the model predicts. The score is the
    deviation from this number, in standard deviations of the binomial distribution: the comparison of two Poisson rates
    by Przyborowski and Wilenski (1940).

    Args:
        first: Audit of the first collection.
        second: Audit of the second collection, with the same model.
        most: Maximum number of labels.

    Returns:
        Labels that occur in a collection, largest difference first.

    Raises:
        ValueError: If the audits have different numbers of labels.
    """
    if len(first.used) != len(second.used):
        raise ValueError(
            f"the audits have {len(first.used):,} and {len(second.used):,} labels: create both with the same model"
        )
    total = (first.used + second.used).double()
    share = (second.expected / (first.expected + second.expected)).clamp(1e-6, 1 - 1e-6)
    scores = (second.used - total * share) / (total * share * (1 - share)).sqrt()
    scores = torch.where(total > 0, scores, 0.0)
    order = scores.abs().argsort(descending=True, stable=True)[:most].tolist()
    return [
        Drift(
            column,
            (int(first.used[column]), int(second.used[column])),
            (float(first.expected[column]), float(second.expected[column])),
            float(scores[column]),
        )
        for column in order
        if total[column] > 0
    ]
