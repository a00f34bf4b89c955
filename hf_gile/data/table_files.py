"""Readers of the rows of table files - CSV, TSV, JSON lines, JSON and Parquet - and of the lines of text files.

All are read in constant memory; large JSON lines and Parquet files are split into parts for several processes. See
`tables` for the file formats.
"""

from __future__ import annotations

import csv
import difflib
import json
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from io import TextIOWrapper
from itertools import pairwise
from pathlib import Path
from reprlib import repr as shortened
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from ..extras import needs_extra
from .files import MAX_RECORD, data_suffix, expansion_error, is_packed, open_binary, unpacked_limit
from .json_text import JsonText, check_parts, json_array
from .loading import Piece
from .report import ReadReport

if TYPE_CHECKING:
    from pyarrow import Array, RecordBatch
    from pyarrow.parquet import RowGroupMetaData

SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", ".parquet")
"""Suffixes of table files, each with or without `.gz`."""

_PIECE = 1 << 26
_MAX_LINE = 1 << 24
MAX_CELL = 1 << 24
_PARQUET_REMEDY = "write it without compression"
_ITEM_BYTES = 8
_LINE_BYTES = 150  # of Python, for each line that waits for the end of its row
_FIRST_ROWS = 1000
_NEAR = 0.75  # similarity of a column that is suggested: "txt" for "text", but not "intent"
_BOM = "\ufeff"
_QUOTES = " (is a double quote not closed, or not doubled in a cell?)"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class Format(NamedTuple):
    """The format of text files of a table.

    Args:
        encoding: Any encoding of Python; not used for Parquet files.
        delimiter: Separator of cells; by default a comma in `.csv` and a tab in `.tsv`.
        quotes: Whether cells in double quotes may contain delimiters and line breaks; otherwise quotes are plain text.
    """

    encoding: str = "utf-8"
    delimiter: str | None = None
    quotes: bool = True


