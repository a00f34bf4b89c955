"""Splits documents into training, validation and test parts."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from .zero_shot import SALT, hash_fraction

if TYPE_CHECKING:
    from datasets import Dataset

PARTS = ("train", "validation", "test")
"""The parts of a dataset."""

_SHARE = 0.1  # of the training documents in another part
_FEWEST = 2  # documents of a part, if there are enough
_WITHOUT = ""  # stands for documents without labels, which are stratified like a label


def fill_parts(
    parts: "Mapping[str, Dataset]",
    column: Literal["id", "text"] = "id",
) -> "dict[str, Dataset]":
    """Splits missing parts of `PARTS`, a tenth each, off the training documents, stratified by label.

    Documents with the same text (or id), apart from white space, fall into the same part. Every label that has another
    document keeps one in training, so the labels of a few documents are mostly trained on. The split depends on hashes
    of the texts, not on their order.

    Args:
        parts: Documents by part, including `train`, and a column `labels`, if any.
        column: Column by which documents are the same.

    Raises:
        ValueError: If a part has no documents, or there are fewer different documents than parts.

    Example:
        >>> from datasets import Dataset
        >>> rows = {"id": [str(row) for row in range(100)], "labels": [["mice"], ["rats"]] * 50}
        >>> {part: len(rows) for part, rows in fill_parts({"train": Dataset.from_dict(rows)}).items()}
        {'train': 80, 'validation': 10, 'test': 10}
    """
    train, result = parts["train"], dict(parts)
    for part in PARTS:
        if part in parts and len(parts[part]) == 0:
            raise ValueError(f"no documents for {part}: pass --{part}_files with documents")
    missing = [part for part in ("test", "validation") if part not in parts]
    if missing:
        keys = [" ".join(value.split()) for value in train[column]]
        if len(set(keys)) <= len(missing):
            files = " and ".join(f"--{part}_files" for part in reversed(missing))
            raise ValueError(
                f"{len(keys):,} documents with {len(set(keys)):,} different {column}s are too few to split into "
                f"training and {' and '.join(reversed(missing))}: pass {files}, or more training documents"
            )
        gold = train["labels"] if "labels" in train.column_names else [[]] * len(train)
        assigned = _assign(keys, gold, missing)
        for part in ("train", *missing):
            result[part] = train.select([row for row, key in enumerate(keys) if assigned.get(key, "train") == part])
    return {part: result[part] for part in PARTS}


def _assign(
    keys: Sequence[str],
    gold: Iterable[Sequence[str]],
    missing: Sequence[str],
) -> dict[str, str]:
    """Returns the part of each key that leaves training."""
    labels: dict[str, set[str]] = {}
    sizes = Counter(keys)
    for key, ids in zip(keys, gold, strict=True):
        labels.setdefault(key, set()).update(ids or [_WITHOUT])
    by_hash = sorted(labels, key=lambda key: (hash_fraction("document", key, SALT), key))
    counts = Counter(label for ids in labels.values() for label in ids)
    remaining, assigned = Counter(counts), dict[str, str]()
    rarest_first = sorted(by_hash, key=lambda key: min(counts[label] for label in labels[key]))
    fewest_lost = sorted(by_hash, key=lambda key: sum(counts[label] == 1 for label in labels[key]))
    smallest_first = sorted(by_hash, key=lambda key: sizes[key])
    for part in missing:
        most = max(1, (len(keys) - 1) // (len(missing) + 1))
        size = min(max(_FEWEST, round(_SHARE * len(keys))), most)
        # A quota of 0.3 documents is one document for 3 of 10 labels.
        quotas = {
            label: math.floor(_SHARE * count + hash_fraction(part, label, SALT)) for label, count in counts.items()
        }

        most_lost = max(_FEWEST, size // 2) if part == "test" else _FEWEST  # folds can replace validation documents
        taken = 0
        for order, limit, needs_quota, needs_other in (
            (rarest_first, size, True, True),
            (by_hash, size, False, True),
            (fewest_lost, most_lost, False, False),  # of labels with a single document
            (smallest_first, 1, False, False),
        ):
            for key in order:
                if taken >= min(limit, size):
                    break
                is_last = needs_other and any(remaining[label] < 2 for label in labels[key])
                is_over = needs_quota and any(quotas[label] < 1 for label in labels[key])
                is_large = sizes[key] > size - taken and order is not smallest_first
                if key in assigned or is_last or is_over or is_large:
                    continue
                assigned[key] = part
                taken += sizes[key]
                remaining.subtract(labels[key])
                for label in labels[key]:
                    quotas[label] -= 1
    return assigned
