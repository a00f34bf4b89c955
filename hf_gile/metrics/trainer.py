"""Base class of metrics for `compute_metrics` of a Trainer."""

from typing import TYPE_CHECKING

from .batch import Array

if TYPE_CHECKING:
    from transformers import EvalPrediction


class TrainerMetric:
    """A metric for `compute_metrics` of `transformers.Trainer`, with or without `batch_eval_metrics=True`.

    Subclasses implement `reset`, `update` and `compute`.
    """

    def reset(self) -> None:
        """Discards all batches."""
        raise NotImplementedError

    def update(self, scores: Array, labels: Array) -> None:
        """Adds a batch."""
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
