r"""Train translation models with several output layers on the same sentences, and compare them by BLEU.

    python recipes/train_nmt.py --data multi30k --source de --target en    # train.de.gz, train.en.gz, val.*, test*
    python recipes/train_nmt.py --data multi30k --layers tied joint512 joint2048 --vocab_size 2000
    accelerate launch recipes/train_nmt.py --data wmt/wmt14 --dataset_config de-en --layers tied joint2048 \
        --loss sampled --sample 0.25

The model follows "Beyond Weight Tying" (Pappas, Miculicich & Henderson, WMT 2018): LSTMs with global attention over
subwords (BPE). Output layers are nmt, which is `W h + b`, and the forms of docs/output_layers.md: joint512 has a joint
space of size 512, and joint512x3 also three residual layers in g_out. `continuous` is nmt with a continuous map in
place of the tables of input embeddings, for comparison; it is not saved. OUTPUT_DIR gets results.json and a folder for
each layer, with `model`, which `AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)` loads, and its
translations, test.txt. With --separate_vocabularies, as in the paper, the tokenizer in `model` is that of the target
language, and `model/source` has the other. All flags of `transformers.Seq2SeqTrainingArguments` work.
"""

import re
from dataclasses import MISSING, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from datasets import Dataset
from papers.continuous import ContinuousEmbedding
from papers.sentence_pairs import load_sentence_pairs
from papers.settings import add_settings, setting
from papers.translation import build_piece_tokenizer, compare_translations, word_f1_by_frequency
from transformers import (
    DataCollatorForSeq2Seq,
    EvalPrediction,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_utils import PredictionOutput

from hf_gile.language_models import NmtConfig, NmtForConditionalGeneration, replace_output_embeddings
from hf_gile.language_models.joint_models import LOSSES
from hf_gile.language_models.joint_output import DEEP, FORMS
from hf_gile.training.experiment import run_arguments, save_model, train
from hf_gile.training.reporting import printer, saved_settings, write_results
from hf_gile.training.settings import Settings, check_choice
from hf_gile_cli.flags import parse_settings, reading

LAYER = re.compile(r"([a-z]+?)([1-9]\d*)?(?:x([1-9]\d*))?")
"""Name of an output layer: its form, joint size and depth."""

PLAIN = ("nmt", "continuous")
"""Output layers `W h + b`."""

SIZES = ["vocab_size", "embedding_size", "hidden_size", "num_hidden_layers", "dropout"]


@dataclass
@add_settings(NmtConfig, SIZES, vocab_size=8000)
class Recipe(Settings):
    """Settings of sentences and models, with quotes from section 4.2 of the paper."""

    data: str = setting(MISSING, "Folder of train.LANGUAGE, val.LANGUAGE and test.LANGUAGE, or a dataset on the Hub.")
    dataset_config: str | None = setting(None, "Configuration of the dataset, such as de-en.")
    source: str = setting("de", "Language to translate from.")
    target: str = setting("en", "Language to translate to.")
    layers: list[str] = setting(
        ["nmt", "tied", "bilinear", "joint512"],
        f"Output layers: {', '.join((*PLAIN, *FORMS))}; with sizes, joint512x3.",
    )
    loss: str = setting("full", "full, chunked or sampled; nmt and continuous support only full.", LOSSES)
    sample: float | None = setting(None, "Share of the vocabulary that --loss sampled scores.")
    separate_vocabularies: bool = setting(False, "Build a vocabulary for each language, of --vocab_size subwords each.")
    max_length: int = setting(50, "Maximum number of tokens in a sentence: 'maximum sentence length of 50'.")
    num_beams: int = setting(5, "Number of beams for the test; validation decodes greedily.")
    patience: int = setting(3, "Epochs without improvement of validation BLEU before training stops.")


DEFAULTS = {
    "output_dir": "runs/nmt",
    "per_device_train_batch_size": 64,
    "per_device_eval_batch_size": 64,
    "learning_rate": 1e-3,  # "Adam optimizer with initial learning rate of 0.001"
    "num_train_epochs": 12,
    "max_grad_norm": 5.0,  # as in OpenNMT
    "train_sampling_strategy": "group_by_length",
    "batch_eval_metrics": False,
    "predict_with_generate": True,
}


def main() -> None:
    run(*settings())


def settings() -> tuple[Recipe, Seq2SeqTrainingArguments]:
    return parse_settings(Recipe, DEFAULTS, check_recipe, Seq2SeqTrainingArguments)


def run(recipe: Recipe, args: Seq2SeqTrainingArguments) -> dict[str, Any]:
    say, folder = printer(args), Path(args.output_dir)

    # 1. Read pairs of sentences, and build a vocabulary of subwords, or one for each language.
    with reading(args, "the sentences"):
        pairs = load_sentence_pairs(recipe.data, recipe.source, recipe.target, recipe.dataset_config)
        source, tokenizer = build_tokenizers(recipe, pairs["train"])

        def encode(batch: dict[str, list[str]]) -> dict[str, Any]:
            limits = {"truncation": True, "max_length": recipe.max_length}
            labels = tokenizer(text_target=batch["target"], **limits)["input_ids"]
            # Sentences are grouped by target length. Padding of sources costs no time, because the encoder packs them.
            return {**source(batch["source"], **limits), "labels": labels, "length": [len(ids) for ids in labels]}

        parts = {
            part: rows.map(encode, batched=True, remove_columns=["source", "target"]) for part, rows in pairs.items()
        }
    say({part: len(rows) for part, rows in pairs.items()}, f"sentences; {len(tokenizer):,} subwords")

    # 2. Train a model with each output layer, select its epoch by validation BLEU, and translate the test.
    results: dict[str, Any] = {}
    translations: dict[str, list[str]] = {}
    for name in recipe.layers:
        set_seed(args.seed)
        say(f"\n{name}")
        model = make_model(recipe, name, max(len(source), len(tokenizer)))
        trainer = make_trainer(model, run_arguments(args, folder / name, "eval_bleu"), tokenizer, parts)
        results[name] = train(trainer, recipe.patience)
        predicted = predict_in_order(trainer, parts["test"], num_beams=recipe.num_beams)
        translations[name] = decode(tokenizer, predicted.predictions)
        if name != "continuous":
            with saved_settings(recipe, args):
                save_model(trainer, folder / name / "model")
            if recipe.separate_vocabularies and args.should_save:
                source.save_pretrained(folder / name / "model" / "source")
        (folder / name / "test.txt").write_text("\n".join(translations[name]) + "\n", encoding="utf-8")

    # 3. Compute BLEU, with p-values against the first layer, and F1 of rare, medium and frequent words.
    references = [*pairs["test"]["target"]]
    for name, figures in compare_translations(translations, references).items():
        by_third = word_f1_by_frequency(translations[name], references, pairs["train"]["target"])
        results[name]["test"] = {**figures, **{f"f1_{third}": value for third, value in by_third.items()}}
        say(name, results[name]["test"])
    if args.process_index == 0:
        write_results(folder, results)
    return results


def build_tokenizers(recipe: Recipe, rows: Dataset) -> list[PreTrainedTokenizerFast]:
    """Builds the tokenizers of source and target sentences; with a shared vocabulary, they are the same."""
    if recipe.separate_vocabularies:
        return [build_piece_tokenizer(rows[side], recipe.vocab_size) for side in ("source", "target")]
    return 2 * [build_piece_tokenizer(chain(rows["source"], rows["target"]), recipe.vocab_size)]


def make_model(recipe: Recipe, name: str, vocab_size: int) -> PreTrainedModel:
    sizes = {size: getattr(recipe, size) for size in SIZES} | {"vocab_size": vocab_size}
    model = NmtForConditionalGeneration(NmtConfig(**sizes))
    model.generation_config.max_length = recipe.max_length
    if name == "continuous":
        for part in (model, model.encoder):
            part.embed_tokens = ContinuousEmbedding(sizes["vocab_size"], sizes["embedding_size"])
    if name in PLAIN:
        return model
    form, size, depth = LAYER.fullmatch(name).groups()
    deep = {"depth": int(depth), "residual": True} if depth else {}
    return replace_output_embeddings(model, int(size or 512), form=form, loss=recipe.loss, sample=recipe.sample, **deep)


def make_trainer(
    model: PreTrainedModel,
    args: Seq2SeqTrainingArguments,
    tokenizer: PreTrainedTokenizerFast,
    parts: dict[str, Dataset],
) -> Seq2SeqTrainer:
    def bleu(predicted: EvalPrediction) -> dict[str, float]:
        predictions, references = (decode(tokenizer, ids) for ids in (predicted.predictions, predicted.label_ids))
        return {"bleu": compare_translations({"": predictions}, references, samples=1)[""]["bleu"] / 100}

    datasets = {"train_dataset": parts["train"], "eval_dataset": parts["validation"]}
    collator = DataCollatorForSeq2Seq(tokenizer)
    return Seq2SeqTrainer(model, args, collator, **datasets, processing_class=tokenizer, compute_metrics=bleu)


def predict_in_order(trainer: Seq2SeqTrainer, rows: Dataset, num_beams: int) -> PredictionOutput:
    """Translates rows in order. `Trainer.predict` would group them by length and shuffle them, as in training."""
    trainer.args.train_sampling_strategy = "sequential"
    return trainer.predict(rows, num_beams=num_beams)


def decode(tokenizer: PreTrainedTokenizerFast, ids: Any) -> list[str]:
    return tokenizer.batch_decode(ids.clip(min=0), skip_special_tokens=True)


def check_recipe(recipe: Recipe, args: TrainingArguments) -> None:
    """Reports conflicting settings before any sentence is read."""
    for layer in recipe.layers:
        match = LAYER.fullmatch(layer)
        check_choice("layers", match[1] if match else layer, (*PLAIN, *FORMS))
        if match[3] and match[1] not in DEEP:
            raise ValueError(f"layers: {layer} has a depth, but only {' and '.join(DEEP)} support it")
    for layer in PLAIN:
        if recipe.loss != "full" and layer in recipe.layers:
            raise ValueError(f"the layer {layer} does not support loss {recipe.loss}: remove it from --layers")


if __name__ == "__main__":
    main()
