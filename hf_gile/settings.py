"""Selects the fields of a configuration that are used by its kind of model."""

from typing import Any

from .models import GileConfig, GileTextConfig
from .models.checks_gile import default_values, unread_of_head, unread_of_text

PRETRAINED_DEFAULTS: dict[str, dict[str, Any]] = {
    "transformer": {"pooling": "mean"},
    "hierarchical_transformer": {"pooling": "mean", "encoder_cell": "none", "max_sentences": 16},
}
"""Types of pretrained text encoders and their default settings in `hf_gile.training.model_from_text_encoder`."""


def only_read(**fields: Any) -> dict[str, Any]:
    """Drops fields of `GileConfig` and `GileTextConfig` that have no effect, which a configuration would refuse.

    For a pretrained encoder, defaults are those of `hf_gile.training.model_from_text_encoder`.

    Example:
        >>> only_read(text_encoder_type="nn", hidden_size=50, embedding_size=30)
        {'text_encoder_type': 'nn', 'embedding_size': 30}
    """
    starts = PRETRAINED_DEFAULTS.get(fields.get("text_encoder_type", ""), {})
    values = {**default_values(GileTextConfig), **default_values(GileConfig), **starts, **fields}
    unread = unread_of_text(values) | unread_of_head(values)
    return {name: value for name, value in fields.items() if name not in unread}
