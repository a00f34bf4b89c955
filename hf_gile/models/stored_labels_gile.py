"""The labels that a classifier stores: which they are, whose candidates they are, what was made of them and of what.

Shapes: B documents, L stored labels, C of them or of any others.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
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

    Args:
        config: The `GileConfig` of the classifier.

    Attributes:
        label_set: The labels; None of a classifier that knows no more of them than their names.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        self.config = config
        self.label_set: LabelSet | None = None
        self._places: tuple[LabelSet, dict[str, int], dict[tuple[str, str | None], int]] | None = None
        self._made: dict[Hashable, tuple[Any, Tensor, Tensor]] = {}  # its state, itself, and the words it was made of
        self._versions: dict[Hashable, Any] = {}  # of what it was made of, while training goes on

    @property
    def languages(self) -> Tensor:
        """`(L,)` places in `config.languages`; of labels that name no language there are none."""
        sizes = torch.tensor([self.config.language_labels.get(one, 0) for one in self.config.languages])
        return torch.arange(len(sizes)).repeat_interleave(sizes)

    def columns_of(self, labels: Sequence[Label], language: str | None = None) -> Tensor:
        """The columns that labels have among the stored ones.

        A label is a stored one if it has its id, or its text and language.

        Args:
            labels: C `Label`s.
            language: The language of labels that name none.

        Returns:
            `(C,)` columns, -1 for labels that are not stored.
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
        """Which labels the model was trained on, as its stored label set says: what `calibrated` asks for.

        Args:
            labels: C `Label`s; by default the stored ones.
            language: The language of labels that name none.

        Returns:
            `(C,)` bool, True for labels that are stored, and stored as seen. Without a stored label set, as a linear
            unit can be, its labels are those it was trained on.
        """
        if self.label_set is None:
            return torch.full((self.config.num_labels if labels is None else len(labels),), labels is None)
        seen = torch.tensor(self.label_set.seen)
        if labels is None:
            return seen
        columns = self.columns_of(labels, language)
        return seen[columns.clamp(min=0)] & (columns >= 0)

    def thresholds(self, labels: Sequence[Label] | None = None, language: str | None = None) -> Tensor:
        """From which probability, after calibration, each label counts as assigned.

        Args:
            labels: C `Label`s; by default the stored ones.
            language: The language of labels that name none.

        Returns:
            `(C,)` float32: the threshold of the stored label, or of the label itself if it is not stored; else that of
            its group in `config.thresholds`, else that of the other group, else 0.5.
        """
        by_group = self.config.thresholds
        groups = [by_group.get(group, next(iter(by_group.values()), 0.5)) for group in ("unseen", "seen")]
        thresholds = [groups[seen] for seen in self.seen(labels, language).tolist()]
        known: Sequence[Label] = labels if labels is not None else self.label_set or ()
        if self.label_set is not None and labels is not None:
            columns = self.columns_of(labels, language).tolist()
            known = [
                self.label_set[column] if column >= 0 else label for label, column in zip(labels, columns, strict=True)
            ]
        for place, label in enumerate(known):
            if label.threshold is not None:
                thresholds[place] = label.threshold
        return torch.tensor(thresholds, dtype=torch.float32)

    def mask_languages(self, logits: Tensor, language: str | None, columns: Tensor | None = None) -> Tensor:
        """Gives the stored labels of other languages minus infinity, a probability of zero.

        Args:
            logits: `(B, L)` scores of all stored labels, or `(B, C)` of some.
            language: The language whose labels are candidates; it can be left out if there is one.
            columns: `(C,)` columns scored.

        Returns:
            The logits, as they are if the stored labels name no languages.
        """
        if not self.config.language_labels:
            return logits
        own = own_columns(self.config, check_language(self.config, language))
        if columns is None:
            columns = torch.arange(self.config.num_labels, device=logits.device)
        return logits.masked_fill((columns < own.start) | (columns >= own.stop), -torch.inf)

    def mask_excluded(self, logits: Tensor, excluded_columns: Tensor, columns: Tensor | None = None) -> Tensor:
        """Gives labels that are no candidates for a document minus infinity, a probability of zero.

        Args:
            logits: `(B, L)` scores of all stored labels, or `(B, C)` of some.
            excluded_columns: `(B, E)` columns, padded with -100.
            columns: `(C,)` columns scored.

        Returns:
            The masked logits, of the same shape.

        Raises:
            ValueError: An excluded column is out of range, or there is not one row for each document.
        """
        num_labels = self.config.num_labels
        check_excluded(excluded_columns, len(logits), num_labels)
        padded = excluded_columns.masked_fill(excluded_columns < 0, num_labels)
        mask = torch.zeros(len(logits), num_labels + 1, dtype=torch.bool, device=logits.device)
        mask = mask.scatter_(1, padded, True)[:, :num_labels]
        return logits.masked_fill(mask if columns is None else mask[:, columns], -torch.inf)

    def made_once(
        self,
        name: Hashable,
        words: Tensor,
        state: Callable[[Tensor], Any],
        make: Callable[[], Tensor],
        versions: object = None,
    ) -> Tensor:
        """What is made of the words of labels, made once while what it is made of stays as it is.

        Args:
            name: What it is.
            words: `(L, T)` words of the labels.
            state: Says what it is made of, of the `(W,)` words that labels have, each once.
            make: Makes it.
            versions: While these stay equal in training, `state` is not asked.

        Returns:
            What `make` returned, not to be changed.
        """
        made = self._made.get(name)
        if made is not None and versions is not None and self._versions.get(name) == versions:
            return made[1]
        self._versions[name] = versions
        if made is None or made[0] != state(made[2]):
            distinct = words.unique()
            made_of = state(distinct)
            made = self._made[name] = (made_of, make(), distinct)
        return made[1]

    def exported(self, name: Hashable) -> Tensor:
        """What `made_once` keeps under a name, for a model that is being exported and cannot make it.

        Raises:
            ValueError: Nothing is kept.
        """
        if name not in self._made:
            raise ValueError(
                "an exported model holds the codes of its labels as constants: call it once, in evaluation mode and "
                "without gradients, before torch.export"
            )
        return self._made[name][1]

    def forget_versions(self) -> None:
        """Asks for states again: a write through `.data` has no version."""
        self._versions = {}

    def forget(self) -> None:
        """Forgets what was made of labels."""
        self._made, self._versions = {}, {}


