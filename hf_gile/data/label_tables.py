"""Reader of labels in tables: CSV, TSV, JSON lines, JSON and Parquet.

{"id": "D051379", "name": "Mice", "synonyms": ["Mouse", "House Mouse"]}
"""

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, NamedTuple

from ..models.labels_gile import Label, LabelSet
from ..writing import unescape_formula
from .homonyms import make_labels
from .label_cells import are_lists, has_lists, is_missing, note_changed, parse_list, whole_number
from .label_names import note_header, read_names
from .loading import Piece
from .report import LeaveOut, ReadReport
from .schema import (
    NO_TEXT,
    SPREADSHEET_ERRORS,
    Row,
    as_list,
    clean_label,
    clean_text,
    document_id,
    plain_text,
)
from .sniffing import Format
from .table_files import describe_missing_column, read_rows


class Columns(NamedTuple):
    """Columns of a table of labels, as in `load_labels`."""

    id: str
    name: tuple[str, ...]
    description: tuple[str, ...] | None
    synonyms: tuple[str, ...]

    def required(self) -> list[str]:
        """Returns the columns that must exist."""
        return [self.id, *self.name, *(self.description or ()), *self.synonyms]


def read_label_table(
    file: Path,
    form: Format,
    chosen: Columns,
    languages: Sequence[str],
    report: ReadReport,
) -> LabelSet:
    """Reads a table of labels, or names alone; see `load_labels`.

    The languages, in order of preference, are those of cells with texts by language, as {"en": "mice"}.

    Raises:
        ValueError: If a column is missing, or there are no labels; also if a row is malformed, has no id or name, or
            repeats an id, unless the report says to skip.
    """
    report.note(form.note)
    if labels := read_names(file, form, report):
        if chosen.required() != _DEFAULT:
            raise ValueError(f"{file} has names alone, and is not a table with columns to choose")
        return labels
    located = [
        (where, dict(row))
        for where, _, row in read_rows(Piece(str(file)), report, form)
        if form.kind != "csv" or any(row.values())  # spreadsheets write empty rows below a table
    ]
    rows = [row for _, row in located]
    existing = dict.fromkeys(column for row in rows for column in row)
    if len(existing) == 1 and chosen.required() == _DEFAULT:
        (column,) = existing
        note = "" if form.columns else note_header([column, *(str(row.get(column)) for row in rows)])
        report.note(note)
        if note or form.columns:
            chosen = chosen._replace(id=column, name=(column,))
    if rows:
        _check_columns(existing, chosen, file, form)
    if any(_WRITTEN.issubset(row) for row in rows):
        for row in rows:
            if all(isinstance(cell, str) for cell in row.values()):  # of CSV, in which only formulas are escaped
                row.update({name: unescape_formula(cell) for name, cell in row.items()})
    else:
        _read_cells(rows, chosen, report)
        if form.kind != "jsonl" or not _SAVED.issuperset(existing):  # as `LabelSet.save` writes them
            _read_markup(rows, chosen)
    chosen, extra = _choose_columns(file, rows, existing, chosen, report)

    def read(row: Row) -> tuple[Label, list[str]]:
        return _read_label(row, chosen, extra, languages, report)

    labels = make_labels(located, read, report, str(file))
    parents = {parent for label in labels for parent in label.broader}
    if unknown := parents - set(labels.ids):
        report.note(
            f"{len(unknown):,} of {len(parents):,} parents are no ids of labels in this file, such as {min(unknown)!r}"
        )
    return labels


def _check_columns(existing: Collection[str], chosen: Columns, file: Path, form: Format) -> None:
    hint = "choose columns with id=... and name=... (--label_id and --label_name)"
    if form.columns:
        hint = 'the file has no header: add it, or pass id="1", name="2" (--label_id 1 --label_name 2) and so on'
    elif len(existing) == 1:
        hint += ", or if the first line is a label, rename the file to .txt, or pass --columns name"
    else:
        hint += ", or if the first line is a label, write a header above it, such as id,name"
    for column in chosen.required():
        if column not in existing:
            problem = describe_missing_column(column, existing, form=form)
            raise ValueError(f"{file}: {problem}; {hint}")


