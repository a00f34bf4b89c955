"""Counts logits and gold labels for calibration, in memory independent of the number of documents.

Shapes: `N` documents, `C` candidate labels, `P` gold labels per document, padded, `E` edges.
"""

import torch
from torch import Tensor

from ...models.losses_gile import IGNORE, widened

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


def round_to_bins(logits: Tensor) -> Tensor:
    """Rounds logits to the nearest float16 value, clipped to its range.

    Args:
        logits: `(N, C)`, of any precision.

    Returns:
        `(N, C)` indices into `VALUES`, on the CPU.

    Example:
        >>> VALUES[round_to_bins(torch.tensor([0.1, -1e9, -0.0]))].tolist()
        [0.09998, -65504.0, 0.0]
    """
    bits = widened(logits).clamp(-65504, 65504).half().view(torch.int16).cpu()
    return torch.where(bits >= 0, bits, -32768 - bits).int() + _LARGEST


def assign_halves(positions: Tensor) -> Tensor:
    """Assigns documents to halves by a hash of their position, since languages or sources may alternate.

    Args:
        positions: `(N,)` positions among all documents.

    Returns:
        `(N,)` 0 or 1.

    Example:
        >>> assign_halves(torch.arange(12))
        tensor([0, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0])
    """
    return (positions * 0x9E3779B1 >> 16) & 1  # Knuth's multiplicative hash


class ScoreCounts:
    """Counts of the logits of candidate labels: in fine bins for seen and unseen labels, in coarse bins for each label.

    Documents are divided into two halves (`assign_halves`) for cross-validation.

    Labels that are not candidates for a document (logits of minus infinity or the minimum of the dtype) are not
    counted. If they are gold anyway, they are included in `num_gold`, as labels below any threshold.

    With `force_label`, the label with the highest logit of a document is assigned at any threshold: thresholds only
    decide about the others. The counts of single labels then have it in the highest interval.

    Attributes:
        cells: `(2, 2, BINS)` documents with a label, by half, by group (unseen, seen), and by rounded logit.
        gold: `(2, 2, BINS)` documents in which the label is gold.
        best_cells: `(2, BINS)` the `top_k` best labels of each document within a group.
        best_gold: `(2, BINS)` gold labels among the best.
        forced_cells: `(2, 2, BINS)` the part of `cells` that is assigned at any threshold.
        forced_gold: `(2, 2, BINS)` gold labels among these.
        label_cells: `(2, C, E + 1)` documents by half, label and interval between `EDGES`.
        label_gold: `(2, C, E + 1)` documents in which the label is gold.
        num_gold: `(2, C)` gold documents of each label, by half.
        gold_documents: `(2,)` documents with a gold label of each group.

    Args:
        seen: `(C,)` bool, whether each label was seen in training.
        top_k: Number of best labels.
        chunk_size: Number of documents processed together.
        force_label: Whether each document is assigned its best label at least.

    Example:
        >>> counts = ScoreCounts(torch.tensor([True, True, False]))
        >>> counts.update(torch.tensor([[2.0, -1.0, 1.0]]), torch.tensor([[0, 2]]))
        >>> counts.cells.sum((0, 2)), counts.gold.sum((0, 2))
        (tensor([1, 2]), tensor([1, 1]))
    """

    def __init__(
        self,
        seen: Tensor,
        top_k: int = 5,
        chunk_size: int = 64,
        force_label: bool = False,
    ) -> None:
        self.seen = seen.cpu()
        self.force_label = force_label
        self.top_k = top_k
        self.chunk_size = chunk_size
        self.documents = 0
        self.cells, self.gold = (torch.zeros(2, 2, BINS, dtype=torch.long) for _ in range(2))
        self.forced_cells, self.forced_gold = (torch.zeros(2, 2, BINS, dtype=torch.long) for _ in range(2))
        self.best_cells, self.best_gold = (torch.zeros(2, BINS, dtype=torch.long) for _ in range(2))
        shape = 2, len(seen), len(EDGES) + 1
        self.label_cells, self.label_gold = (torch.zeros(shape, dtype=torch.int32) for _ in range(2))
        self.num_gold = torch.zeros(2, len(seen), dtype=torch.long)
        self.gold_documents = torch.zeros(2, dtype=torch.long)

    def update(self, logits: Tensor, gold: Tensor) -> None:
        """Adds documents.

        Args:
            logits: `(N, C)`.
            gold: `(N, P)` indices among the candidate labels, padded with -100.
        """
        for start in range(0, len(logits), self.chunk_size):
            self._add(logits[start : start + self.chunk_size], gold[start : start + self.chunk_size])

    def of_group(self, group: str) -> tuple[Tensor, Tensor]:
        """Returns the `(BINS,)` cells and gold labels of seen or unseen labels."""
        index = int(group == "seen")
        return self.cells[:, index].sum(0), self.gold[:, index].sum(0)

    def forced(self, group: str) -> tuple[Tensor, Tensor]:
        """Returns the part of `of_group` that is assigned at any threshold."""
        index = int(group == "seen")
        return self.forced_cells[:, index].sum(0), self.forced_gold[:, index].sum(0)

    def hits(self, group: str, reached: Tensor) -> tuple[int, int]:
        """Returns the numbers of assigned gold labels and of assigned labels of a group.

        Args:
            group: "seen" or "unseen".
            reached: `(BINS,)` booleans, whether a logit reaches the threshold.
        """
        cells, gold = self.of_group(group)
        forced_cells, forced_gold = self.forced(group)
        hits = int(gold[reached].sum() + forced_gold[~reached].sum())
        return hits, int(cells[reached].sum() + forced_cells[~reached].sum())

    def evidence(self, group: str) -> tuple[int, int]:
        """Returns the number of documents with gold labels of a group, and of these labels."""
        labels = self.seen == (group == "seen")
        return int(self.gold_documents[int(group == "seen")]), int(self.num_gold[:, labels].sum())

    def merge(self, other: "ScoreCounts") -> None:
        """Adds the counts of other documents with the same labels."""
        self.documents += other.documents
        for name, value in vars(self).items():
            if torch.is_tensor(value) and name != "seen":
                value += getattr(other, name)

    def _add(self, logits: Tensor, gold: Tensor) -> None:
        candidate = (logits > torch.finfo(logits.dtype).min).cpu()
        bins, gold = round_to_bins(logits), gold.cpu()
        rows = torch.arange(len(logits))
        halves = assign_halves(self.documents + rows)
        self.documents += len(logits)
        group, labels = self.seen.int(), torch.arange(len(self.seen), dtype=torch.int32)
        half, width = halves.int()[:, None], len(EDGES) + 1
        group_bins = (bins + BINS * group).add_(2 * BINS * half)
        highest = logits.argmax(1).cpu()
        is_forced = candidate[rows, highest] & self.force_label
        forced = rows[is_forced], highest[is_forced]
        label_bins = _INTERVALS[bins]
        label_bins[forced] = len(EDGES)
        label_bins.add_(width * labels).add_(width * len(labels) * half)
        if bool(candidate.all()):
            _count(self.cells, group_bins)
            _count(self.label_cells, label_bins.T)  # label by label, for memory locality
        else:
            _count(self.cells, group_bins[candidate])
            _count(self.label_cells, label_bins.T[candidate.T])
        is_gold = gold != IGNORE
        documents, columns = rows[:, None].expand_as(gold)[is_gold], gold[is_gold]
        _count(self.num_gold, columns + len(labels) * halves[documents])
        is_candidate = candidate[documents, columns]
        documents, columns = documents[is_candidate], columns[is_candidate]
        _count(self.gold, group_bins[documents, columns])
        _count(self.label_gold, label_bins[documents, columns])
        mask = torch.zeros(logits.shape, dtype=torch.bool)
        mask[documents, columns] = True
        _count(self.forced_cells, group_bins[forced])
        _count(self.forced_gold, group_bins[forced][mask[forced]])
        for index in range(2):
            chosen = (group == index).nonzero().flatten()
            self.gold_documents[index] += int(mask[:, chosen].any(1).sum())
            if len(chosen):
                best = logits[:, chosen.to(logits.device)].topk(min(self.top_k, len(chosen)), dim=1).indices.cpu()
                best = chosen[best]
                positions = bins.gather(1, best)
                _count(self.best_cells[index], positions[candidate.gather(1, best)])
                _count(self.best_gold[index], positions[mask.gather(1, best)])


