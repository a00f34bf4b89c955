"""The extra that cards need."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs_publish(what: str) -> Iterator[None]:
    """Says which extra is missing when an import within fails.

    Args:
        what: What needs it.

    Raises:
        ImportError: The import failed; the message names the extra.

    Example:
        >>> with needs_publish("a card"):
        ...     import torch
    """
    try:
        yield
    except ImportError as error:
        raise ImportError(f"{what} needs the `publish` extra: pip install 'hf-gile[publish]' ({error})") from error
