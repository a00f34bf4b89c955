"""From word vectors to a document vector: word attention (WAN) and hierarchical attention (HAN).

A dense encoder sees one word at a time, so what it makes of a word is the same wherever the word stands. The encoders
therefore take the distinct words of a batch, and where they stand: a batch of 16,000 words has about 5,000 distinct
ones, and encodes only these.

Shapes: B documents, S sentences, W words, N distinct words of the batch, T items attended to (words or sentences),
D word-embedding size, H document size.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedConfig
from transformers.activations import ACT2FN


class DenseEncoder(nn.Module):
    """The feed-forward encoder g of Eq. 1: `act(W x + c)` at every position.

    Args:
        input_size: Size of an input vector.
        hidden_size: Size H of an output vector.
        activation: A key of `transformers.activations.ACT2FN`.
    """

    def __init__(self, input_size: int, hidden_size: int, activation: str) -> None:
        super().__init__()
        self.dense = nn.Linear(input_size, hidden_size)
        self.activation = ACT2FN[activation]

    def forward(self, inputs: Tensor) -> Tensor:
        """Encodes every position on its own.

        Args:
            inputs: `(..., D)` vectors.

        Returns:
            `(..., H)` hidden states.
        """
        return self.activation(self.dense(inputs))


class AttentionPooling(nn.Module):
    """The attention of Eq. 2: `sum_t softmax_t(v_t . u) h_t` with `v_t = act(W h_t + c)`.

    `projection` is W and c, `context` is u.

    Args:
        hidden_size: Size H of a hidden state.
        attention_size: Size of v and u.
        activation: The activation of v, a key of `transformers.activations.ACT2FN`.
    """

    def __init__(self, hidden_size: int, attention_size: int, activation: str) -> None:
        super().__init__()
        self.projection = nn.Linear(hidden_size, attention_size)
        self.context = nn.Linear(attention_size, 1, bias=False)
        self.activation = ACT2FN[activation]

    def forward(self, hidden: Tensor, places: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Averages hidden states by attention.

        Args:
            hidden: `(N, H)` hidden states.
            places: `(B, T)` rows of `hidden` that stand in each place.
            mask: `(B, T)` booleans, true where there is a word or a sentence.

        Returns:
            `(B, H)` weighted averages and `(B, T)` weights: zero on padding, summing to one over the rest. Where
            nothing is left to attend to, all weights and the average are zero.
        """
        scores = self.context(self.activation(self.projection(hidden))).squeeze(-1)[places]  # (B, T)
        # The lowest finite number, not -inf: the softmax of a row of -inf is NaN.
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1) * mask
        # A weighted sum of rows without building (B, T, H). Autocast runs the softmax in float32, and not the rest.
        document = functional.embedding_bag(places, hidden, per_sample_weights=weights.to(hidden.dtype), mode="sum")
        return document, weights


class WordAttentionEncoder(nn.Module):
    """WAN: every word of the document in one attention (section 4.1.1 of the paper)."""

    input_dims: ClassVar[str] = "(B, W)"

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        self.word_encoder = DenseEncoder(config.embedding_size, config.hidden_size, config.hidden_act)
        self.word_attention = AttentionPooling(config.hidden_size, config.attention_size, config.hidden_act)

    def forward(self, word_vectors: Tensor, places: Tensor, mask: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Encodes documents.

        Args:
            word_vectors: `(N, D)` vectors of the distinct words.
            places: `(B, W)` rows of `word_vectors`, the words of each document.
            mask: `(B, W)` booleans, true where there is a word.

        Returns:
            `(B, H)` document vectors and the `(B, W)` word attention, in a tuple.
        """
        document, weights = self.word_attention(self.word_encoder(word_vectors), places, mask)
        return document, (weights,)


class HierarchicalAttentionEncoder(nn.Module):
    """HAN: attention over the words of each sentence, then over the sentences (section 2.1 of the paper)."""

    input_dims: ClassVar[str] = "(B, S, W)"

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        size, attention_size, activation = config.hidden_size, config.attention_size, config.hidden_act
        self.word_encoder = DenseEncoder(config.embedding_size, size, activation)
        self.word_attention = AttentionPooling(size, attention_size, activation)
        self.sentence_encoder = DenseEncoder(size, size, activation)
        self.sentence_attention = AttentionPooling(size, attention_size, activation)

    def forward(self, word_vectors: Tensor, places: Tensor, mask: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Encodes documents.

        Args:
            word_vectors: `(N, D)` vectors of the distinct words.
            places: `(B, S, W)` rows of `word_vectors`, the words of each sentence.
            mask: `(B, S, W)` booleans, true where there is a word. A sentence is there when it has a word.

        Returns:
            `(B, H)` document vectors, and in a tuple the `(B, S, W)` word attention, each sentence on its own, and
            the `(B, S)` sentence attention.
        """
        hidden = self.word_encoder(word_vectors)
        sentences, word_weights = self.word_attention(hidden, places.flatten(0, 1), mask.flatten(0, 1))
        sentence_mask = mask.any(-1)
        rows = torch.arange(len(sentences), device=sentences.device).reshape(sentence_mask.shape)
        document, sentence_weights = self.sentence_attention(self.sentence_encoder(sentences), rows, sentence_mask)
        return document, (word_weights.reshape(mask.shape), sentence_weights)


TEXT_ENCODERS: dict[str, Any] = {"wan": WordAttentionEncoder, "han": HierarchicalAttentionEncoder}

__all__ = ["TEXT_ENCODERS", "AttentionPooling", "DenseEncoder", "HierarchicalAttentionEncoder", "WordAttentionEncoder"]
