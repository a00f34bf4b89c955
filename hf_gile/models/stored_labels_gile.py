"""Stored labels of a classifier: lookup, masks of candidates, and caches of label codes.

Shapes: B documents, L stored labels, C stored or other labels.
"""

import hashlib
import sys
import threading
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple
from unicodedata import normalize

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook
from transformers import PreTrainedConfig

from .checks_gile import check_whole_number
from .labels_gile import Label, LabelSet
from .languages_gile import check_language, get_language_columns
from .losses_gile import check_excluded

LABEL_CACHE_BYTES = 1 << 28
"""Default size of the cache of label codes in bytes, enough for 130,000 labels with codes of size 500."""

_SAMPLED = 32
"""Maximum number of the numbers of a tensor that `compute_state` reads."""


class _Codes(NamedTuple):
    """Cached label codes."""

    codes: Tensor
    version: int  # version counter of the codes
    state: Any  # of the model


class LabelCache:
    """Least-recently-used cache of label codes, and of other results for label sets.

    Label sets with equal content share results. The cache is thread-safe and not locked during computations. It stores
    at most `max_bytes` of codes.
    """

    def __init__(self, max_bytes: int = LABEL_CACHE_BYTES) -> None:
        check_whole_number("label_cache_bytes", max_bytes, 0)
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self._lock = threading.Lock()
        self._codes: OrderedDict[Hashable, _Codes] = OrderedDict()
        # Maps names to their label set while its codes are cached.
        self._by_names: weakref.WeakValueDictionary[Hashable, Any] = weakref.WeakValueDictionary()
        self._facts: weakref.WeakKeyDictionary[Any, dict[str, tuple[Any, Any]]] = weakref.WeakKeyDictionary()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.max_bytes,)

    def label_set(self, labels: object) -> Any:
        """Converts candidate labels in any form to a `LabelSet` or `LabelIndex`, the same object for equal names."""
        if hasattr(labels, "model_fingerprint"):
            return labels
        if hasattr(labels, "texts") and hasattr(labels, "names"):  # the known label set with equal content
            return self.fact(labels, "first", None, lambda: weakref.ref(labels))() or labels
        if isinstance(labels, str):  # as in the built-in pipeline
            labels = [name.strip() for name in labels.split(",") if name.strip()]
        is_scalar = getattr(labels, "ndim", 1) == 0
        # A table is iterated by columns.
        if is_scalar or not isinstance(labels, Iterable) or hasattr(labels, "columns"):
            raise ValueError(
                "candidate_labels must be names, names with descriptions, a LabelSet or a LabelIndex, got "
                f"{type(labels).__name__}"
            )
        is_mapping = isinstance(labels, Mapping)
        names: tuple[Any, ...] = tuple(labels.items() if isinstance(labels, Mapping) else labels)
        try:
            label_set = self._by_names.get((is_mapping, names))
        except TypeError:  # unhashable values are not labels, which the label set reports
            label_set = None
        if label_set is None:
            are_labels = names and all(hasattr(label, "text") for label in names)
            label_set = LabelSet(names) if are_labels else LabelSet.from_names(dict(names) if is_mapping else names)
            self._by_names[is_mapping, names] = label_set
        return label_set

    def fact(self, owner: object, name: str, state: object, make: Callable[[], Any]) -> Any:
        """Returns a result for a label set or another owner, computed again if the state changes."""
        with self._lock:
            facts = self._facts.setdefault(owner, {})
        known = facts.get(name)
        if known is None or known[0] != state:
            known = facts[name] = (state, make())
        return known[1]

    def codes(self, key: Hashable, state: object, make: Callable[[], Tensor]) -> Tensor:
        """Returns the `(L, J)` codes of labels, computed again if the state or the codes themselves have changed."""
        with self._lock:
            known = self._codes.get(key)
        if known is not None and known.codes._version == known.version and known.state == state:
            with self._lock:
                if key in self._codes:  # unless another thread has dropped it
                    self._codes.move_to_end(key)
            return known.codes
        codes = make()
        computed = _Codes(codes, codes._version, state)
        with self._lock:
            self._drop(key)
            if codes.nbytes <= self.max_bytes:
                self._codes[key] = computed
                self.num_bytes += codes.nbytes
            while self._codes and codes.nbytes <= self.max_bytes < self.num_bytes:
                self._drop(next(iter(self._codes)))
        return codes

    def known_codes(self, key: Hashable) -> Tensor:
        """Returns codes from the cache, even if they are outdated, for an export, which cannot compute them.

        Raises:
            ValueError: If they are not cached.
        """
        known = self._codes.get(key)
        if known is None:
            raise ValueError(
                "an exported model contains its label codes as constants: call it once, in evaluation mode and "
                "without gradients, before torch.export"
            )
        return known.codes

    def _drop(self, key: Hashable) -> None:
        """Removes codes from the cache, if cached."""
        if key in self._codes:
            self.num_bytes -= self._codes.pop(key).codes.nbytes


