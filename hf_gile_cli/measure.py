"""`hf-gile evaluate` and `hf-gile calibrate`: what a model is worth on documents, and how sure it may be."""

import json
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import (
    BatchSize,
    Device,
    Encoding,
    IdColumn,
    Language,
    Model,
    OnError,
    Revision,
    TextColumns,
    checked_on_error,
)
from .running import add_command, counted, note, visible

if TYPE_CHECKING:
    from datasets import Dataset

    from hf_gile import LabelSet

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
_OF_ONE_LABEL = (
    "accuracy",
    "macro_f1",
    "average_precision",
    "recall_at_5",
    "expected_calibration_error",
    "top_5_expected_calibration_error",
)
"""Those of models that give a document one label; the others say the same again."""

_GROUPS = {"": "all labels", "seen_": "seen", "unseen_": "unseen"}


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    add_command(app, "evaluate", evaluate)
    add_command(app, "calibrate", calibrate)


@dataclass(kw_only=True)
class Documents:
    """Options of commands that read documents with known labels."""

    model: Model
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILES", help="Tables (.jsonl, .csv, .tsv, .json, .parquet), folders or globs."),
    ]
    text: TextColumns = None
    labels: Annotated[
        str, typer.Option("--labels", metavar="COLUMN", help="Column of label ids: a list, or one text.")
    ] = "labels"
    separator: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Cuts a text of several label ids, such as ';'.")
    ] = None
    id: IdColumn = None
    on_unknown_label: Annotated[
        str, typer.Option(metavar="raise|drop", help="What to do about label ids that the model does not have.")
    ] = "raise"
    language: Language = None
    encoding: Encoding = "utf-8"
    batch_size: BatchSize = 32
    bf16: Annotated[bool, typer.Option("--bf16", help="Compute in bfloat16 where that serves.")] = False
    device: Device = None
    on_error: OnError = "raise"

    def read(self) -> Any:
        """Reads the documents, a dataset with the columns `text` and `labels`."""
        from transformers.utils import logging

        from hf_gile.data import load_table

        logging.set_verbosity_error()
        _quiet_datasets()
        rows, report = load_table(
            self.files,
            text=self.text or ["text"],
            labels=self.labels,
            id=self.id,
            separator=self.separator,
            encoding=self.encoding,
            on_error=checked_on_error(self.on_error),  # type: ignore[arg-type]
        )
        note(str(report))
        return rows

    def known(self, rows: "Dataset", label_set: "LabelSet") -> Any:
        """Leaves the labels that a model has.

        Args:
            rows: What `read` returned.
            label_set: Those of the model.

        Raises:
            ValueError: The model has none, or documents have others.
        """
        model, action = self.model, self.on_unknown_label
        if action not in ("raise", "drop"):
            raise typer.BadParameter(f"must be raise or drop, got {action!r}", param_hint="--on-unknown-label")
        if label_set is None:
            raise ValueError(f"{model} stores no labels with ids (labels.jsonl), which those of documents could be")
        gold = rows["labels"]
        unknown = {one: None for ids in gold for one in ids if one not in label_set}
        if not unknown:
            return rows
        names = ", ".join(map(repr, list(unknown)[:3]))
        hint = "" if self.separator else _separator_hint(unknown, label_set)
        found = f"{model} does not know {counted(len(unknown), 'label id')} of the documents, such as {names}{hint}"
        if action == "raise":
            raise ValueError(f"{found}: add them (hf-gile labels import), or pass --on-unknown-label drop")
        note(f"{found}: left out")
        kept = [[one for one in ids if one not in unknown] for ids in gold]
        if not any(kept):
            raise ValueError(f"no document has a label that {model} knows: are these the ids of its labels?")
        return rows.remove_columns("labels").add_column("labels", kept)


