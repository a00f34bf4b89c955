"""Splits with labels that are truly unseen in training, by a rule anyone can compute again.

A label is held out if a hash of its id says so and it is neither rare nor frequent. A document is
in the training, validation or test part by a hash of its pmid. Training and validation documents
lose the held-out labels from their gold; test documents keep all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from ..models.labels_gile import LabelSet
from .columns import label_counts, labels_left, pmids_of, table_of, taken
from .schema import Record

if TYPE_CHECKING:
    from datasets import Dataset

SALT = "hf_gile"
"""What all splits are drawn with, unless another is given."""

_Part = Literal["train", "validation", "test"]
_PARTS: tuple[_Part, ...] = get_args(_Part)


@dataclass(frozen=True)
class ZeroShotSplit:
    """The three parts, and which labels of the test part were seen in training.

    Args:
        train: Training records, without held-out labels.
        validation: Validation records, without held-out labels.
        test: Test records with all their labels.
        seen: From each label of the training part to its number of training documents.
        unseen: From each label that the split means to be unseen to its number of test documents: those held out, which
            may be 0, or those that came up after the years of training.
        unseen_by_chance: The same for other labels of the test part which no training document happens to have.
        dropped: How many documents are in no part: by the part whose documents had held-out labels only, or by what is
            wrong with their year.
    """

    train: list[Record] | Dataset
    validation: list[Record] | Dataset
    test: list[Record] | Dataset
    seen: dict[str, int]
    unseen: dict[str, int]
    unseen_by_chance: dict[str, int]
    dropped: dict[str, int]


def held_out_labels(
    counts: Mapping[str, int],
    *,
    share: float = 0.1,
    min_count: int = 5,
    max_count: int = 500,
    salt: str = SALT,
) -> list[str]:
    """Returns the labels to hold out of training.

    The range keeps out labels too rare to be found in the test part, and those so frequent that
    training without them would be another task.

    Args:
        counts: From each label to the number of documents that have it.
        share: Of the labels in the range, about how many to hold out.
        min_count: Fewest documents of a held-out label.
        max_count: Most documents of a held-out label.
        salt: Another salt holds out other labels.

    Returns:
        The labels, sorted.

    Raises:
        ValueError: If the share is not between 0 and 1 or the range is empty.

    Example:
        >>> held_out_labels({"D000818": 900, "D051379": 30, "D008297": 2}, share=1.0)
        ['D051379']
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share must be between 0 and 1, got {share}")
    if min_count > max_count:
        raise ValueError(f"min_count {min_count} must not exceed max_count {max_count}")
    return sorted(
        label
        for label, count in counts.items()
        if min_count <= count <= max_count and fraction_of("label", label, salt) < share
    )


def split_of(pmid: str, *, validation: float = 0.1, test: float = 0.1, salt: str = SALT) -> _Part:
    """Returns the part that a document belongs to.

    Args:
        pmid: The document's id.
        validation: About which share of the documents is for validation.
        test: About which share is for the test.
        salt: Another salt gives other parts.

    Returns:
        The name of the part.

    Raises:
        ValueError: If the shares are negative or leave nothing to train on.

    Example:
        >>> split_of("12345")
        'train'
    """
    if not (validation >= 0 and test >= 0 and validation + test < 1):
        raise ValueError(
            f"validation and test must be shares that leave some documents to train on, got {validation} and {test}"
        )
    fraction = fraction_of("document", pmid, salt)
    if fraction < test:
        return "test"
    return "validation" if fraction < test + validation else "train"


