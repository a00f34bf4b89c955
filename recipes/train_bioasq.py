r"""Train GILE on MEDLINE abstracts and their MeSH headings, and score headings without training documents.

    python recipes/train_bioasq.py                                             # real MEDLINE from a package
    python recipes/train_bioasq.py --units gile auto                           # GILE, and what hf-gile train fits
    python recipes/train_bioasq.py --candidate_labels "Milk, Human" "Obesity"  # ... and score these at the end
    accelerate launch recipes/train_bioasq.py --train_files 'medline/*.xml.gz' --text_encoder_type han
    accelerate launch recipes/train_bioasq.py --train_files allMeSH_2015.json --label_file desc2015.xml \
        --train_until 2004 --test_until 2015 --num_proc 8                      # the paper's protocol
    accelerate launch recipes/train_bioasq.py --train_files train.jsonl.gz --validation_files dev.jsonl.gz \
        --test_files test.jsonl.gz --label_file labels.jsonl --num_train_epochs 20

A record from any format (MEDLINE XML, BioASQ JSON or JSON lines, each also .gz):

    {"pmid": "429444", "title": "Osteoid osteoma in cancellous bone.", "abstractText": "Osteoid osteoma ...",
     "year": 1979, "meshUI": ["D001859", ...], "meshMajor": ["Bone Neoplasms", ...]}

Defaults are from section 4.1.1 of the GILE paper, if stated. All flags of `transformers.TrainingArguments` work, and
all flags can be set in a file: `--config mine.yaml`. `--resume_from_checkpoint true` resumes each unit from its newest
complete checkpoint.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from baselines import BASELINES
from papers.record_source import RecordSource
from papers.records import SUFFIXES
from papers.settings import setting
from papers.unit_runs import run_units
from papers.unit_settings import UnitSettings
from papers.units import UNITS, Unit
from papers.zero_shot import ZeroShotSplit
from transformers import TrainingArguments

from hf_gile.publishing.markdown import one_line
from hf_gile.training.options import AUTO
from hf_gile.training.reporting import printer, table_of_results
from hf_gile.training.settings import check_files
from hf_gile.training.study import Study
from hf_gile.training.task import TextTask
from hf_gile_cli.flags import card_info, parse_settings, reading

ROWS = {**UNITS, **BASELINES}
"""The rows of the paper's Table 2."""

EXAMPLES = ["Uterus", "Hormones", "Embryo, Mammalian", "Heart Failure", "Dental Caries"]
"""Labels to score at the end of a run without --candidate_labels."""


@dataclass
class Recipe(UnitSettings, RecordSource):
    """Settings of documents (`RecordSource`) and models (`UnitSettings`), with quotes from the paper."""

    UNITS: ClassVar[Mapping[str, Unit]] = ROWS
    units: list[str] = setting(
        ["linear", "gile"], f"Output layers to train: {', '.join(ROWS)}; or auto, see --text_encoder.", (*ROWS, AUTO)
    )
    candidate_labels: list[str] = setting(EXAMPLES, "Labels to score for a test abstract at the end; any text.")


DEFAULTS = {
    "output_dir": "runs/bioasq",
    "per_device_train_batch_size": 64,  # "batch size of 64"
    "learning_rate": 5e-3,  # "optimization with ADAM until convergence"; the paper does not give the rate
}

ABOUT = {
    "model_name": "GILE for MeSH headings",
    "language": ["en"],
    "dataset_name": "MEDLINE",
    "training_data": "Titles and abstracts of MEDLINE with their MeSH headings.",
    "tags": ["mesh", "biomedical"],
}
"""Description of the data on the card of a model, unless `--card` replaces it."""


def main() -> None:
    recipe, args = parse_settings(Recipe, DEFAULTS, check_recipe)
    say = printer(args)

    # 1. Read documents and label descriptions, and hold out labels from training.
    with reading(args, "the records"):
        split = recipe.read_split(say)
        parts = {"train": split.train, "validation": split.validation, "test": split.test}
        sizes = "{:,} documents for training, {:,} for validation, {:,} for the test".format(*map(len, parts.values()))
        say(f"{sizes}; {len(split.seen):,} labels seen in training, {len(split.unseen):,} unseen")
        labels = recipe.read_labels(split, say)

    # 2. Train, calibrate and evaluate a model with each output layer, and save it in OUTPUT_DIR/UNIT/model.
    study = Study(recipe, args, TextTask(parts, labels, document_text, "meshUI"), card_info(recipe.card, **ABOUT))
    run_units(study)

    # 3. Show the columns of the paper's Table 2, and score an abstract with the saved model, without hf_gile.
    columns = {"ranking_loss": "RL", "average_precision": "AvgPr", "one_error": "OneErr"}
    note = "RL and OneErr: lower is better. Chance is RL 50."
    say(table_of_results(study.results, columns, ("seen", "unseen"), note))
    for unit in (AUTO, "gile"):
        if unit in study.results and args.process_index == 0:
            score_test_abstract(Path(args.output_dir) / unit / "model", split, recipe.candidate_labels)
            break


def document_text(row: dict[str, Any]) -> str:
    return f"{row['title']}\n{row['abstractText']}"  # the first line is the title, whose words get a higher weight


def score_test_abstract(folder: Path, split: ZeroShotSplit, candidate_labels: list[str]) -> None:
    """Loads the saved folder without hf_gile, and scores the test abstract with the most unseen headings."""
    row = max(split.test, key=lambda row: len(split.unseen.keys() & set(row["meshUI"])))
    print(f"\n{folder}, loaded in a process without hf_gile, scores pmid {row['pmid']}:\n  {one_line(row['title'])}")
    marked = [
        f"{name} (unseen)" if ui in split.unseen else name
        for ui, name in zip(row["meshUI"], row["meshMajor"], strict=True)
    ]
    print(f"  its headings: {one_line('; '.join(marked))}")
    others = "some example labels" if candidate_labels == EXAMPLES else "the labels of --candidate_labels"
    print(f"  the ten best stored labels, then {others}:", flush=True)
    score_without_package(folder, document_text(row), candidate_labels)


CLEAN_PROCESS = """
import json, sys
sys.modules["hf_gile"] = None  # only the folder may be used, even if hf_gile is installed
from transformers import pipeline
request = json.load(sys.stdin)
pipe = pipeline("zero-shot-classification", model=request["folder"], trust_remote_code=True)
for labels in (None, request["labels"]):
    answer = pipe(request["text"], candidate_labels=labels, top_k=10)
    for name, score in zip(answer["labels"], answer["scores"]):
        print(f"  {score:8.4f}  {''.join(sign if sign.isprintable() else ' ' for sign in name)}")
    print()
"""


def score_without_package(folder: Path, text: str, labels: list[str]) -> None:
    """Loads a saved folder in a process without hf_gile, and prints scores of its stored labels and of other labels.

    Args:
        folder: The folder.
        text: The text to score.
        labels: The other labels.
    """
    request = json.dumps({"folder": str(folder), "text": text, "labels": labels})
    subprocess.run([sys.executable, "-c", CLEAN_PROCESS], input=request, text=True, check=True)


def check_recipe(recipe: Recipe, args: TrainingArguments) -> None:
    """Reports conflicting settings and missing files before any file is read."""
    recipe.check(args)
    check_files(recipe, ["train_files", "validation_files", "test_files"], SUFFIXES)
    check_files(recipe, ["label_file", "unseen_file"])
    recipe.check_source()
    card_info(recipe.card)


if __name__ == "__main__":
    main()
