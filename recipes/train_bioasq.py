r"""Train GILE on MEDLINE abstracts and their MeSH headings, and score headings it never saw.

    python recipes/train_bioasq.py                                             # real MEDLINE from a package, 5 minutes
    python recipes/train_bioasq.py --candidate_labels "Milk, Human" "Obesity"  # ... and score these at the end
    accelerate launch recipes/train_bioasq.py --train_files 'medline/*.xml.gz' --text_encoder_type han
    accelerate launch recipes/train_bioasq.py --train_files allMeSH_2015.json --label_file desc2015.xml \
        --train_until 2004 --test_until 2015 --num_proc 8                      # the paper's protocol
    accelerate launch recipes/train_bioasq.py --train_files train.jsonl.gz --validation_files dev.jsonl.gz \
        --test_files test.jsonl.gz --label_file labels.jsonl --num_train_epochs 20

One record, whatever file it came from (MEDLINE XML, BioASQ JSON or JSON lines, each also .gz):

    {"pmid": "429444", "title": "Osteoid osteoma in cancellous bone.", "abstractText": "Osteoid osteoma ...",
     "year": 1979, "meshUI": ["D001859", ...], "meshMajor": ["Bone Neoplasms", ...]}

The settings are those of GILE, section 4.1.1, where the paper gives them; every flag of
`transformers.TrainingArguments` works as well, and all of them can stand in a file: `--config mine.yaml`.
`--resume_from_checkpoint true` goes on from the newest whole checkpoint of each unit.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from datasets import Dataset
from text_models import ModelSettings, check_settings, table, train_text_models
from training import printer, reading, score_elsewhere
from transformers import TrainingArguments

from hf_gile import LabelSet
from hf_gile.data import (
    ReadReport,
    ZeroShotSplit,
    demo_file,
    is_mesh,
    load_records,
    mesh_ids,
    read_label_file,
    year_split,
    zero_shot_split,
)
from hf_gile.data.parts import labels_of_split, split_as_it_is
from hf_gile.data.records import SUFFIXES
from hf_gile.publishing.markdown import one_line
from hf_gile.training.flags import parse_settings
from hf_gile.training.settings import check_files, setting
from hf_gile.training.task import TextTask

TENTH = "By default a tenth of the training files' documents, by pmid."


@dataclass
class Recipe(ModelSettings):
    """What to train on; the model is in `ModelSettings`, with the paper's words."""

    train_files: list[str] = setting([], "Files, folders or globs; by default 30,000 citations of a package.")
    validation_files: list[str] = setting([], TENTH)
    test_files: list[str] = setting([], TENTH)
    unseen_file: str | None = setting(
        None, "JSON list of the ids to count as unseen; by default what only test_files have."
    )
    train_until: int | None = setting(
        None,
        "Split the training files by year. 'the training set includes all documents until 2004 and the ones from 2005 "
        "to 2015 were kept for the test set'",
    )
    test_until: int | None = setting(None, "Last year of the test set; 2015 in the paper.")
    validation: float = setting(100_000, "'a set of 100,000 documents'; below 1 a share. Only with train_until.")
    label_file: str | None = setting(
        None,
        "What labels mean: MeSH (descYYYY.xml, dYYYY.bin, .jsonl) or a table with id and name, all but .parquet also "
        ".gz; by default the records' names.",
    )
    describe: list[str] = setting(
        [], "What the model reads behind the names: of MeSH entry_terms, scope_note, tree_path."
    )
    num_proc: int = setting(1, "Processes that read files.")
    on_error: str = setting("raise", "Malformed input: raise, or skip and count.", ("raise", "skip"))
    candidate_labels: list[str] = setting(
        ["Uterus", "Hormones", "Embryo, Mammalian", "Heart Failure", "Dental Caries"],
        "Labels to score one test abstract with at the end; any words will do.",
    )


DEFAULTS = {
    "output_dir": "runs/bioasq",
    "per_device_train_batch_size": 64,  # "batch size of 64"
    "learning_rate": 5e-3,  # "optimization with ADAM until convergence"; the paper does not give the rate
    "num_train_epochs": 14,
}

ABOUT = {
    "model_name": "GILE for MeSH headings",
    "language": ["en"],
    "dataset_name": "MEDLINE",
    "training_data": "Titles and abstracts of MEDLINE with their MeSH headings.",
    "tags": ["mesh", "biomedical"],
}
"""What the card of a model says of its data, where `--card` says nothing."""


