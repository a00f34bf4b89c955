"""Trains units of a study in steps, one after the other.

study = Study(settings, args, TextTask(parts, labels))
run_units(study)
study.show()
"""

import json
from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING, Any

import torch
from transformers import set_seed

from hf_gile import GileForSequenceClassification, GileProcessor, LabelSet
from hf_gile.training import (
    model_from_text_encoder,
    processor_from_text_encoder,
    set_lexical_weights,
    set_word_vectors,
)
from hf_gile.training.encoders import prompt_of
from hf_gile.training.experiment import (
    Experiment,
    encode_parts,
    pretrained_optimizer,
    with_a_label,
)
from hf_gile.training.fit import fit, saved_model
from hf_gile.training.options import AUTO
from hf_gile.training.study import Study, test_metrics
from hf_gile.training.task import words_of
from papers.hard_negatives import HardNegatives
from papers.label_sampling import UnitSampler
from papers.label_weights import class_balanced_weights
from papers.lora import add_lora, merge_lora
from papers.unit_loss import UnitLoss
from papers.unit_settings import UnitSettings
from papers.units import Unit
from papers.unseen_weights import weigh_unseen

if TYPE_CHECKING:
    from datasets import Dataset


def run_units(study: Study) -> None:
    """Trains, measures and saves the units of the settings; the unit `AUTO` is what `fit` trains.

    Args:
        study: Documents, labels, and `UnitSettings`.
    """
    from obvious_rows import measure_obvious_rows  # imports scikit-learn, which --help does not need

    measure_obvious_rows(study)
    trainer = UnitTrainer(study)
    for name in study.options.units:
        experiment = fit(study) if name == AUTO else trainer.train(name)
        study.record(name, experiment)
        if hasattr(experiment.model, "infer_label_vectors") and len(study.task.labels) > study.num_seen:
            record_inferred(study, name, experiment)


def record_inferred(study: Study, name: str, experiment: Experiment) -> None:
    """Measures AiTextML also with inferred vectors of unseen labels, which predict the words of the label.

    Args:
        study: Documents and labels.
        name: Name of the unit.
        experiment: The trained unit, after `Study.record`.
    """
    model: Any = experiment.model
    model.infer_label_vectors(torch.arange(study.num_seen, len(study.task.labels), device=model.device))
    result = study.results[name]
    study.results[f"{name}_inferred"] = {**result, "test": test_metrics(experiment.test())}
    study.write()


