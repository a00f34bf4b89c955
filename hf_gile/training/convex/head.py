"""Fits the head over vectors of documents and labels, in stages, or at once to few documents.

Shapes: N documents, L labels, P size of a vector.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from scipy.optimize import brentq
from torch import Tensor

from ...models.mixture_gile import Mixture
from .documents import Documents, Fold, folds_of_documents
from .label_side import fit_rows, score_rows
from .stages import (
    L2_OF_BILINEAR,
    L2_OF_ROWS,
    L2_OF_WORDS,
    LARGEST,
    PULLS,
    ROW_STEPS,
    CompareWords,
    ConvexFit,
    Head,
    Regularisation,
    Relearn,
    Stages,
    cached_forms,
    fitting_cost,
)
from .term_weights import Example, TermWeights, fit_term_weights, prior_of
from .word_rows import WordRegression, fit_word_rows

_FEWEST = 100
"""With fewer documents left out, no regularisation is chosen if all documents have a label."""

_L2_WITHOUT_CHOICE = 0.1  # of rows
_STRENGTH_WITHOUT_CHOICE = 1.0  # of the weights of terms, in documents


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
    have_rows = train.mostly_read and fitting_cost(train, labels) <= LARGEST
    have_gold = bool(train.has_gold.all()) and bool(validation.has_gold.all())
    if have_rows and have_gold and _count_informative(train, validation, labels) < _FEWEST:
        return _fit_without_choice(train.joined(validation), labels, one_label, compare is not None, regression)
    return Stages(train, validation, labels, one_label, compare, regression, relearn).run()


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
    max_iter = ROW_STEPS if has_rows else 0
    rows = fit_rows(documents, len(labels), regularisation.rows_l2, max_iter=max_iter)
    form = cached_forms()(fold, regularisation)
    words = None
    if regression is not None and regularisation.words_l2 is not None:
        words = fit_word_rows(regression, fold, regularisation.words_l2, regularisation.parts_weight)
    return Head(rows, form, term_weights, ConvexFit(regularisation, len(documents)), words)


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
    fit = Stages(documents, documents.take(slice(0)), labels, True, None, regression, None)
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
