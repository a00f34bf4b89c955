"""Builds datasets from readers, cached on disk or streamed, in one or several processes."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..extras import needs_extra
from .report import ReadReport

if TYPE_CHECKING:
    from datasets import Dataset, Features, IterableDataset


class Piece(NamedTuple):
    """Input of a process: a file, or the records that start in a range of its bytes, by default to its end."""

    path: str
    start: int = 0
    stop: int | None = None


Reader = Callable[[Piece, ReadReport], Iterator[dict[str, Any]]]


def load_pieces(
    read: Reader,
    pieces: list[Piece],
    features: "Callable[[], Features]",
    *,
    key: Sequence[object],
    report: ReadReport,
    num_proc: int | None = None,
    streaming: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
    piece_reports: list[ReadReport] | None = None,
) -> "Dataset | IterableDataset":
    """Reads the pieces of files into a dataset, whose rows are in the order of the pieces.

    The dataset is memory-mapped and cached. The files are read again when the size or modification time of a file
    changes, or `key` does. A stream reads them in each iteration; its pieces are its shards, which a `DataLoader` and
    `split_dataset_by_node` can distribute.

    Args:
        read: Yields the rows of a piece, and counts skipped input in the report. It must be picklable for several
            processes: a module-level function, or a `functools.partial` of it.
        pieces: The pieces.
        features: Returns the features of a row; called only if `datasets` is installed.
        key: Everything else the rows depend on, as JSON: the arguments, and a version of the reader code.
        report: Receives the counts, also from the cache. For a stream, only those of this process.
        num_proc: Number of processes; at most one for each piece.
        streaming: Whether to return a stream.
        cache_dir: Cache folder; by default that of `datasets`.
        piece_reports: Receives the report of each piece of a dataset, in order.

    Raises:
        ImportError: If datasets is not installed.
        FileNotFoundError: If the cached report was deleted.
        ValueError: If the reader raises a ValueError, or yields no rows.
    """
    with needs_extra("data", "loading a dataset"):
        import datasets
    from .row_batches import ReadError, RowBatches

    if streaming:
        return datasets.IterableDataset.from_generator(
            _read_rows, features=features(), gen_kwargs={"pieces": pieces, "read": read, "report": report}
        )
    states = [(*piece, Path(piece.path).stat().st_size, Path(piece.path).stat().st_mtime_ns) for piece in pieces]
    digest = blake2b(json.dumps([states, report.on_error, *key]).encode(), digest_size=16).hexdigest()
    folder = Path(cache_dir or datasets.config.HF_DATASETS_CACHE) / "hf_gile" / digest
    try:
        builder = RowBatches(
            cache_dir=str(folder),
            config_id=digest,
            rows=_read_with_reports,
            features=features(),
            # datasets distributes lists to the processes, and passes everything else to each of them.
            gen_kwargs={"pieces": pieces, "read": read, "on_error": report.on_error, "folder": str(folder)},
        )
        builder.download_and_prepare(num_proc=min(num_proc, len(pieces)) if num_proc and num_proc > 1 else None)
        dataset = builder.as_dataset(split="train")
    except ReadError as error:
        raise ValueError(str(error)) from None
    except ValueError as error:  # raised by datasets if there are no rows
        if "corresponds to no data" not in str(error):
            raise
        _add_reports(report, folder, pieces)
        raise ValueError(f"no record can be used: {report}") from None
    new_reports = _add_reports(report, folder, pieces)
    if piece_reports is not None:
        piece_reports += new_reports
    return dataset


def short_names(files: Sequence[Path]) -> dict[str, str]:
    """Maps each path to its file name, for ids, or to the path within the common folder if names are repeated.

    Example:
        >>> short_names([Path("/data/train/a.csv"), Path("/data/test/a.csv")])
        {'/data/train/a.csv': 'train/a.csv', '/data/test/a.csv': 'test/a.csv'}
    """
    if len({file.name for file in files}) == len(files):
        return {str(file): file.name for file in files}
    folder = os.path.commonpath([file.parent for file in files])
    return {str(file): file.relative_to(folder).as_posix() for file in files}


def document_features() -> "Features":
    """Returns the features of a document: `id`, `text` and `labels`, a list of label ids."""
    from datasets import Features, List, Value

    return Features({"id": Value("string"), "text": Value("string"), "labels": List(Value("string"))})


def useful_documents(
    located: Iterable[tuple[str, dict[str, Any]]],
    report: ReadReport,
    unlabelled: str = "negative",
    has_labels: bool = True,
) -> Iterator[dict[str, Any]]:
    """Yields documents with a text, and counts them and the others.

    With `unlabelled="drop"`, documents without labels are left out, unless the table has no labels.
    """
    for where, document in located:
        lacks_labels = has_labels and not document["labels"]
        if not document["text"]:
            report.leave_out("without text", where)
        elif lacks_labels and unlabelled == "drop":
            report.leave_out("without labels", where)
        else:
            report.without_labels += lacks_labels
            report.records += 1
            yield document


def _add_reports(report: ReadReport, folder: Path, pieces: Sequence[Piece]) -> list[ReadReport]:
    new_reports = []
    for piece in pieces:
        file = _report_file(folder, piece)
        if not file.is_file():
            raise FileNotFoundError(f"{file} was deleted; also delete {folder} to read the files again")
        new_reports.append(ReadReport(**json.loads(file.read_text(encoding="utf-8"))))
        report.add(new_reports[-1])
    return new_reports


def _read_rows(pieces: list[Piece], read: Reader, report: ReadReport) -> Iterator[dict[str, Any]]:
    for piece in pieces:
        yield from read(Piece(*piece), report)


def _read_with_reports(
    pieces: list[Piece], read: Reader, on_error: Literal["raise", "skip"], folder: str
) -> Iterator[dict[str, Any]]:
    # Written by the generator, before datasets marks the cache as complete and under its lock, so that the reports
    # exist whenever the dataset does.
    from .row_batches import ReadError

    for piece in (Piece(*piece) for piece in pieces):
        report = ReadReport(on_error)
        file = _report_file(Path(folder), piece)
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield from read(piece, report)
        except ValueError as error:
            raise ReadError(str(error)) from error
        file.write_text(json.dumps(asdict(report)), encoding="utf-8")


def _report_file(folder: Path, piece: Piece) -> Path:
    name = blake2b(json.dumps(piece).encode(), digest_size=8).hexdigest()
    return folder / "reports" / f"{name}.json"
