"""Reads settings from the command line and a YAML file, with a short help and suggestions for unknown flags."""

import argparse
import errno
import inspect
import os
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, NoReturn, TypeVar

from transformers import HfArgumentParser, TrainingArguments

from hf_gile.masking import masked, masked_in
from hf_gile.publishing import CardInfo, read_card_fields
from hf_gile.training.checkpoints import resumes
from hf_gile.training.options import STEPS
from hf_gile.training.reporting import SETTINGS_FILE
from hf_gile.yaml_files import read_yaml

from .flag_names import COMMON, nearest

Recipe = TypeVar("Recipe")
Arguments = TypeVar("Arguments", bound=TrainingArguments)

ONLY_STEPS = (
    "num_train_epochs",
    "max_steps",
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "learning_rate",
    "lr_scheduler_type",
    "warmup_steps",
    "weight_decay",
    "optim",
)
"""Training arguments that only affect training steps."""

_NARROW = 80
_WIDE = 120


def parse_settings(
    recipe: type[Recipe],
    defaults: Mapping[str, Any],
    check: Callable[[Any, TrainingArguments], None] | None = None,
    arguments: type[Arguments] = TrainingArguments,
) -> tuple[Recipe, Arguments]:
    """Reads the settings of a run from flags, the file of `--config`, and defaults, in order of precedence.

    A setting has the same name as a flag and in a file: `--learning_rate 1e-3` and `learning_rate: 1e-3`. An output_dir
    that already holds a run is refused, unless it is resumed or `--overwrite_output_dir` is set, which removes the
    checkpoints of that run.

    Args:
        recipe: A dataclass of settings, each with help.
        defaults: Defaults of the training arguments.
        check: Raises ValueError or OSError for invalid settings, before anything is read or written.
        arguments: Class of the training arguments.

    Returns:
        The settings of the recipe, and the training arguments.

    Raises:
        SystemExit: If the file does not exist, is not YAML or has an unknown setting; a flag is wrong; settings are
            invalid; or output_dir holds a run or cannot be written.
    """
    parser = FlagParser(recipe, arguments)
    parser.set_defaults(**{**STEPS, **defaults})
    usual = {name: parser.get_default(name) for name in ONLY_STEPS}
    words = parser.canonical(sys.argv[1:])
    if {"-h", "--help"} & set(words):
        sys.stdout.write(parser.short_help())
        parser.exit()
    if "--help_all" in words:
        parser.print_help()
        parser.exit()
    for position, flag in enumerate(words):
        name, _, value = flag.partition("=")
        if name == "--config":
            path = value or (words[position + 1] if position + 1 < len(words) else "")
            _set_defaults(parser, Path(path))
    settings, args = parser.parse(words)
    settings.changed_steps = [name for name in ONLY_STEPS if getattr(args, name) != usual[name]]
    if args.hub_token:  # huggingface_hub reads HF_TOKEN
        os.environ["HF_TOKEN"] = args.hub_token
        args.hub_token = None
    _mask_texts(args)
    try:
        if not str(args.output_dir or "").strip():
            raise ValueError("output_dir must be a folder, got an empty name: name a folder, or leave it out")
        if check is not None:
            check(settings, args)
        _check_output_dir(Path(args.output_dir), parser.overwrites, resumes(args))
        if args.process_index == 0:
            _prepare_output_dir(Path(args.output_dir), parser.overwrites)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    return settings, args


