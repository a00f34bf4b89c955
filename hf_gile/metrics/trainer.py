"""Metrics for `compute_metrics` of a Trainer: their base class, and metrics over a subset of the labels."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .batch import Array, read_batch, renumbered

if TYPE_CHECKING:
    from transformers import EvalPrediction


_DOCUMENTS_AT_ONCE = 64
"""Maximum number of documents B that are added together, which limits memory if a batch is a whole dataset."""


class TrainerMetric:
    """A metric for `compute_metrics` of `transformers.Trainer`, with or without `batch_eval_metrics=True`.

    Subclasses implement `reset`, `add` and `compute`.

    Attributes:
        num_labels: Number of labels L of every batch; 0 for any number.
    """

    num_labels: int = 0

    def reset(self) -> None:
        """Discards all batches."""
        raise NotImplementedError

    def update(self, scores: Array, labels: Array) -> None:
        """Adds a batch, or a whole dataset.

        Args:
            scores: `(N, L)` logits.
            labels: `(N, P)` label indices padded with -100, or `(N, L)` multi-hot.

        Raises:
            ValueError: If scores and labels do not match; nothing is added then.
        """
        scores, gold = read_batch(scores, labels, self.num_labels or None)
        for batch in zip(scores.split(_DOCUMENTS_AT_ONCE), gold.split(_DOCUMENTS_AT_ONCE), strict=True):
            self.add(*batch)

    def add(self, scores: Tensor, gold: Tensor) -> None:
        """Adds `(B, L)` scores and `(B, P)` gold label indices, padded with -100, which `update` has checked."""
        raise NotImplementedError

    def compute(self) -> dict[str, float]:
        """Computes the metrics."""
        raise NotImplementedError

    def __call__(self, eval_prediction: "EvalPrediction", compute_result: bool = True) -> dict[str, float]:
        """Adds predictions of a Trainer, and returns the metrics after the last batch.

        Args:
            eval_prediction: `(N, L)` logits as `predictions`, or a tuple that starts with them, and
                `label_ids`, `(N, P)` or `(N, L)`: a batch with `batch_eval_metrics=True`, otherwise the whole dataset.
            compute_result: Whether this is the last batch.

        Returns:
            The result of `compute` after the last batch, followed by a reset; an empty dictionary before.

        Raises:
            ValueError: If scores and labels do not match; this also resets the metric.
        """
        scores = eval_prediction.predictions
        labels = eval_prediction.label_ids
        try:
            if isinstance(labels, tuple):
                raise ValueError(
                    f"label_ids must be a single array of gold labels, got {len(labels)}; set "
                    "TrainingArguments(label_names=['labels'])"
                )
            self.update(scores[0] if isinstance(scores, tuple) else scores, labels)
            result = self.compute() if compute_result else {}
        except ValueError:
            self.reset()
            raise
        if compute_result:
            self.reset()
        return result


class OnColumns(TrainerMetric):
    """A metric over a subset of labels, computed from the scores of all labels.

    Args:
        metric: The metric, such as `LabelMetrics`.
        columns: Label indices of the subset, ascending. Other gold labels are ignored.

    Example:
        >>> from hf_gile.metrics import LabelMetrics
        >>> metric = OnColumns(LabelMetrics(2, top_k=(1,)), columns=[0, 2])
        >>> metric.update(torch.tensor([[0.1, 0.9, 0.3]]), torch.tensor([[2]]))
        >>> metric.compute()["precision_at_1"]
        1.0
    """

    def __init__(self, metric: TrainerMetric, columns: Sequence[int]) -> None:
        self.metric = metric
        self.columns = torch.as_tensor(columns)

    def reset(self) -> None:
        """Discards all batches."""
        self.metric.reset()

    def add(self, scores: Tensor, gold: Tensor) -> None:
        """Adds a batch with all labels."""
        columns = self.columns.to(scores.device)
        self.metric.add(scores[:, columns], renumbered(gold, columns, scores.shape[1]))

    def compute(self) -> dict[str, float]:
        """Computes the metric."""
        return self.metric.compute()