def main() -> None:
    recipe, args = parse_settings(Recipe, DEFAULTS, check_recipe)
    say = printer(args)

    # 1. Documents, labels that training never sees, and what labels say.
    with reading(args, "the records"):
        split = read_split(recipe, say)
        say(
            f"{len(split.train):,} documents to train on, {len(split.validation):,} to validate, {len(split.test):,} "
            f"to test; {len(split.seen):,} labels seen in training, {len(split.unseen):,} never"
        )
        labels = read_labels(recipe, split, say)

    # 2. A model with each output layer, the same encoder under all.
    parts = {"train": split.train, "validation": split.validation, "test": split.test}
    results = train_text_models(recipe, args, TextTask(parts, labels, document_text, "meshUI"), ABOUT)

    # 3. The columns of the paper's Table 2, and the saved folder as a stranger uses it.
    if args.process_index == 0:
        columns = {"ranking_loss": "RL", "average_precision": "AvgPr", "one_error": "OneErr"}
        print(table(results, columns, ("seen", "unseen"), "RL and OneErr: lower is better. Chance is RL 50."))
        if "gile" in results:
            show_an_abstract(Path(args.output_dir) / "gile" / "model", split, recipe.candidate_labels)


def check_recipe(recipe: Recipe, args: TrainingArguments) -> None:
    """Names settings that do not go together, and files that are not there, before any is read."""
    check_settings(recipe, args)
    check_files(recipe, ["train_files", "validation_files", "test_files"], SUFFIXES)
    check_files(recipe, ["label_file", "unseen_file"])
    if (recipe.validation_files or recipe.test_files or recipe.unseen_file) and not (
        recipe.train_files and recipe.test_files
    ):
        raise ValueError("validation_files, test_files and unseen_file need train_files and test_files")


def read_split(recipe: Recipe, say: Callable[..., None]) -> ZeroShotSplit:
    """The three parts, and the seen and unseen labels."""
    # BioASQ's own files have names without ids.
    ui_of = mesh_ids(recipe.label_file) if recipe.label_file and is_mesh(recipe.label_file) else None

    def read(files: list[str]) -> Dataset:
        records, report = load_records(files, on_error=recipe.on_error, ui_of=ui_of, num_proc=recipe.num_proc)
        say(report)
        return records

    if recipe.test_files:
        train, test = read(recipe.train_files), read(recipe.test_files)
        if recipe.validation_files:
            validation = read(recipe.validation_files)
        else:
            train, validation = train.train_test_split(test_size=0.1, seed=0).values()
        unseen = json.loads(Path(recipe.unseen_file).read_text()) if recipe.unseen_file else None
        return split_as_it_is(train, validation, test, unseen)
    records = read(recipe.train_files or [str(demo_file())])
    if recipe.train_until:
        validation = int(recipe.validation) if recipe.validation >= 1 else recipe.validation
        years = {"train_until": recipe.train_until, "test_until": recipe.test_until}
        split = year_split(records, **years, validation=validation)
    else:  # a label is held out by a hash of its id, a document goes to a part by a hash of its pmid
        split = zero_shot_split(records)
    say("in no part:", split.dropped)
    return replace(split, unseen={label: count for label, count in split.unseen.items() if count})


def read_labels(recipe: Recipe, split: ZeroShotSplit, say: Callable[..., None]) -> LabelSet:
    """Seen labels first, then the unseen ones; what the label file lacks keeps the name that the records have."""
    if recipe.label_file is None:
        return labels_of_split(split)[0]
    report = ReadReport(recipe.on_error)
    known = read_label_file(recipe.label_file, describe=recipe.describe, report=report)
    say(f"labels: {report}")
    labels, missing = labels_of_split(split, known)
    if missing:
        say(f"{recipe.label_file} lacks {missing:,} labels, which keep their names in the records")
    return labels


def document_text(row: dict[str, Any]) -> str:
    return f"{row['title']} {row['abstractText']}"


def show_an_abstract(folder: Path, split: ZeroShotSplit, candidate_labels: list[str]) -> None:
    """Loads the saved folder as a stranger would, and scores the test abstract with the most unseen headings."""
    unseen = split.unseen.keys()
    row = max(split.test, key=lambda row: len(unseen & set(row["meshUI"])))
    print(f"\n{folder}, loaded in a process without hf_gile, on pmid {row['pmid']}:\n  {one_line(row['title'])}")
    marked = [
        f"{name} (never seen)" if i in unseen else name for i, name in zip(row["meshUI"], row["meshMajor"], strict=True)
    ]
    print(f"  its headings: {one_line('; '.join(marked))}")
    print("  the ten best of all stored labels, then the labels of --candidate_labels:", flush=True)
    score_elsewhere(folder, document_text(row), candidate_labels)


if __name__ == "__main__":
    main()
