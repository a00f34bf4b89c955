r"""Train on your own table: a column of texts, a column of labels, and a file that describes the labels.

    python recipes/train_table.py --train_files notes.csv --text text --labels tags --separator ";"
    accelerate launch recipes/train_table.py --train_files train.jsonl.gz --test_files dev.jsonl.gz \
        --text title abstract --labels subjects --label_file subjects.jsonl --label_name name_en name_de
    python recipes/train_table.py --format annif --train_files train.tsv.gz --label_file subjects.ttl
    python recipes/train_table.py --config mine.yaml

Tables are .csv, .tsv, .jsonl, .json or .parquet, or with `--dataset` a dataset on the Hub or in a folder. Labels are
ids of the label file: a table with columns of ids and names, a SKOS vocabulary (.ttl, .rdf, .nt, .jsonld) or
MeSH (.xml, .bin). `--format annif` reads corpora and vocabularies of Annif; hf_gile/data/annif.py describes these.
Without a label file an id is a name. Labels without training documents are scored as well, by their names.

All flags of `transformers.TrainingArguments` work, and all flags can be set in a YAML file.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from table_source import FORMATS, PARTS, TableSource, join_file_names
from transformers import TrainingArguments

from hf_gile.publishing import CardInfo
from hf_gile.training.fit import fit
from hf_gile.training.options import AUTO, Options
from hf_gile.training.reporting import printer
from hf_gile.training.settings import check_files
from hf_gile.training.study import Study
from hf_gile.training.task import TextTask, problem_type_of
from hf_gile_cli.flags import card_info, parse_settings, reading


@dataclass
class Recipe(Options, TableSource):
    """Settings of data (`TableSource`) and of the model (`Options`)."""

    FIRST = ("train_files", "text", "labels", "separator", "label_file", "output_dir")  # in the help


def main() -> None:
    recipe, args = parse_settings(Recipe, {"output_dir": "runs/table"}, check_recipe)
    task = read_task(recipe, args, printer(args))
    study = Study(recipe, args, task, describe(recipe), tested_on=join_file_names(recipe.test_files))
    from obvious_rows import measure_obvious_rows  # imports scikit-learn, which --help does not need

    measure_obvious_rows(study)
    experiment = fit(study)  # chooses an encoder, and fits a model over it
    study.record(AUTO, experiment)  # calibrates and measures it, fits it again, and saves it in OUTPUT_DIR/auto/model
    study.show()


def read_task(recipe: Recipe, args: TrainingArguments, say: Callable[..., None]) -> TextTask:
    """Reads documents, each with an id, a text and label ids, and label descriptions."""
    with reading(args, "the tables"):
        parts, labels, cut = recipe.read_all(say)
        if len(labels) == 1 and problem_type_of(parts, requested=recipe.problem_type) == "single_label_classification":
            raise ValueError(
                f"all documents have the same label, {labels[0].id!r}, so there is nothing to learn: add documents "
                "with other labels, or a --label_file with more, or pass --problem_type multi_label_classification"
            )
    sizes = ", ".join(f"{len(rows):,} for {part}" for part, rows in parts.items())
    seen = sum(labels.seen)
    say(f"documents: {sizes}; {seen:,} labels seen in training, {len(labels) - seen:,} unseen")
    return TextTask(parts, labels, cut=cut)


def describe(recipe: Recipe) -> CardInfo:
    """Describes the data for the card of a model, unless `--card` describes them."""
    is_on_hub = recipe.dataset and not Path(recipe.dataset).exists()
    return card_info(recipe.card, dataset_name=recipe.name, datasets=[recipe.dataset] if is_on_hub else [])


def check_recipe(recipe: Recipe, args: TrainingArguments) -> None:
    """Reports conflicting settings and missing files before any file is read."""
    recipe.check(args)
    recipe.check_source()
    check_files(recipe, [f"{part}_files" for part in PARTS], FORMATS[recipe.format])
    check_files(recipe, ["label_file"])
    card_info(recipe.card)


if __name__ == "__main__":
    main()
