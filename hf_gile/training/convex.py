"""Fits the head over a frozen encoder as convex problems: rows of labels, a bilinear form, and weights of terms.

Vectors of documents and labels are computed once, with length 1. No fit stores more than a block of N x L numbers.

Shapes: N documents, L labels, P size of a vector, G gold labels of a document, T terms of the score.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ..metrics import ranking_metrics
from ..models import GileConfig
from ..models.label_embeds_gile import embed_stored_labels, keeps_label_embeds
from ..models.losses_gile import multi_hot
from ..models.scoring_gile import Postings
from .calibration.raising import SharedRanking
from .calibration.thresholds import tells_enough
from .starting import set_lexical_weights
from .word_rows import WordRegression, gold_matrix

if TYPE_CHECKING:
    from datasets import Dataset
    from scipy.sparse import csr_matrix

    from ..models import GileForSequenceClassification

CONSTANT = 3.0
"""Constant appended to a vector for b_l of a row: the larger it is, the less L2 shrinks b_l."""

_BLOCK = 1 << 22
"""Scores computed at once."""

_EXAMPLE_SCORES = 1 << 24
"""Maximum number of scores for fitting the weights of terms."""

_HALF_RARE = 3
"""Training documents with which a label has half the weights of "rare", and half those of "seen"."""

_FOLDS, _FEW, _BILINEAR_DOCUMENTS = 4, 300, 4000
"""Folds of labels; fewer validation documents than this are few; documents that a bilinear form is fitted on."""

_COSTLY = 2_000_000_000
"""Size of N x L x P above which a single fold is used."""

_LARGEST = 20_000_000_000
"""Size of N x L x P that is fitted within minutes."""

_FEW_DOCUMENTS, _SAMPLED_LABELS = 4000, 2048
"""Of more documents, the L2 of rows of words is chosen on so many labels."""

READ_OF_MANY = 1000
"""Number of documents with vectors in larger training sets; only rows of words are fitted on all documents."""

_DOCUMENTS_AT_ONCE, _COMPARED_AT_ONCE = 1024, 64

L2_OF_ROWS = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
L2_OF_BILINEAR = (1.0, 0.1, 0.01, 0.001)
L2_OF_WORDS = (1.0, 2.0, 0.5, 4.0, 0.1)

_FEWEST = 100
"""With fewer documents left out, each with one label, nothing is chosen: see `_fit_all`."""

_L2_WITHOUT_CHOICE = 0.1  # of rows

PADDING = -100


@dataclass(frozen=True, eq=False)
class Documents:
    """Documents as convex fits use them.

    Args:
        vectors: `(N, P)` vectors, float32; zeros for documents with words only.
        gold: `(N, G)` gold columns, padded with -100.
        excluded: `(N, E)` indices of labels that are not candidates, padded with -100.
        words: `(N, F)` integers from which `CompareWords` looks up the words, if words are compared.
    """

    vectors: Tensor
    gold: Tensor
    excluded: Tensor | None = None
    words: Tensor | None = None
    _made: dict[int, tuple[Tensor, Tensor | None]] = field(init=False, default_factory=dict)

    def __len__(self) -> int:
        return len(self.vectors)

    def take(self, rows: Tensor | slice) -> "Documents":
        """Selects documents by indices, a mask or a slice."""
        excluded, words = (None if table is None else table[rows] for table in (self.excluded, self.words))
        return Documents(self.vectors[rows], self.gold[rows], excluded, words)

    def joined(self, others: "Documents") -> "Documents":
        """Concatenates these documents and others."""
        excluded, words = (
            None if table is None or other is None else stacked(table, other, padding=padding)
            for table, other, padding in (
                (self.excluded, others.excluded, PADDING),
                (self.words, others.words, -1),
            )
        )
        gold = stacked(self.gold, others.gold, padding=PADDING)
        return Documents(torch.cat([self.vectors, others.vectors]), gold, excluded, words)

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
        """The documents with columns counted among the labels chosen alone, a `(L,)` mask; others are left out."""
        number = torch.cat([chosen.cumsum(0) - 1, chosen.new_full((1,), PADDING, dtype=torch.long)])
        number[:-1][~chosen] = PADDING

        def counted(columns: Tensor) -> Tensor:
            return number[columns.masked_fill(columns < 0, len(chosen))]

        excluded = None if self.excluded is None else counted(self.excluded)
        return replace(self, gold=counted(self.gold), excluded=excluded)

    def counts(self, num_labels: int) -> Tensor:
        """Returns the number of documents of each label, `(L,)`."""
        return torch.bincount(self.gold[self.gold >= 0], minlength=num_labels)

    def targets(self, num_labels: int) -> tuple[Tensor, Tensor | None]:
        """Returns gold labels as `(N, L)` zeros and ones, and a mask of candidates, or None if all labels are."""
        if num_labels not in self._made:
            excluded, candidates = self.excluded, None
            if excluded is not None and bool((excluded >= 0).any()):
                candidates = multi_hot(excluded, num_labels) == 0
            self._made[num_labels] = multi_hot(self.gold, num_labels), candidates
        return self._made[num_labels]


def stacked(*tables: Tensor, padding: int) -> Tensor:
    """Stacks tables vertically, padded to one width."""
    width = max(table.shape[1] for table in tables)
    return torch.cat([functional.pad(table, (0, width - table.shape[1]), value=padding) for table in tables])


def listwise_loss(scores: Tensor, documents: Documents) -> Tensor:
    """Cross-entropy of each gold label against all labels that are not gold; with one gold label, the softmax loss.

    Args:
        scores: `(N, L)` scores.
        documents: N documents.

    Returns:
        The sum over documents and their gold labels, a scalar.
    """
    targets, candidates = documents.targets(scores.shape[1])
    is_gold = targets > 0
    others = scores.masked_fill(is_gold, -torch.inf)
    if candidates is not None:
        others = others.masked_fill(~candidates, -torch.inf)
    rows, columns = is_gold.nonzero(as_tuple=True)
    lowest = torch.finfo(scores.dtype).min / 4  # no infinity for a document whose labels are all gold
    rest = torch.logsumexp(others.clamp(min=lowest), 1)
    return functional.softplus(rest[rows] - scores[rows, columns]).sum()


def binary_loss(scores: Tensor, documents: Documents) -> Tensor:
    """Binary cross-entropy of each label.

    Args:
        scores: `(N, L)` scores.
        documents: N documents.

    Returns:
        The sum over documents and their candidate labels, a scalar.
    """
    targets, candidates = documents.targets(scores.shape[1])
    weights = None if candidates is None else candidates.to(scores)
    return functional.binary_cross_entropy_with_logits(scores, targets, weights, reduction="sum")


Loss = Callable[[Tensor, Documents], Tensor]


def _minimize(
    parameters: Sequence[Tensor],
    score: Callable[[Documents], Tensor],
    documents: Documents,
    loss: Loss,
    l2: float,
    max_iter: int,
    width: int,
) -> None:
    """Minimizes the loss of all documents plus l2 / 2 times the squares of the first parameter, in place."""
    optimizer = torch.optim.LBFGS(
        parameters, max_iter=max_iter, history_size=10, line_search_fn="strong_wolfe", tolerance_grad=1e-6
    )

    @torch.enable_grad()
    def closure() -> Tensor:
        optimizer.zero_grad()
        total = l2 / 2 * parameters[0].square().sum() / len(documents)
        total.backward()
        for _, block in documents.blocks(width):
            part = loss(score(block), block) / len(documents)
            part.backward()
            total = total.detach() + part.detach()
        return total

    optimizer.step(closure)


def fit_rows(
    documents: Documents, num_labels: int, l2: float, start: Tensor | None = None, max_iter: int = 60
) -> Tensor:
    """Fits a row and a bias b_l for each label: independent logistic regressions on the vectors, with L2.

        score = r_l . h + b_l

    If each document has one label, this ranks as well as a softmax does, and better together with unseen labels,
    because a softmax only learns to compare the labels that it knows.

    Args:
        documents: N documents.
        num_labels: Number of labels L.
        l2: The weight of L2; the loss is the sum over the documents, so that it is 1 / C of scikit-learn.
        start: `(L, P + 1)` rows to start from.
        max_iter: Maximum number of iterations of L-BFGS.

    Returns:
        `(L, P + 1)` rows followed by b_l; zeros for labels without documents.
    """
    has_some = documents.counts(num_labels) > 0
    rows = documents.vectors.new_zeros(num_labels, documents.vectors.shape[1] + 1)
    if bool(has_some.any()):
        if start is None:  # b_l that reproduces the frequency of each label
            share = (documents.counts(num_labels) / len(documents)).clamp(1e-6, 1 - 1e-6)
            start = torch.cat([rows[:, :-1], share.logit()[:, None]], 1)
        if max_iter == 0:
            return start * has_some[:, None]
        weight = start[has_some].clone()
        weight[:, -1] /= CONSTANT
        weight.requires_grad_()

        def score(block: Documents) -> Tensor:
            return functional.linear(block.vectors, weight[:, :-1], CONSTANT * weight[:, -1])

        _minimize([weight], score, documents.among(has_some), binary_loss, l2, max_iter, len(weight))
        rows[has_some] = weight.detach()
        rows[:, -1] *= CONSTANT
    return rows


def fit_bilinear(
    documents: Documents, labels: Tensor, l2: float, start: tuple[Tensor, float] | None = None, max_iter: int = 40
) -> tuple[Tensor, float]:
    """Fits a bilinear form between the vectors of documents and labels, for seen and unseen labels.

        score = h . (c I + M) e

    M is shrunk to zero, so that the cosine decides where documents give no evidence.

    Args:
        documents: N documents; labels without documents are not candidates.
        labels: `(L, P)` vectors e.
        l2: The weight of L2 of M, in a loss that is the sum over the documents.
        start: M and c to start from.
        max_iter: Maximum number of iterations of L-BFGS.

    Returns:
        M, `(P, P)`, and c.
    """
    has_some = documents.counts(len(labels)) > 0
    among, candidates = documents.among(has_some), labels[has_some]
    size = labels.shape[1]
    begin, scale = (labels.new_zeros(size, size), 10.0) if start is None else start
    matrix, factor = begin.clone().requires_grad_(), labels.new_tensor(scale, requires_grad=True)

    def score(block: Documents) -> Tensor:
        return (factor * block.vectors + block.vectors @ matrix) @ candidates.T

    _minimize([matrix, factor], score, among, listwise_loss, l2, max_iter, max(len(candidates), size))
    return matrix.detach(), factor.item()


def scaled_loss(scores: Tensor, documents: Documents) -> float:
    """Returns the `listwise_loss` of a document with scores times the best factor, as a mixture can reach it.

    Args:
        scores: `(N, L)` scores.
        documents: N documents.
    """
    if not len(documents):
        return 0.0
    spread = scores.abs().mean().item() or 1.0
    losses = [listwise_loss(scores * (factor / spread), documents).item() for factor in np.geomspace(0.3, 30, 21)]
    return min(losses) / len(documents)


TermWeights = dict[str, dict[str, float]]


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


def fit_term_weights(
    examples: Sequence[Example],
    prior: TermWeights,
    one_label: bool,
    fixed: Collection[str] = (),
    strength: float = 0.1,
) -> tuple[TermWeights, float]:
    """Fits the weights of terms for seen and unseen labels, so that both can be ranked together.

        score = sum_t weight[group][t] term_t + offset[group]

    Weights are not negative, and become zero if a term is misleading.

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
    from scipy.optimize import minimize

    names = [(group, term) for group, terms in prior.items() for term in terms]
    start = np.array([prior[group][term] for group, term in names])
    number = sum(len(example.documents) for example in examples)
    measure = listwise_loss if one_label else binary_loss
    if number == 0:
        return prior, float("nan")
    unscaled = _unscaled(examples, names)

    @torch.enable_grad()
    def loss(scaled: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        numbers = unscaled @ scaled
        weights = torch.tensor(numbers, dtype=torch.float32, requires_grad=True)
        total, gradient, away = 0.0, np.zeros(len(names)), numbers - start
        for example in examples:
            for terms, block in example.blocks(len(example.seen) * len(names)):
                by_group = dict(zip(names, weights, strict=True))
                part = measure(_weighted(terms, example.seen, example.rarity, by_group), block)
                gradient += torch.autograd.grad(part, weights)[0].double().numpy()
                total += part.item()
        return (total + strength / 2 * float(away @ away)) / number, unscaled.T @ (gradient + strength * away) / number

    first = np.linalg.solve(unscaled, start)
    for place, (group, term) in enumerate(names):
        if term == "offset" and group not in fixed:
            first[place] = 0.0  # the offset of the prior may give all labels scores of a hundred
    bounds: list[tuple[float | None, float | None]] = []
    for (group, term), value in zip(names, first, strict=True):
        least = None if term == "offset" else 0.0
        bounds.append((value, value) if group in fixed else (least, None))
    result, last = minimize(loss, first, jac=True, method="L-BFGS-B", bounds=bounds), np.inf
    while result.fun < (1 - 1e-4) * last:  # a search can end early; from its end, a new one goes on
        last = result.fun
        result = minimize(loss, result.x, jac=True, method="L-BFGS-B", bounds=bounds)
    fitted: TermWeights = {group: {} for group in prior}
    for (group, term), weight in zip(names, (unscaled @ result.x).tolist(), strict=True):
        fitted[group][term] = prior[group][term] if group in fixed else weight
    return fitted, float(result.fun)


def _unscaled(examples: Sequence[Example], names: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
    """Returns the `(K, K)` matrix from weights of standardized terms to K weights of terms.

    A standardized term has mean 0 and variance 1 among the labels of its group, of which gold labels count for half.
    With terms as they are, the fit ends too early: if all cosines are between 0.7 and 0.9, their weight and the offset
    depend on each other.
    """
    sums = np.zeros((len(names), 3))
    for example in examples:
        shares = _group_shares(example.seen, example.rarity, names)
        for terms, block in example.blocks(len(example.seen)):
            targets = block.targets(len(example.seen))[0]
            for place, (group, term) in enumerate(names):
                if term in terms:
                    counted = shares[group] * (targets + targets.mean())
                    weighted = counted * terms[term]
                    sums[place] += counted.sum().item(), weighted.sum().item(), (weighted * terms[term]).sum().item()
    matrix = np.eye(len(names))
    for place, ((group, _), (total, first, second)) in enumerate(zip(names, sums, strict=True)):
        if total:
            mean, square = first / total, second / total
            deviation = max(square - mean**2, 1e-6 * square) ** 0.5 or 1.0
            matrix[place, place] = 1 / deviation
            if (group, "offset") in names:
                matrix[names.index((group, "offset")), place] = -mean / deviation
    return matrix


def raise_unseen(examples: Sequence[Example], weights: TermWeights) -> float:
    """Raises the offset of unseen labels, see `SharedRanking`: by likelihood alone, few of them reach the top.

    It measures the average precision of the seen gold labels among all candidates, without the unseen gold ones.

    Args:
        examples: Documents and their terms, with labels of both groups.
        weights: Weight of each term.

    Returns:
        The offset of unseen labels, at least that of the weights.
    """
    numbers, ranking = _by_group(weights), SharedRanking()
    for example in examples:
        for terms, block in example.blocks(len(example.seen) * len(numbers)):
            is_unseen_gold = (block.targets(len(example.seen))[0] > 0) & ~example.seen
            scores = _weighted(terms, example.seen, example.rarity, numbers).masked_fill(is_unseen_gold, -torch.inf)
            is_seen_gold = (block.gold >= 0) & example.seen[block.gold.clamp(min=0)]
            ranking.update(scores, block.gold.masked_fill(~is_seen_gold, PADDING), example.seen)
    return weights["unseen"].get("offset", 0.0) + ranking.best_raise()


def _by_group(weights: TermWeights) -> dict[tuple[str, str], Tensor]:
    """Returns the weights by group and term."""
    return {(group, term): torch.tensor(w) for group, terms in weights.items() for term, w in terms.items()}


def rarity_of(counts: Tensor) -> Tensor:
    """Returns the shares of the weights of "rare" for labels with `(L,)` numbers of training documents; 0 for none."""
    return _HALF_RARE / (_HALF_RARE + counts) * (counts > 0)


def _group_shares(seen: Tensor, rarity: Tensor | float, names: Collection[tuple[str, str]]) -> dict[str, Tensor]:
    """Returns the `(L,)` shares of the weights of each group; those of "rare" count as seen without such weights."""
    share = rarity if any(group == "rare" for group, _ in names) else 0.0
    return {"seen": seen * (1 - share), "rare": seen * share, "unseen": (~seen).float()}


def _weighted(
    terms: Mapping[str, Tensor], seen: Tensor, rarity: Tensor | float, weights: Mapping[tuple[str, str], Tensor]
) -> Tensor:
    """Returns the `(N, L)` sums of terms times their weights, by group and name."""
    shares, scores = _group_shares(seen, rarity, weights), torch.zeros(())
    for (group, term), weight in weights.items():
        scores = scores + weight * shares[group] * terms.get(term, torch.ones(()))
    return scores


@dataclass(eq=False)
class _Fold:
    """Documents and labels for fitting, documents for evaluation, and the fitted parameters."""

    train: Documents
    others: Documents
    labels: Tensor  # (L, P)
    compare: "CompareWords | None" = None
    regression: WordRegression | None = None
    named: "csr_matrix | None" = None
    words: "csr_matrix | None" = None
    rows: Tensor = field(init=False)
    bilinear: tuple[Tensor, float] = field(init=False)

    def fit_rows(self, l2: float, max_iter: int = 30) -> float:
        """Fits rows, starting from the previous ones, and returns how well they rank labels with rows."""
        self.rows = fit_rows(self.train, len(self.labels), l2, getattr(self, "rows", None), max_iter)
        seen = self.seen
        return scaled_loss(_row_scores(self.rows[seen], self.others.vectors), self.others.among(seen))

    def fit_bilinear(self, l2: float) -> None:
        """Fits a bilinear form, starting from the previous one."""
        read = self.train.vectors.any(1).nonzero()[:, 0]
        is_small = _is_read(self.train) and len(read) * int(self.seen.sum()) * self.labels.shape[1] <= _LARGEST
        most, max_iter = (_BILINEAR_DOCUMENTS, 40) if is_small else (READ_OF_MANY, 15)
        sample = read[torch.randperm(len(read), generator=torch.Generator().manual_seed(0))[:most]]
        last = getattr(self, "bilinear", None)
        self.bilinear = fit_bilinear(self.train.take(sample), self.labels, l2, last, max_iter)

    def fit_words(self, l2: float, fitted: "csr_matrix | None" = None, held: Tensor | None = None) -> float:
        """Fits rows of words, and returns minus their average precision.

        Labels without documents get rows from the documents that name them. If rows were `fitted` with all labels, only
        those of the labels `held` out, a `(L,)` mask, are fitted again.
        """
        from scipy.sparse import diags

        assert self.regression is not None
        assert self.train.words is not None
        numbers = self.train.words[:, 0]
        targets = gold_matrix(
            self.train.gold, len(self.labels), None if self.named is None else self.named[numbers.numpy()]
        )
        if fitted is not None and held is not None:
            targets = (targets @ diags(held.float().numpy())).tocsr()
            targets.eliminate_zeros()
        self.words = self.regression.fit(numbers, targets, l2)
        if fitted is not None and held is not None:
            self.words = (diags((~held).float().numpy()) @ fitted + self.words).tocsr()
        if self.others.words is None or not len(self.others):
            return 0.0
        scores = self.regression.scores(self.others.words[:, 0], self.words, self.seen)
        is_gold, candidates = self.others.among(self.seen).targets(scores.shape[1])
        if candidates is not None:
            scores = scores.masked_fill(~candidates, -torch.inf)
        return -ranking_metrics(scores, is_gold > 0)["average_precision"].nanmean().nan_to_num().item()

    def sample_labels(self, validation: Documents | None) -> "_Fold":
        """Returns the fold with some of its seen labels, to choose the L2 of words quickly, on `validation` if any."""
        seen = self.seen.nonzero()[:, 0]
        chosen = seen[torch.randperm(len(seen), generator=torch.Generator().manual_seed(0))[:_SAMPLED_LABELS]]
        gold = self.train.gold.masked_fill(~torch.isin(self.train.gold, chosen), PADDING)
        return replace(self, train=replace(self.train, gold=gold), others=validation or self.others, named=None)

    @property
    def seen(self) -> Tensor:
        return self.train.counts(len(self.labels)) > 0

    @cached_property
    def lexical(self) -> dict[str, Tensor]:
        """Computes the terms of words that documents and labels share, `(N, L)` each."""
        if self.compare is None or self.others.words is None:
            return {}
        return self.compare(self.others.words)

    def example(self, chosen: Tensor) -> Example:
        """Selects the terms of some labels."""
        rows, vectors = self.rows[chosen], self.others.vectors
        terms = _dense_terms(rows, *self.bilinear, vectors, self.labels[chosen])
        terms |= {name: numbers[:, chosen] for name, numbers in self.lexical.items()}
        if self.words is not None and self.regression is not None and self.others.words is not None:
            terms["words"] = self.regression.scores(self.others.words[:, 0], self.words, chosen)
        counts = self.train.counts(len(self.labels))[chosen]
        return Example(terms, self.others.among(chosen), counts > 0, rarity_of(counts))


CompareWords = Callable[[Tensor], dict[str, Tensor]]
"""Function from `(N, F)` words of documents to `(N, L)` values by term name."""


def _dense_terms(rows: Tensor, matrix: Tensor, factor: float, h: Tensor, e: Tensor) -> dict[str, Tensor]:
    """Computes the terms of `(N, P)` documents and `(L, P)` labels, `(N, L)` each."""
    return {"rows": _row_scores(rows, h), "cosine": factor * h @ e.T, "joint": h @ matrix @ e.T}


def _row_scores(rows: Tensor, vectors: Tensor) -> Tensor:
    """Computes the `(N, L)` scores of `(L, P + 1)` rows."""
    return functional.linear(vectors, rows[:, :-1], rows[:, -1])


@dataclass(frozen=True, eq=False)
class Head:
    """Result of `fit_head`.

    Args:
        rows: `(L, P + 1)` rows of labels, followed by b_l.
        rarity: `(L,)` shares of the weights of "rare", see `rarity_of`.
        matrix: `(P, P)`, M of the bilinear form.
        factor: c of the cosine.
        term_weights: Weight of each term, for seen and unseen labels.
        chosen: The chosen settings, for a report.
        words: Rows of words, if words are compared.
        fits_validation: Whether validation documents were fitted on, too.
    """

    rows: Tensor
    rarity: Tensor
    matrix: Tensor
    factor: float
    term_weights: TermWeights
    chosen: dict[str, float]
    words: "csr_matrix | None" = None
    fits_validation: bool = False

    def scores(self, vectors: Tensor, labels: Tensor, lexical: Mapping[str, Tensor] | None = None) -> Tensor:
        """Computes the `(N, L)` scores of `(N, P)` documents with `(L, P)` labels; `lexical` are terms of words."""
        terms = _dense_terms(self.rows, self.matrix, self.factor, vectors, labels) | dict(lexical or {})
        return _weighted(terms, self.rarity > 0, self.rarity, _by_group(self.term_weights))


def fit_head(
    train: Documents,
    validation: Documents,
    labels: Tensor,
    one_label: bool,
    compare: CompareWords | None = None,
    regression: WordRegression | None = None,
) -> Head:
    """Fits rows of labels, a bilinear form and the weights of terms, and chooses the regularisation on the data.

    Seen labels are those with training documents. L2 of rows is chosen on validation documents, and if there are
    few, on quarters of the training documents as well. In each of four folds a quarter of the seen labels is held out,
    with the documents that have no other labels: from these, the weights of terms for unseen labels are fitted. No
    held-out label is more frequent than the mean, as an unused label will not be in every second document. Validation
    documents with labels that no training document has count as well. If some labels are unseen, weights of seen labels
    are fitted together with them, and otherwise without them.

    Args:
        train: N documents for fitting.
        validation: Documents for choosing settings; may be empty.
        labels: `(L, P)` vectors of the labels, of length 1.
        one_label: Whether each document has one label.
        compare: Computes the terms of words, which get weights as well.
        regression: The words of the documents, to fit rows of words on. If not all training documents have vectors,
            these replace the rows of labels, with the frequency of the label.

    Raises:
        ValueError: If no training document has a label.
    """
    seen = train.counts(len(labels)) > 0
    if not bool(seen.any()):
        raise ValueError("no training document has a label: there is nothing to fit")
    if one_label and _count_told(train, validation, labels) < _FEWEST:
        return _fit_all(train.joined(validation), labels, compare is not None)
    cost = len(train) * int(seen.sum()) * labels.shape[1]
    is_enough = len(validation) >= (_FEW if cost > _COSTLY / 4 else 3 * _FEW)
    number = 1 if cost > _COSTLY else _FOLDS
    named = None if compare is None or regression is None else _named(compare, train)
    whole = _Fold(train, validation, labels, compare, regression, named)
    plain, held = (_folds(whole, number, is_enough, holds_labels=holds_labels) for holds_labels in (False, True))
    is_read = _is_read(train) and cost <= _LARGEST

    def try_rows(l2: float) -> float:
        return sum(fold.fit_rows(l2) for fold in plain)

    def try_bilinear(l2: float) -> float:
        some = held[: 1 if is_enough else None]
        for fold in some:
            fold.fit_bilinear(l2)
        return fit_term_weights([fold.example(seen) for fold in some], prior, one_label)[1]

    prior = _prior(one_label, compare is not None, regression is not None)
    whole = plain[0] if is_enough else whole
    steps = 60 if is_read else 0
    chosen = {"rows_l2": _best(L2_OF_ROWS, try_rows) if is_read else 1.0}
    if regression is not None:
        chosen["words_l2"] = _choose_words(plain, validation if is_enough else None)
        for fold in (whole, *held) if whole is not plain[0] else held:
            fold.fit_words(chosen["words_l2"], plain[0].words if is_enough else None, seen & ~fold.seen)
    for fold in held:
        fold.fit_rows(chosen["rows_l2"], steps)
    chosen["bilinear_l2"] = _best(L2_OF_BILINEAR, try_bilinear) if is_read else L2_OF_BILINEAR[0]
    whole.fit_rows(chosen["rows_l2"], steps)
    whole.fit_bilinear(chosen["bilinear_l2"])
    for fold in held:
        fold.fit_bilinear(chosen["bilinear_l2"])
    fixed: list[str] = []
    if bool(seen.all()) or not held:
        for fold in plain if whole not in plain else ():
            fold.fit_rows(chosen["rows_l2"], steps)
            fold.fit_bilinear(chosen["bilinear_l2"])
        prior, chosen["seen_loss"] = fit_term_weights([fold.example(seen) for fold in plain], prior, one_label)
        fixed += [group for group in prior if group != "unseen"]
    if held:
        examples = [fold.example(seen) for fold in held]
        if (documents := _with_unseen(whole, validation)) is not None:
            examples.append(documents)
        prior, chosen["loss"] = fit_term_weights(examples, prior, one_label, fixed)
        prior["unseen"]["offset"] = raise_unseen(examples, prior)
    return Head(whole.rows, rarity_of(train.counts(len(labels))), *whole.bilinear, prior, chosen, whole.words)


def _count_told(train: Documents, validation: Documents, labels: Tensor) -> int:
    """Returns how many documents the folds leave out that have a label with documents for fitting."""
    train, validation = (replace(part, vectors=part.vectors.any(1, keepdim=True)) for part in (train, validation))
    folds = _folds(_Fold(train, validation, labels), _FOLDS, is_enough=False, holds_labels=False)
    return sum(int((fold.others.among(fold.seen).gold >= 0).any(1).sum()) for fold in folds)


def _fit_all(documents: Documents, labels: Tensor, compares: bool) -> Head:
    """Fits the sum of the cosine and of rows to few documents with one label each, without choices on others."""
    whole = _Fold(documents, documents.take(slice(0)), labels)
    whole.fit_rows(_L2_WITHOUT_CHOICE, max_iter=60)
    whole.fit_bilinear(L2_OF_BILINEAR[0])
    prior = _prior(one_label=True, compares=compares, has_words=False)
    rarity = rarity_of(documents.counts(len(labels)))
    chosen = {"rows_l2": _L2_WITHOUT_CHOICE, "bilinear_l2": L2_OF_BILINEAR[0]}
    return Head(whole.rows, rarity, *whole.bilinear, prior, chosen, fits_validation=True)


def _is_read(documents: Documents) -> bool:
    """Returns whether most documents have vectors: not only a part was read, and few have no known words."""
    return 2 * int(documents.vectors.any(1).sum()) > len(documents)


def _with_unseen(whole: _Fold, validation: Documents) -> Example | None:
    """Returns validation documents and all labels, if enough of these documents have labels without training documents.

    Such labels are rarer than those held out, and harder to score.
    """
    number = len(whole.labels)
    read = validation.take(validation.vectors.any(1)).take(slice(max(_FEW, _EXAMPLE_SCORES // number)))
    is_unseen = (read.gold >= 0) & ~whole.seen[read.gold.clamp(min=0)]
    if not tells_enough(int(is_unseen.any(1).sum()), int(is_unseen.sum())):
        return None
    fold = replace(whole, others=read)
    fold.rows, fold.bilinear = whole.rows, whole.bilinear
    return fold.example(torch.ones(number, dtype=torch.bool))


def _prior(one_label: bool, compares: bool, has_words: bool) -> TermWeights:
    """Returns the prior of the weights of terms."""
    cosine = 1.0 if one_label else 0.0  # each of several labels has an offset, which the cosine would move
    prior = {
        "seen": {"rows": 1.0, "cosine": cosine, "joint": 0.0},
        "unseen": {"cosine": 1.0, "joint": 0.0, "offset": 0.0},
    }
    if not one_label:
        prior["seen"]["offset"] = 0.0
    if compares:
        prior = {group: weights | {"match": 0.0, "coverage": 0.0} for group, weights in prior.items()}
    if has_words:
        prior = {group: weights | {"words": 0.0} for group, weights in prior.items()}
    return prior if one_label else prior | {"rare": dict(prior["seen"])}


def _named(compare: CompareWords, documents: Documents) -> "csr_matrix":
    """`(N, L)` ones where all words of a name of a label stand in a document; the documents have numbers from 0 on."""
    from scipy.sparse import csr_matrix, vstack

    assert documents.words is not None
    return vstack([csr_matrix(compare(some)["coverage"]) for some in documents.words.split(_DOCUMENTS_AT_ONCE)]).tocsr()


def _choose_words(folds: "Sequence[_Fold]", validation: Documents | None) -> float:
    """Chooses the L2 of rows of words by average precision, and fits them.

    If there are many documents, it chooses on a sample of the labels, and on all `validation` documents, if any.
    """
    sampled = [fold.sample_labels(validation) if len(fold.train) > _FEW_DOCUMENTS else fold for fold in folds]
    best = _best(L2_OF_WORDS, lambda l2: sum(fold.fit_words(l2) for fold in sampled))
    for fold in folds:
        fold.fit_words(best)
    return best


def _best(grid: Sequence[float], loss: Callable[[float], float]) -> float:
    """Returns the value with the lowest loss; the search ends after two values without improvement."""
    best, least, since = grid[0], float("inf"), 0
    for number in grid:
        value = loss(number)
        since += 1
        if value < least:
            best, least, since = number, value, 0
        if since == 2:
            break
    return best


def _folds(whole: _Fold, number: int, is_enough: bool, holds_labels: bool) -> list[_Fold]:
    """Returns the folds for `fit_head`: with all labels, or with a quarter of the seen labels held out of each."""
    train, labels = whole.train, whole.labels
    generator = torch.Generator().manual_seed(0)
    counts = train.counts(len(labels))
    fold_of_label = torch.full((len(labels),), -1)
    if holds_labels:
        if int((counts > 0).sum()) < 2:
            return []
        columns = ((counts > 0) & (counts <= counts[counts > 0].float().mean())).nonzero()[:, 0]
        number = min(number, len(columns))
        order = columns[torch.randperm(len(columns), generator=generator)]
        fold_of_label[order] = torch.arange(len(columns)) % min(_FOLDS, len(columns))
    fold_of_document = _spread(train, len(labels))
    if is_enough:
        fold_of_document[:] = -1
        number = number if holds_labels else 1
    folds = []
    for place in range(number):
        left = fold_of_document == place
        fit = train.take(~left)
        gold = fit.gold.masked_fill((fit.gold >= 0) & (fold_of_label[fit.gold.clamp(min=0)] == place), PADDING)
        lost = (fit.gold >= 0).any(1) & ~(gold >= 0).any(1)
        fit = replace(fit, gold=gold).take(~lost)
        if bool((fit.gold >= 0).any()):
            others = whole.others.joined(train.take(left))
            others = others.take(others.vectors.any(1))
            most = max(_FEW, _EXAMPLE_SCORES // (len(labels) * number))
            folds.append(replace(whole, train=fit, others=others.take(slice(most))))
    return folds


def _spread(documents: Documents, num_labels: int) -> Tensor:
    """Returns the `(N,)` fold that leaves out each document, -1 for the only document of a label.

    If each document has one label, every fold leaves out a document of each label with few documents. If it did so for
    a part of these labels, the gold labels of documents left out would have fewer documents for fitting than the labels
    they compete with, and the weights of terms would be fitted to that. Other documents are left out at random.
    """
    if bool(((documents.gold >= 0).sum(1) != 1).any()):
        return torch.randperm(len(documents), generator=torch.Generator().manual_seed(0)) % _FOLDS
    label_of = documents.gold.max(1).values
    order = label_of.argsort(stable=True)
    sizes = documents.counts(num_labels)
    first = (sizes.cumsum(0) - sizes)[label_of[order]]
    folds = torch.empty(len(documents), dtype=torch.long)
    folds[order] = (torch.arange(len(order)) - first.long()) % _FOLDS
    return folds.masked_fill(sizes[label_of] == 1, -1)


def is_feasible(num_documents: int, num_labels: int, size: int) -> bool:
    """Returns whether `fit_convex` takes only minutes with the vectors of all documents; larger sets use a part.

    Args:
        num_documents: N.
        num_labels: L that training documents have.
        size: P, `config.text_config.pooled_size`.

    Example:
        >>> is_feasible(15_000, 150, 384), is_feasible(23_000, 26_000, 384)
        (True, False)
    """
    return num_documents * num_labels * size <= _LARGEST


@torch.no_grad()
def fit_convex(
    model: "GileForSequenceClassification", parts: "Mapping[str, Dataset]", neighbours: bool = False
) -> dict[str, Any]:
    """Fits the head over the frozen encoder of a model by `fit_head`, instead of training.

    It sets the rows of labels, V of the bilinear unit, the factor of the cosine and `config.term_weights`. Seen labels
    are those with training documents. It runs on the CPU and is deterministic.

    Args:
        model: A model with stored labels, a frozen encoder, `output_layer="bilinear"`, `cosine_score` and `label_rows`;
            its `problem_type` says whether each document has one label.
        parts: Encoded documents with `pooled_embeds`: `train`, and `validation` to choose on.
        neighbours: Whether to store the vectors of training documents: the labels of the 50 nearest count in the term
            "words".

    Returns:
        `seconds` and `cpu_seconds` of the fit, the number of `parameters`, `history` and `losses`, which are empty,
        what was `chosen`, whether it `fits_validation` documents, too, and the `term_weights`.

    Raises:
        ValueError: A model or documents that do not fit, or no training document with a label.
    """
    start, cpu = time.perf_counter(), time.process_time()
    gile, config = model.gile, model.config
    if not can_be_fitted(config):
        raise ValueError(
            "a convex fit needs text_encoder_type 'nn', or a frozen encoder with a pooling without weights; and "
            "output_layer='bilinear', cosine_score, label_rows, bag_size 0 and no languages; "
            f"got output_layer {config.output_layer!r}, "
            f"cosine_score={config.cosine_score}, label_rows={config.label_rows}, bag_size {config.bag_size}, "
            f"languages {config.languages}, text_config {config.text_config}"
        )
    model.eval()
    e = embed_stored_labels(model) if keeps_label_embeds(gile) else gile.embed_labels(model.label_input_ids)
    train = _documents(model, parts, "train")
    validation = _documents(model, parts, "validation", len(train))
    one_label = config.problem_type == "single_label_classification"
    compare = regression = None
    if config.lexical:
        set_lexical_weights(model, parts["train"]["lexical_ids"])
        compare = _compare_words(model, parts)
        vectors = torch.cat([train.vectors, validation.vectors]) if neighbours else None
        regression = WordRegression(
            (ids for part in ("train", "validation") for ids in parts[part]["lexical_ids"]),
            vectors,
            len(train) if neighbours else 0,
        )
        if regression.neighbours is not None:
            config.neighbours, gile.neighbours = len(train), regression.neighbours.to(model.device)
    head = fit_head(train, validation, _of_length_1(e), one_label, compare, regression)
    size = e.shape[1]  # vectors of the model have a root mean square of 1, and a length of its root
    row = [head.rows[:, :-1] / size**0.5, head.rows[:, -1:], head.rarity[:, None]]
    gile.label_rows.weight.copy_(torch.cat(row, 1))
    gile.output_layer.input_projection.weight.copy_(head.matrix.T / size)
    gile.output_layer.classifier.bias.zero_()
    gile.output_layer.cosine.factors.scale[0] = head.factor
    config.term_weights = head.term_weights
    if head.words is not None:
        rows = head.words.tocoo()
        ids, columns, weights = (torch.from_numpy(numbers) for numbers in (rows.col, rows.row, rows.data))
        gile.set_word_rows(config.num_labels, ids, columns, weights)

    def project_labels() -> Tensor:  # their vectors are unchanged: the encoder is frozen
        return gile.project_labels(label_embeds=e, label_rows=gile.label_rows.weight)

    model.stored_labels.get_or_compute(("codes", None), model.label_input_ids, gile.label_state, project_labels)
    return {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
        "parameters": head.rows.numel() + head.matrix.numel() + 1,
        "history": [],
        "losses": [],
        "chosen": head.chosen,
        "fits_validation": head.fits_validation,
        "term_weights": head.term_weights,
    }


def can_be_fitted(config: GileConfig) -> bool:
    """Returns whether `fit_convex` supports a model with this configuration.

    Args:
        config: The configuration.
    """
    text = config.text_config
    is_fixed = text.text_encoder_type == "nn" or (not text.reads_sentences and text.has_fixed_pooling)
    return bool(
        is_fixed
        and config.output_layer == "bilinear"
        and config.cosine_score
        and config.label_rows
        and not config.bag_size
        and not config.languages
        and config.label_size == config.document_size
    )


def _documents(
    model: "GileForSequenceClassification", parts: "Mapping[str, Dataset]", part: str, first: int = 0
) -> Documents:
    """Returns the documents of a part for convex fits; words are referred to by document numbers from `first` on."""
    rows, gile, text = parts[part], model.gile, model.config.text_config
    wanted = (
        {"pooled_embeds": "use add_pooled_embeds"} if text.reads_pretrained else {"input_ids": "use encode_dataset"}
    )
    if model.config.lexical:
        wanted["lexical_ids"] = "encode them with the processor of the model, which compares words (config.lexical)"
    for name, how in wanted.items():
        if name not in rows.column_names:
            raise ValueError(f"documents of {part} have no {name}: {how}")
    vectors = [torch.zeros(0, model.config.document_size)]
    inputs = rows.select_columns([next(iter(wanted))])
    for batch in (inputs.with_format("torch") if text.reads_pretrained else inputs).iter(_DOCUMENTS_AT_ONCE):
        if text.reads_pretrained:
            h = gile.embed_texts(pooled_embeds=batch["pooled_embeds"].to(model.device))[0]
        else:
            h = gile.embed_texts(_padded(batch["input_ids"], text.pad_token_id).to(model.device))[0]
        vectors.append(h.cpu())
    excluded = _padded(rows["excluded_columns"]) if "excluded_columns" in rows.column_names else None
    words = torch.arange(first, first + len(rows))[:, None] if model.config.lexical else None
    return Documents(_of_length_1(torch.cat(vectors)), _padded(rows["labels"]), excluded, words)


def _compare_words(model: "GileForSequenceClassification", parts: "Mapping[str, Dataset]") -> CompareWords:
    """Computes the terms of words of a model and its stored labels, for documents by number.

    Words are read from the datasets in blocks of documents: padded to the longest document they could exceed memory.
    """
    from datasets import concatenate_datasets

    idf, labels = model.gile.output_layer.lexical(), model.label_set
    if labels is None:
        raise ValueError("the model stores no labels: call set_labels first")
    postings = Postings.build(labels, idf.cpu(), torch.zeros(3, len(labels)))
    rows = concatenate_datasets([parts[part].select_columns(["lexical_ids"]) for part in ("train", "validation")])

    def compare(numbers: Tensor) -> dict[str, Tensor]:
        blocks = (rows[some.tolist()]["lexical_ids"] for some in numbers[:, 0].split(_COMPARED_AT_ONCE) if len(some))
        terms = [postings.terms(_padded(ids, -1))[:2] for ids in blocks]
        match, coverage = torch.cat(terms, 1) if terms else torch.zeros(2, 0, len(labels))
        return {"match": match, "coverage": coverage}

    return compare


def _of_length_1(vectors: Tensor) -> Tensor:
    return functional.normalize(vectors.cpu().float(), dim=-1)


def _padded(columns: Iterable[Any], padding: int = PADDING) -> Tensor:
    """Converts lists of integers, or single integers, to a padded `(N, G)` tensor."""
    lists = [numbers if isinstance(numbers, list) else [numbers] for numbers in columns]
    width = max(map(len, lists), default=0)
    return torch.tensor([[*numbers, *[padding] * (width - len(numbers))] for numbers in lists]).view(len(lists), width)