def above_edges(label_counts: Tensor) -> Tensor:
    """Counts documents with at least the logit of each of `EDGES`, for each label.

    Args:
        label_counts: `(C, E + 1)` documents by interval.

    Returns:
        `(C, E + 2)` int32: all documents, documents above each edge, and 0.
    """
    above = label_counts.new_zeros(len(label_counts), label_counts.shape[1] + 1)
    above[:, :-1] = label_counts.flip(1).cumsum(1, dtype=torch.int32).flip(1)
    return above


def counts_above(above: Tensor, logits: Tensor) -> Tensor:
    """Counts documents with at least a logit, for each label: exact at `EDGES`, interpolated between them.

    Args:
        above: `(C, E + 2)` from `above_edges`; the outermost intervals are treated as having width 1.
        logits: `(C,)` a logit for each label.

    Returns:
        `(C,)` float64.

    Example:
        >>> counts = ScoreCounts(torch.tensor([True, True, True]))
        >>> counts.update(torch.tensor([[0.3, 2.0, -5.0]]).expand(7, 3), torch.full((7, 1), -100))
        >>> counts_above(above_edges(counts.label_cells.sum(0)), torch.tensor([-70.0, 1.0, 0.0]))
        tensor([7., 7., 0.], dtype=torch.float64)
    """
    ends = torch.cat([EDGES[:1] - 1, EDGES, EDGES[-1:] + 1])
    logits = logits.double().clamp(ends[0], ends[-1])
    interval = torch.bucketize(logits, ends, right=True).clamp(max=len(ends) - 1) - 1
    share = (logits - ends[interval]) / (ends[interval + 1] - ends[interval])
    lower, upper = (above.gather(1, edge[:, None])[:, 0].double() for edge in (interval, interval + 1))
    return torch.lerp(lower, upper, share)


def _count(counts: Tensor, positions: Tensor) -> None:
    """Adds 1 to the flattened counts at each position, which may be repeated."""
    unit = torch.ones(1, dtype=counts.dtype)
    counts.view(-1).index_add_(0, positions.reshape(-1), unit.expand(positions.numel()))
