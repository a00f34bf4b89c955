"""Reads the rows of tables - CSV with any delimiter, JSON lines, JSON and Parquet - and the lines of text files.

All are read in constant memory; large JSON lines and Parquet files are split into parts for several processes.
`sniffing` sees the format of a file.
"""

import csv
import difflib
import re
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from io import BytesIO, TextIOWrapper
from itertools import pairwise
from pathlib import Path
from reprlib import repr as shortened
from typing import IO, Any

from .files import MAX_RECORD, is_packed, open_binary
from .json_text import parse_line, read_records
from .kinds import VOCABULARIES
from .loading import Piece
from .parquet_files import read_parquet, split_parquet
from .report import ReadReport
from .schema import Row, clean_label
from .sniffing import CURLY, Format, csv_reader, is_rule

SUFFIXES = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".json", ".parquet", ".xlsx", ".xls", ".ods")
"""Suffixes of table files, compressed or not. Spreadsheets are refused with what to do."""

_BY_LINE = ("jsonl", "text", "fasttext")  # kinds whose rows are lines
_PIECE = 1 << 26
_LINE_BYTES = 150  # of Python, for each line that waits for the end of its row
_FIRST_ROWS = 1000
_OBJECTS = Format("json")
_OBJECT = '{"text": "On mice.", "labels": ["mice"]}, or a label as {"id": "D3", "name": "mice"}'
_NEAR = 0.75  # similarity of a column that is suggested: "txt" for "text", but not "intent"
_WORDS = 2  # of most names of columns
_LABEL = re.compile(r"(?<!\S)__label__(\S*)(?:\s+,(?=\s))?")  # of fastText, also with a comma before the text
_QUOTES = tuple("`\u201c\u201e\u201d\u00ab\u2018\u300c")
_LONGEST_TOTAL = 80  # characters
_TOTAL = re.compile(
    r"\s*((grand|sub)[ -]?)?"
    r"(total[es]*( (rows|records|count))?|sum|summe|gesamt(summe|ergebnis)?|somme|suma|totaal|итого|всего|合计|总计)"
    r"\s?:?[\s\d.,%+-]*\t[\s\d.,%+-]*"
    r"|((source|quelle|fuente|fonte|bron)s?:|(exported|generated|created|printed) (on|by|at|from) |©|\* )"
    r"[^\t]*\t\s*",
    re.IGNORECASE,
)
_SUMMARY = re.compile(  # the names of columns of a second table, such as label and count
    r"\t*(class|label|tag|topic|category|subject|intent|code|name|kategorie|schlagwort|thema"
    r"|cat\xe9gorie|categor\xeda)s?\t([^\t]*\t)?(counts?|number|n|freq(uency)?|total|percent(age)?"
    r"|share|%|description|definition|meaning|anzahl|h\xe4ufigkeit|beschreibung|nombre"
    r"|fr\xe9quence|frecuencia)\t*",
    re.IGNORECASE,
)

Lines = Iterator[tuple[int, str | ValueError]]
"""Lines with their numbers; or an error for a line that cannot be decoded."""

Rows = Generator[tuple[int, object], None, None]
"""Rows with their numbers; anything but a mapping is malformed, such as an error."""


