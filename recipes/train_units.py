r"""Train the output layers of the papers, step by step, on your own table; all their settings are flags.

    python recipes/train_units.py --train_files notes.csv --text text --labels tags --units linear gile
    python recipes/train_units.py --train_files notes.csv --labels tags --text_encoder FOLDER --units gile_rows

Documents and labels are those of train_table.py, whose model is the unit auto. Over words, the defaults suit thousands
of documents; for a hundred, take more and smaller steps: `--per_device_train_batch_size 8 --num_train_epochs 30
--patience 10 --min_count 1`.

All flags of `transformers.TrainingArguments` work, and all flags can be set in a YAML file.
"""

from dataclasses import dataclass

from papers.settings import setting
from papers.unit_runs import run_units
from papers.unit_settings import UnitSettings
from table_source import TableSource, join_file_names
from train_table import check_recipe, describe, read_task

from hf_gile.training.reporting import printer
from hf_gile.training.study import Study
from hf_gile_cli.flags import parse_settings


@dataclass(kw_only=True)
class OwnData(UnitSettings):
    """Settings of units for a collection of your own."""

    # Unlike in the paper: better in all comparisons, see docs/from_scratch.md.
    hidden_act: str = setting("tanh", "Activation of encoder, attention and joint space; the paper has relu.")
    min_count: int = setting(2, "Rarer words count as unknown, except words of seen labels.")


@dataclass
class Recipe(OwnData, TableSource):
    """Settings of data (`TableSource`) and of the units (`UnitSettings`)."""


def main() -> None:
    recipe, args = parse_settings(Recipe, {"output_dir": "runs/units"}, check_recipe)
    task = read_task(recipe, args, printer(args))
    study = Study(recipe, args, task, describe(recipe), tested_on=join_file_names(recipe.test_files))
    run_units(study)
    study.show()


if __name__ == "__main__":
    main()
