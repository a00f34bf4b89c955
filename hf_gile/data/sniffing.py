"""Sees in a file's first bytes how it is to be read: format, encoding, delimiter, quotes and header.

Readers call `sniff` before anything else. `files.open_binary` decompresses, so that only the content counts: a table of
tabs may be named `.csv`, Turtle may be named `.rdf`, and JSON lines `.json`. What a user requests is never overruled.
"""

from __future__ import annotations

import codecs
import csv
import io
import lzma
import os
import re
import zlib
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from .files import data_suffix, open_binary
from .json_text import is_json_object

SAMPLE = 1 << 20
"""Number of bytes, decompressed, from which a format is seen."""

DELIMITERS = (",", ";", "\t", "|")
_MAX_ROWS = 200
_ROW_TEXT = 1 << 16  # characters from which delimiter, quotes and header are seen
_NULS = 0.3  # share of NUL bytes from which a text without a byte order mark is UTF-16
_LONGEST_NAME = 60  # characters; a longer cell is not the name of a column
_CSV_SUFFIXES = (".csv", ".tsv", ".tab")
_BOMS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_SEP_LINE = re.compile(r"\ufeff?sep=(.)\r?\n", re.IGNORECASE)
_TAG = re.compile(r"<[\w.-]+(:[\w.-]+)?(\s+[\w:.-]+\s*=|\s*/?>)")
_TRIPLE = re.compile(r"(<[^<>\s]*>|_:\w+)\s+(<[^<>\s]*>|a\s|\w*:\w+)")
_TURTLE = re.compile(r"(@prefix|@base|prefix\s+[\w.-]*:|base\s*<)", re.IGNORECASE)
_ONTOLOGY = re.compile(r"format-version:\s*1|Prefix\(|Ontology\(|(Prefix:\s*[\w.-]*:\s*<|Ontology:\s*<)")
_LEGACY = ["cp1251", "cp1252", "cp1253", "cp1255", "cp1256", "koi8_r"]
_LEGACY += ["shift_jis", "euc_jp", "gb18030", "big5", "euc_kr"]
_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?")

