"""Texts to be scored, from files and streams, one after the other: lines of text and tables without labels."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

from .files import open_binary, suffix_of
from .loading import Piece
from .report import ReadReport
from .schema import clean_text
from .table_files import Format, checked_encoding, csv_rows, jsonl_rows, no_column, read_rows, stream_lines
from .tables import document_id

FORMATS = ("text", "jsonl", "csv", "tsv")
"""What a stream can hold, and a file of any name."""

_OF_SUFFIX = {".jsonl": "jsonl", ".csv": "csv", ".tsv": "tsv", ".json": "json", ".parquet": "parquet"}


class Document(NamedTuple):
    """A text to be scored.

    Args:
        id: Of the document, where it has one.
        text: The text; of a line that is empty, an empty one.
    """

    id: str | None
    text: str


def read_documents(
    source: str | Path | IO[bytes],
    text: Sequence[str] = ("text",),
    *,
    id: str | None = None,
    format: str | None = None,
    encoding: str = "utf-8",
    report: ReadReport | None = None,
) -> Iterator[Document]:
    r"""Reads the texts of a file or a stream, each as soon as it is there, in constant memory.

    Args:
        source: A file, packed by gzip or not, or a stream of bytes.
        text: Columns of the text of a table; several are joined by line ends.
        id: The column of ids; by default `id`, in rows that have it.
        format: `"text"` (a text on each line), `"jsonl"`, `"csv"` or `"tsv"`. By default what a file's name says
            (also `.json` and `.parquet`; of other names, text), and a stream is JSON lines if its first line is a JSON
            object, else text.
        encoding: Of all but `.parquet`.
        report: Counts texts, and says whether malformed ones raise, as they do without, or are left out.

    Yields:
        The texts, in order.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: An unknown format, or a column that is not there. Unless the report says to skip: a malformed line;
            the message names file and line.

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
        if not Path(source).is_file():
            raise FileNotFoundError(f"no file at {source} (in {Path.cwd()})")
        format = format or _OF_SUFFIX.get(suffix_of(Path(source)), "text")
    return _read(source, list(text), id, format, checked_encoding(encoding), report)


def _read(
    source: str | Path | IO[bytes],
    text: Sequence[str],
    id: str | None,
    format: str | None,
    encoding: str,
    report: ReadReport,
) -> Iterator[Document]:
    if not isinstance(source, str | Path):
        report.files += 1
        yield from _of_stream(source, "standard input", text, id, format, encoding, report)
    elif format in FORMATS:
        report.files += 1
        with open_binary(source) as stream:
            yield from _of_stream(stream, str(source), text, id, format, encoding, report)
    else:
        rows = read_rows(Piece(str(source)), report, Format(encoding), [], all_columns=True)
        for where, _, row in rows:
            yield from _document(row, f"{source}: {where}", text, id, report)


def _of_stream(
    stream: IO[bytes],
    name: str,
    text: Sequence[str],
    id: str | None,
    format: str | None,
    encoding: str,
    report: ReadReport,
) -> Iterator[Document]:
    lines = stream_lines(stream, encoding)
    if format is None:
        first = next(lines, None)
        lines = chain([] if first is None else [first], lines)
        format = "jsonl" if first is not None and _is_object(first[1]) else "text"
    if format == "text":
        for number, line in report.until_damage(lines, name):
            if isinstance(line, ValueError):
                report.problem("malformed line", f"{name}: line {number:,}: {line}")
            else:
                yield from _document({text[0]: line.rstrip("\r\n")}, f"{name}: line {number:,}", text[:1], None, report)
        return
    rows = jsonl_rows(lines) if format == "jsonl" else csv_rows(lines, "\t" if format == "tsv" else ",")
    for number, row in report.until_damage(rows, name):
        if isinstance(row, Mapping):
            yield from _document(row, f"{name}: line {number:,}", text, id, report)
        else:
            what = row if isinstance(row, ValueError) else f"expected an object, got {str(row)[:40]!r}"
            report.problem("malformed line", f"{name}: line {number:,}: {what}")


def _document(
    row: Mapping[str, Any], where: str, text: Sequence[str], id: str | None, report: ReadReport
) -> Iterator[Document]:
    """The document of a row, or none if the row is malformed."""
    try:
        for column in [*text, *([] if id is None else [id])]:
            if column not in row:
                raise no_column(column, row, where)
        own = row.get("id" if id is None else id)
        parts = [clean_text(row[column], column).strip() for column in text]
        document = Document(
            None if own is None and id is None else document_id(own, id or "id"), "\n".join(filter(None, parts))
        )
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
