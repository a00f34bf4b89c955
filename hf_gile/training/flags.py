"""Settings from a command line and a YAML file: a short help, both spellings of flags, and what wrong ones may mean."""

import argparse
import difflib
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, NoReturn, TypeVar

import torch
import yaml
from transformers import HfArgumentParser, TrainingArguments

from ..data.files import read_yaml
from ..masking import is_secret, masked
from ..writing import whole_file

Recipe = TypeVar("Recipe")
Arguments = TypeVar("Arguments", bound=TrainingArguments)

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


USUAL = (
    "output_dir",
    "num_train_epochs",
    "per_device_train_batch_size",
    "learning_rate",
    "gradient_accumulation_steps",
    "metric_for_best_model",
    "resume_from_checkpoint",
    "bf16",
    "use_cpu",
    "seed",
)
"""The training arguments that the short help shows."""

MEANT = {
    "label": "labels",
    "lr": "learning_rate",
    "model": "text_encoder",
    "encoder": "text_encoder",
    "max_length": "max_words",
    "max_seq_length": "max_words",
    "text_column": "text",
    "text_columns": "text",
    "label_column": "labels",
    "label_columns": "labels",
    "sep": "separator",
    "delimiter": "separator",
    "dev_files": "validation_files",
    "dev_file": "validation_files",
    "eval_files": "validation_files",
    "eval_file": "validation_files",
    "val_files": "validation_files",
}
"""What people mean by names of other tools that look unlike ours."""

_NARROW, _WIDE = 80, 120


def parse_settings(
    recipe: type[Recipe],
    defaults: Mapping[str, Any],
    check: Callable[[Any, TrainingArguments], None] | None = None,
    arguments: type[Arguments] = TrainingArguments,
) -> tuple[Recipe, Arguments]:
    """Reads the settings of a run: the flags, then the file of `--config`, then the defaults; the first one counts.

    A setting has one name in both: `--learning_rate 1e-3` and `learning_rate: 1e-3`. The settings of a run are kept in
    OUTPUT_DIR/settings.yaml, which `--config` takes again.

    Args:
        recipe: A dataclass of settings, each with help.
        defaults: Those of the training arguments.
        check: Raises ValueError or OSError for settings that cannot serve, before anything is read or written.
        arguments: The class of the training arguments.

    Returns:
        The settings of the recipe, and the training arguments.

    Raises:
        SystemExit: The file does not exist, is no YAML or has a setting that does not exist; a flag is wrong; the
            settings cannot serve; or output_dir cannot be written.
    """
    parser = FlagParser(recipe, arguments)
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


