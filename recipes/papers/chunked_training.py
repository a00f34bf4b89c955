"""Trains on all labels in chunks, or on labels that processes share: `ChunkedLoss`, a `GileLoss`.

Shapes: B documents, C columns scored in a step, P gold labels per document (padded), J joint size.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, distributed, nn
from transformers import PreTrainedConfig

from hf_gile.metrics.batch import renumbered
from hf_gile.models import GileForSequenceClassification, GileModel
from hf_gile.models.languages_gile import get_language_columns, label_space, run_by_language, select_module
from hf_gile.models.losses_gile import (
    IGNORE,
    ONE_GOLD_LABEL,
    check_excluded,
    format_not_a_candidate,
    is_columns,
)
from hf_gile.models.mixture_gile import Rows
from hf_gile.training import GileLoss
from hf_gile.training.losses import LossStep, gold_positions, project_vectors
from papers.chunked_losses import LabelChunks, chunked_loss


class ChunkedLoss(GileLoss):
    """Training loss over chunks of labels, as the `loss_function` of a model.

        model.loss_function = ChunkedLoss(chunk_size=2048)

    Args:
        loss: As in `GileLoss`; a function needs all scores at once.
        chunk_size: Number of labels per chunk. The loss over more labels, all or a sample, is computed exactly in
            chunks, without storing `(B, C)` scores. 0 for no chunks.
        share_labels: Whether processes divide the labels: each scores the documents of all processes against its part.
            The results equal scoring all labels in each process, if gradients are averaged over processes as in DDP and
            FSDP. All processes must train on the same labels without weights, in a monolingual model.

    Raises:
        ValueError: If an option is incompatible with another, or `share_labels` is set without a process group.

    Example:
        >>> from hf_gile import GileConfig
        >>> config = GileConfig(vocab_size=9, num_labels=5, output_layer="linear")
        >>> model = GileForSequenceClassification(config).train()
        >>> model.loss_function = ChunkedLoss(chunk_size=2)
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
        super().__init__(loss)
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
        self.chunk_size = chunk_size
        self.share_labels = share_labels

    def check_fits(self, config: PreTrainedConfig) -> None:
        """Checks that the options fit the configuration of a model.

        Raises:
            ValueError: If an option does not fit; the message names it.
        """
        if self.share_labels and config.languages:
            raise ValueError(f"share_labels needs a model without languages, got languages={config.languages}")

    def of_step(self, step: LossStep) -> Tensor:
        """Returns the loss of a training step, computed in chunks if there are more labels than in one."""
        config = step.model.config
        self.check_fits(config)
        if not self.share_labels and not step.size > self.chunk_size > 0:
            return super().of_step(step)
        name = "cross_entropy" if step.is_single else "binary_cross_entropy"

        def compute_loss(
            language: str | None,
            text_codes: Tensor,
            labels: Tensor,
            excluded_columns: Tensor | None,
            weights: Tensor | None,
        ) -> tuple[Tensor]:
            columns = step.columns
            if config.language_labels:
                columns, weights = _select_candidates(step, language, labels, weights)
            if excluded_columns is not None and columns is not None:
                excluded_columns = renumbered(excluded_columns, columns, config.num_labels)
            bias = None
            if config.output_layer != "linear":
                bias = select_module(step.model.gile.output_layer.classifier, language).bias
            loss = chunked_loss(
                name,
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
            "labels": _gold_columns(step),
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


def _gold_columns(step: LossStep) -> Tensor:
    """Checks labels for a chunked loss; returns `(B, P)` gold label indices."""
    config = step.model.config
    if not is_columns(step.labels):
        raise ValueError(
            "with chunk_size, labels must be label indices (integers padded with -100), got zeros and ones "
            f"{tuple(step.labels.shape)}: chunks are meant to avoid a (documents, labels) matrix"
        )
    if step.column_weights is not None and step.column_weights.shape[-1] != step.size:
        raise ValueError(
            f"column_weights must have a weight for each of the {step.size} labels scored, got "
            f"{step.column_weights.shape[-1]}"
        )
    labels = step.labels.reshape(len(step.labels), -1)
    if config.problem_type == "single_label_classification" and bool(((labels != IGNORE).sum(-1) != 1).any()):
        raise ValueError(ONE_GOLD_LABEL)
    if step.excluded_columns is not None:
        check_excluded(step.excluded_columns, len(labels), config.num_labels)
        _check_candidates(config, labels, (labels[:, :, None] != step.excluded_columns[:, None]).all(-1))
    return labels


def _select_candidates(
    step: LossStep, language: str | None, labels: Tensor, weights: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Returns the labels of a language, and their weights."""
    config = step.model.config
    candidates = get_language_columns(config, language)
    _check_candidates(config, labels, (labels >= candidates.start) & (labels < candidates.stop))
    columns = torch.arange(config.num_labels, device=labels.device) if step.columns is None else step.columns
    chosen = (columns >= candidates.start) & (columns < candidates.stop)
    return columns[chosen], None if weights is None else weights[..., chosen]


def _check_candidates(config: PreTrainedConfig, labels: Tensor, are_candidates: Tensor) -> None:
    foreign = (labels != IGNORE) & ~are_candidates
    if bool(foreign.any()):
        row, position = foreign.nonzero()[0].tolist()
        raise ValueError(format_not_a_candidate(row, int(labels[row, position]), config))
