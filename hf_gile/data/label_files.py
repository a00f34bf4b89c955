"""Readers of label files in all supported formats, and a writer of CSV."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import asdict, fields
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from ..models.labels_gile import Label, LabelSet
from ..writing import whole_file, write_csv
from .files import MAX_RECORD, data_suffix, open_binary
from .label_tables import load_labels
from .mesh import DESCRIPTIONS as MESH_DESCRIPTIONS
from .mesh import load_mesh
from .rdf import SUFFIXES as RDF_SUFFIXES
from .report import ReadReport
from .skos import load_skos
from .sniffing import SEEN, Format, Requested, sniff


def is_mesh(path: str | os.PathLike[str]) -> bool:
    """Checks whether a file is MeSH: XML, ASCII, or JSON lines with a `ui` and no `id`.

    Args:
        path: The file.
    """
    return _find_kind(path, sniff(path)) == "mesh"


def read_label_file(
    path: str | os.PathLike[str],
    *,
    id: str = "id",
    name: Sequence[str] = ("name",),
    describe: Sequence[str] | None = None,
    synonyms: Sequence[str] = (),
    languages: Sequence[str] = ("en",),
    requested: Requested = SEEN,
    report: ReadReport | None = None,
) -> LabelSet:
    """Reads a label set from a table, a text with a label on each line, MeSH, or a vocabulary in RDF, such as SKOS.

    The content determines what a file is, whatever its name.

    Args:
        path: The file, compressed or not.
        id: Column with the ids, for a table.
        name: Columns with names, for a table; the first non-empty column is used.
        describe: Parts of descriptions: columns of a table; `entry_terms`, `scope_note`, `tree_path` of MeSH;
            `alt_labels`, `definition`, `broader` of RDF. By default the definitions; empty, or `none`, for labels
            without descriptions.
        synonyms: Columns with synonyms, for a table. MeSH and RDF define their own.
        languages: Languages of names in RDF, in order of preference.
        requested: Encoding and layout of a table; by default as seen in the file.
        report: Counts labels and decides whether malformed labels raise (the default) or are skipped.

    Raises:
        FileNotFoundError: If the file does not exist.
        ImportError: If the format needs an extra that is not installed.
        ValueError: If the file is malformed; the message names file and row.
    """
    describe = [] if describe is not None and list(describe) == ["none"] else describe
    parts: dict[str, Any] = {} if describe is None else {"describe": describe}
    names_columns = id != "id" or tuple(name) != ("name",) or bool(synonyms)
    form = sniff(path, requested)
    kind = _find_kind(path, form)
    if kind == "mesh" and form.kind == "jsonl":
        if names_columns or not set(describe or ()) <= {*MESH_DESCRIPTIONS}:
            kind = "table"
            id = "ui" if id == "id" else id
    elif kind != "table" and names_columns:
        raise ValueError(f"{path} is {'MeSH' if kind == 'mesh' else 'RDF'}, not a table with columns to choose")
    if kind == "mesh":
        return load_mesh(path, **parts, report=report, encoding=requested.encoding)
    if kind == "rdf":
        return load_skos(path, list(languages), **parts, report=report)
    columns: dict[str, Any] = {"description": describe, "synonyms": synonyms, "languages": languages}
    return load_labels(path, id=id, name=name, **columns, **requested._asdict(), report=report)


def _find_kind(path: str | os.PathLike[str], form: Format) -> Literal["table", "mesh", "rdf"]:
    form.refuse(path)
    is_named_rdf = data_suffix(Path(path)) in RDF_SUFFIXES
    if form.kind == "medline":
        raise ValueError(f"{path} has documents of MEDLINE, not labels")
    if form.kind in ("turtle", "ntriples", "xml") or (form.kind == "text" and is_named_rdf):
        return "rdf"
    if form.kind not in ("json", "jsonl"):
        return "mesh" if form.kind == "mesh" else "table"
    with open_binary(path) as stream:
        try:
            head = stream.read(1 << 16).decode(form.encoding, "replace")
        except EOFError:
            return "table"  # whose reader reports the error
    keys = re.findall(r'"((?:[^"\\]|\\.)*)"\s*:', head.partition("\n")[0] if form.kind == "jsonl" else head)
    if {"@context", "@graph", "@id", "@type"} & set(keys):
        return "rdf"
    return "mesh" if form.kind == "jsonl" and {"ui", "name"} <= set(keys) and "id" not in keys else "table"


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
