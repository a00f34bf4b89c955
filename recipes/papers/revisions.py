"""Finds MEDLINE citations that are revised or deleted by later files.

The baseline of a year and its daily update files form a sequence, in the order of their names:
`pubmed24n0001.xml.gz` to `pubmed24n1219.xml.gz`, then `pubmed24n1220.xml.gz` and on. An update file contains
complete new or revised citations and ends with deletion notices. The current citation of a pmid is that with the
highest version (`<PMID Version="2">`), or the last among equal versions, unless a later notice deletes it. A citation
after the notice restores it.

All files are therefore scanned before the first citation is read. Files whose bytes are unambiguous are searched
without parsing, which is four times as fast.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hf_gile.data.files import open_binary
from hf_gile.data.loading import Piece, load_pieces
from hf_gile.data.report import ReadReport
from papers.medline import Record, elements, read_citation, read_elements

if TYPE_CHECKING:
    from datasets import Features
    from numpy.typing import NDArray

CURRENT, SUPERSEDED, DELETED = range(3)
"""Fate of a citation."""

_VERSION = 1  # version of this code, part of the cache key
_CHUNK = 1 << 22
_MAX_CITATION = 1 << 26
_PMIDS = 10**8  # of eight digits; memory is used only for existing ones

# Such a header cannot declare anything that changes the meaning of bytes.
_HEAD = re.compile(
    rb"""(?:\xef\xbb\xbf)?(?:<\?xml\s+version=["']1.0["'](?:\s+encoding=["'](?:utf-8|us-ascii)["'])?\s*\?>)?\s*"""
    rb"""(?:<!DOCTYPE\s[^<>\[]*>)?\s*<PubmedArticleSet\s*>""",
    re.IGNORECASE,
)
_PMID = rb"""<PMID(?:\s+Version="(\d{1,2})")?>([1-9]\d{0,7})</PMID>"""
# Outside comments, CDATA and instructions, which all start with a pattern that is checked, "<" is markup.
_MARKUP = re.compile(
    rb"<(?:PubmedArticle>\s*<MedlineCitation(?:\s[^<>]*[^<>/])?>\s*" + _PMID + rb"|"
    rb"DeleteCitation>((?:\s*<PMID[^<>]*>[1-9]\d{0,7}</PMID>)*\s*)</DeleteCitation>|"
    rb"([!?]|PubmedArticle(?!Set)|MedlineCitation|DeleteCitation))"
)


class Scan(NamedTuple):
    """Citations and deletions in a file.

    Args:
        pmids: `(citations,)` uint32 pmids; 0 for anything but a number of up to eight digits.
        versions: `(citations,)` uint8 versions.
        deletions: `(deletions, 2)` uint32: the number of preceding citations in the file, and the pmid to delete.
    """

    pmids: NDArray[np.uint32]
    versions: NDArray[np.uint8]
    deletions: NDArray[np.uint32]


@dataclass(frozen=True)
class Revisions:
    """Fates of the citations in a set of files.

    Args:
        fates: `(citations,)` uint8 for all files together: `CURRENT`, `SUPERSEDED` or `DELETED`; or an `.npy` file with
            them, shared by several processes.
        ranges: Maps each file to the range of its citations, as start and stop.
    """

    fates: NDArray[np.uint8] | str
    ranges: dict[str, tuple[int, int]]

    def of(self, path: str) -> bytes:
        """Returns the fates of a file's citations.

        Args:
            path: The file.

        Returns:
            One byte for each citation.
        """
        fates = np.load(self.fates, mmap_mode="r") if isinstance(self.fates, str) else self.fates
        return fates[slice(*self.ranges[path])].tobytes()


def read_revisions(files: Iterable[Path]) -> Revisions:
    """Scans files in this process.

    Args:
        files: MEDLINE files in any order; their names determine the sequence.

    Returns:
        Fates of their citations.
    """
    files = _sort_by_name(files)
    lengths = []

    def scans() -> Iterator[Scan]:
        for path in files:
            result = scan(path)
            lengths.append(len(result.pmids))
            yield result

    return Revisions(compute_fates(scans()), _compute_ranges(files, lengths))


def load_revisions(
    files: Iterable[Path], *, num_proc: int | None = None, cache_dir: str | os.PathLike[str] | None = None
) -> Revisions:
    """Scans files in several processes and caches the result until a file changes.

    Args:
        files: MEDLINE files in any order; their names determine the sequence.
        num_proc: Number of processes.
        cache_dir: Cache folder; by default the cache of `datasets`.

    Returns:
        Fates of their citations; the array is a file in the cache.
    """
    files = _sort_by_name(files)
    dataset: Any = load_pieces(
        _scan_piece,
        [Piece(str(path)) for path in files],
        _features,
        key=["medline revisions", _VERSION],
        report=ReadReport("skip"),
        num_proc=num_proc,
        cache_dir=cache_dir,
    )
    file = Path(dataset.cache_files[0]["filename"]).with_name("fates.npy")
    if not file.is_file():
        part = file.with_name(f"fates-{os.getpid()}.npy")
        np.save(part, compute_fates(_unpack_scan(row) for row in dataset))
        part.replace(file)
    return Revisions(str(file), _compute_ranges(files, dataset["citations"]))


def scan(path: str | os.PathLike[str]) -> Scan:
    """Scans the citations and deletions of the readable part of a file.

    Args:
        path: A MEDLINE file.

    Returns:
        Citations and deletions.
    """
    with open_binary(path) as stream:
        result = _search_bytes(stream, path)
    if result is None:
        with open_binary(path) as stream:
            result = _parse_xml(stream, path)
    pmids, versions, deletions = result
    return Scan(np.array(pmids, np.uint32), np.array(versions, np.uint8), np.array(deletions, np.uint32).reshape(-1, 2))


def read_current(path: str, report: ReadReport, fates: Sequence[int]) -> Iterator[Record]:
    """Reads a file like `read_medline`, without citations that other files revise or delete.

    Args:
        path: The file.
        report: As in `read_medline`. Notices of deletion are not counted.
        fates: The fate of each citation, in file order.

    Raises:
        ValueError: If the file has another number of citations. Also raises what `read_medline` raises.
    """
    number = 0
    damaged = report.left_out.get("damaged file", 0)
    for where, element in read_elements(path, report):
        if element.tag == "DeleteCitation":
            continue
        fate = fates[number] if number < len(fates) else CURRENT
        number += 1
        if fate == CURRENT:
            yield from read_citation(element, where, report)
        else:
            report.leave_out("superseded" if fate == SUPERSEDED else "deleted", where)
    if number != len(fates) and report.left_out.get("damaged file", 0) == damaged:
        raise ValueError(
            f"{path}: {number:,} citations, but {len(fates):,} expected: the file has changed during reading"
        )


def compute_fates(scans: Iterable[Scan]) -> NDArray[np.uint8]:
    """Computes the fate of each citation.

    Args:
        scans: Scans of the files, in order.

    Returns:
        `(citations,)` uint8 fates for all files together.

    Example:
        >>> first = Scan(np.uint32([3, 5, 7]), np.uint8([1, 1, 1]), np.zeros((0, 2), np.uint32))
        >>> update = Scan(np.uint32([5]), np.uint8([1]), np.uint32([[1, 7]]))  # 5 again, then 7 is deleted
        >>> compute_fates([first, update]).tolist()
        [0, 1, 2, 0]
    """
    newest = np.zeros(_PMIDS, np.uint32)  # by pmid: the position of the current citation, from 1
    highest = np.zeros(_PMIDS, np.uint8)  # its version
    changes: list[tuple[NDArray[np.int64], int]] = []
    total = 0
    for pmids, versions, deletions in scans:
        start = 0
        for after in sorted({*deletions[:, 0].tolist(), len(pmids)}):
            part = slice(start, after)
            changes.append((_supersede(pmids[part], versions[part], total + start, newest, highest), SUPERSEDED))
            start = after
            deleted = np.unique(deletions[deletions[:, 0] == after, 1])
            positions = newest[deleted].astype(np.int64)
            changes.append((positions[positions > 0] - 1, DELETED))
            newest[deleted] = highest[deleted] = 0
        total += len(pmids)
    fates = np.zeros(total, np.uint8)
    for positions, fate in changes:
        fates[positions] = fate
    return fates


def missing_files(files: Iterable[Path]) -> list[str]:
    """Finds gaps in the numbered sequence of files.

    Args:
        files: MEDLINE files.

    Returns:
        Names of the missing files, without suffix. Files with other names are ignored.

    Example:
        >>> missing_files(map(Path, ["pubmed24n0002.xml.gz", "pubmed24n0004.xml.gz", "mine.xml"]))
        ['pubmed24n0003']
    """
    numbers: dict[str, set[int]] = {}
    for path in files:
        if match := re.fullmatch(r"(pubmed\d\dn)(\d{4,6})\.xml(\.gz)?", path.name, re.IGNORECASE):
            numbers.setdefault(match[1], set()).add(int(match[2]))
    return [
        f"{year}{number:04}"
        for year, present in sorted(numbers.items())
        for number in range(min(present), max(present))
        if number not in present
    ]


def _sort_by_name(files: Iterable[Path]) -> list[Path]:
    return sorted(files, key=lambda path: path.name)


def _compute_ranges(files: Iterable[Path], lengths: Iterable[int]) -> dict[str, tuple[int, int]]:
    stops = list(accumulate(lengths, initial=0))
    return dict(zip(map(str, files), pairwise(stops), strict=True))


def _search_bytes(stream: IO[bytes], path: object) -> tuple[list[int], list[int], list[tuple[int, int]]] | None:
    """Searches the bytes; returns None if they need a parser."""
    pmids: list[int] = []
    versions: list[int] = []
    deletions: list[tuple[int, int]] = []
    chunks = ReadReport("skip").until_damage(iter(lambda: stream.read(_CHUNK), b""), path)
    text = next(chunks, b"")
    head = _HEAD.match(text)
    if head is None:
        return None
    text = text[head.end() :]
    while text:
        more = next(chunks, b"")
        end = max(text.rfind(b"<PubmedArticle>"), 0) if more else len(text)
        for match in _MARKUP.finditer(text, 0, end):
            version, pmid, deleted, other = match.groups()
            if other:
                return None
            if pmid:
                pmids.append(int(pmid))
                versions.append(int(version or 1))
            else:
                deletions += [(len(pmids), int(number)) for number in re.findall(rb">(\d+)<", deleted)]
        text = text[end:] + more
        if len(text) > _MAX_CITATION:
            return None
    return pmids, versions, deletions


def _parse_xml(stream: IO[bytes], path: object) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    pmids: list[int] = []
    versions: list[int] = []
    deletions: list[tuple[int, int]] = []
    for element in ReadReport("skip").until_damage(elements(stream), path):
        if element.tag in ("PubmedArticle", "MedlineCitation"):
            pmid = element.find("PMID" if element.tag == "MedlineCitation" else "MedlineCitation/PMID")
            pmids.append(0 if pmid is None else _parse_pmid(pmid.text))
            version = "" if pmid is None else pmid.get("Version", "")
            versions.append(int(version) if re.fullmatch("[0-9]{1,2}", version) else 1)
        elif element.tag == "DeleteCitation":
            numbers = (_parse_pmid(deleted.text) for deleted in element.iterfind("PMID"))
            deletions += [(len(pmids), number) for number in numbers if number]
    return pmids, versions, deletions


def _parse_pmid(text: str | None) -> int:
    return int(text) if text and re.fullmatch("[1-9][0-9]{0,7}", text := text.strip()) else 0


def _supersede(
    pmids: NDArray[np.uint32],
    versions: NDArray[np.uint8],
    start: int,
    newest: NDArray[np.uint32],
    highest: NDArray[np.uint8],
) -> NDArray[np.int64]:
    """Adds consecutive citations from position `start` on; returns the superseded positions."""
    order = np.lexsort((versions, pmids))  # stable: of equal versions, the last of the file is last
    order = order[pmids[order] > 0]
    pmids, versions, positions = pmids[order], versions[order], start + order.astype(np.int64)
    last = np.append(pmids[1:] != pmids[:-1], True)[: len(pmids)]
    wins = last & (versions >= highest[pmids])
    superseded = newest[pmids[wins]].astype(np.int64)
    newest[pmids[wins]] = positions[wins] + 1
    highest[pmids[wins]] = versions[wins]
    return np.concatenate([positions[~wins], superseded[superseded > 0] - 1])


def _scan_piece(piece: Piece, report: ReadReport) -> Iterator[dict[str, Any]]:
    result = scan(piece.path)
    yield {"citations": len(result.pmids), **{name: part.tobytes() for name, part in result._asdict().items()}}


def _unpack_scan(row: dict[str, Any]) -> Scan:
    return Scan(
        np.frombuffer(row["pmids"], np.uint32),
        np.frombuffer(row["versions"], np.uint8),
        np.frombuffer(row["deletions"], np.uint32).reshape(-1, 2),
    )


def _features() -> Features:
    from datasets import Features, Value

    # As bytes, since datasets would create an object for each number of a list.
    return Features({"citations": Value("int64"), **{name: Value("binary") for name in Scan._fields}})