def read_rows(
    source: Piece | IO[bytes],
    report: ReadReport,
    form: Format,
    columns: Mapping[str, str] | None = None,
    may_lack: Mapping[str, str] | None = None,
) -> Iterator[tuple[str, str, Row]]:
    """Reads the rows of a table, in constant memory. The only column of a text is `"text"`.

    Args:
        source: A file, a part of a `.jsonl` or Parquet file, or a stream.
        report: Counts the file, and decides whether malformed rows raise errors.
        form: The format, from `sniff`.
        columns: Required columns, each with the argument that names it, for messages; each must occur in a row of the
            piece. Rows of Parquet files have no others, unless none is required.
        may_lack: Such columns that rows of JSON may lack.

    Yields:
        The location of the row, for messages; its number, for ids; and the row.

    Raises:
        ValueError: If a column is missing. Unless the report skips errors: if a row or the file is malformed.
    """
    piece = source if isinstance(source, Piece) else Piece("standard input")
    path = piece.path
    report.files += piece.start == 0
    if form.kind == "empty":
        report.problem("damaged file", f"{path}: empty file")
        return
    if form.kind in VOCABULARIES:
        raise ValueError(f"{path}: expected a table, got {form.kind}: {VOCABULARIES[form.kind]}")
    is_part = form.kind in _BY_LINE and piece != Piece(path)
    unit = {"json": "record", "parquet": "row"}.get(form.kind, "line" + " at byte" * is_part)
    short = "byte " * is_part
    is_ragged = form.kind in ("json", "jsonl")
    first_rows = _FIRST_ROWS if is_ragged else 1
    arguments = {**(columns or {}), **(may_lack or {})}
    absent = set(arguments)
    optional = set(may_lack or ()) if is_ragged else set()
    names: dict[str, None] = {}
    nested: dict[str, str] = {}
    count = 0
    with closing(_open_rows(source, form, [*arguments])) as rows:
        for number, row in report.until_damage(rows, path):
            if not isinstance(row, dict):
                if not isinstance(row, ValueError):
                    row = f"expected an object, got {shortened(row)}; write {_OBJECT}"
                report.problem("malformed row", f"{path}: {unit} {number:,}: {row}")
                continue
            count += 1
            if absent:
                absent.difference_update(row)
                names.update(dict.fromkeys(row))
                nested.update({inner: name for name, cell in row.items() if isinstance(cell, dict) for inner in cell})
                if absent - optional and count == first_rows:
                    break
            yield f"{path}: {unit} {number:,}", f"{short}{number}", row
    absent -= optional - nested.keys()
    if absent and count:
        missing = next(column for column in arguments if column in absent)
        problem = describe_missing_column(missing, names, arguments[missing], form)
        if missing in nested:
            problem += f"; {nested[missing]!r} has it: flatten objects, as pandas.json_normalize does"
        raise ValueError(f"{path}: {problem}")


def _open_rows(source: Piece | IO[bytes], form: Format, columns: list[str]) -> Rows:
    if isinstance(source, Piece) and form.kind == "parquet":
        yield from read_parquet(source, columns)
        return
    if isinstance(source, Piece) and form.kind == "json":
        with open_binary(source.path) as stream:
            yield from enumerate(read_records(stream, form.encoding), 1)
        return
    read: Any = read_lines if isinstance(source, Piece) else stream_lines
    with closing(read(source, form.encoding)) as lines:
        yield from (parse_csv if form.kind == "csv" else _parse_lines)(lines, form)


