"""GILE for Transformers: both towers, `GileModel`, and the classifier over them, which stores labels.

One legend for every shape: B documents, S sentences, W words, D word-embedding size, H document size, J joint size,
L labels, C columns scored in a training step, T words of a label, P gold labels of a document. Of a pretrained encoder
W and T count tokens, S windows of a document, and P is the size of its hidden states.

In a model of several languages (`config.languages`, section 3.3 of the paper) a call names the language of its
documents: `language="german"`, or one for each document, as names or as a `(B,)` tensor of places in the list. Labels
may be of any language: words of all languages share one space.
"""

import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from json import JSONDecodeError
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils import ModelOutput, can_return_tuple
from transformers.utils.hub import cached_file

from .configuration_gile import GileConfig
from .labels_gile import LABELS_FILE, Label, LabelSet
from .languages_gile import Languages, check_language, in_each_language, of_language
from .losses_gile import label_loss, without_infinities
from .processing_gile import GileProcessor
from .scoring_gile import (
    BagEmbedding,
    BiasUnit,
    ClassificationUnit,
    CosineScale,
    JointInputLabelEmbedding,
    LexicalOverlap,
    LinearOutput,
    TokenBag,
    ZeroEmbedding,
)
from .stored_labels_gile import StoredLabels, check_finite, state_of
from .text_encoders_gile import TEXT_ENCODERS, mean_of_words, rms_normalized

_LABELS_AT_ONCE = 2048
"""Stored labels encoded at a time, outside training."""

UNFINISHED_SAVE = ".saving/moves.json"
"""Is in the folder of a model while the files of another model are moved there."""


@dataclass
class GileModelOutput(ModelOutput):
    """What `GileModel` returns.

    Args:
        logits: `(B, L)` scores, before the sigmoid.
        text_embeds: `(B, H)` document vectors h.
        label_embeds: `(L, D)` label vectors e; none for a linear unit.
        attentions: With `output_attentions=True`, the word attention `(B, W)` of a WAN, or the word attention
            `(B, S, W)` and sentence attention `(B, S)` of a HAN; of averages, the weights of the average. Those of a
            pretrained encoder are of its pooling, and are missing where `pooled_embeds` were given.
    """

    logits: Tensor | None = None
    text_embeds: Tensor | None = None
    label_embeds: Tensor | None = None
    attentions: tuple[Tensor, ...] | None = None


_STARTS = {
    "cosine_scale": "cosine.factors.scale",
    "embedding_std": "text_encoder.word_embeddings.weight",
    "label_prior": "classifier.bias",
}
"""Fields of where weights start, and the names of these weights."""


class GilePreTrainedModel(PreTrainedModel):
    """What all GILE models share: configuration and initialisation."""

    config_class = GileConfig
    base_model_prefix = "gile"
    main_input_name = "input_ids"
    # Of the pretrained encoder, which refuses what it does not support itself.
    _supports_sdpa = _supports_flash_attn = _supports_flex_attn = True

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        # Only modules that hold parameters come here: transformers takes the others of custom code for initialised.
        # The functions of transformers.initialization skip what a checkpoint has filled already.
        if isinstance(module, ClassificationUnit | BiasUnit):
            prior = self.config.label_prior
            init.constant_(module.bias, math.log(prior / (1 - prior)))
            if isinstance(module, ClassificationUnit):
                init.normal_(module.weight, std=module.weight.shape[1] ** -0.5)
        elif isinstance(module, ZeroEmbedding):
            init.zeros_(module.weight)
        elif isinstance(module, BagEmbedding):
            init.normal_(module.weight, std=module.embedding_dim**-0.5)
        elif isinstance(module, CosineScale):
            init.constant_(module.scale, self.config.cosine_scale)
        elif isinstance(module, LexicalOverlap):
            init.ones_(module.idf)
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
            init.normal_(module.weight, std=self.config.text_config.embedding_std)
            if module.padding_idx is not None:
                init.zeros_(module.weight[module.padding_idx])

    def resize_token_embeddings(self, *args: Any, **kwargs: Any) -> nn.Embedding:
        """Gives the model another number of words; see `PreTrainedModel.resize_token_embeddings`.

        Raises:
            ValueError: The words are the tokens of a pretrained encoder, or have vectors in a bag.
        """
        text = self.config.text_config
        number = args[0] if args else kwargs.get("new_num_tokens")
        if number not in (None, text.vocab_size) and (text.reads_pretrained or self.config.bag_size):
            raise ValueError(
                "the tokens of a pretrained encoder, and those of a bag, keep their number: resize the encoder before "
                "a model is made over it, or make a new model"
            )
        if number is not None and (not hasattr(number, "__index__") or number <= text.pad_token_id):
            raise ValueError(
                f"new_num_tokens must be a whole number above pad_token_id, {text.pad_token_id}, got {number!r:.100}"
            )
        return super().resize_token_embeddings(*args, **kwargs)

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | PathLike[str] | None, *args: Any, **kwargs: Any
    ) -> Any:
        """Loads a model; see `PreTrainedModel.from_pretrained`, which takes all weights for trainable.

        Raises:
            ValueError: A save of this folder was interrupted, and its files are of two models; or the weights are
                damaged, hold numbers that are not finite, or are far fewer than the configuration asks for; or a field
                says where weights are to start, and the checkpoint holds these.
        """
        wants_info = kwargs.pop("output_loading_info", False)
        starts = {name: kwargs[name] for name in _STARTS.keys() & kwargs.keys()}
        folder = pretrained_model_name_or_path
        if folder is not None and Path(folder, kwargs.get("subfolder") or "", UNFINISHED_SAVE).exists():
            raise ValueError(
                f"{folder}: a save was interrupted, or is running; `hf-gile labels show {folder}` completes it, or "
                "waits for it"
            )
        try:
            model, info = super().from_pretrained(folder, *args, output_loading_info=True, **kwargs)
        except (SafetensorError, UnicodeError, JSONDecodeError) as error:
            raise ValueError(
                f"{folder}: the model is damaged ({type(error).__name__}: {error!s:.200}): save or download it again"
            ) from None
        except RuntimeError as error:
            if "ignore_mismatched_sizes" not in str(error):
                raise
            if isinstance(error.__context__, ValueError):  # ours, of sizes that nobody could mean
                raise error.__context__ from None
            raise ValueError(
                f"{folder}: weights have other sizes than config.json says (the report above lists them), so it is not "
                "the configuration of these weights; ignore_mismatched_sizes=True starts such weights fresh"
            ) from None
        for name, value in starts.items():
            weights = {weight for weight, _ in model.named_parameters() if weight.endswith(_STARTS[name])}
            if weights - set(info["missing_keys"]):
                raise ValueError(
                    f"{name}={value} is where training starts, and {folder} holds what became of it ({min(weights)}): "
                    "leave it out, or change the weights of the loaded model"
                )
        check_finite(model.state_dict(), f"the weights of {folder}")
        getattr(model, cls.base_model_prefix, model).freeze()
        return (model, info) if wants_info else model

    def _move_missing_keys_from_meta_to_device(self, missing_keys: Iterable[str], *args: Any, **kwargs: Any) -> None:
        # Up to here nothing that the files do not hold takes memory, and it is the configuration that says how much
        # will: not one of a few bytes is to take all there is.
        sizes = {name: tensor.numel() for name, tensor in self.state_dict(keep_vars=True).items()}
        missing = {name: sizes[name] for name in missing_keys if name in sizes}
        held = sum(sizes.values()) - sum(missing.values())
        missing |= {name: buffer.numel() for name, buffer in self.named_buffers() if name not in sizes}
        if sum(missing.values()) > max(GileConfig.largest["missing_weights"], 4 * held):
            name = max(missing, key=missing.__getitem__)
            raise ValueError(
                f"config.json asks for {missing[name]:,} numbers of {name}, which the weights saved with it do not "
                f"hold (they hold {held:,} numbers that fit), so it is not the configuration of these weights; if it "
                f"is meant, set GileConfig.largest['missing_weights'] = {sum(missing.values())} first"
            )
        super()._move_missing_keys_from_meta_to_device(missing_keys, *args, **kwargs)


