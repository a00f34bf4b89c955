"""Sets decision thresholds (section 4.2.1 of GILE): fixed thresholds of the paper, or tuned on validation data.

Shapes: `N` documents, `L` labels scored, `P` gold labels per document, padded.
"""

from collections.abc import Sequence

import torch

from ...metrics.batch import Array, read_batch, read_columns, require_documents
from ...metrics.trainer import TrainerMetric
from .score_counts import ScoreCounts

MIN_DOCUMENTS = 30
MIN_GOLD = 50
"""Minimum numbers of validation documents with unseen gold labels, and of such gold labels; with fewer, unseen labels
use the calibration and the threshold of seen labels. On samples of MEDLINE documents (60 per size), thresholds fitted
on 20 documents with 28 labels lost more than a point of micro-F1 in 23 % of the samples, on 50 with 70 in 10 %, and on
80 with 111 in 3 %."""


def paper_threshold(num_labels: int, low_resource: bool = False) -> float:
    """Returns the fixed threshold of the paper.

    Args:
        num_labels: Number of labels.
        low_resource: Whether only a part of the training documents is used, as in Table 7 of the paper.

    Returns:
        A probability: 0.4 for fewer than 400 labels, otherwise 0.2; always 0.3 for low-resource training.

    Raises:
        ValueError: If there are no labels.

    Example:
        >>> paper_threshold(7), paper_threshold(850), paper_threshold(850, low_resource=True)
        (0.4, 0.2, 0.3)
    """
    if num_labels < 1:
        raise ValueError(f"num_labels must be at least 1, got {num_labels}; pass the number of scored labels")
    if low_resource:
        return 0.3
    return 0.4 if num_labels < 400 else 0.2


def tells_enough(documents: int, gold: int) -> bool:
    """Checks whether enough validation documents have unseen labels for a separate threshold or calibration.

    Args:
        documents: Number of documents with an unseen gold label.
        gold: Number of their unseen gold labels.

    Returns:
        Whether there are at least `MIN_DOCUMENTS` and `MIN_GOLD`.
    """
    return documents >= MIN_DOCUMENTS and gold >= MIN_GOLD


def tune_threshold(scores: Array, labels: Array) -> float:
    """Finds the threshold with the best micro-F1, see `ThresholdTuner`.

    Args:
        scores: `(N, L)` logits; -inf or the minimum of the dtype for labels that are not candidates.
        labels: `(N, P)` label indices padded with -100, or `(N, L)` multi-hot.

    Returns:
        A probability, for `sigmoid(score) >= threshold`, as in `LabelMetrics` and the pipeline.

    Raises:
        ValueError: If scores and labels do not match, or no candidate label is gold.

    Example:
        >>> import torch
        >>> tune_threshold(torch.tensor([[1.0, -1.0, 0.0]]), torch.tensor([[0, 2]]))
        0.377569
    """
    scores, gold = read_batch(scores, labels)
    tuner = ThresholdTuner(scores.shape[1])
    tuner.update(scores, gold)
    return tuner.compute()["threshold"]


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
        ValueError: If the number is below 1, or `seen` is not a mask of the labels or selects none.

    Example:
        >>> import torch
        >>> tuner = ThresholdTuner(num_labels=3)
        >>> tuner.update(torch.tensor([[1.0, -1.0, 0.0]]), torch.tensor([[0, 2]]))
        >>> tuner.update(torch.tensor([[-3.0, -1.0, 0.5]]), torch.tensor([[1, -100]]))
        >>> tuner.compute()
        {'threshold': 0.119229, 'tuned_micro_f1': 0.75}
    """

    def __init__(self, num_labels: int, seen: Array | Sequence[bool] | None = None) -> None:
        if num_labels < 1:
            raise ValueError(f"num_labels must be at least 1, got {num_labels}")
        self.num_labels = num_labels
        every = torch.ones(num_labels, dtype=torch.bool)
        self.counts = ScoreCounts(every if seen is None else read_columns(seen, num_labels))

    def reset(self) -> None:
        """Discards all batches."""
        self.counts = ScoreCounts(self.counts.seen)

    def update(self, scores: Array, labels: Array) -> None:
        """Adds a batch, or a whole dataset, of `(N, L)` scores and labels as in `tune_threshold`.

        Raises:
            ValueError: If scores and labels do not match; nothing is added then.
        """
        self.counts.update(*read_batch(scores, labels, self.num_labels))

    def compute(self) -> dict[str, float]:
        """Computes the best threshold.

        Returns:
            `threshold` and its `tuned_micro_f1`, with `seen` for seen labels. The same with the prefix `unseen_` for
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


def rounded(probability: float) -> float:
    """Rounds to six significant digits; near 1 rounds the difference from 1, since no probability reaches 1."""
    if probability > 0.999:
        return 1 - rounded(1 - probability)
    return float(f"{probability:.6g}")
