"""Fits the head over vectors of documents and labels, stage by stage: rows, words, joint space, weights of terms.

Shapes: N documents, L labels, P size of a vector.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...metrics import ranking_metrics
from ...models.mixture_gile import Mixture, Rows
from ..calibration.thresholds import tells_enough
from ..encoding import Progress
from .documents import PADDING, Documents
from .folds import EXAMPLE_SCORES, FEW, FOLDS, Fold, folds_of_documents, folds_of_labels
from .label_side import Bilinear, Joint, fit_bilinear, fit_joint
from .losses import scaled_loss
from .rows import fit_rows, rarity_of, score_rows
from .term_weights import Example, TermWeights, fit_term_weights, prior_of, raise_unseen
from .word_rows import WordRegression, gold_matrix

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

L2_OF_ROWS = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
L2_OF_BILINEAR = (1.0, 0.1, 0.01, 0.001)
L2_OF_WORDS = (1.0, 2.0, 0.5, 4.0, 0.1)
PULLS = (1.0, 10.0, 100.0)

READ_OF_MANY = 1000
"""Number of documents with vectors in larger training sets; only rows of words are fitted on all documents."""

_BILINEAR_DOCUMENTS = 4000
"""Maximum number of documents that a bilinear form is fitted on."""

_COSTLY = 2_000_000_000
"""Size of N x L x P above which there is a single fold, and no joint space."""

LARGEST = 20_000_000_000
"""Size of N x L x P that is fitted within minutes."""

_FEW_DOCUMENTS, _SAMPLED_LABELS = 4000, 2048
"""With more documents than this, the L2 of rows of words is chosen on a sample of labels."""

_FEWEST = 100
"""With fewer documents left out, each with one label, nothing is chosen."""

_L2_WITHOUT_CHOICE = 0.1  # of rows

_ROW_STEPS = 60
"""Maximum number of iterations for rows."""

CompareWords = Callable[[Tensor], dict[str, Tensor]]
"""Function from `(N,)` numbers of documents to the terms "match" and "coverage", `(N, L)` each."""


@dataclass(frozen=True, eq=False)
class Head:
    """Result of `fit_head`.

    Args:
        rows: The rows of L labels.
        form: The joint space of GILE, or a bilinear form.
        term_weights: Weights of the terms, by group.
        chosen: The chosen settings, for a report.
        words: `(L, F)` rows of words, if words are compared.
        fits_validation: Whether validation documents were fitted on, too.
        num_unseen: Number of unseen labels that the offset of unseen labels was chosen with; 0 without a choice.
        crowding: Measured with them, see `SharedRanking.crowding`.
    """

    rows: Rows
    form: Bilinear | Joint
    term_weights: TermWeights
    chosen: dict[str, float]
    words: "csr_matrix | None" = None
    fits_validation: bool = False
    num_unseen: int = 0
    crowding: float = 1.0

    def scores(self, vectors: Tensor, labels: Tensor, words: Mapping[str, Tensor] | None = None) -> Tensor:
        """Computes the `(N, L)` scores of `(N, P)` documents with `(L, P)` labels; `words` are terms of words."""
        terms = {"rows": score_rows(self.rows, vectors), **self.form.terms(vectors, labels), **(words or {})}
        return Mixture(list(terms), self.term_weights).add(terms, self.rows.seen, self.rows.rarity)


def fit_head(
    train: Documents,
    validation: Documents,
    labels: Tensor,
    one_label: bool,
    compare: CompareWords | None = None,
    regression: WordRegression | None = None,
) -> Head:
    """Fits rows of labels, a joint space and the weights of terms, and chooses the regularisation on the data.

    | stage | convex | chosen | on |
    | --- | --- | --- | --- |
    | rows | yes | L2 | `scaled_loss` of documents left out |
    | rows of words | yes | L2 | average precision of documents left out |
    | bilinear form | yes | L2 | loss of the weights of terms, labels held out |
    | joint space of GILE | no, from the bilinear form on | pull to it | the same |
    | weights of terms | yes | - | documents left out, seen and held-out labels |
    | offset of unseen labels | no, a search | - | average precision of seen gold labels, all labels competing |

    Seen labels are those with training documents. Documents left out are those for validation, and if there are few,
    quarters of the training documents as well. In each fold of labels a quarter of the seen labels is held out, with
    the documents that have no other labels. Validation documents with labels that no training document has count as
    well. If some labels are unseen, weights of seen labels are fitted together with them, and otherwise without them.
    With few documents of one label each, nothing is chosen, and validation documents are fitted on as well. The joint
    space replaces the bilinear form unless the loss is lower without it, or N x L x P is large.

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
    if not bool(train.has_gold.any()):
        raise ValueError("no training document has a label: there is nothing to fit")
    if one_label and _count_told(train, validation, len(labels)) < _FEWEST:
        return _fit_without_choice(train.joined(validation), labels, compare is not None)
    return _Fit(train, validation, labels, one_label, compare, regression).run()


