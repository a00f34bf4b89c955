"""Folds of documents and labels: what a head is fitted on, and what its settings are chosen on.

Shapes: N documents, L labels.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from .documents import PADDING, Documents

FOLDS = 4
"""Number of folds of documents, and of labels."""

FEW = 300
"""Fewer validation documents than this are few."""

EXAMPLE_SCORES = 1 << 24
"""Maximum number of scores for fitting the weights of terms."""


@dataclass(frozen=True, eq=False)
class Fold:
    """Documents to fit on, and other documents to choose on.

    Args:
        train: Documents to fit on.
        others: Documents left out.
        num_labels: Number of labels L.
    """

    train: Documents
    others: Documents
    num_labels: int

    @cached_property
    def counts(self) -> Tensor:
        """`(L,)` number of documents of each label to fit on."""
        return self.train.counts(self.num_labels)

    @property
    def seen(self) -> Tensor:
        """`(L,)` booleans, whether a label has documents to fit on."""
        return self.counts > 0


def folds_of_documents(train: Documents, validation: Documents, num_labels: int, is_enough: bool) -> list[Fold]:
    """Returns folds that hold out documents: validation documents, and a quarter of the others unless these suffice.

    Args:
        train: Documents to fit on.
        validation: Documents that are left out of every fold.
        num_labels: L.
        is_enough: Whether validation documents suffice; there is one fold then.
    """
    held = torch.full((num_labels,), -1)
    return _folds(train, validation, held, 1 if is_enough else FOLDS, is_enough)


def folds_of_labels(
    train: Documents, validation: Documents, num_labels: int, number: int, is_enough: bool
) -> list[Fold]:
    """Returns folds that also hold out a quarter of the seen labels, with the documents that have no other labels.

    No held-out label is more frequent than the mean, as an unused label will not be in every second document.

    Args:
        train: As in `folds_of_documents`.
        validation: As in `folds_of_documents`.
        num_labels: L.
        number: Maximum number of folds.
        is_enough: As in `folds_of_documents`.
    """
    counts = train.counts(num_labels)
    if int((counts > 0).sum()) < 2:
        return []
    columns = may_be_held_out(counts).nonzero()[:, 0]
    order = columns[torch.randperm(len(columns), generator=torch.Generator().manual_seed(0))]
    held = torch.full((num_labels,), -1)
    held[order] = torch.arange(len(columns)) % min(FOLDS, len(columns))
    return _folds(train, validation, held, min(number, len(columns)), is_enough)


def may_be_held_out(counts: Tensor) -> Tensor:
    """Returns which of the labels with `(L,)` counts of documents may be held out."""
    seen = counts > 0
    return seen & (counts <= counts[seen].float().mean())


def _folds(train: Documents, validation: Documents, held: Tensor, number: int, is_enough: bool) -> list[Fold]:
    """Returns up to `number` folds; `held` are the `(L,)` folds that leave out each label, -1 for none."""
    left_out = torch.full((len(train),), -1) if is_enough else spread(train, len(held))
    folds = []
    for position in range(number):
        fit = train.take(left_out != position)
        is_held = (fit.gold >= 0) & (held[fit.gold.clamp(min=0)] == position)
        remaining = replace(fit, gold=fit.gold.masked_fill(is_held, PADDING))
        fit = remaining.take(remaining.has_gold | ~fit.has_gold)
        if bool(fit.has_gold.any()):
            others = validation.joined(train.take(left_out == position))
            others = others.take(others.is_read)
            most = max(FEW, EXAMPLE_SCORES // (len(held) * number))
            folds.append(Fold(fit, others.take(slice(most)), len(held)))
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
