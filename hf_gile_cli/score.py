"""`hf-gile score`: scores texts, and writes a line of JSON with labels and probabilities for each text."""

import io
import json
import os
import stat
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from queue import Empty, Queue
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from .options import (
    BatchSize,
    Device,
    IdColumn,
    LabelColumns,
    Language,
    ModelOrGeneral,
    OnError,
    Revision,
    TextColumns,
)
from .running import counted, note, visible
from .saved_model import GENERAL, is_general, load, note_unknown_labels
from .score_folder import FolderOptions, parse_shard, show_folder, write_folder

if TYPE_CHECKING:
    from hf_gile import GileForSequenceClassification, GileProcessor, LabelIndex, LabelScoringPipeline, LabelSet
    from hf_gile.data import Document, ReadReport

T = TypeVar("T")

_MOST_EVIDENCE = 5
"""Maximum number of words that are evidence for a label."""

_SAMPLE = 100
"""Number of texts from which the general scorer detects the language for `--output`."""


@dataclass(kw_only=True)
class Scoring(FolderOptions, LabelColumns):
    """Options of `hf-gile score`."""

    model: ModelOrGeneral = GENERAL
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILES",
            help="Text files (a text per line) or tables (.jsonl, .csv, .tsv, .json, .parquet); - is standard input.  "
            "[default: -]",
        ),
    ] = None
    labels: Annotated[
        list[str] | None,
        typer.Option(
            "--label", "-l", metavar="NAME", help="A label; repeat for several.  [default: the labels of the model]"
        ),
    ] = None
    label_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Score the labels of a table, MeSH or SKOS file.")
    ] = None
    background: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="For the general scorer: a few hundred similar texts; words common to all of them count less.",
        ),
    ] = None
    index: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Score the labels of an index written by `hf-gile index`.")
    ] = None
    top_k: Annotated[
        int | None,
        typer.Option(min=0, metavar="K", help="Number of best labels; 0 for all.  [default: 10; all with --threshold]"),
    ] = None
    threshold: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|stored", help="Only labels with at least this probability, or their stored thresholds."
        ),
    ] = None
    force_label: Annotated[
        bool | None,
        typer.Option(
            "--force-label/--no-force-label",
            help="Return the best label if none reaches the threshold.  [default: --threshold stored does as stored]",
        ),
    ] = None
    multi_label: Annotated[
        bool | None,
        typer.Option(
            "--multi-label/--one-label",
            help="Score labels independently, or as exclusive classes.  [default: as in the model]",
        ),
    ] = None
    long_texts: Annotated[
        Literal["cut", "max", "mean"], typer.Option(help="Truncate long texts, or combine the scores of their parts.")
    ] = "cut"
    evidence: Annotated[
        bool, typer.Option("--evidence", help="Add the words without which each label is less probable.")
    ] = False
    parents: Annotated[bool, typer.Option("--parents", help="Add the parents of each label.")] = False
    shortlist: Annotated[
        int | None,
        typer.Option(min=1, metavar="K", help="Return the K best labels, with a text for a language model prompt."),
    ] = None
    language: Language = None
    candidate_language: Annotated[
        str | None, typer.Option(metavar="NAME", help="Language of the labels, if different from the texts.")
    ] = None
    text: TextColumns = None
    id: IdColumn = None
    format: Annotated[
        Literal["text", "jsonl", "csv"] | None,
        typer.Option(help="Format of standard input, or of files without a known suffix."),
    ] = None
    with_text: Annotated[
        bool | None,
        typer.Option("--with-text/--without-text", help="Include the text.  [default: unless the text has an id]"),
    ] = None
    batch_size: BatchSize = 32
    device: Device = None
    revision: Revision = None
    on_error: OnError = "raise"

    def pipeline_options(self) -> dict[str, Any]:
        """Returns the keyword arguments of a pipeline call; None stands for its default."""
        threshold = self.threshold
        top_k = self.top_k
        try:
            min_probability = threshold if threshold in (None, "stored") else float(threshold)
        except ValueError:
            raise typer.BadParameter(
                f"must be a number or stored, got {threshold!r}", param_hint="--threshold"
            ) from None
        return {
            "threshold": min_probability,
            "top_k": 10 if top_k is None and threshold is None else top_k or None,
            "force_label": self.force_label,
            "multi_label": self.multi_label,
            "long_texts": self.long_texts,
            "return_parents": self.parents,
            "shortlist": self.shortlist,
            "language": self.language,
            "label_language": self.candidate_language,
        }

    def load(self, texts: Iterable[str] = ()) -> tuple["GileForSequenceClassification", "GileProcessor", Any]:
        """Checks the arguments, and loads model, processor and labels; `texts` choose the general scorer's language."""
        from hf_gile.data import read_documents

        label_set = self.read_labels()
        names = self.labels or (label_set.names if label_set else [])
        if self.model == GENERAL and not names and self.index is None:
            raise typer.BadParameter("the general scorer has no labels: pass --label, --label-file or --index")
        if self.model != GENERAL and self.background is not None:
            raise typer.BadParameter("applies to the general scorer only", param_hint="--background")
        text = self.text or ["text"]
        background = self.background and read_documents(
            self.background, text, format=self.format, requested=self.requested()
        )
        background_texts = (document.text for document in background or ())
        if self.index is not None:  # built over the encoder for English
            texts = ()
        model, processor = load(self.model, self.revision, self.device, names, background_texts, texts)
        return model, processor, self.candidates(label_set, model, processor)

    def read_labels(self) -> Any:
        """Reads the label file, if any."""
        if sum(source is not None for source in (self.labels or None, self.label_file, self.index)) > 1:
            raise typer.BadParameter("pass only one of --label, --label-file and --index")
        if self.label_file is None:
            return None
        from hf_gile.data.label_files import layout_beside

        return self.read(self.label_file, **layout_beside(self.label_file, self.encoding))

    def candidates(
        self, label_set: "LabelSet | None", model: "GileForSequenceClassification", processor: "GileProcessor"
    ) -> Any:
        """Returns the labels to score: from a file, an index or the command line, or None for stored labels."""
        from hf_gile import LabelIndex, LabelSet

        if self.index is not None:
            return LabelIndex.from_pretrained(self.index, model).to(model.device)
        labels = LabelSet.from_names(self.labels) if self.labels else label_set
        if labels:
            note_unknown_labels(model, processor, labels, self.candidate_language or self.language)
        return labels


