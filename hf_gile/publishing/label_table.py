"""Selects the labels shown on a card, and writes the table of all labels."""

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any

from ..models.labels_gile import Label
from ..writing import write_csv

LABEL_TABLE = "labels.csv"
"""File name of the table in a saved model."""

_LABEL_FIELDS = ("id", "name", "description", "language", "seen", "count")
_REPORT_FIELDS = ("threshold", "support", "precision", "recall", "f1")


def shown_labels(
    labels: Iterable[Label], supports: Mapping[str, int] | None = None, each: int = 5
) -> list[tuple[str, list[Label]]]:
    """Selects the labels for a card: frequent, medium, rare and unseen labels.

    Args:
        labels: The labels.
        supports: Test documents of each label, by id; if enough labels have test documents, only these labels are
            shown, since other labels have no metrics.
        each: Number of labels of each kind. A set of up to four times this number is shown completely.

    Returns:
        Headings and labels, the most frequent first, without duplicates. If the most frequent label has less than three
        times the documents of the rarest, they are a single group. The heading is empty if all labels are shown, if
        their frequencies are unknown, or if there is a single group.

    Example:
        >>> labels = [Label(f"L{n}", f"name {n}", seen=n < 40, count=max(0, 40 - n)) for n in range(50)]
        >>> [(heading, [label.count for label in group]) for heading, group in shown_labels(labels, each=2)]
        [('Frequent', [40, 39]), ('In the middle', [21, 20]), ('Rare', [2, 1]), ('Never trained on', [0, 0])]
    """
    documents = supports or {}
    # Ties are sorted by id: the order of a label set should not matter.
    ordered = sorted(labels, key=lambda label: (-label.count, not label.seen, -documents.get(label.id, 0), label.id))
    if len(ordered) <= 4 * each:
        return [("", ordered)]
    trained = [label for label in ordered if label.count > 0]
    unseen = [label for label in ordered if not label.seen and label.count == 0]
    groups = []
    if trained:
        measured = [label for label in trained if documents.get(label.id, 0) > 0]
        if len(measured) >= 3 * each:
            trained = measured
        middle = max(0, len(trained) - each) // 2
        groups = [("Frequent", trained[:each])]
        if trained[0].count < 3 * trained[-1].count:
            groups = [("Trained on" if unseen else "", trained[: 3 * each])]
        elif len(trained) >= 3 * each:
            groups += [("In the middle", trained[middle : middle + each]), ("Rare", trained[-each:])]
    if not groups:
        step = len(ordered) / (4 * each)
        return [("", [ordered[int(index * step)] for index in range(4 * each)])]
    return groups + ([("Never trained on", unseen[:each])] if unseen else [])


def write_label_table(
    path: str | PathLike[str],
    labels: Iterable[Label],
    thresholds: Mapping[str, float | None],
    figures: Mapping[str, Mapping[str, Any]],
) -> None:
    """Writes all labels with their metrics as CSV; an existing file is replaced once the new one is complete.

    Args:
        path: The file.
        labels: The labels.
        thresholds: The thresholds in use, by id.
        figures: Metrics of a report, by id.
    """
    rows: list[list[object]] = [[*_LABEL_FIELDS, *_REPORT_FIELDS]]
    for label in labels:
        row = {"threshold": thresholds.get(label.id), **figures.get(label.id, {})}
        cells = [*(getattr(label, name) for name in _LABEL_FIELDS), *(row.get(name) for name in _REPORT_FIELDS)]
        rows.append([str(cell).lower() if isinstance(cell, bool) else cell for cell in cells])
    write_csv(path, rows)