class StoredLabels(nn.Module):
    """Looks up stored labels, masks labels that are not candidates, and caches tensors computed from label texts.

    `input_ids` are their `(L, T)` words, a tensor of this module because torchao cannot load a tensor whose name has no
    module. `label_set` is None if only the names of the labels are known. `embeds` are `LabelEmbeds` of these or of
    earlier labels, or None.
    """

    input_ids: Tensor

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        self.register_load_state_dict_pre_hook(_check_same_labels)
        self.config = config
        self.register_buffer("input_ids", torch.zeros(config.num_labels, config.label_length, dtype=torch.long))
        self.label_set: LabelSet | None = None
        self.embeds: Any = None
        self.cache = LabelCache(sys.maxsize)

    @property
    def languages(self) -> Tensor:
        """`(L,)` indices into `config.languages`; empty if labels have no language."""
        sizes = torch.tensor([self.config.language_labels.get(language, 0) for language in self.config.languages])
        return torch.arange(len(sizes)).repeat_interleave(sizes)

    def find_columns(self, labels: Sequence[Label], language: str | None = None) -> Tensor:
        """Returns the `(C,)` indices of labels among the stored labels, -1 for other labels.

        Labels match a stored label by id, or by text and language, whether their letters are composed (NFC) or not;
        `language` is the default language of labels.
        """
        if self.label_set is None:
            return torch.full((len(labels),), -1)
        by_id, by_text = self.cache.fact(self.label_set, "columns", None, partial(_columns_of, self.label_set))
        # Stored labels for all languages have no language.
        default = language if self.config.language_labels else None
        texts = ((normalize("NFC", label.text), label.language or default) for label in labels)
        columns = [
            by_id.get(label.id, by_id.get(normalize("NFC", label.id), by_text.get(text, -1)))
            for label, text in zip(labels, texts, strict=True)
        ]
        return torch.tensor(columns, dtype=torch.long)

    def seen(self, labels: Sequence[Label] | None = None, language: str | None = None) -> Tensor:
        """Returns whether the model was trained on each label, `(C,)` bool, according to the label set.

        Stored labels, the default, all count as seen without a label set. `language` is the default of labels.
        """
        if self.label_set is None:
            return torch.full((self.config.num_labels if labels is None else len(labels),), labels is None)
        seen = torch.tensor(self.label_set.seen)
        if labels is None:
            return seen
        columns = self.find_columns(labels, language)
        return seen[columns.clamp(min=0)] & (columns >= 0)

    def thresholds(self, labels: Sequence[Label] | None = None, language: str | None = None) -> Tensor:
        """Returns the lowest calibrated probability at which each label is assigned; arguments are as in `seen`.

        Returns:
            `(C,)` float32: the threshold of the stored label, or of the label itself if it is not stored; otherwise
            that of its group in `config.thresholds`, that of the other group, or 0.5.
        """
        by_group = self.config.group_thresholds
        groups = [by_group.get(group, next(iter(by_group.values()), 0.5)) for group in ("unseen", "seen")]
        thresholds = [groups[seen] for seen in self.seen(labels, language).tolist()]
        chosen: Sequence[Label] = self.label_set or ()
        if labels is not None:
            pairs = zip(labels, self.find_columns(labels, language).tolist(), strict=True)
            chosen = [label if column < 0 else chosen[column] for label, column in pairs]
        for row, label in enumerate(chosen):
            if label.threshold is not None:
                thresholds[row] = label.threshold
        return torch.tensor(thresholds, dtype=torch.float32)

    def masked(
        self,
        logits: Tensor,
        language: str | None = None,
        excluded_columns: Tensor | None = None,
        columns: Tensor | None = None,
    ) -> Tensor:
        """Masks the scores of labels that are not candidates with minus infinity, a probability of zero.

        Args:
            logits: `(B, L)` scores of all stored labels, or `(B, C)` of some.
            language: Language of the candidates, if stored labels have languages.
            excluded_columns: `(B, E)` indices of labels that are not candidates of a document, padded with -100.
            columns: `(C,)` indices of the scored labels; by default all.

        Raises:
            ValueError: If an excluded index is out of range, or the numbers of rows and documents differ.
        """
        number = self.config.num_labels
        if self.config.language_labels:
            candidates = get_language_columns(self.config, check_language(self.config, language))
            scored = torch.arange(number, device=logits.device) if columns is None else columns
            logits = logits.masked_fill((scored < candidates.start) | (scored >= candidates.stop), -torch.inf)
        if excluded_columns is None:
            return logits
        check_excluded(excluded_columns, len(logits), number)
        mask = torch.zeros(len(logits), number + 1, dtype=torch.bool, device=logits.device)
        mask = mask.scatter_(1, excluded_columns.masked_fill(excluded_columns < 0, number), True)[:, :number]
        return logits.masked_fill(mask if columns is None else mask[:, columns], -torch.inf)

    def get_or_compute(self, name: Hashable, label_state: object, compute: Callable[[], Tensor]) -> Tensor:
        """Returns a tensor of the stored labels, cached while `label_state` of `GileModel` and their words stay equal.

        If the caller changes the tensor in place, it is computed again.
        """
        return self.cache.codes(name, (label_state, compute_state(self.input_ids)), compute)

    def clear_cache(self) -> None:
        """Clears cached results: call it after changing single numbers of weights through `.data`.

        Label codes, postings and fingerprints are computed again after any step of an optimizer of PyTorch, after
        changes of tensors in place, by `load_state_dict` or by `to`, and if weights are replaced. What writes to memory
        that PyTorch does not watch (`weight.data[3, 7] = 0`, a custom kernel, a NumPy view) is only noticed if it
        changes any of some dozens of numbers, evenly spread over a weight: surely if it changes all of them.
        """
        self.cache = LabelCache(sys.maxsize)
        note_change()


