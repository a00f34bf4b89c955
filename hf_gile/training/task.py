"""Prepares training tasks: documents, labels, problem type, held-out labels, the metric for model selection."""

import difflib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast

from ..data.word_vectors import load_word_vectors
from ..data.zero_shot import hash_fraction, hash_order, held_out_labels, seen_first
from ..metrics.label_metrics import LabelMetrics
from ..models.labels_gile import LabelSet
from ..tokenizing import build_tokenizer

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass(frozen=True, eq=False)
class TextTask:
    """Documents and labels.

    Args:
        parts: Documents for `train`, `validation` and `test`.
        labels: Labels of training documents with their counts, then other labels.
        text: Column with the texts, or a function that returns the text of a row.
        gold: Column with the lists of label ids.
        cut: Parts that were cut from the training documents: once all is measured, the model is fitted on them, too.
    """

    parts: "Mapping[str, Dataset]"
    labels: LabelSet
    text: str | Callable[[dict[str, Any]], str] = "text"
    gold: str = "labels"
    cut: Collection[str] = ()

    def texts(self, part: str, number: int | None = None) -> Iterable[str]:
        """Returns the texts of a part, or of its first documents."""
        rows = self.parts[part]
        text = self.text
        if number is not None:
            rows = rows.select(range(min(number, len(rows))))
        return rows[text] if isinstance(text, str) else map(text, rows)


def in_hash_order(task: TextTask) -> TextTask:
    """Sorts documents by hashes, so that their order in the files does not change a fit."""
    orders = {part: hash_order(task.texts(part), rows[task.gold]) for part, rows in task.parts.items()}
    return replace(task, parts={part: rows.select(orders[part]) for part, rows in task.parts.items()})


def problem_type_of(parts: "Mapping[str, Dataset]", gold: str = "labels", requested: str | None = None) -> str:
    """Determines the problem type: single-label if every document has exactly one label, unless another is requested.

    Raises:
        ValueError: If single-label is requested, but a document has no label or several.
    """
    if requested == "multi_label_classification":
        return requested
    for part, rows in parts.items():
        for row, ids in enumerate(rows[gold]):
            if len(ids) != 1 and requested is None:
                return "multi_label_classification"
            if len(ids) != 1:
                raise ValueError(
                    f"problem_type single_label_classification: document {row} of {part} has {len(ids)} labels, but "
                    "each must have exactly one: fix it, or leave problem_type out"
                )
    return "single_label_classification"


def stored_rule(parts: "Mapping[str, Dataset]", gold: str = "labels") -> dict[str, int]:
    """Returns `GileConfig.thresholds` before they are fitted.

    That is "at_least" a label if each document for training and validation has one; those without are negatives.
    """
    has_labels = all(ids for part in ("train", "validation") for ids in parts[part][gold])
    return {"at_least": 1} if has_labels else {}


def hold_out(labels: LabelSet, number: int) -> tuple[LabelSet, set[str]]:
    """Holds out the labels with the lowest hashes of their ids among those with 5 to 500 training documents.

    Returns:
        The labels, seen labels first, and the ids of held-out labels.

    Raises:
        ValueError: If there are too few labels.
    """
    counts = {label.id: label.count for label in labels if label.seen}
    eligible = held_out_labels(counts, share=1.0)
    if len(eligible) < number or number == len(counts):
        raise ValueError(
            f"held_out_labels {number}: only {len(eligible)} of {len(counts)} seen labels have 5 to 500 training "
            "documents, and some labels must remain"
        )
    chosen = set(sorted(eligible, key=lambda label_id: hash_fraction("label", label_id, "validation"))[:number])
    return seen_first(labels, {label_id: counts[label_id] for label_id in counts.keys() - chosen}), chosen


def as_read(labels: LabelSet, label_texts: str) -> LabelSet:
    """Returns labels with the descriptions that the model reads, by `Options.label_texts`.

    Labels with the same name keep their description to distinguish them.
    """
    if label_texts == "definitions":
        return labels
    names = Counter(label.name for label in labels)
    read = []
    for label in labels:
        if names[label.name] == 1:
            synonyms = label.synonyms if label_texts == "synonyms" else ()
            label = replace(label, description="; ".join(synonyms))
        read.append(label)
    return LabelSet(read)


