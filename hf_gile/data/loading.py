"""From readers to datasets: kept on disk and read again when a file changes, or streamed; in one process or several."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..extras import needs_extra
from .report import ReadReport

if TYPE_CHECKING:
    from datasets import Dataset, Features, IterableDataset


class Piece(NamedTuple):
    """What one process reads: a file, or the part of one that starts in a range of its bytes.

    Args:
        path: The file.
        start: First byte.
        stop: The byte after the last one; the end of the file by default.
    """

    path: str
    start: int = 0
    stop: int | None = None


_ERROR = "error.txt"
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
    each: list[ReadReport] | None = None,
) -> Dataset | IterableDataset:
    """Reads the pieces of files into a dataset.

    The dataset is memory-mapped and cached: the files are read again when one of them is changed, judged by its size
    and time of modification, or when `key` is. A stream reads them whenever it is iterated over; its pieces are its
    shards, so a `DataLoader` and `split_dataset_by_node` can share them out.

    Args:
        read: Yields the rows of a piece and counts in the report what it leaves out. With several processes it is
            pickled: a function of a module, or a `functools.partial` of one.
        pieces: What to read, in the order of the rows.
        features: Makes the features of a row; called only when `datasets` is there.
        key: Everything else the rows depend on, as JSON has it: the arguments, and a version of the reader's code.
        report: Gets the counts, from the cache too. Of a stream: while it is read in this very process.
        num_proc: Number of processes; at most one for each piece.
        streaming: Whether to return a stream instead.
        cache_dir: Where to cache; that of `datasets` by default.
        each: Gets the report of each piece of a dataset, in their order.

    Returns:
        The rows, in the order of the pieces.

    Raises:
        ImportError: If datasets is not installed.
        FileNotFoundError: If the cached report was deleted.
        ValueError: If the reader raises one, or yields no row at all.
    """
    with needs_extra("data", "loading a dataset"):
        import datasets
    from .row_batches import RowBatches

    pieces = list(pieces)
    if streaming:
        return datasets.IterableDataset.from_generator(
            _rows, features=features(), gen_kwargs={"pieces": pieces, "read": read, "report": report}
        )
    states = [(*piece, Path(piece.path).stat().st_size, Path(piece.path).stat().st_mtime_ns) for piece in pieces]
    digest = blake2b(json.dumps([states, report.on_error, *key]).encode(), digest_size=16).hexdigest()
    folder = Path(cache_dir or datasets.config.HF_DATASETS_CACHE) / "hf_gile" / digest
    try:
        builder = RowBatches(
            cache_dir=str(folder),
            config_id=digest,
            rows=_rows_and_reports,
            features=features(),
            # datasets shares out what is a list, and gives all else to every process.
            gen_kwargs={"pieces": pieces, "read": read, "on_error": report.on_error, "folder": str(folder)},
        )
        builder.download_and_prepare(num_proc=min(num_proc, len(pieces)) if num_proc and num_proc > 1 else None)
        dataset = builder.as_dataset(split="train")
    except datasets.exceptions.DatasetGenerationError:
        if (folder / _ERROR).is_file():  # the error itself does not come back from another process
            message = (folder / _ERROR).read_text(encoding="utf-8")
            (folder / _ERROR).unlink()
            raise ValueError(message) from None
        raise
    except ValueError as error:  # what datasets says of no rows at all
        if "corresponds to no data" not in str(error):
            raise
        _add_reports(report, folder, pieces)
        raise ValueError(f"not one record can be used: {report}") from None
    of_pieces = _add_reports(report, folder, pieces)
    if each is not None:
        each += of_pieces
    return dataset


def _add_reports(report: ReadReport, folder: Path, pieces: Sequence[Piece]) -> list[ReadReport]:
    of_pieces = []
    for piece in pieces:
        file = _report_file(folder, piece)
        if not file.is_file():
            raise FileNotFoundError(f"{file} was deleted; delete {folder} too to read again")
        of_pieces.append(ReadReport(**json.loads(file.read_text(encoding="utf-8"))))
        report.add(of_pieces[-1])
    return of_pieces


def _rows(pieces: list[Piece], read: Reader, report: ReadReport) -> Iterator[dict[str, Any]]:
    for piece in pieces:
        yield from read(Piece(*piece), report)


def _rows_and_reports(
    pieces: list[Piece], read: Reader, on_error: Literal["raise", "skip"], folder: str
) -> Iterator[dict[str, Any]]:
    # Written by the generator, hence before datasets declares its cache complete and by the process that holds its
    # lock: whoever gets the dataset, from the cache or not, finds the reports.
    for piece in (Piece(*piece) for piece in pieces):
        report = ReadReport(on_error)
        file = _report_file(Path(folder), piece)
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield from read(piece, report)
        except ValueError as error:
            (Path(folder) / _ERROR).write_text(str(error), encoding="utf-8")
            raise
        file.write_text(json.dumps(asdict(report)), encoding="utf-8")


def _report_file(folder: Path, piece: Piece) -> Path:
    name = blake2b(json.dumps(piece).encode(), digest_size=8).hexdigest()
    return folder / "reports" / f"{name}.json"
