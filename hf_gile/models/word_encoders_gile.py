"""From word vectors to a document vector: the text encoders of the paper's tables, NN, HNN, WAN and HAN.

A dense encoder sees one word at a time, so what it makes of a word is the same wherever the word stands. The encoders
therefore take the distinct words of a batch, and where they stand: a batch of 16,000 words has about 5,000 distinct
ones, and encodes only these. A recurrent encoder reads every word in its place, and never the padding.

Shapes: B documents, S sentences, W words, N distinct words of the batch, R sequences of T items (the words of
documents or of sentences, the sentences of documents), D word-embedding size, H document size.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence
from transformers import PreTrainedConfig
from transformers.activations import ACT2FN

from .languages_gile import of_language, per_language


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

    def forward(self, vectors: Tensor, places: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Encodes every position on its own.

        Args:
            vectors: `(N, D)` vectors.
            places: `(R, T)` rows of `vectors` that stand in each place.
            mask: `(R, T)` booleans, true where there is something.

        Returns:
            `(N, H)` hidden states, and the places as they came.
        """
        return self.activation(self.dense(vectors)), places


class RecurrentEncoder(nn.Module):
    """The recurrent encoder g of Eq. 1: a GRU over each sequence, or one in each direction.

    Sequences are packed: a state depends on its own sequence alone, whatever the padding and whatever else is in the
    batch.

    Args:
        input_size: Size of an input vector.
        hidden_size: Size of a state, in each direction.
        bidirectional: Whether to read backwards too.
    """

    def __init__(self, input_size: int, hidden_size: int, bidirectional: bool) -> None:
        super().__init__()
        self.gru = nn.GRU(input_size, hidden_size, bidirectional=bidirectional)

    def forward(self, vectors: Tensor, places: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Encodes sequences.

        Args:
            vectors: `(N, D)` vectors.
            places: `(R, T)` rows of `vectors` that stand in each place.
            mask: `(R, T)` booleans, true where there is something; what is masked is left out, also between others.

        Returns:
            `(M, H)` hidden states of the M places that are not masked, and `(R, T)` rows of these (0 where masked).
        """
        if not bool(mask.any()):  # the weights take part all the same, as processes that share a step must agree
            mask = torch.zeros_like(mask)
            mask[0, 0] = True
        lengths = mask.sum(1)
        longest_first = lengths.argsort(descending=True, stable=True)
        in_front = mask.long().argsort(dim=1, descending=True, stable=True)
        steps = torch.arange(int(lengths.max()), device=mask.device)
        there = steps[:, None] < lengths[longest_first]  # (steps, R): the order of a packed sequence
        flat = (longest_first[:, None] * mask.shape[1] + in_front[longest_first]).T[: len(steps)]
        taken = flat[there]
        packed = PackedSequence(vectors[places.flatten()[taken]], there.sum(1).cpu())
        hidden = self.gru(packed)[0].data
        rows = torch.zeros_like(places).flatten()
        rows[taken] = torch.arange(len(taken), device=rows.device)
        return hidden, rows.reshape(places.shape)


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
            places: `(R, T)` rows of `hidden` that stand in each place.
            mask: `(R, T)` booleans, true where there is a word or a sentence.

        Returns:
            `(R, H)` weighted averages and `(R, T)` weights: zero on padding, summing to one over the rest. Where
            nothing is left to attend to, all weights and the average are zero.
        """
        scores = self.context(self.activation(self.projection(hidden))).squeeze(-1)[places]  # (R, T)
        # The lowest finite number, not -inf: the softmax of a row of -inf is NaN.
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1) * mask
        # A weighted sum of rows without building (R, T, H). Autocast runs the softmax in float32, and not the rest.
        document = functional.embedding_bag(places, hidden, per_sample_weights=weights.to(hidden.dtype), mode="sum")
        return document, weights


