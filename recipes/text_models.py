"""Trains output layers on the same texts and labels: what recipes/train_bioasq.py and recipes/train_table.py share."""

import json
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from automatic import AUTO, CONVEX, TRAINED, kind_to_start_from, named_encoder, resolve, with_encoder
from baselines import MODELS, RANKING, AiTextML
from cards import ReportSettings, add_card, card_info, say_calibration
from datasets import Dataset
from training import printer, write_results
from transformers import AutoConfig, TrainingArguments, set_seed
from units import UNITS, unit_config, unit_fields

from hf_gile import GileConfig, GileForSequenceClassification, GileProcessor, GileTextConfig, LabelSet
from hf_gile.data.zero_shot import drop_labels
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
from hf_gile.training.settings import check_files, setting, settings_of
from hf_gile.training.task import (
    LABEL_TEXTS,
    TextTask,
    as_read,
    check_metric,
    check_unseen,
    hold_out,
    metric_name,
    problem_type_of,
    words_of,
)

TOP_K = (5, 10, 20)
"""Precision, recall and nDCG are given at these numbers of labels; of the test part also at 1 and 3."""

OF_WORDS = ("text_encoder_type", "embedding_size", "embedding_std", "word_dropout")
OF_TEXTS = ("encoder_cell", "hidden_act", "pooling", "freeze_text_encoder")
SIZES = ("max_words", "max_sentences", "max_sentence_words", "max_label_words")
OF_HEAD = ("joint_size", "label_prior", "bag_size")
OF_LABELS = ("label_encoder_type", "cosine_score", "label_rows", "joint_layers", "joint_dropout", "lexical")
"""Settings that are fields of a `GileTextConfig`, then of a `GileConfig`; a linear unit has not those of labels."""

OF_TRAINING = ("freeze_text_encoder", "joint_dropout", "lexical", "term_weights")
"""What of a model that is trained on, `--start_from`, a run may have otherwise."""

NOT_OF_AUTO = ("hierarchical", "lora_rank", "bag_size")
"""What a convex fit over a frozen encoder has no place for."""

LEFT_TO_THE_ENCODER = dict.fromkeys(("encoder_cell", "pooling", *SIZES))


