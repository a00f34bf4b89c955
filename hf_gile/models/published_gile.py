"""The hierarchical attention network of the published Keras checkpoints of idiap/gile and idiap/mhan.

Its graph differs from that of the paper, and checkpoints only reproduce the published scores in this graph. All
differences are implemented in this file, which is saved only with models from `hf-gile convert`; other encoders do not
have these quirks.

1. Nothing is masked. A document always has `max_sentences` sentences of `max_sentence_words` words; missing words are
   zero vectors, which encoders and attention treat like any word.
2. The attention is softmax(act(u . act(W h + c) + b)): its scores have a bias and an activation.
3. GRUs have hard sigmoid gates, and the reset gate is applied before the recurrent product.
4. The GRU over words continues through the whole document; its state is not reset between sentences.
5. The states of the backward GRU are in the order of computation: the forward state of the first word is concatenated
   with the backward state of the last word.

Shapes: B documents, S sentences, W words, N distinct words of the batch, R sequences of T items, D word-embedding size,
H document size.
"""

from typing import ClassVar

import torch
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedConfig
from transformers.activations import ACT2FN

from .checks_gile import check_largest
from .configuration_gile import GileConfig
from .languages_gile import per_language, select_module
from .modeling_gile import GileForSequenceClassification, GileModel
from .text_encoders_gile import AttentionPooling, DenseEncoder, WordEncoder, over_sentences


class PublishedGru(nn.Module):
    """A GRU of Keras 1 and 2, in one direction (quirk 3).

        z, r = clip(0.2 (W x + U s + b) + 0.5, 0, 1)        update and reset gate
        s' = z s + (1 - z) act(W_h x + U_h (r s) + b_h)     the next state

    `inputs` contains W and b of z, r and the candidate, in this order; `gates` is U of z and r; `candidate` is U_h.

    Args:
        input_size: Size of an input vector.
        hidden_size: Size of a state.
        activation: Activation of the candidate, a key of `transformers.activations.ACT2FN`.
    """

    def __init__(self, input_size: int, hidden_size: int, activation: str) -> None:
        super().__init__()
        self.inputs = nn.Linear(input_size, 3 * hidden_size)
        self.gates = nn.Linear(hidden_size, 2 * hidden_size, bias=False)
        self.candidate = nn.Linear(hidden_size, hidden_size, bias=False)
        self.activation = ACT2FN[activation]

    def forward(self, vectors: Tensor, positions: Tensor) -> Tensor:
        """Computes the states of sequences.

        Args:
            vectors: `(N, D)` vectors.
            positions: `(R, T)` rows of `vectors` at each position.

        Returns:
            `(R, T, H)` states after each vector.
        """
        # Each vector is projected once, at any number of positions; only the recurrence runs step by step.
        inputs = self.inputs(vectors)[positions.T]  # (T, R, 3 H)
        size = self.candidate.in_features
        state = inputs.new_zeros(len(positions), size)
        states = []
        for step in inputs:
            gates = (0.2 * (step[:, : 2 * size] + self.gates(state)) + 0.5).clamp(0, 1)
            update, reset = gates.chunk(2, dim=-1)
            candidate = self.activation(step[:, 2 * size :] + self.candidate(reset * state))
            state = torch.lerp(candidate, state, update)
            states.append(state)
        return torch.stack(states, dim=1)


