"""Sees how a table writes the labels of its documents, and reads them.

A column of labels may have a label a cell, lists (also as text, as Python, NumPy and JSON write them), objects, class
numbers, or several labels joined by a sign. A table may also have a column of zeros and ones for each label. `see`
decides from the first rows what a column is, says so in a line, and refuses what could be read in two ways.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from functools import lru_cache
from numbers import Integral
from reprlib import repr as shortened
from typing import Any, NamedTuple

from .label_cells import (
    MISSING,
    are_lists,
    as_number,
    checked_list,
    is_flag,
    is_missing,
    label_id,
    number_of,
    parse_list,
    read_flag,
)
from .schema import clean_label, clean_text

SAMPLE = 2000
"""Number of rows from which the form of labels is seen."""

SEPARATORS = (";", "|", "\t", "\n", ",", "/", " ")
_SPELLED = {"tab": "\t", "\\t": "\t", "newline": "\n", "\\n": "\n", "space": " "}
_NAMES = {"\t": "tab", "\n": "newline", " ": "space"}
_KEYS = ("name", "label", "title", "id", "uri", "value")  # of objects, in order of preference
_FEW = 20  # rows, below which nothing is said about how often labels recur
_RARE = ";|\t\n"  # signs that hardly any name has
_WHOLE = re.compile(r"-?\d+\.0*")


class LabelColumn(NamedTuple):
    """How the labels of a row are read.

    Args:
        columns: The columns.
        form: `"plain"` (a label, or a list of labels), `"list"` (lists written as text), `"joined"`, `"flags"` (a
            column of zeros and ones for each label), or `"positions"` (a list of zeros and ones).
        separator: Sign between the labels of a cell.
        key: Key of the label in an object.
        names: Names of classes by number, or of positions.
        whole: Whether texts such as "3.0" are whole numbers that a library wrote with a point.
        note: What the columns were taken for, in a line.
    """

    columns: tuple[str, ...]
    form: str = "plain"
    separator: str | None = None
    key: str | None = None
    names: tuple[str, ...] = ()
    whole: bool = False
    note: str = ""

    def read(self, row: Mapping[str, Any]) -> list[str]:
        """Returns the distinct labels of a row, in order.

        Raises:
            ValueError: If a cell has another form.
        """
        if self.form == "flags":
            return [column for column in self.columns if read_flag(row.get(column), column)]
        labels: dict[str, None] = {}
        for column in self.columns:
            value = row.get(column)
            if value is not None:
                labels.update(dict.fromkeys(self._read_cell(value, column)))
        return list(labels)

    def _read_cell(self, value: Any, column: str) -> list[str]:
        if isinstance(value, str) and not is_missing(value):
            if self.form in ("list", "positions"):
                value = checked_list(value, column)
            elif self.separator is not None:
                value = clean_text(value, column).split(self.separator)
        items = value if isinstance(value, (list, tuple)) else [value]
        if self.form == "positions" and not is_missing(value):
            if len(items) != len(self.names):
                raise ValueError(f"{column} must have {len(self.names)} numbers, got {shortened(value)}")
            return [name for name, item in zip(self.names, items, strict=True) if read_flag(item, column)]
        if not self.names and set(map(type, items)) == {str}:
            labels = [_read_text(item, self.whole, column) for item in items]
            return [label for label in labels if label]
        return [self._read_item(item, column) for item in items if not is_missing(item)]

    def _read_item(self, item: Any, column: str) -> str:
        if self.key is not None and isinstance(item, Mapping):
            item = item.get(self.key)
        if self.names:
            return _class_name(item, self.names)
        if isinstance(item, str):
            return _read_text(item, self.whole, column)
        return label_id(item, f"a label in {column}")


def see(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    separator: str | None = None,
    known: Collection[str] = (),
    names: Sequence[str] = (),
) -> LabelColumn:
    """Sees how columns hold labels, from the first rows of a table.

    Args:
        rows: Rows.
        columns: The columns; several are a column of zeros and ones a label, or hold labels each.
        separator: Sign between the labels of a cell; `"json"` for lists as text; `"none"` if a cell is a label.
        known: Ids of all labels. If it is a list, it names the positions of lists of zeros and ones.
        names: Names of classes by number.

    Raises:
        ValueError: If labels could be read in two ways; the message has the flag that decides.
    """
    form = LabelColumn(tuple(columns), names=tuple(names))
    cells = [row[column] for row in rows for column in columns if not is_missing(row.get(column))]
    title = f"label columns {', '.join(map(repr, columns[:9]))}" if len(columns) > 1 else f"label column {columns[0]!r}"
    if len(columns) > 1 and cells and all(is_flag(cell) for cell in cells):
        return _noted(form._replace(form="flags"), f"{title}: a column of zeros and ones a label", "--labels", rows)
    if len(columns) == 1 and cells and all(is_flag(cell) for cell in cells):
        _refuse_lone_flag(rows, columns[0], cells)
    if separator not in (None, "json", "none"):
        sign = _SPELLED.get(str(separator), str(separator))
        form = form._replace(form="joined", separator=sign)
        texts = [cell for cell in cells if isinstance(cell, str)]
        if texts and not any(sign in text for text in texts):
            _refuse_joined(texts, title, known)
        split = [[number_of(part) for part in text.split(sign)] for text in texts]
        _refuse_positions([] if any(None in cell for cell in split) else split, title, ())
        return _noted(form, f"{title}: labels separated by {sign!r}", "--separator", rows)
    texts = [cell for cell in cells if isinstance(cell, str)]
    if separator == "json" or (separator is None and are_lists(texts)):
        form = form._replace(form="list")
        cells = [parsed for cell in texts if (parsed := parse_list(cell)) is not None]
    positions = tuple(known) if isinstance(known, list | tuple) else ()
    _refuse_positions(cells, title, names or positions)
    if _are_positions(cells) and not names:
        form = form._replace(form="positions", names=positions)
        return _noted(form, f"{title}: lists of zeros and ones for the labels of --label_file", "--labels", rows)
    items = [item for cell in cells for item in (cell if isinstance(cell, list | tuple) else [cell])]
    items = [item for item in items if not is_missing(item)]
    form = form._replace(key=_key(items, known), whole=_are_whole(items))
    if form.form == "list":
        return _noted(form, f"{title}: lists written as text", "--separator", rows)
    if separator is None and texts and not names:
        _refuse_joined(texts, title, known)
    if names:
        description = "numbers of classes, which have names"
    elif form.key:
        description = f"objects, by their {form.key!r}"
    elif any(isinstance(cell, list | tuple) for cell in cells):
        description = "lists of labels"
    else:
        description = "a label a cell"
        if items and all(is_flag(item) for item in items):
            description += ", 0 or 1, whose meaning a model cannot read: name them with --label_file"
    return _noted(form, f"{title}: {description}", "--separator", rows)


def flag_columns(rows: Sequence[Mapping[str, Any]], others: Container[str]) -> list[str]:
    """Returns the columns that only have numbers from 0 to 1, if there are at least two.

    Args:
        rows: First rows of a table.
        others: Columns with something else, such as the text.
    """
    columns = [column for column in (rows[0] if rows else ()) if column and column not in others]
    cells = {column: [row.get(column) for row in rows if not is_missing(row.get(column))] for column in columns}
    flags = [column for column in columns if cells[column] and all(map(is_flag, cells[column]))]
    return flags if len(flags) > 1 else []


def _refuse_lone_flag(rows: Sequence[Mapping[str, Any]], column: str, cells: Sequence[Any]) -> None:
    """Refuses a column of zeros and ones beside others, which are a column for each label."""
    flags = flag_columns(rows, ())
    if column in flags and {as_number(cell) for cell in cells} <= {0.0, 1.0}:
        names = " ".join(shlex.quote(name) for name in flags)
        raise ValueError(
            f"label column {column!r} has zeros and ones, and so have other columns, so each may be a label: pass "
            f"--labels {names}"
        )


def _are_positions(cells: Sequence[Any]) -> bool:
    """Checks whether all cells are lists of the same length with numbers from 0 to 1, which ids would not repeat."""
    if not cells or not all(isinstance(cell, list | tuple) for cell in cells):
        return False
    lengths = {len(cell) for cell in cells}
    if len(lengths) > 1 or min(lengths) < 2:
        return False
    return all(not isinstance(item, str) and is_flag(item) for cell in cells for item in cell)


def _refuse_positions(cells: Sequence[Any], title: str, names: Sequence[str]) -> None:
    if not _are_positions(cells) or len(cells[0]) == len(names):
        return
    if names and all(item in (0, 1) for cell in cells for item in cell) and len(cells[0]) <= 2:
        return  # numbers of classes
    raise ValueError(
        f"{title}: lists of zeros and ones, such as {shortened(list(cells[0]))}, say which of {len(cells[0])} labels a "
        f"document has, but not their names: pass a --label_file with these {len(cells[0])} labels in order, or write "
        "the names of the labels, or a column a label (--labels NAME NAME ...)"
    )


def _are_whole(items: Sequence[Any]) -> bool:
    texts = [item.strip() for item in items if isinstance(item, str)]
    return bool(texts) and all(_WHOLE.fullmatch(text) for text in texts)


def _key(items: Sequence[Any], known: Collection[str]) -> str | None:
    objects = [item for item in items if isinstance(item, Mapping)]
    if not objects:
        return None
    keys = [key for key in _KEYS if all(not is_missing(item.get(key)) for item in objects)]
    ids = set(known)
    named = [key for key in keys if ids and sum(str(item[key]) in ids for item in objects) > 0.5 * len(objects)]
    if not keys:
        raise ValueError(f"labels are objects with the keys {shortened([*objects[0]])}, of which none is a name or id")
    return (named or keys)[0]


@lru_cache(1 << 16)  # labels recur
def _read_text(text: str, is_whole: bool, column: str) -> str:
    """Returns a label; empty if the text stands for none."""
    if is_missing(text):
        return ""
    if is_whole and _WHOLE.fullmatch(text.strip()):
        return text.strip().partition(".")[0]
    return label_id(text, f"a label in {column}")


def _class_name(value: object, names: Sequence[str]) -> str:
    if isinstance(value, str) and value in names:
        return value
    if not isinstance(value, Integral) or isinstance(value, bool) or not 0 <= int(value) < len(names):
        raise ValueError(f"a class must be a whole number from 0 to {len(names) - 1:,}, got {shortened(value)}")
    return names[int(value)]


def separator_hint(ids: Iterable[str], known: Container[str]) -> str:
    """Suggests a separator if unknown label ids look like several ids in a text.

    Args:
        ids: Unknown label ids.
        known: Known label ids.

    Returns:
        A question to append to a message; empty if no id looks like several.

    Example:
        >>> separator_hint(["mice;rats"], {"mice"})
        " (did you mean --separator ';'?)"
    """
    for sign in SEPARATORS:
        split_ids = [label_id.split(sign) for label_id in ids if sign in label_id]
        # Many names contain commas and spaces, so a part must be known; few contain the first separators.
        if split_ids and (sign in ";|" or any(part.strip() in known for parts in split_ids for part in parts)):
            return f" (did you mean --separator {_NAMES.get(sign, sign)!r}?)"
    return ""


def _refuse_joined(texts: Sequence[str], title: str, known: Collection[str]) -> None:
    """Refuses cells that look like several labels each, or that are hardly ever equal."""
    if all(clean_label(text) in known for text in texts):
        return
    sign = joined_by(texts, known)
    cells = {clean_label(text) for text in texts}
    if sign is not None:
        cell = next(text for text in texts if sign in text)
        parts = " and ".join(repr(part.strip()) for part in cell.split(sign)[:2])
        name = _NAMES.get(sign, sign)
        raise ValueError(
            f"{title}: cells such as {shortened(cell)} look like several labels, {parts}: pass --separator {name!r}, "
            "or --separator none if each cell is a label"
        )
    if len(texts) >= _FEW and len(cells) > 0.9 * len(texts) and not known:
        raise ValueError(
            f"{title}: {len(cells):,} of {len(texts):,} cells are different, such as {shortened(texts[0])}, so there "
            "is nothing to learn: choose another column with --labels, pass the --separator of several labels in a "
            "cell, or pass --separator none if each is a label"
        )


def joined_by(texts: Sequence[str], known: Collection[str] = ()) -> str | None:
    """Returns the sign that joins the labels of cells, or None if a cell seems to be a label.

    Pieces of joined labels recur with other pieces and at other positions; the parts of a name, such as a surname or a
    level of a hierarchy, keep their position, or recur with the same parts.

    Example:
        >>> joined_by(["mice; rats", "rats;cats", "cats; mice", "mice;rats; cats"])
        ';'
        >>> joined_by(["Milk, Human", "Infant, Newborn", "Milk, Human", "Infant, Premature"])
    """
    cells = Counter(map(str.strip, texts))
    for sign in SEPARATORS:
        pieces = {cell: [piece.strip() for piece in cell.split(sign) if piece.strip()] for cell in cells}
        joined = [cell for cell, parts in pieces.items() if len(parts) > 1]
        if not joined:
            continue
        if known:
            if sum(all(part in known for part in pieces[cell]) for cell in joined) > 0.5 * len(joined):
                return sign
            continue
        uses = Counter(piece for parts in pieces.values() for piece in set(parts))
        in_joined = [piece for cell in joined for piece in pieces[cell]]
        recurring = sum(uses[piece] > 1 for piece in in_joined) / len(in_joined)
        share = sum(cells[cell] for cell in joined) / len(texts)
        are_distinct = len(texts) >= _FEW and len(cells) > 0.8 * len(texts)
        if sign in _RARE:
            # Pieces must recur, or cells must hardly do.
            if share > 0.02 and (recurring >= 0.5 or (are_distinct and recurring > 0 and share > 0.5)):
                return sign
            continue
        are_many = share > 0.1 and recurring > 0.3 and (are_distinct or 2 * len(uses) <= len(cells))
        if are_many and _move(pieces, uses) and (sign != " " or _are_tags(pieces, uses)):
            return sign
    return None


def _move(pieces: Mapping[str, Sequence[str]], uses: Mapping[str, int]) -> bool:
    """Checks whether most recurring pieces occur at several positions, in cells that are no pairs throughout."""
    positions: dict[str, set[int]] = {}
    for parts in pieces.values():
        for position, piece in enumerate(parts):
            positions.setdefault(piece, set()).add(position)
    moving = [len(positions[piece]) > 1 for piece, number in uses.items() if number > 1]
    numbers = set(map(len, pieces.values()))
    are_pairs = numbers == {2}  # as in dates, or currencies such as EUR/USD
    return not are_pairs and sum(moving) > 0.5 * len(moving)


def _are_tags(pieces: Mapping[str, Sequence[str]], uses: Mapping[str, int]) -> bool:
    """Checks whether words are labels, not words of names or sentences: many a cell, or most are also cells alone."""
    if max(uses.values()) > 0.5 * len(pieces):  # such as an article
        return False
    alone = sum(piece in pieces for piece in uses)
    return alone > 0.7 * len(uses) or sum(uses.values()) >= 3 * len(pieces)


def _noted(form: LabelColumn, description: str, flag: str, rows: Iterable[Mapping[str, Any]]) -> LabelColumn:
    """Adds a line with two examples."""
    examples: dict[str, None] = {}
    missing = [cell for row in rows for cell in map(row.get, form.columns) if isinstance(cell, str) and cell in MISSING]
    for row in rows:
        try:
            labels = form.read(row)
        except ValueError:  # reported with its line
            continue
        if labels:
            examples[" | ".join(labels[:5]) + (" | ..." if len(labels) > 5 else "")] = None
        if len(examples) == 2:
            break
    shown = " and ".join(repr(example if len(example) <= 99 else f"{example[:99]}...") for example in examples)
    if missing:
        description += f"; {missing[0]!r} is no label"
    return form._replace(note=f"{description}{f', such as {shown}' if shown else ''} ({flag} overrules)")
