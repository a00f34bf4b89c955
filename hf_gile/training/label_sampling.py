"""Samples the labels that a training step scores (section 3.4 of GILE, Eq. 17)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from .weighted_losses import read_weights

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class LabelSampler:
    """Samples the labels of a training step: all gold labels of the batch, and negatives.

    With `weighted=True`, each sampled label is weighted by the inverse of its sampling probability (Horvitz & Thompson,
    1952). A loss that is a sum over labels, such as binary cross-entropy, is then an unbiased estimate of the loss over
    all `columns`, and probabilities are meaningful. Without weights it is Eq. 17 of the paper as printed, which sees
    too few negatives and therefore learns probabilities that are too high. The kinds of sampling are:

    - uniform, as in the paper: `num_negatives` other labels with equal probability. Unbiased if weighted.
    - by frequency (`frequencies`): each label is drawn independently with probability `1 - exp(-c * frequency)`, where
      c is chosen for an expected number of `num_negatives` (Poisson sampling). Unbiased if weighted. Rare labels then
      have large weights, so use the square root of document counts.
    - in-batch (`num_negatives=0`): only the gold labels of the batch. Biased, also with weights, because labels without
      documents in the batch are never negatives. A rare label occurs in a batch of B about once per document, and
      learns a prior of 1 / B: probabilities are too high, especially those of rare labels.
    - hard: the `miner` of a `GileLoss` adds labels to those sampled here.

    A draw depends only on the seed, the epoch and the batch, so training is reproducible when resumed or with other
    numbers of data loading processes. `EpochCallback` sets the epoch; without it, a repeated batch repeats its draw,
    which matters for batches with a single document and data that is not shuffled.

    The time of a draw does not depend on the number of labels.

    `label_weights` change the loss to be estimated, like the `positive_weights` of a `GileLoss`.

    Args:
        num_labels: Number L of stored labels.
        num_negatives: Number of labels sampled per batch or per document; 0 uses gold labels only, None all labels.
        columns: Indices of labels to sample from, such as those of seen labels; by default all. Gold labels of the
            batch are always added.
        per_document: Whether to sample for each document, as in the paper, instead of once per batch. The step then
            scores the union, with zero weights for labels that a document did not draw.
        weighted: Whether to weight sampled labels by inverse probability.
        frequencies: `(L,)` relative sampling frequencies, such as the square root of document counts. Only those of
            `columns` are used. By default all labels are equally likely.
        seed: Seed of the draws.
        label_weights: `(L,)` weights of labels in a loss that is a sum over labels, multiplied with the sampling
            weights. Labels that a `miner` adds have weight 1.

    Raises:
        ValueError: If a number is negative, `columns` are out of range, repeated or missing, or frequencies or weights
            do not have a positive number for each label.

    Example:
        >>> sampler = LabelSampler(num_labels=1000, num_negatives=4)
        >>> columns, weights = sampler([[7, 3], [7]])
        >>> len(columns), weights[columns == 7], weights.sum()
        (6, tensor([1.]), tensor(1000.))
    """

    def __init__(
        self,
        num_labels: int,
        num_negatives: int | None = None,
        columns: Sequence[int] | None = None,
        per_document: bool = False,
        weighted: bool = True,
        frequencies: Sequence[float] | NDArray[Any] | None = None,
        seed: int = 0,
        label_weights: Sequence[float] | NDArray[Any] | None = None,
    ) -> None:
        if not hasattr(num_labels, "__index__"):
            raise ValueError(f"num_labels must be a whole number, such as len(label_set), got {num_labels!r:.100}")
        if num_negatives is not None and num_negatives < 0:
            raise ValueError(f"num_negatives must not be negative, or None for all labels, got {num_negatives}")
        self.columns = np.arange(num_labels) if columns is None else np.unique(np.asarray(columns, dtype=np.int64))
        if columns is not None:
            if len(self.columns) != len(columns):
                raise ValueError(f"columns has {len(columns) - len(self.columns)} repeated label indices")
            if len(self.columns) == 0:
                raise ValueError("columns is empty; pass labels to sample from")
            if self.columns[0] < 0 or self.columns[-1] >= num_labels:
                wrong = self.columns[0] if self.columns[0] < 0 else self.columns[-1]
                raise ValueError(f"columns has {wrong}, but there are {num_labels} labels (0 to {num_labels - 1})")
        self._sampled_from = np.zeros(num_labels, dtype=bool)
        self._sampled_from[self.columns] = True
        self._rates: FloatArray | None = None
        if frequencies is not None and num_negatives is not None and 0 < num_negatives < len(self.columns):
            self._rates = _rates(self._positive_frequencies(frequencies, num_labels), num_negatives)
            self._rates_below = np.cumsum(self._rates)
        self.label_weights = None if label_weights is None else read_weights("label_weights", label_weights, num_labels)
        self.num_labels = num_labels
        self.num_negatives = num_negatives
        self.per_document = per_document
        self.weighted = weighted
        self.seed = seed
        # Shared memory, so that persistent workers of a DataLoader see the next epoch.
        self._epoch = torch.zeros(1, dtype=torch.long).share_memory_()

    def _positive_frequencies(self, frequencies: Sequence[float] | NDArray[Any], num_labels: int) -> FloatArray:
        """Checks frequencies, and returns those of `columns`."""
        array = np.asarray(frequencies, dtype=np.float64)
        if array.shape != (num_labels,):
            raise ValueError(f"frequencies must have shape ({num_labels},), a number for each label, got {array.shape}")
        sampled = array[self.columns]
        wrong = self.columns[~(sampled > 0) | ~np.isfinite(sampled)]
        if len(wrong):
            raise ValueError(
                f"frequencies must be positive, got {array[wrong[0]]} for label {wrong[0]}: exclude labels without "
                "training documents from columns"
            )
        return sampled

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch, so that batches get new draws."""
        self._epoch[0] = epoch

    def __call__(self, gold: Sequence[Sequence[int]], batch_key: int = 0) -> tuple[Tensor, Tensor | None]:
        """Samples the labels of a training step.

        Args:
            gold: Gold label indices of each of B documents.
            batch_key: A hash of the batch, for the seed.

        Returns:
            `(C,)` ascending label indices, and their weights: `(C,)`, or `(B, C)` with `per_document`, or None for unit
            weights.

        Raises:
            ValueError: If a gold label index is out of range.
        """
        columns, weights = self._sample(gold, batch_key)
        if self.label_weights is None:
            return columns, weights
        label_weights = self.label_weights[columns]
        return columns, label_weights if weights is None else weights * label_weights

    def _sample(self, gold: Sequence[Sequence[int]], batch_key: int) -> tuple[Tensor, Tensor | None]:
        gold_indices = [np.asarray(columns, dtype=np.int64) for columns in gold]
        positives = np.unique(np.concatenate(gold_indices))
        wrong = positives[(positives < 0) | (positives >= self.num_labels)]
        if len(wrong):
            raise ValueError(
                f"gold label {wrong[0]}, but there are {self.num_labels} labels (0 to {self.num_labels - 1})"
            )
        if self.num_negatives is None:
            added = positives[~self._sampled_from[positives]]
            columns = self.columns
            if len(added):
                columns = np.insert(columns, np.searchsorted(columns, added), added)
            return torch.from_numpy(columns), None
        rng = np.random.default_rng([self.seed, int(self._epoch), batch_key])
        if not self.per_document:
            sampled, draw_weights = self._draw(rng, positives)
            columns = np.union1d(positives, sampled)
            if not self.weighted or bool((draw_weights == 1.0).all()):
                return torch.from_numpy(columns), None
            weights = np.ones(len(columns), dtype=np.float32)
            weights[np.searchsorted(columns, sampled)] = draw_weights
            return torch.from_numpy(columns), torch.from_numpy(weights)
        draws = [self._draw(rng, np.unique(indices)) for indices in gold_indices]
        columns = np.unique(np.concatenate([positives, *(sampled for sampled, _ in draws)]))
        weights = np.zeros((len(gold_indices), len(columns)), dtype=np.float32)
        for row, (indices, (sampled, draw_weights)) in enumerate(zip(gold_indices, draws, strict=True)):
            weights[row, np.searchsorted(columns, sampled)] = draw_weights if self.weighted else 1.0
            weights[row, np.searchsorted(columns, indices)] = 1.0
        return torch.from_numpy(columns), torch.from_numpy(weights)

    def _draw(self, rng: np.random.Generator, gold: IntArray) -> tuple[IntArray, FloatArray]:
        """Draws labels that are not gold (ascending), and their weights."""
        assert self.num_negatives is not None
        if self._rates is not None:
            # Points of a Poisson process are assigned to labels; labels with points are drawn. This draws labels
            # independently, in a time that does not depend on their number.
            total = self._rates_below[-1]
            points = np.searchsorted(self._rates_below, total * rng.random(rng.poisson(total)), side="right")
            positions = np.unique(np.minimum(points, len(self.columns) - 1))
            drawn = self.columns[positions]
            others = ~_is_in(drawn, gold)
            return drawn[others], 1 / -np.expm1(-self._rates[positions[others]])
        num_others = len(self.columns) - int(self._sampled_from[gold].sum())
        size = min(self.num_negatives, num_others)
        draw_weights = np.full(size, num_others / max(size, 1))
        if 4 * (size + len(gold)) > len(self.columns):
            remaining = self._sampled_from.copy()
            remaining[gold] = False
            return rng.choice(np.flatnonzero(remaining), size, replace=False), draw_weights
        # Few out of many: drawing with rejection of repetitions is also uniform, and does not iterate over all
        # labels for each document.
        drawn = np.empty(0, dtype=np.int64)
        while len(drawn) < size:
            drawn = np.concatenate([drawn, self.columns[rng.integers(len(self.columns), size=2 * size)]])
            drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
            drawn = drawn[~_is_in(drawn, gold)]
        return drawn[:size], draw_weights


