"""Reader of MeSH descriptors (Medical Subject Headings) as labels.

The first bytes of a file determine its format, one of three; each may be compressed with gzip. XML, as distributed by
the National Library of Medicine (descYYYY.xml; only the elements used are shown):

    <DescriptorRecordSet LanguageCode="eng">
      <DescriptorRecord DescriptorClass="1">
        <DescriptorUI>D006333</DescriptorUI>
        <DescriptorName><String>Heart Failure</String></DescriptorName>
        <TreeNumberList><TreeNumber>C14.280.434</TreeNumber></TreeNumberList>
        <ConceptList>
          <Concept PreferredConceptYN="Y">
            <ScopeNote>The heart pumps too little blood.</ScopeNote>
            <TermList>
              <Term IsPermutedTermYN="N"><String>Heart Failure</String></Term>
              <Term IsPermutedTermYN="N"><String>Cardiac Failure</String></Term>
              <Term IsPermutedTermYN="Y"><String>Failure, Cardiac</String></Term>
            </TermList>
          </Concept>
        </ConceptList>
      </DescriptorRecord>
    </DescriptorRecordSet>

ASCII (dYYYY.bin), where a permuted term is an entry without further fields:

    *NEWRECORD
    RECTYPE = D
    MH = Heart Failure
    PRINT ENTRY = Cardiac Failure|T047|NON|EQV|NLM (1966)|741111|abcdef
    ENTRY = Failure, Cardiac
    MN = C14.280.434
    MS = The heart pumps too little blood.
    UI = D006333

JSON lines, which do not distinguish permuted terms; all keys but `ui` and `name` may be missing or null, and other keys
are ignored:

    {"ui": "D006333", "name": "Heart Failure", "synonyms": ["Cardiac Failure", "Failure, Cardiac"],
     "tree": ["C14.280.434"], "definition": "The heart pumps too little blood."}

The first two are available from https://www.nlm.nih.gov/databases/download/mesh.html.
"""

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any

from ..models.labels_gile import Label, LabelSet
from .files import open_binary, parse_xml
from .homonyms import distinguish, join_descriptions
from .loading import Piece
from .report import ReadReport
from .schema import Row, as_names, clean_text, plain_text
from .sniffing import Requested, sniff
from .table_files import Lines, read_lines, read_rows

if TYPE_CHECKING:
    from lxml.etree import _Element

DESCRIPTIONS = ("entry_terms", "scope_note", "tree_path")
"""Possible parts of the description of a descriptor."""

_MAX_RECORD_LINES = 100_000


@dataclass(frozen=True)
class Descriptor:
    """A MeSH heading.

    Args:
        ui: Permanent id.
        name: The heading.
        entry_terms: Synonyms in file order, without the heading.
        scope_note: Definition.
        tree_numbers: Positions in the hierarchy; the parent of `"C14.280.434"` is `"C14.280"`.
        permuted_terms: Variants of heading and entry terms in word order or grammatical number.
    """

    ui: str
    name: str
    entry_terms: tuple[str, ...] = ()
    scope_note: str = ""
    tree_numbers: tuple[str, ...] = ()
    permuted_terms: tuple[str, ...] = ()


def read_mesh(
    path: str | os.PathLike[str],
    report: ReadReport | None = None,
    *,
    encoding: str | None = None,
) -> Iterator[Descriptor]:
    """Reads the descriptors of a file in constant memory, apart from their ids.

    Qualifiers and supplementary concepts are skipped and counted.

    Args:
        path: The file, in one of the formats above.
        report: Counts descriptors and decides whether malformed input raises (the default).
        encoding: Encoding, such as `"latin-1"` of old ASCII files; by default as seen in the file. XML files declare
            theirs.

    Yields:
        The descriptors in file order.

    Raises:
        FileNotFoundError: If the file does not exist.
        ImportError: If the file is XML and lxml is not installed.
        ValueError: If the file is not MeSH, or a descriptor is malformed or repeated, unless the report says to skip.
    """
    report = report or ReadReport()
    form = sniff(path, Requested(encoding=encoding).check())
    piece = Piece(os.fspath(path))
    parse: Callable[[Any], Descriptor | None] = _parse_json
    rows = read_rows(piece, report, form)
    records: Iterator[tuple[str, Any]] = ((where, row) for where, _, row in rows)
    if form.kind == "mesh":
        parse = _parse_xml
        records = _iterate_xml(path)
    elif form.kind == "ascii":
        parse = _parse_ascii
        records = _iterate_ascii(read_lines(piece, form.encoding), piece.path)
    elif form.kind not in ("json", "jsonl"):
        raise ValueError(
            f"{path}: expected MeSH in XML (a DescriptorRecordSet), ASCII or JSON lines, "
            f"got content of the kind {form.kind!r}"
        )
    if parse is not _parse_json:
        report.files += 1
        records = report.until_damage(records, path)
    first: dict[str, str] = {}
    for where, descriptor in report.read_each(records, parse, "malformed record"):
        if descriptor is None:
            report.leave_out("not a descriptor", where)
        elif first.setdefault(descriptor.ui, where) != where:
            problem = f"{descriptor.ui} is already defined in {first[descriptor.ui]}; ids must be unique"
            report.problem("repeated id", f"{where}: {problem}")
        else:
            report.records += 1
            yield descriptor


