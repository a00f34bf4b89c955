"""Plots the calibration of a model as a small PNG file, readable on a phone and on light and dark pages."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from ..extras import needs_extra
from ..writing import whole_file

# The background is transparent; each color has a contrast of at least 3.7 to white and to the dark page of the Hub.
GREY = "#797979"
COLORS = {"seen": "#3b7fd6", "unseen": "#c8661a"}

MIN_SCORES = 20
"""Minimum number of scores in a bin of a calibration plot; with fewer, the frequency is too noisy to draw."""

_AFTER: dict[str, Any] = {"marker": "o", "markersize": 5, "linewidth": 2.4}
_BEFORE: dict[str, Any] = {"marker": "x", "linestyle": "--", "color": GREY}

Reliability = Mapping[str, Mapping[str, Sequence[Mapping[str, float]]]]
"""`Report.reliability`: bins by group of labels, and before and after calibration."""


def calibration_points(reliability: Reliability) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Returns the points (probability, frequency) of bins with enough scores; groups without are left out."""
    points = {
        group: {
            time: [(row["probability"], row["frequency"]) for row in bins if row["count"] >= MIN_SCORES]
            for time, bins in times.items()
        }
        for group, times in reliability.items()
    }
    return {group: times for group, times in points.items() if any(times.values())}


def calibration_plot(reliability: Reliability, path: str | PathLike[str]) -> bool:
    """Plots the frequency of gold labels against their probability, before and after calibration.

    Returns:
        Whether there was something to plot; otherwise no file is written.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    drawn = calibration_points(reliability)
    if not drawn:
        return False
    with needs_extra("train", "the figures of a card"):
        from matplotlib.figure import Figure

    figure = Figure(figsize=(2 + 2.4 * len(drawn), 4), layout="constrained")
    axes = figure.subplots(1, len(drawn), squeeze=False)[0]
    for axis, (group, points) in zip(axes, drawn.items(), strict=True):
        _draw_group(axis, group, points)
    with whole_file(path) as staged:
        figure.savefig(staged, format="png", dpi=160, transparent=True)
    return True


def _draw_group(axis: Any, group: str, points: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    axis.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=":")
    styles = dict.fromkeys(points, _BEFORE)
    styles[list(points)[-1]] = {**_AFTER, "color": COLORS[group]}
    for time, values in points.items():
        axis.plot(*np.array(values).reshape(-1, 2).T, label=time, **styles[time])
    axis.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    axis.set(title=f"{group} labels", xlabel="probability", ylabel="share that is gold")
    for text in (axis.title, axis.xaxis.label, axis.yaxis.label):
        text.set(color=GREY, fontsize=13)
    axis.label_outer()
    axis.tick_params(colors=GREY, labelsize=11)
    axis.spines[:].set_color(GREY)
    if len(points) > 1:
        axis.legend(loc="upper left", frameon=False, labelcolor=GREY)
