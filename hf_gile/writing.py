"""Atomic file writes, and CSV that no spreadsheet executes.

The code of atomic writes travels with saved models, which write their files in the same way.
"""

import csv
import os
import re
from collections.abc import Iterable

from .models.saving_gile import remove_abandoned, sync_to_disk, whole_file

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


__all__ = ["escape_formula", "remove_abandoned", "sync_to_disk", "unescape_formula", "whole_file", "write_csv"]
