r"""Train GILE and what the paper compares it with on news in several languages, in the published Deutsche Welle format.

    python recipes/train_dw.py --data dw_format/general --languages english                   # one language
    accelerate launch recipes/train_dw.py --data dw_format/specific --languages english german --units linear gile
    accelerate launch recipes/train_dw.py --data dw_format/general --sharing both             # all languages there are

`DATA/{train,dev,test}/LANGUAGE.json` hold documents and labels as word ids, `DATA/../word_vectors/LANGUAGE.pkl.gz` the
words and their vectors; hf_gile/data/deutsche_welle/ids.py shows the format, and recipes/crawl_dw.py makes such data of
the published addresses. Every label is scored with the documents of its own language; the epoch is chosen on the
development documents of all languages.

The settings are those of GILE, section 4.2.1, where the paper gives them; every flag of
`transformers.TrainingArguments` works as well, and all of them can stand in a file: `--config mine.yaml`.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from baselines import MODELS, RANKING
from cards import CALIBRATIONS, add_card, card_info, say_calibration
from datasets import concatenate_datasets
from text_models import PROBLEM_TYPES, check_files, check_problem_type, problem_type_of
from training import parse_settings, write_results
from transformers import BatchFeature, Trainer, TrainingArguments, set_seed
from units import UNITS, check_choice, unit_fields

from hf_gile import GileConfig, GileForSequenceClassification, GileProcessor, LabelSet, build_tokenizer
from hf_gile.data import load_dw, low_resource
from hf_gile.data.zero_shot import drop_labels
from hf_gile.metrics import LabelMetrics
from hf_gile.training import (
    EpochCallback,
    GileDataCollator,
    GileLoss,
    LabelSampler,
    MultilingualDataset,
    ThresholdTuner,
    joint_size_for,
    paper_threshold,
    set_word_vectors,
)
from hf_gile.training.experiment import calibrate_on, count_parameters, fit, run_arguments, save_model

NEWS_UNITS = [unit for unit in UNITS if unit not in MODELS]
"""What `--units` can be: the baselines are of other tables."""


@dataclass
class Recipe:
    """What to train on, and the model. In quotes: the paper's words, section 4.2.1."""

    data: str = field(metadata={"help": "Folder with train, dev and test, each with LANGUAGE.json."})
    word_vectors: str | None = field(default=None, metadata={"help": "By default word_vectors beside the data."})
    languages: list[str] = field(default_factory=list, metadata={"help": "By default all there are."})
    text_encoder_type: str = field(default="han", metadata={"help": "nn, hnn, wan or han."})
    encoder_cell: str = field(default="dense", metadata={"help": "'Dense encoders in all scenarios'; or gru, bigru."})
    sharing: str = field(default="attention", metadata={"help": "none, encoders, attention or both."})
    units: list[str] = field(
        default_factory=lambda: ["linear", "gile"], metadata={"help": f"Output layers: {', '.join(NEWS_UNITS)}."}
    )
    hidden_size: int = field(default=100, metadata={"help": "'100-dimensional encoder and attention'; of a bigru 200."})
    hidden_act: str = field(default="relu", metadata={"help": "'ReLU activation'"})
    joint_size: int | None = field(default=None, metadata={"help": "By default that of Eq. 19, for equal capacity."})
    epoch_size: int = field(default=25_000, metadata={"help": "'epoch size 25k'; 0: as many as the largest language."})
    label_share: float = field(
        default=1.0, metadata={"help": "'no negative sampling'; below 1, the share of labels sampled for each batch."}
    )
    percent: float = field(default=100.0, metadata={"help": "Of the training documents of the last language."})
    max_sentences: int = field(default=30, metadata={"help": "'the documents at a length of 30 sentences'"})
    max_sentence_words: int = field(default=30, metadata={"help": "'truncated at a length of 30 words'"})
    train_word_vectors: bool = field(default=False, metadata={"help": "'kept fixed during training'"})
    word_dropout: float = field(default=0.0, metadata={"help": "Not in the paper."})
    held_out: float = field(
        default=0.0,
        metadata={"help": "Share of the labels, by a hash of their ids, that training never sees."},
    )
    patience: int = field(
        default=5, metadata={"help": "'until convergence': epochs without better development figures."}
    )
    save_models: bool = field(
        default=True, metadata={"help": "Keep each model in OUTPUT_DIR/UNIT/model, calibrated and with its card."}
    )
    calibration: str | None = field(
        default=None,
        metadata={"help": f"How probabilities are calibrated on the dev part: {', '.join(CALIBRATIONS)}; by default "
                  "spline, for documents with one label platt."},
    )  # fmt: skip
    problem_type: str | None = field(
        default=None,
        metadata={"help": "single_label_classification (softmax) or multi_label_classification (the paper's, a sigmoid "
                  "for each label); by default the former if every document has exactly one label."},
    )  # fmt: skip
    card: str | None = field(
        default=None,
        metadata={"help": "YAML file of what the card is to say, by the fields of hf_gile.publishing.CardInfo."},
    )


