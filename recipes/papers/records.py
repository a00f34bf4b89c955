"""Reader of abstracts with MeSH headings, from any mix of MEDLINE and BioASQ files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hf_gile.data.files import Paths, data_suffix, find_files, import_lxml
from hf_gile.data.loading import Piece, load_pieces
from hf_gile.data.report import ReadReport
from hf_gile.data.table_files import file_pieces
from papers.bioasq import format_of, read_bioasq
from papers.medline import Record
from papers.revisions import Revisions, load_revisions, missing_files, read_current, read_revisions

if TYPE_CHECKING:
    from datasets import Dataset, Features, IterableDataset
    from numpy.typing import NDArray

SUFFIXES = (".xml", ".json", ".jsonl")

# Part of the cache key, which does not cover this code: increment it when the resulting records change.
_VERSION = 3
_PMIDS = 10**8  # of up to eight digits
_BATCH = 1 << 20


def read_records(
    paths: Paths,
    report: ReadReport | None = None,
    *,
    encoding: str = "utf-8",
    ui_of: Mapping[str, str] | None = None,
) -> Iterator[Record]:
    """Reads the records with both an abstract and headings.

    The suffix determines the format: `.xml` (MEDLINE), `.json` (BioASQ) or `.jsonl`, each with or without `.gz`. XML
    files form a baseline with updates: in the order of their names, later files revise and delete citations of earlier
    files. Superseded citations are skipped and counted, and so are gaps in the numbers of files. Any other repeated
    pmid is an error; if errors are skipped, its first record is used.

    Args:
        paths: Files, folders and globs.
        report: Counts skipped input and decides whether malformed input raises (the default).
        encoding: Encoding of BioASQ files; see `read_bioasq`. XML files declare theirs.
        ui_of: Heading ids for BioASQ files; see `read_bioasq`.

    Returns:
        An iterator over the records.

    Raises:
        ImportError: If there are XML files and lxml is not installed.
        FileNotFoundError: If a path does not exist.
        ValueError: If a path has no file of a known format. While iterating: if input is malformed, unless the report
            says to skip, or if no record can be used.
    """
    report = ReadReport() if report is None else report
    return _iterate_records(_find_files(paths, report), report, encoding, ui_of)


def load_records(
    paths: Paths,
    *,
    on_error: Literal["raise", "skip"] = "raise",
    encoding: str = "utf-8",
    ui_of: Mapping[str, str] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    num_proc: int | None = None,
    streaming: bool = False,
) -> tuple[Dataset | IterableDataset, ReadReport]:
    """Reads records like `read_records` into a memory-mapped `datasets.Dataset`, or a stream.

    The result is cached. The files are read again when the size or modification time of a file changes, or the
    arguments do. Several processes divide the files, and also the parts of a large uncompressed `.jsonl` file.

    Args:
        paths: Files, folders and globs.
        on_error: `"raise"`, or `"skip"` to skip and count malformed input.
        encoding: Encoding of BioASQ files; see `read_bioasq`.
        ui_of: Heading ids for BioASQ files; see `read_bioasq`.
        cache_dir: Cache folder; by default the cache of `datasets`.
        num_proc: Number of processes, which does not affect the records.
        streaming: Whether to return an `IterableDataset`, which reads during iteration. XML files are searched for
            revisions first. Repeated pmids are detected within each process.

    Returns:
        The records and the read report (also from the cache). For a stream, the report counts what this process reads.

    Raises:
        ImportError: If datasets is not installed, or there are XML files and lxml is not.
        FileNotFoundError: If a path does not exist.
        ValueError: If input is malformed and `on_error` is `"raise"`, or if no record can be used.
    """
    report = ReadReport(on_error)
    files = _find_files(paths, report)
    xml = _select_xml(files)
    pieces = _make_pieces(files)
    read = partial(
        _read_piece,
        encoding=encoding,
        ui_of=ui_of,
        revisions=load_revisions(xml, num_proc=num_proc, cache_dir=cache_dir) if xml else None,
        seen=_Pmids() if streaming else None,
    )
    piece_reports: list[ReadReport] = []
    records = load_pieces(
        read,
        pieces,
        record_features,
        key=["records", _VERSION, encoding, sorted((ui_of or {}).items())],
        report=report,
        num_proc=num_proc,
        streaming=streaming,
        cache_dir=cache_dir,
        piece_reports=piece_reports,
    )
    if not streaming:
        records = _drop_repeated(records, pieces, piece_reports, report)
    return records, report


def _find_files(paths: Paths, report: ReadReport) -> list[Path]:
    files = find_files(paths, SUFFIXES)
    if _select_xml(files):
        import_lxml()
    for name in missing_files(files):
        report.leave_out("missing file", f"{name} is missing between files with lower and higher numbers")
    return files


def _select_xml(files: list[Path]) -> list[Path]:
    return [path for path in files if data_suffix(path) == ".xml"]


def _make_pieces(files: list[Path]) -> list[Piece]:
    pieces: list[Piece] = []
    for path in files:
        pieces += [Piece(str(path))] if data_suffix(path) == ".xml" else file_pieces(path, format_of(path))
    return pieces


def _iterate_records(
    files: list[Path], report: ReadReport, encoding: str, ui_of: Mapping[str, str] | None
) -> Iterator[Record]:
    before = report.records
    xml = _select_xml(files)
    revisions = read_revisions(xml) if xml else None
    seen = _Pmids()
    for piece in _make_pieces(files):
        yield from _read_piece(piece, report, encoding=encoding, ui_of=ui_of, revisions=revisions, seen=seen)
    if report.records == before:
        raise ValueError(f"{', '.join(map(str, files[:3]))}: no record has both an abstract and headings: {report}")


def _read_piece(
    piece: Piece,
    report: ReadReport,
    *,
    encoding: str,
    ui_of: Mapping[str, str] | None,
    revisions: Revisions | None,
    seen: _Pmids | None,
) -> Iterator[Any]:
    path = piece.path
    if data_suffix(Path(path)) == ".xml":
        assert revisions is not None
        report.files += 1
        records = read_current(path, report, revisions.of(path))
    else:
        records = read_bioasq(piece, report, encoding=encoding, ui_of=ui_of)
    for number, record in enumerate(records):
        if not record["abstractText"].strip():
            report.leave_out("without abstract", f"{path}: pmid {record['pmid']}")
        elif not record["meshUI"]:
            report.leave_out("without headings", f"{path}: pmid {record['pmid']}")
        elif seen is not None and seen.is_repeated(record["pmid"], piece, number):
            _report_repeated(path, record["pmid"], report)
        else:
            report.records += 1
            yield record


def _report_repeated(path: str, pmid: str, report: ReadReport) -> None:
    report.problem("repeated pmid", f"{path}: pmid {pmid} was read before")


def record_features() -> Features:
    """Returns the features of a `Record`."""
    from datasets import Features, List, Value

    texts = {key: Value("string") for key in ("pmid", "title", "abstractText")}
    lists = {key: List(Value("string")) for key in ("meshUI", "meshMajor")}
    return Features({**texts, "year": Value("int32"), **lists})


def _drop_repeated(dataset: Dataset, pieces: list[Piece], piece_reports: list[ReadReport], report: ReadReport) -> Any:
    """Handles pmids repeated across pieces, which a single process cannot detect."""
    rows = _find_repeated(dataset.data.column("pmid"))
    if len(rows) == 0:
        return dataset
    stops = np.cumsum([piece_report.records for piece_report in piece_reports])
    for row in rows.tolist():
        piece = pieces[int(np.searchsorted(stops, row, side="right"))]
        _report_repeated(piece.path, dataset.data.column("pmid")[row].as_py(), report)
    report.records -= len(rows)
    return dataset.filter(_is_unique, with_indices=True, input_columns=[], batched=True, fn_kwargs={"repeated": rows})


def _is_unique(rows: list[int], repeated: NDArray[np.int64]) -> list[bool]:
    return np.isin(rows, repeated, invert=True).tolist()


def _find_repeated(column: Any) -> NDArray[np.int64]:
    import pyarrow.compute as pc

    numbers_seen = np.zeros(_PMIDS, bool)
    texts_seen: set[str] = set()
    repeated_rows = []
    for start in range(0, len(column), _BATCH):
        pmids = column.slice(start, _BATCH).combine_chunks()
        is_numeric = pc.match_substring_regex(pmids, "^[1-9][0-9]{0,7}$")
        indices = np.flatnonzero(is_numeric.to_numpy(zero_copy_only=False))
        numbers = pmids.filter(is_numeric).cast("uint32").to_numpy()
        repeated = np.ones(len(numbers), bool)
        repeated[np.unique(numbers, return_index=True)[1]] = False
        repeated |= numbers_seen[numbers]
        numbers_seen[numbers] = True
        repeated_rows.append(start + indices[repeated])
        for index in np.flatnonzero(~is_numeric.to_numpy(zero_copy_only=False)).tolist():
            pmid = pmids[index].as_py()
            if pmid in texts_seen:
                repeated_rows.append(np.array([start + index]))
            texts_seen.add(pmid)
    return np.sort(np.concatenate([np.zeros(0, np.int64), *repeated_rows]))


class _Pmids:
    """A bit set of pmids, as a Python set for all of MEDLINE would take gigabytes.

    Each record is checked once, so a piece can be read again, as in every epoch of a stream.
    """

    def __init__(self) -> None:
        self.bits = bytearray(_PMIDS // 8)
        self.texts: set[str] = set()
        self.checked: dict[Piece, int] = {}
        self.repeated: set[tuple[Piece, int]] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Pmids, ()  # another process starts empty

    def is_repeated(self, pmid: str, piece: Piece, number: int) -> bool:
        """Checks whether an earlier record has the same pmid.

        Args:
            pmid: The pmid.
            piece: Piece with the record.
            number: Number of the record within the piece, from 0. All records before it must have been checked.

        Returns:
            Whether the pmid is repeated.
        """
        if number >= self.checked.get(piece, 0):
            self.checked[piece] = number + 1
            if self._is_known(pmid):
                self.repeated.add((piece, number))
        return (piece, number) in self.repeated

    def _is_known(self, pmid: str) -> bool:
        if not (pmid.isascii() and pmid.isdigit() and pmid[0] != "0" and len(pmid) <= 8):
            is_known = pmid in self.texts
            self.texts.add(pmid)
            return is_known
        index, bit = int(pmid) >> 3, 1 << (int(pmid) & 7)
        is_known = bool(self.bits[index] & bit)
        self.bits[index] |= bit
        return is_known
