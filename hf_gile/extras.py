"""Says which extra of the package to install when an optional import fails."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs_extra(name: str, what: str) -> Iterator[None]:
    """Names the missing extra when an import within fails.

    Args:
        name: The extra, as in pyproject.toml.
        what: What needs it, the subject of the message.

    Raises:
        ImportError: The import failed; the message says what to install.

    Example:
        >>> with needs_extra("train", "a card"):
        ...     import torch
    """
    try:
        yield
    except ImportError as error:
        raise ImportError(f"{what} needs the `{name}` extra: pip install 'hf-gile[{name}]' ({error})") from error
