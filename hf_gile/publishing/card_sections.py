"""Computes the values for the template of model cards: texts and table rows of its sections; and the label table.

A report may be empty. `figures` are the results of labels and `thresholds` those in use, by the id of a label.
"""

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Any

from ..models import GileForSequenceClassification
from ..models.labels_gile import Label, LabelSet
from ..writing import write_csv
from .markdown import escaped, python_text
from .report import Report

METHODS = {"platt": "Platt scaling", "spline": "a monotone spline"}
"""Names of calibration methods on a card."""

RESULTS = {
    "accuracy": "accuracy",
    "micro_f1": "micro-F1",
    "macro_f1": "macro-F1",
    "example_f1": "example F1",
    "average_precision": "average precision",
    "precision_at_1": "precision at 1",
    "precision_at_5": "precision at 5",
    "recall_at_10": "recall at 10",
    "ndcg_at_5": "nDCG at 5",
    "psp_at_5": "propensity-scored precision at 5",
    "ranking_loss": "ranking loss (lower is better)",
}
"""Metrics on a card, by their names in a report."""

_CALIBRATION_ERRORS = {
    "expected_calibration_error": "all scores",
    "top_5_expected_calibration_error": "the five best of each document",
}
_SINGLE_LABEL_METRICS = ("accuracy", "macro_f1", "average_precision")
_GROUPS = {"seen": "seen_", "unseen": "unseen_", "all": ""}
_LABEL_FIELDS = ("id", "name", "description", "language", "seen", "count")
_REPORT_FIELDS = ("threshold", "support", "precision", "recall", "f1")
_DESCRIPTION = 80
_NAME = 60


def overview(model: GileForSequenceClassification, labels: LabelSet) -> dict[str, Any]:
    """Returns numbers and names of labels, and values for the code examples."""
    shown = shown_labels(labels)
    named = shown[:6]
    config = model.config
    # A linear unit stores its labels as weights; other models read labels in their language.
    language = next(reversed(config.language_labels), None)
    about = [label for label in shown if language is None or label.language == language] or shown
    call_language = language or next(iter(config.languages), None)
    return {
        "num_labels": f"{len(labels):,}",
        "num_seen": sum(labels.seen),
        "num_unseen": len(labels) - sum(labels.seen),
        "names_all": len(named) == len(labels),
        "some_names": [escaped(label.name, _NAME) for label in named],
        "languages": [escaped(name) for name in config.languages],
        "label_language": python_text(language) if language else None,
        "example_text": python_text(f"This is a text about {' and '.join(label.name for label in about[:2])}."),
        "call_language": f", language={python_text(call_language)}" if call_language else "",
    }


def label_tables(
    labels: LabelSet, figures: Mapping[str, Mapping[str, Any]], thresholds: Mapping[str, float | None]
) -> dict[str, Any]:
    """Returns a table of selected labels with informative columns."""
    supports = {label_id: row["support"] for label_id, row in figures.items()}
    shown = shown_labels(labels, supports)
    columns: list[tuple[str, str, bool, Callable[[Label], str]]] = [
        ("id", ":--", any(label.id != label.name for label in shown), lambda label: escaped(label.id)),
        ("label", ":--", True, lambda label: escaped(label.name, _NAME)),
        (
            "language",
            ":--",
            len({label.language for label in shown}) > 1,
            lambda label: escaped(label.language or ""),
        ),
        (
            "description",
            ":--",
            any(label.description for label in shown),
            lambda label: escaped(label.description, _DESCRIPTION),
        ),
        ("trained on", "--:", any(label.count for label in shown), lambda label: f"{label.count:,}"),
        (
            "threshold",
            "--:",
            len({thresholds[label.id] for label in shown}) > 1,
            lambda label: _number(thresholds[label.id]),
        ),
        ("tested on", "--:", bool(figures), lambda label: f"{supports.get(label.id, 0):,}"),
        ("F1", "--:", bool(figures), lambda label: percent(figures.get(label.id, {}).get("f1"))),
    ]
    columns = [column for column in columns if column[2]]
    return {
        "label_columns": [(name, rule) for name, rule, *_ in columns],
        "label_rows": [[cell(label) for *_, cell in columns] for label in shown],
        "shows_all_labels": len(shown) == len(labels),
    }


def results(report: Report, labels: LabelSet) -> dict[str, Any]:
    """Returns a table of results by group of labels."""
    metrics = report.metrics
    shown = [name for name in RESULTS if "accuracy" not in metrics or name in _SINGLE_LABEL_METRICS]
    # Metrics at k are trivial for k labels or fewer.
    shown = [name for name in shown if "_at_" not in name or int(name.rpartition("_")[2]) < len(report.labels)]
    groups = [group for group, prefix in _GROUPS.items() if any(prefix + name in metrics for name in shown)]
    rows = []
    for name in shown:
        values = [metrics.get(_GROUPS[group] + name) for group in groups]
        if any(value is not None for value in values):
            rows.append([RESULTS[name], *map(percent, values)])
    counts = {row["id"]: row["count"] for row in report.labels}
    # A label without a count in the report was unseen when it was measured, if a later fit counted documents.
    measured = [label for label in labels if label.id in counts]
    num_seen = sum(label.seen and (counts[label.id] > 0 or not label.count) for label in measured)
    num_unseen = len(measured) - num_seen
    sizes = {"seen": f"{num_seen:,} seen", "unseen": f"{num_unseen:,} unseen", "all": "all"}
    return {
        "result_groups": [sizes[group] for group in groups],
        "result_rows": rows,
        "dataset": escaped(report.dataset) if report.dataset else None,
        "split": escaped(report.split) if report.split and report.split != report.dataset else None,
        "documents": f"{report.documents:,}",
    }


