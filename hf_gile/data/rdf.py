"""Parses RDF files into statements, without keeping them.

| content | |
| --- | --- |
| N-Triples, N-Quads | read line by line |
| RDF/XML | read element by element |
| Turtle, TriG, Notation 3 | the whole text is in memory while parsing |
| JSON-LD | all values are in memory while parsing |

The content determines the format, whatever the name of the file. Nothing else is loaded, neither entities nor contexts.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path, PurePosixPath
from reprlib import repr as shortened
from typing import IO, Any
from xml.parsers import expat

from ..extras import needs_extra
from .files import PACKED_SUFFIXES, data_suffix, open_binary
from .json_text import check_parts
from .rdf_profiles import CONVERT, PREFIXES
from .report import ReadReport
from .sniffing import sniff

SUFFIXES = (".nt", ".nq", ".rdf", ".xml", ".owl", ".ttl", ".trig", ".n3", ".jsonld", ".json")
"""Suffixes of RDF files in a folder."""

# rdflib format by kind of content; each format but Turtle includes simpler ones.
_FORMATS = {"ntriples": "nquads", "xml": "xml", "turtle": "turtle", "json": "json-ld", "jsonl": "json-ld"}
_TITLES = {
    "nquads": "N-Triples",
    "xml": "RDF/XML",
    "turtle": "Turtle",
    "trig": "TriG",
    "n3": "Notation 3",
    "json-ld": "JSON-LD",
}
_MAX_ENTITY = 256
_MAX_URI = 8192
_FEW_STATEMENTS = 100_000
_MAX_LINE = 1 << 18  # bytes of N-Triples: rdflib searches the line again for every 2 KB that it reads
_MAX_PARTS = 5000

AddStatement = Callable[[Any, Any, Any], None]


def parse_rdf(path: Path, add: AddStatement, report: ReadReport) -> None:
    """Parses a file.

    Args:
        path: The file, compressed or not.
        add: Receives subject, predicate and object of each statement, as nodes of rdflib.
        report: Decides whether a damaged file raises (the default); statements before the damage are passed on.

    Raises:
        ImportError: If rdflib is not installed.
        ValueError: If the file is damaged, or not RDF.
    """
    with needs_extra("data", "load_skos"):
        # A file has more bytes than statements, compressed or not.
        graph = _make_graph(add, max(_FEW_STATEMENTS, path.stat().st_size))
        from rdflib.parser import PythonInputSource
    report.files += 1
    # Relative URIs depend neither on the folder nor on compression.
    packed = path.suffix.lower() in PACKED_SUFFIXES
    base = PurePosixPath("/", path.with_suffix("").name if packed else path.name).as_uri()
    form = ""
    try:
        kind = _find_kind(path)
        form = "n3" if kind == "turtle" and data_suffix(path) == ".n3" else _FORMATS[kind]
        if form == "xml":
            _check_xml(path)
        with open_binary(path, in_memory=form not in ("nquads", "xml")) as stream, _quiet():
            if form == "turtle" and any(b"{" in chunk for chunk in iter(lambda: stream.read(1 << 20), b"")):
                form = "trig"  # which takes longer, and is only needed for graphs
            stream.seek(0)
            if stream.read(3) != b"\xef\xbb\xbf":  # a byte order mark
                stream.seek(0)
            source: Any = _Lines(stream) if form == "nquads" else stream
            if form == "json-ld":
                source = PythonInputSource(_load_json(stream, kind), base)
            graph.parse(source, format=form, publicID=base)
        if not graph.store.count:
            keys = f"; its keys are {shortened(list(source.data))}" if form == "json-ld" else ""
            raise ValueError(f"no statements{keys}: {CONVERT}")
    except Exception as error:  # invalid data can raise any exception
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno is not None):
            raise
        message = " ".join(str(error).split())[:300]
        if isinstance(error, UnicodeDecodeError):
            message += ": convert it to UTF-8"
        title = f"read as {_TITLES[form]}: " if form else ""
        report.problem("damaged file", f"{path}: {title}{message}")


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences rdflib, which logs a traceback for each invalid date, and whose parsers use its deprecated functions."""
    logger = logging.getLogger("rdflib.term")
    was_disabled = logger.disabled
    logger.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        logger.disabled = was_disabled


