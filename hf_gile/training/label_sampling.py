"""Samples the labels that a training step scores (section 3.4 of GILE, Eq. 17)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class LabelSampler:
    """Samples the labels of a training step: all gold labels of the batch, and negatives.

    With `weighted=True`, each sampled label is weighted by the inverse of its sampling probability (Horvitz & Thompson,
    1952). A loss that is a sum over labels, such as binary cross-entropy, is then an unbiased estimate of the loss over
    all `columns`, and probabilities are meaningful. Without weights it is Eq. 17 of the paper as printed, which sees
    too few negatives and therefore learns probabilities that are too high. The kinds of sampling are:

    - uniform, as in the paper: `num_negatives` other labels with equal probability. Unbiased if weighted.
    - in-batch (`num_negatives=0`): only the gold labels of the batch. Biased, also with weights, because labels without
      documents in the batch are never negatives. A rare label occurs in a batch of B about once per document, and
      learns a prior of 1 / B: probabilities are too high, especially those of rare labels.

    `recipes/papers` has further kinds: for each document, by frequency, with weights of labels, and hard negatives.

    A draw depends only on the seed, the epoch and the batch, so training is reproducible when resumed or with other
    numbers of data loading processes. `EpochCallback` sets the epoch; without it, a repeated batch repeats its draw,
    which matters for batches with a single document and data that is not shuffled.

    The time of a draw does not depend on the number of labels.

    Args:
        num_labels: Number L of stored labels.
        num_negatives: Number of labels sampled per batch; 0 uses gold labels only, None all labels.
        columns: Indices of labels to sample from, such as those of seen labels; by default all. Gold labels of the
            batch are always added.
        weighted: Whether to weight sampled labels by inverse probability.
        seed: Seed of the draws.

    Raises:
        ValueError: If a number is negative, or `columns` are out of range, repeated or missing.

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
        weighted: bool = True,
        seed: int = 0,
    ) -> None:
        if not hasattr(num_labels, "__index__"):
            raise ValueError(f"num_labels must be a whole number, such as len(label_set), got {num_labels!r:.100}")
        if num_negatives is not None and num_negatives < 0:
            raise ValueError(f"num_negatives must not be negative, or None for all labels, got {num_negatives}")
        listed = np.arange(num_labels) if columns is None else np.asarray(columns, dtype=np.int64)
        self.columns = np.unique(listed)
        if len(self.columns) != len(listed) or not len(listed):
            raise ValueError(
                f"columns must be distinct labels to sample from, got {len(listed)}: {listed[:8].tolist()}"
            )
        _check_range("columns has", self.columns, num_labels)
        self._sampled_from = np.zeros(num_labels, dtype=bool)
        self._sampled_from[self.columns] = True
        self.num_labels = num_labels
        self.num_negatives = num_negatives
        self.weighted = weighted
        self.seed = seed
        # Shared memory, so that persistent workers of a DataLoader see the next epoch.
        self._epoch = torch.zeros(1, dtype=torch.long).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch, so that batches get new draws."""
        self._epoch[0] = epoch

    def __call__(self, gold: Sequence[Sequence[int]], batch_key: int = 0) -> tuple[Tensor, Tensor | None]:
        """Samples the labels of a training step.

        Args:
            gold: Gold label indices of each of B documents.
            batch_key: A hash of the batch, for the seed.

        Returns:
            `(C,)` ascending label indices, and their `(C,)` weights, or None for unit weights.

        Raises:
            ValueError: If a gold label index is out of range.
        """
        indices = [np.asarray(columns, dtype=np.int64) for columns in gold]
        positives = np.unique(np.concatenate(indices))
        _check_range("gold label", positives, self.num_labels)
        if self.num_negatives is None:
            added = positives[~self._sampled_from[positives]]
            columns = np.insert(self.columns, np.searchsorted(self.columns, added), added)
            return torch.from_numpy(columns), None
        rng = np.random.default_rng([self.seed, int(self._epoch), batch_key])
        columns, weights = self.sample(rng, indices, positives)
        return torch.from_numpy(columns), None if weights is None else torch.from_numpy(weights).float()

    def sample(
        self, rng: np.random.Generator, gold: Sequence[IntArray], positives: IntArray
    ) -> tuple[IntArray, FloatArray | None]:
        """Samples labels for a batch.

        Args:
            rng: The source of random numbers.
            gold: Gold label indices of each document.
            positives: All of these, ascending.

        Returns:
            `(C,)` ascending label indices, and their weights as in `__call__`.
        """
        sampled, draw_weights = self.draw(rng, positives)
        columns = np.union1d(positives, sampled)
        if not self.weighted or bool((draw_weights == 1.0).all()):
            return columns, None
        weights = np.ones(len(columns))
        weights[np.searchsorted(columns, sampled)] = draw_weights
        return columns, weights

    def draw(self, rng: np.random.Generator, gold: IntArray) -> tuple[IntArray, FloatArray]:
        """Draws labels that are not gold, and their weights.

        Args:
            rng: The source of random numbers.
            gold: Gold label indices, ascending.
        """
        num_others = len(self.columns) - int(self._sampled_from[gold].sum())
        size = min(self.num_negatives or 0, num_others)
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
            drawn = drawn[~np.isin(drawn, gold)]
        return drawn[:size], draw_weights


def _check_range(name: str, ascending: IntArray, num_labels: int) -> None:
    wrong = ascending[(ascending < 0) | (ascending >= num_labels)]
    if len(wrong):
        raise ValueError(f"{name} {wrong[0]}, but there are {num_labels} labels (0 to {num_labels - 1})")


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
