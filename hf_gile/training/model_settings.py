"""Defines the settings of text models: model, training and evaluation. Recipes add settings for documents."""

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
from .settings import Settings, add_settings, setting
from .task import LABEL_TEXTS, PROBLEM_TYPES
from .units import UNITS, Unit

AUTO = "auto"
"""Default unit and encoder."""

WORDS = "words"
"""Value of `text_encoder` for no pretrained encoder; stored as None."""

CONVEX, TRAINED = "bilinear_rows", "gile"
"""Units for `auto`: fitted by convex optimization over a fixed encoder; or trained in steps."""

CALIBRATIONS = (*METHODS, NO_CALIBRATION)
"""Choices of `--calibration`."""

TOP_K = (5, 10, 20)
"""Numbers of labels for precision, recall and nDCG; the test also uses 1 and 3."""

OF_WORDS = ("text_encoder_type", "embedding_size", "embedding_std", "word_dropout")
OF_TEXTS = ("encoder_cell", "hidden_act", "pooling", "freeze_text_encoder")
SIZES = ("max_words", "max_sentences", "max_sentence_words", "max_label_words")
OF_HEAD = ("joint_size", "label_prior", "bag_size")
OF_LABELS = ("label_encoder_type", "cosine_score", "label_rows", "joint_layers", "joint_dropout", "lexical")
"""Settings that are fields of `GileTextConfig` (first three) or `GileConfig`; a linear unit does not use the last."""

OF_TRAINING = ("freeze_text_encoder", "joint_dropout", "lexical", "term_weights")
"""Fields that may differ from the saved model of `--start_from`."""

NOT_OF_AUTO = ("hierarchical", "lora_rank", "bag_size")
"""Settings that a convex fit over a frozen encoder does not support."""

ENCODER_DEFAULTS: dict[str, Any] = dict.fromkeys(("encoder_cell", "pooling", *SIZES))
"""Settings whose defaults depend on the encoder."""


@dataclass
class ReportSettings(Settings):
    """Problem type, calibration, and information for the card."""

    calibration: str | None = setting(
        None,
        f"Calibration on validation documents: {', '.join(CALIBRATIONS)}; by default spline, or platt for single-label "
        "documents.",
        CALIBRATIONS,
    )
    problem_type: str | None = setting(
        None,
        "single_label_classification (softmax) or multi_label_classification (independent sigmoids); by default "
        "the former if every document has exactly one label.",
        PROBLEM_TYPES,
    )
    card: str | None = setting(None, "YAML file with fields of hf_gile.publishing.CardInfo for the card.")

    def check_problem_type(self, problem_type: str | None) -> None:
        """Checks for settings that are incompatible with a softmax over labels.

        Args:
            problem_type: Problem type of the settings or the documents.

        Raises:
            ValueError: If a setting is incompatible.
        """
        if problem_type != "single_label_classification":
            return
        alternative = "or score labels independently with --problem_type multi_label_classification"
        if getattr(self, "propensity_weighted", False):
            raise ValueError(
                f"propensity_weighted does not support single-label documents: leave it out, {alternative}"
            )
        if self.calibration not in (None, "none", "platt"):
            raise ValueError(
                "calibration for single-label documents must be platt or none, got "
                f"{self.calibration!r}: choose platt or none, {alternative}"
            )


