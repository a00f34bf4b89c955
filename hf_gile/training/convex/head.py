"""Fits the head over vectors of documents and labels, stage by stage: rows, words, joint space, weights of terms.

Shapes: N documents, L labels, P size of a vector.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch
from scipy.sparse import csr_matrix, diags
from torch import Tensor

from ...metrics import ranking_metrics
from ...models.mixture_gile import Mixture, Rows
from ..calibration.thresholds import tells_enough
from ..encoding import Progress
from .documents import EXAMPLE_SCORES, FEW, FOLDS, PADDING, Documents, Fold, folds_of_documents, folds_of_labels
from .label_side import Bilinear, Joint, fit_bilinear, fit_joint, fit_rows, rarity_of, score_rows
from .losses import scaled_loss
from .term_weights import Example, TermWeights, fit_term_weights, prior_of, raise_unseen
from .word_rows import WordRegression, gold_matrix

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

_ENOUGH_TO_CALIBRATE = 100
"""With fewer validation documents, probabilities and thresholds are fitted on all documents, see `Head.left_out`."""

_L2_WITHOUT_CHOICE = 0.1  # of rows

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
"""Function from `(N,)` numbers of documents to the terms "match", "coverage" and "title", `(N, L)` each."""


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
        left_out: If validation documents are few, batches to calibrate on: `logits`, `(N, L)`, and gold `labels`,
            `(N, G)`, of all documents, each scored by the fit of a fold that leaves it out.
    """

    rows: Rows
    form: Bilinear | Joint
    term_weights: TermWeights
    chosen: dict[str, float]
    words: csr_matrix | None = None
    fits_validation: bool = False
    num_unseen: int = 0
    crowding: float = 1.0
    left_out: Sequence[dict[str, Tensor]] = ()


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
        relearn: Learns word vectors again for each fold of labels. Otherwise the words of held-out labels are better
            known than those of unseen labels, whose documents the word vectors were not learned from.

    Raises:
        ValueError: If no training document has a label.
    """
    if not bool(train.has_gold.any()):
        raise ValueError("no training document has a label: there is nothing to fit")
    if one_label and _count_told(train, validation, labels) < _FEWEST:
        return _fit_without_choice(train.joined(validation), labels, compare is not None)
    return _Fit(train, validation, labels, one_label, compare, regression, relearn).run()


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
    fold = Fold(documents, documents.take(slice(0)), labels)
    max_iter = _ROW_STEPS if reads_all else 0
    rows = fit_rows(documents, len(labels), chosen["rows_l2"], max_iter=max_iter)
    form = forms_of()(fold, chosen)
    words = None
    if regression is not None:
        words = _fit_words(regression, fold, chosen["words_l2"])
    return Head(rows, form, term_weights, chosen, words)


class _Fit:
    """The stages of `fit_head`, in the order of `run`. Each stage stores what it fits on each fold, and its choices.

    Attributes:
        document_folds: Folds that only hold out documents.
        label_folds: Folds that hold out labels, too.
        whole: The fold of the result: it has all training documents.
        weighed: The folds of documents on which weights of seen labels are fitted, if all labels are seen.
        rows: `Rows` of each fold.
        words: Rows of words of each fold, if words are compared.
        terms: Terms of the documents that a fold leaves out, for seen labels, but not "joint" and "cosine".
        chosen: The chosen settings.
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
        cost = len(train) * int(self.seen.sum()) * labels.shape[1]
        self.is_enough = len(validation) >= (FEW if cost > _COSTLY / 4 else 3 * FEW)
        self.reads_all = train.mostly_read and cost <= LARGEST
        self.has_joint = self.reads_all and cost <= _COSTLY
        self.document_folds = folds_of_documents(train, validation, labels, self.is_enough)
        num_label_folds = 1 if cost > _COSTLY else FOLDS
        self.label_folds = folds_of_labels(train, validation, labels, num_label_folds, self.is_enough)
        self.whole = self.document_folds[0] if self.is_enough else Fold(train, validation, labels)
        has_all = bool(self.seen.all()) or not self.label_folds
        self.weighed = self.document_folds if has_all else []
        self.rows: dict[Fold, Rows] = {}
        self.words: dict[Fold, csr_matrix] = {}
        self.terms: dict[Fold, dict[str, Tensor]] = {}
        if relearn is not None:
            self.label_folds = [_relearned(fold, relearn) for fold in self.label_folds]
        self.form_of = forms_of()
        self.chosen: dict[str, float] = {}
        self.weights = prior_of(one_label, compare is not None, regression is not None)
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
            self.rows[self.whole],
            self.form_of(self.whole, self.chosen),
            self.weights,
            self.chosen,
            self.words.get(self.whole),
            num_unseen=self.num_unseen,
            crowding=self.crowding,
            left_out=self.score_left_out(),
        )

    def choose_l2_of_rows(self) -> None:
        """Chooses the L2 of rows on documents left out."""
        self.chosen["rows_l2"] = 1.0
        if not self.reads_all:
            return
        progress = Progress("choosing the L2 of rows", len(L2_OF_ROWS) * len(self.document_folds), "fit")

        def loss(l2: float) -> float:
            total = 0.0
            for fold in self.document_folds:
                rows = fit_rows(fold.train, len(fold.labels), l2, self.rows.get(fold), max_iter=30)
                self.rows[fold] = rows  # to start from
                scores = score_rows(rows.take(fold.seen), fold.others.vectors)
                total += scaled_loss(scores, fold.others.among(fold.seen))
                progress.count(1)
            return total

        self.chosen["rows_l2"] = _best(L2_OF_ROWS, loss)
        progress.bar.close()

    def choose_l2_of_words(self) -> None:
        """Chooses the L2 of rows of words, and fits those of each fold of documents.

        With many documents, it chooses on a sample of the labels, and on all validation documents if these suffice.
        """
        regression = self.regression
        if regression is None:
            return
        folds = self.document_folds
        uses_names = len(folds[0].train) <= _FEW_DOCUMENTS
        if not uses_names:
            others = self.validation if self.is_enough else None
            folds = [_with_sampled_labels(fold, others) for fold in folds]

        def loss(l2: float) -> float:
            total = 0.0
            for fold in folds:
                words = _fit_words(regression, fold, l2, uses_names)
                total += _precision_of_words(regression, fold, words)
            return -total

        self.chosen["words_l2"] = _best(L2_OF_WORDS, loss)
        for fold in self.document_folds:
            self.words[fold] = _fit_words(regression, fold, self.chosen["words_l2"])

    def fit_words(self) -> None:
        """Fits the rows of words of all documents, and of each fold of labels.

        If a fold of documents has all documents, folds of labels only differ from it in the labels that they hold out.
        """
        if self.regression is None:
            return
        l2 = self.chosen["words_l2"]
        if self.is_enough:
            words = self.words[self.whole]
            for fold in self.label_folds:
                self.words[fold] = _refit_words(self.regression, fold, l2, words, self.seen & ~fold.seen)
        else:
            for fold in (self.whole, *self.label_folds):
                self.words[fold] = _fit_words(self.regression, fold, l2)

    def fit_rows(self) -> None:
        """Fits the rows of all documents and of each fold, and computes the terms that need no form."""
        max_iter = _ROW_STEPS if self.reads_all else 0  # rows are then the frequencies of labels
        for fold in dict.fromkeys((*self.label_folds, self.whole, *self.document_folds)):
            start = self.rows.get(fold)
            self.rows[fold] = fit_rows(fold.train, len(fold.labels), self.chosen["rows_l2"], start, max_iter)
        for fold in (*self.label_folds, *self.weighed):
            self.terms[fold] = self.fixed_terms(fold, fold.others, self.seen)

    def choose_form(self) -> None:
        """Chooses the L2 of the bilinear form, and the pull of the joint space if it is better.

        The L2 is chosen on folds of labels; the joint space also on folds of documents, if there are terms of these.
        """
        first_l2 = L2_OF_BILINEAR[0]  # the joint space learns from the documents itself
        self.chosen["bilinear_l2"] = first_l2
        if not self.reads_all or not self.label_folds:
            if self.has_joint:
                self.chosen["pull"] = PULLS[0]
            return
        used = self.label_folds[:1] if self.is_enough else self.label_folds

        def loss(folds: Sequence[Fold], **choices: float) -> float:
            examples = [self.example(fold, self.form_of(fold, choices)) for fold in folds]
            return fit_term_weights(examples, self.weights, self.one_label)[1]

        def mean_loss(**choices: float) -> float:
            losses = [loss(folds, **choices) for folds in (used, self.weighed) if folds]
            return sum(losses) / len(losses)

        self.chosen["bilinear_l2"] = _best(L2_OF_BILINEAR, lambda l2: loss(used, bilinear_l2=l2))
        if not self.has_joint:
            return
        loss_of_pull = cache(lambda pull: mean_loss(bilinear_l2=first_l2, pull=pull))
        pull = _best(PULLS, loss_of_pull)
        losses = {
            "bilinear_loss": mean_loss(bilinear_l2=self.chosen["bilinear_l2"]),
            "joint_loss": loss_of_pull(pull),
        }
        if losses["joint_loss"] < losses["bilinear_loss"]:
            self.chosen |= {"bilinear_l2": first_l2, "pull": pull}
        self.chosen |= losses

    def fit_weights(self) -> None:
        """Fits the weights of terms, and chooses the offset of unseen labels."""
        fixed: list[str] = []
        if self.weighed:
            examples = [self.example(fold) for fold in self.weighed]
            self.weights, self.chosen["seen_loss"] = fit_term_weights(examples, self.weights, self.one_label)
            fixed = [group for group in self.weights if group != "unseen"]
        if not self.label_folds:
            return
        others = self.read_validation()
        with_unseen = self.unseen_examples(others)
        examples = [self.example(fold) for fold in self.label_folds] + with_unseen
        self.weights, self.chosen["loss"] = fit_term_weights(examples, self.weights, self.one_label, fixed)
        if not self.one_label and min(int((~self.seen).sum()), len(others)) >= _MANY_UNSEEN:
            examples = with_unseen or [self.example_of_all_labels(self.whole, others)]
        elif not bool(self.seen.all()):  # labels without documents compete as well
            examples = [self.example_of_all_labels(fold, fold.others) for fold in self.label_folds]
        offset, self.crowding = raise_unseen(examples, self.weights, self.one_label)
        self.weights["unseen"]["offset"] = offset
        self.num_unseen = round(sum(int((~example.seen).sum()) for example in examples) / len(examples))

    def score_left_out(self) -> list[dict[str, Tensor]]:
        """Scores each document by the fit of a fold that leaves it out, if validation documents are few."""
        number = int(self.validation.is_read.sum())
        if self.is_enough or number >= _ENOUGH_TO_CALIBRATE:
            return []
        batches = []
        first = 0
        rarity = rarity_of(self.whole.counts)  # of the final weights of terms, with more documents than in a fold
        for fold in self.document_folds:
            others = fold.others.take(slice(first, None))
            first = number  # each fold leaves out the validation documents
            example = self.example_of_all_labels(fold, others)
            scores = Mixture(list(example.terms), self.weights).add(example.terms, example.seen, rarity)
            _, candidates = others.targets(len(self.seen))
            scores[:, self.seen & ~fold.seen] = -torch.inf
            if candidates is not None:
                scores = scores.masked_fill(~candidates, -torch.inf)
            batches.append({"logits": scores, "labels": others.gold})
        return batches

    def fixed_terms(self, fold: Fold, others: Documents, labels: Tensor) -> dict[str, Tensor]:
        """Computes the terms of other documents for the labels of an `(L,)` mask, but not "joint" and "cosine"."""
        terms = {"rows": score_rows(self.rows[fold].take(labels), others.vectors)}
        if self.compare is not None and others.numbers is not None:
            terms |= {name: values[:, labels] for name, values in self.compare(others.numbers).items()}
        if self.regression is not None and others.numbers is not None:
            terms["words"] = self.regression.scores(others.numbers, self.words[fold], labels)
        return terms

    def example(self, fold: Fold, form: Bilinear | Joint | None = None) -> Example:
        """Returns all terms of the documents that a fold leaves out, for seen labels; by default of the chosen form."""
        form = form or self.form_of(fold, self.chosen)
        terms = self.terms[fold] | form.terms(fold.others.vectors, fold.labels[self.seen])
        counts = fold.counts[self.seen]
        return Example(terms, fold.others.among(self.seen), counts > 0, rarity_of(counts))

    def example_of_all_labels(self, fold: Fold, others: Documents) -> Example:
        """Returns all terms of other documents than those of a fold, for all labels."""
        every = torch.ones_like(self.seen)
        terms = self.fixed_terms(fold, others, every)
        terms |= self.form_of(fold, self.chosen).terms(others.vectors, fold.labels)
        return Example(terms, others, fold.seen, rarity_of(fold.counts))

    def read_validation(self) -> Documents:
        """Returns the validation documents with vectors, as many as have scores of all labels in little memory."""
        read = self.validation.take(self.validation.is_read)
        return read.take(slice(max(FEW, EXAMPLE_SCORES // len(self.seen))))

    def unseen_examples(self, read: Documents) -> list[Example]:
        """Returns validation documents with all labels, if enough of them have labels without training documents.

        Such labels are rarer than those held out, and harder to score.
        """
        is_unseen = (read.gold >= 0) & ~self.whole.seen[read.gold.clamp(min=0)]
        if not tells_enough(int(is_unseen.any(1).sum()), int(is_unseen.sum())):
            return []
        return [self.example_of_all_labels(self.whole, read)]


def forms_of() -> Callable[[Fold, Mapping[str, float]], Bilinear | Joint]:
    """Returns a function from a fold and choices, "bilinear_l2" and for a joint space "pull", to the form fitted on it.

    Each is fitted once.
    """

    @cache
    def bilinear(fold: Fold, l2: float) -> Bilinear:
        documents, max_iter = _sample(fold)
        return fit_bilinear(documents, fold.labels, l2, max_iter)

    @cache
    def joint(fold: Fold, l2: float, pull: float) -> Joint:
        return fit_joint(_sample(fold)[0], fold.labels, pull, bilinear(fold, l2))

    def form_of(fold: Fold, chosen: Mapping[str, float]) -> Bilinear | Joint:
        if "pull" in chosen:
            return joint(fold, chosen["bilinear_l2"], chosen["pull"])
        return bilinear(fold, chosen["bilinear_l2"])

    return form_of


def _relearned(fold: Fold, relearn: Relearn) -> Fold:
    """Returns a fold with word vectors learned from the documents that it is fitted on."""
    assert fold.train.numbers is not None
    assert fold.others.numbers is not None
    vectors, labels = relearn(fold.train.numbers)
    train = replace(fold.train, vectors=vectors[fold.train.numbers])
    others = replace(fold.others, vectors=vectors[fold.others.numbers])
    return Fold(train, others, labels)


def _sample(fold: Fold) -> tuple[Documents, int]:
    """Returns the documents with vectors that a form is fitted on, and the maximum number of iterations."""
    read = fold.train.is_read.nonzero()[:, 0]
    is_small = fold.train.mostly_read and len(read) * int(fold.seen.sum()) * fold.train.vectors.shape[1] <= LARGEST
    most, max_iter = (_BILINEAR_DOCUMENTS, 40) if is_small else (READ_OF_MANY, 15)
    sample = read[torch.randperm(len(read), generator=torch.Generator().manual_seed(0))[:most]]
    return fold.train.take(sample), max_iter


def _fit_words(regression: WordRegression, fold: Fold, l2: float, uses_names: bool = True) -> csr_matrix:
    """Fits rows of words; those of labels without documents on the documents that name them."""
    return regression.fit(*_word_targets(regression, fold, uses_names), l2)


def _refit_words(regression: WordRegression, fold: Fold, l2: float, fitted: csr_matrix, held: Tensor) -> csr_matrix:
    """Replaces the rows of labels that are `held` out, a `(L,)` mask, of rows `fitted` with all labels."""
    numbers, targets = _word_targets(regression, fold)
    targets = (targets @ diags(held.float().numpy())).tocsr()
    targets.eliminate_zeros()
    return (diags((~held).float().numpy()) @ fitted + regression.fit(numbers, targets, l2)).tocsr()


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


def _count_told(train: Documents, validation: Documents, labels: Tensor) -> int:
    """Returns how many documents the folds leave out that have a label with documents for fitting."""
    train = replace(train, vectors=train.is_read[:, None])
    validation = replace(validation, vectors=validation.is_read[:, None])
    folds = folds_of_documents(train, validation, labels, is_enough=False)
    return sum(int(fold.others.among(fold.seen).has_gold.sum()) for fold in folds)


def _fit_without_choice(documents: Documents, labels: Tensor, compares: bool) -> Head:
    """Fits the sum of rows, a joint space and the cosine to few documents with one label each, without choices.

    Unseen labels, which have no row, get what rows add to the score of the mean document.
    """
    prior = prior_of(one_label=True, shares_words=compares, has_word_rows=False)
    for weights in prior.values():
        weights |= {"joint": 1.0, "cosine": 1.0}
    variance = 1 - documents.vectors.mean(0).square().sum().item()  # small if all vectors have much in common
    chosen = {
        "rows_l2": max(_L2_WITHOUT_CHOICE * variance, L2_OF_ROWS[-1]),
        "bilinear_l2": L2_OF_BILINEAR[0],
        "pull": PULLS[0],
    }
    head = refit_head(documents, labels, chosen, prior)
    of_rows = score_rows(head.rows.take(head.rows.seen), documents.vectors.mean(0, keepdim=True))
    prior["unseen"]["offset"] = of_rows.mean().item()
    return replace(head, fits_validation=True)


def _best(grid: Sequence[float], loss: Callable[[float], float]) -> float:
    """Returns the value with the lowest loss; the search ends after two values without improvement."""
    losses: list[float] = []
    for number in grid:
        losses.append(loss(number))
        if len(losses) - losses.index(min(losses)) > 2:
            break
    return grid[losses.index(min(losses))]
