"""Checks that configurations set only fields that are used by their kind of model."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from transformers import PreTrainedConfig

from .models import GileConfig, GileTextConfig

PRETRAINED_DEFAULTS: dict[str, dict[str, Any]] = {
    "transformer": {"pooling": "mean"},
    "hierarchical_transformer": {"pooling": "mean", "encoder_cell": "none", "max_sentences": 16},
}
"""Types of pretrained text encoders and their default settings in `hf_gile.training.model_from_text_encoder`."""


def only_read(**fields: Any) -> dict[str, Any]:
    """Drops fields that have no effect, which a configuration would refuse.

    Args:
        fields: Fields of `GileConfig` and `GileTextConfig`; for a pretrained encoder, those of
            `hf_gile.training.model_from_text_encoder`, with its defaults.

    Returns:
        The fields that have an effect.

    Example:
        >>> only_read(text_encoder_type="nn", hidden_size=50, embedding_size=30)
        {'text_encoder_type': 'nn', 'embedding_size': 30}
    """
    starts = PRETRAINED_DEFAULTS.get(fields.get("text_encoder_type", ""), {})
    values = {**_default_values(GileTextConfig), **_default_values(GileConfig), **starts, **fields}
    unread = _unread_of_text(values) | _unread_of_head(values)
    return {name: value for name, value in fields.items() if name not in unread}


def _shareable_parts(fields: Mapping[str, Any]) -> set[str]:
    """Returns the parts of a text encoder that languages can share."""
    kind = fields["text_encoder_type"]
    has_cell = kind not in ("nn", "transformer") and fields["encoder_cell"] != "none"
    attends = kind not in ("nn", "hnn") and (kind == "hierarchical_transformer" or fields["pooling"] == "attention")
    return {name for name, is_there in (("encoders", has_cell), ("attention", attends)) if is_there}


def _unread_of_text(fields: Mapping[str, Any]) -> dict[str, str]:
    """Returns the fields of a `GileTextConfig` without effect, and their missing requirements."""
    kind, parts = fields["text_encoder_type"], _shareable_parts(fields)
    words = kind not in PRETRAINED_DEFAULTS
    attends, is_dense = "attention" in parts, "encoders" in parts and fields["encoder_cell"] == "dense"
    sentences = kind in ("hnn", "han", "hierarchical_transformer")
    readers = {
        "encoder_cell": (kind not in ("nn", "transformer"), "another text_encoder_type"),
        "hidden_size": ("encoders" in parts, "a text encoder with an encoder_cell"),
        "attention_size": (attends, "attention"),
        "hidden_act": (attends or is_dense, "attention, or a dense encoder_cell"),
        "pooling": (kind not in ("nn", "hnn"), "another text_encoder_type"),
        "freeze_text_encoder": (not words, "a pretrained encoder"),
        "embedding_std": (words, "word vectors, not a pretrained encoder"),
        "word_dropout": (words, "word vectors, not a pretrained encoder"),
        "max_words": (not sentences, "a text encoder that does not read sentences"),
        "max_sentences": (sentences, "a text encoder that reads sentences"),
        "max_sentence_words": (sentences, "a text encoder that reads sentences"),
    }
    return {name: reader for name, (is_read, reader) in readers.items() if not is_read}


def _unread_of_head(fields: Mapping[str, Any]) -> dict[str, str]:
    """Does the same for a `GileConfig`, from its fields and those of its `text_config`."""
    layer, parts = fields["output_layer"], _shareable_parts(fields)
    shared = {part for part in parts if fields["sharing"] in (part, "both")}
    reads_labels = (
        layer != "linear" and fields["text_encoder_type"] != "nn"
    )  # the mean of words is already the label encoder
    readers = {
        "joint_size": (layer in ("gile", "bilinear_yh15"), "output_layer 'gile'"),
        "joint_act": (layer not in ("linear", "bilinear"), "output_layer 'gile'"),
        "joint_dropout": (layer != "linear", "a joint embedding"),
        "label_encoder_type": (reads_labels, "an output_layer that reads labels, and not the mean of words, 'nn'"),
        "cosine_scale": (fields["cosine_score"], "cosine_score"),
        "term_weights": (layer != "linear", "a joint embedding"),
        "sharing": (
            bool(fields["languages"]) and shared != parts & {"attention"},
            f"languages, and a text encoder with these parts (it has {' and '.join(sorted(parts)) or 'none'})",
        ),
        "share_joint_space": (bool(fields["languages"]) and layer != "linear", "languages and a joint embedding"),
    }
    return {name: reader for name, (is_read, reader) in readers.items() if not is_read}


def _default_values(config: type[PreTrainedConfig]) -> dict[str, Any]:
    """Returns the default values of the fields of a configuration class."""
    return {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(config)
    }


def check_choices(config: PreTrainedConfig) -> None:
    """Refuses incompatible settings of a configuration, and settings without effect.

    Raises:
        ValueError: If there are any; the message suggests a solution.
    """
    if isinstance(config, GileConfig):
        _check_terms(config)
        unread = _unread_of_head({**vars(config.text_config), **vars(config)})
    else:
        unread = _unread_of_text(vars(config))
    defaults = _default_values(type(config))
    for name, reader in unread.items():
        value = getattr(config, name)
        if value != defaults[name]:
            raise ValueError(f"{name}={value!r} would have no effect without {reader}; leave it out")


def _check_terms(config: GileConfig) -> None:
    """Checks that the additional terms of the score fit the vectors of the model."""
    sizes = config.text_config.encoder_size, config.label_size - config.bag_size
    if config.output_layer == "linear" and (config.cosine_score or config.label_rows):
        raise ValueError("cosine_score and label_rows are terms of a joint embedding, not of a linear unit")
    if config.cosine_score and not config.bag_size and sizes[0] != sizes[1]:
        raise ValueError(
            f"cosine_score compares h and e, of sizes {sizes[0]} and {sizes[1]}: make the sizes equal "
            "(label_encoder_type 'text_encoder'), or a bag_size"
        )
    if config.joint_layers > 1 and config.output_layer != "gile":
        raise ValueError(f"joint_layers needs output_layer 'gile', got {config.output_layer!r}")
    if config.lexical and config.output_layer == "linear":
        raise ValueError("lexical compares the words of text and label, and a linear unit reads no labels")