def _is_in(columns: IntArray, ascending: IntArray) -> NDArray[np.bool_]:
    """Returns whether each label index is in an ascending list."""
    if len(ascending) == 0:
        return np.zeros(len(columns), dtype=bool)
    positions = np.searchsorted(ascending, columns)
    return ascending[np.minimum(positions, len(ascending) - 1)] == columns


def _rates(frequencies: FloatArray, expected: int) -> FloatArray:
    """Computes rates r = c * frequency such that the 1 - exp(-r) sum to an expected number."""
    relative = frequencies / frequencies.sum()
    scale = float(expected)  # a lower bound, as 1 - exp(-r) < r; from below, Newton's method rises to the root
    for _ in range(1000):
        not_drawn = np.exp(-scale * relative)
        step = (expected - (1 - not_drawn).sum()) / (relative * not_drawn).sum()
        scale += step
        if step <= 1e-9 * scale:
            break
    # At a rate of 10, a label is drawn in 19,999 of 20,000 steps, so higher rates are not needed.
    return np.minimum(scale * relative, 10.0)


class EpochCallback(TrainerCallback):
    """Sets the epoch of objects with random draws: a `LabelSampler`, a dataset in a drawn order.

    Args:
        drawers: Objects with a `set_epoch` method.
    """

    def __init__(self, *drawers: Any) -> None:
        self.drawers = drawers
        self.next_epoch = 0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Starts at the first epoch, or at the resumed epoch."""
        self.next_epoch = int(state.epoch or 0)

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Sets the epoch before its batches are created."""
        # Counted here, since state.epoch is a fraction of max_steps for streams of unknown length.
        for drawer in self.drawers:
            drawer.set_epoch(self.next_epoch)
        self.next_epoch += 1
