"""Writes the output of recipes: printed lines, results, tables and plots."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers import TrainingArguments

from ..writing import whole_file
from .experiment import short_name


def printer(args: TrainingArguments) -> Callable[..., None]:
    """Returns a print function that is active in the main process only.

    Args:
        args: The training arguments.
    """
    return print if args.process_index == 0 else (lambda *_: None)


@contextmanager
def reading(args: TrainingArguments, content: str) -> Iterator[None]:
    """Reads files in the main process first, which fills the cache for other processes; exits with a message on errors.

    Args:
        args: The training arguments.
        content: Content of the files, for the log.

    Raises:
        SystemExit: If a file cannot be read, or is invalid.
    """
    with args.main_process_first(desc=f"reading {content}"):
        try:
            yield
        except (ValueError, OSError) as error:
            raise SystemExit(str(error)) from None


def write_results(folder: Path, results: Mapping[str, Any], metrics: Mapping[str, str]) -> None:
    """Writes `results.json`, and `curves.png` with loss and metric against the step.

    Args:
        folder: Output folder.
        results: Results of `fit`, by model.
        metrics: Metric to plot for each model, a key of its history.
    """
    with whole_file(folder / "results.json") as staged:
        staged.write_text(json.dumps(results, indent=1), encoding="utf-8")
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (above, below) = pyplot.subplots(2, 1, sharex=True, figsize=(7, 6), layout="constrained")
    for name, metric in metrics.items():
        curves = results[name]
        (line,) = above.plot(*zip(*curves["losses"], strict=True), label=name) if curves["losses"] else above.plot([])
        points = [(entry["step"], 100 * entry[metric]) for entry in curves["history"] if metric in entry]
        below.plot(*zip(*points, strict=True), marker="o", color=line.get_color(), label=name)
        below.set_ylabel(f"validation {short_name(metric)}, percent")
    above.set_ylabel("training loss")
    below.set_xlabel("step")
    below.legend()
    for axes in (above, below):
        axes.grid(alpha=0.3)
    with whole_file(folder / "curves.png") as staged:
        figure.savefig(staged, dpi=120)
    pyplot.close(figure)


def say_calibration(figures: Mapping[str, Any], say: Callable[..., None]) -> None:
    """Prints calibration results for seen and held-out labels, and a note on groups that could not be fitted.

    Args:
        figures: Result of `calibrate`.
        say: Prints a line.
    """
    for group in ("seen", "unseen"):
        if f"{group}_expected_calibration_error_after" in figures:
            before, after = (figures[f"{group}_expected_calibration_error_{when}"] for when in ("before", "after"))
            number = figures.get(f"{group}_label_thresholds", 0)
            threshold = ""
            if f"{group}_threshold" in figures:
                threshold = f", threshold {figures[f'{group}_threshold']:.3f}"
                threshold += f", {number:,} labels with individual thresholds" if number else ""
            say(f"  {group} labels: calibration error {100 * before:.3f} -> {100 * after:.3f} percent{threshold}")
    if "note" in figures:
        say(f"  {figures['note']}")


def table_of_results(
    results: Mapping[str, Any], columns: Mapping[str, str], groups: Sequence[str], note: str = ""
) -> str:
    """Formats test metrics in percent, by groups of labels.

    Args:
        results: Results of a `Study`.
        columns: Headings by metric.
        groups: Any of `"all"`, `"seen"` and `"unseen"`. Without unseen labels, `"seen"` equals `"all"`.
        note: Last line of the table.
    """
    width = 9 * len(columns)
    lines = ["", f"{'test':18}" + "".join(f"{f'{group} labels':^{width}}" for group in groups)]
    lines += [f"{'':18}" + "".join(f"{heading:>9}" for heading in columns.values()) * len(groups) + f"{'minutes':>10}"]
    for unit, result in results.items():
        test = result["test"]
        only_seen = "test_seen_documents" not in test
        cells = []
        for group in groups:
            prefix = "" if group == "all" or only_seen else f"{group}_"
            has_metric = not (only_seen and group == "unseen")
            cells += [f"{100 * test[f'test_{prefix}{name}']:.2f}" if has_metric else "-" for name in columns]
        lines.append(f"{unit:18}" + "".join(f"{cell:>9}" for cell in cells) + f"{result['seconds'] / 60:>10.1f}")
    return "\n".join([*lines, note])
