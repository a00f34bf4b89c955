"""Metrics as the `compute_metrics` of a Trainer."""

from typing import TYPE_CHECKING

from .batch import Array

if TYPE_CHECKING:
    from transformers import EvalPrediction


class TrainerMetric:
    """What serves `transformers.Trainer` as `compute_metrics`, whole or with `batch_eval_metrics=True`.

    A subclass has `reset`, `update` and `compute`.
    """

    def reset(self) -> None:
        """Forgets every batch."""
        raise NotImplementedError

    def update(self, scores: Array, labels: Array) -> None:
        """Adds a batch."""
        raise NotImplementedError

    def compute(self) -> dict[str, float]:
        """Returns the figures so far."""
        raise NotImplementedError

    def __call__(self, eval_prediction: "EvalPrediction", compute_result: bool = True) -> dict[str, float]:
        """Adds what a Trainer has predicted, and ends the evaluation if asked to.

        Args:
            eval_prediction: `(N, L)` logits as `predictions`, or a tuple that starts with them, and
                `label_ids`, `(N, P)` or `(N, L)`: a batch with `batch_eval_metrics=True`, otherwise
                the whole data set.
            compute_result: Whether this is the last batch.

        Returns:
            What `compute` returns after the last batch, and the batches are forgotten; nothing before.

        Raises:
            ValueError: If scores and labels do not fit together; the evaluation is forgotten then.
        """
        scores, labels = eval_prediction.predictions, eval_prediction.label_ids
        try:
            if isinstance(labels, tuple):
                raise ValueError(
                    f"label_ids must be one array of gold labels, got {len(labels)}; set "
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
