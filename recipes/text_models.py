"""Trains output layers on the same texts and labels: what recipes/train_bioasq.py and recipes/train_table.py share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from training import count_parameters, train, write_results
from transformers import Trainer, TrainingArguments, set_seed
from units import UNITS, unit_fields

from hf_gile import GileConfig, GileForSequenceClassification, GileProcessor, LabelSet, build_tokenizer
from hf_gile.data import load_word_vectors
from hf_gile.metrics import LabelMetrics
from hf_gile.training import (
    EpochCallback,
    GileDataCollator,
    HardNegatives,
    LabelSampler,
    ThresholdTuner,
    encode_dataset,
)

TOP_K = (5, 10, 20)
"""Precision, recall and nDCG are given at these numbers of labels."""

NEGATIVES = ("uniform", "frequency", "in_batch")
"""What `--negatives` can be."""


@dataclass
class ModelSettings:
    """The model and how its labels are sampled. In quotes: the paper's words, section 4.1.1."""

    units: list[str] = field(
        default_factory=lambda: ["linear", "gile"], metadata={"help": f"Output layers to train: {', '.join(UNITS)}."}
    )
    text_encoder_type: str = field(default="wan", metadata={"help": "wan (the paper's), nn, hnn or han."})
    encoder_cell: str = field(default="dense", metadata={"help": "'DENSE encoder'; or gru, bigru."})
    embedding_size: int = field(default=100, metadata={"help": "'100-dimensional word embeddings, encoder, attention'"})
    joint_size: int = field(default=500, metadata={"help": "'joint input-label embedding of 500'"})
    hidden_act: str = field(default="relu", metadata={"help": "'ReLU activation'; tanh was better wherever tried."})
    max_words: int = field(default=300, metadata={"help": "'maximum number of 300 words per document'"})
    max_label_words: int = field(default=50, metadata={"help": "'and 50 words per label'"})
    min_count: int = field(
        default=3, metadata={"help": "'rare word replacements (UNK)'; the paper does not say how rare."}
    )
    word_vectors: str | None = field(
        default=None, metadata={"help": "File of word vectors to start from; they give the embedding size."}
    )
    freeze_word_vectors: bool = field(default=False, metadata={"help": "Train only what is above the word vectors."})
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
    negatives: str = field(
        default="uniform",
        metadata={"help": "How they are sampled: uniform (the paper's), frequency (by the square root of the documents "
                  "of a label), or in_batch (the gold labels of the batch and no others; biased)."},
    )  # fmt: skip
    hard_negatives: int = field(
        default=0,
        metadata={"help": "Best-scored labels that are not gold, for each document, added to the sample of the batch."},
    )
    hard_refresh_steps: int = field(
        default=100, metadata={"help": "Steps between two encodings of the labels in which hard ones are searched."}
    )
    label_chunk_size: int = field(
        default=2048,
        metadata={"help": "Labels scored at a time where all are trained on (num_negatives 0): the exact loss, without "
                  "holding all scores. 0 for all at once."},
    )  # fmt: skip
    share_labels: bool = field(
        default=False,
        metadata={"help": "Of several processes, each scores the documents of all with its share of the labels; takes "
                  "all labels (num_negatives 0)."},
    )  # fmt: skip
    per_document: bool = field(default=False, metadata={"help": "Sample for each document, as the paper."})
    unweighted: bool = field(
        default=False, metadata={"help": "Do not weight the sample to the full set, as the paper."}
    )
    patience: int = field(default=2, metadata={"help": "Epochs without a better validation before training stops."})
    test_curve: bool = field(
        default=False, metadata={"help": "Evaluate the test part after every epoch too; nothing is chosen by it."}
    )


