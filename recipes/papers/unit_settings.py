"""Defines the settings of units, the output layers that the papers compare. Recipes add settings for documents."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from transformers import PreTrainedConfig, TrainingArguments

from hf_gile import GileConfig, GileTextConfig
from hf_gile.training.options import AUTO, STATIC, TOP_K, WORDS, Options
from hf_gile.training.task import check_metric
from papers.chunked_training import ChunkedLoss
from papers.hard_negatives import HardNegatives
from papers.label_sampling import UnitSampler
from papers.settings import add_settings, setting
from papers.unit_loss import UnitLoss
from papers.units import UNITS, Unit

OF_WORDS = ("text_encoder_type", "embedding_size", "embedding_std", "word_dropout")
OF_TEXTS = ("encoder_cell", "hidden_act", "pooling")
SIZES = ("max_sentences", "max_sentence_words", "max_label_words")
OF_HEAD = ("joint_size", "label_prior")
OF_LABELS = ("label_encoder_type", "cosine_score", "label_rows", "joint_layers", "joint_dropout")
"""Settings that are fields of `GileTextConfig` (first three) or `GileConfig`; a linear unit does not use the last."""

NOT_OF_AUTO = ("hierarchical", "lora_rank")
"""Settings that a convex fit over a frozen encoder does not support."""

ENCODER_DEFAULTS: dict[str, Any] = dict.fromkeys(("encoder_cell", "pooling", *SIZES))
"""Settings whose defaults depend on the encoder."""


@dataclass
@add_settings(UnitLoss, ["refresh_steps", "row_dropout"], prefix="label_")
@add_settings(ChunkedLoss, ["chunk_size"], prefix="label_", chunk_size=2048)
@add_settings(ChunkedLoss, ["share_labels"])
@add_settings(HardNegatives, ["refresh_steps"], prefix="hard_")
@add_settings(UnitSampler, ["per_document"])
@add_settings(GileConfig, [*OF_HEAD, *OF_LABELS], label_prior=None, label_encoder_type=None)
@add_settings(GileTextConfig, [*OF_WORDS, *OF_TEXTS, *SIZES], word_dropout=0.5, **ENCODER_DEFAULTS)
class UnitSettings(Options):
    """Settings of units, trained in steps. Where the paper states a value (section 4.1.1), it is the default.

    The exception is `word_dropout`, since the paper has 500 times as many documents. Word vectors, encoder and
    attention have the same size, and encoder, attention and joint space the same activation. The default `label_prior`
    of a joint model is computed from the data.
    """

    UNITS: ClassVar[Mapping[str, Unit]] = UNITS
    GROUPS: ClassVar[dict[str, str]] = {
        **Options.GROUPS,
        "text_encoder_type": "Fields of GileTextConfig",
        "joint_size": "Fields of GileConfig",
        "per_document": "Further options of label sampling and loss",
        "units": "Units",
        "num_negatives": "Label sampling",
    }

    units: list[str] = setting(
        ["linear", "gile"], f"Output layers to train: {', '.join(UNITS)}; or auto, see --text_encoder.", (*UNITS, AUTO)
    )
    text_encoder: str = setting(
        WORDS,
        "Pretrained encoder instead of text_encoder_type: a name or a folder; words for none; or, for the "
        "unit auto, auto or static as in train_table.py.",
    )
    min_count: int = setting(
        3, "Minimum count of a word in training texts; rarer words are unknown. The paper does not state its minimum."
    )
    forget_label_words: bool = setting(False, "Also apply min_count to words of labels.")
    freeze_word_vectors: bool = setting(False, "Do not train the word vectors.")
    text_encoder_options: str = setting(
        "{}",
        'JSON of options for loading the encoder, such as {"attention_probs_dropout_prob": 0}, which is faster.',
    )
    hierarchical: bool = setting(False, "Read windows of whole sentences, with attention over them.")
    lora_rank: int = setting(0, "Train LoRA adapters of this rank instead of the encoder weights.")
    term_weights: str = setting(
        "{}",
        'JSON of weights of score terms, such as {"unseen": {"joint": 0.7, "offset": -1}}; a run with '
        "--held_out_labels fits and prints those of unseen labels.",
    )
    test_curve: bool = setting(
        False, "Also evaluate the test documents after every epoch, without choosing anything by it."
    )
    num_negatives: int = setting(
        1500,
        "Number of labels sampled per batch, with importance weights; 0 uses all labels. The paper: '0.3% "
        "negative label sampling', per document, unweighted.",
    )
    negatives: str = setting(
        "uniform",
        "Sampling of negatives: uniform (as in the paper), frequency (by the square root of document counts), or "
        "in_batch (only gold labels of the batch; biased).",
        ("uniform", "frequency", "in_batch"),
    )
    unweighted: bool = setting(False, "Do not weight sampled labels, as in the paper.")
    hard_negatives: int = setting(0, "Number of hard negatives per document, the best-scored labels that are not gold.")
    class_balanced: float = setting(0.0, "beta of class-balanced label weights, such as 0.99; 0 for none.")

    def unit(self, name: str) -> Unit:
        """Returns a unit.

        Args:
            name: Name of the unit, not `AUTO`.
        """
        return self.UNITS[name]

    def json_object(self, name: str) -> dict[str, Any]:
        """Parses a setting in JSON.

        Args:
            name: The setting.

        Raises:
            ValueError: If it is not a JSON object.
        """
        text = getattr(self, name)
        try:
            value = json.loads(text)
        except ValueError as error:
            raise ValueError(f"{name} must be JSON: {error}, got {text!r:.200}") from None
        if not isinstance(value, dict):
            raise ValueError(f"{name} must be a JSON object, got {text!r:.200}")
        return value

    def model_fields(self, unit: Unit, **other_fields: Any) -> dict[str, Any]:
        """Returns the fields of `GileConfig` for a unit that do not depend on the vocabulary.

        Args:
            unit: The unit.
            other_fields: Other fields.
        """
        names = [*OF_WORDS, *OF_TEXTS, *SIZES, *OF_HEAD, "max_words", "freeze_text_encoder"]
        if not unit.is_linear:
            names += OF_LABELS
        fields = {name: getattr(self, name) for name in names} | other_fields
        if not unit.is_linear:
            fields["term_weights"] = self.json_object("term_weights")
            # Not for baselines, which learn label vectors or are compared with the paper.
            fields["lexical"] = self.lexical is not False and unit.is_saved
        fields["hidden_size"] = fields["attention_size"] = fields["embedding_size"]
        fields["joint_act"] = self.hidden_act
        if self.encoder is not None:
            del fields["embedding_size"]
            fields["text_encoder_type"] = "hierarchical_transformer" if self.hierarchical else "transformer"
        return {name: value for name, value in fields.items() if value is not None}

    def loss_options(self, unit: Unit) -> dict[str, Any]:
        """Returns the options of `UnitLoss` for a unit.

        Args:
            unit: The unit.
        """
        return {
            "loss": unit.loss,
            "chunk_size": 0 if self.num_negatives or unit.loss else self.label_chunk_size,
            "refresh_steps": 0 if unit.is_linear else self.label_refresh_steps,
            "row_dropout": 0.0 if unit.is_linear else self.label_row_dropout,
        }

    def check(self, args: TrainingArguments) -> None:
        """Checks for incompatible settings and missing files; see the base class."""
        units = {name: self.unit(name) for name in self.units if name != AUTO}
        for name in ("hierarchical", "lora_rank"):
            if self.encoder is None and getattr(self, name):
                raise ValueError(f"{name} needs a pretrained encoder: set --text_encoder")
        if self.text_encoder == STATIC and units:
            raise ValueError(f"unit {next(iter(units))} does not support text_encoder static: train the unit auto")
        for name, unit in units.items():
            if self.start_from is not None and not unit.is_saved:
                raise ValueError(f"unit {name} is not saved: train it without --start_from")
            if self.encoder is not None and unit.reads_words:
                raise ValueError(f"unit {name} supports word models only: train it without --text_encoder")
        super().check(args)
        encoder = self.encoder_config()
        for name, unit in units.items():
            self._check_unit(name, unit, encoder)
        if AUTO in self.units and self.start_from is None:
            for name in NOT_OF_AUTO:
                if getattr(self, name):
                    raise ValueError(f"unit auto does not support {name}: choose a unit, such as --units gile_rows")
        if self.share_labels:
            self._check_shared_labels(args, [name for name, unit in units.items() if unit.loss])

    def encoder_config(self, **location: Any) -> Any:
        """Loads the configuration of the encoder, from the revision in `text_encoder_options`; see the base class."""
        options = self.json_object("text_encoder_options")
        location |= {key: options[key] for key in ("revision", "token") if key in options}
        return super().encoder_config(**location)

    def check_metric(self, args: TrainingArguments) -> None:
        """Checks the metric for choosing the epoch, which may be a figure of the test if it has a curve."""
        parts = ("validation", "test") if self.test_curve else ("validation",)
        check_metric(args.metric_for_best_model, TOP_K, parts)

    def _check_unit(self, name: str, unit: Unit, encoder: PreTrainedConfig | None) -> None:
        """Checks that a unit, the settings of the model and a pretrained encoder are compatible."""
        if self.start_from is not None and encoder is not None:
            layer = unit.fields["output_layer"]
            if encoder.output_layer != layer:
                raise ValueError(
                    f"start_from {self.start_from} has output_layer {encoder.output_layer!r}, but unit {name} has "
                    f"{layer!r}"
                )
            UnitLoss(**self.loss_options(unit)).check_fits(encoder)
            return
        fields = self.model_fields(unit, num_labels=2, problem_type="multi_label_classification")
        if encoder is not None:
            fields = {"label_encoder_type": "text_encoder", "pooling": "mean", "text_encoder_config": encoder} | fields
        try:
            UnitLoss(**self.loss_options(unit)).check_fits(unit.config(**fields))
        except ValueError as error:
            raise ValueError(f"unit {name}: {error}") from None

    def _check_shared_labels(self, args: TrainingArguments, ranking: list[str]) -> None:
        """Checks that processes can share the labels; `ranking` names units with a ranking loss."""
        trains_on_all = not self.num_negatives and self.negatives != "in_batch" and self.label_chunk_size > 0
        if not trains_on_all or args.world_size < 2 or ranking:
            raise ValueError(
                "share_labels divides all labels among processes: it needs num_negatives 0, negatives other than "
                "in_batch, label_chunk_size above 0, at least two processes (accelerate launch) and units without a "
                f"ranking loss; got num_negatives {self.num_negatives}, negatives {self.negatives}, label_chunk_size "
                f"{self.label_chunk_size}, {args.world_size} processes, ranking losses {ranking or 'none'}"
            )
