"""Plots the figures of a card as small PNG files, readable on a phone and on light and dark pages.

Shapes: M labels on a map.
"""

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..extras import needs_extra
from ..writing import whole_file
from .markdown import is_right_to_left, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The background is transparent; each color has a contrast of at least 3.7 to white and to the dark page of the Hub.
GREY, SEEN, UNSEEN = "#797979", "#3b7fd6", "#c8661a"

MIN_SCORES = 20
"""Minimum number of scores in a bin of a calibration plot; with fewer, the frequency is too noisy to draw."""

_DOTS_PER_INCH = 160
_PALETTE = 96
_MAX_NAMES = 22
_NAME_LENGTH = 26

CURVES = {
    "average_precision": "average precision",
    "unseen_average_precision": "average precision, unseen",
    "accuracy": "accuracy",
    "micro_f1": "micro-F1",
    "macro_f1": "macro-F1",
}
"""Metrics for a learning curve; the first three available metrics are shown."""


def calibration_plot(
    reliability: Mapping[str, Mapping[str, Sequence[Mapping[str, float]]]], path: str | PathLike[str]
) -> bool:
    """Plots the frequency of gold labels against their probability, before and after calibration.

    Args:
        reliability: `Report.reliability`.
        path: The PNG to write.

    Returns:
        Whether there was something to plot; otherwise no file is written.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    drawn = {}
    for group, times in reliability.items():
        points = {
            time: [(row["probability"], row["frequency"]) for row in bins if row["count"] >= MIN_SCORES]
            for time, bins in times.items()
        }
        if any(points.values()):
            drawn[group] = points
    if not drawn:
        return False
    figure = _figure(3.4 if len(drawn) > 1 else 4.2, 6.4 if len(drawn) > 1 else 4.4)
    for index, (group, points) in enumerate(drawn.items()):
        axis = figure.add_subplot(1, len(drawn), index + 1)
        axis.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=":")
        for time, values in points.items():
            last = time == "after" or "after" not in points
            name = {"before": "before", "after": "after"}[time] if "after" in points else None
            color = (SEEN if group == "seen" else UNSEEN) if last else GREY
            style = {"marker": "o", "markersize": 5, "linewidth": 2.4} if last else {"marker": "x", "linestyle": "--"}
            axis.plot(*np.array(values).reshape(-1, 2).T, color=color, label=name, **style)
        axis.set_xlim(0, 1)
        axis.set_ylim(0, 1)
        axis.set_aspect("equal")
        axis.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        axis.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
        axis.set_title(f"{group} labels")
        axis.set_xlabel("probability")
        if index == 0:
            axis.set_ylabel("share that is gold")
        if "after" in points:
            axis.legend(loc="upper left", frameon=False)
    _write(figure, path)
    return True


def label_map(
    positions: NDArray[np.float64], names: Sequence[str], seen: Sequence[bool], path: str | PathLike[str]
) -> list[str]:
    """Plots labels in the plane, and writes a few names next to them without overlaps.

    Args:
        positions: `(M, 2)` coordinates.
        names: Names of the labels, the most important first; names with letters missing from the font, or written from
            right to left, are omitted.
        seen: Whether each label was trained on.
        path: The PNG to write.

    Returns:
        The written names.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    figure = _figure(6.0, 6.4)
    axis = figure.add_subplot()
    size = float(np.clip(9_000 / len(positions), 8, 60))
    trained = np.asarray(seen, dtype=bool)
    kinds = [(True, SEEN, "o", "seen in training"), (False, UNSEEN, "^", "never seen")]
    kinds = [kind for kind in kinds if bool((trained == kind[0]).any())]
    for kind, color, marker, name in kinds:
        members = positions[trained == kind]
        axis.scatter(*members.T, s=size, color=color, marker=marker, alpha=0.6, linewidths=0, label=name)
    axis.margins(0.06)
    for side in axis.spines.values():
        side.set_visible(False)
    axis.set_xticks([])
    axis.set_yticks([])
    if len(kinds) > 1:
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, 0), ncols=2, frameon=False, markerscale=1.6)
    has_name, covered = _write_names(figure, axis, positions, names, np.where(trained, SEEN, UNSEEN))
    for dots, (kind, color, marker, _) in zip(list(axis.collections), kinds, strict=True):
        members = trained == kind
        # Names are unreadable over dots, and a background for names would only suit a light or a dark page.
        dots.set_offsets(positions[members & ~covered])
        axis.scatter(*positions[members & has_name].T, s=max(size, 34), color=color, marker=marker, linewidths=0)
    _write(figure, path)
    return [name for name, is_shown in zip(names, has_name, strict=True) if is_shown]


