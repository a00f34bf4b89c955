"""Splits documents into training, validation and test parts by hashes, and holds out labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ..models.labels_gile import Label, LabelSet
from .zero_shot import ZeroShotSplit, drop_labels, held_out_labels, seen_first, split_of

if TYPE_CHECKING:
    from datasets import Dataset

PARTS = ("train", "validation", "test")
"""The parts of a dataset."""


def fill_parts(
    parts: Mapping[str, Dataset], share: float = 0.1, column: Literal["id", "text"] = "id"
) -> dict[str, Dataset]:
    """Splits missing parts off the training documents, deterministically by a hash.

    Args:
        parts: Documents by part, including `train`.
        share: Approximate fraction of the training documents for each missing part.
        column: Column to hash, apart from white space. Documents with the same value fall into the same part.

    Returns:
        Documents for each of `PARTS`.

    Raises:
        ValueError: If a part has no documents.

    Example:
        >>> from datasets import Dataset
        >>> parts = fill_parts({"train": Dataset.from_dict({"id": [str(row) for row in range(100)]})})
        >>> {part: len(rows) for part, rows in parts.items()}
        {'train': 80, 'validation': 10, 'test': 10}
    """
    missing: dict[str, Any] = {part: 0.0 if part in parts else share for part in PARTS[1:]}
    train, result = parts["train"], dict(parts)
    cut = [part for part, fraction in missing.items() if fraction]
    if cut:
        values = [" ".join(value.split()) for value in train[column]]
        assigned_parts = [split_of(value, **missing) for value in values]
        for part in ("train", *cut):
            result[part] = train.select([row for row, assigned in enumerate(assigned_parts) if assigned == part])
    for part in PARTS:
        if len(result[part]) == 0:
            if not cut or part not in ("train", *cut):
                raise ValueError(f"no documents for {part}: pass --{part}_files with documents")
            files = " and ".join(f"--{name}_files" for name in cut)
            equal = f", and the {column} of all documents is the same" if len(set(values)) == 1 < len(values) else ""
            raise ValueError(
                f"no documents for {part}: pass {files}, or more training documents; parts are cut by a hash of the "
                f"{column}{equal}"
            )
    return {part: result[part] for part in PARTS}


def hold_out_labels(parts: Mapping[str, Dataset], share: float) -> dict[str, Dataset]:
    """Removes held-out labels from training and validation, so that only test documents have them.

    Args:
        parts: Documents with a column `labels`, for each of `PARTS`.
        share: Fraction of the labels to hold out, see `held_out_labels`.

    Raises:
        ValueError: If a part would have no labels.
    """
    counts = Counter(label_id for row in parts["train"]["labels"] for label_id in row)
    held_out = held_out_labels(counts, share=share)
    remaining = dict(parts)
    for part in PARTS[:2]:
        remaining[part] = drop_labels(parts[part], held_out)
        if len(remaining[part]) == 0:
            raise ValueError(f"held_out {share} removes all labels of the {part} documents: lower it")
    return remaining


def make_split(
    train: Dataset, validation: Dataset, test: Dataset, unseen: Sequence[str] | None = None
) -> ZeroShotSplit:
    """Builds a `ZeroShotSplit` from an existing split.

    Args:
        train: Training records.
        validation: Validation records.
        test: Test records.
        unseen: Ids of the unseen labels; by default labels that only test records have.

    Raises:
        ValueError: If training records have unseen labels.
    """
    seen = Counter(label_id for row in train["meshUI"] for label_id in row)
    counts = Counter(label_id for row in test["meshUI"] for label_id in row if label_id not in seen)
    unseen_ids = sorted(counts) if unseen is None else unseen
    if trained_on := seen.keys() & set(unseen_ids):
        raise ValueError(f"training documents have {len(trained_on)} unseen labels, such as {min(trained_on)}")
    return ZeroShotSplit(train, validation, test, seen, {label_id: counts[label_id] for label_id in unseen_ids}, {}, {})


def collect_labels(split: ZeroShotSplit, known: Iterable[Label] = ()) -> tuple[LabelSet, int]:
    """Builds the label set of a split: seen labels with their counts, then unseen labels.

    Args:
        split: A split of datasets.
        known: Known labels; other labels are named as in the records.

    Returns:
        The labels, and the number of labels not in `known`.
    """
    ids = [*sorted(split.seen), *split.unseen]
    labels_by_id = {label.id: label for label in known}
    missing = {label_id for label_id in ids if label_id not in labels_by_id}
    num_missing = len(missing)
    for part in (split.train, split.test) if missing else ():
        for row in part.select_columns(["meshUI", "meshMajor"]):  # type: ignore[union-attr]
            for label_id, name in zip(row["meshUI"], row["meshMajor"], strict=True):
                if label_id in missing:
                    labels_by_id[label_id] = Label(label_id, name)
                    missing.remove(label_id)
    labels = LabelSet(labels_by_id[label_id] for label_id in ids if label_id in labels_by_id)
    return seen_first(labels, split.seen), num_missing
