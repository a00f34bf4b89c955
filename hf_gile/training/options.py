"""The options of `hf-gile train`."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from transformers import AutoConfig, TrainingArguments

from .settings import Settings, check_files
from .task import check_metric

AUTO = "auto"
"""The default encoder, chosen by the documents; also the name of the model of `fit`."""

WORDS = "words"
"""Value of `text_encoder` for no pretrained encoder."""

STATIC = "static"
"""Value of `text_encoder` for a table that learns from the default encoder, see `hf_gile.training.distill`."""

TOP_K = (5, 10, 20)
"""Numbers of labels for precision, recall and nDCG; the test also uses 1 and 3."""

STEPS: dict[str, Any] = {
    "per_device_train_batch_size": 64,
    "per_device_eval_batch_size": 256,
    "learning_rate": 5e-3,
    "num_train_epochs": 14,
    "lr_scheduler_type": "linear",
    "max_grad_norm": 0.0,
    "eval_strategy": "epoch",
    "save_strategy": "epoch",
    "save_total_limit": 1,
    "load_best_model_at_end": True,
    "batch_eval_metrics": True,  # metrics are accumulated by batch, without a (documents, labels) matrix
    "logging_steps": 20,
    "dataloader_pin_memory": torch.cuda.is_available(),
    "report_to": "none",
}
"""Default training arguments."""


@dataclass
class ReportOptions(Settings):
    """Problem type, calibration, and information for the card.

    Args:
        problem_type: single_label_classification (softmax) or multi_label_classification (independent sigmoids); by
            default the former if every document has exactly one label.
        calibration: Calibration on validation documents: platt, spline or none; by default spline, or platt for
            single-label documents.
        card: YAML file with fields of hf_gile.publishing.CardInfo for the card.
    """

    problem_type: Literal["single_label_classification", "multi_label_classification"] | None = None
    calibration: Literal["platt", "spline", "none"] | None = None
    card: str | None = None

    def check_problem_type(self, problem_type: str | None) -> None:
        """Checks for options that are incompatible with a softmax over labels.

        Raises:
            ValueError: If an option is incompatible with the problem type of the options or the documents.
        """
        if problem_type == "single_label_classification" and self.calibration == "spline":
            raise ValueError(
                "calibration for single-label documents must be platt or none, got 'spline': choose platt or none, or "
                "score labels independently with --problem_type multi_label_classification"
            )


@dataclass
class Options(ReportOptions):
    """Options of `fit` and of what is reported.

    Args:
        text_encoder: A pretrained encoder: a name or a folder; auto, the best encoder available offline; static, a
            table that learns from that encoder and reads thousands of texts a second; or words, for word vectors of the
            texts. The encoder is frozen, and the rest is fitted as convex problems.
        label_texts: Label text that the model reads: the name, the name and synonyms, or the name and the description
            (definitions; see --label_description).
        lexical: Whether texts and labels are also compared by their words; false trains step by step if there is no
            encoder, or too much data for a convex fit.
        neighbours: Store the vectors and labels of training documents in the model, and score by those of the nearest;
            by default with many labels and at most 50,000 documents. Anyone with the model can estimate the topic of a
            document from its vector.
        held_out_labels: Number of labels, by a hash of their ids, held out of training but not of validation, for
            choosing by --metric_for_best_model eval_validation_unseen_average_precision. They are excluded from the
            test.
        start_from: Folder of a saved model to train further, step by step, including learned weights of labels by id.
            Its sizes and score terms do not change.
        max_words: Maximum number of words (subwords for a pretrained encoder) that are read of a document.
        word_vectors: File of word vectors for --text_encoder words; by default they are computed from the texts.
        text_prompt: Prompt of the encoder for texts; by default derived from its name.
        label_prompt: Prompt of the encoder for labels.
        freeze_text_encoder: Whether the encoder of --start_from stays frozen; by default as it was.
        text_encoder_learning_rate: Learning rate of an encoder that is trained.
        patience: Epochs without improvement on validation before training in steps stops.
        baselines: Also evaluate TF-IDF baselines, if fast enough: a linear SVM for seen and the cosine for unseen
            labels.
        make_cards: Write a card for the saved model, evaluated as users load it.
    """

    GROUPS: ClassVar[dict[str, str]] = {
        "train_files": "Documents",
        "label_file": "Labels and input files",
        "problem_type": "Probabilities, card",
        "text_encoder": "Model",
        "max_words": "Further options",
    }

    text_encoder: str = AUTO
    label_texts: Literal["name", "synonyms", "definitions"] = "definitions"
    lexical: bool | None = None
    neighbours: bool | None = None
    held_out_labels: int = 0
    start_from: str | None = None
    max_words: int | None = None
    word_vectors: str | None = None
    text_prompt: str | None = None
    label_prompt: str | None = None
    freeze_text_encoder: bool | None = None
    text_encoder_learning_rate: float = 1e-4
    patience: int = 2
    baselines: bool = True
    make_cards: bool = True

    @property
    def encoder(self) -> str | None:
        """The pretrained encoder that is named, if any."""
        return None if self.text_encoder in (AUTO, WORDS, STATIC) else self.text_encoder

    def prompts(self, default: str) -> dict[str, str]:
        """Returns the prompts for texts and for labels, by default the prompt with which the encoder was trained."""
        chosen = {"text_prompt": self.text_prompt, "label_prompt": self.label_prompt}
        return {name: default if prompt is None else prompt for name, prompt in chosen.items()}

    def check(self, args: TrainingArguments) -> None:
        """Checks for incompatible options and missing files, before documents are read.

        Raises:
            ValueError: If options are incompatible.
            OSError: If a file or an encoder does not exist.
        """
        self.check_problem_type(self.problem_type)
        self.check_metric(args)
        if self.text_encoder == STATIC and (self.start_from is not None or self.lexical is False):
            raise ValueError("text_encoder static supports neither start_from nor lexical false: leave them out")
        check_files(self, ["word_vectors", "card"])
        for name in ("text_prompt", "label_prompt"):
            if self.encoder is None and getattr(self, name):
                raise ValueError(f"{name} needs a pretrained encoder: set --text_encoder")
        self.encoder_config()

    def check_metric(self, args: TrainingArguments) -> None:
        """Checks the metric for choosing the epoch, see `hf_gile.training.task.check_metric`."""
        check_metric(args.metric_for_best_model, TOP_K)

    def encoder_config(self, **location: Any) -> Any:
        """Loads the configuration of the pretrained encoder, or of the model to start from; None for neither.

        Raises:
            ValueError: If the model to start from is not a GILE model.
            OSError: If the encoder or model does not exist.
        """
        name = "text_encoder" if self.start_from is None else "start_from"
        source = self.start_from or self.encoder
        if source is None:
            return None
        try:
            config = AutoConfig.from_pretrained(source, trust_remote_code=False, **location)
        except (OSError, ValueError) as error:
            raise OSError(f"{name}: cannot load {source}: {error}") from None
        if self.start_from is not None and not hasattr(config, "output_layer"):
            raise ValueError(
                f"start_from: {source} is a {config.model_type}, not a GILE model: pass it as text_encoder"
            )
        return config
