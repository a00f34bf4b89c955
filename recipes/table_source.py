"""Input settings for tables of documents: files, columns and label file."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hf_gile.data.annif import load_annif, load_annif_vocabulary
from hf_gile.data.files import data_suffix
from hf_gile.data.homonyms import note_case
from hf_gile.data.joined_labels import describe_near_forms, unlike
from hf_gile.data.label_columns import SAMPLE
from hf_gile.data.label_files import layout_beside, load_labels
from hf_gile.data.parts import PARTS, fill_parts
from hf_gile.data.report import ReadReport
from hf_gile.data.sniffing import Requested
from hf_gile.data.table_files import SUFFIXES
from hf_gile.data.tables import Unlabelled, load_table, table_of
from hf_gile.data.zero_shot import drop_labels, held_out_labels, seen_first
from hf_gile.models.labels_gile import LabelSet

_OFTEN = 5  # documents; a label that so many have would hardly be missing by chance
_MANY = 50  # documents; a sample of fewer may have one of each label
_SELDOM = (
    "choose another column with --labels, pass --separator with the sign between several labels of a cell, or if each "
    "cell is a label, describe them in a --label_file or pass --separator none"
)

if TYPE_CHECKING:
    from datasets import Dataset

FORMATS: dict[str, Sequence[str]] = {"table": (*SUFFIXES, ".txt"), "annif": (".tsv", ".csv", ".jsonl", ".txt")}
"""Formats of files, and their suffixes."""


@dataclass
class TableSource:
    """Documents for training, validation and testing, their columns, and their labels.

    Args:
        train_files: Training files, folders or globs.
        validation_files: Validation files; by default a tenth of the training documents, stratified by label.
            Documents with the same text, or the same --id, stay together.
        test_files: Test files; by default a tenth of the training documents, like validation_files.
        format: table; or annif for Annif corpora and vocabularies.
        dataset: Dataset on the Hub, or a folder, instead of files.
        dataset_config: Configuration of the dataset.
        text: Columns with the text, joined in this order.
        labels: Column with the label ids; or several, such as a column of zeros and ones for each label. Without a
            column `labels`, all columns of zeros and ones are labels.
        separator: Separator of label ids within a cell, such as ';', tab, newline or space, or several, as in ';,';
            json for lists as text; none if each cell is a label.
        unlabelled: What documents without labels are: negative if they have none, or drop if theirs are unknown.
        id: Column with the document ids; by default file and row.
        label_file: File with the names of label ids: a table, a text with a label on each line, MeSH or SKOS; by
            default the ids are names.
        label_id: Column of the label file with the ids.
        label_name: Columns with the label names; the first non-empty column is used.
        label_description: Columns that describe labels; for SKOS alt_labels, definition, broader; for MeSH entry_terms,
            scope_note, tree_path; none for names only. By default the definitions, if there are any.
        label_synonyms: Columns with synonyms.
        label_language: Languages of SKOS names, in order of preference.
        on_unknown_label: Label ids missing from the label file: raise, or drop.
        delimiter: Delimiter of cells in CSV files of documents; by default, this and the next three are seen in each
            file, as they always are in the label file.
        quote: Sign around cells with delimiters or line breaks; none if quotes are text.
        encoding: Encoding of the files, such as windows-1252.
        columns: Names of the columns of CSV files without a header.
        on_error: Malformed rows and labels: raise, or skip and count.
        num_proc: Number of processes that read files.
        held_out: Fraction of labels that only test documents keep, by a hash of their ids, to evaluate unseen labels.
            Use --held_out_labels to hold out other labels for choosing settings.
    """

    train_files: list[str] = field(default_factory=list)
    validation_files: list[str] = field(default_factory=list)
    test_files: list[str] = field(default_factory=list)
    format: Literal["table", "annif"] = "table"
    dataset: str | None = None
    dataset_config: str | None = None
    text: list[str] = field(default_factory=lambda: ["text"])
    labels: list[str] = field(default_factory=lambda: ["labels"])
    separator: str | None = None
    unlabelled: Unlabelled = "negative"
    id: str | None = None
    label_file: str | None = None
    label_id: str = "id"
    label_name: list[str] = field(default_factory=lambda: ["name"])
    label_description: list[str] = field(default_factory=list)
    label_synonyms: list[str] = field(default_factory=list)
    label_language: list[str] = field(default_factory=lambda: ["en"])
    on_unknown_label: Literal["raise", "drop"] = "raise"
    delimiter: str | None = None
    quote: str | None = None
    encoding: str | None = None
    columns: list[str] = field(default_factory=list)
    on_error: Literal["raise", "skip"] = "raise"
    num_proc: int = 1
    held_out: float = 0.0

    def check_source(self) -> None:
        """Checks for incompatible settings before any file is read.

        Raises:
            ValueError: If there are any.
        """
        if self.dataset and (self.train_files or self.validation_files or self.test_files):
            raise ValueError("pass either --dataset or files, not both")
        if not self.dataset and not self.train_files:
            raise ValueError("no training documents: pass --train_files, or a --dataset with a split `train`")
        if not 0 <= self.held_out < 1:
            raise ValueError(f"held_out must be a fraction from 0 to below 1, got {self.held_out}")

    @property
    def name(self) -> str:
        """Returns the name of the training data, from the dataset or the files."""
        if self.dataset:
            folder = Path(self.dataset)
            return folder.name if folder.exists() else self.dataset
        return join_file_names(self.train_files)

    def read_all(self, say: Callable[..., None]) -> "tuple[dict[str, Dataset], LabelSet, list[str]]":
        """Reads all documents and labels.

        Args:
            say: Prints a line about each part.

        Returns:
            A dataset with the columns `id`, `text` and `labels` for each of `PARTS`; the labels, where labels of
            training documents come first and have counts; and the parts that were cut from the training documents, none
            if labels are held out of them.

        Raises:
            OSError: If a path does not exist.
            ValueError: If the files cannot be read, or documents have labels missing from the label file.
        """
        known, report = None, ReadReport()
        if self.label_file is not None:
            known, report = self.read_labels()
            _say_report(say, "labels", report)
        parts, labels = self._read_parts(known, say)
        cut = [] if self.held_out else [part for part in PARTS if part not in parts]
        parts = fill_parts(parts, column="text" if self.id is None else "id")
        if self.held_out:
            parts = hold_out_labels(parts, self.held_out)
        labels = self._collect_labels(parts, labels if known is None else known, report.ids_left_out, say)
        return parts, labels, cut

    def _read_parts(
        self, known: LabelSet | None, say: Callable[..., None]
    ) -> "tuple[dict[str, Dataset], LabelSet | None]":
        """Reads the available parts, and the labels that a dataset defines."""
        parts: dict[str, Dataset] = {}
        labels = None
        options: dict[str, Any] = {"known": [] if known is None else known.ids}
        if self.dataset:
            for part, rows in self._load_dataset().items():
                if part in PARTS:
                    report = ReadReport(self.on_error)
                    parts[part], labels = table_of(rows, **self.document_columns(), **options, report=report)
                    _say_report(say, part, report)
            if "train" not in parts:
                raise ValueError(f"no training documents: the dataset {self.dataset} has no split `train`")
        else:
            for part in PARTS:
                if paths := getattr(self, f"{part}_files"):
                    parts[part], report = self.read(paths, **options)
                    report.note(note_pairs(parts[part]))
                    _say_report(say, part, report)
                    # The other parts are read as the training documents, which show best what a column is.
                    options.setdefault("labels", report.labels)
        names = getattr(report.labels, "names", ())
        if known is None and not names and self.separator != "none":
            _refuse_unlike(parts)
        elif known is not None and names[:1] == (tuple(known.names),) and report.labels.form != "positions":
            self._refuse_title(parts, known.names)
        return parts, labels

    def _refuse_title(self, parts: "Mapping[str, Dataset]", names: Sequence[str]) -> None:
        """Refuses names of classes, by line, of which only the last has no document: the first may be a title."""
        used = sum(map(count_labels, parts.values()), Counter[str]())
        least = min(used[name] for name in names[:-1])
        if used[names[-1]] == 0 and least >= _OFTEN and data_suffix(Path(self.label_file or "")) not in SUFFIXES:
            raise ValueError(
                f"{self.label_file} has {len(names):,} labels, but the documents only have the classes 0 to "
                f"{len(names) - 2:,}: is its first line, {names[0]!r}, a title? Remove it, or if no document has "
                f"{names[-1]!r}, write a table with the columns id (0, 1 and so on) and name"
            )

    def _load_dataset(self) -> "Mapping[str, Dataset]":
        """Loads the dataset, which may be a folder written by `save_to_disk`."""
        import datasets

        folder = Path(self.dataset or "")
        if not any((folder / name).is_file() for name in ("dataset_dict.json", "state.json")):
            return datasets.load_dataset(self.dataset, self.dataset_config)
        saved = datasets.load_from_disk(str(folder))
        return saved if isinstance(saved, dict) else {"train": saved}

    def _collect_labels(
        self,
        parts: "dict[str, Dataset]",
        labels: LabelSet | None,
        left_out: Mapping[str, str],
        say: Callable[..., None],
    ) -> LabelSet:
        """Collects the labels, those of training documents first."""
        counts_by_part = {part: count_labels(rows) for part, rows in parts.items()}
        used = sum(counts_by_part.values(), Counter[str]())
        if labels is None:
            labels = LabelSet.from_names(sorted(used))
            is_rare = 1 < len(used) > 0.9 * used.total() and self.separator != "none"
            if is_rare and all(len(gold) < 2 for rows in parts.values() for gold in rows["labels"]):
                problem = f"{len(used):,} labels, such as {labels[0].name!r}, in {used.total():,} documents"
                problem += ": hardly any label has two"
                if used.total() >= _MANY:
                    raise ValueError(f"{problem}; {_SELDOM}")
                say(f"note: {problem}")
            if note := note_case((label_id, None) for label_id in used):
                say(f"note: {note}: they count as different labels")
        missing: dict[str, list[str]] = {}  # ids by the reason why the label file left them out
        for label_id in used:
            if label_id not in labels:
                missing.setdefault(left_out.get(label_id, ""), []).append(label_id)
        if missing:
            described = [self._describe_missing(ids, reason, labels, parts) for reason, ids in missing.items()]
            problem = "; ".join(problem for problem, _ in described)
            if self.on_unknown_label != "drop":
                remedies = ", ".join(remedy for _, remedy in described)
                raise ValueError(f"{problem}; {remedies}, or drop them with --on_unknown_label drop")
            say(f"{problem}: dropped {sum(used[label_id] for ids in missing.values() for label_id in ids):,} times")
        return seen_first(labels, {label: count for label, count in counts_by_part["train"].items() if label in labels})

    def _describe_missing(
        self, ids: Sequence[str], reason: str, labels: LabelSet, parts: "Mapping[str, Dataset]"
    ) -> tuple[str, str]:
        """Returns a problem, with the id of the first document that has such a label, and its remedy."""
        document = _first_document(parts, ids[0])
        hint = describe_near_forms(ids, labels)
        if not (hint or reason):
            hint = f" (its ids are like {labels.ids[0]!r})"
        number = f"{len(ids):,} label ids" if len(ids) > 1 else "1 label id"
        shown = (
            f"{number} of the documents, such as {', '.join(map(repr, ids[:3]))}{hint}, first in document {document!r}"
        )
        if not reason:
            return f"{self.label_file} lacks {shown}", "add them, choose the column of ids with --label_id"
        choose = "choose other languages with --label_language, or other columns with --label_name"
        remedy = choose if reason.startswith("without") else "replace them"
        return f"{self.label_file} has {shown}, but left out as {reason}", remedy

    def document_columns(self) -> dict[str, Any]:
        """Returns the arguments of `load_table` and `table_of` that name columns."""
        names = ("text", "labels", "id", "separator", "unlabelled")
        return {name: getattr(self, name) for name in names}

    def read(self, files: Sequence[str], **options: Any) -> "tuple[Dataset, ReadReport]":
        """Reads documents from tables or Annif files; `options` are further arguments of `load_table`.

        Raises:
            OSError: If a path does not exist.
            ValueError: If the files cannot be read.
        """
        reading: dict[str, Any] = {"on_error": self.on_error, "num_proc": self.num_proc}
        if self.format == "annif":
            return load_annif(files, **reading)
        reading |= {name: getattr(self, name) for name in Requested._fields}
        return load_table(files, **self.document_columns() | reading | options)

    def read_labels(self) -> tuple[LabelSet, ReadReport]:
        """Reads the label file; for Annif, this may be an Annif vocabulary.

        Raises:
            OSError: If the file does not exist.
            ValueError: If it cannot be read.
        """
        path, report = self.label_file or "", ReadReport(self.on_error)
        if self.format == "annif" and data_suffix(Path(path)) in (".tsv", ".csv"):
            return load_annif_vocabulary(path, self.label_language, report), report
        labels = load_labels(
            path,
            id=self.label_id,
            name=self.label_name,
            description=self.label_description or None,
            synonyms=self.label_synonyms,
            languages=self.label_language,
            report=report,
            **layout_beside(path, self.encoding),
        )
        return labels, report


def join_file_names(files: Sequence[str]) -> str:
    """Returns a name for documents, from the names of their files, folders and globs."""
    return ", ".join(dict.fromkeys(Path(file).name.partition(".")[0] for file in files))


def count_labels(rows: "Dataset") -> Counter[Any]:
    """Counts the documents of each label, in the order of their first documents."""
    import pyarrow.compute as pc

    column = rows.select_columns(["labels"]).with_format("arrow")[:]["labels"]
    counted = pc.value_counts(pc.list_flatten(column))
    return Counter({pair["values"]: pair["counts"] for pair in counted.to_pylist()})


def _refuse_unlike(parts: "Mapping[str, Dataset]") -> None:
    """Refuses labels that other files, or rows after the first, write in another form than the first training rows."""
    seen = set(chain.from_iterable(parts["train"][:SAMPLE]["labels"]))
    for part in filter(parts.__contains__, PARTS):
        new = set(count_labels(parts[part])) - seen
        odd = unlike(sorted(new), seen)
        if seen and len(odd) > max(1, 0.5 * len(new)):
            document = _first_document({part: parts[part]}, odd[0])
            hint = describe_near_forms(odd, LabelSet.from_names(sorted(seen)))
            raise ValueError(
                f"{part}: {len(odd):,} labels, such as {odd[0]!r} in document {document!r}, have another form than "
                f"{min(seen)!r} of the first training documents{hint}: write all labels in the same form, or pass "
                "--separator none if each is a label"
            )
        seen |= new


def _first_document(parts: "Mapping[str, Dataset]", label_id: str) -> str:
    """Returns the id of the first document that has a label."""
    pairs = chain.from_iterable(zip(rows["id"], rows["labels"], strict=True) for rows in parts.values())
    return next(name for name, gold in pairs if label_id in gold)


def hold_out_labels(parts: "Mapping[str, Dataset]", share: float) -> "dict[str, Dataset]":
    """Removes a share of the labels from training and validation, so that only test documents have them.

    Raises:
        ValueError: If a part would have no labels.
    """
    held_out = held_out_labels(count_labels(parts["train"]), share=share)
    remaining = dict(parts)
    for part in PARTS[:2]:
        remaining[part] = drop_labels(parts[part], held_out)
        if not count_labels(remaining[part]):
            raise ValueError(f"held_out {share} removes all labels of the {part} documents: lower it")
    return remaining


def note_pairs(rows: "Dataset") -> str:
    """Returns a note if rows are pairs of a text and a label, of which a text has several; empty otherwise."""
    labels_of: dict[str, set[str]] = {}
    repeated = 0
    first = rows.select(range(min(len(rows), SAMPLE)))
    for text, gold in zip(first["text"], first["labels"], strict=True):
        labels = labels_of.setdefault(text, set(gold))
        if not labels.issuperset(gold) and len(gold) == 1:
            repeated += 1
            labels.update(gold)
    if repeated <= 0.1 * len(first):
        return ""
    return (
        f"{repeated:,} of {len(first):,} rows repeat a text with another label, so its labels contradict each other: "
        'write a row for each text, in pandas with groupby("text")["label"].agg(list)'
    )


def _say_report(say: Callable[..., None], part: str, report: ReadReport) -> None:
    say(f"{part}: {report}")
    for line in report.notes:
        say(f"  {line}")
