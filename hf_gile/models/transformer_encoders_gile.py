"""Pretrained text encoders: a document, or its windows, through any encoder of transformers.

Pretrained encoders give vectors of very different lengths, so what is pooled of their hidden states is scaled to a root
mean square of 1: any of them then fits the same head and learning rate.

Shapes: B documents, S windows of a document, W tokens, R rows of tokens (documents or windows), P size of the hidden
states, H document size.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModel, PreTrainedConfig

from .languages_gile import of_language, per_language
from .losses_gile import widened
from .word_encoders_gile import AttentionPooling, MeanPooling, make_encoder


def without_pooler(transformer: Any) -> Any:
    """Takes off what an encoder has above its hidden states: weights that nothing reads and no gradient reaches.

    Args:
        transformer: An encoder of transformers; it is changed in place.
    """
    if isinstance(getattr(transformer, "pooler", None), nn.Module):
        transformer.pooler = None
    return transformer


class FirstToken(nn.Module):
    """The state of the first token, which many pretrained encoders were trained to sum a text up in."""

    def forward(self, hidden: Tensor, places: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Takes the first states; arguments and results as those of `AttentionPooling`."""
        weights = torch.zeros_like(places, dtype=hidden.dtype)
        weights[:, 0] = 1
        return hidden[places[:, 0]], weights * mask


class PretrainedEncoder(nn.Module):
    """Token ids to a vector, by the hidden states of a pretrained encoder and a pooling of them.

    Args:
        config: A `GileConfig` with `text_encoder_config`; the weights come from a checkpoint or `from_text_encoder`.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        self.transformer = without_pooler(AutoModel.from_config(config.text_encoder_config))
        self.is_frozen = config.freeze_text_encoder
        self.pooled_size = config.pooled_size
        poolings: dict[str, Any] = {"cls": FirstToken, "mean": MeanPooling, "sum": lambda: MeanPooling(is_sum=True)}
        self.pooling = per_language(
            config,
            config.pooling != "attention" or config.sharing in ("attention", "both"),
            poolings.get(
                config.pooling,
                lambda: AttentionPooling(config.pooled_size, config.attention_size, config.hidden_act),
            ),
        )

    def train(self, mode: bool = True) -> "PretrainedEncoder":
        """Switches between training and evaluation; a frozen encoder has no dropout in either."""
        super().train(mode)
        if self.is_frozen:
            self.transformer.eval()
        return self

    def forward(
        self, input_ids: Tensor | None, inputs_embeds: Tensor | None, mask: Tensor, language: str | None = None
    ) -> tuple[Tensor, Tensor]:
        """Encodes rows of tokens.

        Args:
            input_ids: `(R, W)` token ids, with the special tokens that the encoder wants.
            inputs_embeds: `(R, W, D)` vectors of tokens, instead of `input_ids`.
            mask: `(R, W)` booleans, true where there is a token.
            language: The language of all rows, in a model that has languages.

        Returns:
            `(R, P)` vectors with a root mean square of 1, zero for a row without tokens, and the `(R, W)` weights of
            the pooling.
        """
        there = mask.any(-1)
        if not bool(there.all()):  # the softmax over no token at all is not a number
            vectors = mask.new_zeros(len(mask), self.pooled_size, dtype=torch.float32)
            weights = torch.zeros_like(mask, dtype=torch.float32)
            if bool(there.any()):
                own = [None if given is None else given[there] for given in (input_ids, inputs_embeds, mask)]
                pooled, pooling_weights = self(*own, language)
                vectors, weights = vectors.to(pooled.dtype), weights.to(pooling_weights.dtype)
                vectors[there], weights[there] = pooled, pooling_weights
            return vectors, weights
        tokens = {"input_ids": input_ids} if input_ids is not None else {"inputs_embeds": inputs_embeds}
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.is_frozen):
            hidden = self.transformer(**tokens, attention_mask=mask.long()).last_hidden_state
        hidden = widened(hidden.flatten(0, 1))
        places = torch.arange(len(hidden), device=mask.device).view(mask.shape)
        vectors, weights = of_language(self.pooling, language)(hidden, places, mask)
        return functional.normalize(widened(vectors), dim=-1) * self.pooled_size**0.5, weights


class TransformerEncoder(PretrainedEncoder):
    """Documents of tokens: one row each."""

    input_dims: ClassVar[str] = "(B, W)"

    def encode(
        self, mask: Tensor, pooled: Tensor, weights: Tensor | None, language: str | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The document vectors of pooled rows.

        Args:
            mask: `(B, W)` booleans, true where there is a token.
            pooled: `(B, P)` vectors.
            weights: `(B, W)` weights of the pooling, if they are known.
            language: The language of all documents.

        Returns:
            `(B, H)` document vectors, and the weights in a tuple.
        """
        return pooled, () if weights is None else (weights,)


class HierarchicalTransformerEncoder(PretrainedEncoder):
    """Long documents: their windows one by one, then attention over the windows, as a HAN has it over sentences.

    Args:
        config: A `GileConfig`; `encoder_cell` is the encoder of the windows (Eq. 1), `"none"` attends to their vectors
            themselves, which leaves the document in the space of the pretrained encoder.
    """

    input_dims: ClassVar[str] = "(B, S, W)"

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__(config)
        self.sentence_encoder = None if config.encoder_cell == "none" else make_encoder(config, config.pooled_size)
        self.sentence_attention = per_language(
            config,
            config.sharing in ("attention", "both"),
            lambda: AttentionPooling(config.encoder_size, config.attention_size, config.hidden_act),
        )

    def encode(
        self, mask: Tensor, pooled: Tensor, weights: Tensor | None, language: str | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The document vectors of pooled windows.

        Args:
            mask: `(B, S, W)` booleans, true where there is a token. A window is there when it has a token.
            pooled: `(B, S, P)` vectors of the windows.
            weights: `(B, S, W)` weights of the pooling, if they are known.
            language: The language of all documents.

        Returns:
            `(B, H)` document vectors; in a tuple the weights of the pooling and the `(B, S)` attention over windows.
        """
        there = mask.any(-1)
        hidden = pooled.flatten(0, 1)
        places = torch.arange(len(hidden), device=mask.device).view(there.shape)
        if self.sentence_encoder is not None:
            hidden, places = of_language(self.sentence_encoder, language)(hidden, places, there)
        document, attention = of_language(self.sentence_attention, language)(hidden, places, there)
        if self.sentence_encoder is None:
            document = functional.normalize(document, dim=-1) * self.pooled_size**0.5
        return document, (attention,) if weights is None else (weights, attention)


__all__ = [
    "HierarchicalTransformerEncoder",
    "PretrainedEncoder",
    "TransformerEncoder",
    "without_pooler",
]