def train_text_models(
    settings: ModelSettings,
    args: TrainingArguments,
    parts: dict[str, Dataset],
    labels: LabelSet,
    *,
    text: str | Callable[[dict[str, Any]], str],
    gold: str,
    say: Callable[..., None],
) -> dict[str, Any]:
    """Trains each unit of the settings, evaluates it on the test part, and saves it in OUTPUT_DIR/UNIT/model.

    Args:
        settings: The models.
        args: The training arguments; `output_dir` gets a folder for each unit, `results.json` and `curves.png`.
        parts: The documents to train on, for `validation` and for the `test`.
        labels: The labels that training has, with their counts, then those it has not.
        text: The column of the texts, or a function that makes a text of a row.
        gold: The column of the lists of label ids.
        say: Prints, in one of the processes.

    Returns:
        What was written to `results.json`: of each unit what `train` returns, `threshold`, the best one for the
        validation part, and `test`, the figures of the test part (`seen_` and `unseen_` if there are unseen labels).
    """
    if settings.negatives not in NEGATIVES:
        raise ValueError(f"negatives must be one of {', '.join(NEGATIVES)}, got {settings.negatives!r}")
    if settings.share_labels:
        ranking = [unit for unit in settings.units if ranks_all_labels(unit)]
        takes_all = not settings.num_negatives and settings.negatives != "in_batch" and settings.label_chunk_size > 0
        if not takes_all or args.world_size < 2 or ranking:
            raise ValueError(
                "share_labels divides all labels among processes: it needs num_negatives 0, negatives other than "
                "in_batch, label_chunk_size above 0, at least two processes (accelerate launch) and units whose loss "
                f"is no ranking loss; got num_negatives {settings.num_negatives}, negatives {settings.negatives}, "
                f"label_chunk_size {settings.label_chunk_size}, {args.world_size} processes, ranking losses "
                f"{ranking or 'none'}"
            )
    folder = Path(args.output_dir)
    num_seen = sum(labels.seen)
    assert not any(labels.seen[num_seen:]), "seen labels stand first"

    # Words of documents and of seen labels; what an unseen label says must be learned from these, unless word vectors
    # say it. All units have the same words.
    with args.main_process_first(desc="words"):
        tokenizer, vectors = make_words(settings, parts["train"], labels[:num_seen], text)
    say(f"{len(tokenizer):,} words; {labels}")
    labels_per_document = sum(label.count for label in labels) / len(parts["train"])
    encoded: dict[bool, dict[str, Dataset]] = {}
    results: dict[str, Any] = {}
    metrics: dict[str, str] = {}
    for unit in settings.units:
        # The same encoder under every output layer. A linear unit has no use for labels it is not trained on.
        set_seed(args.seed)
        is_linear = UNITS[unit]["output_layer"] == "linear"
        label_set = labels[:num_seen] if is_linear else labels
        size = settings.embedding_size
        config = GileConfig(
            **unit_fields(
                unit,
                vocab_size=len(tokenizer),
                text_encoder_type=settings.text_encoder_type,
                encoder_cell=settings.encoder_cell,
                embedding_size=size if vectors is None else vectors.shape[1],
                hidden_size=size,
                attention_size=size,
                hidden_act=settings.hidden_act,
                joint_act=settings.hidden_act,
                joint_size=settings.joint_size,
                max_words=settings.max_words,
                max_label_words=settings.max_label_words,
                embedding_std=settings.embedding_std,
                freeze_word_vectors=settings.freeze_word_vectors,
                word_dropout=settings.word_dropout,
                label_prior=settings.label_prior or min(0.5, labels_per_document / num_seen),
                label_chunk_size=0 if settings.num_negatives or ranks_all_labels(unit) else settings.label_chunk_size,
                num_labels=len(label_set),
                problem_type="multi_label_classification",
            )
        )
        processor = GileProcessor.for_config(tokenizer, config)
        model = GileForSequenceClassification(config)
        if vectors is not None:
            model.gile.set_word_vectors(vectors)
        model.set_labels(label_set, processor)

        # All gold labels of a batch, and a sample of the other seen labels. Unseen labels are never sampled.
        in_batch, by_frequency = settings.negatives == "in_batch", settings.negatives == "frequency"
        sampler = LabelSampler(
            len(label_set),
            num_negatives=0 if in_batch else settings.num_negatives or None,
            columns=range(num_seen),
            per_document=settings.per_document,
            weighted=not settings.unweighted,
            frequencies=[label.count**0.5 for label in label_set] if by_frequency else None,
            seed=args.seed,
        )
        if settings.hard_negatives:
            model.column_miner = HardNegatives(
                settings.hard_negatives, settings.hard_refresh_steps, columns=range(num_seen)
            )
        if settings.share_labels and not is_linear:
            model.share_labels()
        reads_sentences = config.text_encoder_type in ("hnn", "han")
        with args.main_process_first(desc="words and columns"):
            if reads_sentences not in encoded:
                encoded[reads_sentences] = {
                    part: encode_dataset(rows, processor, labels, text, gold, on_unknown_label="drop")
                    for part, rows in parts.items()
                }
            own = {
                part: rows.map(first_columns, fn_kwargs={"number": num_seen}, batched=True, input_columns="labels")
                if is_linear and num_seen < len(labels)
                else rows
                for part, rows in encoded[reads_sentences].items()
            }
        args.output_dir = str(folder / unit)
        has_unseen = len(label_set) > num_seen
        prefix = "seen_" if has_unseen else ""
        metrics[unit] = args.metric_for_best_model = f"eval_validation_{prefix}average_precision"
        args.greater_is_better = True
        seen = label_set.seen if has_unseen else None
        trainer = Trainer(
            model,
            args,
            data_collator=GileDataCollator(processor, sampler),
            train_dataset=own["train"],
            eval_dataset={part: own[part] for part in ("validation", "test") if part != "test" or settings.test_curve},
            processing_class=processor,
            compute_metrics=LabelMetrics(len(label_set), seen, top_k=TOP_K),
            callbacks=[EpochCallback(sampler)],
        )
        say(f"\n{unit}: {count_parameters(model):,} parameters")
        results[unit] = train(trainer, settings.patience)

        # The decision threshold is that of the validation part.
        trainer.compute_metrics = ThresholdTuner(len(label_set))
        threshold = trainer.evaluate(own["validation"])["eval_threshold"]
        trainer.compute_metrics = LabelMetrics(len(label_set), seen, threshold, top_k=TOP_K)
        results[unit] |= {"threshold": threshold, "test": trainer.evaluate(own["test"], metric_key_prefix="test")}
        if config.word_prediction > 0 and has_unseen:  # AiTextML inf: the vector of an unseen label predicts its words
            model.infer_label_vectors(torch.arange(num_seen, len(labels), device=model.device))
            inferred = trainer.evaluate(own["test"], metric_key_prefix="test")
            results[f"{unit}_inferred"] = {**results[unit], "test": inferred}

        # A folder as the Hub has it: weights, code, words, labels.
        trainer.save_model(str(folder / unit / "model"))
        (folder / unit / "model" / "training_args.bin").unlink(missing_ok=True)  # a pickle: nothing to hand to others
        if args.process_index == 0:
            write_results(folder, results, metrics)
    args.output_dir = str(folder)
    return results