def _read_cells(rows: Sequence[dict[str, Any]], chosen: Columns, report: ReadReport) -> None:
    """Replaces cells of tables by what they mean: decimal ids, lists written as text, words for a missing value."""
    for column in (chosen.id, "broader"):
        cells = [row for row in rows if not is_missing(row.get(column))]
        whole = [whole_number(str(row[column])) for row in cells]
        if None not in whole:
            for row, digits in zip(cells, whole, strict=True):
                row[column] = digits
    report.note(note_changed(row.get(chosen.id) for row in rows))
    lists = {"synonyms", "broader", *chosen.synonyms} - {chosen.id, *chosen.name}
    texts = {"description", "definition", *(chosen.description or ())} - {chosen.id, *chosen.name}
    named = {column for column in chosen.name if has_lists([str(row.get(column)) for row in rows])}
    for column in lists | texts | named:
        _read_column(column, [row for row in rows if column in row], column in lists)
    for column in ("synonyms", *chosen.synonyms):
        cells = [row[column] for row in rows if isinstance(row.get(column), str)]
        commas = [cell for cell in cells if "," in cell]
        if commas and not any(";" in cell for cell in cells):
            report.note(f"{commas[0]!r} is a single synonym: they are separated by semicolons")


def _read_markup(rows: Sequence[dict[str, Any]], chosen: Columns) -> None:
    """Replaces markup, signs around ids, and errors of spreadsheets."""
    columns = {"synonyms", "broader", "description", "definition", *chosen.required()}
    for row in rows:
        row.update({column: _plain_cell(row[column]) for column in row.keys() & columns})


def _plain_cell(cell: Any) -> Any:
    """Returns a cell with plain texts, and without errors of spreadsheets."""
    if isinstance(cell, str):
        return None if cell.strip() in _ERRORS else plain_text(_ENCLOSED.sub(r"\1\2\3", cell))
    if isinstance(cell, list):
        return [_plain_cell(item) for item in cell]
    return {key: _plain_cell(item) for key, item in cell.items()} if isinstance(cell, dict) else cell


def _read_column(column: str, rows: Sequence[dict[str, Any]], has_lists: bool) -> None:
    texts = [row[column] for row in rows if isinstance(row[column], str) and not is_missing(row[column])]
    are_written_lists = are_lists(texts)
    sign = next((sign for sign in ";|\n" if any(sign in text for text in texts)), ";")
    for row in rows:
        cell = row[column]
        if is_missing(cell):
            row[column] = None
        elif isinstance(cell, str) and are_written_lists:
            items = parse_list(cell)
            row[column] = cell if items is None else items
        elif isinstance(cell, str) and has_lists and sign != ";":
            row[column] = cell.split(sign)


def _read_label(
    row: Row,
    chosen: Columns,
    extra: Sequence[str],
    languages: Sequence[str],
    report: ReadReport,
) -> tuple[Label, list[str]]:
    """Returns the label of a row, and its other names."""
    clean = str.strip if _WRITTEN.issubset(row) else clean_label
    label_id = clean(document_id(_value_of(row.get(chosen.id), ("value", *_ID_KEYS)), chosen.id))  # also of SPARQL
    cells = [list(map(clean, _texts(row, [column], languages))) for column in chosen.name]
    names = [cell[0] for cell in cells if cell and cell[0]]
    others = [text for cell in cells for text in cell[1:]]
    if not names and any(isinstance(row.get(column), Mapping | list) for column in chosen.name):
        raise LeaveOut(f"without a name in {' or '.join(languages)}", label_id)
    if not names:
        report.ids_left_out[label_id] = f"without {' or '.join(chosen.name)}"
        raise ValueError(f"the label {label_id!r} has no {' and no '.join(chosen.name)}")
    label = Label(
        id=label_id,
        name=names[0],
        description="; ".join(dict.fromkeys(_texts(row, chosen.description or (), languages))),
        synonyms=tuple(_texts(row, chosen.synonyms, languages, split=True)),
    )
    values = {field: _FIELDS[field](row.get(field)) for field in extra if row.get(field) != ""}
    label = replace(label, **values)
    if others:
        report.note("names after the first in a cell are read as synonyms")
        label = replace(label, synonyms=(*others, *label.synonyms))
    return label, [other for other in names if other != label.name]


