"""The same settings for many kinds of models: what each of them reads."""

from typing import Any

from .models import GileConfig, GileTextConfig
from .models.configuration_gile import PRETRAINED_DEFAULTS, defaults_of, unread_of_head, unread_of_text


def only_read(**fields: Any) -> dict[str, Any]:
    """Leaves out the fields that nothing would read, which a configuration refuses.

    Args:
        fields: Fields of `GileConfig` and of `GileTextConfig`; of a pretrained encoder, those of
            `hf_gile.training.model_from_text_encoder`, with its defaults.

    Returns:
        Fields that a configuration takes.

    Example:
        >>> only_read(text_encoder_type="nn", hidden_size=50, embedding_size=30)
        {'text_encoder_type': 'nn', 'embedding_size': 30}
    """
    starts = PRETRAINED_DEFAULTS.get(fields.get("text_encoder_type", ""), {})
    values = {**defaults_of(GileTextConfig), **defaults_of(GileConfig), **starts, **fields}
    unread = unread_of_text(values) | unread_of_head(values)
    return {name: value for name, value in fields.items() if name not in unread}
