"""Parses RDF files into statements, without keeping them.

| content | |
| --- | --- |
| N-Triples, N-Quads | read line by line |
| RDF/XML | read element by element |
| Turtle, TriG, Notation 3 | the whole text is in memory while parsing |
| JSON-LD | all values are in memory while parsing |

The content determines the format, whatever the name of the file. Nothing else is loaded, neither entities nor contexts.
"""

import json
import logging
import re
import warnings
from codecs import BOM_UTF8
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path, PurePosixPath
from reprlib import repr as shortened
from typing import IO, Any
from xml.parsers import expat

from ..extras import needs_extra
from .files import PACKED_SUFFIXES, data_suffix, open_binary, read_into_memory
from .json_text import check_parts
from .rdf_profiles import CONVERT, PREFIXES
from .report import ReadReport
from .schema import as_list
from .sniffing import sniff

SUFFIXES = (".nt", ".nq", ".rdf", ".xml", ".owl", ".ttl", ".trig", ".n3", ".jsonld", ".json")
"""Suffixes of RDF files in a folder."""

# rdflib's format and its title by kind of content; each format but Turtle includes simpler ones.
_FORMATS = {
    "ntriples": ("nquads", "N-Triples"),
    "xml": ("xml", "RDF/XML"),
    "turtle": ("turtle", "Turtle"),
    "json": ("json-ld", "JSON-LD"),
    "jsonl": ("json-ld", "JSON-LD"),
}
_MAX_ENTITY = 256
_MAX_URI = 8192
_FEW_STATEMENTS = 100_000
_MAX_LINE = 1 << 18  # bytes of N-Triples: rdflib searches the line again for every 2 KB that it reads

AddStatement = Callable[[Any, Any, Any], None]


def parse_rdf(path: Path, add: AddStatement, report: ReadReport) -> None:
    """Parses a file, compressed or not, and passes subject, predicate and object of each statement to `add`.

    They are nodes of rdflib. Statements before damage are passed on, if the report says to skip it.

    Raises:
        ImportError: If rdflib is not installed.
        ValueError: If the file is damaged, or not RDF.
    """
    with needs_extra("data", "load_skos"):
        # A file has more bytes than statements, compressed or not.
        graph = _make_graph(add, max(_FEW_STATEMENTS, path.stat().st_size))
    report.files += 1
    title = ""
    logger = logging.getLogger("rdflib.term")  # it logs a traceback for each invalid date
    was_disabled = logger.disabled
    try:
        logger.disabled = True
        seen = sniff(path)
        if seen.kind not in _FORMATS:
            raise ValueError(f"expected RDF (Turtle, RDF/XML, N-Triples or JSON-LD), got {seen.kind}")
        title = f"read as {_FORMATS[seen.kind][1]}: "
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # rdflib's parsers use its deprecated functions
            _parse(graph, path, seen.kind)
        if not graph.store.count:
            raise ValueError(f"no statements: {CONVERT}")
    except Exception as error:  # invalid data can raise any exception
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno is not None):
            raise
        message = " ".join(str(error).split())[:300]
        if isinstance(error, UnicodeDecodeError):
            message += ": convert it to UTF-8"
        report.problem("damaged file", f"{path}: {title}{message}")
    finally:
        logger.disabled = was_disabled


def _parse(graph: Any, path: Path, kind: str) -> None:
    from rdflib.parser import PythonInputSource

    # Relative URIs depend neither on the folder nor on compression.
    packed = path.suffix.lower() in PACKED_SUFFIXES
    base = PurePosixPath("/", path.with_suffix("").name if packed else path.name).as_uri()
    form = _FORMATS[kind][0]
    if kind in ("ntriples", "xml"):
        if kind == "xml":
            _check_xml(path)
        with open_binary(path) as stream:
            graph.parse(stream if kind == "xml" else _Lines(stream), format=form, publicID=base)
        return
    data = read_into_memory(path).removeprefix(BOM_UTF8)
    source: Any = BytesIO(data)
    if form == "json-ld":
        source = PythonInputSource(_load_json(data, kind), base)
    elif data_suffix(path) == ".n3":
        form = "n3"
    elif b"{" in data:
        form = "trig"  # which takes longer, and is only needed for graphs
    graph.parse(source, format=form, publicID=base)


class _Lines:
    """A stream without its byte order mark that refuses lines that are too long."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.length = 0
        if stream.read(3) != BOM_UTF8:
            stream.seek(0)

    def read(self, size: int = -1) -> bytes:
        """Reads `size` bytes."""
        data = self.stream.read(size)
        *ended, last = re.split(b"[\r\n]", data)
        self.length = len(last) + (0 if ended else self.length)
        if self.length > _MAX_LINE:
            raise ValueError(f"a line is longer than {_MAX_LINE:,} bytes")
        return data


def _check_xml(path: Path) -> None:
    """Refuses XML that is no RDF, and entities longer than a prefix: rdflib takes hours to expand nested entities."""
    roots: list[str] = []

    def declare(name: str, is_parameter: bool, value: str | None, *_: object) -> None:
        if value is not None and (is_parameter or "&" in value or len(value) > _MAX_ENTITY):
            raise ValueError(
                f"the entity {shortened(name)} is not a short text, like an XML bomb; replace it by its value"
            )

    def start(name: str, attributes: dict[str, str]) -> None:
        if not roots and PREFIXES["rdf"] not in attributes.values():
            raise ValueError(f"the root <{name[:80]}> is not of RDF: {CONVERT}")
        roots.append(name)

    parser = expat.ParserCreate()
    parser.EntityDeclHandler = declare
    parser.StartElementHandler = start
    with open_binary(path) as stream, suppress(expat.ExpatError):  # rdflib reports the error
        while not roots and (data := stream.read(1 << 16)):
            parser.Parse(data)


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
            if len(subject) + len(predicate) + len(value) > _MAX_URI:  # a prefix may expand to a million characters
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
            """Passes a statement on without another check of its nodes, which takes a third of the time."""
            statements.add(triple, self)
            return self

    return Sink(store=statements)


def _load_json(data: bytes, kind: str) -> Any:
    """Reads JSON-LD without external references: rdflib would fetch a context from any URL."""
    check_parts(data)
    if kind == "json":
        return json.loads(data, object_hook=_refuse_urls)
    return [json.loads(line, object_hook=_refuse_urls) for line in data.splitlines() if line.strip()]


def _refuse_urls(value: dict[str, Any]) -> dict[str, Any]:
    for key in {"@context", "@import"} & set(value):
        if urls := [context for context in as_list(value[key]) if isinstance(context, str)]:
            raise ValueError(
                f"{key} is the URL {shortened(urls[0])}, which is not fetched: replace it by its content, or "
                "for a list of objects, name their columns, as in --label_id uri --label_name prefLabel"
            )
    return value
