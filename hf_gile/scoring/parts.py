"""Scores files into a folder of parts. Parts are written atomically, so an interrupted run can be continued.

OUTPUT/_run.json            fingerprint of the run, and its parts
OUTPUT/parts/*.parquet      scored rows
OUTPUT/rejected/*.jsonl     rows that could not be scored, with the reason
"""

import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

from ..data.documents import Document, document_pieces, read_documents
from ..data.loading import Piece
from ..data.report import ReadReport
from ..data.sniffing import SEEN, Requested
from ..extras import needs_extra
from ..label_index import fingerprint
from ..models.texts_gile import batches_of
from ..writing import exclusive_lock, whole_file, write_text
from .scorer import GileScorer

RUN_FILE = "_run.json"
"""File with the fingerprint and the parts of a run."""

# Numbers of texts and of characters that are sorted by length and scored together.
_WINDOW = (1 << 12, 1 << 24)


@dataclass(frozen=True)
class Reading:
    """Options for reading texts from files.

    Args:
        text: Columns of the text, as in `read_documents`.
        id: Column of ids.
        format: Format of files whose names do not determine it.
        requested: Encoding and layout of text files; by default as seen in each file.
        with_text: Whether parts include the text; by default only for rows without an id.
        part_bytes: Approximate size of a part in bytes of the input file.
    """

    text: Sequence[str] = ("text",)
    id: str | None = None
    format: str | None = None
    requested: Requested = SEEN
    with_text: bool | None = None
    part_bytes: int = 1 << 24


