"""Measures scikit-learn baselines on TF-IDF of the same documents, within about a minute.

    tfidf_linear_svm    a linear SVM for each seen label
    tfidf_neighbours    if there are too many labels for an SVM: the labels of the nearest training documents
    tfidf_cosine        if some labels are unseen: the cosine of a document with label texts, without training

They are measured like units, but not saved, and have no card. Baselines of the paper's tables are in baselines.

Shapes: `B` documents of a batch, `N` training documents, `V` words, `L` labels, `T` label texts.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from papers.threshold_tuner import ThresholdTuner
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.svm import LinearSVC
from torch.nn.utils.rnn import pad_sequence

from hf_gile import LabelSet
from hf_gile.metrics import propensities
from hf_gile.metrics.label_metrics import LabelMetrics
from hf_gile.metrics.trainer import OnColumns
from hf_gile.training.experiment import columns_in_test, columns_in_validation
from hf_gile.training.options import TOP_K
from hf_gile.training.study import Study

Score = Callable[[sparse.csr_matrix], NDArray[np.float64]]
"""Function from `(B, V)` TF-IDF of documents to `(B, L)` scores."""


MAX_DOCUMENTS = 400_000
"""Number of documents whose words are counted in about a minute."""

MAX_PRODUCTS = 1_500_000_000
"""Size of a linear SVM that takes about a minute: labels times the distinct words per document, plus 20, summed."""

MAX_CELLS = 400_000_000
"""Number of cosines computed in about a minute: test documents times training documents or label texts."""

NEIGHBOURS = 50
BATCH = 64


def measure_obvious_rows(study: Study) -> None:
    """Adds the baselines to the results of a study, unless its options disable this.

    Args:
        study: Documents and labels.
    """
    if study.options.baselines and study.args.process_index == 0:
        study.results |= obvious_rows(study, TOP_K)


def obvious_rows(study: Study, top_k: Sequence[int]) -> dict[str, dict[str, Any]]:
    """Measures the baselines on the test documents of a study, and prints which would take too long.

    Args:
        study: Documents and labels.
        top_k: Numbers of labels for precision, recall and nDCG.

    Returns:
        The entry of each baseline in results.json, as for a unit: `seconds`, thresholds and `test`.
    """
    labels = study.described
    seen = study.described[: study.num_seen]
    number = len(study.task.parts["train"])
    if number > MAX_DOCUMENTS:
        study.say(f"TF-IDF baselines left out: {number:,} documents take more than a minute")
        return {}
    try:
        words = Words(study)
    except ValueError as error:
        study.say(f"TF-IDF baselines left out: {error}")
        return {}
    results = {}
    cells = len(study.task.parts["test"]) * max(number, words.label_texts.shape[0])
    if len(seen) * (words.documents["train"].nnz + 20 * number) <= MAX_PRODUCTS:
        results["tfidf_linear_svm"] = words.measure(linear_svm, seen, top_k)
    else:
        study.say(f"tfidf_linear_svm left out: {len(seen):,} labels x {number:,} documents take more than a minute")
        if cells <= MAX_CELLS:
            results["tfidf_neighbours"] = words.measure(neighbours, seen, top_k)
    if len(labels) > len(seen) and cells <= MAX_CELLS:
        results["tfidf_cosine"] = words.measure(cosine, labels, top_k)
    times = (f"{name} {result['seconds']:.0f} s" for name, result in results.items())
    study.say(f"scikit-learn baselines, in the table of results: {', '.join(times) or 'none within a minute'}")
    return results


class Words:
    """TF-IDF vectors of the documents and labels of a study: (1 + log count) x idf, normalized.

    Args:
        study: Documents and labels.

    Attributes:
        documents: `(documents, V)` for each part.
        label_texts: `(T, V)` for all texts of the labels: name, synonyms, description.
        name_rows: `(L,)` rows of the names in `label_texts`.

    Raises:
        ValueError: If no text contains a word.
    """

    def __init__(self, study: Study) -> None:
        start = time.perf_counter()
        self.study = study
        task = study.task
        self.one_label = study.has_one_label
        texts = [[label.name, *label.synonyms, *filter(None, [label.description])] for label in study.described]
        self.name_rows = np.cumsum([0, *map(len, texts[:-1])])
        counter = CountVectorizer()
        idf = TfidfTransformer(sublinear_tf=True)
        counts = counter.fit_transform(chain(task.texts("train"), chain.from_iterable(texts)))
        number = len(task.parts["train"])
        self.documents = {"train": idf.fit_transform(counts[:number])}
        self.label_texts = idf.transform(counts[number:])
        for part in ("validation", "test"):
            self.documents[part] = idf.transform(counter.transform(task.texts(part)))
        self.seconds = time.perf_counter() - start

    def columns(self, part: str, labels: LabelSet, name: str) -> list[list[int]]:
        """Returns the label indices of each document of a part.

        Args:
            part: The part.
            labels: The labels; ids of other labels are ignored.
            name: Column with the lists of label ids.
        """
        rows = self.study.task.parts[part]
        indices = {label.id: column for column, label in enumerate(labels)}
        if name not in rows.column_names:
            return [[]] * len(rows)
        return [[indices[label_id] for label_id in dict.fromkeys(ids) if label_id in indices] for ids in rows[name]]

    def targets(self, labels: LabelSet) -> sparse.csc_matrix:
        """Returns the `(N, L)` gold labels of the training documents."""
        gold = self.columns("train", labels, self.study.task.gold)
        ends = np.cumsum([0, *map(len, gold)])
        columns = np.fromiter(chain.from_iterable(gold), dtype=np.int64)
        return sparse.csr_matrix((np.ones(len(columns)), columns, ends), (len(gold), len(labels))).tocsc()

    def measure(
        self, fit: Callable[["Words", LabelSet], Score], labels: LabelSet, top_k: Sequence[int]
    ) -> dict[str, Any]:
        """Fits a baseline, chooses its thresholds on validation documents and measures it on test documents.

        Args:
            fit: Fits a baseline and returns its score function.
            labels: The labels to score.
            top_k: Numbers of labels for precision, recall and nDCG.
        """
        start = time.perf_counter()
        held_out = self.study.held_out
        thresholds: dict[str, float] = {}
        score = fit(self, labels)
        seconds = self.seconds + time.perf_counter() - start
        if not self.one_label:
            columns = columns_in_validation(labels, held_out)
            tuner = ThresholdTuner(len(columns), seen=[labels[column].seen for column in columns])
            tuned = self.evaluate("validation", score, labels, OnColumns(tuner, columns))
            thresholds |= {name: tuned[name] for name in ("threshold", "unseen_threshold") if name in tuned}
        columns = columns_in_test(labels, held_out)
        seen = [labels[column].seen for column in columns]
        threshold = thresholds.get("threshold", 0.5)
        counts = np.array([labels[column].count for column in columns])
        metrics = LabelMetrics(
            len(columns),
            None if all(seen) else seen,
            np.where(seen, threshold, thresholds.get("unseen_threshold", threshold)),
            top_k=(1, 3, *top_k),
            propensities=propensities(counts, self.documents["train"].shape[0]),
            one_label=self.one_label,
        )
        test = self.evaluate("test", score, labels, OnColumns(metrics, columns))
        return {"seconds": seconds, **thresholds, "test": {f"test_{name}": value for name, value in test.items()}}

    def evaluate(self, part: str, score: Score, labels: LabelSet, metric: OnColumns) -> dict[str, float]:
        """Computes a metric over a part; with single-label documents, only over those whose label is known.

        Without such documents, the accuracy is NaN. Ties count against the gold label of single-label documents, as in
        ranking metrics.
        """
        gold, excluded = (self.columns(part, labels, name) for name in (self.study.task.gold, "excluded"))
        rows = [row for row, columns in enumerate(gold) if columns or not self.one_label]
        if not rows:
            return {"accuracy": np.nan}
        for start in range(0, len(rows), BATCH):
            batch = rows[start : start + BATCH]
            scores = torch.from_numpy(np.ascontiguousarray(score(self.documents[part][batch]), dtype=np.float32))
            for position, row in enumerate(batch):
                scores[position, excluded[row]] = -torch.inf
            if self.one_label:  # the next float64 is below equal scores, but above the next float32
                scores = scores.double()
                cells = torch.arange(len(batch)), torch.tensor([gold[row][0] for row in batch])
                scores[cells] = scores[cells].nextafter(torch.tensor(-torch.inf).double())
            metric.update(scores, pad_sequence([torch.tensor([*gold[row], -100]) for row in batch], True, -100))
        return metric.compute()


def linear_svm(words: Words, labels: LabelSet) -> Score:
    """Fits a `LinearSVC` with default parameters per label, one-vs-rest, and scores by its decision function."""
    texts = words.documents["train"]
    targets = words.targets(labels)
    weights = np.zeros((texts.shape[1], len(labels)))
    biases = np.ones(len(labels))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ConvergenceWarning: some labels do not converge in 1,000 iterations
        for column in range(len(labels)):
            target = targets[:, [column]].toarray().ravel()
            if not target.all():  # a label that all documents have has no negatives
                fitted = LinearSVC(random_state=0).fit(texts, target)
                weights[:, column] = fitted.coef_[0]
                biases[column] = fitted.intercept_[0]
    return lambda documents: documents @ weights + biases


def neighbours(words: Words, labels: LabelSet) -> Score:
    """Scores a label by its share of the squared cosines of the 50 nearest training documents."""
    texts = words.documents["train"].T.tocsr()
    targets = words.targets(labels).tocsr()
    number = min(NEIGHBOURS, texts.shape[1])

    def score(documents: sparse.csr_matrix) -> NDArray[np.float64]:
        squares = (documents @ texts).toarray() ** 2  # (B, N)
        squares[squares < -np.partition(-squares, number - 1)[:, number - 1 : number]] = 0
        shares = squares / np.maximum(squares.sum(axis=1, keepdims=True), 1e-9)
        return (sparse.csr_matrix(shares) @ targets).toarray()

    return score


def cosine(words: Words, labels: LabelSet) -> Score:
    """Scores by the cosine with the name of a label, plus the highest cosine with any of its texts."""
    texts = words.label_texts.T.tocsr()

    def score(documents: sparse.csr_matrix) -> NDArray[np.float64]:
        cosines = (documents @ texts).toarray()  # (B, T)
        return cosines[:, words.name_rows] + np.maximum.reduceat(cosines, words.name_rows, axis=1)

    return score