@torch.compiler.disable
@torch.no_grad()
def state_of(*tensors: Tensor) -> tuple[Any, ...]:
    """What stays equal while tensors hold the same, read at the speed of memory: a number made of all their bits.

    Versions of tensors do not tell: a fused optimizer, and writing into `.data`, leave them as they are.

    Args:
        tensors: Weights, or words.
    """
    on: dict[torch.device, list[Tensor]] = {}
    for tensor in tensors:
        # Of weights that processes share, this process's part.
        local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        on.setdefault(tensor.device, []).append(local.detach())
    return *((one.device, one.dtype, one.shape) for one in tensors), *(_content(some).item() for some in on.values())


def _content(tensors: Sequence[Tensor]) -> Tensor:
    """A sum modulo 2^64 of the bits, each 64 of them times an odd number of their place: no single change escapes."""
    device = tensors[0].device
    for level in _factors(device):
        size, wholes, tails = 8 * len(level), [], []
        for tensor in tensors:
            flat = tensor.flatten()
            if flat.storage_offset() * flat.element_size() % 8:
                flat = flat.clone()
            flat = flat.view(torch.uint8)
            whole = len(flat) - len(flat) % size
            if whole:
                wholes.append(flat[:whole])
            tails.append(flat[whole:])
        tail = torch.cat(tails)
        wholes.append(functional.pad(tail, (0, -len(tail) % size)))
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
    """Whether numbers are all finite.

    Args:
        numbers: Of any shape and type.
    """
    if not numbers.is_floating_point():
        return True
    # Of a sum that is finite, all is; it takes a fortieth of the time of a look at each.
    return bool(numbers.sum(dtype=torch.promote_types(numbers.dtype, torch.float32)).isfinite()) or bool(
        numbers.isfinite().all()
    )


def check_finite(weights: Mapping[str, Any], name: str) -> None:
    """Refuses weights with numbers that are not finite: all scores would be NaN.

    Args:
        weights: By their names. Those that are elsewhere, not yet there or quantized are not looked at.
        name: What to call them.

    Raises:
        ValueError: A weight has such a number; the message names it.
    """
    for key, weight in weights.items():
        is_plain = type(weight) in (Tensor, nn.Parameter) and weight.device.type != "meta"
        if is_plain and weight.dtype.itemsize > 1 and not is_finite(weight):
            place = (~weight.isfinite()).nonzero()[0].tolist()
            raise ValueError(
                f"{name}: {key} holds {weight[tuple(place)].item()} at {place}, so all scores would be NaN: the file "
                "is damaged, or training diverged; take an earlier checkpoint"
            )


__all__ = ["StoredLabels", "check_finite", "is_finite", "state_of"]
