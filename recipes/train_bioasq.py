r"""Train GILE on MEDLINE abstracts and their MeSH headings, and score headings it never saw.

    python recipes/train_bioasq.py                                             # real MEDLINE from a package, 5 minutes
    python recipes/train_bioasq.py --candidate_labels "Milk, Human" "Obesity"  # ... and score these at the end
    accelerate launch recipes/train_bioasq.py --train_files 'medline/*.xml.gz' --text_encoder_type han
    accelerate launch recipes/train_bioasq.py --train_files train.jsonl.gz --validation_files dev.jsonl.gz \
        --test_files test.jsonl.gz --label_file labels.jsonl --num_train_epochs 20

One record, whatever file it came from (MEDLINE XML, BioASQ JSON or JSON lines, each also .gz):

    {"pmid": "429444", "title": "Osteoid osteoma in cancellous bone.", "abstractText": "Osteoid osteoma ...",
     "year": 1979, "meshUI": ["D001859", ...], "meshMajor": ["Bone Neoplasms", ...]}

The settings are those of GILE, section 4.1.1, where the paper gives them; every flag of
`transformers.TrainingArguments` works as well; `--resume_from_checkpoint true` goes on where each unit's last
checkpoint is.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from training import DEFAULTS, count_parameters, train
from transformers import HfArgumentParser, Trainer, TrainingArguments, set_seed
from units import UNITS, unit_fields

from hf_gile import GileConfig, GileForSequenceClassification, GileProcessor, Label, LabelSet, build_tokenizer
from hf_gile.data import demo_file, load_records, zero_shot_split
from hf_gile.metrics import LabelMetrics
from hf_gile.training import EpochCallback, GileDataCollator, LabelSampler, encode_dataset


@dataclass
class Recipe:
    """What to train on, and the model. In quotes: the paper's words, section 4.1.1."""

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
    label_file: str | None = field(
        default=None,
        metadata={"help": "Label set (.jsonl, .csv) with names and descriptions; by default the records' names."},
    )
    on_error: str = field(default="raise", metadata={"help": "Malformed input: raise, or skip and count."})
    text_encoder_type: str = field(default="wan", metadata={"help": "wan (the paper's), nn, hnn or han."})
    encoder_cell: str = field(default="dense", metadata={"help": "'DENSE encoder'; or gru, bigru."})
    embedding_size: int = field(default=100, metadata={"help": "'100-dimensional word embeddings, encoder, attention'"})
    joint_size: int = field(default=500, metadata={"help": "'joint input-label embedding of 500'"})
    hidden_act: str = field(default="relu", metadata={"help": "'ReLU activation'"})
    max_words: int = field(default=300, metadata={"help": "'maximum number of 300 words per document'"})
    max_label_words: int = field(default=50, metadata={"help": "'and 50 words per label'"})
    min_count: int = field(
        default=3, metadata={"help": "'rare word replacements (UNK)'; the paper does not say how rare."}
    )
    embedding_std: float = field(default=0.3, metadata={"help": "Of fresh word vectors."})
    label_prior: float | None = field(
        default=None, metadata={"help": "Probability of a label before training; by default that of the data."}
    )
    word_dropout: float = field(default=0.5, metadata={"help": "Not in the paper, which has 500 times the documents."})
    forget_label_words: bool = field(
        default=False, metadata={"help": "Rare words of labels are unknown as well, if min_count says so."}
    )
    num_negatives: int = field(
        default=1500,
        metadata={"help": "Labels sampled a step, for the whole batch, weighted to the full set; 0 takes all labels. "
                  "The paper: '0.3% negative label sampling', for each document, unweighted."},
    )  # fmt: skip
    per_document: bool = field(default=False, metadata={"help": "Sample for each document, as the paper."})
    unweighted: bool = field(
        default=False, metadata={"help": "Do not weight the sample to the full set, as the paper."}
    )
    patience: int = field(default=2, metadata={"help": "Epochs without a better validation before training stops."})
    test_curve: bool = field(
        default=False, metadata={"help": "Evaluate the test part after every epoch too; nothing is chosen by it."}
    )
    units: list[str] = field(
        default_factory=lambda: ["linear", "gile"], metadata={"help": f"Output layers to train: {', '.join(UNITS)}."}
    )
    candidate_labels: list[str] = field(
        default_factory=lambda: ["Uterus", "Hormones", "Embryo, Mammalian", "Heart Failure", "Dental Caries"],
        metadata={"help": "Labels to score one test abstract with at the end; any words will do."},
    )


