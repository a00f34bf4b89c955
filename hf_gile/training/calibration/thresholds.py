"""Sets decision thresholds (section 4.2.1 of GILE): fixed thresholds of the paper, or tuned on validation data.

Shapes: `N` documents, `L` labels scored, `P` gold labels per document, padded.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...metrics.batch import Array, read_batch, read_columns, require_documents
from ...metrics.trainer import TrainerMetric
from ...models.losses_gile import IGNORE, widened

IntArray = NDArray[np.int64]

MIN_DOCUMENTS = 30
MIN_GOLD = 50
"""Minimum numbers of validation documents with unseen gold labels, and of such gold labels; with fewer, unseen labels
use the calibration and the threshold of seen labels. They were chosen on samples of 1,392 MEDLINE documents with 1,944
held-out gold labels (60 samples per size, evaluated on the other documents). A threshold fitted on a single document
lost 2.4 points of micro-F1 on average against the threshold of seen labels, and more than a point in 65 % of samples;
with 20 documents and 28 labels, it lost more than a point in 23 %, with 50 and 70 in 10 %, with 80 and 111 in 3 %. More
frequent labels need fewer documents. Calibration helps from three documents on."""

MIN_THRESHOLD = 2.0**-126
"""Lowest threshold, the smallest normal number of float32; it corresponds to a logit of -87."""
DROPPED_BITS = 39
"""Number of low bits of a float64 ignored by its bin, which leaves 13 bits of the fraction."""
FIRST_BITS = int(np.float64(MIN_THRESHOLD).view(np.int64))
BINS = ((int(np.float64(1).view(np.int64)) - FIRST_BITS) >> DROPPED_BITS) + 1


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
    """Finds the threshold with the best micro-F1 among all distinct scores.

    Args:
        scores: `(N, L)` logits; -inf or the minimum of the dtype for labels that are not candidates.
        labels: `(N, P)` label indices padded with -100, or `(N, L)` multi-hot.

    Returns:
        A probability, for `sigmoid(score) >= threshold`, as in `LabelMetrics` and the pipeline; the highest of
        equally good thresholds.

    Raises:
        ValueError: If scores and labels do not match, or no gold label has a positive probability.

    Example:
        >>> import torch
        >>> tune_threshold(torch.tensor([[1.0, -1.0, 0.0]]), torch.tensor([[0, 2]]))
        0.5
    """
    scores, gold = read_batch(scores, labels)
    tuner = ThresholdTuner(scores.shape[1], max_cells=max(1, scores.numel()))
    tuner.update(scores, gold)
    return tuner.compute()["threshold"]


class ThresholdTuner(TrainerMetric):
    """Finds the threshold with the best micro-F1 in a stream of batches, in bounded memory.

    Up to `max_cells` probabilities are stored, and all are tried as thresholds. Beyond that, they are counted in a
    million bins (16 MB), each with a relative width of 2^-13 or 0.012 %, and the lower bounds of bins are tried. Then,

    - `tuned_micro_f1` is still the exact micro-F1 of `threshold`, as in `LabelMetrics`;
    - no other bound of a bin is better, though a threshold within a bin may be, by the effect of the cells in that bin.

    The result depends neither on the division into batches nor on the order of documents.

    Labels that are not candidates (logits of -inf or the minimum of the dtype) have probability 0 and are never
    predicted. If they are gold anyway, they count as false negatives, as in `LabelMetrics`.

    With a mask of seen labels, the threshold is tuned for seen labels only, because unseen labels are usually not gold
    in validation documents and would only count as false positives. If the documents have enough unseen gold labels
    (`tells_enough`), the unseen labels get a separate threshold.

    Use it in `compute_metrics` of `transformers.Trainer` with `batch_eval_metrics=True`, alone or with `LabelMetrics`:

        metrics, tuner = LabelMetrics(num_labels), ThresholdTuner(num_labels)

        def compute_metrics(batch, compute_result=True):
            return {**metrics(batch, compute_result), **tuner(batch, compute_result)}

    Args:
        num_labels: Number of labels L of every batch.
        max_cells: Number of stored probabilities (documents times labels), 8 bytes each.
        chunk_size: Number of documents processed together.
        seen: `(L,)` bool, True for labels seen in training; by default all labels are tuned together.

    Raises:
        ValueError: If a number is below 1, or `seen` is not a mask of the labels or selects none.

    Example:
        >>> import torch
        >>> tuner = ThresholdTuner(num_labels=3)
        >>> tuner.update(torch.tensor([[1.0, -1.0, 0.0]]), torch.tensor([[0, 2]]))
        >>> tuner.update(torch.tensor([[-3.0, -1.0, 0.5]]), torch.tensor([[1, -100]]))
        >>> tuner.compute()
        {'threshold': 0.2689, 'tuned_micro_f1': 0.75, 'threshold_resolution': 0.0}
    """

    def __init__(
        self,
        num_labels: int,
        max_cells: int = 1 << 22,
        chunk_size: int = 64,
        seen: Array | Sequence[bool] | None = None,
    ) -> None:
        for name, value in {"num_labels": num_labels, "max_cells": max_cells, "chunk_size": chunk_size}.items():
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self.num_labels = num_labels
        self.max_cells = max_cells
        self.chunk_size = chunk_size
        mask = torch.ones(num_labels, dtype=torch.bool) if seen is None else read_columns(seen, num_labels).cpu()
        self.columns = [group.nonzero().flatten() for group in (mask, ~mask)]
        self.unseen = ThresholdTuner(len(self.columns[1]), max_cells, chunk_size) if len(self.columns[1]) else None
        self.reset()

    def reset(self) -> None:
        """Discards all batches."""
        self.stored: list[tuple[IntArray, IntArray]] = []  # bits of all probabilities, and of those of gold labels
        self.counts: IntArray | None = None  # cells per bin, all and gold, instead of stored probabilities
        self.cells = self.gold = self.documents = self.gold_documents = 0
        if self.unseen is not None:
            self.unseen.reset()

    def update(self, scores: Array, labels: Array) -> None:
        """Adds a batch, or a whole dataset.

        Args:
            scores: `(N, L)` logits; -inf or the minimum of the dtype for labels that are not candidates.
            labels: `(N, P)` label indices padded with -100, or `(N, L)` multi-hot.

        Raises:
            ValueError: If scores and labels do not match; nothing is added then.
        """
        scores, gold = read_batch(scores, labels, self.num_labels)
        if self.unseen is not None:
            positions = torch.full((self.num_labels + 1,), IGNORE, device=gold.device)  # the last entry is for padding
            for tuner, columns in zip((self, self.unseen), self.columns, strict=True):
                members = columns.to(gold.device)
                positions.fill_(IGNORE)[members] = torch.arange(len(members), device=gold.device)
                tuner._count(scores[:, members], positions[gold.masked_fill(gold == IGNORE, -1)])
        else:
            self._count(scores, gold)

    def _count(self, scores: Tensor, gold: Tensor) -> None:
        for start in range(0, len(scores), self.chunk_size):
            columns = gold[start : start + self.chunk_size]
            probabilities = widened(scores[start : start + self.chunk_size]).sigmoid()
            at_gold = probabilities.gather(1, columns.clamp(min=0))[columns != IGNORE]
            self._add(_bits(probabilities), _bits(at_gold))
        self.gold += int((gold != IGNORE).sum())
        self.gold_documents += int((gold != IGNORE).any(1).sum())
        self.documents += len(gold)

    def compute(self) -> dict[str, float]:
        """Computes the best threshold.

        Returns:
            `threshold`, the highest among equally good thresholds; its `tuned_micro_f1`; `threshold_resolution`, 0.0 if
            all distinct probabilities were tried. With `seen`, these are for seen labels. The same keys with the prefix
            `unseen_` are for unseen labels, if the documents have enough of them; otherwise they share the threshold of
            seen labels.

        Raises:
            ValueError: If there are no documents yet, or no gold label has a positive probability.
        """
        require_documents(self.documents)
        if self.counts is None:
            # Between the probabilities of consecutive gold labels, a lower threshold only adds false positives.
            bits, gold_cells = np.unique(np.concatenate([gold for _, gold in self.stored]), return_counts=True)
            cells = np.zeros(len(bits), np.int64)
            for all_bits, _ in self.stored:
                cells += np.bincount(np.searchsorted(bits, all_bits, side="right"), minlength=len(bits) + 1)[1:]
        else:
            cells, gold_cells = self.counts
            bits = (np.arange(BINS) << DROPPED_BITS) + FIRST_BITS
        hits = gold_cells[::-1].cumsum()
        if not hits.any():
            raise ValueError(
                f"a threshold needs a gold label with a probability above zero, got none among {self.gold} gold labels "
                f"of {self.documents} documents; check the labels of the validation data"
            )
        micro_f1 = 2 * hits / (cells[::-1].cumsum() + self.gold)
        best = int(micro_f1.argmax())  # the first of the best
        result = {
            "threshold": float(bits[-1 - best].view(np.float64)),
            "tuned_micro_f1": float(micro_f1[best]),
            "threshold_resolution": 0.0 if self.counts is None else 2.0 ** (DROPPED_BITS - 52),
        }
        if self.unseen is not None and tells_enough(self.unseen.gold_documents, self.unseen.gold):
            result |= {f"unseen_{name}": value for name, value in self.unseen.compute().items()}
        return result

    def merge(self, other: "ThresholdTuner") -> None:
        """Adds the batches of another worker.

        Args:
            other: A tuner of the same labels. It is not changed.

        Raises:
            ValueError: If the labels differ; nothing is added then.
        """
        if self.num_labels != other.num_labels:
            raise ValueError(
                f"tuners can be merged only with the same labels, got {self.num_labels} and {other.num_labels}"
            )
        if not torch.equal(self.columns[0], other.columns[0]):
            raise ValueError("tuners can be merged only with the same seen labels, got different masks")
        if self.unseen is not None and other.unseen is not None:
            self.unseen.merge(other.unseen)
        if other.counts is not None:
            self._count_in_bins()[:] += other.counts
            self.cells += other.cells
        for all_bits, gold_bits in other.stored:
            self._add(all_bits, gold_bits)
        self.gold += other.gold
        self.gold_documents += other.gold_documents
        self.documents += other.documents

    def _add(self, all_bits: IntArray, gold_bits: IntArray) -> None:
        self.cells += len(all_bits)
        self.stored.append((all_bits, gold_bits))
        if self.counts is not None or self.cells > self.max_cells:
            self._count_in_bins()

    def _count_in_bins(self) -> IntArray:
        """Moves the stored probabilities to the counts, and returns these."""
        if self.counts is None:
            self.counts = np.zeros((2, BINS), np.int64)
        for pair in self.stored:
            for counts, bits in zip(self.counts, pair, strict=True):
                counts += np.bincount((bits - FIRST_BITS) >> DROPPED_BITS, minlength=BINS)
        self.stored.clear()
        return self.counts


def _bits(probabilities: Tensor) -> IntArray:
    """Returns the bits of probabilities of at least `MIN_THRESHOLD` as integers, which have the same order."""
    values = probabilities.cpu().double().numpy()  # first to the CPU, as not all accelerators support float64
    return values[values >= MIN_THRESHOLD].view(np.int64)
