"""Builds datasets from readers, cached on disk or streamed, in one or several processes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from hashlib import blake2b
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..extras import needs_extra
from ..writing import exclusive_lock, whole_file
from .report import ReadReport

if TYPE_CHECKING:
    from datasets import Dataset, Features, IterableDataset
    from pyarrow import Schema


class Piece(NamedTuple):
    """Input of a process: a file, or the records that start in a range of its bytes.

    Args:
        path: The file.
        start: First byte.
        stop: Byte after the last; by default the end of the file.
    """

    path: str
    start: int = 0
    stop: int | None = None


_REPORTS = "reports.json"  # is written last
_BATCH = 1000  # rows
Reader = Callable[[Piece, ReadReport], Iterator[dict[str, Any]]]


def load_pieces(
    read: Reader,
    pieces: Sequence[Piece],
    features: Callable[[], Features],
    *,
    key: Sequence[object],
    report: ReadReport,
    num_proc: int | None = None,
    streaming: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
    piece_reports: list[ReadReport] | None = None,
) -> Dataset | IterableDataset:
    """Reads the pieces of files into a dataset.

    The dataset is memory-mapped and cached. The files are read again when the size or modification time of a file
    changes, or `key` does. A stream reads them in each iteration; its pieces are its shards, which a `DataLoader` and
    `split_dataset_by_node` can distribute.

    Args:
        read: Yields the rows of a piece, and counts skipped input in the report. It must be picklable for several
            processes: a module-level function, or a `functools.partial` of it.
        pieces: The pieces, in the order of the rows.
        features: Returns the features of a row; called only if `datasets` is installed.
        key: Everything else the rows depend on, as JSON: the arguments, and a version of the reader code.
        report: Receives the counts, also from the cache. For a stream, only those of this process.
        num_proc: Number of processes; at most one for each piece.
        streaming: Whether to return a stream instead.
        cache_dir: Cache folder; by default the cache of `datasets`.
        piece_reports: Receives the report of each piece of a dataset, in order.

    Returns:
        The rows, in the order of the pieces.

    Raises:
        ImportError: If datasets is not installed.
        ValueError: If the reader raises a ValueError, or yields no rows.
    """
    with needs_extra("data", "loading a dataset"):
        import datasets

    pieces = list(pieces)
    if streaming:
        return datasets.IterableDataset.from_generator(
            _read_rows, features=features(), gen_kwargs={"pieces": pieces, "read": read, "report": report}
        )
    states = [(*piece, Path(piece.path).stat().st_size, Path(piece.path).stat().st_mtime_ns) for piece in pieces]
    digest = blake2b(json.dumps([states, report.on_error, *key]).encode(), digest_size=16).hexdigest()
    folder = Path(cache_dir or datasets.config.HF_DATASETS_CACHE) / "hf_gile" / digest
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(folder):
        if not (folder / _REPORTS).is_file():
            write = partial(_write_share, read=read, schema=features().arrow_schema, on_error=report.on_error)
            reports = _write_shares(write, _divide(pieces, num_proc or 1), folder)
            with whole_file(folder / _REPORTS) as file:
                file.write_text(json.dumps(reports), encoding="utf-8")
    saved = json.loads((folder / _REPORTS).read_text(encoding="utf-8"))
    new_reports = [ReadReport(**fields) for fields in chain.from_iterable(saved)]
    for new_report in new_reports:
        report.add(new_report)
    if piece_reports is not None:
        piece_reports += new_reports
    parts = [datasets.Dataset.from_file(str(folder / f"{number}.arrow")) for number in range(len(saved))]
    dataset = datasets.concatenate_datasets(parts)
    if len(dataset) == 0:
        raise ValueError(f"no record can be used: {report}")
    return dataset


def _read_rows(pieces: list[Piece], read: Reader, report: ReadReport) -> Iterator[dict[str, Any]]:
    for piece in pieces:
        yield from read(Piece(*piece), report)


def _divide(pieces: Sequence[Piece], num_proc: int) -> list[Sequence[Piece]]:
    """Divides pieces, in order, among at most so many processes."""
    number = max(1, min(num_proc, len(pieces)))
    bounds = [len(pieces) * share // number for share in range(number + 1)]
    return [pieces[start:stop] for start, stop in pairwise(bounds)]


def _write_shares(
    write: Callable[[Sequence[Piece], Path], list[dict[str, Any]]],
    shares: Sequence[Sequence[Piece]],
    folder: Path,
) -> list[list[dict[str, Any]]]:
    """Writes a file for each share, several in a process each, and returns the reports of their pieces."""
    files = [folder / f"{number}.arrow" for number in range(len(shares))]
    if len(shares) == 1:
        return [write(shares[0], files[0])]
    with ProcessPoolExecutor(len(shares)) as pool:
        return list(pool.map(write, shares, files))


def _write_share(
    pieces: Sequence[Piece],
    file: Path,
    *,
    read: Reader,
    schema: Schema,
    on_error: Literal["raise", "skip"],
) -> list[dict[str, Any]]:
    """Writes the rows of pieces to an Arrow file, and returns the report of each."""
    import pyarrow as pa

    reports = []
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        for piece in pieces:
            report = ReadReport(on_error)
            rows = read(piece, report)
            while batch := list(islice(rows, _BATCH)):
                writer.write_table(pa.Table.from_pylist(batch, schema=schema))
            reports.append(asdict(report))
    return reports
