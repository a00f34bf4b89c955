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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cards import card_info
from datasets import Dataset
from text_models import load_encoder_config
from training import printer, write_results
from transformers import TrainingArguments, set_seed

from hf_gile import GileConfig, GileTextConfig, LabelSet
from hf_gile.publishing import write_card
from hf_gile.training import (
    GileLoss,
    LabelParaphrases,
    LabelSampler,
    add_pooled_embeds,
    encode_dataset,
    log_idf,
    set_token_weights,
)
from hf_gile.training.experiment import count_parameters, pretrained_optimizer, save_model
from hf_gile.training.flags import parse_settings
from hf_gile.training.labelled_sets import GROUPS, LabelledSet, foreign_tasks, join_sets, training_parts
from hf_gile.training.many_sets import ManySetTrainer, cosine_scorer, fit_or_keep
from hf_gile.training.set_files import read_sets
from hf_gile.training.settings import Settings, check_files, setting, settings_of

HEADINGS = {"average_precision": "AvgPr", "precision_at_1": "P@1"}


@dataclass
@settings_of(GileConfig, ["joint_dropout", "bag_size"], joint_dropout=0.2)
@settings_of(GileTextConfig, ["max_words", "max_label_words"], max_words=128, max_label_words=32)
@settings_of(LabelSampler, ["num_negatives"], num_negatives=1000)
class Recipe(Settings):
    """The sets, the model and how it is trained."""

    sets: str = setting("sets.yaml", "YAML file of the labelled sets.")
    text_encoder: str = setting("sentence-transformers/all-MiniLM-L6-v2", "A pretrained encoder: a name or a folder.")
    cosine_scale: float = setting(45.0, "What the cosine is multiplied with at the start.")
    paraphrase_synonyms: float = setting(
        0.3, "Share of the readings of a label in training that are of a synonym, if any."
    )
    paraphrase_definitions: float = setting(0.1, "The same of its description.")
    tune_text_encoder: bool = setting(False, "Train the encoder as well.")
    text_encoder_learning_rate: float = setting(1e-4, "Of its last layer.")
    layer_decay: float = setting(0.9, "Learning rate of a layer in that of the layer above.")
    bf16_vectors: bool = setting(False, "The frozen encoder reads documents in bfloat16; the head stays in float32.")
    patience: int = setting(2, "Epochs without a better figure before training stops.")
    card: str | None = setting(
        None, "YAML file of what the card is to say, by the fields of hf_gile.publishing.CardInfo."
    )


DEFAULTS = {
    "output_dir": "runs/zero_shot",
    "per_device_train_batch_size": 64,
    "learning_rate": 2e-4,
    "num_train_epochs": 4,
}


def main() -> None:
    recipe, args = parse_settings(Recipe, DEFAULTS, check_recipe)
    say = printer(args)
    try:
        with args.main_process_first(desc="reading the sets"):
            sets = read_sets(recipe.sets, say)
        results = train_zero_shot(recipe, args, sets, say)
    except (ValueError, OSError) as error:
        raise SystemExit(f"--sets: {recipe.sets}: {error}") from None
    if args.process_index == 0:
        print(table(results))
        print(f"\nwritten to {args.output_dir}: results.json, curves.png, settings.yaml and the model; to use it:")
        print("  from transformers import pipeline")
        print(f'  pipe = pipeline("zero-shot-classification", model="{args.output_dir}/model", trust_remote_code=True)')
        print('  pipe("Where is my parcel?", candidate_labels=["order status", "refund"])')


def check_recipe(recipe: Recipe, args: TrainingArguments) -> None:
    """Names files and an encoder that are not there, before any is read."""
    check_files(recipe, ["sets", "card"])
    card_info(recipe.card)
    load_encoder_config("text_encoder", recipe.text_encoder)


def train_zero_shot(
    recipe: Recipe, args: TrainingArguments, sets: Sequence[LabelledSet], say: Callable[..., None]
) -> dict[str, Any]:
    """Trains the scorer, measures it and the untrained cosine, and saves it in OUTPUT_DIR/model.

    Returns:
        What was written to `results.json`, see `fit_or_keep`.

    Raises:
        ValueError: Too little is left to train on or to measure.
    """
    # 1. The labels of all sets, and a model that scores them as the cosine of text and label does.
    set_seed(args.seed)
    joined = join_sets(sets)
    labels, never = joined.labels, joined.labels.seen.count(False)
    say(f"{len(labels):,} labels, {len(joined.held_out):,} of them held out, {never:,} never seen in training")
    info = card_info(recipe.card, dataset_name=", ".join(one.name for one in joined.trained))
    names = ("max_words", "max_label_words", "bag_size", "joint_dropout")
    fields = {name: getattr(recipe, name) for name in names} | {"freeze_text_encoder": not recipe.tune_text_encoder}
    model, processor = cosine_scorer(recipe.text_encoder, labels, recipe.cosine_scale, **fields)
    model.to(args.device)
    paraphrases, shares = None, (recipe.paraphrase_synonyms, recipe.paraphrase_definitions)
    if any(shares) and any(label.synonyms or label.description for label in labels):
        paraphrases = LabelParaphrases(labels, processor, 0.0, *shares, seed=args.seed)
    model.loss_function = GileLoss("decoupled_softmax", paraphrases=paraphrases)

    # 2. Documents to train on, and tasks: documents and the labels to rank for them.
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

    # 3. Batches of one set each; the epoch is chosen on held-out labels.
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
