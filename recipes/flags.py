"""The flags of the recipes: a short help, both spellings of each, and what is said of those that do not exist.

A setting is a field of a dataclass, and a flag, and a line of a YAML file. What is a field of a configuration, or an
option of a class, is not declared again: `settings_of` reads its type, default and description there.
"""

import difflib
import inspect
import re
import shutil
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn, get_args, get_origin

from transformers import HfArgumentParser, TrainingArguments

from hf_gile.data.files import find_files
from hf_gile.masking import masked

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


class Settings:
    """What dataclasses of settings are: each setting among its choices.

    Attributes:
        GROUPS: Headings of the help, by the first setting below each.

    Raises:
        ValueError: A setting is none of its choices; the message names them.
    """

    GROUPS: ClassVar[dict[str, str]] = {}

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            for own in value if isinstance(value, list) else [value]:
                if own is not None and "choices" in one.metadata:
                    check_choice(one.name, own, one.metadata["choices"])


def setting(default: Any, help: str, choices: Iterable[str] = ()) -> Any:
    """Declares a setting: a field of a dataclass.

    Args:
        default: Its default, which may be a list; `dataclasses.MISSING` for a setting that must be named.
        help: What it is.
        choices: What it can be, or each of its values, of a `Settings`.
    """
    metadata: dict[str, Any] = {"help": help.replace("%", "%%")}
    if choices:
        metadata["choices"] = tuple(choices)
    if isinstance(default, list):
        return field(default_factory=partial(list, default), metadata=metadata)
    return field(default=default, metadata=metadata)


def settings_of(source: type, names: Sequence[str], prefix: str = "", **defaults: Any) -> Callable[[type], type]:
    """Adds settings to a dataclass in the making that are options of another class, as its docstring describes them.

    Args:
        source: The class, such as `GileConfig`.
        names: The options.
        prefix: Stands before the names of the settings.
        defaults: Defaults that differ from those of the class; None for settings that are left to it.
    """
    parameters, descriptions = inspect.signature(source).parameters, arguments_of(source)

    def add(settings: type) -> type:
        for name in names:
            kind, default = parameters[name].annotation, defaults.get(name, parameters[name].default)
            if get_origin(kind) is list:  # of a dataclass, which makes it anew each time
                default = source.__dataclass_fields__[name].default_factory()
            choices = get_args(kind) if get_origin(kind) is Literal else ()
            kind = str if choices else float if float in get_args(kind) else kind
            settings.__annotations__[prefix + name] = kind if default is not None else kind | None
            setattr(settings, prefix + name, setting(default, descriptions.get(name, ""), choices))
        return settings

    return add


def arguments_of(source: type) -> dict[str, str]:
    """The descriptions of a class's options: the section `Args` of its docstring.

    Args:
        source: The class.
    """
    section = inspect.getdoc(source).partition("\nArgs:\n")[2].partition("\n\n")[0]
    return {
        name: " ".join(text.split())
        for name, text in re.findall(r"^    (\w+): (.+(?:\n {5,}.+)*)", section, flags=re.MULTILINE)
    }


def check_choice(setting: str, value: str, choices: Iterable[str]) -> None:
    """Makes sure that a value is one of some.

    Args:
        setting: The name of the setting.
        value: What it is.
        choices: What it can be.

    Raises:
        ValueError: It is something else; the message names what it can be, and what looks like it.
    """
    known = list(choices)
    if value not in known:
        near = difflib.get_close_matches(value, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"{setting} must be one of {', '.join(known)}, got {value!r}{hint}")


def check_files(settings: Any, names: Sequence[str], suffixes: Sequence[str] = ()) -> None:
    """Makes sure that the files of some settings are there.

    Args:
        settings: A dataclass of settings.
        names: Settings that are None, a path, or a list of files, folders and globs.
        suffixes: What files can be read; by default any.

    Raises:
        ValueError: A setting names files that cannot be read.
        FileNotFoundError: A path or glob leads nowhere.
    """
    for name in names:
        value = getattr(settings, name)
        for path in value if isinstance(value, list) else [value] if value is not None else []:
            try:
                if suffixes:
                    find_files([path], suffixes)
                elif not Path(path).exists():
                    raise FileNotFoundError(f"no file {path} (in {Path.cwd()})")
            except (ValueError, OSError) as error:
                raise type(error)(f"{name}: {error}") from None


class FlagParser(HfArgumentParser):
    """Parses the flags of a recipe and of `TrainingArguments`.

    Args:
        recipe: A dataclass of settings, each with help.
    """

    def __init__(self, recipe: type[Any]) -> None:
        super().__init__((recipe, TrainingArguments), add_help=False, allow_abbrev=False)
        self.recipe = recipe
        for action in self._actions:
            if action.dest in recipe.__dataclass_fields__:
                action.choices = None  # `Settings` looks at them, wherever they come from
        self.add_argument("--config", help="YAML file of settings; flags go before it.")
        self.add_argument("-h", "--help", action="store_true", help="Show the usual flags.")
        self.add_argument(
            "--help_all", "--help-all", action="store_true", help="Show all flags, with all of their help."
        )

    def error(self, message: str) -> NoReturn:
        """Says what is wrong, without the list of all flags, and ends with exit code 2."""
        self.exit(2, masked(f"error: {' '.join(message.split())}\n"))

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


def _line(action: Any, width: int) -> str:
    value, default = {int: " N", float: " X"}.get(action.type, " TEXT"), action.default
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
