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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from automatic import AUTO
from datasets import Dataset, load_dataset
from text_models import ModelSettings, check_settings, print_results, train_text_models
from training import printer, reading
from transformers import TrainingArguments
from units import UNITS

from hf_gile import LabelSet
from hf_gile.data import ReadReport, load_xmc, table_of
from hf_gile.data.parts import PARTS, all_parts, leave_to_test
from hf_gile.data.table_source import FORMATS, TableSource
from hf_gile.data.zero_shot import seen_first
from hf_gile.training.flags import parse_settings
from hf_gile.training.settings import check_files, setting, settings_of
from hf_gile.training.task import TextTask

CHOICES = (*UNITS, AUTO)
TENTH = "By default a tenth of the training documents, by a hash of their ids."


@dataclass
@settings_of(TableSource, [one.name for one in fields(TableSource)])
class Recipe(ModelSettings, TableSource):
    """The documents; their columns and labels are in `TableSource`, the model is in `ModelSettings`."""

    train_files: list[str] = setting([], "Files, folders or globs.")
    validation_files: list[str] = setting([], TENTH)
    test_files: list[str] = setting([], TENTH)
    format: str = setting(
        "table",
        "table; annif, its corpora and vocabularies; or xmc, the folder of a set of the Extreme Classification "
        "Repository, with its test documents and labels.",
        FORMATS,
    )
    dataset: str | None = setting(None, "Instead of files: a dataset of the Hub, or a folder.")
    dataset_config: str | None = setting(None, "The configuration of the dataset.")
    on_unknown_label: str = setting("raise", "Label ids that the label file lacks: raise, or drop.", ("raise", "drop"))
    held_out: float = setting(
        0.0,
        "Share of the labels, by a hash of their ids, that only test documents have, for figures of unseen labels. To "
        "choose settings for these, hold out others: --held_out_labels.",
    )
    units: list[str] = setting(
        [AUTO], f"Output layers to train: auto, see --text_encoder, {', '.join(UNITS)}.", CHOICES
    )
    text_encoder: str | None = setting(
        AUTO,
        "A pretrained encoder: its name or its folder, also for other units than auto; or auto, the best that can be "
        "had offline. The unit auto keeps it frozen and fits the rest as convex problems, without epochs, if the data "
        "are not too large; else, and without an encoder, it is gile over words.",
    )
    # Not the paper's: better wherever both were tried, docs/training.md.
    hidden_act: str = setting("tanh", "Activation of encoder, attention and joint space; the paper has relu.")
    min_count: int = setting(2, "Rarer words are unknown, but for those of seen labels.")


DEFAULTS = {
    "output_dir": "runs/table",
    "per_device_train_batch_size": 64,
    "learning_rate": 5e-3,
    "num_train_epochs": 14,
}


def main() -> None:
    recipe, args = parse_settings(Recipe, DEFAULTS, check_recipe)
    say = printer(args)

    # 1. Documents, each with an id, a text and label ids; and what the labels say.
    with reading(args, "the tables"):
        parts, named = read_parts(recipe, say)
        labels = read_labels(recipe, named, parts, say)
    sizes = ", ".join(f"{len(rows):,} for {part}" for part, rows in parts.items())
    seen = sum(labels.seen)
    say(f"documents: {sizes}; {seen:,} labels seen in training, {len(labels) - seen:,} never")

    # 2. A model with each output layer, the same encoder under all.
    task, tested_on = TextTask(parts, labels), names_of(recipe.test_files)
    results = train_text_models(recipe, args, task, about(recipe), tested_on)
    if args.process_index == 0:
        print_results(recipe, args, results, has_unseen=seen < len(labels))


def check_recipe(recipe: Recipe, args: TrainingArguments) -> None:
    """Names settings that do not go together, and files that are not there, before any is read."""
    check_settings(recipe, args)
    files = recipe.train_files, recipe.validation_files, recipe.test_files
    if recipe.dataset and any(files):
        raise ValueError("pass either --dataset or files, not both")
    if not recipe.dataset and not recipe.train_files:
        raise ValueError("there is nothing to train on: pass --train_files, or a --dataset with a split `train`")
    if recipe.format == "xmc" and (len(recipe.train_files) != 1 or recipe.test_files or recipe.label_file):
        raise ValueError(
            "format xmc takes one folder as train_files, which has the test documents and the labels as well"
        )
    check_files(recipe, [f"{part}_files" for part in PARTS], FORMATS[recipe.format])
    check_files(recipe, ["label_file"])
    if not 0 <= recipe.held_out < 1:
        raise ValueError(f"held_out is a share of the labels, from 0 to below 1, got {recipe.held_out}")


def read_parts(recipe: Recipe, say: Callable[..., None]) -> tuple[dict[str, Dataset], LabelSet | None]:
    """Documents to train on, for validation and for the test, and the labels that a dataset names itself."""
    parts, named, report = {}, None, ReadReport(recipe.on_error)
    if recipe.dataset:
        for part, rows in load_dataset(recipe.dataset, recipe.dataset_config).items():
            if part in PARTS:
                parts[part], named = table_of(rows, **recipe.columns())
        if "train" not in parts:
            raise ValueError(f"there is nothing to train on: the dataset {recipe.dataset} has no split `train`")
    elif recipe.format == "xmc":
        corpus = load_xmc(recipe.train_files[0], encoding=recipe.encoding, report=report)
        parts, named = corpus.documents, corpus.label_set
        say(report)
    else:
        for part in PARTS:
            if paths := getattr(recipe, f"{part}_files"):
                parts[part], report = recipe.read(paths, recipe.format)
                say(f"{part}: {report}")
    parts = all_parts(parts)
    return leave_to_test(parts, recipe.held_out) if recipe.held_out else parts, named


def read_labels(
    recipe: Recipe, named: LabelSet | None, parts: Mapping[str, Dataset], say: Callable[..., None]
) -> LabelSet:
    """What the label ids mean: the labels of training documents, with their counts, before the others."""
    of_parts = {part: Counter(label_id for row in rows["labels"] for label_id in row) for part, rows in parts.items()}
    used = sum(of_parts.values(), Counter())
    path, labels = recipe.label_file, named
    if path is not None:
        labels, report = recipe.read_labels(recipe.format)
        say(f"labels: {report}")
    elif labels is None:
        labels = LabelSet.from_names(list(used))
    if missing := {label_id: count for label_id, count in used.items() if label_id not in labels}:
        names = ", ".join(map(repr, list(missing)[:3]))
        message = f"{path}: {len(missing):,} label ids of the documents are not in it, such as {names}"
        if recipe.on_unknown_label != "drop":
            raise ValueError(
                f"{message}; add them, choose the column of ids with --label_id, or leave them out with "
                "--on_unknown_label drop"
            )
        say(f"{message}: left out, {sum(missing.values()):,} times")
    return seen_first(labels, {label_id: n for label_id, n in of_parts["train"].items() if label_id in labels})


def about(recipe: Recipe) -> dict[str, Any]:
    """What the card of a model says of its data, where `--card` says nothing."""
    if recipe.dataset and not Path(recipe.dataset).exists():
        return {"datasets": [recipe.dataset], "dataset_name": recipe.dataset}
    return {"dataset_name": Path(recipe.dataset).name if recipe.dataset else names_of(recipe.train_files)}


def names_of(files: list[str]) -> str:
    """What the card calls documents of these files."""
    return ", ".join(dict.fromkeys(Path(file).name.partition(".")[0] for file in files))


if __name__ == "__main__":
    main()
