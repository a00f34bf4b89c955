"""Models of texts, each with another output layer, trained and measured on the same documents and labels.

study = Study(settings, args, TextTask(parts, labels), card_info(settings.card))
study.measure_obvious_rows()
for name in settings.units:
    study.run(name)
print(study.table({"average_precision": "AvgPr"}, ("seen", "unseen")))
"""

import json
import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import TrainingArguments, set_seed

from ..data.schema import clean_label
from ..data.zero_shot import drop_labels
from ..models import GileConfig, GileForSequenceClassification, GileProcessor, LabelSet
from ..publishing import CardInfo
from ..publishing.card_info import LANGUAGE_CODE, LICENSE_ID
from ..publishing.trained import add_card
from .automatic import kind_to_start_from, named_encoder, resolve, with_encoder
from .convex import READ_OF_MANY, is_feasible
from .encoders import origin_of
from .encoding import ReadBefore
from .experiment import (
    NO_CALIBRATION,
    Experiment,
    count_parameters,
    documents_per_second,
    encode_parts,
    first_columns,
    pretrained_optimizer,
    run_arguments,
    with_a_label,
)
from .flags import saved_settings
from .hard_negatives import HardNegatives
from .label_sampling import LabelSampler
from .label_weights import class_balanced_weights, propensity_weights
from .lora import add_lora, merge_lora
from .losses import GileLoss
from .model_settings import AUTO, CONVEX, OF_TRAINING, TOP_K, ModelSettings
from .pretrained import log_idf
from .reporting import AMONG_ALL, printer, say_calibration, table_of_results, write_results
from .settings_checks import encoder_config
from .starting import (
    latent_word_vectors,
    model_from_text_encoder,
    processor_from_text_encoder,
    set_lexical_weights,
    set_token_weights,
    set_word_vectors,
)
from .task import (
    TextTask,
    as_read,
    check_unseen,
    count_contradictions,
    hold_out,
    metric_name,
    problem_type_of,
    words_of,
)
from .units import Unit

if TYPE_CHECKING:
    from datasets import Dataset

_MOST_LANGUAGES = 5
"""Maximum number of languages that a card lists; an encoder of more is called multilingual."""