def load_mesh(
    path: str | os.PathLike[str],
    describe: str | Iterable[str] = "scope_note",
    report: ReadReport | None = None,
    *,
    encoding: str | None = None,
) -> LabelSet:
    """Reads MeSH as a label set. Descriptor ids are label ids, entry terms synonyms, and `broader` has the parents.

    Args:
        path: The file, as in `read_mesh`.
        describe: Parts of the descriptions, in order: any of `"entry_terms"`, `"scope_note"` and `"tree_path"`, the
            names of ancestors from the top of the hierarchy. Half of the descriptors have several positions there, in
            arbitrary order, so all distinct ancestors are named.
        report: Counts descriptors and decides whether malformed input raises (the default).
        encoding: As in `read_mesh`.

    Returns:
        The descriptors in file order.

    Raises:
        ValueError: If `describe` is invalid or the file has no descriptors; unless the report says to skip, if a tree
            number is repeated. Also raises what `read_mesh` raises.
    """
    report = report or ReadReport()
    requested = as_names(describe, DESCRIPTIONS)
    descriptors = list(read_mesh(path, report, encoding=encoding))
    if not descriptors:
        raise ValueError(f"{path}: no descriptors: {report}")
    owners: dict[str, Descriptor] = {}  # by tree number
    for descriptor in descriptors:
        for number in descriptor.tree_numbers:
            owner = owners.setdefault(number, descriptor)
            if owner.name != descriptor.name:
                message = f"{path}: {descriptor.ui} has the tree number {number} of {owner.name!r}"
                report.problem("repeated tree number", message)
    labels = []
    hints = {}
    for descriptor in descriptors:
        texts = {
            "entry_terms": "; ".join(descriptor.entry_terms),
            "scope_note": descriptor.scope_note,
            "tree_path": _format_tree_path(descriptor, owners),
        }
        parents = [number.rpartition(".")[0] for number in descriptor.tree_numbers]
        uis = dict.fromkeys(owners[parent].ui for parent in parents if parent in owners)
        label = Label(
            descriptor.ui,
            descriptor.name,
            join_descriptions(texts[choice] for choice in requested),
            synonyms=descriptor.entry_terms,
            broader=tuple(ui for ui in uis if ui != descriptor.ui),
        )
        labels.append(label)
        hints[label.id] = [texts["tree_path"]]
    return distinguish(labels, hints, report, str(path))


def _iterate_xml(path: str | os.PathLike[str]) -> Iterator[tuple[str, "_Element"]]:
    with open_binary(path) as stream:
        for record in parse_xml(stream, "DescriptorRecord"):
            yield f"{path}: line {record.sourceline:,}", record


def _parse_xml(record: "_Element") -> Descriptor:
    terms: dict[bool, list[str | None]] = {False: [], True: []}  # by whether they are permuted
    for term in record.iterfind("ConceptList/Concept/TermList/Term"):
        terms[term.get("IsPermutedTermYN") == "Y"].append(term.findtext("String"))
    return _make_descriptor(
        ui=record.findtext("DescriptorUI"),
        name=record.findtext("DescriptorName/String"),
        terms=terms[False],
        permuted=terms[True],
        scope_note=record.findtext("ConceptList/Concept[@PreferredConceptYN='Y']/ScopeNote"),
        tree_numbers=[number.text for number in record.iterfind("TreeNumberList/TreeNumber")],
    )


