"""Fits calibration curves: for independent labels from counts of logits, or for a softmax from the logits.

Shapes: `M` distinct logits, `N` documents, `C` candidate labels.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ...models.checks_gile import GROUPS

_PRIOR = {"scale": 0.1, "offset": 0.01}
"""Precisions of the normal priors of the logarithm of the scale and of the offset, centred on the identity. They weigh
less than a gold label, and keep the fit finite for labels that are always or never gold."""

_KNOTS = 12
"""Number of inner knots of a spline, at quantiles of the gold labels."""

_KNOT_GAP = 0.1
_MIN_SLOPE = 1e-3


def fit_calibration(method: str, values: Tensor, cells: Tensor, gold: Tensor) -> dict[str, Any]:
    """Fits a calibration curve for independent labels, as applied by `calibrated` of `hf_gile.models.search_gile`.

    "platt" is a logistic regression of gold labels on logits. "spline" is a monotone piecewise linear function with
    knots at quantiles of the gold labels, regularized towards "platt".

    Args:
        method: `"platt"` or `"spline"`.
        values: `(M,)` distinct logits, ascending.
        cells: `(M,)` number of occurrences of each.
        gold: `(M,)` number of these with a gold label, not all zero.

    Returns:
        An entry of `GileConfig.calibration`.

    Example:
        >>> values, cells, gold = torch.tensor([[-2.0, 2.0], [1000.0, 1000.0], [100.0, 900.0]])
        >>> {name: value if name == "method" else round(value, 2)
        ...  for name, value in fit_calibration("platt", values, cells, gold).items()}
        {'method': 'platt', 'scale': 1.1, 'offset': 0.0}
    """
    values, cells, gold = smoothed(values, cells, gold)
    fit = _fit_spline if method == "spline" else _fit_line
    return fit(values, cells, gold)


def smoothed(values: Tensor, cells: Tensor, gold: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the values that occur, their cells, and how many count as gold, `(M,)` float64 each.

    Each of P gold cells counts as (P + 1) / (P + 2), and each of N others as 1 / (N + 2)
    (Platt, 1999): without an error among P labels, the probability of the next is not 1.
    """
    occurs = cells > 0
    values, cells, gold = (tensor[occurs].double() for tensor in (values, cells, gold))
    others = cells - gold
    positive = (gold.sum() + 1) / (gold.sum() + 2)
    return values, cells, gold * positive + others / (others.sum() + 2)


def _fit_line(values: Tensor, cells: Tensor, gold: Tensor) -> dict[str, Any]:
    """Fits "platt" to the output of `smoothed`."""

    def loss(scales: Tensor, offsets: Tensor) -> Tensor:
        logits = scales * values + offsets
        return (cells * functional.softplus(logits) - gold * logits).sum()

    return _fit_platt(["all"], loss, float(gold.sum()))["all"]


def fit_softmax_calibration(logits: Tensor, gold: Tensor, seen: Tensor) -> dict[str, Any]:
    """Fits "platt" for single-label models, by the likelihood of a softmax over the candidates.

    Offsets only matter relative to labels of the other group.

    Args:
        logits: `(N, C)` logits of the candidates; minus infinity for labels that are not candidates for a document.
        gold: `(N,)` index of the gold label among the candidates.
        seen: `(C,)` bool, whether each label was seen in training.
    """
    groups = [group for group in GROUPS if bool((seen == (group == "seen")).any())]
    group_indices = torch.where(seen, 0, len(groups) - 1)  # (C,)
    right = (len(gold) + 1) / (len(gold) + 2)  # as in `smoothed`
    competes = (~logits.isneginf()).sum(1) > 1
    column = gold[competes, None]
    # Labels that are not candidates are excluded from products, as infinity times zero has no gradient.
    absent = logits[competes].isneginf()
    logits = logits[competes].masked_fill(absent, 0.0)

    def loss(scales: Tensor, offsets: Tensor) -> Tensor:
        calibrated = logits * scales[group_indices].to(logits) + offsets[group_indices].to(logits)
        of_gold = calibrated.gather(1, column)
        of_others = calibrated.masked_fill(absent, -torch.inf).scatter(1, column, -torch.inf).logsumexp(1, keepdim=True)
        both = torch.logaddexp(of_gold, of_others)
        return (right * (both - of_gold) + (1 - right) * (both - of_others)).sum().double()

    return _fit_platt(groups, loss, len(gold))


