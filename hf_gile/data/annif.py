r"""Reader of corpora and vocabularies of Annif, the subject indexing tool for libraries.

Short texts, one document per line with the URIs of its subjects: `.tsv` (no quotes, no header), `.csv` or `.jsonl`:

    On mice.<TAB><http://example.org/mice> <http://example.org/rats>

    text,subject_uris
    On mice.,<http://example.org/mice> <http://example.org/rats>

    {"text": "On mice.", "subjects": [{"uri": "http://example.org/mice"}, {"uri": "http://example.org/rats"}]}

Long texts, a folder with two files per document: `NAME.txt`, and its subjects in `NAME.tsv`, or in `NAME.key` with the
names of subjects, which are then the label ids:

    <http://example.org/mice><TAB>Mice                  Mice
    <http://example.org/rats><TAB>Rats                  Rats

Vocabularies: `.tsv`, with classification codes in the third column, or `.csv` with labels in several languages.
`load_skos` reads SKOS files.

    <http://example.org/mice><TAB>Mice<TAB>599.35

    uri,label_en,label_fi,notation
    http://example.org/mice,Mice,Hiiret,599.35

All files are UTF-8 and may be compressed with gzip.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any, Literal

from ..models.labels_gile import Label, LabelSet
from .files import Paths, data_suffix, find_files, read_into_memory
from .homonyms import make_labels
from .loading import Piece, document_features, load_pieces, short_names, useful_documents
from .report import LeaveOut, ReadReport
from .schema import Row, clean_label, clean_text, document_id
from .sniffing import Format, sniff
from .table_files import describe_missing_column, file_pieces, read_rows

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset

# Part of the cache key, which does not cover this code: increment it when the resulting documents change.
_VERSION = 1
_CHUNK = 1000
_FORMS = {".tsv": Format("text"), ".csv": Format("csv"), ".jsonl": Format("jsonl")}  # Annif's, whatever a file has
_URI = re.compile(r"<([^<>\s]+)>|([^<>\s:]+:[^<>\s]+)")


def load_annif(
    paths: Paths,
    *,
    on_error: Literal["raise", "skip"] = "raise",
    num_proc: int | None = None,
    streaming: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
) -> "tuple[Dataset | IterableDataset, ReadReport]":
    """Reads the documents of Annif corpora that have a text. Those without subjects are negatives.

    Args:
        paths: Files, folders and globs: `.tsv`, `.csv` and `.jsonl` files of short texts, folders of long texts.
        on_error: `"raise"`, or `"skip"` to skip and count malformed documents.
        num_proc: Number of processes.
        streaming: Whether to return a stream instead of a dataset on disk.
        cache_dir: Cache folder; by default the cache of `datasets`.

    Returns:
        Documents with the columns `id` (from the file, otherwise the file name and line, or the file name of a long
        text), `text` and `labels` (distinct URIs, or names in a `.key` file), and the read report.

    Raises:
        ImportError: If datasets is not installed.
        FileNotFoundError: If a path does not exist.
        ValueError: If no document is usable, or input is malformed and `on_error` is `"raise"`.
    """
    report = ReadReport(on_error)
    readable = find_files(paths, (".tsv", ".csv", ".jsonl", ".txt"))
    files = [file for file in readable if data_suffix(file) != ".tsv" or _find_sibling(file, ".txt") is None]
    if not files:
        text = _find_sibling(readable[0], ".txt")
        raise ValueError(f"{readable[0]} contains the subjects of {text}: pass their folder")
    pieces: list[Piece] = []
    chunks: dict[str, list[Path]] = {}  # long texts by the first of a piece
    states: list[object] = []
    for file in files:
        if data_suffix(file) != ".txt":
            pieces += file_pieces(file, _FORMS[data_suffix(file)])
            continue
        if not pieces or len(chunks.get(pieces[-1].path, [])) % _CHUNK == 0:
            pieces.append(Piece(str(file)))
        chunks.setdefault(pieces[-1].path, []).append(file)
        both = filter(None, (file, _find_subjects(file)))
        states += [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in both]
    names = short_names(files)
    dataset = load_pieces(
        partial(_read_documents, chunks=chunks, names=names),
        pieces,
        document_features,
        key=["annif", _VERSION, states, names],
        report=report,
        num_proc=num_proc,
        streaming=streaming,
        cache_dir=cache_dir,
    )
    if not streaming and report.without_labels == report.records:
        raise ValueError(f"{', '.join(map(str, files[:3]))}: no document has a subject")
    return dataset, report


def load_annif_vocabulary(
    path: str | os.PathLike[str],
    language: str | Sequence[str] | None = None,
    report: ReadReport | None = None,
) -> LabelSet:
    """Reads an Annif vocabulary.

    Subjects with the same name are distinguished by their notation, or else their URI, as a description.

    Args:
        path: The `.tsv` or `.csv` file.
        language: Language of the names in a `.csv` file, or several in order of preference. Optional if the file has
            a single language.
        report: Counts subjects, and skipped subjects without a name in these languages; decides whether malformed
            subjects raise (the default).

    Returns:
        The subjects in file order, with their URIs as ids.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If no subject has a name, or the language is missing; also if a subject is malformed or repeated,
            unless the report says to skip.
    """
    report = report or ReadReport()
    file, *more = find_files(path, (".tsv", ".csv"))
    if more:
        raise ValueError(f"{path}: expected a single file of subjects, got {len(more) + 1}")
    if data_suffix(file) == ".tsv":
        rows: Iterator[tuple[str, list[str]]] = (
            (where, line.split("\t")) for where, _, line in _read_lines(Piece(str(file)), report)
        )
    else:
        rows = _read_csv_subjects(file, report, (language,) if isinstance(language, str) else language)
    return make_labels(rows, _read_subject, report, str(file))


def _read_subject(cells: Sequence[str]) -> tuple[Label, list[str]]:
    if len(cells) == 1:
        raise ValueError(f"expected a URI, a tab and a name, got {shortened(cells[0])}")
    uri, name, notation = (clean_label(clean_text(cell, "a cell")) for cell in [*cells, ""][:3])
    uri = _parse_uri(uri)
    if not name:
        raise LeaveOut("without name", uri)
    return Label(uri, name), [notation]


def _read_csv_subjects(
    file: Path,
    report: ReadReport,
    languages: Sequence[str] | None,
) -> Iterator[tuple[str, list[str]]]:
    for where, _, row in read_rows(Piece(str(file)), report, sniff(file, names=["uri"]), {"uri": ""}):
        if languages is None:
            languages = [column.removeprefix("label_") for column in row if column.startswith("label_")]
            if len(languages) != 1:
                raise ValueError(f"{file}: choose a language from {', '.join(languages) or 'none'}")
        columns = [f"label_{tag}" for tag in languages]
        if missing := [column for column in columns if column not in row]:
            raise ValueError(f"{file}: {describe_missing_column(missing[0], row)}")
        name = next((row[column] for column in columns if row[column].strip()), "")
        yield where, [row["uri"], name, row.get("notation", "")]


def _read_documents(
    piece: Piece,
    report: ReadReport,
    *,
    chunks: Mapping[str, list[Path]],
    names: Mapping[str, str],
) -> Iterator[dict[str, Any]]:
    suffix = data_suffix(Path(piece.path))
    name = names[piece.path]
    if suffix == ".txt":
        rows: Iterable[tuple[str, str, Any]] = [
            (str(file), re.sub(r"\.txt(\.gz)?\Z", "", names[str(file)]), file) for file in chunks[piece.path]
        ]
        report.files += len(chunks[piece.path])
    elif suffix == ".tsv":
        rows = ((where, f"{name}:{at}", line) for where, at, line in _read_lines(piece, report))
    else:
        subjects = "subject_uris" if suffix == ".csv" else "subjects"
        located = read_rows(piece, report, _FORMS[suffix], {"text": ""}, {subjects: ""})
        rows = ((where, f"{name}:{position}", row) for where, position, row in located)
    parsers: dict[str, Callable[[Any], Row]] = {".txt": _read_files, ".tsv": _parse_line, ".csv": dict, ".jsonl": dict}

    def read(position: str, source: object) -> dict[str, Any]:
        row = parsers[suffix](source)
        key = document_id(row.get("document_id") or position, "document_id")
        return {"id": key, "text": clean_text(row.get("text"), "text").strip(), "labels": _read_labels(row)}

    return useful_documents(report.read_each(rows, read, "malformed document"), report)


def _read_files(file: Path) -> Row:
    """Returns a long text and its subjects, from URIs or names in another file."""
    subjects = _find_subjects(file)
    if subjects is None:
        return {"text": _read_text(file)}
    key = "uri" if data_suffix(subjects) == ".tsv" else "label"
    labels = [line.partition("\t")[0] for line in map(str.strip, _read_text(subjects).split("\n"))]
    for number, label in enumerate(labels, 1):
        try:
            if label and key == "uri":
                _parse_uri(label)
        except ValueError as error:
            raise ValueError(f"{subjects}: line {number:,}: {error}") from None
    return {"text": _read_text(file), "subjects": [{key: label} for label in labels if label]}


def _parse_line(line: str) -> Row:
    text, tab, uris = line.partition("\t")
    if not tab:
        raise ValueError(f"expected a text, a tab and URIs, got {shortened(line)}")
    return {"text": text, "subject_uris": uris}


def _read_labels(row: Row) -> list[str]:
    subjects = row.get("subjects") or []
    if not isinstance(subjects, list) or not all(isinstance(subject, dict) for subject in subjects):
        raise ValueError(f"subjects must be a list of objects, got {shortened(subjects)}")
    uris = clean_text(row.get("subject_uris"), "subject_uris").split()
    return list(dict.fromkeys([*map(_parse_uri, uris), *map(_read_subject_id, subjects)]))


def _read_subject_id(subject: Mapping[str, Any]) -> str:
    if subject.get("uri") is None:
        return document_id(subject.get("label"), "label")
    return _parse_uri(clean_text(subject["uri"], "uri"))


def _read_lines(piece: Piece, report: ReadReport) -> Iterator[tuple[str, str, str]]:
    form = Format("text" if Path(piece.path).stat().st_size else "empty")
    for where, position, row in read_rows(piece, report, form):
        if row["text"].strip():
            yield where, position, row["text"]


def _read_text(path: Path) -> str:
    try:
        return read_into_memory(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: byte {error.start + 1:,} is not UTF-8, the encoding of Annif files") from None


def _parse_uri(text: str) -> str:
    match = _URI.fullmatch(text)
    if match is None:
        raise ValueError(f"expected a URI as <http://example.org/mice>, got {shortened(text)}")
    return match[1] or match[2]


def _find_subjects(text: Path) -> Path | None:
    return _find_sibling(text, ".tsv") or _find_sibling(text, ".key")


def _find_sibling(file: Path, suffix: str) -> Path | None:
    stem = Path(re.sub(r"\.gz$", "", file.name, flags=re.IGNORECASE)).stem
    siblings = (file.with_name(stem + end) for end in (suffix, f"{suffix}.gz"))
    return next(filter(Path.is_file, siblings), None)