def score(options: Scoring) -> None:
    """Score texts against the labels of a model, or any others.

    Writes a line of JSON for each text, in order: {"id": ..., "text": ..., "labels": [names, best first], "scores":
    [probabilities]}. Memory use does not grow with the input. Lines from a pipe or a terminal are answered as they
    arrive.

        hf-gile score MODEL notes.txt > scored.jsonl
        hf-gile score MODEL records.jsonl --text title --text abstract --threshold stored --force-label
        echo "Rats were fed." | hf-gile score MODEL --label "Milk, Human" --label Rats
        echo "Where is my parcel?" | hf-gile score --label invoice --label delivery  # without training
        hf-gile score general notes.txt --background notes.txt --label invoice --label delivery
        tail -f incoming.jsonl | hf-gile score MODEL --label-file subjects.csv --top-k 5
        hf-gile score MODEL 2026-*.parquet --output scored --workers 8
        hf-gile score --output scored --status

    With --output, large inputs are scored in parts. An interrupted run resumes where it stopped. Machines with access
    to the folder can share the run.
    """
    if options.status or options.merge is not None:
        show_folder(options)
    elif options.output is not None:
        _score_into_folder(options, options.output)
    else:
        _score_into_lines(options)


def _score_into_folder(options: Scoring, output: Path) -> None:
    from hf_gile.data import ReadReport, read_documents
    from hf_gile.scoring import GileScorer, Reading

    if not options.files or "-" in options.files:
        raise typer.BadParameter("needs files as input, not standard input", param_hint="--output")
    for name in ("evidence", "parents", "shortlist"):
        if getattr(options, name):
            raise typer.BadParameter("cannot be combined with --output", param_hint=f"--{name}")
    shard = parse_shard(options.shard)
    call = options.pipeline_options()
    text = options.text or ["text"]
    arguments: dict[str, Any] = {"id": options.id, "format": options.format, "requested": options.requested()}
    first = read_documents(options.files[0], text, **arguments, report=ReadReport("skip"))
    model, processor, labels = options.load(document.text for document in islice(first, _SAMPLE))
    batching: dict[str, Any] = {"batch_tokens": options.batch_tokens, "bf16": options.bf16}
    scorer = GileScorer(model, labels, processor=processor, **batching, **call)
    size = int(options.part_size * (1 << 20))
    reading = Reading(text, options.id, options.format, options.requested(), options.with_text, size)
    write_folder(output, options.files, scorer, reading, shard, options.workers)


def _score_into_lines(options: Scoring) -> None:
    from hf_gile.data import ReadReport, read_documents

    sources = options.files or ["-"]
    report = ReadReport(options.on_error)
    call = options.pipeline_options()
    # Check all arguments before loading the model.
    streams = [_standard_input() if source == "-" else source for source in sources]
    reading: dict[str, Any] = {"id": options.id, "format": options.format, "requested": options.requested()}
    documents = [read_documents(stream, options.text or ["text"], **reading, report=report) for stream in streams]
    loaded, processor, labels = options.load()
    from hf_gile.default_pipeline import DefaultPipeline

    # The whole run uses one label set, so its codes are cached whatever their size.
    pipe = DefaultPipeline(
        model=loaded,
        processor=processor,
        device=loaded.device,
        label_cache_bytes=1 << 62,
        chooses_encoder=is_general(options.model) and options.background is None,
    )

    written = unknown = 0
    with _progress(sources, streams) as bar:
        for source, stream, texts in zip(sources, streams, documents, strict=True):
            before = report.records
            for batch in _batches(source, stream, texts, options.batch_size):
                pipe.call_count = 0  # prevents the advice of Transformers on GPUs to use a dataset
                answers = pipe([document.text for document in batch], labels, batch_size=options.batch_size, **call)
                for document, answer in zip(batch, answers, strict=True):
                    if options.evidence:
                        answer["evidence"] = _find_evidence(pipe, document.text, labels, answer, call)
                    sys.stdout.write(_line(document, answer, options.with_text))
                    unknown += "note" in answer
                sys.stdout.flush()
                written += len(batch)
                bar.update(len(batch))
            if report.records == before:
                note(f"no texts in {'standard input' if source == '-' else source}")
    _print_summary(report, written, unknown)
    if warning := pipe.note_on_texts():
        note(warning)


