"""Model cards: the information of the author, the page, and the files of a card."""

import difflib
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, Literal

import yaml
from huggingface_hub import EvalResult, ModelCard, ModelCardData
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

from ..extras import needs_extra
from ..label_index import leads_out
from ..masking import masked_in
from ..models import GileForSequenceClassification, unwrapped
from ..models.labels_gile import LabelSet
from ..resources import resource
from ..writing import write_text
from ..yaml_files import read_yaml
from . import card_sections as sections
from .contents import UNKNOWN_REPOSITORY
from .markdown import escaped, python_text
from .plots import calibration_plot
from .report import Report, stored_labels

TEMPLATE = "model_cards/model_card.md.jinja"
"""Template of the card, a resource of the project."""

CARD_FILE = "card.yaml"
"""File in a saved model with the fields of `CardInfo` used for its card."""

FIGURE = "figures/calibration.png"
"""Figure of a card, in the folder of the model."""

LABEL_TABLE = "labels.csv"
"""Table of all labels, in the folder of the model."""

LANGUAGE_CODE = r"[a-z]{2,3}(-[A-Za-z]+)?|multilingual|code"
LICENSE_ID = r"[a-z0-9][a-z0-9.-]*"


@dataclass
class CardInfo:
    """Information about a model that its files do not contain. Missing information is left out of the card.

    Secrets in any field, such as a token in `training_command`, are masked.

    `summary`, `training_data`, `limits` and `citation` are inserted verbatim and may use Markdown.

    Args:
        model_name: Title; by default the last part of `repo_id`.
        repo_id: Repository of the model on the Hub.
        summary: Purpose of the model, in a sentence or two.
        language: Language codes of the texts, such as "en".
        license: Licence of the model, by its id on the Hub, such as "apache-2.0".
        datasets: Ids of the training data on the Hub.
        dataset_name: Name of the training data.
        dataset_license: Licence of the training data.
        base_model: Id on the Hub of the model that training started from.
        tags: Additional tags.
        training_command: Command that trains the model.
        training_data: Description of the training data.
        limits: Limitations and out-of-scope uses, a sentence each.
        citation: BibTeX of your work, in addition to that of GILE.

    Raises:
        ValueError: If a field has the wrong type, or the Hub would not accept an id, a language or a licence.

    Example:
        >>> CardInfo(repo_id="somebody/news", language="en").language
        ['en']
    """

    model_name: str | None = None
    repo_id: str | None = None
    summary: str | None = None
    language: list[str] = field(default_factory=list)
    license: str | None = None
    datasets: list[str] = field(default_factory=list)
    dataset_name: str | None = None
    dataset_license: str | None = None
    base_model: str | None = None
    tags: list[str] = field(default_factory=list)
    training_command: str | None = None
    training_data: str | None = None
    limits: list[str] = field(default_factory=list)
    citation: str | None = None

    def __post_init__(self) -> None:
        for declared in fields(self):
            value = getattr(self, declared.name)
            if declared.default is None and not isinstance(value, str | None):
                raise ValueError(f"{declared.name} must be a text, got {value!r:.200}")
            if declared.default is not None:
                value = _read_list(declared.name, value)
            setattr(self, declared.name, masked_in(value))
        for code in self.language:
            if not re.fullmatch(LANGUAGE_CODE, code):
                raise ValueError(
                    f"language must contain ISO 639 codes, such as 'en', or 'multilingual', got {code!r:.99}"
                )
        if self.license is not None and not re.fullmatch(LICENSE_ID, self.license):
            raise ValueError(
                f"license must be the id of a licence on the Hub, such as 'apache-2.0' or 'other', got "
                f"{self.license!r:.200}"
            )
        for name, value in [("repo_id", self.repo_id), ("base_model", self.base_model)]:
            if value is not None:
                _check_id(name, value)
        for dataset in self.datasets:
            _check_id("datasets", dataset)

    @property
    def name(self) -> str:
        """Returns the title of the card."""
        return self.model_name or (self.repo_id or "GILE model").rpartition("/")[2]


def _read_list(name: str, value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{name} must be a list of texts, got {value!r:.200}; in YAML, quote words such as no")
    return list(value)


def _check_id(name: str, value: str) -> None:
    try:
        validate_repo_id(value)
    except HFValidationError as error:
        raise ValueError(f"{name} must be an id on the Hub, got {value!r:.200} ({error})") from None


Card = CardInfo | ModelCard | str | Literal[False] | None
"""Information for a card, or an existing card; False for no card."""


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
        sections.write_label_table(Path(folder, LABEL_TABLE), labels, thresholds, figures)
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
        "config": model.config,
        "percent": sections.percent,
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


def read_card_fields(path: str | PathLike[str]) -> dict[str, Any]:
    """Reads fields of `CardInfo` from a YAML file, `name: value`.

    Args:
        path: The file.

    Returns:
        The fields, for `CardInfo(**fields)`.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If it is not YAML, or has an unknown field.
    """
    content = read_yaml(Path(path))
    if not isinstance(content, dict):
        raise ValueError(f"{path} must contain `name: value` lines, got {shortened(content)}")
    names = [field.name for field in fields(CardInfo)]
    for name in content:
        if name not in names:
            near = difflib.get_close_matches(str(name), names, n=1) or names
            raise ValueError(f"{path}: a card has no field {name!r}; did you mean {' or '.join(near)}?")
    return content


def write_card(
    folder: str | PathLike[str],
    model: GileForSequenceClassification,
    info: CardInfo | None = None,
    report: Report | None = None,
) -> None:
    """Writes the card of a saved model with its figure, and `info` for later cards.

    Args:
        folder: Folder of the model; an earlier card is replaced.
        model: The model.
        info: Information about the model, saved as `card.yaml`. If None, an existing `card.yaml` is not changed.
        report: Evaluation report.

    Raises:
        ImportError: If the extra `train` is not installed.
        ValueError: If the folder for figures is a link to another folder.
    """
    folder = Path(folder)
    if leads_out(folder / "figures", folder):
        raise ValueError(
            f"{folder / 'figures'} is a link to another folder, whose files would be replaced: remove the link"
        )
    write_text(folder / "README.md", str(make_card(model, info or CardInfo(), report, folder)))
    if info is not None:
        defaults = asdict(CardInfo())
        content = {name: value for name, value in asdict(replace(info)).items() if value != defaults[name]}
        write_text(folder / CARD_FILE, yaml.safe_dump(content, allow_unicode=True, sort_keys=False, width=120))
