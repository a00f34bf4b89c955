"""`GileClassifier`: a scikit-learn estimator with the defaults of `hf-gile train` (extra `train`)."""

import io
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import fields, replace
from itertools import chain
from os import PathLike
from pathlib import Path
from reprlib import repr as shortened
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from transformers import TrainingArguments

from .data.joined_labels import joined_by
from .data.label_cells import are_lists, has_lists, sign_of_bits
from .data.label_columns import LabelColumn, see
from .data.zero_shot import hash_order, seen_first
from .extras import needs_extra
from .models.labels_gile import Label, LabelSet
from .models.search_gile import calibrated
from .writing import new_files

with needs_extra("train", "GileClassifier"):
    import datasets
    import pandas
    from scipy.sparse import csr_matrix, issparse
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import Tags
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, column_or_1d

Labels = Mapping[Any, str] | LabelSet | Iterable[Any] | None
"""Labels as a `LabelSet`, a mapping of labels to descriptions, a list of labels, or None."""

Targets = Sequence[Any] | NDArray[Any]
"""The labels of texts, in a form that `GileClassifier` accepts."""


class GileClassifier(ClassifierMixin, BaseEstimator):
    """Classifies texts by the meaning of the labels, including labels without training documents.

    It takes lists of texts and works like any text classifier: as the last step of a `Pipeline`, in `cross_val_score`
    and in `GridSearchCV`. The labels `y` can be

    - a list with a label for each text: single-label classification, probabilities sum to 1;
    - a list of lists of labels: multi-label classification;
    - a dense or sparse indicator matrix of zeros and ones, as `MultiLabelBinarizer` returns it and scikit-learn scorers
      expect it; `labels` or the columns of a data frame name its columns.

    `predict` returns labels in the same form.

    Args:
        labels: Names and optional descriptions of labels, or a `LabelSet` whose ids are the labels. Labels without
            training documents are scored too. By default, labels are described by their names only.
        text_encoder: As `--text_encoder` of `hf-gile train`: a name, a folder, "words" or "auto".
        settings: Further settings of `hf-gile train`, or of `transformers.TrainingArguments`, by name.
        validation: Fraction of the documents held out to choose regularisation and to fit calibration and thresholds. A
            document is held out only if other documents have its labels.
        batch_size: Number of texts scored together.
        random_state: Seed of the validation split and of training.
        verbose: Whether to show the progress of training.

    Attributes:
        classes_: The labels in column order: labels of training documents first.
        labels_: The same labels as a `LabelSet`.
        model_: The `GileForSequenceClassification`.
        processor_: The `GileProcessor` of the model.

    Example:
        ```python
        from hf_gile.sklearn import GileClassifier

        model = GileClassifier(labels={"Iron": "a metal in blood"})
        model.fit(texts, [["Iron"], ["Rats", "Iron"], ...])
        model.add_labels({"Copper": "a metal, as in wires"})
        model.predict_proba(["Rats were fed a diet low in copper."])
        ```
    """

    def __init__(
        self,
        labels: Labels = None,
        *,
        text_encoder: str | None = "auto",
        settings: Mapping[str, Any] | None = None,
        validation: float = 0.1,
        batch_size: int = 32,
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.labels = labels
        self.text_encoder = text_encoder
        self.settings = settings
        self.validation = validation
        self.batch_size = batch_size
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        """Declares that inputs are texts."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.input_tags.string = True
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Sequence[str], y: Targets) -> "GileClassifier":
        """Trains a model, which does not depend on the order of the texts.

        Args:
            X: Texts.
            y: Labels of the texts.

        Raises:
            ValueError: If there are no texts, the numbers of texts and labels differ, a label is missing from `labels`,
                there are too few documents or labels, or a setting does not exist.
        """
        from .training.fit import fit
        from .training.study import Study
        from .training.task import TextTask

        texts = _check_texts(X)
        number = csr_matrix(y).shape[0] if issparse(y) else len(y)
        if number != len(texts):
            raise ValueError(f"y must have labels for each of the {len(texts)} texts, got {number}")
        gold, known = self._read_labels(y)
        order = hash_order(texts, gold)
        texts = [texts[row] for row in order]
        gold = [gold[row] for row in order]
        is_validation = _select_validation(gold, self.validation, self.random_state)
        parts = {}
        for part, value in (("train", False), ("validation", True)):
            rows = np.flatnonzero(is_validation == value)
            parts[part] = datasets.Dataset.from_dict(
                {"text": [texts[row] for row in rows], "labels": [gold[row] for row in rows]}
            )
        counts = Counter(chain.from_iterable(parts["train"]["labels"]))
        labels = seen_first(LabelSet(known.values()), counts)
        with tempfile.TemporaryDirectory() as folder, nullcontext() if self.verbose else _silence_training():
            study = Study(*self._settings(folder), TextTask(parts, labels, cut=["validation"]))
            experiment = fit(study)
            study.calibrate(experiment)
            study.fit_again(experiment)
        self.model_ = experiment.model.cpu().eval()
        self.processor_ = experiment.processor
        # Columns keep the order of `known`, as indicator matrices need.
        ordered = [self.model_.label_set[labels.column(label_id)] for label_id in known]
        self.model_.set_labels(LabelSet(ordered), self.processor_)
        return self

    def _read_labels(self, y: Targets) -> tuple[list[list[str]], dict[str, Label]]:
        """Returns the label ids of each document, and all labels. Sets `classes_` and the form of predictions."""
        label_map = {label.id: label for label in _make_labels(self.labels)}
        table: Any = None
        if issparse(y):
            table = y
        elif not _are_lists(y):
            table = np.asarray(y)
        is_matrix = table is not None and table.ndim == 2 and table.shape[1] != 1
        if table is not None and not is_matrix:
            if table.ndim == 1:
                for row in np.flatnonzero([pandas.isna(cell) or cell == "" for cell in table])[:1]:
                    raise ValueError(f"y[{row}] is missing: leave out texts without a label, or pass lists of labels")
            check_classification_targets(table)
            if table.ndim == 2:
                table = column_or_1d(table, warn=True)
        if is_matrix:
            names = [str(column) for column in getattr(y, "columns", range(table.shape[1]))]
            if label_map and not label_map.keys() >= set(names):
                names = list(label_map)
            if table.shape[1] > len(names):
                raise ValueError(
                    f"y has {table.shape[1]} columns, but labels has {len(names)}: name the label of each column"
                )
            rows = _read_flags(table)
            gold = [[names[column] for column in rows[row].indices] for row in range(rows.shape[0])]
            classes: list[Any] = names
            self._form = "sparse" if issparse(y) else "table"
        elif table is not None and _see_cells(table).form == "plain":
            classes = np.unique(table).tolist()
            gold = [[str(label)] for label in table.tolist()]
            self._form = "single"
            if label_map and label_map.keys().isdisjoint(map(str, classes)) and not isinstance(classes[0], str):
                raise ValueError("y has numbers, and labels names: pass names, as in [labels[number] for number in y]")
            if len(classes) + len(label_map.keys() - set(map(str, classes))) < 2:
                raise ValueError(f"y has only one class, {classes}: at least two classes are needed")
        else:
            gold = _read_cells(list(y))
            self._form = "lists"
            classes = sorted(set(chain.from_iterable(gold)))
        if isinstance(self.labels, LabelSet):
            for label in classes:
                self.labels.column(str(label))  # raises an error that names the missing label
        known = {label_id: label_map.get(label_id, Label(label_id, label_id)) for label_id in map(str, classes)}
        others = [label_id for label_id in label_map if label_id not in known]
        self.classes_ = np.array([*classes, *others], dtype=None if self._form == "single" and not others else object)
        return gold, known | label_map

    def _settings(self, folder: str) -> tuple[Any, TrainingArguments]:
        """Returns the defaults of `hf-gile train`, updated by `settings`."""
        from .training.options import STEPS, Options

        requested = {"text_encoder": self.text_encoder, **(self.settings or {})}
        model_names = {field.name for field in fields(Options)}
        training_names = {field.name for field in fields(TrainingArguments)} - {"output_dir"}
        if unknown := [name for name in requested if name not in model_names | training_names]:
            raise ValueError(f"settings: hf-gile train has no setting {', '.join(unknown)}; --help_all lists them")
        settings: dict[str, Any] = {
            "baselines": False,
            "make_cards": False,
            "problem_type": f"{'single' if self._form == 'single' else 'multi'}_label_classification",
            **{name: requested[name] for name in requested if name in model_names},
        }
        steps: dict[str, Any] = {
            **STEPS,
            "seed": self.random_state,
            "disable_tqdm": not self.verbose,
            **{name: requested[name] for name in requested if name in training_names},
        }
        options = Options(**settings)
        args = TrainingArguments(folder, **steps)
        options.check(args)
        return options, args

    def add_labels(self, labels: Labels) -> "GileClassifier":
        """Appends labels after `fit`, without training. They are scored by their text.

        Args:
            labels: The labels, in a form that the parameter `labels` accepts.

        Raises:
            ValueError: If a label already exists, or is not valid in a `LabelSet`.
        """
        check_is_fitted(self)
        new = _make_labels(labels)
        unseen = (replace(label, seen=False, count=0) for label in new)
        self.model_.set_labels(self.labels_.add(*unseen), self.processor_)
        self.classes_ = np.array([*self.classes_.tolist(), *(label.id for label in new)], dtype=object)
        return self

    @property
    def labels_(self) -> LabelSet:
        """Returns the labels in column order."""
        return self.model_.label_set

    @torch.no_grad()
    def _logits(self, X: Sequence[str]) -> torch.Tensor:
        """Computes `(N, L)` calibrated logits."""
        check_is_fitted(self)
        texts = _check_texts(X)
        model = self.model_
        batches = (texts[start : start + self.batch_size] for start in range(0, len(texts), self.batch_size))
        logits = [model(**self.processor_(text=list(batch), return_tensors="pt")).logits for batch in batches]
        return calibrated(torch.cat(logits), model.stored_labels.seen(), model.config.calibration)

    def decision_function(self, X: Sequence[str]) -> NDArray[np.float32]:
        """Computes calibrated logits of texts: `(N, L)`, or `(N,)` of the second class in binary classification."""
        logits = self._logits(X).numpy()
        return logits[:, 1] - logits[:, 0] if self._form == "single" and logits.shape[1] == 2 else logits

    def predict_proba(self, X: Sequence[str]) -> NDArray[np.float32]:
        """Computes `(N, L)` probabilities of texts in the order of `classes_`."""
        logits = self._logits(X)
        return (logits.softmax(1) if self._form == "single" else logits.sigmoid()).numpy()

    def predict(self, X: Sequence[str]) -> Any:
        """Predicts the most probable label of each text, or for multi-label problems the labels above their thresholds.

        If every training document had a label, a text without a label above its threshold gets the most probable one.

        Returns:
            Labels in the form of `y` in `fit`.
        """
        probabilities = self.predict_proba(X)
        if self._form == "single":
            return self.classes_[probabilities.argmax(1)]
        passing = probabilities >= self.model_.stored_labels.thresholds().numpy()
        if self.model_.config.force_label:
            without = np.flatnonzero(~passing.any(1))
            passing[without, probabilities[without].argmax(1)] = True
        if self._form == "lists":
            return [self.classes_[row].tolist() for row in passing]
        return csr_matrix(passing.astype(int)) if self._form == "sparse" else passing.astype(int)

    def score(self, X: Sequence[str], y: Targets, sample_weight: Sequence[float] | None = None) -> float:
        """Computes the fraction of texts whose labels are all correct, by the weight of each text, if any."""
        check_is_fitted(self)
        if self._form != "lists":
            return float(super().score(X, y, sample_weight))
        pairs = zip(_read_cells(list(y)), self.predict(X), strict=True)
        is_correct = [set(gold) == set(predicted) for gold, predicted in pairs]
        return float(np.average(is_correct, weights=sample_weight))

    def save_pretrained(self, folder: str | PathLike[str]) -> None:
        """Saves the model as `hf-gile train` does, for `pipeline(...)`, `hf-gile score` and the Hub."""
        check_is_fitted(self)
        with new_files(Path(folder)) as new:
            self.model_.save_pretrained(new)
            self.processor_.save_pretrained(new)


@contextmanager
def _silence_training() -> Iterator[None]:
    """Silences training and the libraries it uses."""
    from .training.encoding import shows_progress, without_bars

    has_bars = transformers.utils.logging.is_progress_bar_enabled()
    shown = shows_progress.set(False)
    transformers.utils.logging.disable_progress_bar()
    try:
        with redirect_stdout(io.StringIO()), without_bars():
            yield
    finally:
        shows_progress.reset(shown)
        if has_bars:
            transformers.utils.logging.enable_progress_bar()


def _make_labels(labels: Labels) -> list[Label]:
    if isinstance(labels, LabelSet):
        return list(labels)
    if isinstance(labels, str):
        raise ValueError(
            f"labels must be a list of labels, or a mapping of labels to descriptions, got the string {labels!r}"
        )
    if labels is None:
        labels = ()
    described = labels.items() if isinstance(labels, Mapping) else ((label, "") for label in labels)
    return [Label(str(label), str(label), text) for label, text in described]


def _see_cells(cells: Sequence[Any]) -> LabelColumn:
    """Sees whether labels are lists, also as text; refuses texts that look like several labels."""
    texts = [str(cell) for cell in cells if isinstance(cell, str)]
    are_several = are_lists(texts) or has_lists(texts) or sign_of_bits(texts) is not None
    column = see([{"y": _as_list(cell)} for cell in cells], ("y",), None if are_several else "none")
    if column.form == "plain" and (sign := joined_by(texts)) is not None:
        raise ValueError(f"y: {texts[0]!r} looks like several labels joined by {sign!r}: split it into a list")
    return column


def _read_cells(cells: Sequence[Any]) -> list[list[str]]:
    column = _see_cells(cells)
    return [column.read({"y": _as_list(cell)}) for cell in cells]


def _as_list(cell: object) -> object:
    return list(cell) if isinstance(cell, set | frozenset | np.ndarray) else cell


def _are_lists(y: Targets) -> bool:
    """Checks whether labels are lists of labels, not of zeros and ones."""
    if isinstance(y, np.ndarray) and not (y.ndim == 1 and y.dtype == object):
        return False
    rows = list(y)
    lists = (list, tuple, set, frozenset, np.ndarray, Mapping)
    others = [row for row, cell in enumerate(rows) if not isinstance(cell, lists)]
    if 0 < len(others) < len(rows):
        cell = shortened(rows[others[0]])
        raise ValueError(f"y[{others[0]}] is {cell}, but others are lists: pass a list for each text, [] for no label")
    return bool(rows) and not others and not _is_table(rows)


def _is_table(rows: Sequence[Any]) -> bool:
    is_even = len({len(row) for row in rows}) == 1
    cells = [value for row in rows for value in row]
    return is_even and bool(cells) and all(isinstance(cell, int | np.integer) and cell in (0, 1) for cell in cells)


def _read_flags(table: NDArray[Any] | csr_matrix) -> csr_matrix:
    """Returns a table of zeros and ones as a sparse matrix, whose indices are the ones."""
    try:
        rows = csr_matrix(table if issparse(table) else table.astype(float))
    except (TypeError, ValueError):
        raise ValueError(
            "y: a table must have zeros and ones, got cells of other types: pass lists of labels"
        ) from None
    rows.eliminate_zeros()
    for number in rows.data[rows.data != 1][:1]:
        raise ValueError(f"y: a table must have zeros and ones, got {number}: pass y > 0.5, or lists of labels")
    return rows


def _check_texts(X: Sequence[str]) -> list[str]:
    if isinstance(X, str) or not hasattr(X, "__len__") or getattr(X, "ndim", 1) != 1 or hasattr(X, "columns"):
        raise ValueError(f"X must be a list of texts, got {type(X).__name__}; for a table, pass its column of texts")
    texts = list(X)
    if not texts:
        raise ValueError("X must be a list of texts, got an empty list (0 samples)")
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"X must be a list of texts: X[{row}] is of type {type(text).__name__}")
    return texts


def _select_validation(gold: Sequence[Sequence[str]], share: float, seed: int) -> NDArray[np.bool_]:
    """Selects validation documents such that labels keep some for training, unless none has two."""
    if not 0 < share < 1:
        raise ValueError(f"validation must be a fraction between 0 and 1, got {share}")
    remaining = Counter(chain.from_iterable(gold))
    selected = np.zeros(len(gold), bool)
    missing = max(1, round(share * len(gold)))
    order = np.random.default_rng(seed).permutation(len(gold)).tolist()
    for row in order:
        if missing and all(remaining[label_id] > 1 for label_id in gold[row]):
            selected[row] = True
            missing -= 1
            remaining.subtract(gold[row])
    labelled = [row for row in order if gold[row]]
    if not selected[labelled].any():
        if len(labelled) < 3:
            raise ValueError(f"{len(labelled)} documents with labels are too few: add texts, or score without training")
        selected[labelled[0]] = True
    return selected
