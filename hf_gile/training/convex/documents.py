"""Documents as convex fits use them, and folds: documents to fit on, and documents to choose settings on.

Documents are left out of a fold; labels are held out, and become unseen for it.

Shapes: N documents, L labels, P size of a vector, G gold labels of a document, E excluded labels.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

from ...metrics.batch import renumbered
from ...models.losses_gile import IGNORE, multi_hot

_BLOCK = 1 << 22
"""Maximum number of scores in memory."""

FOLDS = 4
"""Number of folds of documents, and of labels."""

FEW = 300
"""Fewer validation documents than this are few."""

EXAMPLE_SCORES = 1 << 24
"""Maximum number of scores for fitting the weights of terms."""


@dataclass(frozen=True, eq=False)
class Documents:
    """Vectors and labels of documents.

    Args:
        vectors: `(N, P)` vectors of length 1, float32; zeros for documents that were not encoded.
        gold: `(N, G)` gold columns, padded with -100.
        excluded: `(N, E)` columns of labels that are not candidates, padded with -100.
        numbers: `(N,)` positions among the training documents followed by those for validation, by which words are
            looked up; None if words are not compared.
    """

    vectors: Tensor
    gold: Tensor
    excluded: Tensor | None = None
    numbers: Tensor | None = None
    _targets: dict[int, tuple[Tensor, Tensor | None]] = field(init=False, default_factory=dict)

    def __len__(self) -> int:
        return len(self.vectors)

    def take(self, rows: Tensor | slice) -> "Documents":
        """Selects documents by indices, a mask or a slice."""
        return Documents(
            self.vectors[rows],
            self.gold[rows],
            None if self.excluded is None else self.excluded[rows],
            None if self.numbers is None else self.numbers[rows],
        )

    def joined(self, others: "Documents") -> "Documents":
        """Concatenates these documents and others."""
        excluded = numbers = None
        if self.excluded is not None and others.excluded is not None:
            excluded = stacked(self.excluded, others.excluded)
        if self.numbers is not None and others.numbers is not None:
            numbers = torch.cat([self.numbers, others.numbers])
        vectors = torch.cat([self.vectors, others.vectors])
        return Documents(vectors, stacked(self.gold, others.gold), excluded, numbers)

    def blocks(self, width: int) -> "Iterator[tuple[slice, Documents]]":
        """Yields blocks of documents, small enough for `width` numbers per document."""
        size = max(1, _BLOCK // max(1, width))
        if len(self) <= size:
            yield slice(None), self
            return
        for start in range(0, len(self), size):
            rows = slice(start, start + size)
            yield rows, self.take(rows)

    def among(self, chosen: Tensor) -> "Documents":
        """Renumbers gold and excluded labels to positions within the `(L,)` mask; drops all others."""
        columns = chosen.nonzero()[:, 0]
        excluded = None if self.excluded is None else renumbered(self.excluded, columns, len(chosen))
        return replace(self, gold=renumbered(self.gold, columns, len(chosen)), excluded=excluded)

    def counts(self, num_labels: int) -> Tensor:
        """Returns the number of documents of each label, `(L,)`."""
        return torch.bincount(self.gold[self.gold >= 0], minlength=num_labels)

    def targets(self, num_labels: int) -> tuple[Tensor, Tensor | None]:
        """Returns gold labels as `(N, L)` zeros and ones, and a mask of candidates, or None if all labels are."""
        if num_labels not in self._targets:
            candidates = None
            if self.excluded is not None and bool((self.excluded >= 0).any()):
                candidates = multi_hot(self.excluded, num_labels) == 0
            self._targets[num_labels] = multi_hot(self.gold, num_labels), candidates
        return self._targets[num_labels]

    @property
    def has_gold(self) -> Tensor:
        """`(N,)` booleans, whether a document has any label."""
        return (self.gold >= 0).any(1)

    @property
    def is_read(self) -> Tensor:
        """`(N,)` booleans, whether a document has a vector."""
        return self.vectors.any(1)

    @property
    def mostly_read(self) -> bool:
        """Whether most documents have vectors: not only a sample was encoded, and few have no known words."""
        return 2 * int(self.is_read.sum()) > len(self)


def stacked(*tables: Tensor) -> Tensor:
    """Stacks tables of columns vertically, padded to the same width."""
    width = max(table.shape[1] for table in tables)
    return torch.cat([functional.pad(table, (0, width - table.shape[1]), value=IGNORE) for table in tables])


@dataclass(frozen=True, eq=False)
class Fold:
    """Documents to fit on, and other documents to choose on.

    Args:
        train: Documents to fit on.
        left_out: Documents to choose on.
        labels: `(L, P)` vectors of the labels.
    """

    train: Documents
    left_out: Documents
    labels: Tensor

    @cached_property
    def counts(self) -> Tensor:
        """`(L,)` number of documents of each label to fit on."""
        return self.train.counts(len(self.labels))

    @property
    def seen(self) -> Tensor:
        """`(L,)` booleans, whether a label has documents to fit on."""
        return self.counts > 0


def folds_of_documents(
    train: Documents,
    validation: Documents,
    labels: Tensor,
    validation_suffices: bool,
) -> list[Fold]:
    """Returns folds that hold out documents: validation documents, and a quarter of the others unless these suffice.

    Args:
        train: Documents to fit on.
        validation: Documents that are left out of every fold.
        labels: `(L, P)` vectors of the labels.
        validation_suffices: Whether validation documents suffice; there is one fold then.
    """
    held = torch.full((len(labels),), -1)
    return _folds(train, validation, labels, held, 1 if validation_suffices else FOLDS, validation_suffices)


def folds_of_labels(
    train: Documents,
    validation: Documents,
    labels: Tensor,
    number: int,
    validation_suffices: bool,
) -> list[Fold]:
    """Returns folds that also hold out a quarter of the seen labels, with the documents that have no other labels.

    No held-out label is more than twice as frequent as the mean: an unused label will not be in every second document.

    Args:
        train: As in `folds_of_documents`.
        validation: As in `folds_of_documents`.
        labels: As in `folds_of_documents`.
        number: Maximum number of folds.
        validation_suffices: As in `folds_of_documents`.
    """
    counts = train.counts(len(labels))
    if int((counts > 0).sum()) < 2:
        return []
    columns = may_be_held_out(counts).nonzero()[:, 0]
    order = columns[torch.randperm(len(columns), generator=torch.Generator().manual_seed(0))]
    held = torch.full((len(labels),), -1)
    held[order] = torch.arange(len(columns)) % min(FOLDS, len(columns))
    return _folds(train, validation, labels, held, min(number, len(columns)), validation_suffices)


def may_be_held_out(counts: Tensor) -> Tensor:
    """Returns which of the labels with `(L,)` counts of documents may be held out."""
    seen = counts > 0
    return seen & (counts <= 2 * counts[seen].float().mean())


def _folds(
    train: Documents,
    validation: Documents,
    labels: Tensor,
    held: Tensor,
    number: int,
    validation_suffices: bool,
) -> list[Fold]:
    """Returns up to `number` folds; `held` are the `(L,)` folds that hold out each label, -1 for none."""
    fold_of = torch.full((len(train),), -1) if validation_suffices else spread(train, len(held))
    folds = []
    for position in range(number):
        fit = train.take(fold_of != position)
        is_held = (fit.gold >= 0) & (held[fit.gold.clamp(min=0)] == position)
        remaining = replace(fit, gold=fit.gold.masked_fill(is_held, IGNORE))
        fit = remaining.take(remaining.has_gold | ~fit.has_gold)
        if bool(fit.has_gold.any()):
            left_out = validation.joined(train.take(fold_of == position))
            left_out = left_out.take(left_out.is_read)
            most = max(FEW, EXAMPLE_SCORES // (len(held) * number))
            folds.append(Fold(fit, left_out.take(slice(most)), labels))
    return folds


def spread(documents: Documents, num_labels: int) -> Tensor:
    """Returns the `(N,)` fold that leaves out each document, -1 for the only document of a label.

    If each document has one label, every fold leaves out a document of each label with few documents. If it did so for
    a part of these labels, the gold labels of documents left out would have fewer documents for fitting than the labels
    they compete with, and the weights of terms would be fitted to that. Other documents are left out at random.
    """
    if bool(((documents.gold >= 0).sum(1) != 1).any()):
        return torch.randperm(len(documents), generator=torch.Generator().manual_seed(0)) % FOLDS
    label_of = documents.gold.max(1).values
    order = label_of.argsort(stable=True)
    sizes = documents.counts(num_labels)
    first = (sizes.cumsum(0) - sizes)[label_of[order]]
    folds = torch.empty(len(documents), dtype=torch.long)
    folds[order] = (torch.arange(len(order)) - first.long()) % FOLDS
    return folds.masked_fill(sizes[label_of] == 1, -1)
