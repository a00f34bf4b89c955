"""A GILE model with a stored label set: what the stock Trainer and stock pipelines take for a classifier.

Shapes and languages are those of `modeling_gile.py`.
"""

import os
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from transformers import initialization as init
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils import can_return_tuple
from transformers.utils.hub import cached_file

from .chunked_losses_gile import LabelChunks, chunked_loss
from .configuration_gile import GileConfig
from .fingerprint_gile import state_of
from .labels_gile import LABELS_FILE, Label, LabelSet
from .languages_gile import Languages, check_language, in_each_language, of_language, own_columns
from .losses_gile import (
    IGNORE,
    LOSSES,
    binary_cross_entropy,
    check_excluded,
    check_positive_weights,
    cross_entropy,
    gold_places,
    multi_hot,
    places_among,
    widened,
)
from .modeling_gile import UNFINISHED_SAVE, GileModel, GilePreTrainedModel, check_tensors, check_unknown
from .score_terms_gile import ZeroEmbedding

_LABELS_AT_ONCE = 2048
"""Stored labels encoded at a time, outside training."""

_ONE_GOLD_LABEL = (
    "problem_type 'single_label_classification' takes exactly one gold label for each document; "
    "use 'multi_label_classification' for any number"
)


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
        self.label_set: LabelSet | None = None
        self.label_input_ids: Tensor  # (L, T)
        self.register_buffer("label_input_ids", torch.zeros(config.num_labels, config.label_length, dtype=torch.long))
        # State, codes or vectors, and the words that they were made of.
        self._kept_label_codes: dict[str | None, tuple[Any, Tensor, Tensor]] = {}
        self._kept_label_vectors: dict[str, tuple[Any, Tensor, Tensor]] = {}
        self._versions: dict[str, Any] = {}  # of what label vectors are made of, while training goes on
        self._places: tuple[LabelSet, dict[str, int], dict[tuple[str, str | None], int]] | None = None
        self._steps = 0
        self._label_group: Any = None
        # Chooses further columns of a training step, such as hf_gile.training.HardNegatives; not saved.
        self.column_miner: Callable[..., tuple[Tensor | None, Tensor | None]] | None = None
        # Chooses the text by which a training step reads each label, hf_gile.training.LabelParaphrases; not saved.
        self.label_paraphrases: Any = None
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if module is self:
            init.constant_(self.label_input_ids, self.config.pad_token_id)

    def train(self, mode: bool = True) -> Any:
        """Switches between training and evaluation."""
        if mode != self.training:
            self._versions = {}
        return super().train(mode)

    def share_labels(self, group: Any = None) -> None:
        """Divides the labels among processes in training: each scores the documents of all with its own labels.

        Results are those of each process scoring its documents with all labels, where gradients are averaged over the
        processes, as DDP and FSDP do; of label codes, their gradients and the scores, a process holds its share. All
        processes train on the same labels, without weights: all of them, or a `LabelSampler` that takes all of its
        columns.

        Args:
            group: The processes; by default all.

        Raises:
            ValueError: `config.label_chunk_size` is 0, the model has several languages, or no processes were started.
        """
        if self.config.label_chunk_size == 0 or self.config.languages:
            raise ValueError(
                "labels can be shared by processes with config.label_chunk_size above zero, in a model without "
                f"languages; got label_chunk_size={self.config.label_chunk_size}, languages={self.config.languages}"
            )
        if not distributed.is_available() or not distributed.is_initialized():
            raise ValueError(
                "no processes to share labels with: call this within accelerate launch or torchrun, after the "
                "Accelerator, TrainingArguments or init_process_group has started the processes"
            )
        self._label_group = distributed.group.WORLD if group is None else group

    def set_labels(self, label_set: LabelSet, processor: Any, label_input_ids: Tensor | None = None) -> None:
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
        self._kept_label_codes, self._kept_label_vectors, self._versions = {}, {}, {}

    def resize_token_embeddings(self, *args: Any, **kwargs: Any) -> nn.Embedding:
        """Gives the model another number of words; see `PreTrainedModel.resize_token_embeddings`.

        If words of the stored labels are gone then, the label set must be stored again, with the processor of the new
        words: `set_labels` keeps what was learned of labels that stay.

        Raises:
            ValueError: The words are the tokens of a pretrained encoder, or have vectors in a bag.
        """
        resized = super().resize_token_embeddings(*args, **kwargs)
        words = self.label_input_ids
        if words.numel() and int(words.max()) >= self.config.vocab_size:
            self.label_input_ids = words.new_zeros(len(words), 0)
            self.config.label_length = 0
            self._kept_label_codes, self._kept_label_vectors = {}, {}
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

    @torch.no_grad()
    def set_label_priors(self, num_documents: int) -> None:
        """Starts the bias of each stored label at the logit of the share of training documents that have it.

        The biases are those of a linear unit, or of the rows of labels (`config.label_rows`), beside the common b.
        Labels without training documents keep the common one.

        Args:
            num_documents: Number N of training documents, beside the `count` of each label.

        Raises:
            ValueError: No label set is stored, the model has no biases of single labels, or a count is above N.
        """
        if self.label_set is None:
            raise ValueError("label priors are those of stored labels: call set_labels first")
        counts = torch.tensor([label.count for label in self.label_set], dtype=torch.float64)
        if bool((counts > num_documents).any()):
            column = int((counts > num_documents).nonzero()[0])
            raise ValueError(
                f"label {self.label_set.ids[column]!r} has a count of {int(counts[column])}, more than num_documents, "
                f"{num_documents}"
            )
        logits = ((counts + 0.5) / (num_documents + 1)).logit()
        parts = [self.gile.output_layer.classifier]
        if self.config.output_layer == "linear":
            if self.config.languages:
                parts = [of_language(parts[0], language) for language in self.config.languages]
            shares = logits.split([len(part.bias) for part in parts])
            for part, own, known in zip(parts, shares, counts.split([len(one) for one in shares]), strict=True):
                part.bias.copy_(torch.where((known > 0).to(part.bias.device), own.to(part.bias), part.bias))
        elif self.config.label_rows:
            common = torch.cat([of_language(parts[0], one).bias for one in self.config.languages or [None]]).mean()
            biases = self.gile.label_rows.weight[:, -1]
            biases.copy_(torch.where((counts > 0).to(biases.device), logits.to(biases) - common, biases))
        else:
            raise ValueError(
                "this model has one bias for all labels; label_rows=True gives each stored label one, as a linear unit "
                "does"
            )

    def stored_columns(self, labels: Sequence[Label], language: str | None = None) -> Tensor:
        """The columns that labels have among the stored ones.

        A label is a stored one if it has its id, or its text and language.

        Args:
            labels: C `Label`s.
            language: The language of labels that name none.

        Returns:
            `(C,)` columns, -1 for labels that are not stored.
        """
        columns = [-1] * len(labels)
        if self.label_set is not None:
            if self._places is None or self._places[0] is not self.label_set:
                by_id = {label.id: column for column, label in enumerate(self.label_set)}
                by_text = {(label.text, label.language): column for column, label in enumerate(self.label_set)}
                self._places = self.label_set, by_id, by_text
            _, by_id, by_text = self._places
            # Stored labels that serve all languages name none, and neither do those of a model that has none.
            default = language if self.config.language_labels else None
            for place, label in enumerate(labels):
                column = by_id.get(label.id)
                columns[place] = by_text.get((label.text, label.language or default), -1) if column is None else column
        return torch.tensor(columns, dtype=torch.long, device=self.device)

    def seen_among(self, labels: Sequence[Label] | None = None, language: str | None = None) -> Tensor:
        """Which labels the model was trained on, as its stored label set says: what `calibrated` asks for.

        Args:
            labels: C `Label`s; by default the stored ones.
            language: The language of labels that name none.

        Returns:
            `(C,)` bool, True for labels that are stored, and stored as seen. Without a stored label set, as a linear
            unit can be, its labels are those it was trained on.
        """
        if self.label_set is None:
            number, known = (self.config.num_labels, True) if labels is None else (len(labels), False)
            return torch.full((number,), known, device=self.device)
        seen = torch.tensor(self.label_set.seen, device=self.device)
        if labels is None:
            return seen
        columns = self.stored_columns(labels, language)
        return seen[columns.clamp(min=0)] & (columns >= 0)

    def thresholds_of(self, labels: Sequence[Label] | None = None, language: str | None = None) -> Tensor:
        """From which probability, after calibration, each label counts as assigned.

        Args:
            labels: C `Label`s; by default the stored ones.
            language: The language of labels that name none.

        Returns:
            `(C,)` float32: the threshold of the stored label, or of the given one if it is not stored; else that of its
            group in `config.thresholds`, else that of the other group, else 0.5.
        """
        stored = self.config.thresholds
        groups = [stored.get(group, next(iter(stored.values()), 0.5)) for group in ("unseen", "seen")]
        thresholds = [groups[seen] for seen in self.seen_among(labels, language).tolist()]
        known: Sequence[Label] = labels if labels is not None else self.label_set or ()
        if self.label_set is not None and labels is not None:
            columns = self.stored_columns(labels, language).tolist()
            known = [
                self.label_set[column] if column >= 0 else label for label, column in zip(labels, columns, strict=True)
            ]
        for place, label in enumerate(known):
            if label.threshold is not None:
                thresholds[place] = label.threshold
        return torch.tensor(thresholds, dtype=torch.float32, device=self.device)

    def learned_of(self, labels: Sequence[Label], language: str | None = None) -> dict[str, Tensor]:
        """What the model has learned of single labels, for any labels: of stored ones their own, of others nothing.

        Args:
            labels: C `Label`s; stored ones are found as `stored_columns` does.
            language: The language of labels that name none.

        Returns:
            Arguments of `project_labels`: `label_rows` `(C, H + 1)`, where the model has such.
        """
        tables = self.gile.label_tables
        if not tables:
            return {}
        columns = self.stored_columns(labels, language)
        known = (columns >= 0)[:, None]
        return {name: table.weight[columns.clamp(min=0)] * known for name, table in tables.items()}

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        sampled_columns: Tensor | None = None,
        column_weights: Tensor | None = None,
        language: Languages = None,
        candidate_language: str | None = None,
        excluded_columns: Tensor | None = None,
        output_attentions: bool | None = None,
        pooled_embeds: Tensor | None = None,
        positive_weights: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        """Scores documents with the stored labels.

        If these are of several languages, a document is scored with those of its own language; the others get
        minus infinity, which is a probability of zero, and do not count in the loss.

        Label sampling is for training, like dropout: in evaluation mode `sampled_columns` is ignored and all labels
        are scored.

        Args:
            input_ids: `(B, W)` or `(B, S, W)` word ids.
            attention_mask: `(B, W)` or `(B, S, W)`, true or 1 where there is a word.
            inputs_embeds: `(B, W, D)` or `(B, S, W, D)` word vectors, instead of `input_ids`.
            labels: `(B, P)` integers, the gold columns of each document padded with -100; or `(B,)` integers, one
                gold column each; or `(B, L)` floats, zeros and ones (not with `config.label_chunk_size`).
            sampled_columns: `(C,)` or `(1, C)` ascending columns to train on in this step; all of them by default.
            column_weights: `(C,)`, `(1, C)` or `(B, C)` weights of these columns in the loss.
            language: The language of the documents, or of each; it can be left out if there is one.
            candidate_language: The language of the labels to score, where it is not that of the documents:
                cross-lingual prediction.
            excluded_columns: `(B, E)` columns that are no candidates for a document, padded with -100; they get minus
                infinity, as labels of other languages do.
            output_attentions: Whether to return the attention weights, as in `GileModelOutput`.
            pooled_embeds: `(B, P)` or `(B, S, P)`: what the pretrained encoder made of these documents before, as in
                `GileModel.embed_texts`.
            positive_weights: `(C,)` or `(1, C)` weights of these columns in the loss of the documents that have them.
            num_items_in_batch: Number of documents to divide the sum of the losses by, instead of B: those of all
                batches of a step. `Trainer` passes it.
            kwargs: `shift_labels` of a `GileDataCollator`, by which `Trainer` counts these documents.

        Returns:
            `loss` if there are labels, the mean over the documents of that of `config.training_loss`; of cross
            entropies, sigmoid (Eq. 15) for `problem_type="multi_label_classification"`, softmax for
            `"single_label_classification"`; where it is None, the first labels decide: `(B,)` the latter, else the
            former. `logits` `(B, L)`, or `(B, C)` for sampled columns; none in a training step of more labels than
            `config.label_chunk_size`, which never holds them.

        Raises:
            ValueError: No label set is stored, labels do not fit it, inputs are of a wrong shape, or
                `num_items_in_batch` counts gold labels.
            TypeError: There is no such argument.
        """
        by_document = kwargs.pop("shift_labels", None) is not None
        check_unknown(kwargs)
        check_tensors(
            labels=labels,
            sampled_columns=sampled_columns,
            column_weights=column_weights,
            excluded_columns=excluded_columns,
            positive_weights=positive_weights,
        )
        if not self.training:
            sampled_columns = column_weights = positive_weights = None
        elif sampled_columns is not None:
            sampled_columns = sampled_columns.flatten()
        if self.training and torch.is_grad_enabled():
            self._steps += 1
        text_embeds, attentions = self.gile.embed_texts(
            input_ids, attention_mask, inputs_embeds, language, pooled_embeds
        )
        text_codes = self.gile.project_texts(text_embeds=text_embeds, language=language)
        if labels is not None and self.training and self.column_miner is not None:
            before = sampled_columns
            sampled_columns, column_weights = self.column_miner(
                self, text_codes.detach(), labels, sampled_columns, column_weights
            )
            if positive_weights is not None and before is not None and sampled_columns is not None:
                # What is mined is gold of no document.
                given, positive_weights = positive_weights, positive_weights.new_ones(len(sampled_columns))
                positive_weights[torch.searchsorted(sampled_columns, before)] = given.flatten()
        logits = loss = None
        size = self.config.num_labels if sampled_columns is None else len(sampled_columns)
        in_chunks = size > self.config.label_chunk_size > 0 or self._label_group is not None
        if labels is not None and self.training and in_chunks:
            loss = self._chunked_loss(
                text_codes,
                labels,
                sampled_columns,
                column_weights,
                excluded_columns,
                language,
                candidate_language,
                positive_weights,
            )
        else:
            one_space = self.config.share_joint_space or self.config.output_layer == "linear"
            label_codes = cache(partial(self.stored_codes, sampled_columns))

            def score(language: str | None, text_codes: Tensor) -> tuple[Tensor]:
                codes = label_codes(None if one_space else language)
                scores = self.gile.output_layer.score(text_codes, codes, language)
                return (self.mask_other_languages(scores, candidate_language or language, sampled_columns),)

            logits = in_each_language(self.config, language, {"text_codes": text_codes}, score)[0]
            if excluded_columns is not None:
                logits = self.mask_excluded(logits, excluded_columns, sampled_columns)
            if labels is not None:
                masked = excluded_columns is not None or bool(self.config.language_labels)
                loss = self._loss(logits, labels, sampled_columns, column_weights, masked, positive_weights)
        if labels is None and self.training and (by_document or num_items_in_batch is not None):
            self._check_loss_of_trainer(sampled_columns)
        if loss is not None and labels is not None and num_items_in_batch is not None:
            loss = loss * _counted(labels, num_items_in_batch, by_document) / num_items_in_batch
        return SequenceClassifierOutput(loss=loss, logits=logits, attentions=attentions if output_attentions else None)

    def _check_loss_of_trainer(self, sampled_columns: Tensor | None) -> None:
        """Refuses a step in which `Trainer` counts labels, but keeps them from the model, and its loss would be wrong.

        With `label_smoothing_factor` it computes a softmax of its own over the logits. That is right for a model with
        one gold label among all, trained by cross entropy. Where `problem_type` says that a document has several, it
        warns and leaves the loss to the model.
        """
        only_here = {
            "problem_type, which is not set": self.config.problem_type is None,
            "sampled_columns": sampled_columns is not None,
            f"training_loss={self.config.training_loss!r}": self.config.training_loss != "cross_entropy",
            "label_chunk_size": self.config.num_labels > self.config.label_chunk_size > 0,
            "column_miner": self.column_miner is not None,
        }
        asked = [name for name, is_set in only_here.items() if is_set]
        if asked and self.config.problem_type != "multi_label_classification":
            raise ValueError(
                f"label_smoothing_factor keeps the labels from the model, but its loss depends on {asked[0]}: set "
                "label_smoothing_factor=0 in TrainingArguments. If compute_loss_func keeps them on purpose, set "
                "config.problem_type = 'multi_label_classification'"
            )

    def mask_other_languages(self, logits: Tensor, language: str | None, columns: Tensor | None = None) -> Tensor:
        """Gives the stored labels of other languages minus infinity, a probability of zero.

        Args:
            logits: `(B, L)` scores of all stored labels, or `(B, C)` of some.
            language: The language whose labels are candidates; it can be left out if there is one.
            columns: `(C,)` columns scored.

        Returns:
            The logits, as they are if the stored labels name no languages.
        """
        if not self.config.language_labels:
            return logits
        own = own_columns(self.config, check_language(self.config, language))
        if columns is None:
            columns = torch.arange(self.config.num_labels, device=logits.device)
        return logits.masked_fill((columns < own.start) | (columns >= own.stop), -torch.inf)

    def mask_excluded(self, logits: Tensor, excluded_columns: Tensor, columns: Tensor | None = None) -> Tensor:
        """Gives labels that are no candidates for a document minus infinity, a probability of zero.

        Args:
            logits: `(B, L)` scores of all stored labels, or `(B, C)` of some.
            excluded_columns: `(B, E)` columns, padded with -100.
            columns: `(C,)` columns scored.

        Returns:
            The masked logits, of the same shape.

        Raises:
            ValueError: An excluded column is out of range, or there is not one row for each document.
        """
        num_labels = self.config.num_labels
        check_excluded(excluded_columns, len(logits), num_labels)
        padded = excluded_columns.masked_fill(excluded_columns < 0, num_labels)
        mask = torch.zeros(len(logits), num_labels + 1, dtype=torch.bool, device=logits.device)
        mask = mask.scatter_(1, padded, True)[:, :num_labels]
        return logits.masked_fill(mask if columns is None else mask[:, columns], -torch.inf)

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
        return codes.clone() if any(codes is kept for _, kept, _ in self._kept_label_codes.values()) else codes

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
        self._require_stored_labels()
        if self.training or torch.is_grad_enabled() or columns is not None:
            return self._stored_label_codes(columns, language)

        def state(words: Tensor) -> tuple[Any, ...]:
            return self.gile.label_state(), self.gile.label_state(words), state_of(self.label_input_ids)

        kept = self._kept_label_codes.get(language)
        if kept is None or kept[0] != state(kept[2]):
            words = self.label_input_ids.unique()
            made_of = state(words)
            columns = torch.arange(self.config.num_labels, device=self.label_input_ids.device)
            codes = torch.cat([self._stored_label_codes(chunk, language) for chunk in columns.split(_LABELS_AT_ONCE)])
            kept = self._kept_label_codes[language] = (made_of, codes, words)
        return kept[1]

    def _require_stored_labels(self) -> None:
        if self.label_input_ids.shape[1] == 0:
            raise ValueError(
                "no label set is stored in this model, or resize_token_embeddings took words of its labels away: call "
                "model.set_labels(label_set, processor) first, or score other labels with model.gile(..., "
                "label_input_ids=...)"
            )
        if bool((self.label_input_ids[0] == self.config.pad_token_id).all()):  # a label has words, or was not loaded
            raise ValueError(
                "the stored labels have no words: this checkpoint was saved without them (by GileModel, for example); "
                "call model.set_labels(label_set, processor)"
            )

    def _stored_label_codes(self, columns: Tensor | None, language: str | None) -> Tensor:
        return self.project_labels(language=language, **self._label_rows(columns))

    def _label_rows(self, columns: Tensor | None) -> dict[str, Any]:
        """What belongs to single stored labels, `(C, ...)` each: arguments of `project_labels`."""
        config, training = self.config, self.training and torch.is_grad_enabled()
        tables = {name: table.weight for name, table in self.gile.label_tables.items()}
        rows = {name: weight if columns is None else weight[columns] for name, weight in tables.items()}
        if training and config.label_row_dropout > 0:
            own = rows["label_rows"]
            rows["label_rows"] = own * (torch.rand(len(own), 1, device=own.device) >= config.label_row_dropout)
        words, name, places = self.label_input_ids, "own", columns
        if training and self.label_paraphrases is not None:
            if len(self.label_paraphrases.own_rows) != config.num_labels:
                raise ValueError(
                    f"label_paraphrases are of {len(self.label_paraphrases.own_rows)} labels, and {config.num_labels} "
                    "are stored: make them of the stored label set"
                )
            every = torch.arange(config.num_labels, device=words.device) if columns is None else columns
            places = self.label_paraphrases.choose(every, self._steps)
            words, name = self.label_paraphrases.words.to(words.device), "paraphrases"
        if config.pools_labels and (config.has_fixed_pooling or (training and config.label_refresh_steps > 0)):
            vectors = self._pooled_labels(words, name)
            rows["label_vectors"] = vectors if places is None else vectors[places]
        rows["words"] = words if places is None else words[places]
        if config.language_labels and config.label_encoder_type == "text_encoder":
            languages = self._languages_of_labels()
            rows["label_language"] = languages if columns is None else languages[columns]
        return rows

    def _languages_of_labels(self) -> Tensor:
        """`(L,)` places in `config.languages`."""
        sizes = torch.tensor([self.config.language_labels.get(one, 0) for one in self.config.languages])
        return torch.arange(len(sizes)).repeat_interleave(sizes).to(self.label_input_ids.device)

    def _pooled_labels(self, words: Tensor, name: str) -> Tensor:
        """`(M, P)`: what the pretrained encoder makes of words of labels, kept until it is to read them again."""
        encoder = self.gile.text_encoder

        def state(distinct: Tensor) -> tuple[Any, ...]:
            if not self.config.has_fixed_pooling:
                return (self._steps - 1) // self.config.label_refresh_steps, state_of(words)
            weights = list(encoder.transformer.parameters())
            return self.gile.label_state(None, weights), self.gile.label_state(distinct, weights), state_of(words)

        kept = self._kept_label_vectors.get(name)
        # While training goes on, a frozen encoder is not read at each step, which can cost as much as the step.
        read = [words, *encoder.parameters()]
        versions = [torch.is_autocast_enabled(words.device.type), *((one.data_ptr(), one._version) for one in read)]
        if self.config.has_fixed_pooling and kept is not None and self._versions.get(name) == versions:
            return kept[1]
        if self.training:
            self._versions[name] = versions
        if kept is None or kept[0] != state(kept[2]):
            distinct = words.unique()
            made_of = state(distinct)
            languages = self._languages_of_labels() if self.config.language_labels and name == "own" else None
            mode = encoder.training
            encoder.eval()  # without dropout: these vectors serve many steps
            kept = self._kept_label_vectors[name] = (made_of, self.gile.pool_labels(words, languages), distinct)
            encoder.train(mode)
        return kept[1]

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

    def _label_chunks(self, columns: Tensor | None, language: str | None) -> LabelChunks:
        """The stored labels, to be encoded chunk by chunk for documents of a language."""
        checksum = 0
        if self._label_group is not None and columns is not None:
            checksum = int((columns * torch.arange(1, len(columns) + 1, device=columns.device)).sum())
        if self.config.output_layer == "linear":
            codes = self.stored_codes(columns)  # they are the weights, not made of anything
            return LabelChunks(lambda codes: codes, [codes], checksum=checksum)
        self._require_stored_labels()
        space = None if self.config.share_joint_space else language
        rows = self._label_rows(columns)

        def encode(*chunk: Tensor) -> Tensor:
            # Sparse: the gradient of the words of a chunk is not to be as large as the table of all words.
            return self.project_labels(**dict(zip(rows, chunk, strict=True)), language=space, sparse=True)

        parameters = self.gile.label_parameters(space, with_vectors="label_vectors" in rows)
        return LabelChunks(encode, list(rows.values()), parameters, checksum)

    def _chunked_loss(
        self,
        text_codes: Tensor,
        labels: Tensor,
        columns: Tensor | None,
        column_weights: Tensor | None,
        excluded_columns: Tensor | None,
        language: Languages,
        candidate_language: str | None,
        positive_weights: Tensor | None,
    ) -> Tensor:
        single = self._is_single_label(labels, len(text_codes))
        if labels.is_floating_point() or labels.dtype == torch.bool:
            raise ValueError(
                "with config.label_chunk_size, labels are gold columns (integers padded with -100), got zeros and ones "
                f"{tuple(labels.shape)}: a (documents, labels) matrix is what chunks are to avoid"
            )
        size = self.config.num_labels if columns is None else len(columns)
        if column_weights is not None and column_weights.shape[-1] != size:
            raise ValueError(
                f"column_weights must have one weight for each of the {size} columns scored, "
                f"got {tuple(column_weights.shape)}"
            )
        labels = labels.reshape(len(labels), -1)
        if single and bool(((labels != IGNORE).sum(-1) != 1).any()):
            raise ValueError(_ONE_GOLD_LABEL)
        if excluded_columns is not None:
            check_excluded(excluded_columns, len(labels), self.config.num_labels)
            foreign = (labels[:, :, None] == excluded_columns[:, None]) & (labels != IGNORE)[:, :, None]
            if bool(foreign.any()):
                row, place, _ = foreign.nonzero()[0].tolist()
                raise ValueError(self._no_candidate(row, int(labels[row, place])))
        if self.config.training_loss == "decoupled_softmax":
            name = "decoupled_softmax"
        else:
            name = "cross_entropy" if single else "binary_cross_entropy"

        def loss_of(
            language: str | None,
            text_codes: Tensor,
            labels: Tensor,
            excluded_columns: Tensor | None,
            column_weights: Tensor | None,
        ) -> tuple[Tensor]:
            own, weights = columns, column_weights if column_weights is not None else shared_weights
            positive = None if positive_weights is None else positive_weights.flatten()
            if self.config.language_labels:
                candidates = own_columns(self.config, check_language(self.config, candidate_language or language))
                foreign = (labels != IGNORE) & ((labels < candidates.start) | (labels >= candidates.stop))
                if bool(foreign.any()):
                    row, place = foreign.nonzero()[0].tolist()
                    raise ValueError(self._no_candidate(row, int(labels[row, place])))
                every = torch.arange(self.config.num_labels, device=labels.device) if columns is None else columns
                chosen = (every >= candidates.start) & (every < candidates.stop)
                own = every[chosen]
                weights, positive = (None if one is None else one[..., chosen] for one in (weights, positive))
            if excluded_columns is not None and own is not None:
                excluded_columns = places_among(own, excluded_columns)
            unit = None if self.config.output_layer == "linear" else self.gile.output_layer.classifier
            loss = chunked_loss(
                name,
                text_codes,
                gold_places(labels, self.config.num_labels, own),
                self._label_chunks(own, language),
                None if unit is None else of_language(unit, language).bias,
                self.config.label_chunk_size,
                weights,
                excluded_columns,
                self._label_group,
                positive,
            )
            return ((loss / len(text_codes)).expand(len(text_codes)),)

        if column_weights is not None and (column_weights.dim() == 1 or len(column_weights) == 1):
            shared_weights, column_weights = column_weights.flatten(), None
        else:
            shared_weights = None
        inputs = {
            "text_codes": text_codes,
            "labels": labels,
            "excluded_columns": excluded_columns,
            "column_weights": column_weights,
        }
        return in_each_language(self.config, language, inputs, loss_of)[0].mean()

    def _is_single_label(self, labels: Tensor, documents: int) -> bool:
        """Checks the shape of labels, and says whether the problem has one gold label a document."""
        integer = not labels.is_floating_point() and labels.dtype != torch.bool
        if self.config.problem_type is None:  # written down, so that pipelines answer as the model was trained
            single = integer and labels.dim() == 1
            self.config.problem_type = "single_label_classification" if single else "multi_label_classification"
        if len(labels) != documents or labels.dim() > 2 or (labels.dim() == 1 and not integer):
            raise ValueError(
                f"labels must have shape ({documents}, P) as gold columns padded with -100, ({documents},) as one "
                f"gold column each, or ({documents}, {self.config.num_labels}) as zeros and ones (floats), "
                f"got {tuple(labels.shape)} of {labels.dtype}"
            )
        return self.config.problem_type == "single_label_classification"

    def _no_candidate(self, row: int, column: int) -> str:
        return (
            f"labels of document {row} of the batch hold column {column} ({self.config.id2label[column]!r}), "
            "which is a label of another language than the document, or one of its excluded_columns"
        )

    def _loss(
        self,
        logits: Tensor,
        labels: Tensor,
        columns: Tensor | None,
        column_weights: Tensor | None,
        masked: bool,
        positive_weights: Tensor | None,
    ) -> Tensor:
        single = self._is_single_label(labels, len(logits))
        if not labels.is_floating_point() and labels.dtype != torch.bool:
            targets = multi_hot(labels.reshape(len(labels), -1), self.config.num_labels, columns)
        else:
            if labels.shape[1] != self.config.num_labels:
                raise ValueError(
                    f"labels of zeros and ones must have {self.config.num_labels} columns, one for each stored label, "
                    f"got {labels.shape[1]}; pass integers to give the gold columns alone"
                )
            targets = labels if columns is None else labels[:, columns]
        if single and bool((targets.sum(-1) != 1).any()):
            raise ValueError(_ONE_GOLD_LABEL)
        logits = widened(logits)
        if masked:
            foreign = (targets > 0) & logits.isneginf()
            if bool(foreign.any()):
                row, column = foreign.nonzero()[0].tolist()
                raise ValueError(self._no_candidate(row, column if columns is None else int(columns[column])))
            # The lowest number: a loss and a gradient of zero, where minus infinity would make NaN.
            logits = logits.masked_fill(logits.isneginf(), torch.finfo(logits.dtype).min)
        name = self.config.training_loss
        softmax = single and name == "cross_entropy"
        if positive_weights is not None:
            positive_weights = positive_weights.flatten()
            if softmax or name != "cross_entropy":
                check_positive_weights(positive_weights, "softmax" if softmax else name, logits.shape[1])
            return binary_cross_entropy(logits, targets, column_weights, positive_weights)
        return (cross_entropy if softmax else LOSSES[name])(logits, targets, column_weights)

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


def _counted(labels: Tensor, num_items: Tensor | int, by_document: bool) -> Tensor | int:
    """How many of the items of a step, as `Trainer` counts them, are these documents.

    Args:
        labels: Those of `forward`, of B documents.
        num_items: What `Trainer` has counted: documents, or the numbers in all labels that are not -100.
        by_document: Whether it has counted documents.
    """
    if by_document or labels.dim() == 1:
        return len(labels)
    if labels.is_floating_point() or labels.dtype == torch.bool:
        return labels.numel()
    if bool((labels != IGNORE).sum() != num_items):
        raise ValueError(
            "num_items_in_batch counts gold labels, and batches count by their documents: let a GileDataCollator make "
            "the batches, or add shift_labels, torch.zeros(len(labels)), to each; Trainer counts these instead"
        )
    return num_items  # there is no other batch


__all__ = ["GileForSequenceClassification"]
