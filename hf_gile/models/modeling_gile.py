"""GILE models for Transformers: both towers (`GileModel`), and a classifier with a stored label set.

One legend for every shape: B documents, S sentences, W words, D word-embedding size, H document size, J joint size,
L labels, C columns scored in a training step, T words of a label, P gold labels of a document.
"""

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils import ModelOutput, can_return_tuple
from transformers.utils.hub import cached_file

from .configuration_gile import GileConfig
from .labels_gile import LABELS_FILE, LabelSet
from .losses_gile import binary_cross_entropy, cross_entropy, multi_hot
from .output_layers_gile import ClassificationUnit, JointInputLabelEmbedding, LinearOutput, MeanLabelEncoder
from .text_encoders_gile import TEXT_ENCODERS


@dataclass
class GileModelOutput(ModelOutput):
    """What `GileModel` returns.

    Args:
        logits: `(B, L)` scores, before the sigmoid.
        text_embeds: `(B, H)` document vectors h.
        label_embeds: `(L, D)` label vectors e; none for a linear unit.
        attentions: With `output_attentions=True`, the word attention `(B, W)` of a WAN, or the word attention
            `(B, S, W)` and sentence attention `(B, S)` of a HAN.
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
        if isinstance(module, ClassificationUnit):
            prior = self.config.label_prior
            init.normal_(module.weight, std=module.in_features**-0.5)
            init.constant_(module.bias, math.log(prior / (1 - prior)))
        elif isinstance(module, nn.Linear):
            init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=self.config.embedding_std)
            if module.padding_idx is not None:
                init.zeros_(module.weight[module.padding_idx])
        elif isinstance(module, GileForSequenceClassification):
            init.constant_(module.label_input_ids, self.config.pad_token_id)


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

    # The stored labels of a classifier's checkpoint: not needed here, and nothing to warn of.
    _keys_to_ignore_on_load_unexpected: ClassVar[list[str]] = ["label_input_ids"]

    def __init__(self, config: GileConfig) -> None:
        super().__init__(config)
        self.word_embeddings = nn.Embedding(config.vocab_size, config.embedding_size, padding_idx=config.pad_token_id)
        self.text_encoder = TEXT_ENCODERS[config.text_encoder_type](config)
        self.output_layer: Any  # either has encode_texts and score
        if config.output_layer == "gile":
            self.label_encoder = MeanLabelEncoder(config)
            self.output_layer = JointInputLabelEmbedding(config)
        else:
            self.output_layer = LinearOutput(config)
        self.post_init()

    def encode_texts(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The text encoder: document vectors and attention.

        Args:
            input_ids: `(B, W)` word ids (wan) or `(B, S, W)` (han).
            attention_mask: `(B, W)` or `(B, S, W)`, true or 1 where there is a word. By default every word that is not
                the padding word; with `inputs_embeds`, every word.
            inputs_embeds: `(B, W, D)` or `(B, S, W, D)` word vectors, instead of `input_ids`.

        Returns:
            `(B, H)` document vectors, and the attention weights as in `GileModelOutput`. A document without words
            gets the zero vector.

        Raises:
            ValueError: Not exactly one of `input_ids` and `inputs_embeds`, or a wrong number of dimensions.
        """
        if inputs_embeds is not None and input_ids is not None:
            raise ValueError("pass either input_ids or inputs_embeds, got both")
        if inputs_embeds is None:
            if input_ids is None:
                raise ValueError("pass either input_ids or inputs_embeds, got neither")
            self._check_dims("input_ids", input_ids, "")
            if input_ids.shape[-1] == 0:  # what a tokenizer makes of an empty text, in floats
                input_ids = input_ids.new_full((*input_ids.shape[:-1], 1), self.config.pad_token_id, dtype=torch.long)
                attention_mask = None
            words, places = torch.unique(input_ids, return_inverse=True)
            word_vectors = self.word_embeddings(words)
            if attention_mask is None:
                attention_mask = input_ids != self.config.pad_token_id
        else:
            self._check_dims("inputs_embeds", inputs_embeds, ", D")
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
        if self.training and self.config.word_dropout > 0:
            kept = torch.rand(len(places), len(word_vectors), device=places.device) >= self.config.word_dropout
            mask = mask & kept.gather(1, places.flatten(1)).reshape(places.shape)
        return self.text_encoder(word_vectors, places, mask)

    def encode_labels(self, label_input_ids: Tensor, label_attention_mask: Tensor | None = None) -> Tensor:
        """The label encoder: the mean of the word vectors of each label (section 2.2).

        Args:
            label_input_ids: `(L, T)` word ids, padded with the padding word.
            label_attention_mask: `(L, T)`, true or 1 where there is a word; by default the words that are not padding.

        Returns:
            `(L, D)` label vectors e.

        Raises:
            ValueError: A wrong number of dimensions, or a model with a linear unit.
        """
        self._require_joint_embedding()
        if label_input_ids.dim() != 2:
            raise ValueError(f"label_input_ids must have shape (L, T), got {tuple(label_input_ids.shape)}")
        if label_attention_mask is not None:
            label_input_ids = label_input_ids.masked_fill(~label_attention_mask.bool(), self.config.pad_token_id)
        return self.label_encoder(label_input_ids, self.word_embeddings)

    def get_text_features(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        """Text codes, the documents' side of the score; arguments as in `encode_texts`.

        Returns:
            `(B, J)` text codes (`(B, H + 1)` with a linear unit).
        """
        return self.output_layer.encode_texts(self.encode_texts(input_ids, attention_mask, inputs_embeds)[0])

    def get_label_features(
        self,
        label_input_ids: Tensor | None = None,
        label_attention_mask: Tensor | None = None,
        label_embeds: Tensor | None = None,
    ) -> Tensor:
        """Label codes, the labels' side of the score: compute them once and keep them.

        Args:
            label_input_ids: `(L, T)` word ids, as in `encode_labels`.
            label_attention_mask: `(L, T)`, as in `encode_labels`.
            label_embeds: `(L, D)` label vectors e, instead of words.

        Returns:
            `(L, J)` label codes. A code depends on its own label only.

        Raises:
            ValueError: Not exactly one of `label_input_ids` and `label_embeds`, or a model with a linear unit.
        """
        label_embeds = self._label_embeds(label_input_ids, label_attention_mask, label_embeds)
        return self.output_layer.encode_labels(label_embeds)

    def score(self, text_codes: Tensor, label_codes: Tensor) -> Tensor:
        """The inner product that is the score.

        Args:
            text_codes: `(B, J)` from `get_text_features`.
            label_codes: `(L, J)` from `get_label_features`.

        Returns:
            `(B, L)` logits; their sigmoid is the probability that the label applies.
        """
        return self.output_layer.score(text_codes, label_codes)

    def label_state(self) -> tuple[Any, ...]:
        """A fingerprint of what label codes are made of: while it stays equal, kept codes are still right.

        It holds addresses and versions of the weights, the numbers of a sample of them (a fused optimizer, and writing
        into `.data`, leave the version as it is), how often `train` was called, and the autocast type.
        """
        projection = self.output_layer.label_projection
        kind = self.word_embeddings.weight.device.type
        autocast = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
        return (self._mode_changes, autocast, *_state(self.word_embeddings.weight, projection.weight, projection.bias))

    def train(self, mode: bool = True) -> "GileModel":
        """Switches between training and evaluation; what was kept of the labels is stale from here on."""
        self._mode_changes = getattr(self, "_mode_changes", 0) + 1
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
            output_attentions: Whether to return the attention weights.

        Returns:
            A `GileModelOutput`.

        Raises:
            ValueError: Arguments are missing, or of a wrong shape.
        """
        text_embeds, attentions = self.encode_texts(input_ids, attention_mask, inputs_embeds)
        if self.config.output_layer == "linear" and label_input_ids is None and label_embeds is None:
            label_codes = self.output_layer.label_codes()
        else:
            label_embeds = self._label_embeds(label_input_ids, label_attention_mask, label_embeds)
            label_codes = self.output_layer.encode_labels(label_embeds)
        return GileModelOutput(
            logits=self.score(self.output_layer.encode_texts(text_embeds), label_codes),
            text_embeds=text_embeds,
            label_embeds=label_embeds,
            attentions=attentions if output_attentions else None,
        )

    def _label_embeds(
        self, label_input_ids: Tensor | None, label_attention_mask: Tensor | None, label_embeds: Tensor | None
    ) -> Tensor:
        self._require_joint_embedding()
        if label_input_ids is not None:
            if label_embeds is not None:
                raise ValueError("pass either label_input_ids or label_embeds, got both")
            return self.encode_labels(label_input_ids, label_attention_mask)
        if label_embeds is None:
            raise ValueError(
                "pass either label_input_ids or label_embeds, got neither; "
                "the processor saved with the model makes label_input_ids of label texts"
            )
        if label_embeds.dim() != 2 or label_embeds.shape[1] != self.config.embedding_size:
            raise ValueError(
                f"label_embeds must have shape (L, {self.config.embedding_size}), got {tuple(label_embeds.shape)}"
            )
        return label_embeds

    def _check_dims(self, name: str, given: Tensor, behind: str) -> None:
        shape = TEXT_ENCODERS[self.config.text_encoder_type].input_dims.replace(")", f"{behind})")
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


class GileForSequenceClassification(GilePreTrainedModel):
    """A GILE model with a stored label set: what the stock Trainer and stock pipelines expect of a classifier.

    The words of the labels are a buffer of the model, so the label set travels with the weights; `label_set` knows
    the labels' ids and descriptions and is saved as `labels.jsonl`. `gile` scores any other labels.

    Args:
        config: A `GileConfig`; `num_labels` and `label_length` give the size of the stored label set.
    """

    # forward() takes no num_items_in_batch: without this, Trainer would not average over accumulated steps.
    accepts_loss_kwargs = False

    def __init__(self, config: GileConfig) -> None:
        super().__init__(config)
        self.gile = GileModel(config)
        self.label_set: LabelSet | None = None
        self.label_input_ids: Tensor  # (L, T)
        self.register_buffer("label_input_ids", torch.zeros(config.num_labels, config.label_length, dtype=torch.long))
        self._kept_label_codes: tuple[Any, Tensor] | None = None
        self.post_init()

    def set_labels(self, label_set: LabelSet, processor: Any) -> None:
        """Stores a label set; columns of the logits and `config.id2label` follow its order.

        Labels that are the same words to the processor get the same score, among them all those of unknown words only.

        Args:
            label_set: The labels. Any number of any labels with a joint embedding; with a linear unit as many as
                the unit has.
            processor: The `GileProcessor` that makes words of label texts.

        Raises:
            ValueError: The label set does not fit a linear unit, or the processor does not fit the model.
        """
        processor.check_fits(self.config)
        if self.config.output_layer == "linear":
            if len(label_set) != self.config.num_labels:
                raise ValueError(
                    f"the label set has {len(label_set)} labels, this linear unit has {self.config.num_labels}: "
                    "a linear unit keeps the labels it was trained on; make the model with config.num_labels to fit"
                )
        else:
            words = processor(label_text=label_set.texts, return_tensors="pt")["label_input_ids"]
            self.label_input_ids = words.to(self.label_input_ids.device)
            self.config.label_length = words.shape[1]
        self.config.id2label = label_set.id2label()
        self.config.label2id = {name: column for column, name in self.config.id2label.items()}
        self.label_set = label_set
        self._kept_label_codes = None

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        sampled_columns: Tensor | None = None,
        column_weights: Tensor | None = None,
        output_attentions: bool | None = None,
    ) -> SequenceClassifierOutput:
        """Scores documents with the stored labels.

        Label sampling is for training, like dropout: in evaluation mode `sampled_columns` is ignored and all labels
        are scored.

        Args:
            input_ids: `(B, W)` or `(B, S, W)` word ids.
            attention_mask: `(B, W)` or `(B, S, W)`, true or 1 where there is a word.
            inputs_embeds: `(B, W, D)` or `(B, S, W, D)` word vectors, instead of `input_ids`.
            labels: `(B, P)` integers, the gold columns of each document padded with -100; or `(B,)` integers, one
                gold column each; or `(B, L)` floats, zeros and ones.
            sampled_columns: `(C,)` or `(1, C)` ascending columns to train on in this step; all of them by default.
            column_weights: `(C,)`, `(1, C)` or `(B, C)` weights of these columns in the loss.
            output_attentions: Whether to return the attention weights, as in `GileModelOutput`.

        Returns:
            `loss` if there are labels: sigmoid (Eq. 15) for `problem_type="multi_label_classification"`, softmax for
            `"single_label_classification"`; where it is None, the first labels decide: `(B,)` the latter, else the
            former. `logits` `(B, L)`, or `(B, C)` for sampled columns.

        Raises:
            ValueError: No label set is stored, labels do not fit it, or inputs are of a wrong shape.
        """
        if not self.training:
            sampled_columns = column_weights = None
        elif sampled_columns is not None:
            sampled_columns = sampled_columns.flatten()
        text_embeds, attentions = self.gile.encode_texts(input_ids, attention_mask, inputs_embeds)
        text_codes = self.gile.output_layer.encode_texts(text_embeds)
        logits = self.gile.score(text_codes, self.get_stored_label_features(sampled_columns))
        return SequenceClassifierOutput(
            loss=None if labels is None else self._loss(logits, labels, sampled_columns, column_weights),
            logits=logits,
            attentions=attentions if output_attentions else None,
        )

    def get_stored_label_features(self, columns: Tensor | None = None) -> Tensor:
        """Label codes of the stored label set. In evaluation without gradients they are computed once and kept.

        Args:
            columns: `(C,)` columns wanted; all of them by default.

        Returns:
            `(C, J)` label codes.

        Raises:
            ValueError: No label set is stored.
        """
        if self.config.output_layer == "linear":
            return self.gile.output_layer.label_codes(columns)
        if self.label_input_ids.shape[1] == 0:
            raise ValueError(
                "no label set is stored in this model: call model.set_labels(label_set, processor) first, "
                "or score other labels with model.gile(..., label_input_ids=...)"
            )
        if bool((self.label_input_ids[0] == self.config.pad_token_id).all()):  # a label has words, or was not loaded
            raise ValueError(
                "the stored labels have no words: this checkpoint was saved without them (by GileModel, for example); "
                "call model.set_labels(label_set, processor)"
            )
        if self.training or torch.is_grad_enabled() or columns is not None:
            words = self.label_input_ids if columns is None else self.label_input_ids[columns]
            return self.gile.get_label_features(label_input_ids=words)
        state = (*self.gile.label_state(), *_state(self.label_input_ids))
        if self._kept_label_codes is None or self._kept_label_codes[0] != state:
            self._kept_label_codes = (state, self.gile.get_label_features(label_input_ids=self.label_input_ids))
        return self._kept_label_codes[1]

    def _loss(self, logits: Tensor, labels: Tensor, columns: Tensor | None, column_weights: Tensor | None) -> Tensor:
        integer = not labels.is_floating_point() and labels.dtype != torch.bool
        if self.config.problem_type is None:  # written down, so that pipelines answer as the model was trained
            single = integer and labels.dim() == 1
            self.config.problem_type = "single_label_classification" if single else "multi_label_classification"
        single = self.config.problem_type == "single_label_classification"
        if len(labels) != len(logits) or labels.dim() > 2 or (labels.dim() == 1 and not integer):
            raise ValueError(
                f"labels must have shape ({len(logits)}, P) as gold columns padded with -100, ({len(logits)},) as one "
                f"gold column each, or ({len(logits)}, {self.config.num_labels}) as zeros and ones (floats), "
                f"got {tuple(labels.shape)} of {labels.dtype}"
            )
        if integer:
            targets = multi_hot(labels.reshape(len(labels), -1), self.config.num_labels, columns)
        else:
            if labels.shape[1] != self.config.num_labels:
                raise ValueError(
                    f"labels of zeros and ones must have {self.config.num_labels} columns, one for each stored label, "
                    f"got {labels.shape[1]}; pass integers to give the gold columns alone"
                )
            targets = labels if columns is None else labels[:, columns]
        if single and bool((targets.sum(-1) != 1).any()):
            raise ValueError(
                "problem_type 'single_label_classification' takes exactly one gold label for each document; "
                "use 'multi_label_classification' for any number"
            )
        return (cross_entropy if single else binary_cross_entropy)(logits, targets, column_weights)

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
        super().save_pretrained(save_directory, is_main_process, state_dict, **kwargs)
        file = Path(save_directory) / LABELS_FILE
        if is_main_process:
            file.unlink(missing_ok=True)  # of another model, saved here before
            if self.label_set is not None:
                self.label_set.save(file)
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
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
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


def _state(*tensors: Tensor) -> tuple[Any, ...]:
    states = []
    for tensor in tensors:
        version = 0 if tensor.is_inference() else tensor._version
        sample = tensor.detach().flatten()[:: max(1, tensor.numel() // 65_536)].float()
        # Falling factors, for a plain sum would not see rows change places.
        total = (sample @ torch.linspace(1, 2, len(sample), device=sample.device)).item()
        states.append((tensor.data_ptr(), tensor.device, tensor.dtype, tensor.shape, version, total))
    return tuple(states)


def _code_that_travels() -> None:
    """Never called: transformers copies the files a modeling file imports, and these belong to every saved model."""
    from .pipeline_gile import LabelScoringPipeline  # noqa: F401
    from .processing_gile import GileProcessor  # noqa: F401


__all__ = ["GileForSequenceClassification", "GileModel", "GileModelOutput", "GilePreTrainedModel"]
