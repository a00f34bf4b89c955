"""Declares the settings of a run as fields of a dataclass, to be set by flags or in a YAML file, see `flags`.

    @dataclass
    @add_settings(GileConfig, ["joint_size", "label_rows"])
    class MySettings(Settings):
        units: list[str] = setting(["gile"], "Output layers to train.", choices=("linear", "gile"))

Fields of configurations and arguments of classes are not declared twice: `add_settings` reads their type, default and
description from the class.
"""

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, get_args, get_origin

from ..data.files import find_files

Kind = TypeVar("Kind", bound=type)


class Settings:
    """Base class of settings, which checks choices.

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
            """Declares settings added by `add_settings` for type checkers."""

    def __post_init__(self) -> None:
        for declared in fields(self):  # type: ignore[arg-type]
            value = getattr(self, declared.name)
            for item in value if isinstance(value, list) else [value]:
                if item is not None and "choices" in declared.metadata:
                    check_choice(declared.name, item, declared.metadata["choices"])


def setting(default: object, help: str, choices: Iterable[str] = ()) -> Any:
    """Declares a setting: a field of a dataclass.

    Args:
        default: The default, possibly a list; `dataclasses.MISSING` for a required setting.
        help: Description.
        choices: Allowed values, or allowed elements of a list.
    """
    metadata: dict[str, Any] = {"help": help.replace("%", "%%")}
    if choices:
        metadata["choices"] = tuple(choices)
    if isinstance(default, list):
        return field(default_factory=partial(list, default), metadata=metadata)
    return field(default=default, metadata=metadata)


def add_settings(source: type, names: Sequence[str], prefix: str = "", **defaults: Any) -> Callable[[Kind], Kind]:
    """Decorates a class of settings: adds arguments of another class, with descriptions from its docstring.

    Args:
        source: The class, such as `GileConfig`.
        names: Names of the arguments.
        prefix: Prefix of the names of settings.
        defaults: Different defaults; None to use the default of the class.
    """
    parameters, descriptions = inspect.signature(source).parameters, documented_arguments(source)

    def add(settings: Kind) -> Kind:
        for name in names:
            kind, default = parameters[name].annotation, defaults.get(name, parameters[name].default)
            if get_origin(kind) is list:  # dataclasses use default_factory for lists
                default = {declared.name: declared for declared in fields(source)}[name].default_factory()  # type: ignore
            choices = get_args(kind) if get_origin(kind) is Literal else ()
            kind = str if choices else float if float in get_args(kind) else kind
            settings.__annotations__[prefix + name] = kind if default is not None else kind | None
            setattr(settings, prefix + name, setting(default, descriptions.get(name, ""), choices))
        return settings

    return add


def documented_arguments(source: type) -> dict[str, str]:
    """Returns the descriptions of arguments in the docstring of a class.

    Args:
        source: The class.
    """
    section = (inspect.getdoc(source) or "").partition("\nArgs:\n")[2].partition("\n\n")[0]
    return {
        name: " ".join(text.split())
        for name, text in re.findall(r"^    (\w+): (.+(?:\n {5,}.+)*)", section, flags=re.MULTILINE)
    }


def check_choice(setting: str, value: str, choices: Iterable[str]) -> None:
    """Checks the value of a setting against its choices.

    Args:
        setting: Name of the setting.
        value: Its value.
        choices: Allowed values.

    Raises:
        ValueError: If it is not among the choices; the message lists them and suggests a similar choice.
    """
    choices = list(choices)
    if value not in choices:
        near = difflib.get_close_matches(value, choices, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"{setting} must be one of {', '.join(choices)}, got {value!r}{hint}")


def check_files(settings: object, names: Sequence[str], suffixes: Sequence[str] = ()) -> None:
    """Checks that the files of settings exist.

    Args:
        settings: A dataclass of settings.
        names: Settings that are None, a path, or a list of files, folders and globs.
        suffixes: Suffixes of readable files; by default any.

    Raises:
        ValueError: If files cannot be read.
        FileNotFoundError: If a path or glob does not exist.
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
