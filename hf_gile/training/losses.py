"""Computes the training loss over all stored labels or a sample: at once, in chunks, or shared by processes.

The losses are sigmoid (Eq. 15, 17) and softmax, over weighted labels.

Shapes: B documents, L stored labels, C columns scored in a step, P gold labels per document (padded), J joint size.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, distributed, nn
from transformers import PreTrainedConfig

from ..metrics.batch import renumbered
from ..models.label_embeds_gile import pool_stored_labels
from ..models.languages_gile import (
    Languages,
    check_tensors,
    get_language_columns,
    label_space,
    run_by_language,
    select_module,
)
from ..models.losses_gile import (
    IGNORE,
    ONE_GOLD_LABEL,
    binary_cross_entropy,
    check_candidates,
    check_excluded,
    check_gold,
    format_not_a_candidate,
    is_columns,
    is_single_label,
    make_targets,
    multi_hot,
    scale_to_step,
    widened,
    without_infinities,
)
from ..models.mixture_gile import Rows
from ..models.modeling_gile import GileForSequenceClassification, GileModel
from .chunked_losses import LabelChunks, chunked_loss


def cross_entropy(logits: Tensor, targets: Tensor, column_weights: Tensor | None = None) -> Tensor:
    """Computes the single-label loss of `losses_gile.py` over weighted labels, in float32 or better.

    Arguments are those of `binary_cross_entropy` there, with a single 1 per row of the targets. With weights, the sum
    in the denominator of the softmax is estimated without bias; its logarithm, and so this loss, is only consistent
    (it approaches the full loss as the sample grows). A gold label of weight 0 counts once.
    """
    logits = widened(logits)
    targets = targets.to(logits.dtype)
    total = logits if column_weights is None else logits + column_weights.to(logits.dtype).log()
    total = torch.where((targets > 0) & total.isneginf(), logits, total)  # an empty sum has a gradient of NaN
    return (total.logsumexp(-1) - (logits * targets).sum(-1)).mean()


def gold_positions(labels: Tensor, num_labels: int, columns: Tensor | None = None) -> Tensor:
    """Checks `(B, P)` gold labels, and returns their positions among `(C,)` ascending scored labels, by default all.

    Raises:
        ValueError: If a gold label is out of range, repeated, or not scored.

    Example:
        >>> gold_positions(torch.tensor([[7, -100], [3, 7]]), num_labels=9, columns=torch.tensor([3, 5, 7]))
        tensor([[   2, -100],
                [   0,    2]])
    """
    check_gold(labels, num_labels)
    if columns is None:
        return labels
    positions = renumbered(labels, columns, num_labels)
    missing = (labels != IGNORE) & (positions == IGNORE)
    if bool(missing.any()):
        raise ValueError(
            f"labels contains index {labels[missing][0].item()}, which sampled_columns lacks: a sample must contain "
            "all gold labels (use hf_gile.training.LabelSampler); with an IterableDataset set "
            "TrainingArguments(accelerator_config={'dispatch_batches': False}), which would truncate the sample"
        )
    return positions


LOSSES = {"binary_cross_entropy": binary_cross_entropy, "cross_entropy": cross_entropy}


class GileLoss:
    """Training loss for sampled labels or chunks of labels, as the `loss_function` of a model.

        model.loss_function = GileLoss(chunk_size=2048)

    In training, the model passes text codes, and the loss scores the labels it needs (`of_codes`), so the step returns
    no logits. In evaluation, it is computed from the logits of all labels, like the default loss. It is not saved with
    the model.

    The labels of a step are the `sampled_columns` of the batch with `column_weights`, from a `GileDataCollator` with a
    `LabelSampler`, or else all stored labels.

    Args:
        loss: A function of `(B, C)` logits, `(B, C)` zeros and ones, and `(C,)` or `(B, C)` weights of columns or None;
            by default cross-entropy, with sigmoids (Eq. 15) or a softmax by the `problem_type` of the model.
        chunk_size: Number of labels per chunk. The loss over more labels is computed exactly in chunks, without storing
            `(B, C)` scores. 0 for no chunks; a function needs all scores at once.
        share_labels: Whether processes divide the labels: each scores the documents of all processes against its part.
            The results equal scoring all labels in each process, if gradients are averaged over processes as in DDP and
            FSDP. All processes must train on the same labels without weights, in a monolingual model.

    Raises:
        ValueError: If an option is invalid or incompatible with another; or `share_labels` is set without a process
            group.

    Example:
        >>> from hf_gile import GileConfig, GileForSequenceClassification
        >>> config = GileConfig(vocab_size=9, num_labels=5, output_layer="linear")
        >>> model = GileForSequenceClassification(config).train()
        >>> model.loss_function = GileLoss(chunk_size=2)
        >>> output = model(input_ids=torch.tensor([[3, 4]]), labels=torch.tensor([[1, 3]]))
        >>> output.loss.shape, output.logits
        (torch.Size([]), None)
    """

    def __init__(
        self,
        loss: Callable[..., Tensor] | None = None,
        *,
        chunk_size: int = 0,
        share_labels: bool = False,
    ) -> None:
        if loss is not None and chunk_size > 0:
            raise ValueError(
                f"the loss {getattr(loss, '__name__', loss)} needs the scores of all labels at once and cannot be "
                "computed in chunks; set chunk_size=0, or leave the loss out"
            )
        if share_labels and chunk_size == 0:
            raise ValueError("share_labels divides chunks of labels: set chunk_size above 0")
        if share_labels and not (distributed.is_available() and distributed.is_initialized()):
            raise ValueError(
                "share_labels needs a process group: create the loss within accelerate launch or torchrun, after the "
                "Accelerator, TrainingArguments or init_process_group"
            )
        self.loss = loss
        self.chunk_size = chunk_size
        self.share_labels = share_labels

    def check_fits(self, config: PreTrainedConfig) -> None:
        """Checks that the options fit the configuration of a model.

        Raises:
            ValueError: If an option does not fit; the message names it.
        """
        if self.share_labels and config.languages:
            raise ValueError(f"share_labels needs a model without languages, got languages={config.languages}")

    def __call__(
        self,
        logits: Tensor,
        labels: Tensor,
        config: PreTrainedConfig,
        sampled_columns: Tensor | None = None,
        column_weights: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        shift_labels: Tensor | None = None,
    ) -> Tensor:
        """Computes the loss from logits of all labels in evaluation, ignoring samples and weights.

        Arguments, result and errors are those of `hf_gile.models.losses_gile.label_loss`.
        """
        loss = self.loss or LOSSES[_loss_name(is_single_label(labels, len(logits), config))]
        targets = make_targets(labels, config.num_labels)
        check_candidates(labels, logits, config)
        return scale_to_step(loss(logits, targets, None), labels, num_items_in_batch, shift_labels)

    def of_codes(
        self,
        model: GileForSequenceClassification,
        text_codes: Tensor,
        labels: Tensor,
        language: Languages = None,
        excluded_columns: Tensor | None = None,
        sampled_columns: Tensor | None = None,
        column_weights: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        shift_labels: Tensor | None = None,
    ) -> Tensor:
        """Computes the loss of a training step.

        Args:
            model: The `GileForSequenceClassification`.
            text_codes: `(B, J)` codes of the documents.
            labels: As in `forward` of the model; zeros and ones are not supported with chunks.
            language: As in `forward` of the model.
            excluded_columns: As in `forward` of the model.
            sampled_columns: `(C,)` or `(1, C)` ascending label indices to train on, including all gold labels; by
                default all.
            column_weights: `(C,)`, `(1, C)` or `(B, C)` weights of these labels.
            num_items_in_batch: Number of documents in all batches of a step, for callers that accumulate gradients over
                many calls; the sum of losses is divided by it instead of B. `Trainer` passes it.
            shift_labels: `(B,)` from a `GileDataCollator`, by which `Trainer` counts documents.

        Returns:
            The loss, averaged over the documents: a scalar in float32 or better.

        Raises:
            ValueError: If labels, sampled labels or options do not fit the model.
        """
        config = model.config
        self.check_fits(config)
        check_tensors(sampled_columns=sampled_columns, column_weights=column_weights)
        name = _loss_name(is_single_label(labels, len(text_codes), config))
        columns = None if sampled_columns is None else sampled_columns.flatten()
        columns, column_weights = self.choose_columns(model, text_codes, labels, columns, column_weights)
        if column_weights is not None:
            column_weights = column_weights.expand(len(text_codes), -1)
        step = _Step(model, name, text_codes, labels, language, excluded_columns, columns, column_weights)
        in_chunks = self.share_labels or step.size > self.chunk_size > 0
        loss = self._in_chunks(step) if in_chunks else self._at_once(step)
        return scale_to_step(loss, labels, num_items_in_batch, shift_labels)

    def choose_columns(
        self,
        model: GileForSequenceClassification,
        text_codes: Tensor,
        labels: Tensor,
        columns: Tensor | None,
        column_weights: Tensor | None,
    ) -> tuple[Tensor | None, Tensor | None]:
        """Returns the `(C,)` labels of a training step and their weights; subclasses add labels to the sample.

        Arguments are those of `of_codes`.
        """
        return columns, column_weights

    def _at_once(self, step: "_Step") -> Tensor:
        model = step.model
        config = model.config
        columns = step.columns

        @cache
        def label_codes(language: str | None) -> Tensor:
            if config.output_layer == "linear":
                return model.project_stored_labels(columns, language)
            return project_vectors(model.gile, self.label_inputs(model, columns), language)

        def score(language: str | None, text_codes: Tensor, excluded_columns: Tensor | None) -> tuple[Tensor]:
            scores = model.gile.score(text_codes, label_codes(label_space(config, language)), language)
            return (model.stored_labels.masked(scores, language, excluded_columns, columns),)

        inputs = {"text_codes": step.text_codes, "excluded_columns": step.excluded_columns}
        logits = run_by_language(config, step.language, inputs, score)[0]
        if step.excluded_columns is not None or config.language_labels:
            logits = without_infinities(logits)
        if is_columns(step.labels):
            labels = gold_positions(step.labels.reshape(len(step.labels), -1), config.num_labels, columns)
            targets = multi_hot(labels, step.size)
        else:
            targets = make_targets(step.labels, config.num_labels)
            labels = targets = targets if columns is None else targets[:, columns]
        check_candidates(labels, logits, config, columns)
        loss = self.loss or LOSSES[step.name]
        return loss(logits, targets, step.column_weights)

    def _in_chunks(self, step: "_Step") -> Tensor:
        config = step.model.config

        def compute_loss(
            language: str | None,
            text_codes: Tensor,
            labels: Tensor,
            excluded_columns: Tensor | None,
            weights: Tensor | None,
        ) -> tuple[Tensor]:
            columns = step.columns
            if config.language_labels:
                columns, weights = step.select_candidates(language, labels, weights)
            if excluded_columns is not None and columns is not None:
                excluded_columns = renumbered(excluded_columns, columns, config.num_labels)
            bias = None
            if config.output_layer != "linear":
                bias = select_module(step.model.gile.output_layer.classifier, language).bias
            loss = chunked_loss(
                step.name,
                text_codes,
                gold_positions(labels, config.num_labels, columns),
                self._label_chunks(step.model, columns, language),
                bias,
                self.chunk_size,
                weights,
                excluded_columns,
                distributed.group.WORLD if self.share_labels else None,
            )
            return ((loss / len(text_codes)).expand(len(text_codes)),)

        inputs = {
            "text_codes": step.text_codes,
            "labels": step.gold_columns(),
            "excluded_columns": step.excluded_columns,
            "weights": step.column_weights,
        }
        return run_by_language(config, step.language, inputs, compute_loss)[0].mean()

    def _label_chunks(
        self, model: GileForSequenceClassification, columns: Tensor | None, language: str | None
    ) -> LabelChunks:
        """Returns the stored labels in chunks, for documents of a language."""
        checksum = 0
        if self.share_labels and columns is not None:
            checksum = int((columns * torch.arange(1, len(columns) + 1, device=columns.device)).sum())
        if model.config.output_layer == "linear":
            codes = model.project_stored_labels(columns)  # codes are weights
            return LabelChunks(lambda codes: codes, [codes], checksum=checksum)
        space = label_space(model.config, language)
        inputs = self.label_inputs(model, columns)
        rows = inputs.pop("label_rows", None)
        tensors = [] if rows is None else [rows.weight, rows.bias, rows.rarity]
        tables = _trained_token_tables(model.gile)

        def encode(*chunk: Tensor) -> Tensor:
            arguments: dict[str, Any] = dict(zip(inputs, chunk, strict=False))
            if rows is not None:
                arguments["label_rows"] = Rows(*chunk[len(inputs) :])
            with _sparse_gradients(tables):
                return project_vectors(model.gile, arguments, space)

        parameters = _label_parameters(model.gile, space, with_vectors="label_vectors" in inputs)
        return LabelChunks(encode, [*inputs.values(), *tensors], parameters, checksum)

    def label_inputs(self, model: GileForSequenceClassification, columns: Tensor | None) -> dict[str, Any]:
        """Returns the inputs of stored labels, all or those of `(C,)` indices: arguments of `project_vectors`."""
        inputs = model.stored_inputs(columns)
        pools = model.config.pools_labels and model.config.text_config.has_fixed_pooling
        if pools and torch.is_grad_enabled():
            vectors = stored_vectors(model)
            inputs["label_vectors"] = vectors if columns is None else vectors[columns]
        return inputs


def _loss_name(single: bool) -> str:
    return "cross_entropy" if single else "binary_cross_entropy"


def _label_parameters(gile: GileModel, language: str | None, with_vectors: bool) -> list[nn.Parameter]:
    """Returns the weights that affect label codes for documents of a language, from words or precomputed vectors."""
    left_out: list[nn.Module] = [gile.text_encoder.transformer] if with_vectors else []
    for part in gile.output_layer.modules():
        if language is not None and isinstance(part, nn.ModuleDict):
            left_out += [module for name, module in part.items() if name != language]
    ids = {id(parameter) for module in left_out for parameter in module.parameters()}
    return [parameter for parameter in gile.label_parameters() if id(parameter) not in ids]


def _trained_token_tables(gile: GileModel) -> list[nn.Embedding]:
    """Returns the trained embedding tables, excluding those with adapters, which do not support sparse gradients."""
    tables = [module for module in gile.modules() if isinstance(module, nn.Embedding) and module.weight.requires_grad]
    size = gile.config.text_config.vocab_size
    return [table for table in tables if table.num_embeddings == size and not table.sparse]


@contextmanager
def _sparse_gradients(tables: Sequence[nn.Embedding]) -> Iterator[None]:
    """Uses sparse gradients of tables, so that the gradient of a chunk is not as large as the table."""
    for table in tables:
        table.sparse = True
    try:
        yield
    finally:
        for table in tables:
            table.sparse = False


@dataclass(frozen=True)
class _Step:
    """Inputs of the loss of a training step; `name` is that of the loss, unless it is a function."""

    model: GileForSequenceClassification
    name: str
    text_codes: Tensor
    labels: Tensor
    language: Languages
    excluded_columns: Tensor | None
    columns: Tensor | None
    column_weights: Tensor | None

    @property
    def size(self) -> int:
        """Number of labels."""
        return self.model.config.num_labels if self.columns is None else len(self.columns)

    def gold_columns(self) -> Tensor:
        """Checks labels for a chunked loss; returns `(B, P)` gold label indices."""
        config = self.model.config
        if not is_columns(self.labels):
            raise ValueError(
                "with chunk_size, labels must be label indices (integers padded with -100), got zeros and ones "
                f"{tuple(self.labels.shape)}: chunks are meant to avoid a (documents, labels) matrix"
            )
        if self.column_weights is not None and self.column_weights.shape[-1] != self.size:
            raise ValueError(
                f"column_weights must have a weight for each of the {self.size} labels scored, got "
                f"{self.column_weights.shape[-1]}"
            )
        labels = self.labels.reshape(len(self.labels), -1)
        if config.problem_type == "single_label_classification" and bool(((labels != IGNORE).sum(-1) != 1).any()):
            raise ValueError(ONE_GOLD_LABEL)
        if self.excluded_columns is not None:
            check_excluded(self.excluded_columns, len(labels), config.num_labels)
            self._check_candidates(labels, (labels[:, :, None] != self.excluded_columns[:, None]).all(-1))
        return labels

    def select_candidates(
        self, language: str | None, labels: Tensor, weights: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the labels of a language, and their weights."""
        config = self.model.config
        candidates = get_language_columns(config, language)
        self._check_candidates(labels, (labels >= candidates.start) & (labels < candidates.stop))
        columns = torch.arange(config.num_labels, device=labels.device) if self.columns is None else self.columns
        chosen = (columns >= candidates.start) & (columns < candidates.stop)
        return columns[chosen], None if weights is None else weights[..., chosen]

    def _check_candidates(self, labels: Tensor, are_candidates: Tensor) -> None:
        foreign = (labels != IGNORE) & ~are_candidates
        if bool(foreign.any()):
            row, position = foreign.nonzero()[0].tolist()
            raise ValueError(format_not_a_candidate(row, int(labels[row, position]), self.model.config))


