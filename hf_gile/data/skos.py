"""Reader of SKOS vocabularies, such as thesauri, as labels.

    @prefix skos: <http://www.w3.org/2004/02/skos/core#> .
    @prefix ex: <http://example.org/> .

    ex:1 a skos:Concept ; skos:prefLabel "heart"@en, "Herz"@de ; skos:narrower ex:2 .
    ex:2 a skos:Concept ; skos:prefLabel "heart valve"@en ; skos:altLabel "cardiac valve"@en ;
        skos:definition "Keeps blood from flowing back."@en .

The suffix determines the format, with or without `.gz`:

| suffix | format | |
| --- | --- | --- |
| `.nt`, `.nq` | N-Triples, N-Quads | read line by line |
| `.rdf`, `.xml`, `.owl` | RDF/XML | read element by element |
| `.ttl`, `.trig` | Turtle, TriG | the whole text is in memory while parsing |
| `.jsonld`, `.json` | JSON-LD | all values are in memory while parsing |

Texts may be literals (`skos:prefLabel "heart"@en`), SKOS-XL labels
(`skosxl:prefLabel [skosxl:literalForm "heart"@en]`) or nodes with an `rdf:value`, as in some definitions. Only texts in
the requested languages and links between concepts are stored in memory.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable
from gzip import BadGzipFile
from io import BufferedIOBase
from pathlib import Path, PurePosixPath
from reprlib import repr as shortened
from typing import IO, TYPE_CHECKING, Any
from xml.parsers import expat

from ..extras import needs_extra
from ..models.labels_gile import Label, LabelSet
from .files import data_suffix, open_binary
from .homonyms import check_choices, distinguish, join_descriptions
from .json_text import check_parts
from .report import ReadReport
from .schema import clean_text

if TYPE_CHECKING:
    from rdflib.store import Store

DESCRIPTIONS = ("alt_labels", "definition", "broader")
"""Possible parts of the description of a concept."""

FORMATS = {
    ".nt": "nt",
    ".nq": "nquads",
    ".rdf": "xml",
    ".xml": "xml",
    ".owl": "xml",
    ".ttl": "turtle",
    ".trig": "trig",
    ".jsonld": "json-ld",
    ".json": "json-ld",
}
"""rdflib format names by file suffix."""

_MAX_ENTITY = 256
_MAX_URI = 8192
_FEW_STATEMENTS = 100_000
_MAX_LINE = 1 << 18
"""Maximum bytes of an N-Triples line: rdflib searches the line again for every 2 KB that it reads."""
_MAX_PARTS = 5000
_SKOS = "http://www.w3.org/2004/02/skos/core#"
_XL = "http://www.w3.org/2008/05/skos-xl#"
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_DEPRECATED = "http://www.w3.org/2002/07/owl#deprecated"
_TEXTS = {
    f"{_SKOS}prefLabel": "name",
    f"{_XL}prefLabel": "name",
    f"{_SKOS}altLabel": "alt_label",
    f"{_XL}altLabel": "alt_label",
    f"{_SKOS}definition": "definition",
    f"{_SKOS}scopeNote": "scope_note",
    f"{_XL}literalForm": "text",
    f"{_RDF}value": "text",
}
_LINKS = {  # and whether they are inverse
    f"{_SKOS}broader": ("broader", False),
    f"{_SKOS}narrower": ("broader", True),
    f"{_SKOS}inScheme": ("scheme", False),
    f"{_SKOS}topConceptOf": ("scheme", False),
    f"{_SKOS}hasTopConcept": ("scheme", True),
}


def load_skos(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    language: str | Iterable[str] = "en",
    describe: str | Iterable[str] = (),
    scheme: str | None = None,
    report: ReadReport | None = None,
) -> LabelSet:
    """Reads concepts as a label set. URIs are label ids, alternative labels synonyms, and `broader` has the parents.

    Concepts without a URI, deprecated concepts and concepts without a name in the languages are skipped and counted. Of
    several names in a language, the alphabetically first is used. If concepts have the same name and description, a
    text that distinguishes them is appended to the description: the name of the broader concept, or else the
    definition, the alternative labels, the notation or the last part of the URI. The report counts these concepts.

    rdflib parses about 40,000 statements per second of N-Triples, fewer of Turtle and half as many of RDF/XML. Use
    N-Triples for large vocabularies, if available.

    Args:
        paths: Files and folders (not searched recursively) of a vocabulary.
        language: Language tags in order of preference. `"en"` matches `en-GB` if `en` is missing. Untagged texts are
            used if there is no text in any of the languages.
        describe: Parts of the descriptions, in order: any of `"alt_labels"`, `"definition"` (or else the scope note)
            and `"broader"`, the names of ancestors from the top. Of several broader concepts, the first by URI is
            followed.
        scheme: URI of the concept scheme to read; by default all.
        report: Counts concepts and decides whether malformed input raises (the default).

    Returns:
        The concepts in natural order of their URIs, where 10 comes after 9.

    Raises:
        ImportError: If rdflib is not installed.
        FileNotFoundError: If a path does not exist.
        ValueError: If a path has no file of a known format, `describe` is invalid, or no concept is usable; also if a
            file is malformed, unless the report says to skip, which keeps everything before the damage.
    """
    report = ReadReport() if report is None else report
    requested = check_choices(describe, DESCRIPTIONS)
    vocabulary = _Vocabulary([language] if isinstance(language, str) else list(language))
    files = _find_files(paths)
    for path in files:
        report.files += 1
        _read_file(path, vocabulary, report)
    source = str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1:,} more"
    labels, hints = [], {}
    for concept in sorted(vocabulary.concepts, key=_natural_key):
        reason = vocabulary.reason_to_skip(concept, scheme)
        if reason is not None:
            report.leave_out(reason, concept)
            continue
        name = vocabulary.name(concept)
        broader = vocabulary.broader_names(concept)
        definitions = vocabulary.texts("definition", concept) or vocabulary.texts("scope_note", concept)
        alt_labels = tuple(text for text in vocabulary.texts("alt_label", concept) if text != name)
        texts = {
            "alt_labels": "; ".join(alt_labels),
            "definition": "".join(definitions[:1]),
            "broader": " > ".join(broader),
        }
        notation = min(vocabulary.notations.get(concept, [""]))
        last_part = re.split("[/#:]", concept.rstrip("/#:"))[-1]
        hints[concept] = ["".join(broader[-1:]), texts["definition"], texts["alt_labels"], notation, last_part]
        try:
            for text in (concept, name, texts["broader"], *hints[concept]):
                clean_text(text, "a text")
        except ValueError as error:
            report.problem("malformed record", f"{source}: {concept}: {error}")
            continue
        report.records += 1
        description = join_descriptions(texts[choice] for choice in requested)
        labels.append(Label(concept, name, description, synonyms=alt_labels, broader=vocabulary.broader(concept)))
    if not labels:
        raise ValueError(f"{source}: {vocabulary.summary(scheme)}; {report}")
    return distinguish(labels, hints, report, source)


class _Vocabulary:
    """The statements needed for labels."""

    def __init__(self, languages: list[str]) -> None:
        if not languages or not all(isinstance(tag, str) and tag for tag in languages):
            raise ValueError(f'language must be a tag such as "en", or several, got {languages!r}')
        self.languages = [tag.lower() for tag in languages]
        self.statements = 0
        self.concepts: set[str] = set()
        self.deprecated: set[str] = set()
        self.notations: dict[str, list[str]] = defaultdict(list)
        # Texts of a role by subject, as (rank of the language, whether regional, tag, text), or nodes that have a text.
        self.stated: dict[str, dict[str, list[tuple[int, bool, str, str] | str]]] = {
            role: defaultdict(list) for role in _TEXTS.values()
        }
        self.links: dict[str, dict[str, set[str]]] = {role: defaultdict(set) for role, _ in _LINKS.values()}
        self.tags: Counter[str] = Counter()

    def add_text(self, role: str, subject: str, text: str, tag: str) -> None:
        """Stores a text if it is usable."""
        text, tag = " ".join(text.split()), tag.lower()
        if role in ("name", "text"):
            self.tags[tag] += 1
        if not text:
            return
        if not tag:
            self.stated[role][subject].append((len(self.languages), False, tag, text))
            return
        for rank, language in enumerate(self.languages):
            if tag == language or tag.startswith(f"{language}-"):
                self.stated[role][subject].append((rank, tag != language, tag, text))
                return

    def texts(self, role: str, subject: str) -> list[str]:
        """Returns the texts of a concept in the best available language, plain tags before regional tags."""
        result: set[tuple[int, bool, str, str] | str] = set()
        for value in self.stated[role].get(subject, ()):
            result.update(self.stated["text"].get(value, ()) if isinstance(value, str) else [value])
        ranked = sorted(value for value in result if not isinstance(value, str))
        return list(dict.fromkeys(text for rank, _, _, text in ranked if rank == ranked[0][0]))

    def name(self, concept: str) -> str:
        """Returns the name, or an empty string."""
        return next(iter(self.texts("name", concept)), "")

    def reason_to_skip(self, concept: str, scheme: str | None) -> str | None:
        """Returns the reason why a concept is not a usable label, or None."""
        if concept.startswith("_:"):
            return "without a URI"
        if concept in self.deprecated:
            return "deprecated"
        if scheme is not None and scheme not in self.links["scheme"].get(concept, ()):
            return "in another scheme"
        return None if self.name(concept) else f"without a name in {self.format_languages()}"

    def broader(self, concept: str) -> tuple[str, ...]:
        """Returns the parents of a concept."""
        return tuple(sorted((self.links["broader"].get(concept, set()) & self.concepts) - {concept}, key=_natural_key))

    def broader_names(self, concept: str) -> list[str]:
        """Returns the names of ancestors, from the top."""
        path, seen = [], {concept}
        while parents := [parent for parent in self.broader(concept) if parent not in seen]:
            concept = parents[0]
            seen.add(concept)
            path.append(self.name(concept))
        return [name for name in reversed(path) if name]

    def format_languages(self) -> str:
        """Formats the requested languages."""
        return " or ".join(self.languages)

    def summary(self, scheme: str | None) -> str:
        """Summarizes the content for the message that no concept is usable."""
        tags = ", ".join(f"{tag or 'no language'} ({count:,})" for tag, count in self.tags.most_common(30))
        languages = self.format_languages()
        text = f"{len(self.concepts):,} concepts; names requested in {languages}, available in {tags or 'none'}"
        if scheme is not None:
            schemes = sorted(set().union(*self.links["scheme"].values()))
            text += f"; scheme requested {scheme}, available {', '.join(schemes[:30]) or 'none'}"
        return text


def _read_file(path: Path, vocabulary: _Vocabulary, report: ReadReport) -> None:
    with needs_extra("data", "load_skos"):
        from rdflib import Graph
        from rdflib.parser import PythonInputSource
    before = vocabulary.statements
    kind = FORMATS[data_suffix(path)]
    # Relative URIs depend neither on the folder nor on compression.
    base = PurePosixPath("/", path.with_suffix("").name if path.suffix.lower() == ".gz" else path.name).as_uri()
    try:
        if kind == "xml":
            _check_entities(path)
        with open_binary(path, in_memory=kind != "nt") as stream, warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # the parsers of rdflib use deprecated functions of rdflib
            if stream.read(3) != b"\xef\xbb\xbf":  # a byte order mark
                stream.seek(0)
            source: Any = stream
            if kind == "json-ld":
                source = PythonInputSource(_load_json(stream), base)
            elif kind == "nt":
                source = _Lines(stream)
            Graph(store=_make_store(vocabulary, _max_statements(path))).parse(source, format=kind, publicID=base)
        if vocabulary.statements == before:
            raise ValueError("no statements")
    except Exception as error:  # invalid data can raise any exception
        if isinstance(error, (OSError, MemoryError)) and not isinstance(error, BadGzipFile):
            raise
        report.problem("damaged file", f"{path}: {' '.join(str(error).split())[:300]}")


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


def _check_entities(path: Path) -> None:
    """Refuses entities longer than a prefix, since rdflib takes hours to expand nested entities."""
    declared: set[str] = set()
    inside: list[str] = []
    parts = 0

    def declare(name: str, is_parameter: bool, value: str | None, *_: object) -> None:
        if value is not None and (is_parameter or "&" in value or len(value) > _MAX_ENTITY):
            raise ValueError(
                f"the entity {shortened(name)} is not a short text, like an XML bomb; replace it by its value"
            )
        declared.add(name)

    def start(name: str, _: object) -> None:
        nonlocal parts
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


def _max_statements(path: Path) -> int:
    """Returns the largest number of statements: a file has more bytes than statements, compressed or not."""
    return max(_FEW_STATEMENTS, path.stat().st_size)


def _make_store(vocabulary: _Vocabulary, max_statements: int) -> Store:
    from rdflib import BNode, Literal
    from rdflib.store import Store

    def name(node: object) -> str:
        return f"_:{node}" if isinstance(node, BNode) else str(node)

    class Statements(Store):
        """Store that receives the statements of rdflib parsers; an indexed graph needs many times the memory."""

        context_aware = graph_aware = True
        statements = 0

        def add(self, triple: Any, context: Any, quoted: bool = False) -> None:
            vocabulary.statements += 1
            self.statements += 1
            if self.statements > max_statements:
                raise ValueError(
                    f"more than {max_statements:,} statements, more than its bytes, like a decompression bomb; if you "
                    "trust it, decompress it first"
                )
            subject, predicate, value = triple
            predicate = str(predicate)
            for node in (subject, predicate, () if isinstance(value, Literal) else value):
                if len(node) > _MAX_URI:  # a prefix may expand to a million characters
                    raise ValueError(f"a URI is longer than {_MAX_URI:,} characters: {node[:80]}...")
            if predicate in _TEXTS:
                role = _TEXTS[predicate]
                if isinstance(value, Literal):
                    vocabulary.add_text(role, name(subject), str(value), value.language or "")
                else:
                    vocabulary.stated[role][name(subject)].append(name(value))
            elif predicate in _LINKS:
                role, reverse = _LINKS[predicate]
                start, end = (value, subject) if reverse else (subject, value)
                vocabulary.links[role][name(start)].add(name(end))
            elif predicate == f"{_RDF}type" and str(value) == f"{_SKOS}Concept":
                vocabulary.concepts.add(name(subject))
            elif predicate == f"{_SKOS}notation":
                vocabulary.notations[name(subject)].append(str(value))
            elif predicate == _DEPRECATED and str(value).lower() in ("true", "1"):
                vocabulary.deprecated.add(name(subject))

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


def _find_files(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[Path]:
    result: dict[Path, None] = {}
    for name in [paths] if isinstance(paths, (str, os.PathLike)) else paths:
        path = Path(name)
        if name == "" or not path.exists():  # Path("") is the current folder
            raise FileNotFoundError(f"no file or folder {str(name)!r} (in {Path.cwd()})")
        files = sorted(child for child in path.iterdir() if child.is_file()) if path.is_dir() else [path]
        readable = [file for file in files if data_suffix(file) in FORMATS]
        if not readable:
            raise ValueError(f"nothing to read at {path}: expected {', '.join(FORMATS)}, each with or without .gz")
        result.update(dict.fromkeys(file.resolve() for file in readable))
    if not result:
        raise ValueError("paths must name at least one file or folder, got none")
    return list(result)


def _natural_key(uri: str) -> list[Any]:
    # Numbers by length and digits, since int() refuses very long numbers.
    parts = re.split("([0-9]+)", uri)
    return [(len(part.lstrip("0")), part.lstrip("0"), part) if index % 2 else part for index, part in enumerate(parts)]
