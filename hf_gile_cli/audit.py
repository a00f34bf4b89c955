"""`hf-gile audit`: lists suspicious labels of a collection for manual review."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from .measure import Documents
from .options import Json, Revision
from .running import check_new_folder, counted, note, write_json
from .saved_model import load


@dataclass(kw_only=True)
class Auditing(Documents):
    """Options of `hf-gile audit`."""

    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            file_okay=False,
            metavar="FOLDER",
            help="Folder for the results; must be new or empty.",
        ),
    ]
    most: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="NUMBER",
            help="Maximum number of labels of each kind.  [default: 5 % of the assigned labels, at most 1000]",
        ),
    ] = None
    compare: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="A later collection with the same columns; also lists labels that drift."),
    ] = None
    as_json: Json = False
    revision: Revision = None


def audit(options: Auditing) -> None:
    """List probably wrong or missing labels, for manual review.

    The folder gets tables (wrong.csv, missing.csv, documents.csv) and tasks for Label Studio (label_studio.json, with
    the labelling interface label_studio.xml). Use a model that was not trained on these
    documents, because it reproduces the labels it was trained on. To audit a whole collection, train on each half and
    audit the other.

    hf-gile audit MODEL records.csv --text abstract --labels subjects --separator ";" --output audit
    hf-gile audit MODEL 2020.jsonl --labels tags --output audit --compare 2025.jsonl
    """
    from hf_gile.audit import audit as run_audit
    from hf_gile.audit import drift, write_audit
    from hf_gile.audit.findings import MOST

    check_new_folder(options.output)
    model, processor = load(options.model, options.revision, options.device)
    rows = options.read_known(model.label_set)
    later = None
    if options.compare:
        later = replace(options, files=options.compare).read_known(model.label_set)
    settings: dict[str, Any] = {"most": options.most, "batch_size": options.batch_size, "bf16": options.bf16}
    settings |= {"language": options.language, "progress": sys.stderr.isatty()}
    findings = run_audit(model, processor, rows["text"], rows["labels"], **settings)
    drifting = None
    if later is not None:
        after = run_audit(model, processor, later["text"], later["labels"], **settings)
        drifting = drift(findings, after, options.most or MOST)
    write_audit(options.output, findings, model.label_set, rows["id"], rows["text"], rows["labels"], drifting)
    wrong = len(findings.wrong)
    missing = len(findings.missing)
    documents = len(findings.documents())
    if options.as_json:
        write_json({"wrong": wrong, "missing": missing, "documents": documents})
    note(
        f"{counted(wrong, 'least probable assigned label')}, {counted(missing, 'most probable missing label')}, in "
        f"{counted(documents, 'document')}: {options.output}"
    )