REFUSED = {
    "html": "is a web page (HTML), not data: download the file itself",
    "lfs": "is a pointer of Git LFS, not the data: run `git lfs pull`, or download the file itself",
    "ontology": "is an ontology in OBO, Manchester or functional syntax: convert it to RDF, for example with ROBOT "
    "(robot convert --input terms.obo --output terms.owl)",
    "xlsx": 'is an Excel workbook: in Excel, save it as "CSV UTF-8", or in Python as '
    'pandas.read_excel(...).to_csv("table.csv")',
}
"""Kinds of content that no reader accepts, and what to do."""


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

    def check(self) -> Requested:
        """Returns the request with Python's name of the encoding.

        Raises:
            ValueError: If a value is unusable.
        """
        delimiter = {"tab": "\t", "\\t": "\t"}.get(self.delimiter or "", self.delimiter)
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
        kind: `"csv"` (any delimiter), `"jsonl"`, `"json"`, `"parquet"`, `"xml"`, `"turtle"`, `"ntriples"`, `"text"`
            (anything else), `"empty"`, or a key of `REFUSED`.
        encoding: Python's name of the encoding of a text, of which a byte order mark is no part.
        delimiter: Delimiter of cells.
        quote: Sign around cells; None if quotes are plain text.
        escape: Whether a backslash precedes quotes within cells, which are otherwise doubled.
        columns: Names of the columns of a table without a header: as requested, otherwise "1", "2" and so on.
        skip: Number of lines before the header, such as Excel's `sep=;`.
        note: What was seen that a user would not expect, in a line; empty if nothing was.
    """

    kind: str = "csv"
    encoding: str = "utf-8"
    delimiter: str = ","
    quote: str | None = '"'
    escape: bool = False
    columns: tuple[str, ...] = ()
    skip: int = 0
    note: str = ""

    def refuse(self, path: object) -> None:
        """Raises an error if no reader accepts such content.

        Raises:
            ValueError: With what to do instead.
        """
        if self.kind in REFUSED:
            raise ValueError(f"{path} {REFUSED[self.kind]}")


def sniff(
    path: str | os.PathLike[str], requested: Requested = SEEN, names: Collection[str] = (), kind: str = ""
) -> Format:
    """Sees how a file is to be read.

    Args:
        path: The file, compressed or not.
        requested: What the user requests.
        names: Names of columns that are read: a first row with such a name is a header.
        kind: The kind, if it is known; by default content and suffix determine it.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If it is compressed and damaged in its first bytes, or an archive of several files.
    """
    if not kind and is_workbook(path):
        return Format("xlsx")
    try:
        with open_binary(path) as stream:
            head = stream.read(SAMPLE)
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # a failing disk, not a damaged file
            raise
        head = b" "  # the reader reports the damage
    return sniff_bytes(head, data_suffix(Path(path)), requested, names, kind)


def sniff_bytes(
    head: bytes,
    suffix: str = "",
    requested: Requested = SEEN,
    names: Collection[str] = (),
    kind: str = "",
) -> Format:
    r"""Sees how bytes are to be read; see `sniff`.

    Args:
        head: First bytes, decompressed: `SAMPLE` bytes or, if fewer, all.
        suffix: Suffix of the file, in lower case and without that of a compression.
        requested: What the user requests.
        names: Names of columns that are read.
        kind: The kind, if it is known.

    Example:
        >>> sniff_bytes(b"text;tags\nOn mice;a, b\n", ".csv").delimiter
        ';'
        >>> sniff_bytes(b'{"text": "On mice."}\n{"text": "On rats."}\n', ".json").kind
        'jsonl'
        >>> sniff_bytes("3,Über Mäuse\n4,On rats\n".encode("cp1252"), ".csv")[1:6]
        ('cp1252', ',', '"', False, ('1', '2'))
    """
    if not head:
        return Format("empty")
    if head.startswith(b"PAR1") or suffix == ".parquet":
        return Format("parquet")
    bom_or_nuls = requested.encoding or _unicode(head)
    encoding = bom_or_nuls or "utf-8"
    kind = kind or _see_kind(head[:_ROW_TEXT].decode(encoding, "replace").removeprefix("\ufeff").lstrip(), suffix)
    notes = []
    if kind in ("csv", "text") and bom_or_nuls is None:
        encoding = _legacy_encoding(head)
        if encoding != "utf-8":
            notes.append(f"encoding {encoding}")
    if kind != "csv":
        return Format(kind, encoding, note="; ".join(notes))
    text = head.decode(encoding, "replace").removeprefix("\ufeff")[:_ROW_TEXT]
    return _see_cells(text, len(head) >= SAMPLE or len(text) == _ROW_TEXT, encoding, suffix, requested, names, notes)


def resolve_encoding(encoding: str) -> str:
    """Returns Python's name of an encoding, `"utf-8"` with a byte order mark or without.

    Args:
        encoding: Any name of the encoding.

    Raises:
        ValueError: If Python does not support it.

    Example:
        >>> resolve_encoding("windows-1252")
        'cp1252'
    """
    try:
        name = codecs.lookup(encoding).name
        "a".encode(name)
    except (LookupError, TypeError, UnicodeError):
        raise ValueError(f'encoding must be known to Python, such as "windows-1252", got {encoding!r}') from None
    return "utf-8" if name == "utf-8-sig" else name


def csv_reader(lines: Iterable[str], delimiter: str, quote: str | None, escape: bool) -> Any:
    """Returns a strict reader of the cells of lines; the arguments are fields of `Format`."""
    escaping: dict[str, Any] = {"escapechar": "\\", "doublequote": False} if escape else {}
    quoting: Any = csv.QUOTE_NONE if quote is None else csv.QUOTE_MINIMAL
    return csv.reader(lines, delimiter=delimiter, quotechar=quote, quoting=quoting, strict=True, **escaping)


def is_workbook(path: str | os.PathLike[str]) -> bool:
    """Checks whether a file is a spreadsheet of Excel or LibreOffice."""
    with Path(path).open("rb") as stream:
        head = stream.read(1 << 12)
    if head.startswith(b"\xd0\xcf\x11\xe0"):  # Excel until 2003
        return True
    return head.startswith(b"PK\x03\x04") and any(
        sign in head for sign in (b"[Content_Types].xml", b"mimetypeapplication/vnd.oasis", b"xl/workbook.xml")
    )


def _unicode(head: bytes) -> str | None:
    """Returns the encoding of a byte order mark, or UTF-16 if every other byte is NUL."""
    for bom, encoding in _BOMS.items():
        if head.startswith(bom):
            return encoding
    for encoding, every_other in (("utf-16-le", head[1:4096:2]), ("utf-16-be", head[:4096:2])):
        if every_other.count(0) > _NULS * len(every_other):
            return encoding
    return None


def _legacy_encoding(head: bytes) -> str:
    """Returns UTF-8, unless bytes are not UTF-8 and hardly any others are more than ASCII."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
        return "utf-8"
    except UnicodeDecodeError:
        text = head.decode("utf-8", "replace")
    invalid = text.count("\ufffd")
    valid = sum(map(len, re.findall("[^\0-\x7f\ufffd]+", text)))
    if valid >= invalid:
        return "utf-8"  # with damaged lines, which the reader reports
    text_bytes = b"\n".join([line for line in head.splitlines() if not line.isascii()][:200])
    runs = re.findall(rb"[\x80-\xff]+", text_bytes)
    # Letters beyond ASCII are few and alone in Latin script, of which Western Europe's is by far the most frequent.
    if sum(len(run) for run in runs if len(run) > 1) < 0.5 * sum(map(len, runs)):
        return "cp1252"
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return "cp1252"
    best = from_bytes(text_bytes, cp_isolation=_LEGACY).best()
    return "cp1252" if best is None else best.encoding