def main() -> None:
    parser = HfArgumentParser((Recipe, TrainingArguments))
    parser.set_defaults(
        **DEFAULTS,
        output_dir="runs/bioasq",
        per_device_train_batch_size=64,  # "batch size of 64"
        learning_rate=5e-3,  # "optimization with ADAM until convergence"; the paper does not give the rate
        num_train_epochs=14,
    )
    recipe, args = parser.parse_args_into_dataclasses()
    say = print if args.process_index == 0 else (lambda *_: None)
    folder = Path(args.output_dir)

    # 1. Documents, and labels that training never sees.
    with args.main_process_first(desc="reading the records"):
        split = read_split(recipe, say)
    seen, unseen = split["seen"], split["unseen"]
    say(
        f"{len(split['train']):,} documents to train on, {len(split['validation']):,} to validate, "
        f"{len(split['test']):,} to test; {len(seen):,} labels seen in training, {len(unseen):,} never"
    )

    # 2. Words of documents and of seen labels; what an unseen label says must be learned from these.
    labels = make_label_set(recipe, split)
    texts = (document_text(row) for row in split["train"])
    label_texts = [] if recipe.forget_label_words else labels[: len(seen)].texts
    tokenizer = build_tokenizer(texts, label_texts=label_texts, min_count=recipe.min_count)
    say(f"{len(tokenizer):,} words; {labels}")

    results = {}
    for unit in recipe.units:
        # 3. The same encoder under both output layers. A linear unit has no use for labels it is not trained on.
        set_seed(args.seed)
        is_linear = UNITS[unit]["output_layer"] == "linear"
        label_set = labels[: len(seen)] if is_linear else labels
        fields = unit_fields(
            unit,
            vocab_size=len(tokenizer),
            text_encoder_type=recipe.text_encoder_type,
            encoder_cell=recipe.encoder_cell,
            embedding_size=recipe.embedding_size,
            hidden_size=recipe.embedding_size,
            attention_size=recipe.embedding_size,
            hidden_act=recipe.hidden_act,
            joint_act=recipe.hidden_act,
            joint_size=recipe.joint_size,
            max_words=recipe.max_words,
            max_label_words=recipe.max_label_words,
            embedding_std=recipe.embedding_std,
            word_dropout=recipe.word_dropout,
            label_prior=recipe.label_prior or sum(seen.values()) / len(split["train"]) / len(seen),
            num_labels=len(label_set),
            problem_type="multi_label_classification",
        )
        config = GileConfig(**fields)
        processor = GileProcessor.for_config(tokenizer, config)
        model = GileForSequenceClassification(config)
        model.set_labels(label_set, processor)

        # 4. All gold labels of a batch, and a sample of the other seen labels. Unseen labels are never sampled.
        sampler = LabelSampler(
            len(label_set),
            num_negatives=recipe.num_negatives or None,
            columns=range(len(seen)),
            per_document=recipe.per_document,
            weighted=not recipe.unweighted,
            seed=args.seed,
        )
        with args.main_process_first(desc="words and columns"):
            parts = {
                part: encode_dataset(
                    split[part], processor, label_set, document_text, "meshUI", on_unknown_label="drop"
                )
                for part in ("train", "validation", "test")
            }
        args.output_dir = str(folder / unit)
        prefix = "" if is_linear else "seen_"
        args.metric_for_best_model = f"eval_validation_{prefix}average_precision"
        args.greater_is_better = True
        trainer = Trainer(
            model,
            args,
            data_collator=GileDataCollator(processor, sampler),
            train_dataset=parts["train"],
            eval_dataset={part: parts[part] for part in ("validation", "test") if part != "test" or recipe.test_curve},
            processing_class=processor,
            compute_metrics=LabelMetrics(len(label_set), seen=None if is_linear else label_set.seen),
            callbacks=[EpochCallback(sampler)],
        )
        say(f"\n{unit}: {count_parameters(model):,} parameters")
        results[unit] = train(trainer, recipe.patience)
        results[unit]["test"] = trainer.evaluate(parts["test"], metric_key_prefix="test")
        if config.word_prediction > 0 and unseen:  # AiTextML inf: the vector of an unseen label predicts its words
            model.infer_label_vectors(torch.arange(len(seen), len(label_set), device=model.device))
            inferred = trainer.evaluate(parts["test"], metric_key_prefix="test")
            results[f"{unit}_inferred"] = {**results[unit], "test": inferred}

        # 5. A folder as the Hub has it: weights, code, words, labels.
        trainer.save_model(str(folder / unit / "model"))
        (folder / unit / "model" / "training_args.bin").unlink(missing_ok=True)  # a pickle: nothing to hand to others

        if args.process_index == 0:
            (folder / "results.json").write_text(json.dumps(results, indent=1))

    if args.process_index == 0:
        print(table(results))
        if "gile" in results:
            score_in_a_clean_process(folder / "gile" / "model", split, recipe.candidate_labels)