def _iterate_ascii(lines: Lines, path: str) -> Iterator[tuple[str, list[tuple[int, str | ValueError]]]]:
    record: list[tuple[int, str | ValueError]] = []
    for number, line in chain(lines, [(0, "*NEWRECORD")]):
        text = line if isinstance(line, ValueError) else line.strip()
        if text == "*NEWRECORD":
            if record:
                yield f"{path}: line {record[0][0]:,}", record
            record = []
        if len(record) == _MAX_RECORD_LINES:
            raise ValueError(f"line {number:,}: a record has more than {_MAX_RECORD_LINES:,} lines")
        if text:
            record.append((number, text))


def _parse_ascii(record: list[tuple[int, str | ValueError]]) -> Descriptor | None:
    values: dict[str, list[str]] = defaultdict(list)
    for number, line in record[1:]:
        if isinstance(line, ValueError):
            raise ValueError(f"in line {number:,}, {line}")
        key, sign, value = line.partition("=")
        if not sign:
            raise ValueError(f"expected KEY = VALUE, got {shortened(line)} in line {number:,}")
        values[key.rstrip()].append(value.strip())
    for key in ("RECTYPE", "UI", "MH", "MS"):
        if len(values[key]) > 1:
            raise ValueError(f"{key} occurs {len(values[key])} times: records may be merged")
    if values["RECTYPE"] not in ([], ["D"]):
        return None
    entries = [entry.partition("|") for entry in values["PRINT ENTRY"] + values["ENTRY"]]
    return _make_descriptor(
        ui="".join(values["UI"]),
        name="".join(values["MH"]),
        terms=[term for term, _, fields in entries if fields],
        permuted=[term for term, _, fields in entries if not fields],
        scope_note="".join(values["MS"]),
        tree_numbers=values["MN"],
    )


def _parse_json(row: Row) -> Descriptor:
    if not {"ui", "name"} <= set(row):
        raise ValueError(f"expected an object with the keys ui and name, got {shortened(row)}")
    for key in ("synonyms", "tree"):
        if not isinstance(row.get(key), list | None):
            raise ValueError(f"{key} must be a list of text, got {shortened(row[key])}")
    definition = row.get("definition")
    return _make_descriptor(
        ui=row["ui"],
        name=row["name"],
        terms=row.get("synonyms") or [],
        permuted=[],
        scope_note=plain_text(definition) if isinstance(definition, str) else definition,
        tree_numbers=row.get("tree") or [],
    )


def _make_descriptor(
    *,
    ui: object,
    name: object,
    terms: list[Any],
    permuted: list[Any],
    scope_note: object,
    tree_numbers: list[Any],
) -> Descriptor:
    ui = _clean_line(ui, "the UI")
    name = _clean_line(name, "the name")
    if not ui or not name:
        raise ValueError(f"a descriptor needs a UI and a name, got {ui!r} and {name!r}")
    entry_terms = dict.fromkeys(_clean_line(term, f"an entry term of {ui}") for term in terms)
    permuted_terms = [_clean_line(term, f"a permuted term of {ui}") for term in permuted]
    numbers = tuple(_clean_line(number, f"a tree number of {ui}") for number in tree_numbers)
    for number in numbers:
        if not re.fullmatch(r"[A-Z][0-9]+(\.[0-9]+)*", number):
            raise ValueError(f"a tree number of {ui} must look like C14.280.434, got {number!r}")
    return Descriptor(
        ui,
        name,
        entry_terms=tuple(term for term in entry_terms if term not in ("", name)),
        scope_note=_clean_line(scope_note, f"the scope note of {ui}"),
        tree_numbers=numbers,
        permuted_terms=tuple(filter(None, permuted_terms)),
    )


def _clean_line(value: object, name: str) -> str:
    return " ".join(clean_text(value, name).split())


def _format_tree_path(descriptor: Descriptor, owners: Mapping[str, Descriptor]) -> str:
    paths = []
    used_names = {descriptor.name}
    for number in descriptor.tree_numbers:
        parts = number.split(".")
        ancestors = [".".join(parts[:depth]) for depth in range(1, len(parts))]
        path = [owners[ancestor].name for ancestor in ancestors if ancestor in owners]
        paths.append(" > ".join(name for name in path if name not in used_names))
        used_names.update(path)
    return "; ".join(filter(None, paths))
