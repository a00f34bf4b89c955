"""Documents as convex fits use them: vectors, gold labels, and labels that are not candidates.

Shapes: N documents, L labels, P size of a vector, G gold labels of a document, E excluded labels.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.nn import functional

from ...models.losses_gile import multi_hot

PADDING = -100

_BLOCK = 1 << 22
"""Maximum number of scores in memory."""


@dataclass(frozen=True, eq=False)
class Documents:
    """Vectors and labels of documents.

    Args:
        vectors: `(N, P)` vectors of length 1, float32; zeros for documents that were not encoded.
        gold: `(N, G)` gold columns, padded with -100.
        excluded: `(N, E)` columns of labels that are not candidates, padded with -100.
        numbers: `(N,)` numbers of the documents, by which their words are looked up; None if words are not compared.
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
        positions = chosen.cumsum(0) - 1
        positions = functional.pad(positions.masked_fill(~chosen, PADDING), (0, 1), value=PADDING)

        def renumbered(columns: Tensor) -> Tensor:
            return positions[columns.masked_fill(columns < 0, len(chosen))]

        excluded = None if self.excluded is None else renumbered(self.excluded)
        return replace(self, gold=renumbered(self.gold), excluded=excluded)

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
    return torch.cat([functional.pad(table, (0, width - table.shape[1]), value=PADDING) for table in tables])