def read_split(recipe: Recipe, say: Callable[..., None]) -> dict[str, Any]:
    """The three parts, and the ids of seen and unseen labels."""

    def read(files: list[str]) -> Dataset:
        records, report = load_records(files, on_error=recipe.on_error)
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
    if recipe.validation_files or recipe.test_files or recipe.unseen_file:
        raise ValueError("validation_files, test_files and unseen_file need train_files and test_files")
    # A label is held out by a hash of its id, a document goes to a part by a hash of its pmid.
    split = zero_shot_split(read(recipe.train_files or [str(demo_file())]))
    unseen = [label for label, count in split.unseen.items() if count]
    parts = {"train": split.train, "validation": split.validation, "test": split.test}
    return {**parts, "seen": split.seen, "unseen": unseen}


def make_label_set(recipe: Recipe, split: dict[str, Any]) -> LabelSet:
    """Seen labels first, then the unseen ones."""
    if recipe.label_file:
        known = {label.id: label for label in LabelSet.load(recipe.label_file)}
        missing = [label for label in (*split["seen"], *split["unseen"]) if label not in known]
        if missing:
            raise ValueError(f"{recipe.label_file} lacks {len(missing)} labels of the documents, first {missing[0]!r}")
    else:
        rows = (row for part in ("train", "test") for row in split[part].select_columns(["meshUI", "meshMajor"]))
        pairs = (pair for row in rows for pair in zip(row["meshUI"], row["meshMajor"], strict=True))
        known = {label_id: Label(label_id, name) for label_id, name in pairs}
    seen = LabelSet(known[label] for label in sorted(split["seen"])).with_counts(split["seen"])
    return seen.add(*(replace(known[label], seen=False, count=0) for label in split["unseen"] if label in known))


def document_text(row: dict[str, Any]) -> str:
    return f"{row['title']} {row['abstractText']}"


def table(results: dict[str, Any]) -> str:
    """The columns of the paper's Table 2, in percent."""
    lines = ["", f"{'test':18}{'seen labels':^27}{'unseen labels':^27}{'':>8}"]
    lines += [f"{'':18}" + f"{'RL':>9}{'AvgPr':>9}{'OneErr':>9}" * 2 + f"{'minutes':>10}"]
    for unit, result in results.items():
        groups = ("seen_", "unseen_") if "test_seen_documents" in result["test"] else ("", None)
        cells = [
            "-" if group is None else f"{100 * result['test'][f'test_{group}{name}']:.2f}"
            for group in groups
            for name in ("ranking_loss", "average_precision", "one_error")
        ]
        lines.append(f"{unit:18}" + "".join(f"{cell:>9}" for cell in cells) + f"{result['seconds'] / 60:>10.1f}")
    return "\n".join([*lines, "RL and OneErr: lower is better. Chance is RL 50."])


CLEAN_PROCESS = """
import json, sys
sys.modules["hf_gile"] = None  # whatever is installed, only the folder counts
from transformers import pipeline
request = json.load(sys.stdin)
pipe = pipeline(model=request["folder"], trust_remote_code=True)
for labels in (None, request["labels"]):
    answer = pipe(request["text"], candidate_labels=labels, top_k=10)
    for name, score in zip(answer["labels"], answer["scores"]):
        print(f"  {score:8.4f}  {name}")
    print()
"""


def score_in_a_clean_process(folder: Path, split: dict[str, Any], candidate_labels: list[str]) -> None:
    """Loads the saved folder as a stranger would, and scores one abstract of the test part."""
    unseen = set(split["unseen"])
    row = max(split["test"], key=lambda row: len(unseen & set(row["meshUI"])))
    print(f"\n{folder}, loaded in a process without hf_gile, on pmid {row['pmid']}:\n  {row['title']}")
    marked = [
        f"{name} (never seen)" if i in unseen else name for i, name in zip(row["meshUI"], row["meshMajor"], strict=True)
    ]
    print(f"  its headings: {'; '.join(marked)}")
    print("  the ten best of all stored labels, then the labels of --candidate_labels:", flush=True)
    request = {"folder": str(folder), "text": document_text(row), "labels": candidate_labels}
    subprocess.run([sys.executable, "-c", CLEAN_PROCESS], input=json.dumps(request), text=True, check=True)


if __name__ == "__main__":
    main()
