"""`hf-gile evaluate` and `hf-gile calibrate`: evaluate and calibrate models on labelled documents."""

import json
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .options import (
    BatchSize,
    Device,
    DryRun,
    IdColumn,
    Language,
    Layout,
    Model,
    OnError,
    Revision,
    TextColumns,
)
from .running import counted, note, visible
from .saved_model import load, lock_for_change, note_old_card, save_changes

if TYPE_CHECKING:
    from datasets import Dataset

    from hf_gile import LabelSet
    from hf_gile.publishing import Report

_ROWS = {
    "average_precision": "average precision",
    "precision_at_1": "precision at 1",
    "precision_at_5": "precision at 5",
    "recall_at_5": "recall at 5",
    "ndcg_at_5": "nDCG at 5",
    "ranking_loss": "ranking loss",
    "micro_f1": "micro-F1",
    "macro_f1": "macro-F1",
    "accuracy": "accuracy",
    "expected_calibration_error": "calibration error",
    "top_5_expected_calibration_error": "calibration error, 5 best labels",
}
_SINGLE_LABEL_ROWS = (
    "accuracy",
    "macro_f1",
    "average_precision",
    "recall_at_5",
    "expected_calibration_error",
    "top_5_expected_calibration_error",
)
"""Metrics shown for single-label models, whose other metrics are equal to these."""

_FEW = 30
"""Number of documents below which a calibration says little about others."""

_GROUPS = {"": "all labels", "seen_": "seen", "unseen_": "unseen"}


@dataclass(kw_only=True)
class LabelledDocuments(Layout):
    """Options of commands that read documents with their labels."""

    files: Annotated[
        list[str],
        typer.Argument(metavar="FILES", help="Tables (.jsonl, .csv, .tsv, .json, .parquet), folders or globs."),
    ]
    text: TextColumns = None
    labels: Annotated[
        list[str] | None,
        typer.Option(
            "--labels",
            metavar="COLUMN",
            help="Column with the label ids; repeat for a column of zeros and ones a label.  [default: labels]",
        ),
    ] = None
    separator: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Separator of label ids within a cell, such as ';'; none if each cell is a label."
        ),
    ] = None
    unlabelled: Annotated[
        Literal["negative", "drop"],
        typer.Option(help="What documents without labels are: without any, or left out."),
    ] = "negative"
    id: IdColumn = None
    on_error: OnError = "raise"

    def read(self, label_set: "LabelSet | None" = None) -> Any:
        """Reads the documents as a dataset with the columns `text` and `labels`, which may be of a `label_set`."""
        from transformers.utils import logging

        from hf_gile.data import load_table

        logging.set_verbosity_error()
        with suppress(ImportError):  # load_table names the missing extra
            import datasets

            datasets.disable_progress_bars()
        rows, report = load_table(
            self.files,
            text=self.text or ["text"],
            labels=self.labels or ["labels"],
            id=self.id,
            separator=self.separator,
            known=set() if label_set is None else set(label_set.ids),
            unlabelled=self.unlabelled,
            on_error=self.on_error,
            **self.requested()._asdict(),
        )
        note("\n".join([str(report), *report.notes]))
        return rows


@dataclass(kw_only=True)
class _OfModel:
    """The first argument of a command."""

    model: Model


@dataclass(kw_only=True)
class Documents(LabelledDocuments, _OfModel):
    """Options of commands that read documents with known labels of a model."""

    on_unknown_label: Annotated[
        Literal["raise", "drop"], typer.Option(help="What to do with label ids unknown to the model.")
    ] = "raise"
    language: Language = None
    batch_size: BatchSize = 32
    bf16: Annotated[bool, typer.Option("--bf16", help="Use bfloat16 where it is precise enough.")] = False
    device: Device = None

    def read_known(self, label_set: "LabelSet") -> Any:
        """Reads the documents, and handles label ids that the model does not have, see `select_known`."""
        return self.select_known(self.read(label_set), label_set)

    def select_known(self, rows: "Dataset", label_set: "LabelSet") -> Any:
        """Drops label ids that the model does not have, or raises a ValueError."""
        from hf_gile.data.joined_labels import describe_near_forms

        model = self.model
        if label_set is None:
            raise ValueError(f"{model} stores no labels with ids (labels.jsonl) to compare with those of the documents")
        gold = rows["labels"]
        unknown = {label_id: None for ids in gold for label_id in ids if label_id not in label_set}
        if not unknown:
            return rows
        names = ", ".join(map(repr, list(unknown)[:3]))
        hint = describe_near_forms(list(unknown), label_set) or f" (its ids are like {label_set.ids[0]!r})"
        problem = f"{model} does not know {counted(len(unknown), 'label id')} in the documents, such as {names}{hint}"
        if self.on_unknown_label == "raise":
            raise ValueError(f"{problem}: add them (hf-gile labels import), or pass --on-unknown-label drop")
        note(f"{problem}: they are dropped")
        known_ids = [[label_id for label_id in ids if label_id not in unknown] for ids in gold]
        if not any(known_ids):
            raise ValueError(f"no document has a label of {model}: check that the documents use its label ids")
        return rows.remove_columns("labels").add_column("labels", known_ids)

    def check_single(self, rows: "Dataset", problem_type: str | None) -> None:
        """Raises an error if a document has several labels, and the model assigns a single one."""
        for document, gold in zip(rows["id"], rows["labels"], strict=True):
            if len(gold) > 1 and problem_type == "single_label_classification":
                raise ValueError(
                    f"{self.model} assigns a single label, but document {document!r} has {len(gold)}: leave it out, or "
                    "train with --problem_type multi_label_classification"
                )


