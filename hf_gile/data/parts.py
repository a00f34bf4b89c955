"""Documents to train on, for validation and for the test: cut by hashes of ids, and labels left to the test alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..models.labels_gile import Label, LabelSet
from .zero_shot import ZeroShotSplit, drop_labels, held_out_labels, seen_first, split_of

if TYPE_CHECKING:
    from datasets import Dataset

PARTS = ("train", "validation", "test")
"""The parts, in their order."""


def all_parts(parts: Mapping[str, Dataset], share: float = 0.1) -> dict[str, Dataset]:
    """Cuts the parts that are missing from the documents to train on, by a hash of their ids: the same each time.

    Args:
        parts: Documents with a column `id`, those of `train` among them.
        share: Of the documents to train on, about how many each missing part gets.

    Returns:
        Documents for each of `PARTS`.

    Raises:
        ValueError: A part has no documents.

    Example:
        >>> from datasets import Dataset
        >>> cut = all_parts({"train": Dataset.from_dict({"id": [str(row) for row in range(100)]})})
        >>> {part: len(rows) for part, rows in cut.items()}
        {'train': 80, 'validation': 10, 'test': 10}
    """
    missing: dict[str, Any] = {part: 0.0 if part in parts else share for part in PARTS[1:]}
    whole, cut = parts["train"], dict(parts)
    if any(missing.values()):
        part_of = [split_of(name, **missing) for name in whole["id"]]
        for part in ("train", *(part for part, wanted in missing.items() if wanted)):
            cut[part] = whole.select([row for row, own in enumerate(part_of) if own == part])
    for part in PARTS:
        if len(cut[part]) == 0:
            raise ValueError(f"no document for {part}: pass --{part}_files, or more documents to train on")
    return {part: cut[part] for part in PARTS}


def leave_to_test(parts: Mapping[str, Dataset], share: float) -> dict[str, Dataset]:
    """Leaves some labels to the test part alone: what is tuned on validation documents is not tuned on them.

    Args:
        parts: Documents with a column `labels`, for each of `PARTS`.
        share: Of the labels, see `held_out_labels`.

    Raises:
        ValueError: No label of a part is left.
    """
    counts = Counter(label_id for row in parts["train"]["labels"] for label_id in row)
    held_out = held_out_labels(counts, share=share)
    left = dict(parts)
    for part in PARTS[:2]:
        left[part] = drop_labels(parts[part], held_out)
        if len(left[part]) == 0:
            raise ValueError(f"held_out {share} takes all labels of the documents for {part}: lower it")
    return left


def split_as_it_is(
    train: Dataset, validation: Dataset, test: Dataset, unseen: Sequence[str] | None = None
) -> ZeroShotSplit:
    """Counts the labels of records that are split already.

    Args:
        train: Records to train on.
        validation: Records for validation.
        test: Records for the test.
        unseen: Ids of the labels that the split means to be unseen; by default those that only test records have.

    Raises:
        ValueError: Labels that the split means to be unseen are in the training records.
    """
    seen = Counter(label_id for row in train["meshUI"] for label_id in row)
    others = Counter(label_id for row in test["meshUI"] for label_id in row if label_id not in seen)
    wanted = sorted(others) if unseen is None else unseen
    if trained_on := seen.keys() & set(wanted):
        raise ValueError(f"{len(trained_on)} labels are in the training documents, such as {min(trained_on)}")
    return ZeroShotSplit(train, validation, test, seen, {label_id: others[label_id] for label_id in wanted}, {}, {})


def labels_of_split(split: ZeroShotSplit, known: Iterable[Label] = ()) -> tuple[LabelSet, int]:
    """Makes the label set of a split: the seen labels, with their counts, then the unseen ones.

    Args:
        split: The split, of datasets.
        known: What labels mean; those that are missing there keep the names that the records have.

    Returns:
        The labels, and how many were missing.
    """
    ids = [*sorted(split.seen), *split.unseen]
    label_of = {label.id: label for label in known}
    missing = {label_id for label_id in ids if label_id not in label_of}
    number = len(missing)
    for part in (split.train, split.test) if missing else ():
        for row in part.select_columns(["meshUI", "meshMajor"]):  # type: ignore[union-attr]
            for label_id, name in zip(row["meshUI"], row["meshMajor"], strict=True):
                if label_id in missing:
                    label_of[label_id] = Label(label_id, name)
                    missing.remove(label_id)
    return seen_first(LabelSet(label_of[label_id] for label_id in ids if label_id in label_of), split.seen), number
