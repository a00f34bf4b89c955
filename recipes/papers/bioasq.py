"""Reader of BioASQ's JSON files of MEDLINE abstracts, and of the same records as JSON lines.

`.json`, as BioASQ distributes its training sets (task A, allMeSH_*.json):

    {"articles": [
    {"journal": "J Mice", "year": "1976", "pmid": "5", "title": "On mice.",
     "abstractText": "Mice were seen.", "meshMajor": ["Animals", "Mice"]},
    ...
    ]}

`.jsonl`: one such record per line. Both may be compressed and may have ids, as `meshUI` in the order of `meshMajor`.
The files are available from http://participants-area.bioasq.org after registration.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from reprlib import repr as shortened
from typing import Any

from hf_gile.data.files import data_suffix
from hf_gile.data.loading import Piece
from hf_gile.data.mesh import read_mesh
from hf_gile.data.report import ReadReport
from hf_gile.data.schema import clean_text
from hf_gile.data.sniffing import Format
from hf_gile.data.table_files import read_rows
from papers.medline import Record, make_record


def format_of(path: str | os.PathLike[str], encoding: str = "utf-8") -> Format:
    """Returns the format that the suffix tells, `.json` or `.jsonl`."""
    if Path(path).stat().st_size == 0:
        return Format("empty")
    return Format("jsonl" if data_suffix(Path(path)) == ".jsonl" else "json", encoding)


def read_bioasq(
    source: str | os.PathLike[str] | Piece,
    report: ReadReport | None = None,
    *,
    encoding: str = "utf-8",
    ui_of: Mapping[str, str] | None = None,
) -> Iterator[Record]:
    """Reads a `.json` or `.jsonl` file, compressed or not, in constant memory.

    Args:
        source: The file, or a part of a `.jsonl` file.
        report: Counts skipped input and decides whether malformed input raises (the default).
        encoding: Any encoding of Python, such as `"windows-1252"` of older files.
        ui_of: Maps heading names to ids, for records without `meshUI`; other names are used as ids.

    Yields:
        The records in file order, including those without abstract or headings.

    Raises:
        ValueError: If the file or a record is malformed, unless the report says to skip.
    """
    report = ReadReport() if report is None else report
    piece = source if isinstance(source, Piece) else Piece(os.fspath(source))
    rows = ((where, raw) for where, _, raw in read_rows(piece, report, format_of(piece.path, encoding)))
    for _, record in report.read_each(rows, partial(validate_record, ui_of=ui_of), "malformed record"):
        yield record


def validate_record(raw: Mapping[str, Any], ui_of: Mapping[str, str] | None = None) -> Record:
    """Validates an object and converts it to a record.

    Null is read as an empty text. Without `meshUI` (BioASQ has names only), ids of headings are looked up in `ui_of`;
    unknown names are used as ids. Repeated headings count once.

    Args:
        raw: The object.
        ui_of: Maps heading names to ids.

    Raises:
        ValueError: If a key is missing or a value has the wrong type.

    Example:
        >>> raw = {"pmid": 5, "title": "On mice.", "abstractText": None, "meshMajor": ["Mice"]}
        >>> validate_record(raw, ui_of={"Mice": "D051379"})["meshUI"]
        ['D051379']
    """
    missing = [key for key in ("pmid", "title", "abstractText", "meshMajor") if key not in raw]
    if missing:
        raise ValueError(f"a record needs {', '.join(missing)}, got the keys {shortened([*raw])}")
    names = _check_headings(raw, "meshMajor")
    if raw.get("meshUI") is None:
        ids = [*names] if ui_of is None else [ui_of.get(name, name) for name in names]
    else:
        ids = _check_headings(raw, "meshUI")
        if len(ids) != len(names):
            raise ValueError(f"{len(ids)} meshUI for {len(names)} meshMajor; the numbers must be equal")
    texts = {key: clean_text(raw[key], key) for key in ("title", "abstractText")}
    return make_record(raw["pmid"], texts["title"], texts["abstractText"], raw.get("year"), ids, names)


def mesh_ids(
    path: str | os.PathLike[str], report: ReadReport | None = None, *, encoding: str | None = None
) -> dict[str, str]:
    """Maps names to descriptor ids, for records with headings but no ids.

    BioASQ records use the headings of their year, which may have become entry terms since:
    `read_bioasq("allMeSH_2015.json", ui_of=mesh_ids("desc2024.xml"))`.

    Args:
        path: MeSH, as in `read_mesh`.
        report: Counts descriptors, and skipped names of several descriptors; decides whether malformed input raises
            (the default).
        encoding: As in `read_mesh`.

    Returns:
        Ids by heading, and by entry terms (permuted or not) that are not headings.

    Raises:
        Exception: What `read_mesh` raises.
    """
    report = ReadReport() if report is None else report
    headings, terms = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for descriptor in read_mesh(path, report, encoding=encoding):
        headings[descriptor.name].add(descriptor.ui)
        for term in (*descriptor.entry_terms, *descriptor.permuted_terms):
            terms[term].add(descriptor.ui)
    ids = {}
    for name, uis in {**terms, **headings}.items():
        if len(uis) == 1:
            (ids[name],) = uis
        else:
            report.leave_out("name of several descriptors", f"{path}: {name!r} belongs to {', '.join(sorted(uis))}")
    return ids


def _check_headings(raw: Mapping[str, Any], key: str) -> list[str]:
    values = [] if raw[key] is None else raw[key]
    if not isinstance(values, list):
        raise ValueError(f"{key} must be a list of text, got {shortened(values)}")
    for value in values:
        if not isinstance(value, str):
            raise ValueError(f"a heading in {key} must be text, got {shortened(value)}")
        if not value or value.isspace():
            raise ValueError(f"a heading in {key} must not be empty, got {shortened(values)}")
    clean_text(" ".join(values), f"a heading in {key}")  # checked together for speed
    return [value.strip() for value in values]
