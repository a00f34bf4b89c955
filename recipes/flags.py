"""The flags of the recipes: a short help, both spellings of each, and what is said of those that do not exist."""

import difflib
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NoReturn

from transformers import HfArgumentParser, TrainingArguments

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


class FlagParser(HfArgumentParser):
    """Parses the flags of a recipe and of `TrainingArguments`.

    Args:
        recipe: A dataclass of settings, each with help. `GROUPS`, where it has such, are headings of the help by the
            first setting below each.
    """

    def __init__(self, recipe: type[Any]) -> None:
        super().__init__((recipe, TrainingArguments), add_help=False, allow_abbrev=False)
        self.recipe = recipe
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
