"""Reader of texts to score, from files and streams of text lines or tables."""

import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple, cast

from .files import MAX_RECORD, PACKED, data_suffix
from .json_text import is_json_object
from .loading import Piece
from .report import ReadReport
from .schema import Row, clean_text, document_id, join_columns
from .sniffing import SEEN, Format, Requested, sniff, sniff_bytes
from .table_files import SUFFIXES, describe_missing_column, file_pieces, read_rows

FORMATS = ("text", "jsonl", "csv")
"""Formats of streams, and of files with any suffix."""


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
    requested: Requested = SEEN,
    report: ReadReport | None = None,
) -> Iterator[Document]:
    r"""Reads the texts of a file or a stream as they arrive, in constant memory.

    Args:
        source: A file, compressed or not, a piece of it from `document_pieces`, or a stream of bytes.
        text: Columns with the text of a table; several are joined by line breaks.
        id: Column with the ids; by default `id`, if present.
        format: `"text"` (a text per line), `"jsonl"` or `"csv"`. By default, files whose suffix is that of a
            table are read as their content says. Others are JSON lines if the first line is a JSON object, a table if
            the first line names the columns, `requested` does, or they start like one of Markdown, otherwise text; and
            so is a stream, which is no table.
        requested: Encoding and layout of CSV; by default as seen in the file, or in the first line of a stream.
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
    report = report or ReadReport()
    requested = requested.check()
    if format is not None and format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {format!r}")
    if isinstance(source, str | Path):
        source = Piece(str(source))
    if isinstance(source, Piece):
        form = _see_file(source.path, format, requested, [*text, *filter(None, [id])])
        if form.note:
            report.note(f"{Path(source.path).name}: {form.note}")
        return _read(source, text, id, form, report)
    return _read_stream(source, text, id, format, requested, report)


def document_pieces(
    path: str,
    size: int,
    names: Sequence[str] = ("text",),
    format: str | None = None,
    requested: Requested = SEEN,
) -> list[Piece]:
    """Cuts a file of texts into pieces that several processes can read independently.

    Args:
        path: The file.
        size: Approximate number of bytes of a piece.
        names: Columns that are read.
        format: As in `read_documents`.
        requested: As in `read_documents`.

    Returns:
        Parts split at line breaks (of uncompressed text or JSON lines), row groups of a Parquet file (small groups are
        merged), or the whole file; an empty list for an empty file of text or JSON lines.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the encoding is unknown, or a file of another format is empty.
    """
    form = _see_file(path, format, requested.check(), names)
    if form.kind == "empty":
        raise ValueError(f"{path}: empty file, without column names: fix it, or leave it out")
    return file_pieces(Path(path), form, size) if Path(path).stat().st_size else []


def _see_file(path: str, format: str | None, requested: Requested, names: Sequence[str]) -> Format:
    if Path(path).is_dir():
        raise ValueError(f"{path} is a folder: pass its files, as in {path}/*.txt")
    suffix = data_suffix(Path(path))
    kind = format or ("" if suffix in SUFFIXES else "lines")
    form = sniff(path, requested, names, kind)
    lines = format or {".jsonl": "jsonl", ".ndjson": "jsonl"}.get(suffix, kind)
    return Format("text") if form.kind == "empty" and lines in ("text", "jsonl", "lines") else form


def _read_stream(
    stream: IO[bytes],
    text: Sequence[str],
    id: str | None,
    format: str | None,
    requested: Requested,
    report: ReadReport,
) -> Iterator[Document]:
    first = stream.readline(MAX_RECORD)
    if first.startswith(PACKED):
        raise ValueError("standard input is compressed: decompress it, as in zcat FILE | ..., or pass the file")
    line = first.decode("utf-8-sig", "replace").strip()
    kind = format or ("jsonl" if is_json_object(line) else "text")
    if format is None and re.match(r"\[\s*(\{|$)", line):
        raise ValueError(
            "standard input is a list in JSON: pass the file, write an object a line (jq -c '.[]'), or pass --format "
            "text if its lines are texts"
        )
    cells = [cell.strip() for cell in re.split(r"[,;|\t]", line)]
    if kind == "text" and len(cells) > 1 and not set(text).isdisjoint(cells):
        report.note(f"the first line, {line!r:.80}, was scored as a text: if it names columns, pass --format csv")
    form = sniff_bytes(first or b"\n" * (kind != "csv"), "", requested, text, kind)
    form.refuse("standard input")
    if not form.encoding.startswith("utf") and requested.encoding is None:
        form = form._replace(encoding="utf-8")  # a line is too little to see another encoding
    yield from _read(cast(IO[bytes], _Rejoined(first, stream)), text, id, form, report)


class _Rejoined(io.BufferedIOBase):
    """A stream whose first line was read."""

    def __init__(self, first: bytes, stream: IO[bytes]) -> None:
        self.first = first
        self.stream = stream

    def readable(self) -> bool:
        return True

    def readline(self, size: int | None = -1) -> bytes:
        line = self.first
        self.first = b""
        return line or self.stream.readline(-1 if size is None else size)

    def read1(self, size: int = -1) -> bytes:
        return self.readline(size)

    read = read1  # type: ignore[assignment]


def _read(
    source: Piece | IO[bytes],
    text: Sequence[str],
    id: str | None,
    form: Format,
    report: ReadReport,
) -> Iterator[Document]:
    arguments = dict.fromkeys(text, "text") | dict.fromkeys(filter(None, [id]), "id")

    def read(_: str, row: Row) -> Document:
        if form.kind == "text":  # whose lines have no other column, and no missing cells
            return Document(None, clean_text(row["text"], text[0]).strip())
        if missing := [column for column in arguments if column not in row]:
            raise ValueError(describe_missing_column(missing[0], row, arguments[missing[0]], form))
        key = row.get(id or "id")
        if key is not None or id is not None:
            key = document_id(key, id or "id")
        return Document(key, join_columns(row, text))

    for _, document in report.read_each(read_rows(source, report, form), read, "malformed row"):
        report.records += 1
        yield document
