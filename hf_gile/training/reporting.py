"""Writes the output of recipes: printed lines, results and tables."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any

import yaml
from transformers import TrainingArguments

from ..masking import is_secret, masked_in
from ..writing import write_text
from .options import STEPS

AMONG_ALL = "unseen among all"
"""Group of unseen labels that are ranked among all labels."""

AMONG_ALL_METRIC = "average_precision"
"""The only metric of this group."""

SETTINGS_FILE = "settings.yaml"
"""File of the settings of a run in its output_dir."""


def printer(args: TrainingArguments) -> Callable[..., None]:
    """Returns a print function that is active in the main process only."""
    return print if args.process_index == 0 else (lambda *_: None)


def write_results(folder: Path, results: Mapping[str, Any]) -> None:
    """Writes the results of a `Study` to `results.json`, where NaN is null."""
    write_text(folder / "results.json", json.dumps(without_nan(results), indent=1, allow_nan=False))


@contextmanager
def saved_settings(settings: object, args: TrainingArguments) -> Iterator[None]:
    """Writes OUTPUT_DIR/settings.yaml, for use with `--config`, after the files that the settings belong to.

    The file is removed first, so a run that is killed never leaves it beside another model. It has the settings of the
    recipe, and the training arguments in `STEPS` or with other than default values, without secrets.
    """
    file = Path(args.output_dir) / SETTINGS_FILE
    if args.process_index == 0:
        file.unlink(missing_ok=True)
    yield
    if args.process_index == 0:
        write_text(file, _format_settings(settings, args))


def _format_settings(settings: object, args: TrainingArguments) -> str:
    """Returns the settings of the recipe and the training arguments, without secrets."""
    saved = {
        "output_dir": args.output_dir,
        **{field.name: getattr(settings, field.name) for field in fields(settings)},  # type: ignore[arg-type]
    }
    for field in fields(args):
        value = getattr(args, field.name)
        if isinstance(value, Enum):
            value = value.value
        is_setting = (
            field.init and isinstance(value, (str, int, float)) and field.name not in ("local_rank", "run_name")
        )
        if is_setting and (value != field.default or field.name in STEPS):
            saved[field.name] = value
    saved = {name: value for name, value in saved.items() if not is_secret(name)}
    return yaml.safe_dump(masked_in(saved), sort_keys=False, allow_unicode=True)


def without_nan(value: object) -> Any:
    """Replaces numbers that JSON lacks, NaN and infinity, by None, also within mappings and sequences.

    Example:
        >>> without_nan({"test": [0.5, math.nan]})
        {'test': [0.5, None]}
    """
    if isinstance(value, Mapping):
        return {name: without_nan(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def say_calibration(
    figures: Mapping[str, Any], say: Callable[..., None], has_unseen: bool = False, method: str | None = None
) -> None:
    """Prints the result of `calibrate` for seen and unseen labels, and a note if unseen labels could not be fitted."""
    for group in ("seen", "unseen"):
        if f"{group}_expected_calibration_error_after" not in figures:
            continue
        # Of the best labels: nearly all others have a probability near zero, and hardly any error.
        error = f"{group}_top_5_expected_calibration_error"
        before = figures[f"{error}_before"]
        after = figures[f"{error}_after"]
        result = f"calibration error of the best labels {100 * before:.1f} -> {100 * after:.1f} percent"
        if method == "none":
            result = "no calibration"
        elif before == after:  # `calibrate` tests each calibration on held-out documents
            result = "calibration did not help, so probabilities stay uncalibrated"
        elif group == "unseen" and figures.get("unseen_raised"):
            result += " (raised, so that some unseen labels reach the top of a list)"
        elif after >= before:
            result += ", no gain"
        if f"{group}_threshold" in figures:
            result += f", threshold {figures[f'{group}_threshold']:.3f}"
            number = figures.get(f"{group}_label_thresholds")
            if number:
                result += f", {number:,} labels with individual thresholds"
        say(f"  {group} labels, {figures['documents']:,} documents left out: {result}")
    if "note" in figures:
        say(f"  {figures['note']}")
    elif figures and has_unseen and "unseen_expected_calibration_error_after" not in figures:
        shared = "the calibration and the threshold" if "seen_threshold" in figures else "the calibration"
        say(f"  no document left out has unseen labels, so they use {shared} of seen labels")


def table_of_results(
    results: Mapping[str, Any], columns: Mapping[str, str], groups: Sequence[str], note: str = ""
) -> str:
    """Formats the test metrics of the results of a `Study`, in percent, by groups of labels.

    Args:
        results: The results.
        columns: Headings by metric.
        groups: Any of `"all"`, `"seen"`, `"unseen"` and `AMONG_ALL`. With `"unseen"`, only `"seen"` is shown for a
            model that cannot score unseen labels.
        note: Last lines of the table.
    """
    shown = {group: [AMONG_ALL_METRIC] if group == AMONG_ALL else list(columns) for group in groups}
    titles = {group: group if group == AMONG_ALL else f"{group} labels" for group in groups}
    widths = {group: max(9, -(-(len(titles[group]) + 2) // len(names))) for group, names in shown.items()}
    lines = ["", f"{'test':18}", f"{'':18}"]
    for group, names in shown.items():
        lines[1] += f"{titles[group]:^{widths[group] * len(names)}}"
        lines[2] += "".join(f"{columns[name]:>{widths[group]}}" for name in names)
    lines[2] += f"{'minutes':>10}"
    for unit, result in results.items():
        lines.append(f"{unit:18}")
        for group, names in shown.items():
            prefix = _prefix(result["test"], group, groups)
            values = [math.nan if prefix is None else result["test"].get(prefix + name, math.nan) for name in names]
            cells = ("-" if math.isnan(value) else f"{100 * value:.2f}" for value in values)
            lines[-1] += "".join(f"{cell:>{widths[group]}}" for cell in cells)
        lines[-1] += f"{result['seconds'] / 60:>10.1f}"
    return "\n".join([*lines, note])


def _prefix(test: Mapping[str, float], group: str, groups: Sequence[str]) -> str | None:
    """Returns the prefix of the metrics of a group; None if the model cannot score its labels."""
    if "test_seen_documents" in test:
        return "test_" if group == "all" else f"test_{group.replace(' ', '_')}_"
    scores_all = "unseen" not in groups  # a model without unseen labels has no groups of metrics
    return "test_" if group == "seen" or (group == "all" and scores_all) else None
