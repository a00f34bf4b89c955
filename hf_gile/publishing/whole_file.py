"""Files that are there whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path


@contextmanager
def whole_file(path: str | PathLike[str]) -> Iterator[Path]:
    """Gives a place beside a file to write to; what is there takes the place of the file when nothing has failed.

    Args:
        path: The file; its folder is made if there is none.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f".{path.name}.new")
    yield written
    written.replace(path)


__all__ = ["whole_file"]