@dataclass
@settings_of(GileLoss, ["chunk_size", "refresh_steps", "row_dropout"], prefix="label_", chunk_size=2048)
@settings_of(GileLoss, ["share_labels"])
@settings_of(HardNegatives, ["refresh_steps"], prefix="hard_")
@settings_of(LabelSampler, ["per_document"])
@settings_of(GileConfig, [*OF_HEAD, *OF_LABELS], label_prior=None, label_encoder_type=None, lexical=None)
@settings_of(GileTextConfig, [*OF_WORDS, *OF_TEXTS, *SIZES], word_dropout=0.5, **LEFT_TO_THE_ENCODER)
class ModelSettings(ReportSettings):
    """The model and how its labels are sampled. Where the paper gives a setting (section 4.1.1), that is the default.

    But for `word_dropout`: the paper has 500 times the documents. Word vectors, encoder and attention have one size,
    and encoder, attention and joint space one activation. Of a joint model, `label_prior` is by default that of the
    data.
    """

    GROUPS: ClassVar[dict[str, str]] = {
        "train_files": "Documents",
        "label_file": "Labels, and how files are read",
        "units": "Model",
        "num_negatives": "Labels that a step trains on",
        "held_out_labels": "Choice of the epoch",
        "calibration": "Probabilities, card",
        "text_encoder_type": "Fields of GileTextConfig",
        "joint_size": "Fields of GileConfig",
        "per_document": "Further options of the loss",
    }

    units: list[str] = setting(
        ["linear", "gile"], f"Output layers to train: {', '.join(UNITS)}; or auto, see --text_encoder.", (*UNITS, AUTO)
    )
    min_count: int = setting(3, "'rare word replacements (UNK)'; the paper does not say how rare.")
    forget_label_words: bool = setting(False, "Rare words of labels are unknown as well, if min_count says so.")
    word_vectors: str | None = setting(None, "File of word vectors to start from; they give the embedding size.")
    freeze_word_vectors: bool = setting(False, "Train only what is above the word vectors.")
    text_encoder: str | None = setting(
        None,
        "A pretrained encoder instead of text_encoder_type: its name or its folder; or auto, which the unit auto takes "
        "for the best that can be had.",
    )
    text_prompt: str | None = setting(None, "What the encoder expects before each text; by default as its name says.")
    label_prompt: str | None = setting(None, "The same before each label.")
    text_encoder_options: str = setting(
        "{}",
        'JSON of what loading the encoder takes, such as {"attention_probs_dropout_prob": 0}, which is faster.',
    )
    hierarchical: bool = setting(False, "The encoder reads windows of whole sentences, with attention over them.")
    start_from: str | None = setting(
        None,
        "Folder of a saved model to train on, with what it has learned of labels, by their ids: such as a head trained "
        "on a frozen encoder, to tune that. Its sizes and score stay as they are.",
    )
    text_encoder_learning_rate: float = setting(1e-4, "Of the encoder's last layer.")
    layer_decay: float = setting(1.0, "Learning rate of a layer in that of the layer above.")
    lora_rank: int = setting(0, "Train adapters of this rank in the encoder, not its weights.")
    label_texts: str = setting(
        "definitions",
        "What the model reads of a label: its name, its name and synonyms, or its name and what else the label file "
        "says (--describe, --label_description).",
        LABEL_TEXTS,
    )
    paraphrase_synonyms: float = setting(0.0, "Share of the readings of a label in training that are of a synonym.")
    paraphrase_definitions: float = setting(0.0, "The same of its description.")
    term_weights: str = setting(
        "{}",
        'JSON of what the terms of the score count, such as {"unseen": {"joint": 0.7, "offset": -1}}; a run with '
        "--held_out_labels fits those of unseen labels, and says them.",
    )
    num_negatives: int = setting(
        1500,
        "Labels sampled a step, for the whole batch, weighted to the full set; 0 takes all labels. The paper: '0.3% "
        "negative label sampling', for each document, unweighted.",
    )
    negatives: str = setting(
        "uniform",
        "How they are sampled: uniform (the paper's), frequency (by the square root of the documents of a label), or "
        "in_batch (the gold labels of the batch and no others; biased).",
        ("uniform", "frequency", "in_batch"),
    )
    unweighted: bool = setting(False, "Do not weight the sample to the full set, as the paper.")
    hard_negatives: int = setting(
        0, "Best-scored labels that are not gold, for each document, added to the sample of the batch."
    )
    class_balanced: float = setting(0.0, "beta of class-balanced weights of labels, such as 0.99; 0 for none.")
    propensity_weighted: bool = setting(False, "Weight gold labels by what annotators are likely to miss.")
    held_out_labels: int = setting(
        0,
        "Labels, by a hash of their ids, that training does not see but validation has: to choose by "
        "--metric_for_best_model eval_validation_unseen_average_precision. The test leaves them out.",
    )
    patience: int = setting(2, "Epochs without a better validation before training stops.")
    test_curve: bool = setting(False, "Evaluate the test part after every epoch too; nothing is chosen by it.")
    baselines: bool = setting(
        True, "Measure TF-IDF as well, a linear SVM for seen labels and the cosine for others: a minute at most."
    )
    make_cards: bool = setting(True, "Measure each model once more as it will be used, and write its card.")