class MeanPooling(nn.Module):
    """The mean, or the sum, of the items of each sequence; nothing is learned.

    Args:
        is_sum: Whether to sum up; the published BioASQ models do, where the paper has attention.
    """

    def __init__(self, is_sum: bool = False) -> None:
        super().__init__()
        self.is_sum = is_sum

    def forward(self, hidden: Tensor, places: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Averages hidden states; arguments and results as those of `AttentionPooling`, weights of a sum are 1."""
        weights = mask.to(hidden.dtype)
        if not self.is_sum:
            weights = weights / weights.sum(-1, keepdim=True).clamp(min=1)
        return functional.embedding_bag(places, hidden, per_sample_weights=weights, mode="sum"), weights


def make_encoder(config: PreTrainedConfig, input_size: int) -> nn.Module:
    """The encoder g of Eq. 1 that a configuration asks for, of each language.

    Args:
        config: A `GileConfig`.
        input_size: Size of an input vector.
    """

    def make() -> nn.Module:
        if config.encoder_cell == "dense":
            return DenseEncoder(input_size, config.hidden_size, config.hidden_act)
        return RecurrentEncoder(input_size, config.hidden_size, config.encoder_cell == "bigru")

    return per_language(config, config.sharing in ("encoders", "both"), make)


def _pooling(config: PreTrainedConfig) -> nn.Module:
    kind = "mean" if config.text_encoder_type in ("nn", "hnn") else config.pooling
    if kind != "attention":
        return MeanPooling(is_sum=kind == "sum")
    return per_language(
        config,
        config.sharing in ("attention", "both"),
        lambda: AttentionPooling(config.encoder_size, config.attention_size, config.hidden_act),
    )


class WordEncoder(nn.Module):
    """All words of a document at once: WAN, an encoder and attention (section 4.1.1), and NN, the average alone."""

    input_dims: ClassVar[str] = "(B, W)"

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        self.word_encoder = None if config.text_encoder_type == "nn" else make_encoder(config, config.embedding_size)
        self.word_attention = _pooling(config)

    def forward(
        self, word_vectors: Tensor, places: Tensor, mask: Tensor, language: str | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Encodes documents.

        Args:
            word_vectors: `(N, D)` vectors of the distinct words.
            places: `(B, W)` rows of `word_vectors`, the words of each document.
            mask: `(B, W)` booleans, true where there is a word.
            language: The language of all documents, in a model that has languages.

        Returns:
            `(B, H)` document vectors and the `(B, W)` word attention, in a tuple.
        """
        hidden = word_vectors
        if self.word_encoder is not None:
            hidden, places = of_language(self.word_encoder, language)(hidden, places, mask)
        document, weights = of_language(self.word_attention, language)(hidden, places, mask)
        return document, (weights,)


class HierarchicalEncoder(nn.Module):
    """The words of each sentence, then the sentences: HAN with attention, HNN with averages (section 2.1)."""

    input_dims: ClassVar[str] = "(B, S, W)"

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        self.word_encoder = make_encoder(config, config.embedding_size)
        self.word_attention = _pooling(config)
        self.sentence_encoder = make_encoder(config, config.encoder_size)
        self.sentence_attention = _pooling(config)

    def forward(
        self, word_vectors: Tensor, places: Tensor, mask: Tensor, language: str | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Encodes documents.

        Args:
            word_vectors: `(N, D)` vectors of the distinct words.
            places: `(B, S, W)` rows of `word_vectors`, the words of each sentence.
            mask: `(B, S, W)` booleans, true where there is a word. A sentence is there when it has a word.
            language: The language of all documents, in a model that has languages.

        Returns:
            `(B, H)` document vectors, and in a tuple the `(B, S, W)` word attention, each sentence on its own, and
            the `(B, S)` sentence attention.
        """
        word_mask = mask.flatten(0, 1)
        hidden, places = of_language(self.word_encoder, language)(word_vectors, places.flatten(0, 1), word_mask)
        sentences, word_weights = of_language(self.word_attention, language)(hidden, places, word_mask)
        sentence_mask = mask.any(-1)
        rows = torch.arange(len(sentences), device=sentences.device).reshape(sentence_mask.shape)
        hidden, rows = of_language(self.sentence_encoder, language)(sentences, rows, sentence_mask)
        document, sentence_weights = of_language(self.sentence_attention, language)(hidden, rows, sentence_mask)
        return document, (word_weights.reshape(mask.shape), sentence_weights)


__all__ = [
    "AttentionPooling",
    "DenseEncoder",
    "HierarchicalEncoder",
    "MeanPooling",
    "RecurrentEncoder",
    "WordEncoder",
    "make_encoder",
]