def read_rows(
    piece: Piece,
    report: ReadReport,
    form: Format,
    columns: Sequence[str],
    may_lack: Sequence[str] = (),
    *,
    all_columns: bool = False,
    arguments: Mapping[str, str] | None = None,
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Reads the rows of a table, in constant memory.

    Args:
        piece: A file, or a part of a `.jsonl` or Parquet file.
        report: Counts the file, and decides whether malformed rows raise errors.
        form: The format of the text.
        columns: Required columns; each must occur in some row of the piece.
        may_lack: Optional columns in rows of JSON.
        all_columns: Whether rows of Parquet files include all other columns, as rows of other files do.
        arguments: Argument that names each column, for messages.

    Yields:
        The location of the row, for messages; a short location, for ids; and the row.

    Raises:
        ValueError: If a column is missing. Unless the report skips errors: if a row or the file is malformed.
    """
    path = Path(piece.path)
    if piece.start == 0:
        report.files += 1
    if path.stat().st_size == 0:
        report.problem("damaged file", f"{path}: empty file")
        return
    suffix = data_suffix(path)
    unit, short = {".json": ("record", ""), ".parquet": ("row", "")}.get(suffix, ("line", ""))
    if suffix == ".jsonl" and piece != Piece(piece.path):
        unit, short = "line at byte", "byte "
    ragged = suffix.startswith(".json")
    absent = set(columns) if ragged else {*columns, *may_lack}
    names: dict[str, None] = {}
    count = 0
    selected = None if all_columns else [*columns, *may_lack]
    rows = _read_parquet(piece, selected) if suffix == ".parquet" else _READERS[suffix](piece, form)
    with closing(rows):
        for number, row in report.until_damage(rows, path):
            if not isinstance(row, Mapping):
                problem = row if isinstance(row, ValueError) else f"expected an object, got {shortened(row)}"
                report.problem("malformed row", f"{path}: {unit} {number:,}: {problem}")
                continue
            count += 1
            if absent:
                absent.difference_update(row)
                names.update(dict.fromkeys(row))
                if absent and (not ragged or count == _FIRST_ROWS):
                    break
            yield f"{unit} {number:,}", f"{short}{number}", row
    if absent and count:
        missing = next(column for column in (*columns, *may_lack) if column in absent)
        raise missing_column_error(missing, names, path, (arguments or {}).get(missing))


def read_lines(piece: Piece, encoding: str) -> Generator[tuple[int, str | ValueError], None, None]:
    """Reads the lines of a file, gzip or not, or those that start in a part of an uncompressed file.

    Args:
        piece: The file or its part.
        encoding: Any encoding of Python.

    Yields:
        The line number, from 1, or in a part the byte offset of the line; and the line with its end, or an error.

    Raises:
        ValueError: If a line is too long.
    """
    with open_binary(piece.path) as stream:
        if piece == Piece(piece.path):
            yield from stream_lines(stream, encoding)
            return
        start = piece.start
        if start:  # a line that continues here belongs to the previous part
            stream.seek(start - 1)
            start += _skip_line(stream) - 1
        while (piece.stop is None or start < piece.stop) and (line := _read_line(stream)):
            yield start, _decode_line(line, encoding, first=start == 0)
            start += len(line)


def stream_lines(binary: IO[bytes], encoding: str) -> Iterator[tuple[int, str | ValueError]]:
    """Reads the lines of a stream, each as soon as it is available.

    Args:
        binary: The stream.
        encoding: Any encoding of Python.

    Yields:
        The line number, from 1; and the line with its end, or an error.

    Raises:
        ValueError: If a line is too long.
    """
    by_bytes = "\n".encode(encoding) == b"\n"
    stream: IO[Any] = binary if by_bytes else TextIOWrapper(binary, encoding, newline="\n")
    number = 0
    try:
        while line := _read_line(stream):
            number += 1
            yield number, _decode_line(line, encoding, first=number == 1)
    finally:
        if isinstance(stream, TextIOWrapper):
            stream.detach()  # the caller that opened the stream closes it


def line_pieces(path: Path, encoding: str = "utf-8", piece_size: int | None = None) -> list[Piece]:
    """Cuts a large uncompressed file of lines into parts for several processes.

    Args:
        path: The file.
        encoding: Its encoding.
        piece_size: Approximate size of a part in bytes; 64 MiB by default.

    Returns:
        The whole file, or its parts.
    """
    size, piece_size = path.stat().st_size, piece_size or _PIECE
    if is_packed(path) or size <= piece_size or "\n".encode(encoding) != b"\n":
        return [Piece(str(path))]
    # the last part has between half and one and a half times the size
    bounds = [*range(0, size - piece_size // 2, piece_size), size]
    return [Piece(str(path), start, stop) for start, stop in pairwise(bounds)]


def table_pieces(file: Path, form: Format, piece_size: int | None = None) -> list[Piece]:
    """Splits a table into parts for several processes, if possible.

    Args:
        file: The file.
        form: The format of its text.
        piece_size: Approximate size of a part in bytes; 64 MiB by default.

    Returns:
        The whole file, parts split at line breaks, or the row groups of a Parquet file (small groups are merged).
    """
    if data_suffix(file) == ".jsonl":
        return line_pieces(file, form.encoding, piece_size)
    if data_suffix(file) == ".parquet":
        return _split_parquet(file, piece_size)
    return [Piece(str(file))]


def missing_column_error(
    missing: str, columns: Iterable[str], source: object, argument: str | None = None
) -> ValueError:
    """Makes the error for a missing column.

    Args:
        missing: Name of the missing column.
        columns: Existing columns.
        source: The file.
        argument: The argument that names the column, if any.

    Returns:
        The error, to be raised.

    Example:
        >>> print(missing_column_error("label", ["text", "labels"], "notes.csv"))
        notes.csv: no column 'label', only text, labels; did you mean 'labels'?
        >>> print(missing_column_error("text", ["utterance", "intent"], "notes.csv", "text"))
        notes.csv: no column 'text', only utterance, intent; name the column with text="..."
    """
    columns = list(columns)
    near = difflib.get_close_matches(missing, columns, n=1, cutoff=_NEAR)
    hint = f'; name the column with {argument}="..."' if argument else ""
    hint = f"; did you mean {shortened(near[0])}?" if near else hint
    listed = [column if len(column) <= 60 else shortened(column) for column in columns[:20]]
    if len(columns) > len(listed):
        listed.append(f"and {len(columns) - len(listed):,} more")
    return ValueError(f"{source}: no column {shortened(missing)}, only {', '.join(listed)}{hint}")


def parse_csv(
    lines: Iterator[tuple[int, str | ValueError]], delimiter: str = ",", quotes: bool = True
) -> Iterator[tuple[int, object]]:
    """Reads the rows of CSV; the first row contains the column names.

    Args:
        lines: The lines, as `stream_lines` yields them.
        delimiter: Separator of cells.
        quotes: Whether cells in double quotes may contain delimiters and line breaks.

    Yields:
        The number of a row's first line; and the cells by column, or an error.

    Raises:
        ValueError: If two columns have the same name.
    """
    ahead = deque[tuple[int, str | ValueError]]()
    row_lines: list[tuple[int, str | ValueError]] = []  # the lines of a single row
    size = 0

    def feed() -> Iterator[str]:
        nonlocal size
        while item := ahead.popleft() if ahead else next(lines, None):
            row_lines.append(item)
            if isinstance(item[1], ValueError):
                raise item[1]
            size += len(item[1]) + _LINE_BYTES
            if size > MAX_RECORD:
                raise csv.Error(f"a row is longer than {MAX_RECORD:,} characters")
            yield item[1]

    quoting: Any = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
    reader = csv.reader(feed(), delimiter=delimiter, quoting=quoting, strict=True)
    header: list[str] | None = None
    while True:
        row_lines.clear()
        size = 0
        try:
            cells = _read_cells(reader)
        except StopIteration:
            return
        except (csv.Error, ValueError) as error:
            if header is None and isinstance(error, csv.Error):
                raise ValueError(f"the first line, which names the columns, is not CSV: {error}{_QUOTES}") from error
            if header is None or not row_lines or not (isinstance(error, csv.Error) or error is row_lines[-1][1]):
                raise
            # An unclosed quote swallows the following rows: they are read again.
            ahead.extendleft(reversed(row_lines[1:]))
            hint = _QUOTES if isinstance(error, csv.Error) else ""
            yield row_lines[0][0], ValueError(f"{error}{hint}")
            reader = csv.reader(feed(), delimiter=delimiter, quoting=quoting, strict=True)
            continue
        if not cells:
            continue
        if header is None:
            header = cells
            for column, count in Counter(header).items():
                if column and count > 1:
                    raise ValueError(f"two columns are named {shortened(column)}")
        elif len(cells) != len(header):
            counts = f"{len(cells)} cells, but the first line has {len(header)}"
            yield row_lines[0][0], ValueError(f"{counts}; quote cells that contain {delimiter!r} or a line break")
        else:
            yield row_lines[0][0], dict(zip(header, cells, strict=True))


def _read_cells(reader: Iterator[list[str]]) -> list[str]:
    previous_limit = csv.field_size_limit(MAX_CELL)  # a setting of the whole process, which other code may rely on
    try:
        return next(reader)
    finally:
        csv.field_size_limit(previous_limit)


def parse_jsonl(lines: Iterator[tuple[int, str | ValueError]]) -> Iterator[tuple[int, object]]:
    """Reads JSON lines; empty lines are skipped.

    Args:
        lines: The lines, as `stream_lines` yields them.

    Yields:
        The line number; and the parsed line, or an error.
    """
    row: object
    for number, line in lines:
        if isinstance(line, ValueError):
            row = line
        elif not line or line.isspace():
            continue
        else:
            try:
                check_parts(line)
                row = json.loads(line)
            except json.JSONDecodeError as error:
                row = ValueError(f"not JSON: {error.msg}, got {line[error.pos : error.pos + 40].rstrip()!r}")
            except RecursionError:
                row = ValueError("nested too deeply")
            except ValueError as error:
                row = ValueError(f"not JSON: {error}")
        yield number, row


def _read_csv(piece: Piece, form: Format) -> Generator[tuple[int, object], None, None]:
    delimiter = form.delimiter or ("\t" if data_suffix(Path(piece.path)) == ".tsv" else ",")
    with closing(read_lines(piece, form.encoding)) as lines:  # the traceback of an error would keep the file open
        yield from parse_csv(lines, delimiter, form.quotes)


def _read_jsonl(piece: Piece, form: Format) -> Generator[tuple[int, object], None, None]:
    with closing(read_lines(piece, form.encoding)) as lines:
        yield from parse_jsonl(lines)


def _read_json(piece: Piece, form: Format) -> Generator[tuple[int, object], None, None]:
    with open_binary(piece.path) as stream:
        text = JsonText(stream, "utf-8-sig" if form.encoding == "utf-8" else form.encoding)
        if text.next_character() != "[":
            start = text.text[text.at : text.at + 40]
            raise ValueError(
                f"expected a list of objects, got {start!r}; a file with an object per line should be named .jsonl"
            )
        yield from enumerate(json_array(text), 1)
        if trailing := text.next_character():
            raise ValueError(f"expected the end of the file after the list, got {trailing!r}")


def _read_parquet(piece: Piece, columns: list[str] | None) -> Generator[tuple[int, object], None, None]:
    number = 0
    try:
        file = _open_parquet(piece.path)
        if columns is not None and not set(file.schema_arrow.names).issuperset(columns):
            columns = None  # so that the message names all columns
        unpacked, limit = 0, unpacked_limit(piece.path)
        for group, start in enumerate(_find_group_starts(file.metadata)):
            content = file.metadata.row_group(group)
            if not piece.start <= start < (start + 1 if piece.stop is None else piece.stop):
                number += content.num_rows
                continue
            size = _unpacked_group(content, piece.path, limit)
            rows_at_once = max(1, min(_FIRST_ROWS, MAX_RECORD * content.num_rows // max(1, size)))
            for batch in file.iter_batches(rows_at_once, row_groups=[group], columns=columns):
                unpacked += _unpacked_size(batch)
                if unpacked > limit:
                    raise expansion_error(piece.path, _PARQUET_REMEDY)
                for row in _batch_rows(batch):
                    number += 1
                    yield number, row
    except OSError as error:
        if error.errno is not None:  # a failing disk, not a damaged file
            raise
        raise ValueError(f"not a Parquet file, or damaged: {error}") from error


def _split_parquet(path: Path, piece_size: int | None) -> list[Piece]:
    try:
        starts = _find_group_starts(_open_parquet(str(path)).metadata)
    except (ValueError, OSError):  # reported by the reader with instructions
        return [Piece(str(path))]
    bounds = [0]
    for start in starts[1:]:
        if start - bounds[-1] >= (piece_size or _PIECE):
            bounds.append(start)
    return [Piece(str(path), start, stop) for start, stop in pairwise([*bounds, path.stat().st_size])]


def _open_parquet(path: str) -> Any:
    with needs_extra("data", "reading Parquet files"):
        import pyarrow.parquet
    # A text that a million rows share is in memory once.
    schema = pyarrow.parquet.read_metadata(path).schema
    columns = [schema.column(number) for number in range(len(schema))]
    texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
    return pyarrow.parquet.ParquetFile(path, read_dictionary=texts)


def _unpacked_group(group: RowGroupMetaData, path: str, limit: int) -> int:
    """Returns the size in memory that a row group declares; refuses more than `limit`."""
    size = 0
    for number in range(group.num_columns):
        column = group.column(number)
        items = max(0, column.num_values - group.num_rows)  # of lists
        size += max(column.total_uncompressed_size, _ITEM_BYTES * items)
    if size > limit:
        raise expansion_error(path, _PARQUET_REMEDY)
    return size


def _unpacked_size(array: RecordBatch | Array) -> int:
    """Returns the size of a batch or an array in bytes, with each text as often as it occurs."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = getattr(array, "type", None)
    if kind is None or pa.types.is_struct(kind):
        children = array.columns if kind is None else array.flatten()
        return sum(map(_unpacked_size, children))
    if pa.types.is_dictionary(kind):
        lengths = pc.binary_length(array.dictionary).cast(pa.int64())
        return (pc.sum(lengths.take(array.indices)).as_py() or 0) + _ITEM_BYTES * len(array)
    if hasattr(array, "flatten") and pa.types.is_nested(kind):
        return _unpacked_size(array.flatten()) + _ITEM_BYTES * len(array)
    return max(array.nbytes, _ITEM_BYTES * len(array))


def _batch_rows(batch: RecordBatch) -> Iterator[object]:
    """Returns the rows of a batch, one by one if they are long; an error instead of a row that is too long."""
    if _unpacked_size(batch) <= MAX_RECORD:
        yield from batch.to_pylist()
        return
    for start in range(batch.num_rows):
        row = batch.slice(start, 1)
        if _unpacked_size(row) > MAX_RECORD:
            yield ValueError(f"the row is longer than {MAX_RECORD:,} bytes")
        else:
            yield from row.to_pylist()


def _find_group_starts(metadata: Any) -> list[int]:
    # The lowest offset of a column's pages, since a page of distinct values may come first.
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    return [
        min(group.column(0).dictionary_page_offset or 1 << 62, group.column(0).data_page_offset) for group in groups
    ]


_READERS: dict[str, Callable[[Piece, Format], Generator[tuple[int, object], None, None]]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".jsonl": _read_jsonl,
    ".json": _read_json,
}


def _read_line(stream: IO[Any]) -> Any:
    line = stream.readline(_MAX_LINE)
    if len(line) == _MAX_LINE and line[-1:] not in (b"\n", "\n"):
        raise ValueError(f"a line is longer than {_MAX_LINE:,} bytes")
    return line


def _skip_line(stream: IO[bytes]) -> int:
    length = 0
    while line := stream.readline(_MAX_LINE):
        length += len(line)
        if line.endswith(b"\n"):
            break
    return length


def _decode_line(raw: bytes | str, encoding: str, first: bool) -> str | ValueError:
    try:
        line = raw if isinstance(raw, str) else raw.decode(encoding)
    except UnicodeDecodeError as error:
        likely = "utf-16" if first and error.object.startswith(_UTF_16) else "windows-1252"
        return ValueError(
            f"byte {error.start + 1:,} of the line is not {encoding}; if the file is in {likely}, "
            f'pass encoding="{likely}"'
        )
    if first and line[1:2] == "\0" and isinstance(raw, bytes):
        return ValueError('every other byte is NUL, as in UTF-16; if the file is UTF-16, pass encoding="utf-16-le"')
    return line.removeprefix(_BOM) if first else line
