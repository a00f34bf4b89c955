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

from dataclasses import dataclass, fields
from pathlib import Path

from transformers import TrainingArguments

from hf_gile.data.table_source import FORMATS, PARTS, TableSource, join_file_names
from hf_gile.publishing.trained import card_info
from hf_gile.training.flags import parse_settings
from hf_gile.training.model_settings import AUTO, ModelSettings
from hf_gile.training.reporting import printer, reading
from hf_gile.training.settings import add_settings, check_files, setting
from hf_gile.training.settings_checks import check_settings
from hf_gile.training.study import Study
from hf_gile.training.task import TextTask, problem_type_of
from hf_gile.training.units import UNITS


@dataclass(kw_only=True)
class TableModels(ModelSettings):
    """Settings of models for a table of texts and labels, with a few different defaults."""

    units: list[str] = setting(
        [AUTO], f"Output layers to train: auto, see --text_encoder, {', '.join(UNITS)}.", (*UNITS, AUTO)
    )
    text_encoder: str | None = setting(
        AUTO,
        "A pretrained encoder: a name or a folder, for any unit; or auto, the best encoder available offline. The unit "
        "auto freezes the encoder and fits the rest as convex problems, without epochs, if the data are not too large; "
        "otherwise, and without an encoder, it is gile over words.",
    )
    # Unlike in the paper: better in all comparisons, see docs/from_scratch.md.
    hidden_act: str = setting("tanh", "Activation of encoder, attention and joint space; the paper has relu.")
    min_count: int = setting(2, "Rarer words count as unknown, except words of seen labels.")


@dataclass
@add_settings(TableSource, [field.name for field in fields(TableSource)])
class Recipe(TableModels, TableSource):
    """Settings of data (`TableSource`) and models (`TableModels`)."""


DEFAULTS = {
    "output_dir": "runs/table",
    "per_device_train_batch_size": 64,
    "learning_rate": 5e-3,
    "num_train_epochs": 14,
}


def main() -> None:
    recipe, args = parse_settings(Recipe, DEFAULTS, check_recipe)
    say = printer(args)

    # 1. Read documents, each with an id, a text and label ids, and label descriptions.
    with reading(args, "the tables"):
        parts, labels = recipe.read_all(say)
        if len(labels) == 1 and problem_type_of(parts, requested=recipe.problem_type) == "single_label_classification":
            raise ValueError(
                f"all documents have the same label, {labels[0].id!r}, so there is nothing to learn: add documents "
                "with other labels, or a --label_file with more, or pass --problem_type multi_label_classification"
            )
    sizes = ", ".join(f"{len(rows):,} for {part}" for part, rows in parts.items())
    seen = sum(labels.seen)
    say(f"documents: {sizes}; {seen:,} labels seen in training, {len(labels) - seen:,} unseen")

    # 2. Describe the data for the card of a model, unless `--card` describes them.
    is_on_hub = recipe.dataset and not Path(recipe.dataset).exists()
    info = card_info(recipe.card, dataset_name=recipe.name, datasets=[recipe.dataset] if is_on_hub else [])

    # 3. Train, calibrate and evaluate a model with each output layer, and save it in OUTPUT_DIR/UNIT/model.
    study = Study(recipe, args, TextTask(parts, labels), info, tested_on=join_file_names(recipe.test_files))
    study.measure_obvious_rows()
    for unit in recipe.units:
        study.run(unit)
    study.show()


def check_recipe(recipe: Recipe, args: TrainingArguments) -> None:
    """Reports conflicting settings and missing files before any file is read."""
    check_settings(recipe, args)
    recipe.check_source()
    check_files(recipe, [f"{part}_files" for part in PARTS], FORMATS[recipe.format])
    check_files(recipe, ["label_file"])
    card_info(recipe.card)


if __name__ == "__main__":
    main()
