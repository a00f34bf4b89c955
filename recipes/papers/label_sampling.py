"""Further ways to sample labels: for each document, by frequency, with weights of labels."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hf_gile.training import LabelSampler
from hf_gile.training.collator import FloatArray, IntArray


class UnitSampler(LabelSampler):
    """Samples the labels of a training step of a unit, see `LabelSampler`.

    - By frequency (`frequencies`): each label is drawn independently with probability `1 - exp(-c * frequency)`, where
      c is chosen for an expected number of `num_negatives` (Poisson sampling). Unbiased if weighted. Rare labels then
      have large weights, so use the square root of document counts.
    - `label_weights` change the loss to be estimated.

    Args:
        num_labels: As in `LabelSampler`.
        num_negatives: As in `LabelSampler`, per batch or per document.
        per_document: Whether to sample for each document, as in the paper, instead of once per batch. The step then
            scores the union, with zero weights for labels that a document did not draw.
        frequencies: `(L,)` relative sampling frequencies, such as the square root of document counts. Only those of
            `columns` are used. By default all labels are equally likely.
        label_weights: `(L,)` weights of labels in a loss that is a sum over labels, multiplied with the sampling
            weights. Labels that a `miner` adds have weight 1.
        options: Further arguments of `LabelSampler`.

    Raises:
        ValueError: As in `LabelSampler`; or frequencies or weights do not have a positive number for each label.
    """

    def __init__(
        self,
        num_labels: int,
        num_negatives: int | None = None,
        *,
        per_document: bool = False,
        frequencies: Sequence[float] | NDArray[Any] | None = None,
        label_weights: Sequence[float] | NDArray[Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(num_labels, num_negatives, **options)
        self.per_document = per_document
        self._rates: FloatArray | None = None
        if frequencies is not None and num_negatives is not None and 0 < num_negatives < len(self.columns):
            self._rates = _rates(self._positive_frequencies(frequencies), num_negatives)
            self._rates_below = np.cumsum(self._rates)
        self.label_weights = None if label_weights is None else _read_weights(label_weights, num_labels)

    def _positive_frequencies(self, frequencies: Sequence[float] | NDArray[Any]) -> FloatArray:
        """Checks frequencies, and returns those of `columns`."""
        array = np.asarray(frequencies, dtype=np.float64)
        if array.shape != (self.num_labels,):
            raise ValueError(
                f"frequencies must have shape ({self.num_labels},), a number for each label, got {array.shape}"
            )
        sampled = array[self.columns]
        wrong = self.columns[~(sampled > 0) | ~np.isfinite(sampled)]
        if len(wrong):
            raise ValueError(
                f"frequencies must be positive, got {array[wrong[0]]} for label {wrong[0]}: exclude labels without "
                "training documents from columns"
            )
        return sampled

    def __call__(self, gold: Sequence[Sequence[int]], batch_key: int = 0) -> tuple[Tensor, Tensor | None]:
        """Samples the labels of a training step, see the base class; with `per_document`, weights are `(B, C)`."""
        columns, weights = super().__call__(gold, batch_key)
        if self.label_weights is None:
            return columns, weights
        label_weights = self.label_weights[columns]
        return columns, label_weights if weights is None else weights * label_weights

    def sample(
        self, rng: np.random.Generator, gold: Sequence[IntArray], positives: IntArray
    ) -> tuple[IntArray, FloatArray | None]:
        """Samples labels for a batch or for each document, see the base class."""
        if not self.per_document:
            return super().sample(rng, gold, positives)
        draws = [self.draw(rng, np.unique(indices)) for indices in gold]
        columns = np.unique(np.concatenate([positives, *(sampled for sampled, _ in draws)]))
        weights = np.zeros((len(gold), len(columns)))
        for row, (indices, (sampled, draw_weights)) in enumerate(zip(gold, draws, strict=True)):
            weights[row, np.searchsorted(columns, sampled)] = draw_weights if self.weighted else 1.0
            weights[row, np.searchsorted(columns, indices)] = 1.0
        return columns, weights

    def draw(self, rng: np.random.Generator, gold: IntArray) -> tuple[IntArray, FloatArray]:
        """Draws labels uniformly or by frequency, see the base class."""
        if self._rates is None:
            return super().draw(rng, gold)
        # Points of a Poisson process are assigned to labels; labels with points are drawn. This draws labels
        # independently, in a time that does not depend on their number.
        total = self._rates_below[-1]
        points = np.searchsorted(self._rates_below, total * rng.random(rng.poisson(total)), side="right")
        positions = np.unique(np.minimum(points, len(self.columns) - 1))
        drawn = self.columns[positions]
        others = ~np.isin(drawn, gold)
        return drawn[others], 1 / -np.expm1(-self._rates[positions[others]])


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


def _read_weights(weights: Sequence[float] | NDArray[Any], num_labels: int) -> Tensor:
    """Checks label weights, and returns them as `(L,)` float32."""
    array = np.asarray(weights, dtype=np.float32)
    if array.shape != (num_labels,):
        raise ValueError(f"label_weights must have shape ({num_labels},), a number for each label, got {array.shape}")
    wrong = np.flatnonzero(~(array >= 0) | ~np.isfinite(array))
    if len(wrong):
        raise ValueError(f"label_weights must be finite and not negative, got {array[wrong[0]]} for label {wrong[0]}")
    return torch.from_numpy(array.copy())