def _columns_of(label_set: LabelSet) -> tuple[dict[str, int], dict[tuple[str, str | None], int]]:
    """Returns the indices of labels by id, and by text and language."""
    by_text = {(normalize("NFC", label.text), label.language): column for column, label in enumerate(label_set)}
    return {label.id: column for column, label in enumerate(label_set)}, by_text


def _check_same_labels(stored: StoredLabels, weights: Mapping[str, Tensor], prefix: str, *args: object) -> None:
    """Refuses a checkpoint with other labels than those of `set_labels`."""
    words = weights.get(f"{prefix}input_ids")
    if words is not None and stored.label_set is not None and not words.cpu().equal(stored.input_ids.cpu()):
        raise ValueError(
            "labels of this checkpoint differ from set_labels of this model, or in their order: continue with "
            "the label set of the checkpoint (its labels.jsonl), or load it with from_pretrained"
        )


_changes: Counter[str] = Counter()
"""Number of changes of weights in this process that need not show in `compute_state` otherwise."""


def note_change(*_: object) -> None:
    """Makes every state of `compute_state` a new one, so that whatever is cached in this process is computed again."""
    _changes["weights"] += 1


# Fused optimizers do not increment version counters, and may change only few rows of a table.
register_optimizer_step_post_hook(note_change)


@torch.compiler.disable
@torch.no_grad()
def compute_state(*tensors: Tensor) -> tuple[Any, ...]:
    """Computes a state of tensors to detect changes; it reads only a sample of their numbers.

    It consists of the number of optimizer steps in this process, the addresses and version counters of the tensors, and
    up to 32 numbers of each. `StoredLabels.clear_cache` says which changes it misses. Tensors on the meta
    device never have the same state.
    """
    state: list[Any] = [_changes["weights"]]
    samples: dict[Any, list[Tensor]] = {}
    for part in chain.from_iterable(map(_plain_parts, tensors)):
        if part.is_meta:
            state.append(object())
            continue
        version = 0 if part.is_inference() else part._version
        kind = (part.device, part.dtype)
        state.append((part.data_ptr(), version, part.shape, *kind))
        step = part.numel() // _SAMPLED + 1
        samples.setdefault(kind, []).append(part.flatten()[::step])
    # As bytes, since NaN differs from itself.
    return *state, *(torch.cat(parts).view(torch.uint8).cpu().numpy().tobytes() for parts in samples.values())


@torch.compiler.disable
@torch.no_grad()
def hash_bits(*tensors: Tensor) -> str:
    """Computes a fingerprint of all bits of tensors."""
    digest = hashlib.sha256()
    for part in chain.from_iterable(map(_plain_parts, tensors)):
        digest.update(part.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _plain_parts(tensor: Tensor) -> list[Tensor]:
    """Returns the plain tensors of which a sharded or quantized tensor consists in this process, or the tensor."""
    if hasattr(tensor, "to_local"):
        return _plain_parts(tensor.to_local())
    if not hasattr(tensor, "__tensor_flatten__"):
        return [tensor.detach()]
    names, _ = tensor.__tensor_flatten__()
    return [part for name in names for part in _plain_parts(getattr(tensor, name))]


def is_finite(numbers: Tensor) -> bool:
    """Checks whether all numbers of a tensor are finite."""
    if not numbers.is_floating_point():
        return True
    if numbers.dtype.itemsize == 1:
        numbers = numbers.half()  # PyTorch does not add numbers of 8 bits
    # If the sum is finite, so are all numbers; it takes a fortieth of the time of checking each.
    total = numbers.sum(dtype=torch.promote_types(numbers.dtype, torch.float32))
    return bool(total.isfinite()) or bool(numbers.isfinite().all())


def check_finite(weights: Mapping[str, Any], name: str) -> None:
    """Refuses weights with NaN or infinity; quantized weights and weights on the meta device are not checked.

    Raises:
        ValueError: If a weight contains NaN or infinity; the message names it, and the weights by `name`.
    """
    for key, weight in weights.items():
        is_plain = type(weight) in (Tensor, nn.Parameter) and weight.device.type != "meta"
        if is_plain and weight.dtype.itemsize > 1 and not is_finite(weight):
            index = (~weight.isfinite()).nonzero()[0].tolist()
            raise ValueError(
                f"{name}: {key} contains {weight[tuple(index)].item()} at {index}, so all scores would be NaN: the "
                "file is damaged, or training diverged; use an earlier checkpoint"
            )