def main() -> None:
    defaults = {
        "output_dir": "runs/dw",
        "per_device_train_batch_size": 16,  # "batch size 16"
        "learning_rate": 1e-3,  # "optimization with ADAM until convergence"; the paper does not give the rate
        "num_train_epochs": 20,
    }
    recipe, args = parse_settings(Recipe, defaults, check_recipe)
    say = print if args.process_index == 0 else (lambda *_: None)
    folder = Path(args.output_dir)
    info = card_info(recipe.card, dataset_name="Deutsche Welle", tags=["news"])
    if info.show_examples:
        raise ValueError(
            f"{recipe.card}: show_examples needs texts, and this recipe reads the ids of words: leave it out"
        )

    # 1. Documents as word ids, one table of words and one of labels for all languages.
    corpus = load_dw(
        recipe.data,
        recipe.languages or None,
        word_vectors=recipe.word_vectors or Path(recipe.data).parent / "word_vectors",
        max_sentences=recipe.max_sentences,
        max_sentence_words=recipe.max_sentence_words,
    ).joint()
    languages = corpus.languages
    every = {f"{part}/{language}": rows for language in languages for part, rows in corpus.documents[language].items()}
    problem_type = problem_type_of(recipe, every, "labels")
    one_label = problem_type == "single_label_classification"
    labels, unseen = hold_out(corpus.label_set, recipe.held_out)
    parts = {language: split_of(corpus.documents[language], language, unseen) for language in languages}
    scarce = parts[languages[-1]]
    scarce["train"] = low_resource(scarce["train"], recipe.percent, args.seed)
    labels = of_training(labels, [parts[language]["train"] for language in languages])
    say({language: {part: len(rows) for part, rows in parts[language].items()} for language in languages})
    say(f"{len(corpus.words):,} words; {labels}, {len(labels) - sum(labels.seen)} of them never seen in training")
    seen = [column for column in range(len(labels)) if column not in unseen]
    gold = [len(row) for language in languages for row in parts[language]["train"]["labels"]]

    results, metrics = {}, {}
    for unit in recipe.units:
        # 2. The model of the paper's name: NN, HNN or HAN, MHAN of several languages, with or without GILE.
        set_seed(args.seed)
        fields = unit_fields(
            unit,
            vocab_size=len(corpus.words),
            text_encoder_type=recipe.text_encoder_type,
            encoder_cell=recipe.encoder_cell,
            embedding_size=corpus.vectors.shape[1],
            hidden_size=recipe.hidden_size,
            attention_size=attention_size(recipe),
            hidden_act=recipe.hidden_act,
            joint_act=recipe.hidden_act,
            languages=languages,
            language_labels=labels.language_labels,
            sharing=recipe.sharing,
            word_dropout=recipe.word_dropout,
            max_sentences=recipe.max_sentences,
            max_sentence_words=recipe.max_sentence_words,
            max_words=recipe.max_sentences * recipe.max_sentence_words,
            max_label_words=100,
            label_prior=sum(gold) / len(gold) / (len(seen) / len(languages)),
            num_labels=len(labels),
            problem_type=problem_type,
        )
        config = GileConfig(**fields)
        if UNITS[unit]["output_layer"] == "gile" and "joint_size" not in UNITS[unit]:
            equal = joint_size_for(config.document_size, config.label_size, len(labels))  # Eq. 19
            config.joint_size = recipe.joint_size or equal
        processor = GileProcessor.for_config(build_tokenizer(vocabulary=corpus.words), config)
        model = GileForSequenceClassification(config)
        set_word_vectors(model, corpus.vectors)
        model.get_input_embeddings().requires_grad_(recipe.train_word_vectors)
        model.set_labels(labels, processor, torch.from_numpy(corpus.label_input_ids))

        # 3. One document of each language at every step, and all seen labels of its language.
        read = flatten(parts) if config.text_config.text_encoder_type in ("nn", "wan") else parts
        documents = MultilingualDataset(
            {language: read[language]["train"] for language in languages},
            rounds=recipe.epoch_size or None,
            seed=args.seed,
        )
        share = None if recipe.label_share >= 1 else max(1, round(recipe.label_share * len(seen)))
        sampler = LabelSampler(len(labels), num_negatives=share, columns=seen, seed=args.seed)
        model.loss_function = GileLoss(RANKING.get(unit, "cross_entropy"))
        dev = concatenate_datasets([read[language]["dev"] for language in languages])
        prefix = "seen_" if unseen else ""
        mask = labels.seen if unseen else None
        metrics[unit] = f"eval_{prefix}{'accuracy' if one_label else 'average_precision'}"
        trainer = Trainer(
            model,
            run_arguments(args, folder / unit, metrics[unit]),
            data_collator=GileDataCollator(processor, sampler),
            train_dataset=documents,
            eval_dataset=dev,
            processing_class=processor,
            compute_metrics=LabelMetrics(len(labels), seen=mask, one_label=one_label),
            callbacks=[EpochCallback(sampler, documents)],
        )
        say(f"\n{unit}: {count_parameters(model):,} parameters, joint size {config.joint_size}")
        results[unit] = fit(trainer, recipe.patience)

        # 4. Each language on its own.
        for language in languages:
            results[unit][language] = measure(trainer, read[language], language, labels, recipe, masked=bool(unseen))
        if recipe.save_models:
            say_calibration(calibrate_on(trainer, dev, seen, recipe.calibration), say)
            save_model(trainer, folder / unit / "model")
        if args.process_index == 0:
            write_results(folder, results, metrics)
            if recipe.save_models:
                test = concatenate_datasets([read[language]["test"] for language in languages])
                add_card(
                    folder / unit / "model",
                    model,
                    OfWordIds(processor),
                    test["input_ids"],
                    [[labels[column].id for column in row] for row in test["labels"]],
                    trainer,
                    info,
                    language=test["language"],
                )

    say(table(results, languages))


