"""Settings of models of texts: what is trained, how, and what is measured. Recipes add where documents come from."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..models import GileConfig, GileTextConfig
from ..models.configuration_gile import METHODS
from .experiment import NO_CALIBRATION
from .hard_negatives import HardNegatives
from .label_sampling import LabelSampler
from .losses import GileLoss
from .settings import Settings, setting, settings_of
from .task import LABEL_TEXTS, PROBLEM_TYPES
from .units import UNITS, Unit

AUTO = "auto"
"""The unit, and the encoder, of whoever names none."""

CONVEX, TRAINED = "bilinear_rows", "gile"
"""The units that `auto` stands for: over a frozen encoder, fitted as convex problems; or trained, over words."""

CALIBRATIONS = (*METHODS, NO_CALIBRATION)
"""What `--calibration` can be."""

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

LEFT_TO_THE_ENCODER: dict[str, Any] = dict.fromkeys(("encoder_cell", "pooling", *SIZES))


@dataclass
class ReportSettings(Settings):
    """The kind of problem, how probabilities are calibrated, and what the card says."""

    calibration: str | None = setting(
        None,
        f"How probabilities are calibrated on validation documents: {', '.join(CALIBRATIONS)}; by default spline, for "
        "documents with one label platt.",
        CALIBRATIONS,
    )
    problem_type: str | None = setting(
        None,
        "single_label_classification (softmax) or multi_label_classification (a sigmoid for each label); by default "
        "the former if every document has exactly one label.",
        PROBLEM_TYPES,
    )
    card: str | None = setting(
        None, "YAML file of what the card is to say, by the fields of hf_gile.publishing.CardInfo."
    )

    def check_problem_type(self, problem_type: str | None) -> None:
        """Names settings that do not go with a softmax over the labels.

        Args:
            problem_type: That of the settings, or of the documents.

        Raises:
            ValueError: There are some.
        """
        if problem_type != "single_label_classification":
            return
        how = "or score each label on its own with --problem_type multi_label_classification"
        if getattr(self, "propensity_weighted", False):
            raise ValueError(f"propensity_weighted is not for documents with one label each: leave it out, {how}")
        if self.calibration not in (None, "none", "platt"):
            raise ValueError(
                "calibration of documents with one label each must be one of platt, none, got "
                f"{self.calibration!r}: choose one of these, {how}"
            )


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

    UNITS: ClassVar[Mapping[str, Unit]] = UNITS
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

    def unit(self, name: str) -> Unit:
        """Returns a unit.

        Args:
            name: Its name, not `AUTO`.
        """
        return self.UNITS[name]

    def json_object(self, name: str) -> dict[str, Any]:
        """Reads a setting that is written as JSON.

        Args:
            name: The setting.

        Raises:
            ValueError: It is no object of JSON.
        """
        text = getattr(self, name)
        try:
            value = json.loads(text)
        except ValueError as error:
            raise ValueError(f"{name} must be JSON: {error}, got {text!r}") from None
        if not isinstance(value, dict):
            raise ValueError(f"{name} must be an object of JSON, got {text!r}")
        return value

    def model_fields(self, unit: Unit, **known: Any) -> dict[str, Any]:
        """Fields of a unit's `GileConfig` that do not depend on the words.

        Args:
            unit: The unit.
            known: Other fields.
        """
        names = (*OF_WORDS, *OF_TEXTS, *SIZES, *OF_HEAD, *(() if unit.is_linear else OF_LABELS))
        fields = {name: getattr(self, name) for name in names} | known
        if not unit.is_linear:
            fields["term_weights"] = self.json_object("term_weights")
            # What the labels of the baselines are is learned, or is to be compared with what the paper says of them.
            fields["lexical"] = self.lexical is not False and unit.is_saved
        fields["hidden_size"] = fields["attention_size"] = fields["embedding_size"]
        fields["joint_act"] = self.hidden_act
        if self.text_encoder is not None:
            del fields["embedding_size"]
            fields["text_encoder_type"] = "hierarchical_transformer" if self.hierarchical else "transformer"
        return {name: value for name, value in fields.items() if value is not None}

    def loss_options(self, unit: Unit) -> dict[str, Any]:
        """Options of `GileLoss` that fit a unit.

        Args:
            unit: The unit.
        """
        return {
            "loss": unit.loss,
            "chunk_size": 0 if self.num_negatives or callable(unit.loss) else self.label_chunk_size,
            "refresh_steps": 0 if unit.is_linear else self.label_refresh_steps,
            "row_dropout": 0.0 if unit.is_linear else self.label_row_dropout,
        }
