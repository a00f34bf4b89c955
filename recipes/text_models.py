"""Trains output layers on the same texts and labels: what recipes/train_bioasq.py and recipes/train_table.py share."""

import difflib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from baselines import MODELS, RANKING, AiTextML
from cards import CALIBRATIONS, add_card, card_info, say_calibration
from datasets import Dataset
from huggingface_hub.errors import StrictDataclassError
from training import write_results
from transformers import AutoConfig, TrainingArguments, set_seed
from units import UNITS, check_choice, unit_fields

from hf_gile import GileConfig, GileForSequenceClassification, GileProcessor, LabelSet, build_tokenizer
from hf_gile.data import held_out_labels, load_word_vectors
from hf_gile.data.files import find_files
from hf_gile.data.zero_shot import drop_labels, fraction_of
from hf_gile.metrics import LabelMetrics
from hf_gile.training import (
    GileLoss,
    HardNegatives,
    LabelParaphrases,
    LabelSampler,
    add_lora,
    class_balanced_weights,
    log_idf,
    merge_lora,
    model_from_text_encoder,
    processor_from_text_encoder,
    propensity_weights,
    set_label_priors,
    set_lexical_weights,
    set_token_weights,
    set_word_vectors,
)
from hf_gile.training.experiment import (
    Experiment,
    count_parameters,
    documents_per_second,
    encode_parts,
    first_columns,
    pretrained_optimizer,
    run_arguments,
    with_a_label,
)

TOP_K = (5, 10, 20)
"""Precision, recall and nDCG are given at these numbers of labels; of the test part also at 1 and 3."""

LABEL_TEXTS = ("name", "synonyms", "definitions")
"""What `--label_texts` can be."""

OF_TRAINING = (
    "freeze_text_encoder",
    "joint_dropout",
    "lexical_size",
    "lexical_scale",
    "unseen_scale",
    "unseen_offset",
)
"""What of a model that is trained on, `--start_from`, a run may have otherwise."""

PROBLEM_TYPES = ("single_label_classification", "multi_label_classification")
"""What `--problem_type` can be."""

NEGATIVES = ("uniform", "frequency", "in_batch")
"""What `--negatives` can be."""


