"""Evaluates a model on labelled documents: the report that is saved with the model and shown on its card.

Shapes: N documents, B documents in a batch, L stored labels, C candidate labels.
"""

import json
import math
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from tqdm.auto import tqdm
from transformers import BatchFeature

from ..masking import masked_in
from ..metrics import CalibrationMetrics, F1Metrics, RankingMetrics, propensities
from ..metrics.batch import read_indices
from ..metrics.calibration import softmax_to_sigmoid_logits
from ..models import GileForSequenceClassification, GileProcessor, unwrapped
from ..models.labels_gile import Label, LabelSet
from ..models.losses_gile import IGNORE
from ..models.registration import evaluating
from ..models.search_gile import calibrated
from ..models.texts_gile import pad_rows
from ..writing import write_text

REPORT_FILE = "results.json"
"""File name of the report in a saved model."""

TOP_K = (1, 3, 5, 10, 20)
"""Numbers of labels for precision, recall and nDCG."""

_MAX_SCORES = 1 << 24


@dataclass
class Report:
    """Metrics of a model on a set of documents, as plain numbers, lists and strings.

    Args:
        metrics: By name, the results of `LabelMetrics` and `CalibrationMetrics` on the calibrated scores, over all
            labels and with the prefixes `seen_` and `unseen_`; with the prefix `uncalibrated_` the calibration metrics
            of the raw scores, if the model has a calibration. With single-label documents also `accuracy`. Undefined
            metrics (no document has a label of the group) are missing.
        labels: For each candidate `id`, `count` (training documents), `support` (documents here), `precision`, `recall`
            and `f1` (None if undefined, without predicted or gold labels), and the `threshold` in use.
        reliability: By group, `"seen"` and `"unseen"`, the bins of `CalibrationMetrics.reliability` `"before"`
            calibration and, if the model has one, `"after"`.
        documents: Number of documents N.
        dataset: Name of the dataset.
        split: Split of the dataset.
        command: The command that reproduces the report; secrets in all texts are masked.
        versions: Versions of the software.

    Example:
        >>> report = Report(metrics={"micro_f1": 0.5}, labels=[], documents=3, split="test")
        >>> report.metrics["micro_f1"], report.dataset
        (0.5, None)
    """

    metrics: dict[str, float]
    labels: list[dict[str, Any]]
    reliability: dict[str, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)
    documents: int = 0
    dataset: str | None = None
    split: str | None = None
    command: str | None = None
    versions: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("command", "dataset", "split", "versions"):
            setattr(self, name, masked_in(getattr(self, name)))

    def save(self, path: str | PathLike[str]) -> None:
        """Saves the report as JSON; an existing file is replaced once the new one is complete."""
        write_text(path, self.to_json())

    def to_json(self) -> str:
        """Returns the JSON text that `save` writes."""
        rows = asdict(replace(self))  # masks fields that have changed
        # One line per label, so that the file can be read and compared.
        labels = ",\n    ".join(json.dumps(label, ensure_ascii=False, allow_nan=False) for label in rows.pop("labels"))
        head = json.dumps(rows, ensure_ascii=False, indent=2, allow_nan=False)[:-2]
        return f'{head},\n  "labels": [\n    {labels}\n  ]\n}}\n'

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Report":
        """Reads a report written by `save`.

        Raises:
            FileNotFoundError: If the file does not exist.
            ValueError: If the file is not a report.
        """
        try:
            rows = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_reject_constant)
            return cls(**rows)
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(
                f"{path} is not a report ({type(error).__name__}: {error!s:.200}): create one with "
                "make_report(...).save(path)"
            ) from None


