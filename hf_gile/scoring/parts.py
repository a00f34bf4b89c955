"""A folder of scores, part by part: a part that is there is whole, so a run that was killed goes on where it was.

OUTPUT/_run.json            what the run is made of, and its parts
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
from ..extras import needs_extra
from ..label_index import fingerprint
from ..publishing.exchange import alone
from ..writing import whole_file
from .scorer import GileScorer

RUN_FILE = "_run.json"
"""The file that says what a run is made of."""

FORMAT_VERSION = 1
"""Raised when a run changes meaning, so that older code refuses it."""

# Texts that are sorted by length at a time, and the characters that these may have.
_WINDOW = 1 << 12
_WINDOW_CHARACTERS = 1 << 24


@dataclass(frozen=True)
class Reading:
    """How texts are read of files.

    Args:
        text: As in `read_documents`, like `id`, `format` and `encoding`.
        id: The column of ids.
        format: What files hold whose names do not say.
        encoding: Of text files.
        with_text: Whether parts have the text; by default in rows without an id.
        part_bytes: About how many bytes of a file become a part.
    """

    text: Sequence[str] = ("text",)
    id: str | None = None
    format: str | None = None
    encoding: str = "utf-8"
    with_text: bool | None = None
    part_bytes: int = 1 << 24


@dataclass
class _Rejections(ReadReport):
    """Keeps every row that cannot be read, where a report counts them."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def leave_out(self, reason: str, what: str) -> None:
        self.rows.append({"note": what})


@dataclass(frozen=True)
class ScoringRun:
    """The parts of a run, those that are done and those that are not.

    Make one with `start_run`, or `load` it to see how far it is.

    Args:
        folder: Where they are.
        reading: How texts are read.
        parts: The names of parts, in their order, and what each is made of.
    """

    folder: Path
    reading: Reading
    parts: dict[str, Piece]

    @classmethod
    def load(cls, folder: str | Path) -> "ScoringRun":
        """Loads what `start_run` has written.

        Raises:
            FileNotFoundError: There is no run.
            ValueError: Its file is damaged.
        """
        file = Path(folder) / RUN_FILE
        if not file.is_file():
            raise FileNotFoundError(f"{folder} holds no run of hf-gile score --output: there is no {RUN_FILE}")
        written = _read(file)
        try:
            parts = {str(name): Piece(str(path), start, stop) for name, (path, start, stop) in written["parts"].items()}
            return cls(Path(folder), Reading(**written["fingerprint"]["reading"]), parts)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{file} is damaged ({error!s:.200}): choose another folder") from None

    def part(self, name: str) -> Path:
        """The file of a part."""
        return self.folder / "parts" / f"{name}.parquet"

    def rejected(self, name: str) -> Path:
        """The file of the rows of a part that could not be scored."""
        return self.folder / "rejected" / f"{name}.jsonl"

    def left(self, shard: int = 0, shards: int = 1) -> list[str]:
        """The parts that are not done, of all or of each `shards`-th from number `shard` on."""
        return [name for name in islice(self.parts, shard, None, shards) if not self.part(name).exists()]

    def status(self) -> dict[str, int]:
        """Counts parts, and the rows of those that are done.

        Raises:
            ValueError: A part is damaged.
        """
        counts = {"parts": len(self.parts), "done": 0, "rows": 0, "rejected": 0}
        for name in self.parts:
            if self.part(name).exists():
                about = _opened(self.part(name)).metadata
                counts["done"] += 1
                counts["rows"] += about.num_rows
                counts["rejected"] += int(about.metadata[b"rejected"])
        return counts

    def merge(self, path: str | Path) -> int:
        """Writes all parts into a single Parquet file, in the order of what was read; returns the number of rows.

        Raises:
            ValueError: Parts are missing or damaged.
        """
        if left := self.left():
            raise ValueError(f"{len(left):,} of {len(self.parts):,} parts are not done, such as {left[0]}: score first")
        pq, schema, rows = _parquet(), _schema(), 0
        with whole_file(path) as written, pq.ParquetWriter(written, schema) as writer:
            for name in self.parts:
                for batch in _opened(self.part(name)).iter_batches():
                    writer.write_batch(batch)
                    rows += len(batch)
        return rows

    def tidy(self) -> None:
        """Removes what killed processes have left, if all parts are done and nobody writes any."""
        if not self.left():
            for stale in [*self.folder.glob("parts/.*"), *self.folder.glob("rejected/.*")]:
                stale.unlink(missing_ok=True)

    def score(self, name: str, scorer: GileScorer) -> dict[str, int]:
        """Scores the texts of a part, and writes it: all of it, or nothing that counts.

        Args:
            name: The part.
            scorer: Made for the run, with the columns `text`.

        Returns:
            Numbers of `rows` and of those `rejected`.

        Raises:
            ValueError: Not one text could be scored.
        """
        reading, report, count = self.reading, _Rejections("skip"), 0
        documents = read_documents(
            self.parts[name],
            reading.text,
            id=reading.id,
            format=reading.format,
            encoding=reading.encoding,
            report=report,
        )
        with whole_file(self.part(name)) as written, _parquet().ParquetWriter(written, _schema()) as writer:
            for window in _windows(documents):
                scored = [*_scored(window, scorer, reading.with_text)]
                rows = [row for row in scored if row["labels"] is not None]
                report.rows += [row for row in scored if row["labels"] is None]
                writer.write_batch(_batch(rows))
                count += len(rows)
            if report.rows and not count:
                raise ValueError(f"{self.parts[name].path}: not one text could be scored: {report.rows[0]['note']}")
            writer.add_key_value_metadata({"rejected": str(len(report.rows))})
            self._write_rejected(name, report.rows)  # before the part, which says that all is done
        return {"rows": count, "rejected": len(report.rows)}

    def _write_rejected(self, name: str, rows: list[dict[str, Any]]) -> None:
        path = self.rejected(name)
        if not rows:
            path.unlink(missing_ok=True)
            return
        with whole_file(path) as written:
            written.write_text(
                "".join(json.dumps({"reason": row.pop("note"), **_filled(row)}) + "\n" for row in rows),
                encoding="utf-8",
            )