def read_lines(piece: Piece, encoding: str) -> Generator[tuple[int, str | ValueError], None, None]:
    """Yields the lines of a file with their numbers, or of a part of an uncompressed file with their byte offsets.

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
            start += len(stream.readline(MAX_RECORD)) - 1
        yield from _decoded(stream, encoding, start, piece.stop)


def stream_lines(binary: IO[bytes], encoding: str) -> Generator[tuple[int, str | ValueError], None, None]:
    """Reads the lines of a stream, each as soon as it is available; see `read_lines`."""
    if _has_lines_of_bytes(encoding):
        yield from _decoded(binary, encoding)
        return
    stream = TextIOWrapper(binary, encoding, newline="\n")
    try:
        yield from _decoded(stream, encoding)
    finally:
        stream.detach()  # the caller that opened the stream closes it


def _has_lines_of_bytes(encoding: str) -> bool:
    """Checks whether each line can be found and decoded alone."""
    return "\n".encode(encoding) == b"\n" and encoding != "iso2022_kr"  # which starts with an escape


def _decoded(
    stream: IO[Any], encoding: str, start: int | None = None, stop: int | None = None
) -> Generator[tuple[int, str | ValueError], None, None]:
    """Yields lines, by their numbers or, from a byte `start` on, by the offsets of their first bytes."""
    is_text = isinstance(stream, TextIOWrapper)
    position = 1 if start is None else start
    is_first = not start
    line = stream.readline(MAX_RECORD)
    if is_first and not is_text and len(line) < MAX_RECORD and b"\r" in line and not line.endswith(b"\n"):
        stream = BytesIO(line.replace(b"\r", b"\n"))  # of old Macs, whose file is a single line
        stop = None
        line = stream.readline()
    while line:
        if stop is not None and position >= stop:
            return
        if len(line) == MAX_RECORD and line[-1:] not in (b"\n", "\n"):
            raise ValueError(f"a line is longer than {MAX_RECORD:,} bytes")
        try:
            text = line if is_text else line.decode(encoding)
        except UnicodeDecodeError as error:
            yield position, _encoding_error(error, encoding)
        else:
            yield position, text.lstrip("\ufeff") if is_first else text
        is_first = False
        position += 1 if start is None else len(line)
        line = stream.readline(MAX_RECORD)


def _encoding_error(error: UnicodeDecodeError, encoding: str) -> ValueError:
    remedy = 'if the file is in windows-1252, pass encoding="windows-1252"'
    if encoding != "utf-8":
        remedy = 'pass the encoding of the file, such as encoding="utf-8"'
    return ValueError(f"byte {error.start + 1:,} of the line is not {encoding}; {remedy}")


def file_pieces(file: Path, form: Format, piece_size: int | None = None) -> list[Piece]:
    """Splits a file into parts of about 64 MiB for several processes, if possible.

    Uncompressed text and JSON lines are split at line breaks, Parquet files at row groups (small groups are merged).
    """
    size, piece_size = file.stat().st_size, piece_size or _PIECE
    if form.kind == "parquet":
        return split_parquet(file, piece_size)
    can_split = form.kind in _BY_LINE and _has_lines_of_bytes(form.encoding)
    if not can_split or size <= piece_size or is_packed(file):
        return [Piece(str(file))]
    # the last part has between half and one and a half times the size
    bounds = [*range(0, size - piece_size // 2, piece_size), size]
    return [Piece(str(file), start, stop) for start, stop in pairwise(bounds)]


def describe_missing_column(
    missing: str,
    columns: Iterable[str],
    argument: str | None = None,
    form: Format = _OBJECTS,
) -> str:
    """Says that a column is missing among existing columns, and what to do.

    An `argument` may name it; `form` is the format of the file, if it is a table.

    Example:
        >>> print(describe_missing_column("label", ["text", "labels"]))
        no column 'label', only text, labels; did you mean 'labels'?
        >>> print(describe_missing_column("text", ["utterance", "intent"], "text"))
        no column 'text', only utterance, intent; name the column with text="..."
    """
    columns = list(columns)
    is_csv = form.kind == "csv"
    by_case = {column.casefold(): column for column in columns}
    near = [by_case[name] for name in difflib.get_close_matches(missing.casefold(), by_case, n=3, cutoff=_NEAR)]
    hint = ""
    if near:
        hint = f"; did you mean {', '.join(map(shortened, sorted(near)))}?"
    elif argument:
        hint = f'; name the column with {argument}="..."'
    if form.columns[:1] == ("1",) and argument:
        hint = f'; the file has no header: name all its columns with --columns, or pass {argument}="1" and so on'
    elif is_csv and argument and any(len(column.split()) > _WORDS for column in columns):
        hint += "; if the first line is no header, name all columns with --columns"
    if is_csv and len(columns) == 1:
        hint += f"; if cells are separated by another sign than {form.delimiter!r}, pass --delimiter"
    listed = [column if len(column) <= 60 else shortened(column) for column in columns[:20]]
    if len(columns) > len(listed):
        listed.append(f"and {len(columns) - len(listed):,} more")
    return f"no column {shortened(missing)}, only {', '.join(listed)}{hint}"


def parse_csv(lines: Lines, form: Format) -> Rows:
    """Yields the cells by column of CSV, or an error, with the number of a row's first line.

    Raises:
        ValueError: If the format lacks the names of the columns, and the first row, which has them, is malformed.
    """
    for _ in range(form.skip):
        next(lines, None)
    rows = _csv_rows(lines, form)
    header = list(form.columns)
    if not header:
        _, cells = next(rows, (0, []))
        if isinstance(cells, ValueError):
            raise ValueError(f"the first line, which names the columns, is not CSV: {cells}")
        header = [clean_label(cell).strip(CURLY) for cell in cells]
    names = list(_distinct(header))
    width = len(header)
    for number, cells in _marked(rows, header):
        if isinstance(cells, ValueError):
            yield number, cells
        elif cells == header:
            yield number, ValueError("the row repeats the names of the columns")
        elif not any([*cells[width:], *header[len(cells) :]]):
            if width == 1 or any(cells):  # spreadsheets write empty rows below a table
                yield number, dict(zip(names, cells, strict=False))
        elif cells != ["\x1a"]:  # the end of files of CP/M and DOS
            counts = f"{len(cells)} cells, but the first line has {width}"
            remedy = f"quote cells that contain {form.delimiter!r} or a line break"
            if width == 1:
                remedy += ", or pass --delimiter if another sign separates cells"
            elif quotes := [cell[0] for cell in cells if cell.startswith(_QUOTES)]:
                remedy += f', or replace {quotes[0]} by ", or pass --quote {quotes[0]!r} if this also ends cells'
            yield number, ValueError(f"{counts}; {remedy}")


def _distinct(header: Sequence[str]) -> Iterator[str]:
    """Yields the names of columns, with numbers where several share a name, so that none is read for another."""
    counts = Counter(header)
    numbers = Counter[str]()
    for column in header:
        numbers[column] += 1
        yield f"{column}.{numbers[column]}" if column and counts[column] > 1 else column


def _marked(rows: Iterator[tuple[int, Any]], header: Sequence[str]) -> Iterator[tuple[int, Any]]:
    """Yields rows; errors instead of a second table, and instead of a last row with totals or a source."""
    is_below = False
    for number, cells in rows:
        following = None
        line = ""
        if isinstance(cells, list) and len(cells[0]) <= _LONGEST_TOTAL:
            line = "\t".join(cells)
        if is_below or (cells != header and _SUMMARY.fullmatch(line)):
            is_below = True
            cells = ValueError("the row is of a second table, which starts here or above")
        elif _TOTAL.fullmatch(line):
            following = next((row for row in rows if isinstance(row[1], ValueError) or any(row[1])), None)
            if following is None:
                cells = ValueError("the last row has totals or a source, and is no document or label")
        yield number, cells
        if following is not None:
            yield following


def _csv_rows(lines: Lines, form: Format) -> Iterator[tuple[int, list[str] | ValueError]]:
    """Yields the cells of rows that are not empty, with the number of their first line; or an error."""
    ahead: deque[tuple[int, str | ValueError]] = deque()
    row_lines: list[tuple[int, str | ValueError]] = []
    # Of MySQL, whose backslash is no escape.
    null = re.compile(r"(^|{0})\\N(?=\s*$|{0})".format(re.escape(form.delimiter)))

    def feed() -> Iterator[str]:
        size = 0
        while item := ahead.popleft() if ahead else next(lines, None):
            row_lines.append(item)
            line = item[1]
            if isinstance(line, ValueError):
                raise csv.Error
            size += len(line) + _LINE_BYTES
            if len(row_lines) == 1:
                size = 0
            if size > MAX_RECORD:
                raise csv.Error(f"a row is longer than {MAX_RECORD:,} characters")
            yield null.sub(r"\1", line) if form.escape else line

    reader = csv_reader(feed(), form)
    while True:
        row_lines.clear()
        usual_limit = csv.field_size_limit(MAX_RECORD)  # of the process
        try:
            cells: Any = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            cells = row_lines[-1][1]
            if not isinstance(cells, ValueError):
                cells = ValueError(
                    f'{error} (is a quote not closed, or not doubled in a cell? quote="none" reads quotes as text)'
                )
            # An unclosed quote swallows the following rows: they are read again.
            ahead.extendleft(reversed(row_lines[1:]))
            reader = csv_reader(feed(), form)
        finally:
            csv.field_size_limit(usual_limit)
        if isinstance(cells, ValueError) or (cells and not is_rule(cells)):
            yield row_lines[0][0], cells


def _parse_lines(lines: Lines, form: Format) -> Rows:
    """Yields a row for each line, except for empty lines in formats where they are no documents."""
    parse = {"jsonl": parse_line, "fasttext": _parse_fasttext}.get(form.kind)
    for number, line in lines:
        if isinstance(line, ValueError):
            yield number, line
        elif parse is None:
            yield number, {"text": line.rstrip("\r\n")}
        elif not line.isspace():
            yield number, parse(line)


def _parse_fasttext(line: str) -> object:
    text = " ".join(_LABEL.sub(" ", line).split())
    return {"text": text, "labels": _LABEL.findall(line)}
