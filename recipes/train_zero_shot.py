r"""Train a general label scorer on several labelled sets, and measure it on labels and sets that it never saw.

    python recipes/train_zero_shot.py --text_encoder sentence-transformers/all-MiniLM-L6-v2 --sets sets.yaml

The YAML file names the sets: tables of texts and label ids, or MEDLINE XML and BioASQ JSON.

    library:
      files: [library/*.jsonl.gz]
      text: [title, abstract]
      labels: subjects
      label_file: subjects.jsonl
      held_out: 0.2               # of its labels, for zero-shot figures: no set trains on them
    medline:
      files: [medline/*.xml.gz]
      records: true               # MEDLINE XML or BioASQ JSON: text and MeSH ids are known
      label_file: desc2024.xml
      max_documents: 10000        # by a hash of their ids
    intents:
      files: [intents.csv]
      labels: intent              # without a label file an id is a name: pin_change is read as "pin change"
      test_only: true             # not trained on: a whole set of another hand

Other options of a set: `separator`, `label_id`, `label_name`, `label_description`, `label_synonyms` and `on_error`, as
the flags of recipes/train_table.py, and `share`, its share of the batches beside the others.

Nothing in the model belongs to single labels. GILE starts as the cosine of text and label (`start_as_cosine`), and each
step trains it on a batch of one set, with the gold labels of the batch and a sample of the others of that set. The loss
of all sets is the softmax of each gold label against the labels that are not gold: with one label a document that is
the usual softmax. A sigmoid would have to learn how frequent the labels of a set are, another number in each set, and
of no use to others.

By default the encoder stays as it is, and its vectors are computed once; `--tune_text_encoder` trains it.
"""

import difflib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cards import card_info
from datasets import Dataset, concatenate_datasets
from text_models import OnColumns, check_files, load_encoder_config
from training import count_parameters, parse_settings, train, write_results
from transformers import AutoConfig, Trainer, TrainingArguments, set_seed

from hf_gile import GileForSequenceClassification, GileProcessor, Label, LabelSet
from hf_gile.data import (
    ReadReport,
    held_out_labels,
    load_records,
    load_table,
    read_label_file,
    split_of,
    table_of,
)
from hf_gile.data.files import read_yaml
from hf_gile.data.zero_shot import fraction_of
from hf_gile.metrics import LabelMetrics
from hf_gile.models.losses_gile import multi_hot
from hf_gile.models.search_gile import project_label_set
from hf_gile.publishing import write_card
from hf_gile.training import (
    EpochCallback,
    GileDataCollator,
    GileLoss,
    LabelParaphrases,
    LabelSampler,
    add_pooled_embeds,
    encode_dataset,
    log_idf,
    parameter_groups,
)

FIGURES = {"average_precision": "AvgPr", "precision_at_1": "P@1"}
"""Figures of a set of labels, by their headings; of one gold label a document, P@1 is the accuracy."""

GROUPS = {
    "held_out": "held-out labels, among themselves",
    "held_out_among_all": "held-out labels, among all of the set",
    "seen": "seen labels",
    "all": "all labels of an unseen set",
}


@dataclass
class SetOptions:
    """A set in the YAML file: its documents, its labels, and what of it is trained on."""

    files: list[str]
    text: list[str] = field(default_factory=lambda: ["text"])
    labels: str = "labels"
    separator: str | None = None
    records: bool = False
    label_file: str | None = None
    label_id: str = "id"
    label_name: list[str] = field(default_factory=lambda: ["name"])
    label_description: list[str] = field(default_factory=list)
    label_synonyms: list[str] = field(default_factory=list)
    on_error: str = "raise"
    max_documents: int | None = None
    share: float | None = None
    held_out: float = 0.0
    test_only: bool = False