@dataclass
class _Rejections(ReadReport):
    """Collects the rows that cannot be read, which other reports only count."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def leave_out(self, reason: str, what: str, id: str | None = None) -> None:
        """Adds a row; `what` describes the error."""
        self.rows.append({"note": what})


@dataclass(frozen=True)
class ScoringRun:
    """The parts of a run, whether finished or not.

    Create a run with `start_run`, or `load` an existing run to see its progress.

    Args:
        folder: Output folder.
        reading: Options for reading texts.
        parts: Piece of an input file for each part, by name, in order.
        fingerprint: Everything that the scores depend on, by name.
    """

    folder: Path
    reading: Reading
    parts: dict[str, Piece]
    fingerprint: dict[str, Any]

    @classmethod
    def load(cls, folder: str | Path) -> "ScoringRun":
        """Loads a run from the folder passed to `start_run`.

        Raises:
            FileNotFoundError: If the folder has no run.
            ValueError: If the file of the run is damaged.
        """
        file = Path(folder) / RUN_FILE
        if not file.is_file():
            raise FileNotFoundError(f"{folder} has no run of hf-gile score --output: {RUN_FILE} is missing")
        try:
            run = json.loads(file.read_text(encoding="utf-8"))
            parts = {str(name): Piece(str(path), start, stop) for name, (path, start, stop) in run["parts"].items()}
            return cls(Path(folder), Reading(**run["fingerprint"]["reading"]), parts, run["fingerprint"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{file} is damaged ({error!s:.200}): choose another folder") from None

    def part(self, name: str) -> Path:
        """Returns the path of a part."""
        return self.folder / "parts" / f"{name}.parquet"

    def rejected(self, name: str) -> Path:
        """Returns the path of the rows of a part that could not be scored."""
        return self.folder / "rejected" / f"{name}.jsonl"

    def left(self, shard: int = 0, shards: int = 1) -> list[str]:
        """Returns the names of unfinished parts, of all parts or of every `shards`-th, starting at index `shard`."""
        return [name for name in islice(self.parts, shard, None, shards) if not self.part(name).exists()]

    def status(self) -> dict[str, int]:
        """Counts the parts, and the rows of finished parts.

        Raises:
            ValueError: If a part is damaged.
        """
        counts = {"parts": len(self.parts), "done": 0, "rows": 0, "rejected": 0}
        for name in self.parts:
            if self.part(name).exists():
                metadata = _open_part(self.part(name)).metadata
                counts["done"] += 1
                counts["rows"] += metadata.num_rows
                counts["rejected"] += int(metadata.metadata[b"rejected"])
        return counts

    def merge(self, path: str | Path) -> int:
        """Writes all parts to a single Parquet file, in the order of the input, and returns the number of rows.

        Raises:
            ValueError: If parts are missing or damaged.
        """
        if unfinished := self.left():
            raise ValueError(
                f"{len(unfinished):,} of {len(self.parts):,} parts are not done, such as {unfinished[0]}: score first"
            )
        rows = 0
        with whole_file(path) as written, _parquet().ParquetWriter(written, _schema()) as writer:
            for name in self.parts:
                for batch in _open_part(self.part(name)).iter_batches():
                    writer.write_batch(batch)
                    rows += len(batch)
        return rows

    def score(self, name: str, scorer: GileScorer) -> dict[str, int]:
        """Scores the texts of a part, and writes the part atomically.

        Returns:
            Numbers of `rows` and of `rejected` rows.

        Raises:
            ValueError: If no text could be scored.
        """
        reading = self.reading
        report = _Rejections("skip")
        count = 0
        documents = read_documents(
            self.parts[name],
            reading.text,
            id=reading.id,
            format=reading.format,
            requested=Requested(*reading.requested),
            report=report,
        )
        with whole_file(self.part(name)) as written, _parquet().ParquetWriter(written, _schema()) as writer:
            import pyarrow as pa

            for window in batches_of(documents, lambda document: len(document.text), *_WINDOW):
                scored = [*_scored(window, scorer, reading.with_text)]
                rows = [row for row in scored if row["labels"] is not None]
                report.rows += [row for row in scored if row["labels"] is None]
                writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=writer.schema))
                count += len(rows)
            if report.rows and not count:
                raise ValueError(f"{self.parts[name].path}: no text could be scored: {report.rows[0]['note']}")
            writer.add_key_value_metadata({"rejected": str(len(report.rows))})
            self._write_rejected(name, report.rows)  # before the part, whose existence marks it as done
        return {"rows": count, "rejected": len(report.rows)}

    def _write_rejected(self, name: str, rows: list[dict[str, Any]]) -> None:
        """Writes the rejected rows of a part, or removes their file if there are no such rows."""
        path = self.rejected(name)
        if not rows:
            path.unlink(missing_ok=True)
            return
        lines = []
        for row in rows:
            known = {name: value for name, value in row.items() if value is not None and name != "note"}
            lines.append(json.dumps({"reason": row["note"], **known}) + "\n")
        write_text(path, "".join(lines))


def start_run(folder: str | Path, files: Iterable[str | Path], scorer: GileScorer, reading: Reading) -> ScoringRun:
    """Starts a run, or continues it.

    Args:
        folder: Output folder.
        files: Files of texts, in the order of the parts.
        scorer: Scorer of the run.
        reading: Options for reading texts.

    Raises:
        FileNotFoundError: If a file does not exist.
        ValueError: If the folder has a run with other weights, labels, thresholds, files, arguments or code.
    """
    folder = Path(folder)
    paths = [Path(file).resolve() for file in files]
    parts = {}
    for number, path in enumerate(paths):
        stem = re.sub(r"[^\w.-]", "_", path.name)[:80]
        names = [*reading.text, *filter(None, [reading.id])]
        for piece in document_pieces(str(path), reading.part_bytes, names, reading.format, reading.requested):
            parts[f"{number:05}-{stem}-{piece.start:012}"] = piece
    states = [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in paths]
    expected: dict[str, Any] = {**_fingerprint(scorer), "reading": asdict(reading), "files": states}
    expected = json.loads(json.dumps(expected, default=str))
    for name in ("parts", "rejected"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    file = folder / RUN_FILE
    with exclusive_lock(folder):
        if file.is_file():
            if differences := _name_differences(ScoringRun.load(folder).fingerprint, expected):
                raise ValueError(
                    f"{folder} has a run with different {differences}: choose another folder, or remove this one"
                )
        elif any((folder / "parts").glob("[!.]*.parquet")):
            raise ValueError(f"{folder} has parts, but no {RUN_FILE} that describes them: choose another folder")
        else:
            write_text(file, json.dumps({"fingerprint": expected, "parts": parts}, indent=1) + "\n")
    return ScoringRun(folder, reading, parts, expected)


def _fingerprint(scorer: GileScorer) -> dict[str, Any]:
    """Returns everything that scores depend on, under names for error messages."""
    model = scorer.pipe.model
    index = scorer.index
    with tempfile.TemporaryDirectory() as folder:
        scorer.pipe.processor.save_pretrained(folder)
        processor = _digest(path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file())
    sources = sorted(Path(__file__).parents[1].rglob("*.py"))
    return {
        "code": [_digest(path.read_bytes() for path in sources), *map(version, ("torch", "transformers"))],
        "weights": fingerprint(model),
        "processor": processor,
        "labels": [_digest(repr(label).encode() for label in index.label_set), str(index.codes.dtype)],
        "thresholds": [model.config.thresholds, model.config.calibration, model.config.problem_type],
        "options": {**scorer.options, "bf16": scorer.bf16},
    }


def _name_differences(saved: dict[str, Any], expected: dict[str, Any]) -> str:
    """Lists the names of different values, with the names of nested values in parentheses."""
    names = []
    for name in dict.fromkeys([*expected, *saved]):
        old = saved.get(name)
        new = expected.get(name)
        if isinstance(old, dict) and isinstance(new, dict) and old != new:
            names.append(f"{name} ({_name_differences(old, new)})")
        elif old != new:
            names.append(name)
    return ", ".join(names)


def _digest(contents: Iterable[bytes]) -> str:
    """Hashes byte strings and their lengths."""
    digest = blake2b(digest_size=16)
    for content in contents:
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


def _scored(window: list[Document], scorer: GileScorer, with_text: bool | None) -> Iterator[dict[str, Any]]:
    """Yields output rows of documents; rows that could not be scored have no labels."""
    texts = [document.text for document in window]
    columns = scorer({"text": texts})
    for index, document in enumerate(window):
        row = {name: columns[name][index] for name in ("labels", "scores", "note")}
        includes_text = document.id is None if with_text is None else with_text
        yield {"id": document.id, "text": document.text if includes_text or row["labels"] is None else None, **row}


def _schema() -> Any:
    """Returns the Arrow schema of parts."""
    import pyarrow as pa

    text = pa.string()
    fields = {
        "id": text,
        "text": text,
        "labels": pa.list_(text),
        "scores": pa.list_(pa.float32()),
        "note": text,
    }
    return pa.schema(list(fields.items()))


def _parquet() -> Any:
    """Imports `pyarrow.parquet`."""
    with needs_extra("data", "writing Parquet files"):
        import pyarrow.parquet
    return pyarrow.parquet


def _open_part(path: Path) -> Any:
    """Opens the Parquet file of a part."""
    try:
        return _parquet().ParquetFile(path)
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} is damaged ({error!s:.200}): remove it, and score again") from None