def refit_head(
    documents: Documents,
    labels: Tensor,
    chosen: dict[str, float],
    term_weights: TermWeights,
    regression: WordRegression | None = None,
    reads_all: bool = True,
) -> Head:
    """Fits rows, rows of words and a joint space without choices; weights of terms stay as they are.

    Args:
        documents: N documents for fitting.
        labels: As in `fit_head`.
        chosen: What `fit_head` chose, perhaps on fewer documents.
        term_weights: The weights of terms that it fitted.
        regression: The words of the documents, if it fitted rows of words.
        reads_all: Whether rows are fitted, rather than the frequencies of labels.
    """
    fold = Fold(documents, documents.take(slice(0)), len(labels))
    max_iter = _ROW_STEPS if reads_all else 0
    rows = fit_rows(documents, len(labels), chosen["rows_l2"], max_iter=max_iter)
    form = _Forms(labels, chosen).of(fold)
    words = None
    if regression is not None:
        words = _fit_words(regression, fold, chosen["words_l2"])
    return Head(rows, form, term_weights, chosen, words)


class _Fit:
    """The stages of `fit_head`, in the order of `run`; each is a function of what earlier ones returned."""

    def __init__(
        self,
        train: Documents,
        validation: Documents,
        labels: Tensor,
        one_label: bool,
        compare: CompareWords | None,
        regression: WordRegression | None,
    ) -> None:
        self.validation = validation
        self.labels = labels
        self.one_label = one_label
        self.compare = compare
        self.regression = regression
        number = len(labels)
        self.seen = train.counts(number) > 0
        cost = len(train) * int(self.seen.sum()) * labels.shape[1]
        self.is_enough = len(validation) >= (FEW if cost > _COSTLY / 4 else 3 * FEW)
        self.reads_all = train.mostly_read and cost <= LARGEST
        self.has_joint = self.reads_all and cost <= _COSTLY
        self.max_iter = _ROW_STEPS if self.reads_all else 0  # rows are then the frequencies of labels
        self.plain = folds_of_documents(train, validation, number, self.is_enough)
        self.held = folds_of_labels(train, validation, number, 1 if cost > _COSTLY else FOLDS, self.is_enough)
        self.whole = self.plain[0] if self.is_enough else Fold(train, validation, number)

    def run(self) -> Head:
        chosen: dict[str, float] = {}
        stages = Progress("fitting the head", 6, "stage", is_even=False)
        prior = prior_of(self.one_label, self.compare is not None, self.regression is not None)
        chosen["rows_l2"], rows_of_plain = self.choose_rows()
        stages.count(1)
        words_of_plain: Sequence[csr_matrix | None] = [None] * len(self.plain)
        if self.regression is not None:
            chosen["words_l2"], words_of_plain = self.choose_words()
        stages.count(1)
        words, words_of_held = self.fit_words(chosen.get("words_l2", 0.0), words_of_plain)
        stages.count(1)
        rows_of_held = [self.fit_rows(fold, chosen["rows_l2"]) for fold in self.held]
        terms_of_held = [
            self.fixed_terms(fold, of_fold, words_of_fold)
            for fold, of_fold, words_of_fold in zip(self.held, rows_of_held, words_of_held, strict=True)
        ]
        rows = self.fit_rows(self.whole, chosen["rows_l2"], rows_of_plain[0] if self.is_enough else None)
        terms_of_plain = []
        if bool(self.seen.all()) or not self.held:
            for position, fold in enumerate(self.plain):
                is_whole = fold is self.whole
                of_fold = rows if is_whole else self.fit_rows(fold, chosen["rows_l2"], rows_of_plain[position])
                words_of_fold = words if is_whole else words_of_plain[position]
                terms_of_plain.append(self.fixed_terms(fold, of_fold, words_of_fold))
        stages.count(1)
        forms = self.choose_form(terms_of_held, terms_of_plain, prior)
        stages.count(1)
        chosen |= forms.chosen
        form = forms.of(self.whole)
        fixed: list[str] = []
        num_unseen = 0
        crowding = 1.0
        if terms_of_plain:
            examples = [
                self.example(fold, terms, forms.of(fold))
                for fold, terms in zip(self.plain, terms_of_plain, strict=True)
            ]
            prior, chosen["seen_loss"] = fit_term_weights(examples, prior, self.one_label)
            fixed = [group for group in prior if group != "unseen"]
        forms_of_held = [forms.of(fold) for fold in self.held]
        if self.held:
            examples = [
                self.example(fold, terms, of_fold)
                for fold, terms, of_fold in zip(self.held, terms_of_held, forms_of_held, strict=True)
            ]
            examples += self.unseen_example(rows, form, words)
            prior, chosen["loss"] = fit_term_weights(examples, prior, self.one_label, fixed)
            competing = examples  # if all labels have documents
            if not bool(self.seen.all()):
                competing = self.competing_examples(rows_of_held, words_of_held, forms_of_held)
            prior["unseen"]["offset"], crowding = raise_unseen(competing, prior, self.one_label)
            num_unseen = round(sum(int((~example.seen).sum()) for example in competing) / len(competing))
        stages.count(1)
        return Head(rows, form, prior, chosen, words, num_unseen=num_unseen, crowding=crowding)

    def choose_rows(self) -> tuple[float, list[Rows | None]]:
        """Chooses the L2 of rows; also returns the last rows of each fold of documents, to start from."""
        last: list[Rows | None] = [None] * len(self.plain)
        if not self.reads_all:
            return 1.0, last

        progress = Progress("choosing the L2 of rows", len(L2_OF_ROWS) * len(self.plain), "fit")

        def loss(l2: float) -> float:
            total = 0.0
            for position, fold in enumerate(self.plain):
                rows = last[position] = fit_rows(fold.train, fold.num_labels, l2, last[position], max_iter=30)
                scores = score_rows(rows.take(fold.seen), fold.others.vectors)
                total += scaled_loss(scores, fold.others.among(fold.seen))
                progress.count(1)
            return total

        best = _best(L2_OF_ROWS, loss)
        progress.bar.close()
        return best, last

    def fit_rows(self, fold: Fold, l2: float, start: Rows | None = None) -> Rows:
        return fit_rows(fold.train, fold.num_labels, l2, start, self.max_iter)

    def choose_words(self) -> tuple[float, list["csr_matrix"]]:
        """Chooses the L2 of rows of words; also returns those of each fold of documents.

        With many documents, it chooses on a sample of the labels, and on all validation documents if these suffice.
        """
        regression = self.regression
        assert regression is not None
        folds = self.plain
        if len(folds[0].train) > _FEW_DOCUMENTS:
            others = self.validation if self.is_enough else None
            folds = [_with_sampled_labels(fold, others) for fold in folds]
        uses_names = folds is self.plain

        def loss(l2: float) -> float:
            fitted = [_fit_words(regression, fold, l2, uses_names) for fold in folds]
            return -sum(map(_precision_of_words, [regression] * len(folds), folds, fitted))

        best = _best(L2_OF_WORDS, loss)
        return best, [_fit_words(regression, fold, best) for fold in self.plain]

    def fit_words(
        self, l2: float, of_plain: Sequence["csr_matrix | None"]
    ) -> tuple["csr_matrix | None", list["csr_matrix | None"]]:
        """Fits the rows of words of all documents, and of each fold of labels.

        If a fold of documents has all documents, folds of labels only differ from it in the labels that they hold out.
        """
        if self.regression is None:
            return None, [None] * len(self.held)
        if not self.is_enough:
            fitted = [_fit_words(self.regression, fold, l2) for fold in (self.whole, *self.held)]
            return fitted[0], fitted[1:]
        words = of_plain[0]
        return words, [_refit_words(self.regression, fold, l2, words, self.seen & ~fold.seen) for fold in self.held]

    def choose_form(
        self,
        terms_of_held: Sequence[dict[str, Tensor]],
        terms_of_plain: Sequence[dict[str, Tensor]],
        prior: TermWeights,
    ) -> "_Forms":
        """Chooses the L2 of the bilinear form, and the pull of the joint space if it is better.

        The L2 is chosen on folds of labels; the joint space also on folds of documents, if there are terms of these.
        """
        used = self.held[:1] if self.is_enough else self.held
        forms = _Forms(self.labels, {"bilinear_l2": L2_OF_BILINEAR[0]})

        def loss(folds: Sequence[Fold], terms: Sequence[dict[str, Tensor]], **choices: float) -> float:
            examples = [
                self.example(fold, of_fold, forms.of(fold, **choices))
                for fold, of_fold in zip(folds, terms, strict=False)
            ]
            return fit_term_weights(examples, prior, self.one_label)[1]

        @cache  # as the best pull is measured twice
        def loss_of_all(**choices: float) -> float:
            losses = [loss(used, terms_of_held, **choices)]
            if terms_of_plain:
                losses.append(loss(self.plain, terms_of_plain, **choices))
            return sum(losses) / len(losses)

        chosen = forms.chosen
        if not self.reads_all or not self.held:
            if self.has_joint:
                chosen["pull"] = PULLS[0]
            return forms
        chosen["bilinear_l2"] = _best(L2_OF_BILINEAR, lambda l2: loss(used, terms_of_held, bilinear_l2=l2))
        if self.has_joint:
            start = L2_OF_BILINEAR[0]  # the joint space learns from the documents itself
            pull = _best(PULLS, lambda pull: loss_of_all(bilinear_l2=start, pull=pull))
            bilinear_loss = loss_of_all()
            joint_loss = loss_of_all(bilinear_l2=start, pull=pull)
            if joint_loss < bilinear_loss:
                chosen |= {"bilinear_l2": start, "pull": pull}
            chosen |= {"bilinear_loss": bilinear_loss, "joint_loss": joint_loss}
        return forms

    def fixed_terms(
        self, fold: Fold, rows: Rows, words: "csr_matrix | None", chosen: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Computes the terms of documents left out, but not "joint" and "cosine"; for seen labels, or those chosen."""
        chosen = self.seen if chosen is None else chosen
        terms = {"rows": score_rows(rows.take(chosen), fold.others.vectors)}
        numbers = fold.others.numbers
        if self.compare is not None and numbers is not None:
            terms |= {name: values[:, chosen] for name, values in self.compare(numbers).items()}
        if self.regression is not None and words is not None and numbers is not None:
            terms["words"] = self.regression.scores(numbers, words, chosen)
        return terms

    def example(
        self, fold: Fold, terms: dict[str, Tensor], form: Bilinear | Joint, chosen: Tensor | None = None
    ) -> Example:
        """Adds the terms "joint" and "cosine" to others."""
        chosen = self.seen if chosen is None else chosen
        counts = fold.counts[chosen]
        terms = terms | form.terms(fold.others.vectors, self.labels[chosen])
        return Example(terms, fold.others.among(chosen), counts > 0, rarity_of(counts))

    def competing_examples(
        self, rows: Sequence[Rows], words: Sequence["csr_matrix | None"], forms: Sequence[Bilinear | Joint]
    ) -> list[Example]:
        """Returns the documents of the folds of labels with all labels: those without documents compete as well."""
        every = torch.ones(len(self.labels), dtype=torch.bool)
        return [
            self.example(fold, self.fixed_terms(fold, of_fold, words_of_fold, every), form, every)
            for fold, of_fold, words_of_fold, form in zip(self.held, rows, words, forms, strict=True)
        ]

    def unseen_example(self, rows: Rows, form: Bilinear | Joint, words: "csr_matrix | None") -> list[Example]:
        """Returns validation documents with all labels, if enough of them have labels without training documents.

        Such labels are rarer than those held out, and harder to score.
        """
        number = len(self.labels)
        read = self.validation.take(self.validation.is_read).take(slice(max(FEW, EXAMPLE_SCORES // number)))
        is_unseen = (read.gold >= 0) & ~self.whole.seen[read.gold.clamp(min=0)]
        if not tells_enough(int(is_unseen.any(1).sum()), int(is_unseen.sum())):
            return []
        every = torch.ones(number, dtype=torch.bool)
        fold = replace(self.whole, others=read)
        return [self.example(fold, self.fixed_terms(fold, rows, words, every), form, every)]


class _Forms:
    """The bilinear forms and joint spaces of folds, each fitted once.

    Args:
        labels: `(L, P)` vectors of the labels.
        chosen: What was chosen so far: "bilinear_l2", and "pull" of a joint space.
    """

    def __init__(self, labels: Tensor, chosen: dict[str, float]) -> None:
        self.labels = labels
        self.chosen = chosen
        self._bilinear: dict[tuple[Fold, float], Bilinear] = {}
        self._joint: dict[tuple[Fold, float, float], Joint] = {}

    def of(self, fold: Fold, **choices: float) -> Bilinear | Joint:
        """Returns the form of a fold, with other choices than those made."""
        choices = self.chosen | choices
        l2 = choices["bilinear_l2"]
        if (fold, l2) not in self._bilinear:
            documents, max_iter = _sample(fold)
            self._bilinear[fold, l2] = fit_bilinear(documents, self.labels, l2, max_iter=max_iter)
        start = self._bilinear[fold, l2]
        if "pull" not in choices:
            return start
        pull = choices["pull"]
        if (fold, l2, pull) not in self._joint:
            self._joint[fold, l2, pull] = fit_joint(_sample(fold)[0], self.labels, pull, start)
        return self._joint[fold, l2, pull]


def _sample(fold: Fold) -> tuple[Documents, int]:
    """Returns the documents with vectors that a form is fitted on, and the maximum number of iterations."""
    read = fold.train.is_read.nonzero()[:, 0]
    is_small = fold.train.mostly_read and len(read) * int(fold.seen.sum()) * fold.train.vectors.shape[1] <= LARGEST
    most, max_iter = (_BILINEAR_DOCUMENTS, 40) if is_small else (READ_OF_MANY, 15)
    sample = read[torch.randperm(len(read), generator=torch.Generator().manual_seed(0))[:most]]
    return fold.train.take(sample), max_iter


def _fit_words(regression: WordRegression, fold: Fold, l2: float, uses_names: bool = True) -> "csr_matrix":
    """Fits rows of words; those of labels without documents on the documents that name them."""
    assert fold.train.numbers is not None
    numbers = fold.train.numbers
    named = regression.named[numbers.numpy()] if uses_names and regression.named is not None else None
    return regression.fit(numbers, gold_matrix(fold.train.gold, fold.num_labels, named), l2)


def _refit_words(
    regression: WordRegression, fold: Fold, l2: float, fitted: "csr_matrix | None", held: Tensor
) -> "csr_matrix":
    """Replaces the rows of labels that are `held` out, a `(L,)` mask, of rows `fitted` with all labels."""
    from scipy.sparse import diags

    assert fold.train.numbers is not None
    numbers = fold.train.numbers
    named = None if regression.named is None else regression.named[numbers.numpy()]
    targets = (gold_matrix(fold.train.gold, fold.num_labels, named) @ diags(held.float().numpy())).tocsr()
    targets.eliminate_zeros()
    return (diags((~held).float().numpy()) @ fitted + regression.fit(numbers, targets, l2)).tocsr()


def _precision_of_words(regression: WordRegression, fold: Fold, words: "csr_matrix") -> float:
    """Returns the average precision of rows of words on the documents left out."""
    others = fold.others.among(fold.seen)
    if others.numbers is None or not len(others):
        return 0.0
    scores = regression.scores(others.numbers, words, fold.seen)
    is_gold, candidates = others.targets(scores.shape[1])
    if candidates is not None:
        scores = scores.masked_fill(~candidates, -torch.inf)
    return ranking_metrics(scores, is_gold > 0)["average_precision"].nanmean().nan_to_num().item()


def _with_sampled_labels(fold: Fold, others: Documents | None) -> Fold:
    """Returns the fold with a sample of its seen labels, and with other documents to choose on, if any are passed."""
    seen = fold.seen.nonzero()[:, 0]
    chosen = seen[torch.randperm(len(seen), generator=torch.Generator().manual_seed(0))[:_SAMPLED_LABELS]]
    gold = fold.train.gold.masked_fill(~torch.isin(fold.train.gold, chosen), PADDING)
    return replace(fold, train=replace(fold.train, gold=gold), others=others or fold.others)


def _count_told(train: Documents, validation: Documents, num_labels: int) -> int:
    """Returns how many documents the folds leave out that have a label with documents for fitting."""
    train = replace(train, vectors=train.is_read[:, None])
    validation = replace(validation, vectors=validation.is_read[:, None])
    folds = folds_of_documents(train, validation, num_labels, is_enough=False)
    return sum(int(fold.others.among(fold.seen).has_gold.sum()) for fold in folds)


def _fit_without_choice(documents: Documents, labels: Tensor, compares: bool) -> Head:
    """Fits the sum of rows, a joint space and the cosine to few documents with one label each, without choices."""
    prior = prior_of(one_label=True, shares_words=compares, has_word_rows=False)
    for weights in prior.values():
        weights |= {"joint": 1.0, "cosine": 1.0}
    variance = 1 - documents.vectors.mean(0).square().sum().item()  # small if all vectors have much in common
    chosen = {
        "rows_l2": max(_L2_WITHOUT_CHOICE * variance, L2_OF_ROWS[-1]),
        "bilinear_l2": L2_OF_BILINEAR[0],
        "pull": PULLS[0],
    }
    return replace(refit_head(documents, labels, chosen, prior), fits_validation=True)


def _best(grid: Sequence[float], loss: Callable[[float], float]) -> float:
    """Returns the value with the lowest loss; the search ends after two values without improvement."""
    best = grid[0]
    lowest = float("inf")
    worse = 0
    for number in grid:
        value = loss(number)
        worse += 1
        if value < lowest:
            best = number
            lowest = value
            worse = 0
        if worse == 2:
            break
    return best
