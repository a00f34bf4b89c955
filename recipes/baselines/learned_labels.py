"""Implements WSABIE+ and AiTextML, baselines in the paper's Table 2, with a learned vector per label and its words.

These models are for comparison only: they are trained and evaluated, but not saved.
"""

from typing import Any

import torch
from torch import Tensor, nn

from baselines.word_prediction import WordPrediction
from hf_gile import GileConfig, GileForSequenceClassification


class LearnedLabels(GileForSequenceClassification):
    """Learns a vector e for each stored label: the mean of its word vectors plus a residual.

    The residual of labels without training documents is zero. `set_labels` may be called once.

    Args:
        config: A `GileConfig` whose score has no terms other than the joint term.

    Raises:
        ValueError: If the model has such terms, or encodes labels with its text encoder.
    """

    _auto_class = None  # its code is not saved with a model

    def __init__(self, config: GileConfig) -> None:
        terms = config.output_layer == "linear" or config.label_rows or config.lexical
        if terms or config.label_encoder_type != "mean":
            raise ValueError("learned label vectors need label_encoder_type 'mean', without lexical and label_rows")
        super().__init__(config)
        self.label_residual = nn.Embedding(config.num_labels, config.text_config.embedding_size)
        nn.init.zeros_(self.label_residual.weight)

    def train(self, mode: bool = True) -> Any:
        """Switches between training and evaluation, and clears cached label codes."""
        self.stored_labels.clear_cache()
        return super().train(mode)

    def stored_inputs(self, columns: Tensor | None = None) -> dict[str, Tensor]:
        """Returns the vectors of stored labels; see `GileForSequenceClassification.stored_inputs`."""
        words = super().stored_inputs(columns)["label_input_ids"]
        residual = self.label_residual.weight if columns is None else self.label_residual.weight[columns]
        return {"label_embeds": self.gile.embed_labels(words) + residual}


class AiTextML(LearnedLabels):
    """Learns document and label vectors that also predict the words of their texts (Nam et al., 2016).

    Args:
        config: As in `LearnedLabels`, with document, label and word vectors of equal size.

    Raises:
        ValueError: If the sizes differ.
    """

    accepts_loss_kwargs = False  # its loss is a mean over the batch, which Trainer divides

    def __init__(self, config: GileConfig) -> None:
        super().__init__(config)
        if not config.document_size == config.label_size == config.text_config.embedding_size:
            raise ValueError(
                "AiTextML needs document, label and word vectors of equal size, got "
                f"{config.document_size}, {config.label_size} and {config.text_config.embedding_size}"
            )
        self.word_prediction = WordPrediction(
            config.text_config.vocab_size, config.text_config.embedding_size, config.text_config.pad_token_id
        )
        self._documents: Tensor | None = None
        self.gile.text_encoder.register_forward_hook(self._store_documents)

    def _store_documents(self, module: Any, inputs: Any, output: Any) -> None:
        self._documents = output[0]

    def forward(
        self,
        input_ids: Tensor,
        labels: Tensor | None = None,
        num_items_in_batch: Any = None,
        **options: Any,
    ) -> Any:
        """Scores documents; in training the loss of predicting words is added.

        Args:
            input_ids: `(B, W)` word ids.
            labels: As in `GileForSequenceClassification.forward`.
            num_items_in_batch: Ignored: the loss is a mean over the documents of a batch.
            options: Other arguments of `GileForSequenceClassification.forward`.
        """
        output = super().forward(input_ids=input_ids, labels=labels, **options)
        if output.loss is not None and self.training:
            sampled_columns = options.get("sampled_columns")
            columns = slice(None) if sampled_columns is None else sampled_columns.flatten()
            words = self.label_input_ids[columns]
            vectors = self.gile.embed_labels(words) + self.label_residual.weight[columns]
            output.loss = output.loss + self.word_prediction(self._documents, input_ids)
            output.loss = output.loss + self.word_prediction(vectors, words)
        return output

    @torch.no_grad()
    def infer_label_vectors(self, columns: Tensor) -> None:
        """Infers the vectors of unseen labels from their words (`inf`).

        By default these are the means of their word vectors (`avg`).

        Args:
            columns: `(C,)` indices of these labels.
        """
        words = self.label_input_ids[columns]
        means = self.gile.embed_labels(words)
        self.label_residual.weight[columns] = self.word_prediction.infer(means, words) - means
        self.stored_labels.clear_cache()
