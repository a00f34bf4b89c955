"""GILE models for Transformers: `GileModel` with both towers, and a classifier with stored labels.

Shapes: B documents, S sentences, W words, D word-embedding size, H document size, J joint size, L labels, C labels
scored in a training step, T words of a label, P gold labels of a document. For a pretrained encoder, W and T count
tokens, S counts windows, and P is the size of its hidden states.

In a multilingual model (`config.languages`, section 3.3 of the paper), calls specify the language of documents:
`language="german"`, or a language for each document, as names or a `(B,)` tensor of indices into the list. Labels may
be in any language: words of all languages share a space.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils import ModelOutput, can_return_tuple, logging

from .configuration_gile import GileConfig
from .label_embeds_gile import (
    LABELS_AT_ONCE,
    LabelEmbeds,
    embed_stored_labels,
    keeps_label_embeds,
    save_label_embeds,
)
from .labels_gile import LABELS_FILE, Label, LabelSet
from .languages_gile import Languages, check_language, check_shape, check_tensors, label_space, run_by_language
from .lexical_gile import LexicalFeatures, Postings, WordRows
from .losses_gile import label_loss, without_infinities
from .mixture_gile import Rows, RowTable
from .pretrained_gile import GilePreTrainedModel
from .processing_gile import WRONG_PIPELINE, GileProcessor, check_processor
from .saving_gile import find_file
from .scoring_gile import JointInputLabelEmbedding, LinearOutput, Neighbours
from .stored_labels_gile import StoredLabels, compute_state
from .text_encoders_gile import PRETRAINED, StaticEncoder, WordEncoder, mean_of_words, rms_normalized

_logger = logging.get_logger(__name__)


@dataclass
class GileModelOutput(ModelOutput):
    """Output of `GileModel`.

    Args:
        logits: `(B, L)` scores, before the sigmoid.
        text_embeds: `(B, H)` document vectors h.
        label_embeds: `(L, D)` label vectors e; None for a linear unit.
        attentions: With `output_attentions=True`, the word attention `(B, W)` of a WAN, or the word attention `(B, S,
            W)` and sentence attention `(B, S)` of a HAN; for averages, their weights. For a pretrained encoder, these
            are the weights of the pooling, which are missing if `pooled_embeds` were passed.
        hidden_states: With `output_hidden_states=True`, those of each layer of a pretrained encoder, `(B, W, P)` or
            `(B, S, W, P)`, zero for padding. Word encoders have none.
    """

    logits: Tensor | None = None
    text_embeds: Tensor | None = None
    label_embeds: Tensor | None = None
    attentions: tuple[Tensor, ...] | None = None
    hidden_states: tuple[Tensor, ...] | None = None


class _ReturnedParts:
    """Collects attention and hidden states, if requested in a call of a model or in its configuration.

    Args:
        config: A `GileConfig`.
        arguments: Arguments of the call, of which `output_attentions` and `output_hidden_states` are removed.
    """

    def __init__(self, config: GileConfig, arguments: dict[str, Any]) -> None:
        self.wanted: dict[str, bool] = {}
        for name in ("attentions", "hidden_states"):
            value = arguments.pop(f"output_{name}", None)  # peft passes None
            self.wanted[name] = getattr(config, f"output_{name}", False) if value is None else value
        if self.wanted["hidden_states"] and not config.text_config.reads_pretrained:
            _logger.warning_once("output_hidden_states: only pretrained encoders have hidden states to return")
            self.wanted["hidden_states"] = False

    def embed_texts(
        self, gile: "GileModel", documents: dict[str, Tensor | None], language: str | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Encodes documents; returns their vectors, and attention followed by hidden states."""
        states: list[Tensor] = []
        hidden_states = states if self.wanted["hidden_states"] else None
        text_embeds, attentions = gile.embed_texts(**documents, language=language, hidden_states=hidden_states)
        self.num_attentions = len(attentions)
        return text_embeds, (*attentions, *states)

    def split(self, parts: list[Tensor]) -> dict[str, tuple[Tensor, ...]]:
        """Returns the requested fields of the output, if there are any."""
        number = self.num_attentions
        fields = {"attentions": tuple(parts[:number]), "hidden_states": tuple(parts[number:])}
        return {name: values for name, values in fields.items() if values and self.wanted[name]}


