"""Baseline rows to beat: models of scikit-learn over the words of the same documents, within about a minute.

    tfidf_linear_svm    a linear SVM for each seen label, on TF-IDF
    tfidf_neighbours    instead where labels are too many: the labels of the nearest training documents
    tfidf_cosine        where some labels are unseen: the cosine of a document and a label's words, nothing trained

They are measured as units are; they are not saved and get no card. Rows of the paper's tables are in recipes/baselines.

Shapes: `B` documents of a batch, `N` to train on, `V` words, `L` labels, `T` texts of labels.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.svm import LinearSVC
from torch.nn.utils.rnn import pad_sequence

from ..metrics.on_columns import OnColumns
from ..models.labels_gile import LabelSet
from .experiment import columns_in_test, columns_in_validation, label_metrics, threshold_tuner
from .task import TextTask

Score = Callable[[sparse.csr_matrix], NDArray[np.float64]]
"""Function from `(B, V)` TF-IDF of documents to `(B, L)` scores."""


class Study(Protocol):
    """The part of `hf_gile.training.study.Study` that is used here."""

    task: TextTask
    described: LabelSet
    held_out: set[str]
    num_seen: int
    has_one_label: bool

    def say(self, *words: object) -> None:
        """Prints a line."""


MOST_DOCUMENTS = 400_000
MOST_PRODUCTS = 1_500_000_000
MOST_CELLS = 400_000_000
"""What takes about a minute each: documents whose words are counted; for the SVM, labels times the different words of
all documents and 20 more a document; test documents times training documents or texts of labels."""

NEIGHBOURS = 50
BATCH = 64


def obvious_rows(study: Study, top_k: Sequence[int]) -> dict[str, dict[str, Any]]:
    """Measures the baselines on the test documents of a study, and reports those that would take too long.

    Args:
        study: Documents and labels.
        top_k: Numbers of labels for precision, recall and nDCG.

    Returns:
        By name of the baseline, its entry in results.json: `seconds`, thresholds and `test`, as of a unit.
    """
    labels, seen, number = study.described, study.described[: study.num_seen], len(study.task.parts["train"])
    if number > MOST_DOCUMENTS:
        study.say(f"TF-IDF baselines left out: {number:,} documents take more than a minute")
        return {}
    try:
        words = Words(study)
    except ValueError as error:
        study.say(f"TF-IDF baselines left out: {error}")
        return {}
    results = {}
    cells = len(study.task.parts["test"]) * max(number, words.of_labels.shape[0])
    if len(seen) * (words.of_parts["train"].nnz + 20 * number) <= MOST_PRODUCTS:
        results["tfidf_linear_svm"] = words.measure(linear_svm, seen, top_k)
    else:
        study.say(f"tfidf_linear_svm left out: {len(seen):,} labels x {number:,} documents take more than a minute")
        if cells <= MOST_CELLS:
            results["tfidf_neighbours"] = words.measure(neighbours, seen, top_k)
    if len(labels) > len(seen) and cells <= MOST_CELLS:
        results["tfidf_cosine"] = words.measure(cosine, labels, top_k)
    times = (f"{name} {result['seconds']:.0f} s" for name, result in results.items())
    study.say(f"rows by scikit-learn, in the table below: {', '.join(times) or 'none in a minute'}")
    return results


class Words:
    """TF-IDF of the documents and labels of a study: 1 + log count times idf of the training documents, of length 1.

    Args:
        study: Documents and labels.

    Attributes:
        of_parts: `(documents, V)` of each part.
        of_labels: `(T, V)` of all texts of the labels: name, synonyms, description.
        first: `(L,)` rows of the names.

    Raises:
        ValueError: No text has a word.
    """

    def __init__(self, study: Study) -> None:
        start = time.perf_counter()
        self.study, task, self.one_label = study, study.task, study.has_one_label
        texts = [[one.name, *one.synonyms, *filter(None, [one.description])] for one in study.described]
        self.first = np.cumsum([0, *map(len, texts[:-1])])
        counter, idf = CountVectorizer(), TfidfTransformer(sublinear_tf=True)
        counts = counter.fit_transform(chain(task.texts("train"), chain.from_iterable(texts)))
        number = len(task.parts["train"])
        self.of_parts = {"train": idf.fit_transform(counts[:number])}
        self.of_labels = idf.transform(counts[number:])
        for part in ("validation", "test"):
            self.of_parts[part] = idf.transform(counter.transform(task.texts(part)))
        self.seconds = time.perf_counter() - start

    def columns(self, part: str, labels: LabelSet, name: str) -> list[list[int]]:
        """Returns the label indices of each document of a part.

        Args:
            part: The part.
            labels: Other labels are left out.
            name: The column of the lists of label ids.
        """
        rows, column_of = self.study.task.parts[part], {label.id: column for column, label in enumerate(labels)}
        if name not in rows.column_names:
            return [[]] * len(rows)
        return [[column_of[one] for one in dict.fromkeys(ids) if one in column_of] for ids in rows[name]]

    def targets(self, labels: LabelSet) -> sparse.csc_matrix:
        """`(N, L)` gold labels of the training documents."""
        gold = self.columns("train", labels, self.study.task.gold)
        ends, columns = np.cumsum([0, *map(len, gold)]), np.fromiter(chain.from_iterable(gold), dtype=np.int64)
        return sparse.csr_matrix((np.ones(len(columns)), columns, ends), (len(gold), len(labels))).tocsc()

    def measure(
        self, fit: Callable[["Words", LabelSet], Score], labels: LabelSet, top_k: Sequence[int]
    ) -> dict[str, Any]:
        """Fits a baseline, chooses its thresholds on validation documents and measures it on test documents.

        Args:
            fit: Makes the function that scores.
            labels: The labels that it scores.
            top_k: Numbers of labels for precision, recall and nDCG.
        """
        start, held_out = time.perf_counter(), self.study.held_out
        thresholds: dict[str, float] = {}
        score = fit(self, labels)
        seconds = self.seconds + time.perf_counter() - start
        if not self.one_label:
            tuner = threshold_tuner(labels, columns_in_validation(labels, held_out))
            tuned = self.figures("validation", score, labels, tuner)
            thresholds |= {name: tuned[name] for name in ("threshold", "unseen_threshold") if name in tuned}
        metrics = label_metrics(
            labels,
            columns_in_test(labels, held_out),
            **thresholds,
            top_k=(1, 3, *top_k),
            num_documents=self.of_parts["train"].shape[0],
            one_label=self.one_label,
        )
        test = self.figures("test", score, labels, metrics)
        return {"seconds": seconds, **thresholds, "test": {f"test_{name}": value for name, value in test.items()}}

    def figures(self, part: str, score: Score, labels: LabelSet, metric: OnColumns) -> dict[str, float]:
        """Computes a metric over the scores of a part; with one label per document, over documents with a label."""
        gold, excluded = (self.columns(part, labels, name) for name in (self.study.task.gold, "excluded"))
        rows = [row for row, columns in enumerate(gold) if columns or not self.one_label]
        for start in range(0, len(rows), BATCH):
            batch = rows[start : start + BATCH]
            scores = torch.from_numpy(np.ascontiguousarray(score(self.of_parts[part][batch]), dtype=np.float32))
            for place, row in enumerate(batch):
                scores[place, excluded[row]] = -torch.inf
            metric.update(scores, pad_sequence([torch.tensor([*gold[row], -100]) for row in batch], True, -100))
        return metric.compute()


def linear_svm(words: Words, labels: LabelSet) -> Score:
    """Fits `LinearSVC` with its defaults for each label against the others, and ranks by its decision function."""
    texts, targets = words.of_parts["train"], words.targets(labels)
    weights, biases = np.zeros((texts.shape[1], len(labels))), np.ones(len(labels))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about labels that have not converged after 1,000 passes
        for column in range(len(labels)):
            target = targets[:, [column]].toarray().ravel()
            if not target.all():  # a label of every document has no negatives
                fitted = LinearSVC(random_state=0).fit(texts, target)
                weights[:, column], biases[column] = fitted.coef_[0], fitted.intercept_[0]
    return lambda documents: documents @ weights + biases


def neighbours(words: Words, labels: LabelSet) -> Score:
    """Scores a label by its share of the squared cosines of the 50 nearest training documents."""
    texts, targets = words.of_parts["train"].T.tocsr(), words.targets(labels).tocsr()
    number = min(NEIGHBOURS, texts.shape[1])

    def score(documents: sparse.csr_matrix) -> NDArray[np.float64]:
        squares = (documents @ texts).toarray() ** 2  # (B, N)
        squares[squares < -np.partition(-squares, number - 1)[:, number - 1 : number]] = 0
        shares = squares / np.maximum(squares.sum(axis=1, keepdims=True), 1e-9)
        return (sparse.csr_matrix(shares) @ targets).toarray()

    return score


def cosine(words: Words, labels: LabelSet) -> Score:
    """Scores by the cosine with the name of a label, plus the highest cosine with any of its texts."""
    texts = words.of_labels.T.tocsr()

    def score(documents: sparse.csr_matrix) -> NDArray[np.float64]:
        cosines = (documents @ texts).toarray()  # (B, T)
        return cosines[:, words.first] + np.maximum.reduceat(cosines, words.first, axis=1)

    return score