def _fit_platt(groups: Sequence[str], loss: Callable[[Tensor, Tensor], Tensor], size: float) -> dict[str, Any]:
    """Minimizes a loss of the `(G,)` scales and offsets of groups, with their priors; `size` only scales the search."""
    raw = torch.zeros(len(groups), 2, dtype=torch.double)  # logarithms of scales, so that these are positive; offsets
    priors = torch.tensor([_PRIOR["scale"], _PRIOR["offset"]], dtype=torch.double)

    def total() -> Tensor:
        return (loss(raw[:, 0].exp(), raw[:, 1]) + sum((priors * raw**2 / 2).flatten())) / size

    _minimize(raw, total, max_iter=300)
    fitted = zip(groups, raw[:, 0].exp().tolist(), raw[:, 1].tolist(), strict=True)
    return {group: {"method": "platt", "scale": scale, "offset": offset} for group, scale, offset in fitted}


def _minimize(parameters: Tensor, loss: Callable[[], Tensor], max_iter: int) -> None:
    """Minimizes a loss in place by L-BFGS."""
    parameters.requires_grad_()
    optimizer = torch.optim.LBFGS(
        [parameters], max_iter=max_iter, tolerance_grad=1e-10, tolerance_change=1e-14, line_search_fn="strong_wolfe"
    )

    @torch.enable_grad()
    def closure() -> Tensor:
        optimizer.zero_grad()
        total = loss()
        total.backward()
        return total

    optimizer.step(closure)
    parameters.requires_grad_(False)


def _fit_spline(values: Tensor, cells: Tensor, gold: Tensor) -> dict[str, Any]:
    # Fitted relative to the line of "platt", so that the scale of logits does not matter.
    platt = _fit_line(values, cells, gold)
    values = values * platt["scale"] + platt["offset"]
    share = gold.cumsum(0) / gold.sum()
    inner = values[torch.searchsorted(share, torch.linspace(0.01, 0.99, _KNOTS).double()).clamp(max=len(values) - 1)]
    distant = [inner[0]]
    for knot in inner:
        if knot > distant[-1] + _KNOT_GAP:
            distant.append(knot)
    inner = torch.stack(distant)
    knots = torch.cat([torch.minimum(values[:1], inner[:1] - 5), inner, torch.maximum(values[-1:], inner[-1:] + 5)])
    interval = (torch.bucketize(values, knots, right=True) - 1).clamp(0, len(knots) - 2)
    middle = len(knots) // 2
    raw = torch.zeros(len(knots), dtype=torch.double)  # logarithms of slopes, and an offset

    def line() -> tuple[Tensor, Tensor]:
        slopes = raw[:-1].exp() + _MIN_SLOPE
        heights = functional.pad((slopes * knots.diff()).cumsum(0), (1, 0))
        return heights - heights[middle] + knots[middle] + raw[-1], slopes

    def loss() -> Tensor:
        heights, slopes = line()
        logits = heights[interval] + slopes[interval] * (values - knots[interval])
        log_slopes = raw[:-1]
        prior = (
            (log_slopes.diff() ** 2).sum() + _PRIOR["scale"] * (log_slopes**2).sum() + _PRIOR["offset"] * raw[-1] ** 2
        )
        return ((cells * functional.softplus(logits) - gold * logits).sum() + prior / 2) / gold.sum()

    _minimize(raw, loss, max_iter=500)
    logits = (knots - platt["offset"]) / platt["scale"]
    return {"method": "spline", "logits": logits.tolist(), "values": line()[0].tolist()}
