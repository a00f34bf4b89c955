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
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path, PurePosixPath
from reprlib import repr as shortened
from typing import IO, TYPE_CHECKING, Any
from xml.parsers import expat

from ..extras import needs_extra
from .files import PACKED_SUFFIXES, data_suffix, open_binary
from .json_text import check_parts
from .rdf_profiles import CONVERT, PREFIXES
from .report import ReadReport
from .sniffing import sniff

if TYPE_CHECKING:
    from rdflib.store import Store

SUFFIXES = (".nt", ".nq", ".rdf", ".xml", ".owl", ".ttl", ".trig", ".n3", ".jsonld", ".json")
"""Suffixes of RDF files in a folder."""

KINDS = {"ntriples": "nquads", "xml": "xml", "turtle": "trig", "json": "json-ld", "jsonl": "json-ld"}
"""rdflib format by kind of content; each format includes simpler ones."""
_TITLES = {"nquads": "N-Triples", "xml": "RDF/XML", "trig": "Turtle", "n3": "Notation 3", "json-ld": "JSON-LD"}

_KINDS_BY_SUFFIX = {".nt": "ntriples", ".nq": "ntriples", ".ttl": "turtle", ".trig": "turtle", ".n3": "turtle"}
_MAX_ENTITY = 256
_MAX_URI = 8192
_FEW_STATEMENTS = 100_000
_MAX_LINE = 1 << 18
"""Maximum bytes of an N-Triples line: rdflib searches the line again for every 2 KB that it reads."""
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
        from rdflib import Graph
        from rdflib.parser import PythonInputSource
    report.files += 1
    statements = 0

    # A file has more bytes than statements, compressed or not.
    max_statements = max(_FEW_STATEMENTS, path.stat().st_size)

    def count(subject: Any, predicate: Any, value: Any) -> None:
        nonlocal statements
        statements += 1
        if statements > max_statements:
            raise ValueError(
                f"more than {max_statements:,} statements, more than its bytes, like a decompression bomb; if you "
                "trust it, decompress it first"
            )
        add(subject, predicate, value)

    # Relative URIs depend neither on the folder nor on compression.
    packed = path.suffix.lower() in PACKED_SUFFIXES
    base = PurePosixPath("/", path.with_suffix("").name if packed else path.name).as_uri()
    kind = ""
    try:
        kind = _kind(path)
        if kind == "xml":
            _check_xml(path)
        in_memory = kind in ("trig", "n3", "json-ld")
        with open_binary(path, in_memory=in_memory) as stream, _quiet():
            if stream.read(3) != b"\xef\xbb\xbf":  # a byte order mark
                stream.seek(0)
            source: Any = stream
            if kind == "json-ld":
                source = PythonInputSource(_load_json(stream), base)
            elif kind == "nquads":
                source = _Lines(stream)
            Graph(store=_make_store(count)).parse(source, format=kind, publicID=base)
        if not statements:
            raise ValueError("no statements")
    except Exception as error:  # invalid data can raise any exception
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno is not None):
            raise
        message = " ".join(str(error).split())[:300]
        if isinstance(error, UnicodeDecodeError):
            message += ": convert it to UTF-8"
        title = f"read as {_TITLES[kind]}: " if kind else ""
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


