"""Creates model cards: purpose, labels, results and limitations of a model."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from ..extras import needs_extra
from ..models import GileForSequenceClassification, unwrapped
from ..models.labels_gile import LabelSet
from ..resources import resource
from . import card_sections as sections
from .card_info import CardInfo
from .contents import UNKNOWN_REPOSITORY
from .label_table import LABEL_TABLE, write_label_table
from .markdown import escaped, python_text
from .plots import calibration_plot
from .report import Report, stored_labels

TEMPLATE = "model_cards/model_card.md.jinja"
"""Template of the card, a resource of the project."""

FIGURE = "figures/calibration.png"
"""Figure of a card, in the folder of the model."""

_NAMED_METRICS = {
    "accuracy": ("accuracy", "Accuracy"),
    "micro_f1": ("f1", "Micro-F1"),
    "macro_f1": ("f1", "Macro-F1"),
    "average_precision": ("average_precision", "Average precision"),
    "precision_at_1": ("precision_at_1", "Precision at 1"),
    "precision_at_5": ("precision_at_5", "Precision at 5"),
    "ndcg_at_5": ("ndcg_at_5", "nDCG at 5"),
    "top_5_expected_calibration_error": (
        "expected_calibration_error",
        "Expected calibration error of the five best labels",
    ),
}


def make_card(
    model: GileForSequenceClassification,
    info: CardInfo,
    report: Report | None = None,
    folder: str | PathLike[str] | None = None,
) -> ModelCard:
    """Creates a model card. Sections without information are left out.

    The task on the Hub (`pipeline_tag`) is zero-shot-classification, as the model can score labels that it was not
    trained on, or text-classification for a linear unit. Results are added to the metadata (`model-index`) as numbers
    from 0 to 1 if the report or `info` names the dataset, which the Hub requires. Results of unseen labels are listed
    under zero-shot-classification.

    Args:
        model: A `GileForSequenceClassification`; a linear unit may store names alone.
        info: Information about the model.
        report: Evaluation report from `make_report`.
        folder: Folder for the plot of the calibration and the table of all labels, `labels.csv`, which the card refers
            to. An outdated plot is removed. To write the card itself, call `card.save(folder / "README.md")`.

    Returns:
        The card, with its metadata in `data`.

    Raises:
        ImportError: If the extra `train` is not installed.

    Example:
        >>> from hf_gile import GileConfig, GileForSequenceClassification, GileProcessor, build_tokenizer
        >>> labels = LabelSet.from_names(["Heart Failure", "Milk, Human"])
        >>> tokenizer = build_tokenizer(labels.texts, min_count=1)
        >>> model = GileForSequenceClassification(GileConfig(vocab_size=len(tokenizer), num_labels=2))
        >>> model.set_labels(labels, GileProcessor.for_config(tokenizer, model.config))
        >>> card = make_card(model, CardInfo(repo_id="somebody/hearts", language="en"))
        >>> card.data.pipeline_tag, card.text.lstrip().splitlines()[0]
        ('zero-shot-classification', '# hearts')
    """
    with needs_extra("train", "a model card"):
        import jinja2  # noqa: F401  (ModelCard needs it, but does not name the extra)
    info = replace(info)  # masks secrets again: fields may have changed
    report = Report({}, []) if report is None else replace(report)
    model = unwrapped(model)
    if info.base_model is None and model.config.text_config.reads_pretrained:
        with suppress(ValueError):  # not a name on the Hub
            info = replace(info, base_model=model.config.text_config.text_encoder_config._name_or_path or None)
    labels = stored_labels(model)
    figures = {row["id"]: row for row in report.labels}
    thresholds = _thresholds(model, labels, figures)
    has_plot = False
    if folder is not None:
        has_plot = calibration_plot(report.reliability, Path(folder, FIGURE))
        if not has_plot:
            Path(folder, FIGURE).unlink(missing_ok=True)
        write_label_table(Path(folder, LABEL_TABLE), labels, thresholds, figures)
    page = {
        "md": lambda text: escaped(str(text)),
        "info": info,
        "report": report,
        "repo": python_text(info.repo_id or UNKNOWN_REPOSITORY),
        "repo_id": info.repo_id or UNKNOWN_REPOSITORY,
        "figure": FIGURE if has_plot else None,
        "label_table": None if folder is None else LABEL_TABLE,
        "can_add": model.config.output_layer != "linear",
        "is_bilinear": model.config.output_layer.startswith("bilinear"),
        "one_label": model.config.problem_type == "single_label_classification",
        **sections.overview(model, labels),
        **sections.label_tables(labels, figures, thresholds),
        **sections.results(report, labels),
        **sections.calibration(model, labels, report),
        "limits": [*sections.limits(model, info, report), *info.limits],
    }
    data = _metadata(model, info, report)
    card = ModelCard.from_template(data, template_path=str(resource(TEMPLATE)), **page)
    return ModelCard(re.sub(r"\n{3,}", "\n\n", str(card)).rstrip() + "\n")


def _thresholds(
    model: GileForSequenceClassification, labels: LabelSet, figures: Mapping[str, Mapping[str, Any]]
) -> dict[str, float | None]:
    if model.config.problem_type == "single_label_classification":
        return dict.fromkeys(labels.ids)
    values = model.stored_labels.thresholds()
    stored = {label.id: round(value, 6) for label, value in zip(labels, values.tolist(), strict=True)}
    return {**stored, **{label_id: row["threshold"] for label_id, row in figures.items() if label_id in stored}}


def _metadata(model: GileForSequenceClassification, info: CardInfo, report: Report) -> ModelCardData:
    one_label = model.config.problem_type == "single_label_classification"
    is_linear = model.config.output_layer == "linear"
    results = _eval_results(info, report)
    types = {result.metric_type for result in results}
    return ModelCardData(
        language=info.language or None,
        license=info.license,
        library_name="transformers",
        pipeline_tag="text-classification" if is_linear else "zero-shot-classification",
        tags=["gile", "label-scoring", "single-label" if one_label else "multi-label", *info.tags],
        datasets=info.datasets or None,
        base_model=info.base_model,
        metrics=[name for name in ("accuracy", "f1") if name in types] or None,
        model_name=info.name if results else None,
        eval_results=results or None,
    )


def _eval_results(info: CardInfo, report: Report) -> list[EvalResult]:
    dataset_id = next(iter(info.datasets), None)
    name = report.dataset or info.dataset_name or dataset_id
    if name is None:
        return []
    if dataset_id is None:
        dataset_id = re.sub(r"[^\w.-]+", "-", name.lower()).strip("-") or "data"
    eval_results = []
    groups = {"": "text-classification", "seen_": "text-classification", "unseen_": "zero-shot-classification"}
    for prefix, task in groups.items():
        group = f" ({prefix[:-1]} labels)" if prefix else ""
        for metric, (kind, title) in _NAMED_METRICS.items():
            value = report.metrics.get(prefix + metric)
            # For single-label models, these equal the accuracy.
            if value is None or ("accuracy" in report.metrics and metric in ("micro_f1", "precision_at_1")):
                continue
            eval_results.append(
                EvalResult(
                    task_type=task,
                    dataset_type=dataset_id,
                    dataset_name=name,
                    dataset_split=report.split,
                    metric_type=kind,
                    metric_name=title + group,
                    metric_value=round(float(value), 5),
                )
            )
    return eval_results
