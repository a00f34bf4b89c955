"""Writes the results of an audit for manual review: tables, and tasks for Label Studio.

| file | |
| --- | --- |
| `wrong.csv`, `missing.csv` | labels, most suspicious first, with an empty column `verdict` |
| `documents.csv` | documents with such labels, most expected corrections first |
| `drift.csv` | labels that two collections use differently |
| `label_studio.json`, `label_studio.xml` | the same documents as tasks to import, and the labelling interface |
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..models import LabelSet
from ..publishing.markdown import shortened
from ..writing import whole_file, write_csv
from .drift import Drift
from .findings import Audit, Finding

INTERFACE = """<View>
  <Text name="text" value="$text"/>
  <Choices name="headings" toName="text" value="$options" choice="multiple"/>
</View>
"""
"""Labelling interface for the tasks in Label Studio."""

_LENGTH = 200


@dataclass(frozen=True)
class _Collection:
    """The audited documents with their labels."""

    audit: Audit
    label_set: LabelSet
    ids: Sequence[str]
    texts: Sequence[str]
    labels: Sequence[Iterable[str]]

    def __post_init__(self) -> None:
        number = len(self.audit.corrections)
        for name in ("ids", "texts", "labels"):
            if (length := len(getattr(self, name))) != number:
                raise ValueError(f"{name} must have one entry per audited document ({number}), got {length}")

    def by_document(self) -> dict[int, list[Finding]]:
        """Returns the findings of each document, in the order of `Audit.documents`."""
        findings: dict[int, list[Finding]] = {document: [] for document in self.audit.documents()}
        for finding in (*self.audit.wrong, *self.audit.missing):
            findings[finding.document].append(finding)
        return findings


def write_audit(
    folder: str | Path,
    audit: Audit,
    label_set: LabelSet,
    ids: Sequence[str],
    texts: Sequence[str],
    labels: Sequence[Iterable[str]],
    drifted: Sequence[Drift] | None = None,
) -> list[Path]:
    """Writes the files of an audit, replacing those of an earlier audit.

    Args:
        folder: Output folder.
        audit: Result of the audit.
        label_set: The labels of the model.
        ids: Ids of the N documents.
        texts: Texts of the documents.
        labels: Label ids of each document.
        drifted: Result of `drift`; if None, `drift.csv` is not written.

    Returns:
        The paths of the files.

    Raises:
        ValueError: If the number of ids, texts or label lists differs from the number of audited documents.
        OSError: If a file cannot be written.
    """
    folder = Path(folder)
    audited = _Collection(audit, label_set, ids, texts, labels)
    documents = [
        [
            rank + 1,
            ids[document],
            f"{audit.corrections[document]:.2f}",
            *(sum(finding.assigned == assigned for finding in findings) for assigned in (True, False)),
            shortened(texts[document], _LENGTH),
        ]
        for rank, (document, findings) in enumerate(audited.by_document().items())
    ]
    tables = {
        "wrong.csv": ([*_HEADINGS, "instead"], _rows(audited, audit.wrong, has_instead=True)),
        "missing.csv": (_HEADINGS, _rows(audited, audit.missing)),
        "documents.csv": (["rank", "document", "expected_corrections", "wrong", "missing", "text"], documents),
    }
    if drifted is not None:
        rows = [
            [label_set[label.column].id, label_set[label.column].name, *label.used]
            + [f"{number:.1f}" for number in (*label.expected, label.score)]
            for label in drifted
        ]
        names = ["used_first", "used_second", "expected_first", "expected_second", "standard_deviations"]
        tables["drift.csv"] = (["label", "name", *names], rows)
    for name, (heading, lines) in tables.items():
        write_csv(folder / name, [heading, *lines], encoding="utf-8-sig")
    files = {
        "label_studio.json": json.dumps(_tasks(audited), ensure_ascii=False, indent=1),
        "label_studio.xml": INTERFACE,
    }
    for name, text in files.items():
        with whole_file(folder / name) as written:
            written.write_text(text, encoding="utf-8")
    return [folder / name for name in (*tables, *files)]


_HEADINGS = ["rank", "document", "label", "name", "probability", "verdict", "text"]


def _rows(audited: _Collection, findings: Iterable[Finding], has_instead: bool = False) -> list[list[Any]]:
    names = audited.label_set.names
    return [
        [
            rank + 1,
            audited.ids[finding.document],
            audited.label_set[finding.column].id,
            names[finding.column],
            f"{finding.probability:.4f}",
            "",
            shortened(audited.texts[finding.document], _LENGTH),
            *(["" if finding.instead is None else names[finding.instead]] if has_instead else []),
        ]
        for rank, finding in enumerate(findings)
    ]


def _tasks(audited: _Collection) -> list[dict[str, Any]]:
    """Converts documents to Label Studio tasks, with candidate labels and a prediction."""
    names = audited.label_set.id2label()
    tasks = []
    for document, findings in audited.by_document().items():
        assigned = audited.label_set.columns(dict.fromkeys(audited.labels[document]))
        missing = [finding.column for finding in findings if not finding.assigned]
        wrong = {finding.column for finding in findings if finding.assigned}
        columns = [*assigned, *missing]
        data = {
            "id": audited.ids[document],
            "text": audited.texts[document],
            "assigned": [names[column] for column in assigned],
            "options": [{"value": names[column]} for column in columns],
            "label_ids": {names[column]: audited.label_set[column].id for column in columns},
        }
        value = {"choices": [names[column] for column in columns if column not in wrong]}
        result = {"from_name": "headings", "to_name": "text", "type": "choices", "value": value}
        tasks.append({"data": data, "predictions": [{"model_version": "hf-gile audit", "result": [result]}]})
    return tasks
