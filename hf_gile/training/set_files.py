"""Labelled sets that a YAML file names: by the name of each set the fields of a `SetSource`.

library:
  files: [library/*.jsonl.gz]
  text: [title, abstract]
  labels: subjects
  label_file: subjects.jsonl
  held_out: 0.2
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from os import PathLike
from typing import Any

import numpy as np

from ..data.files import read_yaml
from ..data.records import load_records
from ..data.table_source import TableSource
from ..data.tables import table_of
from ..data.zero_shot import fraction_of
from ..models.labels_gile import Label
from .labelled_sets import LabelledSet, labelled_set


@dataclass
class SetSource(TableSource):
    """Where a set comes from: its documents, its labels, and what of it is trained on.

    Args:
        files: Files, folders and globs.
        records: Whether they are MEDLINE XML or BioASQ JSON: text and MeSH ids are known.
        max_documents: Documents to take, by a hash of their ids; by default all.
        share: See `LabelledSet`.
        held_out: See `LabelledSet`.
        test_only: See `LabelledSet`.

    Raises:
        ValueError: There are no files, or a share is none.
    """

    files: list[str] = field(default_factory=list)
    records: bool = False
    max_documents: int | None = None
    share: float | None = None
    held_out: float = 0.0
    test_only: bool = False

    def __post_init__(self) -> None:
        if not self.files:
            raise ValueError("names no files")
        if not 0 <= self.held_out < 1 or (self.share is not None and self.share <= 0):
            raise ValueError(
                f"held_out must be from 0 to below 1 and share above 0, got {self.held_out} and {self.share}"
            )


def read_sets(path: str | PathLike[str], say: Callable[..., None]) -> list[LabelledSet]:
    """Reads the sets that a YAML file names.

    Args:
        path: The file.
        say: Prints a line about each.

    Raises:
        OSError: The file cannot be read.
        ValueError: It says something unknown, or there is nothing to train on.
    """
    content = read_yaml(path)
    if not isinstance(content, dict) or not all(isinstance(options, dict) for options in content.values()):
        raise ValueError("it must hold `name of the set:` with its options below, see --help")
    sets = []
    for name, options in content.items():
        try:
            sets.append(read_set(str(name), set_source(options), say))
        except ValueError as error:
            raise ValueError(f"set {name}: {error}") from None
    return sets


def set_source(options: Mapping[str, Any]) -> SetSource:
    """Makes a `SetSource` of what a file says of it; one value may stand for a list.

    Args:
        options: From its fields to their values.

    Raises:
        ValueError: There is no such field, or the values make no sense.
    """
    known = {one.name: one.type for one in fields(SetSource)}
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f", only {', '.join(known)}"
            raise ValueError(f"there is no option {name!r}{hint}")
    lists = [name for name, value in options.items() if known[name] == list[str] and not isinstance(value, list)]
    return SetSource(**{**options, **{name: [options[name]] for name in lists}})


def read_set(name: str, source: SetSource, say: Callable[..., None]) -> LabelledSet:
    """Reads a set: its documents, and the labels that they have (of a test set all of the label file).

    Args:
        name: Names the set.
        source: Where it comes from.
        say: Prints a line about it.

    Raises:
        OSError: A file is not there.
        ValueError: A file cannot be read, or no document has one of the labels.
    """
    documents: Any
    if source.records:
        records, report = load_records(source.files, on_error=source.on_error)
        documents, _ = table_of(records, text=["title", "abstractText"], labels="meshUI", id="pmid")
    else:
        documents, report = source.read(source.files)
    if source.max_documents is not None:
        drawn = np.argsort([fraction_of("document", name, "some of many") for name in documents["id"]], kind="stable")
        documents = documents.select(np.sort(drawn[: source.max_documents]))
    used = dict.fromkeys(label_id for ids in documents["labels"] for label_id in ids)
    if source.label_file is None:
        labels = {label_id: Label(label_id, label_id.replace("_", " ").strip()) for label_id in used}
    else:
        known, _ = source.read_labels()
        labels = {label.id: label for label in known if source.test_only or label.id in used}
    unknown = len(used.keys() - labels.keys())
    shares: dict[str, Any] = {"held_out": source.held_out, "share": source.share, "test_only": source.test_only}
    try:
        one = labelled_set(name, documents, labels, **shares)
    except ValueError as error:
        raise ValueError(f"{error}; is label_id the column of ids of {source.label_file}?") from None
    left_out = f"; {unknown:,} label ids that the label file lacks are left out" if unknown else ""
    say(f"{name}: {report}; used: {len(one.documents):,} documents, {len(one.label_of):,} labels{left_out}")
    return one
