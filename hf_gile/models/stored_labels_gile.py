"""Stored labels of a classifier: lookup, masks of candidates, and caches of label codes.

Shapes: B documents, L stored labels, C stored or other labels.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextvars import ContextVar
from functools import cache
from typing import Any
from unicodedata import normalize

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedConfig

from .labels_gile import Label, LabelSet
from .languages_gile import check_language, get_language_columns
from .losses_gile import check_excluded


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
        self._index: tuple[LabelSet, dict[str, int], dict[tuple[str, str | None], int]] | None = None
        # Cached tensors, their versions, the states of their inputs, and the distinct words of these.
        self._cache: dict[Hashable, tuple[Tensor, int, Any, Tensor]] = {}
        self._postings: tuple[Any, Any] = ((), None)

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
        if self._index is None or self._index[0] is not self.label_set:
            by_id = {label.id: column for column, label in enumerate(self.label_set)}
            by_text = {(normalize("NFC", label.text), label.language): n for n, label in enumerate(self.label_set)}
            self._index = self.label_set, by_id, by_text
        _, by_id, by_text = self._index
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
        columns = [] if labels is None else self.find_columns(labels, language).tolist()
        stored = self.label_set
        for row, label in enumerate(stored or () if labels is None else labels):
            column = -1 if labels is None else columns[row]
            threshold = (label if stored is None or column < 0 else stored[column]).threshold
            if threshold is not None:
                thresholds[row] = threshold
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

    def get_or_compute(
        self, name: Hashable, words: Tensor, label_state: Callable[..., Any], compute: Callable[[], Tensor]
    ) -> Tensor:
        """Returns the result of `compute` for `(L, T)` words of labels, cached while its inputs do not change.

        `label_state` is that of `GileModel`. If the caller changes the tensor in place, it is computed again.
        """
        if name in self._cache:
            result, version, state, distinct = self._cache[name]
            if result._version == version and state == (label_state(), label_state(distinct), compute_state(words)):
                return result
        distinct = words.unique()
        state = (label_state(), label_state(distinct), compute_state(words))
        result = compute()
        self._cache[name] = result, result._version, state, distinct
        return result

    def postings(self, state: tuple[Any, ...], build: Callable[[], Any]) -> Any:
        """Returns the postings of the stored labels, built again if the state of their inputs changes."""
        if self._postings[0] != state:
            self._postings = state, build()
        return self._postings[1]

    def get_exported(self, name: Hashable) -> Tensor:
        """Returns a cached result of `get_or_compute`, which cannot be computed while a model is exported.

        Raises:
            ValueError: If it is not cached.
        """
        if name not in self._cache:
            raise ValueError(
                "an exported model contains its label codes as constants: call it once, in evaluation mode and "
                "without gradients, before torch.export"
            )
        return self._cache[name][0]

    def clear_cache(self) -> None:
        """Clears cached results of `get_or_compute`."""
        self._cache = {}


def _check_same_labels(stored: StoredLabels, weights: Mapping[str, Tensor], prefix: str, *args: object) -> None:
    """Refuses a checkpoint with other labels than those of `set_labels`."""
    words = weights.get(f"{prefix}input_ids")
    if words is not None and stored.label_set is not None and not words.cpu().equal(stored.input_ids.cpu()):
        raise ValueError(
            "labels of this checkpoint differ from set_labels of this model, or in their order: continue with "
            "the label set of the checkpoint (its labels.jsonl), or load it with from_pretrained"
        )


weights_state: ContextVar[tuple[Any, ...] | None] = ContextVar("weights_state", default=None)
"""Version counters of all weights, if they do not change meanwhile: then no state reads the weights or lists them."""


def read_versions(tensors: Sequence[Tensor]) -> tuple[Any, ...] | None:
    """Returns the version counters of tensors; None for inference tensors, which have none.

    Fused optimizers and writes to `.data` do not increment them.
    """
    if any(tensor.is_inference() for tensor in tensors):
        return None
    return tuple((tensor.data_ptr(), tensor._version) for tensor in tensors)


@torch.compiler.disable
@torch.no_grad()
def compute_state(*tensors: Tensor, rows: Tensor | None = None) -> tuple[Any, ...]:
    """Computes a fingerprint of all bits of tensors, or of `(R,)` rows, to detect changes.

    Version counters, see `weights_state`, do not show all changes.
    """
    versions = None if weights_state.get() is None else read_versions(tensors)
    return versions or read_state(*tensors, rows=rows)


@torch.compiler.disable
@torch.no_grad()
def read_state(*tensors: Tensor, rows: Tensor | None = None) -> tuple[Any, ...]:
    """Computes the fingerprint of `compute_state` from the bits of tensors, whatever `weights_state` is."""
    by_device: dict[torch.device, list[Tensor]] = {}
    for tensor in tensors:
        # For weights sharded across processes, the local shard.
        local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        parts = _quantized_parts(local.detach())
        if rows is not None and len(parts) == 1:  # for a quantized table, all rows
            parts = [parts[0][rows]]
        by_device.setdefault(tensor.device, []).extend(parts)
    return *((x.device, x.dtype, x.shape) for x in tensors), *(_hash(group).item() for group in by_device.values())


def _quantized_parts(tensor: Tensor) -> list[Tensor]:
    """Returns the plain tensors of which a quantized tensor consists, or the tensor itself."""
    if not hasattr(tensor, "__tensor_flatten__"):
        return [tensor]
    names, _ = tensor.__tensor_flatten__()
    return [part for name in names for part in _quantized_parts(getattr(tensor, name))]


def _hash(tensors: Sequence[Tensor]) -> Tensor:
    """Sums 64-bit words times odd factors by position, modulo 2^64, so that any single change is detected."""
    device = tensors[0].device
    for level in _factors(device):
        size = 8 * len(level)
        parts = []
        for tensor in tensors:
            flat = tensor.flatten()
            is_aligned = flat.storage_offset() * flat.element_size() % 8 == 0
            flat = (flat if is_aligned else flat.clone()).view(torch.uint8)
            parts.append(flat.tensor_split([len(flat) // size * size]))
        tail = torch.cat([tail for _, tail in parts])
        wholes = [*(whole for whole, _ in parts), functional.pad(tail, (0, -len(tail) % size))]
        rows = [whole.view(torch.int64).view(-1, len(level)) for whole in wholes]
        if device.type == "cpu":
            tensors = [torch.cat([matrix.mv(level) for matrix in rows])]
        else:  # other devices do not support matrix products of integers
            tensors = [torch.cat([(part * level).sum(1) for matrix in rows for part in matrix.split(1 << 13)])]
    return tensors[0].sum()


@cache
def _factors(device: torch.device) -> Tensor:
    """Returns the random odd factors of `_hash`, a row for each level."""
    generator = torch.Generator().manual_seed(0)
    return (torch.randint(1 << 62, (3, 512), generator=generator, device="cpu") * 2 + 1).to(device)


def is_finite(numbers: Tensor) -> bool:
    """Checks whether all numbers of a tensor are finite."""
    if not numbers.is_floating_point():
        return True
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