def _see_kind(text: str, suffix: str) -> str:
    lowered = text[:200].lower()
    if lowered.startswith("version https://git-lfs.github.com/spec"):
        return "lfs"
    if lowered.startswith(("<!doctype html", "<html")):
        return "html"
    if text.startswith("<?xml") or text.startswith("<!"):
        return "html" if re.search(r"<html[\s>]", text[:2000], re.IGNORECASE) else "xml"
    if text.startswith("{"):
        return _object_kind(text, suffix)
    uncommented = re.sub(r"(?m)\A(\s*#.*\n)+", "", text).lstrip()
    if _TURTLE.match(uncommented):
        return "turtle"
    if _ONTOLOGY.match(text):
        return "ontology"
    if re.match(r'\[\s*([\[{"\d\]]|-\d|$)', text):
        return "json" if suffix not in _CSV_SUFFIXES else "csv"
    if suffix in _CSV_SUFFIXES:
        return "csv"
    if _TRIPLE.match(uncommented):
        return "turtle" if suffix in (".ttl", ".n3") else "ntriples"
    if _TAG.match(text):
        return "xml"
    return {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json"}.get(suffix, "text")


def _object_kind(text: str, suffix: str) -> str:
    """Tells JSON lines from a single object, and from a CSV file whose first cell starts with a brace."""
    first, _, rest = text.partition("\n")
    is_line = is_json_object(first)
    if suffix in _CSV_SUFFIXES:
        return "jsonl" if is_line else "csv"
    if suffix in (".jsonl", ".ndjson"):
        return "jsonl"
    return "jsonl" if is_line and (rest.lstrip().startswith("{") or suffix not in (".json", ".jsonld")) else "json"


def _see_cells(
    text: str,
    is_cut: bool,
    encoding: str,
    suffix: str,
    requested: Requested,
    names: Collection[str],
    notes: list[str],
) -> Format:
    sep, skip = _SEP_LINE.match(text), 0
    if sep:
        text, skip = text[sep.end() :], 1
    usual = "\t" if suffix in (".tsv", ".tab") else ","
    delimiters = [requested.delimiter or (sep and sep[1]) or usual]
    if requested.delimiter is None and not sep:
        delimiters += [sign for sign in DELIMITERS if sign != usual]
    best: tuple[float, Sequence[list[str]], tuple[str, str | None, bool]] = (-1.0, [], (delimiters[0], '"', False))
    for delimiter in delimiters:
        for quote, escape in _quotings(requested.quote, delimiter, text):
            rows, share = _parse(text, is_cut, delimiter, quote, escape)
            if share > best[0]:
                best = share, rows, (delimiter, quote, escape)
    _, rows, (delimiter, quote, escape) = best
    if requested.quote is not None:
        quote = None if requested.quote == "none" else requested.quote
    if delimiter != usual and requested.delimiter is None:
        notes.append(f"delimiter {delimiter!r}")
    if (quote != '"' or escape) and requested.quote is None:
        notes.append("quotes with a backslash" if escape else f"quote {quote or 'none'!r}")
    columns = tuple(requested.columns)
    if not columns and rows and _lacks_header(rows, names):
        columns = tuple(str(number + 1) for number in range(len(rows[0])))
        notes.append(f"no header, so columns are named 1 to {len(columns)}")
    return Format("csv", encoding, delimiter, quote, escape, columns, skip, "; ".join(notes))


def _quotings(requested: str | None, delimiter: str, text: str) -> list[tuple[str | None, bool]]:
    """Returns quotes and whether a backslash escapes them, in order of preference."""
    if requested is not None:
        return [(None if requested == "none" else requested, False)]
    # Literal quotes are common only between tabs; elsewhere, a lone quote is more likely a mistake.
    quotings: list[tuple[str | None, bool]] = [('"', False)]
    if '\\"' in text:
        quotings.append(('"', True))
    if re.search(rf"(?:^|{re.escape(delimiter)})'[^\n]*'\r?(?:$|{re.escape(delimiter)})", text, re.MULTILINE):
        quotings.append(("'", False))
    return [*quotings, (None, False)] if delimiter == "\t" else quotings


def _parse(
    text: str, is_cut: bool, delimiter: str, quote: str | None, escape: bool
) -> tuple[Sequence[list[str]], float]:
    """Returns the first rows, and how well they are read: the share of rows as wide as the first."""
    reader = csv_reader(io.StringIO(text, newline=""), delimiter, quote, escape)
    rows: list[list[str]] = []
    errors = 0
    try:
        for row in reader:
            if row:
                rows.append(row)
            if len(rows) > _MAX_ROWS:
                break
        if is_cut and len(rows) > 1:
            rows.pop()
    except csv.Error as error:
        errors = 0 if is_cut and "unexpected end" in str(error) else 1
    if not rows:
        return rows, 0.0
    width = len(rows[0])
    share = sum(len(row) == width for row in rows) / (len(rows) + errors)
    # A single column is no evidence of a delimiter, and cells in quotes are of quotes.
    unread = sum(cell[:1] == cell[-1:] == "'" and len(cell) > 1 for row in rows for cell in row) if quote != "'" else 0
    share -= 0.5 * unread / sum(map(len, rows))
    return rows, share if width > 1 else 0.0


def _lacks_header(rows: Sequence[list[str]], names: Collection[str]) -> bool:
    """Checks whether the first row is a document: its cells are numbers, long, or occur in the rows below."""
    first = [cell.strip() for cell in rows[0]]
    if len(rows) < 2 or len(first) < 2 or first == [str(number) for number in range(len(first))]:  # as of pandas
        return False
    # A number names a column of a file without a header, and may be a cell.
    if not {name for name in names if not name.isdecimal()}.isdisjoint(first):
        return False
    if any(_NUMBER.fullmatch(cell) or len(cell) > _LONGEST_NAME for cell in first):
        return True
    below = [{row[column].strip() for row in rows[1:] if len(row) > column} for column in range(len(first))]
    return any(cell and cell in others for cell, others in zip(first, below, strict=True))
