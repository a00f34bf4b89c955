"""Logits whose probabilities can be trusted: what `hf_gile.training.calibrate` has fitted, applied.

A model is calibrated apart for the labels it was trained on, "seen", and for the others, "unseen", of which it is surer
than it should be. Where only one group could be fitted, its calibration serves both: scores of a calibrated and of an
uncalibrated group could not be compared. `GileConfig.calibration` holds what was fitted. Logits leave the model as they
are; who makes probabilities of them (the label-scoring pipeline, say) calls `calibrated` first.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .losses_gile import widened

GROUPS = ("seen", "unseen")
"""The groups of labels that are calibrated, and have a threshold, each on its own."""

METHODS = {"platt": ("scale", "offset"), "spline": ("logits", "values")}
"""What a calibration can be, and the numbers it has."""


def check_calibration(calibration: Mapping[str, Any], problem_type: str | None = None) -> None:
    """Refuses a calibration that makes no sense.

    Args:
        calibration: Of "seen" and "unseen", or of one of them: a method and its numbers, as in `calibrated`.
        problem_type: That of the model. A softmax is calibrated by "platt": with "spline", a number added to all logits
            of a document would change its answer.

    Raises:
        ValueError: A group, a method or a number that does not exist or does not fit. The message names it.

    Example:
        >>> check_calibration({"seen": {"method": "platt", "scale": 0.9, "offset": -0.2}})
    """
    for group, own in calibration.items():
        where = f"calibration[{group!r}]"
        if group not in GROUPS:
            raise ValueError(f"calibration is of 'seen' and 'unseen' labels, got {group!r}")
        method = own.get("method") if isinstance(own, Mapping) else None
        if method not in METHODS:
            raise ValueError(f"{where} must name a method of {', '.join(METHODS)}, as {{'method': ...}}, got {own!r}")
        if set(own) != {"method", *METHODS[method]}:
            raise ValueError(f"{where} is of method {method!r} and has {', '.join(METHODS[method])}, got {sorted(own)}")
        if problem_type == "single_label_classification" and method != "platt":
            raise ValueError(
                f"{where}: {method!r} calibrates each label on its own; with problem_type "
                "'single_label_classification' take 'platt'"
            )
        if method == "spline":
            _check_knots(own["logits"], own["values"], where)
            continue
        for name in METHODS[method]:
            if not _is_number(own[name]):
                raise ValueError(f"{where}: {name} must be a finite number, got {own[name]!r}")
            if name == "scale" and not own[name] > 0:
                raise ValueError(
                    f"{where}: {name} must be positive, or better labels would have worse scores, got {own[name]!r}"
                )


def calibrated(logits: Tensor, seen: Tensor, calibration: Mapping[str, Any]) -> Tensor:
    """Calibrates logits: `sigmoid` (or for single-label problems `softmax`) then gives probabilities to be trusted.

    Of a label's logit x, by the method of its group:

        platt     scale * x + offset
        spline    the line through the points (logits[k], values[k]); outside of them x, shifted

    Both are strictly increasing, up to rounding: among the seen labels the order of scores stays, and among the unseen.
    Between a seen and an unseen label it changes only if both groups have a calibration.

    Args:
        logits: `(..., C)` logits of a model; of half precision, they are taken to float32 first.
        seen: `(C,)` bool, whether each label was trained on: `GileForSequenceClassification.seen_among`.
        calibration: As `GileConfig.calibration` holds it. A missing group is calibrated like the other.

    Returns:
        `(..., C)` logits. Minus infinity, a label that is no candidate, stays that.

    Raises:
        ValueError: There is not one entry of `seen` for each label.

    Example:
        >>> seen = {"method": "platt", "scale": 0.5, "offset": -2.0}
        >>> calibrated(torch.tensor([[1.0, 2.0]]), torch.tensor([True, False]), {"seen": seen})
        tensor([[-1.5000, -1.0000]])
        >>> unseen = {"method": "platt", "scale": 0.5, "offset": 0.0}
        >>> calibrated(torch.tensor([[1.0, 2.0]]), torch.tensor([True, False]), {"seen": seen, "unseen": unseen})
        tensor([[-1.5000,  1.0000]])
    """
    if seen.shape != logits.shape[-1:]:
        raise ValueError(
            f"seen must say of each of the {logits.shape[-1]} labels whether it was trained on, got "
            f"{tuple(seen.shape)}; model.seen_among(labels) does"
        )
    logits = widened(logits)
    if not calibration:
        return logits
    seen = seen.to(logits.device)
    if len(calibration) == 1 or bool(seen.all()) or not bool(seen.any()):
        group = "seen" if bool(seen.any()) else "unseen"
        return _apply(logits, calibration.get(group) or next(iter(calibration.values())))
    return torch.where(seen, _apply(logits, calibration["seen"]), _apply(logits, calibration["unseen"]))


def _apply(logits: Tensor, own: Mapping[str, Any]) -> Tensor:
    if own["method"] == "platt":
        return logits * own["scale"] + own["offset"]
    knots, values = (torch.tensor(own[name], dtype=logits.dtype, device=logits.device) for name in METHODS["spline"])
    one, infinite = knots.new_ones(1), knots.new_full((1,), torch.inf)
    slopes = torch.cat([one, values.diff() / knots.diff(), one])
    interval = torch.bucketize(logits, knots, right=True)  # 0 is below the first knot
    before = (interval - 1).clamp(min=0)
    moved = values[before] + slopes[interval] * (logits - knots[before])
    # Rounding must not carry a logit over the knot behind it.
    return torch.minimum(moved, torch.cat([values, infinite])[interval])


def _check_knots(logits: Any, values: Any, where: str) -> None:
    for name, numbers in {"logits": logits, "values": values}.items():
        if not isinstance(numbers, list | tuple) or not numbers or not all(map(_is_number, numbers)):
            raise ValueError(f"{where}: {name} must be a list of finite numbers, got {numbers!r}")
        # In float32, in which they are applied.
        rising = torch.tensor(numbers, dtype=torch.float32).diff() > 0
        if not bool(rising.all()):
            place = int((~rising).nonzero()[0])
            raise ValueError(
                f"{where}: {name} must rise, got {numbers[place]!r} and then {numbers[place + 1]!r} at place "
                f"{place + 1}"
            )
    if len(logits) != len(values):
        raise ValueError(f"{where}: every one of the {len(logits)} logits has a value, got {len(values)} values")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


__all__ = ["GROUPS", "METHODS", "calibrated", "check_calibration"]
