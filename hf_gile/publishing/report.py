"""Evaluates a model on labelled documents: the report that is saved with the model and shown on its card.

Shapes: N documents, B documents in a batch, L stored labels, C candidate labels.
"""

import json
import math
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor
from tqdm.auto import tqdm

from ..masking import masked_in
from ..metrics import CalibrationMetrics, F1Metrics, RankingMetrics, propensities
from ..metrics.calibration import softmax_to_sigmoid_logits
from ..models import GileForSequenceClassification, GileProcessor, unwrapped
from ..models.labels_gile import Label, LabelSet
from ..models.losses_gile import IGNORE
from ..models.processing_gile import pad_rows
from ..models.search_gile import calibrated
from ..writing import whole_file
from .confusions import ConfusedPairs
from .label_table import shown_labels
from .markdown import shortened

REPORT_FILE = "results.json"
"""File name of the report in a saved model."""

FORMAT_VERSION = 1
"""Version of the file format. It increases with incompatible changes, so that older code refuses newer reports."""

TOP_K = (1, 3, 5, 10)
"""Numbers of labels for precision, recall and nDCG."""

_CONFUSED = 20
_EXAMPLE_LENGTH = 200
_MAX_SCORES = 1 << 24


@dataclass
class Report:
    """Metrics of a model on a set of documents, as plain numbers, lists and strings.

    Args:
        metrics: By name, the results of `LabelMetrics` and `CalibrationMetrics` on the calibrated scores, over all
            labels and with the prefixes `seen_`, `unseen_` and `decile_1_` to `decile_10_`; with the prefix
            `uncalibrated_` the calibration metrics of the raw scores, if the model has a calibration. With single-label
            documents also `accuracy`. Undefined metrics (no document has a label of the group) are missing.
        labels: For each candidate `id`, `count` (training documents), `support` (documents here), `precision`, `recall`
            and `f1` (None if undefined, without predicted or gold labels), and the `threshold` in use.
        confused: Pairs of labels in the same document, with the largest excess over chance first: the id of a missed
            label, the id of a wrongly predicted label, the number of documents.
        reliability: By group, `"seen"` and `"unseen"`, the bins of `CalibrationMetrics.reliability` `"before"`
            calibration and, if the model has one, `"after"`.
        history: `log_history` of the Trainer, for the learning curve of the card.
        documents: Number of documents N.
        dataset: Name of the dataset.
        split: Split of the dataset.
        command: The command that reproduces the report; secrets in all texts are masked.
        versions: Versions of the software.
        examples: Example texts by label id, for the labels on the card.

    Example:
        >>> report = Report(metrics={"micro_f1": 0.5}, labels=[], documents=3, split="test")
        >>> report.metrics["micro_f1"], report.dataset
        (0.5, None)
    """

    metrics: dict[str, float]
    labels: list[dict[str, Any]]
    confused: list[tuple[str, str, int]] = field(default_factory=list)
    reliability: dict[str, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    documents: int = 0
    dataset: str | None = None
    split: str | None = None
    command: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("command", "dataset", "split", "versions", "examples", "history"):
            setattr(self, name, masked_in(getattr(self, name)))
        self.history = [{name: _to_python(value) for name, value in row.items()} for row in self.history]

    def save(self, path: str | PathLike[str]) -> None:
        """Saves the report as JSON; an existing file is replaced once the new one is complete.

        Args:
            path: The file, such as `results.json` in the folder of the model.
        """
        text = self.to_json()
        with whole_file(path) as staged:
            staged.write_text(text, encoding="utf-8")

    def to_json(self) -> str:
        """Returns the JSON text that `save` writes."""
        rows = {"format_version": FORMAT_VERSION, **asdict(replace(self))}  # masks fields that have changed
        # One line per label, so that the file can be read and compared.
        labels = ",\n    ".join(json.dumps(label, ensure_ascii=False, allow_nan=False) for label in rows.pop("labels"))
        head = json.dumps(rows, ensure_ascii=False, indent=2, allow_nan=False)[:-2]
        return f'{head},\n  "labels": [\n    {labels}\n  ]\n}}\n'

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Report":
        """Reads a report written by `save`.

        Args:
            path: The file.

        Raises:
            FileNotFoundError: If the file does not exist.
            ValueError: If the file is not a report, or was written by newer code.
        """
        try:
            rows = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_reject_constant)
            version = rows.pop("format_version")
        except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(
                f"{path} is not a report ({type(error).__name__}: {error!s:.200}): create one with "
                "make_report(...).save(path)"
            ) from None
        if version != FORMAT_VERSION:
            raise ValueError(
                f"{path} has format_version {version!r:.100}, this code reads {FORMAT_VERSION}: upgrade hf-gile "
                "(pip install -U hf-gile), or create the report again"
            )
        names = {declared.name for declared in fields(cls)}
        if not {"metrics", "labels"} <= rows.keys() <= names:
            wrong = sorted(rows.keys() ^ names)
            raise ValueError(
                f"{path} is not a report: missing or unknown fields {', '.join(wrong):.200}; create it again"
            )
        rows["confused"] = [tuple(pair) for pair in rows.get("confused", [])]
        return cls(**rows)