def measure(
    trainer: Trainer, parts: dict[str, Any], language: str, labels: LabelSet, recipe: Recipe, masked: bool
) -> dict[str, Any]:
    """The figures of a language: at the paper's threshold, and at the one that is best on development documents.

    Of documents with one label each, those of the best label; `masked` figures are of seen and unseen labels apart.
    """
    mask = labels.seen if masked else None
    if trainer.model.config.problem_type == "single_label_classification":
        trainer.compute_metrics = LabelMetrics(len(labels), mask, one_label=True)
        return {"test": trainer.evaluate(parts["test"], metric_key_prefix="test")}
    fixed = paper_threshold(labels.language_labels[language], low_resource=recipe.percent < 100)
    trainer.compute_metrics = ThresholdTuner(len(labels), seen=labels.seen)
    tuned = trainer.evaluate(parts["dev"])["eval_threshold"]
    result: dict[str, Any] = {"tuned_threshold": tuned, "fixed_threshold": fixed}
    for name, threshold in {"tuned": tuned, "fixed": fixed}.items():
        trainer.compute_metrics = LabelMetrics(len(labels), mask, threshold)
        result["test"] = trainer.evaluate(parts["test"], metric_key_prefix="test")
        result[f"{name}_f1"] = result["test"][f"test_{'seen_' if masked else ''}micro_f1"]
    return result