def learning_curve(history: Iterable[Mapping[str, Any]], path: str | PathLike[str]) -> bool:
    """Plots loss and validation metrics against epochs (or steps, if epochs are unknown).

    Args:
        history: `log_history` of a Trainer: `loss`, and metrics of evaluations, `eval_...`.
        path: The PNG to write.

    Returns:
        Whether a curve had at least two points; otherwise no file is written.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    rows = list(history)
    unit = "epoch" if any("epoch" in row for row in rows) else "step"
    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        for name, value in row.items():
            if row.get(unit) is not None and isinstance(value, int | float) and not isinstance(value, bool):
                series.setdefault(name, []).append((row[unit], value))
    names = {"training": "loss", "validation": _evaluation_metric(series, "loss") or ""}
    losses = {label: series[name] for label, name in names.items() if len(series.get(name, ())) > 1}
    figures: dict[str, list[tuple[float, float]]] = {}
    for name, label in CURVES.items():
        metric = _evaluation_metric(series, name)
        if metric and len(series[metric]) > 1 and len(figures) < 3:
            figures[label] = series[metric]
    panels = [(title, lines) for title, lines in {"loss": losses, "validation": figures}.items() if lines]
    if not panels:
        return False
    figure = _figure(3.2, 6.4 if len(panels) > 1 else 4.6)
    for index, (title, lines) in enumerate(panels):
        axis = figure.add_subplot(1, len(panels), index + 1)
        for (label, points), color in zip(lines.items(), (SEEN, UNSEEN, GREY), strict=False):
            axis.plot(*np.array(points).T, color=color, label=label, marker="o", markersize=4, linewidth=2)
        axis.set_xlabel(unit)
        axis.set_title(title)
        axis.locator_params(nbins=5)
        if title == "validation":
            best = max(value for points in lines.values() for _, value in points)
            axis.set_ylim(0, 1.1 * best or 1)
        axis.legend(frameon=False, fontsize=10)
    _write(figure, path)
    return True


def _evaluation_metric(series: Mapping[str, Any], name: str) -> str | None:
    """Returns the name of a metric in evaluations: `eval_NAME`, or `eval_SET_NAME` for a named set.

    Of several sets, the most often evaluated is used, since a set may be evaluated again after training. Test sets
    are never used.
    """
    candidates = []
    for metric, points in series.items():
        prefix = metric.removesuffix(name)
        # Skip metrics of label groups or test sets, and longer names with the same suffix.
        other = re.search(r"(seen|decile_\d+|ranking)_$|^eval_test_", prefix)
        if metric.endswith(name) and re.fullmatch(r"eval_(\w+_)?", prefix) and not other:
            candidates.append((-len(points), len(metric), metric))
    return min(candidates)[2] if candidates else None


def _figure(height: float, width: float) -> Any:
    with needs_extra("train", "the figures of a card"):
        from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _write(figure: "Figure", path: str | PathLike[str]) -> None:
    from PIL import Image  # installed with matplotlib

    _apply_grey(figure)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=_DOTS_PER_INCH, transparent=True)
    # A palette reduces the size to a quarter with hardly a visible difference, as figures have few colors.
    image = Image.open(drawn).convert("RGBA").quantize(_PALETTE, method=Image.Quantize.FASTOCTREE)
    with whole_file(path) as staged:
        image.save(staged, format="PNG", optimize=True)


def _apply_grey(figure: "Figure") -> None:
    """Colors axes and texts without a color, so that they are readable on any page."""
    for axis in figure.axes:
        axis.tick_params(colors=GREY, labelsize=11)
        for side in axis.spines.values():
            side.set_color(GREY)
        for text in (axis.title, axis.xaxis.label, axis.yaxis.label):
            text.set_color(GREY)
            text.set_fontsize(13)
        legend = axis.get_legend()
        for text in legend.get_texts() if legend else ():
            text.set_color(GREY)


def _write_names(
    figure: "Figure", axis: "Axes", positions: NDArray[np.float64], names: Sequence[str], colors: NDArray[np.str_]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Writes names above their positions; returns the written names, and the positions that they cover."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.font_manager import FontProperties, findfont, get_font

    letters = get_font(findfont(FontProperties())).get_charmap()
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    # Fix the layout that is measured now.
    figure.set_layout_engine("none")
    axis.autoscale(False)
    frame, dots = axis.get_window_extent(), axis.transData.transform(positions)
    boxes: list[Any] = []
    written, covered = np.zeros((2, len(positions)), dtype=bool)
    for index, name in enumerate(names):
        if len(boxes) == _MAX_NAMES:
            break
        if is_right_to_left(name) or any(ord(letter) not in letters for letter in name):
            continue
        text = axis.annotate(
            shortened(name, _NAME_LENGTH),
            positions[index],
            xytext=(0, 4),
            textcoords="offset points",
            ha=_alignment((dots[index, 0] - frame.x0) / frame.width),
            fontsize=12,
            color=str(colors[index]),
            fontweight="bold",
            parse_math=False,
        )
        box = text.get_window_extent(canvas.get_renderer())
        inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and box.y1 <= frame.y1
        dot = dots[index]
        near = any(other.overlaps(box.padded(4)) or other.padded(4).contains(*dot) for other in boxes)
        if not inside or near:
            text.remove()
            continue
        boxes.append(box)
        written[index] = True
        covered |= (dots > box.min).all(axis=1) & (dots < box.max).all(axis=1)
    return written, covered


def _alignment(fraction: float) -> str:
    """Returns the alignment of a name that keeps it within the frame."""
    return "left" if fraction < 0.2 else "right" if fraction > 0.8 else "center"


__all__ = ["CURVES", "GREY", "MIN_SCORES", "SEEN", "UNSEEN", "calibration_plot", "label_map", "learning_curve"]
