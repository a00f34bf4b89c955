"""Draws the plots of docs/scale/."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
from matplotlib import pyplot

FOLDER = Path(__file__).parents[1] / "docs" / "scale"


def save(figure: Any, name: str) -> None:
    """Writes `docs/scale/NAME.png`."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    figure.savefig(FOLDER / f"{name}.png", dpi=120)
    pyplot.close(figure)


def bars(name: str, title: str, columns: Mapping[str, Mapping[str, float]]) -> None:
    """Draws a logarithmic bar chart for each quantity, side by side, with the value beside each bar."""
    figure, axes = pyplot.subplots(1, len(columns), sharey=True, figsize=(9, 2.8), layout="constrained")
    for axis, (quantity, values) in zip(axes, columns.items(), strict=True):
        drawn = axis.barh(list(values), list(values.values()), color=[f"C{row}" for row in range(len(values))])
        axis.bar_label(drawn, [f" {value:,.0f}" for value in values.values()])
        axis.set_xscale("log")
        axis.set_xlim(min(values.values()) / 2, max(values.values()) * 4)
        axis.set_xlabel(quantity)
    axes[0].invert_yaxis()
    figure.suptitle(title)
    save(figure, name)


def lines(name: str, title: str, x: str, quantities: Mapping[str, Mapping[str, Mapping[float, float]]]) -> None:
    """Plots quantities on logarithmic axes.

    Args:
        name: Name of the file.
        title: Title of the figure.
        x: Label of the horizontal axis.
        quantities: Maps each quantity to its systems, and each system to its points, from x to y.
    """
    figure, axes = pyplot.subplots(1, len(quantities), figsize=(5 * len(quantities), 3.6), layout="constrained")
    for axis, (quantity, systems) in zip([axes] if len(quantities) == 1 else axes, quantities.items(), strict=True):
        for system, points in systems.items():
            axis.plot(list(points), list(points.values()), marker="o", label=system)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel(x)
        axis.set_ylabel(quantity)
        axis.grid(alpha=0.3)
        axis.legend()
    figure.suptitle(title)
    save(figure, name)