class GileModel(GilePreTrainedModel):
    """Scores documents against labels by their text, whether seen in training or not (GILE, Eq. 14).

    The score is the inner product of a text code and a label code plus a constant. `project_texts`, `project_labels`
    and `score` compute the three steps, `forward` combines them.
    """

    # The stored labels of a classifier checkpoint are not needed here, so do not warn about them.
    _keys_to_ignore_on_load_unexpected: ClassVar[list[str]] = [r"^stored_labels\."]

    def __init__(self, config: GileConfig) -> None:
        super().__init__(config)
        self.text_encoder = self.make_text_encoder(config)
        encoder = getattr(self.text_encoder, "transformer", None)
        self.supports_gradient_checkpointing = getattr(encoder, "supports_gradient_checkpointing", False)
        self.label_rows: Any = None  # table of rows of stored labels
        self.word_rows: Any = None
        self.neighbours: Any = None
        if config.label_rows:
            size = config.document_size if config.label_rows == "full" else 0
            self.label_rows = RowTable(config.num_labels, size)
        if config.row_words:
            self.word_rows = WordRows(*map(torch.zeros, (config.num_labels, config.row_words, config.row_words)))
        if config.neighbours and config.output_layer != "linear":
            self.neighbours = Neighbours(config.neighbours + 1, config.document_size)
        output_layer = LinearOutput if config.output_layer == "linear" else JointInputLabelEmbedding
        self.output_layer: Any = output_layer(config)
        self.freeze()
        self.post_init()

    @staticmethod
    def make_text_encoder(config: GileConfig) -> Any:
        """Creates the text encoder of the configured type."""
        return PRETRAINED.get(config.text_config.text_encoder_type, WordEncoder)(config)

    def freeze(self) -> None:
        """Freezes the parts that the configuration marks as frozen."""
        if self.config.lexical:
            self.output_layer.lexical.requires_grad_(False)
        if self.neighbours is not None:
            self.neighbours.requires_grad_(False)
        if self.config.text_config.freeze_text_encoder:
            self.text_encoder.transformer.requires_grad_(False)

    def get_input_embeddings(self) -> Any:
        """Returns the word embedding table, or that of the pretrained encoder; None for a static encoder."""
        encoder = self.text_encoder
        if isinstance(encoder, StaticEncoder):
            return None
        reads_pretrained = self.config.text_config.reads_pretrained
        return encoder.transformer.get_input_embeddings() if reads_pretrained else encoder.word_embeddings

    def embed_texts(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        language: str | None = None,
        pooled_embeds: Tensor | None = None,
        hidden_states: list[Tensor] | None = None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Encodes documents: returns document vectors and attention.

        Args:
            input_ids: `(B, W)` word ids (nn, wan) or `(B, S, W)` (hnn, han).
            attention_mask: `(B, W)` or `(B, S, W)`, true or 1 for words. By default true, except for padding ids.
            inputs_embeds: `(B, W, D)` or `(B, S, W, D)` word vectors, instead of `input_ids`.
            language: Language of the documents; optional if there is only one.
            pooled_embeds: `(B, P)`, or `(B, S, P)` for windows, precomputed output of the pretrained encoder for these
                documents (`hf_gile.training.add_pooled_embeds`).
            hidden_states: List to which those of each layer of a pretrained encoder are added, as in `GileModelOutput`.

        Returns:
            `(B, H)` document vectors, and attention weights as in `GileModelOutput`. A document without words gets the
            zero vector (except in a published graph, which does not mask).

        Raises:
            ValueError: If not exactly one of `input_ids` and `inputs_embeds` is passed, or a shape or language is
                wrong.
        """
        language = check_language(self.config, language)
        text = self.config.text_config
        if (input_ids is None and pooled_embeds is None) == (inputs_embeds is None):
            raise ValueError("pass exactly one of input_ids and inputs_embeds, or pooled_embeds instead of the latter")
        dimensions = "BSW" if text.reads_sentences else "BW"
        check_shape("input_ids", input_ids, *dimensions)
        check_shape("inputs_embeds", inputs_embeds, *dimensions, "D")
        if pooled_embeds is not None:
            self._check_pooled(pooled_embeds, input_ids)
            pooled_embeds = pooled_embeds.to(self.dtype)
        if input_ids is not None and input_ids.numel() == 0:  # tokenizers return floats for an empty text
            shape = [len(input_ids), *(max(1, size) for size in input_ids.shape[1:])]
            input_ids = input_ids.new_full(shape, text.pad_token_id, dtype=torch.long)
            attention_mask = None
        self._check_ids("input_ids", input_ids)
        mask = None
        if input_ids is not None:
            mask = input_ids != text.pad_token_id
        elif inputs_embeds is not None:
            mask = torch.ones(inputs_embeds.shape[:-1], dtype=torch.bool, device=inputs_embeds.device)
        if mask is not None and attention_mask is not None:
            check_shape("attention_mask", attention_mask, *mask.shape)
            mask = attention_mask.bool()
        if mask is not None and self.training and text.word_dropout > 0:
            words = torch.arange(mask.numel(), device=mask.device).view(mask.shape) if input_ids is None else input_ids
            distinct, positions = torch.unique(words, return_inverse=True)
            retained = torch.rand(len(positions), len(distinct), device=positions.device) >= text.word_dropout
            mask = mask & retained.gather(1, positions.flatten(1)).view(mask.shape)
        inputs = (input_ids, mask, inputs_embeds, pooled_embeds, language, hidden_states)
        return self.text_encoder(*inputs)

    def _check_pooled(self, pooled: Tensor, input_ids: Tensor | None) -> None:
        """Refuses precomputed outputs that the model cannot use, or that do not match the other inputs."""
        text = self.config.text_config
        if not text.reads_pretrained:
            raise ValueError(f"pooled_embeds need a pretrained encoder, got {text.text_encoder_type!r}")
        check_shape("pooled_embeds", pooled, *("BS" if text.reads_sentences else "B"), text.pooled_size)
        if self.training and not text.has_fixed_pooling:
            raise ValueError(
                "pooled_embeds would be outdated in training: train with freeze_text_encoder=True and a "
                f"pooling without weights, got freeze_text_encoder={text.freeze_text_encoder}, {text.pooling!r}"
            )
        if input_ids is not None and input_ids.shape[:-1] != pooled.shape[:-1]:
            raise ValueError(
                f"pooled_embeds {tuple(pooled.shape)} and input_ids {tuple(input_ids.shape)} belong to other documents"
            )

    def embed_labels(self, label_input_ids: Tensor, label_language: Languages = None) -> Tensor:
        """Encodes labels: `(L, D)` label vectors e, means of word vectors or outputs of the text encoder.

        Args:
            label_input_ids: `(L, T)` word ids; padding is ignored.
            label_language: Language of all labels or of each; only used if the text encoder reads labels.

        Raises:
            ValueError: If the shape is wrong, or the model has a linear unit.
        """
        self._require_joint_embedding()
        check_shape("label_input_ids", label_input_ids, "L", "T")
        self._check_ids("label_input_ids", label_input_ids)
        text = self.config.text_config
        mask = label_input_ids != text.pad_token_id
        if self.config.label_encoder_type == "mean":
            vectors = mean_of_words(self.get_input_embeddings(), label_input_ids, text.pad_token_id)
            # Embedding tables of pretrained encoders have much smaller numbers than their hidden states.
            if text.reads_pretrained:
                vectors = rms_normalized(vectors)
        else:
            inputs = {"input_ids": label_input_ids, "mask": mask}
            vectors = run_by_language(self.config, label_language, inputs, self.read_labels)[0]
        return vectors

    def read_labels(
        self, language: str | None, input_ids: Tensor, mask: Tensor, pooled: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Encodes labels of a language by the text encoder, `(L, H)`; `pooled` is as in `WordEncoder.forward`."""
        if pooled is None and self.config.text_config.reads_pretrained:
            pooled = self.text_encoder.pool_labels(input_ids, mask, language)
        if self.config.text_config.reads_sentences:  # a label is a single sentence
            input_ids = input_ids[:, None]
            mask = mask[:, None]
            pooled = None if pooled is None else pooled[:, None]
        return (self.text_encoder(input_ids, mask, None, pooled, language)[0],)

    def project_texts(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        language: str | None = None,
        pooled_embeds: Tensor | None = None,
    ) -> Tensor:
        """Computes `(B, J)` text codes, the document side of the score; arguments and errors as in `embed_texts`."""
        text_embeds, _ = self.embed_texts(input_ids, attention_mask, inputs_embeds, language, pooled_embeds)
        return self.output_layer.project_texts(text_embeds, check_language(self.config, language))

    def project_labels(
        self,
        label_input_ids: Tensor | None = None,
        label_embeds: Tensor | None = None,
        language: str | None = None,
        label_language: Languages = None,
        label_rows: Rows | None = None,
    ) -> Tensor:
        """Computes label codes, the label side of the score. They can be computed once and reused.

        Args:
            label_input_ids: `(L, T)` word ids, as in `embed_labels`.
            label_embeds: `(L, D)` label vectors e, instead of words.
            language: Language of the documents to score; only used without `config.share_joint_space`.
            label_language: As in `embed_labels`; by default that of the documents.
            label_rows: Rows of stored labels, with `config.label_rows`; by default none.

        Returns:
            `(L, J)` label codes. Each depends on its label only.

        Raises:
            ValueError: If not exactly one of `label_input_ids` and `label_embeds` is passed, or for a linear unit.
        """
        if label_language is None:
            label_language = language
        label_embeds = self._label_embeds(label_input_ids, label_embeds, label_language)
        if not self.config.share_joint_space:
            language = check_language(self.config, language)
        return self.output_layer.project_labels(label_embeds, language, label_rows)

    def score(self, text_codes: Tensor, label_codes: Tensor, language: str | None = None) -> Tensor:
        """Computes `(B, L)` logits: inner products of `(B, J)` text codes and `(L, J)` label codes plus a constant."""
        return self.output_layer.score(text_codes, label_codes, check_language(self.config, language))

    def label_state(self) -> tuple[Any, ...]:
        """Returns a state on which label codes depend: cached codes are valid while it is equal."""
        kind = "cpu" if self.device.type == "meta" else self.device.type  # offloaded until modules are called
        autocast = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
        weights = self.label_parameters()
        if self.label_rows is not None:
            weights += self.label_rows.parameters()
        return autocast, repr(self.config.term_weights), *compute_state(*weights)

    def label_parameters(self) -> list[nn.Parameter]:
        """Returns the weights that affect label codes, for documents of any language; none of a linear unit."""
        layer = self.output_layer
        if isinstance(layer, LinearOutput):
            return []
        reads_labels = self.config.label_encoder_type == "text_encoder"
        reader = self.text_encoder if reads_labels else self.get_input_embeddings()
        if isinstance(reader, StaticEncoder):
            reader = None  # the label vectors are constant
        projection = layer.input_projection if layer.projects_labels else layer.label_projection
        parts = (projection, layer.label_layers, layer.cosine, reader)
        return [parameter for part in parts if part is not None for parameter in part.parameters()]

    @torch.no_grad()
    def set_word_rows(self, num_labels: int, ids: Tensor, label_indices: Tensor, weights: Tensor) -> None:
        """Sets word rows of stored labels: `(W,)` lexical ids, ascending label indices, and weights."""
        sizes = label_indices.bincount(minlength=num_labels)
        self.config.row_words = len(ids)
        self.word_rows = WordRows(sizes, ids, weights).to(self.device) if len(ids) else None

    def lexical_features(self, inputs: Mapping[str, Any], text_embeds: Tensor) -> LexicalFeatures | None:
        """Reads the lexical features of a processor, if any, and adds the neighbours of `(B, H)` document vectors."""
        features = LexicalFeatures.of(inputs)
        if features is None or self.neighbours is None:
            return features
        neighbours, shares = self.neighbours(text_embeds)
        return replace(features.to(text_embeds.device), neighbours=neighbours, shares=shares)

    def add_words(
        self, scores: Tensor, postings: Postings | None, inputs: Mapping[str, Any], text_embeds: Tensor
    ) -> Tensor:
        """Adds the terms of words to `(B, L)` scores, if labels have postings; other arguments as above."""
        if postings is None:
            return scores
        return scores + postings.scores(self.lexical_features(inputs, text_embeds), len(scores)).to(scores)

    @torch.no_grad()
    def postings(
        self, labels: Sequence[Label], label_rows: Rows | None = None, columns: Tensor | None = None
    ) -> Postings | None:
        """Builds the postings of L labels for lexical terms; None if these have no weight.

        `label_rows` are as in `project_labels`; `columns` are `(L,)` indices of their word rows, -1 for none.
        """
        layer = self.output_layer
        if not layer.counts_words:
            return None
        words = None if columns is None or self.word_rows is None else self.word_rows(columns)
        weights = layer.word_weights(len(labels), label_rows)
        return Postings.build(labels, layer.lexical(), weights, words, self.config.full_length)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        label_input_ids: Tensor | None = None,
        label_embeds: Tensor | None = None,
        language: Languages = None,
        label_language: Languages = None,
        **kwargs: Any,
    ) -> GileModelOutput:
        """Scores every document against every label.

        Args:
            input_ids: Documents, as in `embed_texts`.
            attention_mask: Mask of words, as in `embed_texts`.
            inputs_embeds: Word vectors instead of `input_ids`, as in `embed_texts`.
            label_input_ids: Labels, as in `project_labels`.
            label_embeds: Label vectors e instead of `label_input_ids`, as in `project_labels`.
            language: Language of all documents or of each; optional if there is only one.
            label_language: Language of all labels or of each, as in `project_labels`.
            kwargs: `postings` of labels, with `lexical_ids` and `lexical_counts` of the documents; whether to return
                `output_attentions` and `output_hidden_states` of `GileModelOutput`, by default as configured.

        Raises:
            ValueError: If arguments are missing or have a wrong shape.
            TypeError: If an argument is unknown.
        """
        returned = _ReturnedParts(self.config, kwargs)
        for name in kwargs.keys() - {"postings", "lexical_ids", "lexical_counts"}:
            raise TypeError(f"forward() got an unexpected keyword argument {name!r}")
        layer = self.output_layer
        config = self.config
        uses_trained_labels = config.output_layer == "linear" and label_input_ids is None and label_embeds is None
        if not uses_trained_labels:
            if label_language is None and (language is None or isinstance(language, str)):
                label_language = language
            label_embeds = self._label_embeds(label_input_ids, label_embeds, label_language)

        @cache
        def label_codes(language: str | None) -> Tensor:
            if uses_trained_labels:
                return layer.label_codes(language=language)
            return layer.project_labels(label_embeds, language)

        def score(language: str | None, **documents: Tensor | None) -> tuple[Tensor, ...]:
            text_embeds, parts = returned.embed_texts(self, documents, language)
            codes = label_codes(language if uses_trained_labels else label_space(config, language))
            logits = layer.score(layer.project_texts(text_embeds, language), codes, language)
            return logits, text_embeds, *parts

        documents = {"input_ids": input_ids, "attention_mask": attention_mask, "inputs_embeds": inputs_embeds}
        logits, text_embeds, *parts = run_by_language(config, language, documents, score)
        logits = self.add_words(logits, kwargs.get("postings"), kwargs, text_embeds)
        return GileModelOutput(
            logits=logits, text_embeds=text_embeds, label_embeds=label_embeds, **returned.split(parts)
        )

    def _label_embeds(
        self, label_input_ids: Tensor | None, label_embeds: Tensor | None, label_language: Languages
    ) -> Tensor:
        """Returns label vectors, encoded unless passed; refuses both or neither."""
        self._require_joint_embedding()
        if (label_input_ids is None) == (label_embeds is None):
            raise ValueError(
                "pass exactly one of label_input_ids and label_embeds; the processor saved with the model returns "
                "label_input_ids"
            )
        if label_embeds is None:
            assert label_input_ids is not None
            return self.embed_labels(label_input_ids, label_language)
        check_shape("label_embeds", label_embeds, "L", self.config.label_size)
        return label_embeds

    def _check_ids(self, name: str, ids: Tensor | None) -> None:
        """Refuses unknown word ids; on CPUs only, to avoid synchronizing other devices."""
        if ids is None or ids.numel() == 0 or torch.compiler.is_compiling():
            return
        if ids.is_floating_point() or ids.dtype == torch.bool:
            raise ValueError(f"{name} must be integer word ids, got {ids.dtype}")
        if ids.device.type != "cpu":
            return
        lowest, highest = map(int, ids.aminmax())
        if lowest < 0 or highest >= self.config.text_config.vocab_size:
            raise ValueError(
                f"{name} must be word ids of this model, from 0 to {self.config.text_config.vocab_size - 1}, got "
                f"{lowest} to {highest}; use the processor saved with the model"
            )

    def _require_joint_embedding(self) -> None:
        """Refuses a linear unit, which has no label encoder."""
        if self.config.output_layer == "linear":
            raise ValueError(
                "output_layer='linear' scores only the labels it was trained on; train a model with "
                "output_layer='gile' to score other labels by their text"
            )


