r"""Train on a dataset of the Extreme Classification Repository, with its raw texts and its filtered pairs.

    python recipes/train_xmc.py --data LF-AmazonTitles-131K
    python recipes/train_xmc.py --data LF-AmazonTitles-131K --encoding latin-1 --text_encoder words --units gile

The folder has training documents, test documents and labels; papers/xmc.py describes the formats. A tenth of the
training documents is for validation. Filtered pairs, such as a product and itself, are no candidates in training,
evaluation and on the card.

All flags of `transformers.TrainingArguments` work, and all flags can be set in a file: `--config mine.yaml`.
"""

from collections import Counter
from dataclasses import MISSING, dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

from papers.settings import setting
from papers.unit_runs import run_units
from papers.units import UNITS
from papers.xmc import load_xmc
from train_units import OwnData
from transformers import TrainingArguments

from hf_gile.data import ReadReport
from hf_gile.data.parts import fill_parts
from hf_gile.data.zero_shot import seen_first
from hf_gile.training.options import AUTO
from hf_gile.training.reporting import printer
from hf_gile.training.study import Study
from hf_gile.training.task import TextTask
from hf_gile_cli.flags import card_info, parse_settings, reading


@dataclass(kw_only=True)
class Recipe(OwnData):
    """Settings of the dataset and of the models: by default what `train_table.py` trains."""

    units: list[str] = setting([AUTO], f"Output layers to train: auto, {', '.join(UNITS)}.", (*UNITS, AUTO))
    text_encoder: str = setting(AUTO, "A pretrained encoder, a name or a folder; auto for the unit auto; or words.")
    data: str = setting(MISSING, "Folder of the dataset.")
    encoding: str = setting("utf-8", "Encoding of documents and labels; several datasets use latin-1.")
    on_error: Literal["raise", "skip"] = setting("raise", "Malformed lines: raise, or skip and count.")


def main() -> None:
    recipe, args = parse_settings(Recipe, {"output_dir": "runs/xmc"}, check_recipe)
    say, folder = printer(args), Path(recipe.data)

    # 1. Read documents, each with an id, a text, label ids and filtered label ids.
    with reading(args, "the dataset"):
        report = ReadReport(recipe.on_error)
        corpus = load_xmc(folder, encoding=recipe.encoding, report=report)
        say(report)
        parts = fill_parts(corpus.documents, column="text")
        labels = seen_first(corpus.label_set, Counter(chain.from_iterable(parts["train"]["labels"])))
    sizes = ", ".join(f"{len(rows):,} for {part}" for part, rows in parts.items())
    seen = sum(labels.seen)
    say(f"documents: {sizes}; {seen:,} labels seen in training, {len(labels) - seen:,} unseen")

    # 2. Train, calibrate and evaluate a model with each output layer, and save it in OUTPUT_DIR/UNIT/model.
    study = Study(recipe, args, TextTask(parts, labels), card_info(recipe.card, dataset_name=folder.resolve().name))
    run_units(study)
    study.show()


def check_recipe(recipe: Recipe, args: TrainingArguments) -> None:
    """Reports conflicting settings and a missing folder before any file is read."""
    recipe.check(args)
    if not Path(recipe.data).is_dir():
        raise FileNotFoundError(f"data: no folder {recipe.data} (in {Path.cwd()})")
    card_info(recipe.card)


if __name__ == "__main__":
    main()