@dataclass(kw_only=True)
class Evaluation(Documents):
    """Options of `hf-gile evaluate`."""

    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", dir_okay=False, metavar="FILE", help="File for the report.  [default: standard output]"
        ),
    ] = None
    dataset: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the dataset, for the report.")] = None
    split: Annotated[str, typer.Option(metavar="NAME", help="Name of the split, for the report.")] = "test"
    num_training_documents: Annotated[
        int | None,
        typer.Option(min=1, metavar="NUMBER", help="Number of training documents; adds propensity-scored precision."),
    ] = None
    revision: Revision = None


def evaluate(options: Evaluation) -> None:
    """Evaluate a model on labelled documents.

    Prints a table of the main metrics to standard error and writes the full JSON report to standard output or a file.
    `hf-gile card` shows the report if it is results.json in the folder of the model.

    hf-gile evaluate MODEL test.jsonl --text title --text abstract --labels subjects --output MODEL/results.json
    hf-gile evaluate MODEL test.csv --labels tags --separator ";" > report.json
    """
    from hf_gile.publishing import make_report

    output = options.output
    if output is not None and output.is_file():
        _check_report(output)
    loaded, processor = load(options.model, options.revision, options.device)
    rows = options.read_known(loaded.label_set)
    options.check_single(rows, loaded.config.problem_type)
    report = make_report(
        loaded,
        processor,
        rows["text"],
        rows["labels"],
        batch_size=options.batch_size,
        bf16=options.bf16,
        dataset=options.dataset,
        split=options.split,
        command=shlex.join(["hf-gile", *sys.argv[1:]]),
        num_training_documents=options.num_training_documents,
        language=options.language,
        progress=sys.stderr.isatty(),
    )
    _print_metrics(report.metrics, _count_gold(report, loaded.label_set))
    if output is not None:
        report.save(output)
        note(f"{counted(report.documents, 'document')}: {output}")
    elif sys.stdout.isatty():  # thousands of lines would hide the table
        note("for the figures of each label, as JSON: --output FILE")
    else:
        sys.stdout.write(visible(report.to_json()))


def _check_report(path: Path) -> None:
    """Refuses to replace a file that is no report, such as the table of documents."""
    from hf_gile.publishing import Report

    try:
        Report.load(path)
    except ValueError:
        raise FileExistsError(f"{path} exists and is not a report: name another file with --output") from None


@dataclass(kw_only=True)
class Calibration(Documents):
    """Options of `hf-gile calibrate`."""

    model: Annotated[
        str, typer.Argument(metavar="FOLDER", help="The folder of a saved model, which is changed in place.")
    ]
    method: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD",
            help="Calibration method: platt or spline.  [default: spline, but platt for single-label models]",
        ),
    ] = None
    label_thresholds: Annotated[
        bool,
        typer.Option(
            "--label-thresholds/--common-thresholds", help="Fit a threshold per label, or a common threshold."
        ),
    ] = True
    objective: Annotated[
        str,
        typer.Option(
            metavar="micro_f1|macro_f1|recall@R",
            help="Objective of the thresholds; recall@0.8 guarantees an expected recall of 0.8.",
        ),
    ] = "micro_f1"
    dry_run: DryRun = False


