r"""Train on a table of your own: a column of texts, a column of labels, and a file that says what the labels mean.

    python recipes/train_table.py --train_files notes.csv --text text --labels tags --separator ";"
    accelerate launch recipes/train_table.py --train_files train.jsonl.gz --test_files dev.jsonl.gz \
        --text title abstract --labels subjects --label_file subjects.jsonl --label_name name_en name_de
    python recipes/train_table.py --format annif --train_files train.tsv.gz --label_file subjects.ttl
    python recipes/train_table.py --format xmc --train_files LF-AmazonTitles-131K
    python recipes/train_table.py --config mine.yaml

Tables are .csv, .tsv, .jsonl, .json or .parquet, or with `--dataset` a dataset of the Hub or of a folder. Labels are
ids of the label file: a table with a column of ids and one of names, a SKOS vocabulary (.ttl, .rdf, .nt, .jsonld) or
MeSH (.xml, .bin). `--format annif` reads corpora and vocabularies of Annif, `--format xmc` the folder of a set of the
Extreme Classification Repository; hf_gile/data/annif.py and xmc.py show these. Without a label file an id is a name.
Labels that no training document has are scored as well, by what their names say.

Every flag of `transformers.TrainingArguments` works, and every flag can stand in a YAML file.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from baselines import MODELS
from datasets import Dataset, load_dataset
from text_models import TOP_K, ModelSettings, check_files, check_settings, table, train_text_models
from training import parse_settings
from transformers import TrainingArguments
from units import check_choice

from hf_gile import Label, LabelSet
from hf_gile.data import (
    ReadReport,
    held_out_labels,
    load_annif,
    load_annif_vocabulary,
    load_table,
    load_xmc,
    read_label_file,
    split_of,
    table_of,
)
from hf_gile.data.files import suffix_of
from hf_gile.data.table_files import SUFFIXES
from hf_gile.data.zero_shot import drop_labels

FORMATS = {"table": SUFFIXES, "annif": (".tsv", ".csv", ".jsonl", ".txt"), "xmc": ()}
"""What `--format` can be, and which files are read."""


@dataclass
class Recipe(ModelSettings):
    """The table and its labels; the model is in `ModelSettings`."""

    train_files: list[str] = field(default_factory=list, metadata={"help": "Files, folders or globs."})
    validation_files: list[str] = field(
        default_factory=list, metadata={"help": "By default a tenth of the training documents, by a hash of their ids."}
    )
    test_files: list[str] = field(
        default_factory=list, metadata={"help": "By default a tenth of the training documents, by a hash of their ids."}
    )
    format: str = field(
        default="table",
        metadata={"help": "table; annif, its corpora and vocabularies; or xmc, the folder of a set of the Extreme "
                  "Classification Repository, with its test documents and labels."},
    )  # fmt: skip
    dataset: str | None = field(default=None, metadata={"help": "Instead of files: a dataset of the Hub, or a folder."})
    dataset_config: str | None = field(default=None, metadata={"help": "The configuration of the dataset."})
    text: list[str] = field(default_factory=lambda: ["text"], metadata={"help": "Columns of text, read in this order."})
    labels: str = field(default="labels", metadata={"help": "Column of label ids: a list, or one text."})
    separator: str | None = field(default=None, metadata={"help": "Cuts a text of several label ids, such as ';'."})
    id: str | None = field(default=None, metadata={"help": "Column of ids of documents; by default file and row."})
    label_file: str | None = field(
        default=None, metadata={"help": "What the label ids mean; by default they are names."}
    )
    label_id: str = field(default="id", metadata={"help": "Column of ids of the label file."})
    label_name: list[str] = field(
        default_factory=lambda: ["name"], metadata={"help": "Columns of names; the first that is not empty counts."}
    )
    label_description: list[str] = field(
        default_factory=list,
        metadata={"help": "Columns of what else is known; of SKOS: alt_labels, definition, broader; of MeSH: "
                  "entry_terms, scope_note, tree_path."},
    )  # fmt: skip
    label_synonyms: list[str] = field(
        default_factory=list, metadata={"help": "Columns of other names, for --paraphrase_synonyms and --label_texts."}
    )
    label_language: list[str] = field(
        default_factory=lambda: ["en"], metadata={"help": "Of SKOS: languages of names, the first one there is counts."}
    )
    on_unknown_label: str = field(
        default="raise", metadata={"help": "Label ids that the label file lacks: raise, or drop."}
    )
    encoding: str = field(default="utf-8", metadata={"help": "Of the files."})
    on_error: str = field(default="raise", metadata={"help": "Malformed rows and labels: raise, or skip and count."})
    num_proc: int = field(default=1, metadata={"help": "Processes that read files."})
    held_out: float = field(
        default=0.0,
        metadata={"help": "Share of the labels, by a hash of their ids, that only test documents have, for figures of "
                  "unseen labels. To choose settings for these, hold out others: --held_out_labels."},
    )  # fmt: skip
    # Not the paper's: better wherever both were tried, docs/training.md.
    hidden_act: str = field(default="tanh", metadata={"help": "'ReLU activation'; tanh was better wherever tried."})
    min_count: int = field(default=2, metadata={"help": "Rarer words are unknown, but for those of seen labels."})


def main() -> None:
    defaults = {
        "output_dir": "runs/table",
        "per_device_train_batch_size": 64,
        "learning_rate": 5e-3,
        "num_train_epochs": 14,
    }
    recipe, args = parse_settings(Recipe, defaults, check_recipe)
    say = print if args.process_index == 0 else (lambda *_: None)

    # 1. Documents, each with an id, a text and label ids.
    with args.main_process_first(desc="reading the tables"):
        parts, named = read_parts(recipe, say)

    # 2. What the labels say: those of the training documents first, then those that training never sees.
    if recipe.held_out:
        parts = hold_out(parts, recipe.held_out)
    counts = Counter(label_id for row in parts["train"]["labels"] for label_id in row)
    labels = order_labels(read_labels(recipe, named, parts, say), counts, parts, recipe, say)
    sizes = ", ".join(f"{len(rows):,} for {part}" for part, rows in parts.items())
    seen = sum(labels.seen)
    say(f"documents: {sizes}; {seen:,} labels seen in training, {len(labels) - seen:,} never")

    # 3. A model with each output layer, the same encoder under all.
    results = train_text_models(
        recipe,
        args,
        parts,
        labels,
        text="text",
        gold="labels",
        say=say,
        about=about(recipe),
        tested_on=names_of(recipe.test_files) if recipe.test_files else None,
    )
    if args.process_index == 0:
        columns = {"average_precision": "AvgPr"} | {f"recall_at_{k}": f"R@{k}" for k in TOP_K} | {"micro_f1": "F1"}
        one_label = all("test_accuracy" in result["test"] for result in results.values())
        if one_label:
            columns = {"accuracy": "Acc", "macro_f1": "MacroF1", "average_precision": "AvgPr", "recall_at_5": "R@5"}
        groups = ("all", "seen", "unseen") if seen < len(labels) else ("all",)
        notes = ["Seen labels are ranked among the seen, unseen among the unseen."] if seen < len(labels) else []
        if one_label:
            notes += ["Acc and MacroF1 (macro-F1) are of the label with the highest score of all labels."]
        elif recipe.make_cards:
            notes += [
                "These are scores as training left them; the cards have those of use: calibrated, stored thresholds."
            ]
        print(table(results, columns, groups, "\n".join(notes)))
        print(f"\nwritten to {args.output_dir}: results.json, curves.png, settings.yaml, and each model")
        saved = [unit for unit in recipe.units if unit not in MODELS]
        if saved:
            print("to use one:\n  from transformers import pipeline")
            print(f'  pipe = pipeline(model="{args.output_dir}/{saved[-1]}/model", trust_remote_code=True)')


def check_recipe(recipe: Recipe, args: TrainingArguments) -> None:
    """Names settings that do not exist or do not go together, and files that are not there, before any is read."""
    check_settings(recipe, args)
    files = {"train_files": recipe.train_files, "validation_files": recipe.validation_files}
    files |= {"test_files": recipe.test_files}
    if recipe.dataset and any(files.values()):
        raise ValueError("pass either --dataset or files, not both")
    if not recipe.dataset and not recipe.train_files:
        raise ValueError("there is nothing to train on: pass --train_files, or a --dataset with a split `train`")
    check_choice("format", recipe.format, FORMATS)
    if recipe.format == "xmc" and (len(recipe.train_files) != 1 or recipe.test_files or recipe.label_file):
        raise ValueError(
            "format xmc takes one folder as train_files, which has the test documents and the labels as well"
        )
    check_files(files, FORMATS[recipe.format])
    if recipe.label_file is not None:
        check_files({"label_file": [recipe.label_file]})
    check_choice("on_unknown_label", recipe.on_unknown_label, ("raise", "drop"))
    check_choice("on_error", recipe.on_error, ("raise", "skip"))
    if not 0 <= recipe.held_out < 1:
        raise ValueError(f"held_out is a share of the labels, from 0 to below 1, got {recipe.held_out}")


def read_parts(recipe: Recipe, say: Callable[..., None]) -> tuple[dict[str, Dataset], LabelSet | None]:
    """Documents to train on, for validation and for the test, and the labels that a dataset names itself."""
    options = {"text": recipe.text, "labels": recipe.labels, "id": recipe.id, "separator": recipe.separator}
    files = {"train": recipe.train_files, "validation": recipe.validation_files, "test": recipe.test_files}
    parts, named = {}, None
    if recipe.dataset:
        for part, rows in load_dataset(recipe.dataset, recipe.dataset_config).items():
            if part in files:
                parts[part], named = table_of(rows, **options)
    elif recipe.format == "xmc":
        report = ReadReport(recipe.on_error)
        corpus = load_xmc(recipe.train_files[0], encoding=recipe.encoding, report=report)
        parts, named = corpus.documents, corpus.label_set
        say(report)
    else:
        reading: dict[str, Any] = {"on_error": recipe.on_error, "num_proc": recipe.num_proc}
        for part, paths in files.items():
            if paths and recipe.format == "annif":
                parts[part], report = load_annif(paths, **reading)
            elif paths:
                parts[part], report = load_table(paths, **options, encoding=recipe.encoding, **reading)
            if paths:
                say(f"{part}: {report}")
    if "train" not in parts:
        raise SystemExit(f"there is nothing to train on: the dataset {recipe.dataset} has no split `train`")
    # What is missing is cut from the training documents, by a hash of their ids: the same documents each time.
    missing = {part: 0.1 if part not in parts else 0.0 for part in ("validation", "test")}
    if any(missing.values()):
        part_of = [split_of(name, **missing) for name in parts["train"]["id"]]
        whole = parts["train"]
        for part in ("train", *(part for part, share in missing.items() if share)):
            parts[part] = whole.select([place for place, own in enumerate(part_of) if own == part])
    for part, rows in parts.items():
        if len(rows) == 0:
            raise SystemExit(f"no document for {part}: pass --{part}_files, or more documents to train on")
    return {part: parts[part] for part in files}, named


def about(recipe: Recipe) -> dict[str, Any]:
    """What the card of a model says of its data, where `--card` says nothing."""
    if recipe.dataset and not Path(recipe.dataset).exists():
        return {"datasets": [recipe.dataset], "dataset_name": recipe.dataset}
    if recipe.dataset:
        return {"dataset_name": Path(recipe.dataset).name}
    return {"dataset_name": names_of(recipe.train_files)}


def names_of(files: list[str]) -> str:
    """What the card calls documents of these files."""
    return ", ".join(dict.fromkeys(Path(file).name.partition(".")[0] for file in files))


def read_labels(
    recipe: Recipe, named: LabelSet | None, parts: dict[str, Dataset], say: Callable[..., None]
) -> LabelSet:
    """What the label ids mean."""
    if recipe.label_file is None:
        if named is not None:
            return named
        return LabelSet.from_names(
            list(dict.fromkeys(name for rows in parts.values() for row in rows["labels"] for name in row))
        )
    report = ReadReport(recipe.on_error)
    if recipe.format == "annif" and suffix_of(Path(recipe.label_file)) in (".tsv", ".csv"):
        labels = load_annif_vocabulary(recipe.label_file, recipe.label_language, report)
        say(f"labels: {report}")
        return labels
    labels = read_label_file(
        recipe.label_file,
        id=recipe.label_id,
        name=recipe.label_name,
        describe=recipe.label_description,
        synonyms=recipe.label_synonyms,
        languages=recipe.label_language,
        encoding=recipe.encoding,
        report=report,
    )
    say(f"labels: {report}")
    return labels


def order_labels(
    known: LabelSet, counts: Counter[str], parts: dict[str, Dataset], recipe: Recipe, say: Callable[..., None]
) -> LabelSet:
    """The seen labels, with their counts, before the unseen ones."""
    used = Counter(label_id for rows in parts.values() for row in rows["labels"] for label_id in row)
    missing = {label_id: count for label_id, count in used.items() if label_id not in known}
    if missing:
        names = ", ".join(map(repr, list(missing)[:3]))
        message = f"{recipe.label_file}: {len(missing):,} label ids of the documents are not in it, such as {names}"
        if recipe.on_unknown_label != "drop":
            raise SystemExit(
                f"{message}; add them, choose the column of ids with --label_id, or leave them out with "
                "--on_unknown_label drop"
            )
        say(f"{message}: left out, {sum(missing.values()):,} times")
    seen = [replace(label, seen=True, count=counts[label.id]) for label in known if label.id in counts]
    unseen: list[Label] = [replace(label, seen=False, count=0) for label in known if label.id not in counts]
    return LabelSet([*seen, *unseen], source=recipe.label_file or "label ids")


def hold_out(parts: dict[str, Dataset], share: float) -> dict[str, Dataset]:
    """Leaves a share of the labels to the test part alone: what is tuned on validation is not tuned on them."""
    counts = Counter(label_id for row in parts["train"]["labels"] for label_id in row)
    unseen = held_out_labels(counts, share=share)
    left = dict(parts)
    for part in ("train", "validation"):
        left[part] = drop_labels(parts[part], unseen)
        if len(left[part]) == 0:
            raise SystemExit(f"--held_out {share} takes all labels of the documents for {part}: lower it")
    return left


if __name__ == "__main__":
    main()
