"""Fits the head over vectors of documents and labels, stage by stage: rows, words, joint space, weights of terms.

Shapes: N documents, L labels, P size of a vector.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial

import torch
from scipy.optimize import brentq
from scipy.sparse import csr_matrix, diags
from torch import Tensor

from ...metrics import ranking_metrics
from ...models.losses_gile import IGNORE
from ...models.mixture_gile import Mixture, Rows
from ..calibration.thresholds import tells_enough
from ..encoding import Progress
from .documents import EXAMPLE_SCORES, FEW, FOLDS, Documents, Fold, folds_of_documents, folds_of_labels
from .label_side import Bilinear, Joint, fit_bilinear, fit_joint, fit_rows, rarity_of, score_rows
from .losses import scaled_loss
from .term_weights import Example, TermWeights, fit_term_weights, prior_of, raise_unseen
from .word_rows import WordRegression, gold_matrix

L2_OF_ROWS = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
L2_OF_BILINEAR = (1.0, 0.1, 0.01, 0.001)
L2_OF_WORDS = (1.0, 2.0, 0.5, 4.0, 0.1)
WEIGHTS_OF_PARTS = (0.5, 1.0)
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
"""With fewer documents left out, no regularisation is chosen if all documents have a label."""

_ENOUGH_TO_CALIBRATE = 100
"""With fewer validation documents, probabilities and thresholds use all documents, see `ConvexFit.left_out`."""

_L2_WITHOUT_CHOICE = 0.1  # of rows
_STRENGTH_WITHOUT_CHOICE = 10.0  # of the weights of terms, in documents

_MANY_UNSEEN = 100
"""With so many labels without documents, and documents left out, the offset of unseen labels is chosen with them.

Otherwise labels held out compete as well. As these have documents, they rank higher than labels without.
"""

_ROW_STEPS = 60
"""Maximum number of iterations for rows."""

Relearn = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Function from the numbers of documents to `(N, P)` vectors of all documents and `(L, P)` vectors of labels.

Word vectors are learned from these documents alone.
"""

CompareWords = Callable[[Tensor], dict[str, Tensor]]
"""Function from `(N,)` numbers of documents to match, coverage and title, `(N, L)` each by name."""


@dataclass(frozen=True)
class Regularisation:
    """How strongly the parts of a head are regularised.

    Args:
        rows_l2: L2 of rows of labels.
        words_l2: L2 of rows of words; None without such rows.
        parts_weight: Weight of parts of words beside words, in these rows.
        bilinear_l2: L2 of the bilinear form, also of the form that a joint space starts from.
        pull: Pull of the joint space to its start; None if the head has the bilinear form itself.
    """

    rows_l2: float = 1.0
    words_l2: float | None = None
    parts_weight: float = WEIGHTS_OF_PARTS[0]
    bilinear_l2: float = 1.0
    pull: float | None = None


@dataclass(frozen=True, eq=False)
class ConvexFit:
    """How a head was fitted: what is reported, and what calibration and a later fit need.

    Args:
        regularisation: What `fit_head` chose, or what `refit_head` was passed.
        num_documents: Number of documents that the head is fitted on.
        losses: Mean losses of a document left out, by what they compare.
        fits_validation: Whether the head is also fitted on validation documents, so that nothing is calibrated on them.
        left_out: If validation documents are few, batches to calibrate on: `logits`, `(N, L)`, and gold `labels`,
            `(N, G)`, of all documents, each scored by the fit of a fold that leaves it out.
    """

    regularisation: Regularisation
    num_documents: int
    losses: Mapping[str, float] = field(default_factory=dict)
    fits_validation: bool = False
    left_out: Sequence[dict[str, Tensor]] = ()

    @property
    def chosen(self) -> dict[str, float]:
        """The regularisation of the parts that the head has, and the losses, for `results.json`."""
        figures = asdict(self.regularisation) | dict(self.losses)
        return {name: value for name, value in figures.items() if value is not None}


