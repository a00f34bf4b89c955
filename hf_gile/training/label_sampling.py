"""Label sampling: which columns a training step scores (section 3.4 of GILE, Eq. 17)."""

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
    """Chooses the columns of a training step: all gold labels of the batch, and sampled others.

    With `weighted=True` each sampled column counts as one over the probability that it was drawn (Horvitz & Thompson,
    1952), and the loss over the sample, if it is a sum over labels as binary cross-entropy is, is an unbiased estimate
    of the loss over all `columns`: probabilities keep their meaning. Without weights it is Eq. 17 of the paper as
    printed, which sees fewer negatives than there are and so learns probabilities that are too high. The kinds of
    sampling:

    - uniform, the paper's: `num_negatives` of the others, each as likely. Unbiased if weighted.
    - by frequency (`frequencies`): each column is drawn on its own with probability `1 - exp(-c * frequency)`, where c
      makes `num_negatives` the number expected (Poisson sampling, so the number varies). Unbiased if weighted. Rare
      labels then have large weights: take the square root of the labels' documents rather than the documents.
    - in-batch (`num_negatives=0`): the gold labels of the batch and no others. Biased, and no weight corrects it: the
      labels of no document of the batch are never pushed down. A label that few documents have stands in a batch of B
      about once for each of them, and learns a prior of 1 / B, however rare it is: probabilities are too high, and
      most so those of rare labels.
    - hard: `HardNegatives` adds them in the model, to what was sampled here.

    The draw is a function of the seed, the epoch and the batch alone, so a training that is resumed, or that loads its
    data in other processes, draws the same. `EpochCallback` tells the sampler the epoch; without it, a batch that comes
    again draws what it drew before, which matters for batches of one document and data that is not shuffled.

    The time of a draw does not depend on the number of labels.

    `label_weights` are of labels and not of the draw, and change what is estimated, as the `positive_weights` of a
    `GileLoss` do. `hf_gile.training.class_balanced_weights` makes them of the labels' numbers of documents.

    Args:
        num_labels: Number L of stored labels.
        num_negatives: Columns sampled, for the batch or for each document; 0 adds none to the gold labels, None takes
            all.
        columns: The columns to sample from, such as those of the seen labels; all by default. Gold labels of the
            batch are always added.
        per_document: Sample for each document on its own, as the paper does, instead of once for the batch. The
            step then scores the union, with zero weight where a document did not draw a column.
        weighted: Whether to weight sampled columns up to the full set.
        frequencies: `(L,)` how often each label is drawn beside the others, such as the square root of the number of
            its documents. Only those of `columns` are read. By default all are drawn alike.
        seed: Seed of the draws.
        label_weights: `(L,)` what each label counts in a loss that is a sum over labels, gold or sampled: the weight of
            a column is multiplied by it. Columns that `HardNegatives` mines count 1.

    Raises:
        ValueError: A negative number, columns that are out of range, repeated or missing, frequencies that are not
            one positive number for each label, or weights that are not one number from 0 on for each label.

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
            raise ValueError(f"num_negatives must not be negative, and None takes all labels, got {num_negatives}")
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
        self._rates: FloatArray | None = None
        if frequencies is not None and num_negatives is not None and 0 < num_negatives < len(self.columns):
            self._rates = _rates(self._own(frequencies, num_labels), num_negatives)
            self._rates_below = np.cumsum(self._rates)
        self.label_weights = None if label_weights is None else read_weights("label_weights", label_weights, num_labels)
        self.num_labels = num_labels
        self.num_negatives = num_negatives
        self.per_document = per_document
        self.weighted = weighted
        self.seed = seed
        # Shared memory: workers of a DataLoader that outlive an epoch see the next one.
        self._epoch = torch.zeros(1, dtype=torch.long).share_memory_()

    def _own(self, frequencies: Sequence[float] | NDArray[Any], num_labels: int) -> FloatArray:
        """The frequencies of `columns`."""
        given = np.asarray(frequencies, dtype=np.float64)
        if given.shape != (num_labels,):
            raise ValueError(f"frequencies must have shape ({num_labels},), one for each label, got {given.shape}")
        own = given[self.columns]
        wrong = self.columns[~(own > 0) | ~np.isfinite(own)]
        if len(wrong):
            raise ValueError(
                f"frequencies must be positive, got {given[wrong[0]]} for column {wrong[0]}: what is never drawn "
                "cannot be weighted for; leave the labels without training documents out of columns"
            )
        return own

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
        columns, weights = self._sample(gold, batch_key)
        if self.label_weights is None:
            return columns, weights
        own = self.label_weights[columns]
        return columns, own if weights is None else weights * own

    def _sample(self, gold: Sequence[Sequence[int]], batch_key: int) -> tuple[Tensor, Tensor | None]:
        golds = [np.asarray(columns, dtype=np.int64) for columns in gold]
        positives = np.unique(np.concatenate(golds))
        wrong = positives[(positives < 0) | (positives >= self.num_labels)]
        if len(wrong):
            raise ValueError(
                f"gold column {wrong[0]}, but there are {self.num_labels} labels (0 to {self.num_labels - 1})"
            )
        if self.num_negatives is None:
            added = positives[~self._sampled_from[positives]]
            columns = self.columns
            if len(added):
                columns = np.insert(columns, np.searchsorted(columns, added), added)
            return torch.from_numpy(columns), None
        rng = np.random.default_rng([self.seed, int(self._epoch), batch_key])
        if not self.per_document:
            sampled, counted = self._draw(rng, positives)
            columns = np.union1d(positives, sampled)
            if not self.weighted or bool((counted == 1.0).all()):
                return torch.from_numpy(columns), None
            weights = np.ones(len(columns), dtype=np.float32)
            weights[np.searchsorted(columns, sampled)] = counted
            return torch.from_numpy(columns), torch.from_numpy(weights)
        draws = [self._draw(rng, np.unique(own)) for own in golds]
        columns = np.unique(np.concatenate([positives, *(sampled for sampled, _ in draws)]))
        weights = np.zeros((len(golds), len(columns)), dtype=np.float32)
        for row, (own, (sampled, counted)) in enumerate(zip(golds, draws, strict=True)):
            weights[row, np.searchsorted(columns, sampled)] = counted if self.weighted else 1.0
            weights[row, np.searchsorted(columns, own)] = 1.0
        return torch.from_numpy(columns), torch.from_numpy(weights)

    def _draw(self, rng: np.random.Generator, gold: IntArray) -> tuple[IntArray, FloatArray]:
        """Columns that are not gold, which is ascending, and how many each one stands for."""
        assert self.num_negatives is not None
        if self._rates is not None:
            # As many points as a Poisson process has, each on a column: what has one or more is drawn. Columns are so
            # drawn independently of each other, in a time that does not depend on how many there are.
            total = self._rates_below[-1]
            points = np.searchsorted(self._rates_below, total * rng.random(rng.poisson(total)), side="right")
            places = np.unique(np.minimum(points, len(self.columns) - 1))
            drawn = self.columns[places]
            others = ~_is_in(drawn, gold)
            return drawn[others], 1 / -np.expm1(-self._rates[places[others]])
        left_out = len(self.columns) - int(self._sampled_from[gold].sum())
        size = min(self.num_negatives, left_out)
        counted = np.full(size, left_out / max(size, 1))
        if 4 * (size + len(gold)) > len(self.columns):
            left = self._sampled_from.copy()
            left[gold] = False
            return rng.choice(np.flatnonzero(left), size, replace=False), counted
        # Few out of many: drawing one by one and leaving out what was drawn before is as uniform, and does not walk
        # through all columns for each document.
        drawn = np.empty(0, dtype=np.int64)
        while len(drawn) < size:
            drawn = np.concatenate([drawn, self.columns[rng.integers(len(self.columns), size=2 * size)]])
            drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
            drawn = drawn[~_is_in(drawn, gold)]
        return drawn[:size], counted


def read_weights(name: str, weights: Sequence[float] | NDArray[Any], num_labels: int | None = None) -> Tensor:
    """Reads a weight of each label.

    Args:
        name: What the weights are called.
        weights: `(L,)` finite numbers from 0 on.
        num_labels: Number L of labels, where it is known.

    Returns:
        `(L,)` float32.

    Raises:
        ValueError: They are not.
    """
    given = np.asarray(weights, dtype=np.float32)
    if given.shape != ((len(given) if given.ndim else 1) if num_labels is None else num_labels,):
        expected = "(L,)" if num_labels is None else f"({num_labels},)"
        raise ValueError(f"{name} must have shape {expected}, one for each label, got {given.shape}")
    wrong = np.flatnonzero(~(given >= 0) | ~np.isfinite(given))
    if len(wrong):
        raise ValueError(f"{name} must be finite and not negative, got {given[wrong[0]]} for column {wrong[0]}")
    return torch.from_numpy(given.copy())


def _is_in(columns: IntArray, ascending: IntArray) -> NDArray[np.bool_]:
    if len(ascending) == 0:
        return np.zeros(len(columns), dtype=bool)
    places = np.searchsorted(ascending, columns)
    return ascending[np.minimum(places, len(ascending) - 1)] == columns


def _rates(frequencies: FloatArray, expected: int) -> FloatArray:
    """Rates r = c * frequency such that the 1 - exp(-r) have a given sum, below their number."""
    relative = frequencies / frequencies.sum()
    scale = float(expected)  # a lower bound, as 1 - exp(-r) < r; from below, Newton's method rises to the root
    for _ in range(1000):
        missing = np.exp(-scale * relative)
        step = (expected - (1 - missing).sum()) / (relative * missing).sum()
        scale += step
        if step <= 1e-9 * scale:
            break
    # A column that is drawn in all but one of 20,000 steps needs no more points.
    return np.minimum(scale * relative, 10.0)


class EpochCallback(TrainerCallback):
    """Tells those who draw by epoch which one it is: a `LabelSampler`, a `MultilingualDataset`.

    Args:
        drawers: What has a `set_epoch` method.
    """

    def __init__(self, *drawers: Any) -> None:
        self.drawers = drawers
        self.next_epoch = 0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Starts at the first epoch, or at the one that is resumed."""
        self.next_epoch = int(state.epoch or 0)

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Sets the epoch, before its batches are made."""
        # Counted here: for a stream of unknown length, state.epoch says how much of max_steps is done.
        for drawer in self.drawers:
            drawer.set_epoch(self.next_epoch)
        self.next_epoch += 1
