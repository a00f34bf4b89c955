"""Computes the values for the template of model cards: texts and table rows of its sections."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..metrics.frequency import DECILES, read_deciles
from ..models import GileConfig, GileForSequenceClassification
from ..models.labels_gile import Label, LabelSet
from .card_info import CardInfo
from .label_table import shown_labels
from .markdown import cut_at_front, escaped, python_text
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
_DESCRIPTION, _NAME, _ID = 80, 60, 28
_CONFUSED = 10


def overview(model: GileForSequenceClassification, labels: LabelSet, info: CardInfo) -> dict[str, Any]:
    """Returns numbers and names of labels, and values for the code examples.

    Args:
        model: The model.
        labels: The labels of the card.
        info: Information about the model.

    Returns:
        Values for the template.
    """
    groups = shown_labels(labels)
    named = [label for _, group in groups for label in group[: 6 if len(groups) == 1 else 3]][:6]
    config = model.config
    # A linear unit stores its labels as weights; other models read labels in their language.
    language = list(config.language_labels)[-1] if config.language_labels else None
    about = " and ".join(label.name for label in _select_language(groups, language)[:2])
    call = f", language={python_text(language)}" if language else ""
    if config.languages and not language:
        call = f", language={python_text(config.languages[0])}"
    return {
        "num_labels": f"{len(labels):,}",
        "new_id": python_text(_new_id(labels)),
        "num_seen": sum(label.seen for label in labels),
        "num_unseen": sum(not label.seen for label in labels),
        "names_all": len(named) == len(labels),
        "some_names": [escaped(label.name, _NAME) for label in named],
        "languages": [escaped(name) for name in config.languages],
        "own_language": python_text(language) if language else None,
        "example_text": python_text(info.example_text or f"This is a text about {about}."),
        "example_labels": [(python_text(name), python_text(text)) for name, text in info.example_labels.items()],
        "call_language": call,
    }


def _new_id(labels: LabelSet) -> str:
    ids = ("my-id", *(f"my-id-{number}" for number in range(2, len(labels) + 2)))
    existing = set(labels.ids)
    return next(label_id for label_id in ids if label_id not in existing)


def _select_language(groups: Sequence[tuple[str, list[Label]]], language: str | None) -> list[Label]:
    labels = [label for _, group in groups for label in group]
    return [label for label in labels if language is None or label.language == language] or labels


def label_tables(
    labels: LabelSet,
    figures: Mapping[str, Mapping[str, Any]],
    thresholds: Mapping[str, float | None],
    report: Report | None,
) -> dict[str, Any]:
    """Returns a table of selected labels with informative columns, and example texts.

    Args:
        labels: The labels.
        figures: Results of each label, by id.
        thresholds: Thresholds in use, by id.
        report: Report with example texts, if the card may show them.

    Returns:
        Values for the template.
    """
    supports = {label_id: row["support"] for label_id, row in figures.items()}
    groups = shown_labels(labels, supports)
    shown = [label for _, group in groups for label in group]
    columns: list[tuple[str, str, Any]] = [("label", ":--", lambda label: escaped(label.name, _NAME))]
    if any(label.id != label.name for label in shown):
        columns.insert(0, ("id", ":--", lambda label: escaped(cut_at_front(label.id, _ID))))
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
            position = next(number for number, (name, _, _) in enumerate(columns) if name == "label")
            rows.append([f"**{heading}**" if number == position else "" for number in range(len(columns))])
        rows += [[cell(label) for _, _, cell in columns] for label in group]
    texts = {} if report is None else report.examples
    return {
        "label_columns": [(name, rule) for name, rule, _ in columns],
        "label_rows": rows,
        "shows_all_labels": len(shown) == len(labels),
        "examples": [
            (escaped(label.name, _NAME), [escaped(text, 200) for text in texts[label.id][:3]])
            for label in shown
            if texts.get(label.id)
        ],
    }


def results(report: Report | None, labels: LabelSet) -> dict[str, Any]:
    """Returns tables of results: by group of labels, by frequency, and of the most confused labels.

    Args:
        report: Evaluation report, if available.
        labels: The labels, for their names.

    Returns:
        Values for the template.
    """
    if report is None:
        return {"result_rows": [], "decile_rows": [], "confused_rows": []}
    metrics = report.metrics
    shown = [name for name in RESULTS if "accuracy" not in metrics or name in _SINGLE_LABEL_METRICS]
    # Metrics at k are trivial for k labels or fewer.
    shown = [name for name in shown if "_at_" not in name or int(name.rpartition("_")[2]) < len(report.labels)]
    groups = [group for group, prefix in _GROUPS.items() if any(prefix + name in metrics for name in shown)]
    rows = []
    for name in shown:
        if any(_GROUPS[group] + name in metrics for group in groups):
            rows.append([RESULTS[name], *(_percent(metrics.get(_GROUPS[group] + name)) for group in groups)])
    names = {label.id: label.name for label in labels}
    measured_ids = {row["id"] for row in report.labels}
    measured = [label.seen for label in labels if label.id in measured_ids]
    sizes = {"seen": f"{sum(measured):,} seen", "unseen": f"{len(measured) - sum(measured):,} unseen", "all": "all"}
    return {
        "result_groups": [sizes[group] for group in groups],
        "result_rows": rows,
        "dataset": escaped(report.dataset) if report.dataset else None,
        "split": escaped(report.split) if report.split and report.split != report.dataset else None,
        "documents": f"{report.documents:,}",
        **_deciles(report),
        "confused_rows": [
            [escaped(names.get(missed, missed), _NAME), escaped(names.get(predicted, predicted), _NAME), f"{number:,}"]
            for missed, predicted, number in report.confused[:_CONFUSED]
        ],
    }


def _deciles(report: Report) -> dict[str, Any]:
    counts = [row["count"] for row in report.labels]
    trained = [count for count in counts if count > 0]
    if len(trained) < 2 * len(DECILES) or min(trained) == max(trained):
        return {"decile_rows": []}
    names = {"macro_f1": "macro-F1", "macro_recall_at_5": "recall at 5", "macro_recall_at_10": "recall at 10"}
    shown = [name for name in names if any(decile + name in report.metrics for decile in DECILES)]
    rows = []
    for decile, columns in read_deciles(counts, len(counts)).items():
        group = [counts[column] for column in columns.tolist()]
        span = f"{min(group):,}" if min(group) == max(group) else f"{min(group):,}\u2013{max(group):,}"
        rows.append([span, f"{len(group):,}", *(_percent(report.metrics.get(decile + name)) for name in shown)])
    return {"decile_columns": [names[name] for name in shown], "decile_rows": rows if shown else []}


def calibration(model: GileForSequenceClassification, labels: LabelSet, report: Report | None) -> dict[str, Any]:
    """Returns the calibration method, calibration errors and thresholds.

    Args:
        model: The model.
        labels: The labels.
        report: Evaluation report, if available.

    Returns:
        Values for the template.
    """
    config = model.config
    rows: list[list[str]] = []
    metrics, groups = ({}, []) if report is None else (report.metrics, list(report.reliability))
    for group in groups:
        prefix = f"{group}_" if len(groups) > 1 else ""
        for name, cells in _CALIBRATION_ERRORS.items():
            times = [metrics.get(f"{time}{prefix}{name}") for time in ("uncalibrated_", "")]
            row = [f"{group} labels, {cells}", *(_percent(error, 2) for error in times if error is not None)]
            # With five labels, the five best are all labels.
            if times[1] is not None and (not rows or rows[-1][1:] != row[1:]):
                rows.append(row)
    methods: dict[str, list[str]] = {}
    for group, fitted in sorted(config.calibration.items()):
        methods.setdefault(METHODS[fitted["method"]], []).append(group)
    separate = [label for label in labels if label.threshold is not None]
    present = {"seen": any(labels.seen), "unseen": not all(labels.seen)}
    kinds = [group for group, is_present in present.items() if is_present]
    default = next(iter(config.thresholds.values()), 0.5)
    thresholds = []
    if config.thresholds or separate:
        thresholds = [(group, _number(config.thresholds.get(group, default))) for group in kinds]
    return {
        "methods": methods,
        "calibration_rows": rows,
        "group_thresholds": thresholds,
        "own_thresholds": len(separate),
        "unseen_like_seen": "unseen" in kinds and set(config.calibration) == set(config.thresholds) == {"seen"},
    }


def limits(model: GileForSequenceClassification, labels: LabelSet, info: CardInfo, report: Report | None) -> list[str]:
    """Returns general limitations of a model.

    Args:
        model: The model.
        labels: Labels of the model.
        info: Information about the model.
        report: Evaluation report, if available.

    Returns:
        Sentences.
    """
    config, sentences = model.config, []
    languages = [code for code in info.language if code != "multilingual"]
    if languages:
        sentences.append(f"It is for texts in {_format_list(languages)}; its quality in other languages is unknown.")
    sentences.append(_describe_length(config.text_config))
    if not config.text_config.reads_pretrained:
        words = f"It knows {config.text_config.vocab_size:,} words"
        sentences.append(
            f"{words}; all others count as the same unknown word. Scores of a text without known words are "
            "meaningless. Labels without known words all get the same score: describe them in other words."
            if config.output_layer != "linear"
            else f"{words}; all others count as the same unknown word."
        )
    if config.neighbours:
        size = config.neighbours * config.document_size * 4 / 1e6
        sentences.append(
            f"It stores the vectors of {config.neighbours:,} training documents with their labels ({size:,.0f} MB), "
            "but not their texts. What a document was about can be estimated from its vector."
        )
    if config.output_layer == "linear":
        sentences.append("It scores only the labels that it was trained on.")
    metrics = {} if report is None else report.metrics
    if config.output_layer != "linear":
        unseen, seen = (metrics.get(f"{group}_average_precision") for group in ("unseen", "seen"))
        if unseen is None or seen is None:
            sentences.append("Its ranking of labels without training documents was not measured.")
        else:
            sentences.append(
                "It ranks labels without training documents by their names and descriptions alone. Average precision "
                f"is {_percent(unseen)} among these, {_percent(seen)} among those seen in training."
            )
    if report is not None:
        without = sum(row["support"] == 0 for row in report.labels)
        if without:
            untested = (
                f"{without:,} of the {len(report.labels):,} labels {'has' if without == 1 else 'have'} no document"
            )
            sentences.append(f"{untested} in the test: they were not measured, and are left out of macro-F1.")
        sentences.append(
            "The figures hold for texts like those of the test; on other kinds of text, expect lower figures."
        )
    return sentences


def _describe_length(config: GileConfig) -> str:
    kind = config.text_encoder_type
    if kind == "hierarchical_transformer":
        size = f"{config.max_sentences} windows of whole sentences, each of up to {config.max_sentence_words} tokens"
    elif kind == "transformer":
        size = f"{config.max_words} tokens"
    elif kind in ("nn", "wan"):
        size = f"{config.max_words} words"
    else:
        size = f"{config.max_sentences} sentences, {config.max_sentence_words} words of each,"
    return (
        f'It reads the first {size} of a text; with `long_texts="max"` or `"mean"` the pipeline scores longer texts '
        "in pieces."
    )


def _format_list(names: Sequence[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def _percent(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{100 * value:.{digits}f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")


__all__ = ["METHODS", "RESULTS", "calibration", "label_tables", "limits", "overview", "results"]