@dataclass
class Recipe:
    """The sets, the model and how it is trained."""

    sets: str = field(default="sets.yaml", metadata={"help": "YAML file of the labelled sets."})
    text_encoder: str = field(
        default="sentence-transformers/all-MiniLM-L6-v2", metadata={"help": "A pretrained encoder: a name or a folder."}
    )
    max_words: int = field(default=128, metadata={"help": "Tokens read of a document."})
    max_label_words: int = field(default=32, metadata={"help": "Tokens read of a label."})
    cosine_scale: float = field(default=45.0, metadata={"help": "What the cosine is multiplied with at the start."})
    joint_dropout: float = field(default=0.2, metadata={"help": "Dropout of the vectors of texts and labels."})
    bag_size: int = field(
        default=0,
        metadata={"help": "Size of token vectors for the overlap of words. Pays where labels are technical terms and "
                  "texts are like those trained on."},
    )  # fmt: skip
    num_negatives: int = field(default=1000, metadata={"help": "Labels of the set sampled for a batch."})
    paraphrase_synonyms: float = field(
        default=0.3, metadata={"help": "Share of the readings of a label in training that are of a synonym, if any."}
    )
    paraphrase_definitions: float = field(default=0.1, metadata={"help": "The same of its description."})
    tune_text_encoder: bool = field(default=False, metadata={"help": "Train the encoder as well."})
    text_encoder_learning_rate: float = field(default=1e-4, metadata={"help": "Of its last layer."})
    layer_decay: float = field(default=0.9, metadata={"help": "Learning rate of a layer in that of the layer above."})
    bf16_vectors: bool = field(
        default=False, metadata={"help": "The frozen encoder reads documents in bfloat16; the head stays in float32."}
    )
    patience: int = field(default=2, metadata={"help": "Epochs without a better figure before training stops."})
    card: str | None = field(
        default=None,
        metadata={"help": "YAML file of what the card is to say, by the fields of hf_gile.publishing.CardInfo."},
    )


@dataclass(frozen=True, eq=False)
class LabelledSet:
    """A set as it was read.

    Args:
        name: Its name in the YAML file.
        options: What the YAML file says of it.
        documents: Columns `id`, `text` and `labels`, which are keys of `label_of`.
        label_of: Its labels by what they say, in small letters: sets have labels in common that say the same.
    """

    name: str
    options: SetOptions
    documents: Dataset
    label_of: dict[str, Label]


@dataclass(frozen=True, eq=False)
class Task:
    """What is measured: documents that are ranked against candidates.

    Args:
        set_name: The set.
        group: A key of `GROUPS`.
        documents: Encoded documents, with a gold label each.
        columns: The candidates, ascending columns of the label set.
        label_set: The labels of a set that is not trained on; by default those stored in the model.
    """

    set_name: str
    group: str
    documents: Any
    columns: Sequence[int]
    label_set: LabelSet | None = None


def main() -> None:
    defaults = {
        "output_dir": "runs/zero_shot",
        "per_device_train_batch_size": 64,
        "learning_rate": 2e-4,
        "num_train_epochs": 4,
    }
    recipe, args = parse_settings(Recipe, defaults, check_recipe)
    say: Callable[..., None] = print if args.process_index == 0 else (lambda *_: None)
    with args.main_process_first(desc="reading the sets"):
        sets = read_sets(recipe.sets, say)
    results = train_zero_shot(recipe, args, sets, say)
    if args.process_index == 0:
        print(table(results))
        print(f"\nwritten to {args.output_dir}: results.json, curves.png, settings.yaml and the model; to use it:")
        print("  from transformers import pipeline")
        print(f'  pipe = pipeline("zero-shot-classification", model="{args.output_dir}/model", trust_remote_code=True)')
        print('  pipe("Where is my parcel?", candidate_labels=["order status", "refund"])')


def check_recipe(recipe: Recipe, args: TrainingArguments) -> None:
    """Names files and an encoder that are not there, before any is read."""
    check_files({"sets": [recipe.sets]})
    if recipe.card is not None:
        check_files({"card": [recipe.card]})
        card_info(recipe.card)
    load_encoder_config("text_encoder", recipe.text_encoder)