class GileModel(GilePreTrainedModel):
    """Scores documents against labels given by their words, seen in training or not (GILE, Eq. 14).

    The score is the inner product of a text code and a label code, plus a constant; `project_texts`,
    `project_labels` and `score` are its three parts, and `forward` is all of them.

    Args:
        config: A `GileConfig`.

    Example:
        >>> model = GileModel(GileConfig(vocab_size=11, embedding_size=3, joint_size=5)).eval()
        >>> words = torch.tensor([[4, 7, 2, 0], [9, 0, 0, 0]])
        >>> model(input_ids=words, label_input_ids=torch.tensor([[4, 2], [5, 0], [8, 0]])).logits.shape
        torch.Size([2, 3])
    """

    # The stored labels of a classifier's checkpoint: not needed here, and nothing to warn of.
    _keys_to_ignore_on_load_unexpected: ClassVar[list[str]] = ["label_input_ids"]

    def __init__(self, config: GileConfig) -> None:
        super().__init__(config)
        self.text_encoder = self.make_text_encoder(config)
        encoder = getattr(self.text_encoder, "transformer", None)
        self.supports_gradient_checkpointing = getattr(encoder, "supports_gradient_checkpointing", False)
        self.bag = TokenBag(config) if config.bag_size else None
        self.output_layer: Any  # either has project_texts and score
        if config.output_layer == "linear":
            self.output_layer = LinearOutput(config)
        else:
            if config.label_rows:
                self.label_rows = ZeroEmbedding(config.num_labels, config.document_size + 1)
            self.output_layer = JointInputLabelEmbedding(config)
        self.freeze()
        self.post_init()

    @staticmethod
    def make_text_encoder(config: GileConfig) -> Any:
        """Makes what reads texts, of the type that a configuration names."""
        return TEXT_ENCODERS[config.text_config.text_encoder_type](config)

    def freeze(self) -> None:
        """Takes from training what the configuration keeps as it is."""
        if self.config.lexical_size:
            self.output_layer.lexical.requires_grad_(False)
        if self.config.text_config.freeze_text_encoder:
            self.text_encoder.transformer.requires_grad_(False)

    def get_input_embeddings(self) -> Any:
        """The table of word vectors, or that of the tokens of the pretrained encoder."""
        return self.text_encoder.get_input_embeddings()

    def set_input_embeddings(self, value: object) -> None:
        """Puts another table in the place of `get_input_embeddings`."""
        self.text_encoder.set_input_embeddings(value)

    def embed_texts(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        language: Languages = None,
        pooled_embeds: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The text encoder: document vectors and attention.

        Args:
            input_ids: `(B, W)` word ids (nn, wan) or `(B, S, W)` (hnn, han).
            attention_mask: `(B, W)` or `(B, S, W)`, true or 1 where there is a word. By default every word that is not
                the padding word; with `inputs_embeds`, every word.
            inputs_embeds: `(B, W, D)` or `(B, S, W, D)` word vectors, instead of `input_ids`.
            language: The language of the documents, or of each.
            pooled_embeds: `(B, P)`, or `(B, S, P)` of windows, from `pool_texts`: what the pretrained encoder made of
                these documents before, which it then need not do again. A bag needs `input_ids` as well.

        Returns:
            `(B, H)` document vectors, and the attention weights as in `GileModelOutput`. A document without words
            gets the zero vector (but not of a published graph, which masks nothing).

        Raises:
            ValueError: Not exactly one of `input_ids` and `inputs_embeds`, a wrong number of dimensions, or a language
                that the model does not know.
        """
        if pooled_embeds is None:
            self._check_documents(input_ids, inputs_embeds)
        else:
            self._check_pooled(pooled_embeds, input_ids, inputs_embeds)
            pooled_embeds = pooled_embeds.to(self.dtype)
        if input_ids is not None and input_ids.numel() == 0:  # what a tokenizer makes of an empty text, in floats
            shape = [len(input_ids), *(max(1, size) for size in input_ids.shape[1:])]
            input_ids = input_ids.new_full(shape, self.config.text_config.pad_token_id, dtype=torch.long)
            attention_mask = None
        self._check_ids("input_ids", input_ids)
        inputs = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "inputs_embeds": inputs_embeds,
            "pooled_embeds": pooled_embeds,
        }
        document, *attentions = in_each_language(self.config, language, inputs, self._embed_texts)
        return document, tuple(attentions)

    def _embed_texts(
        self,
        language: str | None,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        inputs_embeds: Tensor | None,
        pooled_embeds: Tensor | None,
    ) -> tuple[Tensor, ...]:
        """`(B, H)` vectors of documents of a language, and their attention weights."""
        if input_ids is None and inputs_embeds is None:
            document, attentions = self.text_encoder(None, None, None, pooled_embeds, language)
            return self._with_tokens(document, None, None), *attentions
        mask = self._mask_of(input_ids, inputs_embeds, attention_mask)
        if self.training and self.config.text_config.word_dropout > 0:
            words = torch.arange(mask.numel(), device=mask.device).view(mask.shape) if input_ids is None else input_ids
            distinct, places = torch.unique(words, return_inverse=True)
            read = torch.rand(len(places), len(distinct), device=places.device) >= self.config.text_config.word_dropout
            mask = mask & read.gather(1, places.flatten(1)).view(mask.shape)
        document, attentions = self.text_encoder(input_ids, mask, inputs_embeds, pooled_embeds, language)
        return self._with_tokens(document, input_ids, mask), *attentions

    def pool_texts(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        language: Languages = None,
    ) -> Tensor:
        """What the pretrained encoder makes of documents: the part of `embed_texts` that a frozen one need do once.

        Args:
            input_ids: `(B, W)` or `(B, S, W)` token ids.
            attention_mask: `(B, W)` or `(B, S, W)`, true or 1 where there is a token.
            language: The language of the documents, or of each.

        Returns:
            `(B, P)` vectors, or `(B, S, P)` of windows: the `pooled_embeds` of `embed_texts`.

        Raises:
            ValueError: The model has no pretrained encoder, or inputs of a wrong shape.
        """
        if not self.config.text_config.reads_pretrained:
            raise ValueError(
                f"text_encoder_type {self.config.text_config.text_encoder_type!r} has no pretrained encoder to pool"
            )
        self._check_documents(input_ids, None)

        def pool(language: str | None, input_ids: Tensor, attention_mask: Tensor | None) -> tuple[Tensor, Tensor]:
            mask = self._mask_of(input_ids, None, attention_mask)
            return self.text_encoder.pool(input_ids, mask, language=language)

        inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
        return in_each_language(self.config, language, inputs, pool)[0]

    def _mask_of(self, input_ids: Tensor | None, inputs_embeds: Tensor | None, attention_mask: Tensor | None) -> Tensor:
        """Booleans, true where there is a word."""
        if input_ids is not None:
            given, shape = input_ids, input_ids.shape
        else:
            assert inputs_embeds is not None
            given, shape = inputs_embeds, inputs_embeds.shape[:-1]
        check_tensors(attention_mask=attention_mask)
        if attention_mask is None:
            if input_ids is None:
                return torch.ones(shape, dtype=torch.bool, device=given.device)
            return input_ids != self.config.text_config.pad_token_id
        if attention_mask.shape != shape:
            raise ValueError(
                f"attention_mask must have shape {tuple(shape)} like the words, got {tuple(attention_mask.shape)}"
            )
        return attention_mask.bool()

    def _with_tokens(
        self, vectors: Tensor, input_ids: Tensor | None, mask: Tensor | None, sparse: bool = False
    ) -> Tensor:
        """The vectors with what is made of the tokens behind them: the bag and, in evaluation, the lexical code."""
        lexical = None if self.training or self.config.output_layer == "linear" else self.output_layer.lexical
        if self.bag is None and lexical is None:
            return vectors
        if input_ids is None or mask is None:
            raise ValueError(
                "config.bag_size and config.lexical_size need input_ids: inputs_embeds and pooled_embeds do not say "
                "which tokens"
            )
        parts, tokens, mask = [vectors], input_ids.flatten(1), mask.flatten(1)
        if self.bag is not None:
            parts.append(self.bag(tokens, mask, sparse))
        if lexical is not None:
            parts.append(lexical(tokens, mask).to(self.dtype))
        return torch.cat(parts, dim=-1)

    def _check_pooled(self, pooled: Tensor, input_ids: Tensor | None, inputs_embeds: Tensor | None) -> None:
        config = self.config.text_config
        if not config.reads_pretrained:
            raise ValueError(f"pooled_embeds are of a pretrained encoder, not of {config.text_encoder_type!r}")
        dims = 3 if config.text_encoder_type == "hierarchical_transformer" else 2
        if inputs_embeds is not None or pooled.dim() != dims or pooled.shape[-1] != config.pooled_size:
            shape = f"({'B, S' if dims == 3 else 'B'}, {config.pooled_size})"
            raise ValueError(
                f"pooled_embeds must have shape {shape}, and stand in the place of inputs_embeds, "
                f"got {tuple(pooled.shape)}"
            )
        if self.training and not config.has_fixed_pooling:
            raise ValueError(
                "pooled_embeds were made by the encoder as it was before this training: train with "
                "config.freeze_text_encoder=True and a pooling without weights ('mean', 'sum' or 'cls'), got "
                f"freeze_text_encoder={config.freeze_text_encoder}, pooling {config.pooling!r}"
            )
        if input_ids is not None and input_ids.shape[:-1] != pooled.shape[:-1]:
            raise ValueError(
                f"pooled_embeds {tuple(pooled.shape)} and input_ids {tuple(input_ids.shape)} are not of the same "
                "documents"
            )

    def embed_labels(
        self,
        label_input_ids: Tensor,
        label_attention_mask: Tensor | None = None,
        label_language: Languages = None,
        label_vectors: Tensor | None = None,
        sparse: bool = False,
    ) -> Tensor:
        """The label encoder: the mean of the word vectors of each label (section 2.2), or another that reads labels.

        Args:
            label_input_ids: `(L, T)` word ids, padded with the padding word.
            label_attention_mask: `(L, T)`, true or 1 where there is a word; by default the words that are not padding.
            label_language: The language of the labels, or of each; only read where the text encoder reads labels.
            label_vectors: `(L, P)` from `pool_labels`, what the pretrained encoder made of these labels before.
            sparse: Whether gradients of tables of words are sparse tensors, for who adds up those of many calls.

        Returns:
            `(L, D)` label vectors e.

        Raises:
            ValueError: A wrong number of dimensions, vectors for labels that no pretrained encoder reads, or a model
                with a linear unit.
        """
        self._require_joint_embedding()
        check_tensors(label_input_ids=label_input_ids, label_attention_mask=label_attention_mask)
        if label_input_ids.dim() != 2:
            raise ValueError(f"label_input_ids must have shape (L, T), got {tuple(label_input_ids.shape)}")
        self._check_ids("label_input_ids", label_input_ids)
        if label_attention_mask is not None:
            label_input_ids = label_input_ids.masked_fill(
                ~label_attention_mask.bool(), self.config.text_config.pad_token_id
            )
        if label_vectors is not None:
            size = self.config.text_config.pooled_size
            if not self.config.pools_labels:
                raise ValueError(
                    f"label_encoder_type {self.config.label_encoder_type!r} makes label vectors of words and takes no "
                    "label_vectors"
                )
            if label_vectors.shape != (len(label_input_ids), size):
                raise ValueError(
                    f"label_vectors must have shape ({len(label_input_ids)}, {size}), got {tuple(label_vectors.shape)}"
                )
            label_vectors = label_vectors.to(self.dtype)
        vectors = self._read_labels(label_input_ids, label_language, label_vectors, sparse)
        return self._with_tokens(
            vectors, label_input_ids, label_input_ids != self.config.text_config.pad_token_id, sparse
        )

    def pool_labels(self, label_input_ids: Tensor, label_language: Languages = None) -> Tensor:
        """What the pretrained encoder makes of labels, without gradients: the `label_vectors` of `embed_labels`.

        Args:
            label_input_ids: `(L, T)` token ids.
            label_language: The language of the labels, or of each.

        Returns:
            `(L, P)` vectors.

        Raises:
            ValueError: No pretrained encoder reads the labels.
        """
        if not self.config.pools_labels:
            raise ValueError(
                f"label_encoder_type {self.config.label_encoder_type!r} with text_encoder_type "
                f"{self.config.text_config.text_encoder_type!r} has no pretrained encoder that reads labels"
            )

        def pool(language: str | None, label_input_ids: Tensor) -> tuple[Tensor, Tensor]:
            mask = label_input_ids != self.config.text_config.pad_token_id
            return self.text_encoder.pool(label_input_ids, mask, language=language)

        kind = label_input_ids.device.type
        autocast = torch.autocast(
            kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind), cache_enabled=False
        )
        # What is kept of this may be an input of a training step, which nothing made in inference mode can be. And
        # casts of weights that autocast makes and keeps without gradients would serve the training step.
        with torch.inference_mode(False), torch.no_grad(), autocast:
            return in_each_language(self.config, label_language, {"label_input_ids": label_input_ids}, pool)[0]

    def _read_labels(
        self, label_input_ids: Tensor, label_language: Languages, label_vectors: Tensor | None, sparse: bool
    ) -> Tensor:
        if self.config.label_encoder_type == "mean":
            means = mean_of_words(
                self.get_input_embeddings(), label_input_ids, self.config.text_config.pad_token_id, sparse
            )
            # Tables of pretrained encoders hold much smaller numbers than their hidden states.
            return rms_normalized(means) if self.config.text_config.reads_pretrained else means
        if label_language is None and len(self.config.languages) > 1:
            raise ValueError(
                "the text encoder reads the labels: name their language, or that of each (label_language=...)"
            )

        def read(language: str | None, input_ids: Tensor, pooled: Tensor | None) -> tuple[Tensor]:
            if self.config.text_config.reads_sentences:  # a label is one sentence
                input_ids, pooled = input_ids[:, None], None if pooled is None else pooled[:, None]
            mask = input_ids != self.config.text_config.pad_token_id
            return (self.text_encoder(input_ids, mask, None, pooled, language)[0],)

        inputs = {"input_ids": label_input_ids, "pooled": label_vectors}
        return in_each_language(self.config, label_language, inputs, read)[0]

    def project_texts(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        language: Languages = None,
        pooled_embeds: Tensor | None = None,
        text_embeds: Tensor | None = None,
    ) -> Tensor:
        """Text codes, the documents' side of the score.

        Args:
            input_ids: `(B, W)` or `(B, S, W)` word ids, as in `embed_texts`.
            attention_mask: `(B, W)` or `(B, S, W)`, as in `embed_texts`.
            inputs_embeds: `(B, W, D)` or `(B, S, W, D)` word vectors, instead of `input_ids`.
            language: The language of the documents, or of each.
            pooled_embeds: `(B, P)` or `(B, S, P)`, as in `embed_texts`.
            text_embeds: `(B, H)` document vectors h from `embed_texts`, instead of all the above but `language`.

        Returns:
            `(B, J)` text codes (`(B, H + 1)` with a linear unit).
        """
        if text_embeds is None:
            text_embeds = self.embed_texts(input_ids, attention_mask, inputs_embeds, language, pooled_embeds)[0]

        def project(language: str | None, text_embeds: Tensor) -> tuple[Tensor]:
            return (self.output_layer.project_texts(text_embeds, language),)

        return in_each_language(self.config, language, {"text_embeds": text_embeds}, project)[0]

    def project_labels(
        self,
        label_input_ids: Tensor | None = None,
        label_attention_mask: Tensor | None = None,
        label_embeds: Tensor | None = None,
        language: str | None = None,
        label_language: Languages = None,
        label_vectors: Tensor | None = None,
        label_rows: Tensor | None = None,
    ) -> Tensor:
        """Label codes, the labels' side of the score: compute them once and keep them.

        Args:
            label_input_ids: `(L, T)` word ids, as in `embed_labels`.
            label_attention_mask: `(L, T)`, as in `embed_labels`.
            label_embeds: `(L, D)` label vectors e, instead of words.
            language: The language of the documents to score; only read without `config.share_joint_space`.
            label_language: The language of the labels, or of each; only read where the text encoder reads labels, and
                by default that of the documents.
            label_vectors: `(L, P)` as in `embed_labels`, beside `label_input_ids`.
            label_rows: `(L, H + 1)` rows of stored labels, with `config.label_rows`; labels have none by default.

        Returns:
            `(L, J)` label codes. A code depends on its own label only.

        Raises:
            ValueError: Not exactly one of `label_input_ids` and `label_embeds`, or a model with a linear unit.
        """
        if label_language is None:
            label_language = language
        label_embeds = self._label_embeds(
            label_input_ids, label_attention_mask, label_embeds, label_language, label_vectors
        )
        if not self.config.share_joint_space:
            language = check_language(self.config, language)
        return self.output_layer.project_labels(label_embeds, language, label_rows)

    def score(self, text_codes: Tensor, label_codes: Tensor, language: Languages = None) -> Tensor:
        """The inner product that is the score.

        Args:
            text_codes: `(B, J)` from `project_texts`.
            label_codes: `(L, J)` from `project_labels`.
            language: The language of the documents, or of each.

        Returns:
            `(B, L)` logits; their sigmoid is the probability that the label applies.
        """

        def score(language: str | None, text_codes: Tensor) -> tuple[Tensor]:
            return (self.output_layer.score(text_codes, label_codes, language),)

        return in_each_language(self.config, language, {"text_codes": text_codes}, score)[0]

    @torch.no_grad()
    def label_state(self, words: Tensor | None = None, parameters: Sequence[Tensor] | None = None) -> tuple[Any, ...]:
        """What label codes are made of: while it stays equal, kept codes are right.

        It has two parts, for labels read few rows of what may be a large table: without words, all but the tables of
        tokens, and the autocast type; with words, their rows of these tables.

        Args:
            words: `(T,)` tokens of labels, each once.
            parameters: The weights that count; by default all that make label codes.
        """
        rows = {
            id(module.weight)
            for module in self.modules()
            if isinstance(module, nn.Embedding) and module.num_embeddings == self.config.text_config.vocab_size
        }
        if parameters is None:
            parameters = [*self.label_parameters(), *(table.weight for table in self.label_tables.values())]
        if words is not None:
            return state_of(*(weight[words] for weight in parameters if id(weight) in rows))
        kind, lexical = self.device.type, getattr(self.output_layer, "lexical", None)
        autocast = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
        return (
            autocast,
            lexical and lexical.calibration,
            *state_of(*(weight for weight in parameters if id(weight) not in rows)),
        )

    @property
    def label_tables(self) -> dict[str, nn.Embedding]:
        """The tables that hold something of each stored label, by the name of what they hold."""
        return {"label_rows": self.label_rows} if hasattr(self, "label_rows") else {}

    def label_parameters(self, language: str | None = None, with_vectors: bool = False) -> list[nn.Parameter]:
        """The weights that make label codes of the words of labels.

        Args:
            language: The language of the documents to score; by default of all.
            with_vectors: Whether `label_vectors` are given, so that the pretrained encoder takes no part.
        """
        layer = self.output_layer
        projections = [layer.label_projection, *layer.label_layers]
        parts = [part if part is None or language is None else of_language(part, language) for part in projections]
        parts += [self.bag, layer.cosine, layer.lexical]
        reads_labels = self.config.label_encoder_type == "text_encoder"
        parts.append(self.text_encoder if reads_labels else self.get_input_embeddings())
        encoders = [getattr(part, "transformer", None) for part in parts] if with_vectors else []
        left_out = {id(parameter) for one in encoders if one is not None for parameter in one.parameters()}
        return [
            parameter
            for part in parts
            if part is not None
            for parameter in part.parameters()
            if id(parameter) not in left_out
        ]

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
        pooled_embeds: Tensor | None = None,
        label_vectors: Tensor | None = None,
        **kwargs: Any,
    ) -> GileModelOutput:
        """Scores every document with every label.

        Args:
            input_ids: `(B, W)` or `(B, S, W)` word ids, as in `embed_texts`.
            attention_mask: `(B, W)` or `(B, S, W)`, as in `embed_texts`.
            inputs_embeds: `(B, W, D)` or `(B, S, W, D)` word vectors, instead of `input_ids`.
            label_input_ids: `(L, T)` word ids, as in `embed_labels`.
            label_attention_mask: `(L, T)`, as in `embed_labels`.
            label_embeds: `(L, D)` label vectors e, instead of `label_input_ids`; without words, so that with
                `config.lexical_size` they share none with any text.
            language: The language of the documents, or of each; it can be left out if there is one.
            label_language: The language of the labels, or of each, as in `project_labels`.
            output_attentions: Whether to return the attention weights.
            pooled_embeds: `(B, P)` or `(B, S, P)`, as in `embed_texts`.
            label_vectors: `(L, P)`, as in `embed_labels`.
            kwargs: `output_hidden_states`, which every model of Transformers takes; there are none to return.

        Returns:
            A `GileModelOutput`.

        Raises:
            ValueError: Arguments are missing, or of a wrong shape.
            TypeError: There is no such argument.
        """
        check_unknown(kwargs)
        text_embeds, attentions = self.embed_texts(input_ids, attention_mask, inputs_embeds, language, pooled_embeds)
        is_linear = self.config.output_layer == "linear" and label_input_ids is None and label_embeds is None
        if not is_linear:
            if label_language is None:
                label_language = language if language is None or isinstance(language, str) else None
            label_embeds = self._label_embeds(
                label_input_ids, label_attention_mask, label_embeds, label_language, label_vectors
            )

        layer = self.output_layer
        one_space = self.config.share_joint_space and not is_linear

        @cache
        def label_codes(language: str | None) -> Tensor:
            return layer.label_codes(None, language) if is_linear else layer.project_labels(label_embeds, language)

        def score(language: str | None, text_embeds: Tensor) -> tuple[Tensor]:
            codes = label_codes(None if one_space else language)
            return (layer.score(layer.project_texts(text_embeds, language), codes, language),)

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
        label_vectors: Tensor | None,
    ) -> Tensor:
        self._require_joint_embedding()
        if label_input_ids is not None:
            if label_embeds is not None:
                raise ValueError("pass either label_input_ids or label_embeds, got both")
            return self.embed_labels(label_input_ids, label_attention_mask, label_language, label_vectors)
        if label_embeds is None:
            raise ValueError(
                "pass either label_input_ids or label_embeds, got neither; "
                "the processor saved with the model makes label_input_ids of label texts"
            )
        size, lexical = self.config.label_size, self.config.lexical_size
        if label_embeds.dim() != 2 or label_embeds.shape[1] not in (size, size + lexical):
            raise ValueError(f"label_embeds must have shape (L, {size}), got {tuple(label_embeds.shape)}")
        # Texts have a lexical code in evaluation alone. A label without one shares no words with any text.
        return functional.pad(label_embeds, (0, size + (0 if self.training else lexical) - label_embeds.shape[1]))

    def _check_documents(self, input_ids: Tensor | None, inputs_embeds: Tensor | None) -> None:
        shape = "(B, S, W)" if self.config.text_config.reads_sentences else "(B, W)"
        check_tensors(input_ids=input_ids, inputs_embeds=inputs_embeds)
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
                f"text_encoder_type {self.config.text_config.text_encoder_type!r} takes {name} of shape {shape}, "
                f"got {tuple(given.shape)}; the processor saved with the model makes them of text"
            )

    def _check_ids(self, name: str, ids: Tensor | None) -> None:
        """Refuses ids that no word has; on a CPU only, as any other device would have to be waited for."""
        if ids is None or ids.numel() == 0 or torch.compiler.is_compiling():
            return
        if ids.is_floating_point() or ids.dtype == torch.bool:
            raise ValueError(f"{name} must be whole numbers, the ids of words, got {ids.dtype}")
        if ids.device.type != "cpu":
            return
        least, most = map(int, ids.aminmax())
        if least < 0 or most >= self.config.text_config.vocab_size:
            raise ValueError(
                f"{name} must be ids from 0 to {self.config.text_config.vocab_size - 1}, the words of this model, got "
                f"{least if least < 0 else most}; use the processor saved with the model"
            )

    def _require_joint_embedding(self) -> None:
        if self.config.output_layer == "linear":
            raise ValueError(
                "output_layer='linear' scores only the labels it was trained on and cannot read others; "
                "train a model with output_layer='gile' to score labels by their words"
            )


def check_unknown(arguments: Mapping[str, Any]) -> None:
    """Refuses arguments that no `forward` has, but for `output_hidden_states`, which adapters of peft always pass."""
    for name in arguments.keys() - {"output_hidden_states"}:
        raise TypeError(f"forward() got an unexpected keyword argument {name!r}")


class GileForSequenceClassification(GilePreTrainedModel):
    """A GILE model with a stored label set: what the stock Trainer and stock pipelines expect of a classifier.

    The words of the labels are a buffer of the model, so the label set travels with the weights; `label_set` knows
    the labels' ids and descriptions and is saved as `labels.jsonl`. `gile` scores any other labels.

    Args:
        config: A `GileConfig`; `num_labels` and `label_length` give the size of the stored label set.
    """

    towers_class = GileModel
    accepts_loss_kwargs = True  # Trainer passes num_items_in_batch, and scales no loss itself

    def __init__(self, config: GileConfig) -> None:
        # So that pipeline("zero-shot-classification", model=a model) is ours, also of a model with remote code.
        from .pipeline_gile import LabelScoringPipeline  # noqa: F401

        super().__init__(config)
        self.gile = self.towers_class(config)
        self.supports_gradient_checkpointing = self.gile.supports_gradient_checkpointing
        self.stored_labels = StoredLabels(config)
        self.label_input_ids: Tensor  # (L, T)
        self.register_buffer("label_input_ids", torch.zeros(config.num_labels, config.label_length, dtype=torch.long))
        self.loss_function = label_loss  # or another, such as a hf_gile.training.GileLoss; not saved
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if module is self:
            init.constant_(self.label_input_ids, self.config.text_config.pad_token_id)

    @property
    def label_set(self) -> LabelSet | None:
        """The stored labels; None where no more is known of them than their names."""
        return self.stored_labels.label_set

    @label_set.setter
    def label_set(self, label_set: LabelSet | None) -> None:
        self.stored_labels.label_set = label_set

    def train(self, mode: bool = True) -> Any:
        """Switches between training and evaluation."""
        if mode != self.training:
            self.stored_labels.forget_versions()
        return super().train(mode)

    def set_labels(self, label_set: LabelSet, processor: GileProcessor, label_input_ids: Tensor | None = None) -> None:
        """Stores a label set; columns of the logits and `config.id2label` follow its order.

        Labels that are the same words to the processor get the same score, among them all those of unknown words only.

        Rows of labels go by their ids: with `config.label_rows`, labels that stay keep theirs.

        Args:
            label_set: The labels. Any number of any labels with a joint embedding; with a linear unit those it was
                trained on. In a model of several languages the labels of each stand together, in the order of
                `config.languages`.
            processor: The `GileProcessor` that makes words of label texts.
            label_input_ids: `(L, T)` words of the labels, padded, where they are known already.

        Raises:
            ValueError: The label set does not fit a linear unit or the languages of the model, or the processor does
                not fit the model.
        """
        if not hasattr(processor, "pad_documents"):
            raise ValueError(f"processor must be the GileProcessor of this model, got {type(processor).__name__}")
        if not hasattr(label_set, "language_labels"):
            raise ValueError(
                f"label_set must be a LabelSet, got {type(label_set).__name__}; LabelSet.from_names(names) makes one"
            )
        processor.check_fits(self.config)
        sizes = label_set.language_labels if self.config.languages else {}
        if list(sizes) != [language for language in self.config.languages if language in sizes]:
            raise ValueError(
                f"the labels stand in the order {', '.join(sizes)}; put those of one language after those of another "
                f"in the order of this model, {', '.join(self.config.languages)}"
            )
        if self.config.output_layer == "linear":
            if len(label_set) != self.config.num_labels or sizes != self.config.language_labels:
                ours = f"{self.config.num_labels}{self.config.language_labels or ''}"
                raise ValueError(
                    f"the label set has {len(label_set)}{sizes or ''} labels, this linear unit has {ours}: "
                    "a linear unit keeps the labels it was trained on; make the model with config.num_labels to fit "
                    "(and config.language_labels, if it has languages)"
                )
            if self.label_set is not None and label_set.ids != self.label_set.ids:
                raise ValueError(
                    "a linear unit keeps the ids of the labels it was trained on, and their order; names may change"
                )
        else:
            if label_input_ids is None:
                if len(self.config.languages) > 1 and not sizes:
                    raise ValueError(
                        "the labels name no language (Label(..., language=...)); if they serve all languages, pass "
                        "label_input_ids=processor(label_text=..., label_language=...)['label_input_ids']"
                    )
                languages = [label.language for label in label_set] if sizes else None
                words = processor(label_text=label_set.texts, label_language=languages, return_tensors="pt")
                label_input_ids = words["label_input_ids"]
            else:
                check_tensors(label_input_ids=label_input_ids)
                if len(label_input_ids) != len(label_set):
                    raise ValueError(f"label_input_ids has {len(label_input_ids)} rows for {len(label_set)} labels")
            self.label_input_ids = label_input_ids.long().to(self.label_input_ids.device)
            for table in self.gile.label_tables.values():
                self._keep_rows(table, label_set)
            self.config.label_length = self.label_input_ids.shape[1]
            self.config.language_labels = sizes
        self.config.id2label = label_set.id2label()
        self.config.label2id = {name: column for column, name in self.config.id2label.items()}
        self.label_set = label_set
        self.stored_labels.forget()

    def resize_token_embeddings(self, *args: Any, **kwargs: Any) -> nn.Embedding:
        """Gives the model another number of words; see `PreTrainedModel.resize_token_embeddings`.

        If words of the stored labels are gone then, the label set must be stored again, with the processor of the new
        words: `set_labels` keeps what was learned of labels that stay.

        Raises:
            ValueError: The words are the tokens of a pretrained encoder, or have vectors in a bag.
        """
        resized = super().resize_token_embeddings(*args, **kwargs)
        words = self.label_input_ids
        if words.numel() and int(words.max()) >= self.config.text_config.vocab_size:
            self.label_input_ids = words.new_zeros(len(words), 0)
            self.config.label_length = 0
            self.stored_labels.forget()
        return resized

    def _keep_rows(self, table: nn.Embedding, label_set: LabelSet) -> None:
        old = table.weight.data
        if self.label_set is None and len(label_set) == len(old):
            return  # there is no telling whose they are, but their number
        new = old.new_zeros(len(label_set), old.shape[1])
        before = {} if self.label_set is None else dict(zip(self.label_set.ids, old, strict=True))
        for column, label_id in enumerate(label_set.ids):
            if label_id in before:
                new[column] = before[label_id]
        if new.shape == old.shape:
            old.copy_(new)  # the parameter stays the one that an optimizer knows
        else:
            attribute = next(own for own, module in self.gile.named_children() if module is table)
            setattr(self.gile, attribute, ZeroEmbedding.from_pretrained(new, freeze=False))

    def learned_of(self, labels: Sequence[Label], language: str | None = None) -> dict[str, Tensor]:
        """What the model has learned of single labels, for any labels: of stored ones their own, of others nothing.

        Args:
            labels: C `Label`s; stored ones are found as `StoredLabels.columns_of` does.
            language: The language of labels that name none.

        Returns:
            Arguments of `project_labels`: `label_rows` `(C, H + 1)`, where the model has such.
        """
        tables = self.gile.label_tables
        if not tables:
            return {}
        columns = self.stored_labels.columns_of(labels, language).to(self.device)
        known = (columns >= 0)[:, None]
        return {name: table(columns.clamp(min=0)) * known for name, table in tables.items()}

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        language: Languages = None,
        excluded_columns: Tensor | None = None,
        output_attentions: bool | None = None,
        pooled_embeds: Tensor | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        """Scores documents with the stored labels.

        If these are of several languages, a document is scored with those of its own language; the others get
        minus infinity, which is a probability of zero, and do not count in the loss.

        The loss is that of `loss_function`, as every model of Transformers has it, called with `logits`, `labels`,
        `config` and `kwargs`; the lowest number stands for minus infinity in these logits. If it has a method
        `of_codes`, as a `hf_gile.training.GileLoss` has, that is called in training, with the model and text codes in
        the place of the logits: it need not hold the scores of all labels.

        Args:
            input_ids: `(B, W)` or `(B, S, W)` word ids.
            attention_mask: `(B, W)` or `(B, S, W)`, true or 1 where there is a word.
            inputs_embeds: `(B, W, D)` or `(B, S, W, D)` word vectors, instead of `input_ids`.
            labels: `(B, P)` integers, the gold columns of each document padded with -100; or `(B,)` integers, one
                gold column each; or `(B, L)` floats, zeros and ones.
            language: The language of the documents, or of each; it can be left out if there is one.
            excluded_columns: `(B, E)` columns that are no candidates for a document, padded with -100; they get minus
                infinity, as labels of other languages do.
            output_attentions: Whether to return the attention weights, as in `GileModelOutput`.
            pooled_embeds: `(B, P)` or `(B, S, P)`: what the pretrained encoder made of these documents before, as in
                `GileModel.embed_texts`.
            kwargs: Further arguments of the loss, such as `num_items_in_batch`, which `Trainer` passes.

        Returns:
            `loss` if there are labels. `logits` `(B, L)`; none in a training step whose loss reads text codes.

        Raises:
            ValueError: No label set is stored, labels do not fit it, or inputs are of a wrong shape.
            TypeError: There is no such argument.
        """
        check_tensors(labels=labels, excluded_columns=excluded_columns)
        kwargs.pop("output_hidden_states", None)  # adapters of peft always pass it
        self._check_loss_arguments(labels, kwargs)
        text_embeds, attentions = self.gile.embed_texts(
            input_ids, attention_mask, inputs_embeds, language, pooled_embeds
        )
        text_codes = self.gile.project_texts(text_embeds=text_embeds, language=language)
        logits = loss = None
        if labels is not None and self.training and hasattr(self.loss_function, "of_codes"):
            options = {"language": language, "excluded_columns": excluded_columns, **kwargs}
            loss = self.loss_function.of_codes(self, text_codes, labels, **options)
        else:
            logits = self.score_stored_labels(text_codes, language, excluded_columns)
            if labels is not None:
                has_others = excluded_columns is not None or self.config.language_labels
                scores = without_infinities(logits) if has_others else logits
                loss = self.loss_function(logits=scores, labels=labels, config=self.config, **kwargs)
        return SequenceClassifierOutput(loss=loss, logits=logits, attentions=attentions if output_attentions else None)

    def _check_loss_arguments(self, labels: Tensor | None, given: dict[str, Any]) -> None:
        """Refuses arguments that the loss does not take, and a loss of `Trainer` that would be wrong."""
        if not given or torch.compiler.is_compiling():
            return
        known = inspect.signature(self.loss_function).parameters
        takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
        for name in given:
            if name not in known and not takes_all:
                raise TypeError(
                    f"forward() got an unexpected keyword argument {name!r}, which the loss does not take either; "
                    "sampled labels are trained on with model.loss_function = hf_gile.training.GileLoss()"
                )
        if labels is None and self.training and given.keys() & {"shift_labels", "num_items_in_batch"}:
            # With label_smoothing_factor, Trainer keeps the labels from the model, and computes a softmax of its own.
            # That is right for a model with one gold label among all. For several it leaves the loss to the model.
            asked = "problem_type, which is not set" if self.config.problem_type is None else "model.loss_function"
            is_plain = self.loss_function is label_loss and self.config.problem_type is not None
            if not is_plain and self.config.problem_type != "multi_label_classification":
                raise ValueError(
                    f"label_smoothing_factor keeps the labels from the model, but its loss depends on {asked}: set "
                    "label_smoothing_factor=0 in TrainingArguments. If compute_loss_func keeps them on purpose, set "
                    "config.problem_type = 'multi_label_classification'"
                )

    def score_stored_labels(
        self,
        text_codes: Tensor,
        language: Languages = None,
        excluded_columns: Tensor | None = None,
        columns: Tensor | None = None,
        label_codes: Callable[[str | None], Tensor] | None = None,
    ) -> Tensor:
        """Scores documents with the stored labels, or with some of them.

        Args:
            text_codes: `(B, J)` codes of documents.
            language: The language of the documents, or of each.
            excluded_columns: `(B, E)`, as in `forward`.
            columns: `(C,)` columns to score; all by default.
            label_codes: Makes the `(C, J)` codes of these labels for documents of a language, by default those of
                `stored_codes`.

        Returns:
            `(B, L)` or `(B, C)` logits, minus infinity where a label is no candidate for a document.
        """
        one_space = self.config.share_joint_space or self.config.output_layer == "linear"
        codes_of = cache(label_codes or partial(self.stored_codes, columns))

        def score(language: str | None, text_codes: Tensor) -> tuple[Tensor]:
            scores = self.gile.output_layer.score(text_codes, codes_of(None if one_space else language), language)
            return (self.stored_labels.mask_languages(scores, language, columns),)

        logits = in_each_language(self.config, language, {"text_codes": text_codes}, score)[0]
        return (
            logits if excluded_columns is None else self.stored_labels.mask_excluded(logits, excluded_columns, columns)
        )

    def project_stored_labels(self, columns: Tensor | None = None, language: str | None = None) -> Tensor:
        """Label codes of the stored label set, in a tensor of their own.

        Args:
            columns: `(C,)` columns wanted; all of them by default.
            language: The language of the documents to score; only read without `config.share_joint_space`.

        Returns:
            `(C, J)` label codes.

        Raises:
            ValueError: No label set is stored.
        """
        codes = self.stored_codes(columns, language)
        return codes.clone() if self.stored_labels.keeps(codes) else codes

    def stored_codes(self, columns: Tensor | None = None, language: str | None = None) -> Tensor:
        """Label codes as of `project_stored_labels`, not to be changed: in inference they are made once and kept.

        Args:
            columns: `(C,)` columns wanted; all of them by default.
            language: The language of the documents to score; only read without `config.share_joint_space`.
        """
        if self.config.output_layer == "linear":
            if not self.config.languages:
                return self.gile.output_layer.label_codes(columns)
            units = [self.gile.output_layer.label_codes(None, one) for one in self.config.languages]
            return torch.cat(units) if columns is None else torch.cat(units)[columns]
        if torch.compiler.is_exporting():
            codes = self.stored_labels.made(("codes", language))
            if codes is None:
                raise ValueError(
                    "an exported model holds the codes of its labels as constants: call it once, in evaluation mode "
                    "and without gradients, before torch.export"
                )
            return codes
        self._require_stored_labels()
        if self.training or torch.is_grad_enabled() or columns is not None:
            return self._stored_label_codes(columns, language)

        def state(words: Tensor) -> tuple[Any, ...]:
            return self.gile.label_state(), self.gile.label_state(words), state_of(self.label_input_ids)

        def make() -> Tensor:
            every = torch.arange(self.config.num_labels, device=self.label_input_ids.device)
            with torch.inference_mode(False), torch.no_grad():  # codes that torch.export takes, too
                return torch.cat([self._stored_label_codes(chunk, language) for chunk in every.split(_LABELS_AT_ONCE)])

        # Of weights that are elsewhere until a module is called, there is no telling whether they are still the same.
        if any(weight.is_meta for weight in self.gile.label_parameters()):
            return make()
        return self.stored_labels.made_once(("codes", language), self.label_input_ids, state, make)

    def _require_stored_labels(self) -> None:
        if self.label_input_ids.shape[1] == 0:
            raise ValueError(
                "no label set is stored in this model, or resize_token_embeddings took words of its labels away: call "
                "model.set_labels(label_set, processor) first, or score other labels with model.gile(..., "
                "label_input_ids=...)"
            )
        if bool(
            (self.label_input_ids[0] == self.config.text_config.pad_token_id).all()
        ):  # a label has words, or was not loaded
            raise ValueError(
                "the stored labels have no words: this checkpoint was saved without them (by GileModel, for example); "
                "call model.set_labels(label_set, processor)"
            )

    def _stored_label_codes(self, columns: Tensor | None, language: str | None) -> Tensor:
        return self.project_labels(language=language, **self.stored_inputs(columns))

    def stored_inputs(
        self,
        columns: Tensor | None = None,
        words: Tensor | None = None,
        rows: Tensor | None = None,
        vectors: Tensor | None = None,
    ) -> dict[str, Any]:
        """What belongs to single stored labels: arguments of `project_labels`.

        Args:
            columns: `(C,)` columns wanted; all of them by default.
            words: `(M, T)` words to read labels by instead of the stored ones, with `rows`.
            rows: `(C,)` the row of `words` by which each label is read.
            vectors: `(L, P)`, or `(M, P)` with `words`: what the pretrained encoder made of the words before.

        Returns:
            Tensors of C rows.

        Raises:
            ValueError: No label set is stored.
        """
        self._require_stored_labels()
        inputs = {
            name: table.weight if columns is None else table(columns) for name, table in self.gile.label_tables.items()
        }
        if vectors is None and self.config.pools_labels and self.config.text_config.has_fixed_pooling:
            vectors = self._kept_pooled(words)
        rows = columns if words is None else rows
        words = self.label_input_ids if words is None else words
        if vectors is not None:
            inputs["label_vectors"] = vectors if rows is None else vectors[rows]
        inputs["words"] = words if rows is None else words[rows]
        if self.config.language_labels and self.config.label_encoder_type == "text_encoder":
            languages = self.stored_labels.languages.to(self.label_input_ids.device)
            inputs["label_language"] = languages if columns is None else languages[columns]
        return inputs

    def pool_stored_labels(self, words: Tensor | None = None) -> Tensor:
        """What the pretrained encoder makes of the stored labels, without dropout and without gradients.

        Args:
            words: `(M, T)` other words of labels to read instead.

        Returns:
            `(L, P)` or `(M, P)` vectors.
        """
        languages = self.stored_labels.languages if self.config.language_labels and words is None else None
        encoder = self.gile.text_encoder
        mode = encoder.training
        encoder.eval()
        vectors = self.gile.pool_labels(self.label_input_ids if words is None else words, languages)
        encoder.train(mode)
        return vectors

    def _kept_pooled(self, words: Tensor | None) -> Tensor:
        """`pool_stored_labels` of a frozen encoder, kept while it is the same."""
        read = self.label_input_ids if words is None else words
        encoder = self.gile.text_encoder
        weights = list(encoder.transformer.parameters())

        def state(distinct: Tensor) -> tuple[Any, ...]:
            return self.gile.label_state(None, weights), self.gile.label_state(distinct, weights), state_of(read)

        # While training goes on, a frozen encoder is not read at each step, which can cost as much as the step.
        versions = None
        if self.training:
            tensors = [read, *encoder.parameters()]
            states = [(tensor.data_ptr(), tensor._version) for tensor in tensors]
            versions = (torch.is_autocast_enabled(read.device.type), states)
        make = partial(self.pool_stored_labels, words)
        return self.stored_labels.made_once(("pooled", words is None), read, state, make, versions)

    def project_labels(
        self,
        words: Tensor,
        label_vectors: Tensor | None = None,
        label_rows: Tensor | None = None,
        label_language: Languages = None,
        language: str | None = None,
        sparse: bool = False,
    ) -> Tensor:
        """Label codes of words and of what the model has learned of these labels beside.

        Args:
            words: `(C, T)` words of the labels.
            label_vectors: `(C, P)`, as in `GileModel.embed_labels`.
            label_rows: `(C, H + 1)` rows of the labels.
            label_language: The language of the labels, or of each.
            language: The language of the documents to score; only read without `config.share_joint_space`.
            sparse: Whether gradients of tables of words are sparse tensors.

        Returns:
            `(C, J)` label codes.
        """
        label_embeds = self.gile.embed_labels(words, None, label_language, label_vectors, sparse)
        return self.gile.project_labels(label_embeds=label_embeds, language=language, label_rows=label_rows)

    def save_pretrained(
        self,
        save_directory: str | os.PathLike[str],
        is_main_process: bool = True,
        state_dict: dict[str, Any] | None = None,
        push_to_hub: bool = False,
        **kwargs: Any,
    ) -> None:
        """Saves the model with its code and its labels; see `PreTrainedModel.save_pretrained`."""
        for_hub = ("repo_id", "commit_message", "commit_description", "private", "create_pr", "revision", "tags")
        hub = {name: kwargs.pop(name) for name in for_hub if name in kwargs}
        if is_main_process:
            Path(save_directory, UNFINISHED_SAVE).unlink(missing_ok=True)  # its files are older than this model
        super().save_pretrained(save_directory, is_main_process, state_dict, **kwargs)
        file = Path(save_directory) / LABELS_FILE
        if is_main_process:
            if self.label_set is not None:
                self.label_set.save(file)
            else:
                file.unlink(missing_ok=True)  # of another model, saved here before
        if push_to_hub:
            # Not by super(), which would push before the labels are there.
            repo_id = hub.pop("repo_id", Path(save_directory).name)
            self.push_to_hub(repo_id, token=kwargs.get("token"), **hub)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        words = state_dict.get(f"{prefix}label_input_ids")
        if (
            self.label_set is not None
            and words is not None
            and not torch.equal(words.cpu(), self.label_input_ids.cpu())
        ):
            raise ValueError(
                "this checkpoint stores other labels than set_labels gave this model, or in another order: "
                "train on with the label set of the checkpoint (its labels.jsonl), or load it with from_pretrained"
            )
        super()._load_from_state_dict(state_dict, prefix, *args)

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | PathLike[str] | None, *args: Any, **kwargs: Any
    ) -> Any:
        """Loads a model and its label set; see `PreTrainedModel.from_pretrained`.

        Raises:
            ValueError: `labels.jsonl` lists other labels than the model has.
        """
        hub = ("cache_dir", "force_download", "local_files_only", "proxies", "revision", "subfolder", "token")
        options = {name: kwargs[name] for name in hub if kwargs.get(name) is not None}
        loaded = super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        file = None
        if pretrained_model_name_or_path is not None:  # None: a state_dict was given instead
            file = cached_file(
                pretrained_model_name_or_path, LABELS_FILE, _raise_exceptions_for_missing_entries=False, **options
            )
        if file is not None:
            label_set = LabelSet.load(file)
            stored = {int(column): name for column, name in model.config.id2label.items()}
            if label_set.id2label() != stored:
                raise ValueError(
                    f"{file} lists {len(label_set)} labels that are not the {len(stored)} labels of config.id2label; "
                    "change the labels of a saved model with model.set_labels(label_set, processor) and save it again"
                )
            model.label_set = label_set
        return loaded


def check_tensors(**given: Any) -> None:
    """Refuses what is no tensor, such as the lists of ids that the processor makes by default.

    Args:
        given: Arguments by their names; None is left out.

    Raises:
        ValueError: One is no tensor; the message names it.
    """
    for name, value in given.items():
        if value is not None and not torch.is_tensor(value):
            raise ValueError(
                f"{name} must be a tensor, got {type(value).__name__}; the processor makes tensors with "
                "return_tensors='pt'"
            )


__all__ = ["GileForSequenceClassification", "GileModel", "GileModelOutput", "GilePreTrainedModel"]
