"""Implements the shared behaviour of commands: error messages, exit codes, standard output and standard error."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from functools import wraps
from inspect import Signature, cleandoc, signature
from pathlib import Path
from traceback import format_exc
from typing import Any

import typer
from typer.core import TyperCommand

_EXPECTED_ERRORS = (ValueError, OSError, ImportError)  # raised by hf_gile with a message for users

# Library messages about arguments that are flags of the command.
_FLAGS = {
    'pass on_error="skip" to skip it': "skip it with --on-error skip",
    'pass on_error="skip" to skip them': "skip them with --on-error skip",
    "(language=...)": "(--language)",
    "with without_words=True": "with --without-words",
    'pass encoding="': 'pass --encoding "',
    'pass text="1" and so on': "pass --text 1 and so on",
    'try encoding="': 'try --encoding "',
} | {f'with {name}="..."': f"with --{name}" for name in ("text", "labels", "id")}

_COMMAND = re.compile(r"^hf-gile |[|(] ?hf-gile ")

# Raised by Transformers for a model with custom code, since the command never sets trust_remote_code.
_CUSTOM_CODE = re.compile(r"The repository (.+?) (?:contains|references) custom code")

# Control characters except tab and newline, bidirectional controls, line separators and lone surrogates.
_INVISIBLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_LONGEST = 4000  # characters of a message

_PANELS = {
    "Answers": "force_label multi_label long_texts evidence parents shortlist with_text",
    "Reading of tables": "format on_error delimiter quote encoding columns",
    "Columns of a label file": "label_id label_name label_description label_synonyms label_language",
    "Large inputs, with --output": "status merge shard workers part_size batch_tokens",
    "Model and machine": "language candidate_language background index batch_size bf16 device revision",
}
"""Options that help shows after all others, by the title of their panel."""

_debug = False


class Command(TyperCommand):
    """A command whose help shows options in panels, those that most users need first."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes arguments and options."""
        title_of = {name: title for title, names in _PANELS.items() for name in names.split()}
        panels: dict[str, list[tuple[str, str]]] = {title: [] for title in ("Arguments", "Options", *_PANELS)}
        for parameter in self.get_params(ctx):
            usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
            if record := parameter.get_help_record(ctx):
                panels[title_of.get(parameter.name or "", usual)].append(record)
        for title, records in panels.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def check_new_folder(folder: Path) -> None:
    """Raises an error if an output folder exists and is not empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} already exists and is not empty: choose another folder")


def check_other_file(path: Path, inputs: Iterable[str]) -> None:
    """Raises an error if an output file is one of the input files, which would be lost."""
    if path.resolve() in (Path(name).resolve() for name in inputs):
        raise FileExistsError(f"{path} is an input file: name another file for the output")


def debug_errors(enabled: bool) -> None:
    """Sets whether errors show a traceback."""
    global _debug
    _debug = enabled


def new_group(name: str, text: str, completion: bool = False) -> typer.Typer:
    """Creates a group of commands, with options that install completion for a shell if requested."""
    # Plain help starts faster than rich help and prints examples unchanged at any terminal width.
    return typer.Typer(
        name=name,
        help=help_text(text),
        add_completion=completion,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        # Recipes spell flags with underscores; the command accepts both spellings.
        context_settings={
            "help_option_names": ["--help", "-h"],
            "token_normalize_func": lambda name: name.replace("_", "-"),
        },
    )


def add_command(group: typer.Typer, function: Callable[..., None], **settings: Any) -> None:
    """Adds a command that reports an error as a sentence on standard error.

    Args:
        group: Group to add to.
        function: Implementation. Its name is that of the command, and its docstring the help text. Its parameters, or
            the fields of its single dataclass parameter, are the arguments and options.
        settings: Further arguments of `typer.Typer.command`.
    """
    name = function.__name__.rstrip("_").replace("_", "-")
    kinds = [parameter.annotation for parameter in signature(function).parameters.values()]
    options: Any = next(filter(is_dataclass, kinds), None)

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            if options is not None:
                function(options(**kwargs))
            else:
                function(*args, **kwargs)
            sys.stdout.flush()
        except (typer.Exit, typer.BadParameter, SystemExit, GeneratorExit):
            raise
        except BrokenPipeError:  # the reader closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except KeyboardInterrupt as error:
            note(str(error) or "interrupted")
            raise typer.Exit(130) from None
        except BaseException as error:  # a panic of a Rust library is no Exception
            if _debug:
                from hf_gile.masking import masked

                note(masked(format_exc()).rstrip())
            else:
                note(f"hf-gile {group.info.name or ''} {name}: {explain_error(error)}".replace("  ", " "))
            raise typer.Exit(1) from None

    if options is not None:
        # Fields of the command come before those shared with other commands.
        ordered = sorted(
            signature(options).parameters.values(), key=lambda field: field.name not in options.__annotations__
        )
        run.__signature__ = Signature(ordered)  # type: ignore[attr-defined]
    group.command(name, cls=Command, help=help_text(function.__doc__ or ""), **settings)(run)


def help_text(text: str) -> str:
    r"""Converts a docstring to help text in which typer does not reflow blocks of example commands.

    Example:
        >>> help_text("Do it.\n\n    hf-gile do\n    echo yes | hf-gile do\n")
        'Do it.\n\n\x08\nhf-gile do\necho yes | hf-gile do'
    """
    blocks = []
    for block in cleandoc(text).split("\n\n"):
        lines = [line.strip() for line in block.splitlines()]
        is_example = block.startswith("    ") or all(_COMMAND.search(line) for line in lines)
        blocks.append("\n".join(["\b", *lines] if is_example else lines))
    return "\n\n".join(blocks)


def explain_error(error: BaseException) -> str:
    """Returns the message of an error for users.

    Example:
        >>> explain_error(ValueError("no labels"))
        'no labels'
        >>> explain_error(Exception("I/O error: No space left on device (os error 28)"))
        'I/O error: No space left on device (os error 28)'
        >>> explain_error(KeyError("x"))
        "KeyError: 'x' (unexpected error; hf-gile --debug ... shows the traceback)"
    """
    from hf_gile.masking import masked

    is_system_error = "(os error " in str(error)  # such as a full disk, as reported by Rust libraries
    if not isinstance(error, _EXPECTED_ERRORS) and not is_system_error:
        description = f"{type(error).__name__}: {error}"[:_LONGEST]
        return f"{masked(description)} (unexpected error; hf-gile --debug ... shows the traceback)"
    message = str(error)
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        message = f"{error.filename}: {error.strerror}"
    code = _CUSTOM_CODE.search(message)
    if code:
        message = f"{code[1]} has custom code, which hf-gile does not run"
    for words, flag in _FLAGS.items():
        message = message.replace(words, flag)
    if len(message) > _LONGEST:  # may quote a value of any size from a file
        message = f"{message[:_LONGEST]}..."
    if isinstance(error, FileNotFoundError):
        message += _suggest_repetition(message)
    return masked(message) or type(error).__name__


def _suggest_repetition(message: str) -> str:
    """Suggests to repeat a flag if the missing file is a further value of it, as in `--text title abstract`."""
    for flag, value, name in zip(sys.argv, sys.argv[1:], sys.argv[2:], strict=False):
        is_value = flag.startswith("--") and "=" not in flag and not value.startswith("-")
        if is_value and name in message.split() and not Path(name).suffix:
            return f"; to pass several values, repeat the flag: {flag} {value} {flag} {name}"
    return ""


def note(text: str) -> None:
    """Prints a message, which may contain untrusted text, to standard error."""
    typer.echo(visible(text), err=True)


def write_json(row: Mapping[str, Any]) -> None:
    """Writes a row, which may contain untrusted text, as a line of JSON to standard output."""
    sys.stdout.write(visible(json.dumps(row, ensure_ascii=False)) + "\n")


def visible(text: str) -> str:
    r"""Escapes control characters that would affect a terminal, as JSON does; a line of JSON keeps its meaning.

    Example:
        >>> print(visible("Heart\x1b[2J \u202eeruliaF"))
        Heart\u001b[2J \u202eeruliaF
    """
    return _INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def write_row(row: Mapping[str, Any], line: str, as_json: bool) -> None:
    """Writes a row of a table, which may contain untrusted text, to standard output: `line`, or JSON."""
    if as_json:
        write_json(row)
    else:
        sys.stdout.write(f"{visible(line)}\n")


def silence_libraries() -> None:
    """Silences progress bars and advice of libraries on standard error."""
    import logging

    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    logging.getLogger("hf_gile").setLevel(logging.ERROR)  # the command reports these warnings itself


def counted(number: int, noun: str) -> str:
    """Formats a number with its noun.

    Example:
        >>> counted(1, "label"), counted(1200, "label")
        ('1 label', '1,200 labels')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
