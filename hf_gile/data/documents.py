"""Reader of texts to score, from files and streams of text lines or tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

from .files import data_suffix
from .loading import Piece
from .report import ReadReport
from .schema import join_columns
from .sniffing import resolve_encoding
from .table_files import (
    Format,
    line_pieces,
    missing_column_error,
    parse_csv,
    parse_jsonl,
    read_lines,
    read_rows,
    stream_lines,
    table_pieces,
)
from .tables import document_id

FORMATS = ("text", "jsonl", "csv", "tsv")
"""Formats of streams, and of files with any suffix."""

_WITH_HEADER = ("csv", "tsv")
_SUFFIX_FORMATS = {".jsonl": "jsonl", ".csv": "csv", ".tsv": "tsv", ".json": "json", ".parquet": "parquet"}


class Document(NamedTuple):
    """A text to score.

    Args:
        id: Id of the document, if any.
        text: The text; empty for an empty line.
    """

    id: str | None
    text: str


def read_documents(
    source: str | Path | Piece | IO[bytes],
    text: Sequence[str] = ("text",),
    *,
    id: str | None = None,
    format: str | None = None,
    encoding: str = "utf-8",
    report: ReadReport | None = None,
) -> Iterator[Document]:
    r"""Reads the texts of a file or a stream as they arrive, in constant memory.

    Args:
        source: A file, optionally gzipped, a piece of it from `document_pieces`, or a stream of bytes.
        text: Columns with the text of a table; several are joined by line breaks.
        id: Column with the ids; by default `id`, if present.
        format: `"text"` (a text per line), `"jsonl"`, `"csv"` or `"tsv"`. By default, the suffix of a file determines
            it (also `.json` and `.parquet`; text for other suffixes), and a stream is JSON lines if its first line is a
            JSON object, otherwise text.
        encoding: Encoding of all formats except `.parquet`.
        report: Counts texts and decides whether malformed texts raise (the default) or are skipped.

    Yields:
        The texts, in order.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the format is unknown or a column is missing; also for a malformed line or an empty CSV file,
            unless the report says to skip. The message names file and line.

    Example:
        >>> from io import BytesIO
        >>> list(read_documents(BytesIO(b"On mice.\nOn rats.\n")))
        [Document(id=None, text='On mice.'), Document(id=None, text='On rats.')]
        >>> list(read_documents(BytesIO(b'{"id": 7, "title": "On mice."}'), text=["title"]))
        [Document(id='7', text='On mice.')]
    """
    report = ReadReport() if report is None else report
    if format is not None and format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {format!r}")
    if isinstance(source, str | Path):
        source = Piece(str(source))
    if isinstance(source, Piece):
        if not Path(source.path).is_file():
            raise FileNotFoundError(f"no file at {source.path} (in {Path.cwd()})")
        format = format or _infer_format(source.path)
    return _read(source, list(text), id, format, resolve_encoding(encoding), report)


def document_pieces(path: str, size: int, format: str | None = None, encoding: str = "utf-8") -> list[Piece]:
    """Cuts a file of texts into pieces that several processes can read independently.

    Args:
        path: The file.
        size: Approximate number of bytes of a piece.
        format: As in `read_documents`.
        encoding: As in `read_documents`.

    Returns:
        Parts split at line breaks (of uncompressed text or JSON lines), row groups of a Parquet file (small groups are
        merged), or the whole file; an empty list for an empty file of text or JSON lines.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the encoding is unknown, or a file of another format is empty.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"no file at {path} (in {Path.cwd()})")
    encoding = resolve_encoding(encoding)
    format = format or _infer_format(path)
    if Path(path).stat().st_size == 0:
        if format in ("text", "jsonl"):
            return []
        raise ValueError(f"{path}: empty file, not {format}: fix it, or leave it out")
    if format in ("text", "jsonl"):
        return line_pieces(Path(path), encoding, size)
    return table_pieces(Path(path), Format(encoding), size)


def _infer_format(path: str) -> str:
    return _SUFFIX_FORMATS.get(data_suffix(Path(path)), "text")


def _read(
    source: Piece | IO[bytes],
    text: Sequence[str],
    id: str | None,
    format: str | None,
    encoding: str,
    report: ReadReport,
) -> Iterator[Document]:
    if not isinstance(source, Piece):
        report.files += 1
        yield from _parse_lines(stream_lines(source, encoding), "standard input", "line", text, id, format, report)
    elif format in FORMATS:
        report.files += source.start == 0
        unit = "line" if source == Piece(source.path) else "line at byte"
        with closing(read_lines(source, encoding)) as lines:
            yield from _parse_lines(lines, source.path, unit, text, id, format, report)
    else:
        rows = read_rows(source, report, Format(encoding), [], all_columns=True)
        for where, _, row in rows:
            yield from _parse_row(row, f"{source.path}: {where}", text, id, report)


def _parse_lines(
    lines: Iterator[tuple[int, str | ValueError]],
    file: str,
    unit: str,
    text: Sequence[str],
    id: str | None,
    format: str | None,
    report: ReadReport,
) -> Iterator[Document]:
    first = next(lines, None)
    lines = chain([] if first is None else [first], lines)
    if first is None and format in _WITH_HEADER:
        report.problem("empty file", f"{file}: empty file, without column names")
    if format is None:
        format = "jsonl" if first is not None and _is_object(first[1]) else "text"
    if format == "text":
        for number, line in report.until_damage(lines, file):
            where = f"{file}: {unit} {number:,}"
            if isinstance(line, ValueError):
                report.problem("malformed line", f"{where}: {line}")
            else:
                yield from _parse_row({text[0]: line.rstrip("\r\n")}, where, text[:1], None, report)
        return
    rows = parse_jsonl(lines) if format == "jsonl" else parse_csv(lines, "\t" if format == "tsv" else ",")
    for number, row in report.until_damage(rows, file):
        where = f"{file}: {unit} {number:,}"
        if isinstance(row, Mapping):
            yield from _parse_row(row, where, text, id, report)
        else:
            problem = row if isinstance(row, ValueError) else f"expected an object, got {str(row)[:40]!r}"
            report.problem("malformed line", f"{where}: {problem}")


def _parse_row(
    row: Mapping[str, Any], where: str, text: Sequence[str], id: str | None, report: ReadReport
) -> Iterator[Document]:
    """Yields the document of a row, or nothing if the row is malformed."""
    try:
        for column in [*text, *([] if id is None else [id])]:
            if column not in row:
                raise missing_column_error(column, row, where, "text" if column in text else "id")
        value = row.get("id" if id is None else id)
        key = None if value is None and id is None else document_id(value, id or "id")
        document = Document(key, join_columns(row, text))
    except ValueError as error:
        message = str(error)
        report.problem("malformed line", message if message.startswith(where) else f"{where}: {message}")
        return
    report.records += 1
    yield document


def _is_object(line: str | ValueError) -> bool:
    if isinstance(line, ValueError) or not line.lstrip().startswith("{"):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
