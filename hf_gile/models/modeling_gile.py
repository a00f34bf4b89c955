"""GILE for Transformers: both towers, `GileModel`; `classification_gile.py` has the classifier over it.

One legend for every shape: B documents, S sentences, W words, D word-embedding size, H document size, J joint size,
L labels, C columns scored in a training step, T words of a label, P gold labels of a document.

In a model of several languages (`config.languages`, section 3.3 of the paper) a call names the language of its
documents: `language="german"`, or one for each document, as names or as a `(B,)` tensor of places in the list. Labels
may be of any language: words of all languages share one space.
"""

import math
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.utils import ModelOutput, can_return_tuple

from .configuration_gile import GileConfig
from .fingerprint_gile import state_of
from .languages_gile import Languages, check_language, in_each_language, of_language
from .output_layers_gile import (
    BiasUnit,
    ClassificationUnit,
    JointInputLabelEmbedding,
    LinearOutput,
    MeanLabelEncoder,
    ZeroEmbedding,
)
from .published_gile import RecurrentWeight
from .text_encoders_gile import TEXT_ENCODERS
from .word_prediction_gile import WordPrediction


@dataclass
class GileModelOutput(ModelOutput):
    """What `GileModel` returns.

    Args:
        logits: `(B, L)` scores, before the sigmoid.
        text_embeds: `(B, H)` document vectors h.
        label_embeds: `(L, D)` label vectors e; none for a linear unit.
        attentions: With `output_attentions=True`, the word attention `(B, W)` of a WAN, or the word attention
            `(B, S, W)` and sentence attention `(B, S)` of a HAN; of averages, the weights of the average.
    """

    logits: Tensor | None = None
    text_embeds: Tensor | None = None
    label_embeds: Tensor | None = None
    attentions: tuple[Tensor, ...] | None = None


class GilePreTrainedModel(PreTrainedModel):
    """What all GILE models share: configuration and initialisation."""

    config_class = GileConfig
    base_model_prefix = "gile"
    main_input_name = "input_ids"
    _input_embed_layer = "word_embeddings"

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        # Only modules that hold parameters come here: transformers takes the others of custom code for initialised.
        # The functions of transformers.initialization skip what a checkpoint has filled already.
        if isinstance(module, ClassificationUnit | BiasUnit):
            prior = self.config.label_prior
            init.constant_(module.bias, math.log(prior / (1 - prior)))
            if isinstance(module, ClassificationUnit):
                init.normal_(module.weight, std=module.in_features**-0.5)
        elif isinstance(module, ZeroEmbedding):
            init.zeros_(module.weight)
        elif isinstance(module, RecurrentWeight):
            init.orthogonal_(module.weight)
        elif isinstance(module, nn.GRU):
            for name, parameter in module.named_parameters():
                if "bias" in name:
                    init.zeros_(parameter)
                    continue
                start = nn.init.orthogonal_ if "_hh_" in name else nn.init.xavier_uniform_
                gates = torch.empty(3, *parameter.chunk(3)[0].shape, device=parameter.device)
                # Not into views of the parameter: only the whole one says whether a checkpoint has filled it.
                init.copy_(parameter, torch.cat([start(gate) for gate in gates]))
        elif isinstance(module, nn.Linear):
            init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=self.config.embedding_std)
            if module.padding_idx is not None:
                init.zeros_(module.weight[module.padding_idx])

    def resize_token_embeddings(self, *args: Any, **kwargs: Any) -> nn.Embedding:
        """Gives the model another number of words; see `PreTrainedModel.resize_token_embeddings`."""
        resized = super().resize_token_embeddings(*args, **kwargs)
        model: Any = getattr(self, self.base_model_prefix, self)
        predict = model.word_prediction
        if predict is not None:
            predict.resize(resized.num_embeddings)
        return resized

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
        """Loads a model; see `PreTrainedModel.from_pretrained`, which takes all weights for trainable."""
        loaded = super().from_pretrained(*args, **kwargs)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        if model.config.freeze_word_vectors:
            model.get_input_embeddings().requires_grad_(False)
        return loaded