def _refuse_nested(file: Path, rows: Sequence[Row], chosen: Columns, unread: Iterable[str]) -> None:
    """Refuses trees, whose rows have a column of further labels."""
    ids = {str(row.get(chosen.id)) for row in rows}
    children = re.compile(r"child(ren)?|narrower|sub\w*|nodes|items|members", re.IGNORECASE)
    for column in filter(children.fullmatch, unread):
        items = [item for row in rows for item in as_list(row.get(column)) if isinstance(item, Mapping)]
        if any(chosen.name[0] in item and str(item.get(chosen.id)) not in ids for item in items):
            raise ValueError(
                f"{file}: {column!r} has labels within labels: write a row for each, with the ids of its parents in a "
                "column broader"
            )


def _choose_columns(
    file: Path,
    rows: Sequence[Row],
    existing: Iterable[str],
    chosen: Columns,
    report: ReadReport,
) -> tuple[Columns, list[str]]:
    """Returns the columns of descriptions, and the fields of `Label` that are read as they are, and notes the rest."""
    unread = {
        column: next(filter(_RETIRED.fullmatch, (str(row.get(column)) for row in rows)), "")
        for column in existing
        if column not in chosen.required()
    }
    is_saved = _SAVED.issuperset(existing) and not (chosen.description or chosen.synonyms)
    candidates = [field for field in (_FIELDS if is_saved else ["broader"]) if field in unread]
    descriptions = [
        column for column in ("description", "definition") if column in unread and chosen.description is None
    ]
    for column in candidates + descriptions:
        parse = _FIELDS.get(column, _parse_names)
        unread[column] = next((shortened(row[column]) for row in rows if not _can_parse(parse, row.get(column))), "")
    extra = [field for field in candidates if not unread[field]]
    if chosen.description is None:
        chosen = chosen._replace(description=tuple(column for column in descriptions if not unread[column])[:1])
    for column in (*extra, *chosen.required()):
        unread.pop(column, None)
    _refuse_nested(file, rows, chosen, unread)
    if unread:
        listed = [
            f"{column!r}{f' (with {value})' if value else ''}"
            for column, value in sorted(unread.items(), key=lambda item: not item[1])[:10]
        ]
        report.note(f"columns not read: {', '.join(listed)}{', ...' if len(unread) > 10 else ''}")
    return chosen, extra


def _can_parse(parse: Callable[[object], Any], value: object) -> bool:
    try:
        parse(value)
    except (ValueError, RecursionError):
        return False
    return True


def _texts(
    row: Row,
    columns: Sequence[str],
    languages: Sequence[str],
    split: bool = False,
) -> list[str]:
    """Returns the texts in cells: of a text, a list of texts, or texts by language."""
    texts: list[str] = []
    for column in columns:
        value = row.get(column)
        if isinstance(value, list):
            value = _by_language(value)
        if isinstance(value, Mapping) and all(_LANGUAGE.fullmatch(str(key)) for key in value):
            by_tag = {f"{key}-".lower().replace("_", "-"): text for key, text in sorted(value.items()) if text}
            # "mul" is Wikidata's tag of a name in all languages, and en also means en-GB.
            tags = (f"{language}-".lower() for language in (*languages, "mul"))
            value = next((by_tag[key] for tag in tags for key in by_tag if key.startswith(tag)), None)
        if split and isinstance(value, str):
            value = split_synonyms(clean_text(value, column))
        # Wikidata and JSON-LD write a text with its language.
        values = [_value_of(part, ("value", "@value")) for part in as_list(value)]
        texts += [clean_text(text, column).strip() for text in values]
    return list(filter(None, texts))


