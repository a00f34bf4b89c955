"""Raises the scores of unseen labels, so that some of them reach the top of a ranking shared with seen labels.

By likelihood alone, unseen labels rank low: each is less probable than a seen label, and its score is less certain.

Shapes: N documents, B documents in the batch, C candidate labels, P gold labels of a document, K stored scores.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ...models.losses_gile import IGNORE, multi_hot, widened

PRICE_ONE_LABEL, PRICE = 0.03, 0.05
"""Relative loss in average precision of seen labels that unseen labels may cost, with one or several labels."""

_STEP, _MAX_STEPS = 1 / 16, 128
"""Step of the raise, and maximum number of steps up or down."""

_LIKELY = 0.01
"""Share of documents, for each unseen label that competes, in which a wrong one may reach a probability of a half.

A few labels tell little of those that will be added. From a hundred on, the price alone decides.
"""

_SHARE = 4
"""Number of parts of unseen labels that `crowding` is measured with."""

_SLOPES = 64
"""Number of steps of the crowding from 0 to 1."""

_CENTRE = -1.386
"""Calibrated logit of a probability of 0.2: labels below are raised."""

_STORED, _MAX_STORED = 1024, 1 << 24
"""Best scores of each group stored for a document, and at most for all documents; later documents are ignored."""

Map = Callable[[Tensor], Tensor]
"""An increasing function of logits."""


class SharedRanking:
    """The ranking of seen gold labels among all candidates but unseen gold labels, for any raise of the unseen ones.

    Unseen labels with the score of a gold label count as ranked higher.

    Example:
        >>> ranking = SharedRanking()
        >>> ranking.update(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([[1]]), torch.tensor([True, True, False]))
        >>> ranking.average_precision(), round(ranking.average_precision(lambda logits: logits + 1.5), 2)
        (0.5, 0.33)
    """

    def __init__(self) -> None:
        self._batches: list[tuple[Tensor, ...]] = []
        self._rivals: list[tuple[Tensor, Tensor]] = []  # highest wrong seen and unseen gold labels
        self._left = _MAX_STORED // _STORED

    def update(self, logits: Tensor, gold: Tensor, seen: Tensor) -> None:
        """Adds a batch.

        Args:
            logits: `(B, C)` logits; minus infinity for labels that are not ranked.
            gold: `(B, P)` indices of gold labels, padded with -100.
            seen: `(C,)` booleans, whether each candidate label is seen.
        """
        ranked = widened(logits)
        is_gold = multi_hot(gold, ranked.shape[1]).bool()
        highest = ranked.masked_fill(~is_gold | seen, -torch.inf).max(1).values
        rivals = ranked.masked_fill(is_gold | ~seen, -torch.inf).max(1).values
        both = highest.isfinite() & rivals.isfinite()
        self._rivals.append((rivals[both], highest[both]))
        is_seen_gold = (gold != IGNORE) & seen[gold.clamp(min=0)]
        counted = is_seen_gold.any(1).nonzero()[: self._left, 0]
        self._left -= len(counted)
        ranked = ranked[counted]
        values = ranked.gather(1, gold[counted].clamp(min=0))
        of_seen = ranked[:, seen].sort(1).values
        above = of_seen.shape[1] - torch.searchsorted(of_seen, values, right=True)
        of_unseen = ranked.masked_fill(is_gold[counted], -torch.inf)[:, ~seen].sort(1).values
        self._batches.append((values, is_seen_gold[counted], above, of_unseen[:, -_STORED:].clone()))

    def mapped(self, seen: Map, unseen: Map) -> "SharedRanking":
        """Returns the ranking after functions of the logits of seen and of unseen labels."""
        ranking = SharedRanking()
        ranking._batches = [(seen(values), *fixed, unseen(wrong)) for values, *fixed, wrong in self._batches]
        ranking._rivals = [(seen(rivals), unseen(highest)) for rivals, highest in self._rivals]
        return ranking

    def average_precision(self, unseen: Map | None = None) -> float:
        """Returns the mean average precision of seen gold labels, with a function of the logits of unseen labels."""
        total = 0.0
        number = 0
        for values, is_gold, above, of_unseen in self._batches:
            competing = of_unseen if unseen is None else unseen(of_unseen)
            above_unseen = competing.shape[1] - torch.searchsorted(competing.contiguous(), values)
            ranks = (1 + above + above_unseen).masked_fill(~is_gold, torch.iinfo(torch.long).max).sort(1).values
            hits = torch.arange(1, ranks.shape[1] + 1)
            precision = (hits / ranks).masked_fill(hits > is_gold.sum(1, keepdim=True), 0)
            total += float((precision.sum(1) / is_gold.sum(1)).sum())
            number += len(values)
        return total / max(1, number)

    def crowding(self) -> float:
        """Returns c, if unseen labels must fall by c log(k / m) where k compete instead of m, for the same price.

        It is measured with a quarter of the unseen labels: by how much they may rise for the price of all. At most 1,
        which is right if the score of a wrong label has an exponential tail of rate 1, as a calibrated logit has.
        """
        lowest = self.average_precision()
        parts = self._split()

        def is_too_steep(step: int) -> bool:
            raised = step / _SLOPES * math.log(len(parts))
            return sum(part.average_precision(lambda x: x + raised) for part in parts) < len(parts) * lowest

        return (bisect_left(range(_SLOPES + 1), True, key=is_too_steep) - 1) / _SLOPES

    def _split(self) -> list["SharedRanking"]:
        """Distributes the unseen labels of each document over `_SHARE` rankings at random."""
        parts = [SharedRanking() for _ in range(_SHARE)]
        generator = torch.Generator().manual_seed(0)
        for *others, of_unseen in self._batches:
            part_of = torch.randint(_SHARE, of_unseen.shape, generator=generator)
            for number, part in enumerate(parts):
                in_part = of_unseen.masked_fill(part_of != number, -torch.inf).sort(1).values
                part._batches.append((*others, in_part))
        return parts

    def best_raise(
        self,
        price: float,
        unseen: Callable[[Tensor, float], Tensor] = torch.add,
        one_label: bool | None = None,
    ) -> float:
        """Returns the highest raise at which unseen labels cost at most this price; 0 if a group is missing.

        The price is the relative loss in average precision, compared to the ranking without unseen labels. It is
        negative where unseen labels rank too high. `unseen` applies a raise to logits of unseen labels.

        With few labels that are easy to tell apart, any raise is affordable, and makes labels added later nearly
        certain for all texts. So with `one_label`, there is no raise once unseen gold labels rank above all wrong seen
        ones; without, none by which wrong unseen labels often reach a probability of a half. By default, the price
        alone decides.
        """
        if not any(of_unseen.numel() for *_, of_unseen in self._batches):
            return 0.0
        lowest = (1 - price) * self.average_precision(lambda logits: torch.full_like(logits, -torch.inf))
        rivals, highest = map(torch.cat, zip(*self._rivals, strict=True))

        def is_affordable(steps: int) -> bool:
            return self.average_precision(lambda logits: unseen(logits, steps * _STEP)) >= lowest

        def is_useful(steps: int) -> bool:
            return not len(rivals) or bool((unseen(highest, (steps - 1) * _STEP) <= rivals).any())

        def is_improbable(steps: int) -> bool:
            highest_wrong = torch.cat([of_unseen[:, -1] for *_, of_unseen in self._batches])
            is_likely = unseen(highest_wrong, steps * _STEP) > 0
            number = min(of_unseen.shape[1] for *_, of_unseen in self._batches)
            return is_likely.double().mean().item() <= _LIKELY * number

        def is_allowed(steps: int) -> bool:
            if steps > 0 and one_label is not None:
                return (is_useful(steps) if one_label else is_improbable(steps)) and is_affordable(steps)
            return is_affordable(steps)

        # A higher raise is never allowed where a lower one is not.
        candidates = range(1 - _MAX_STEPS, _MAX_STEPS + 1)
        steps = bisect_left(candidates, True, key=lambda steps: not is_allowed(steps)) - _MAX_STEPS
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
    """Returns a calibration of a group, as in `GileConfig.calibration`, followed by `lift` by r, as a spline."""
    if method["method"] == "platt":
        values = torch.arange(-12.0, 4.5, 0.5)
        logits = (values - method["offset"]) / method["scale"]
    else:
        logits, values = torch.tensor(method["logits"]), torch.tensor(method["values"])
    return {"method": "spline", "logits": logits.tolist(), "values": lift(values, raised).tolist()}
