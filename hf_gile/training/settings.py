"""Checks the settings of a run: choices and files."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args, get_origin

from ..data.files import find_files


class Settings:
    """Base class of dataclasses of settings, which checks choices: fields of a `Literal` type, or with `choices`.

    Attributes:
        GROUPS: Headings of the help, by the first setting of each.
        changed_steps: Flags of training steps that the user has set.

    Raises:
        ValueError: If the value of a setting is not among its choices; the message lists them.
    """

    GROUPS: ClassVar[dict[str, str]] = {}
    changed_steps: ClassVar[Sequence[str]] = ()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Declares settings that are fields of other classes for type checkers."""

    def __post_init__(self) -> None:
        for declared in fields(self):  # type: ignore[arg-type]
            choices = declared.metadata.get("choices") or choices_of(declared.type)
            value = getattr(self, declared.name)
            for item in value if isinstance(value, list) else [value]:
                if item is not None and choices:
                    check_choice(declared.name, item, choices)


def choices_of(kind: object) -> tuple[Any, ...]:
    """Returns the values that a type, or an optional type, allows; empty if it is not a `Literal`.

    Example:
        >>> choices_of(Literal["raise", "skip"] | None), choices_of(str)
        (('raise', 'skip'), ())
    """
    literals = [get_args(part) for part in (kind, *get_args(kind)) if get_origin(part) is Literal]
    return next(iter(literals), ())


def check_choice(setting: str, value: str, choices: Iterable[str]) -> None:
    """Checks the value of a setting.

    Raises:
        ValueError: If it is not among the choices; the message lists them and suggests a similar choice.
    """
    choices = list(choices)
    if value not in choices:
        near = difflib.get_close_matches(value, choices, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"{setting} must be one of {', '.join(choices)}, got {value!r}{hint}")


def check_files(settings: object, names: Sequence[str], suffixes: Sequence[str] = ()) -> None:
    """Checks that the files of settings exist; each is None, a path, or a list of files, folders and globs.

    Raises:
        ValueError: If a file has another suffix than these.
        FileNotFoundError: If a path or glob does not exist.
    """
    for name in names:
        paths = getattr(settings, name) or []
        for path in paths if isinstance(paths, list) else [paths]:
            try:
                if suffixes:
                    find_files([path], suffixes, any_name=True)
                elif not Path(path).exists():
                    raise FileNotFoundError(f"no file {path} (in {Path.cwd()})")
            except (ValueError, OSError) as error:
                raise type(error)(f"{name}: {error}") from None
