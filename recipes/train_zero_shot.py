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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cards import card_info
from datasets import Dataset
from text_models import check_files, load_encoder_config
from training import parse_settings, write_results
from transformers import AutoConfig, TrainingArguments, set_seed

from hf_gile import GileProcessor, Label, LabelSet
from hf_gile.data import ReadReport, load_records, load_table, read_label_file, table_of
from hf_gile.data.files import read_yaml
from hf_gile.data.zero_shot import fraction_of
from hf_gile.publishing import write_card
from hf_gile.training import (
    GileLoss,
    LabelParaphrases,
    add_pooled_embeds,
    encode_dataset,
    log_idf,
    model_from_text_encoder,
    processor_from_text_encoder,
    set_token_weights,
)
from hf_gile.training.experiment import count_parameters, fit, pretrained_optimizer, save_model
from hf_gile.training.labelled_sets import (
    GROUPS,
    LabelledSet,
    Task,
    foreign_tasks,
    join_sets,
    labelled_set,
    training_parts,
)
from hf_gile.training.many_sets import ManySetTrainer, mean_of, start_as_cosine

HEADINGS = {"average_precision": "AvgPr", "precision_at_1": "P@1"}


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
    try:
        results = train_zero_shot(recipe, args, sets, say)
    except ValueError as error:
        raise SystemExit(f"--sets: {recipe.sets}: {error}") from None
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
    if all(one.test_only for one in sets):
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
    unknown = len(used.keys() - labels.keys())
    shares = {"held_out": options.held_out, "share": options.share, "test_only": options.test_only}
    try:
        one = labelled_set(name, documents, labels, **shares)
    except ValueError as error:
        raise SystemExit(f"{error}; is label_id the column of ids of {options.label_file}?") from None
    left_out = f"; {unknown:,} label ids that the label file lacks are left out" if unknown else ""
    say(f"{name}: {report}; used: {len(one.documents):,} documents, {len(one.label_of):,} labels{left_out}")
    return one


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
        ValueError: Too little is left to train on or to measure.
    """
    set_seed(args.seed)
    joined = join_sets(sets)
    labels, never = joined.labels, joined.labels.seen.count(False)
    say(f"{len(labels):,} labels, {len(joined.held_out):,} of them held out, {never:,} never seen in training")
    info = card_info(recipe.card, dataset_name=", ".join(one.name for one in joined.trained))
    model, processor = make_model(recipe, labels, args)

    def encode(documents: Dataset, label_set: LabelSet) -> Any:
        encoded = encode_dataset(documents, processor, label_set)
        if recipe.tune_text_encoder:
            return encoded
        return add_pooled_embeds(encoded, model, processor, bf16=recipe.bf16_vectors)

    with args.main_process_first(desc="vectors of texts"):
        parts, samplers, tasks = training_parts(joined, encode, recipe.num_negatives, args.seed)
        tests = foreign_tasks(joined, encode)
    for one in joined.foreign:
        known = len(one.label_of.keys() & {label.id for label in labels if label.seen})
        say(f"{one.name}: {known} of its {len(one.label_of):,} labels stand in a set that is trained on, too")
    if recipe.bag_size:
        texts = (ids for part in parts for ids in part["input_ids"])
        special, size = processor.tokenizer.all_special_ids, model.config.text_config.vocab_size
        set_token_weights(model, log_idf(texts, size, special))

    optimizer = pretrained_optimizer(model, args, recipe.text_encoder_learning_rate, recipe.layer_decay)
    trainer = ManySetTrainer(
        model,
        args,
        parts=parts,
        samplers=samplers,
        tasks=tasks,
        shares=[one.share for one in joined.trained],
        processing_class=processor,
        optimizers=(optimizer, None),
    )
    steps, chosen_by = len(trainer.train_dataset), GROUPS[trainer.chosen_by]
    say(f"\n{steps:,} steps an epoch; {count_parameters(model):,} parameters; chosen by {chosen_by}")
    results = fit_or_keep(trainer, [*tasks, *tests], recipe.patience)
    if results["gile"]["kept_cosine"]:
        say(f"training gained nothing on {chosen_by}: the model is kept as it was before, the cosine")
    folder = Path(args.output_dir)
    save_model(trainer, folder / "model")
    if args.process_index == 0:
        write_results(folder, results, {"gile": trainer.args.metric_for_best_model})
        write_card(folder / "model", model, info)
    return results


def fit_or_keep(trainer: ManySetTrainer, tasks: Sequence[Task], patience: int) -> dict[str, Any]:
    """Trains the scorer, unless the cosine is as good on what chooses the epoch; see `train_zero_shot`."""
    model, chosen_by = trainer.model, trainer.chosen_by
    cosine = trainer.measure(tasks)
    start = {name: one.detach().clone() for name, one in model.named_parameters() if one.requires_grad}
    outcome = fit(trainer, patience)
    figures = trainer.measure(tasks)
    outcome["kept_cosine"] = mean_of(figures, chosen_by) <= mean_of(cosine, chosen_by)
    if outcome["kept_cosine"]:
        model.load_state_dict(start, strict=False)
        figures = cosine
    # A softmax does not tell the bias: with multi_label=True, a half is to lie between gold labels and others.
    with torch.no_grad():
        model.gile.output_layer.classifier.bias.fill_(-mean_of(figures, chosen_by, "boundary"))
    # A pipeline gives the candidates one probability of 1 to share, unless it is called with multi_label=True.
    model.config.problem_type = "single_label_classification"
    return {"gile": {**outcome, "figures": figures}, "cosine": {"figures": cosine}}


def make_model(recipe: Recipe, labels: LabelSet, args: TrainingArguments) -> tuple[Any, GileProcessor]:
    """A model over the pretrained encoder that scores the labels as the cosine does, and its processor."""
    size = AutoConfig.from_pretrained(recipe.text_encoder, trust_remote_code=False).hidden_size + recipe.bag_size
    model = model_from_text_encoder(
        recipe.text_encoder,
        freeze_text_encoder=not recipe.tune_text_encoder,
        max_words=recipe.max_words,
        max_label_words=recipe.max_label_words,
        bag_size=recipe.bag_size,
        joint_size=size,
        joint_act="linear",
        joint_dropout=recipe.joint_dropout,
        num_labels=len(labels),
        problem_type="multi_label_classification",
    )
    start_as_cosine(model, recipe.cosine_scale)
    processor = processor_from_text_encoder(recipe.text_encoder, model.config)
    model.set_labels(labels, processor)
    model.to(args.device)
    paraphrases, shares = None, (recipe.paraphrase_synonyms, recipe.paraphrase_definitions)
    if any(shares) and any(label.synonyms or label.description for label in labels):
        paraphrases = LabelParaphrases(labels, processor, 0.0, *shares, seed=args.seed)
    model.loss_function = GileLoss("decoupled_softmax", paraphrases=paraphrases)
    return model, processor


def table(results: Mapping[str, Any]) -> str:
    """The figures in percent, those of the untrained cosine beside them."""
    gile, cosine = results["gile"]["figures"], results["cosine"]["figures"]
    headings = "".join(f"{f'{way} {heading}':>14}" for heading in HEADINGS.values() for way in ("cosine", "GILE"))
    lines = ["", f"{'set':20}{'ranked':40}{'documents':>10}{'labels':>8}{headings}"]
    for name, groups in gile.items():
        for group, own in groups.items():
            figures = [100 * one[name][group][figure] for figure in HEADINGS for one in (cosine, gile)]
            cells = "".join(f"{figure:14.2f}" for figure in figures)
            lines.append(f"{name:20}{GROUPS[group]:40}{own['documents']:10,}{own['candidates']:8,}{cells}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
