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
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from datasets import Dataset
from text_models import ModelSettings, check_files, check_settings, table, train_text_models
from training import parse_settings
from transformers import TrainingArguments
from units import check_choice

from hf_gile import Label, LabelSet
from hf_gile.data import (
    ReadReport,
    demo_file,
    is_mesh,
    load_records,
    mesh_ids,
    read_label_file,
    year_split,
    zero_shot_split,
)
from hf_gile.data.records import SUFFIXES
from hf_gile.publishing.markdown import one_line


@dataclass
class Recipe(ModelSettings):
    """What to train on; the model is in `ModelSettings`, with the paper's words."""

    train_files: list[str] = field(
        default_factory=list, metadata={"help": "Files, folders or globs; by default 30,000 citations of a package."}
    )
    validation_files: list[str] = field(
        default_factory=list, metadata={"help": "By default a tenth of the training files' documents, by pmid."}
    )
    test_files: list[str] = field(
        default_factory=list, metadata={"help": "By default a tenth of the training files' documents, by pmid."}
    )
    unseen_file: str | None = field(
        default=None,
        metadata={"help": "JSON list of the ids to count as unseen; by default what only test_files have."},
    )
    train_until: int | None = field(
        default=None,
        metadata={"help": "Split the training files by year. 'the training set includes all documents until 2004 and "
                  "the ones from 2005 to 2015 were kept for the test set'"},
    )  # fmt: skip
    test_until: int | None = field(default=None, metadata={"help": "Last year of the test set; 2015 in the paper."})
    validation: float = field(
        default=100_000, metadata={"help": "'a set of 100,000 documents'; below 1 a share. Only with train_until."}
    )
    label_file: str | None = field(
        default=None,
        metadata={"help": "What labels mean: MeSH (descYYYY.xml, dYYYY.bin, .jsonl) or a table with id and name, all "
                  "but .parquet also .gz; by default the records' names."},
    )  # fmt: skip
    describe: list[str] = field(
        default_factory=list,
        metadata={"help": "What the model reads behind the names: of MeSH entry_terms, scope_note, tree_path."},
    )
    num_proc: int = field(default=1, metadata={"help": "Processes that read files."})
    on_error: str = field(default="raise", metadata={"help": "Malformed input: raise, or skip and count."})
    candidate_labels: list[str] = field(
        default_factory=lambda: ["Uterus", "Hormones", "Embryo, Mammalian", "Heart Failure", "Dental Caries"],
        metadata={"help": "Labels to score one test abstract with at the end; any words will do."},
    )


ABOUT = {
    "model_name": "GILE for MeSH headings",
    "language": ["en"],
    "dataset_name": "MEDLINE",
    "training_data": "Titles and abstracts of MEDLINE with their MeSH headings.",
    "tags": ["mesh", "biomedical"],
}
"""What the card of a model says of its data, where `--card` says nothing."""


def main() -> None:
    defaults = {
        "output_dir": "runs/bioasq",
        "per_device_train_batch_size": 64,  # "batch size of 64"
        "learning_rate": 5e-3,  # "optimization with ADAM until convergence"; the paper does not give the rate
        "num_train_epochs": 14,
    }
    recipe, args = parse_settings(Recipe, defaults, check_recipe)
    say = print if args.process_index == 0 else (lambda *_: None)

    # 1. Documents, and labels that training never sees.
    with args.main_process_first(desc="reading the records"):
        split = read_split(recipe, say)
    seen, unseen = split["seen"], split["unseen"]
    say(
        f"{len(split['train']):,} documents to train on, {len(split['validation']):,} to validate, "
        f"{len(split['test']):,} to test; {len(seen):,} labels seen in training, {len(unseen):,} never"
    )

    # 2. What labels say; then a model with each output layer, the same encoder under all.
    labels = make_label_set(recipe, split, say)
    parts = {part: split[part] for part in ("train", "validation", "test")}
    results = train_text_models(recipe, args, parts, labels, text=document_text, gold="meshUI", say=say, about=ABOUT)

    # 3. The columns of the paper's Table 2, and the saved folder as a stranger uses it.
    if args.process_index == 0:
        columns = {"ranking_loss": "RL", "average_precision": "AvgPr", "one_error": "OneErr"}
        print(table(results, columns, ("seen", "unseen"), "RL and OneErr: lower is better. Chance is RL 50."))
        if "gile" in results:
            score_in_a_clean_process(Path(args.output_dir) / "gile" / "model", split, recipe.candidate_labels)


def check_recipe(recipe: Recipe, args: TrainingArguments) -> None:
    """Names settings that do not exist or do not go together, and files that are not there, before any is read."""
    check_settings(recipe, args)
    check_files({name: getattr(recipe, name) for name in ("train_files", "validation_files", "test_files")}, SUFFIXES)
    for name in ("label_file", "unseen_file"):
        if getattr(recipe, name) is not None:
            check_files({name: [getattr(recipe, name)]})
    check_choice("on_error", recipe.on_error, ("raise", "skip"))
    if (recipe.validation_files or recipe.test_files or recipe.unseen_file) and not (
        recipe.train_files and recipe.test_files
    ):
        raise ValueError("validation_files, test_files and unseen_file need train_files and test_files")