def zero_shot_split(
    records: Iterable[Record] | Dataset,
    *,
    share: float = 0.1,
    min_count: int = 5,
    max_count: int = 500,
    validation: float = 0.1,
    test: float = 0.1,
    salt: str = SALT,
) -> ZeroShotSplit:
    """Splits records so that some labels of the test part are unseen in training.

    To choose anything that concerns unseen labels without a look at the test part, split the
    training part once more, with another salt.

    Args:
        records: A `datasets.Dataset`, or any records; the parts are datasets or lists accordingly.
        share: See `held_out_labels`, which counts over all records.
        min_count: See `held_out_labels`.
        max_count: See `held_out_labels`.
        validation: See `split_of`.
        test: See `split_of`.
        salt: See both.

    Returns:
        The parts and their labels.

    Raises:
        ValueError: If a share is out of range or no document is left to train on.

    Example:
        >>> record = {"title": "", "abstractText": "Mice.", "year": None}
        >>> record |= {"meshUI": ["D000818", "D051379"], "meshMajor": ["Animals", "Mice"]}
        >>> records = [record | {"pmid": str(pmid)} for pmid in range(20)]
        >>> records += [records[-1] | {"pmid": "20", "meshUI": ["D000818"], "meshMajor": ["Animals"]}]
        >>> split = zero_shot_split(records, share=1.0, max_count=20)
        >>> split.seen, split.unseen, split.train[0]["meshMajor"]
        ({'D000818': 16}, {'D051379': 2}, ['Animals'])
    """
    split_of("", validation=validation, test=test)
    table = table_of(records)
    counts = label_counts(table, np.zeros(len(table), np.int8), 1)[0]
    held_out = held_out_labels(counts, share=share, min_count=min_count, max_count=max_count, salt=salt)
    parts = np.fromiter(
        (_PARTS.index(split_of(pmid, validation=validation, test=test, salt=salt)) for pmid in pmids_of(table)),
        np.int8,
        len(table),
    )
    left = labels_left(table, held_out) > 0
    left[parts == _PARTS.index("test")] = True
    dropped: dict[str, int] = {part: int(np.sum(~left & (parts == place))) for place, part in enumerate(_PARTS[:2])}
    parts[~left] = len(_PARTS)
    if not np.any(parts == _PARTS.index("train")):
        raise ValueError(f"no document is left to train on, of {int(np.sum(parts < len(_PARTS)))}")
    seen, _, found = label_counts(table, parts, len(_PARTS))
    for label in held_out:
        seen.pop(label, None)
    return ZeroShotSplit(
        train=taken(table, parts == 0, held_out),
        validation=taken(table, parts == 1, held_out),
        test=taken(table, parts == 2),
        seen=dict(sorted(seen.items())),
        unseen={label: found[label] for label in held_out},
        unseen_by_chance={
            label: count for label, count in sorted(found.items()) if label not in seen and label not in held_out
        },
        dropped=dropped,
    )


def drop_labels(rows: Dataset, labels: Collection[Any], column: str = "labels") -> Dataset:
    """Removes some labels from documents, and the documents that have no others.

    Args:
        rows: The documents.
        labels: Ids, or columns of encoded documents.
        column: The column of the lists of labels.

    Example:
        >>> from datasets import Dataset
        >>> drop_labels(Dataset.from_dict({"labels": [["mice", "rats"], ["rats"]]}), {"rats"})["labels"][:]
        [['mice']]
    """
    dropped = set(labels)

    def others(own: list[Any]) -> dict[str, list[Any]]:
        return {column: [label for label in own if label not in dropped]}

    return rows.map(others, input_columns=column).filter(len, input_columns=column)


def seen_first(labels: LabelSet, counts: Mapping[str, int]) -> LabelSet:
    """Puts the labels that training sees before the others, each in the order they had.

    Args:
        labels: The labels.
        counts: From the id of each seen label to its number of training documents.

    Example:
        >>> labels = seen_first(LabelSet.from_names(["mice", "rats", "cats"]), {"rats": 3})
        >>> labels.names, labels.seen
        (['rats', 'mice', 'cats'], [True, False, False])
    """
    return LabelSet(sorted(labels.with_counts(counts), key=lambda label: not label.seen))


def fraction_of(kind: str, name: str, salt: str) -> float:
    """Draws a number by a hash, the same for everybody.

    Args:
        kind: Of what the name is.
        name: What to draw for.
        salt: Another salt draws another number.

    Returns:
        A number from 0 to 1, without 1.
    """
    digest = blake2b(f"{salt}\0{kind}\0{name}".encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big") / 2**48  # 48 bits: exact in a float
