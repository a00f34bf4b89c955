"""Several labelled sets as one task: what of them is trained on, what is held out, and what is measured.

Labels of several sets that say the same are one label, whose id is what it says, in small letters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..data.zero_shot import held_out_labels, split_of
from ..models.labels_gile import Label, LabelSet
from .label_sampling import LabelSampler

if TYPE_CHECKING:
    from datasets import Dataset

GROUPS = {
    "held_out": "held-out labels, among themselves",
    "held_out_among_all": "held-out labels, among all of the set",
    "seen": "seen labels",
    "all": "all labels of an unseen set",
}
"""What of a set is measured: gold labels, and candidates to rank them among."""


@dataclass(frozen=True, eq=False)
class LabelledSet:
    """A set of documents with labels of its own.

    Args:
        name: Names the set in figures and errors.
        documents: Columns `id`, `text` and `labels`, ids of `label_of`.
        label_of: Its labels by id.
        held_out: Share of the labels that no set trains on.
        share: Of the batches of training, beside the others; by default the square root of its documents.
        test_only: Whether the set is only measured.
    """

    name: str
    documents: Dataset
    label_of: dict[str, Label]
    held_out: float = 0.0
    share: float | None = None
    test_only: bool = False


def labelled_set(name: str, documents: Dataset, labels: Mapping[str, Label], **options: Any) -> LabelledSet:
    """Makes a set of documents whose labels have ids that mean nothing beyond it.

    Args:
        name: Of the set.
        documents: Columns `id`, `text` and `labels`.
        labels: From the ids of the documents to labels; other ids are left out, and documents without any left.
        options: The other fields of `LabelledSet`.

    Raises:
        ValueError: No document is left.
    """
    key_of = {label_id: label.text.casefold() for label_id, label in labels.items()}
    label_of: dict[str, Label] = {}
    for label_id, key in key_of.items():
        label_of.setdefault(key, replace(labels[label_id], id=key))

    def keys(ids: list[str]) -> dict[str, list[str]]:
        return {"labels": list(dict.fromkeys(key_of[label_id] for label_id in ids if label_id in key_of))}

    documents = documents.map(keys, input_columns="labels").filter(len, input_columns="labels")
    if len(documents) == 0:
        raise ValueError(f"set {name}: no document has one of its labels")
    return LabelledSet(name, documents, label_of, **options)


@dataclass(frozen=True, eq=False)
class JoinedSets:
    """Labelled sets with one set of labels.

    Args:
        trained: The sets to train on.
        foreign: The sets that are only measured.
        labels: Those of the sets to train on, the seen ones first, with their numbers of training documents.
        held_out: Ids of the labels that no set trains on.
        rows: Of each set to train on the rows to train on, and the rows to measure.
    """

    trained: list[LabelledSet]
    foreign: list[LabelledSet]
    labels: LabelSet
    held_out: set[str]
    rows: dict[str, tuple[list[int], list[int]]]


def join_sets(sets: Sequence[LabelledSet]) -> JoinedSets:
    """Divides the labels and documents of sets into those to train on and those to measure.

    Args:
        sets: The sets.

    Raises:
        ValueError: No set, or no document of a set, is left to train on.
    """
    trained = [one for one in sets if not one.test_only]
    if not trained:
        raise ValueError("there is nothing to train on, all sets are test_only")
    held_out = held_out_ids(trained)
    rows = {one.name: divide(one, held_out) for one in trained}
    counts = Counter(
        label_id for one in trained for ids in one.documents.select(rows[one.name][0])["labels"] for label_id in ids
    )
    label_of = {key: label for one in reversed(trained) for key, label in one.label_of.items()}
    for key in held_out:
        del counts[key]
    labels = (replace(label, seen=counts[key] > 0, count=counts[key]) for key, label in label_of.items())
    ordered = LabelSet(sorted(labels, key=lambda label: not label.seen))
    return JoinedSets(trained, [one for one in sets if one.test_only], ordered, held_out, rows)


def held_out_ids(sets: Iterable[LabelledSet]) -> set[str]:
    """Chooses the labels that no set trains on: those that one of them holds out, by a hash of what they say.

    They have at most 500 documents, as those of `held_out_labels`: without more frequent ones, such as "Humans" in
    MEDLINE, training would be another task.

    Args:
        sets: The sets to train on.
    """
    chosen: set[str] = set()
    for one in sets:
        counts = Counter(label_id for ids in one.documents["labels"] for label_id in ids)
        chosen.update(held_out_labels(counts, share=one.held_out, min_count=1))
    return chosen


def divide(one: LabelledSet, held_out: set[str]) -> tuple[list[int], list[int]]:
    """Divides the documents of a set.

    Args:
        one: The set.
        held_out: Ids of labels that are not trained on.

    Returns:
        The rows to train on; and those to measure: a tenth, by a hash of their ids, and all that training cannot use.

    Raises:
        ValueError: No row is left to train on.
    """
    rows: tuple[list[int], list[int]] = ([], [])
    for row, (name, ids) in enumerate(zip(one.documents["id"], one.documents["labels"], strict=True)):
        rows[held_out.issuperset(ids) or split_of(name, test=0.0) == "validation"].append(row)
    if not rows[False]:
        raise ValueError(f"set {one.name}: no document is left to train on")
    return rows


@dataclass(frozen=True, eq=False)
class Task:
    """Documents to rank labels for.

    Args:
        set_name: The set.
        group: A key of `GROUPS`.
        documents: Encoded documents, with a gold label each.
        columns: The candidates, ascending columns of the label set.
        label_set: The labels of a set that is not trained on; by default those stored in the model.
    """

    set_name: str
    group: str
    documents: Any
    columns: Sequence[int]
    label_set: LabelSet | None = None


def training_parts(
    joined: JoinedSets, encode: Callable[[Dataset, LabelSet], Any], num_negatives: int, seed: int
) -> tuple[list[Any], list[LabelSampler], list[Task]]:
    """Encodes the sets to train on.

    Args:
        joined: The sets.
        encode: Encodes documents for a label set, as `encode_dataset`.
        num_negatives: Labels of its own set sampled for a batch.
        seed: Of the samples.

    Returns:
        Of each set the encoded documents to train on and the sampler of its labels; and what of them is measured.

    Raises:
        ValueError: All labels of a set are held out.
    """
    labels, parts, samplers, tasks = joined.labels, [], [], []
    for one in joined.trained:
        seen = sorted(labels.column(key) for key in one.label_of if labels[labels.column(key)].seen)
        unseen = sorted(labels.column(key) for key in one.label_of if key in joined.held_out)
        if not seen:
            raise ValueError(f"set {one.name}: all its labels are held out, lower held_out")
        train_rows, measured_rows = joined.rows[one.name]
        encoded = encode(one.documents, labels)
        parts.append(with_gold_among(encoded.select(train_rows), seen))
        samplers.append(LabelSampler(len(labels), num_negatives, seen, seed=seed))
        groups = {"seen": (seen, seen), "held_out": (unseen, unseen)}
        groups["held_out_among_all"] = (unseen, sorted([*seen, *unseen]))
        for group, (gold, candidates) in groups.items():
            rows = with_gold_among(encoded.select(measured_rows), gold)
            if len(rows) and len(candidates) > 1:
                tasks.append(Task(one.name, group, rows, candidates))
    return parts, samplers, tasks


def foreign_tasks(joined: JoinedSets, encode: Callable[[Dataset, LabelSet], Any]) -> list[Task]:
    """Encodes the sets that are only measured.

    Args:
        joined: The sets.
        encode: As for `training_parts`.
    """
    tasks = []
    for one in joined.foreign:
        labels = LabelSet(one.label_of.values())
        tasks.append(Task(one.name, "all", encode(one.documents, labels), range(len(labels)), labels))
    return tasks


def with_gold_among(encoded: Dataset, columns: Sequence[int]) -> Dataset:
    """Selects the documents with a gold label among some, without their other gold labels.

    Args:
        encoded: Encoded documents.
        columns: The labels.
    """
    from datasets import Dataset, concatenate_datasets

    wanted = set(columns)
    gold = [[column for column in row if column in wanted] for row in encoded["labels"]]
    rows = [row for row, columns in enumerate(gold) if columns]
    features = encoded.select_columns("labels").features
    labels = Dataset.from_dict({"labels": [gold[row] for row in rows]}, features=features)
    return concatenate_datasets([encoded.remove_columns("labels").select(rows), labels], axis=1)
