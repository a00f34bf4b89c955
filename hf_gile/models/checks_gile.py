"""Checks of configurations, which come from files of strangers: sizes, unread fields, downloads, calibration."""

import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, fields
from operator import index
from pathlib import Path
from typing import Any, SupportsIndex, TypeGuard

import torch
from transformers import PreTrainedConfig
from transformers.activations import ACT2FN

from .saving_gile import LONGEST_JSON

GROUPS: dict[str, set[str]] = {"seen": set(), "unseen": {"labels", "crowding"}}
"""Groups of labels with separate calibration and thresholds, and further parameters of their calibration."""

METHODS = {"platt": ("scale", "offset"), "spline": ("logits", "values")}
"""Calibration methods and their parameters."""

# Limit for numbers other than sizes, far below the overflow of float32.
LARGEST_NUMBER = 1e9

LARGEST: dict[str, int] = {
    "vocab_size": 1 << 24,
    "embedding_size": 1 << 16,
    "num_vectors": 1 << 24,
    "hidden_size": 1 << 16,
    "attention_size": 1 << 16,
    "joint_size": 1 << 17,
    "joint_layers": 1000,
    "label_length": 1 << 16,
    "max_words": 1 << 24,
    "max_sentences": 1 << 20,
    "max_sentence_words": 1 << 20,
    "max_label_words": 1 << 16,
    "languages": 1000,
    "num_labels": 1 << 21,
    "row_words": 1 << 30,
    "neighbours": 1 << 24,
    "prompt": 10_000,
    "label_text": 1 << 20,
    "normalized_length": 32,
    "missing_weights": 1 << 27,
    "text_encoder_layers": 1000,
    "text_encoder_size": 1 << 24,
    "text_encoder_number": 1 << 31,
}
"""Limits of `GileConfig.largest`."""

_LIMITS_OF_ENCODERS = {
    "num_labels": "num_labels",
    **dict.fromkeys(("layer", "expert", "head", "block"), "text_encoder_layers"),
    **dict.fromkeys(("size", "dim"), "text_encoder_size"),
}
"""Limits of fields of an encoder by parts of their names; the first part counts."""

_IMPLEMENTATIONS = ("eager", "sdpa", "flex_attention", "grouped_mm", "batched_mm")
"""Implementations of attention and experts that are part of torch and transformers."""

_QUANTIZATIONS = ("awq", "bitsandbytes", "compressed-tensors", "gptq", "hqq", "quanto", "torchao")
"""Quantization methods whose code is an installed package; others may download kernels."""

SENTENCE_ENCODERS = ("hnn", "han", "hierarchical_transformer")
PRETRAINED_ENCODERS = ("transformer", "hierarchical_transformer", "static")
_WITHOUT_CELL = ("nn", "transformer", "static")
_MAY_BE_ZERO = ("num_vectors", "label_length", "row_words", "neighbours")


