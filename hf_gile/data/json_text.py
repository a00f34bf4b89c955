"""Incremental parser for JSON of any size."""

import codecs
import json
import re
from collections.abc import Callable, Iterator
from typing import IO, Any

from .files import MAX_PARTS, MAX_RECORD

_SPACES = re.compile(r"[ \t\r\n]*")
_CHUNK = 1 << 20
_PARSER = json.JSONDecoder()


def check_parts(text: str | bytes) -> None:
    """Refuses JSON of more than `MAX_PARTS` lists and objects, each of which takes much more memory than its text."""
    if len(text) <= MAX_PARTS:
        return
    brackets: tuple[Any, Any] = ("[", "{") if isinstance(text, str) else (b"[", b"{")
    if sum(text.count(bracket) for bracket in brackets) > MAX_PARTS:
        raise ValueError(f"a record has more than {MAX_PARTS:,} lists and objects")


def is_json_object(line: str) -> bool:
    """Checks whether a line is an object of JSON."""
    return line.lstrip().startswith("{") and isinstance(parse_text(json.loads, line), dict)


def parse_text(parse: Callable[[Any], Any], text: str | bytes) -> Any:
    """Returns what a parser makes of a text; None if it cannot read it."""
    try:
        return parse(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def parse_line(line: str) -> object:
    """Returns the value of a line of JSON, or an error."""
    try:
        check_parts(line)
        return json.loads(line)
    except json.JSONDecodeError as error:
        got = line[error.pos : error.pos + 40].rstrip()
        if got == "," and error.msg == "Extra data":  # after the object
            return json.loads(line[: error.pos])
        hint = "" if got else "; write each object on a line, as with jq -c ."
        return ValueError(f"not JSON: {error.msg}, got {got!r}{hint}")
    except RecursionError:
        return ValueError("not JSON that can be read: it is nested too deeply")
    except ValueError as error:  # a number of many digits
        return ValueError(f"not JSON: {error}")


def read_records(stream: IO[bytes], encoding: str) -> Iterator[object]:
    """Yields the items of a list in limited memory, or those of the only list of objects in an object.

    Such JSON is `[{"text": "On mice."}]` or `{"version": 1, "data": [{"text": "On mice."}]}`.

    Raises:
        ValueError: If it is other JSON, or damaged.
    """
    text = _JsonText(stream, encoding)
    first = text.next_character()
    if first == "[":
        yield from text.items()
    elif first == "{":
        yield from _listed_objects(text)
    else:
        raise ValueError(f"expected a list of objects, or an object per line, got {text.ahead()}")
    if following := text.next_character():
        remedy = "; write objects one after another as lines, with `jq -c .`" * (following == "{")
        raise ValueError(f"expected the end of the file after the last bracket, got {text.ahead()}{remedy}")


def _listed_objects(text: "_JsonText") -> Iterator[object]:
    """Yields the objects of the only list of objects in an object."""
    text.expect("{")
    keys: list[object] = []
    lists: list[object] = []
    while text.next_character() != "}":
        if keys:
            text.expect(",")
        keys.append(text.value())
        text.expect(":")
        if text.next_character() != "[":
            text.value()
            continue
        for number, item in enumerate(text.items()):
            if number == 0 and isinstance(item, dict):
                lists.append(keys[-1])
            if len(lists) > 1:
                raise ValueError(f"expected a single list of objects, got the lists {lists}: take one with `jq .key`")
            if keys[-1] in lists:
                yield item
    text.expect("}")
    if not lists and not text.next_character():
        raise ValueError(
            f"expected a list of objects, or an object per line, got an object with the keys {keys[:9]}; "
            'in pandas, write it with to_json(orient="records"); jq writes objects by id as a list '
            'with `jq "[.[]]"`, names by id with `jq "to_entries"` (columns key and value), and an inner list with '
            "`jq .key.list`"
        )


class _JsonText:
    """JSON text that is decoded and parsed incrementally in a sliding buffer."""

    def __init__(self, stream: IO[bytes], encoding: str) -> None:
        self.stream = stream
        self.decoder = codecs.getincrementaldecoder("utf-8-sig" if encoding == "utf-8" else encoding)()
        self.fault: ValueError | None = None
        self.text = ""
        self.at = 0

    def read_on(self) -> bool:
        """Drops the parsed text and reads more; returns False at the end of the file."""
        if self.fault is not None:
            raise self.fault
        left = len(self.text) - self.at
        if left > MAX_RECORD:
            raise ValueError(f"a record is longer than {MAX_RECORD:,} characters")
        # Doubling, so that a long record is parsed only a logarithmic number of times.
        data = self.stream.read(max(_CHUNK, left))
        try:
            new = self.decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            # Raised at the next call, after the preceding records.
            new = error.object[: error.start].decode(error.encoding)
            self.fault = ValueError(
                f"{error.object[error.start :][:10]!r} is not {error.encoding}: pass the encoding of the file, such as "
                'encoding="windows-1252"'
            )
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

    def ahead(self) -> str:
        """Returns the next characters, for messages."""
        return repr(self.text[self.at :][:40] or "the end of the file")

    def expect(self, character: str) -> None:
        """Consumes a character that must come next."""
        if self.next_character() != character:
            raise ValueError(f"expected {character!r}, got {self.ahead()}")
        self.at += 1

    def value(self) -> object:
        """Consumes and returns a JSON value."""
        self.next_character()
        while True:
            try:
                value, end = _PARSER.raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                may_be_cut = error.pos > len(self.text) - 16 or error.msg.startswith("Unterminated string")
                length = error.pos - self.at
                if may_be_cut and self.read_on():
                    continue
                self.at += length
                raise ValueError(f"{error.msg}, got {self.ahead()}") from error
            except RecursionError as error:
                raise ValueError("nested too deeply") from error
            if end < len(self.text):
                self.at = end
                return value
            if not self.read_on():  # until then, "12" may continue as "123"
                self.at = len(self.text)
                return value

    def items(self) -> Iterator[object]:
        """Consumes a list and yields its items."""
        self.expect("[")
        if self.next_character() != "]":
            yield self.value()
        while self.next_character() != "]":
            self.expect(",")
            if self.next_character() != "]":
                yield self.value()
        self.expect("]")