def check_recipe(recipe: Recipe, args: TrainingArguments) -> None:
    """Names settings that do not exist, and files that are not there, before any is read."""
    choices: dict[str, Sequence[str]] = {
        "text_encoder_type": ("nn", "hnn", "wan", "han"),
        "encoder_cell": ("dense", "gru", "bigru"),
        "sharing": ("none", "encoders", "attention", "both"),
    }
    for name, known in choices.items():
        check_choice(name, getattr(recipe, name), known)
    for name, known in {"calibration": CALIBRATIONS, "problem_type": PROBLEM_TYPES}.items():
        if getattr(recipe, name) is not None:
            check_choice(name, getattr(recipe, name), known)
    check_problem_type(recipe, recipe.problem_type)
    for unit in recipe.units:
        check_choice("units", unit, NEWS_UNITS)
    train = Path(recipe.data) / "train"
    check_files({"data": [str(Path(recipe.data) / part) for part in ("train", "dev", "test")]})
    for language in recipe.languages:
        check_choice("languages", language, sorted(file.stem for file in train.glob("*.json")))
    if recipe.card is not None:
        check_files({"card": [recipe.card]})


class OfWordIds:
    """What a processor makes of documents that are word ids already.

    Args:
        processor: The processor.
    """

    def __init__(self, processor: GileProcessor) -> None:
        self.processor = processor

    def __call__(self, text: list[Any], **_: Any) -> BatchFeature:
        """Pads documents; the language is in their words."""
        return BatchFeature(self.processor.pad_documents(text))


def attention_size(recipe: Recipe) -> int:
    """As large as what the encoder gives, which makes the parameters of the paper's Table 4: 50K, 138K and 377K."""
    return recipe.hidden_size * (2 if recipe.encoder_cell == "bigru" else 1)


def hold_out(labels: LabelSet, share: float) -> tuple[LabelSet, set[int]]:
    """Marks a share of the labels as unseen, chosen by a hash of their ids, and gives their columns."""

    def draw(label_id: str) -> float:
        return int.from_bytes(hashlib.sha256(label_id.encode()).digest()[:8], "big") / 2**64

    held_out = {column for column, label in enumerate(labels) if not label.seen or draw(label.id) < share}
    marked = (
        replace(label, seen=False, count=0) if column in held_out else label for column, label in enumerate(labels)
    )
    return LabelSet(marked), held_out


def of_training(labels: LabelSet, parts: list[Any]) -> LabelSet:
    """The labels with their numbers of training documents; those without any are stored as unseen."""
    counts = Counter(column for rows in parts for own in rows["labels"] for column in own)
    return LabelSet(
        replace(label, seen=counts[column] > 0, count=counts[column]) for column, label in enumerate(labels)
    )


def split_of(documents: dict[str, Any], language: str, unseen: set[int]) -> dict[str, Any]:
    """The splits of a language; documents that are not for the test lose their unseen labels."""
    parts = {}
    for part, rows in documents.items():
        if unseen and part != "test":
            rows = drop_labels(rows, unseen)
        parts[part] = rows if "language" in rows.column_names else rows.add_column("language", [language] * len(rows))
    return parts


def flatten(parts: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Documents of words, for an encoder without sentences."""

    def words(row: dict[str, Any]) -> dict[str, Any]:
        return {"input_ids": [word for sentence in row["input_ids"] for word in sentence]}

    return {language: {part: rows.map(words) for part, rows in own.items()} for language, own in parts.items()}


def table(results: dict[str, Any], languages: list[str]) -> str:
    """The figures of each language, in percent: micro-F1 at the paper's threshold and at the tuned one, or accuracy."""
    one_label = all("fixed_f1" not in result[language] for result in results.values() for language in languages)
    heading, note = "test, micro-F1", "at the paper's threshold / at the best one on development documents"
    if one_label:
        heading, note = "test", "accuracy / macro-F1 of the label with the highest score"

    def cell(result: dict[str, Any]) -> str:
        return f"{100 * result['fixed_f1']:.1f} / {100 * result['tuned_f1']:.1f}"

    def cell_of_one(result: dict[str, Any]) -> str:
        test = result["test"]
        prefix = "test_seen_" if "test_seen_accuracy" in test else "test_"
        return f"{100 * test[f'{prefix}accuracy']:.1f} / {100 * test[f'{prefix}macro_f1']:.1f}"

    lines = ["", f"{heading:16}" + "".join(f"{language:>20}" for language in languages) + f"{'minutes':>10}"]
    for unit, result in results.items():
        cells = [(cell_of_one if one_label else cell)(result[language]) for language in languages]
        lines.append(f"{unit:16}" + "".join(f"{own:>20}" for own in cells) + f"{result['seconds'] / 60:>10.1f}")
    return "\n".join([*lines, note])


if __name__ == "__main__":
    main()
