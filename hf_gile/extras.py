"""Error messages for missing optional dependencies, and packages that import their modules on demand."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any


def import_on_demand(package: str, modules: Sequence[str]) -> None:
    """Lets a package import its modules, in order up to that with the name, when a name of its `__all__` is read."""
    names = vars(sys.modules[package])["__all__"]

    def get(name: str) -> Any:
        for module in modules if name in names else ():
            found = import_module(f"{package}.{module}")
            if hasattr(found, name):
                return getattr(found, name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    vars(sys.modules[package]).update(__getattr__=get, __dir__=lambda: names)


@contextmanager
def needs_extra(name: str, what: str) -> Iterator[None]:
    """Raises an ImportError that names the extra, and what needs it, if an import in the context fails.

    Example:
        >>> with needs_extra("train", "a card"):
        ...     import torch
    """
    try:
        yield
    except ImportError as error:
        raise ImportError(f"{missing_extra(name, what)} ({error})") from error


def missing_extra(name: str, what: str) -> str:
    """Returns a message that says what needs an extra, and how to install it.

    Example:
        >>> missing_extra("train", "a card")
        "a card needs the `train` extra: pip install 'hf-gile[train]', or in a clone: pip install -e '.[train]'"
    """
    return f"{what} needs the `{name}` extra: pip install 'hf-gile[{name}]', or in a clone: pip install -e '.[{name}]'"
