"""WSABIE+ and AiTextML, baselines of the paper's Table 2: a vector for each label that training has, and its words.

They are models to compare with, not to publish: they are trained and measured, and not saved.
"""

from typing import Any

import torch
from torch import Tensor, nn

from baselines.word_prediction import WordPrediction
from hf_gile import GileConfig, GileForSequenceClassification


class LearnedLabels(GileForSequenceClassification):
    """A vector e for each stored label: the mean of its word vectors, and what training adds to it.

    Labels never trained on keep the mean. `set_labels` may be called once.

    Args:
        config: A `GileConfig` without terms of the score beside the joint one.

    Raises:
        ValueError: The model has such terms, or the text encoder reads its labels.
    """

    _auto_class = None  # its code does not travel

    def __init__(self, config: GileConfig) -> None:
        terms = config.output_layer == "linear" or config.label_rows or config.bag_size or config.lexical
        if terms or config.label_encoder_type != "mean":
            raise ValueError(
                "label vectors are learned with label_encoder_type 'mean', and without bag_size, lexical and label_rows"
            )
        super().__init__(config)
        self.label_residual = nn.Embedding(config.num_labels, config.text_config.embedding_size)
        nn.init.zeros_(self.label_residual.weight)

    def train(self, mode: bool = True) -> Any:
        """Switches between training and evaluation, which keeps no codes of before."""
        self.stored_labels.clear_cache()
        return super().train(mode)

    def stored_inputs(self, columns: Tensor | None = None) -> dict[str, Tensor]:
        """What belongs to single stored labels: their vectors; see `GileForSequenceClassification.stored_inputs`."""
        words = super().stored_inputs(columns)["label_input_ids"]
        residual = self.label_residual.weight if columns is None else self.label_residual.weight[columns]
        return {"label_embeds": self.gile.embed_labels(words) + residual}


class AiTextML(LearnedLabels):
    """Document and label vectors also predict the words of their texts (Nam et al., 2016).

    Args:
        config: As of `LearnedLabels`, with document and label vectors of one size.

    Raises:
        ValueError: They have several.
    """

    accepts_loss_kwargs = False  # its loss is the mean over a batch, which Trainer then divides

    def __init__(self, config: GileConfig) -> None:
        super().__init__(config)
        if not config.document_size == config.label_size == config.text_config.embedding_size:
            raise ValueError(
                "AiTextML has document and label vectors of the size of word vectors, got "
                f"{config.document_size}, {config.label_size} and {config.text_config.embedding_size}"
            )
        self.word_prediction = WordPrediction(
            config.text_config.vocab_size, config.text_config.embedding_size, config.text_config.pad_token_id
        )
        self._documents: Tensor | None = None
        self.gile.text_encoder.register_forward_hook(self._keep_documents)

    def _keep_documents(self, module: Any, inputs: Any, output: Any) -> None:
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
            num_items_in_batch: Not read: a loss is the mean over the documents of a batch.
            options: The other arguments of `GileForSequenceClassification.forward`.
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
        """Infers the vectors of labels from their words, for labels never trained on (`inf`).

        Without it they have the mean of their word vectors (`avg`).

        Args:
            columns: `(C,)` columns of these labels.
        """
        words = self.label_input_ids[columns]
        means = self.gile.embed_labels(words)
        self.label_residual.weight[columns] = self.word_prediction.infer(means, words) - means
        self.stored_labels.clear_cache()