@dataclass(kw_only=True)
class Evaluation(Documents):
    """Options of `hf-gile evaluate`."""

    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where the report goes.  [default: printed]")
    ] = None
    dataset: Annotated[str | None, typer.Option(metavar="NAME", help="Of the documents, for the report.")] = None
    split: Annotated[str, typer.Option(metavar="NAME", help="Which part of it they are.")] = "test"
    example_texts: Annotated[
        int,
        typer.Option(
            min=0, metavar="NUMBER", help="Texts kept for each label that a card shows, if their licence allows."
        ),
    ] = 0
    num_training_documents: Annotated[
        int | None, typer.Option(min=1, metavar="NUMBER", help="Gives propensity-scored precision, too.")
    ] = None
    revision: Revision = None


def evaluate(options: Evaluation) -> None:
    """Measure a model on documents with known labels.

    A table of the main figures goes to standard error; the whole report, JSON, to standard output or to a file. In the
    folder of the model as results.json, it is what `hf-gile card` shows; there it keeps the learning curve of the
    report that it replaces.

    hf-gile evaluate MODEL test.jsonl --text title --text abstract --labels subjects --output MODEL/results.json
    hf-gile evaluate MODEL test.csv --labels tags --separator ";" > report.json
    """
    from hf_gile.publishing import make_report

    from .saved_model import load

    output = options.output
    if output is not None and output.is_dir():
        raise typer.BadParameter(f"{output} is a folder: name a file in it", param_hint="--output")
    history = _history(output, options.model)
    rows = options.read()
    loaded, processor = load(options.model, options.revision, options.device)
    rows = options.known(rows, loaded.label_set)
    report = make_report(
        loaded,
        processor,
        rows["text"],
        rows["labels"],
        history=history,
        example_texts=options.example_texts,
        batch_size=options.batch_size,
        bf16=options.bf16,
        dataset=options.dataset,
        split=options.split,
        command=shlex.join(["hf-gile", *sys.argv[1:]]),
        num_training_documents=options.num_training_documents,
        language=options.language,
        progress=sys.stderr.isatty(),
    )
    _say_figures(report.metrics)
    if output is not None:
        report.save(output)
        note(f"{counted(report.documents, 'document')}: {output}")
    else:
        sys.stdout.write(visible(report.to_json()))


@dataclass(kw_only=True)
class Calibration(Documents):
    """Options of `hf-gile calibrate`."""

    model: Annotated[str, typer.Argument(metavar="FOLDER", help="The folder of a saved model, which changes.")]
    method: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD",
            help="How probabilities are mended: platt or spline.  [default: the best as a rule]",
        ),
    ] = None
    label_thresholds: Annotated[
        bool,
        typer.Option("--label-thresholds/--common-thresholds", help="Whether labels get thresholds of their own."),
    ] = True
    objective: Annotated[
        str,
        typer.Option(
            metavar="micro_f1|macro_f1|recall@R",
            help="What thresholds are to be best for; or the share of right labels that they promise, as recall@0.8.",
        ),
    ] = "micro_f1"
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the figures, write nothing.")] = False


def calibrate(options: Calibration) -> None:
    """Fit probabilities and thresholds on validation documents, and store them in the model.

    Take documents that it was not trained on. Labels seen in training and others are calibrated apart; if too few
    documents have others, these are calibrated like the seen ones. The figures, JSON, go to standard output, a table
    of them to standard error.

    hf-gile calibrate MODEL validation.jsonl --text title --text abstract --labels subjects
    hf-gile calibrate MODEL validation.csv --labels tags --separator ";" --method platt --dry-run
    hf-gile calibrate MODEL validation.jsonl --objective recall@0.8
    """
    from torch.utils.data import DataLoader

    from hf_gile.training import GileDataCollator, encode_dataset
    from hf_gile.training.calibration import calibrate as fit

    from .saved_model import changing, load, note_old_card, save_changed

    folder = Path(options.model)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"no folder {folder} (in {Path.cwd()}); a model on the Hub is calibrated in a copy of it"
        )
    rows = options.read()
    with changing(folder, options.dry_run):
        loaded, processor = load(options.model, device=options.device)
        rows = options.known(rows, loaded.label_set)
        encoded = encode_dataset(rows, processor, loaded.label_set, language=options.language)
        batches: Any = DataLoader(encoded, options.batch_size, collate_fn=GileDataCollator(processor))
        figures = fit(
            loaded,
            batches,
            method=options.method,
            label_thresholds=options.label_thresholds,
            objective=options.objective,
            bf16=options.bf16,
        )
        sys.stdout.write(json.dumps(figures, indent=2) + "\n")
        _say_before_and_after(figures)
        if options.dry_run:
            note("not written")
        else:
            note(f"written to {folder}{save_changed(folder, loaded, processor, loaded.label_set)}")
            note_old_card(folder)