class FlagParser(HfArgumentParser):
    """Parses the flags of a recipe and of `TrainingArguments`.

    Args:
        recipe: A dataclass of settings, each with help.
        arguments: The class of the training arguments.
    """

    def __init__(self, recipe: type[Any], arguments: type[TrainingArguments] = TrainingArguments) -> None:
        super().__init__((recipe, arguments), add_help=False, allow_abbrev=False)
        self.recipe = recipe
        for action in self._actions:
            if action.dest in recipe.__dataclass_fields__:
                action.choices = None  # `Settings` looks at them, wherever they come from
                if recipe.__dataclass_fields__[action.dest].type == bool | None:
                    action.nargs, action.const = "?", True  # as of a plain bool: the flag alone means yes
        self.add_argument("--config", help="YAML file of settings; flags go before it.")
        self.add_argument("-h", "--help", action="store_true", help="Show the usual flags.")
        self.add_argument(
            "--help_all", "--help-all", action="store_true", help="Show all flags, with all of their help."
        )

    def error(self, message: str) -> NoReturn:
        """Says what is wrong, without the list of all flags, and ends with exit code 2."""
        sys.stderr.write(masked(f"error: {' '.join(message.split())}\n"))
        sys.exit(2)

    def canonical(self, words: Sequence[str]) -> list[str]:
        """Spells flags as they are declared: dashes within a name may stand for underscores.

        Args:
            words: A command line.

        Raises:
            SystemExit: A flag does not exist.
        """
        spelled = []
        for word in words:
            flag, equals, value = word.partition("=")
            if flag.startswith("--") and flag != "--":
                name = f"--{flag[2:].replace('-', '_')}"
                if name not in self._option_string_actions:
                    # No values are in it that would have to be masked.
                    self.exit(2, f"error: {flag}: there is no such flag{self.hint(name[2:])}; --help shows the flags\n")
                word = f"{name}{equals}{value}"
            spelled.append(word)
        return spelled

    def parse(self, words: Sequence[str]) -> tuple[Any, TrainingArguments]:
        """Reads the settings of a run.

        Args:
            words: A command line, as `canonical` spells it.

        Returns:
            The settings of the recipe, and the training arguments.

        Raises:
            SystemExit: A value is wrong or missing, or a word belongs to no flag.
        """
        try:
            settings, args, _, rest = self.parse_args_into_dataclasses(
                list(words), return_remaining_strings=True, look_for_args_file=False
            )
        except ValueError as error:
            self.error(str(error))
        if rest:
            self.error(f"{rest[0]!r} belongs to no flag, and each value does; --help shows the flags")
        return settings, args

    def hint(self, name: str) -> str:
        """The flags that a wrong name may stand for, each with the first sentence of its help; "" if there are none."""
        actions = {action.dest: action for action in self._actions}
        near = nearest(name, [*(one.name for one in fields(self.recipe)), *USUAL], actions)
        flags = [f"--{one} ({_first(actions[one].help or 'no help')})" for one in near]
        return f"; did you mean {' or '.join(flags)}?" if flags else ""

    def short_help(self) -> str:
        """A line for each setting of the recipe, and for the usual training arguments."""
        width = min(_WIDE, max(_NARROW, shutil.get_terminal_size((100, 24)).columns))
        actions: dict[str, Any] = {}
        for action in self._actions:
            actions.setdefault(action.dest, action)
        bases = [base for base in self.recipe.__mro__[1:] if is_dataclass(base)]
        inherited = {one.name for base in bases for one in fields(base)}
        names = [one.name for one in fields(self.recipe)]
        ordered = [name for name in names if name not in inherited] + [name for name in names if name in inherited]
        groups = getattr(self.recipe, "GROUPS", {})
        lines: list[str] = []
        for name in ordered:
            if name in groups or not lines:
                lines += ["", groups.get(name, "Settings")]
            lines.append(_line(actions[name], width))
        lines += ["", "Training, of transformers.TrainingArguments; --help-all shows the others"]
        lines += [_line(actions[name], width) for name in (*USUAL, "config")]
        return "\n".join(lines).strip() + "\n\nWhat ends in ... is longer: --help-all shows all of it.\n"


def nearest(name: str, ours: Sequence[str], every: Iterable[str]) -> list[str]:
    """Names that a wrong one may stand for, the likeliest first.

    Args:
        name: The wrong name.
        ours: Names of the recipe, and the usual others.
        every: All names.

    Returns:
        At most three: names that have all of its words, else names that look like it; of these ours, if there are any.

    Example:
        >>> nearest("labels_file", ["labels", "label_file"], ["labels", "label_file", "seed"])
        ['label_file']
    """
    every = list(every)
    if MEANT.get(name) in every:
        return [MEANT[name]]
    wanted = _words(name)

    def likeness(other: str) -> float:
        return difflib.SequenceMatcher(None, name, other).ratio()

    found = [other for other in every if wanted <= _words(other)] or [one for one in every if likeness(one) > 0.7]
    found = [other for other in found if other in ours] or found
    return sorted(found, key=likeness, reverse=True)[:3]


def _words(name: str) -> set[str]:
    return {word.rstrip("s") for word in name.lower().split("_")}


def _first(text: str) -> str:
    """The first sentence of a help text."""
    return text.replace("%%", "%").partition(". ")[0].rstrip(".")


def _line(action: argparse.Action, width: int) -> str:
    default, value = action.default, " N" if action.type is int else " X" if action.type is float else " TEXT"
    if action.nargs == "?":
        value = " false" if default is True else ""  # what changes it
    elif action.nargs == "+":
        value, default = f"{value} ...", " ".join(map(str, default or []))
    shown = "" if default in (None, "", False, True) else f"  [{default}]"
    room = width - 36 - len(shown)
    if room < 20:
        shown, room = "", width - 36
    head = f"  --{action.dest}{value}"
    text = " ".join((action.help or "").replace("%%", "%").split())
    return f"{head:34}  {textwrap.shorten(text, room, placeholder=' ...')}{shown}"


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


def _converted(parser: FlagParser, action: argparse.Action, name: str, value: object) -> object:
    if not callable(action.type) or not isinstance(value, str):
        return str(value) if action.type is str else value
    try:
        return action.type(value)
    except (TypeError, ValueError) as error:
        parser.error(f"--config: {name}: {error}")


def _keep_settings(settings: object, args: TrainingArguments) -> None:
    """Writes the settings of the recipe, without secrets, and the training arguments that are not the defaults."""
    kept = {"output_dir": args.output_dir}
    kept |= {field.name: getattr(settings, field.name) for field in fields(settings)}  # type: ignore[arg-type]
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
