"""Settings of a run as fields of a dataclass: each is a flag and a line of a YAML file, see `flags`.

    @dataclass
    @settings_of(GileConfig, ["joint_size", "label_rows"])
    class Mine(Settings):
        units: list[str] = setting(["gile"], "Output layers to train.", choices=("linear", "gile"))

What is a field of a configuration, or an option of a class, is not declared again: `settings_of` reads its type,
default and description where it stands.
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
    """What dataclasses of settings are: each setting among its choices.

    Attributes:
        GROUPS: Headings of the help, by the first setting below each.

    Raises:
        ValueError: A setting is none of its choices; the message names them.
    """

    GROUPS: ClassVar[dict[str, str]] = {}

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """What `settings_of` adds."""

    def __post_init__(self) -> None:
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            for own in value if isinstance(value, list) else [value]:
                if own is not None and "choices" in one.metadata:
                    check_choice(one.name, own, one.metadata["choices"])


def setting(default: object, help: str, choices: Iterable[str] = ()) -> Any:
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


def settings_of(source: type, names: Sequence[str], prefix: str = "", **defaults: Any) -> Callable[[Kind], Kind]:
    """Adds settings to a dataclass in the making that are options of another class, as its docstring describes them.

    Args:
        source: The class, such as `GileConfig`.
        names: The options.
        prefix: Stands before the names of the settings.
        defaults: Defaults that differ from those of the class; None for settings that are left to it.
    """
    parameters, descriptions = inspect.signature(source).parameters, arguments_of(source)

    def add(settings: Kind) -> Kind:
        for name in names:
            kind, default = parameters[name].annotation, defaults.get(name, parameters[name].default)
            if get_origin(kind) is list:  # of a dataclass, which makes it anew each time
                default = {one.name: one for one in fields(source)}[name].default_factory()  # type: ignore
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
    section = (inspect.getdoc(source) or "").partition("\nArgs:\n")[2].partition("\n\n")[0]
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


def check_files(settings: object, names: Sequence[str], suffixes: Sequence[str] = ()) -> None:
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
