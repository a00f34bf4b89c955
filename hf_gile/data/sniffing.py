"""Sees in a file's first bytes how it is to be read: format, encoding, delimiter, quotes and header.

Readers call `sniff` before anything else. `files.open_binary` decompresses, so that only the content counts: a table of
tabs may be named `.csv`, Turtle may be named `.rdf`, and JSON lines `.json`. What a user requests is never overruled.
"""

import csv
import io
import os
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from .encodings import resolve_encoding, see_encoding, see_unicode
from .files import data_suffix, is_packed, read_head
from .joined_labels import SPELLED
from .kinds import REFUSED, see_binary, see_kind

SAMPLE = 1 << 20
"""Number of bytes, decompressed, from which a format is seen."""

CURLY = "\u201c\u201d\u201e\xab\xbb"
"""Typographic and French quotes, of which the first stands for all."""

_DELIMITERS = (",", ";", "\t", "|", "^", "~", "\x01")
_MAX_ROWS = 200
_ROW_TEXT = 1 << 16  # characters from which kind, delimiter, quotes and header are seen
_MAX_TITLE = 20  # lines before the header
_LONGEST_NAME = 60  # characters; a longer cell is not the name of a column
_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?")
# Lookaheads, since several repetitions of the same signs would take quadratic time.
_RULE = re.compile(  # or the number of rows
    r"(?=[\s|+:=-]+\Z)(?s:.*(?:---|:-|-:).*)|\(\d+ rows?( affected)?\)|only showing top \d+ rows"
)
_DESCRIBED = re.compile(  # a cell below the name of a column, as of Qualtrics, HXL, Orange and ClickHouse
    r'(\{"ImportId".*\}|#\w[\w+]*|string|varchar|object|integer|discrete|continuous|class|meta'
    r"|String|(LowCardinality|Nullable|Array|Enum\d+|FixedString|Map)\(.*\)|U?Int\d+|Float\d+|Date(Time)?(64)?)?",
    re.DOTALL,
)
_FORCED = ("csv", "jsonl", "text")  # kinds that a caller may know


class Layout(TypedDict, total=False):
    """Keyword arguments of readers that overrule what is seen in a file; the fields of `Requested`."""

    delimiter: str | None
    quote: str | None
    encoding: str | None
    columns: Sequence[str]


class Requested(NamedTuple):
    """How a user wants a text file to be read; None for what is to be seen in the file.

    Args:
        delimiter: Delimiter of cells, a single character.
        quote: Sign around cells with delimiters or line breaks; `"none"` if quotes are plain text.
        encoding: Any encoding of Python.
        columns: Names of the columns of a table without a header.
    """

    delimiter: str | None = None
    quote: str | None = None
    encoding: str | None = None
    columns: Sequence[str] = ()

    def check(self) -> "Requested":
        """Returns the request with Python's name of the encoding.

        Raises:
            ValueError: If a value is unusable.
        """
        delimiter = SPELLED.get(self.delimiter or "", self.delimiter)
        if delimiter is not None and (len(delimiter) != 1 or delimiter in "\"'\r\n"):
            raise ValueError(
                f"delimiter must be a single character other than a quote or line break, got {delimiter!r}"
            )
        if self.quote is not None and self.quote != "none" and (len(self.quote) != 1 or self.quote in "\r\n"):
            raise ValueError(f'quote must be a single character, or "none", got {self.quote!r}')
        columns = tuple(name.strip() for joined in self.columns for name in joined.split(","))
        if len(set(columns)) < len(columns) or "" in columns:
            raise ValueError(f"columns must be distinct names, got {', '.join(map(repr, columns))}")
        encoding = None if self.encoding is None else resolve_encoding(self.encoding)
        return Requested(delimiter, self.quote, encoding, columns)


SEEN = Requested()
"""Everything is to be seen in the file."""


