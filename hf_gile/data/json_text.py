"""Incremental parser for JSON of any size."""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Generator, Iterator
from typing import IO, Any

from .files import MAX_PARTS, MAX_RECORD
from .loading import Piece

SPACE = " \t\r\n"
"""White space of JSON."""
_SPACES = re.compile(f"[{SPACE}]*")
_CHUNK = 1 << 20
_PARSER = json.JSONDecoder()
# Not UTF-16 or similar: lines are split as bytes.
_CODECS = {
    "utf-8": "utf-8-sig",
    "utf-8-sig": "utf-8-sig",
    "cp1252": "cp1252",
    "iso8859-1": "iso8859-1",
}


def resolve_codec(encoding: str) -> str:
    """Returns the name of a codec whose bytes can be split into lines.

    Args:
        encoding: `"utf-8"`, `"windows-1252"` or `"latin-1"`, under any of their names.

    Returns:
        Python's name of the codec; for UTF-8, a codec that accepts a byte order mark.

    Raises:
        ValueError: If it is another encoding.
    """
    try:
        return _CODECS[codecs.lookup(encoding).name]
    except (LookupError, TypeError) as error:
        raise ValueError(f'encoding must be "utf-8", "windows-1252" or "latin-1", got {encoding!r}') from error


def codec_message(codec: str, start: int) -> str:
    """Formats a message about a byte that is not in the encoding.

    Args:
        codec: Codec returned by `resolve_codec`.
        start: Position of the first such byte.

    Returns:
        The message.
    """
    return (
        f"byte {start:,} is not {codec.removesuffix('-sig')}; "
        'try encoding="windows-1252", as in older BioASQ files, or "latin-1"'
    )


def check_parts(text: str | bytes) -> None:
    """Refuses JSON of more than `MAX_PARTS` lists and objects, each of which takes much more memory than its text.

    Args:
        text: The JSON.

    Raises:
        ValueError: If it has more.
    """
    if len(text) <= MAX_PARTS:
        return
    brackets: tuple[Any, Any] = ("[", "{") if isinstance(text, str) else (b"[", b"{")
    if sum(text.count(bracket) for bracket in brackets) > MAX_PARTS:
        raise ValueError(f"a record has more than {MAX_PARTS:,} lists and objects")


def is_json_object(line: str) -> bool:
    """Checks whether a line is an object of JSON."""
    if not line.lstrip().startswith("{"):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


class ByteRange:
    """A stream of the bytes of a piece."""

    def __init__(self, stream: IO[bytes], piece: Piece) -> None:
        self.stream = stream
        self.left = math.inf if piece.stop is None else piece.stop - piece.start
        if piece.start:
            stream.seek(piece.start)

    def read(self, size: int) -> bytes:
        """Reads at most `size` bytes."""
        data = self.stream.read(int(min(size, self.left)))
        self.left -= len(data)
        return data

    def readline(self, size: int) -> bytes:
        """Reads a line, or at most `size` bytes of it."""
        line = self.stream.readline(int(min(size, self.left)))
        self.left -= len(line)
        return line


class JsonText:
    """JSON text that is decoded and parsed incrementally in a sliding buffer."""

    def __init__(self, stream: IO[bytes] | ByteRange, codec: str, piece: Piece | None = None) -> None:
        self.stream = stream
        self.start = 0 if piece is None else piece.start
        self.is_cut = piece is not None and piece.stop is not None
        self.end = (
            f"byte {piece.stop:,}, where another record starts" if piece and piece.stop else "the end of the file"
        )
        self.codec = codec
        self.decoder = codecs.getincrementaldecoder(codec)()
        self.fault: ValueError | None = None
        self.bytes_read = 0
        self.text = ""
        self.at = 0

    def read_on(self) -> bool:
        """Drops the parsed text and reads more; returns False at the end of the file."""
        if self.fault is not None:
            raise self.fault
        left = len(self.text) - self.at
        if left > MAX_RECORD:
            raise ValueError(f"a record is longer than {MAX_RECORD:,} characters")
        data = self.stream.read(
            max(_CHUNK, left)
        )  # doubling, so that a long record is parsed only a logarithmic number of times
        self.bytes_read += len(data)
        try:
            new = self.decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            # Raised at the next call, after the preceding records.
            start = self.start + self.bytes_read - len(error.object) + error.start
            self.fault = ValueError(codec_message(self.codec, start))
            new = error.object[: error.start].decode(self.codec)
        self.text = self.text[self.at :] + new
        self.at = 0
        if left > _CHUNK // 2:  # most of it is one record
            check_parts(self.text)
        return bool(data)

    def next_character(self) -> str:
        """Returns the next character that is not white space, or "" at the end."""
        while True:
            self.at += len(_SPACES.match(self.text, self.at)[0])  # type: ignore[index]  # it always matches
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.read_on():
                return ""

    def expect(self, character: str) -> None:
        """Consumes a character that must come next."""
        if self.next_character() != character:
            actual = self.text[self.at : self.at + 40]
            raise ValueError(f"expected {character!r}, got {actual or self.end!r}")
        self.at += 1

    def value(self) -> object:
        """Consumes and returns a JSON value."""
        self.next_character()
        while True:
            try:
                value, end = _PARSER.raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                if self.may_be_cut(error) and self.read_on():
                    continue
                actual = self.text[error.pos : error.pos + 40]
                raise ValueError(f"{error.msg}, got {actual or self.end!r}") from error
            except RecursionError as error:
                raise ValueError("nested too deeply") from error
            if end < len(self.text):
                self.at = end
                return value
            if not self.read_on():  # until then, "12" may continue as "123"
                self.at = len(self.text)
                return value

    def may_be_cut(self, error: json.JSONDecodeError) -> bool:
        """Checks whether an error may be due to the end of the buffer, not to malformed JSON."""
        return error.pos > len(self.text) - 16 or error.msg.startswith("Unterminated string")


def json_array(text: JsonText) -> Generator[object, None, bool]:
    """Yields the values of an array; returns False if it continues in another part of the file."""
    text.expect("[")
    if text.next_character() == "]":
        text.expect("]")
        return True
    return (yield from json_values(text))


def json_values(text: JsonText) -> Generator[object, None, bool]:
    """Yields the values of an opened array; returns False if it continues in another part of the file."""
    yield text.value()
    while text.next_character() != "]":
        text.expect(",")
        if text.is_cut and not text.next_character():
            return False
        yield text.value()
    text.expect("]")
    return True


def json_lines(part: ByteRange) -> Iterator[tuple[int, bytes]]:
    """Yields the non-empty lines with their numbers, starting at 1."""
    number = 0
    while line := part.readline(MAX_RECORD):
        number += 1
        if len(line) == MAX_RECORD and not line.endswith(b"\n"):
            raise ValueError(
                f"line {number:,} is longer than {MAX_RECORD:,} bytes; a whole JSON document should be named .json"
            )
        if line.strip():
            yield number, line
    if number == 0:
        raise ValueError("empty file")
