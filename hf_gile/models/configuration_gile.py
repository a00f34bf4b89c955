"""Configuration of GILE models: the hyper-parameters of the paper as validated fields."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import field, fields
from difflib import get_close_matches
from typing import Any, ClassVar, Literal

from huggingface_hub.dataclasses import strict
from huggingface_hub.errors import StrictDataclassError
from torch import nn
from transformers import AutoConfig, PreTrainedConfig
from transformers.utils import logging

from .checks_gile import (
    GROUPS,
    LARGEST,
    PRETRAINED_ENCODERS,
    SENTENCE_ENCODERS,
    check_calibration,
    check_encoder_sizes,
    check_fetches_nothing,
    check_fields,
    check_largest,
    check_number,
    read_json_object,
    refuse_unread,
    unread_of_head,
    unread_of_text,
)
from .mixture_gile import TERMS, Mixture

_logger = logging.get_logger(__name__)

FORMAT_VERSION = 3
"""Incremented when the meaning of a saved model changes, so that older code refuses to load it."""


def _field_names(config: type[PreTrainedConfig]) -> set[str]:
    """Returns the names of the fields that a configuration class adds to the base class."""
    return {item.name for item in fields(config)} - {item.name for item in fields(PreTrainedConfig)}


# Generic fields that transformers passes to configurations and saves with them.
_GENERIC = ("auto_map", "custom_pipelines", "quantization_config", "tie_word_embeddings", "use_cache")


def _check_names(config: type[PreTrainedConfig], names: Iterable[str], is_saved: bool) -> None:
    """Refuses unknown fields of a configuration class, and suggests similar ones; for a saved file, it warns.

    A configuration may have any attribute, as in `model.config.note = "x"`, which is saved with it.
    """
    known = _field_names(config) | {"num_labels", "id2label", "problem_type", "dtype"}
    if config is not GileTextConfig:
        known |= _field_names(GileTextConfig)
    for name in names:
        is_generic = name in _GENERIC or name.startswith("_") or name.endswith(("_token_id", "_implementation"))
        if is_generic or name in known or hasattr(PreTrainedConfig, name):
            continue
        close = get_close_matches(name, known, 1)
        hint = f": did you mean {close[0]}?" if close else f"; it has {', '.join(sorted(known))}"
        message = f"{config.__name__} has no field {name!r:.100}{hint}"
        if not is_saved:
            raise ValueError(message)
        _logger.warning(f"config.json: {message}. It is read as an attribute without effect")


@strict
class GileTextConfig(PreTrainedConfig):
    """Configuration of the text encoder: the `text_config` of a `GileConfig`.

    Args:
        vocab_size: Number of rows of the word embedding table, shared by documents and labels (section 2.2).
        pad_token_id: Id of the padding word, which is ignored.
        embedding_size: Size D of a word vector, and of a label vector e (the mean of its word vectors).
        text_encoder_type: Encoder of documents. Over words, `input_ids` (B, W): `"nn"`, their average, or `"wan"`, word
            attention. Over sentences of words, (B, S, W): `"hnn"`, averages at both levels, or `"han"`, attention. Over
            the tokens of a pretrained encoder: `"transformer"`, (B, W), or `"hierarchical_transformer"`, attention over
            windows of whole sentences, (B, S, W), for long documents. `"static"`: a table instead of the pretrained
            encoder that taught it and that encoded the labels (`hf_gile.training.distill`).
        text_encoder_config: Configuration of the pretrained encoder, any `AutoModel` with hidden states. It determines
            `vocab_size`, `embedding_size` and `pad_token_id`. `model_from_text_encoder` creates it.
        freeze_text_encoder: Whether the pretrained encoder is frozen. It then runs without dropout, and unless pooling
            is attention, its output for a text can be precomputed (`pooled_embeds` of `forward`).
        num_vectors: Number of vectors of a static encoder, of tokens and of pairs of neighbouring tokens.
        encoder_cell: Encoders g_w and g_s of Eq. 1: `"dense"`, `"gru"` or `"bigru"`. An `nn` has none. For a
            `hierarchical_transformer`, the encoder over windows, or `"none"`.
        pooling: Pooling of hidden states: `"attention"` (Eq. 2), `"mean"`, `"sum"`, or for a pretrained encoder
            `"cls"`, the state of the first token.
        hidden_size: Size H of the encoders, in each direction of a bigru, and of the document vector h.
        attention_size: Size of v = f(h) in the attention of Eq. 2.
        hidden_act: Activation of encoders and attention, a key of `transformers.activations.ACT2FN`.
        embedding_std: Standard deviation of new word vectors. If too small, label codes stay similar for epochs.
        word_dropout: Fraction of the distinct words of each document that a training step drops.
        max_words: Maximum number of words of a document (nn, wan, transformer).
        max_sentences: Maximum number of sentences or windows of a document (other types).
        max_sentence_words: Maximum number of words of a sentence, or tokens of a window.
        max_label_words: Maximum number of words of a label.

    Raises:
        huggingface_hub.errors.StrictDataclassError: If a field is unknown, invalid or without effect.
    """

    model_type = "gile_text"
    sub_configs: ClassVar[dict[str, Any]] = {"text_encoder_config": AutoConfig}

    vocab_size: int = 30_000
    pad_token_id: int = 0
    embedding_size: int = 100
    text_encoder_type: Literal["nn", "hnn", "wan", "han", "transformer", "hierarchical_transformer", "static"] = "wan"
    text_encoder_config: PreTrainedConfig | dict[str, Any] | None = None
    freeze_text_encoder: bool = False
    num_vectors: int = 0
    encoder_cell: Literal["dense", "gru", "bigru", "none"] = "dense"
    pooling: Literal["attention", "mean", "sum", "cls"] = "attention"
    hidden_size: int = 100
    attention_size: int = 100
    hidden_act: str = "relu"
    embedding_std: float | int = 0.3
    word_dropout: float | int = 0.0
    max_words: int = 300
    max_sentences: int = 30
    max_sentence_words: int = 30
    max_label_words: int = 50

    def __post_init__(self, _is_saved: bool = False, **kwargs: object) -> None:
        encoder = self.text_encoder_config
        if isinstance(encoder, dict):
            check_encoder_sizes(encoder)
            if "model_type" not in encoder:
                raise ValueError("text_encoder_config has no model_type, such as 'bert'")
            try:
                encoder = self.text_encoder_config = AutoConfig.for_model(**encoder)
            except (AttributeError, KeyError, TypeError, ValueError, StrictDataclassError) as error:
                raise ValueError(
                    f"text_encoder_config is not a valid configuration of a {encoder['model_type']!r:.100}: "
                    f"{error!s:.300}"
                ) from None
        if encoder is not None:
            has_sizes = all(isinstance(getattr(encoder, name, None), int) for name in ("vocab_size", "hidden_size"))
            if encoder.model_type.startswith("gile") or not has_sizes or encoder.is_encoder_decoder:
                raise ValueError(
                    f"text_encoder_config describes a {encoder.model_type!r}, which is not a text encoder: it does not "
                    "compute hidden states of tokens only, or has a decoder; use, for example, a 'bert'"
                )
            sizes = {
                "vocab_size": encoder.vocab_size,
                "embedding_size": getattr(encoder, "embedding_size", None) or encoder.hidden_size,
                "pad_token_id": self.pad_token_id if encoder.pad_token_id is None else encoder.pad_token_id,
            }
            for name, value in sizes.items():
                if getattr(self, name) not in (getattr(type(self), name), value):
                    raise ValueError(
                        f"{name}={getattr(self, name)!r} has no effect, the encoder has {value}: leave it out"
                    )
                setattr(self, name, value)
        _check_names(type(self), kwargs, _is_saved)
        super().__post_init__(**kwargs)

    @property
    def encoder_size(self) -> int:
        """Size of the output of the text encoder."""
        if self.text_encoder_type == "nn":
            return self.embedding_size
        if self.text_encoder_type in ("transformer", "static") or self.encoder_cell == "none":
            return self.pooled_size
        return self.hidden_size * (2 if self.encoder_cell == "bigru" else 1)

    @property
    def pooled_size(self) -> int:
        """Size of the output of the pretrained encoder for a text or a window."""
        encoder = self.text_encoder_config
        return 0 if encoder is None else encoder.hidden_size  # type: ignore[union-attr]

    @property
    def reads_pretrained(self) -> bool:
        """Whether a pretrained encoder reads documents."""
        return self.text_encoder_type in PRETRAINED_ENCODERS

    @property
    def has_fixed_pooling(self) -> bool:
        """Whether the output of the pretrained encoder is constant in training, so that it can be precomputed."""
        return self.text_encoder_type == "static" or (self.freeze_text_encoder and self.pooling != "attention")

    @property
    def reads_sentences(self) -> bool:
        """Whether a document consists of sentences of words, or of windows of tokens."""
        return self.text_encoder_type in SENTENCE_ENCODERS

    def validate_fields(self) -> None:
        """Checks that sizes are positive and plausible, and that the padding word is a row of the table."""
        check_fields(self)
        if not 0 <= self.pad_token_id < self.vocab_size:
            raise ValueError(
                f"pad_token_id must be among the {self.vocab_size} words of vocab_size, got {self.pad_token_id}"
            )
        if self.embedding_std <= 0:
            raise ValueError(f"embedding_std must be positive, got {self.embedding_std}")

    def validate_text_encoder(self) -> None:
        """Checks that fields have an effect, those for pretrained encoders with these only."""
        if self.reads_pretrained != (self.text_encoder_config is not None):
            raise ValueError(
                "text_encoder_config needs a pretrained encoder (transformer, hierarchical_transformer, static), got "
                f"{type(self.text_encoder_config).__name__} with {self.text_encoder_type!r}; "
                "hf_gile.training.model_from_text_encoder(name) makes both"
            )
        if self.text_encoder_type == "static" and self.num_vectors < 1:
            raise ValueError("num_vectors must be positive for text_encoder_type 'static'")
        if not self.reads_pretrained and self.pooling == "cls":
            raise ValueError(f"pooling='cls' needs a pretrained encoder, not {self.text_encoder_type!r}")
        if self.text_encoder_type != "hierarchical_transformer" and self.encoder_cell == "none":
            raise ValueError(f"encoder_cell='none' needs a 'hierarchical_transformer', not {self.text_encoder_type!r}")
        refuse_unread(self, unread_of_text(vars(self)))


@strict
class GileConfig(PreTrainedConfig):
    """Configuration of a `GileModel` and of a `GileForSequenceClassification`.

    Equations are those of GILE (Pappas & Henderson, TACL 2019, Q19-1009). The defaults are the settings of its
    section 4.1.1 (biomedical text). In the published code, the flag `ladim` is `joint_size`, `laact` is `joint_act`,
    and `share` is `sharing`; `hf-gile convert` reads all flags.

    Args:
        text_config: The text encoder: a `GileTextConfig`, or its fields, which can also be passed directly:
            `GileConfig(text_encoder_type="han", joint_size=128)`.
        output_layer: `"gile"`, the joint input-label embedding of Eq. 14, or an output layer that the paper compares:
            `"only_label"` (Eq. 6a, J = H), `"only_input"` (Eq. 6b, J = D), `"bilinear"`, E W h of Eq. 5 ([N16] in
            Table 2), `"bilinear_yh15"`, act(E U) V h ([YH15]), and `"linear"`, the typical linear unit of Eq. 3, which
            scores only the labels it was trained on.
        label_encoder_type: Encoder of labels: `"mean"`, the mean of word vectors (section 2.2), or `"text_encoder"`.
        cosine_score: Whether the score has a term `c cos(h, e)`.
        cosine_scale: Initial value of c in this term.
        lexical: Whether the score has lexical terms in evaluation: "match", the words and word parts that a whole
            document shares with a text of the label, weighted by idf; "coverage", above 0 if the document has all words
            of a name (`Postings`); "title", 1 if its title has them; "specificity", the idf of the rarest word of the
            name, for any document; and "words", the word weights of stored labels, if `row_words` is set.
        term_weights: Weights of score terms for labels with a row ("seen") and without ("unseen"), and an additive
            "offset": `{"unseen": {"joint": 0.7, "match": 1.4, "offset": -1.5}}`. `TERMS` has the defaults. Seen labels
            of n documents have n / (n + 3) of the weights of "seen", 3 / (n + 3) of those of "rare", by default equal.
        label_rows: `"full"` if each stored label has a row r and a bias b, initially zero, that add `r . h + b` to its
            score, so that frequent labels are scored as well as by a linear unit; `"bias"` if it has b alone.
        row_words: Total number of words in the word rows of stored labels (`WordRows`); set when they are fitted.
        neighbours: Number of training documents whose vectors are stored, to add the labels of the nearest to "words".
        joint_layers: Number of layers of both projections into the joint space. Layers after the first have a residual
            connection (Deep Residual Output Layers: Pappas & Henderson, ICML 2019).
        joint_dropout: Dropout of h and e before the joint space, and between its layers.
        joint_size: Size J of the joint space (d_j).
        joint_act: Activation of Eq. 7 and 8; `"linear"` with U = I, w = 1 and no biases is Eq. 18, or `"bilinear"`.
        languages: Languages of the model, such as `["english", "german"]`; by default none.
        sharing: Parts of the text encoder shared by the languages: `"none"`, `"encoders"`, `"attention"` (the best in
            Table 3 of the paper) or `"both"`.
        share_joint_space: Whether languages share U, V, b_u and b_v (section 3.3); w and b are never shared.
        language_labels: Number of stored labels of each language, which are grouped in the order of `languages`. Set by
            `set_labels`, but required for a linear unit.
        label_prior: Initial probability of a label, whose logit initializes the bias b: about the number of labels per
            document divided by the number of labels.
        calibration: Calibration of logits, as applied by `calibrated`: `{"seen": {"method": "platt", "scale": 0.9,
            "offset": -0.2}, "unseen": {"method": "spline", "logits": [...], "values": [...]}}`; a missing group is
            calibrated like the other. "labels" of "unseen" is the number of unseen labels it was fitted with, and
            "crowding" what they lose where more compete. The pipeline applies it, the model does not.
        thresholds: Lowest calibrated probabilities of assigned labels without an individual threshold: `{"seen": 0.31,
            "unseen": 0.2}`. A missing group has the threshold of the other, or 0.5. With `"at_least": 1`, a document
            gets its best label if no label reaches its threshold, as where every training document has a label.
        usual_score: Probability that the best label of nine in ten held-out documents reached; 0 if unknown. If fewer
            of other texts reach it, they are unlike the training documents.
        label_length: Maximum number of words of stored labels; 0 without a label set. Set by `set_labels`.
        format_version: Version of the saved format; newer versions are refused.

    Attributes:
        largest: Largest allowed sizes by field (for `languages` and `num_labels`, their number; for
            `text_encoder_config`, by kind; `missing_weights` is the number of weights missing from the files of a
            model; `prompt` and `label_text` are characters; `normalized_length` is what the normalizers of a tokenizer
            make of a character), since a file of a few bytes could request any amount of memory. Raise a limit if
            needed.

    Raises:
        huggingface_hub.errors.StrictDataclassError: As for `GileTextConfig`.
    """

    model_type = "gile"
    sub_configs: ClassVar[dict[str, Any]] = {"text_config": GileTextConfig}
    largest: ClassVar[dict[str, int]] = LARGEST
    # All in one file: transformers would load a copy of the code for each file named here.
    auto_classes: ClassVar[dict[str, str]] = {
        "AutoConfig": "modeling_gile.GileConfig",
        "AutoModel": "modeling_gile.GileModel",
        "AutoModelForSequenceClassification": "modeling_gile.GileForSequenceClassification",
    }

    text_config: Any = None  # always a GileTextConfig after __post_init__
    output_layer: Literal["gile", "only_label", "only_input", "bilinear", "bilinear_yh15", "linear"] = "gile"
    label_encoder_type: Literal["mean", "text_encoder"] = "mean"
    lexical: bool = False
    term_weights: dict[str, Any] = field(default_factory=dict)
    cosine_score: bool = False
    cosine_scale: float | int = 15.0
    label_rows: Literal["bias", "full"] | None = None
    row_words: int = 0
    neighbours: int = 0
    joint_size: int = 500
    joint_act: str = "relu"
    joint_layers: int = 1
    joint_dropout: float | int = 0.0
    languages: list[str] = field(default_factory=list)
    sharing: Literal["none", "encoders", "attention", "both"] = "attention"
    share_joint_space: bool = True
    language_labels: dict[str, int] = field(default_factory=dict)
    label_prior: float = 0.01
    calibration: dict[str, Any] = field(default_factory=dict)
    thresholds: dict[str, float | int] = field(default_factory=dict)
    usual_score: float | int = 0.0
    label_length: int = 0
    format_version: int = FORMAT_VERSION

    @classmethod
    def _dict_from_json_file(cls, json_file: str | os.PathLike[str]) -> dict[str, Any]:
        content = read_json_object(json_file)
        content.pop("configuration_files", None)  # otherwise transformers would read another file
        return cls._decode_special_floats(content)

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """Creates a configuration from the content of a file; see `PreTrainedConfig.from_dict`.

        Raises:
            ValueError: If it is another kind of model, a field has a wrong type or an invalid value, or would make
                transformers download something.
        """
        kind = config_dict.get("model_type", cls.model_type)
        if kind != cls.model_type:
            raise ValueError(
                f"config.json describes a model of type {kind!r:.100}, but this class loads {cls.model_type!r}: load "
                "it with AutoModel or AutoModelForSequenceClassification"
            )
        check_fetches_nothing(config_dict, "")
        text_fields = {name: kwargs.pop(name) for name in _field_names(GileTextConfig) & kwargs.keys()}
        if text_fields:
            kwargs["text_config"] = {**text_fields, **kwargs.get("text_config", {}), "_is_saved": True}
        config_dict = {**config_dict, "_is_saved": True}
        if isinstance(config_dict.get("text_config"), dict):
            for name in sorted(_field_names(GileTextConfig) & config_dict.keys()):
                _logger.warning(f"config.json: {name} is a field of text_config; beside it, it has no effect")
        try:
            return super().from_dict(config_dict, **kwargs)
        except (AttributeError, KeyError, TypeError, StrictDataclassError) as error:
            text = " ".join(str(error.__cause__ or error).split())
            raise ValueError(f"config.json is not the configuration of a GILE model: {text:.500}") from None

    def __post_init__(self, **kwargs: object) -> None:
        is_saved = bool(kwargs.pop("_is_saved", False))
        number = kwargs.get("num_labels", 2)
        names = self.id2label
        if not isinstance(number, int) or not (names is None or isinstance(names, Mapping)):
            raise ValueError(
                f"num_labels must be a whole number and id2label a mapping, got {number!r:.100} and {names!r:.100}"
            )
        check_largest("num_labels", number)
        # Fields of `text_config` can also be passed directly: `GileConfig(max_words=100)`.
        names_of_text = set() if is_saved and self.text_config else _field_names(GileTextConfig)
        text_fields = {name: kwargs.pop(name) for name in names_of_text & kwargs.keys()}
        if self.text_config is None or isinstance(self.text_config, dict):
            self.text_config = GileTextConfig(**{**(self.text_config or {}), **text_fields, "_is_saved": is_saved})
        elif text_fields:
            raise ValueError(f"{min(text_fields)} is a field of text_config: set it there, as text_config was passed")
        elif getattr(self.text_config, "model_type", None) != GileTextConfig.model_type:
            raise ValueError(
                f"text_config must be a GileTextConfig or its fields, got {type(self.text_config).__name__}; the "
                "configuration of a pretrained encoder is text_encoder_config in it: "
                "hf_gile.training.model_from_text_encoder(name) makes both"
            )
        _check_names(type(self), kwargs, is_saved)
        super().__post_init__(**kwargs)
        # transformers prefers tasks of a model to built-in tasks, so these names select our pipelines.
        self.custom_pipelines = {
            task: {
                "impl": f"pipeline_gile.{name}",
                "pt": ["AutoModelForSequenceClassification"],
                "type": "text",
            }
            for task, name in {
                "zero-shot-classification": "LabelScoringPipeline",
                "text-classification": "StoredLabelsPipeline",
            }.items()
        }

    def to_diff_dict(self) -> dict[str, Any]:
        """Returns the fields to save; see `PreTrainedConfig.to_diff_dict`."""
        return {
            **super().to_diff_dict(),
            "text_config": self.text_config.to_diff_dict(),
            "auto_map": self.auto_classes,  # transformers sets that of the instance
        }

    @property
    def document_size(self) -> int:
        """Size H of the document vector h."""
        return self.text_config.encoder_size

    @property
    def label_size(self) -> int:
        """Size D of the label vector e."""
        text = self.text_config
        return text.encoder_size if self.label_encoder_type == "text_encoder" else text.embedding_size

    @property
    def pools_labels(self) -> bool:
        """Whether a pretrained encoder in the model reads labels."""
        text = self.text_config
        is_there = text.reads_pretrained and text.text_encoder_type != "static"
        return is_there and self.label_encoder_type == "text_encoder"

    @property
    def full_length(self) -> int:
        """Number of words below which "match" and "coverage" of a document are scaled down, see `Postings`.

        It is 1 if labels have rows: the weights of these terms are then fitted to documents like those to score.
        """
        return 1 if self.label_rows else 50

    @property
    def mixture(self) -> Mixture:
        """The terms of the score and their weights."""
        present = {
            "joint": True,
            "cosine": self.cosine_score,
            "rows": self.label_rows,
            "match": self.lexical,
            "coverage": self.lexical,
            "words": self.lexical and self.label_rows,
            "title": self.lexical,
            "specificity": self.lexical,
            "offset": True,
        }
        return Mixture([term for term in TERMS if present[term]], self.term_weights)

    def validate_fields(self) -> None:
        """Checks that sizes are positive and plausible, and that probabilities are in range."""
        check_fields(self)
        layers = self.joint_layers * max(1, len(self.languages))
        check_largest("joint_layers", layers, "joint_layers times the number of languages")
        if not 0 < self.label_prior < 1:
            raise ValueError(f"label_prior must be a probability between 0 and 1, got {self.label_prior}")

    def validate_languages(self) -> None:
        """Checks that languages are valid module names."""
        for position, language in enumerate(self.languages):
            is_name = language.isidentifier() and not hasattr(nn.ModuleDict(), language)
            if not is_name or language in self.languages[:position]:
                raise ValueError(
                    f"languages[{position}] must be another name of letters, digits and underscores that does not "
                    f"start with a digit, such as 'english' or 'pt_br', got {language!r}"
                )
        numbered = set(self.language_labels)
        needs_numbers = self.output_layer == "linear" and numbered != set(self.languages)
        if needs_numbers or not numbered <= set(self.languages):
            raise ValueError(
                f"language_labels is {self.language_labels}: set the number of labels of languages of the model, "
                f"{self.languages}; a linear unit needs the number of each"
            )

    def validate_terms(self) -> None:
        """Checks that the terms of the score fit the vectors of the model, and that fields have an effect."""
        sizes = self.document_size, self.label_size
        if self.output_layer == "linear" and (self.cosine_score or self.label_rows or self.lexical):
            raise ValueError(
                "a linear unit reads no labels: cosine_score, label_rows and lexical need a joint embedding"
            )
        if self.cosine_score and sizes[0] != sizes[1]:
            raise ValueError(
                f"cosine_score compares h and e, of sizes {sizes[0]} and {sizes[1]}: make the sizes equal "
                "(label_encoder_type 'text_encoder')"
            )
        if self.joint_layers > 1 and self.output_layer != "gile":
            raise ValueError(f"joint_layers needs output_layer 'gile', got {self.output_layer!r}")
        refuse_unread(self, unread_of_head({**vars(self.text_config), **vars(self)}))

    def validate_term_weights(self) -> None:
        """Checks that weights are finite, and belong to terms of the score and groups that have them."""
        mixture = self.mixture
        if self.row_words and "words" not in mixture.terms:
            raise ValueError(f"row_words {self.row_words} has no effect: set lexical and label_rows, or leave it out")
        for group, weights in self.term_weights.items():
            if group not in mixture.groups or not isinstance(weights, Mapping):
                raise ValueError(
                    f"term_weights has {', '.join(mixture.groups)} (labels are seen if they have label_rows), got "
                    f"{group!r:.100}: {weights!r:.100}"
                )
            terms = [term for term in mixture.terms if group != "unseen" or group in TERMS[term]]
            for name, weight in weights.items():
                if name not in terms:
                    raise ValueError(
                        f"term_weights[{group!r}] has {name!r:.100}; terms of this score are {', '.join(terms)}"
                    )
                check_number(f"term_weights[{group!r}][{name!r}]", weight)

    def validate_problem(self) -> None:
        """Checks that the problem is a classification."""
        if self.problem_type not in (None, "multi_label_classification", "single_label_classification"):
            raise ValueError(
                "problem_type must be 'multi_label_classification' or 'single_label_classification': "
                "a label score is a probability, not a regression"
            )

    @property
    def group_thresholds(self) -> dict[str, float]:
        """`thresholds` of "seen" and "unseen" labels that are set; a missing group has the threshold of the other."""
        return {group: self.thresholds[group] for group in GROUPS if group in self.thresholds}

    @property
    def force_label(self) -> bool:
        """Whether a document gets its best label if no label reaches its threshold."""
        return bool(self.thresholds.get("at_least"))

    def validate_calibration(self) -> None:
        """Checks that calibration and thresholds are valid."""
        check_calibration(self.calibration, self.problem_type)
        check_number("usual_score", self.usual_score, 0, 1)
        for group, threshold in self.thresholds.items():
            if group not in (*GROUPS, "at_least"):
                raise ValueError(f"thresholds are for 'seen' and 'unseen' labels, got {group!r:.100}")
            check_number(f"thresholds[{group!r}]", threshold, 0, 1)
            if group == "at_least" and type(threshold) is not int:
                raise ValueError(f"thresholds['at_least'] must be 0 or 1, a number of labels, got {threshold!r}")

    def validate_format(self) -> None:
        """Checks that this code can read the saved format."""
        if self.format_version != FORMAT_VERSION:
            raise ValueError(
                f"this model has format_version {self.format_version}, this code reads {FORMAT_VERSION}: upgrade "
                "hf-gile (pip install -U hf-gile), or load the model where hf-gile is not installed"
            )
