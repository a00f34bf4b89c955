"""All label metrics at once, for seen and unseen labels, as the `compute_metrics` of a Trainer.

Shapes: `N` documents, `L` labels scored, `P` gold labels per document, padded.
"""

from collections.abc import Sequence

from .batch import Array, read_batch
from .classification import F1Metrics
from .ranking import RankingMetrics
from .trainer import TrainerMetric


class LabelMetrics(TrainerMetric):
    """Ranking metrics and F1 over any number of batches, in O(L) memory.

    With a mask of seen labels, every metric comes three times: over all labels under its own name,
    and as `seen_...` and `unseen_...`. As in the GILE paper, seen labels are ranked among the seen
    ones only and unseen among the unseen. Ranking metrics leave out the documents without a gold
    label in the group (`documents` and `skipped` count them), F1 leaves out none. Values are in
    0..1, where the tables of the paper show percent; coverage is a number of labels.

    It serves `transformers.Trainer` as it is, best with batches so that no logits are kept:

        metrics = LabelMetrics(model.config.num_labels, seen=seen)
        args = TrainingArguments(..., batch_eval_metrics=True)
        Trainer(model, args, compute_metrics=metrics, ...)

    An evaluation that broke off outside of the metrics leaves its batches here; call `reset` before
    the next one.

    Args:
        num_labels: Number of labels L of every batch.
        seen: `(L,)` bool, True for the labels that were seen in training. Without it, only the
            metrics over all labels.
        threshold: Least probability of a predicted label, for all labels or `(L,)` for each.
        chunk_size: Number of documents worked on at once, which bounds the memory when a batch
            holds a whole data set.
        top_k: Numbers of labels k, for precision, recall and nDCG at k.
        propensities: `(L,)` of the labels, as `hf_gile.metrics.propensities` makes them, for propensity-scored
            precision at k.
        counts: `(L,)` training documents of each label, for macro recall at k, and for macro recall and macro F1 of
            labels by frequency; `decile_figures` collects these.
        one_label: Whether every document has one label: F1 is then that of the label with the highest score, and
            `accuracy` is measured, see `F1Metrics`.

    Raises:
        ValueError: If what is given does not fit the labels, or chunks are empty.

    Example:
        >>> import torch
        >>> metrics = LabelMetrics(num_labels=4, seen=[True, True, True, False])
        >>> metrics.update(torch.tensor([[2.0, -1.0, 1.0, 3.0]]), torch.tensor([[0, 3]]))
        >>> result = metrics.compute()
        >>> result["one_error"], result["seen_one_error"], result["unseen_documents"]
        (0.0, 0.0, 1)
        >>> round(result["seen_micro_f1"], 3)
        0.667
    """

    def __init__(
        self,
        num_labels: int,
        seen: Array | Sequence[bool] | None = None,
        threshold: float | Array = 0.5,
        chunk_size: int = 64,
        top_k: Sequence[int] = (),
        propensities: Array | Sequence[float] | None = None,
        counts: Array | Sequence[float] | None = None,
        one_label: bool = False,
    ) -> None:
        if chunk_size < 1:
            raise ValueError(f"chunk_size must be at least 1 document, got {chunk_size}; leave it out for 64")
        self.num_labels = num_labels
        self.chunk_size = chunk_size
        self.ranking = RankingMetrics(num_labels, seen, top_k, propensities, counts)
        self.f1 = F1Metrics(num_labels, threshold, seen, counts, one_label)

    def reset(self) -> None:
        """Forgets every batch."""
        self.ranking.reset()
        self.f1.reset()

    def update(self, scores: Array, labels: Array) -> None:
        """Adds a batch, or a whole data set.

        Args:
            scores: `(N, L)` logits.
            labels: `(N, P)` integer columns padded with -100, or `(N, L)` multi-hot.

        Raises:
            ValueError: If scores and labels do not fit together; nothing is added then.
        """
        scores, gold = read_batch(scores, labels, self.num_labels)
        for start in range(0, len(scores), self.chunk_size):
            chunk = slice(start, start + self.chunk_size)
            self.ranking.update(scores[chunk], gold[chunk])
            self.f1.update(scores[chunk], gold[chunk])

    def compute(self) -> dict[str, float]:
        """Returns all metrics so far.

        Returns:
            `average_precision`, `ranking_loss`, `one_error`, `coverage`, `documents`, `skipped`,
            `micro_f1`, `macro_f1`, `example_f1`, with `one_label` `accuracy`, and of each k of `top_k`
            `precision_at_k`, `recall_at_k` and `ndcg_at_k`, with propensities `psp_at_k`, with counts
            `macro_recall_at_k`; with seen labels also each with `seen_` and `unseen_` in front. With counts also
            `macro_f1` and `macro_recall_at_k` with `decile_1_` (the rarest tenth of the labels with training
            documents) to `decile_10_` (the most frequent tenth) in
            front. Ranking metrics of a group in which no document has a gold label are NaN.

        Raises:
            ValueError: If no document came yet.
        """
        return {**self.ranking.compute(), **self.f1.compute()}

    def merge(self, other: "LabelMetrics") -> None:
        """Adds the batches that another worker has seen.

        Args:
            other: Metrics made alike; it stays as it is.

        Raises:
            ValueError: If labels, seen labels, thresholds, `top_k`, propensities or counts differ; nothing is added
                then.
        """
        self.ranking.require_same(other.ranking)
        self.f1.merge(other.f1)
        self.ranking.merge(other.ranking)
