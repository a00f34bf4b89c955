r"""Reader of labels in tables: CSV, TSV, JSON lines, JSON and Parquet files.

{"id": "D051379", "name": "Mice", "synonyms": ["Mouse", "House Mouse"]}
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from reprlib import repr as shortened
from typing import Any, Unpack

from ..models.labels_gile import Label, LabelSet
from ..writing import unescape_formula
from .files import find_files
from .homonyms import distinguish
from .loading import Piece
from .report import ReadReport
from .schema import clean_text
from .sniffing import Layout, Requested, sniff
from .table_files import SUFFIXES, read_rows
from .tables import as_tuple, document_id


def load_labels(
    path: str | os.PathLike[str],
    *,
    id: str = "id",
    name: str | Sequence[str] = "name",
    description: str | Sequence[str] | None = None,
    synonyms: str | Sequence[str] | None = None,
    language: str | None = None,
    report: ReadReport | None = None,
    **layout: Unpack[Layout],
) -> LabelSet:
    """Reads a table of labels in any format of `load_table`.

    If all columns are fields of `Label`, as written by `save_labels`, all fields are read. In other tables, a column
    `broader` has the ids of parents, and a column `description` the descriptions, unless it is used for something else
    or other columns have them. Labels with the same name and description are distinguished by their synonyms, or else
    their id, in the description.

    Args:
        path: The file.
        id: Column with the ids.
        name: Column with the names, or several; the first non-empty column is used.
        description: Column with descriptions, or several, which are joined by semicolons, like lists; by default
            `description`, if it exists.
        synonyms: Column with synonyms, or several; each a list, or a string for `split_synonyms`.
        language: Column with the language of name and description.
        report: Counts labels and decides whether malformed rows raise (the default) or are skipped.
        layout: As in `load_table`.

    Returns:
        The labels in file order.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If a column is missing, or there are no labels; also if a row is malformed, has no id or name, or
            repeats an id, unless the report says to skip.
    """
    report = ReadReport() if report is None else report
    file, *more = find_files(path, SUFFIXES)
    if more:
        raise ValueError(f"{path}: expected a single label file, got {len(more) + 1}")
    names, description_columns = as_tuple(name), as_tuple(description) if description else ()
    synonym_columns = as_tuple(synonyms) if synonyms else ()
    needed = [id, *names, *description_columns, *synonym_columns, *([] if language is None else [language])]
    form = sniff(file, Requested(**layout).check(), needed)
    form.refuse(file)
    rows = list(map(_unescape_row, read_rows(Piece(str(file)), report, form, needed, all_columns=True)))
    extra = {field.name for field in fields(Label)}
    if not (description_columns or synonym_columns or language) and all(extra.issuperset(row) for _, _, row in rows):
        description_columns, synonym_columns, language = ("description",), ("synonyms",), "language"
        extra -= {"id", "name", "description", "synonyms", "language"}
    else:
        extra = {"broader"} - {*description_columns, *synonym_columns, *names}
        description_columns = description_columns or tuple({"description"} - {id, *synonym_columns, *names})
    labels: dict[str, Label] = {}
    hints: dict[str, list[str]] = {}
    positions: dict[str, str] = {}
    for where, _, row in rows:
        try:
            label_id = document_id(row.get(id), id)
            if label_id in positions:
                raise ValueError(f"the id {label_id!r} is already used in {positions[label_id]}")
            label_names = list(filter(None, (clean_text(row.get(column), column).strip() for column in names)))
            if not label_names:
                raise ValueError(f"the label {label_id!r} has no {' and no '.join(names)}")
            label = Label(
                id=label_id,
                name=label_names[0],
                description=_join_description(row, description_columns),
                synonyms=_parse_synonyms(row, synonym_columns),
                language=None if language is None else clean_text(row.get(language), language).strip() or None,
                **{field: _parse_field(field, row[field]) for field in extra if row.get(field) not in (None, "")},
            )
        except ValueError as error:
            report.problem("malformed label", f"{file}: {where}: {error}")
            continue
        report.records += 1
        labels[label_id], positions[label_id] = label, where
        hints[label_id] = [other for other in label_names if other != label.name]
    return distinguish(labels.values(), hints, report, str(file))


# Columns of the label files that hf_gile writes, in which formulas are escaped.
_WRITTEN = {"id", "name", "description", "language", "seen", "count"}


def _unescape_row(row: tuple[str, str, Mapping[str, Any]]) -> tuple[str, str, Mapping[str, Any]]:
    """Reverses `escape_formula` in a row that hf_gile wrote: all its cells are texts, as in CSV."""
    where, position, cells = row
    if not _WRITTEN.issubset(cells) or not all(isinstance(cell, str) for cell in cells.values()):
        return row
    return where, position, {name: unescape_formula(cell) for name, cell in cells.items()}


def _join_description(row: Mapping[str, Any], columns: Sequence[str]) -> str:
    parts: list[str] = []
    for column in columns:
        value = row.get(column)
        for part in value if isinstance(value, list | tuple) else [value]:
            parts.append(clean_text(part, column).strip())
    return "; ".join(dict.fromkeys(filter(None, parts)))


def _parse_synonyms(row: Mapping[str, Any], columns: Sequence[str]) -> tuple[str, ...]:
    names: list[str] = []
    for column in columns:
        value = row.get(column)
        if isinstance(value, list | tuple):
            names += filter(None, (clean_text(part, column).strip() for part in value))
        else:
            names += split_synonyms(clean_text(value, column))
    return tuple(names)


def split_synonyms(cell: str) -> tuple[str, ...]:
    r"""Splits a cell into synonyms.

    Args:
        cell: Synonyms separated by semicolons; `\;` is a semicolon within a synonym, and `\\` a backslash.

    Example:
        >>> split_synonyms(r"breast milk; mother's milk;; a\;b")
        ('breast milk', "mother's milk", 'a;b')
    """
    parts = re.findall(r"(?:[^;\\]|\\[;\\]?)+", cell)
    return tuple(re.sub(r"\\([;\\])", r"\1", part) for part in map(str.strip, parts) if part)


def _parse_field(field: str, value: object) -> Any:
    if field == "broader":
        return _parse_synonyms({field: value}, [field])
    # CSV cells have true, 7 or 0.5 as in JSON.
    try:
        return json.loads(value.lower()) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        expected = "true or false" if field == "seen" else "a number"
        raise ValueError(f"{field} must be {expected}, got {shortened(value)}") from None
