"""The terms of a score, their weights by group of labels, and their sum; and the rows that make a label a seen one.

Shapes: B documents, L labels, H document size.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

TERMS: dict[str, dict[str, float]] = {
    "joint": {"seen": 1.0, "unseen": 1.0},
    "cosine": {"seen": 1.0, "unseen": 1.0},
    "rows": {"seen": 1.0},
    "match": {"seen": 0.0, "unseen": 1.0},
    "coverage": {"seen": 0.0, "unseen": 1.0},
    "words": {"seen": 0.0, "unseen": 0.0},
    "title": {"seen": 0.0, "unseen": 0.0},
    "specificity": {"seen": 0.0, "unseen": 0.0},
    "offset": {"seen": 0.0, "unseen": 0.0},
}
"""Terms of the score and their default weights for labels with a row ("seen") and without ("unseen")."""

WEIGHTED = ("seen", "unseen", "rare")
"""Groups of `GileConfig.term_weights`: "rare" has the weights that those of seen labels tend to with few documents."""

WORD_TERMS = ("match", "coverage", "words", "title", "specificity")
"""Terms of words, in the order of `Postings`."""


@dataclass(frozen=True, eq=False)
class Rows:
    """What each label has learned from its training documents: zeros for a label without.

    Args:
        weight: `(L, H)` weights r, or `(L, 0)` if all are zero.
        bias: `(L,)` biases b_l.
        rarity: `(L,)` shares of the weights of "rare" in those of a label, from 0 to 1: high with few documents.
    """

    weight: Tensor
    bias: Tensor
    rarity: Tensor

    @property
    def seen(self) -> Tensor:
        """`(L,)` booleans, whether a label has a row."""
        return self.weight.any(1) | self.bias.bool() | self.rarity.bool()

    def take(self, columns: Tensor) -> "Rows":
        """Selects the rows of labels by indices or a mask."""
        return Rows(self.weight[columns], self.bias[columns], self.rarity[columns])

    def where(self, mask: Tensor) -> "Rows":
        """Removes the rows of labels for which an `(L,)` mask is false."""
        return Rows(self.weight * mask[:, None], self.bias * mask, self.rarity * mask)


class RowTable(nn.Embedding):
    """The rows of stored labels, initially zero."""

    def __init__(self, num_labels: int, size: int) -> None:
        super().__init__(num_labels, size)
        nn.init.zeros_(self.weight)
        self.bias = nn.Parameter(torch.zeros(num_labels))
        self.rarity = nn.Parameter(torch.zeros(num_labels), requires_grad=False)

    def forward(self, columns: Tensor | None = None) -> Rows:  # type: ignore[override]
        """Returns the rows of `(C,)` stored labels, by default of all."""
        if columns is None:
            return Rows(self.weight, self.bias, self.rarity)
        return Rows(super().forward(columns), self.bias[columns], self.rarity[columns])  # faster than `take`

    @torch.no_grad()
    def reordered(self, columns: Tensor) -> "RowTable":
        """Returns a table with the rows of `(C,)` labels, zeros for -1.

        It is this table if it has C rows, so that optimizers keep its parameters.
        """
        rows = self(columns.clamp(min=0)).where(columns >= 0)
        table = self if len(columns) == len(self.weight) else RowTable(len(columns), self.embedding_dim).to(self.weight)
        for name, parameter in table.named_parameters():
            parameter.copy_(getattr(rows, name))
        return table


@dataclass(frozen=True)
class Mixture:
    """The weighted sum of the terms of a score.

        score(d, l) = sum_t w_t(l) t(d, l) + w_offset(l)

        w_t(l) = (1 - rarity_l) w_t(seen) + rarity_l w_t(rare)    for a label with a row
                 w_t(unseen)                                      for other labels

    Weights that are not set are those of `TERMS`; those of "rare" are then those of "seen".

    Args:
        terms: Names of the terms that the score has.
        weights: Weights by group and term: numbers, or scalars with gradients.
    """

    terms: Collection[str]
    weights: Mapping[str, Mapping[str, Any]]

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that labels may be in: without rows, all labels are unseen."""
        return WEIGHTED if "rows" in self.terms else ("unseen",)

    def of_group(self, group: str, term: str) -> Any:
        """Returns the weight of a term for a group."""
        if term in self.weights.get(group, {}):
            return self.weights[group][term]
        return self.of_group("seen", term) if group == "rare" else TERMS[term].get(group, 0.0)

    def uses(self, *terms: str) -> bool:
        """Checks whether the score has one of these terms with a weight other than zero in any group."""
        present = [term for term in terms if term in self.terms]
        return any(self.of_group(group, term) for group in self.groups for term in present)

    def sets(self, term: str) -> bool:
        """Checks whether the weight of a term is set, rather than the default."""
        return any(term in weights for weights in self.weights.values())

    def by_label(self, term: str, seen: Tensor, rarity: Tensor | float = 0.0) -> Tensor:
        """Returns the `(L,)` weights of a term for labels with `(L,)` masks and shares, as in `Rows`."""
        common = self.of_group("seen", term)
        rare = self.of_group("rare", term)
        of_seen = torch.as_tensor(common + (rare - common) * rarity)
        return torch.where(seen, of_seen, torch.as_tensor(self.of_group("unseen", term), dtype=of_seen.dtype))

    def of_rows(self, term: str, rows: Rows | None) -> Tensor | float:
        """Returns the weights of a term for labels with `rows`, `(L,)`, or a number if it is the same for all."""
        unseen = self.of_group("unseen", term)
        if rows is None:
            return float(unseen)
        common = self.of_group("seen", term)
        if common == self.of_group("rare", term) and (common == unseen or term == "rows"):  # unseen rows are zero
            return float(common)
        return self.by_label(term, rows.seen, rows.rarity)

    def add(self, terms: Mapping[str, Tensor], seen: Tensor, rarity: Tensor | float = 0.0) -> Tensor:
        """Adds up terms, `(B, L)` each by name, and the offset; labels as in `by_label`."""
        scores = self.by_label("offset", seen, rarity)
        for name, term in terms.items():
            scores = scores + self.by_label(name, seen, rarity) * term
        return scores
