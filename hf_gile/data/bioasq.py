"""BioASQ's JSON of MEDLINE abstracts, and the same records as JSON lines.

`.json`, as BioASQ distributes its training sets (task A, allMeSH_*.json):

    {"articles": [
    {"journal": "J Mice", "year": "1976", "pmid": "5", "title": "On mice.",
     "abstractText": "Mice were seen.", "meshMajor": ["Animals", "Mice"]},
    ...
    ]}

`.jsonl`: one such record on each line. Both may be `.gz`; both may carry ids, as `meshUI` in the
order of `meshMajor`. Files are to be had from http://participants-area.bioasq.org after signing up.
"""

from __future__ import annotations

import codecs
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from .files import open_binary, suffix_of
from .report import ReadReport
from .schema import Record, checked_record

_CHUNK = 1 << 20
_LONGEST_RECORD = 1 << 26
_PARSER = json.JSONDecoder()
_SPACE = " \t\r\n"
# Not UTF-16 and the like: lines are split as bytes.
_CODECS = {
    "utf-8": "utf-8-sig",
    "utf-8-sig": "utf-8-sig",
    "cp1252": "cp1252",
    "iso8859-1": "iso8859-1",
}


def read_bioasq(
    path: str | os.PathLike[str],
    report: ReadReport | None = None,
    *,
    encoding: str = "utf-8",
    ui_of: Mapping[str, str] | None = None,
) -> Iterator[Record]:
    """Reads one `.json` or `.jsonl` file, packed by gzip or not, in constant memory.

    Args:
        path: The file.
        report: Counts what is left out and says whether malformed input raises, as it does without.
        encoding: `"utf-8"` (with or without a byte order mark), `"windows-1252"` or `"latin-1"`.
        ui_of: From the name of a heading to its id, for records without `meshUI`; a name that is
            not in it is its own id.

    Yields:
        The records, in the order of the file; those without abstract or headings too.

    Raises:
        ValueError: If the file or a record is malformed, unless the report says to skip.
    """
    report = ReadReport() if report is None else report
    codec = _codec(encoding)
    lines = suffix_of(Path(path)) == ".jsonl"
    unit = "line" if lines else "record"
    with open_binary(path) as stream:
        items: Iterator[tuple[int, object]]
        items = _lines(stream) if lines else enumerate(_articles(_Json(stream, codec)), 1)
        for number, item in report.until_damage(items, path):
            try:
                record = checked_record(_parsed(item, codec) if isinstance(item, bytes) else item, ui_of)
            except ValueError as error:
                report.problem("malformed record", f"{path}: {unit} {number:,}: {error}")
                continue
            yield record


def _lines(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := stream.readline(_LONGEST_RECORD):
        number += 1
        if len(line) == _LONGEST_RECORD and not line.endswith(b"\n"):
            raise ValueError(
                f"line {number:,} is longer than {_LONGEST_RECORD:,} bytes; a whole JSON document should be named .json"
            )
        if line.strip():
            yield number, line
    if number == 0:
        raise ValueError("empty file")


def _parsed(line: bytes, codec: str) -> object:
    try:
        return json.loads(line.decode(codec))
    except UnicodeDecodeError as error:
        raise ValueError(_not_in(codec, error.start)) from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _articles(text: _Json) -> Iterator[object]:
    if not text.next_character():
        raise ValueError("empty file")
    keys: list[object] = []
    text.expect("{")
    while text.next_character() != "}":
        if keys:
            text.expect(",")
        keys.append(text.value())
        text.expect(":")
        if keys[-1] == "articles":
            yield from _array(text)
        else:
            text.value()
    text.expect("}")
    if "articles" not in keys:
        raise ValueError(f'expected {{"articles": [...]}}, got the keys {keys[:9]}')
    if rest := text.next_character():
        raise ValueError(f"expected the end of the file after the closing brace, got {rest!r}")


def _array(text: _Json) -> Iterator[object]:
    text.expect("[")
    if text.next_character() != "]":
        yield text.value()
        while text.next_character() != "]":
            text.expect(",")
            yield text.value()
    text.expect("]")


class _Json:
    """JSON text that is decoded and parsed piece by piece, over a buffer that slides."""

    def __init__(self, stream: IO[bytes], codec: str) -> None:
        self.stream = stream
        self.codec = codec
        self.decoder = codecs.getincrementaldecoder(codec)()
        self.fault: ValueError | None = None
        self.bytes_read = 0
        self.text = ""
        self.at = 0

    def read_on(self) -> bool:
        """Drops what is parsed and reads more; False at the end of the file."""
        if self.fault is not None:
            raise self.fault
        left = len(self.text) - self.at
        if left > _LONGEST_RECORD:
            raise ValueError(f"a record is longer than {_LONGEST_RECORD:,} characters")
        data = self.stream.read(max(_CHUNK, left))  # doubling: a long record is parsed log times
        self.bytes_read += len(data)
        try:
            new = self.decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            # Raised at the next call, after the records before it.
            self.fault = ValueError(_not_in(self.codec, self.bytes_read - len(error.object) + error.start))
            new = error.object[: error.start].decode(self.codec)
        self.text = self.text[self.at :] + new
        self.at = 0
        return bool(data)

    def next_character(self) -> str:
        """Returns the next character that is not white space, or "" at the end."""
        while True:
            while self.at < len(self.text) and self.text[self.at] in _SPACE:
                self.at += 1
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.read_on():
                return ""

    def expect(self, character: str) -> None:
        """Moves past a character that must come next."""
        if self.next_character() != character:
            found = self.text[self.at : self.at + 40]
            raise ValueError(f"expected {character!r}, got {found or 'the end of the file'!r}")
        self.at += 1

    def value(self) -> object:
        """Moves past one JSON value and returns it."""
        self.next_character()
        while True:
            try:
                value, end = _PARSER.raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                if self.may_be_cut(error) and self.read_on():
                    continue
                found = self.text[error.pos : error.pos + 40]
                raise ValueError(f"{error.msg}, got {found or 'the end of the file'!r}") from error
            except RecursionError as error:
                raise ValueError("nested too deeply") from error
            if end < len(self.text):
                self.at = end
                return value
            if not self.read_on():  # till then, "12" may go on as "123"
                self.at = len(self.text)
                return value

    def may_be_cut(self, error: json.JSONDecodeError) -> bool:
        """Tells an end of the buffer from a fault, so that a fault is not read on from forever."""
        return error.pos > len(self.text) - 16 or error.msg.startswith("Unterminated string")


def _codec(encoding: str) -> str:
    try:
        return _CODECS[codecs.lookup(encoding).name]
    except (LookupError, TypeError) as error:
        raise ValueError(f'encoding must be "utf-8", "windows-1252" or "latin-1", got {encoding!r}') from error


def _not_in(codec: str, start: int) -> str:
    return (
        f"byte {start:,} is not {codec.removesuffix('-sig')}; "
        'try encoding="windows-1252", which older BioASQ files are in, or "latin-1"'
    )
