"""What the recipes have in common: settings from a file and from flags, results and their curves."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from enum import Enum
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, TypeVar

import torch
import yaml
from flags import FlagParser
from transformers import TrainingArguments

from hf_gile.data.files import read_yaml
from hf_gile.masking import is_secret, masked
from hf_gile.models.labels_gile import whole_file
from hf_gile.training.experiment import short_name

Recipe = TypeVar("Recipe")

DEFAULTS = {
    "per_device_eval_batch_size": 256,
    "lr_scheduler_type": "linear",
    "max_grad_norm": 0.0,
    "eval_strategy": "epoch",
    "save_strategy": "epoch",
    "save_total_limit": 1,
    "load_best_model_at_end": True,
    "batch_eval_metrics": True,  # metrics are summed batch by batch: no (documents, labels) matrix
    "logging_steps": 20,
    "dataloader_pin_memory": torch.cuda.is_available(),
    "report_to": "none",
}
"""Training arguments of every recipe, where the user says nothing else."""


def parse_settings(
    recipe: type[Recipe], defaults: Mapping[str, Any], check: Callable[[Any, TrainingArguments], None] | None = None
) -> tuple[Recipe, TrainingArguments]:
    """Reads the settings of a run: the flags, then the file of `--config`, then the defaults; the first one counts.

    A setting has one name in both: `--learning_rate 1e-3` and `learning_rate: 1e-3`. The settings of a run are kept in
    OUTPUT_DIR/settings.yaml, which `--config` takes again.

    Args:
        recipe: A dataclass of settings, each with help.
        defaults: Those of the training arguments.
        check: Raises ValueError or OSError for settings that cannot serve, before anything is read or written.

    Returns:
        The settings of the recipe, and the training arguments.

    Raises:
        SystemExit: The file does not exist, is no YAML or has a setting that does not exist; a flag is wrong; the
            settings cannot serve; or output_dir cannot be written.
    """
    parser = FlagParser(recipe)
    parser.set_defaults(**{**DEFAULTS, **defaults})
    given = parser.canonical(sys.argv[1:])
    if {"-h", "--help"} & set(given):
        sys.stdout.write(parser.short_help())
        parser.exit()
    if "--help_all" in given:
        parser.print_help()
        parser.exit()
    for place, flag in enumerate(given):
        name, _, value = flag.partition("=")
        if name == "--config":
            path = value or (given[place + 1] if place + 1 < len(given) else "")
            _take_defaults(parser, Path(path))
    settings, args = parser.parse(given)
    if args.hub_token:  # where the Hub's library looks for it; every checkpoint has a copy of the arguments
        os.environ["HF_TOKEN"], args.hub_token = args.hub_token, None
    try:
        if check is not None:
            check(settings, args)
        if args.process_index == 0:
            _keep_settings(settings, args)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    return settings, args


def printer(args: TrainingArguments) -> Callable[..., None]:
    """What prints, in one of the processes alone.

    Args:
        args: The training arguments.
    """
    return print if args.process_index == 0 else (lambda *_: None)


@contextmanager
def reading(args: TrainingArguments, what: str) -> Iterator[None]:
    """Reads files in one process first, which fills the caches of the others; ends with a sentence if it cannot.

    Args:
        args: The training arguments.
        what: What is read.

    Raises:
        SystemExit: A file cannot be read, or what it says makes no sense.
    """
    with args.main_process_first(desc=f"reading {what}"):
        try:
            yield
        except (ValueError, OSError) as error:
            raise SystemExit(str(error)) from None


def _take_defaults(parser: FlagParser, path: Path) -> None:
    try:
        content = read_yaml(path)
    except OSError as error:
        parser.error(f"--config: cannot read {path}: {error.strerror}")
    except ValueError as error:
        parser.error(masked(f"--config: {error}"))
    if not isinstance(content, dict):
        parser.error(masked(f"--config: {path} must hold settings as `name: value`, got {shortened(content)}"))
    actions = {action.dest: action for action in parser._actions}
    for name, value in content.items():
        action = actions.get(str(name).replace("-", "_"))
        if action is None:
            parser.error(f"--config: {path}: there is no setting {name!r}{parser.hint(str(name).replace('-', '_'))}")
        # argparse converts defaults that are texts as it converts flags: 1e-3, which YAML takes for a text, too.
        if action.nargs == "+" and not isinstance(value, list):
            value = [value]
        if isinstance(value, list):
            value = [_converted(parser, action, name, item) for item in value]
        elif isinstance(value, str):
            value = _converted(parser, action, name, value)
        action.default = value
        parser.set_defaults(**{action.dest: value})
        action.required = False


def _converted(parser: FlagParser, action: Any, name: str, value: Any) -> Any:
    if action.type is None or not isinstance(value, str):
        return str(value) if action.type is str else value
    try:
        return action.type(value)
    except (TypeError, ValueError) as error:
        parser.error(f"--config: {name}: {error}")


def _keep_settings(settings: Any, args: TrainingArguments) -> None:
    """Writes the settings of the recipe, without secrets, and the training arguments that are not the defaults."""
    kept = {"output_dir": args.output_dir}
    kept |= {field.name: getattr(settings, field.name) for field in fields(settings)}
    for field in fields(args):
        value = getattr(args, field.name)
        value = value.value if isinstance(value, Enum) else value
        is_setting = (
            field.init and isinstance(value, (str, int, float)) and field.name not in ("local_rank", "run_name")
        )
        if is_setting and value != field.default:
            kept[field.name] = value
    kept = {name: value for name, value in kept.items() if not is_secret(name)}
    folder = Path(args.output_dir)
    text = masked(yaml.safe_dump(kept, sort_keys=False, allow_unicode=True))
    try:
        with whole_file(folder / "settings.yaml") as written:
            written.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OSError(f"output_dir: cannot write to {folder}: {error.strerror or error}") from None


def write_results(folder: Path, results: Mapping[str, Any], metrics: Mapping[str, str]) -> None:
    """Writes `results.json`, and `curves.png` with loss and metric against the step.

    Args:
        folder: Where to write.
        results: What `fit` returned, by the name of the model.
        metrics: The figure to draw of each model, a key of its history.
    """
    with whole_file(folder / "results.json") as written:
        written.write_text(json.dumps(results, indent=1), encoding="utf-8")
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
    with whole_file(folder / "curves.png") as written:
        figure.savefig(written, dpi=120)
    pyplot.close(figure)


CLEAN_PROCESS = """
import json, sys
sys.modules["hf_gile"] = None  # whatever is installed, only the folder counts
from transformers import pipeline
request = json.load(sys.stdin)
pipe = pipeline(model=request["folder"], trust_remote_code=True)
for labels in (None, request["labels"]):
    answer = pipe(request["text"], candidate_labels=labels, top_k=10)
    for name, score in zip(answer["labels"], answer["scores"]):
        print(f"  {score:8.4f}  {''.join(sign if sign.isprintable() else ' ' for sign in name)}")
    print()
"""


def score_elsewhere(folder: Path, text: str, labels: list[str]) -> None:
    """Loads a saved folder in a process without hf_gile, and prints scores of its stored labels and of others.

    Args:
        folder: The folder.
        text: What to score.
        labels: The other labels.
    """
    request = json.dumps({"folder": str(folder), "text": text, "labels": labels})
    subprocess.run([sys.executable, "-c", CLEAN_PROCESS], input=request, text=True, check=True)