class PublishedRecurrentEncoder(nn.Module):
    """A GRU, or a GRU in each direction (quirk 5).

    Args:
        config: A `GileConfig`.
        input_size: Size of an input vector.
    """

    def __init__(self, config: PreTrainedConfig, input_size: int) -> None:
        super().__init__()
        text = config.text_config
        directions = 2 if text.encoder_cell == "bigru" else 1
        self.directions = nn.ModuleList(
            PublishedGru(input_size, text.hidden_size, config.recurrent_act) for _ in range(directions)
        )

    def forward(self, vectors: Tensor, positions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Encodes sequences; arguments and results are as in `RecurrentEncoder`, but the mask is ignored: quirk 1."""
        orders = (positions, positions.flip(1))  # states of the second are not flipped back: quirk 5
        hidden = torch.cat([gru(vectors, order) for gru, order in zip(self.directions, orders, strict=False)], dim=-1)
        return hidden.flatten(0, 1), torch.arange(positions.numel(), device=positions.device).reshape(positions.shape)


class PublishedAttention(AttentionPooling):
    """Attention of quirk 2. `projection` is W and c, `context` is u and b."""

    def score(self, hidden: Tensor) -> Tensor:
        """Computes `(N, 1)` scores of `(N, H)` hidden states."""
        return self.activation(super().score(hidden))


class PublishedHierarchicalEncoder(WordEncoder):
    """Encodes the words of each sentence, then the sentences, as published (see the docstring of this file).

    `config.sharing` selects the parts shared by languages: the encoders g_w and g_s, the attention a_w and a_s.

    Args:
        config: A `GileConfig`.
    """

    def make_parts(self, config: PreTrainedConfig) -> None:
        """Creates the layers above the word vectors; see `WordEncoder.make_parts`."""
        text = config.text_config

        def encoder(input_size: int) -> nn.Module:
            if text.encoder_cell == "dense":
                return DenseEncoder(input_size, text.hidden_size, text.hidden_act)
            return PublishedRecurrentEncoder(config, input_size)

        def attention() -> nn.Module:
            return PublishedAttention(config.document_size, text.attention_size, text.hidden_act, bias=True)

        share_encoders, share_attention = (config.sharing in (part, "both") for part in ("encoders", "attention"))
        self.size = (text.max_sentences, text.max_sentence_words)
        self.word_encoder = per_language(config, share_encoders, lambda: encoder(text.embedding_size))
        self.word_attention = per_language(config, share_attention, attention)
        self.sentence_encoder = per_language(config, share_encoders, lambda: encoder(config.document_size))
        self.sentence_attention = per_language(config, share_attention, attention)

    def encode(
        self, word_vectors: Tensor, positions: Tensor, mask: Tensor, language: str | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Encodes documents.

        Args:
            word_vectors: `(N, D)` vectors of the distinct words.
            positions: `(B, S, W)` rows of `word_vectors`, the words of each sentence.
            mask: `(B, S, W)` booleans, true for words; other positions are read as zero vectors.
            language: Language of all documents, for a multilingual model.

        Returns:
            `(B, H)` document vectors, and in a tuple the `(B, S, W)` word attention and the `(B, S)` sentence
            attention. As nothing is masked, part of the attention is on padding, also beyond S and W.

        Raises:
            ValueError: If a document has more sentences or words than the model reads.
        """
        documents, sentences, words = positions.shape
        padding = (self.size[0] - sentences, self.size[1] - words)
        if min(padding) < 0:
            raise ValueError(
                f"this model reads {self.size[0]} sentences of {self.size[1]} words (max_sentences and "
                f"max_sentence_words), got documents of {sentences} sentences of {words} words: truncate them"
            )
        # A zero vector is appended for positions without a word, up to the size of the graph (quirk 1).
        positions = positions.masked_fill(~mask, len(word_vectors))
        positions = functional.pad(positions, (0, padding[1], 0, padding[0]), value=len(word_vectors))
        vectors = functional.pad(word_vectors, (0, 0, 0, 1))

        every = torch.ones(1, 1, dtype=torch.bool, device=mask.device)
        hidden, positions = select_module(self.word_encoder, language)(vectors, positions.flatten(1), every)
        positions = positions.reshape(-1, self.size[1])
        vectors, word_weights = select_module(self.word_attention, language)(hidden, positions, every)
        document, sentence_weights = over_sentences(self, vectors, every.expand(documents, self.size[0]), language)
        word_weights = word_weights.reshape(documents, *self.size)[:, :sentences, :words]
        return document, (word_weights, sentence_weights[:, :sentences])


@strict
class PublishedGileConfig(GileConfig):
    """Configuration of a converted model: a HAN with attention and a fixed number of sentences and words.

    Args:
        recurrent_act: Activation of the candidate state of a GRU (`gruact` of the published code).
    """

    model_type = "gile_published"
    auto_classes: ClassVar[dict[str, str]] = {
        "AutoConfig": "published_gile.PublishedGileConfig",
        "AutoModel": "published_gile.PublishedGileModel",
        "AutoModelForSequenceClassification": "published_gile.PublishedGileForSequenceClassification",
    }

    recurrent_act: str = "tanh"

    def __post_init__(self, **kwargs: object) -> None:
        if self.text_config is None:
            kwargs.setdefault("text_encoder_type", "han")
        super().__post_init__(**kwargs)

    def validate_published(self) -> None:
        """Checks that the published graph supports the configuration, and that its size is plausible."""
        text = self.text_config
        size = text.max_sentences * text.max_sentence_words
        check_largest("max_sentences", size, "max_sentences times max_sentence_words")
        if (text.text_encoder_type, text.pooling) != ("han", "attention") or self.lexical:
            raise ValueError(
                "the published graph has text_encoder_type 'han' and pooling 'attention', and is not "
                f"lexical, got {text.text_encoder_type!r}, {text.pooling!r} and {self.lexical}"
            )
        if self.label_encoder_type == "text_encoder" and text.max_label_words > text.max_sentence_words:
            raise ValueError(
                f"max_label_words must be at most {text.max_sentence_words}, the max_sentence_words of the published "
                f"graph, if its text encoder reads labels, got {text.max_label_words}"
            )


class PublishedGileModel(GileModel):
    """A `GileModel` with the graph of the published checkpoints."""

    config_class = PublishedGileConfig

    @staticmethod
    def make_text_encoder(config: GileConfig) -> nn.Module:
        """Creates the published graph."""
        return PublishedHierarchicalEncoder(config)


class PublishedGileForSequenceClassification(GileForSequenceClassification):
    """A `GileForSequenceClassification` with the graph of the published checkpoints."""

    config_class = PublishedGileConfig
    towers_class = PublishedGileModel
