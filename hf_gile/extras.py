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
        raise ImportError(f"{what} needs the `{name}` extra: pip install 'hf-gile[{name}]' ({error})") from error