class FlagParser(HfArgumentParser):
    """Parses the flags of a recipe, a dataclass of settings with help, and of `TrainingArguments`."""

    def __init__(self, recipe: type[Any], arguments: type[TrainingArguments] = TrainingArguments) -> None:
        super().__init__((recipe, arguments), add_help=False, allow_abbrev=False)
        self.recipe = recipe
        descriptions = documented_arguments(recipe)
        for action in self._actions:
            if action.nargs in ("+", "*"):
                action.__class__ = _Collect
            if action.dest in recipe.__dataclass_fields__:
                action.choices = None  # checked by `Settings`, for flags and files
                action.help = action.help or descriptions.get(action.dest, "").replace("%", "%%")
                if recipe.__dataclass_fields__[action.dest].type == bool | None:
                    # the flag alone means true
                    action.nargs = "?"
                    action.const = True
                if action.const is False:
                    action.help = _negated(action.help or "")
            elif action.const is False:
                action.help = f"Set {action.dest} to false."
        self.overwrites = False
        help = "Train again into an output_dir that holds a run, and remove the checkpoints of that run."
        self.add_argument("--overwrite_output_dir", action="store_true", help=help)
        self.add_argument("--config", help="YAML file of settings; flags take precedence.")
        self.add_argument("-h", "--help", action="store_true", help="Show the usual flags.")
        self.add_argument("--help_all", "--help-all", action="store_true", help="Show the complete help of all flags.")

    def error(self, message: str) -> NoReturn:
        """Prints an error without listing all flags, and exits with code 2."""
        sys.stderr.write(masked(f"error: {' '.join(message.split())}\n"))
        sys.exit(2)

    def canonical(self, words: Sequence[str]) -> list[str]:
        """Normalizes the flags of a command line, with dashes or underscores; exits if a flag does not exist."""
        spelled = []
        for word in words:
            flag, equals, value = word.partition("=")
            if flag.startswith("--") and flag != "--":
                name = f"--{flag[2:].replace('-', '_')}"
                if name not in self._option_string_actions:
                    # Contains no values that must be masked.
                    self.exit(2, f"error: {flag}: unknown flag{self.hint(name[2:])}; --help shows the flags\n")
                word = f"{name}{equals}{value}"
            spelled.append(word)
        return spelled

    def parse(self, words: Sequence[str]) -> tuple[Any, TrainingArguments]:
        """Reads settings and training arguments from a normalized command line; exits if a value is wrong."""
        try:
            settings, args, others, remaining = self.parse_args_into_dataclasses(
                list(words), return_remaining_strings=True, look_for_args_file=False
            )
            self.overwrites = bool(others.overwrite_output_dir)
        except ValueError as error:
            self.error(str(error))
        if remaining:
            self.error(f"{remaining[0]!r} does not belong to a flag; --help shows the flags")
        return settings, args

    def hint(self, name: str) -> str:
        """Suggests flags for an unknown name, the first with a sentence of its help; empty if none is similar."""
        actions = {action.dest: action for action in reversed(self._actions)}  # not the negated flag
        near = nearest(name, [*(field.name for field in fields(self.recipe)), *COMMON], actions)
        if not near:
            return ""
        help = _first_sentence(actions[near[0]].help or "no help")
        return f"; did you mean --{near[0]} ({help}){''.join(f' or --{flag}' for flag in near[1:])}?"

    def short_help(self) -> str:
        """Returns a line for each setting of the recipe, and for common training arguments."""
        width = min(_WIDE, max(_NARROW, shutil.get_terminal_size((100, 24)).columns))
        actions: dict[str, Any] = {}
        for action in self._actions:
            actions.setdefault(action.dest, action)
        bases = [base for base in self.recipe.__mro__[1:] if is_dataclass(base)]
        inherited = {field.name for base in bases for field in fields(base)}
        names = [field.name for field in fields(self.recipe)]
        ordered = [name for name in names if name not in inherited] + [name for name in names if name in inherited]
        groups = getattr(self.recipe, "GROUPS", {})
        first = getattr(self.recipe, "FIRST", ())
        shown = {name: _format_flag(action, width) for name, action in actions.items()}
        lines = ["Most runs need", *(shown.pop(name) for name in first)] if first else []
        for name in ordered:
            if name in groups or not lines:
                lines += ["", groups.get(name, "Settings")]
            lines += [shown.pop(name)] if name in shown else []
        lines += ["", "Training (transformers.TrainingArguments; --help-all shows all)"]
        lines += [shown[name] for name in (*COMMON, "overwrite_output_dir", "config") if name in shown]
        return (
            "\n".join(lines).strip()
            + "\n\nDescriptions ending in ... are truncated: --help-all shows them completely.\n"
        )


class _Collect(argparse.Action):
    """Collects the values of a flag that is repeated, as the other commands do."""

    def __call__(
        self, parser: object, namespace: object, values: str | Sequence[Any] | None, option_string: str | None = None
    ) -> None:
        before = getattr(namespace, self.dest)
        if before is self.default:
            before = []
        setattr(namespace, self.dest, [*before, *(values or ())])


def documented_arguments(source: type) -> dict[str, str]:
    """Returns the descriptions of arguments in the docstrings of a class and of its bases."""
    descriptions: dict[str, str] = {}
    for kind in reversed(source.__mro__):
        section = (inspect.getdoc(kind) or "").partition("\nArgs:\n")[2].partition("\n\n")[0]
        for name, text in re.findall(r"^    (\w+): (.+(?:\n {5,}.+)*)", section, flags=re.MULTILINE):
            descriptions[name] = " ".join(text.split())
    return descriptions


def _negated(help: str) -> str:
    """Returns the help of a flag that switches a setting off, from the help of the setting."""
    verb, _, rest = re.split(r"[.,:;]", help.removeprefix("Also "))[0].partition(" ")
    return f"Do not {verb.lower()} {rest}."


def _first_sentence(text: str) -> str:
    """Returns the first sentence of a help text."""
    return text.replace("%%", "%").partition(". ")[0].rstrip(".")


