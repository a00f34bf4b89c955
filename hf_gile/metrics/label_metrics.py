"""All label metrics, for seen and unseen labels, as `compute_metrics` of a Trainer.

Shapes: `N` documents, `L` labels scored, `P` gold labels per document, padded.
"""

from collections.abc import Sequence

from torch import Tensor

from .batch import Array
from .classification import F1Metrics
from .ranking import RankingMetrics
from .trainer import TrainerMetric


class LabelMetrics(TrainerMetric):
    """Streaming ranking metrics and F1, in O(L) memory.

    With a mask of seen labels, each metric is also computed as `seen_...` and `unseen_...`. As in the GILE paper,
    labels are then ranked within the group. Ranking metrics skip documents without a gold label in the group
    (`documents` and `skipped` count them), F1 does not. Values are in 0..1, where the paper shows percent; coverage is
    a number of labels.

    Use it as `compute_metrics` of `transformers.Trainer`, preferably with batches to avoid storing logits:

        metrics = LabelMetrics(model.config.num_labels, seen=seen)
        args = TrainingArguments(..., batch_eval_metrics=True)
        Trainer(model, args, compute_metrics=metrics, ...)

    Call `reset` after an evaluation that failed outside the metrics.

    Args:
        num_labels: Number of labels L of every batch.
        seen: `(L,)` bool, True for labels seen in training. By default only metrics over all labels are computed.
        threshold: Minimum probability of a predicted label, for all labels or `(L,)` for each.
        top_k: Numbers of labels k, for precision, recall and nDCG at k.
        propensities: `(L,)` label propensities from `hf_gile.metrics.propensities`, for propensity-scored precision at
            k.
        one_label: Whether every document has a single label. F1 then uses the label with the highest score, and
            `accuracy` is computed, see `F1Metrics`.

    Raises:
        ValueError: If an argument does not match the labels.

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
        top_k: Sequence[int] = (),
        propensities: Array | Sequence[float] | None = None,
        one_label: bool = False,
    ) -> None:
        self.num_labels = num_labels
        self.ranking = RankingMetrics(num_labels, seen, top_k, propensities)
        self.f1 = F1Metrics(num_labels, threshold, seen, one_label)

    def reset(self) -> None:
        """Discards all batches."""
        self.ranking.reset()
        self.f1.reset()

    def add(self, scores: Tensor, gold: Tensor) -> None:
        """Adds checked documents."""
        self.ranking.add(scores, gold)
        self.f1.add(scores, gold)

    def compute(self) -> dict[str, float]:
        """Computes all metrics.

        Returns:
            `average_precision`, `ranking_loss`, `one_error`, `coverage`, `documents`, `skipped`,
            `micro_f1`, `macro_f1`, `example_f1`; `accuracy` with `one_label`; for each k of `top_k`, `precision_at_k`,
            `recall_at_k` and `ndcg_at_k`, and `psp_at_k` with propensities. With seen labels, each also has the
            prefixes `seen_` and `unseen_`, and `unseen_among_all_average_precision` ranks unseen labels among all
            labels except the seen gold labels. Ranking metrics are NaN for groups without gold labels.

        Raises:
            ValueError: If there are no documents yet.
        """
        return {**self.ranking.compute(), **self.f1.compute()}
