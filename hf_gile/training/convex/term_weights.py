"""The weights of the terms of a score, for seen, rare and unseen labels.

Shapes: N documents, L labels, K weights.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from ...models.mixture_gile import Mixture
from ..calibration.raising import PRICE, PRICE_ONE_LABEL, SharedRanking
from .documents import Documents
from .losses import binary_loss, listwise_loss

_MANY_LABELS = 100
"""Number of labels with documents from which those held out tell how common the names of unseen labels are."""

TermWeights = dict[str, dict[str, float]]
"""Weights by group and term, as in `GileConfig.term_weights`."""


@dataclass(frozen=True, eq=False)
class Example:
    """Terms of the score on documents that they were not fitted on, for fitting weights.

    Args:
        terms: Names of terms and their scores, `(N, L)` each.
        documents: N documents.
        seen: `(L,)` booleans, true for labels that the terms were fitted on.
        rarity: `(L,)` shares of the weights of "rare" in those of a seen label, by default 0.
    """

    terms: Mapping[str, Tensor]
    documents: Documents
    seen: Tensor
    rarity: Tensor | float = 0.0

    def blocks(self, width: int) -> Iterator[tuple[dict[str, Tensor], Documents]]:
        """Yields the terms of blocks of documents, small enough for `width` numbers per document."""
        for rows, block in self.documents.blocks(width):
            yield {name: numbers[rows] for name, numbers in self.terms.items()}, block


def prior_of(one_label: bool, shares_words: bool, has_word_rows: bool, num_labels: int = 0) -> TermWeights:
    """Returns the weights that `fit_head` shrinks the weights of terms to.

    Args:
        one_label: Whether each document has one label. Otherwise each label has an offset, which the cosine would move.
        shares_words: Whether documents and labels are compared by words.
        has_word_rows: Whether words have weights for each label.
        num_labels: Number of labels with documents. A few labels do not tell how common the names of unseen ones are.
    """
    words = ["match", "coverage", "title"] if shares_words else []
    words += ["words"] if has_word_rows else []
    prior = {
        "seen": {"rows": 1.0, "cosine": float(one_label), "joint": 0.0},
        "unseen": {"cosine": 1.0, "joint": 0.0, "offset": 0.0},
    }
    if not one_label:
        prior["seen"]["offset"] = 0.0
    for weights in prior.values():
        weights |= dict.fromkeys(words, 0.0)
    if not one_label:
        prior["rare"] = dict(prior["seen"])
    if not one_label and shares_words and num_labels >= _MANY_LABELS:
        prior["unseen"]["specificity"] = 0.0
    return prior


def fit_term_weights(
    examples: Sequence[Example],
    prior: TermWeights,
    one_label: bool,
    fixed: Collection[str] = (),
    strength: float = 0.1,
) -> tuple[TermWeights, float]:
    """Fits the weights of terms for seen and unseen labels, so that both can be ranked together. Convex.

        min_w  loss(sum_t w_t(l) t(d, l) + w_offset(l)) + strength / 2 |w - prior|^2,  w >= 0 except offsets

    A weight becomes zero if its term is misleading.

    Args:
        examples: Documents and their terms; several where several sets of labels were held out.
        prior: `{"seen": {term: weight}, "unseen": {...}}`: which terms each group has, and what weights are shrunk to;
            "offset" may be negative.
        one_label: Whether each document has one label: then scores are the logits of a softmax. Otherwise each is an
            independent logit of a label.
        fixed: Groups that keep the weights of the prior.
        strength: Weight of the prior in documents.

    Returns:
        The weights, and the mean loss of a document.
    """
    number = sum(len(example.documents) for example in examples)
    if number == 0:
        return prior, float("nan")
    names = [(group, term) for group, terms in prior.items() for term in terms]
    measure = listwise_loss if one_label else binary_loss
    centre = np.array([prior[group][term] for group, term in names])
    unscaled = _unscaled(examples, names)
    shares = [_shares(example, names) for example in examples]

    @torch.enable_grad()
    def loss(scaled: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        numbers = unscaled @ scaled
        weights = torch.tensor(numbers, dtype=torch.float32, requires_grad=True)
        moved = numbers - centre
        total = strength / 2 * float(moved @ moved)
        gradient = strength * moved
        for example, of_weights in zip(examples, shares, strict=True):
            for terms, block in example.blocks(len(example.seen) * len(names)):
                by_label = torch.einsum("k,ktl->tl", weights, of_weights).unbind()
                weighted = map(torch.mul, by_label, terms.values())
                part = measure(sum(weighted, by_label[-1]), block)
                gradient += torch.autograd.grad(part, weights)[0].double().numpy()
                total += part.item()
        return total / number, unscaled.T @ gradient / number

    start = np.linalg.solve(unscaled, centre)
    bounds: list[tuple[float | None, float | None]] = []
    for position, (group, term) in enumerate(names):
        if group in fixed:
            bounds.append((start[position], start[position]))
        elif term == "offset":
            start[position] = 0.0  # the offset of the prior may give all labels scores of a hundred
            bounds.append((None, None))
        else:
            bounds.append((0.0, None))
    result = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    last = np.inf
    while result.fun < (1 - 1e-4) * last:  # a search can end early; from its end, a new one goes on
        last = result.fun
        result = minimize(loss, result.x, jac=True, method="L-BFGS-B", bounds=bounds)
    fitted: TermWeights = {group: {} for group in prior}
    for (group, term), weight in zip(names, (unscaled @ result.x).tolist(), strict=True):
        fitted[group][term] = weight
    return fitted | {group: dict(prior[group]) for group in fixed}, float(result.fun)


def _shares(example: Example, names: Sequence[tuple[str, str]]) -> Tensor:
    """Returns the `(K, T + 1, L)` shares of K weights in those of T terms and the offset, for L labels."""
    has_rare = any(group == "rare" for group, _ in names)  # if not, all shares are of "seen"
    rare = example.seen * example.rarity * has_rare
    shares = {"seen": example.seen.float() - rare, "rare": rare, "unseen": (~example.seen).float()}
    is_term = torch.tensor([[term == other for other in (*example.terms, "offset")] for _, term in names])
    return torch.stack([shares[group] for group, _ in names])[:, None] * is_term[:, :, None]


def _unscaled(examples: Sequence[Example], names: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
    """Returns the `(K, K)` matrix from weights of standardized terms to K weights of terms.

    A standardized term has mean 0 and variance 1 among the labels of its group, of which gold labels count for half.
    With terms as they are, the fit ends too early: if all cosines are between 0.7 and 0.9, their weight and the offset
    depend on each other.
    """
    sums = np.zeros((len(names), 3))
    for example in examples:
        shares = _shares(example, names).sum(1)
        for terms, block in example.blocks(len(example.seen)):
            targets, _ = block.targets(len(example.seen))
            balanced = targets + targets.mean()
            for position, (_, term) in enumerate(names):
                if term in terms:
                    counted = shares[position] * balanced
                    weighted = counted * terms[term]
                    squares = weighted * terms[term]
                    sums[position] += counted.sum().item(), weighted.sum().item(), squares.sum().item()
    matrix = np.eye(len(names))
    for position, ((group, _), (total, first, second)) in enumerate(zip(names, sums, strict=True)):
        if total:
            mean = first / total
            square = second / total
            deviation = max(square - mean**2, 1e-6 * square) ** 0.5 or 1.0
            matrix[position, position] = 1 / deviation
            if (group, "offset") in names:
                matrix[names.index((group, "offset")), position] = -mean / deviation
    return matrix


def raise_unseen(examples: Sequence[Example], weights: TermWeights, one_label: bool) -> tuple[float, float]:
    """Chooses the offset of unseen labels, see `SharedRanking`: by likelihood alone, few of them reach the top.

    Args:
        examples: Documents and their terms, with as many labels of both groups as will compete.
        weights: Weight of each term.
        one_label: Whether each document has one label.

    Returns:
        The offset of unseen labels, and their `SharedRanking.crowding` with it.
    """
    mixture = Mixture((), weights)
    ranking = SharedRanking()
    for example in examples:
        for terms, block in example.blocks(len(example.seen) * max(1, len(example.terms))):
            ranking.update(mixture.add(terms, example.seen, example.rarity), block.gold, example.seen)
    price = PRICE_ONE_LABEL if one_label else PRICE
    raised = ranking.best_raise(price, one_label=one_label)
    crowding = ranking.mapped(lambda scores: scores, lambda scores: scores + raised).crowding()
    return weights["unseen"].get("offset", 0.0) + raised, crowding
