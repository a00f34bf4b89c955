"""Tables of texts and labels, and what the labels mean: the settings of reading them, and sets that a file names."""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from flags import Settings, setting

from hf_gile import Label, LabelSet
from hf_gile.data import (
    ReadReport,
    load_annif,
    load_annif_vocabulary,
    load_records,
    load_table,
    read_label_file,
    table_of,
)
from hf_gile.data.files import read_yaml, suffix_of
from hf_gile.data.table_files import SUFFIXES
from hf_gile.data.zero_shot import fraction_of
from hf_gile.training.labelled_sets import LabelledSet, labelled_set

FORMATS = {"table": SUFFIXES, "annif": (".tsv", ".csv", ".jsonl", ".txt"), "xmc": ()}
"""What the format of files can be, and which files are read."""


@dataclass
class TableSettings(Settings):
    """Columns of a table, and the file that says what the labels mean."""

    text: list[str] = setting(["text"], "Columns of text, read in this order.")
    labels: str = setting("labels", "Column of label ids: a list, or one text.")
    separator: str | None = setting(None, "Cuts a text of several label ids, such as ';'.")
    id: str | None = setting(None, "Column of ids of documents; by default file and row.")
    label_file: str | None = setting(None, "What the label ids mean; by default they are names.")
    label_id: str = setting("id", "Column of ids of the label file.")
    label_name: list[str] = setting(["name"], "Columns of names; the first that is not empty counts.")
    label_description: list[str] = setting(
        [],
        "Columns of what else is known; of SKOS: alt_labels, definition, broader; of MeSH: entry_terms, scope_note, "
        "tree_path.",
    )
    label_synonyms: list[str] = setting([], "Columns of other names, for --paraphrase_synonyms and --label_texts.")
    label_language: list[str] = setting(["en"], "Of SKOS: languages of names, the first one there is counts.")
    encoding: str = setting("utf-8", "Of the files.")
    on_error: str = setting("raise", "Malformed rows and labels: raise, or skip and count.", ("raise", "skip"))
    num_proc: int = setting(1, "Processes that read files.")

    def columns(self) -> dict[str, Any]:
        """Arguments of `load_table` and of `table_of`."""
        return {"text": self.text, "labels": self.labels, "id": self.id, "separator": self.separator}

    def read(self, files: Sequence[str], format: str = "table") -> tuple[Dataset, ReadReport]:
        """Reads documents: columns `id`, `text` and `labels`."""
        reading: dict[str, Any] = {"on_error": self.on_error, "num_proc": self.num_proc}
        if format == "annif":
            return load_annif(files, **reading)
        return load_table(files, **self.columns(), encoding=self.encoding, **reading)

    def read_labels(self, format: str = "table") -> tuple[LabelSet, ReadReport]:
        """Reads the label file."""
        path, report = self.label_file or "", ReadReport(self.on_error)
        if format == "annif" and suffix_of(Path(path)) in (".tsv", ".csv"):
            return load_annif_vocabulary(path, self.label_language, report), report
        columns = {"id": self.label_id, "name": self.label_name, "describe": self.label_description}
        columns |= {"synonyms": self.label_synonyms, "languages": self.label_language}
        return read_label_file(path, **columns, encoding=self.encoding, report=report), report


@dataclass
class SetSettings(TableSettings):
    """A set in a file of sets: its documents, its labels, and what of it is trained on."""

    files: list[str] = setting([], "Files, folders or globs.")
    records: bool = setting(False, "Whether they are MEDLINE XML or BioASQ JSON: text and MeSH ids are known.")
    max_documents: int | None = setting(None, "Documents to take, by a hash of their ids.")
    share: float | None = setting(None, "Share of the batches; by default by the square root of its documents.")
    held_out: float = setting(0.0, "Share of its labels that no set trains on.")
    test_only: bool = setting(False, "Whether it is only measured.")


def read_sets(path: str, say: Callable[..., None]) -> list[LabelledSet]:
    """Reads the sets that a YAML file names.

    Args:
        path: The file: by the name of each set its `SetSettings`.
        say: Prints.

    Raises:
        OSError: The file cannot be read.
        ValueError: It says something unknown, or there is nothing to train on.
    """
    content = read_yaml(path)
    if not isinstance(content, dict) or not all(isinstance(options, dict) for options in content.values()):
        raise ValueError("it must hold `name of the set:` with its options below, see --help")
    known = {one.name: one.type for one in fields(SetSettings)}
    sets = []
    for name, values in content.items():
        for key, value in values.items():
            if key not in known:
                near = difflib.get_close_matches(str(key), known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f", only {', '.join(known)}"
                raise ValueError(f"set {name} has no option {key!r}{hint}")
            if known[key] == list[str] and not isinstance(value, list):
                values[key] = [value]
        options = SetSettings(**values)
        if not options.files:
            raise ValueError(f"set {name} names no files")
        if not 0 <= options.held_out < 1 or (options.share is not None and options.share <= 0):
            raise ValueError(
                f"set {name}: held_out must be from 0 to below 1 and share above 0, got {options.held_out} and "
                f"{options.share}"
            )
        sets.append(read_set(str(name), options, say))
    return sets


def read_set(name: str, options: SetSettings, say: Callable[..., None]) -> LabelledSet:
    """Reads a set: its documents, and the labels that they have (of a test set all of the label file)."""
    documents: Any
    if options.records:
        records, report = load_records(options.files, on_error=options.on_error)
        documents, _ = table_of(records, text=["title", "abstractText"], labels="meshUI", id="pmid")
    else:
        documents, report = options.read(options.files)
    if options.max_documents is not None:
        drawn = np.argsort([fraction_of("document", name, "some of many") for name in documents["id"]], kind="stable")
        documents = documents.select(np.sort(drawn[: options.max_documents]))
    used = dict.fromkeys(label_id for ids in documents["labels"] for label_id in ids)
    if options.label_file is None:
        labels = {label_id: Label(label_id, label_id.replace("_", " ").strip()) for label_id in used}
    else:
        known, _ = options.read_labels()
        labels = {label.id: label for label in known if options.test_only or label.id in used}
    unknown = len(used.keys() - labels.keys())
    shares = {"held_out": options.held_out, "share": options.share, "test_only": options.test_only}
    try:
        one = labelled_set(name, documents, labels, **shares)
    except ValueError as error:
        raise ValueError(f"{error}; is label_id the column of ids of {options.label_file}?") from None
    left_out = f"; {unknown:,} label ids that the label file lacks are left out" if unknown else ""
    say(f"{name}: {report}; used: {len(one.documents):,} documents, {len(one.label_of):,} labels{left_out}")
    return one
