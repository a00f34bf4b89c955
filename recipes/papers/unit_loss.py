"""The loss of units: labels encoded again every few steps, rows dropped at random, mined negatives."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig

from hf_gile.models import GileForSequenceClassification, GileModel
from hf_gile.models.languages_gile import Languages, run_by_language
from hf_gile.training.losses import LossStep
from papers.chunked_training import ChunkedLoss


class UnitLoss(ChunkedLoss):
    """A `ChunkedLoss` with further options.

    Args:
        loss: As in `GileLoss`.
        refresh_steps: If labels are read by a pretrained encoder, number of steps after which they are encoded again,
            without gradients; 0 encodes the labels in each step and trains the encoder on them.
        row_dropout: Fraction of labels that a step scores without their row (`config.label_rows`), like unseen labels.
        miner: Adds labels to those of a batch; called as `miner(model, text_codes, labels, sampled_columns,
            column_weights)`, it returns the new `sampled_columns` and `column_weights`.
        options: Further arguments of `ChunkedLoss`.

    Raises:
        ValueError: If an option is invalid.
    """

    def __init__(
        self,
        loss: Callable[..., Tensor] | None = None,
        *,
        refresh_steps: int = 0,
        row_dropout: float = 0.0,
        miner: Callable[..., tuple[Tensor | None, Tensor | None]] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(loss, **options)
        if refresh_steps < 0:
            raise ValueError(f"refresh_steps must not be negative, got {refresh_steps}")
        if not 0 <= row_dropout < 1:
            raise ValueError(f"row_dropout must be at least 0 and below 1, got {row_dropout}")
        self.refresh_steps = refresh_steps
        self.row_dropout = row_dropout
        self.miner = miner
        self._steps = 0
        self._refreshed: tuple[int, Tensor, Tensor] | None = None  # period, words, and their encoding

    def check_fits(self, config: PreTrainedConfig) -> None:
        """Checks that the options fit a model, see the base class."""
        if self.refresh_steps > 0 and not config.pools_labels:
            raise ValueError(
                "refresh_steps needs labels read by a pretrained encoder, label_encoder_type 'text_encoder', got "
                f"{config.label_encoder_type!r} with text_encoder_type {config.text_config.text_encoder_type!r}"
            )
        if self.row_dropout > 0 and not config.label_rows:
            raise ValueError("row_dropout needs config.label_rows")
        super().check_fits(config)

    def of_step(self, step: LossStep) -> Tensor:
        """Returns the loss of a training step over its labels and those of the miner; see the base class."""
        if torch.is_grad_enabled():
            self._steps += 1
        if self.miner is not None:
            mined = self.miner(step.model, step.text_codes.detach(), step.labels, step.columns, step.column_weights)
            step = replace(step, columns=mined[0], column_weights=mined[1])
        return super().of_step(step)

    def label_inputs(self, model: GileForSequenceClassification, columns: Tensor | None) -> dict[str, Any]:
        """Returns the inputs of stored labels, see the base class."""
        inputs = super().label_inputs(model, columns)
        if not torch.is_grad_enabled():
            return inputs
        if self.refresh_steps > 0 and "label_vectors" not in inputs:
            vectors = self._refreshed_vectors(model)
            inputs["label_vectors"] = vectors if columns is None else vectors[columns]
        if self.row_dropout > 0:
            rows = inputs["label_rows"]
            inputs["label_rows"] = rows.where(torch.rand_like(rows.bias) >= self.row_dropout)
        return inputs

    def _refreshed_vectors(self, model: GileForSequenceClassification) -> Tensor:
        """Returns the last encoding of labels by the pretrained encoder."""
        words = model.label_input_ids
        period = (self._steps - 1) // self.refresh_steps
        if self._refreshed is None or self._refreshed[0] != period or self._refreshed[1] is not words:
            languages = model.stored_labels.languages if model.config.language_labels else None
            self._refreshed = (period, words, pool_labels(model.gile, words, languages))
        return self._refreshed[2]


def pool_labels(gile: GileModel, label_input_ids: Tensor, label_language: Languages = None) -> Tensor:
    """Encodes labels by the pretrained encoder, without dropout or gradients.

    Args:
        gile: A model with `config.pools_labels`.
        label_input_ids: `(L, T)` token ids.
        label_language: Language of all labels, or a language for each.

    Returns:
        `(L, P)` vectors.
    """

    def pool(language: str | None, label_input_ids: Tensor) -> tuple[Tensor, Tensor]:
        mask = label_input_ids != gile.config.text_config.pad_token_id
        return gile.text_encoder.pool(label_input_ids, mask, language=language)

    kind = label_input_ids.device.type
    mode = gile.text_encoder.training
    autocast = torch.autocast(
        kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind), cache_enabled=False
    )
    gile.text_encoder.eval()
    # Results may be inputs of training steps, which do not accept inference tensors. With its cache, autocast would
    # also reuse casts of weights without gradients in the training step.
    with torch.inference_mode(False), torch.no_grad(), autocast:
        vectors = run_by_language(gile.config, label_language, {"label_input_ids": label_input_ids}, pool)[0]
    gile.text_encoder.train(mode)
    return vectors
