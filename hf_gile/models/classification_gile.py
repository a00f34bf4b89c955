"""A GILE model with a stored label set: what the stock Trainer and stock pipelines take for a classifier.

Shapes and languages are those of `modeling_gile.py`.
"""

import inspect
import os
from collections.abc import Callable, Sequence
from functools import cache, partial
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import initialization as init
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils import can_return_tuple
from transformers.utils.hub import cached_file

from .configuration_gile import GileConfig
from .labels_gile import LABELS_FILE, Label, LabelSet
from .languages_gile import Languages, in_each_language
from .losses_gile import label_loss, without_infinities
from .modeling_gile import UNFINISHED_SAVE, GileModel, GilePreTrainedModel, check_tensors
from .processing_gile import GileProcessor
from .scoring_gile import ZeroEmbedding
from .stored_labels_gile import StoredLabels, state_of

_LABELS_AT_ONCE = 2048
"""Stored labels encoded at a time, outside training."""


class GileForSequenceClassification(GilePreTrainedModel):
    """A GILE model with a stored label set: what the stock Trainer and stock pipelines expect of a classifier.

    The words of the labels are a buffer of the model, so the label set travels with the weights; `label_set` knows
    the labels' ids and descriptions and is saved as `labels.jsonl`. `gile` scores any other labels.

    Args:
        config: A `GileConfig`; `num_labels` and `label_length` give the size of the stored label set.
    """

    accepts_loss_kwargs = True  # Trainer passes num_items_in_batch, and scales no loss itself

    def __init__(self, config: GileConfig) -> None:
        # So that pipeline("zero-shot-classification", model=a model) is ours, also of a model with remote code.
        from .pipeline_gile import LabelScoringPipeline  # noqa: F401

        super().__init__(config)
        self.gile = GileModel(config)
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
        if not hasattr(processor, "unknown_labels"):
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
        return {name: table.weight[columns.clamp(min=0)] * known for name, table in tables.items()}

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
        # Of weights that are elsewhere until a module is called, there is no telling whether they are still the same.
        is_away = any(weight.is_meta for weight in self.gile.label_parameters())
        if self.training or torch.is_grad_enabled() or columns is not None or is_away:
            return self._stored_label_codes(columns, language)

        def state(words: Tensor) -> tuple[Any, ...]:
            return self.gile.label_state(), self.gile.label_state(words), state_of(self.label_input_ids)

        def make() -> Tensor:
            every = torch.arange(self.config.num_labels, device=self.label_input_ids.device)
            with torch.inference_mode(False), torch.no_grad():  # codes that torch.export takes, too
                return torch.cat([self._stored_label_codes(chunk, language) for chunk in every.split(_LABELS_AT_ONCE)])

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
            name: table.weight if columns is None else table.weight[columns]
            for name, table in self.gile.label_tables.items()
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


__all__ = ["GileForSequenceClassification"]