@dataclass(frozen=True, eq=False)
class Head:
    """Result of `fit_head`.

    Args:
        rows: The rows of L labels.
        form: The joint space of GILE, or a bilinear form.
        term_weights: Weights of the terms, by group.
        fit: How it was fitted.
        words: `(L, F)` rows of words, if words are compared.
        num_unseen: Number of unseen labels that the offset of unseen labels was chosen with; 0 without a choice.
        crowding: Measured with them, see `SharedRanking.crowding`.
    """

    rows: Rows
    form: Bilinear | Joint
    term_weights: TermWeights
    fit: ConvexFit
    words: csr_matrix | None = None
    num_unseen: int = 0
    crowding: float = 1.0


def fit_head(
    train: Documents,
    validation: Documents,
    labels: Tensor,
    one_label: bool,
    compare: CompareWords | None = None,
    regression: WordRegression | None = None,
    relearn: Relearn | None = None,
) -> Head:
    """Fits rows of labels, a joint space and the weights of terms, and chooses the regularisation on the data.

    The stages, in their order:

    | chosen or fitted | convex | on |
    | --- | --- | --- |
    | L2 of rows | yes | `scaled_loss` of documents left out |
    | L2 of rows of words, weight of parts of words | yes | average precision of documents left out |
    | rows and rows of words, of all documents and of each fold | yes | documents of the fold |
    | L2 of the bilinear form | yes | loss of the weights of terms, labels held out |
    | pull of the joint space of GILE to the bilinear form | no | the same |
    | weights of terms | yes | documents left out, seen and held-out labels |
    | offset of unseen labels | no, a search | average precision of seen gold labels, all labels competing |

    Seen labels are those with training documents. Documents left out are those for validation, and if there are few,
    quarters of the training documents as well. In each fold of labels a quarter of the seen labels is held out, with
    the documents that have no other labels. Validation documents with labels that no training document has count as
    well. If a label is unseen, weights of seen labels are fitted together with those of unseen labels, and otherwise
    before them. With few documents, all of which have a label, only weights of terms are chosen, and validation
    documents are fitted on as well. The joint space replaces the bilinear form unless the loss is lower without it, or
    N x L x P is large.

    Args:
        train: N documents for fitting.
        validation: Documents for choosing settings; may be empty.
        labels: `(L, P)` vectors of the labels, of length 1.
        one_label: Whether each document has one label.
        compare: Computes the terms of words, which get weights as well.
        regression: The words of the documents, to fit rows of words on. If not all training documents have vectors,
            these replace the rows of labels, with the frequency of the label.
        relearn: Learns word vectors again for each fold of labels. Otherwise the words of held-out labels are better
            known than those of unseen labels, whose documents the word vectors were not learned from.

    Raises:
        ValueError: If no training document has a label.
    """
    if not bool(train.has_gold.any()):
        raise ValueError("no training document has a label: there is nothing to fit")
    have_rows = train.mostly_read and _cost(train, labels) <= LARGEST
    have_gold = bool(train.has_gold.all()) and bool(validation.has_gold.all())
    if have_rows and have_gold and _count_informative(train, validation, labels) < _FEWEST:
        return _fit_without_choice(train.joined(validation), labels, one_label, compare is not None, regression)
    return _Fit(train, validation, labels, one_label, compare, regression, relearn).run()


def refit_head(
    documents: Documents,
    labels: Tensor,
    regularisation: Regularisation,
    term_weights: TermWeights,
    regression: WordRegression | None = None,
    has_rows: bool = True,
) -> Head:
    """Fits rows, rows of words and the form without choices; weights of terms stay as they are.

    Args:
        documents: N documents for fitting.
        labels: As in `fit_head`.
        regularisation: What `fit_head` chose, perhaps on fewer documents.
        term_weights: The weights of terms that it fitted.
        regression: The words of the documents, if it fitted rows of words.
        has_rows: Whether rows have weights; otherwise only biases, the frequencies of labels.
    """
    fold = Fold(documents, documents.take(slice(0)), labels)
    max_iter = _ROW_STEPS if has_rows else 0
    rows = fit_rows(documents, len(labels), regularisation.rows_l2, max_iter=max_iter)
    form = cached_forms()(fold, regularisation)
    words = None
    if regression is not None and regularisation.words_l2 is not None:
        words = _fit_words(regression, fold, regularisation.words_l2, regularisation.parts_weight)
    return Head(rows, form, term_weights, ConvexFit(regularisation, len(documents)), words)