def find_rdf(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Resolves paths to distinct files.

    Args:
        paths: Files with any name, and folders, of which files with one of `SUFFIXES` are read.

    Raises:
        FileNotFoundError: If a path does not exist.
        ValueError: If there are no paths, or a folder has no such file.
    """
    result: dict[Path, None] = {}
    for name in [paths] if isinstance(paths, (str, os.PathLike)) else paths:
        path = Path(name)
        if name == "" or not path.exists():  # Path("") is the current folder
            raise FileNotFoundError(f"no file or folder {str(name)!r} (in {Path.cwd()})")
        files = [path]
        if path.is_dir():
            files = sorted(child for child in path.iterdir() if child.is_file() and data_suffix(child) in SUFFIXES)
        if not files:
            raise ValueError(
                f"nothing to read at {path}: expected {', '.join(SUFFIXES)}, each also compressed as .gz or .zip"
            )
        result.update(dict.fromkeys(file.resolve() for file in files))
    if not result:
        raise ValueError("paths must name at least one file or folder, got none")
    return list(result)


def _kind(path: Path) -> str:
    seen = sniff(path)
    seen.refuse(path)
    suffix = data_suffix(path)
    kind = seen.kind
    if kind not in KINDS or (kind == "json" and not _starts_as_json(path)):
        kind = _KINDS_BY_SUFFIX.get(suffix, kind)
    if kind == "empty":
        raise ValueError("no statements")
    if kind not in KINDS:
        raise ValueError(f"expected RDF (Turtle, RDF/XML, N-Triples or JSON-LD), got {seen.kind}")
    return "n3" if suffix == ".n3" and kind == "turtle" else KINDS[kind]


def _starts_as_json(path: Path) -> bool:
    """Tells JSON-LD from Turtle that starts with a blank node."""
    with open_binary(path) as stream:
        return re.match(rb'(\xef\xbb\xbf)?\s*[\[{][\s\[{]*"', stream.read(1 << 12)) is not None


class _Lines(BufferedIOBase):
    """A stream that refuses lines that are too long."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.length = stream, 0

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
    inside: list[str] = []
    parts = 0

    def declare(name: str, is_parameter: bool, value: str | None, *_: object) -> None:
        if value is not None and (is_parameter or "&" in value or len(value) > _MAX_ENTITY):
            raise ValueError(
                f"the entity {shortened(name)} is not a short text, like an XML bomb; replace it by its value"
            )
        declared.add(name)

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal parts
        if not inside and PREFIXES["rdf"] not in attributes.values():
            raise ValueError(f"the root <{name[:80]}> is not of RDF: {CONVERT}")
        inside[:], parts = [name], 0

    def add(_: str) -> None:
        nonlocal parts
        parts += 1
        if parts > _MAX_PARTS:  # each is appended by copying the previous ones
            raise ValueError(f"a text of <{inside[0][:80]}> has more than {_MAX_PARTS:,} lines and entities")

    parser = expat.ParserCreate()
    parser.EntityDeclHandler, parser.StartElementHandler, parser.CharacterDataHandler = declare, start, add
    with open_binary(path) as stream:
        while (declared or not inside) and (data := stream.read(1 << 16)):
            try:
                parser.Parse(data)
            except expat.ExpatError:
                return  # rdflib reports the error


def _make_store(add: AddStatement) -> Store:
    from rdflib import Literal
    from rdflib.store import Store

    class Statements(Store):
        """Store that passes the statements of rdflib parsers on; an indexed graph needs many times the memory."""

        context_aware = graph_aware = formula_aware = True

        def add(self, triple: Any, context: Any, quoted: bool = False) -> None:
            subject, predicate, value = triple
            for node in (subject, predicate, () if isinstance(value, Literal) else value):
                if len(node) > _MAX_URI:  # a prefix may expand to a million characters
                    raise ValueError(f"a URI is longer than {_MAX_URI:,} characters: {node[:80]}...")
            if not quoted:
                add(subject, predicate, value)

        def add_graph(self, graph: object) -> None:
            """Ignored: named graphs are merged."""

        def remove_graph(self, graph: object) -> None:
            """Ignored: named graphs are merged."""

    return Statements()


def _load_json(stream: IO[bytes]) -> Any:
    """Reads JSON-LD without external references: rdflib would fetch a context from any URL."""
    text = stream.read()
    check_parts(text)
    data = json.loads(text)
    values = [data]
    while values:
        value = values.pop()
        if isinstance(value, list):
            values += value
        elif isinstance(value, dict):
            for key in {"@context", "@import"} & set(value):
                contexts = value[key] if isinstance(value[key], list) else [value[key]]
                for context in contexts:
                    if isinstance(context, str):
                        raise ValueError(
                            f"{key} is the URL {shortened(context)}, which is not fetched: replace it by its content"
                        )
            values += value.values()
    return data
