"""Calibration metrics: expected calibration error, Brier score, and reliability diagrams.

Shapes: `N` documents, `L` labels scored, `P` gold labels per document, padded, `K` best labels of a document.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..models.losses_gile import IGNORE, widened
from .batch import Array, read_groups, require_documents
from .trainer import TrainerMetric


class CalibrationMetrics(TrainerMetric):
    """Streaming calibration metrics of probabilities, in constant memory.

        probability = sigmoid(score)
        ECE         = sum over bins of | sum of probabilities - number of gold labels | / number of cells

    A cell is a pair of document and label. Bins have equal width in the probability. With many labels, nearly all cells
    are correctly near zero, so a small `expected_calibration_error` says little. `top_5_expected_calibration_error`
    covers the five best labels of each document, which users look at. `brier` is the mean squared difference of
    probability and gold label (1 or 0) over all cells.

    With a mask of seen labels, each metric is also computed as `seen_...` and `unseen_...`. The best labels are then
    chosen within the group. Labels that are not candidates (scores of minus infinity or the minimum of the dtype) are
    not counted.

    `hf_gile.models.search_gile.calibrated` returns calibrated logits. Like `LabelMetrics`, this class can be used as
    `compute_metrics` of `transformers.Trainer`.

    Args:
        num_labels: Number of labels L of every batch.
        seen: `(L,)` bool, True for the labels that were seen in training.
        bins: Number of bins.
        top_k: Number K of best labels.

    Raises:
        ValueError: If the mask does not match the labels.

    Example:
        >>> import torch
        >>> metrics = CalibrationMetrics(num_labels=3, top_k=1)
        >>> scores = torch.tensor([[0.8, 0.1, 0.1], [0.7, 0.6, 0.1]]).logit()
        >>> metrics.update(scores, torch.tensor([[0], [1]]))
        >>> {name: round(value, 3) for name, value in metrics.compute().items()}
        {'expected_calibration_error': 0.267, 'top_1_expected_calibration_error': 0.45, 'brier': 0.12}
        >>> metrics.reliability()[-1]
        {'low': 0.8, 'high': 0.867, 'probability': 0.8, 'frequency': 1.0, 'count': 1}
    """

    def __init__(
        self,
        num_labels: int,
        seen: Array | Sequence[bool] | None = None,
        bins: int = 15,
        top_k: int = 5,
    ) -> None:
        self.groups = read_groups(num_labels, seen)
        self.num_labels = num_labels
        self.bins = bins
        self.top_k = top_k
        self.reset()

    def reset(self) -> None:
        """Discards all batches."""
        # For each group: cells, sum of probabilities and gold cells per bin; for all cells, and for the best.
        self.all_cells = {prefix: torch.zeros(3, self.bins, dtype=torch.double) for prefix in self.groups}
        self.best_cells = {prefix: torch.zeros(3, self.bins, dtype=torch.double) for prefix in self.groups}
        self.squares = dict.fromkeys(self.groups, 0.0)
        self.documents = 0

    def add(self, scores: Tensor, gold: Tensor) -> None:
        """Adds checked documents."""
        candidate = scores > torch.finfo(scores.dtype).min
        probabilities = widened(scores).sigmoid()
        is_gold = make_gold_mask(gold, self.num_labels)
        for prefix, columns in self.groups.items():
            selected = slice(None) if columns.all() else columns.nonzero().flatten().to(scores.device)
            cells = probabilities[:, selected], is_gold[:, selected], candidate[:, selected]
            self.squares[prefix] += float(((cells[0] - cells[1].float()) ** 2)[cells[2]].double().sum())
            self.all_cells[prefix] += self._count_cells(*cells)
            # Ranked by scores, since probabilities near 1 are equal. Labels that are not candidates come last.
            best = scores[:, selected].topk(min(self.top_k, cells[0].shape[1]), dim=1).indices
            self.best_cells[prefix] += self._count_cells(*(cell.gather(1, best) for cell in cells))
        self.documents += len(gold)

    def compute(self) -> dict[str, float]:
        """Computes the metrics.

        Returns:
            `expected_calibration_error`, `top_5_expected_calibration_error` (for `top_k` 5) and `brier` of each group;
            NaN if no label of the group was a candidate.

        Raises:
            ValueError: If there are no documents yet.
        """
        require_documents(self.documents)
        result = {}
        for prefix, cells in self.all_cells.items():
            number = float(cells[0].sum())
            result[f"{prefix}expected_calibration_error"] = calibration_error(*cells)
            best = calibration_error(*self.best_cells[prefix])
            result[f"{prefix}top_{self.top_k}_expected_calibration_error"] = best
            result[f"{prefix}brier"] = self.squares[prefix] / number if number else float("nan")
        return result

    def reliability(self, group: str = "") -> list[dict[str, Any]]:
        """Returns the data of a reliability diagram.

        Args:
            group: `""` for all labels, `"seen"` or `"unseen"`.

        Returns:
            For each non-empty bin in order: its bounds `low` and `high`, the mean `probability`, the `frequency` of
            gold labels, and the `count` of cells.

        Raises:
            ValueError: If the group does not exist.
        """
        prefix = f"{group}_" if group else ""
        if prefix not in self.groups:
            raise ValueError(
                f"group must be '' for all labels, or with a mask of seen labels 'seen' or 'unseen', got {group!r}"
            )
        return [
            {
                "low": bin / self.bins,
                "high": (bin + 1) / self.bins,
                "probability": probabilities / count,
                "frequency": gold / count,
                "count": int(count),
            }
            for bin, (count, probabilities, gold) in enumerate(self.all_cells[prefix].T.tolist())
            if count
        ]

    def _count_cells(self, probabilities: Tensor, is_gold: Tensor, candidate: Tensor) -> Tensor:
        """Counts cells, probabilities and gold cells per bin: `(3, bins)`."""
        probabilities = probabilities[candidate].double().cpu()
        is_gold = is_gold[candidate].cpu()
        positions = (probabilities * self.bins).long().clamp(max=self.bins - 1)
        counts = [torch.bincount(positions, weights, self.bins) for weights in (None, probabilities)]
        return torch.stack([*counts, torch.bincount(positions[is_gold], minlength=self.bins)]).double()


def softmax_to_sigmoid_logits(logits: Tensor) -> Tensor:
    """Converts logits of a softmax to logits whose sigmoid gives the same probabilities.

    The result for label i is `x_i - log(sum of exp(x_j) over all other labels j)`: exact where the probability itself
    rounds to 1.

    Args:
        logits: `(..., L)`; minus infinity, or the minimum of the dtype, for labels that are not candidates.

    Returns:
        `(..., L)` in float64: minus infinity for labels that are not candidates, plus infinity for an only candidate.

    Example:
        >>> softmax_to_sigmoid_logits(torch.tensor([40.0, 0.0, 0.0])).tolist()
        [39.30685281944005, -40.0, -40.0]
    """
    excluded = logits <= torch.finfo(logits.dtype).min
    logits = logits.double().masked_fill(excluded, -torch.inf)
    best = logits.argmax(-1, keepdim=True)
    rest = logits.scatter(-1, best, -torch.inf).logsumexp(-1, keepdim=True)
    logs = logits.log_softmax(-1)
    # Only the best label can have a probability above 1/2, where 1 - p would lose digits.
    odds = logs - torch.log1p(-logs.exp())
    return odds.scatter(-1, best, logits.gather(-1, best) - rest).masked_fill(excluded, -torch.inf)


def calibration_error(counts: Tensor, probabilities: Tensor, gold: Tensor) -> float:
    """Computes the expected calibration error of binned cells.

    Args:
        counts: `(bins,)` number of cells.
        probabilities: `(bins,)` sum of probabilities.
        gold: `(bins,)` number of gold cells.

    Returns:
        A number in 0..1; NaN if there are no cells.

    Example:
        >>> calibration_error(torch.tensor([8.0, 2.0]), torch.tensor([1.0, 1.6]), torch.tensor([1.0, 1.0]))
        0.06
    """
    number = float(counts.sum())
    return float((probabilities - gold).abs().sum()) / number if number else float("nan")


def make_gold_mask(gold: Tensor, num_labels: int) -> Tensor:
    """Returns a `(N, L)` bool mask of gold labels.

    Args:
        gold: `(N, P)` gold label indices, padded with -100.
        num_labels: Number of labels L.
    """
    mask = torch.zeros(len(gold), num_labels + 1, dtype=torch.bool, device=gold.device)
    return mask.scatter_(1, gold.masked_fill(gold == IGNORE, num_labels), True)[:, :num_labels]