def read_sets(path: str, say: Callable[..., None]) -> list[LabelledSet]:
    """Reads the sets that a YAML file names.

    Raises:
        SystemExit: The file cannot be read or says something unknown, or there is nothing to train on.
    """
    try:
        given = read_yaml(path)
    except (OSError, ValueError) as error:
        raise SystemExit(f"--sets: cannot read {path}: {error}") from None
    if not isinstance(given, dict) or not all(isinstance(options, dict) for options in given.values()):
        raise SystemExit(f"--sets: {path} must hold `name of the set:` with its options below, see --help")
    known = {one.name: one for one in fields(SetOptions)}
    sets = []
    for name, values in given.items():
        for key in values:
            if key not in known:
                near = difflib.get_close_matches(str(key), known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f", only {', '.join(known)}"
                raise SystemExit(f"--sets: {path}: set {name} has no option {key!r}{hint}")
        if not values.get("files"):
            raise SystemExit(f"--sets: {path}: set {name} names no files")
        lists = ("files", "text", "label_name", "label_description", "label_synonyms")
        options = SetOptions(
            **{key: [value] if key in lists and not isinstance(value, list) else value for key, value in values.items()}
        )
        if not 0 <= options.held_out < 1 or (options.share is not None and options.share <= 0):
            raise SystemExit(
                f"--sets: {path}: set {name}: held_out must be from 0 to below 1 and share above 0, got "
                f"{options.held_out} and {options.share}"
            )
        sets.append(read_set(str(name), options, say))
    if all(one.options.test_only for one in sets):
        raise SystemExit(f"--sets: {path}: there is nothing to train on, all sets are test_only")
    return sets


def read_set(name: str, options: SetOptions, say: Callable[..., None]) -> LabelledSet:
    """Reads a set: its documents, and the labels that they have (of a test set all of the label file)."""
    documents: Any
    if options.records:
        records, report = load_records(options.files, on_error=options.on_error)
        documents, _ = table_of(records, text=["title", "abstractText"], labels="meshUI", id="pmid")
    else:
        documents, report = load_table(
            options.files, options.text, options.labels, separator=options.separator, on_error=options.on_error
        )
    if options.max_documents is not None:
        drawn = np.argsort([fraction_of("document", name, "some of many") for name in documents["id"]], kind="stable")
        documents = documents.select(np.sort(drawn[: options.max_documents]))
    used = dict.fromkeys(label_id for ids in documents["labels"] for label_id in ids)
    if options.label_file is None:
        labels = {label_id: Label(label_id, label_id.replace("_", " ").strip()) for label_id in used}
    else:
        known = read_label_file(
            options.label_file,
            id=options.label_id,
            name=options.label_name,
            describe=options.label_description,
            synonyms=options.label_synonyms,
            report=ReadReport(options.on_error),
        )
        labels = {label.id: label for label in known if options.test_only or label.id in used}
    key_of = {label_id: label.text.casefold() for label_id, label in labels.items()}
    label_of: dict[str, Label] = {}
    for label_id, key in key_of.items():
        label_of.setdefault(key, replace(labels[label_id], id=key))

    def keys(ids: list[str]) -> dict[str, list[str]]:
        return {"labels": list(dict.fromkeys(key_of[label_id] for label_id in ids if label_id in key_of))}

    unknown = len(used.keys() - labels.keys())
    documents = documents.map(keys, input_columns="labels").filter(lambda ids: len(ids) > 0, input_columns="labels")
    if len(documents) == 0:
        raise SystemExit(f"set {name}: no document has a label of {options.label_file}; is --label_id its column?")
    left_out = f"; {unknown:,} label ids that the label file lacks are left out" if unknown else ""
    say(f"{name}: {report}; used: {len(documents):,} documents, {len(label_of):,} labels{left_out}")
    return LabelledSet(name, options, documents, label_of)


def train_zero_shot(
    recipe: Recipe, args: TrainingArguments, sets: Sequence[LabelledSet], say: Callable[..., None]
) -> dict[str, Any]:
    """Trains the scorer, measures it and the untrained cosine, and saves it in OUTPUT_DIR/model.

    Args:
        recipe: The settings.
        args: The training arguments.
        sets: The sets.
        say: Prints, in one of the processes.

    Returns:
        What was written to `results.json`: of `gile` what `train` returns and, of `gile` and `cosine`, `figures`: by
        set and group (a key of `GROUPS`) those of `FIGURES`, with the numbers of documents and candidates.

    Raises:
        SystemExit: Too little is left to train on or to measure.
    """
    set_seed(args.seed)
    trained = [one for one in sets if not one.options.test_only]
    info = card_info(recipe.card, dataset_name=", ".join(one.name for one in trained))
    foreign = [one for one in sets if one.options.test_only]
    held_out = held_out_keys(trained)
    label_of = {key: label for one in reversed(trained) for key, label in one.label_of.items()}
    rows_of = {one.name: cut(one, held_out) for one in trained}
    counts = Counter(
        key for one in trained for keys in one.documents.select(rows_of[one.name][0])["labels"] for key in keys
    )
    unseen_keys = held_out | (label_of.keys() - counts.keys())  # with what only documents to measure have
    stored = [
        replace(label, seen=key not in unseen_keys, count=0 if key in unseen_keys else counts[key])
        for key, label in label_of.items()
    ]
    labels = LabelSet(sorted(stored, key=lambda label: not label.seen))
    say(f"{len(labels):,} labels, {len(held_out):,} of them held out, {len(unseen_keys):,} never seen in training")

    model, processor = make_model(recipe, len(labels))
    model.set_labels(labels, processor)
    model.to(args.device)
    paraphrases, shares = None, (recipe.paraphrase_synonyms, recipe.paraphrase_definitions)
    if any(shares) and any(label.synonyms or label.description for label in labels):
        paraphrases = LabelParaphrases(labels, processor, 0.0, *shares, seed=args.seed)
    model.loss_function = GileLoss("decoupled_softmax", paraphrases=paraphrases)

    def encode(documents: Dataset, label_set: LabelSet) -> Any:
        encoded = encode_dataset(documents, processor, label_set)
        return encoded if recipe.tune_text_encoder else add_pooled_embeds(
            encoded, model, processor, bf16=recipe.bf16_vectors
        )  # fmt: skip

    parts: list[Any] = []
    samplers: list[LabelSampler] = []
    tasks: list[Task] = []
    with args.main_process_first(desc="vectors of texts"):
        for one in trained:
            seen = [labels.column(key) for key in one.label_of if key not in unseen_keys]
            if not seen:
                raise SystemExit(f"set {one.name}: all its labels are held out, lower held_out")
            train_rows, validation_rows = rows_of[one.name]
            encoded = encode(one.documents, labels)
            unseen = [labels.column(key) for key in one.label_of if key in held_out]
            parts.append(only(encoded.select(train_rows), seen))
            samplers.append(LabelSampler(len(labels), recipe.num_negatives, sorted(seen), seed=args.seed))
            measured = encoded.select(validation_rows)
            groups = {"seen": (seen, seen), "held_out": (unseen, unseen)}
            groups["held_out_among_all"] = (unseen, [*seen, *unseen])
            for group, (gold, candidates) in groups.items():
                rows = only(measured, gold)
                if len(rows) and len(candidates) > 1:
                    tasks.append(Task(one.name, group, rows, sorted(candidates)))
        tests = []
        for one in foreign:
            known = len(one.label_of.keys() & {label.id for label in labels if label.seen})
            say(f"{one.name}: {known} of its {len(one.label_of):,} labels stand in a set that is trained on, too")
            own = LabelSet(one.label_of.values())
            tests.append(Task(one.name, "all", encode(one.documents, own), range(len(own)), own))
    if recipe.bag_size:
        special = processor.tokenizer.all_special_ids
        texts = (ids for part in parts for ids in part["input_ids"])
        model.gile.set_token_weights(log_idf(texts, model.config.vocab_size, special))

    # A step is one item of the data set: a batch of one set.
    batch_size, args.per_device_train_batch_size = args.per_device_train_batch_size, 1
    batches = SetBatches(parts, [one.options.share for one in trained], batch_size, seed=args.seed)
    groups = parameter_groups(
        model, args.learning_rate, recipe.text_encoder_learning_rate, recipe.layer_decay, args.weight_decay
    )
    optimizer_class, options = Trainer.get_optimizer_cls_and_kwargs(args)
    chosen_by = "held_out" if any(task.group == "held_out" for task in tasks) else "seen"
    if not any(task.group == chosen_by for task in tasks):
        raise SystemExit(
            "no document is left to choose the epoch by: give more documents, or hold labels out (held_out)"
        )
    args.metric_for_best_model, args.greater_is_better = f"eval_{chosen_by}_average_precision", True
    trainer = ZeroShotTrainer(
        model,
        args,
        tasks=tasks,
        data_collator=SetCollator(processor, samplers),
        train_dataset=batches,
        eval_dataset=batches,  # what is measured are the tasks
        processing_class=processor,
        callbacks=[EpochCallback(batches, *samplers)],
        optimizers=(optimizer_class(groups, **options), None),
    )
    cosine = trainer.measure([*tasks, *tests])
    start = {name: one.detach().clone() for name, one in model.named_parameters() if one.requires_grad}
    say(f"\n{len(batches):,} steps an epoch; {count_parameters(model):,} parameters; chosen by {GROUPS[chosen_by]}")
    outcome = train(trainer, recipe.patience)
    figures = trainer.measure([*tasks, *tests])
    outcome["kept_cosine"] = mean_of(figures, chosen_by) <= mean_of(cosine, chosen_by)
    if outcome["kept_cosine"]:
        say(f"training gained nothing on {GROUPS[chosen_by]}: the model is kept as it was before, the cosine")
        with torch.no_grad():
            for name, one in model.named_parameters():
                if name in start:
                    one.copy_(start[name])
        figures = cosine
    # A softmax does not tell the bias: with multi_label=True, a half is to lie between gold labels and others.
    with torch.no_grad():
        model.gile.output_layer.classifier.bias.fill_(-mean_of(figures, chosen_by, "boundary"))
    # A pipeline gives the candidates one probability of 1 to share, unless it is called with multi_label=True.
    model.config.problem_type = "single_label_classification"
    trainer.save_model(f"{args.output_dir}/model")
    Path(args.output_dir, "model", "training_args.bin").unlink(missing_ok=True)
    results = {"gile": {**outcome, "figures": figures}, "cosine": {"figures": cosine}}
    if args.process_index == 0:
        write_results(Path(args.output_dir), results, {"gile": args.metric_for_best_model})
        write_card(Path(args.output_dir, "model"), model, info)
    return results


def held_out_keys(sets: Sequence[LabelledSet]) -> set[str]:
    """Labels that no set trains on: those that one of them holds out, by a hash of what they say.

    They have at most 500 documents, as those of `held_out_labels`: without more frequent ones, such as "Humans" in
    MEDLINE, training would be another task.
    """
    return {
        key
        for one in sets
        for key in held_out_labels(
            Counter(key for keys in one.documents["labels"] for key in keys), share=one.options.held_out, min_count=1
        )
    }


def cut(one: LabelledSet, held_out: set[str]) -> tuple[list[int], list[int]]:
    """The rows to train on, and those to measure: a tenth, by a hash of their ids, and all that training cannot use."""
    rows: dict[bool, list[int]] = {True: [], False: []}
    for row, (name, keys) in enumerate(zip(one.documents["id"], one.documents["labels"], strict=True)):
        rows[held_out.issuperset(keys) or split_of(name, test=0.0) == "validation"].append(row)
    if not rows[False]:
        raise SystemExit(f"set {one.name}: no document is left to train on")
    return rows[False], rows[True]


def only(encoded: Any, columns: Sequence[int]) -> Any:
    """The documents with a gold label among the columns, without their other gold labels."""
    wanted = set(columns)
    kept = [[column for column in own if column in wanted] for own in encoded["labels"]]
    rows = [row for row, own in enumerate(kept) if own]
    labels = Dataset.from_dict(
        {"labels": [kept[row] for row in rows]}, features=encoded.select_columns("labels").features
    )
    return concatenate_datasets([encoded.remove_columns("labels").select(rows), labels], axis=1)


def make_model(recipe: Recipe, num_labels: int) -> tuple[Any, GileProcessor]:
    """A model over the pretrained encoder that scores as the cosine does, and its processor."""
    size = AutoConfig.from_pretrained(recipe.text_encoder, trust_remote_code=False).hidden_size + recipe.bag_size
    model = GileForSequenceClassification.from_text_encoder(
        recipe.text_encoder,
        freeze_text_encoder=not recipe.tune_text_encoder,
        max_words=recipe.max_words,
        max_label_words=recipe.max_label_words,
        bag_size=recipe.bag_size,
        joint_size=size,
        joint_act="linear",
        joint_dropout=recipe.joint_dropout,
        num_labels=num_labels,
        problem_type="multi_label_classification",
    )
    start_as_cosine(model, recipe.cosine_scale)
    return model, GileProcessor.from_text_encoder(recipe.text_encoder, model.config)


@torch.no_grad()
def start_as_cosine(model: Any, scale: float) -> None:
    """Makes the joint embedding the cosine of text and label, times a number: U = V = I, w constant, no biases.

    Document and label vectors have a root mean square of 1, so their inner product over their size is the cosine; with
    a bag, the score is the sum of its cosine and that of the encoder. From random projections instead, 80 to 100 labels
    to train on left unseen ones worse than the cosine, whatever the activation, the learning rate and the size.

    Args:
        model: A `GileForSequenceClassification` with a linear joint embedding of the size of its vectors.
        scale: The number.
    """
    layer, config = model.gile.output_layer, model.config
    for projection in (layer.label_projection, layer.input_projection):
        projection.weight.copy_(torch.eye(config.joint_size))
        projection.bias.zero_()
    layer.classifier.weight[:, : config.encoder_size] = scale / config.encoder_size
    if config.bag_size:
        layer.classifier.weight[:, config.encoder_size :] = scale / config.bag_size


class SetBatches(torch.utils.data.Dataset[list[dict[str, Any]]]):
    """Batches as items: each of one set, drawn by the shares of the sets; the draw is a function of seed and epoch.

    Args:
        parts: The encoded documents of each set.
        shares: What share of the batches a set has, beside the others; by default the square root of its documents.
        batch_size: Documents of a batch, fewer of a set that has not as many.
        seed: Seed of the draw.
    """

    def __init__(self, parts: Sequence[Any], shares: Sequence[float | None], batch_size: int, seed: int) -> None:
        self.parts = parts
        weights = np.array([len(part) ** 0.5 if own is None else own for part, own in zip(parts, shares, strict=True)])
        self.shares = weights / weights.sum()
        self.batch_size = batch_size
        self.seed = seed
        # Shared memory: workers of a DataLoader that outlive an epoch see the next one.
        self.epoch = torch.zeros(1, dtype=torch.long).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        """Makes the batches of another epoch draw anew."""
        self.epoch[0] = epoch

    def __len__(self) -> int:
        return -(-sum(map(len, self.parts)) // self.batch_size)

    def __getitem__(self, step: int) -> list[dict[str, Any]]:
        rng = np.random.default_rng([self.seed, int(self.epoch), step])
        place = int(rng.choice(len(self.parts), p=self.shares))
        part = self.parts[place]
        rows = rng.choice(len(part), min(self.batch_size, len(part)), replace=False)
        return [{**example, "set": place} for example in part.__getitems__(rows.tolist())]


class SetCollator:
    """Collates a batch of one set, with labels sampled from those of the set.

    Args:
        processor: The processor of the model.
        samplers: The sampler of each set.
    """

    def __init__(self, processor: GileProcessor, samplers: Sequence[LabelSampler]) -> None:
        self.collators = [GileDataCollator(processor, sampler) for sampler in samplers]

    def __call__(self, items: Sequence[list[dict[str, Any]]]) -> dict[str, torch.Tensor]:
        """Collates the one item of a step."""
        (batch,) = items
        return self.collators[batch[0]["set"]](batch)


class ZeroShotTrainer(Trainer):
    """Evaluates by tasks: some documents against some labels each.

    Args:
        args: Those of the `Trainer`.
        tasks: What to measure.
        kwargs: Those of the `Trainer`.
    """

    def __init__(self, *args: Any, tasks: Sequence[Task], **kwargs: Any) -> None:
        self.tasks = tasks
        super().__init__(*args, **kwargs)

    def compute_loss(self, model: Any, inputs: dict[str, torch.Tensor], *args: Any, **kwargs: Any) -> Any:
        """The mean over gold labels, so that sets with many of them for each document do not count for more."""
        factor = len(inputs["labels"]) / (inputs["labels"] >= 0).sum()
        outcome = super().compute_loss(model, inputs, *args, **kwargs)
        return (outcome[0] * factor, outcome[1]) if isinstance(outcome, tuple) else outcome * factor

    def evaluate(self, *_: Any, metric_key_prefix: str = "eval", **__: Any) -> dict[str, float]:
        """The mean over the sets of the figures that choose the epoch."""
        group = self.args.metric_for_best_model.removeprefix("eval_").removesuffix("_average_precision")
        figures = self.measure([task for task in self.tasks if task.group == group])
        metrics = {f"{metric_key_prefix}_{group}_average_precision": mean_of(figures, group)}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    @torch.no_grad()
    def measure(self, tasks: Sequence[Task]) -> dict[str, dict[str, dict[str, float]]]:
        """The figures of tasks, by set and group."""
        model, processor = self.accelerator.unwrap_model(self.model), self.processing_class
        was_training = model.training
        model.eval()
        figures: dict[str, dict[str, dict[str, float]]] = {}
        collate = GileDataCollator(processor)
        for task in tasks:
            with self.autocast():
                codes = (
                    model.project_stored_labels()
                    if task.label_set is None
                    else project_label_set(model, processor, task.label_set)
                ).float()
            columns, boundary = torch.as_tensor(task.columns), torch.zeros(())
            metrics = OnColumns(LabelMetrics(len(columns), top_k=(1,)), task.columns)
            for start in range(0, len(task.documents), self.args.per_device_eval_batch_size):
                stop = min(start + self.args.per_device_eval_batch_size, len(task.documents))
                batch = collate(task.documents.__getitems__(list(range(start, stop))))
                gold = batch.pop("labels")
                batch.pop("shift_labels")
                with self.autocast():
                    batch = {name: tensor.to(model.device) for name, tensor in batch.items()}
                    texts = model.gile.project_texts(**batch).float()
                # Not in 16 bits, in which labels that differ a little tie.
                scores = (texts @ codes.T).cpu()
                metrics.update(scores, gold)
                boundary += boundaries(scores[:, columns], multi_hot(gold, scores.shape[1])[:, columns]).sum()
            computed = metrics.compute()
            own = {name: computed[name] for name in FIGURES} | {"boundary": float(boundary) / len(task.documents)}
            own |= {"documents": len(task.documents), "candidates": len(task.columns)}
            figures.setdefault(task.set_name, {})[task.group] = own
        model.train(was_training)
        return figures

    def autocast(self) -> Any:
        """16 bits, if training has them."""
        return torch.autocast(self.args.device.type, torch.bfloat16, enabled=self.args.bf16)


def boundaries(scores: torch.Tensor, gold: torch.Tensor) -> torch.Tensor:
    """Half-way between the lowest score of a gold label and the highest of another one, of each document.

    Args:
        scores: `(B, L)` scores.
        gold: `(B, L)` zeros and ones, with both in each row, or else the row counts as 0.
    """
    lowest = scores.masked_fill(gold == 0, torch.inf).amin(1)
    highest = scores.masked_fill(gold > 0, -torch.inf).amax(1)
    return ((lowest + highest) / 2).nan_to_num(0.0, 0.0, 0.0)


def mean_of(
    figures: Mapping[str, Mapping[str, Mapping[str, float]]], group: str, name: str = "average_precision"
) -> float:
    """The mean over the sets of a figure of a group."""
    return float(np.mean([groups[group][name] for groups in figures.values() if group in groups]))


def table(results: Mapping[str, Any]) -> str:
    """The figures in percent, those of the untrained cosine beside them."""
    gile, cosine = results["gile"]["figures"], results["cosine"]["figures"]
    headings = "".join(f"{f'{way} {heading}':>14}" for heading in FIGURES.values() for way in ("cosine", "GILE"))
    lines = ["", f"{'set':20}{'ranked':40}{'documents':>10}{'labels':>8}{headings}"]
    for name, groups in gile.items():
        for group, own in groups.items():
            figures = [100 * one[name][group][figure] for figure in FIGURES for one in (cosine, gile)]
            cells = "".join(f"{figure:14.2f}" for figure in figures)
            lines.append(f"{name:20}{GROUPS[group]:40}{own['documents']:10,}{own['candidates']:8,}{cells}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
