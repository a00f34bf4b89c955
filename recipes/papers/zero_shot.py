"""Zero-shot splits of records: labels that are unseen in training, by a reproducible rule.

Labels that are neither rare nor frequent are held out by a hash of their id. Documents are assigned to the training,
validation or test part by a hash of their pmid. Held-out labels are removed from training and validation documents;
test documents keep all labels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from hf_gile.data.zero_shot import SALT, hash_fraction, held_out_labels
from papers.columns import as_table, count_labels, count_remaining_labels, iterate_pmids, select_rows
from papers.medline import Record

if TYPE_CHECKING:
    from datasets import Dataset

_Part = Literal["train", "validation", "test"]
_PARTS: tuple[_Part, ...] = get_args(_Part)


@dataclass(frozen=True)
class ZeroShotSplit:
    """The three parts of a split, with its seen and unseen labels.

    Args:
        train: Training records, without held-out labels.
        validation: Validation records, without held-out labels.
        test: Test records with all their labels.
        seen: Number of training documents by seen label.
        unseen: Number of test documents, possibly 0, by unseen label: held-out labels, or labels introduced after the
            training years.
        unseen_by_chance: The same for other labels of test documents that happen to have no training documents.
        dropped: Number of documents in no part: by the part whose documents had only held-out labels, or by the problem
            of their year.
    """

    train: Dataset
    validation: Dataset
    test: Dataset
    seen: dict[str, int]
    unseen: dict[str, int]
    unseen_by_chance: dict[str, int]
    dropped: dict[str, int]


def split_of(pmid: str, *, validation: float = 0.1, test: float = 0.1, salt: str = SALT) -> _Part:
    """Returns the part of a document.

    Args:
        pmid: Id of the document.
        validation: Approximate fraction of validation documents.
        test: Approximate fraction of test documents.
        salt: Salt of the hash, for a different split.

    Returns:
        Name of the part.

    Raises:
        ValueError: If a fraction is negative, or no training documents would be left.

    Example:
        >>> split_of("12345")
        'train'
    """
    if not (validation >= 0 and test >= 0 and validation + test < 1):
        raise ValueError(
            f"validation and test must be fractions that leave some training documents, got {validation} and {test}"
        )
    fraction = hash_fraction("document", pmid, salt)
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
    """Splits records such that some labels of test documents are unseen in training.

    To tune anything for unseen labels without using test documents, split the training part again with another salt.

    Args:
        records: A `datasets.Dataset`, or any records.
        share: See `held_out_labels`, which counts over all records.
        min_count: See `held_out_labels`.
        max_count: See `held_out_labels`.
        validation: See `split_of`.
        test: See `split_of`.
        salt: See both functions.

    Returns:
        The parts and their labels.

    Raises:
        ValueError: If a fraction is out of range or no training documents are left.

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
    table = as_table(records)
    counts = count_labels(table, np.zeros(len(table), np.int8), 1)[0]
    held_out = held_out_labels(counts, share=share, min_count=min_count, max_count=max_count, salt=salt)
    parts = np.fromiter(
        (_PARTS.index(split_of(pmid, validation=validation, test=test, salt=salt)) for pmid in iterate_pmids(table)),
        np.int8,
        len(table),
    )
    has_labels = count_remaining_labels(table, held_out) > 0
    has_labels[parts == _PARTS.index("test")] = True
    dropped: dict[str, int] = {
        part: int(np.sum(~has_labels & (parts == number))) for number, part in enumerate(_PARTS[:2])
    }
    parts[~has_labels] = len(_PARTS)
    if not np.any(parts == _PARTS.index("train")):
        raise ValueError(f"none of {int(np.sum(parts < len(_PARTS)))} documents is left for training")
    seen, _, test_counts = count_labels(table, parts, len(_PARTS))
    for label in held_out:
        seen.pop(label, None)
    return ZeroShotSplit(
        train=select_rows(table, parts == 0, held_out),
        validation=select_rows(table, parts == 1, held_out),
        test=select_rows(table, parts == 2),
        seen=dict(sorted(seen.items())),
        unseen={label: test_counts[label] for label in held_out},
        unseen_by_chance={
            label: count for label, count in sorted(test_counts.items()) if label not in seen and label not in held_out
        },
        dropped=dropped,
    )
