"""Pretrained text encoders: a document, or its windows, through any encoder of transformers.

Pretrained encoders give vectors of very different lengths, so what is pooled of their hidden states is scaled to a root
mean square of 1: any of them then fits the same head and learning rate.

Shapes: B documents, S windows of a document, W tokens, R rows of tokens (documents or windows), P size of the hidden
states, H document size.
"""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModel, PreTrainedConfig

from .languages_gile import of_language, per_language
from .score_terms_gile import rms_normalized
from .word_encoders_gile import AttentionPooling, MeanPooling, make_encoder


def without_pooler(transformer: Any) -> Any:
    """Takes off what an encoder has above its hidden states: weights that nothing reads and no gradient reaches.

    Args:
        transformer: An encoder of transformers; it is changed in place.
    """
    if isinstance(getattr(transformer, "pooler", None), nn.Module):
        transformer.pooler = None
    return transformer


TOKENS_AT_ONCE = 8192
"""Tokens that an encoder reads at once, padding included; more rows are read in several batches."""


def batches_of(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Divides rows of tokens into batches of rows of about the same length.

    Args:
        sizes: The number of tokens of each row.

    Yields:
        Places of rows in ascending order of their lengths, without the empty ones: as many as hold `TOKENS_AT_ONCE`
        tokens when they are padded to the longest, one at least.

    Example:
        >>> list(batches_of([2, 5000, 0, 1, 5000]))
        [[3, 0], [1], [4]]
    """
    batch: list[int] = []
    for row in sorted((row for row, size in enumerate(sizes) if size), key=sizes.__getitem__):
        if batch and (len(batch) + 1) * sizes[row] > TOKENS_AT_ONCE:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def position_limit(transformer: nn.Module) -> int | None:
    """The longest row of tokens that an encoder has positions for; None if it has no table of them.

    Args:
        transformer: An encoder of transformers.
    """
    for name, module in transformer.named_modules():
        if name.endswith(("position_embeddings", "wpe")) and isinstance(module, nn.Embedding):
            # Encoders of the RoBERTa kind count positions from behind that of the padding.
            first = 0 if module.padding_idx is None else module.padding_idx + 1
            return module.num_embeddings - first
    return None


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

    Raises:
        ValueError: The limits of the configuration leave more tokens than the encoder has positions for.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        # In the type of the model around it, not in the one that the encoder was saved in.
        dtype = torch.get_default_dtype()
        transformer = AutoModel.from_config(config.text_encoder_config, dtype=dtype, trust_remote_code=False)
        self.transformer = without_pooler(transformer)
        self.positions = position_limit(transformer)
        names = ["max_sentence_words" if config.text_encoder_type == "hierarchical_transformer" else "max_words"]
        names += ["max_label_words"] if config.pools_labels else []
        for name in names:
            if self.positions is not None and getattr(config, name) > self.positions:
                raise ValueError(
                    f"{name} must be at most {self.positions}, the positions that the pretrained encoder has, "
                    f"got {getattr(config, name)}"
                )
        self.is_frozen = config.freeze_text_encoder
        if self.is_frozen:
            transformer.eval()
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
        """Encodes rows of tokens, those of about the same length together, so that little padding is read.

        Args:
            input_ids: `(R, W)` token ids, with the special tokens that the encoder wants.
            inputs_embeds: `(R, W, D)` vectors of tokens, instead of `input_ids`.
            mask: `(R, W)` booleans, true where there is a token.
            language: The language of all rows, in a model that has languages.

        Returns:
            `(R, P)` vectors with a root mean square of 1, zero for a row without tokens, and the `(R, W)` weights of
            the pooling.

        Raises:
            ValueError: More tokens than the encoder has positions for.
        """
        if self.positions is not None and mask.shape[1] > self.positions:
            raise ValueError(
                f"the pretrained encoder has positions for {self.positions} tokens, got {mask.shape[1]}; the processor "
                "saved with the model cuts texts, as does its tokenizer with truncation=True"
            )
        there = torch.arange(1, mask.shape[1] + 1, device=mask.device)
        sizes = (mask * there).amax(-1).tolist()  # up to the last token
        order, pooled, weights = [], [], []
        for rows in batches_of(sizes):
            width = sizes[rows[-1]]
            ids, embeds = (None if one is None else one[rows, :width] for one in (input_ids, inputs_embeds))
            vectors, its = self._pool(ids, embeds, mask[rows, :width], language)
            order += rows
            pooled.append(vectors)
            weights.append(functional.pad(its, (0, mask.shape[1] - width)))
        empty = torch.zeros(len(mask), self.pooled_size, dtype=self.transformer.dtype, device=mask.device)
        if not order:
            return empty, torch.zeros_like(mask, dtype=empty.dtype)
        places = torch.tensor(order, device=mask.device)
        weight = torch.cat(weights)
        return (
            empty.index_copy(0, places, torch.cat(pooled)),
            torch.zeros_like(mask, dtype=weight.dtype).index_copy(0, places, weight),
        )

    def _pool(
        self, input_ids: Tensor | None, inputs_embeds: Tensor | None, mask: Tensor, language: str | None
    ) -> tuple[Tensor, Tensor]:
        """Rows that have tokens, all at once."""
        tokens = {"input_ids": input_ids} if input_ids is not None else {"inputs_embeds": inputs_embeds}
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.is_frozen):
            hidden = self.transformer(**tokens, attention_mask=mask.long()).last_hidden_state
        hidden = hidden.flatten(0, 1).to(self.transformer.dtype)  # out of the 16 bits of autocast
        places = torch.arange(len(hidden), device=mask.device).view(mask.shape)
        vectors, weights = of_language(self.pooling, language)(hidden, places, mask)
        return rms_normalized(vectors), weights


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
            document = rms_normalized(document)
        return document, (attention,) if weights is None else (weights, attention)


__all__ = [
    "HierarchicalTransformerEncoder",
    "PretrainedEncoder",
    "TransformerEncoder",
    "batches_of",
    "position_limit",
    "without_pooler",
]
