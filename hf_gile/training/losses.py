"""Computes the training loss over all stored labels, or over a sample.

The losses are sigmoid (Eq. 15, 17) and softmax, over weighted labels.

Shapes: B documents, L stored labels, C columns scored in a step, P gold labels per document (padded), J joint size.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig

from ..metrics.batch import renumbered
from ..models.label_embeds_gile import pool_stored_labels
from ..models.languages_gile import Languages, check_tensors, label_space, run_by_language
from ..models.losses_gile import (
    IGNORE,
    binary_cross_entropy,
    check_candidates,
    check_gold,
    is_columns,
    is_single_label,
    make_targets,
    multi_hot,
    scale_to_step,
    widened,
    without_infinities,
)
from ..models.modeling_gile import GileForSequenceClassification, GileModel


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


@dataclass(frozen=True)
class LossStep:
    """Inputs of the loss of a training step, as in `GileLoss.of_codes`.

    Args:
        model: The model.
        is_single: Whether each document has one label.
        text_codes: `(B, J)` codes of the documents.
        labels: Gold labels.
        language: Language of the documents.
        excluded_columns: Labels that are not candidates.
        columns: `(C,)` ascending indices of the labels to score; None for all.
        column_weights: `(B, C)` weights of these labels, or None.
    """

    model: GileForSequenceClassification
    is_single: bool
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


class GileLoss:
    """Training loss over all or sampled labels, as the `loss_function` of a model.

        model.loss_function = GileLoss()

    In training, the model passes text codes, and the loss scores the labels it needs (`of_codes`), so the step returns
    no logits. In evaluation, it is computed from the logits of all labels, like the default loss. It is not saved with
    the model.

    The labels of a step are the `sampled_columns` of the batch with `column_weights`, from a `GileDataCollator` with a
    `LabelSampler`, or else all stored labels. `papers.chunked_training.ChunkedLoss` (`recipes`) is exact over any
    number of labels without holding their scores.

    Args:
        loss: A function of `(B, C)` logits, `(B, C)` zeros and ones, and `(C,)` or `(B, C)` weights of columns or None;
            by default cross-entropy, with sigmoids (Eq. 15) or a softmax by the `problem_type` of the model.

    Example:
        >>> from hf_gile import GileConfig, GileForSequenceClassification
        >>> config = GileConfig(vocab_size=9, num_labels=5, output_layer="linear")
        >>> model = GileForSequenceClassification(config).train()
        >>> model.loss_function = GileLoss()
        >>> output = model(input_ids=torch.tensor([[3, 4]]), labels=torch.tensor([[1, 3]]))
        >>> output.loss.shape, output.logits
        (torch.Size([]), None)
    """

    def __init__(self, loss: Callable[..., Tensor] | None = None) -> None:
        self.loss = loss

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
        loss = self._function(is_single_label(labels, len(logits), config))
        targets = make_targets(labels, config.num_labels)
        check_candidates(labels, logits, config)
        return scale_to_step(loss(logits, targets, None), labels, num_items_in_batch, shift_labels)

    def _function(self, is_single: bool) -> Callable[..., Tensor]:
        if self.loss is not None:
            return self.loss
        return cross_entropy if is_single else binary_cross_entropy

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
            labels: As in `forward` of the model.
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
            ValueError: If labels or sampled labels do not fit the model.
        """
        check_tensors(sampled_columns=sampled_columns, column_weights=column_weights)
        is_single = is_single_label(labels, len(text_codes), model.config)
        columns = None if sampled_columns is None else sampled_columns.flatten()
        if column_weights is not None:
            column_weights = column_weights.expand(len(text_codes), -1)
        step = LossStep(model, is_single, text_codes, labels, language, excluded_columns, columns, column_weights)
        return scale_to_step(self.of_step(step), labels, num_items_in_batch, shift_labels)

    def of_step(self, step: LossStep) -> Tensor:
        """Returns the loss of a training step, averaged over its documents."""
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
        return self._function(step.is_single)(logits, targets, step.column_weights)

    def label_inputs(self, model: GileForSequenceClassification, columns: Tensor | None) -> dict[str, Any]:
        """Returns the inputs of stored labels, all or those of `(C,)` indices: arguments of `project_vectors`."""
        inputs = model.stored_inputs(columns)
        pools = model.config.pools_labels and model.config.text_config.has_fixed_pooling
        if pools and torch.is_grad_enabled():
            vectors = stored_vectors(model)
            inputs["label_vectors"] = vectors if columns is None else vectors[columns]
        return inputs


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
