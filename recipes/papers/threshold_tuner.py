"""`ThresholdTuner`: the threshold with the best micro-F1 as a metric of `transformers.Trainer`."""

from collections.abc import Sequence

import torch
from torch import Tensor

from hf_gile.metrics.batch import Array, read_columns, require_documents
from hf_gile.metrics.trainer import TrainerMetric
from hf_gile.training.calibration.score_counts import ScoreCounts
from hf_gile.training.calibration.thresholds import rounded, tells_enough


class ThresholdTuner(TrainerMetric):
    """Finds the threshold with the best micro-F1 in a stream of batches, in bounded memory.

    This is the search of `calibrate`, on the same counts: logits are rounded to float16, and the threshold is halfway
    between the lowest accepted and the highest refused one, so that other documents may have slightly lower scores. The
    result depends neither on the division into batches nor on the order of documents.

    Labels that are not candidates (logits of -inf or the minimum of the dtype) are never predicted. If they are gold
    anyway, they count as false negatives, as in `LabelMetrics`.

    With a mask of seen labels, the threshold is tuned for seen labels only, because unseen labels are usually not gold
    in validation documents and would only count as false positives. If the documents have enough unseen gold labels
    (`tells_enough`), the unseen labels get a separate threshold.

    Use it in `compute_metrics` of `transformers.Trainer` with `batch_eval_metrics=True`, alone or with `LabelMetrics`:

        metrics, tuner = LabelMetrics(num_labels), ThresholdTuner(num_labels)

        def compute_metrics(batch, compute_result=True):
            return {**metrics(batch, compute_result), **tuner(batch, compute_result)}

    Args:
        num_labels: Number of labels L of every batch.
        seen: `(L,)` bool, True for labels seen in training; by default all labels are tuned together.

    Raises:
        ValueError: If `seen` is not a mask of the labels or selects none.

    Example:
        >>> tuner = ThresholdTuner(num_labels=3)
        >>> tuner.update(torch.tensor([[1.0, -1.0, 0.0]]), torch.tensor([[0, 2]]))
        >>> tuner.update(torch.tensor([[-3.0, -1.0, 0.5]]), torch.tensor([[1, -100]]))
        >>> tuner.compute()
        {'threshold': 0.119229, 'tuned_micro_f1': 0.75}
    """

    def __init__(self, num_labels: int, seen: Array | Sequence[bool] | None = None) -> None:
        self.num_labels = num_labels
        every = torch.ones(num_labels, dtype=torch.bool)
        self.counts = ScoreCounts(every if seen is None else read_columns(seen, num_labels))

    def reset(self) -> None:
        """Discards all batches."""
        self.counts = ScoreCounts(self.counts.seen)

    def add(self, scores: Tensor, gold: Tensor) -> None:
        """Adds checked documents."""
        self.counts.update(scores, gold)

    def compute(self) -> dict[str, float]:
        """Computes the best threshold.

        Returns:
            `threshold`, a probability for `sigmoid(score) >= threshold`, as in `LabelMetrics` and the pipeline, and its
            `tuned_micro_f1`; with `seen`, for seen labels. The same with the prefix `unseen_` for
            unseen labels, if the documents have enough of them; otherwise they share the threshold of seen labels.

        Raises:
            ValueError: If there are no documents yet, or no candidate label is gold.
        """
        require_documents(self.counts.documents)
        prefixes = {"seen": ""}
        unseen = self.counts.of_group("unseen")
        if tells_enough(unseen.num_documents, unseen.num_gold):
            prefixes["unseen"] = "unseen_"
        result = {}
        for group, prefix in prefixes.items():
            logit, micro_f1 = self.counts.of_group(group).best_threshold()
            result[f"{prefix}threshold"] = rounded(torch.tensor(logit).sigmoid().item())
            result[f"{prefix}tuned_micro_f1"] = micro_f1
        return result
