"""Fits of a calibration: of each label on its own from counts of logits, or of a softmax from the logits themselves.

Shapes: `M` distinct logits, `N` documents, `C` candidate labels.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ...models.configuration_gile import GROUPS, METHODS

_PRIOR = {"scale": 0.1, "offset": 0.01}
"""Precisions of normal priors of the logarithm of the scale and of the offset, around leaving logits as they are. They
weigh less than one gold label, and keep the fit finite where labels are always right, or never."""

_KNOTS = 12
"""Points between which a spline bends, beside its two ends: at quantiles of the gold labels."""

_KNOT_GAP = 0.1
_LEAST_SLOPE = 1e-3


def fit_calibration(method: str, values: Tensor, cells: Tensor, gold: Tensor) -> dict[str, Any]:
    """Fits the calibration of labels each on its own, as `calibrated` of `hf_gile.models.search_gile` applies it.

    "platt" is a logistic regression of gold labels on logits. "spline" is one on a rising line that bends at quantiles
    of the gold labels, around that of "platt", with slopes that change no more than the data say.

    Args:
        method: `"platt"` or `"spline"`.
        values: `(M,)` distinct logits, ascending.
        cells: `(M,)` number of times that each came.
        gold: `(M,)` number of times that its label was gold, at least one of them.

    Returns:
        An entry of `GileConfig.calibration`.

    Raises:
        ValueError: There is no such method.

    Example:
        >>> values, cells, gold = torch.tensor([[-2.0, 2.0], [1000.0, 1000.0], [100.0, 900.0]])
        >>> {name: value if name == "method" else round(value, 2)
        ...  for name, value in fit_calibration("platt", values, cells, gold).items()}
        {'method': 'platt', 'scale': 1.1, 'offset': 0.0}
    """
    check_method(method)
    came = cells > 0
    values, cells, gold = values[came].double(), cells[came].double(), gold[came].double()
    if method == "spline":
        return _spline(values, cells, gold)

    def loss(numbers: dict[str, Tensor]) -> Tensor:
        logits = numbers["scale"] * values + numbers["offset"]
        return (cells * functional.softplus(logits) - gold * logits).sum()

    return _fit_platt(["own"], lambda numbers: loss(numbers["own"]), float(gold.sum()))["own"]


def fit_softmax_calibration(logits: Tensor, gold: Tensor, seen: Tensor) -> dict[str, Any]:
    """Fits "platt" to labels of which one is right: the likelihood of a softmax over the candidates.

    An offset only counts beside labels of the other group.

    Args:
        logits: `(N, C)` logits of the candidates; minus infinity for labels that are none of a document.
        gold: `(N,)` place of the gold label among them, which is a candidate.
        seen: `(C,)` bool, whether each was trained on.

    Returns:
        `GileConfig.calibration`, for the groups that there are.
    """
    groups = [group for group in GROUPS if bool((seen == (group == "seen")).any())]
    places = torch.where(seen, 0, len(groups) - 1)  # of each label's group
    # Labels that are no candidates of a document stay out of the products: infinity times zero has no gradient.
    absent = logits.isneginf()
    logits = logits.masked_fill(absent, 0.0)

    def loss(numbers: dict[str, dict[str, Tensor]]) -> Tensor:
        scale, offset = (
            torch.stack([numbers[group][name] for group in groups])[places].to(logits) for name in METHODS["platt"]
        )
        calibrated = logits * scale + offset
        return functional.cross_entropy(calibrated.masked_fill(absent, -torch.inf), gold, reduction="sum").double()

    return _fit_platt(groups, loss, len(gold))


def check_method(method: str, problem_type: str | None = None) -> None:
    """Refuses a method that does not exist, or not for this problem type.

    Raises:
        ValueError: It does not.
    """
    single = problem_type == "single_label_classification"
    known = ("platt",) if single else tuple(METHODS)
    if method not in known:
        of = " for problem_type 'single_label_classification'" if single else ""
        raise ValueError(f"method{of} must be one of {', '.join(known)}, got {method!r}")


def _fit_platt(
    groups: list[str], loss: Callable[[dict[str, dict[str, Tensor]]], Tensor], size: float
) -> dict[str, Any]:
    """The numbers of each group that minimise a loss and the priors; `size` only scales the numbers in the search."""
    # The logarithm of the scale, which stays positive.
    raw = {group: {name: torch.zeros((), dtype=torch.double) for name in METHODS["platt"]} for group in groups}
    every = [number.requires_grad_() for own in raw.values() for number in own.values()]
    optimizer = torch.optim.LBFGS(
        every, max_iter=300, tolerance_grad=1e-10, tolerance_change=1e-14, line_search_fn="strong_wolfe"
    )

    def of_groups() -> dict[str, dict[str, Tensor]]:
        return {group: own | {"scale": own["scale"].exp()} for group, own in raw.items()}

    def closure() -> Tensor:
        optimizer.zero_grad()
        prior = sum(_PRIOR[name] * number**2 / 2 for own in raw.values() for name, number in own.items())
        total = (loss(of_groups()) + prior) / size
        total.backward()
        return total

    with torch.enable_grad():
        optimizer.step(closure)
    return {
        group: {"method": "platt"} | {name: number.item() for name, number in own.items()}
        for group, own in of_groups().items()
    }


def _spline(values: Tensor, cells: Tensor, gold: Tensor) -> dict[str, Any]:
    # Bends of the line that "platt" finds, so that it does not matter how large logits are.
    platt = fit_calibration("platt", values, cells, gold)
    values = values * platt["scale"] + platt["offset"]
    share = gold.cumsum(0) / gold.sum()
    inner = values[torch.searchsorted(share, torch.linspace(0.01, 0.99, _KNOTS).double()).clamp(max=len(values) - 1)]
    kept = [inner[0]]
    for one in inner:
        if one > kept[-1] + _KNOT_GAP:
            kept.append(one)
    inner = torch.stack(kept)
    knots = torch.cat([torch.minimum(values[:1], inner[:1] - 5), inner, torch.maximum(values[-1:], inner[-1:] + 5)])
    interval = (torch.bucketize(values, knots, right=True) - 1).clamp(0, len(knots) - 2)
    middle = len(knots) // 2
    raw = torch.zeros(len(knots), dtype=torch.double, requires_grad=True)  # logarithms of slopes, and an offset

    def line() -> tuple[Tensor, Tensor]:
        slopes = raw[:-1].exp() + _LEAST_SLOPE
        heights = functional.pad((slopes * knots.diff()).cumsum(0), (1, 0))
        return heights - heights[middle] + knots[middle] + raw[-1], slopes

    optimizer = torch.optim.LBFGS(
        [raw], max_iter=500, tolerance_grad=1e-10, tolerance_change=1e-14, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        heights, slopes = line()
        logits = heights[interval] + slopes[interval] * (values - knots[interval])
        logs = raw[:-1]
        prior = (logs.diff() ** 2).sum() + _PRIOR["scale"] * (logs**2).sum() + _PRIOR["offset"] * raw[-1] ** 2
        total = ((cells * functional.softplus(logits) - gold * logits).sum() + prior / 2) / gold.sum()
        total.backward()
        return total

    with torch.enable_grad():
        optimizer.step(closure)
    logits = (knots - platt["offset"]) / platt["scale"]
    return {"method": "spline", "logits": logits.tolist(), "values": line()[0].tolist()}
