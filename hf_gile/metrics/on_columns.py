"""Metrics over a subset of the labels."""

from collections.abc import Sequence

import torch
from torch import Tensor

from .trainer import TrainerMetric


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
        new = torch.full((scores.shape[1] + 1,), -100, device=scores.device)
        new[columns] = torch.arange(len(columns), device=scores.device)
        self.metric.add(scores[:, columns], new[gold.masked_fill(gold < 0, scores.shape[1])])

    def compute(self) -> dict[str, float]:
        """Computes the metric."""
        return self.metric.compute()