class _Fit:
    """The stages of `fit_head`, in the order of `run`. Each stage stores what it fits on each fold, and its choices.

    Attributes:
        validation_suffices: Whether all folds are fitted on all training documents, and only validation documents are
            left out.
        has_rows: Whether rows have weights; otherwise only biases, the frequencies of labels.
        has_joint: Whether a joint space is fitted.
        document_folds: Folds that only leave out documents.
        label_folds: Folds that hold out labels, too.
        final: The fold of the result: it has all training documents.
        folds_of_seen: The folds on which weights of seen labels are fitted before those of unseen labels: those of
            documents if all labels are seen; otherwise none, and all weights are fitted together.
        rows: `Rows` of each fold.
        words: Rows of words of each fold, if words are compared.
        terms: Terms of the documents that a fold leaves out, for seen labels, but not "joint" and "cosine".
        regularisation: The regularisation, as chosen so far.
        losses: Mean losses of a document left out, see `ConvexFit`.
        weights: The weights of terms: at first those that the fitted ones are shrunk to.
    """

    def __init__(
        self,
        train: Documents,
        validation: Documents,
        labels: Tensor,
        one_label: bool,
        compare: CompareWords | None,
        regression: WordRegression | None,
        relearn: Relearn | None,
    ) -> None:
        self.validation = validation
        self.one_label = one_label
        self.compare = compare
        self.regression = regression
        self.seen = train.counts(len(labels)) > 0
        cost = _cost(train, labels)
        self.validation_suffices = len(validation) >= (FEW if cost > _COSTLY / 4 else 3 * FEW)
        self.has_rows = train.mostly_read and cost <= LARGEST
        self.is_costly = cost > _COSTLY
        self.has_joint = self.has_rows and not self.is_costly
        self.document_folds = folds_of_documents(train, validation, labels, self.validation_suffices)
        num_label_folds = 1 if self.is_costly else FOLDS
        self.label_folds = folds_of_labels(train, validation, labels, num_label_folds, self.validation_suffices)
        if relearn is not None:
            self.label_folds = [_relearned(fold, relearn) for fold in self.label_folds]
        self.final = self.document_folds[0] if self.validation_suffices else Fold(train, validation, labels)
        has_all = bool(self.seen.all()) or not self.label_folds
        self.folds_of_seen = self.document_folds if has_all else []
        self.rows: dict[Fold, Rows] = {}
        self.words: dict[Fold, csr_matrix] = {}
        self.terms: dict[Fold, dict[str, Tensor]] = {}
        self.form_of = cached_forms()
        self.regularisation = Regularisation(bilinear_l2=L2_OF_BILINEAR[0])
        self.losses: dict[str, float] = {}
        self.weights = prior_of(one_label, compare is not None, regression is not None, int(self.seen.sum()))
        self.num_unseen = 0
        self.crowding = 1.0

    def run(self) -> Head:
        """Runs the stages."""
        stages = (
            self.choose_l2_of_rows,
            self.choose_l2_of_words,
            self.fit_words,
            self.fit_rows,
            self.choose_form,
            self.fit_weights,
        )
        progress = Progress("fitting the head", len(stages), "stage", is_even=False)
        for stage in stages:
            stage()
            progress.count(1)
        return Head(
            self.rows[self.final],
            self.form_of(self.final, self.regularisation),
            self.weights,
            ConvexFit(
                self.regularisation,
                len(self.final.train),
                self.losses,
                left_out=self.score_left_out(),
            ),
            self.words.get(self.final),
            num_unseen=self.num_unseen,
            crowding=self.crowding,
        )

    def choose_l2_of_rows(self) -> None:
        """Chooses the L2 of rows on documents left out, with many documents and labels on a sample of the labels."""
        if not self.has_rows:
            return
        folds = self.document_folds
        started = self.rows
        if self.is_costly:
            folds = [_with_sampled_labels(fold, fold.left_out) for fold in folds]
            started = {}
        progress = Progress("choosing the L2 of rows", len(L2_OF_ROWS) * len(folds), "fit")

        def loss(l2: float) -> float:
            total = 0.0
            for fold in folds:
                rows = fit_rows(fold.train, len(fold.labels), l2, started.get(fold), max_iter=30)
                started[fold] = rows
                scores = score_rows(rows.take(fold.seen), fold.left_out.vectors)
                total += scaled_loss(scores, fold.left_out.among(fold.seen))
                progress.count(1)
            return total

        self.regularisation = replace(self.regularisation, rows_l2=_best(L2_OF_ROWS, loss))
        progress.bar.close()

    def choose_l2_of_words(self) -> None:
        """Chooses the L2 of rows of words on documents left out, then the weight of parts of words.

        With many documents, it chooses on a sample of the labels, and on all validation documents if these suffice.
        """
        regression = self.regression
        if regression is None:
            return
        folds = self.document_folds
        uses_names = len(folds[0].train) <= _FEW_DOCUMENTS
        if not uses_names:
            folds = [
                _with_sampled_labels(fold, self.validation if self.validation_suffices else fold.left_out)
                for fold in folds
            ]

        @cache
        def loss(l2: float, parts_weight: float) -> float:
            total = 0.0
            for fold in folds:
                words = _fit_words(regression, fold, l2, parts_weight, uses_names)
                total += _precision_of_words(regression, fold, words)
            return -total

        l2 = _best(L2_OF_WORDS, lambda l2: loss(l2, WEIGHTS_OF_PARTS[0]))
        parts_weight = _best(WEIGHTS_OF_PARTS, partial(loss, l2))
        self.regularisation = replace(self.regularisation, words_l2=l2, parts_weight=parts_weight)

    def fit_words(self) -> None:
        """Fits the rows of words of all documents and of each fold.

        If validation documents suffice, folds of labels have all training documents, except for those of held-out
        labels, so that only the rows of these labels are fitted again.
        """
        l2 = self.regularisation.words_l2
        if self.regression is None or l2 is None:
            return
        weight = self.regularisation.parts_weight
        for fold in dict.fromkeys((*self.document_folds, self.final)):
            self.words[fold] = _fit_words(self.regression, fold, l2, weight)
        for fold in self.label_folds:
            if self.validation_suffices:
                final = self.words[self.final]
                self.words[fold] = _refit_words(self.regression, fold, l2, weight, final, self.seen & ~fold.seen)
            else:
                self.words[fold] = _fit_words(self.regression, fold, l2, weight)

    def fit_rows(self) -> None:
        """Fits rows of all documents and of each fold, and computes all terms but those of a form."""
        max_iter = _ROW_STEPS if self.has_rows else 0
        for fold in dict.fromkeys((*self.label_folds, self.final, *self.document_folds)):
            start = self.rows.get(fold)
            self.rows[fold] = fit_rows(fold.train, len(fold.labels), self.regularisation.rows_l2, start, max_iter)
        for fold in (*self.label_folds, *self.folds_of_seen):
            self.terms[fold] = self.terms_without_form(fold, fold.left_out, self.seen)

    def choose_form(self) -> None:
        """Chooses the L2 of the bilinear form, and the pull of the joint space if it is better.

        The L2 is chosen on folds of labels; the joint space also on folds of documents, if there are terms of these.
        """
        start = self.regularisation  # with the first L2: the joint space learns from the documents itself
        if not self.has_rows or not self.label_folds:
            if self.has_joint:
                self.regularisation = replace(start, pull=PULLS[0])
            return
        label_folds = self.label_folds[:1] if self.validation_suffices else self.label_folds

        def loss(folds: Sequence[Fold], regularisation: Regularisation) -> float:
            examples = [self.example(fold, regularisation) for fold in folds]
            return fit_term_weights(examples, self.weights, self.one_label)[1]

        def mean_loss(regularisation: Regularisation) -> float:
            losses = [loss(folds, regularisation) for folds in (label_folds, self.folds_of_seen) if folds]
            return sum(losses) / len(losses)

        best_l2 = _best(L2_OF_BILINEAR, lambda l2: loss(label_folds, replace(start, bilinear_l2=l2)))
        self.regularisation = replace(start, bilinear_l2=best_l2)
        if not self.has_joint:
            return
        loss_of_pull = cache(lambda pull: mean_loss(replace(start, pull=pull)))
        pull = _best(PULLS, loss_of_pull)
        self.losses["bilinear_loss"] = mean_loss(self.regularisation)
        self.losses["joint_loss"] = loss_of_pull(pull)
        if self.losses["joint_loss"] < self.losses["bilinear_loss"]:
            self.regularisation = replace(start, pull=pull)

    def fit_weights(self) -> None:
        """Fits the weights of terms, and chooses the offset of unseen labels."""
        fixed: list[str] = []
        if self.folds_of_seen:
            examples = [self.example(fold, self.regularisation) for fold in self.folds_of_seen]
            self.weights, self.losses["seen_loss"] = fit_term_weights(examples, self.weights, self.one_label)
            fixed = [group for group in self.weights if group != "unseen"]
        if not self.label_folds:
            return
        read = self.validation.take(self.validation.is_read)
        others = read.take(slice(max(FEW, EXAMPLE_SCORES // len(self.seen))))  # scores of all labels fit in memory
        with_unseen = self.unseen_examples(others)
        examples = [self.example(fold, self.regularisation) for fold in self.label_folds] + with_unseen
        self.weights, self.losses["loss"] = fit_term_weights(examples, self.weights, self.one_label, fixed)
        if not self.one_label and min(int((~self.seen).sum()), len(others)) >= _MANY_UNSEEN:
            examples = with_unseen or [self.example_of_all_labels(self.final, others)]
        elif not bool(self.seen.all()):  # labels without documents compete as well
            examples = [self.example_of_all_labels(fold, fold.left_out) for fold in self.label_folds]
        offset, self.crowding = raise_unseen(examples, self.weights, self.one_label)
        self.weights["unseen"]["offset"] = offset
        self.num_unseen = round(sum(int((~example.seen).sum()) for example in examples) / len(examples))

    def score_left_out(self) -> list[dict[str, Tensor]]:
        """Scores each document by the fit of a fold that leaves it out, if validation documents are few."""
        number = int(self.validation.is_read.sum())
        if self.validation_suffices or number >= _ENOUGH_TO_CALIBRATE:
            return []
        batches = []
        first = 0
        rarity = rarity_of(self.final.counts)  # of the final weights of terms, with more documents than in a fold
        for fold in self.document_folds:
            others = fold.left_out.take(slice(first, None))
            first = number  # each fold leaves out the validation documents
            example = self.example_of_all_labels(fold, others)
            scores = Mixture(list(example.terms), self.weights).add(example.terms, example.seen, rarity)
            _, candidates = others.targets(len(self.seen))
            scores[:, self.seen & ~fold.seen] = -torch.inf
            if candidates is not None:
                scores = scores.masked_fill(~candidates, -torch.inf)
            batches.append({"logits": scores, "labels": others.gold})
        return batches

    def terms_without_form(self, fold: Fold, others: Documents, labels: Tensor) -> dict[str, Tensor]:
        """Computes the terms of other documents for the labels of an `(L,)` mask, but not "joint" and "cosine"."""
        terms = {"rows": score_rows(self.rows[fold].take(labels), others.vectors)}
        if self.compare is not None and others.numbers is not None:
            terms |= {name: values[:, labels] for name, values in self.compare(others.numbers).items()}
        if self.regression is not None and others.numbers is not None:
            terms["words"] = self.regression.scores(others.numbers, self.words[fold], labels)
        return terms

    def example(self, fold: Fold, regularisation: Regularisation) -> Example:
        """Returns all terms of the documents that a fold leaves out, for seen labels."""
        form = self.form_of(fold, regularisation)
        terms = self.terms[fold] | form.terms(fold.left_out.vectors, fold.labels[self.seen])
        counts = fold.counts[self.seen]
        return Example(terms, fold.left_out.among(self.seen), counts > 0, rarity_of(counts))

    def example_of_all_labels(self, fold: Fold, others: Documents) -> Example:
        """Returns all terms of other documents than those of a fold, for all labels."""
        every = torch.ones_like(self.seen)
        terms = self.terms_without_form(fold, others, every)
        terms |= self.form_of(fold, self.regularisation).terms(others.vectors, fold.labels)
        return Example(terms, others, fold.seen, rarity_of(fold.counts))

    def unseen_examples(self, read: Documents) -> list[Example]:
        """Returns validation documents with all labels, if enough of them have labels without training documents.

        Such labels are rarer than those held out, and harder to score.
        """
        is_unseen = (read.gold >= 0) & ~self.final.seen[read.gold.clamp(min=0)]
        if not tells_enough(int(is_unseen.any(1).sum()), int(is_unseen.sum())):
            return []
        return [self.example_of_all_labels(self.final, read)]


def cached_forms() -> Callable[[Fold, Regularisation], Bilinear | Joint]:
    """Returns a function that fits the form of a fold: a joint space if it has a pull. Each form is fitted once."""

    @cache
    def form_of(fold: Fold, regularisation: Regularisation) -> Bilinear | Joint:
        documents, max_iter = _sample(fold)
        if regularisation.pull is None:
            return fit_bilinear(documents, fold.labels, regularisation.bilinear_l2, max_iter)
        start = form_of(fold, replace(regularisation, pull=None))
        assert isinstance(start, Bilinear)
        return fit_joint(documents, fold.labels, regularisation.pull, start)

    return form_of


def _cost(train: Documents, labels: Tensor) -> int:
    """Returns N x L x P, of labels with documents."""
    return len(train) * int((train.counts(len(labels)) > 0).sum()) * labels.shape[1]


def _relearned(fold: Fold, relearn: Relearn) -> Fold:
    """Returns a fold with word vectors learned from the documents that it is fitted on."""
    assert fold.train.numbers is not None
    assert fold.left_out.numbers is not None
    vectors, labels = relearn(fold.train.numbers)
    train = replace(fold.train, vectors=vectors[fold.train.numbers])
    left_out = replace(fold.left_out, vectors=vectors[fold.left_out.numbers])
    return Fold(train, left_out, labels)


def _sample(fold: Fold) -> tuple[Documents, int]:
    """Returns the documents with vectors that a form is fitted on, and the maximum number of iterations."""
    read = fold.train.is_read.nonzero()[:, 0]
    is_small = fold.train.mostly_read and len(read) * int(fold.seen.sum()) * fold.train.vectors.shape[1] <= LARGEST
    most, max_iter = (_BILINEAR_DOCUMENTS, 40) if is_small else (READ_OF_MANY, 15)
    sample = read[torch.randperm(len(read), generator=torch.Generator().manual_seed(0))[:most]]
    return fold.train.take(sample), max_iter


def _fit_words(
    regression: WordRegression, fold: Fold, l2: float, parts_weight: float, uses_names: bool = True
) -> csr_matrix:
    """Fits rows of words; those of labels without documents on the documents that name them."""
    return regression.fit(*_word_targets(regression, fold, uses_names), l2, parts_weight)


def _refit_words(
    regression: WordRegression,
    fold: Fold,
    l2: float,
    parts_weight: float,
    fitted: csr_matrix,
    held: Tensor,
) -> csr_matrix:
    """Replaces the rows of labels that are `held` out, a `(L,)` mask, of rows `fitted` with all labels."""
    numbers, targets = _word_targets(regression, fold)
    targets = (targets @ diags(held.float().numpy())).tocsr()
    targets.eliminate_zeros()
    return (diags((~held).float().numpy()) @ fitted + regression.fit(numbers, targets, l2, parts_weight)).tocsr()


def _word_targets(regression: WordRegression, fold: Fold, uses_names: bool = True) -> tuple[Tensor, csr_matrix]:
    """Returns the numbers of the documents to fit rows of words on, and their labels, see `gold_matrix`."""
    numbers = fold.train.numbers
    assert numbers is not None
    named = None
    if uses_names and regression.named is not None:
        named = regression.named[numbers.numpy()]
    return numbers, gold_matrix(fold.train.gold, len(fold.labels), named)


def _precision_of_words(regression: WordRegression, fold: Fold, words: csr_matrix) -> float:
    """Returns the average precision of rows of words on the documents left out."""
    others = fold.left_out.among(fold.seen)
    if others.numbers is None or not len(others):
        return 0.0
    scores = regression.scores(others.numbers, words, fold.seen)
    is_gold, candidates = others.targets(scores.shape[1])
    if candidates is not None:
        scores = scores.masked_fill(~candidates, -torch.inf)
    return ranking_metrics(scores, is_gold > 0)["average_precision"].nanmean().nan_to_num().item()


def _with_sampled_labels(fold: Fold, left_out: Documents) -> Fold:
    """Returns a fold with a sample of the seen labels of another, and with these documents left out."""
    seen = fold.seen.nonzero()[:, 0]
    chosen = seen[torch.randperm(len(seen), generator=torch.Generator().manual_seed(0))[:_SAMPLED_LABELS]]
    gold = fold.train.gold.masked_fill(~torch.isin(fold.train.gold, chosen), IGNORE)
    return replace(fold, train=replace(fold.train, gold=gold), left_out=left_out)


def _count_informative(train: Documents, validation: Documents, labels: Tensor) -> int:
    """Returns how many documents the folds leave out that have a label with documents for fitting."""
    train = replace(train, vectors=train.is_read[:, None])
    validation = replace(validation, vectors=validation.is_read[:, None])
    folds = folds_of_documents(train, validation, labels, validation_suffices=False)
    return sum(int(fold.left_out.among(fold.seen).has_gold.sum()) for fold in folds)


def _fit_without_choice(
    documents: Documents, labels: Tensor, one_label: bool, compares: bool, regression: WordRegression | None
) -> Head:
    """Fits the sum of rows, a joint space, the cosine and rows of words to few documents, all of which have a label.

    Only the weights of these terms are chosen, on folds of the documents, as if each had one label. Unseen labels,
    which have no rows, get what rows add to the score of a document on average. Where documents have several labels,
    an offset makes the probabilities of a document add up to their number.
    """
    weights = prior_of(one_label=True, shares_words=compares, has_word_rows=regression is not None)
    for of_group in weights.values():
        of_group |= {"joint": 1.0, "cosine": 1.0}
    variance = 1 - documents.vectors.mean(0).square().sum().item()  # small if all vectors have much in common
    regularisation = Regularisation(
        rows_l2=max(_L2_WITHOUT_CHOICE * variance, L2_OF_ROWS[-1]),
        words_l2=None if regression is None else L2_OF_WORDS[0],
        bilinear_l2=L2_OF_BILINEAR[0],
        pull=PULLS[0],
    )
    fit = _Fit(documents, documents.take(slice(0)), labels, True, None, regression, None)
    fit.regularisation = regularisation
    fit.label_folds = []
    fit.folds_of_seen = [fold for fold in fit.document_folds if len(fold.left_out)]
    fit.fit_words()
    fit.fit_rows()
    examples = [fit.example(fold, regularisation) for fold in fit.folds_of_seen]
    weights, _ = fit_term_weights(examples, weights, True, fixed=["unseen"], strength=_STRENGTH_WITHOUT_CHOICE)
    rows = fit.rows[fit.final]
    seen = weights["seen"]
    offset = min(1.0, seen["rows"]) * score_rows(rows.take(rows.seen), documents.vectors).mean().item()
    if regression is not None and examples:
        of_words = [example.terms["words"].mean().item() for example in examples]
        offset += seen["words"] * sum(of_words) / len(of_words)
    weights["unseen"] |= {"cosine": seen["cosine"], "joint": seen["joint"], "offset": offset}
    if not one_label:
        left_out = [fit.example_of_all_labels(fold, fold.left_out) for fold in fit.folds_of_seen]
        seen["offset"] = _offset_of(left_out or [fit.example_of_all_labels(fit.final, documents)], weights)
        weights["unseen"]["offset"] += seen["offset"]
    return Head(
        rows,
        fit.form_of(fit.final, regularisation),
        weights,
        ConvexFit(regularisation, len(documents), fits_validation=True),
        fit.words.get(fit.final),
    )


def _offset_of(examples: Sequence[Example], weights: TermWeights) -> float:
    """Returns the offset with which the probabilities of a document add up to its number of gold labels, on average.

    Documents that the terms were fitted on score their own labels higher than new documents do: the probabilities of
    these are then too low.
    """
    mixture = Mixture(list(examples[0].terms), weights)
    scores = torch.cat([mixture.add(example.terms, example.seen) for example in examples])
    targets = torch.cat([example.documents.targets(len(example.seen))[0] for example in examples])
    return float(brentq(lambda offset: float((scores + offset).sigmoid().sum() - targets.sum()), -1e3, 1e3))


def _best(grid: Sequence[float], loss: Callable[[float], float]) -> float:
    """Returns the value with the lowest loss; the search ends after two values without improvement."""
    losses: list[float] = []
    for number in grid:
        losses.append(loss(number))
        if len(losses) - losses.index(min(losses)) > 2:
            break
    return grid[losses.index(min(losses))]
