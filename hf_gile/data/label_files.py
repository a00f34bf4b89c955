"""Reader of label files in all supported formats, and a writer of CSV."""

import os
import re
from collections.abc import Sequence
from dataclasses import asdict, fields
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Unpack

from ..models.labels_gile import Label, LabelSet
from ..writing import whole_file, write_csv
from .files import MAX_RECORD, data_suffix, find_files, read_head
from .label_tables import Columns, read_label_table
from .mesh import DESCRIPTIONS as MESH_DESCRIPTIONS
from .mesh import load_mesh
from .rdf import SUFFIXES as RDF_SUFFIXES
from .report import ReadReport
from .schema import as_names, column_names
from .skos import load_skos
from .sniffing import Format, Layout, Requested, sniff
from .table_files import SUFFIXES


def load_labels(
    path: str | os.PathLike[str],
    *,
    id: str = "id",
    name: str | Sequence[str] = "name",
    description: str | Sequence[str] | None = None,
    synonyms: str | Sequence[str] = (),
    languages: Sequence[str] = ("en",),
    report: ReadReport | None = None,
    **layout: Unpack[Layout],
) -> LabelSet:
    """Reads a label set from a table, a text with a label on each line, MeSH, or a vocabulary in RDF, such as SKOS.

    The content determines what a file is, whatever its name.

    If all columns of a table are fields of `Label`, as written by `save_labels`, all fields are read. In other tables,
    a column `broader` has the ids of parents, and a column `description` or `definition` the descriptions, unless it is
    used for something else or other columns have them. A column that was not asked for and has values of another type
    than the field is not read; the report names it. Labels with the same name and description are distinguished by
    their synonyms, or else their id, in the description. The lines of a text are both ids and names.

    Args:
        path: The file, compressed or not.
        id: Column with the ids, for a table.
        name: Columns with names, for a table; the first non-empty column is used.
        description: Parts of descriptions: columns of a table, joined by semicolons like lists; `entry_terms`,
            `scope_note`, `tree_path` of MeSH; `alt_labels`, `definition`, `broader` of RDF. By default the definitions;
            empty, or `none`, for labels without descriptions.
        synonyms: Columns with synonyms, for a table; each a list, or a string for `split_synonyms`. MeSH and RDF define
            their own.
        languages: Languages of names in RDF, and of texts by language in a table, in order of preference.
        report: Counts labels and decides whether malformed labels raise (the default) or are skipped.
        layout: As in `load_table`, for a table.

    Returns:
        The labels, in file order; those of RDF in the order of their ids.

    Raises:
        FileNotFoundError: If the file does not exist.
        ImportError: If the format needs an extra that is not installed.
        ValueError: If the file is malformed, has no labels, or lacks a column; the message names file and row.
    """
    report = report or ReadReport()
    file, *more = find_files(path, (*SUFFIXES, ".txt"), any_name=True)
    if more:
        raise ValueError(f"{path}: expected a single label file, got {len(more) + 1}")
    parts = None if description is None else as_names(description or ())
    parts = () if parts == ("none",) else parts
    columns = Columns(id, column_names(name), parts, as_names(synonyms or ()))
    requested = Requested(**layout).check()
    form = sniff(file, requested, columns.required())
    kind = _find_kind(file, form)
    is_default = (
        columns[:2] == ("id", ("name",))
        and not columns.synonyms
        and (kind == "RDF" or form.kind != "jsonl" or {*MESH_DESCRIPTIONS}.issuperset(parts or ()))
    )
    if not is_default and form.kind in ("json", "jsonl"):
        columns = columns._replace(id="ui" if (kind, id) == ("MeSH", "id") else id)
        kind = "table"
    if kind == "table":
        return read_label_table(file, form, columns, languages, report)
    if not is_default:
        raise ValueError(f"{path} is {kind}, not a table with columns to choose")
    described: dict[str, Any] = {} if parts is None else {"describe": parts}
    if kind == "MeSH":
        return load_mesh(file, **described, report=report, encoding=requested.encoding)
    return load_skos(file, languages, **described, report=report)


def layout_beside(path: str, encoding: str | None) -> dict[str, Any]:
    """Returns the layout of a label file, which shares only the encoding of documents, and only if it is no Unicode."""
    file, *_ = find_files(path, SUFFIXES, any_name=True)
    return Requested(encoding=None if sniff(file).encoding.startswith("utf") else encoding)._asdict()


def is_mesh(path: str | os.PathLike[str]) -> bool:
    """Checks whether a file is MeSH: XML, ASCII, or JSON lines with a `ui` and no `id`."""
    return _find_kind(Path(path), sniff(path)) == "MeSH"


def _find_kind(path: Path, form: Format) -> Literal["table", "MeSH", "RDF"]:
    if form.kind == "medline":
        raise ValueError(f"{path} has documents of MEDLINE, not labels")
    if form.kind in ("ascii", "mesh"):
        return "MeSH"
    if form.kind in ("turtle", "ntriples", "xml") or (form.kind == "text" and data_suffix(path) in RDF_SUFFIXES):
        return "RDF"
    if form.kind not in ("json", "jsonl"):
        return "table"
    head = read_head(path, 1 << 16).decode(form.encoding, "replace")
    keys = set(re.findall(r'"((?:[^"\\]|\\.)*)"\s*:', head))
    if {"@context", "@graph"} & keys or ({"@id", "@type"} & keys and "id" not in keys):
        return "RDF"
    return "MeSH" if form.kind == "jsonl" and {"ui", "name"} <= keys and "id" not in keys else "table"


def save_labels(label_set: LabelSet, path: str | os.PathLike[str]) -> None:
    r"""Writes a label set to a `.jsonl` file, or to a `.csv` file for spreadsheets that `load_labels` reads back.

    In a CSV cell, synonyms are separated by semicolons; within a synonym, a semicolon is written `\;` and a backslash
    `\\`. An existing file is replaced atomically and keeps its permissions.

    Args:
        label_set: The labels.
        path: The file.

    Raises:
        ValueError: If the suffix is unknown, or a label has a lone surrogate, which UTF-8 cannot encode, or a text too
            long for a cell. The message names the label.
        OSError: If the file cannot be written.
    """
    path = Path(path)
    if path.suffix == ".jsonl":
        with whole_file(path) as temporary:
            try:
                label_set.save(temporary)
            except ValueError as error:
                raise ValueError(str(error).replace(str(temporary), str(path))) from None
        return
    if path.suffix != ".csv":
        raise ValueError(f"{path}: labels can be saved to .csv and .jsonl files")
    write_csv(path, chain([_COLUMNS], (_format_row(label, path) for label in label_set)))


_COLUMNS = [field.name for field in fields(Label)]


def _format_row(label: Label, path: Path) -> list[str]:
    """Returns the cells of a label; refuses cells that cannot be read back."""
    cells = {name: _format_cell(value) for name, value in asdict(label).items()}
    for name, cell in cells.items():
        if len(cell) >= MAX_RECORD:  # an escape adds a character
            raise ValueError(
                f"{path}: label {label.id!r} cannot be written: its {name} has {len(cell):,} characters, but a CSV "
                f"cell has fewer than {MAX_RECORD:,}: write a .jsonl file"
            )
        try:
            cell.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{path}: label {label.id!r} cannot be written: it has a lone surrogate") from None
    return list(cells.values())


def _format_cell(value: object) -> str:
    if isinstance(value, tuple):
        return "; ".join(re.sub(r"[;\\]", r"\\\g<0>", synonym) for synonym in value)
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
