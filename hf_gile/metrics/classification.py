"""Classification metrics: F1 of thresholded probabilities, and accuracy.

Shapes: `B` documents in the batch, `L` labels scored, `P` gold labels per document, padded.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..models.losses_gile import IGNORE, widened
from .batch import Array, read_groups, require_documents
from .trainer import TrainerMetric


class F1Metrics(TrainerMetric):
    """Streaming micro, macro and example F1, in O(L) memory.

        predicted = sigmoid(score) >= threshold
        F1        = 2 hits / (predicted + gold), and 0 if there are neither predicted nor gold labels

    `micro_f1` counts all cells together, `macro_f1` is the mean over the labels that have a gold document, `example_f1`
    the mean over the documents: scikit-learn's `f1_score` with `zero_division=0` and the averages "micro", "macro" (of
    these labels) and "samples". A document with neither gold nor predicted labels counts as 0 in example F1. Without a
    gold document there is no estimate of a label's F1, so such labels are excluded from macro F1, and so are labels
    that are never candidates (with a score of minus infinity for every document). Values are in 0..1.

    With `one_label`, the prediction is the label with the highest score (the lowest index among equal scores), whatever
    the threshold, and `accuracy` is the fraction of documents with a gold label for which it is predicted.

    With `force_label`, a document without any predicted label gets the label with the highest score.

    Half-precision scores are converted to float32 before the sigmoid. Predictions are exactly
    `torch.sigmoid(scores) >= threshold`, in the precision of the probabilities.

    With a mask of seen labels, each metric is also computed as `seen_...` and `unseen_...`.

    Args:
        num_labels: Number of labels L of every batch.
        threshold: Minimum probability of a predicted label, for all labels or `(L,)` for each.
        seen: `(L,)` bool, True for the labels that were seen in training.
        one_label: Whether every document has one label, as with `problem_type="single_label_classification"`.
        force_label: Whether at least the best label is predicted, as with `GileConfig.force_label`.

    Raises:
        ValueError: If a threshold is not in 0..1, or threshold or mask do not fit the labels.

    Example:
        >>> metrics = F1Metrics(num_labels=3)
        >>> metrics.update(torch.tensor([[2.0, -1.0, 1.0]]), torch.tensor([[0, 1]]))
        >>> {name: round(value, 3) for name, value in metrics.compute().items()}
        {'micro_f1': 0.5, 'macro_f1': 0.5, 'example_f1': 0.5}
    """

    def __init__(
        self,
        num_labels: int,
        threshold: float | Array = 0.5,
        seen: Array | Sequence[bool] | None = None,
        one_label: bool = False,
        force_label: bool = False,
    ) -> None:
        self.one_label = one_label
        self.force_label = force_label
        self.groups = read_groups(num_labels, seen)
        self.num_labels = num_labels
        self.threshold = read_threshold(threshold, num_labels)
        self.reset()

    def reset(self) -> None:
        """Discards all batches."""
        self.hits = torch.zeros(self.num_labels, dtype=torch.long)
        self.predicted = torch.zeros(self.num_labels, dtype=torch.long)
        self.gold = torch.zeros(self.num_labels, dtype=torch.long)
        self.candidates = torch.zeros(self.num_labels, dtype=torch.bool)
        self.example_sums = dict.fromkeys(self.groups, 0.0)
        self.documents = 0

    def add(self, scores: Tensor, gold: Tensor) -> None:
        """Adds checked documents.

        Raises:
            ValueError: If a document has several gold labels despite `one_label`.
        """
        is_gold = gold != IGNORE
        if self.one_label:
            if bool((is_gold.sum(dim=1) > 1).any()):
                raise ValueError(
                    f"a document has {int(is_gold.sum(dim=1).max())} gold labels, but one_label=True needs documents "
                    "with a single label; leave it out for multi-label documents"
                )
            predicted = best_labels_mask(scores)
        else:
            probabilities = widened(scores).sigmoid()
            predicted = probabilities >= self.threshold.to(probabilities.dtype).to(probabilities.device)
            if self.force_label:
                is_best = best_labels_mask(scores)
                predicted |= is_best & ~predicted.any(dim=1, keepdim=True)
        hits = predicted.gather(1, gold.clamp(min=0)) & is_gold  # (B, P)

        self.hits += gold[hits].cpu().bincount(minlength=self.num_labels)
        self.predicted += predicted.sum(dim=0).cpu()
        self.candidates |= (scores > -torch.inf).any(dim=0).cpu()
        self.gold += gold[is_gold].cpu().bincount(minlength=self.num_labels)
        for prefix, columns in self.groups.items():
            columns = columns.to(gold.device)
            in_group = columns[gold.clamp(min=0)]  # (B, P)
            selected = predicted.index_select(1, columns.nonzero().flatten()) if prefix else predicted
            total = selected.sum(dim=1) + (is_gold & in_group).sum(dim=1)
            example_f1 = _f1((hits & in_group).sum(dim=1).cpu(), total.cpu())
            self.example_sums[prefix] += example_f1.sum().item()
        self.documents += len(gold)

    def compute(self) -> dict[str, float]:
        """Computes the F1 metrics.

        Returns:
            `micro_f1`, `macro_f1` and `example_f1` of each group, and `accuracy` with `one_label`. `macro_f1` and
            `accuracy` are NaN if no label of the group was gold.

        Raises:
            ValueError: If there are no documents yet.
        """
        require_documents(self.documents)
        named = self.predicted + self.gold
        label_f1 = _f1(self.hits, named)
        is_measured = self.candidates & (self.gold > 0)
        result = {}
        for prefix, columns in self.groups.items():
            result[f"{prefix}micro_f1"] = _f1(self.hits[columns].sum(), named[columns].sum()).item()
            result[f"{prefix}macro_f1"] = label_f1[columns][is_measured[columns]].mean().item()
            result[f"{prefix}example_f1"] = self.example_sums[prefix] / self.documents
            if self.one_label:
                result[f"{prefix}accuracy"] = (self.hits[columns].sum() / self.gold[columns].sum()).item()
        return result


def best_labels_mask(scores: Tensor) -> Tensor:
    """Returns `(B, L)` booleans, true for the label with the highest of `(B, L)` scores: the first of equal ones."""
    return torch.zeros_like(scores, dtype=torch.bool).scatter_(1, scores.argmax(dim=1, keepdim=True), True)


def read_threshold(threshold: float | Array, num_labels: int) -> Tensor:
    """Checks a threshold.

    Args:
        threshold: A probability, or `(L,)` probabilities.
        num_labels: Number of labels L.

    Returns:
        `()` or `(L,)` float64 on the CPU.

    Raises:
        ValueError: If a threshold is not in 0..1, or their number is not L.

    Example:
        >>> read_threshold(0.5, num_labels=3)
        tensor(0.5000, dtype=torch.float64)
    """
    values = torch.as_tensor(threshold, dtype=torch.float64, device="cpu").detach().clone()
    if values.shape not in ((), (num_labels,)):
        raise ValueError(
            f"threshold must be a probability, or a probability for each of the {num_labels} labels, got "
            f"shape {tuple(values.shape)}; pass a number, or a tensor of shape ({num_labels},)"
        )
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError(
            f"threshold must be a probability in 0..1, got {values.tolist()}; "
            "pass sigmoid(logit) for a threshold on logits"
        )
    return values


def _f1(hits: Tensor, total: Tensor) -> Tensor:
    return 2 * hits.double() / total.clamp(min=1)
