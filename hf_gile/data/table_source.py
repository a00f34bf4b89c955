"""Where documents and labels of tables come from: files, columns, and the file that says what the labels mean."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..models.labels_gile import LabelSet
from .annif import load_annif, load_annif_vocabulary
from .files import suffix_of
from .label_files import read_label_file
from .parts import PARTS, all_parts, leave_to_test
from .report import ReadReport
from .table_files import SUFFIXES
from .tables import load_table, table_of
from .xmc import load_xmc
from .zero_shot import seen_first

if TYPE_CHECKING:
    from datasets import Dataset

FORMATS: dict[str, Sequence[str]] = {"table": SUFFIXES, "annif": (".tsv", ".csv", ".jsonl", ".txt"), "xmc": ()}
"""What the format of files can be, and the suffixes of those that are read."""


@dataclass
class TableSource:
    """Documents to train on, for validation and for the test, their columns, and what their labels mean.

    Args:
        train_files: Files, folders or globs.
        validation_files: By default a tenth of the training documents, by a hash of their ids.
        test_files: By default a tenth of the training documents, by a hash of their ids.
        format: table; annif, its corpora and vocabularies; or xmc, the folder of a set of the Extreme Classification
            Repository, with its test documents and labels.
        dataset: Instead of files: a dataset of the Hub, or a folder.
        dataset_config: The configuration of the dataset.
        text: Columns of text, read in this order.
        labels: Column of label ids: a list, or one text.
        separator: Cuts a text of several label ids, such as ';'.
        id: Column of ids of documents; by default file and row.
        label_file: What the label ids mean; by default they are names.
        label_id: Column of ids of the label file.
        label_name: Columns of names; the first that is not empty counts.
        label_description: Columns of what else is known; of SKOS: alt_labels, definition, broader; of MeSH:
            entry_terms, scope_note, tree_path.
        label_synonyms: Columns of other names.
        label_language: Of SKOS: languages of names, the first one there is counts.
        on_unknown_label: Label ids that the label file lacks: raise, or drop.
        encoding: Of the files.
        on_error: Malformed rows and labels: raise, or skip and count.
        num_proc: Processes that read files.
        held_out: Share of the labels, by a hash of their ids, that only test documents have, for figures of unseen
            labels. To choose settings for these, hold out others: --held_out_labels.
    """

    train_files: list[str] = field(default_factory=list)
    validation_files: list[str] = field(default_factory=list)
    test_files: list[str] = field(default_factory=list)
    format: Literal["table", "annif", "xmc"] = "table"
    dataset: str | None = None
    dataset_config: str | None = None
    text: list[str] = field(default_factory=lambda: ["text"])
    labels: str = "labels"
    separator: str | None = None
    id: str | None = None
    label_file: str | None = None
    label_id: str = "id"
    label_name: list[str] = field(default_factory=lambda: ["name"])
    label_description: list[str] = field(default_factory=list)
    label_synonyms: list[str] = field(default_factory=list)
    label_language: list[str] = field(default_factory=lambda: ["en"])
    on_unknown_label: Literal["raise", "drop"] = "raise"
    encoding: str = "utf-8"
    on_error: Literal["raise", "skip"] = "raise"
    num_proc: int = 1
    held_out: float = 0.0

    def check_source(self) -> None:
        """Names settings that do not go together, before any file is read.

        Raises:
            ValueError: There are some.
        """
        if self.dataset and (self.train_files or self.validation_files or self.test_files):
            raise ValueError("pass either --dataset or files, not both")
        if not self.dataset and not self.train_files:
            raise ValueError("there is nothing to train on: pass --train_files, or a --dataset with a split `train`")
        if self.format == "xmc" and (len(self.train_files) != 1 or self.test_files or self.label_file):
            raise ValueError(
                "format xmc takes one folder as train_files, which has the test documents and the labels as well"
            )
        if not 0 <= self.held_out < 1:
            raise ValueError(f"held_out is a share of the labels, from 0 to below 1, got {self.held_out}")

    @property
    def name(self) -> str:
        """What the documents to train on are called: the name of the dataset, or those of the files."""
        if self.dataset:
            place = Path(self.dataset)
            return place.name if place.exists() else self.dataset
        return names_of(self.train_files)

    def read_all(self, say: Callable[..., None]) -> "tuple[dict[str, Dataset], LabelSet]":
        """Reads all documents and labels.

        Args:
            say: Prints a line about each part.

        Returns:
            For each of `PARTS` the columns `id`, `text` and `labels`; and the labels, those of training documents,
            with their counts, before the others.

        Raises:
            OSError: A path leads nowhere.
            ValueError: The files cannot be read, or documents have labels that the label file lacks.
        """
        parts, labels = self._read_parts(say)
        parts = all_parts(parts)
        if self.held_out:
            parts = leave_to_test(parts, self.held_out)
        return parts, self._labels_of(parts, labels, say)

    def _read_parts(self, say: Callable[..., None]) -> "tuple[dict[str, Dataset], LabelSet | None]":
        """The parts that there are, and the labels that a dataset names itself."""
        parts: dict[str, Dataset] = {}
        labels, report = None, ReadReport(self.on_error)
        if self.dataset:
            from datasets import load_dataset

            for part, rows in load_dataset(self.dataset, self.dataset_config).items():
                if part in PARTS:
                    parts[part], labels = table_of(rows, **self.columns())
            if "train" not in parts:
                raise ValueError(f"there is nothing to train on: the dataset {self.dataset} has no split `train`")
        elif self.format == "xmc":
            corpus = load_xmc(self.train_files[0], encoding=self.encoding, report=report)
            parts, labels = corpus.documents, corpus.label_set
            say(report)
        else:
            for part in PARTS:
                if paths := getattr(self, f"{part}_files"):
                    parts[part], report = self.read(paths)
                    say(f"{part}: {report}")
        return parts, labels

    def _labels_of(self, parts: "Mapping[str, Dataset]", labels: LabelSet | None, say: Callable[..., None]) -> LabelSet:
        """What the label ids mean, the labels of training documents first."""
        of_parts = {part: Counter(one for row in rows["labels"] for one in row) for part, rows in parts.items()}
        used = sum(of_parts.values(), Counter[str]())
        if self.label_file is not None:
            labels, report = self.read_labels()
            say(f"labels: {report}")
        elif labels is None:
            labels = LabelSet.from_names(list(used))
        if missing := {label_id: count for label_id, count in used.items() if label_id not in labels}:
            names = ", ".join(map(repr, list(missing)[:3]))
            message = f"{self.label_file}: {len(missing):,} label ids of the documents are not in it, such as {names}"
            if self.on_unknown_label != "drop":
                raise ValueError(
                    f"{message}; add them, choose the column of ids with --label_id, or leave them out with "
                    "--on_unknown_label drop"
                )
            say(f"{message}: left out, {sum(missing.values()):,} times")
        return seen_first(labels, {one: number for one, number in of_parts["train"].items() if one in labels})

    def columns(self) -> dict[str, Any]:
        """Returns the arguments of `load_table` and `table_of` that name columns."""
        return {"text": self.text, "labels": self.labels, "id": self.id, "separator": self.separator}

    def read(self, files: Sequence[str]) -> "tuple[Dataset, ReadReport]":
        """Reads documents of tables or of Annif.

        Args:
            files: Files, folders and globs.

        Returns:
            The columns `id`, `text` and `labels`, and the report of how they were read.

        Raises:
            OSError: A path leads nowhere.
            ValueError: The files cannot be read.
        """
        reading: dict[str, Any] = {"on_error": self.on_error, "num_proc": self.num_proc}
        if self.format == "annif":
            return load_annif(files, **reading)
        return load_table(files, **self.columns(), encoding=self.encoding, **reading)

    def read_labels(self) -> tuple[LabelSet, ReadReport]:
        """Reads the label file; the vocabulary of an Annif corpus may be a table of its kind.

        Returns:
            The labels, and the report of how they were read.

        Raises:
            OSError: There is no such file.
            ValueError: It cannot be read.
        """
        path, report = self.label_file or "", ReadReport(self.on_error)
        if self.format == "annif" and suffix_of(Path(path)) in (".tsv", ".csv"):
            return load_annif_vocabulary(path, self.label_language, report), report
        labels = read_label_file(
            path,
            id=self.label_id,
            name=self.label_name,
            describe=self.label_description,
            synonyms=self.label_synonyms,
            languages=self.label_language,
            encoding=self.encoding,
            report=report,
        )
        return labels, report


def names_of(files: Sequence[str]) -> str:
    """What documents of some files are called.

    Args:
        files: Files, folders and globs.

    Example:
        >>> names_of(["notes/train.jsonl.gz", "more.csv"])
        'train, more'
    """
    return ", ".join(dict.fromkeys(Path(file).name.partition(".")[0] for file in files))
