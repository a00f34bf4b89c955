"""`hf-gile labels`: shows and changes the labels of a file or of a saved model."""

import difflib
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .options import DryRun, Json, LabelColumns, LabelSynonyms, OnError, Revision
from .running import counted, note, visible, write_json
from .saved_model import (
    explained,
    is_hub_name,
    load,
    lock_for_change,
    note_old_card,
    note_unknown_labels,
    save_changes,
    suggest_models,
)

if TYPE_CHECKING:
    from hf_gile import Label, LabelSet

Target = Annotated[
    str, typer.Argument(metavar="MODEL_OR_FILE", help="The folder of a saved model, or a label file (.jsonl, .csv).")
]

_MAX_WIDTH = 60


ABOUT = """
Show and change labels, in a label file or in a saved model.

    hf-gile labels show MODEL --search heart
    hf-gile labels add MODEL D000086382 COVID-19 --description "disease by SARS-CoV-2"
    hf-gile labels rename MODEL D007501 "Iron, Dietary"
    hf-gile labels retire MODEL D009369 D014680
    hf-gile labels import labels.jsonl desc2024.xml --label-description scope_note

In a saved model, a change updates the stored labels, their tokens and the codes in index/. Labels keep their
learned weights by id. Changes are printed: + added, - removed, ~ changed. They are atomic: everything is
written, or nothing if a step fails. README.md stays as it is; `hf-gile card` writes a new one.
"""
"""Help of the group."""


@dataclass(kw_only=True)
class Show(LabelColumns):
    """Options of `hf-gile labels show`."""

    target: Annotated[
        str,
        typer.Argument(metavar="MODEL_OR_FILE", help="A saved model (a folder or a name on the Hub) or a label file."),
    ]
    search: Annotated[
        str | None,
        typer.Option(metavar="WORDS", help="Only labels with these words in id, name, description or synonyms."),
    ] = None
    seen: Annotated[
        bool | None, typer.Option("--seen/--unseen", help="Only labels seen in training, or only unseen labels.")
    ] = None
    sort: Annotated[Literal["column", "count", "name", "id"], typer.Option(help="Sort order.")] = "column"
    limit: Annotated[int, typer.Option(min=0, metavar="NUMBER", help="Maximum number of labels; 0 for all.")] = 20
    as_json: Json = False
    revision: Revision = None


def show(options: Show) -> None:
    """Show labels: id, training documents, threshold, name. With --json, all fields, as a .jsonl label file.

    hf-gile labels show MODEL
    hf-gile labels show MODEL --search "heart fail" --sort count
    hf-gile labels show MODEL --json --limit 0 > labels.jsonl
    hf-gile labels show thesaurus.ttl --label-language de
    """
    orders: dict[str, Callable[[Any], Any]] = {
        "column": lambda label: 0,
        "count": lambda label: -label.count,
        "name": lambda label: label.name.casefold(),
        "id": lambda label: label.id,
    }
    target = options.target
    labels = options.read(target) if Path(target).is_file() else _read_labels(target, options.revision)
    words = (options.search or "").casefold().split()
    matching = [
        label
        for label in labels
        if options.seen in (None, label.seen)
        and all(word in " ".join((label.id, label.text, *label.synonyms)).casefold() for word in words)
    ]
    matching.sort(key=orders[options.sort])
    shown = matching[: options.limit or None]
    if options.as_json:
        for label in shown:
            write_json(asdict(label))
    elif shown:
        rows = [
            (
                _one_line(label.id),
                f"{label.count:,}" if label.seen or label.count else "unseen",
                "" if label.threshold is None else f"{label.threshold:.3f}",
                _truncate(label.name if label.language is None else f"{label.name} [{label.language}]"),
            )
            for label in shown
        ]
        _print_table([("id", "documents", "threshold", "name"), *rows])
    is_all = len(matching) == len(labels)
    summary = counted(len(matching), "label" if is_all else "matching label")
    if len(shown) < len(matching):
        summary = f"{len(shown):,} of {summary}"
    if not is_all:
        summary += f"; {target} has {len(labels):,}"
    note(f"{summary}, {sum(label.seen for label in labels):,} of them seen in training")


