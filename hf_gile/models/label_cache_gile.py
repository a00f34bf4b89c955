"""What a pipeline keeps of candidate labels between calls: their codes, within a bound of memory, and what they say."""

import hashlib
import json
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from torch import Tensor

from .labels_gile import LabelSet

LABEL_CACHE_BYTES = 1 << 28
"""Bytes of label codes that a pipeline keeps: 256 MiB, of 500 numbers for 130,000 labels."""


class LabelCache:
    """Codes of label sets, the least recently used of which go first, and what is costly to make of a label set.

    Several threads may use it; it is not locked while something is made.

    Args:
        max_bytes: Bytes of codes to keep. A label set of more is not kept.

    Attributes:
        max_bytes: May be changed; the next codes to be kept make room.

    Example:
        >>> import torch
        >>> cache = LabelCache(max_bytes=100)
        >>> labels = cache.label_set(["Iron", "Milk"])
        >>> cache.codes(labels, False, (), lambda: (torch.zeros(2, 5), None)).shape, cache.num_bytes
        (torch.Size([2, 5]), 40)
        >>> cache.label_set(["Iron", "Milk"]) is labels
        True
    """

    def __init__(self, max_bytes: int = LABEL_CACHE_BYTES) -> None:
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self._lock = threading.Lock()
        # With the words of the labels and their state; and the label sets, for while their codes are kept, the names
        # they were made of lead to them.
        self._codes: OrderedDict[tuple[Any, ...], tuple[Tensor, Any, Any, Any]] = OrderedDict()
        self._given: weakref.WeakValueDictionary[Hashable, Any] = weakref.WeakValueDictionary()
        # By identity, for the hash of a label set reads all its ids.
        self._facts: dict[int, tuple[Any, dict[str, tuple[Any, Any]]]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"max_bytes": self.max_bytes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __len__(self) -> int:
        """The number of label sets whose codes are kept."""
        return len(self._codes)

    def clear(self) -> None:
        """Forgets all codes."""
        with self._lock:
            self._codes.clear()
            self.num_bytes = 0

    def label_set(self, labels: Any) -> Any:
        """The label set of what a user gives as candidate labels, the same for the same names.

        Args:
            labels: Names, `Label`s, names with descriptions, names with commas between them, a `LabelSet` or a
                `LabelIndex`.

        Returns:
            A `LabelSet`; or the `LabelIndex` that was given.

        Raises:
            ValueError: Something else, or labels that make no label set.
        """
        if hasattr(labels, "model_fingerprint") or (hasattr(labels, "texts") and hasattr(labels, "names")):
            return labels
        if isinstance(labels, str):  # as the built-in pipeline reads it
            labels = [name.strip() for name in labels.split(",") if name.strip()]
        is_scalar = getattr(labels, "ndim", 1) == 0
        # A table is read as its columns.
        if is_scalar or not isinstance(labels, Mapping | Iterable) or hasattr(labels, "columns"):
            raise ValueError(
                "candidate_labels must be names, names with descriptions, a LabelSet or a LabelIndex, got "
                f"{type(labels).__name__}"
            )
        is_mapping = isinstance(labels, Mapping)
        given: tuple[Any, ...] = tuple(labels.items() if isinstance(labels, Mapping) else labels)
        try:
            label_set = self._given.get((is_mapping, given))
        except TypeError:  # what has no hash is no label, and the label set says so
            label_set = None
        if label_set is not None:
            return label_set
        if given and not is_mapping and all(hasattr(label, "text") for label in given):
            label_set = LabelSet(given)
        else:
            label_set = LabelSet.from_names(dict(given) if is_mapping else given)
        self._given[is_mapping, given] = label_set
        return label_set

    def fact(self, label_set: Any, name: str, state: Any, make: Callable[[], Any]) -> Any:
        """Something that is made of a label set once.

        Args:
            label_set: It, and not another one of the same content.
            name: What is made of it.
            state: What else it is made of: another one, and it is made again.
            make: Makes it.
        """
        key = id(label_set)
        kept = self._facts.get(key)
        if kept is None or kept[0]() is not label_set:
            kept = (weakref.ref(label_set, lambda _: self._facts.pop(key, None)), {})
            self._facts[key] = kept
        facts = kept[1]
        found = facts.get(name)
        if found is None or found[0] != state:
            found = facts[name] = (state, make())
        return found[1]

    def codes(
        self,
        label_set: Any,
        by_id: bool,
        state: tuple[Any, ...],
        make: Callable[[], tuple[Tensor, Any]],
        state_of_words: Callable[[Any], Any] = lambda words: words,
    ) -> Tensor:
        """The codes of a label set; those of another one with the same texts serve as well.

        Args:
            label_set: A `LabelSet`.
            by_id: Whether codes depend on the ids of labels, too.
            state: What else they depend on; its last part is that of the model, and codes of another one are dropped.
            make: Makes them, and says of which words.
            state_of_words: What these depend on in the model beside; codes with another one are made again.

        Returns:
            `(L, J)` codes.
        """
        digest = self.fact(label_set, f"digest {by_id}", None, lambda: _digest(label_set, by_id))
        key = (digest, *state)
        with self._lock:
            kept = self._codes.get(key)
        if kept is not None and kept[2] == state_of_words(kept[1]):
            with self._lock:
                if key in self._codes:  # or another thread has dropped it
                    self._codes[key] = (*kept[:3], label_set)
                    self._codes.move_to_end(key)
            return kept[0]
        codes, words = make()
        made_of = state_of_words(words)
        with self._lock:
            for other in [other for other in self._codes if other[-1] != key[-1]]:
                self._drop(other)
            self._drop(key)  # another thread may have made it, too
            size = _bytes(codes)
            while self._codes and self.num_bytes + size > self.max_bytes >= size:
                self._drop(next(iter(self._codes)))
            if size <= self.max_bytes:
                self._codes[key] = (codes, words, made_of, label_set)
                self.num_bytes += size
        return codes

    def _drop(self, key: Any) -> None:
        gone = self._codes.pop(key, None)
        if gone is not None:
            self.num_bytes -= _bytes(gone[0])


def _bytes(codes: Tensor) -> int:
    return codes.numel() * codes.element_size()


def _digest(label_set: Any, by_id: bool) -> bytes:
    """What tells the texts of a label set from those of any other."""
    rows = [(label.id if by_id else "", label.text, label.language) for label in label_set]
    return hashlib.blake2b(json.dumps(rows).encode(), digest_size=32).digest()


__all__ = ["LABEL_CACHE_BYTES", "LabelCache"]