def words_of(
    texts: Iterable[str],
    label_texts: Iterable[str],
    min_count: int,
    word_vectors: str | None = None,
    keep_vectors: bool = False,
) -> tuple[PreTrainedTokenizerFast, NDArray[np.float32] | None]:
    """Builds the tokenizer, and initial word vectors if `word_vectors` is set.

    Args:
        texts: Texts of training documents.
        label_texts: Texts of labels, all of whose words enter the vocabulary.
        min_count: Minimum count of words in texts.
        word_vectors: File for `load_word_vectors`. All of its words enter the vocabulary, for unseen labels.
        keep_vectors: Whether word vectors are frozen; words without a vector are then unknown.
    """
    tokenizer = build_tokenizer(texts, label_texts=label_texts, min_count=min_count)
    if word_vectors is None:
        return tokenizer, None
    words, vectors = load_word_vectors(word_vectors).normalized().table()
    if not keep_vectors:
        with_vectors = set(words)
        rows = tokenizer.get_vocab()
        without_vectors = [word for word in sorted(rows, key=rows.__getitem__) if word not in with_vectors]
        initial = np.random.default_rng(0).normal(scale=vectors.std(), size=(len(without_vectors), vectors.shape[1]))
        words = [*words, *without_vectors]
        vectors = np.concatenate([vectors, initial.astype(np.float32)])
    return build_tokenizer(vocabulary=words), vectors


def full_name(figure: str) -> str:
    """Returns the name in Trainer of a metric, with or without the part.

    Example:
        >>> full_name("accuracy"), full_name("eval_test_accuracy")
        ('eval_validation_accuracy', 'eval_test_accuracy')
    """
    figure = figure.removeprefix("eval_")
    return f"eval_{figure}" if figure.startswith(("validation_", "test_")) else f"eval_validation_{figure}"


def metric_name(metric: str | None, has_unseen: bool, one_label: bool = False) -> str:
    """Returns the metric for choosing the epoch: by default average precision or accuracy on seen labels.

    Without unseen labels, the metrics have no groups, so it is the metric over all labels. `"loss"` is the default of
    `TrainingArguments`.
    """
    if metric in (None, "loss"):
        metric = f"validation_seen_{'accuracy' if one_label else 'average_precision'}"
    metric = full_name(str(metric))
    return metric if has_unseen else metric.replace("_unseen_", "_").replace("_seen_", "_")


def check_metric(metric: str | None, top_k: Sequence[int], parts: Iterable[str] = ("validation",)) -> None:
    """Checks that training computes the metric for choosing the epoch, for the parts evaluated after each epoch.

    Raises:
        ValueError: If training does not compute it.
    """
    if metric in (None, "loss"):
        return
    metrics = LabelMetrics(2, [True, False], top_k=top_k, one_label=True)
    metrics.update(torch.zeros(1, 2), torch.zeros(1, 1, dtype=torch.long))
    computed = [f"eval_{part}_{name}" for part in parts for name in ("loss", *metrics.compute())]
    name = full_name(str(metric))
    if name not in computed:
        near = difflib.get_close_matches(name, computed, n=3) or ["average_precision", "accuracy"]
        hint = " or ".join(name.removeprefix("eval_validation_") for name in near)
        raise ValueError(f"metric_for_best_model: training does not compute {metric!r}; did you mean {hint}?")


def check_unseen(metric: str | None, task: TextTask) -> None:
    """Checks that a validation document has an unseen label, if the metric for choosing the epoch needs it.

    Raises:
        ValueError: If no validation document has an unseen label.
    """
    unseen = {label.id for label in task.labels if not label.seen}
    gold = task.parts["validation"][task.gold]
    if "unseen" in (metric or "") and unseen.isdisjoint(label_id for row in gold for label_id in row):
        raise ValueError(
            f"metric_for_best_model {metric}: no validation document has an unseen label; hold out labels "
            "with --held_out_labels"
        )