def _format_flag(action: argparse.Action, width: int) -> str:
    default = action.default
    values: dict[object, str] = {int: " N", float: " X"}
    value = values.get(action.type, " TEXT")
    if action.nargs in ("?", 0):
        value = " false" if default is True else ""  # the value to change it
    elif action.nargs == "+":
        value = f"{value} ..."
        default = " ".join(map(str, default or []))
    shown_default = "" if default in (None, "", False, True) else f"  [{default}]"
    room = width - 36 - len(shown_default)
    if room < 20:
        shown_default = ""
        room = width - 36
    head = f"  --{action.dest}{value}"
    text = " ".join((action.help or "").replace("%%", "%").split())
    return f"{head:34}  {textwrap.shorten(text, room, placeholder=' ...')}{shown_default}"


def _set_defaults(parser: FlagParser, path: Path) -> None:
    try:
        content = read_yaml(path)
    except OSError as error:
        parser.error(f"--config: cannot read {path}: {error.strerror}")
    except ValueError as error:
        parser.error(masked(f"--config: {error}"))
    if not isinstance(content, dict):
        parser.error(masked(f"--config: {path} must contain settings as `name: value`, got {shortened(content)}"))
    actions = {action.dest: action for action in parser._actions}
    for name, value in content.items():
        action = actions.get(str(name).replace("-", "_"))
        if action is None:
            parser.error(f"--config: {path}: unknown setting {name!r}{parser.hint(str(name).replace('-', '_'))}")
        # argparse converts string defaults like flags, such as 1e-3, which YAML reads as a string.
        if action.nargs == "+" and not isinstance(value, list):
            value = [value]
        if isinstance(value, list):
            value = [_convert(parser, action, name, item) for item in value]
        elif isinstance(value, str):
            value = _convert(parser, action, name, value)
        action.default = value
        parser.set_defaults(**{action.dest: value})
        action.required = False


def _convert(parser: FlagParser, action: argparse.Action, name: str, value: object) -> object:
    if not callable(action.type) or not isinstance(value, str):
        return str(value) if action.type is str else value
    try:
        return action.type(value)
    except (TypeError, ValueError) as error:
        parser.error(f"--config: {name}: {error}")


_PATHS = ("output_dir", "logging_dir", "resume_from_checkpoint", "deepspeed")


def _mask_texts(args: TrainingArguments) -> None:
    """Masks secrets in texts such as `run_name`, since arguments are copied to every checkpoint; paths stay."""
    for field in fields(args):
        value = getattr(args, field.name)
        if field.name not in _PATHS and isinstance(value, str | list | dict):
            safe = masked_in(value)
            if safe != value:
                setattr(args, field.name, safe)


@contextmanager
def reading(args: TrainingArguments, content: str) -> Iterator[None]:
    """Reads files in the main process first, which fills the cache for other processes.

    Raises:
        SystemExit: If a file cannot be read, or is invalid; with a message.
    """
    with args.main_process_first(desc=f"reading {content}"):
        try:
            yield
        except (ValueError, OSError) as error:
            raise SystemExit(str(error)) from None


def card_info(path: str | None, **defaults: Any) -> CardInfo:
    """Reads the content of a card from a YAML file with fields of `CardInfo`, if any, with defaults of the recipe."""
    fields_of_card = {} if path is None else read_card_fields(path)
    return CardInfo(**{"training_command": _command(), **defaults, **fields_of_card})


def _command() -> str:
    """Returns the command line of this run, without local paths of the script and the output."""
    script = Path(sys.argv[0]).resolve()
    words = iter(sys.argv[1:])
    flags = []
    for word in words:
        if word == "--output_dir":
            next(words, None)
        elif not word.startswith(("--output_dir=", "--overwrite_output_dir", "--overwrite-output-dir")):
            flags.append(word)
    return shlex.join(["python", f"{script.parent.name}/{script.name}", *flags])


def _check_output_dir(folder: Path, overwrites: bool, resumes: bool) -> None:
    """Refuses a folder that holds a run, whose model would be replaced."""
    patterns = (SETTINGS_FILE, "results.json", "report.html", "*/model/config.json", "*/checkpoint-*")
    found = [path for pattern in patterns for path in folder.glob(pattern)]
    if found and not overwrites and not resumes:
        raise FileExistsError(
            f"output_dir: {folder} holds a run ({found[0].relative_to(folder)}): choose another folder, continue the "
            "run with --resume_from_checkpoint true, or replace it with --overwrite_output_dir"
        )


def _prepare_output_dir(folder: Path, overwrites: bool) -> None:
    """Creates the folder of a run; removes old checkpoints, which would be resumed later."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        for checkpoint in folder.glob("*/checkpoint-*") if overwrites else ():
            if checkpoint.is_dir() and not checkpoint.is_symlink() and checkpoint.name[11:].isdecimal():
                shutil.rmtree(checkpoint)
    except OSError as error:
        raise OSError(f"output_dir: cannot write to {folder}: {error.strerror or error}") from None
