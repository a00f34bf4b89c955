"""What a person works through: tables, a page, and tasks for Label Studio.

| file | |
| --- | --- |
| `wrong.csv`, `missing.csv` | headings, the most suspicious first, with an empty column `verdict` |
| `documents.csv` | documents with such headings, those first with the most corrections to expect |
| `drift.csv` | labels that two collections use differently |
| `audit.html` | the same documents, in that order, with their headings |
| `label_studio.json`, `label_studio.xml` | the same documents as tasks to import, and the labelling interface |
"""

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from ..models import LabelSet
from ..publishing.markdown import shortened
from ..writing import whole_file
from .drift import Drift
from .findings import Audit, Finding

INTERFACE = """<View>
  <Text name="text" value="$text"/>
  <Choices name="headings" toName="text" value="$options" choice="multiple"/>
</View>
"""
"""The labelling interface of Label Studio that the tasks are made for."""

_LENGTH = 200
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class _Collection:
    """The documents that were audited, and what their labels are called."""

    audit: Audit
    label_set: LabelSet
    ids: Sequence[str]
    texts: Sequence[str]
    labels: Sequence[Iterable[str]]

    def __post_init__(self) -> None:
        number = len(self.audit.corrections)
        for name in ("ids", "texts", "labels"):
            if len(getattr(self, name)) != number:
                raise ValueError(f"{name} must be of the {number} documents audited, got {len(getattr(self, name))}")

    def by_document(self) -> dict[int, list[Finding]]:
        """The findings of each document, in the order of `Audit.documents`."""
        found: dict[int, list[Finding]] = {place: [] for place in self.audit.documents()}
        for finding in (*self.audit.wrong, *self.audit.missing):
            found[finding.document].append(finding)
        return found


def write_audit(
    folder: str | Path,
    audit: Audit,
    label_set: LabelSet,
    ids: Sequence[str],
    texts: Sequence[str],
    labels: Sequence[Iterable[str]],
    drifted: Sequence[Drift] | None = None,
) -> list[Path]:
    """Writes the files of an audit; those of an earlier one are replaced.

    Args:
        folder: Where to.
        audit: What was found.
        label_set: The labels of the model.
        ids: The ids of the N documents.
        texts: Their texts.
        labels: For each document the ids of its labels.
        drifted: What `drift` found; without, there is no such file.

    Returns:
        The files.

    Raises:
        ValueError: There are not as many ids, texts or labels as documents audited.
        OSError: A file cannot be written.
    """
    own, folder = _Collection(audit, label_set, ids, texts, labels), Path(folder)
    documents = [
        [
            rank + 1,
            ids[place],
            f"{audit.corrections[place]:.2f}",
            *(sum(finding.assigned == assigned for finding in found) for assigned in (True, False)),
            shortened(texts[place], _LENGTH),
        ]
        for rank, (place, found) in enumerate(own.by_document().items())
    ]
    tables = {
        "wrong.csv": (_HEADINGS, _rows(own, audit.wrong)),
        "missing.csv": (_HEADINGS, _rows(own, audit.missing)),
        "documents.csv": (["rank", "document", "expected_corrections", "wrong", "missing", "text"], documents),
    }
    if drifted is not None:
        rows = [
            [label_set[one.column].id, label_set[one.column].name, *one.used]
            + [f"{number:.1f}" for number in (*one.expected, one.score)]
            for one in drifted
        ]
        names = ["used_first", "used_second", "expected_first", "expected_second", "standard_deviations"]
        tables["drift.csv"] = (["label", "name", *names], rows)
    for name, (heading, lines) in tables.items():
        with whole_file(folder / name) as written, written.open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(heading)
            writer.writerows([_cell(value) for value in line] for line in lines)
    files = {
        "audit.html": _page(own),
        "label_studio.json": json.dumps(list(map(_task(own), own.by_document().items())), ensure_ascii=False, indent=1),
        "label_studio.xml": INTERFACE,
    }
    for name, text in files.items():
        with whole_file(folder / name) as written:
            written.write_text(text, encoding="utf-8")
    return [folder / name for name in (*tables, *files)]


_HEADINGS = ["rank", "document", "label", "name", "probability", "verdict", "text"]