def calibrate(options: Calibration) -> None:
    """Calibrate probabilities and thresholds. They are fitted to validation documents, and stored in the model.

    Use documents that the model was not trained on. Seen and unseen labels are calibrated separately; unseen labels are
    calibrated like seen labels if too few documents have them. Prints the metrics as JSON to standard output and as a
    table to standard error. The column "as stored" measures what was stored in the model before, on these documents: it
    shows how far documents of another source have moved from those that the model was calibrated on.

    hf-gile calibrate MODEL validation.jsonl --text title --text abstract --labels subjects
    hf-gile calibrate MODEL validation.csv --labels tags --separator ";" --method platt --dry-run
    hf-gile calibrate MODEL validation.jsonl --objective recall@0.8
    """
    from torch.utils.data import DataLoader

    from hf_gile.training import GileDataCollator, encode_dataset
    from hf_gile.training.calibration import calibrate as fit

    folder = Path(options.model)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"no folder {folder} (in {Path.cwd()}); to calibrate a model on the Hub, download a copy"
        )
    with lock_for_change(folder, options.dry_run):
        loaded, processor = load(options.model, device=options.device)
        rows = options.read(loaded.label_set)
        if loaded.config.force_label and not all(rows["labels"]):
            loaded.config.thresholds = loaded.config.group_thresholds
            note("documents without labels: a document is no longer assigned its best label in any case")
        rows = options.select_known(rows, loaded.label_set)
        options.check_single(rows, loaded.config.problem_type)
        if len(rows) < _FEW:
            note(f"{counted(len(rows), 'document')} may be unlike others: a calibration needs 100 or more")
        encoded = encode_dataset(rows, processor, loaded.label_set, language=options.language)
        batches: Any = DataLoader(encoded, options.batch_size, collate_fn=GileDataCollator(processor))
        figures = fit(
            loaded,
            batches,
            method=options.method,
            label_thresholds=options.label_thresholds,
            objective=options.objective,
            raise_unseen=True,
            bf16=options.bf16,
        )
        sys.stdout.write(json.dumps(figures, indent=2) + "\n")
        _print_comparison(figures)
        if options.dry_run:
            note("not written")
        else:
            note(f"written to {folder}{save_changes(folder, loaded, processor)}")
            note_old_card(folder)


def _count_gold(report: "Report", label_set: "LabelSet") -> dict[str, int]:
    """Counts the gold labels of the documents, by group of labels."""
    counts = {"": report.documents, "seen_": 0, "unseen_": 0}
    for row in report.labels:
        counts["seen_" if label_set[label_set.column(row["id"])].seen else "unseen_"] += row["support"]
    return counts


def _print_metrics(metrics: Mapping[str, float], num_gold: Mapping[str, int]) -> None:
    rows = {name: _ROWS[name] for name in (_SINGLE_LABEL_ROWS if "accuracy" in metrics else _ROWS)}
    groups = {
        prefix: name for prefix, name in _GROUPS.items() if any(f"{prefix}{metric}" in metrics for metric in rows)
    }
    note(f"{'percent':34}" + "".join(f"{name:>12}" for name in groups.values()))
    for metric, name in rows.items():
        values = [metrics.get(f"{prefix}{metric}") if num_gold[prefix] else None for prefix in groups]
        if any(value is not None for value in values):
            note(f"{name:34}" + "".join(f"{'-' if value is None else f'{100 * value:.2f}':>12}" for value in values))
    if len(groups) > 1:
        best = " Accuracy and F1 are of the label with the highest score of all labels."
        ranked = "Seen labels are ranked among the seen, unseen among the unseen."
        note(f"{ranked}{best if 'accuracy' in metrics else ''}")


def _print_comparison(figures: Mapping[str, Any]) -> None:
    note(f"{'percent':42}{'as stored':>10}{'fitted':>10}")
    if "accuracy_before" in figures:
        note(f"{'accuracy':42}{100 * figures['accuracy_before']:10.2f}{100 * figures['accuracy_after']:10.2f}")
    for group in ("seen", "unseen"):
        for metric, name in (("expected_calibration_error", "calibration error"), *_AFTER):
            before = figures.get(f"{group}_{metric}_before")
            after = figures.get(f"{group}_{metric}_after", figures.get(f"{group}_{metric}"))
            if before is not None and after is not None:
                note(f"{f'{group} labels: {name}':42}{100 * before:10.2f}{100 * after:10.2f}")
        if f"{group}_threshold" in figures:
            number = figures.get(f"{group}_label_thresholds", 0)
            details = f"; {counted(number, 'label')} with another threshold" if number else ""
            if (recall := figures.get(f"{group}_promised_recall")) is not None:
                per_document = figures[f"{group}_labels_per_document"]
                details = f" guarantees a recall of {100 * recall:g}, with {per_document:.1f} labels per document"
            note(f"{group} labels: threshold {figures[f'{group}_threshold']:.3g}{details}")
    if (share := figures.get("unusual_documents")) is not None:
        note(f"{100 * share:.0f} % of these documents have no label as probable as 90 % of the earlier ones had")
    if "note" in figures:
        note(figures["note"])


_AFTER = (
    ("top_5_expected_calibration_error", "error of the 5 best"),
    ("micro_f1", "micro-F1 at the threshold"),
    ("recall", "recall at the threshold"),
)
