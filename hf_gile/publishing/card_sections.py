"""Computes the values for the template of model cards: texts and table rows of its sections.

A report may be empty. `figures` are the results of labels and `thresholds` those in use, by the id of a label.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ..models import GileConfig, GileForSequenceClassification
from ..models.labels_gile import Label, LabelSet
from .card_info import CardInfo
from .label_table import shown_labels
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
_DESCRIPTION = 80
_NAME = 60


def overview(model: GileForSequenceClassification, labels: LabelSet) -> dict[str, Any]:
    """Returns numbers and names of labels, and values for the code examples."""
    groups = shown_labels(labels)
    shown = [label for _, group in groups for label in group]
    named = [label for _, group in groups for label in group[: 6 if len(groups) == 1 else 3]][:6]
    config = model.config
    # A linear unit stores its labels as weights; other models read labels in their language.
    language = list(config.language_labels)[-1] if config.language_labels else None
    about = [label for label in shown if language is None or label.language == language] or shown
    call_language = language or next(iter(config.languages), None)
    return {
        "num_labels": f"{len(labels):,}",
        "new_id": python_text(_new_id(labels)),
        "num_seen": sum(labels.seen),
        "num_unseen": len(labels) - sum(labels.seen),
        "names_all": len(named) == len(labels),
        "some_names": [escaped(label.name, _NAME) for label in named],
        "languages": [escaped(name) for name in config.languages],
        "label_language": python_text(language) if language else None,
        "example_text": python_text(f"This is a text about {' and '.join(label.name for label in about[:2])}."),
        "call_language": f", language={python_text(call_language)}" if call_language else "",
    }


def _new_id(labels: LabelSet) -> str:
    ids = ("my-id", *(f"my-id-{number}" for number in range(2, len(labels) + 2)))
    existing = set(labels.ids)
    return next(label_id for label_id in ids if label_id not in existing)


def label_tables(
    labels: LabelSet, figures: Mapping[str, Mapping[str, Any]], thresholds: Mapping[str, float | None]
) -> dict[str, Any]:
    """Returns a table of selected labels with informative columns."""
    supports = {label_id: row["support"] for label_id, row in figures.items()}
    groups = shown_labels(labels, supports)
    shown = [label for _, group in groups for label in group]
    columns: list[tuple[str, str, Callable[[Label], str]]] = []
    if any(label.id != label.name for label in shown):
        columns.append(("id", ":--", lambda label: escaped(label.id)))
    columns.append(("label", ":--", lambda label: escaped(label.name, _NAME)))
    if len({label.language for label in shown}) > 1:
        columns.append(("language", ":--", lambda label: escaped(label.language or "")))
    if any(label.description for label in shown):
        columns.append(("description", ":--", lambda label: escaped(label.description, _DESCRIPTION)))
    if any(label.count for label in shown):
        columns.append(("trained on", "--:", lambda label: f"{label.count:,}"))
    if len({thresholds[label.id] for label in shown}) > 1:
        columns.append(("threshold", "--:", lambda label: _number(thresholds[label.id])))
    if figures:
        columns.append(("tested on", "--:", lambda label: f"{supports.get(label.id, 0):,}"))
        columns.append(("F1", "--:", lambda label: _percent(figures.get(label.id, {}).get("f1"))))
    rows = []
    for heading, group in groups:
        if heading:
            rows.append([f"**{heading}**" if name == "label" else "" for name, _, _ in columns])
        rows += [[cell(label) for _, _, cell in columns] for label in group]
    return {
        "label_columns": [(name, rule) for name, rule, _ in columns],
        "label_rows": rows,
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
            rows.append([RESULTS[name], *map(_percent, values)])
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
            row = [f"{group} labels, {cells}", *(_percent(error, 2) for error in errors)]
            # With five labels, the five best are all labels.
            if not rows or rows[-1][1:] != row[1:]:
                rows.append(row)
    return rows


def limits(model: GileForSequenceClassification, info: CardInfo, report: Report) -> list[str]:
    """Returns general limitations of a model."""
    config = model.config
    is_linear = config.output_layer == "linear"
    sentences = []
    languages = [f"`{code}`" for code in info.language if code != "multilingual"]
    if languages:
        sentences.append(f"It is for texts in {', '.join(languages)}; its quality in other languages is unknown.")
    sentences.append(_describe_length(config.text_config))
    if not config.text_config.reads_pretrained:
        words = f"It knows {config.text_config.vocab_size:,} words; all others count as the same unknown word."
        if not is_linear:
            words += (
                " Scores of a text without known words are meaningless. Labels without known words all get the same "
                "score: describe them in other words."
            )
        sentences.append(words)
    if config.neighbours:
        size = config.neighbours * config.document_size * 4 / 1e6
        sentences.append(
            f"It stores the vectors of {config.neighbours:,} training documents with their labels ({size:,.0f} MB), "
            "but not their texts. What a document was about can be estimated from its vector."
        )
    sentences.append(_describe_unseen(is_linear, report.metrics))
    if not report.labels:
        return sentences
    without = sum(row["support"] == 0 for row in report.labels)
    if without:
        have = "has" if without == 1 else "have"
        sentences.append(
            f"{without:,} of the {len(report.labels):,} labels {have} no document in the test: they were not measured, "
            "and are left out of macro-F1."
        )
    sentences.append("The figures hold for texts like those of the test; on other kinds of text, expect lower figures.")
    return sentences


def _describe_unseen(is_linear: bool, metrics: Mapping[str, float]) -> str:
    if is_linear:
        return "It scores only the labels that it was trained on."
    unseen = metrics.get("unseen_average_precision")
    seen = metrics.get("seen_average_precision")
    if unseen is None or seen is None:
        return "Its ranking of labels without training documents was not measured."
    return (
        "It ranks labels without training documents by their names and descriptions alone. Average precision is "
        f"{_percent(unseen)} among these, {_percent(seen)} among those seen in training."
    )


def _describe_length(config: GileConfig) -> str:
    kind = config.text_encoder_type
    if kind == "hierarchical_transformer":
        size = f"{config.max_sentences} windows of whole sentences, each of up to {config.max_sentence_words} tokens"
    elif kind in ("transformer", "static"):
        size = f"{config.max_words} tokens"
    elif kind in ("nn", "wan"):
        size = f"{config.max_words} words"
    else:
        size = f"{config.max_sentences} sentences, {config.max_sentence_words} words of each,"
    return (
        f'It reads the first {size} of a text; with `long_texts="max"` or `"mean"` the pipeline scores longer texts '
        "in pieces."
    )


def _percent(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{100 * value:.{digits}f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")