@dataclass
class ModelSettings:
    """The model and how its labels are sampled. In quotes: the paper's words, section 4.1.1."""

    GROUPS: ClassVar[dict[str, str]] = {
        "train_files": "Documents",
        "label_file": "Labels, and how files are read",
        "units": "Model",
        "num_negatives": "Labels that a step trains on",
        "text_encoder": "Pretrained encoder",
        "label_texts": "Texts of labels",
        "bag_size": "Further parts of the score",
        "class_balanced": "Rare labels",
        "held_out_labels": "Choice of the epoch, probabilities, card",
    }

    units: list[str] = field(
        default_factory=lambda: ["linear", "gile"], metadata={"help": f"Output layers to train: {', '.join(UNITS)}."}
    )
    text_encoder_type: str = field(default="wan", metadata={"help": "wan (the paper's), nn, hnn or han."})
    encoder_cell: str | None = field(
        default=None, metadata={"help": "'DENSE encoder', dense; or gru, bigru. Of windows by default none."}
    )
    embedding_size: int = field(default=100, metadata={"help": "'100-dimensional word embeddings, encoder, attention'"})
    joint_size: int = field(default=500, metadata={"help": "'joint input-label embedding of 500'"})
    hidden_act: str = field(default="relu", metadata={"help": "'ReLU activation'; tanh was better wherever tried."})
    max_words: int | None = field(
        default=None,
        metadata={"help": "'maximum number of 300 words per document'; of a pretrained encoder 256 tokens."},
    )
    max_label_words: int | None = field(
        default=None, metadata={"help": "'and 50 words per label'; of a pretrained encoder 64 tokens."}
    )
    max_sentences: int | None = field(
        default=None, metadata={"help": "Sentences read of a document (30), or windows (16)."}
    )
    max_sentence_words: int | None = field(
        default=None, metadata={"help": "Words read of a sentence (30), or tokens that a window holds (128)."}
    )
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
                  "The paper: '0.3%% negative label sampling', for each document, unweighted."},
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
    text_encoder: str | None = field(
        default=None, metadata={"help": "A pretrained encoder instead of text_encoder_type: its name or its folder."}
    )
    start_from: str | None = field(
        default=None,
        metadata={"help": "Folder of a saved model to train on, with what it has learned of labels, by their ids: such "
                  "as a head trained on a frozen encoder, to tune that. Its sizes and score stay as they are."},
    )  # fmt: skip
    text_encoder_options: str = field(
        default="{}",
        metadata={"help": 'JSON of what loading the encoder takes, such as {"attention_probs_dropout_prob": 0}, which '
                  "is faster."},
    )  # fmt: skip
    hierarchical: bool = field(
        default=False, metadata={"help": "The encoder reads windows of whole sentences, with attention over them."}
    )
    pooling: str | None = field(
        default=None,
        metadata={"help": "attention (default), mean or sum; of a pretrained encoder mean (default), cls, sum or "
                  "attention."},
    )  # fmt: skip
    freeze_text_encoder: bool = field(
        default=False, metadata={"help": "Train only what is above the encoder, on vectors that it makes once."}
    )
    text_encoder_learning_rate: float = field(default=1e-4, metadata={"help": "Of the encoder's last layer."})
    layer_decay: float = field(default=1.0, metadata={"help": "Learning rate of a layer in that of the layer above."})
    lora_rank: int = field(default=0, metadata={"help": "Train adapters of this rank in the encoder, not its weights."})
    label_encoder_type: str | None = field(
        default=None,
        metadata={"help": "mean or text_encoder; by default mean, or with a pretrained "
                  "encoder text_encoder."},
    )  # fmt: skip
    label_refresh_steps: int = field(
        default=0, metadata={"help": "Steps after which the encoder reads labels anew; 0 trains it through them."}
    )
    label_texts: str = field(
        default="definitions",
        metadata={"help": "What the model reads of a label: its name, its name and synonyms, or its name and what else "
                  "the label file says (--describe, --label_description)."},
    )  # fmt: skip
    paraphrase_names: float = field(
        default=0.0, metadata={"help": "Share of the readings of a label in training that are of its name alone."}
    )
    paraphrase_synonyms: float = field(default=0.0, metadata={"help": "The same of one of its synonyms."})
    paraphrase_definitions: float = field(default=0.0, metadata={"help": "The same of its description."})
    bag_size: int = field(default=0, metadata={"help": "Size of token vectors for the overlap of words; 0 for none."})
    cosine_score: bool = field(default=False, metadata={"help": "Add the cosine of document and label to the score."})
    lexical_size: int = field(
        default=0,
        metadata={"help": "Size of a code of the words of a text (4096): labels never trained on gain what they share "
                  "with a document; 0 for none."},
    )  # fmt: skip
    lexical_scale: float = field(default=20.0, metadata={"help": "What that counts in their score."})
    unseen_scale: float = field(default=1.0, metadata={"help": "Factor of the rest of their score."})
    unseen_offset: float = field(
        default=0.0,
        metadata={"help": "Added to it. --held_out_labels fits the three and says them: for a final run without it."},
    )
    label_rows: bool = field(default=False, metadata={"help": "Add a row of its own for each label to its score."})
    frequency_priors: bool = field(
        default=False, metadata={"help": "Start the bias of each label, of a linear unit or of rows, at its frequency."}
    )
    label_row_dropout: float = field(default=0.0, metadata={"help": "Share of the labels a step scores without row."})
    joint_layers: int = field(default=1, metadata={"help": "Layers of the joint projections."})
    joint_dropout: float = field(default=0.0, metadata={"help": "Dropout before and between these layers."})
    class_balanced: float = field(
        default=0.0, metadata={"help": "beta of class-balanced weights of labels, such as 0.99; 0 for none."}
    )
    propensity_weighted: bool = field(
        default=False, metadata={"help": "Weight gold labels by what annotators are likely to miss."}
    )
    held_out_labels: int = field(
        default=0,
        metadata={"help": "Labels, by a hash of their ids, that training does not see but validation has: to choose by "
                  "--metric_for_best_model eval_validation_unseen_average_precision. The test leaves them out."},
    )  # fmt: skip
    patience: int = field(default=2, metadata={"help": "Epochs without a better validation before training stops."})
    test_curve: bool = field(
        default=False, metadata={"help": "Evaluate the test part after every epoch too; nothing is chosen by it."}
    )
    calibration: str | None = field(
        default=None,
        metadata={"help": f"How probabilities are calibrated on the validation part: {', '.join(CALIBRATIONS)}; by "
                  "default spline, for documents with one label platt."},
    )  # fmt: skip
    problem_type: str | None = field(
        default=None,
        metadata={"help": "single_label_classification (softmax) or multi_label_classification (a sigmoid for each "
                  "label); by default the former if every document has exactly one label."},
    )  # fmt: skip
    make_cards: bool = field(
        default=True, metadata={"help": "Measure each model once more as it will be used, and write its card."}
    )
    card: str | None = field(
        default=None,
        metadata={"help": "YAML file of what the card is to say, by the fields of hf_gile.publishing.CardInfo."},
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
    about: Mapping[str, Any],
    tested_on: str | None = None,
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
        about: Fields of `CardInfo` that the recipe knows.
        tested_on: The name of the test documents in the card, where they have one of their own.

    Returns:
        What was written to `results.json`: of each unit what `train` returns; `threshold`, the best one of the seen
        labels for the validation part (not of documents with one label each), and `unseen_threshold`, if that part
        tells enough of unseen labels, which else have that of the seen ones; and `test`, the figures of the test part
        (`seen_` and `unseen_` if there are unseen labels), with `test_documents_per_second`, from texts to the scores
        of all labels.
    """
    check_settings(settings, args)
    info = card_info(settings.card, **about)
    task = make_task(settings, args, parts, labels, text, gold, say)
    folder, encoded = Path(args.output_dir), {}
    results: dict[str, Any] = {}
    metrics: dict[str, str] = {}
    for unit in settings.units:
        set_seed(args.seed)
        experiment = make_experiment(settings, args, unit, task, encoded)
        metrics[unit] = experiment.args.metric_for_best_model
        say(f"\n{unit}: {count_parameters(experiment.model):,} parameters")
        results[unit] = train_unit(settings, experiment, say)
        measure_unit(experiment, unit, task, results)
        if args.process_index == 0:
            write_results(folder, results, metrics)
        if unit in MODELS:
            continue  # to compare with, not to use
        experiment.save(folder / unit / "model")
        if args.process_index == 0 and settings.make_cards:
            rows = task.parts["test"]
            add_card(
                folder / unit / "model",
                experiment.model,
                experiment.processor,
                some_texts(rows, text, len(rows)),
                rows[gold],
                experiment.trainer,
                info,
                columns=experiment.in_test,
                num_training_documents=len(task.parts["train"]),
                dataset=tested_on,
            )
    return results


@dataclass(frozen=True, eq=False)
class TextTask:
    """What all units are trained and measured on.

    Args:
        parts: The documents of each part; those to train on without held-out labels.
        labels: The labels as the model reads them, the seen ones first.
        described: The same with all that is known of them.
        held_out: Ids of the labels that are held out for validation.
        text: The column of the texts, or a function that makes a text of a row.
        gold: The column of the lists of label ids.
        problem_type: One of `PROBLEM_TYPES`.
        words: A tokenizer, and word vectors or None; for models over words.
        prior: Probability of a label before training.
    """

    parts: dict[str, Dataset]
    labels: LabelSet
    described: LabelSet
    held_out: set[str]
    text: str | Callable[[dict[str, Any]], str]
    gold: str
    problem_type: str
    words: tuple[Any, Any]
    prior: float

    @property
    def num_seen(self) -> int:
        """Number of labels that training sees."""
        return sum(self.labels.seen)

    @property
    def one_label(self) -> bool:
        """Whether each document has one label."""
        return self.problem_type == "single_label_classification"


def make_task(
    settings: ModelSettings,
    args: TrainingArguments,
    parts: dict[str, Dataset],
    labels: LabelSet,
    text: str | Callable[[dict[str, Any]], str],
    gold: str,
    say: Callable[..., None],
) -> TextTask:
    """Holds labels out, and makes the words that all units have in common."""
    problem_type = problem_type_of(settings, parts, gold)
    if problem_type == "single_label_classification" and settings.problem_type is None:
        say(
            "every document has exactly one label: trained with softmax, chosen by accuracy (--problem_type "
            "multi_label_classification scores each label on its own)"
        )
    held_out: set[str] = set()
    if settings.held_out_labels:
        labels, held_out = hold_out(labels, settings.held_out_labels)
        with args.main_process_first(desc="held-out labels"):
            parts = {**parts, "train": drop_labels(parts["train"], held_out, gold)}
    else:
        check_unseen(args.metric_for_best_model, labels, parts["validation"][gold])
    num_seen = sum(labels.seen)
    assert not any(labels.seen[num_seen:]), "seen labels stand first"

    # Words of documents and of seen labels; what an unseen label says must be learned from these, unless word vectors
    # say it.
    described, labels = labels, as_read(labels, settings.label_texts)
    words: tuple[Any, Any] = (None, None)
    if settings.text_encoder is None and settings.start_from is None:
        with args.main_process_first(desc="words"):
            words = make_words(settings, parts["train"], labels[:num_seen], text)
        say(f"{len(words[0]):,} words")
    say(f"{labels}, {len(held_out):,} of them held out for validation" if held_out else f"{labels}")
    labels_per_document = sum(label.count for label in labels) / len(parts["train"])
    prior = settings.label_prior or min(0.5, labels_per_document / num_seen)
    return TextTask(parts, labels, described, held_out, text, gold, problem_type, words, prior)


def make_experiment(
    settings: ModelSettings,
    args: TrainingArguments,
    unit: str,
    task: TextTask,
    encoded: dict[str, dict[str, Dataset]],
) -> Experiment:
    """A unit with its documents, labels and loss; `encoded` keeps what units of the same encoder read."""
    # A linear unit has no use for labels it is not trained on.
    label_set = task.labels[: task.num_seen] if is_linear(unit) else task.labels
    model, processor = make_model(settings, unit, label_set, task.words, task.prior, task.problem_type)
    model.set_labels(label_set, processor)
    number = len(task.parts["train"])
    set_loss(settings, unit, task, model, processor, args.seed)
    kind = {"hnn": "han", "nn": "wan"}.get(
        model.config.text_config.text_encoder_type, model.config.text_config.text_encoder_type
    )
    with args.main_process_first(desc="words and columns"):
        if kind not in encoded:
            encoded[kind] = encode_parts(task.parts, model, processor, task.labels, task.text, task.gold, args)
        parts = encoded[kind]
        if len(label_set) < len(task.labels):
            parts = first_columns(parts, len(label_set))
        if task.one_label:
            parts = with_a_label(parts)
    start_from_documents(settings, unit, model, processor, encoded[kind]["train"]["input_ids"], number)
    optimizer = None
    if model.config.text_config.reads_pretrained:
        optimizer = pretrained_optimizer(model, args, settings.text_encoder_learning_rate, settings.layer_decay)
    metric = metric_name(args.metric_for_best_model, len(label_set) > task.num_seen, task.one_label)
    return Experiment(
        model,
        processor,
        parts,
        make_sampler(settings, label_set, task.num_seen, args.seed),
        run_arguments(args, Path(args.output_dir) / unit, metric),
        held_out=task.held_out,
        one_label=task.one_label,
        num_documents=number,
        top_k=TOP_K,
        test_curve=settings.test_curve,
        optimizer=optimizer,
    )


def is_linear(unit: str) -> bool:
    """Whether a unit reads no labels."""
    return UNITS[unit]["output_layer"] == "linear"


def make_sampler(settings: ModelSettings, labels: LabelSet, num_seen: int, seed: int) -> LabelSampler:
    """All gold labels of a batch, and a sample of the other seen labels; unseen labels are never sampled."""
    counts = [label.count for label in labels]
    return LabelSampler(
        len(labels),
        num_negatives=0 if settings.negatives == "in_batch" else settings.num_negatives or None,
        columns=range(num_seen),
        per_document=settings.per_document,
        weighted=not settings.unweighted,
        frequencies=[count**0.5 for count in counts] if settings.negatives == "frequency" else None,
        seed=seed,
        label_weights=class_balanced_weights(counts, settings.class_balanced) if settings.class_balanced else None,
    )


def set_loss(
    settings: ModelSettings, unit: str, task: TextTask, model: Any, processor: GileProcessor, seed: int
) -> None:
    """Gives a model the loss that the settings name."""
    paraphrases = miner = None
    if any(shares := paraphrase_shares(settings)) and not is_linear(unit):
        known = task.described if settings.label_texts == "name" else model.label_set
        paraphrases = LabelParaphrases(known, processor, *shares, seed=seed)
    if settings.hard_negatives:
        miner = HardNegatives(settings.hard_negatives, settings.hard_refresh_steps, columns=range(task.num_seen))
    counts, number = [label.count for label in model.label_set], len(task.parts["train"])
    model.loss_function = GileLoss(
        **loss_options(settings, unit),
        share_labels=settings.share_labels and not is_linear(unit),
        positive_weights=propensity_weights(counts, number) if settings.propensity_weighted else None,
        miner=miner,
        paraphrases=paraphrases,
    )


def start_from_documents(
    settings: ModelSettings, unit: str, model: Any, processor: GileProcessor, documents: Any, number: int
) -> None:
    """Sets what a model knows of the training documents before it is trained, and adds adapters."""
    config, special = model.config, processor.tokenizer.all_special_ids
    if config.bag_size and settings.start_from is None:
        set_token_weights(model, log_idf(documents, config.text_config.vocab_size, special))
    if config.lexical_size:
        set_lexical_weights(model, documents, special)
    if settings.frequency_priors and (is_linear(unit) or config.label_rows):
        set_label_priors(model, number)
    if settings.lora_rank:
        add_lora(model, settings.lora_rank, alpha=2 * settings.lora_rank)


def train_unit(settings: ModelSettings, experiment: Experiment, say: Callable[..., None]) -> dict[str, Any]:
    """Trains a unit and fits what goes with it; what is returned goes to `results.json`."""
    result = experiment.fit(settings.patience)
    if settings.lora_rank:
        merge_lora(experiment.model)
    weights = experiment.weigh_unseen()
    if weights:
        say("  for labels never trained on: " + ", ".join(f"--{name} {weights[name]:.3g}" for name in weights))
    reliable = experiment.calibrate(settings.calibration)
    say_calibration(reliable, say)
    return {**result, **weights, **experiment.tune(), "calibration": reliable}


def measure_unit(experiment: Experiment, unit: str, task: TextTask, results: dict[str, Any]) -> None:
    """Adds the figures of the test part to the results of a unit."""
    model, names = experiment.model, ("threshold", "unseen_threshold")
    thresholds = {name: results[unit][name] for name in names if name in results[unit]}
    results[unit]["test"] = experiment.test(**thresholds)
    if isinstance(model, AiTextML) and len(task.labels) > task.num_seen:
        # AiTextML inf: the vector of an unseen label predicts its words.
        model.infer_label_vectors(torch.arange(task.num_seen, len(task.labels), device=model.device))
        results[f"{unit}_inferred"] = {**results[unit], "test": experiment.test(**thresholds)}
    texts = some_texts(task.parts["test"], task.text)
    speed = documents_per_second(model, experiment.processor, texts, experiment.args.bf16)
    results[unit]["test"]["test_documents_per_second"] = speed


def check_unseen(wanted_metric: str | None, labels: LabelSet, gold: Sequence[Sequence[str]]) -> None:
    """Makes sure that validation documents have unseen labels, where these choose the epoch.

    Raises:
        ValueError: They have none.
    """
    unseen = {label.id for label in labels if not label.seen}
    if "unseen" in (wanted_metric or "") and unseen.isdisjoint(label_id for row in gold for label_id in row):
        raise ValueError(
            f"metric_for_best_model {wanted_metric}: no validation document has an unseen label; hold some out of "
            "training with --held_out_labels"
        )


def check_settings(settings: ModelSettings, args: TrainingArguments) -> None:
    """Names settings that do not exist or do not go together, before anything is read.

    Raises:
        ValueError: There are some.
        OSError: A file or an encoder that they name is not there.
    """
    for unit in settings.units:
        check_choice("units", unit, UNITS)
    check_choice("negatives", settings.negatives, NEGATIVES)
    if settings.calibration is not None:
        check_choice("calibration", settings.calibration, CALIBRATIONS)
    if settings.problem_type is not None:
        check_choice("problem_type", settings.problem_type, PROBLEM_TYPES)
    check_problem_type(settings, settings.problem_type)
    check_choice("label_texts", settings.label_texts, LABEL_TEXTS)
    check_metric(args.metric_for_best_model, settings.test_curve)
    for name in ("word_vectors", "card"):
        if getattr(settings, name) is not None:
            check_files({name: [getattr(settings, name)]})
    if settings.card is not None:
        card_info(settings.card)
    if settings.text_encoder is None and (settings.hierarchical or settings.lora_rank):
        raise ValueError("hierarchical and lora_rank are of pretrained encoders: name one with --text_encoder")
    baselines = [unit for unit in settings.units if unit in MODELS]
    if settings.start_from is not None and baselines:
        raise ValueError(f"units {', '.join(baselines)} are not saved, and start without --start_from")
    of_words = [
        unit for unit in settings.units if unit in MODELS or {"text_encoder_type", "joint_size"} & set(UNITS[unit])
    ]
    if settings.text_encoder is not None and of_words:
        raise ValueError(f"units {', '.join(of_words)} are of models over words, without --text_encoder")
    check_encoder(settings)
    if settings.share_labels:
        ranking = [unit for unit in settings.units if unit in RANKING]
        takes_all = not settings.num_negatives and settings.negatives != "in_batch" and settings.label_chunk_size > 0
        if not takes_all or args.world_size < 2 or ranking:
            raise ValueError(
                "share_labels divides all labels among processes: it needs num_negatives 0, negatives other than "
                "in_batch, label_chunk_size above 0, at least two processes (accelerate launch) and units whose loss "
                f"is no ranking loss; got num_negatives {settings.num_negatives}, negatives {settings.negatives}, "
                f"label_chunk_size {settings.label_chunk_size}, {args.world_size} processes, ranking losses "
                f"{ranking or 'none'}"
            )


def check_files(files: Mapping[str, Sequence[str]], suffixes: Sequence[str] = ()) -> None:
    """Makes sure that the files of some settings are there.

    Args:
        files: The files, folders and globs of each setting.
        suffixes: What files can be read; by default any.

    Raises:
        ValueError: A setting names files that cannot be read.
        FileNotFoundError: A path or glob leads nowhere.
    """
    for name, paths in files.items():
        for path in paths:
            try:
                if suffixes:
                    find_files([path], suffixes)
                elif not Path(path).exists():
                    raise FileNotFoundError(f"no file {path} (in {Path.cwd()})")
            except (ValueError, OSError) as error:
                raise type(error)(f"{name}: {error}") from None


def check_encoder(settings: ModelSettings) -> None:
    """Makes sure that there is the encoder, and that it and the settings of the model fit together.

    Raises:
        ValueError: They do not.
        OSError: There is no such encoder or model.
    """
    try:
        options = json.loads(settings.text_encoder_options)
    except ValueError as error:
        raise ValueError(f"text_encoder_options must be JSON: {error}, got {settings.text_encoder_options!r}") from None
    if not isinstance(options, dict):
        raise ValueError(f"text_encoder_options must be an object of JSON, got {settings.text_encoder_options!r}")
    encoder = None
    for name in ("text_encoder", "start_from"):
        place = getattr(settings, name)
        if place is None:
            continue
        encoder = load_encoder_config(
            name, place, **{one: options[one] for one in ("revision", "token") if one in options}
        )
        if name == "start_from" and not hasattr(encoder, "output_layer"):
            raise ValueError(
                f"start_from: {place} is no GILE model but a {encoder.model_type}: take it as text_encoder"
            )
    for unit in settings.units:
        if settings.start_from is not None:
            check_start(settings.start_from, encoder, unit)
            GileLoss(**loss_options(settings, unit)).check_fits(encoder)
            continue
        fields = model_fields(settings, unit, num_labels=2)
        if encoder is None:
            names = ("text_encoder_type", "embedding_size", "embedding_std", "word_dropout")
            fields |= {name: getattr(settings, name) for name in names}
        else:
            kind = "hierarchical_transformer" if settings.hierarchical else "transformer"
            fields = {"label_encoder_type": "text_encoder", "pooling": "mean", "text_encoder_type": kind} | fields
            fields["text_encoder_config"] = encoder
        try:
            config = GileConfig(**unit_fields(unit, **fields))
            GileLoss(**loss_options(settings, unit)).check_fits(config)
        except (StrictDataclassError, ValueError) as error:
            raise ValueError(f"unit {unit}: {' '.join(str(error).split())}") from None


def load_encoder_config(setting: str, place: str, **options: Any) -> Any:
    """The configuration of a pretrained encoder or model.

    Args:
        setting: The setting that names it.
        place: Its name or folder.
        options: Of `AutoConfig.from_pretrained`.

    Raises:
        OSError: There is no such.
    """
    try:
        return AutoConfig.from_pretrained(place, trust_remote_code=False, **options)
    except (OSError, ValueError) as error:
        raise OSError(f"{setting}: cannot load {place}: {error}") from None


def check_start(place: str, config: Any, unit: str) -> None:
    """Makes sure that a unit is that of the model that is trained on.

    Raises:
        ValueError: It is not.
    """
    if config.output_layer != UNITS[unit]["output_layer"]:
        raise ValueError(
            f"start_from {place} has output_layer {config.output_layer!r}, unit {unit} has "
            f"{UNITS[unit]['output_layer']!r}"
        )


def check_metric(wanted: str | None, test_curve: bool) -> None:
    """Makes sure that training will compute the figure that is to choose the epoch.

    Raises:
        ValueError: It will not.
    """
    if wanted in (None, "loss"):  # TrainingArguments has made it up
        return
    metrics = LabelMetrics(2, [True, False], top_k=TOP_K, one_label=True)
    metrics.update(torch.zeros(1, 2), torch.zeros(1, 1, dtype=torch.long))
    parts = ("validation", "test") if test_curve else ("validation",)
    known = [f"eval_{part}_{name}" for part in parts for name in ("loss", *metrics.compute())]
    if full_name(wanted) not in known:
        near = difflib.get_close_matches(full_name(wanted), known, n=3)
        hint = " or ".join(one.removeprefix("eval_validation_") for one in near or ["average_precision", "accuracy"])
        raise ValueError(f"metric_for_best_model: training computes no {wanted!r}; did you mean {hint}?")


def check_problem_type(settings: Any, problem_type: str | None) -> None:
    """Names settings that do not go with a softmax over the labels.

    Raises:
        ValueError: There are some.
    """
    if problem_type != "single_label_classification":
        return
    how = "or score each label on its own with --problem_type multi_label_classification"
    if getattr(settings, "propensity_weighted", False):
        raise ValueError(f"propensity_weighted is not for documents with one label each: leave it out, {how}")
    if settings.calibration not in (None, "none", "platt"):
        raise ValueError(
            "calibration of documents with one label each must be one of platt, none, got "
            f"{settings.calibration!r}: choose one of these, {how}"
        )


def problem_type_of(settings: Any, parts: Mapping[str, Dataset], gold: str) -> str:
    """What kind of problem the documents pose, if the settings do not say it.

    Args:
        settings: The settings.
        parts: The documents of each part.
        gold: The column of the lists of label ids.

    Returns:
        One of `PROBLEM_TYPES`.

    Raises:
        ValueError: The settings say that each document has one label, and a document has none or several; or they do
            not go with one label each.
    """
    if settings.problem_type == "multi_label_classification":
        return settings.problem_type
    for part, rows in parts.items():
        for row, ids in enumerate(rows[gold]):
            if len(ids) == 1:
                continue
            if settings.problem_type is None:
                return "multi_label_classification"
            raise ValueError(
                f"problem_type single_label_classification: document {row} of {part} has {len(ids)} labels, and each "
                "must have one: mend it, or leave problem_type out"
            )
    check_problem_type(settings, "single_label_classification")
    return "single_label_classification"


def model_fields(
    settings: ModelSettings,
    unit: str,
    num_labels: int,
    label_prior: float | None = None,
    problem_type: str = "multi_label_classification",
) -> dict[str, Any]:
    """Fields of `GileConfig` that do not depend on how documents are read."""
    size = settings.embedding_size
    fields: dict[str, Any] = {
        "encoder_cell": settings.encoder_cell,
        "pooling": settings.pooling,
        "hidden_size": size,
        "attention_size": size,
        "hidden_act": settings.hidden_act,
        "joint_act": settings.hidden_act,
        "joint_size": settings.joint_size,
        "bag_size": settings.bag_size,
        "max_words": settings.max_words,
        "max_label_words": settings.max_label_words,
        "max_sentences": settings.max_sentences,
        "max_sentence_words": settings.max_sentence_words,
        "freeze_text_encoder": settings.freeze_text_encoder,
        "label_prior": label_prior,
        "num_labels": num_labels,
        "problem_type": problem_type,
    }
    if not is_linear(unit):
        for name in (
            "label_encoder_type",
            "cosine_score",
            "lexical_size",
            "lexical_scale",
            "unseen_scale",
            "unseen_offset",
            "label_rows",
            "joint_layers",
            "joint_dropout",
        ):
            fields[name] = getattr(settings, name)
    return {name: value for name, value in fields.items() if value is not None}


def loss_options(settings: ModelSettings, unit: str) -> dict[str, Any]:
    """Options of `GileLoss` that the settings name."""
    return {
        "loss": RANKING.get(unit, "cross_entropy"),
        "chunk_size": 0 if settings.num_negatives or unit in RANKING else settings.label_chunk_size,
        "refresh_steps": 0 if is_linear(unit) else settings.label_refresh_steps,
        "row_dropout": 0.0 if is_linear(unit) else settings.label_row_dropout,
    }


def make_model(
    settings: ModelSettings,
    unit: str,
    label_set: LabelSet,
    words: tuple[Any, Any],
    label_prior: float,
    problem_type: str,
) -> tuple[Any, GileProcessor]:
    """A model and its processor, over words or over a pretrained encoder."""
    tokenizer, vectors = words
    size = settings.embedding_size
    fields = model_fields(settings, unit, len(label_set), label_prior, problem_type)
    if settings.start_from is not None:
        # Calibration and thresholds are those of other weights, and perhaps of another problem type.
        kept: dict[str, Any] = {"calibration": {}, "thresholds": {}, "problem_type": problem_type}
        kept |= {name: fields[name] for name in OF_TRAINING if name in fields}
        config = GileConfig.from_pretrained(settings.start_from, **kept)
        for name, value in json.loads(settings.text_encoder_options).items():
            setattr(config.text_config.text_encoder_config, name, value)
        model = GileForSequenceClassification.from_pretrained(settings.start_from, config=config)
        if settings.freeze_word_vectors:
            model.get_input_embeddings().requires_grad_(False)
        return model, GileProcessor.from_pretrained(settings.start_from, trust_remote_code=False)
    if settings.text_encoder is not None:
        kind = "hierarchical_transformer" if settings.hierarchical else "transformer"
        fields |= {"text_encoder_type": kind, "text_encoder_options": json.loads(settings.text_encoder_options)}
        model = model_from_text_encoder(settings.text_encoder, **unit_fields(unit, **fields))
        return model, processor_from_text_encoder(settings.text_encoder, model.config)
    fields |= {
        "vocab_size": len(tokenizer),
        "text_encoder_type": settings.text_encoder_type,
        "embedding_size": size if vectors is None else vectors.shape[1],
        "embedding_std": settings.embedding_std,
        "word_dropout": settings.word_dropout,
    }
    config = GileConfig(**unit_fields(unit, **fields))
    model = MODELS.get(unit, GileForSequenceClassification)(config)
    if vectors is not None:
        set_word_vectors(model, vectors)
    model.get_input_embeddings().requires_grad_(not settings.freeze_word_vectors)
    return model, GileProcessor.for_config(tokenizer, config)


def hold_out(labels: LabelSet, number: int) -> tuple[LabelSet, set[str]]:
    """Makes seen labels unseen, those with the lowest hashes of their ids.

    Args:
        labels: The seen labels first.
        number: Of labels to hold out; they have 5 to 500 training documents.

    Returns:
        The labels, the held-out ones behind the seen ones, and the ids of these.

    Raises:
        ValueError: There are too few labels.
    """
    counts = {label.id: label.count for label in labels if label.seen}
    eligible = held_out_labels(counts, share=1.0)
    if len(eligible) < number or number == len(counts):
        raise ValueError(
            f"held_out_labels {number}: {len(eligible)} of {len(counts)} seen labels have 5 to 500 training documents, "
            "and some must be left to train on"
        )
    chosen = set(sorted(eligible, key=lambda label_id: fraction_of("label", label_id, "validation"))[:number])
    seen = [label for label in labels if label.seen and label.id not in chosen]
    held_out = [replace(label, seen=False, count=0) for label in labels if label.id in chosen]
    return LabelSet([*seen, *held_out, *(label for label in labels if not label.seen)]), chosen


def as_read(labels: LabelSet, label_texts: str) -> LabelSet:
    """The labels with the descriptions that the model is to read.

    A label whose name another one has too keeps the description that tells them apart.
    """
    if label_texts == "definitions":
        return labels
    names = Counter(label.name for label in labels)

    def description(label: Any) -> str:
        if names[label.name] > 1:
            return label.description
        return "; ".join(label.synonyms) if label_texts == "synonyms" else ""

    return LabelSet(replace(label, description=description(label)) for label in labels)


def paraphrase_shares(settings: ModelSettings) -> tuple[float, float, float]:
    """Shares of names, synonyms and descriptions in training; where a label is its name, the rest are names."""
    others = settings.paraphrase_synonyms, settings.paraphrase_definitions
    names = settings.paraphrase_names
    if settings.label_texts == "name" and any(others):
        names = max(0.0, 1 - sum(others))
    return names, *others


def full_name(figure: str) -> str:
    """The name of a figure as Trainer has it: `accuracy` and `eval_validation_accuracy` are the same."""
    figure = figure.removeprefix("eval_")
    return f"eval_{figure}" if figure.startswith(("validation_", "test_")) else f"eval_validation_{figure}"


def metric_name(wanted: str | None, has_unseen: bool, one_label: bool = False) -> str:
    """The figure that chooses the epoch: the user's, or average precision on the seen labels, or their accuracy.

    A model without unseen labels has no figures of groups: it takes that of its labels.
    """
    if wanted in (None, "loss"):  # TrainingArguments has made it up
        wanted = f"validation_seen_{'accuracy' if one_label else 'average_precision'}"
    wanted = full_name(str(wanted))
    return wanted if has_unseen else wanted.replace("_unseen_", "_").replace("_seen_", "_")


def some_texts(rows: Dataset, text: str | Callable[[dict[str, Any]], str], number: int = 256) -> list[str]:
    """The texts of the first documents."""
    return [row[text] if isinstance(text, str) else text(row) for row in rows.select(range(min(number, len(rows))))]


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