def add(
    target: Target,
    id: Annotated[str, typer.Argument(metavar="ID", help="A permanent id, such as a MeSH UI or a URI.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the label.")],
    description: Annotated[
        str, typer.Option(metavar="TEXT", help="Description, which the model reads after the name.")
    ] = "",
    synonym: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A synonym; repeat for several.")] = None,
    language: Annotated[str | None, typer.Option(metavar="NAME", help="Language of name and description.")] = None,
    broader: Annotated[list[str] | None, typer.Option(metavar="ID", help="Id of a parent; repeat for several.")] = None,
    threshold: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="NUMBER", help="Lowest probability at which the label is assigned."),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Append a label. The model can score it immediately, by its text.

    hf-gile labels add MODEL D000086382 COVID-19 --description "disease by SARS-CoV-2"
    """
    from hf_gile import Label

    new_id, name, description, *synonyms = map(_clean, (id, name, description, *(synonym or ())))
    parents = tuple(map(_clean, broader or ()))
    new = Label(new_id, name, description, language, threshold=threshold, synonyms=tuple(synonyms), broader=parents)

    def change(labels: "LabelSet") -> Any:
        for known in {id, new_id}.intersection(labels.ids):
            raise ValueError(
                f"{target} already has a label {known!r}, {labels[labels.column(known)].name!r}: change its name with "
                "hf-gile labels rename, and its description with hf-gile labels import --update"
            )
        return labels.add(new)

    _change(target, change, dry_run)


def rename(
    target: Target,
    id: Annotated[str, typer.Argument(metavar="ID", help="Id of the label.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new name.")],
    dry_run: DryRun = False,
) -> None:
    """Rename a label. It keeps its id and its learned weights.

    hf-gile labels rename MODEL D007501 "Iron, Dietary"
    """
    _change(target, lambda labels: labels.rename(_known_ids(target, labels, id)[0], _clean(name)), dry_run)


def retire(
    target: Target,
    ids: Annotated[list[str], typer.Argument(metavar="IDS", help="Ids of the labels.")],
    dry_run: DryRun = False,
) -> None:
    """Remove labels together with their learned weights. Nothing else changes.

    hf-gile labels retire MODEL D009369 D014680 --dry-run
    """
    _change(target, lambda labels: labels.retire(*_known_ids(target, labels, *ids)), dry_run)


@dataclass(kw_only=True)
class Import(LabelColumns):
    """Options of `hf-gile labels import`."""

    target: Target
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="A table, a text with a label on each line, MeSH or SKOS."),
    ]
    update: Annotated[
        bool,
        typer.Option(
            "--update",
            help="Also replace names, descriptions, synonyms, parents and thresholds of existing labels by the file's.",
        ),
    ] = False
    label_synonyms: LabelSynonyms = None
    on_error: OnError = "raise"
    dry_run: DryRun = False


def import_(options: Import) -> None:
    """Add the labels of a file that have new ids. A missing label file is created.

    In a model, they are unseen, even if the file has counts: the model was not trained on them.

    hf-gile labels import MODEL new_subjects.csv --label-name name_en --label-name name_de
    hf-gile labels import labels.jsonl desc2024.xml --label-description scope_note
    hf-gile labels import MODEL thesaurus.ttl --label-language en --update --dry-run
    """
    from hf_gile import LabelSet
    from hf_gile.data import ReadReport

    target = options.target
    source = options.source
    report = ReadReport(options.on_error)
    imported = options.read(source, synonyms=options.label_synonyms or [], report=report)
    if not (report.left_out or report.notes):
        note(f"{source}: {report}")

    def change(labels: "LabelSet") -> Any:
        if not labels:
            return imported
        by_id = {label.id: label for label in imported}
        fields = [name for name in _UPDATED_FIELDS if any(getattr(new, name) for new in imported)]

        def updated(label: "Label") -> Any:
            new = by_id.get(label.id)
            if new is None:
                return label
            threshold = label.threshold if new.threshold is None else new.threshold
            return replace(label, threshold=threshold, **{name: getattr(new, name) for name in fields})

        existing = map(updated, labels) if options.update else labels
        training = {"seen": False, "count": 0} if Path(target).is_dir() else {}
        added = [replace(label, **training) for label in imported if label.id not in labels]
        return LabelSet([*existing, *added], source=f"{target} with {source}")

    _change(target, change, options.dry_run, may_be_new=True)


_UPDATED_FIELDS = ("name", "description", "synonyms", "broader", "language")


def _read_labels(target: str, revision: str | None = None) -> Any:
    """Reads the labels of a file, a folder or a model on the Hub, without loading the model."""
    from hf_gile import LabelSet
    from hf_gile.models.labels_gile import LABELS_FILE
    from hf_gile.models.saving_gile import load_checked

    path = Path(target)
    if path.suffix == ".csv" and path.is_file():
        return _read_csv(path)
    if path.suffix == ".jsonl" and path.is_file():
        return LabelSet.load(path)
    if path.is_dir():
        if not (path / LABELS_FILE).is_file():
            raise FileNotFoundError(
                f"{target} is not a saved model with labels: it has no {LABELS_FILE}{suggest_models(path)}"
            )
        names = ("config.json", LABELS_FILE)
        return load_checked(path, "model", lambda: LabelSet.load(path / LABELS_FILE), names=names)[0]
    if path.suffix in (".jsonl", ".csv") or not is_hub_name(target):
        near = difflib.get_close_matches(path.name, [file.name for file in path.parent.glob("*")], n=1)
        hint = f"; did you mean {path.parent / near[0]}?" if near else suggest_models(path.parent)
        raise FileNotFoundError(f"no file or folder {target} (in {Path.cwd()}){hint}")
    from transformers.utils.hub import cached_file

    with explained(target):
        file = cached_file(target, LABELS_FILE, revision=revision)
    return LabelSet.load(file)


def _read_csv(path: Path) -> Any:
    from hf_gile import load_labels
    from hf_gile.data import ReadReport

    report = ReadReport()
    labels = load_labels(path, report=report)
    for line in report.notes:
        if "columns not read" in line or "names of columns" in line:  # below a title or comments
            raise ValueError(
                f"{path}: {line}, and would be lost by a change: import the table into a label file, hf-gile labels "
                f"import labels.jsonl {path}"
            )
    return labels


def _change(target: str, change: Callable[[Any], Any], dry_run: bool, may_be_new: bool = False) -> None:
    path = Path(target)
    may_be_new = may_be_new and path.suffix in (".jsonl", ".csv")
    if not path.exists() and not may_be_new:
        raise FileNotFoundError(
            f"no file or folder {target} (in {Path.cwd()}); to change a model on the Hub, change a copy: hf "
            f"download {target} --local-dir FOLDER, then hf-gile push FOLDER {target}"
        )
    if path.is_file() and path.suffix not in (".jsonl", ".csv"):
        raise ValueError(
            f"{path}: changes are written to .jsonl and .csv files: hf-gile labels import labels.jsonl {path}"
        )
    from hf_gile.data import save_labels
    from hf_gile.data.homonyms import note_case

    suffix = ""
    if may_be_new and not dry_run:
        path.parent.mkdir(parents=True, exist_ok=True)
    with lock_for_change(path, dry_run):
        old = [] if may_be_new and not path.exists() else _read_labels(target)
        new = change(old)
        if new != old and path.is_dir():
            model, processor = load(target, device="cpu")
            model.set_labels(new, processor)  # raises an error if the labels do not fit the model
            if not dry_run:
                suffix = save_changes(path, model, processor)
            known = {label.text for label in old}
            note_unknown_labels(model, processor, [label for label in new if label.text not in known])
        elif new != old and not dry_run:
            save_labels(new, path.resolve())  # keeps a symbolic link
    counts = _print_changes(old, new)
    similar = note_case((label.text, label.language) for label in new)
    if similar and similar != note_case((label.text, label.language) for label in old):
        note(similar)
    if dry_run:
        note(f"{counts}, not written: {target} has {counted(len(old), 'label')}")
    else:
        note(f"{counts}: {target} has {counted(len(new), 'label')}{suffix}")
    if new != old and path.is_dir() and not dry_run:
        note_old_card(path)


def _clean(text: str) -> str:
    """Returns a text as `import` reads it from a table; refuses a lone surrogate, a byte that is not UTF-8."""
    from hf_gile.data.schema import clean_label, clean_text, plain_text

    return clean_label(plain_text(clean_text(text, repr(text))))


def _known_ids(target: str, labels: "LabelSet", *ids: str) -> tuple[str, ...]:
    """Returns the ids. Raises an error that suggests the id if a label name was passed instead."""
    known = set(labels.ids)
    ids = tuple(id if id in known else _clean(id) for id in ids)
    for id in ids:
        ids_with_name = [] if id in known else [repr(label.id) for label in labels if label.name == id]
        if ids_with_name:
            raise ValueError(
                f"{target} has no label with the id {id!r}, which is the name of {' and '.join(ids_with_name[:3])}: "
                "pass the id"
            )
    return ids


def _print_changes(old: Iterable[Any], new: Iterable[Any]) -> str:
    """Prints the labels that differ, and returns their numbers."""
    earlier = {label.id: label for label in old}
    later = {label.id: label for label in new}
    added = [label for label in later.values() if label.id not in earlier]
    removed = [label for label in earlier.values() if label.id not in later]
    changed = [(earlier[id], later[id]) for id in later if id in earlier and earlier[id] != later[id]]
    for label in removed:
        sys.stdout.write(f"- {_one_line(label.id)}  {_one_line(label.text)}\n")
    for before, after in changed:
        sys.stdout.write(f"~ {_one_line(after.id)}  {_one_line(before.text)} -> {_one_line(after.text)}\n")
    for label in added:
        sys.stdout.write(f"+ {_one_line(label.id)}  {_one_line(label.text)}\n")
    return f"{len(added):,} added, {len(removed):,} removed, {len(changed):,} changed"


def _one_line(text: str) -> str:
    return visible(" ".join(text.split()))


def _truncate(text: str) -> str:
    text = _one_line(text)
    return text if len(text) <= _MAX_WIDTH else f"{text[: _MAX_WIDTH - 3]}..."


def _print_table(rows: list[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if column in (1, 2) else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        sys.stdout.write("  ".join(cells).rstrip() + "\n")