def train_text_models(
    settings: ModelSettings, args: TrainingArguments, task: TextTask, about: Mapping[str, Any], tested_on: str = ""
) -> dict[str, Any]:
    """Trains each unit of the settings, evaluates it on the test part, and saves it in OUTPUT_DIR/UNIT/model.

    Args:
        settings: The models.
        args: The training arguments; `output_dir` gets a folder for each unit, `results.json` and `curves.png`.
        task: Documents and labels.
        about: Fields of `CardInfo` that the recipe knows.
        tested_on: The name of the test documents in the card, where they have one of their own.

    Returns:
        What was written to `results.json`: of each unit what `fit` returns; `threshold`, the best one of the seen
        labels for the validation part (not of documents with one label each), and `unseen_threshold`, if that part
        tells enough of unseen labels, which else have that of the seen ones; and `test`, the figures of the test part
        (`seen_` and `unseen_` if there are unseen labels), with `test_documents_per_second`, from texts to the scores
        of all labels. Before them, with `baselines`, the rows of `obvious_rows`.
    """
    info, say = card_info(settings.card, **about), printer(args)
    study = Study(settings, args, task)
    results: dict[str, Any] = {}
    if settings.baselines and args.process_index == 0:
        from obvious_rows import obvious_rows  # scikit-learn, which --help need not wait for

        results |= obvious_rows(study, TOP_K)
    metrics: dict[str, str] = {}
    for unit in settings.units:
        set_seed(args.seed)
        experiment = study.experiment(unit)
        metrics[unit] = experiment.args.metric_for_best_model
        say(f"\n{unit}: {count_parameters(experiment.model):,} parameters")
        results |= study.measure(unit, experiment, study.train(unit, experiment))
        if args.process_index == 0:
            write_results(Path(args.output_dir), results, metrics)
        if unit in MODELS:
            continue  # to compare with, not to use
        folder = Path(args.output_dir) / unit / "model"
        experiment.save(folder)
        if args.process_index == 0 and settings.make_cards:
            add_card(
                folder,
                experiment.trainer,
                list(task.texts("test")),
                task.parts["test"][task.gold],
                info,
                columns=experiment.in_test,
                excluded=task.parts["test"]["excluded"] if "excluded" in task.parts["test"].column_names else None,
                num_training_documents=len(study.task.parts["train"]),
                dataset=tested_on or info.dataset_name,
            )
    return results


