"""Splits with labels that are truly unseen in training, by a rule anyone can compute again.

A label is held out if a hash of its id says so and it is neither rare nor frequent. A document is
in the training, validation or test part by a hash of its pmid. Training and validation documents
lose the held-out labels from their gold; test documents keep all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal

from .schema import Record

if TYPE_CHECKING:
    from datasets import Dataset

_SALT = "hf_gile"


@dataclass(frozen=True)
class ZeroShotSplit:
    """The three parts, and which labels of the test part were seen in training.

    Args:
        train: Training records, without held-out labels.
        validation: Validation records, without held-out labels.
        test: Test records with all their labels.
        seen: From each label of the training part to its number of training documents.
        unseen: From each held-out label to its number of test documents, which may be 0.
        unseen_by_chance: The same for labels of the test part that were not held out, but which no
            training document happens to have.
        dropped: How many documents of each part had held-out labels only.
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
    salt: str = _SALT,
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
        if min_count <= count <= max_count and _fraction("label", label, salt) < share
    )


def split_of(
    pmid: str, *, validation: float = 0.1, test: float = 0.1, salt: str = _SALT
) -> Literal["train", "validation", "test"]:
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
    fraction = _fraction("document", pmid, salt)
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
    salt: str = _SALT,
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
    table: Any = records if _is_dataset(records) else list(records)
    keys = table.select_columns(["pmid", "meshUI"]) if _is_dataset(table) else table
    counts = Counter(label for row in keys for label in row["meshUI"])
    held_out = dict.fromkeys(held_out_labels(counts, share=share, min_count=min_count, max_count=max_count, salt=salt))
    rows: dict[str, list[int]] = {"train": [], "validation": [], "test": []}
    gold: dict[str, Counter[str]] = {part: Counter() for part in rows}
    dropped = {"train": 0, "validation": 0}
    for index, row in enumerate(keys):
        part = split_of(row["pmid"], validation=validation, test=test, salt=salt)
        labels = [label for label in row["meshUI"] if part == "test" or label not in held_out]
        if labels:
            rows[part].append(index)
            gold[part].update(labels)
        else:
            dropped[part] += 1
    if not rows["train"]:
        raise ValueError(f"no document is left to train on, of {sum(map(len, rows.values()))}")
    seen, found = gold["train"], gold["test"]
    return ZeroShotSplit(
        train=_taken(table, rows["train"], held_out),
        validation=_taken(table, rows["validation"], held_out),
        test=_taken(table, rows["test"], {}),
        seen=dict(sorted(seen.items())),
        unseen={label: found[label] for label in held_out},
        unseen_by_chance={
            label: count for label, count in sorted(found.items()) if label not in seen and label not in held_out
        },
        dropped=dropped,
    )


def _fraction(kind: str, name: str, salt: str) -> float:
    digest = blake2b(f"{salt}\0{kind}\0{name}".encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big") / 2**48  # 48 bits: exact in a float


def _is_dataset(records: object) -> bool:
    return hasattr(records, "select_columns")


def _taken(table: Any, rows: list[int], held_out: dict[str, None]) -> list[Record] | Dataset:
    if not _is_dataset(table):
        return [_without(table[row], held_out) for row in rows]
    taken = table.select(rows)
    if not held_out:
        return taken
    return taken.map(_without, fn_kwargs={"held_out": held_out}, features=table.features)


def _without(record: Record, held_out: dict[str, None]) -> Record:
    pairs = zip(record["meshUI"], record["meshMajor"], strict=True)
    kept = [(label, name) for label, name in pairs if label not in held_out]
    return {
        **record,
        "meshUI": [label for label, _ in kept],
        "meshMajor": [name for _, name in kept],
    }