class UnitTrainer:
    """Trains units; those with the same kind of encoder share its vocabulary and encoded documents.

    Args:
        study: Documents, labels, and `UnitSettings`.
    """

    def __init__(self, study: Study) -> None:
        self.study = study
        self.settings: UnitSettings = study.options  # type: ignore[assignment]
        self._encoded: dict[tuple[bool, bool], dict[str, Dataset]] = {}  # by what the encoder reads
        self._words: tuple[Any, Any] | None = None

    def train(self, name: str) -> Experiment:
        """Trains a unit in steps.

        Args:
            name: Name of the unit.

        Returns:
            The trained unit with its documents.
        """
        set_seed(self.study.args.seed)
        experiment = self.experiment(name)
        self.study.say(f"\n{name}: {experiment.num_parameters:,} parameters")
        experiment.fit(self.settings.patience)
        if self.settings.lora_rank:
            merge_lora(experiment.model)
        if weights := weigh_unseen(experiment):
            rounded = {term: float(f"{weight:.3g}") for term, weight in weights.items()}
            self.study.say(f"  for labels never trained on: term_weights: '{json.dumps({'unseen': rounded})}'")
            experiment.fitted["unseen_weights"] = weights
        return experiment

    def experiment(self, name: str) -> Experiment:
        """Returns a unit with its documents, labels and loss.

        Args:
            name: Name of the unit.
        """
        study, settings = self.study, self.settings
        if settings.neighbours:
            raise ValueError(f"neighbours are for the unit auto, not for unit {name}: leave out --neighbours")
        unit = settings.unit(name)
        model, processor = self.model(unit)
        labels = study.labels_of(model)
        model.set_labels(labels, processor)
        model.loss_function = self.loss(unit)
        parts = encoded = self.encoded(model, processor)
        if len(labels) < len(study.task.labels):
            parts = first_columns(parts, len(labels))
        if study.has_one_label:
            parts = with_a_label(parts)
        if model.config.lexical:
            set_lexical_weights(model, encoded["train"]["lexical_ids"])
        if settings.lora_rank:
            add_lora(model, settings.lora_rank, alpha=2 * settings.lora_rank)
        optimizer = None
        if model.config.text_config.reads_pretrained:
            optimizer = pretrained_optimizer(model, study.args, settings.text_encoder_learning_rate)
        experiment = study.experiment(
            name,
            model,
            processor,
            parts,
            self.sampler(labels),
            optimizer=optimizer,
            encoder=settings.start_from or settings.encoder,
        )
        if settings.test_curve:
            experiment.trainer.eval_dataset["test"] = parts["test"]
        return experiment

    def model(self, unit: Unit) -> tuple[Any, GileProcessor]:
        """Returns a model and its processor: a saved model, or a new one over a pretrained encoder or over words.

        Args:
            unit: The unit.
        """
        study, settings = self.study, self.settings
        options = settings.json_object("text_encoder_options")
        if settings.start_from is not None:
            return self._saved_model(settings.start_from, options)
        fields = settings.model_fields(
            unit,
            num_labels=len(study.task.labels[: study.num_seen]) if unit.is_linear else len(study.task.labels),
            label_prior=settings.label_prior or study.prior,
            problem_type=study.problem_type,
        )
        location = settings.encoder
        if location is not None:
            model = model_from_text_encoder(location, **unit.settings(**fields, text_encoder_options=options))
            prompts = settings.prompts(prompt_of(location))
            return model, processor_from_text_encoder(location, model.config, **prompts)
        tokenizer, vectors = self.words()
        fields["vocab_size"] = len(tokenizer)
        if vectors is not None:
            fields["embedding_size"] = vectors.shape[1]
        new: Any = unit.model(unit.config(**fields))
        if vectors is not None:
            set_word_vectors(new, vectors)
        new.get_input_embeddings().requires_grad_(not settings.freeze_word_vectors)
        return new, GileProcessor.for_config(tokenizer, new.config)

    def _saved_model(self, folder: str, options: dict[str, Any]) -> tuple[Any, GileProcessor]:
        """Loads the model to start from, with the fields that training may change."""
        settings = self.settings
        model, processor = saved_model(
            self.study,
            folder,
            encoder_options=options,
            joint_dropout=settings.joint_dropout,
            lexical=settings.lexical,
            term_weights=settings.json_object("term_weights") or None,
            freeze_text_encoder=bool(settings.freeze_text_encoder),
        )
        if settings.freeze_word_vectors:
            model.get_input_embeddings().requires_grad_(False)
        return model, processor

    def words(self) -> tuple[Any, Any]:
        """Returns the tokenizer of models over words, and the initial word vectors, if any."""
        if self._words is None:
            study, settings = self.study, self.settings
            with study.args.main_process_first(desc="words"):
                known = [] if settings.forget_label_words else study.task.labels[: study.num_seen].texts
                options = settings.min_count, settings.word_vectors, settings.freeze_word_vectors
                self._words = words_of(study.task.texts("train"), known, *options)
            study.say(f"{len(self._words[0]):,} words")
        return self._words

    def encoded(self, model: GileForSequenceClassification, processor: GileProcessor) -> "dict[str, Dataset]":
        """Encodes the documents for a model; units with the same kind of encoder share them.

        Args:
            model: The model.
            processor: Its processor.
        """
        study, settings = self.study, self.settings
        lexical = processor.lexical or (settings.lexical is not False and settings.start_from is None)
        reads = model.config.text_config.reads_sentences, lexical
        with study.args.main_process_first(desc="words and columns"):
            if reads not in self._encoded:
                reader = copy(processor)  # units share encoded documents
                reader.lexical = lexical
                if model.config.text_config.has_fixed_pooling:
                    model.to(study.args.device)
                self._encoded[reads] = encode_parts(study.task, model, reader, study.args.bf16)
        return self._encoded[reads]

    def sampler(self, labels: LabelSet) -> UnitSampler:
        """Returns a sampler of all gold labels of a batch and some other seen labels; unseen labels are never sampled.

        Args:
            labels: The labels of the model.
        """
        settings = self.settings
        counts = [label.count for label in labels]
        return UnitSampler(
            len(labels),
            num_negatives=0 if settings.negatives == "in_batch" else settings.num_negatives or None,
            columns=range(self.study.num_seen),
            per_document=settings.per_document,
            weighted=not settings.unweighted,
            frequencies=[count**0.5 for count in counts] if settings.negatives == "frequency" else None,
            seed=self.study.args.seed,
            label_weights=class_balanced_weights(counts, settings.class_balanced) if settings.class_balanced else None,
        )

    def loss(self, unit: Unit) -> UnitLoss:
        """Returns the loss chosen in the settings.

        Args:
            unit: The unit.
        """
        settings = self.settings
        miner = None
        if settings.hard_negatives:
            columns = range(self.study.num_seen)
            miner = HardNegatives(settings.hard_negatives, settings.hard_refresh_steps, columns=columns)
        return UnitLoss(
            **settings.loss_options(unit),
            share_labels=settings.share_labels and not unit.is_linear,
            miner=miner,
        )


def first_columns(parts: "Mapping[str, Dataset]", number: int) -> "dict[str, Dataset]":
    """Removes labels beyond the first ones from encoded documents.

    Args:
        parts: Encoded documents of each part.
        number: Number of labels of the model.
    """

    def below(batch: Mapping[str, Any]) -> dict[str, list[list[int]]]:
        names = [name for name in ("labels", "excluded_columns") if name in batch]
        return {name: [[column for column in columns if column < number] for columns in batch[name]] for name in names}

    return {part: rows.map(below, batched=True) for part, rows in parts.items()}
