"""Declares settings of recipes: fields with a help text, and fields of configurations.

    @dataclass
    @add_settings(GileConfig, ["joint_size", "label_rows"])
    class MySettings(Settings):
        units: list[str] = setting(["gile"], "Output layers to train.", choices=("linear", "gile"))

Fields of configurations and arguments of classes are not declared twice: `add_settings` reads their type, default and
description from the class.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, fields
from functools import partial
from typing import Any, TypeVar, get_args, get_origin

from hf_gile.training.settings import choices_of
from hf_gile_cli.flags import documented_arguments

Kind = TypeVar("Kind", bound=type)


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
    parameters = inspect.signature(source).parameters
    descriptions = documented_arguments(source)

    def add(settings: Kind) -> Kind:
        for name in names:
            kind: Any = parameters[name].annotation
            default = defaults.get(name, parameters[name].default)
            if get_origin(kind) is list:  # dataclasses use default_factory for lists
                default = {declared.name: declared for declared in fields(source)}[name].default_factory()  # type: ignore
            choices = choices_of(kind)
            if choices:
                kind = str
            elif float in get_args(kind):
                kind = float
            settings.__annotations__[prefix + name] = kind if default is not None else kind | None
            setattr(settings, prefix + name, setting(default, descriptions.get(name, ""), choices))
        return settings

    return add