class GileModel(GilePreTrainedModel):
    """Scores documents against labels given by their words, seen in training or not (GILE, Eq. 14).

    The score is the inner product of a text code and a label code, plus a constant; `get_text_features`,
    `get_label_features` and `score` are its three parts, and `forward` is all of them.

    Args:
        config: A `GileConfig`.

    Example:
        >>> model = GileModel(GileConfig(vocab_size=11, embedding_size=3, joint_size=5)).eval()
        >>> words = torch.tensor([[4, 7, 2, 0], [9, 0, 0, 0]])
        >>> model(input_ids=words, label_input_ids=torch.tensor([[4, 2], [5, 0], [8, 0]])).logits.shape
        torch.Size([2, 3])
    """

    _mode_changes = 0
    # The stored labels of a classifier's checkpoint: not needed here, and nothing to warn of.
    _keys_to_ignore_on_load_unexpected: ClassVar[list[str]] = ["label_input_ids"]

    def __init__(self, config: GileConfig) -> None:
        super().__init__(config)
        self.word_embeddings = nn.Embedding(config.vocab_size, config.embedding_size, padding_idx=config.pad_token_id)
        self.word_embeddings.weight.requires_grad_(not config.freeze_word_vectors)
        self.text_encoder = TEXT_ENCODERS[config.text_encoder_type](config)
        self.output_layer: Any  # either has encode_texts and score
        if config.output_layer == "linear":
            self.output_layer = LinearOutput(config)
        else:
            self.label_encoder = None if config.label_encoder_type == "text_encoder" else MeanLabelEncoder(config)
            if config.label_encoder_type == "learned":
                self.label_residual = ZeroEmbedding(config.num_labels, config.embedding_size)
            self.output_layer = JointInputLabelEmbedding(config)
        self.word_prediction = WordPrediction(config) if config.word_prediction > 0 else None
        self.post_init()

    def set_word_vectors(self, vectors: Tensor | Any) -> None:
        """Gives words their vectors, such as those of `hf_gile.data.load_word_vectors`.

        With `config.freeze_word_vectors` they keep them in training.

        Args:
            vectors: `(vocab_size, D)` numbers, row by row those of the tokenizer's words. The row of the padding word
                is not read.

        Raises:
            ValueError: Vectors of another shape, or numbers that are not finite.
        """
        given = torch.as_tensor(vectors)
        weight = self.word_embeddings.weight
        if given.shape != weight.shape:
            raise ValueError(f"word vectors must have shape {tuple(weight.shape)}, got {tuple(given.shape)}")
        if not bool(given.isfinite().all()):
            raise ValueError(f"word vector {int((~given.isfinite()).any(1).nonzero()[0])} holds numbers not finite")
        with torch.no_grad():
            weight.copy_(given)
            weight[self.config.pad_token_id] = 0

    def encode_texts(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        language: Languages = None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The text encoder: document vectors and attention.

        Args:
            input_ids: `(B, W)` word ids (nn, wan) or `(B, S, W)` (hnn, han).
            attention_mask: `(B, W)` or `(B, S, W)`, true or 1 where there is a word. By default every word that is not
                the padding word; with `inputs_embeds`, every word.
            inputs_embeds: `(B, W, D)` or `(B, S, W, D)` word vectors, instead of `input_ids`.
            language: The language of the documents, or of each.

        Returns:
            `(B, H)` document vectors, and the attention weights as in `GileModelOutput`. A document without words
            gets the zero vector (but not of a `han_published`, which masks nothing).

        Raises:
            ValueError: Not exactly one of `input_ids` and `inputs_embeds`, a wrong number of dimensions, or a language
                that the model does not know.
        """
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask, "inputs_embeds": inputs_embeds}
        self._check_documents(input_ids, inputs_embeds)
        document, *attentions = in_each_language(self.config, language, inputs, self._encode)
        return document, tuple(attentions)

    def _encode(
        self,
        language: str | None,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        inputs_embeds: Tensor | None,
        is_label: bool = False,
    ) -> tuple[Tensor, ...]:
        if input_ids is not None:
            if input_ids.shape[-1] == 0:  # what a tokenizer makes of an empty text, in floats
                input_ids = input_ids.new_full((*input_ids.shape[:-1], 1), self.config.pad_token_id, dtype=torch.long)
                attention_mask = None
            words, places = torch.unique(input_ids, return_inverse=True)
            word_vectors = self.word_embeddings(words)
            if attention_mask is None:
                attention_mask = input_ids != self.config.pad_token_id
        else:
            assert inputs_embeds is not None
            word_vectors = inputs_embeds.flatten(0, -2)
            places = torch.arange(len(word_vectors), device=word_vectors.device).reshape(inputs_embeds.shape[:-1])
        if attention_mask is None:
            attention_mask = torch.ones_like(places)
        if attention_mask.shape != places.shape:
            raise ValueError(
                f"attention_mask must have shape {tuple(places.shape)} like the words, "
                f"got {tuple(attention_mask.shape)}"
            )
        mask = attention_mask.bool()
        if inputs_embeds is not None:  # a weight of zero would not rid a sum of NaN
            word_vectors = word_vectors.masked_fill(~mask.reshape(-1, 1), 0)
        if self.training and self.config.word_dropout > 0 and not is_label:
            kept = torch.rand(len(places), len(word_vectors), device=places.device) >= self.config.word_dropout
            mask = mask & kept.gather(1, places.flatten(1)).reshape(places.shape)
        document, attentions = self.text_encoder(word_vectors, places, mask, language)
        return document, *attentions

    def encode_labels(
        self,
        label_input_ids: Tensor,
        label_attention_mask: Tensor | None = None,
        label_language: Languages = None,
    ) -> Tensor:
        """The label encoder: the mean of the word vectors of each label (section 2.2), or the text encoder itself.

        Args:
            label_input_ids: `(L, T)` word ids, padded with the padding word.
            label_attention_mask: `(L, T)`, true or 1 where there is a word; by default the words that are not padding.
            label_language: The language of the labels, or of each; only read where the text encoder reads labels.

        Returns:
            `(L, D)` label vectors e; `(L, H)` from the text encoder.

        Raises:
            ValueError: A wrong number of dimensions, or a model with a linear unit.
        """
        self._require_joint_embedding()
        if label_input_ids.dim() != 2:
            raise ValueError(f"label_input_ids must have shape (L, T), got {tuple(label_input_ids.shape)}")
        if label_attention_mask is not None:
            label_input_ids = label_input_ids.masked_fill(~label_attention_mask.bool(), self.config.pad_token_id)
        if self.label_encoder is not None:
            return self.label_encoder(label_input_ids, self.word_embeddings)
        if TEXT_ENCODERS[self.config.text_encoder_type].input_dims == "(B, S, W)":
            label_input_ids = label_input_ids[:, None]  # one sentence
        if label_language is None and len(self.config.languages) > 1:
            raise ValueError(
                "the text encoder reads the labels: name their language, or that of each (label_language=...)"
            )
        inputs = {"input_ids": label_input_ids, "attention_mask": None, "inputs_embeds": None}
        encode = partial(self._encode, is_label=True)
        return in_each_language(self.config, label_language, inputs, encode)[0]

    def get_text_features(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        language: Languages = None,
    ) -> Tensor:
        """Text codes, the documents' side of the score; arguments as in `encode_texts`.

        Returns:
            `(B, J)` text codes (`(B, H + 1)` with a linear unit).
        """
        text_embeds = self.encode_texts(input_ids, attention_mask, inputs_embeds, language)[0]
        return self.project_texts(text_embeds, language)

    def project_texts(self, text_embeds: Tensor, language: Languages = None) -> Tensor:
        """The last step of `get_text_features`.

        Args:
            text_embeds: `(B, H)` document vectors, from `encode_texts`.
            language: The language of the documents, or of each.

        Returns:
            `(B, J)` text codes (`(B, H + 1)` with a linear unit).
        """

        def project(language: str | None, text_embeds: Tensor) -> tuple[Tensor]:
            return (self.output_layer.encode_texts(text_embeds, language),)

        return in_each_language(self.config, language, {"text_embeds": text_embeds}, project)[0]

    def get_label_features(
        self,
        label_input_ids: Tensor | None = None,
        label_attention_mask: Tensor | None = None,
        label_embeds: Tensor | None = None,
        language: str | None = None,
        label_language: Languages = None,
    ) -> Tensor:
        """Label codes, the labels' side of the score: compute them once and keep them.

        Args:
            label_input_ids: `(L, T)` word ids, as in `encode_labels`.
            label_attention_mask: `(L, T)`, as in `encode_labels`.
            label_embeds: `(L, D)` label vectors e, instead of words.
            language: The language of the documents to score; only read without `config.share_joint_space`.
            label_language: The language of the labels, or of each; only read where the text encoder reads labels, and
                by default that of the documents.

        Returns:
            `(L, J)` label codes. A code depends on its own label only.

        Raises:
            ValueError: Not exactly one of `label_input_ids` and `label_embeds`, or a model with a linear unit.
        """
        if label_language is None:
            label_language = language
        label_embeds = self._label_embeds(label_input_ids, label_attention_mask, label_embeds, label_language)
        if not self.config.share_joint_space:
            language = check_language(self.config, language)
        return self.output_layer.encode_labels(label_embeds, language)

    def score(self, text_codes: Tensor, label_codes: Tensor, language: Languages = None) -> Tensor:
        """The inner product that is the score.

        Args:
            text_codes: `(B, J)` from `get_text_features`.
            label_codes: `(L, J)` from `get_label_features`.
            language: The language of the documents, or of each.

        Returns:
            `(B, L)` logits; their sigmoid is the probability that the label applies.
        """

        def score(language: str | None, text_codes: Tensor) -> tuple[Tensor]:
            return (self.output_layer.score(text_codes, label_codes, language),)

        return in_each_language(self.config, language, {"text_codes": text_codes}, score)[0]

    def label_state(self) -> tuple[Any, ...]:
        """A fingerprint of what label codes are made of: while it stays equal, kept codes are still right.

        It holds addresses and versions of the weights, the numbers of a sample of them (a fused optimizer, and writing
        into `.data`, leave the version as it is), how often `train` was called, and the autocast type.
        """
        weights: list[Tensor] = [*self.label_parameters()]
        if self.config.label_encoder_type == "learned":
            weights.append(self.label_residual.weight)
        kind = self.word_embeddings.weight.device.type
        autocast = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
        return (self._mode_changes, autocast, *state_of(*weights))

    def label_parameters(self, language: str | None = None) -> list[nn.Parameter]:
        """The weights that make label codes of the words of labels.

        Args:
            language: The language of the documents to score; by default of all.
        """
        projection = self.output_layer.label_projection
        parts = [self.word_embeddings, projection if language is None else of_language(projection, language)]
        if self.config.label_encoder_type == "text_encoder":
            parts.append(self.text_encoder)
        return [parameter for part in parts if part is not None for parameter in part.parameters()]

    def train(self, mode: bool = True) -> "GileModel":
        """Switches between training and evaluation; what was kept of the labels is stale from here on."""
        self._mode_changes += 1
        return super().train(mode)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        label_input_ids: Tensor | None = None,
        label_attention_mask: Tensor | None = None,
        label_embeds: Tensor | None = None,
        language: Languages = None,
        label_language: Languages = None,
        output_attentions: bool | None = None,
    ) -> GileModelOutput:
        """Scores every document with every label.

        Args:
            input_ids: `(B, W)` or `(B, S, W)` word ids, as in `encode_texts`.
            attention_mask: `(B, W)` or `(B, S, W)`, as in `encode_texts`.
            inputs_embeds: `(B, W, D)` or `(B, S, W, D)` word vectors, instead of `input_ids`.
            label_input_ids: `(L, T)` word ids, as in `encode_labels`.
            label_attention_mask: `(L, T)`, as in `encode_labels`.
            label_embeds: `(L, D)` label vectors e, instead of `label_input_ids`.
            language: The language of the documents, or of each; it can be left out if there is one.
            label_language: The language of the labels, or of each, as in `get_label_features`.
            output_attentions: Whether to return the attention weights.

        Returns:
            A `GileModelOutput`.

        Raises:
            ValueError: Arguments are missing, or of a wrong shape.
        """
        text_embeds, attentions = self.encode_texts(input_ids, attention_mask, inputs_embeds, language)
        is_linear = self.config.output_layer == "linear" and label_input_ids is None and label_embeds is None
        if not is_linear:
            if label_language is None:
                label_language = language if language is None or isinstance(language, str) else None
            label_embeds = self._label_embeds(label_input_ids, label_attention_mask, label_embeds, label_language)

        layer = self.output_layer
        one_space = self.config.share_joint_space and not is_linear

        @cache
        def label_codes(language: str | None) -> Tensor:
            return layer.label_codes(None, language) if is_linear else layer.encode_labels(label_embeds, language)

        def score(language: str | None, text_embeds: Tensor) -> tuple[Tensor]:
            codes = label_codes(None if one_space else language)
            return (layer.score(layer.encode_texts(text_embeds, language), codes, language),)

        return GileModelOutput(
            logits=in_each_language(self.config, language, {"text_embeds": text_embeds}, score)[0],
            text_embeds=text_embeds,
            label_embeds=label_embeds,
            attentions=attentions if output_attentions else None,
        )

    def _label_embeds(
        self,
        label_input_ids: Tensor | None,
        label_attention_mask: Tensor | None,
        label_embeds: Tensor | None,
        label_language: Languages,
    ) -> Tensor:
        self._require_joint_embedding()
        if label_input_ids is not None:
            if label_embeds is not None:
                raise ValueError("pass either label_input_ids or label_embeds, got both")
            return self.encode_labels(label_input_ids, label_attention_mask, label_language)
        if label_embeds is None:
            raise ValueError(
                "pass either label_input_ids or label_embeds, got neither; "
                "the processor saved with the model makes label_input_ids of label texts"
            )
        if label_embeds.dim() != 2 or label_embeds.shape[1] != self.config.label_size:
            raise ValueError(
                f"label_embeds must have shape (L, {self.config.label_size}), got {tuple(label_embeds.shape)}"
            )
        return label_embeds

    def _check_documents(self, input_ids: Tensor | None, inputs_embeds: Tensor | None) -> None:
        shape = TEXT_ENCODERS[self.config.text_encoder_type].input_dims
        if input_ids is not None and inputs_embeds is None:
            name, given = "input_ids", input_ids
        elif inputs_embeds is not None and input_ids is None:
            name, given, shape = "inputs_embeds", inputs_embeds, shape.replace(")", ", D)")
        else:
            raise ValueError(
                f"pass either input_ids or inputs_embeds, got {'both' if input_ids is not None else 'neither'}"
            )
        if given.dim() != shape.count(",") + 1:
            raise ValueError(
                f"text_encoder_type {self.config.text_encoder_type!r} takes {name} of shape {shape}, "
                f"got {tuple(given.shape)}; the processor saved with the model makes them of text"
            )

    def _require_joint_embedding(self) -> None:
        if self.config.output_layer == "linear":
            raise ValueError(
                "output_layer='linear' scores only the labels it was trained on and cannot read others; "
                "train a model with output_layer='gile' to score labels by their words"
            )


def _code_that_travels() -> None:
    """Never called: transformers copies the files a modeling file imports, and these belong to every saved model."""
    from .classification_gile import GileForSequenceClassification  # noqa: F401
    from .pipeline_gile import LabelScoringPipeline  # noqa: F401
    from .processing_gile import GileProcessor  # noqa: F401


__all__ = ["GileModel", "GileModelOutput", "GilePreTrainedModel"]
