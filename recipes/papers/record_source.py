"""Input settings for records with MeSH headings: files, split and label file."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hf_gile.data.label_files import is_mesh, load_labels
from hf_gile.data.report import ReadReport
from hf_gile.data.zero_shot import seen_first
from hf_gile.models.labels_gile import Label, LabelSet
from papers.bioasq import mesh_ids
from papers.medline import demo_file
from papers.records import load_records
from papers.year_split import year_split
from papers.zero_shot import ZeroShotSplit, zero_shot_split

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass
class RecordSource:
    """Records for training, validation and testing, and their labels.

    Args:
        train_files: Files, folders or globs; by default 30,000 citations of an installed package.
        validation_files: Validation files; by default a tenth of the training documents, by pmid.
        test_files: Test files; by default a tenth of the training documents, by pmid.
        unseen_file: JSON list of ids of unseen labels; by default labels that only test_files have.
        train_until: Last training year, to split the training files by year. 'the training set includes all documents
            until 2004 and the ones from 2005 to 2015 were kept for the test set'
        test_until: Last year of the test set; 2015 in the paper.
        validation: Number of validation documents, or their fraction if below 1; only with train_until. 'a set of
            100,000 documents'
        label_file: Label names: MeSH (descYYYY.xml, dYYYY.bin, .jsonl) or a table with id and name, all but .parquet
            also as .gz; by default the names in the records.
        describe: Text that the model reads after the name of a label: entry_terms, scope_note, tree_path of MeSH; none
            for names only. By default the scope notes.
        num_proc: Number of processes that read files.
        on_error: Malformed input: raise, or skip and count.
    """

    train_files: list[str] = field(default_factory=list)
    validation_files: list[str] = field(default_factory=list)
    test_files: list[str] = field(default_factory=list)
    unseen_file: str | None = None
    train_until: int | None = None
    test_until: int | None = None
    validation: float = 100_000
    label_file: str | None = None
    describe: list[str] = field(default_factory=list)
    num_proc: int = 1
    on_error: Literal["raise", "skip"] = "raise"

    def check_source(self) -> None:
        """Checks for incompatible settings before any file is read.

        Raises:
            ValueError: If there are any.
        """
        split_files = self.validation_files or self.test_files or self.unseen_file
        if split_files and not (self.train_files and self.test_files):
            raise ValueError("validation_files, test_files and unseen_file need train_files and test_files")

    def read_split(self, say: Callable[..., None]) -> ZeroShotSplit:
        """Reads the three parts, and distinguishes seen and unseen labels.

        Args:
            say: Prints a line about each part.

        Raises:
            OSError: If a path does not exist.
            ValueError: If a file cannot be read, or a part would be empty.
        """
        if self.test_files:
            train, test = self._read(self.train_files, say), self._read(self.test_files, say)
            if self.validation_files:
                validation = self._read(self.validation_files, say)
            else:
                train, validation = train.train_test_split(test_size=0.1, seed=0).values()
            unseen = json.loads(Path(self.unseen_file).read_text()) if self.unseen_file else None
            return make_split(train, validation, test, unseen)
        records = self._read(self.train_files or [str(demo_file())], say)
        if self.train_until:
            validation_size = int(self.validation) if self.validation >= 1 else self.validation
            years: dict[str, Any] = {"train_until": self.train_until, "test_until": self.test_until}
            split = year_split(records, **years, validation=validation_size)
        else:  # held-out labels are chosen by a hash of their id, parts by a hash of the pmid
            split = zero_shot_split(records)
        say("documents dropped from each part:", split.dropped)
        return replace(split, unseen={label: count for label, count in split.unseen.items() if count})

    def _read(self, files: Sequence[str], say: Callable[..., None]) -> "Dataset":
        # BioASQ files contain names without ids.
        ui_of = mesh_ids(self.label_file) if self.label_file and is_mesh(self.label_file) else None
        records, report = load_records(files, on_error=self.on_error, ui_of=ui_of, num_proc=self.num_proc)
        say(report)
        return records

    def read_labels(self, split: ZeroShotSplit, say: Callable[..., None]) -> LabelSet:
        """Reads the labels, seen labels first. Labels missing from the label file are named as in the records.

        Args:
            split: The split returned by `read_split`.
            say: Prints a line about the labels.

        Raises:
            OSError: If the label file does not exist.
            ValueError: If it cannot be read.
        """
        if self.label_file is None:
            return collect_labels(split)[0]
        report = ReadReport(self.on_error)
        known = load_labels(self.label_file, description=self.describe or None, report=report)
        say(f"labels: {report}")
        labels, missing = collect_labels(split, known)
        if missing:
            say(f"{self.label_file} lacks {missing:,} labels, which are named as in the records")
        return labels


def make_split(
    train: "Dataset", validation: "Dataset", test: "Dataset", unseen: Sequence[str] | None = None
) -> ZeroShotSplit:
    """Builds a `ZeroShotSplit` from an existing split.

    Args:
        train: Training records.
        validation: Validation records.
        test: Test records.
        unseen: Ids of the unseen labels; by default labels that only test records have.

    Raises:
        ValueError: If training records have unseen labels.
    """
    seen = Counter(label_id for row in train["meshUI"] for label_id in row)
    counts = Counter(label_id for row in test["meshUI"] for label_id in row if label_id not in seen)
    unseen_ids = sorted(counts) if unseen is None else unseen
    if trained_on := seen.keys() & set(unseen_ids):
        raise ValueError(f"training documents have {len(trained_on)} unseen labels, such as {min(trained_on)}")
    return ZeroShotSplit(train, validation, test, seen, {label_id: counts[label_id] for label_id in unseen_ids}, {}, {})


def collect_labels(split: ZeroShotSplit, known: Iterable[Label] = ()) -> tuple[LabelSet, int]:
    """Builds the label set of a split: seen labels with their counts, then unseen labels.

    Args:
        split: A split of datasets.
        known: Known labels; other labels are named as in the records.

    Returns:
        The labels, and the number of labels not in `known`.
    """
    ids = [*sorted(split.seen), *split.unseen]
    labels_by_id = {label.id: label for label in known}
    missing = {label_id for label_id in ids if label_id not in labels_by_id}
    num_missing = len(missing)
    for part in (split.train, split.test) if missing else ():
        for row in part.select_columns(["meshUI", "meshMajor"]):
            for label_id, name in zip(row["meshUI"], row["meshMajor"], strict=True):
                if label_id in missing:
                    labels_by_id[label_id] = Label(label_id, name)
                    missing.remove(label_id)
    labels = LabelSet(labels_by_id[label_id] for label_id in ids if label_id in labels_by_id)
    return seen_first(labels, split.seen), num_missing