def read_json_object(file: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads a JSON file of a saved model.

    Raises:
        OSError: If it cannot be read.
        ValueError: If it does not contain a JSON object.
    """
    content = None
    with suppress(ValueError, RecursionError):
        if Path(file).stat().st_size <= LONGEST_JSON:
            content = json.loads(Path(file).read_bytes())
    if not isinstance(content, dict):
        raise ValueError(
            f"{file} is not a JSON object: it is damaged, or not part of a saved model; save or download it again"
        )
    return content


def check_largest(limit: str, value: object, name: str | None = None) -> None:
    """Refuses an integer above a limit of `GileConfig.largest`; `name` is used in the error, by default `limit`."""
    if isinstance(value, int) and value > LARGEST[limit]:
        raise ValueError(
            f"{name or limit} is {value}, more than the {LARGEST[limit]} that a configuration may ask for; "
            f"if intended, set GileConfig.largest[{limit!r}] = {value} first"
        )


def check_fetches_nothing(content: object, where: str) -> None:
    """Refuses fields of a saved configuration that would make transformers or timm download something.

    With the package `kernels`, an attention implementation "user/name" is code on the Hub, and flash attention may be.
    """
    if isinstance(content, list | tuple):
        for item in content:
            check_fetches_nothing(item, where)
    if not isinstance(content, Mapping):
        return
    for key, value in content.items():
        name = f"{where}.{key}".removeprefix(".")
        implementation = str(key).removesuffix("_internal").endswith(("attn_implementation", "experts_implementation"))
        values = value.values() if isinstance(value, Mapping) else [value]
        is_remote = implementation and not all(item is None or item in _IMPLEMENTATIONS for item in values)
        is_remote = is_remote or (key == "quant_method" and value not in _QUANTIZATIONS)
        is_image = bool(value) and ("backbone" in str(key) or (key == "model_type" and str(value).startswith("timm")))
        if is_remote or is_image:
            raise ValueError(
                f"{name} is {value!r:.100}, which may download code or weights: remove it, or pass an implementation "
                "of attention to from_pretrained"
            )
        check_fetches_nothing(value, name)


def check_encoder_sizes(encoder: Mapping[str, Any], where: str = "text_encoder_config") -> None:
    """Refuses an encoder configuration that takes excessive time or memory to load."""
    for key, value in encoder.items():
        name = f"{where}.{key}"
        if isinstance(value, Mapping):
            check_encoder_sizes(value, name)
        if key == "num_labels":
            check_whole_number(name, value, 0)
        limits = (limit for part, limit in _LIMITS_OF_ENCODERS.items() if part in str(key))
        check_largest(next(limits, "text_encoder_number"), value, name)


def check_calibration(calibration: Mapping[str, Any], problem_type: str | None = None) -> None:
    """Refuses an invalid calibration, or a "spline" for a softmax, which would change the best label.

    Args:
        calibration: As `GileConfig.calibration`.
        problem_type: Problem type of the model.

    Raises:
        ValueError: If a group, a method or a number is invalid. The message names it.
    """
    for group, numbers in calibration.items():
        where = f"calibration[{group!r}]"
        if group not in GROUPS:
            raise ValueError(f"calibration is for 'seen' and 'unseen' labels, got {group!r:.100}")
        method = numbers.get("method") if isinstance(numbers, Mapping) else None
        if method not in METHODS or set(numbers) - GROUPS[group] != {"method", *METHODS[method]}:
            raise ValueError(
                f"{where} must be {{'method': 'platt', 'scale': a, 'offset': b}} or {{'method': 'spline', 'logits': "
                f"[...], 'values': [...]}}, got {numbers!r:.100}"
            )
        check_whole_number(f"{where}: labels", numbers.get("labels", 1))
        check_number(f"{where}: crowding", numbers.get("crowding", 1.0), 0, 1)
        if method == "platt":
            for name in METHODS[method]:
                check_number(f"{where}: {name}", numbers[name])
            if numbers["scale"] <= 0:
                raise ValueError(f"{where}: scale must be positive, got {numbers['scale']}")
        elif problem_type == "single_label_classification":
            raise ValueError(
                f"{where}: {method!r} calibrates labels independently; with problem_type "
                "'single_label_classification' use 'platt'"
            )
        else:
            for name in METHODS[method]:
                _check_knots(f"{where}: {name}", numbers[name])
            if len(numbers["logits"]) != len(numbers["values"]):
                raise ValueError(f"{where}: got {len(numbers['logits'])} logits, but {len(numbers['values'])} values")


def _check_knots(name: str, numbers: object) -> None:
    """Refuses coordinates of spline knots that are not an increasing list of finite numbers."""
    is_list = isinstance(numbers, list | tuple) and len(numbers) > 0 and all(map(is_number, numbers))
    # In the type used to apply them.
    if not is_list or not bool((torch.tensor(numbers, dtype=torch.float32).diff() > 0).all()):
        raise ValueError(f"{name} must be an increasing list of finite numbers, got {numbers!r:.100}")


def check_whole_number(name: str, value: object, minimum: int = 1) -> None:
    """Refuses anything but an integer, of Python or NumPy, that is at least `minimum`."""
    is_other = isinstance(value, bool) or getattr(value, "ndim", 0) > 0
    if is_other or not isinstance(value, SupportsIndex) or index(value) < minimum:
        raise ValueError(f"{name} must be a whole number, at least {minimum}, got {value!r:.100}")


def check_number(name: str, value: object, minimum: float = -LARGEST_NUMBER, maximum: float = LARGEST_NUMBER) -> None:
    """Refuses anything but a number from `minimum` to `maximum`."""
    if not is_number(value) or not minimum <= value <= maximum:
        raise ValueError(f"{name} must be a number from {minimum:g} to {maximum:g}, got {value!r:.100}")


def is_number(value: object) -> TypeGuard[float]:
    """Checks whether a value is a finite number, not a boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _shareable_parts(fields: Mapping[str, Any]) -> set[str]:
    """Returns the parts of a text encoder that languages can share."""
    kind = fields["text_encoder_type"]
    has_cell = kind not in _WITHOUT_CELL and fields["encoder_cell"] != "none"
    attends = kind not in ("nn", "hnn") and (kind == "hierarchical_transformer" or fields["pooling"] == "attention")
    return {name for name, is_there in (("encoders", has_cell), ("attention", attends)) if is_there}


def unread_of_text(fields: Mapping[str, Any]) -> dict[str, str]:
    """Returns the fields of a `GileTextConfig` without effect, and their missing requirements."""
    kind = fields["text_encoder_type"]
    parts = _shareable_parts(fields)
    words = kind not in PRETRAINED_ENCODERS
    attends = "attention" in parts
    is_dense = "encoders" in parts and fields["encoder_cell"] == "dense"
    sentences = kind in SENTENCE_ENCODERS
    readers = {
        "encoder_cell": (kind not in _WITHOUT_CELL, "another text_encoder_type"),
        "num_vectors": (kind == "static", "text_encoder_type 'static'"),
        "hidden_size": ("encoders" in parts, "a text encoder with an encoder_cell"),
        "attention_size": (attends, "attention"),
        "hidden_act": (attends or is_dense, "attention, or a dense encoder_cell"),
        "pooling": (kind not in ("nn", "hnn"), "another text_encoder_type"),
        "freeze_text_encoder": (not words and kind != "static", "a pretrained encoder"),
        "embedding_std": (words, "word vectors, not a pretrained encoder"),
        "word_dropout": (words, "word vectors, not a pretrained encoder"),
        "max_words": (not sentences, "a text encoder that does not read sentences"),
        "max_sentences": (sentences, "a text encoder that reads sentences"),
        "max_sentence_words": (sentences, "a text encoder that reads sentences"),
    }
    return {name: reader for name, (is_read, reader) in readers.items() if not is_read}


def unread_of_head(fields: Mapping[str, Any]) -> dict[str, str]:
    """Does the same for a `GileConfig`, from its fields and those of its `text_config`."""
    layer = fields["output_layer"]
    parts = _shareable_parts(fields)
    shared = {part for part in parts if fields["sharing"] in (part, "both")}
    # For "nn", the mean of words is already the label encoder.
    reads_labels = layer != "linear" and fields["text_encoder_type"] != "nn"
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


def default_values(config: type[PreTrainedConfig]) -> dict[str, Any]:
    """Returns the default values of the fields of a configuration class."""
    return {
        item.name: item.default if item.default_factory is MISSING else item.default_factory()
        for item in fields(config)
    }


def refuse_unread(config: PreTrainedConfig, unread: Mapping[str, str]) -> None:
    """Refuses settings without effect, from `unread_of_text` or `unread_of_head`."""
    defaults = default_values(type(config))
    for name, reader in unread.items():
        value = getattr(config, name)
        if value != defaults[name]:
            raise ValueError(f"{name}={value!r} would have no effect without {reader}; leave it out")


def check_fields(config: PreTrainedConfig) -> None:
    """Refuses implausible sizes and numbers, and unknown activations."""
    for item in fields(config):
        name = item.name
        value = getattr(config, item.name)
        if name in LARGEST:
            check_largest(name, len(value) if isinstance(value, list) else value)
            minimum = int(name not in _MAY_BE_ZERO)
            if isinstance(value, int) and value < minimum:
                raise ValueError(f"{name} must be at least {minimum}, got {value}")
        if isinstance(value, float) and not abs(value) <= LARGEST_NUMBER:  # this form also rejects NaN
            raise ValueError(f"{name} must be a finite number of moderate size, got {value}")
        if name.endswith("_dropout") and not 0 <= value < 1:
            raise ValueError(f"{name} must be at least 0 and below 1, got {value}")
        if name.endswith("_act") and value not in ACT2FN:
            raise ValueError(
                f"{name} must be one of transformers' activations ({', '.join(sorted(ACT2FN))}), got {value!r:.100}"
            )
