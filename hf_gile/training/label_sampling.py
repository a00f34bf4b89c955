"""Label sampling: which columns a training step scores (section 3.4 of GILE, Eq. 17)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

IntArray = NDArray[np.int64]


class LabelSampler:
    """Chooses the columns of a training step: all gold labels of the batch, and sampled others.

    With `weighted=True` each sampled column stands for those left out, and the loss over the sample is an unbiased
    estimate of the loss over all `columns`: probabilities keep their meaning. Without weights it is Eq. 17 of the
    paper as printed, which sees fewer negatives than there are and so learns probabilities that are too high.

    The draw is a function of the seed, the epoch and the batch alone, so a training that is resumed, or that loads its
    data in other processes, draws the same. `EpochCallback` tells the sampler the epoch; without it, a batch that comes
    again draws what it drew before, which matters for batches of one document and data that is not shuffled.

    Args:
        num_labels: Number L of stored labels.
        num_negatives: Columns sampled, for the batch or for each document; None takes all.
        columns: The columns to sample from, such as those of the seen labels; all by default. Gold labels of the
            batch are always added.
        per_document: Sample for each document on its own, as the paper does, instead of once for the batch. The
            step then scores the union, with zero weight where a document did not draw a column.
        weighted: Whether to weight sampled columns up to the full set.
        seed: Seed of the draws.

    Raises:
        ValueError: A number below one, or columns that are out of range, repeated or missing.

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
        seed: int = 0,
    ) -> None:
        if num_negatives is not None and num_negatives < 1:
            raise ValueError(f"num_negatives must be at least 1, or None for all labels, got {num_negatives}")
        self.columns = np.arange(num_labels) if columns is None else np.unique(np.asarray(columns, dtype=np.int64))
        if columns is not None:
            if len(self.columns) != len(columns):
                raise ValueError(f"columns holds {len(columns) - len(self.columns)} columns twice")
            if len(self.columns) == 0:
                raise ValueError("columns is empty; there must be labels to sample from")
            if self.columns[0] < 0 or self.columns[-1] >= num_labels:
                wrong = self.columns[0] if self.columns[0] < 0 else self.columns[-1]
                raise ValueError(f"columns holds {wrong}, but there are {num_labels} labels (0 to {num_labels - 1})")
        self._sampled_from = np.zeros(num_labels, dtype=bool)
        self._sampled_from[self.columns] = True
        self.num_labels = num_labels
        self.num_negatives = num_negatives
        self.per_document = per_document
        self.weighted = weighted
        self.seed = seed
        # Shared memory: workers of a DataLoader that outlive an epoch see the next one.
        self._epoch = torch.zeros(1, dtype=torch.long).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        """Makes the batches of another epoch draw anew."""
        self._epoch[0] = epoch

    def __call__(self, gold: Sequence[Sequence[int]], batch_key: int = 0) -> tuple[Tensor, Tensor | None]:
        """Samples the columns of one step.

        Args:
            gold: For each of B documents its gold columns.
            batch_key: A number made of the batch's contents, for the seed.

        Returns:
            `(C,)` ascending columns, and their weights: `(C,)`, or `(B, C)` with `per_document`, or None where every
            column stands for itself.

        Raises:
            ValueError: A gold column is out of range.
        """
        golds = [np.unique(np.asarray(columns, dtype=np.int64)) for columns in gold]
        positives = np.unique(np.concatenate(golds))
        wrong = positives[(positives < 0) | (positives >= self.num_labels)]
        if len(wrong):
            raise ValueError(
                f"gold column {wrong[0]}, but there are {self.num_labels} labels (0 to {self.num_labels - 1})"
            )
        if self.num_negatives is None:
            return torch.from_numpy(np.union1d(positives, self.columns)), None
        rng = np.random.default_rng([self.seed, int(self._epoch), batch_key])
        if not self.per_document:
            sampled, weight = self._draw(rng, positives)
            columns = np.union1d(positives, sampled)
            if not self.weighted or weight == 1.0:
                return torch.from_numpy(columns), None
            weights = np.full(len(columns), weight, dtype=np.float32)
            weights[np.searchsorted(columns, positives)] = 1.0
            return torch.from_numpy(columns), torch.from_numpy(weights)
        draws = [self._draw(rng, own) for own in golds]
        columns = np.unique(np.concatenate([positives, *(sampled for sampled, _ in draws)]))
        weights = np.zeros((len(golds), len(columns)), dtype=np.float32)
        for row, (own, (sampled, weight)) in enumerate(zip(golds, draws, strict=True)):
            weights[row, np.searchsorted(columns, sampled)] = weight if self.weighted else 1.0
            weights[row, np.searchsorted(columns, own)] = 1.0
        return torch.from_numpy(columns), torch.from_numpy(weights)

    def _draw(self, rng: np.random.Generator, gold: IntArray) -> tuple[IntArray, float]:
        """Columns that are not gold, and how many each one stands for."""
        assert self.num_negatives is not None
        others = len(self.columns) - int(self._sampled_from[gold].sum())
        size = min(self.num_negatives, others)
        weight = others / max(size, 1)
        if 4 * (size + len(gold)) > len(self.columns):
            left = self._sampled_from.copy()
            left[gold] = False
            return rng.choice(np.flatnonzero(left), size, replace=False), weight
        # Few out of many: drawing one by one and leaving out what was drawn before is as uniform, and does not walk
        # through all columns for each document.
        drawn = np.empty(0, dtype=np.int64)
        while len(drawn) < size:
            drawn = np.concatenate([drawn, self.columns[rng.integers(len(self.columns), size=2 * size)]])
            first = np.sort(np.unique(drawn, return_index=True)[1])
            drawn = drawn[first]
            drawn = drawn[~np.isin(drawn, gold)]
        return drawn[:size], weight


class EpochCallback(TrainerCallback):
    """Tells those who draw by epoch which one it is: a `LabelSampler`, a `MultilingualDataset`.

    Args:
        drawers: What has a `set_epoch` method.
    """

    def __init__(self, *drawers: Any) -> None:
        self.drawers = drawers

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Called before the batches of the epoch are made; in a resumed epoch too."""
        for drawer in self.drawers:
            drawer.set_epoch(int(state.epoch or 0))
