"""Error messages for missing optional dependencies."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs_extra(name: str, what: str) -> Iterator[None]:
    """Raises an error that names the missing extra if an import in the context fails.

    Args:
        name: Name of the extra in pyproject.toml.
        what: Subject of the message: the feature that needs the extra.

    Raises:
        ImportError: If the import fails; the message says what to install.

    Example:
        >>> with needs_extra("train", "a card"):
        ...     import torch
    """
    try:
        yield
    except ImportError as error:
        raise ImportError(f"{missing_extra(name, what)} ({error})") from error


def missing_extra(name: str, what: str) -> str:
    """Returns a message that says how to install an extra.

    Args:
        name: Name of the extra in pyproject.toml.
        what: Subject of the message: the feature that needs the extra.

    Example:
        >>> missing_extra("train", "a card")
        "a card needs the `train` extra: pip install 'hf-gile[train]', or in a clone: pip install -e '.[train]'"
    """
    return f"{what} needs the `{name}` extra: pip install 'hf-gile[{name}]', or in a clone: pip install -e '.[{name}]'"
