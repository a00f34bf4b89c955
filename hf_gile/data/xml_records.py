"""Parses records in XML one by one, in limited memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

from ..extras import needs_extra
from .files import MAX_PARTS, MAX_RECORD

if TYPE_CHECKING:
    from lxml.etree import _Element


def parse_xml(stream: IO[bytes], tags: str | Sequence[str]) -> Iterator[_Element]:
    """Yields the elements with these tags, and releases each when the next is requested.

    Raises:
        ImportError: If lxml is not installed.
        ValueError: If an element is longer than `MAX_RECORD`, or has more than `MAX_PARTS` tags and attributes.
        SyntaxError: If it is not XML.
    """
    source = _Source(stream)
    for _, element in import_lxml().iterparse(source, tag=tags, remove_comments=True, remove_pis=True):
        source.start_record()
        yield element
        element.clear()


def import_lxml() -> Any:
    """Imports `lxml.etree`; raises an ImportError that says how to install it."""
    with needs_extra("data", "reading MEDLINE or MeSH in XML"):
        from lxml import etree
    return etree


class _Source:
    """A stream that refuses records that are too large.

    A parser takes a hundred bytes for an element of four bytes, so elements and attributes are limited too.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.start_record()

    def start_record(self) -> None:
        self.size = self.parts = 0
        self._uncounted: list[bytes] = []

    def read(self, size: int) -> bytes:
        """Reads `size` bytes; raises a ValueError if the record is too large."""
        data = self.stream.read(size)
        self.size += len(data)
        self._uncounted.append(data)
        if self.size > MAX_RECORD:
            raise ValueError(f"a record is longer than {MAX_RECORD:,} bytes")
        if self.size > MAX_PARTS:  # fewer bytes have fewer parts, and counting takes time
            self.parts += sum(chunk.count(b"<") + chunk.count(b"=") for chunk in self._uncounted)
            self._uncounted.clear()
            if self.parts > MAX_PARTS:
                raise ValueError(f"a record has more than {MAX_PARTS:,} tags and attributes")
        return data