class Study:
    """What all units are trained and measured on.

    Args:
        settings: The models.
        args: The training arguments.
        task: Documents and labels.

    Attributes:
        task: The same without held-out labels in training, and with labels as the model reads them.
        described: The labels with all that is known of them.
        held_out: Ids of the labels that are held out for validation.
        num_seen: Number of labels that training sees.
        problem_type: One of `PROBLEM_TYPES`.
    """

    def __init__(self, settings: ModelSettings, args: TrainingArguments, task: TextTask) -> None:
        self.settings, self.args, self.say = settings, args, printer(args)
        self.problem_type = problem_type_of(task.parts, task.gold, settings.problem_type)
        settings.check_problem_type(self.problem_type)
        if self.problem_type == "single_label_classification" and settings.problem_type is None:
            self.say(
                "every document has exactly one label: trained with softmax, chosen by accuracy (--problem_type "
                "multi_label_classification scores each label on its own)"
            )
        self.held_out: set[str] = set()
        labels, parts = task.labels, task.parts
        if settings.held_out_labels:
            labels, self.held_out = hold_out(labels, settings.held_out_labels)
            with args.main_process_first(desc="held-out labels"):
                parts = {**parts, "train": drop_labels(parts["train"], self.held_out, task.gold)}
        else:
            check_unseen(args.metric_for_best_model, task)
        self.described, self.num_seen = labels, sum(labels.seen)
        self.task = replace(task, parts=parts, labels=as_read(labels, settings.label_texts))
        labels_per_document = sum(label.count for label in labels) / len(parts["train"])
        self.prior = settings.label_prior or min(0.5, labels_per_document / self.num_seen)
        self.words: tuple[Any, Any] = (None, None)
        self._resolved: dict[str, tuple[str, ModelSettings]] = {}
        over_words = [unit for unit in settings.units if self.resolved(unit)[1].text_encoder is None]
        if over_words and settings.start_from is None:
            with args.main_process_first(desc="words"):
                known = [] if settings.forget_label_words else self.task.labels[: self.num_seen].texts
                options = settings.min_count, settings.word_vectors, settings.freeze_word_vectors
                self.words = words_of(self.task.texts("train"), known, *options)
            self.say(f"{len(self.words[0]):,} words")
        held_out = f", {len(self.held_out):,} of them held out for validation" if self.held_out else ""
        self.say(f"{self.task.labels}{held_out}")
        # Units of the same kind of encoder read the same.
        self._encoded: dict[tuple[Any, ...], dict[str, Dataset]] = {}

    def resolved(self, unit: str) -> tuple[str, ModelSettings]:
        """The unit and the settings that stand for a unit: `auto` and its encoder are chosen by the documents."""
        if unit not in self._resolved:
            settings = self.settings
            if settings.start_from is not None:
                kind = kind_to_start_from(check_encoder(settings)) if unit == AUTO else unit
                self._resolved[unit] = kind, with_encoder(settings, None)
            elif unit == AUTO:
                with self.args.main_process_first(desc="text encoder"):
                    sizes = len(self.task.parts["train"]), self.num_seen
                    self._resolved[unit] = resolve(settings, lambda: self.task.texts("train"), *sizes, self.say)
            else:
                self._resolved[unit] = unit, with_encoder(settings, named_encoder(settings))
        return self._resolved[unit]

    def is_convex(self, unit: str) -> bool:
        """Whether a unit is fitted as convex problems, not trained."""
        return unit == AUTO and self.settings.start_from is None and self.resolved(unit)[0] == CONVEX

    def experiment(self, unit: str) -> Experiment:
        """A unit with its documents, labels and loss."""
        args, task = self.args, self.task
        kind, settings = self.resolved(unit)
        # A linear unit has no use for labels it is not trained on.
        labels = task.labels[: self.num_seen] if is_linear(kind) else task.labels
        one_label = self.problem_type == "single_label_classification"
        model, processor = self.model(unit, len(labels))
        model.set_labels(labels, processor)
        model.loss_function = self.loss(unit, labels, processor)
        text_config = model.config.text_config
        with args.main_process_first(desc="words and columns"):
            lexical = processor.lexical or (settings.lexical is not False and settings.start_from is None)
            reads = settings.text_encoder, text_config.reads_sentences, lexical
            if reads not in self._encoded:
                reader = copy(processor)  # what one unit reads serves the others
                reader.lexical = lexical
                self._encoded[reads] = encode_parts(task.parts, model, reader, task.labels, task.text, task.gold, args)
            parts = encoded = self._encoded[reads]
            if len(labels) < len(task.labels):
                parts = first_columns(parts, len(labels))
            if one_label:
                parts = with_a_label(parts)
        self.start(model, processor, encoded["train"])
        optimizer = None
        if text_config.reads_pretrained:
            optimizer = pretrained_optimizer(model, args, settings.text_encoder_learning_rate, settings.layer_decay)
        metric = metric_name(args.metric_for_best_model, len(labels) > self.num_seen, one_label)
        return Experiment(
            model,
            processor,
            parts,
            self.sampler(labels),
            run_arguments(args, Path(args.output_dir) / unit, metric),
            held_out=self.held_out,
            one_label=one_label,
            num_documents=len(task.parts["train"]),
            top_k=TOP_K,
            test_curve=settings.test_curve,
            optimizer=optimizer,
        )

    def model(self, unit: str, num_labels: int) -> tuple[Any, GileProcessor]:
        """A model and its processor, over words or over a pretrained encoder."""
        unit, settings = self.resolved(unit)
        place = settings.text_encoder
        options = json_object(settings, "text_encoder_options")
        known = {"num_labels": num_labels, "label_prior": self.prior, "problem_type": self.problem_type}
        fields = model_fields(settings, unit, **known)
        if settings.start_from is not None:
            # Calibration and thresholds are those of other weights, and perhaps of another problem type.
            changed = {"calibration": {}, "thresholds": {}, "problem_type": self.problem_type}
            changed |= {name: fields[name] for name in OF_TRAINING if name in fields}
            if settings.lexical is None:  # then it stays as it is, as do weights that are not named
                changed.pop("lexical", None)
            if not changed.get("term_weights"):
                changed.pop("term_weights", None)
            config = GileConfig.from_pretrained(settings.start_from, **changed)
            for name, value in options.items():
                setattr(config.text_config.text_encoder_config, name, value)
            model = GileForSequenceClassification.from_pretrained(settings.start_from, config=config)
            if settings.freeze_word_vectors:
                model.get_input_embeddings().requires_grad_(False)
            processor = GileProcessor.from_pretrained(settings.start_from, trust_remote_code=False)
            processor.lexical = config.lexical
            return model, processor
        if place is not None:
            fields = unit_fields(unit, **fields, text_encoder_options=options)
            model = model_from_text_encoder(place, **fields)
            prompts = {"text_prompt": settings.text_prompt, "label_prompt": settings.label_prompt}
            return model, processor_from_text_encoder(place, model.config, **prompts)
        tokenizer, vectors = self.words
        fields |= {"vocab_size": len(tokenizer)} | ({} if vectors is None else {"embedding_size": vectors.shape[1]})
        config = unit_config(unit, **fields)
        model = MODELS.get(unit, GileForSequenceClassification)(config)
        if vectors is not None:
            set_word_vectors(model, vectors)
        model.get_input_embeddings().requires_grad_(not settings.freeze_word_vectors)
        return model, GileProcessor.for_config(tokenizer, config)

    def sampler(self, labels: LabelSet) -> LabelSampler:
        """All gold labels of a batch, and a sample of the other seen labels; unseen labels are never sampled."""
        settings, counts = self.settings, [label.count for label in labels]
        return LabelSampler(
            len(labels),
            num_negatives=0 if settings.negatives == "in_batch" else settings.num_negatives or None,
            columns=range(self.num_seen),
            per_document=settings.per_document,
            weighted=not settings.unweighted,
            frequencies=[count**0.5 for count in counts] if settings.negatives == "frequency" else None,
            seed=self.args.seed,
            label_weights=class_balanced_weights(counts, settings.class_balanced) if settings.class_balanced else None,
        )

    def loss(self, unit: str, labels: LabelSet, processor: GileProcessor) -> GileLoss:
        """The loss that the settings name."""
        unit, settings = self.resolved(unit)
        paraphrases, miner = None, None
        others = settings.paraphrase_synonyms, settings.paraphrase_definitions
        if any(others) and not is_linear(unit):
            # Where a label is its name, the rest of its readings are of that.
            by_name = settings.label_texts == "name"
            shares = max(0.0, 1 - sum(others)) if by_name else 0.0, *others
            known = self.described if by_name else labels
            paraphrases = LabelParaphrases(known, processor, *shares, seed=self.args.seed)
        if settings.hard_negatives:
            columns = range(self.num_seen)
            miner = HardNegatives(settings.hard_negatives, settings.hard_refresh_steps, columns=columns)
        weights, counts = None, [label.count for label in labels]
        if settings.propensity_weighted:
            weights = propensity_weights(counts, len(self.task.parts["train"]))
        return GileLoss(
            **loss_options(settings, unit),
            share_labels=settings.share_labels and not is_linear(unit),
            positive_weights=weights,
            miner=miner,
            paraphrases=paraphrases,
        )

    def start(self, model: Any, processor: GileProcessor, documents: Any) -> None:
        """Sets what a model knows of the training documents before it is trained, and adds adapters."""
        config, special = model.config, processor.tokenizer.all_special_ids
        if config.bag_size and self.settings.start_from is None:
            set_token_weights(model, log_idf(documents["input_ids"], config.text_config.vocab_size, special))
        if config.lexical:
            set_lexical_weights(model, documents["lexical_ids"])
        if self.settings.lora_rank:
            add_lora(model, self.settings.lora_rank, alpha=2 * self.settings.lora_rank)

    def train(self, unit: str, experiment: Experiment) -> dict[str, Any]:
        """Trains a unit and fits what goes with it."""
        is_convex = self.is_convex(unit)
        result = experiment.fit_convex() if is_convex else experiment.fit(self.settings.patience)
        if self.settings.lora_rank:
            merge_lora(experiment.model)
        weights = {} if is_convex else experiment.weigh_unseen()
        if weights:
            rounded = {name: float(f"{weight:.3g}") for name, weight in weights.items()}
            self.say(f"  for labels never trained on: --term_weights '{json.dumps({'unseen': rounded})}'")
        reliable = experiment.calibrate(self.settings.calibration)
        say_calibration(reliable, self.say)
        return {**result, "unseen_weights": weights, **experiment.tune(), "calibration": reliable}

    def measure(self, unit: str, experiment: Experiment, result: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """The result of a unit with the figures of the test part; of AiTextML also those of inferred labels."""
        model, num_labels = experiment.model, len(self.task.labels)
        thresholds = {name: result[name] for name in ("threshold", "unseen_threshold") if name in result}
        results = {unit: {**result, "test": experiment.test(**thresholds)}}
        if isinstance(model, AiTextML) and num_labels > self.num_seen:
            # AiTextML inf: the vector of an unseen label predicts its words.
            model.infer_label_vectors(torch.arange(self.num_seen, num_labels, device=model.device))
            results[f"{unit}_inferred"] = {**result, "test": experiment.test(**thresholds)}
        texts = list(self.task.texts("test", 256))
        speed = documents_per_second(model, experiment.processor, texts, experiment.args.bf16)
        results[unit]["test"]["test_documents_per_second"] = speed
        return results


def is_linear(unit: str) -> bool:
    """Whether a unit reads no labels."""
    return UNITS[unit]["output_layer"] == "linear"


def model_fields(settings: ModelSettings, unit: str, **known: Any) -> dict[str, Any]:
    """Fields of a unit's `GileConfig` that do not depend on the words; `known` are others."""
    names = (*OF_WORDS, *OF_TEXTS, *SIZES, *OF_HEAD, *(() if is_linear(unit) else OF_LABELS))
    fields = {name: getattr(settings, name) for name in names} | known
    if not is_linear(unit):
        fields["term_weights"] = json_object(settings, "term_weights")
        # What the labels of the baselines are is learned, or is to be compared with what the paper says of them.
        fields["lexical"] = settings.lexical is not False and unit not in MODELS
    fields["hidden_size"] = fields["attention_size"] = fields["embedding_size"]
    fields["joint_act"] = settings.hidden_act
    if settings.text_encoder is not None:
        del fields["embedding_size"]
        fields["text_encoder_type"] = "hierarchical_transformer" if settings.hierarchical else "transformer"
    return {name: value for name, value in fields.items() if value is not None}


def loss_options(settings: ModelSettings, unit: str) -> dict[str, Any]:
    """Options of `GileLoss` that fit a unit."""
    return {
        "loss": RANKING.get(unit, "cross_entropy"),
        "chunk_size": 0 if settings.num_negatives or unit in RANKING else settings.label_chunk_size,
        "refresh_steps": 0 if is_linear(unit) else settings.label_refresh_steps,
        "row_dropout": 0.0 if is_linear(unit) else settings.label_row_dropout,
    }


def check_settings(settings: ModelSettings, args: TrainingArguments) -> None:
    """Names settings that do not go together, before anything is read.

    Raises:
        ValueError: There are some.
        OSError: A file or an encoder that they name is not there.
    """
    settings.check_problem_type(settings.problem_type)
    check_metric(args.metric_for_best_model, TOP_K, ("validation", "test") if settings.test_curve else ("validation",))
    check_files(settings, ["word_vectors", "card"])
    card_info(settings.card)
    for name in ("hierarchical", "lora_rank", "text_prompt", "label_prompt"):
        if named_encoder(settings) is None and getattr(settings, name):
            raise ValueError(f"{name} is of pretrained encoders: name one with --text_encoder")
    baselines = [unit for unit in settings.units if unit in MODELS]
    if settings.start_from is not None and baselines:
        raise ValueError(f"units {', '.join(baselines)} are not saved, and start without --start_from")
    of_words = [
        unit
        for unit in settings.units
        if unit in MODELS or {"text_encoder_type", "joint_size"} & set(UNITS.get(unit, ()))
    ]
    if named_encoder(settings) is not None and of_words:
        raise ValueError(f"units {', '.join(of_words)} are of models over words, without --text_encoder")
    encoder = check_encoder(settings)
    for unit in settings.units:
        check_unit(settings, unit, encoder)
    ranking = [unit for unit in settings.units if unit in RANKING]
    takes_all = not settings.num_negatives and settings.negatives != "in_batch" and settings.label_chunk_size > 0
    if settings.share_labels and (not takes_all or args.world_size < 2 or ranking):
        raise ValueError(
            "share_labels divides all labels among processes: it needs num_negatives 0, negatives other than in_batch, "
            "label_chunk_size above 0, at least two processes (accelerate launch) and units whose loss is no ranking "
            f"loss; got num_negatives {settings.num_negatives}, negatives {settings.negatives}, label_chunk_size "
            f"{settings.label_chunk_size}, {args.world_size} processes, ranking losses {ranking or 'none'}"
        )


def json_object(settings: ModelSettings, name: str) -> dict[str, Any]:
    """Reads a setting that is written as JSON.

    Raises:
        ValueError: It is no object of JSON.
    """
    text = getattr(settings, name)
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{name} must be JSON: {error}, got {text!r}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be an object of JSON, got {text!r}")
    return value


def check_encoder(settings: ModelSettings) -> Any:
    """The configuration of the pretrained encoder or the model that settings name; None if they name none.

    Raises:
        ValueError: Its options cannot be read, or it is no model to start from.
        OSError: There is no such encoder or model.
    """
    options = json_object(settings, "text_encoder_options")
    name = "text_encoder" if settings.start_from is None else "start_from"
    if (place := getattr(settings, name)) in (None, AUTO):
        return None
    known = {one: options[one] for one in ("revision", "token") if one in options}
    encoder = load_encoder_config(name, place, **known)
    if name == "start_from" and not hasattr(encoder, "output_layer"):
        raise ValueError(f"start_from: {place} is no GILE model but a {encoder.model_type}: take it as text_encoder")
    return encoder


def check_unit(settings: ModelSettings, unit: str, encoder: Any) -> None:
    """Makes sure that a unit and the settings of the model fit together.

    Raises:
        ValueError: They do not.
    """
    if unit == AUTO:
        kinds = [TRAINED] if encoder is None else [TRAINED, CONVEX]
        if settings.start_from is not None:
            kinds = [kind_to_start_from(encoder)]
        elif unread := [name for name in NOT_OF_AUTO if getattr(settings, name)]:
            raise ValueError(f"unit auto does not take {unread[0]}: name a unit, such as --units gile_rows")
        for kind in kinds:
            check_unit(settings, kind, encoder)
        return
    settings = with_encoder(settings, named_encoder(settings))
    if settings.start_from is not None:
        layer = UNITS[unit]["output_layer"]
        if encoder.output_layer != layer:
            raise ValueError(
                f"start_from {settings.start_from} has output_layer {encoder.output_layer!r}, unit {unit} has {layer!r}"
            )
        GileLoss(**loss_options(settings, unit)).check_fits(encoder)
        return
    fields = model_fields(settings, unit, num_labels=2, problem_type="multi_label_classification")
    if encoder is not None:
        fields = {"label_encoder_type": "text_encoder", "pooling": "mean", "text_encoder_config": encoder} | fields
    config = unit_config(unit, **fields)
    try:
        GileLoss(**loss_options(settings, unit)).check_fits(config)
    except ValueError as error:
        raise ValueError(f"unit {unit}: {error}") from None


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


def print_results(settings: Any, args: TrainingArguments, results: dict[str, Any], has_unseen: bool) -> None:
    """Prints the figures of tables that have no figures of their own, and how to use a model."""
    columns = {"average_precision": "AvgPr"} | {f"recall_at_{k}": f"R@{k}" for k in TOP_K} | {"micro_f1": "F1"}
    notes = ["Seen labels are ranked among the seen, unseen among the unseen."] if has_unseen else []
    if all("test_accuracy" in result["test"] for result in results.values()):
        columns = {"accuracy": "Acc", "macro_f1": "MacroF1", "average_precision": "AvgPr", "recall_at_5": "R@5"}
        notes.append("Acc and MacroF1 (macro-F1) are of the label with the highest score of all labels.")
    elif settings.make_cards:
        notes.append(
            "These are scores as training left them; the cards have those of use: calibrated, stored thresholds."
        )
    print(table(results, columns, ("all", "seen", "unseen") if has_unseen else ("all",), "\n".join(notes)))
    print(f"\nwritten to {args.output_dir}: results.json, curves.png, settings.yaml, and each model")
    if saved := [unit for unit in settings.units if unit not in MODELS]:
        print("to use one:\n  from transformers import pipeline")
        print(f'  pipe = pipeline(model="{args.output_dir}/{saved[-1]}/model", trust_remote_code=True)')