class Format(NamedTuple):
    """How a file is read.

    Args:
        kind: `"csv"` (any delimiter), `"jsonl"`, `"json"`, `"parquet"`, `"fasttext"`, `"mesh"` (in XML), `"ascii"` (of
            MeSH), `"medline"`, other `"xml"`, `"turtle"`, `"ntriples"`, `"text"` (anything else), `"empty"`, or a
            key of `REFUSED`.
        encoding: Python's name of the encoding of a text, of which a byte order mark is no part.
        delimiter: Delimiter of cells.
        quote: Sign around cells; None if quotes are plain text.
        escape: Whether a backslash precedes quotes within cells, which are otherwise doubled.
        spaced: Whether a space follows each delimiter.
        columns: Names of the columns of a table without a header: as requested, otherwise "1", "2" and so on.
        skip: Number of lines before the header, such as Excel's `sep=;`.
        note: What was seen that a user would not expect, in a line; empty if nothing was.
    """

    kind: str = "csv"
    encoding: str = "utf-8"
    delimiter: str = ","
    quote: str | None = '"'
    escape: bool = False
    spaced: bool = False
    columns: tuple[str, ...] = ()
    skip: int = 0
    note: str = ""

    def refuse(self, path: object) -> None:
        """Raises a ValueError with what to do instead, if no reader accepts the content."""
        if self.kind in REFUSED:
            raise ValueError(f"{path} {REFUSED[self.kind]}")


