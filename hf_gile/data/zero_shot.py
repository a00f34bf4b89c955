"""Labels that are unseen in training, by a reproducible rule."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from ..models.labels_gile import LabelSet

if TYPE_CHECKING:
    from datasets import Dataset

SALT = "hf_gile"
"""Default salt of all splits."""


def held_out_labels(
    counts: Mapping[str, int],
    *,
    share: float = 0.1,
    min_count: int = 5,
    max_count: int = 500,
    salt: str = SALT,
) -> list[str]:
    """Chooses the labels to hold out of training.

    The range of counts excludes labels too rare for the test part, and labels so frequent that training without them
    would be a different task.

    Args:
        counts: Number of documents by label.
        share: Approximate fraction of labels in the range to hold out.
        min_count: Minimum number of documents of a held-out label.
        max_count: Maximum number of documents of a held-out label.
        salt: Salt of the hash, for a different choice.

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
        if min_count <= count <= max_count and hash_fraction("label", label, salt) < share
    )


def drop_labels(rows: "Dataset", labels: Collection[Any], column: str = "labels") -> "Dataset":
    """Removes labels, ids or indices in a column, from documents, and documents that have no other labels.

    Documents without labels remain: they are negatives of all labels.

    Example:
        >>> from datasets import Dataset
        >>> drop_labels(Dataset.from_dict({"labels": [["mice", "rats"], ["rats"], []]}), {"rats"})["labels"][:]
        [['mice'], []]
    """
    dropped = set(labels)

    def remains(label_ids: list[Any]) -> bool:
        return not label_ids or not dropped.issuperset(label_ids)

    def remove_labels(label_ids: list[Any]) -> dict[str, list[Any]]:
        return {column: [label for label in label_ids if label not in dropped]}

    return rows.filter(remains, input_columns=column).map(remove_labels, input_columns=column)


def hash_order(texts: Iterable[str], gold: Iterable[Sequence[str]]) -> list[int]:
    """Returns the positions of documents in an order that depends on their texts and label ids only.

    Example:
        >>> texts = ["mice", "rats", "cats"]
        >>> order = [texts[row] for row in hash_order(texts, [[]] * 3)]
        >>> order == [texts[::-1][row] for row in hash_order(texts[::-1], [[]] * 3)]
        True
    """
    pairs = zip(texts, gold, strict=True)
    keys = [(hash_fraction("document", text, SALT), text, sorted(ids)) for text, ids in pairs]
    return sorted(range(len(keys)), key=keys.__getitem__)


def seen_first(labels: LabelSet, counts: Mapping[str, int]) -> LabelSet:
    """Moves seen labels, which have counts of training documents, to the front; the order is otherwise the same.

    Example:
        >>> labels = seen_first(LabelSet.from_names(["mice", "rats", "cats"]), {"rats": 3})
        >>> labels.names, labels.seen
        (['rats', 'mice', 'cats'], [True, False, False])
    """
    return LabelSet(sorted(labels.with_counts(counts), key=lambda label: not label.seen))


def hash_fraction(kind: str, name: str, salt: str) -> float:
    """Returns a reproducible pseudo-random number in [0, 1), a hash of a name of a kind."""
    digest = blake2b(f"{salt}\0{kind}\0{name}".encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big") / 2**48  # 48 bits: exact in a float