def _value_of(item: Any, keys: Sequence[str]) -> Any:
    """Returns the value of the first of these keys that an object has; anything else as it is."""
    if not isinstance(item, Mapping):
        return item
    return next((item[key] for key in keys if key in item), item)


def _by_language(texts: list[Any]) -> Any:
    """Returns texts by language, if each is an object with its language; otherwise the list as it is."""
    by_language: dict[str, list[Any]] = {}
    for text in texts:
        tag = text.get("@language", text.get("language")) if isinstance(text, Mapping) else None
        if not isinstance(tag, str):
            return texts
        by_language.setdefault(tag, []).append(text)
    return by_language


def split_synonyms(cell: str) -> tuple[str, ...]:
    r"""Splits a cell at semicolons into synonyms; `\;` is a semicolon within a synonym, and `\\` a backslash.

    Example:
        >>> split_synonyms(r"breast milk; mother's milk;; a\;b")
        ('breast milk', "mother's milk", 'a;b')
    """
    parts = re.findall(r"(?:[^;\\]|\\[;\\]?)+", cell)
    return tuple(re.sub(r"\\([;\\])", r"\1", part) for part in map(str.strip, parts) if part)


def _parse_ids(value: object) -> tuple[str, ...]:
    """Returns ids: a text for `split_synonyms`, or a list of texts, numbers or objects with an id."""
    if value is None or isinstance(value, str):
        return split_synonyms(clean_text(value, "broader"))
    ids = [_value_of(item, _ID_KEYS) for item in as_list(value)]
    return tuple(clean_label(document_id(parent, "broader")) for parent in ids)


def _parse_names(value: object) -> tuple[str, ...]:
    if isinstance(value, Mapping):
        raise ValueError("texts by language are read only where they are asked for")
    return tuple(_texts({"": value}, [""], (), split=True))


def _parse_as(
    kind: type | tuple[type, ...],
    default: object,
    highest: float = math.inf,
) -> Callable[[object], Any]:
    """Returns a parser of values that CSV has as in JSON: true, 7 or 0.5."""

    def parse(value: object) -> Any:
        if value is None or value == "":
            return default
        parsed: Any = json.loads(value.lower()) if isinstance(value, str) else value
        is_kind = isinstance(parsed, kind) and (kind is bool or not isinstance(parsed, bool))
        if not is_kind or not 0 <= parsed <= highest:
            raise ValueError(f"expected {kind} up to {highest}, got {shortened(value)}")
        return parsed

    return parse


_FIELDS: dict[str, Callable[[object], Any]] = {
    "language": lambda value: clean_text(value, "language").strip() or None,
    "seen": _parse_as(bool, False),
    "count": _parse_as(int, 0),
    "threshold": _parse_as((int, float), None, 1),
    "synonyms": _parse_names,
    "broader": _parse_ids,
}
# Columns of the label files that hf_gile writes.
_WRITTEN = {"id", "name", "description", "language", "seen", "count"}
_SAVED = {*_FIELDS, "id", "name", "description"}
_ERRORS = NO_TEXT | SPREADSHEET_ERRORS
_ID_KEYS = ("id", "uri", "@id", "ui", "code", "notation")
# A text of Excel, an address of RDF, or a text in typographic or French quotes.
_ENCLOSED = re.compile(
    r'\A\s*(?:="([^"]*)"|<(\w+://[^<>\s]*)>|[\u201c\u201e\xab]([^\u201c-\u201e\xab\xbb]*)[\u201c\u201d\xbb])\s*\Z'
)
_LANGUAGE = re.compile("[A-Za-z]{2,3}([-_][A-Za-z0-9]+)*")
_DEFAULT = ["id", "name"]
_RETIRED = re.compile("(?i)deprecated|obsolete|withdrawn|retired|superseded|rejected|inactive")
