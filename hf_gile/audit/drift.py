"""Labels that two collections use differently, for documents that are alike."""

from dataclasses import dataclass

import torch

from .findings import MOST, Audit


@dataclass(frozen=True)
class Drift:
    """A label of which the use differs between two collections.

    Args:
        column: The column of the label.
        used: Numbers of documents that have the label, in the first collection and in the second.
        expected: The same by the model.
        score: How many standard deviations the use in the second collection is from that in the first.
    """

    column: int
    used: tuple[int, int]
    expected: tuple[float, float]
    score: float


def drift(first: Audit, second: Audit, most: int = MOST) -> list[Drift]:
    """Ranks labels by how differently two collections use them.

    What a model expects of the texts stands for their topics: a label whose share grows because there are more
    documents on its topic has not drifted. Of the n documents in both that have a label, the second collection has

        n e2 / (e1 + e2)

    where e1 and e2 are the numbers expected, if both use the label alike. The score is the distance from that, in
    standard deviations of the binomial distribution: the comparison of two Poisson rates by Przyborowski and Wilenski
    (1940).

    Args:
        first: Of one collection.
        second: Of another, by the same model.
        most: The most labels.

    Returns:
        Labels that one of the collections has, those first that differ most.

    Raises:
        ValueError: The audits are not of the same labels.
    """
    if len(first.used) != len(second.used):
        raise ValueError(
            f"the audits are of {len(first.used):,} and {len(second.used):,} labels: make both with the same model"
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
