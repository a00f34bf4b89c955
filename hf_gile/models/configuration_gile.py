"""The configuration of a GILE model: the paper's hyper-parameter table as validated fields."""

from collections.abc import Sequence
from dataclasses import field
from typing import Literal

from huggingface_hub.dataclasses import strict
from torch import nn
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
    | `enc` (`attdense`, `attgru`, `attbigru`) | `encoder_cell` |
    | `act` | `hidden_act` |
    | `gruact` | `recurrent_act`, of `text_encoder_type="han_published"` only |
    | `la`, `onlylabel`, `onlyinput` | `output_layer` |
    | `ladim` | `joint_size` |
    | `laact` | `joint_act` |
    | `languages`, `share`, `lashare` | `languages`, `sharing`, `share_joint_space` |
    | `swpad`, `spad` | `max_sentence_words`, `max_sentences` |

    Args:
        vocab_size: Rows of the word embedding table, shared by documents and labels (section 2.2).
        pad_token_id: Row of the padding word; it never counts.
        embedding_size: Size D of a word vector, and of a label vector e (the mean of its word vectors).
        text_encoder_type: What reads a document. Over its words, `input_ids` (B, W): `"nn"`, their average, or `"wan"`,
            word attention. Over sentences of words, `input_ids` (B, S, W): `"hnn"`, encoders and averages at both
            levels, or `"han"`, encoders and attention at both levels. `"han_published"` is the HAN as the published
            checkpoints compute it, `published_gile.py`.
        encoder_cell: The encoders g_w and g_s of Eq. 1: `"dense"`, `"gru"` or `"bigru"`. An `nn` has none.
        pooling: What wan and han do with hidden states: `"attention"` (Eq. 2), `"mean"` or `"sum"`.
        hidden_size: Size H of the encoders, and so of the document vector h; a bigru has this size in each direction,
            and the document vector twice the size. An `nn` has document vectors of the size of its words.
        attention_size: Size of v = f(h) in the attention of Eq. 2.
        hidden_act: Activation of encoders and attention, a key of `transformers.activations.ACT2FN`.
        recurrent_act: Activation of the candidate state of a published GRU; the clean GRUs have tanh.
        output_layer: `"gile"`, the joint input-label embedding of Eq. 14, and what the paper compares it with:
            `"only_label"` (Eq. 6a, J = H), `"only_input"` (Eq. 6b, J = D), `"bilinear"`, E W h of Eq. 5 ([N16] in
            Table 2), `"bilinear_yh15"`, act(E U) V h ([YH15]), and `"linear"`, the typical linear unit of Eq. 3, which
            scores only the labels it was trained on.
        label_encoder_type: What reads a label: `"mean"`, the mean of its word vectors (section 2.2);
            `"text_encoder"`, the text encoder itself (the paper's future work), of a han on one sentence; or
            `"learned"`, a vector for each label seen in training, starting at the mean, and the mean for the others
            (WSABIE+ and AiTextML; parameters then depend on the label set).
        joint_size: Size J of the joint space (d_j). The ablations and `"bilinear"` have no choice; see
            `joint_size_for` for as many parameters as a linear unit has.
        joint_act: The activation of Eq. 7 and 8; `"linear"` gives the bilinear form of Eq. 18.
        training_loss: `"cross_entropy"` (Eq. 15, or softmax for single-label problems), `"decoupled_softmax"`,
            `"warp"` or `"hinge"`, ranking losses of `losses_gile.py`.
        label_chunk_size: With more labels than these in a training step, the loss is computed that many labels at a
            time, exactly, and `(B, L)` logits are never held (`chunked_losses_gile.py`); the step then returns none.
            0 for no such limit; `"warp"` and `"hinge"` need all scores at once, and `word_prediction` reads all labels
            at once.
        word_prediction: Weight of the loss of AiTextML that makes document and label vectors predict their words;
            0 for none.
        languages: The languages of the model, such as `["english", "german"]`; none for a model that need not know.
        sharing: Which parts of the text encoder the languages share: `"none"`, `"encoders"`, `"attention"` (the best in
            the paper's Table 3) or `"both"`.
        share_joint_space: Whether languages share U, V, b_u and b_v (section 3.3); w and b are always their own.
        language_labels: Number of stored labels of each language, which stand one language after the other in the order
            of `languages`; set by `set_labels`, except for a linear unit, which is made with it.
        label_prior: Probability of any label before training: the bias b starts at its logit. About the number of
            labels a document has, divided by the number of labels; far from it, the first steps of training are spent
            on this one number and throw the others about.
        embedding_std: Standard deviation of fresh word vectors. Much smaller, and the codes of all labels start alike
            and stay so for epochs.
        word_dropout: Share of the distinct words of each document that a training step does not read; label texts
            are always read. The paper uses none.
        freeze_word_vectors: Whether the word vectors keep their values in training.
        max_words: Words kept of a document (nn, wan).
        max_sentences: Sentences kept of a document (hnn, han).
        max_sentence_words: Words kept of a sentence (hnn, han).
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
    text_encoder_type: Literal["nn", "hnn", "wan", "han", "han_published"] = "wan"
    encoder_cell: Literal["dense", "gru", "bigru"] = "dense"
    pooling: Literal["attention", "mean", "sum"] = "attention"
    hidden_size: int = 100
    attention_size: int = 100
    hidden_act: str = "relu"
    recurrent_act: str = "tanh"
    output_layer: Literal["gile", "only_label", "only_input", "bilinear", "bilinear_yh15", "linear"] = "gile"
    label_encoder_type: Literal["mean", "text_encoder", "learned"] = "mean"
    joint_size: int = 500
    joint_act: str = "relu"
    training_loss: Literal["cross_entropy", "decoupled_softmax", "warp", "hinge"] = "cross_entropy"
    label_chunk_size: int = 0
    word_prediction: float | int = 0.0
    languages: list[str] = field(default_factory=list)
    sharing: Literal["none", "encoders", "attention", "both"] = "attention"
    share_joint_space: bool = True
    language_labels: dict[str, int] = field(default_factory=dict)
    label_prior: float = 0.01
    embedding_std: float | int = 0.3
    word_dropout: float | int = 0.0
    freeze_word_vectors: bool = False
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
            "AutoModelForSequenceClassification": "classification_gile.GileForSequenceClassification",
        }
        # transformers looks a model's own tasks up before its built-in ones, so this name gives our pipeline.
        self.custom_pipelines = {
            "zero-shot-classification": {
                "impl": "pipeline_gile.LabelScoringPipeline",
                "pt": ["AutoModelForSequenceClassification"],
                "type": "text",
            }
        }

    @property
    def document_size(self) -> int:
        """Size of the document vector h."""
        if self.text_encoder_type == "nn":
            return self.embedding_size
        return self.hidden_size * (2 if self.encoder_cell == "bigru" else 1)

    @property
    def label_size(self) -> int:
        """Size of the label vector e."""
        return self.document_size if self.label_encoder_type == "text_encoder" else self.embedding_size

    @staticmethod
    def joint_size_for(hidden_size: int, embedding_size: int, num_labels: int | Sequence[int]) -> int:
        """The joint size that gives GILE about as many parameters as a linear unit has (Eq. 19).

        Args:
            hidden_size: Size of a document vector (d_h).
            embedding_size: Size of a label vector (d).
            num_labels: Number of labels k, or of each language's labels.

        Returns:
            d_h k / (d_h + d), at least 1, with k summed over the languages; rounded down, as in the published models.

        Example:
            >>> GileConfig.joint_size_for(hidden_size=100, embedding_size=40, num_labels=[327, 367])
            495
        """
        k = num_labels if isinstance(num_labels, int) else sum(num_labels)
        return max(1, hidden_size * k // (hidden_size + embedding_size))

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
        for name in ("label_length", "label_chunk_size"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if not 0 < self.label_prior < 1:
            raise ValueError(f"label_prior is a probability between 0 and 1, got {self.label_prior}")
        if not 0 <= self.word_dropout < 1:
            raise ValueError(f"word_dropout must be at least 0 and below 1, got {self.word_dropout}")
        if self.embedding_std <= 0:
            raise ValueError(f"embedding_std must be positive, got {self.embedding_std}")

    def validate_activations(self) -> None:
        """The activations are known to transformers."""
        for name in ("hidden_act", "joint_act", "recurrent_act"):
            if getattr(self, name) not in ACT2FN:
                raise ValueError(
                    f"{name} must be one of transformers' activations ({', '.join(sorted(ACT2FN))}), "
                    f"got {getattr(self, name)!r}"
                )

    def validate_languages(self) -> None:
        """Languages can be names of modules."""
        for place, language in enumerate(self.languages):
            if not language.isidentifier() or hasattr(nn.ModuleDict(), language):
                raise ValueError(
                    f"languages[{place}] must be a name of letters, digits and underscores that does not start with a "
                    f"digit, such as 'english' or 'pt_br', got {language!r}"
                )
        if len(set(self.languages)) != len(self.languages):
            raise ValueError(f"languages must differ, got {self.languages}")
        unknown = set(self.language_labels) - set(self.languages)
        if unknown:
            raise ValueError(f"language_labels names {sorted(unknown)}, which are not among languages {self.languages}")
        if self.output_layer == "linear" and self.languages and set(self.language_labels) != set(self.languages):
            raise ValueError(
                "a linear unit of several languages needs the number of labels of each: "
                f"language_labels={{language: number, ...}} for {', '.join(self.languages)}"
            )

    def validate_word_prediction(self) -> None:
        """Document and label vectors that predict words have the size of words."""
        if self.word_prediction < 0:
            raise ValueError(f"word_prediction must not be negative, got {self.word_prediction}")
        if self.word_prediction > 0 and not self.document_size == self.label_size == self.embedding_size:
            raise ValueError(
                "word_prediction needs document and label vectors of the size of word vectors, got "
                f"{self.document_size}, {self.label_size} and {self.embedding_size}"
            )
        if self.word_prediction > 0 and self.output_layer == "linear":
            raise ValueError("word_prediction needs an output layer with label vectors, not 'linear'")

    def validate_published(self) -> None:
        """Labels fit the sentences of the published graph, which reads no longer ones."""
        is_read = self.text_encoder_type == "han_published" and self.label_encoder_type == "text_encoder"
        if is_read and self.max_label_words > self.max_sentence_words:
            raise ValueError(
                f"max_label_words must be at most {self.max_sentence_words}, the max_sentence_words of han_published, "
                f"if its text encoder reads labels, got {self.max_label_words}"
            )

    def validate_problem(self) -> None:
        """The loss is a classification loss."""
        if self.problem_type == "regression":
            raise ValueError(
                "problem_type must be 'multi_label_classification' or 'single_label_classification': "
                "a label score is a probability, not a regression"
            )

    def validate_label_chunks(self) -> None:
        """The loss can be computed chunk by chunk, if it is to be."""
        if self.label_chunk_size > 0 and self.training_loss in ("warp", "hinge"):
            raise ValueError(
                f"training_loss {self.training_loss!r} ranks all labels at once and cannot be computed in chunks; set "
                "label_chunk_size=0, or training_loss='cross_entropy' or 'decoupled_softmax'"
            )

    def validate_format(self) -> None:
        """The model was not saved by a newer version of the code than this one."""
        if self.format_version > FORMAT_VERSION:
            raise ValueError(
                f"this model has format_version {self.format_version}, this code reads up to {FORMAT_VERSION}: "
                "upgrade hf-gile (pip install -U hf-gile), or load it where hf-gile is not installed"
            )


__all__ = ["FORMAT_VERSION", "GileConfig"]