def _history(output: Path | None, model: str) -> list[dict[str, Any]]:
    """The learning curve in the report of this model that will be replaced: no evaluation can make it again."""
    from hf_gile.publishing import Report

    if output is None or not output.is_file() or output.resolve().parent != Path(model).resolve():
        return []
    try:
        return Report.load(output).history
    except ValueError as error:
        raise ValueError(f"{output} is to be replaced, but cannot be read: move it ({error})") from None


def _quiet_datasets() -> None:
    try:
        import datasets
    except ImportError:
        return  # load_table says which extra it needs
    datasets.disable_progress_bars()


def _separator_hint(unknown: Iterable[str], label_set: "LabelSet") -> str:
    """Asks whether ids that the model does not know are several ids in one text."""
    known = set(label_set.ids)
    for sign in (";", "|", ","):
        cut = [one.split(sign) for one in unknown if sign in one]
        # Commas stand in many an id that is one; the other signs hardly do.
        if cut and (sign != "," or any(part.strip() in known for parts in cut for part in parts)):
            return f" (is that --separator {sign!r}?)"
    return ""


def _say_figures(metrics: Mapping[str, float]) -> None:
    rows = {name: _ROWS[name] for name in (_OF_ONE_LABEL if "accuracy" in metrics else _ROWS)}
    groups = {
        prefix: name for prefix, name in _GROUPS.items() if any(f"{prefix}{metric}" in metrics for metric in rows)
    }
    note(f"{'percent':34}" + "".join(f"{name:>12}" for name in groups.values()))
    for metric, name in rows.items():
        values = [metrics.get(f"{prefix}{metric}") for prefix in groups]
        if any(value is not None for value in values):
            note(f"{name:34}" + "".join(f"{'' if value is None else f'{100 * value:.2f}':>12}" for value in values))


def _say_before_and_after(figures: Mapping[str, Any]) -> None:
    note(f"{'percent':42}{'before':>10}{'after':>10}")
    if "accuracy_before" in figures:
        note(f"{'accuracy':42}{100 * figures['accuracy_before']:10.2f}{100 * figures['accuracy_after']:10.2f}")
    for group in ("seen", "unseen"):
        for metric, name in (("expected_calibration_error", "calibration error"), *_AFTER):
            before = figures.get(f"{group}_{metric}_before")
            after = figures.get(f"{group}_{metric}_after", figures.get(f"{group}_{metric}"))
            if before is not None and after is not None:
                note(f"{f'{group} labels: {name}':42}{100 * before:10.2f}{100 * after:10.2f}")
        if f"{group}_threshold" in figures:
            own = figures.get(f"{group}_label_thresholds", 0)
            others = f"; {counted(own, 'label')} with another" if own else ""
            if (recall := figures.get(f"{group}_promised_recall")) is not None:
                number = figures[f"{group}_labels_per_document"]
                others = f" promises a recall of {100 * recall:g}, with {number:.1f} labels a document"
            note(f"{group} labels: threshold {figures[f'{group}_threshold']:.3g}{others}")
    if "note" in figures:
        note(figures["note"])


_AFTER = (("top_5_expected_calibration_error", "error of the 5 best"), ("micro_f1", "micro-F1 at the threshold"))