def _rows(own: _Collection, findings: Iterable[Finding]) -> list[list[Any]]:
    return [
        [
            rank + 1,
            own.ids[finding.document],
            own.label_set[finding.column].id,
            own.label_set[finding.column].name,
            f"{finding.probability:.4f}",
            "",
            shortened(own.texts[finding.document], _LENGTH),
        ]
        for rank, finding in enumerate(findings)
    ]


def _cell(value: object) -> object:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) and not _is_number(value) else value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _task(own: _Collection) -> Any:
    """What makes a task of Label Studio of a document: the headings to choose from, and the proposal of the model."""
    names = own.label_set.id2label()

    def task(item: tuple[int, list[Finding]]) -> dict[str, Any]:
        place, findings = item
        assigned = own.label_set.columns(dict.fromkeys(own.labels[place]))
        missing = [finding.column for finding in findings if not finding.assigned]
        wrong = {finding.column for finding in findings if finding.assigned}
        columns = [*assigned, *missing]
        data = {
            "id": own.ids[place],
            "text": own.texts[place],
            "assigned": [names[column] for column in assigned],
            "options": [{"value": names[column]} for column in columns],
            "label_ids": {names[column]: own.label_set[column].id for column in columns},
        }
        value = {"choices": [names[column] for column in columns if column not in wrong]}
        result = {"from_name": "headings", "to_name": "text", "type": "choices", "value": value}
        return {"data": data, "predictions": [{"model_version": "hf-gile audit", "result": [result]}]}

    return task


def _page(own: _Collection) -> str:
    names, articles = own.label_set.id2label(), []
    for place, findings in own.by_document().items():
        wrong = {finding.column: finding for finding in findings if finding.assigned}
        rows = [_row(names[one.column], "wrong", one.probability) for one in wrong.values()]
        rows += [_row(names[one.column], "missing", one.probability) for one in findings if not one.assigned]
        others = [column for column in own.label_set.columns(dict.fromkeys(own.labels[place])) if column not in wrong]
        rest = " · ".join(f"<span dir=auto>{escape(names[column])}</span>" for column in others)
        text = own.texts[place]
        title = shortened(text.partition("\n")[0], _LENGTH)
        articles.append(
            f"<article><h2 dir=auto>{escape(title)}</h2><p class=soft>{escape(str(own.ids[place]))} · corrections to "
            f"expect: {own.audit.corrections[place]:.1f}</p><ul>{''.join(rows)}</ul>"
            + (f"<p class=soft>Other headings: {rest}</p>" if rest else "")
            + f"<details><summary>Text</summary><p dir=auto>{escape(text)}</p></details></article>"
        )
    counts = f"{len(own.audit.wrong):,} headings probably wrong, {len(own.audit.missing):,} probably missing"
    return _PAGE.format(style=_STYLE, counts=counts, body="\n".join(articles))


def _row(name: str, kind: str, probability: float) -> str:
    return (
        f"<li class={kind}><label><input type=checkbox> <b>{kind}?</b> <span dir=auto>{escape(name)}</span> "
        f"<small>{probability:.1%}</small></label></li>"
    )


_PAGE = """<!doctype html>
<html lang="">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Audit</title>
<style>
{style}</style>
</head>
<body>
<h1>Audit</h1>
<p class=soft>{counts}. Percent: how probable the heading is, for a text like this.</p>
{body}
</body>
</html>
"""

_STYLE = """:root {
  color-scheme: light dark;
  --ink: #222; --soft: #666; --line: #ddd; --wrong: #b3372b; --missing: #14804a;
}
@media (prefers-color-scheme: dark) {
  :root { --ink: #eee; --soft: #999; --line: #444; --wrong: #ff8d7e; --missing: #5fcf92; }
}
body {
  margin: 0 auto; padding: 2rem 1.5rem; max-width: 52rem; color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif;
}
h1 { font-size: 1.5rem; }
h2 { font-size: 1.05rem; margin: 0; overflow-wrap: anywhere; }
article { border-top: 1px solid var(--line); padding: 1rem 0; }
ul { list-style: none; margin: .5rem 0; padding: 0; }
.wrong b { color: var(--wrong); }
.missing b { color: var(--missing); }
.soft, small, summary { color: var(--soft); font-size: .875rem; margin: .2rem 0; }
details p { white-space: pre-wrap; overflow-wrap: anywhere; }
li:has(:checked) { opacity: .5; }
"""