class GileForSequenceClassification(GilePreTrainedModel):
    """A GILE model with a stored label set, compatible with the stock Trainer and pipelines.

    The words of the labels are stored with the weights. `label_set` has the ids and descriptions of labels and is saved
    as `labels.jsonl`. `gile` scores any other labels.
    """

    towers_class = GileModel
    accepts_loss_kwargs = True  # Trainer passes num_items_in_batch and does not scale the loss

    def __init__(self, config: GileConfig) -> None:
        # Registers pipeline("label-scoring", model=...), also for remote code, whose files include this.
        from .pipeline_gile import LabelScoringPipeline  # noqa: F401

        super().__init__(config)
        self.gile = self.towers_class(config)
        self.supports_gradient_checkpointing = self.gile.supports_gradient_checkpointing
        self.stored_labels = StoredLabels(config)
        # Can be replaced, for example by a hf_gile.training.GileLoss; it is not saved.
        self.loss_function: Callable[..., Tensor] = label_loss
        if config.label_length == 0:  # the checkpoint of both towers, which never had labels, lacks nothing
            self._keys_to_ignore_on_load_missing = [r"^stored_labels\."]
        self.post_init()

    @property
    def label_input_ids(self) -> Tensor:
        """`(L, T)` words of the stored labels, padded; a tensor of `stored_labels`."""
        return self.stored_labels.input_ids

    @property
    def label_set(self) -> LabelSet | None:
        """The stored labels; None if only their names are known."""
        return self.stored_labels.label_set

    @label_set.setter
    def label_set(self, label_set: LabelSet | None) -> None:
        self.stored_labels.label_set = label_set

    def set_labels(self, label_set: LabelSet, processor: GileProcessor, label_input_ids: Tensor | None = None) -> None:
        """Stores a label set, whose order determines the columns of logits and `config.id2label`.

        Args:
            label_set: Any labels; for a linear unit, those it was trained on. With `config.label_rows`, labels keep
                their rows by id. Labels must be grouped by language in the order of `config.languages`.
            processor: The `GileProcessor` that tokenizes the labels.
            label_input_ids: `(L, T)` padded words of the labels, if known.

        Raises:
            ValueError: If the label set or the processor does not fit the model.
        """
        if not hasattr(label_set, "language_labels"):
            raise ValueError(
                f"label_set must be a LabelSet, got {type(label_set).__name__}; use LabelSet.from_names(names)"
            )
        check_processor(processor, self.config)
        sizes = label_set.language_labels if self.config.languages else {}
        if list(sizes) != [language for language in self.config.languages if language in sizes]:
            raise ValueError(
                f"the labels have the languages {', '.join(sizes)} in this order; group them by language in the order "
                f"of this model, {', '.join(self.config.languages)}"
            )
        if self.config.output_layer == "linear":
            changes_ids = self.label_set is not None and label_set.ids != self.label_set.ids
            if changes_ids or len(label_set) != self.config.num_labels or sizes != self.config.language_labels:
                raise ValueError(
                    f"the label set has {len(label_set)}{sizes or ''} labels, this linear unit has "
                    f"{self.config.num_labels}{self.config.language_labels or ''}: "
                    "a linear unit scores only the labels it was trained on, whose ids and order cannot change; names "
                    "may change; for a new model, set config.num_labels (and config.language_labels, if it has "
                    "languages)"
                )
        else:
            if label_input_ids is None:
                languages = [label.language for label in label_set] if sizes else None
                words = processor(label_text=label_set.texts, label_language=languages, return_tensors="pt")
                label_input_ids = words["label_input_ids"]
            check_shape("label_input_ids", label_input_ids, len(label_set), "T")
            self.stored_labels.input_ids = label_input_ids.long().to(self.label_input_ids.device)
            if self.gile.label_rows is not None:
                self._reorder_rows(label_set)
            self.config.label_length = self.label_input_ids.shape[1]
            self.config.language_labels = sizes
        self.config.id2label = label_set.id2label()
        self.config.label2id = {name: column for column, name in self.config.id2label.items()}
        self.label_set = label_set
        self.processor_fingerprint = processor.processor_fingerprint
        self.stored_labels.clear_cache()

    def _reorder_rows(self, label_set: LabelSet) -> None:
        """Moves rows of stored labels to the indices of these labels in a new label set."""
        table = self.gile.label_rows
        if self.label_set is None and len(label_set) == len(table.weight):
            return  # the rows are already in this order, as only the number of labels is known
        old = {label.id: column for column, label in enumerate(self.label_set or ())}
        columns = torch.tensor([old.get(label_id, -1) for label_id in label_set.ids])
        self.gile.label_rows = table.reordered(columns.to(self.device))
        if self.gile.word_rows is not None:
            self.gile.set_word_rows(len(columns), *self.gile.word_rows(columns))

    def get_label_rows(self, labels: Sequence[Label], language: str | None = None) -> Rows | None:
        """Returns rows of C labels, zeros for labels not stored, None without rows; `language` is their default."""
        table = self.gile.label_rows
        if table is None:
            return None
        columns = self.stored_labels.find_columns(labels, language).to(self.device)
        return table(columns.clamp(min=0)).where(columns >= 0)

    def build_postings(self, labels: Sequence[Label], language: str | None = None) -> Postings | None:
        """Builds the postings of any labels, with the word rows of stored labels; see `GileModel.postings`."""
        columns = self.stored_labels.find_columns(labels, language)
        return self.gile.postings(labels, self.get_label_rows(labels, language), columns)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        language: Languages = None,
        excluded_columns: Tensor | None = None,
        pooled_embeds: Tensor | None = None,
        lexical_ids: Tensor | None = None,
        lexical_counts: Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        """Scores documents against the stored labels.

        If labels have languages, a document is scored against labels of its language. Other labels get minus infinity,
        a probability of zero, and are excluded from the loss.

        The loss is computed by `loss_function`, called with `logits`, where minus infinity is replaced by the lowest
        number, `labels`, `config` and `kwargs`. If it has a method `of_codes`, like `hf_gile.training.GileLoss`,
        training calls this method with text codes instead, so it need not compute the scores of all labels.

        Args:
            input_ids: Documents, as in `GileModel.embed_texts`.
            attention_mask: Mask of words, as in `GileModel.embed_texts`.
            inputs_embeds: Word vectors instead of `input_ids`, as in `GileModel.embed_texts`.
            labels: `(B, P)` integers, gold label indices padded with -100; or `(B,)` integers, a gold label index each;
                or `(B, L)` floats, zeros and ones.
            language: Language of all documents or of each; optional if there is only one.
            excluded_columns: `(B, E)` indices of labels that are not candidates of a document, padded with -100; they
                get minus infinity, like labels of other languages.
            pooled_embeds: Precomputed output of the pretrained encoder, as in `GileModel.embed_texts`.
            lexical_ids: `(B, F)` lexical features of the documents, padded with -1; only used in evaluation.
            lexical_counts: `(B, F)` how often each occurs in the document.
            use_cache: Refused. Only the built-in pipelines of Transformers pass it, and would answer wrongly.
            kwargs: `output_attentions` and `output_hidden_states`, as in `GileModel`, and arguments of the loss, as
                passed by `Trainer`.

        Returns:
            `loss` if there are labels. `logits` `(B, L)`, or None in a training step whose loss reads text codes.

        Raises:
            ValueError: If no label set is stored, labels do not fit it, or an input has a wrong shape or is refused.
            TypeError: If an argument is unknown.
        """
        if use_cache is not None:
            raise ValueError(WRONG_PIPELINE)
        check_tensors(labels=labels, excluded_columns=excluded_columns)
        returned = _ReturnedParts(self.config, kwargs)
        self._check_loss_arguments(labels, kwargs)
        loss_of_codes = getattr(self.loss_function, "of_codes", None) if labels is not None and self.training else None
        label_codes = cache(partial(self.project_stored_labels, None))
        postings = None if self.training else self.stored_postings()

        def encode(language: str | None, **documents: Tensor | None) -> tuple[Tensor, ...]:
            excluded = documents.pop("excluded")
            text_embeds, parts = returned.embed_texts(self.gile, documents, language)
            text_codes = self.gile.output_layer.project_texts(text_embeds, language)
            if loss_of_codes is not None:
                return text_codes, text_embeds, *parts
            scores = self.gile.score(text_codes, label_codes(label_space(self.config, language)), language)
            return self.stored_labels.masked(scores, language, excluded), text_embeds, *parts

        documents = {"input_ids": input_ids, "attention_mask": attention_mask, "inputs_embeds": inputs_embeds}
        documents |= {"pooled_embeds": pooled_embeds, "excluded": excluded_columns}
        result, text_embeds, *parts = run_by_language(self.config, language, documents, encode)
        words = {"lexical_ids": lexical_ids, "lexical_counts": lexical_counts}
        result = self.gile.add_words(result, postings, words, text_embeds)
        logits = None if loss_of_codes else result
        loss = None
        if loss_of_codes is not None:
            loss = loss_of_codes(self, result, labels, language, excluded_columns, **kwargs)
        elif labels is not None:
            scores = without_infinities(result)
            loss = self.loss_function(logits=scores, labels=labels, config=self.config, **kwargs)
        return SequenceClassifierOutput(loss=loss, logits=logits, **returned.split(parts))

    def _check_loss_arguments(self, labels: Tensor | None, arguments: dict[str, Any]) -> None:
        """Refuses unknown arguments of the loss, and a loss of `Trainer` that would be wrong."""
        if not arguments or torch.compiler.is_compiling():
            return
        try:
            inspect.signature(self.loss_function).bind_partial(**arguments)
        except TypeError as error:
            raise TypeError(
                f"forward() {error}, which the loss does not accept either; to train on sampled labels, set "
                "model.loss_function = hf_gile.training.GileLoss()"
            ) from None
        if labels is None and self.training and arguments.keys() & {"shift_labels", "num_items_in_batch"}:
            # Trainer then computes a softmax itself, which is correct for a single gold label among all stored labels.
            kind = self.config.problem_type
            if kind is None or (self.loss_function is not label_loss and kind != "multi_label_classification"):
                raise ValueError(
                    "label_smoothing_factor withholds labels from the model, but its loss depends on problem_type "
                    f"({kind}) or model.loss_function: set label_smoothing_factor=0 in TrainingArguments. If "
                    "compute_loss_func does so on purpose, set config.problem_type = 'multi_label_classification'"
                )

    def project_stored_labels(self, columns: Tensor | None = None, language: str | None = None) -> Tensor:
        """Computes `(C, J)` codes of stored labels; in inference, codes of all labels are cached.

        Args:
            columns: `(C,)` label indices; by default all.
            language: Language of the documents to score; only used without `config.share_joint_space`.

        Raises:
            ValueError: If no label set is stored.
        """
        if self.config.output_layer == "linear":
            if not self.config.languages:
                return self.gile.output_layer.label_codes(columns)
            codes = torch.cat([self.gile.output_layer.label_codes(None, unit) for unit in self.config.languages])
            return codes if columns is None else codes[columns]
        if torch.compiler.is_exporting():
            return self.stored_labels.cache.known_codes(("codes", language))
        if self.training or torch.is_grad_enabled() or columns is not None:
            return self.gile.project_labels(**self.stored_inputs(columns), language=language)

        def make() -> Tensor:
            every = torch.arange(self.config.num_labels, device=self.label_input_ids.device)
            codes = []
            with torch.inference_mode(False), torch.no_grad():  # so that torch.export accepts the codes
                vectors = embed_stored_labels(self) if keeps_label_embeds(self.gile) else None
                for columns in every.split(LABELS_AT_ONCE):
                    inputs = self.stored_inputs(columns)
                    if vectors is not None:
                        inputs |= {"label_input_ids": None, "label_embeds": vectors[columns]}
                    codes.append(self.gile.project_labels(**inputs, language=language))
                return torch.cat(codes)

        return self.stored_labels.get_or_compute(("codes", language), self.gile.label_state(), make)

    def stored_postings(self) -> Postings | None:
        """Returns the postings of the stored labels, cached by idf and rows; see `GileModel.postings`."""
        gile = self.gile
        if not gile.output_layer.counts_words:
            return None
        stored = self.label_set or [Label(name, name) for name in self.config.id2label.values()]
        rows = gile.label_rows and gile.label_rows()
        build = partial(gile.postings, stored, rows, torch.arange(len(stored)))
        parts = (gile.output_layer.lexical, gile.word_rows, gile.label_rows)
        weights = (x for part in parts if part is not None for x in part.parameters() if not x.is_meta)
        state = (self.label_set, repr(self.config.term_weights), *compute_state(*weights))
        return self.stored_labels.cache.fact(self.stored_labels, "postings", state, build)

    def stored_inputs(self, columns: Tensor | None = None) -> dict[str, Any]:
        """Returns the arguments of `GileModel.project_labels` for `(C,)` stored labels, by default all.

        Raises:
            ValueError: If no label set is stored.
        """
        # Every stored label has words.
        if bool((self.label_input_ids[:1] == self.config.text_config.pad_token_id).all()):
            raise ValueError(
                "no label set is stored in this model, or its checkpoint was saved without labels (for example, by "
                "GileModel): call model.set_labels(label_set, processor) first, or score other labels with "
                "model.gile(..., label_input_ids=...)"
            )
        rows = slice(None) if columns is None else columns
        inputs: dict[str, Any] = {"label_input_ids": self.label_input_ids[rows]}
        if self.gile.label_rows is not None:
            inputs["label_rows"] = self.gile.label_rows(columns)
        if self.config.language_labels and self.config.label_encoder_type == "text_encoder":
            inputs["label_language"] = self.stored_labels.languages.to(self.label_input_ids.device)[rows]
        return inputs

    @classmethod
    def _load_unchecked(cls, folder: str | PathLike[str] | None, *args: Any, **kwargs: Any) -> Any:
        """Loads a model and its label set.

        Raises:
            ValueError: If `labels.jsonl` does not match the labels of the model, or they have unknown word ids.
        """
        model, info = super()._load_unchecked(folder, *args, **kwargs)
        model.gile._check_ids(f"{folder}: label_input_ids", model.label_input_ids)
        file = None if folder is None else find_file(folder, LABELS_FILE, kwargs)
        if file is not None:
            label_set = LabelSet.load(file)
            if label_set.id2label() != model.config.id2label:
                raise ValueError(
                    f"{file} has {len(label_set)} labels that differ from config.id2label ({model.config.num_labels}); "
                    "to change labels of a saved model, call model.set_labels(label_set, processor) and save it"
                )
            model.label_set = label_set
        if folder is not None and keeps_label_embeds(model.gile):
            model.stored_labels.embeds = LabelEmbeds.load(folder, kwargs)
        return model, info

    def _write(self, folder: Path, **kwargs: Any) -> None:
        super()._write(folder, **kwargs)
        if kwargs.get("is_main_process", True):
            save_label_embeds(self, folder)
