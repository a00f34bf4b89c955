"""The configuration of a GILE model: the paper's hyper-parameter table as validated fields."""

from typing import Literal

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig
from transformers.activations import ACT2FN

FORMAT_VERSION = 1
"""Raised when a saved model changes meaning, so that older code refuses it instead of misreading it."""


@strict
class GileConfig(PreTrainedConfig):
    """Configuration of a `GileModel` and of a `GileForSequenceClassification`.

    Equations are those of GILE (Pappas & Henderson, TACL 2019, Q19-1009). The defaults are the settings of its
    section 4.1.1 (biomedical text): 100-dimensional words, encoder and attention, a joint space of 500, ReLU, at most
    300 words a document and 50 a label.

    The names beside those of the published code:

    | published flag | here |
    | --- | --- |
    | `wdim` | `embedding_size` |
    | `sdim`, `ddim` | `hidden_size`, one size for both levels |
    | `enc` (`attdense`) | `encoder_cell` |
    | `act` | `hidden_act` |
    | `la` | `output_layer` |
    | `ladim` | `joint_size` |
    | `laact` | `joint_act` |
    | `swpad`, `spad` | `max_sentence_words`, `max_sentences` |

    Args:
        vocab_size: Rows of the word embedding table, shared by documents and labels (section 2.2).
        pad_token_id: Row of the padding word; it never counts.
        embedding_size: Size D of a word vector, and of a label vector e (the mean of its word vectors).
        text_encoder_type: `"wan"`, word attention over the whole document, `input_ids` (B, W); or `"han"`, word
            attention in each sentence and sentence attention in the document, `input_ids` (B, S, W).
        encoder_cell: The encoders g_w and g_s of Eq. 1.
        hidden_size: Size H of the encoders, and so of the document vector h.
        attention_size: Size of v = f(h) in the attention of Eq. 2.
        hidden_act: Activation of encoders and attention, a key of `transformers.activations.ACT2FN`.
        output_layer: `"gile"`, the joint input-label embedding of Eq. 14; or `"linear"`, the typical linear unit of
            Eq. 3, which scores only the labels it was trained on.
        joint_size: Size J of the joint space (d_j).
        joint_act: The activation of Eq. 7 and 8; `"linear"` gives the bilinear form of Eq. 18.
        label_prior: Probability of any label before training: the bias b starts at its logit. About the number of
            labels a document has, divided by the number of labels; far from it, the first steps of training are spent
            on this one number and throw the others about.
        embedding_std: Standard deviation of fresh word vectors. Much smaller, and the codes of all labels start alike
            and stay so for epochs.
        word_dropout: Share of the distinct words of each document that a training step does not read; label texts
            are always read. The paper uses none.
        max_words: Words kept of a document (wan).
        max_sentences: Sentences kept of a document (han).
        max_sentence_words: Words kept of a sentence (han).
        max_label_words: Words kept of a label.
        label_length: Words a stored label has room for; 0 when no label set is stored. Set by `set_labels`.
        format_version: Version of the saved form; code refuses a newer one than its own.

    Raises:
        huggingface_hub.errors.StrictDataclassError: A field of the wrong type or with a value that makes no sense.

    Example:
        >>> config = GileConfig(text_encoder_type="han", joint_size=128)
        >>> config.embedding_size, config.joint_act
        (100, 'relu')
    """

    model_type = "gile"

    vocab_size: int = 30_000
    pad_token_id: int = 0
    embedding_size: int = 100
    text_encoder_type: Literal["wan", "han"] = "wan"
    encoder_cell: Literal["dense"] = "dense"
    hidden_size: int = 100
    attention_size: int = 100
    hidden_act: str = "relu"
    output_layer: Literal["gile", "linear"] = "gile"
    joint_size: int = 500
    joint_act: str = "relu"
    label_prior: float = 0.01
    embedding_std: float | int = 0.3
    word_dropout: float | int = 0.0
    max_words: int = 300
    max_sentences: int = 30
    max_sentence_words: int = 30
    max_label_words: int = 50
    label_length: int = 0
    format_version: int = FORMAT_VERSION

    def __post_init__(self, **kwargs: object) -> None:
        super().__post_init__(**kwargs)
        # One repository serves several auto classes; register_for_auto_class could write only one of them.
        self.auto_map = {
            "AutoConfig": "configuration_gile.GileConfig",
            "AutoModel": "modeling_gile.GileModel",
            "AutoModelForSequenceClassification": "modeling_gile.GileForSequenceClassification",
        }
        # transformers looks a model's own tasks up before its built-in ones, so this name gives our pipeline.
        self.custom_pipelines = {
            "zero-shot-classification": {
                "impl": "pipeline_gile.LabelScoringPipeline",
                "pt": ["AutoModelForSequenceClassification"],
                "type": "text",
            }
        }

    def validate_sizes(self) -> None:
        """Every size is positive, and the padding word is a row of the table."""
        for name in (
            "vocab_size",
            "embedding_size",
            "hidden_size",
            "attention_size",
            "joint_size",
            "max_words",
            "max_sentences",
            "max_sentence_words",
            "max_label_words",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        if not 0 <= self.pad_token_id < self.vocab_size:
            raise ValueError(
                f"pad_token_id must be a row of the {self.vocab_size} words of vocab_size, got {self.pad_token_id}"
            )
        if self.label_length < 0:
            raise ValueError(f"label_length must not be negative, got {self.label_length}")
        if not 0 < self.label_prior < 1:
            raise ValueError(f"label_prior is a probability between 0 and 1, got {self.label_prior}")
        if not 0 <= self.word_dropout < 1:
            raise ValueError(f"word_dropout must be at least 0 and below 1, got {self.word_dropout}")
        if self.embedding_std <= 0:
            raise ValueError(f"embedding_std must be positive, got {self.embedding_std}")

    def validate_activations(self) -> None:
        """Both activations are known to transformers."""
        for name in ("hidden_act", "joint_act"):
            if getattr(self, name) not in ACT2FN:
                raise ValueError(
                    f"{name} must be one of transformers' activations ({', '.join(sorted(ACT2FN))}), "
                    f"got {getattr(self, name)!r}"
                )

    def validate_problem(self) -> None:
        """The loss is a classification loss."""
        if self.problem_type == "regression":
            raise ValueError(
                "problem_type must be 'multi_label_classification' or 'single_label_classification': "
                "a label score is a probability, not a regression"
            )

    def validate_format(self) -> None:
        """The model was not saved by a newer version of the code than this one."""
        if self.format_version > FORMAT_VERSION:
            raise ValueError(
                f"this model has format_version {self.format_version}, this code reads up to {FORMAT_VERSION}: "
                "upgrade hf-gile (pip install -U hf-gile), or load it where hf-gile is not installed"
            )


__all__ = ["FORMAT_VERSION", "GileConfig"]