@torch.no_grad()
def make_report(
    model: GileForSequenceClassification,
    processor: GileProcessor,
    texts: Sequence[Any],
    gold: Sequence[Any],
    *,
    columns: Sequence[int] | Tensor | None = None,
    excluded: Sequence[Sequence[str]] | None = None,
    example_texts: int = 0,
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
    `model.stored_labels.thresholds()`. With a single label per document the most probable label is predicted, and
    probabilities come from a softmax over the candidates.

    Args:
        model: A `GileForSequenceClassification` with stored labels; its training mode is restored afterwards.
        processor: The `GileProcessor` saved with the model.
        texts: N texts, or other documents that the processor accepts.
        gold: Gold label ids of each text (a list, or a single id). Gold labels that are not candidates count as false
            negatives.
        columns: Indices of the stored labels that are candidates; by default all.
        excluded: For each text, ids of labels that are not candidates, such as a product itself among its related ones.
        example_texts: Number of example texts to store for each label on the card, shortened to 200 characters. They
            are published with the report: use it only if the licence of the texts allows it.
        batch_size: Maximum number of documents scored at a time.
        bf16: Whether to run under bfloat16 autocast.
        num_training_documents: Number of documents that the model was trained on; with it, propensity-scored precision
            is computed as well.
        language: The language of all documents or a list of languages, for multilingual models.
        progress: Whether to show a progress bar.
        metadata: Other fields of the report: `dataset`, `split` ("test" by default), `command` and `history`.

    Raises:
        ValueError: If the numbers of texts and label lists differ, there are no documents, a label id is not stored,
            columns are invalid, or a document has several gold labels but the model predicts one.

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
    _check_documents(texts, gold, excluded, batch_size, example_texts, language)
    evaluation = _Evaluation(model, columns, num_training_documents, example_texts)
    was_training = model.training
    model.eval()
    step = max(1, min(batch_size, _MAX_SCORES // model.config.num_labels))
    try:
        for start in tqdm(range(0, len(texts), step), desc="documents", unit="batch", disable=not progress):
            part = slice(start, start + step)
            batch, batch_language = list(texts[part]), language
            if language is not None and not isinstance(language, str):
                batch_language = list(language[part])
            words = processor(text=batch, language=batch_language, return_tensors="pt")
            if excluded is not None:
                words["excluded_columns"] = evaluation.find_columns(excluded[start : start + step])
            with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
                logits = model(**words.to(model.device)).logits
            evaluation.update(logits.float(), batch, [gold[row] for row in range(start, start + len(batch))], start)
    finally:
        model.train(was_training)
    return Report(
        **{"split": "test", **evaluation.compute(), "documents": len(texts), "versions": _versions(), **metadata}
    )


def _check_documents(
    texts: Sequence[Any],
    gold: Sequence[Any],
    excluded: Sequence[Any] | None,
    batch_size: int,
    example_texts: int,
    language: str | Sequence[str] | None,
) -> None:
    if len(texts) != len(gold):
        raise ValueError(f"gold must have a list of label ids for each of the {len(texts)} texts, got {len(gold)}")
    if excluded is not None and len(texts) != len(excluded):
        raise ValueError(f"excluded must have a list of ids for each of the {len(texts)} texts, got {len(excluded)}")
    if len(texts) == 0:
        raise ValueError("no texts to evaluate on: pass at least one text")
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    if example_texts < 0:
        raise ValueError(f"example_texts must not be negative, got {example_texts}")
    if example_texts and not isinstance(texts[0], str) and not all(isinstance(word, str) for word in texts[0]):
        raise ValueError(f"example_texts needs documents that are texts, got {str(texts[0])[:40]}")
    if language is not None and not isinstance(language, str) and len(language) != len(texts):
        raise ValueError(
            f"language must be a single language, or a language for each of {len(texts)}, got {len(language)}"
        )


class _Evaluation:
    """Collects all counts of an evaluation."""

    def __init__(
        self,
        model: GileForSequenceClassification,
        columns: Sequence[int] | Tensor | None,
        num_documents: int | None,
        example_texts: int,
    ) -> None:
        config = model.config
        self.label_set, self.columns = stored_labels(model), _read_columns(columns, config.num_labels)
        self.indices = {label_id: column for column, label_id in enumerate(self.label_set.ids)}
        self.one_label = config.problem_type == "single_label_classification"
        self.calibration = config.calibration
        self.labels = [self.label_set[column] for column in self.columns.tolist()]
        self.positions = torch.full((config.num_labels,), IGNORE)
        self.positions[self.columns] = torch.arange(len(self.columns))
        self.seen = model.stored_labels.seen()[self.columns]
        self.thresholds = model.stored_labels.thresholds()[self.columns]
        mask = None if len(self.seen.unique()) == 1 else self.seen
        size = len(self.labels)
        counts = torch.tensor([label.count for label in self.labels], dtype=torch.float64)
        trained = counts if bool(counts.any()) else None
        shares = None if num_documents is None else propensities(counts, num_documents)
        top_k = [k for k in TOP_K if k <= size]
        self.ranking = RankingMetrics(size, mask, top_k, shares, trained)
        self.f1 = F1Metrics(size, self.thresholds, mask, trained, self.one_label)
        self.before = CalibrationMetrics(size, mask)
        self.after = CalibrationMetrics(size, mask) if self.calibration else None
        self.pairs = ConfusedPairs(size)
        self.example_texts = example_texts
        self.examples: dict[int, list[str]] = {}

    def find_columns(self, ids: Sequence[Sequence[str]]) -> Tensor:
        """Returns `(B, E)` label indices, padded with -100; unknown ids are ignored."""
        return pad_rows(
            [[self.indices[label_id] for label_id in row if label_id in self.indices] for row in ids], IGNORE
        )

    def update(self, logits: Tensor, texts: Sequence[Any], gold: Sequence[Any], start: int) -> None:
        rows = [self._gold(ids, start + row) for row, ids in enumerate(gold)]
        if self.example_texts:
            for text, row in zip(texts, rows, strict=True):
                for index in row:
                    examples = self.examples.setdefault(index, [])
                    if len(examples) < self.example_texts:
                        joined = text if isinstance(text, str) else " ".join(text)
                        examples.append(shortened(joined, _EXAMPLE_LENGTH))
        positions = pad_rows(rows, IGNORE).to(logits.device)
        logits = logits[:, self.columns.to(logits.device)]
        before = softmax_to_sigmoid_logits(logits) if self.one_label else logits
        self.before.update(before, positions)
        scores = before
        if self.after is not None:
            calibrated_logits = calibrated(logits, self.seen.to(logits.device), self.calibration)
            scores = softmax_to_sigmoid_logits(calibrated_logits) if self.one_label else calibrated_logits
            self.after.update(scores, positions)
        self.ranking.update(scores, positions)
        self.f1.update(scores, positions)
        if self.one_label:
            best = scores.argmax(dim=1, keepdim=True)
            predicted = torch.zeros_like(scores, dtype=torch.bool).scatter_(1, best, True)
        else:
            predicted = scores.sigmoid() >= self.thresholds.to(scores.device, scores.dtype)
        self.pairs.update(predicted, scores, positions)

    def compute(self) -> dict[str, Any]:
        metrics = {**self._ranking(), **self.f1.compute(), **(self.after or self.before).compute()}
        if self.after is not None:
            metrics |= {f"uncalibrated_{name}": value for name, value in self.before.compute().items()}
        labels = [self._figures(index) for index in range(len(self.labels))]
        supports = {label["id"]: label["support"] for label in labels}
        shown = {label.id for _, group in shown_labels(LabelSet(self.labels), supports) for label in group}
        return {
            "metrics": {name: float(value) for name, value in metrics.items() if math.isfinite(value)},
            "labels": labels,
            "confused": [
                (self.labels[missed].id, self.labels[wrong].id, number)
                for missed, wrong, number in self.pairs.most(_CONFUSED)
            ],
            "reliability": self._reliability(),
            "examples": {
                self.labels[index].id: texts
                for index, texts in sorted(self.examples.items())
                if self.labels[index].id in shown
            },
        }

    def _ranking(self) -> dict[str, float]:
        """Returns ranking metrics, except trivial metrics of groups with a single label."""
        metrics = self.ranking.compute()
        for prefix, columns in self.ranking.groups.items():
            if int(columns.sum()) < 2:
                other_prefixes = tuple(other for other in self.ranking.groups if other and other != prefix)
                metrics = {
                    name: value
                    for name, value in metrics.items()
                    if not name.startswith(prefix) or (not prefix and name.startswith(other_prefixes))
                }
        return metrics

    def _gold(self, ids: str | Iterable[str], document: int) -> list[int]:
        ids = [ids] if isinstance(ids, str) else ids
        try:
            columns = list(dict.fromkeys(self.label_set.columns(ids)))
        except ValueError as error:
            raise ValueError(f"gold[{document}]: {error}; remove ids that the model does not know") from None
        gold = [position for position in self.positions[columns].tolist() if position >= 0] if columns else []
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
            "precision": round(hits / predicted, 4) if predicted else None,
            "recall": round(hits / support, 4) if support else None,
            "f1": round(2 * hits / (predicted + support), 4) if predicted + support else None,
            "threshold": None if self.one_label else round(float(self.thresholds[index]), 6),
        }

    def _reliability(self) -> dict[str, dict[str, list[dict[str, Any]]]]:
        times = {"before": self.before} if self.after is None else {"before": self.before, "after": self.after}
        groups = {"seen": "seen", "unseen": "unseen"}
        if len(self.seen.unique()) == 1:
            groups = {"seen" if bool(self.seen[0]) else "unseen": ""}
        return {
            name: {time: metrics.reliability(group) for time, metrics in times.items()}
            for name, group in groups.items()
        }


def stored_labels(model: GileForSequenceClassification) -> LabelSet:
    """Returns the labels stored with a model, or labels created from the names in its configuration.

    Args:
        model: A `GileForSequenceClassification`.

    Returns:
        `model.label_set`, or a label set of the names in its configuration, with names as ids: a linear unit may store
        only names, and was trained on all of them.
    """
    if model.label_set is not None:
        return model.label_set
    names = [model.config.id2label[column] for column in range(model.config.num_labels)]
    return LabelSet(Label(name, name, seen=True) for name in names)


def _read_columns(columns: Sequence[int] | Tensor | None, num_labels: int) -> Tensor:
    if columns is None:
        return torch.arange(num_labels)
    chosen = torch.as_tensor(columns).cpu()
    are_indices = (
        chosen.dim() == 1 and len(chosen) > 0 and not chosen.is_floating_point() and chosen.dtype != torch.bool
    )
    if (
        not are_indices
        or int(chosen.min()) < 0
        or int(chosen.max()) >= num_labels
        or len(chosen.unique()) < len(chosen)
    ):
        raise ValueError(f"columns must be distinct integers from 0 to {num_labels - 1}, at least one")
    return chosen.long().sort().values


def _to_python(value: object) -> Any:
    """Converts a number of numpy or torch to Python; NaN and infinity, which JSON lacks, become None."""
    if isinstance(value, np.generic | Tensor):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


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


__all__ = ["REPORT_FILE", "Report", "make_report", "stored_labels"]