@dataclass
@add_settings(GileLoss, ["chunk_size", "refresh_steps", "row_dropout"], prefix="label_", chunk_size=2048)
@add_settings(GileLoss, ["share_labels"])
@add_settings(HardNegatives, ["refresh_steps"], prefix="hard_")
@add_settings(LabelSampler, ["per_document"])
@add_settings(GileConfig, [*OF_HEAD, *OF_LABELS], label_prior=None, label_encoder_type=None, lexical=None)
@add_settings(GileTextConfig, [*OF_WORDS, *OF_TEXTS, *SIZES], word_dropout=0.5, **ENCODER_DEFAULTS)
class ModelSettings(ReportSettings):
    """Settings of the model and of label sampling. Where the paper states a value (section 4.1.1), it is the default.

    The exception is `word_dropout`, since the paper has 500 times as many documents. Word vectors, encoder and
    attention have the same size, and encoder, attention and joint space the same activation. The default `label_prior`
    of a joint model is computed from the data.
    """

    UNITS: ClassVar[Mapping[str, Unit]] = UNITS
    GROUPS: ClassVar[dict[str, str]] = {
        "train_files": "Documents",
        "label_file": "Labels and input files",
        "units": "Model",
        "num_negatives": "Label sampling",
        "held_out_labels": "Model selection",
        "calibration": "Probabilities, card",
        "text_encoder_type": "Fields of GileTextConfig",
        "joint_size": "Fields of GileConfig",
        "per_document": "Further options of label sampling and loss",
    }

    units: list[str] = setting(
        ["linear", "gile"], f"Output layers to train: {', '.join(UNITS)}; or auto, see --text_encoder.", (*UNITS, AUTO)
    )
    min_count: int = setting(
        3, "Minimum count of a word in training texts; rarer words are unknown. The paper does not state its minimum."
    )
    forget_label_words: bool = setting(False, "Also apply min_count to words of labels.")
    word_vectors: str | None = setting(None, "File of initial word vectors, which determine the embedding size.")
    freeze_word_vectors: bool = setting(False, "Do not train the word vectors.")
    text_encoder: str | None = setting(
        None,
        "Pretrained encoder instead of text_encoder_type: a name or a folder; words for none; or auto, the best "
        "available encoder for the unit auto. Without an encoder, the unit auto computes word vectors from the texts.",
    )
    neighbours: bool | None = setting(
        None,
        "Store the vectors and labels of training documents in the model (unit auto), and score by those of the "
        "nearest; by default with many labels and at most 50,000 documents. Anyone with the model can estimate the "
        "topic of a document from its vector.",
    )
    text_prompt: str | None = setting(None, "Prompt of the encoder for texts; by default derived from its name.")
    label_prompt: str | None = setting(None, "Prompt of the encoder for labels.")
    text_encoder_options: str = setting(
        "{}",
        'JSON of options for loading the encoder, such as {"attention_probs_dropout_prob": 0}, which is faster.',
    )
    hierarchical: bool = setting(False, "Read windows of whole sentences, with attention over them.")
    start_from: str | None = setting(
        None,
        "Folder of a saved model to continue from, including learned weights of labels by id; for example, to "
        "fine-tune the encoder under a trained head. Its sizes and score terms do not change.",
    )
    text_encoder_learning_rate: float = setting(1e-4, "Learning rate of the last encoder layer.")
    layer_decay: float = setting(1.0, "Factor of the learning rate from each encoder layer to the layer below.")
    lora_rank: int = setting(0, "Train LoRA adapters of this rank instead of the encoder weights.")
    label_texts: str = setting(
        "definitions",
        "Label text that the model reads: the name, the name and synonyms, or the name and the description "
        "(--describe, --label_description).",
        LABEL_TEXTS,
    )
    term_weights: str = setting(
        "{}",
        'JSON of weights of score terms, such as {"unseen": {"joint": 0.7, "offset": -1}}; a run with '
        "--held_out_labels fits and prints those of unseen labels.",
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
    propensity_weighted: bool = setting(
        False, "Weight gold labels by inverse propensity, to compensate for missing labels."
    )
    held_out_labels: int = setting(
        0,
        "Number of labels, by a hash of their ids, held out of training but not of validation, for choosing by "
        "--metric_for_best_model eval_validation_unseen_average_precision. They are excluded from the test.",
    )
    patience: int = setting(2, "Epochs without improvement on validation before training stops.")
    test_curve: bool = setting(
        False, "Also evaluate the test documents after every epoch, without choosing anything by it."
    )
    baselines: bool = setting(
        True,
        "Also evaluate TF-IDF baselines, if fast enough: a linear SVM for seen and the cosine for unseen labels.",
    )
    make_cards: bool = setting(True, "Write a card for each saved model, evaluated as users load it.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.text_encoder == WORDS:
            self.text_encoder = None

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
        names = (*OF_WORDS, *OF_TEXTS, *SIZES, *OF_HEAD, *(() if unit.is_linear else OF_LABELS))
        fields = {name: getattr(self, name) for name in names} | other_fields
        if not unit.is_linear:
            fields["term_weights"] = self.json_object("term_weights")
            # Not for baselines, which learn label vectors or are compared with the paper.
            fields["lexical"] = self.lexical is not False and unit.is_saved
        fields["hidden_size"] = fields["attention_size"] = fields["embedding_size"]
        fields["joint_act"] = self.hidden_act
        if self.text_encoder is not None:
            del fields["embedding_size"]
            fields["text_encoder_type"] = "hierarchical_transformer" if self.hierarchical else "transformer"
        return {name: value for name, value in fields.items() if value is not None}

    def loss_options(self, unit: Unit) -> dict[str, Any]:
        """Returns the options of `GileLoss` for a unit.

        Args:
            unit: The unit.
        """
        return {
            "loss": unit.loss,
            "chunk_size": 0 if self.num_negatives or callable(unit.loss) else self.label_chunk_size,
            "refresh_steps": 0 if unit.is_linear else self.label_refresh_steps,
            "row_dropout": 0.0 if unit.is_linear else self.label_row_dropout,
        }
