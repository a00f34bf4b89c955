"""Abstracts with MeSH headings from any mix of MEDLINE and BioASQ files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from .bioasq import read_bioasq
from .files import Paths, find_files, suffix_of
from .medline import read_medline
from .report import ReadReport
from .schema import Record

if TYPE_CHECKING:
    from datasets import Dataset

SUFFIXES = (".xml", ".json", ".jsonl")

# Part of the cache's key, which cannot see that this code changed: count up when records change.
_VERSION = 1


def read_records(
    paths: Paths,
    report: ReadReport | None = None,
    *,
    encoding: str = "utf-8",
    ui_of: Mapping[str, str] | None = None,
) -> Iterator[Record]:
    """Reads the records that a model can be trained on: those with an abstract and headings.

    The format follows from the suffix: `.xml` (MEDLINE), `.json` (BioASQ) or `.jsonl`, each with or
    without `.gz`. A pmid that comes twice is a problem; when problems are skipped its first record
    stays. So an update file does not replace what a baseline file before it says.

    Args:
        paths: Files, folders and globs.
        report: Counts what is left out and says whether malformed input raises, as it does without.
        encoding: Of BioASQ files; see `read_bioasq`. XML files say theirs.
        ui_of: For BioASQ files; see `read_bioasq`.

    Returns:
        An iterator over the records.

    Raises:
        FileNotFoundError: If a path leads nowhere.
        ValueError: If a path leads to nothing of a known format. While iterating: if anything is
            malformed, unless the report says to skip, or if not one record can be used.
    """
    report = ReadReport() if report is None else report
    return _read(find_files(paths, SUFFIXES), report, encoding, ui_of)


def load_records(
    paths: Paths,
    *,
    on_error: Literal["raise", "skip"] = "raise",
    encoding: str = "utf-8",
    ui_of: Mapping[str, str] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
) -> tuple[Dataset, ReadReport]:
    """Reads records as `read_records` does into a memory-mapped `datasets.Dataset`.

    The result is cached. The files are read again when one of them is changed, judged by its size
    and time of modification, or when the arguments are.

    Args:
        paths: Files, folders and globs.
        on_error: `"raise"`, or `"skip"` to leave malformed input out and count it.
        encoding: Of BioASQ files; see `read_bioasq`.
        ui_of: For BioASQ files; see `read_bioasq`.
        cache_dir: Where to cache; that of `datasets` by default.

    Returns:
        The records, and the report of how they were read (from the cache too).

    Raises:
        ImportError: If datasets is not installed.
        FileNotFoundError: If a path leads nowhere.
        ValueError: If anything is malformed and is not to be skipped.
    """
    try:
        import datasets
    except ImportError as error:
        raise ImportError("load_records needs the `train` extra: pip install 'hf-gile[train]'") from error
    ReadReport(on_error)
    files = find_files(paths, SUFFIXES)
    key = _cache_key(files, [on_error, encoding, sorted((ui_of or {}).items())])
    folder = Path(cache_dir or datasets.config.HF_DATASETS_CACHE) / "hf_gile" / key
    report_file = folder / "report.json"

    # Written by the generator, hence before datasets declares its cache complete and by the process
    # that holds its lock: whoever gets the dataset, from the cache or not, finds the report.
    def records() -> Iterator[Record]:
        report = ReadReport(on_error)
        yield from _read(files, report, encoding, ui_of)
        folder.mkdir(parents=True, exist_ok=True)
        report_file.write_text(json.dumps(asdict(report)), encoding="utf-8")

    text = datasets.Value("string")
    features = datasets.Features(
        {
            "pmid": text,
            "title": text,
            "abstractText": text,
            "year": datasets.Value("int32"),
            "meshUI": datasets.List(text),
            "meshMajor": datasets.List(text),
        }
    )
    try:
        dataset = datasets.Dataset.from_generator(records, features=features, cache_dir=str(folder), fingerprint=key)
    except datasets.exceptions.DatasetGenerationError as error:
        if isinstance(error.__cause__, ValueError):
            raise error.__cause__ from None
        raise
    if not report_file.is_file():
        raise FileNotFoundError(f"{report_file} was deleted; delete {folder} too to read again")
    return dataset, ReadReport(**json.loads(report_file.read_text(encoding="utf-8")))


def _read(files: list[Path], report: ReadReport, encoding: str, ui_of: Mapping[str, str] | None) -> Iterator[Record]:
    seen = _Pmids()
    before = report.records
    for path in files:
        report.files += 1
        if path.stat().st_size == 0:
            report.problem("damaged file", f"{path}: empty file")
            continue
        if suffix_of(path) == ".xml":
            records = read_medline(path, report)
        else:
            records = read_bioasq(path, report, encoding=encoding, ui_of=ui_of)
        for record in records:
            where = f"{path}: pmid {record['pmid']}"
            if not record["abstractText"].strip():
                report.leave_out("without abstract", where)
            elif not record["meshUI"]:
                report.leave_out("without headings", where)
            elif not seen.add(record["pmid"]):
                report.problem("repeated pmid", f"{where} was read before")
            else:
                report.records += 1
                yield record
    if report.records == before:
        raise ValueError(f"no record has both an abstract and headings: {report}")


def _cache_key(files: list[Path], arguments: list[object]) -> str:
    states = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    source = json.dumps([_VERSION, states, arguments])
    return blake2b(source.encode(), digest_size=16).hexdigest()


class _Pmids:
    """A set of pmids at a byte each, where all of MEDLINE as a set of str would take gigabytes."""

    def __init__(self) -> None:
        self.numbers = bytearray()
        self.others: set[str] = set()

    def add(self, pmid: str) -> bool:
        """Adds a pmid; False if it was there."""
        if not (pmid.isascii() and pmid.isdigit() and pmid[0] != "0" and len(pmid) <= 8):
            new = pmid not in self.others
            self.others.add(pmid)
            return new
        number = int(pmid)
        if number >= len(self.numbers):
            self.numbers.extend(bytes(number + 1 - len(self.numbers)))
        new = not self.numbers[number]
        self.numbers[number] = 1
        return new