def read_split(recipe: Recipe, say: Callable[..., None]) -> dict[str, Any]:
    """The three parts, and the ids of seen and unseen labels."""
    # BioASQ's own files have names without ids.
    ui_of = mesh_ids(recipe.label_file) if recipe.label_file and is_mesh(recipe.label_file) else None

    def read(files: list[str]) -> Dataset:
        records, report = load_records(files, on_error=recipe.on_error, ui_of=ui_of, num_proc=recipe.num_proc)
        say(report)
        return records

    if recipe.train_files and recipe.test_files:
        train, test = read(recipe.train_files), read(recipe.test_files)
        if recipe.validation_files:
            validation = read(recipe.validation_files)
        else:
            halves = train.train_test_split(test_size=0.1, seed=0)
            train, validation = halves["train"], halves["test"]
        seen = Counter(label for row in train["meshUI"] for label in row)
        found = Counter(label for row in test["meshUI"] for label in row if label not in seen)
        if recipe.unseen_file:
            unseen = json.loads(Path(recipe.unseen_file).read_text())
            trained_on = [label for label in unseen if label in seen]
            if trained_on:
                raise ValueError(f"{recipe.unseen_file}: {len(trained_on)} labels are in the training documents")
        else:
            unseen = sorted(found)
        return {"train": train, "validation": validation, "test": test, "seen": seen, "unseen": unseen}
    records = read(recipe.train_files or [str(demo_file())])
    if recipe.train_until:
        split = year_split(
            records,
            train_until=recipe.train_until,
            test_until=recipe.test_until,
            validation=int(recipe.validation) if recipe.validation >= 1 else recipe.validation,
        )
    else:  # a label is held out by a hash of its id, a document goes to a part by a hash of its pmid
        split = zero_shot_split(records)
    say("in no part:", split.dropped)
    unseen = [label for label, count in split.unseen.items() if count]
    parts = {"train": split.train, "validation": split.validation, "test": split.test}
    return {**parts, "seen": split.seen, "unseen": unseen}


def make_label_set(recipe: Recipe, split: dict[str, Any], say: Callable[..., None]) -> LabelSet:
    """Seen labels first, then the unseen ones; what the label file lacks keeps the name that the records have."""
    ids = [*sorted(split["seen"]), *split["unseen"]]
    known: dict[str, Label] = {}
    if recipe.label_file:
        report = ReadReport(recipe.on_error)
        labels = read_label_file(recipe.label_file, describe=recipe.describe, report=report)
        known = {label.id: label for label in labels}
        say(f"labels: {report}")
    missing = {label_id for label_id in ids if label_id not in known}
    if recipe.label_file and missing:
        say(f"{recipe.label_file} lacks {len(missing):,} labels, which keep their names in the records")
    for part in ("train", "test"):
        for row in split[part].select_columns(["meshUI", "meshMajor"]) if missing else ():
            for label_id, name in zip(row["meshUI"], row["meshMajor"], strict=True):
                if label_id in missing:
                    known[label_id] = Label(label_id, name)
                    missing.remove(label_id)
    counts = split["seen"]
    own = (known[label_id] for label_id in ids if label_id in known)
    return LabelSet(replace(label, seen=label.id in counts, count=counts.get(label.id, 0)) for label in own)


def document_text(row: dict[str, Any]) -> str:
    return f"{row['title']} {row['abstractText']}"


CLEAN_PROCESS = """
import json, sys
sys.modules["hf_gile"] = None  # whatever is installed, only the folder counts
from transformers import pipeline
request = json.load(sys.stdin)
pipe = pipeline(model=request["folder"], trust_remote_code=True)
for labels in (None, request["labels"]):
    answer = pipe(request["text"], candidate_labels=labels, top_k=10)
    for name, score in zip(answer["labels"], answer["scores"]):
        print(f"  {score:8.4f}  {''.join(sign if sign.isprintable() else ' ' for sign in name)}")
    print()
"""


def score_in_a_clean_process(folder: Path, split: dict[str, Any], candidate_labels: list[str]) -> None:
    """Loads the saved folder as a stranger would, and scores one abstract of the test part."""
    unseen = set(split["unseen"])
    row = max(split["test"], key=lambda row: len(unseen & set(row["meshUI"])))
    print(f"\n{folder}, loaded in a process without hf_gile, on pmid {row['pmid']}:\n  {one_line(row['title'])}")
    marked = [
        f"{name} (never seen)" if i in unseen else name for i, name in zip(row["meshUI"], row["meshMajor"], strict=True)
    ]
    print(f"  its headings: {one_line('; '.join(marked))}")
    print("  the ten best of all stored labels, then the labels of --candidate_labels:", flush=True)
    request = {"folder": str(folder), "text": document_text(row), "labels": candidate_labels}
    subprocess.run([sys.executable, "-c", CLEAN_PROCESS], input=json.dumps(request), text=True, check=True)


if __name__ == "__main__":
    main()