def _find_kind(path: Path) -> str:
    seen = sniff(path)
    seen.refuse(path)
    if seen.kind == "empty":
        raise ValueError("no statements")
    if seen.kind not in _FORMATS:
        raise ValueError(f"expected RDF (Turtle, RDF/XML, N-Triples or JSON-LD), got {seen.kind}")
    return seen.kind


class _Lines(BufferedIOBase):
    """A stream that refuses lines that are too long."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.length = 0

    def read(self, size: int | None = -1) -> bytes:
        """Reads `size` bytes."""
        data = self.stream.read(-1 if size is None else size)
        end = max(data.rfind(b"\n"), data.rfind(b"\r"))
        self.length = len(data) - 1 - end + (self.length if end < 0 else 0)
        if self.length > _MAX_LINE:
            raise ValueError(f"a line is longer than {_MAX_LINE:,} bytes")
        return data


def _check_xml(path: Path) -> None:
    """Refuses XML that is no RDF, and entities longer than a prefix: rdflib takes hours to expand nested entities."""
    declared: set[str] = set()
    inside: list[str] = []  # the last element, and a sign for each part of its text

    def declare(name: str, is_parameter: bool, value: str | None, *_: object) -> None:
        if value is not None and (is_parameter or "&" in value or len(value) > _MAX_ENTITY):
            raise ValueError(
                f"the entity {shortened(name)} is not a short text, like an XML bomb; replace it by its value"
            )
        declared.add(name)

    def start(name: str, attributes: dict[str, str]) -> None:
        if not inside and PREFIXES["rdf"] not in attributes.values():
            raise ValueError(f"the root <{name[:80]}> is not of RDF: {CONVERT}")
        inside[:] = [name]

    def add(_: str) -> None:
        inside.append("")
        if len(inside) > _MAX_PARTS:  # each is appended by copying the previous ones
            raise ValueError(f"a text of <{inside[0][:80]}> has more than {_MAX_PARTS:,} lines and entities")

    parser = expat.ParserCreate()
    parser.EntityDeclHandler = declare
    parser.StartElementHandler = start
    parser.CharacterDataHandler = add
    with open_binary(path) as stream:
        while (declared or not inside) and (data := stream.read(1 << 16)):
            try:
                parser.Parse(data)
            except expat.ExpatError:
                return  # rdflib reports the error


def _make_graph(add: AddStatement, limit: int) -> Any:
    """Makes a graph that passes statements on; an indexed graph needs many times the memory."""
    from rdflib import Graph, Literal
    from rdflib.store import Store

    class Statements(Store):
        context_aware = graph_aware = formula_aware = True
        count = 0

        def add(self, triple: Any, context: Any, quoted: bool = False) -> None:
            self.count += 1
            if self.count > limit:
                raise ValueError(
                    f"more than {limit:,} statements, more than its bytes, like a decompression bomb; if you trust it, "
                    "decompress it first"
                )
            subject, predicate, value = triple
            if quoted or isinstance(subject, Graph) or isinstance(value, Graph):  # rules of Notation 3
                return
            # A prefix may expand to a million characters.
            if len(subject) + len(predicate) + len(value) > _MAX_URI:
                for node in triple:
                    if len(node) > _MAX_URI and not isinstance(node, Literal):
                        raise ValueError(f"a URI is longer than {_MAX_URI:,} characters: {node[:80]}...")
            add(subject, predicate, value)

        def add_graph(self, graph: object) -> None:
            """Ignored: named graphs are merged."""

        remove_graph = add_graph

    statements = Statements()

    class Sink(Graph):
        def add(self, triple: Any) -> Any:
            """Passes a statement on without another check of its nodes."""
            statements.add(triple, self)
            return self

    return Sink(store=statements)


def _load_json(stream: IO[bytes], kind: str) -> Any:
    """Reads JSON-LD without external references: rdflib would fetch a context from any URL."""
    text = stream.read()
    check_parts(text)
    if kind == "json":
        return json.loads(text, object_hook=_refuse_urls)
    return [json.loads(line, object_hook=_refuse_urls) for line in text.splitlines() if line.strip()]


def _refuse_urls(value: dict[str, Any]) -> dict[str, Any]:
    for key in {"@context", "@import"} & set(value):
        contexts = value[key] if isinstance(value[key], list) else [value[key]]
        for context in contexts:
            if isinstance(context, str):
                raise ValueError(
                    f"{key} is the URL {shortened(context)}, which is not fetched: replace it by its content"
                )
    return value