def start_run(folder: str | Path, files: Iterable[str | Path], scorer: GileScorer, reading: Reading) -> ScoringRun:
    """Starts a run, or goes on with it.

    Args:
        folder: Where the scores go.
        files: Texts; their order is that of the parts.
        scorer: What will score them.
        reading: How to read them.

    Raises:
        FileNotFoundError: A file is nowhere.
        ValueError: The folder holds a run with other weights, labels, thresholds, files, arguments or code.
    """
    folder, paths = Path(folder), [Path(file).resolve() for file in files]
    parts = {}
    for number, path in enumerate(paths):
        stem = re.sub(r"[^\w.-]", "_", path.name)[:80]
        for piece in document_pieces(str(path), reading.part_bytes, reading.format, reading.encoding):
            parts[f"{number:05}-{stem}-{piece.start:012}"] = piece
    states = [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in paths]
    made_of: dict[str, Any] = {**_fingerprint(scorer), "reading": asdict(reading), "files": states}
    made_of = json.loads(json.dumps(made_of, default=str))
    for name in ("parts", "rejected"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    file = folder / RUN_FILE
    with alone(folder):
        if file.is_file():
            before = _read(file)["fingerprint"]
            if other := _different(before, made_of):
                raise ValueError(f"{folder} holds a run with other {other}: choose another folder, or remove this one")
        elif any((folder / "parts").glob("[!.]*.parquet")):
            raise ValueError(f"{folder} holds parts, and no {RUN_FILE} that says what they are: choose another folder")
        else:
            with whole_file(file) as written:
                run = {"format_version": FORMAT_VERSION, "fingerprint": made_of, "parts": parts}
                written.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    return ScoringRun(folder, reading, parts)


def _fingerprint(scorer: GileScorer) -> dict[str, Any]:
    """What scores depend on, and in which words to say that it differs."""
    model, index = scorer.pipe.model, scorer.index
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


def _different(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Names what differs, and of options which."""
    names = []
    for name in dict.fromkeys([*now, *before]):
        old, new = before.get(name), now.get(name)
        if isinstance(old, dict) and isinstance(new, dict) and old != new:
            names.append(f"{name} ({_different(old, new)})")
        elif old != new:
            names.append(name)
    return ", ".join(names)


def _digest(contents: Iterable[bytes]) -> str:
    digest = blake2b(digest_size=16)
    for content in contents:
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


def _read(file: Path) -> dict[str, Any]:
    try:
        run = json.loads(file.read_text(encoding="utf-8"))
        number = run["format_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file} is damaged ({error!s:.200}): choose another folder") from None
    if number != FORMAT_VERSION:
        raise ValueError(f"{file} has format_version {number}, this code reads {FORMAT_VERSION}: upgrade hf-gile")
    return run


def _windows(documents: Iterator[Document]) -> Iterator[list[Document]]:
    window: list[Document] = []
    characters = 0
    for document in documents:
        window.append(document)
        characters += len(document.text)
        if len(window) == _WINDOW or characters >= _WINDOW_CHARACTERS:
            yield window
            window, characters = [], 0
    if window:
        yield window


def _scored(window: list[Document], scorer: GileScorer, with_text: bool | None) -> Iterator[dict[str, Any]]:
    texts = [document.text for document in window]
    columns = scorer({"text": texts})
    for place, document in enumerate(window):
        row = {name: columns[name][place] for name in ("labels", "scores", "note")}
        shows_text = document.id is None if with_text is None else with_text
        yield {"id": document.id, "text": document.text if shows_text or row["labels"] is None else None, **row}


def _filled(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def _schema() -> Any:
    with needs_extra("data", "writing Parquet files"):
        import pyarrow as pa
    text, many = pa.string(), pa.list_
    fields = {"id": text, "text": text, "labels": many(text), "scores": many(pa.float32()), "note": text}
    return pa.schema(list(fields.items()))


def _parquet() -> Any:
    with needs_extra("data", "writing Parquet files"):
        import pyarrow.parquet
    return pyarrow.parquet


def _batch(rows: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_pylist(rows, schema=_schema())


def _opened(path: Path) -> Any:
    try:
        return _parquet().ParquetFile(path)
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} is damaged ({error!s:.200}): remove it, and score again") from None


__all__ = ["RUN_FILE", "Reading", "ScoringRun", "start_run"]