def sniff(
    path: str | os.PathLike[str],
    requested: Requested = SEEN,
    names: Collection[str] = (),
    kind: str = "",
) -> Format:
    """Sees how a file is to be read, and refuses it if no reader can.

    Args:
        path: The file, compressed or not.
        requested: What the user requests.
        names: Names of columns that are read: a first row with such a name is a header, and a text whose first line has
            all of them a table.
        kind: The kind, if it is known; `"table"` if any text is a table, or `"lines"` if all but CSV and JSON lines is
            text. By default content and suffix determine it.

    Raises:
        OSError: If the file does not exist, or cannot be read.
        ValueError: If no reader accepts such content, or it is an archive of several files.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"no file at {path} (in {Path.cwd()})")
    with Path(path).open("rb") as raw:
        if kind not in _FORCED and (binary := see_binary(raw.read(1 << 12))):
            Format(binary).refuse(path)  # a workbook is a zip archive
    form = sniff_bytes(read_head(path, SAMPLE), data_suffix(Path(path)), requested, names, kind)
    if form.kind == "parquet" and is_packed(path):
        form = Format("packed")
    form.refuse(path)
    return form


def sniff_bytes(
    head: bytes,
    suffix: str = "",
    requested: Requested = SEEN,
    names: Collection[str] = (),
    kind: str = "",
) -> Format:
    r"""Sees how the first `SAMPLE` bytes of a file, decompressed, are to be read; see `sniff`.

    Example:
        >>> sniff_bytes("3,Über Mäuse\n4,On rats\n".encode("cp1252"), ".csv")[1:7]
        ('cp1252', ',', '"', False, False, ('1', '2'))
    """
    if not head:
        return Format("empty")
    if binary := see_binary(head):
        return Format(binary)
    encoding = requested.encoding or see_unicode(head)
    if encoding is None and b"\0\0\0" in head[:4096]:
        return Format("other")
    seen = kind
    if kind not in _FORCED:
        seen = see_kind(_decode(head, encoding or "utf-8").lstrip(), suffix)
    if suffix == ".parquet" and seen not in REFUSED:
        return Format("parquet")
    may_be_table = seen == "text" and kind != "text"
    if kind == "lines" and seen not in ("csv", "jsonl", *REFUSED):
        seen = "text"
    note = ""
    if encoding is None:
        is_text = seen in ("csv", "text", "fasttext", "ascii")
        encoding, example = see_encoding(head) if is_text else ("utf-8", "")
        note = f"encoding {encoding}, as in {example!r}" if encoding != "utf-8" else ""
    text = _decode(head, encoding)
    if may_be_table and (kind == "table" or _is_table(text, requested, names)):
        seen = "csv"
    if seen == "csv":
        is_cut = len(head) >= SAMPLE or len(text) == _ROW_TEXT
        usual = "\t" if suffix in (".tsv", ".tab") else ","
        return _see_cells(Format(seen, encoding, note=note), text, is_cut, usual, requested, names)
    return Format(seen, encoding, note=note)


def _decode(head: bytes, encoding: str) -> str:
    return head[: 4 * _ROW_TEXT].decode(encoding, "replace").lstrip("\ufeff")[:_ROW_TEXT]


def _is_table(text: str, requested: Requested, names: Collection[str]) -> bool:
    """Checks whether the user names the columns of a text, or its first line has all names."""
    cells = [cell.strip(" \r\n\"'\ufeff") for cell in re.split("[,;|\t]", text.partition("\n")[0])]
    return bool(names) and (bool(requested.columns) or (len(cells) > 1 and set(names) <= set(cells)))


def csv_reader(lines: Iterable[str], form: Format) -> Any:
    """Returns a strict reader of the cells of lines."""
    quote = form.quote
    if quote and quote in CURLY:
        quote = '"'
        around = re.compile("^[{1}]|(?<={0})[{1}]|[{1}](?=\\s*$|{0})".format(re.escape(form.delimiter), CURLY))
        lines = (around.sub('"', line) for line in lines)
    return csv.reader(
        lines,
        delimiter=form.delimiter,
        quotechar=quote,
        quoting=csv.QUOTE_NONE if form.quote is None else csv.QUOTE_MINIMAL,
        escapechar="\\" if form.escape else None,
        doublequote=not form.escape,
        skipinitialspace=form.spaced,
        strict=True,
    )


def is_rule(cells: Sequence[str]) -> bool:
    """Checks whether a row is a line below names of columns, as Markdown and databases write it."""
    return _RULE.fullmatch("|".join(cells)) is not None


def _see_cells(
    form: Format, text: str, is_cut: bool, usual: str, requested: Requested, names: Collection[str]
) -> Format:
    """Sees delimiter, quotes and header of a text of CSV; `usual` is the delimiter that its name lets expect."""
    notes = [form.note]
    skip = 0
    text = text if "\n" in text else text.replace("\r", "\n")  # of old Macs
    delimiters = [usual, *(sign for sign in _DELIMITERS if sign != usual)]
    if sep := re.match(r"sep=(.)\r?\n", text, re.IGNORECASE):  # of Excel
        text = text[sep.end() :]
        skip = 1
        delimiters = [sep[1]]
    if re.match(r'("[^"\n]*" )+"[^"\n]*"\r?\n', text):  # of write.table in R
        delimiters = [" "]
    if requested.delimiter is not None:
        delimiters = [requested.delimiter]
    if not requested.columns and (title := _title_lines(text, names)):
        text = text.split("\n", title)[-1]
        skip += title
        notes.append(f"names of columns in line {skip + 1}")
    candidates = [quoting for sign in delimiters for quoting in _quotings(sign, requested.quote, text)]
    parsed = [_parse(text, is_cut, candidate) for candidate in candidates]
    # Each row of a table with tabs may have a single comma, but hardly the reverse.
    seen, rows, _ = max(parsed, key=lambda read: (read[2], read[2] > 0 and read[0].delimiter in "\t\x01"))
    if seen.delimiter != usual and requested.delimiter is None:
        notes.append(f"delimiter {seen.delimiter!r}")
    if (seen.quote != '"' or seen.escape) and requested.quote is None:
        notes.append("quotes with a backslash" if seen.escape else f"quote {seen.quote or 'none'!r}")
    columns = tuple(requested.columns)
    if not columns and _has_row_names(rows):
        columns = ("row", *(cell.strip() for cell in rows[0]))
        skip += 1
        notes.append("the first column, named row, has no name")
    elif not columns and (header := _long_header(rows, names)):
        columns = header.pop()
        skip += len(header) + sum("".join(row).count("\n") for row in header)
        notes.append(f"the header has {len(header)} rows")
    elif not columns and rows and _lacks_header(rows, names):
        columns = tuple(str(number + 1) for number in range(len(rows[0])))
        notes.append(f"no header, so columns are named 1 to {len(columns)}")
    note = "; ".join(filter(None, notes))
    return seen._replace(encoding=form.encoding, skip=skip, columns=columns, note=note)


def _title_lines(text: str, names: Collection[str]) -> int:
    """Returns the number of lines before the names of columns, which have fewer cells, such as titles and comments."""
    wanted = {name for name in names if not name.isdecimal()}
    widest = 0
    for number, line in enumerate(text.split("\n", _MAX_TITLE)[:_MAX_TITLE]):
        cells = [cell.strip(f" \r\"'{CURLY}") for cell in re.split(r"[,;\t|]", line)]
        width = sum(map(bool, cells))
        has_all = len(wanted) > 1 and wanted.issubset(cells)
        if has_all or (width > max(1, widest) and not wanted.isdisjoint(cells)):
            return number
        if not line.startswith("#"):
            widest = max(width, widest)
    return 0


def _quotings(sign: str, requested: str | None, text: str) -> list[Format]:
    """Returns formats with the delimiter and the quotes that the text may have, in order of preference."""
    form = Format("csv", delimiter=sign)
    if requested is not None:
        return [form._replace(quote=None if requested == "none" else requested)]
    cut = re.escape(sign)
    patterns = (
        (r'\\"', form._replace(escape=True)),
        (rf'{cut} +"', form._replace(spaced=True)),
        (rf"(?:^|{cut})'[^\n]*'\r?(?:$|{cut})", form._replace(quote="'")),
        (rf"(?:^|{cut})[{CURLY}][^\n]*[{CURLY}]\r?(?:$|{cut})", form._replace(quote=CURLY[0])),
    )
    possible = [other for pattern, other in patterns if re.search(pattern, text, re.MULTILINE)]
    if sign == "\t":  # elsewhere, a lone quote is more likely a mistake
        possible.append(form._replace(quote=None))
    return [form, *possible]


def _parse(text: str, is_cut: bool, form: Format) -> tuple[Format, list[list[str]], float]:
    """Returns the format, the first rows, and how well they are read: the share of rows as wide as the first."""
    rows: list[list[str]] = []
    errors = 0
    try:
        for row in csv_reader(io.StringIO(text, newline=""), form):
            if row and not is_rule(row):
                rows.append(row)
            if len(rows) > _MAX_ROWS:
                break
        if is_cut and len(rows) > 1:
            rows.pop()
    except csv.Error as error:
        errors = 0 if is_cut and "unexpected end" in str(error) else 1
    if not rows:
        return form, rows, 0.0
    width = len(rows[0]) + _has_row_names(rows)
    share = sum(len(row) == width for row in rows) / (len(rows) + errors)
    # A single column is no evidence of a delimiter, and cells in quotes are of quotes.
    signs = (' "',) if form.quote == "'" else ("'", ' "')
    unread = sum(len(cell) > 1 and cell.startswith(signs) and cell[-1] in "'\"" for row in rows for cell in row)
    share -= 0.5 * unread / sum(map(len, rows))
    return form, rows, share if width > 1 else 0.0


def _has_row_names(rows: Sequence[list[str]]) -> bool:
    """Checks whether each row starts with another word, and the first has no name for it, as R writes tables."""
    header, *others = rows or [[]]
    if len(header) < 2 or len(others) < 2 or any(len(row) != len(header) + 1 for row in others):
        return False
    names = {row[0] for row in others if " " not in row[0] and row[1][:1] != " "}
    return len(names) == len(others) and any(row[-1] for row in others)


def _long_header(rows: Sequence[list[str]], names: Collection[str]) -> list[Any]:
    """Returns the rows of a header, and the names in them; nothing if the header is a row.

    There may be a category above each option, or a type, a tag or a question below each name.
    """
    above, below = ([cell.strip() for cell in row] for row in (*rows[:2], [], [])[:2])
    are_described = [any(row) and all(map(_DESCRIBED.fullmatch, row)) for row in rows[:3]]
    if len(above) > 1 and any(are_described[1:]):
        return [*rows[: 2 + any(are_described[2:])], tuple(above)]
    named = ["" if option in ("Response", "Open-Ended Response") else option for option in below]
    merged = tuple(option or category for category, option in zip(above, named, strict=False))
    wanted = {name for name in names if above.count(name) == 1}
    is_whole = "" not in merged and len(above) == len(below) == len(set(merged))
    are_two = named != below or (len(set(above)) < len(above) and wanted.issubset(merged))
    return [*rows[:2], merged] if wanted and is_whole and are_two else []


def _lacks_header(rows: Sequence[list[str]], names: Collection[str]) -> bool:
    """Checks whether the first row is a document: its cells are numbers, long, or occur in the rows below."""
    first = [cell.strip() for cell in rows[0]]
    if len(rows) < 2 or len(first) < 2 or first == [str(number) for number in range(len(first))]:  # as of pandas
        return False
    # A number names a column of a file without a header, and may be a cell.
    if not {name for name in names if not name.isdecimal()}.isdisjoint(first):
        return False
    if any(_NUMBER.fullmatch(cell) or len(cell) > _LONGEST_NAME or "://" in cell for cell in first):
        return True
    below = [{row[column].strip() for row in rows[1:] if len(row) > column} for column in range(len(first))]
    return any(cell and cell in others for cell, others in zip(first, below, strict=True))