@torch.no_grad()
def make_report(
    model: GileForSequenceClassification,
    processor: GileProcessor | Callable[..., BatchFeature],
    texts: Sequence[Any],
    gold: Sequence[Any],
    *,
    columns: Sequence[int] | Tensor | None = None,
    excluded: Sequence[Sequence[str]] | None = None,
    batch_size: int = 32,
    bf16: bool = False,
    num_training_documents: int | None = None,
    language: str | Sequence[str] | None = None,
    progress: bool = False,
    **metadata: Any,
) -> Report:
    """Scores documents with the stored labels of a model, and computes all metrics.

    Documents are scored in batches of at most 16 million scores. Scores are the same as in the pipeline, calibrated if
    the model has a calibration. A label is predicted if its probability reaches the threshold in use,
    `model.stored_labels.thresholds()`, or if none does and `config.force_label` is set, it is the most probable one.
    With a single label per document the most probable label is predicted, and
    probabilities come from a softmax over the candidates.

    Args:
        model: A `GileForSequenceClassification` with stored labels; its training mode is restored afterwards.
        processor: The `GileProcessor` saved with the model, or a function that encodes its batches.
        texts: N texts, or other documents that the processor accepts.
        gold: Gold label ids of each text (a list, or a single id). Gold labels that are not candidates count as false
            negatives.
        columns: Indices of the stored labels that are candidates; by default all.
        excluded: For each text, ids of labels that are not candidates, such as a product itself among its related ones.
        batch_size: Maximum number of documents scored at a time.
        bf16: Whether to run under bfloat16 autocast.
        num_training_documents: Number of documents that the model was trained on; with it, propensity-scored precision
            is computed as well.
        language: The language of all documents or a list of languages, for multilingual models.
        progress: Whether to show a progress bar.
        metadata: Other fields of the report: `dataset`, `split` ("test" by default) and `command`.

    Raises:
        ValueError: If the numbers of texts and of gold labels, excluded labels or languages differ, there are no
            documents, a label id is not stored, columns are invalid, or a document has several gold labels but the
            model predicts one.

    Example:
        >>> from hf_gile import GileConfig, GileForSequenceClassification, GileProcessor, build_tokenizer
        >>> texts, labels = ["the heart pumps", "milk for infants"], LabelSet.from_names(["Heart", "Milk"])
        >>> tokenizer = build_tokenizer([*texts, *labels.texts], min_count=1)
        >>> config = GileConfig(vocab_size=len(tokenizer), num_labels=2, problem_type="multi_label_classification")
        >>> model, processor = GileForSequenceClassification(config), GileProcessor.for_config(tokenizer, config)
        >>> model.set_labels(labels, processor)
        >>> report = make_report(model, processor, texts, [["Heart"], ["Milk"]])
        >>> [label["support"] for label in report.labels]
        [1, 1]
    """
    model = unwrapped(model)
    languages = None if isinstance(language, str) else language
    for name, values in {"gold": gold, "excluded": excluded, "language": languages}.items():
        if values is not None and len(values) != len(texts):
            raise ValueError(f"{name} must have an entry for each of the {len(texts)} texts, got {len(values)}")
    evaluation = _Evaluation(model, columns, num_training_documents)
    step = max(1, min(batch_size, _MAX_SCORES // model.config.num_labels))
    with evaluating(model):
        for start in tqdm(range(0, len(texts), step), desc="documents", unit="batch", disable=not progress):
            part = slice(start, start + step)
            if languages is not None:
                language = list(languages[part])
            words = processor(text=list(texts[part]), language=language, return_tensors="pt")
            if excluded is not None:
                words["excluded_columns"] = evaluation.find_columns(excluded[part])
            with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
                logits = model(**words.to(model.device)).logits
            evaluation.update(logits.float(), list(gold[part]), start)
    measured = {"split": "test", "documents": len(texts), "versions": _versions(), **evaluation.compute()}
    return Report(**measured | metadata)


class _Evaluation:
    """Collects all counts of an evaluation."""

    def __init__(
        self,
        model: GileForSequenceClassification,
        columns: Sequence[int] | Tensor | None,
        num_documents: int | None,
    ) -> None:
        config = model.config
        self.label_set = stored_labels(model)
        self.known_ids = set(self.label_set.ids)
        self.columns = read_indices(columns, config.num_labels)
        self.one_label = config.problem_type == "single_label_classification"
        self.calibration = config.calibration
        self.labels = [self.label_set[column] for column in self.columns.tolist()]
        self.positions = torch.full((config.num_labels,), IGNORE)
        self.positions[self.columns] = torch.arange(len(self.columns))
        self.seen = model.stored_labels.seen()[self.columns]
        self.thresholds = model.stored_labels.thresholds()[self.columns]
        mask = None if len(self.seen.unique()) == 1 else self.seen
        size = len(self.labels)
        shares = None
        if num_documents is not None:
            counts = torch.tensor([label.count for label in self.labels], dtype=torch.float64)
            shares = propensities(counts, num_documents)
        self.ranking = RankingMetrics(size, mask, [k for k in TOP_K if k <= size], shares)
        self.f1 = F1Metrics(size, self.thresholds, mask, self.one_label, config.force_label)
        self.before = CalibrationMetrics(size, mask)
        self.after = CalibrationMetrics(size, mask) if self.calibration else None

    def find_columns(self, ids: Sequence[Sequence[str]]) -> Tensor:
        """Returns `(B, E)` label indices, padded with -100; unknown ids are ignored."""
        known = [[label_id for label_id in row if label_id in self.known_ids] for row in ids]
        return pad_rows([self.label_set.columns(row) for row in known], IGNORE)

    def update(self, logits: Tensor, gold: Sequence[Any], start: int) -> None:
        rows = [self._gold(ids, start + row) for row, ids in enumerate(gold)]
        positions = pad_rows(rows, IGNORE).to(logits.device)
        logits = logits[:, self.columns.to(logits.device)]
        self.before.update(self._as_sigmoid(logits), positions)
        if self.after is not None:
            logits = calibrated(logits, self.seen.to(logits.device), self.calibration)
            self.after.update(self._as_sigmoid(logits), positions)
        self.ranking.update(logits, positions)
        self.f1.update(logits, positions)

    def _as_sigmoid(self, logits: Tensor) -> Tensor:
        """Converts logits to those of a sigmoid with the same probabilities."""
        return softmax_to_sigmoid_logits(logits) if self.one_label else logits

    def compute(self) -> dict[str, Any]:
        metrics = {**self._ranking(), **self.f1.compute(), **(self.after or self.before).compute()}
        if self.after is not None:
            metrics |= {f"uncalibrated_{name}": value for name, value in self.before.compute().items()}
        return {
            "metrics": {name: float(value) for name, value in metrics.items() if math.isfinite(value)},
            "labels": [self._figures(index) for index in range(len(self.labels))],
            "reliability": self._reliability(),
        }

    def _ranking(self) -> dict[str, float]:
        """Returns ranking metrics, except trivial metrics of groups with a single label."""
        metrics = self.ranking.compute()
        names = {name for name in metrics if not name.startswith(("seen_", "unseen_"))} - {"documents", "skipped"}
        trivial = [prefix for prefix, columns in self.ranking.groups.items() if int(columns.sum()) < 2]
        left_out = {prefix + name for prefix in trivial for name in names}
        return {name: value for name, value in metrics.items() if name not in left_out}

    def _gold(self, ids: str | Iterable[str], document: int) -> list[int]:
        if isinstance(ids, str):
            ids = [ids]
        try:
            columns = list(dict.fromkeys(self.label_set.columns(ids)))
        except ValueError as error:
            raise ValueError(f"gold[{document}]: {error}; remove ids that the model does not know") from None
        gold = [position for position in self.positions[columns].tolist() if position >= 0]
        if self.one_label and len(gold) > 1:
            raise ValueError(
                f"gold[{document}] has {len(gold)} labels, but the model predicts a single label per document"
            )
        return gold

    def _figures(self, index: int) -> dict[str, Any]:
        label = self.labels[index]
        hits, predicted, support = (int(counts[index]) for counts in (self.f1.hits, self.f1.predicted, self.f1.gold))
        return {
            "id": label.id,
            "count": label.count,
            "support": support,
            "precision": _ratio(hits, predicted),
            "recall": _ratio(hits, support),
            "f1": _ratio(2 * hits, predicted + support),
            "threshold": None if self.one_label else round(float(self.thresholds[index]), 6),
        }

    def _reliability(self) -> dict[str, dict[str, list[dict[str, Any]]]]:
        times = {"before": self.before}
        if self.after is not None:
            times["after"] = self.after
        groups = {"seen": "seen", "unseen": "unseen"}
        if len(self.seen.unique()) == 1:
            groups = {"seen" if bool(self.seen[0]) else "unseen": ""}
        return {
            name: {time: metrics.reliability(group) for time, metrics in times.items()}
            for name, group in groups.items()
        }


def stored_labels(model: GileForSequenceClassification) -> LabelSet:
    """Returns the labels stored with a model; for a linear unit with names only, seen labels with names as ids."""
    if model.label_set is not None:
        return model.label_set
    names = [model.config.id2label[column] for column in range(model.config.num_labels)]
    return LabelSet(Label(name, name, seen=True) for name in names)


def _ratio(part: int, number: int) -> float | None:
    return round(part / number, 4) if number else None


def _reject_constant(number: str) -> None:
    raise ValueError(f"it contains the number {number}")


def _versions() -> dict[str, str]:
    from .. import __version__  # not at the top, which would be a circular import

    return {
        "hf_gile": __version__,
        "transformers": transformers.__version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
    }
