"""Raises the scores of unseen labels, so that some of them reach the top of a ranking shared with seen labels.

By likelihood alone, unseen labels rank low: each is less probable than a seen label, and its score is less certain.

Shapes: N documents, B documents in the batch, C candidate labels, P gold labels of a document, K stored scores.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from ...models.losses_gile import IGNORE, widened

_LOST, _STEP, _MAX_STEPS = 0.03, 0.25, 16
"""Allowed relative loss in average precision, step of the raise, and maximum number of steps."""

_CENTRE = -1.386
"""Calibrated logit of a probability of 0.2: labels below are raised."""

_STORED, _MAX_STORED = 1024, 1 << 24
"""Best scores of each group stored for a document, and at most for all documents; later documents are ignored."""

Map = Callable[[Tensor], Tensor]


def _identity(logits: Tensor) -> Tensor:
    return logits


class SharedRanking:
    """The ranking of seen and unseen labels of documents, for any raise of the unseen ones.

    Labels of the other group with an equal score count as ranked higher.

    Example:
        >>> ranking = SharedRanking()
        >>> ranking.update(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([[0, 2]]), torch.tensor([True, True, False]))
        >>> round(ranking.average_precision(), 2), ranking.average_precision(unseen=lambda logits: logits + 1.5)
        (0.83, 1.0)
    """

    def __init__(self) -> None:
        self._batches: list[tuple[Tensor, ...]] = []
        self._left = _MAX_STORED // _STORED

    def collect(self, documents: Iterable[tuple[Tensor, Tensor]], seen: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Adds batches of documents by `update`, and yields them unchanged."""
        for logits, gold in documents:
            self.update(logits, gold, seen)
            yield logits, gold

    def update(self, logits: Tensor, gold: Tensor, seen: Tensor) -> None:
        """Adds a batch.

        Args:
            logits: `(B, C)` logits; minus infinity for labels that are not ranked.
            gold: `(B, P)` indices of gold labels, padded with -100.
            seen: `(C,)` booleans, whether each candidate label is seen.
        """
        with_gold = (gold != IGNORE).any(1).cpu()
        logits, gold = widened(logits).cpu()[with_gold][: self._left], gold.cpu()[with_gold][: self._left]
        if not len(logits):
            return
        self._left -= len(logits)
        seen, columns = seen.cpu(), gold.clamp(min=0)
        values, of_seen = logits.gather(1, columns), seen[columns]
        best, above = [], torch.zeros_like(columns)
        for group in (True, False):
            ordered = logits[:, seen == group].sort(1).values
            higher = ordered.shape[1] - torch.searchsorted(ordered, values, right=True)
            above = torch.where(of_seen == group, higher, above)
            best.append(ordered[:, -_STORED:].clone())
        self._batches.append((values, gold != IGNORE, of_seen, above, *best))

    def average_precision(self, seen: Map = _identity, unseen: Map = _identity) -> float:
        """Returns the mean average precision of the gold labels among all candidates.

        Args:
            seen: Increasing function of the logits of seen labels.
            unseen: Increasing function of the logits of unseen labels.
        """
        total, number = 0.0, 0
        for values, is_gold, of_seen, above, best_seen, best_unseen in self._batches:
            scores = torch.where(of_seen, seen(values), unseen(values))
            others = torch.zeros_like(above)
            for group, best in ((True, unseen(best_unseen)), (False, seen(best_seen))):
                higher = best.shape[1] - torch.searchsorted(best.contiguous(), scores)
                others = torch.where(of_seen == group, higher, others)
            ranks = (1 + above + others).masked_fill(~is_gold, torch.iinfo(torch.long).max).sort(1).values
            hits = torch.arange(1, ranks.shape[1] + 1)
            precision = (hits / ranks).masked_fill(hits > is_gold.sum(1, keepdim=True), 0)
            total += float((precision.sum(1) / is_gold.sum(1)).sum())
            number += len(values)
        return total / max(1, number)

    def best_raise(self, seen: Map = _identity, unseen: Callable[[Tensor, float], Tensor] = torch.add) -> float:
        """Returns the highest raise that costs at most `_LOST` of the average precision, 0 if a group is missing.

        Args:
            seen: As in `average_precision`.
            unseen: Returns the scores of unseen labels, from their logits and the raise.
        """
        if not any(best.shape[1] and others.shape[1] for *_, best, others in self._batches):
            return 0.0

        def precision(raised: float) -> float:
            return self.average_precision(seen, lambda logits: unseen(logits, raised))

        steps, least = 0, (1 - _LOST) * precision(0.0)
        while steps < _MAX_STEPS and precision((steps + 1) * _STEP) >= least:
            steps += 1
        return steps * _STEP


def lift(logits: Tensor, raised: float) -> Tensor:
    """Raises small calibrated logits and leaves large ones: probabilities above 0.4 hardly change.

        x + r sigmoid((x0 - x) / s),  x0 = logit(0.2)

    Args:
        logits: Calibrated logits.
        raised: r, what is added to very small logits.
    """
    return logits + raised * torch.sigmoid((_CENTRE - logits) / max(0.5, raised / 3))


def lift_calibration(method: Mapping[str, Any], raised: float) -> dict[str, Any]:
    """Returns a calibration followed by `lift`, as a spline.

    Args:
        method: Calibration of a group, as in `GileConfig.calibration`.
        raised: r of `lift`.
    """
    if method["method"] == "platt":
        values = torch.arange(-12.0, 4.5, 0.5)
        logits = (values - method["offset"]) / method["scale"]
    else:
        logits, values = torch.tensor(method["logits"]), torch.tensor(method["values"])
    return {"method": "spline", "logits": logits.tolist(), "values": lift(values, raised).tolist()}
