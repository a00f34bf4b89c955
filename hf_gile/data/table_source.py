"""Where documents and labels of a table come from: the columns, and the file that says what the labels mean."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..models.labels_gile import LabelSet
from .annif import load_annif, load_annif_vocabulary
from .files import suffix_of
from .label_files import read_label_file
from .report import ReadReport
from .table_files import SUFFIXES
from .tables import load_table

if TYPE_CHECKING:
    from datasets import Dataset

FORMATS: dict[str, Sequence[str]] = {"table": SUFFIXES, "annif": (".tsv", ".csv", ".jsonl", ".txt"), "xmc": ()}
"""What the format of files can be, and the suffixes of those that are read."""


@dataclass
class TableSource:
    """Columns of a table, and the file that says what the labels mean.

    Args:
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
        encoding: Of the files.
        on_error: Malformed rows and labels: raise, or skip and count.
        num_proc: Processes that read files.
    """

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
    encoding: str = "utf-8"
    on_error: Literal["raise", "skip"] = "raise"
    num_proc: int = 1

    def columns(self) -> dict[str, Any]:
        """Returns the arguments of `load_table` and `table_of` that name columns."""
        return {"text": self.text, "labels": self.labels, "id": self.id, "separator": self.separator}

    def read(self, files: Sequence[str], format: str = "table") -> "tuple[Dataset, ReadReport]":
        """Reads documents.

        Args:
            files: Files, folders and globs.
            format: One of `FORMATS`, but for `"xmc"`.

        Returns:
            The columns `id`, `text` and `labels`, and the report of how they were read.

        Raises:
            OSError: A path leads nowhere.
            ValueError: The files cannot be read.
        """
        reading: dict[str, Any] = {"on_error": self.on_error, "num_proc": self.num_proc}
        if format == "annif":
            return load_annif(files, **reading)
        return load_table(files, **self.columns(), encoding=self.encoding, **reading)

    def read_labels(self, format: str = "table") -> tuple[LabelSet, ReadReport]:
        """Reads the label file.

        Args:
            format: As in `read`: the vocabulary of an Annif corpus may be a table of its kind.

        Returns:
            The labels, and the report of how they were read.

        Raises:
            OSError: There is no such file.
            ValueError: It cannot be read.
        """
        path, report = self.label_file or "", ReadReport(self.on_error)
        if format == "annif" and suffix_of(Path(path)) in (".tsv", ".csv"):
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