def stored_vectors(model: GileForSequenceClassification) -> Tensor:
    """Returns `(L, P)` vectors as `pool_stored_labels`, cached while the frozen encoder is unchanged."""
    words = model.label_input_ids
    encoder = model.gile.text_encoder

    def versions(vectors: Tensor) -> list[Any]:
        tensors = (words, vectors, *encoder.transformer.parameters())
        return [(tensor.data_ptr(), tensor._version) for tensor in tensors]

    # In training, the weights of a frozen encoder are not compared at each step, which can cost as much as the step.
    if model.training and encoder.trusted_vectors is not None:
        vectors, cached_words, cached_versions = encoder.trusted_vectors
        if cached_words is words and cached_versions == versions(vectors):
            return vectors
    vectors = pool_stored_labels(model)
    encoder.trusted_vectors = (vectors, words, versions(vectors)) if model.training else None
    return vectors


def project_vectors(gile: GileModel, inputs: dict[str, Any], language: str | None = None) -> Tensor:
    """Computes `(C, J)` label codes, from their encodings if available.

    Args:
        gile: The model.
        inputs: Arguments of `GileModel.project_labels`, and optionally `label_vectors`, `(C, P)` of `stored_vectors`.
        language: Language of the documents to score.
    """
    if "label_vectors" not in inputs:
        return gile.project_labels(**inputs, language=language)
    inputs = dict(inputs)
    words = inputs.pop("label_input_ids")
    vectors = inputs.pop("label_vectors").to(gile.dtype)
    mask = words != gile.config.text_config.pad_token_id
    rows: dict[str, Tensor | None] = {"input_ids": words, "mask": mask, "pooled": vectors}
    label_embeds = run_by_language(gile.config, inputs.pop("label_language", language), rows, gile.read_labels)[0]
    return gile.project_labels(label_embeds=label_embeds, language=language, **inputs)