def ranks_all_labels(unit: str) -> bool:
    """Whether the loss of a unit needs the scores of all labels at once."""
    return UNITS.get(unit, {}).get("training_loss") in ("warp", "hinge")


def make_words(
    settings: ModelSettings, documents: Dataset, labels: LabelSet, text: str | Callable[[dict[str, Any]], str]
) -> tuple[Any, Any]:
    """The tokenizer, and the word vectors to start from, if a file of them is given."""
    texts = documents[text] if isinstance(text, str) else (text(row) for row in documents)
    label_texts = [] if settings.forget_label_words else labels.texts
    tokenizer = build_tokenizer(texts, label_texts=label_texts, min_count=settings.min_count)
    if settings.word_vectors is None:
        return tokenizer, None
    # Every word that has a vector, as an unseen label may say it; and, if they are trained, the other words.
    table = load_word_vectors(settings.word_vectors).normalized()
    words, vectors = table.table()
    if not settings.freeze_word_vectors:
        known = set(words)
        others = [word for word in sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get) if word not in known]
        fresh = np.random.default_rng(0).normal(scale=vectors.std(), size=(len(others), vectors.shape[1]))
        words, vectors = [*words, *others], np.concatenate([vectors, fresh.astype(np.float32)])
    return build_tokenizer(vocabulary=words), vectors


def first_columns(labels: list[Sequence[int]], number: int) -> dict[str, list[list[int]]]:
    """Gold columns below a number: those of the labels that a linear unit has."""
    return {"labels": [[column for column in columns if column < number] for columns in labels]}


def table(results: dict[str, Any], columns: dict[str, str], groups: Sequence[str], note: str) -> str:
    """The figures of the test part in percent, for groups of labels.

    Args:
        results: What `train_text_models` returned.
        columns: From the name of a figure to its heading.
        groups: Any of `"all"`, `"seen"` and `"unseen"`; without unseen labels, all labels are seen.
        note: The last line.
    """
    width = 9 * len(columns)
    lines = ["", f"{'test':18}" + "".join(f"{f'{group} labels':^{width}}" for group in groups)]
    lines += [f"{'':18}" + "".join(f"{heading:>9}" for heading in columns.values()) * len(groups) + f"{'minutes':>10}"]
    for unit, result in results.items():
        test = result["test"]
        only_seen = "test_seen_documents" not in test
        cells = []
        for group in groups:
            prefix = "" if group == "all" or only_seen else f"{group}_"
            known = not (only_seen and group == "unseen")
            cells += [f"{100 * test[f'test_{prefix}{name}']:.2f}" if known else "-" for name in columns]
        lines.append(f"{unit:18}" + "".join(f"{cell:>9}" for cell in cells) + f"{result['seconds'] / 60:>10.1f}")
    return "\n".join([*lines, note])
