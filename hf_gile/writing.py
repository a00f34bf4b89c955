"""Atomic file writes, and CSV that no spreadsheet executes."""

import csv
import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Provides a temporary path to write to, which replaces the file on success.

    After an error, a kill or a power failure, the file is either the old or the complete new one.

    Args:
        path: The file. Its folder is created if needed. A link is replaced, not the file it points to.

    Raises:
        OSError: If the file cannot be written; the error names it.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():  # such as /dev/stdout
        yield path
        return
    written = path.with_name(f".{path.stem}-{secrets.token_hex(4)}{path.suffix}")
    try:
        yield written
        sync_to_disk(written)
        if path.exists():
            shutil.copymode(path, written)
        written.replace(path)
    except BaseException as error:
        written.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None and error.filename in (None, str(written)):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    sync_to_disk(path.parent)


def sync_to_disk(path: Path) -> None:
    """Flushes a file, or the entries of a folder, to disk.

    Args:
        path: The file or folder.
    """
    if os.name == "nt" and path.is_dir():
        return
    opened = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno != errno.EINVAL:  # not supported by the file system
            raise
    finally:
        os.close(opened)


# Signs that start a formula, also in the widths of East Asian scripts, after the apostrophes of earlier escapes.
_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")  # noqa: RUF001


def write_csv(path: str | os.PathLike[str], rows: Iterable[Iterable[object]], encoding: str = "utf-8") -> None:
    """Writes CSV in which no cell is a formula; an existing file is replaced once the new one is complete.

    Args:
        path: The file.
        rows: The rows, with the heading; texts are escaped by `escape_formula`.
        encoding: Encoding of the file.

    Raises:
        OSError: If the file cannot be written.
    """
    with whole_file(path) as staged, staged.open("w", encoding=encoding, newline="") as file:
        csv.writer(file).writerows(map(escape_formula, row) for row in rows)


def escape_formula(cell: object) -> object:
    """Puts an apostrophe before a text that a spreadsheet would execute, but not before a number.

    Args:
        cell: The cell.

    Example:
        >>> [escape_formula(cell) for cell in ("=1+1", "-2.5", "'Ewa", "'=x", 7)]
        ["'=1+1", '-2.5', "'Ewa", "''=x", 7]
    """
    if not isinstance(cell, str) or not _FORMULA.match(cell):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def unescape_formula(cell: object) -> object:
    """Reverses `escape_formula`.

    Args:
        cell: The cell.

    Example:
        >>> [unescape_formula(cell) for cell in ("'=1+1", "-2.5", "'Ewa", "''=x", 7)]
        ['=1+1', '-2.5', "'Ewa", "'=x", 7]
    """
    is_escaped = isinstance(cell, str) and cell.startswith("'") and _FORMULA.match(cell)
    return cell[1:] if isinstance(cell, str) and is_escaped else cell
