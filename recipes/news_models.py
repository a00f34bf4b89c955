"""Creates, trains and evaluates models of news in one or several languages."""

from pathlib import Path
from typing import Any

import torch
from papers.multilingual import MultilingualDataset
from papers.news import News, joint_size_for, paper_threshold
from papers.threshold_tuner import ThresholdTuner
from papers.units import UNITS
from torch.utils.data import DataLoader
from transformers import Trainer, TrainingArguments

from hf_gile import GileForSequenceClassification, GileProcessor, build_tokenizer
from hf_gile.metrics import LabelMetrics
from hf_gile.training import (
    EpochCallback,
    GileDataCollator,
    GileLoss,
    LabelSampler,
    calibrate,
    set_word_vectors,
)
from hf_gile.training.experiment import run_arguments

TEXT_FIELDS = ("text_encoder_type", "encoder_cell", "hidden_size", "hidden_act", "word_dropout")
LIMITS = ("max_sentences", "max_sentence_words")


def model_fields(recipe: Any) -> dict[str, Any]:
    """Returns the fields of a `GileConfig` that do not depend on the data."""
    fields = {name: getattr(recipe, name) for name in (*TEXT_FIELDS, *LIMITS, "sharing")}
    # Attention with the size of the encoder output gives the parameters of the paper's Table 4: 50K, 138K and 377K.
    fields["attention_size"] = recipe.hidden_size * (2 if recipe.encoder_cell == "bigru" else 1)
    fields["max_words"] = recipe.max_sentences * recipe.max_sentence_words
    return fields | {"joint_act": recipe.hidden_act, "max_label_words": 100}


def make_model(recipe: Any, unit: str, news: News, problem_type: str) -> tuple[Any, GileProcessor]:
    """Creates a model with word vectors and labels, and its processor."""
    corpus, labels, languages = news.corpus, news.labels, list(news.parts)
    gold_counts = [len(row) for language in languages for row in news.parts[language]["train"]["labels"]]
    config = UNITS[unit].config(
        **model_fields(recipe),
        vocab_size=len(corpus.words),
        embedding_size=corpus.vectors.shape[1],
        languages=languages,
        language_labels=labels.language_labels,
        label_prior=sum(gold_counts) / len(gold_counts) / (len(news.seen) / len(languages)),
        num_labels=len(labels),
        problem_type=problem_type,
    )
    if UNITS[unit].fields["output_layer"] == "gile" and "joint_size" not in UNITS[unit].fields:
        equal_capacity = joint_size_for(config.document_size, config.label_size, len(labels))  # Eq. 19
        config.joint_size = recipe.joint_size or equal_capacity
    processor = GileProcessor.for_config(build_tokenizer(vocabulary=corpus.words), config)
    model = GileForSequenceClassification(config)
    set_word_vectors(model, corpus.vectors)
    model.get_input_embeddings().requires_grad_(recipe.train_word_vectors)
    model.set_labels(labels, processor, torch.from_numpy(corpus.label_input_ids))
    model.loss_function = GileLoss()
    return model, processor


def make_trainer(
    recipe: Any, args: TrainingArguments, unit: str, model: Any, processor: GileProcessor, news: News
) -> Trainer:
    """Creates a trainer that alternates languages, and selects the epoch on the dev documents of all languages."""
    train = {language: parts["train"] for language, parts in news.parts.items()}
    documents = MultilingualDataset(train, rounds=recipe.epoch_size or None, seed=args.seed)
    num_negatives = None if recipe.label_share >= 1 else max(1, round(recipe.label_share * len(news.seen)))
    sampler = LabelSampler(len(news.labels), num_negatives=num_negatives, columns=news.seen, seed=args.seed)
    single_label = model.config.problem_type == "single_label_classification"
    metric = f"eval_{'seen_' if news.held_out else ''}{'accuracy' if single_label else 'average_precision'}"
    return Trainer(
        model,
        run_arguments(args, Path(args.output_dir) / unit, metric),
        data_collator=GileDataCollator(processor, sampler),
        train_dataset=documents,
        eval_dataset=news.all("dev"),
        processing_class=processor,
        compute_metrics=LabelMetrics(len(news.labels), seen=news.groups, one_label=single_label),
        callbacks=[EpochCallback(sampler, documents)],
    )


def measure(trainer: Trainer, language: str, news: News, recipe: Any) -> dict[str, Any]:
    """Measures a language at the paper's threshold, and at the best threshold on development documents.

    If each document has one label, the label with the highest score counts; held-out labels are measured separately.
    """
    labels, parts = news.labels, news.parts[language]
    if trainer.model.config.problem_type == "single_label_classification":
        trainer.compute_metrics = LabelMetrics(len(labels), news.groups, one_label=True)
        return {"test": trainer.evaluate(parts["test"], metric_key_prefix="test")}
    fixed = paper_threshold(labels.language_labels[language], low_resource=recipe.percent < 100)
    trainer.compute_metrics = ThresholdTuner(len(labels), seen=labels.seen)
    tuned = trainer.evaluate(parts["dev"])["eval_threshold"]
    result: dict[str, Any] = {"tuned_threshold": tuned, "fixed_threshold": fixed}
    for name, threshold in {"tuned": tuned, "fixed": fixed}.items():
        trainer.compute_metrics = LabelMetrics(len(labels), news.groups, threshold)
        result["test"] = trainer.evaluate(parts["test"], metric_key_prefix="test")
        result[f"{name}_f1"] = result["test"][f"test_{'seen_' if news.held_out else ''}micro_f1"]
    return result


def calibrate_on(trainer: Trainer, columns: list[int], method: str | None) -> dict[str, Any]:
    """Calibrates the model of a trainer on its development documents, identically in each process."""
    if method == "none" and trainer.model.config.problem_type == "single_label_classification":
        return {}
    collator = GileDataCollator(trainer.processing_class)
    batches = DataLoader(trainer.eval_dataset, trainer.args.per_device_eval_batch_size, collate_fn=collator)
    options = {"method": method, "label_thresholds": method != "none", "columns": columns, "bf16": trainer.args.bf16}
    return calibrate(trainer.model, batches, raise_unseen=True, **options)


def table(results: dict[str, Any], languages: list[str]) -> str:
    """Formats the results of each language in percent: micro-F1 at the paper's and the tuned threshold, or accuracy."""
    single_label = all("fixed_f1" not in result[language] for result in results.values() for language in languages)
    heading, note = (
        "test, micro-F1",
        "at the paper's threshold / at the best threshold on development documents",
    )
    if single_label:
        heading, note = "test", "accuracy / macro-F1 of the label with the highest score"

    def cell(result: dict[str, Any]) -> str:
        return f"{100 * result['fixed_f1']:.1f} / {100 * result['tuned_f1']:.1f}"

    def single_label_cell(result: dict[str, Any]) -> str:
        test = result["test"]
        prefix = "test_seen_" if "test_seen_accuracy" in test else "test_"
        return f"{100 * test[f'{prefix}accuracy']:.1f} / {100 * test[f'{prefix}macro_f1']:.1f}"

    lines = ["", f"{heading:16}" + "".join(f"{language:>20}" for language in languages) + f"{'minutes':>10}"]
    for unit, result in results.items():
        cells = [(single_label_cell if single_label else cell)(result[language]) for language in languages]
        lines.append(f"{unit:16}" + "".join(f"{value:>20}" for value in cells) + f"{result['seconds'] / 60:>10.1f}")
    return "\n".join([*lines, note])
