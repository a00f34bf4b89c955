"""The text encoders by the names that `GileConfig.text_encoder_type` gives them."""

from typing import Any

from .published_gile import PublishedHierarchicalEncoder
from .transformer_encoders_gile import HierarchicalTransformerEncoder, TransformerEncoder
from .word_encoders_gile import HierarchicalEncoder, WordEncoder

TEXT_ENCODERS: dict[str, Any] = {
    "nn": WordEncoder,
    "hnn": HierarchicalEncoder,
    "wan": WordEncoder,
    "han": HierarchicalEncoder,
    "han_published": PublishedHierarchicalEncoder,
    "transformer": TransformerEncoder,
    "hierarchical_transformer": HierarchicalTransformerEncoder,
}

__all__ = ["TEXT_ENCODERS"]
