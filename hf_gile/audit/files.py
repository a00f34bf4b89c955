"""Writes the results of an audit for manual review: tables, and tasks for Label Studio.

| file | |
| --- | --- |
| `wrong.csv`, `missing.csv` | labels, most suspicious first, with an empty column `verdict` |
| `documents.csv` | documents with such labels, most expected corrections first |
| `drift.csv` | labels that two collections use differently |
| `label_studio.json`, `label_studio.xml` | the same documents as tasks to import, and the labelling interface |
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..models import LabelSet
from ..publishing.markdown import shortened
from ..writing import write_csv, write_text
from .findings import Audit, Drift, Finding

INTERFACE = """<View>
  <Text name="text" value="$text"/>
  <Choices name="headings" toName="text" value="$options" choice="multiple"/>
</View>
"""
"""Labelling interface for the tasks in Label Studio."""

_LENGTH = 200


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
        OSError: If a file cannot be written.
    """
    folder = Path(folder)
    names = label_set.id2label()
    heading = ["rank", "document", "label", "name", "probability", "verdict", "text"]
    tables: dict[str, list[list[Any]]] = {
        "wrong.csv": [[*heading, "instead"]],
        "missing.csv": [heading],
        "documents.csv": [["rank", "document", "expected_corrections", "wrong", "missing", "text"]],
    }
    by_document: dict[int, list[Finding]] = {document: [] for document in audit.documents()}
    for name, findings in (("wrong.csv", audit.wrong), ("missing.csv", audit.missing)):
        for rank, finding in enumerate(findings, 1):
            by_document[finding.document].append(finding)
            label = label_set[finding.column]
            text = shortened(texts[finding.document], _LENGTH)
            row = [
                rank,
                ids[finding.document],
                label.id,
                label.name,
                f"{finding.probability:.4f}",
                "",
                text,
            ]
            if finding.assigned:
                row.append("" if finding.instead is None else label_set[finding.instead].name)
            tables[name].append(row)
    tasks = []
    for rank, (document, findings) in enumerate(by_document.items(), 1):
        wrong = [finding.column for finding in findings if finding.assigned]
        missing = [finding.column for finding in findings if not finding.assigned]
        text = shortened(texts[document], _LENGTH)
        corrections = f"{audit.corrections[document]:.2f}"
        tables["documents.csv"].append([rank, ids[document], corrections, len(wrong), len(missing), text])
        assigned = label_set.columns(dict.fromkeys(labels[document]))
        tasks.append(_make_task(ids[document], texts[document], assigned, wrong, missing, names, label_set))
    if drifted is not None:
        tables["drift.csv"] = _drift_table(drifted, label_set)
    for name, rows in tables.items():
        write_csv(folder / name, rows, encoding="utf-8-sig")
    files = {"label_studio.json": json.dumps(tasks, ensure_ascii=False, indent=1), "label_studio.xml": INTERFACE}
    for name, text in files.items():
        write_text(folder / name, text)
    return [folder / name for name in (*tables, *files)]


def _drift_table(drifted: Iterable[Drift], label_set: LabelSet) -> list[list[Any]]:
    columns = ["used_first", "used_second", "expected_first", "expected_second", "standard_deviations"]
    table: list[list[Any]] = [["label", "name", *columns]]
    for drift in drifted:
        label = label_set[drift.column]
        numbers = [f"{number:.1f}" for number in (*drift.expected, drift.score)]
        table.append([label.id, label.name, *drift.used, *numbers])
    return table


def _make_task(
    document_id: str,
    text: str,
    assigned: Sequence[int],
    wrong: Sequence[int],
    missing: Sequence[int],
    names: Mapping[int, str],
    label_set: LabelSet,
) -> dict[str, Any]:
    """Makes a task for Label Studio, with candidate labels and a prediction."""
    columns = [*assigned, *missing]
    data = {
        "id": document_id,
        "text": text,
        "assigned": [names[column] for column in assigned],
        "options": [{"value": names[column]} for column in columns],
        "label_ids": {names[column]: label_set[column].id for column in columns},
    }
    value = {"choices": [names[column] for column in columns if column not in wrong]}
    result = {"from_name": "headings", "to_name": "text", "type": "choices", "value": value}
    return {"data": data, "predictions": [{"model_version": "hf-gile audit", "result": [result]}]}