class Study:
    """Trains and measures several units on the same documents, and collects their results.

    Args:
        settings: The models.
        args: The training arguments; a folder for each unit, `results.json` and, of units trained in steps,
            `curves.png` are written to `output_dir`.
        task: Documents and labels.
        info: Description of the data for the cards of the models.
        tested_on: The name of the test documents in the cards; by default that of the data.

    Attributes:
        task: The task without held-out labels in training, and with labels as the model reads them.
        described: The labels with their full descriptions.
        held_out: Ids of the labels that are held out for validation.
        num_seen: Number of labels seen in training.
        problem_type: One of `PROBLEM_TYPES`.
        has_one_label: Whether each document has one label.
        results: The content of `results.json`, see `run` and `obvious_rows`.
    """

    def __init__(
        self,
        settings: ModelSettings,
        args: TrainingArguments,
        task: TextTask,
        info: CardInfo | None = None,
        tested_on: str = "",
    ) -> None:
        self.settings, self.args, self.say = settings, args, printer(args)
        self.info, self.tested_on = info or CardInfo(), tested_on
        self.results: dict[str, Any] = {}
        self._metrics: dict[str, str] = {}
        self.problem_type = problem_type_of(task.parts, task.gold, settings.problem_type)
        settings.check_problem_type(self.problem_type)
        self.has_one_label = self.problem_type == "single_label_classification"
        if self.has_one_label and settings.problem_type is None:
            self.say(
                "every document has exactly one label: trained with softmax, chosen by accuracy (--problem_type "
                "multi_label_classification scores each label on its own)"
            )
        if self.has_one_label and (number := count_contradictions(task)):
            texts = "1 text occurs" if number == 1 else f"{number:,} texts occur"
            self.say(f"warning: {texts} several times with different labels")
        self.held_out: set[str] = set()
        self.task, self.described = self._read(task)
        self.num_seen = sum(self.described.seen)
        labels_per_document = sum(label.count for label in self.described) / len(self.task.parts["train"])
        self.prior = settings.label_prior or min(0.5, labels_per_document / self.num_seen)
        self._resolved: dict[str, tuple[Unit, ModelSettings]] = {}
        self._encoded: dict[tuple[Any, ...], dict[str, Dataset]] = {}  # by what reads them
        self._words: tuple[Any, Any] | None = None
        held_out = f", {len(self.held_out):,} of them held out for validation" if self.held_out else ""
        names = ", ".join(label.name for label in self.task.labels[:3])
        self.say(f"{len(self.task.labels):,} labels, such as {names}{held_out}")

    def _read(self, task: TextTask) -> tuple[TextTask, LabelSet]:
        """Returns the task for training, and its labels with their full descriptions."""
        labels, parts, settings = task.labels, task.parts, self.settings
        if settings.held_out_labels:
            labels, self.held_out = hold_out(labels, settings.held_out_labels)
            with self.args.main_process_first(desc="held-out labels"):
                parts = {**parts, "train": drop_labels(parts["train"], self.held_out, task.gold)}
        else:
            check_unseen(self.args.metric_for_best_model, task)
        return replace(task, parts=parts, labels=as_read(labels, settings.label_texts)), labels

    def measure_obvious_rows(self) -> None:
        """Measures models of scikit-learn on the same documents, unless the settings disable this."""
        if self.settings.baselines and self.args.process_index == 0:
            from .obvious_rows import obvious_rows  # imports scikit-learn, which --help does not need

            self.results |= obvious_rows(self, TOP_K)

    def run(self, name: str) -> None:
        """Trains a unit, calibrates it, measures it on the test part, and saves it in OUTPUT_DIR/NAME/model.

        Its result is what `fit` returns; `threshold`, the best one of the seen labels for the validation part (not of
        documents with one label each), and `unseen_threshold`, if that part has enough unseen labels, which otherwise
        share that of the seen ones; and `test`, the figures of the test part (`seen_` and `unseen_` if there are unseen
        labels), with `test_documents_per_second`, from texts to the scores of all labels.

        Args:
            name: Name of the unit, or `AUTO`.
        """
        set_seed(self.args.seed)
        experiment = self.experiment(name)
        self._metrics[name] = str(experiment.args.metric_for_best_model)
        self.say(f"\n{name}: {count_parameters(experiment.model):,} parameters")
        self.results |= self.measure(name, experiment, self.train(name, experiment))
        is_main = self.args.process_index == 0
        is_saved = self.resolved(name)[0].is_saved
        folder = Path(self.args.output_dir) / name / "model"
        with saved_settings(self.settings, self.args):
            if is_main:
                write_results(Path(self.args.output_dir), self.results, self._metrics)
            if is_saved:  # other units are only for comparison
                experiment.save(folder)
        if is_main and is_saved and self.settings.make_cards:
            self.add_card(name, experiment, folder)

    def add_card(self, name: str, experiment: Experiment, folder: Path) -> None:
        """Measures a saved model again under the conditions of use, and writes its card.

        Args:
            name: Name of the unit, or `AUTO`.
            experiment: The experiment that trained it.
            folder: Folder of the model.
        """
        test, texts = self.task.parts["test"], list(self.task.texts("test"))
        add_card(
            folder,
            experiment.trainer,
            texts,
            test[self.task.gold],
            self._card_info(name, experiment.model),
            ReadBefore(experiment.processor, texts, experiment.parts["test"]),
            columns=experiment.in_test,
            excluded=test["excluded"] if "excluded" in test.column_names else None,
            num_training_documents=len(self.task.parts["train"]),
            dataset=self.tested_on or self.info.dataset_name,
        )

    def _card_info(self, name: str, model: GileForSequenceClassification) -> CardInfo:
        """Returns the description of the data, with what is known of the encoder that training started from."""
        location = self.settings.start_from or self.resolved(name)[1].text_encoder
        if location is None or not model.config.text_config.reads_pretrained:
            return self.info
        origin, info = origin_of(str(location)), self.info
        licenses = [text for text in origin.licenses if re.fullmatch(LICENSE_ID, text)] or ["unknown"]
        languages = [text for text in origin.languages if re.fullmatch(LANGUAGE_CODE, text)]
        encoder = f"the pretrained encoder {origin.name}" if origin.name else "a pretrained encoder of unknown name"
        return replace(
            info,
            base_model=info.base_model or origin.name,
            license=info.license or licenses[0],
            language=info.language or (["multilingual"] if len(languages) > _MOST_LANGUAGES else languages),
            limits=[*info.limits, f"It contains the weights of {encoder}; their licence is {' or '.join(licenses)}."],
        )

    def resolved(self, name: str) -> tuple[Unit, ModelSettings]:
        """Returns the unit and the settings for a name: `auto` and its encoder depend on the documents.

        Args:
            name: Name of the unit, or `AUTO`.
        """
        if name not in self._resolved:
            settings, kind = self.settings, name
            if settings.start_from is not None:
                kind = kind_to_start_from(encoder_config(settings)) if name == AUTO else name
                settings = with_encoder(settings, None)
            elif name == AUTO:
                with self.args.main_process_first(desc="text encoder"):
                    kind, settings = resolve(settings, self.task, self.num_seen, self.say)
            else:
                settings = with_encoder(settings, named_encoder(settings))
            self._resolved[name] = settings.unit(kind), settings
        return self._resolved[name]

    def is_convex(self, name: str) -> bool:
        """Returns whether a unit is fitted as convex problems instead of trained.

        Args:
            name: Name of the unit, or `AUTO`.
        """
        is_fitted = name == AUTO and self.settings.start_from is None
        return is_fitted and self.resolved(name)[0] is self.settings.unit(CONVEX)

    def experiment(self, name: str) -> Experiment:
        """Returns a unit with its documents, labels and loss.

        Args:
            name: Name of the unit, or `AUTO`.
        """
        args, (unit, settings) = self.args, self.resolved(name)
        # A linear unit cannot score labels that it is not trained on.
        labels = self.task.labels[: self.num_seen] if unit.is_linear else self.task.labels
        model, processor = self.model(name, len(labels))
        model.set_labels(labels, processor)
        model.loss_function = self.loss(unit, settings, labels)
        sizes = len(self.task.parts["train"]), self.num_seen
        is_convex = self.is_convex(name)
        size = model.config.text_config.pooled_size if is_convex else 0
        if settings.neighbours and not (is_convex and model.config.lexical):
            raise ValueError(
                f"neighbours are for the unit auto with lexical terms, not for unit {name}: leave out --neighbours"
            )
        parts = encoded = self.encoded(settings, model, processor, None if is_feasible(*sizes, size) else READ_OF_MANY)
        if len(labels) < len(self.task.labels):
            parts = first_columns(parts, len(labels))
        if self.has_one_label:
            parts = with_a_label(parts)
        self.start(model, processor, encoded["train"])
        text = model.config.text_config
        if is_convex and not text.reads_pretrained and settings.word_vectors is None:
            words = encoded["train"]["input_ids"], text.vocab_size, text.embedding_size
            set_word_vectors(model, latent_word_vectors(*words, processor.tokenizer.all_special_ids))
        if model.config.lexical and not is_convex:  # a convex fit sets them itself
            set_lexical_weights(model, encoded["train"]["lexical_ids"])
        optimizer = None
        if model.config.text_config.reads_pretrained:
            optimizer = pretrained_optimizer(model, args, settings.text_encoder_learning_rate, settings.layer_decay)
        metric = metric_name(args.metric_for_best_model, len(labels) > self.num_seen, self.has_one_label)
        return Experiment(
            model,
            processor,
            parts,
            self.sampler(labels),
            run_arguments(args, Path(args.output_dir) / name, metric),
            held_out=self.held_out,
            one_label=self.has_one_label,
            num_documents=len(self.task.parts["train"]),
            top_k=TOP_K,
            test_curve=settings.test_curve,
            optimizer=optimizer,
        )

    def encoded(
        self,
        settings: ModelSettings,
        model: GileForSequenceClassification,
        processor: GileProcessor,
        most: int | None = None,
    ) -> "dict[str, Dataset]":
        """Encodes the documents for a model; units with the same kind of encoder share them.

        Args:
            settings: Settings of the unit.
            model: The model.
            processor: Its processor.
            most: Maximum number of training documents for a frozen encoder.
        """
        task = self.task
        lexical = processor.lexical or (settings.lexical is not False and settings.start_from is None)
        reads_all = bool(settings.neighbours)
        reads = settings.text_encoder, model.config.text_config.reads_sentences, lexical, most, reads_all
        with self.args.main_process_first(desc="words and columns"):
            if reads not in self._encoded:
                reader = copy(processor)  # units share encoded documents
                reader.lexical = lexical
                documents = task.parts, model, reader, task.labels, task.text, task.gold
                self._encoded[reads] = encode_parts(*documents, self.args, most, reads_all)
        return self._encoded[reads]

    def model(self, name: str, num_labels: int) -> tuple[Any, GileProcessor]:
        """Returns a model and its processor: a saved model, or a new one over a pretrained encoder or over words.

        Args:
            name: Name of the unit, or `AUTO`.
            num_labels: Number of labels.
        """
        unit, settings = self.resolved(name)
        known = {"num_labels": num_labels, "label_prior": self.prior, "problem_type": self.problem_type}
        fields = settings.model_fields(unit, **known)
        options = settings.json_object("text_encoder_options")
        if settings.start_from is not None:
            return self._saved_model(settings, fields, options)
        if (place := settings.text_encoder) is not None:
            model = model_from_text_encoder(place, **unit.settings(**fields, text_encoder_options=options))
            prompts: dict[str, Any] = {"text_prompt": settings.text_prompt, "label_prompt": settings.label_prompt}
            return model, processor_from_text_encoder(place, model.config, **prompts)
        tokenizer, vectors = self.words()
        fields |= {"vocab_size": len(tokenizer)} | ({} if vectors is None else {"embedding_size": vectors.shape[1]})
        model = unit.model(unit.config(**fields))
        if vectors is not None:
            set_word_vectors(model, vectors)
        model.get_input_embeddings().requires_grad_(not settings.freeze_word_vectors)
        return model, GileProcessor.for_config(tokenizer, model.config)

    def _saved_model(
        self, settings: ModelSettings, fields: Mapping[str, Any], options: Mapping[str, Any]
    ) -> tuple[Any, GileProcessor]:
        """Loads the model to start from, with the fields that training may change."""
        place = str(settings.start_from)
        # Calibration and thresholds belong to the old weights, and perhaps to another problem type.
        changed: dict[str, Any] = {"calibration": {}, "thresholds": {}, "problem_type": self.problem_type}
        changed |= {name: fields[name] for name in OF_TRAINING if name in fields}
        if settings.lexical is None:  # then it is unchanged, like weights that are not named
            changed.pop("lexical", None)
        if not changed.get("term_weights"):
            changed.pop("term_weights", None)
        config = GileConfig.from_pretrained(place, **changed)
        for name, value in options.items():
            setattr(config.text_config.text_encoder_config, name, value)
        model = GileForSequenceClassification.from_pretrained(place, config=config)
        if settings.freeze_word_vectors:
            model.get_input_embeddings().requires_grad_(False)
        processor = GileProcessor.from_pretrained(place, trust_remote_code=False)
        processor.lexical = config.lexical
        return model, processor

    def words(self) -> tuple[Any, Any]:
        """Returns the tokenizer of models over words, and the initial word vectors, if any."""
        if self._words is None:
            settings = self.settings
            with self.args.main_process_first(desc="words"):
                known = [] if settings.forget_label_words else self.task.labels[: self.num_seen].texts
                options = settings.min_count, settings.word_vectors, settings.freeze_word_vectors
                self._words = words_of(self.task.texts("train"), known, *options)
            self.say(f"{len(self._words[0]):,} words")
        return self._words

    def sampler(self, labels: LabelSet) -> LabelSampler:
        """Returns a sampler of all gold labels of a batch and some other seen labels; unseen labels are never sampled.

        Args:
            labels: The labels of the model.
        """
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

    def loss(self, unit: Unit, settings: ModelSettings, labels: LabelSet) -> GileLoss:
        """Returns the loss chosen in the settings.

        Args:
            unit: The unit.
            settings: Those of the unit.
            labels: The labels of the model.
        """
        miner, weights = None, None
        if settings.hard_negatives:
            columns = range(self.num_seen)
            miner = HardNegatives(settings.hard_negatives, settings.hard_refresh_steps, columns=columns)
        if settings.propensity_weighted:
            weights = propensity_weights([label.count for label in labels], len(self.task.parts["train"]))
        return GileLoss(
            **settings.loss_options(unit),
            share_labels=settings.share_labels and not unit.is_linear,
            positive_weights=weights,
            miner=miner,
        )

    def start(self, model: GileForSequenceClassification, processor: GileProcessor, documents: "Dataset") -> None:
        """Sets statistics of the training documents in a model before training, and adds adapters.

        Args:
            model: The model.
            processor: Its processor.
            documents: Encoded training documents.
        """
        config, special = model.config, processor.tokenizer.all_special_ids
        if config.bag_size and self.settings.start_from is None:
            set_token_weights(model, log_idf(documents["input_ids"], config.text_config.vocab_size, special))
        if self.settings.lora_rank:
            add_lora(model, self.settings.lora_rank, alpha=2 * self.settings.lora_rank)

    def train(self, name: str, experiment: Experiment) -> dict[str, Any]:
        """Trains a unit, and fits its calibration and thresholds.

        Args:
            name: Name of the unit, or `AUTO`.
            experiment: The unit with its documents.
        """
        is_convex, settings = self.is_convex(name), self.resolved(name)[1]
        result = experiment.fit_convex(bool(settings.neighbours)) if is_convex else experiment.fit(settings.patience)
        if self.settings.lora_rank:
            merge_lora(experiment.model)
        weights = {} if is_convex else experiment.weigh_unseen()
        if weights:
            rounded = {term: float(f"{weight:.3g}") for term, weight in weights.items()}
            self.say(f"  for labels never trained on: --term_weights '{json.dumps({'unseen': rounded})}'")
        reliable = experiment.calibrate(NO_CALIBRATION if result.get("fits_validation") else self.settings.calibration)
        say_calibration(reliable, self.say, has_unseen=not all(experiment.labels.seen))
        return {**result, "unseen_weights": weights, **experiment.tune(), "calibration": reliable}

    def measure(self, name: str, experiment: Experiment, result: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Adds the metrics of the test part to the result of a unit; for AiTextML also those of inferred labels.

        Args:
            name: Name of the unit, or `AUTO`.
            experiment: The trained unit.
            result: The return value of `train`.
        """
        model: Any = experiment.model
        thresholds = {one: result[one] for one in ("threshold", "unseen_threshold") if one in result}
        results = {name: {**result, "test": experiment.test(**thresholds)}}
        if hasattr(model, "infer_label_vectors") and len(self.task.labels) > self.num_seen:
            # AiTextML inf: the vector of an unseen label predicts its words.
            model.infer_label_vectors(torch.arange(self.num_seen, len(self.task.labels), device=model.device))
            results[f"{name}_inferred"] = {**result, "test": experiment.test(**thresholds)}
        texts = list(self.task.texts("test", 256))
        speed = documents_per_second(model, experiment.processor, texts, experiment.args.bf16)
        results[name]["test"]["test_documents_per_second"] = speed
        return results

    def table(self, columns: Mapping[str, str], groups: Sequence[str], note: str = "") -> str:
        """Returns the metrics of the test part in percent, see `table_of_results`."""
        return table_of_results(self.results, columns, groups, note)

    def _notes_on_evidence(self) -> list[str]:
        """Returns what limits the meaning of the figures of the test part."""
        test, number = self.task.parts["test"], len(self.described)
        gold, notes = test[self.task.gold], []
        tested = set(chain.from_iterable(gold)).intersection(self.described.ids)
        if without := sum(not ids for ids in gold):
            notes.append(f"{without:,} of {len(test):,} test documents have no label")
        if without := number - len(tested):
            notes.append(f"{without:,} of {number:,} labels have no test document, and are left out of macro-F1")
        if few := sum(label.count == 1 for label in self.described):
            notes.append(f"{few:,} of {self.num_seen:,} seen labels have a single training document")
        names = {label.id: clean_label(label.name) for label in self.described}
        texts = zip(self.task.texts("test"), gold, strict=True)
        if same := sum(clean_label(text) in {names.get(label_id) for label_id in ids} for text, ids in texts):
            notes.append(f"{same:,} of {len(test):,} test documents consist of the name of their label")
        return notes

    def show(self) -> None:
        """Prints the usual metrics of the test part, and how to use a model."""
        num_unseen, results = len(self.described) - self.num_seen - len(self.held_out), self.results
        columns = {"average_precision": "AvgPr"} | {f"recall_at_{k}": f"R@{k}" for k in TOP_K}
        columns |= {"micro_f1": "micro-F1"}
        sizes = f"{self.num_seen:,} seen, {num_unseen:,} unseen"
        notes = [f"test documents: {len(self.task.parts['test']):,}; labels: {sizes}"]
        if num_unseen:
            notes.append("Seen labels are ranked among the seen, unseen among the unseen, and once more among all.")
        if all("test_accuracy" in result["test"] for result in results.values()):
            columns = {"accuracy": "Acc", "macro_f1": "MacroF1", "average_precision": "AvgPr", "recall_at_5": "R@5"}
            notes.append("Acc and MacroF1 (macro-F1) are of the label with the highest score of all labels.")
        elif self.settings.make_cards:
            notes.append(
                "The table uses scores before any calibration. The cards evaluate the models as saved, with their "
                "stored thresholds."
            )
        notes += self._notes_on_evidence()
        groups = ("all", "seen", "unseen", AMONG_ALL) if num_unseen else ("all",)
        folder = self.args.output_dir
        self.say(self.table(columns, groups, "\n".join(notes)))
        curves = "curves.png, " if (Path(folder) / "curves.png").is_file() else ""
        self.say(f"\nwritten to {folder}: results.json, {curves}settings.yaml, and each model")
        if saved := [name for name in self.settings.units if self.resolved(name)[0].is_saved]:
            self.say("to use one:\n  from transformers import pipeline")
            self.say("  pipe = pipeline(")
            self.say(f'      "zero-shot-classification", model="{folder}/{saved[-1]}/model", trust_remote_code=True')
            self.say("  )")