def _find_evidence(
    pipe: "LabelScoringPipeline",
    text: str,
    labels: "LabelIndex | LabelSet | None",
    answer: dict[str, Any],
    call: dict[str, Any],
) -> list[list[tuple[str, float]]]:
    """Returns for each label of an answer the words without which its probability falls most, and by how much."""
    import torch

    from hf_gile.scoring.evidence import find_evidence

    all_labels = call | {"top_k": None, "threshold": None, "force_label": False, "shortlist": None}

    def score(texts: list[str]) -> torch.Tensor:
        pipe.call_count = 0
        answers = pipe(texts, labels, batch_size=len(texts), **all_labels)
        by_name = [dict(zip(answer["labels"], answer["scores"], strict=True)) for answer in answers]
        return torch.tensor([[scores[name] for name in answer["labels"]] for scores in by_name])

    return [parts[:_MOST_EVIDENCE] for parts in find_evidence(score, text, torch.tensor(answer["scores"]))]


def _print_summary(report: "ReadReport", written: int, unknown: int) -> None:
    for line in report.notes:
        note(line)
    if unknown:
        note(f"the model knows no word of {counted(unknown, 'text')} (lines with a note): their scores mean little")
    left_out = sum(report.left_out.values())
    if left_out:
        examples = "; ".join(example for group in report.examples.values() for example in group)
        note(f"{counted(left_out, 'malformed line')} left out: {examples}")
        if not written:
            raise ValueError("no text could be read")


def _line(document: "Document", answer: dict[str, Any], with_text: bool | None) -> str:
    row: dict[str, Any] = {} if document.id is None else {"id": document.id}
    if with_text or (with_text is None and document.id is None):
        row["text"] = document.text
    row["labels"] = answer["labels"]
    row |= {name: _round_numbers(answer[name]) for name in ("scores", "evidence") if name in answer}
    row |= {name: answer[name] for name in ("parents", "shortlist", "note") if name in answer}
    return visible(json.dumps(row, ensure_ascii=False)) + "\n"


def _round_numbers(value: object) -> Any:
    """Rounds numbers to six digits, which exceeds the precision of 32 bits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: _round_numbers(item) for name, item in value.items()}
    return [_round_numbers(item) for item in value] if isinstance(value, list | tuple) else value


def _progress(sources: Sequence[str], streams: Sequence[IO[bytes] | str]) -> Any:
    from tqdm.auto import tqdm

    waits = any(_may_block(source, stream) for source, stream in zip(sources, streams, strict=True))
    # None shows a bar if standard error is a terminal. Typed or piped input gets no bar, nor do answers on a terminal.
    return tqdm(unit=" texts", disable=True if waits or sys.stdout.isatty() else None)


def _may_block(source: str, stream: IO[bytes] | str) -> bool:
    return source == "-" and not _is_file(stream)


def _standard_input() -> IO[bytes]:
    # A separate stream: the waiting thread holds its lock, and holding the lock of sys.stdin would block the exit.
    with suppress(io.UnsupportedOperation, AttributeError):
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    return sys.stdin.buffer


def _is_file(stream: Any) -> bool:
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, io.UnsupportedOperation):
        return False


def _batches(source: str, stream: IO[bytes] | str, documents: Iterator[T], size: int) -> Iterator[list[T]]:
    if source == "-" and sys.stdin.isatty():
        note("reading texts from the terminal, one per line; press Ctrl-D to finish")
    return read_ahead(documents, size, fills=not _may_block(source, stream))


def read_ahead(items: Iterator[T], size: int, fills: bool) -> Iterator[list[T]]:
    """Yields batches of `size` items, or, unless it `fills` them, of those that are there, waiting only for the first.

    A thread reads the items at most a few batches ahead. An error of `items` is raised after the items before it.
    """
    queue: Queue[tuple[T | None, BaseException | None]] = Queue(4 * size)

    def read() -> None:
        error: BaseException = StopIteration()
        try:
            for item in items:
                queue.put((item, None))
        except BaseException as raised:
            error = raised
        queue.put((None, error))

    threading.Thread(target=read, daemon=True).start()
    error: BaseException | None = None
    while error is None:
        batch: list[Any] = []
        item, error = queue.get()
        while error is None:
            batch.append(item)
            if len(batch) == size:
                break
            try:
                item, error = queue.get(block=fills)
            except Empty:
                break
        if batch:
            yield batch
    if not isinstance(error, StopIteration):
        raise error
