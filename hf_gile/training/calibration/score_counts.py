"""Counts logits and gold labels for calibration, in memory independent of the number of documents.

Shapes: `N` documents, `C` candidate labels, `P` gold labels per document, padded, `E` edges.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from ...metrics.calibration import make_gold_mask
from ...models.checks_gile import GROUPS
from ...models.losses_gile import widened

_LARGEST = 0x7BFF
"""Bit pattern of the largest float16, equal to the number of positive float16 values."""

VALUES = torch.arange(_LARGEST + 1, dtype=torch.int16).view(torch.float16).double()
VALUES = torch.cat([-VALUES[1:].flip(0), VALUES])
"""`(BINS,)` distinct logits: all finite float16 values, ascending."""

BINS = len(VALUES)

LOWER_BOUNDS = torch.cat([VALUES[:1], (VALUES[1:] + VALUES[:-1]) / 2])
"""`(BINS,)` lower bound of the logits that are rounded to each value."""

_STEPS = torch.cat([torch.arange(8, 16) * 2.0**power for power in range(-6, 3)]).double()  # 1/8 to 60
EDGES = LOWER_BOUNDS[torch.searchsorted(VALUES, torch.cat([-_STEPS.flip(0), torch.zeros(1), _STEPS]))]
"""`(E,)` bin edges for logits of single labels: eight per power of two."""

_INTERVALS = torch.bucketize(VALUES, EDGES, right=True, out_int32=True)
"""`(BINS,)` interval between `EDGES` of each value; 0 is below the first edge."""

TOP_K = 5
"""Number of best labels of a document whose calibration is measured."""

_DOCUMENTS_AT_ONCE = 64

BOTH_HALVES = slice(0, 2)


def round_to_bins(logits: Tensor) -> Tensor:
    """Rounds `(N, C)` logits to the nearest float16 value, clipped to its range, and returns indices into `VALUES`.

    Example:
        >>> VALUES[round_to_bins(torch.tensor([0.1, -1e9, -0.0]))].tolist()
        [0.09998, -65504.0, 0.0]
    """
    bits = widened(logits).clamp(-65504, 65504).half().view(torch.int16)
    return torch.where(bits >= 0, bits, -32768 - bits).int() + _LARGEST


def assign_halves(positions: Tensor) -> Tensor:
    """Assigns `(N,)` positions of documents to halves, 0 or 1, by a hash, since languages or sources may alternate.

    Example:
        >>> assign_halves(torch.arange(12))
        tensor([0, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0])
    """
    return (positions * 0x9E3779B1 >> 16) & 1  # Knuth's multiplicative hash


@dataclass(frozen=True)
class GroupCounts:
    """Counts of the logits of seen labels, or of unseen labels.

    A cell is a pair of document and label. Each table has two rows: all cells, and those with a gold label.

    Args:
        cells: `(2, BINS)` cells by rounded logit.
        best: `(2, BINS)` cells of the `TOP_K` best labels of each document within the group, of both halves.
        forced: `(2, BINS)` the part of `cells` that is assigned at any threshold.
        num_gold: Number of gold labels, also of those that are not candidates.
        num_documents: Number of documents with a gold label, of both halves.
    """

    cells: Tensor
    best: Tensor
    forced: Tensor
    num_gold: int
    num_documents: int

    @property
    def has_gold(self) -> bool:
        """Whether a gold label is a candidate."""
        return bool(self.cells[1].any())

    def assigned(self, reached: Tensor) -> tuple[int, int]:
        """Returns the numbers of assigned labels and of gold ones, if these `(BINS,)` logits reach the threshold."""
        total, hits = torch.where(reached, self.cells, self.forced).sum(1).tolist()
        return total, hits

    def best_threshold(self) -> tuple[float, float]:
        """Finds the threshold with the best micro-F1.

        Returns:
            A logit, and its micro-F1. Among equally good thresholds, it is halfway between the lowest accepted score
            and the next lower score, so that other documents may have slightly lower scores. If all scores are
            accepted, none says where to stop, and it is at most 0.

        Raises:
            ValueError: If no gold label is a candidate.
        """
        above = (self.cells - self.forced).flip(1).cumsum(1) + self.forced.sum(1, keepdim=True)
        predicted, hits = above.double()
        if not hits[-1] > 0:
            raise ValueError(
                "a threshold needs a gold label that is a candidate, got none; check the validation documents"
            )
        micro_f1 = 2 * hits / (predicted + self.num_gold).clamp(min=1)
        best = int(micro_f1.argmax())  # the first of the best
        lowest = int((predicted == predicted[best]).nonzero()[-1])  # no scores in between but forced ones
        accepted = best
        forced = self.forced[0].flip(0)[best : lowest + 1].nonzero()
        if len(forced):
            accepted += int(forced.max())
        bounds = LOWER_BOUNDS.flip(0)
        if lowest == BINS - 1:  # all scores are accepted
            return min(0.0, float(bounds[accepted])), float(micro_f1[accepted])
        threshold = (bounds[accepted] + bounds[lowest]) / 2
        return float(threshold), float(micro_f1[accepted])


class ScoreCounts:
    """Counts of the logits of candidate labels: in fine bins for seen and unseen labels, in coarse bins for each label.

    Documents are divided into two halves (`assign_halves`) for cross-validation.

    Labels that are not candidates for a document (logits of minus infinity or the minimum of the dtype) are not
    counted. If they are gold anyway, they are included in `num_gold`, as labels below any threshold.

    With `force_label`, the label with the highest logit of a document is assigned at any threshold: thresholds only
    decide about the others. The counts of single labels then have it in the highest interval.

    Attributes:
        cells: `(2, 2, 2, BINS)` cells as in `GroupCounts`, by half and by group (unseen, seen).
        forced: `(2, 2, 2, BINS)` the part of `cells` that is assigned at any threshold.
        best: `(2, 2, BINS)` cells of the best labels, by group.
        label_cells: `(2, 2, C, E + 1)` cells by half, label and interval between `EDGES`.
        num_gold: `(2, C)` gold documents of each label, by half.
        gold_documents: `(2,)` documents with a gold label of each group that is a candidate.
        gold_logits: With a recall, the logits of the gold labels of each document that has any, by name of the group.

    Args:
        seen: `(C,)` bool, whether each label was seen in training.
        force_label: Whether each document is assigned its best label at least.
        recall: The recall that thresholds guarantee, below 1; None if they maximize a metric.

    Example:
        >>> counts = ScoreCounts(torch.tensor([True, True, False]))
        >>> counts.update(torch.tensor([[2.0, -1.0, 1.0]]), torch.tensor([[0, 2]]))
        >>> counts.cells.sum((1, 3))
        tensor([[1, 2],
                [1, 1]])
    """

    def __init__(self, seen: Tensor, force_label: bool = False, recall: float | None = None) -> None:
        self.seen = seen.cpu()
        self.force_label = force_label
        self.recall = recall
        self.gold_logits: dict[str, list[Tensor]] = {group: [] for group in GROUPS}
        self.documents = 0
        self.cells = torch.zeros(2, 2, 2, BINS, dtype=torch.long)
        self.forced = torch.zeros_like(self.cells)
        self.best = torch.zeros(2, 2, BINS, dtype=torch.long)
        self.label_cells = torch.zeros(2, 2, len(seen), len(EDGES) + 1, dtype=torch.int32)
        self.num_gold = torch.zeros(2, len(seen), dtype=torch.long)
        self.gold_documents = torch.zeros(2, dtype=torch.long)

    def update(self, logits: Tensor, gold: Tensor) -> None:
        """Adds `(N, C)` logits, and `(N, P)` gold indices among the candidate labels, padded with -100."""
        blocks = logits.split(_DOCUMENTS_AT_ONCE), gold.split(_DOCUMENTS_AT_ONCE)
        for block, gold_of_block in zip(*blocks, strict=True):
            self._add(block.cpu(), make_gold_mask(gold_of_block, len(self.seen)).cpu())

    def of_group(self, group: str, halves: slice = BOTH_HALVES) -> GroupCounts:
        """Returns the counts of "seen" or "unseen" labels in one or both halves of the documents."""
        index = int(group == "seen")
        return GroupCounts(
            self.cells[:, halves, index].sum(1),
            self.best[:, index],
            self.forced[:, halves, index].sum(1),
            int(self.num_gold[halves, self.of_labels(group)].sum()),
            int(self.gold_documents[index]),
        )

    def of_labels(self, group: str) -> Tensor:
        """Returns the `(C,)` mask of the labels of a group."""
        return self.seen == (group == "seen")

    def has_gold_in_both_halves(self, group: str) -> bool:
        """Checks whether each half of the documents has a gold label of a group that is a candidate."""
        return bool(self.cells[1, :, int(group == "seen")].any(1).all())

    def _add(self, logits: Tensor, is_gold: Tensor) -> None:
        """Adds `(N, C)` logits, and whether each label is gold."""
        rows = torch.arange(len(logits))
        halves = assign_halves(self.documents + rows).int()
        self.documents += len(logits)
        self.num_gold.index_add_(0, halves, is_gold.long())
        for group, collected in self.gold_logits.items() if self.recall else ():
            of_group = is_gold & self.of_labels(group)
            collected += [row[mask] for row, mask in zip(widened(logits), of_group, strict=True) if mask.any()]
        candidate = logits > torch.finfo(logits.dtype).min
        is_gold = is_gold & candidate
        is_forced = torch.zeros_like(candidate)
        if self.force_label:
            is_forced[rows, logits.argmax(1)] = True
            is_forced &= candidate
        bins = round_to_bins(logits)
        group_bins = bins + BINS * (self.seen.int() + 2 * halves[:, None])
        _count(self.cells, group_bins, candidate, is_gold)
        _count(self.forced, group_bins, is_forced, is_gold)
        labels = torch.arange(len(self.seen), dtype=torch.int32)
        label_bins = _INTERVALS[bins].masked_fill_(is_forced, len(EDGES))
        label_bins += (len(EDGES) + 1) * (labels + len(labels) * halves[:, None])
        _count(self.label_cells, label_bins.T, candidate.T, is_gold.T)  # label by label, for memory locality
        for index in range(2):
            columns = (self.seen == bool(index)).nonzero().flatten()
            self.gold_documents[index] += is_gold[:, columns].any(1).sum()
            best = columns[logits[:, columns].topk(min(TOP_K, len(columns)), dim=1).indices]
            is_best = torch.zeros_like(candidate).scatter_(1, best, True)
            _count(self.best[:, index], bins, is_best & candidate, is_gold)


def above_edges(label_counts: Tensor) -> Tensor:
    """Sums `(..., C, E + 1)` documents by interval to `(..., C, E + 2)` above each of `EDGES`, from all to 0."""
    above = label_counts.flip(-1).cumsum(-1, dtype=torch.int32).flip(-1)
    return functional.pad(above, (0, 1))


def counts_above(above: Tensor, logits: Tensor) -> Tensor:
    """Counts documents with at least a logit, for each label: exact at `EDGES`, interpolated between them.

    The outermost intervals of `(..., C, E + 2)` counts of `above_edges` are treated as having width 1.

    Example:
        >>> counts = ScoreCounts(torch.tensor([True, True, True]))
        >>> counts.update(torch.tensor([[0.3, 2.0, -5.0]]).expand(7, 3), torch.full((7, 1), -100))
        >>> counts_above(above_edges(counts.label_cells[0].sum(0)), torch.tensor([-70.0, 1.0, 0.0]))
        tensor([7., 7., 0.], dtype=torch.float64)
    """
    ends = torch.cat([EDGES[:1] - 1, EDGES, EDGES[-1:] + 1])
    logits = logits.double().clamp(ends[0], ends[-1])
    interval = torch.bucketize(logits, ends, right=True).clamp(max=len(ends) - 1) - 1
    share = (logits - ends[interval]) / (ends[interval + 1] - ends[interval])
    labels = torch.arange(len(logits))
    lower = above[..., labels, interval].double()
    upper = above[..., labels, interval + 1].double()
    return torch.lerp(lower, upper, share)


def _count(counts: Tensor, positions: Tensor, counted: Tensor, is_gold: Tensor) -> None:
    """Adds cells to two tables, all that are `counted` and the gold ones among them, at positions within a table."""
    for table, mask in zip(counts, (counted, counted & is_gold), strict=True):
        chosen = positions[mask]
        table.view(-1).index_add_(0, chosen, torch.ones_like(chosen, dtype=table.dtype))