def calibration(model: GileForSequenceClassification, labels: LabelSet, report: Report) -> dict[str, Any]:
    """Returns the calibration method, calibration errors and thresholds."""
    config = model.config
    methods: dict[str, list[str]] = {}
    for group, fitted in sorted(config.calibration.items()):
        methods.setdefault(METHODS[fitted["method"]], []).append(group)
    by_group = config.group_thresholds
    shares = set(by_group) == {"seen"} and _is_shared(config.calibration)
    present = {"seen": any(labels.seen), "unseen": not all(labels.seen)}
    groups = [group for group, is_present in present.items() if is_present]
    separate = sum(label.threshold is not None for label in labels)
    thresholds = []
    if by_group or separate:
        default = next(iter(by_group.values()), 0.5)
        thresholds = [(group, _number(by_group.get(group, default))) for group in groups]
    return {
        "methods": methods,
        "calibration_rows": _calibration_rows(report),
        "group_thresholds": thresholds,
        "label_thresholds": separate,
        "force_label": config.force_label,
        "unseen_like_seen": "unseen" in groups and shares,
    }


def _is_shared(calibration: Mapping[str, Any]) -> bool:
    """Checks whether unseen labels have the calibration of seen labels."""
    seen = calibration.get("seen")
    unseen = calibration.get("unseen", seen)
    return seen is not None and {**unseen, "labels": None} == {**seen, "labels": None}


def _calibration_rows(report: Report) -> list[list[str]]:
    """Returns the calibration errors of each group, before (if the model is calibrated) and after."""
    rows: list[list[str]] = []
    groups = list(report.reliability)
    for group in groups:
        prefix = f"{group}_" if len(groups) > 1 else ""
        for name, cells in _CALIBRATION_ERRORS.items():
            after = report.metrics.get(f"{prefix}{name}")
            if after is None:
                continue
            before = report.metrics.get(f"uncalibrated_{prefix}{name}")
            errors = [after] if before is None else [before, after]
            row = [f"{group} labels, {cells}", *(percent(error, 2) for error in errors)]
            # With five labels, the five best are all labels.
            if not rows or rows[-1][1:] != row[1:]:
                rows.append(row)
    return rows


def percent(value: float | None, digits: int = 1) -> str:
    """Formats a share in percent; empty if it is missing."""
    return "" if value is None else f"{100 * value:.{digits}f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")


def shown_labels(labels: Iterable[Label], supports: Mapping[str, int] | None = None, most: int = 20) -> list[Label]:
    """Selects labels for a card, evenly spread from the most frequent to the rarest.

    Args:
        labels: Any labels.
        supports: Test documents of each label, by id; if enough labels have test documents, only these labels are
            shown, since other labels have no metrics.
        most: Maximum number of labels.

    Example:
        >>> labels = [Label(f"L{n}", f"name {n}", seen=n < 40, count=max(0, 40 - n)) for n in range(50)]
        >>> [label.count for label in shown_labels(labels, most=5)]
        [40, 30, 20, 10, 0]
    """
    documents = supports or {}
    # Ties are sorted by id: the order of a label set should not matter.
    ordered = sorted(labels, key=lambda label: (-label.count, not label.seen, label.id))
    measured = [label for label in ordered if documents.get(label.id)]
    if len(measured) >= most:
        ordered = measured
    number = min(most, len(ordered))
    return [ordered[index * len(ordered) // number] for index in range(number)]


def write_label_table(
    path: str | PathLike[str],
    labels: Iterable[Label],
    thresholds: Mapping[str, float | None],
    figures: Mapping[str, Mapping[str, Any]],
) -> None:
    """Writes all labels as CSV, with thresholds and metrics by id, and replaces an existing file."""
    rows: list[list[object]] = [[*_LABEL_FIELDS, *_REPORT_FIELDS]]
    for label in labels:
        row = {"threshold": thresholds.get(label.id), **figures.get(label.id, {})}
        cells = [getattr(label, name) for name in _LABEL_FIELDS]
        cells += [row.get(name) for name in _REPORT_FIELDS]
        rows.append([str(cell).lower() if isinstance(cell, bool) else cell for cell in cells])
    write_csv(path, rows, encoding="utf-8-sig")  # by its mark, a spreadsheet reads letters beyond ASCII
