"""The labels that a classifier stores: which they are, whose candidates they are, what was made of them and of what.

Shapes: B documents, L stored labels, C of them or of any others.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextvars import ContextVar
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedConfig

from .labels_gile import Label, LabelSet
from .languages_gile import check_language, own_columns
from .losses_gile import check_excluded


class StoredLabels:
    """Looks stored labels up, masks those that are no candidates, and keeps what was made of their words.

    `label_set` is None of a classifier that knows no more of them than their names.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        self.config = config
        self.label_set: LabelSet | None = None
        self._places: tuple[LabelSet, dict[str, int], dict[tuple[str, str | None], int]] | None = None
        # What was made, its version, the state of what it was made of, and the words of that, each once.
        self._made: dict[Hashable, tuple[Tensor, int, Any, Tensor]] = {}
        self._postings: tuple[Any, Any] = ((), None)

    @property
    def languages(self) -> Tensor:
        """`(L,)` indices into `config.languages`; empty if labels name no language."""
        sizes = torch.tensor([self.config.language_labels.get(one, 0) for one in self.config.languages])
        return torch.arange(len(sizes)).repeat_interleave(sizes)

    def columns_of(self, labels: Sequence[Label], language: str | None = None) -> Tensor:
        """The `(C,)` columns that labels have among the stored ones, -1 for others.

        A label is a stored one if it has its id, or its text and language; `language` is that of labels that name none.
        """
        columns = [-1] * len(labels)
        if self.label_set is not None:
            if self._places is None or self._places[0] is not self.label_set:
                by_id = {label.id: column for column, label in enumerate(self.label_set)}
                by_text = {(label.text, label.language): column for column, label in enumerate(self.label_set)}
                self._places = self.label_set, by_id, by_text
            _, by_id, by_text = self._places
            # Stored labels that serve all languages name none, and neither do those of a model that has none.
            default = language if self.config.language_labels else None
            for place, label in enumerate(labels):
                column = by_id.get(label.id)
                columns[place] = by_text.get((label.text, label.language or default), -1) if column is None else column
        return torch.tensor(columns, dtype=torch.long)

    def seen(self, labels: Sequence[Label] | None = None, language: str | None = None) -> Tensor:
        """Which of C labels, or of the stored ones, the model was trained on: `(C,)` bool, as the label set says.

        Without one, as a linear unit can be, the stored labels are those it was trained on. `language` is that of
        labels that name none.
        """
        if self.label_set is None:
            return torch.full((self.config.num_labels if labels is None else len(labels),), labels is None)
        seen = torch.tensor(self.label_set.seen)
        if labels is None:
            return seen
        columns = self.columns_of(labels, language)
        return seen[columns.clamp(min=0)] & (columns >= 0)

    def thresholds(self, labels: Sequence[Label] | None = None, language: str | None = None) -> Tensor:
        """From which probability, after calibration, each of C labels, or of the stored ones, counts as assigned.

        Returns:
            `(C,)` float32: the threshold of the stored label, or of the label itself if it is not stored; else that of
            its group in `config.thresholds`, else that of the other group, else 0.5.
        """
        by_group = self.config.thresholds
        groups = [by_group.get(group, next(iter(by_group.values()), 0.5)) for group in ("unseen", "seen")]
        thresholds = [groups[seen] for seen in self.seen(labels, language).tolist()]
        columns = [] if labels is None else self.columns_of(labels, language).tolist()
        stored = self.label_set
        for place, label in enumerate(stored or () if labels is None else labels):
            column = -1 if labels is None else columns[place]
            threshold = (label if stored is None or column < 0 else stored[column]).threshold
            if threshold is not None:
                thresholds[place] = threshold
        return torch.tensor(thresholds, dtype=torch.float32)

    def masked(
        self,
        logits: Tensor,
        language: str | None = None,
        excluded_columns: Tensor | None = None,
        columns: Tensor | None = None,
    ) -> Tensor:
        """Gives labels that are no candidates minus infinity, a probability of zero.

        Args:
            logits: `(B, L)` scores of all stored labels, or `(B, C)` of some.
            language: The language whose labels are candidates, where stored labels name theirs.
            excluded_columns: `(B, E)` columns that are no candidates for a document, padded with -100.
            columns: `(C,)` columns scored.

        Raises:
            ValueError: An excluded column is out of range, or there is not one row for each document.
        """
        number = self.config.num_labels
        if self.config.language_labels:
            own = own_columns(self.config, check_language(self.config, language))
            every = torch.arange(number, device=logits.device) if columns is None else columns
            logits = logits.masked_fill((every < own.start) | (every >= own.stop), -torch.inf)
        if excluded_columns is None:
            return logits
        check_excluded(excluded_columns, len(logits), number)
        mask = torch.zeros(len(logits), number + 1, dtype=torch.bool, device=logits.device)
        mask = mask.scatter_(1, excluded_columns.masked_fill(excluded_columns < 0, number), True)[:, :number]
        return logits.masked_fill(mask if columns is None else mask[:, columns], -torch.inf)

    def made_once(
        self, name: Hashable, words: Tensor, label_state: Callable[..., Any], make: Callable[[], Tensor]
    ) -> Tensor:
        """What `make` makes of `(L, T)` words of labels, made once while what it is made of stays as it is.

        `label_state`, that of `GileModel`, says what that is beside the words. What a caller has changed is made again.
        """
        if name in self._made:
            made, version, made_of, distinct = self._made[name]
            if made._version == version and made_of == (label_state(), label_state(distinct), state_of(words)):
                return made
        distinct = words.unique()
        made_of, made = (label_state(), label_state(distinct), state_of(words)), make()
        self._made[name] = made, made._version, made_of, distinct
        return made

    def postings(self, made_of: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """The postings of the stored labels, made once while what they are made of stays equal."""
        if self._postings[0] != made_of:
            self._postings = made_of, make()
        return self._postings[1]

    def exported(self, name: Hashable) -> Tensor:
        """What `made_once` keeps under a name, for a model that is being exported and cannot make it.

        Raises:
            ValueError: There is nothing.
        """
        if name not in self._made:
            raise ValueError(
                "an exported model holds the codes of its labels as constants: call it once, in evaluation mode and "
                "without gradients, before torch.export"
            )
        return self._made[name][0]

    def forget(self) -> None:
        """Forgets what was made of labels."""
        self._made = {}


reads_weights: ContextVar[bool] = ContextVar("reads_weights", default=True)
"""Whether `state_of` reads tensors; else it compares version counters, enough where weights are only loaded."""


@torch.compiler.disable
@torch.no_grad()
def state_of(*tensors: Tensor, rows: Tensor | None = None) -> tuple[Any, ...]:
    """What stays equal while tensors, or `(R,)` rows of them, hold the same: a number computed from all bits.

    Versions of tensors do not tell: a fused optimizer, and writing into `.data`, leave them as they are.
    """
    if not reads_weights.get() and not any(one.is_inference() for one in tensors):
        return tuple((one.data_ptr(), one._version) for one in tensors)
    on: dict[torch.device, list[Tensor]] = {}
    for tensor in tensors:
        # Of weights that processes share, this process's part.
        local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        on.setdefault(tensor.device, []).append(local.detach() if rows is None else local.detach()[rows])
    return *((one.device, one.dtype, one.shape) for one in tensors), *(_content(some).item() for some in on.values())


def _content(tensors: Sequence[Tensor]) -> Tensor:
    """A sum modulo 2^64 of the bits, each 64 of them times an odd number of their place: no single change escapes."""
    device = tensors[0].device
    for level in _factors(device):
        size, parts = 8 * len(level), []
        for tensor in tensors:
            flat = tensor.flatten()
            is_aligned = flat.storage_offset() * flat.element_size() % 8 == 0
            flat = (flat if is_aligned else flat.clone()).view(torch.uint8)
            parts.append(flat.tensor_split([len(flat) // size * size]))
        tail = torch.cat([tail for _, tail in parts])
        wholes = [*(whole for whole, _ in parts), functional.pad(tail, (0, -len(tail) % size))]
        rows = [whole.view(torch.int64).view(-1, len(level)) for whole in wholes]
        if device.type == "cpu":
            tensors = [torch.cat([some.mv(level) for some in rows])]
        else:  # other devices have no such product of whole numbers
            tensors = [torch.cat([(part * level).sum(1) for some in rows for part in some.split(1 << 13)])]
    return tensors[0].sum()


@cache
def _factors(device: torch.device) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return (torch.randint(1 << 62, (3, 512), generator=generator, device="cpu") * 2 + 1).to(device)


def is_finite(numbers: Tensor) -> bool:
    """Whether numbers, of any shape and type, are all finite."""
    if not numbers.is_floating_point():
        return True
    # Of a sum that is finite, all is; it takes a fortieth of the time of a look at each.
    total = numbers.sum(dtype=torch.promote_types(numbers.dtype, torch.float32))
    return bool(total.isfinite()) or bool(numbers.isfinite().all())


def check_finite(weights: Mapping[str, Any], name: str) -> None:
    """Refuses weights with NaN or infinity; weights on other devices or quantized ones are not checked.

    Raises:
        ValueError: A weight has such a number; the message names it, and the weights by `name`.
    """
    for key, weight in weights.items():
        is_plain = type(weight) in (Tensor, nn.Parameter) and weight.device.type != "meta"
        if is_plain and weight.dtype.itemsize > 1 and not is_finite(weight):
            place = (~weight.isfinite()).nonzero()[0].tolist()
            raise ValueError(
                f"{name}: {key} contains {weight[tuple(place)].item()} at {place}, so all scores would be NaN: the "
                "file is damaged, or training diverged; use an earlier checkpoint"
            )
