"""Hard negatives: the highest-scoring labels that are not gold."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hf_gile.models import GileForSequenceClassification
from hf_gile.models.search_gile import search_top_k


class HardNegatives:
    """Adds the highest-scoring labels that are not gold to the sampled labels of a training step.

    It is used as the `miner` of a `UnitLoss`, which calls it in every training step, also with the stock `Trainer`:

        model.loss_function = UnitLoss(miner=HardNegatives(num_negatives=8, columns=range(num_seen)))

    It searches cached codes of all trainable labels, which are encoded again every `refresh_steps` steps without
    gradients. The loss then scores the mined labels with current weights and gradients.

    A mined label has weight 1 for all documents of the batch, and other labels keep the weights of the sampler. If the
    loss of the sampler is an unbiased estimate of the loss over all labels, it stays unbiased: mined labels depend on
    the batch, the weights and the cached codes, but not on the draw. Conditioned on these, any other label is drawn
    with probability p and has weight 1/p, and a mined label has weight 1. Without weights (in-batch,
    `weighted=False`), the loss is still biased, but less.

    A resumed run encodes labels at its first step. It is bitwise identical to an uninterrupted run if the checkpoint
    is at a refresh: the number of forward passes before it (per process) is a multiple of `refresh_steps`.
    Otherwise its codes are fresher, and it mines other labels.

    Each process mines for its batch. Multilingual models are refused, since labels of other languages would be mined.
    `excluded_columns` are not considered: an excluded label may be mined, and is then ignored for its document. Nothing
    is mined if a step trains on all `columns`, or has no sampled labels.

    Args:
        num_negatives: Number of labels mined per document; the step scores their union.
        refresh_steps: Number of training steps (forward passes) between encodings of the labels.
        columns: Indices of trainable labels, as in the `LabelSampler`; only these are mined. By default all.
        chunk_size: Number of labels encoded together.

    Raises:
        ValueError: If a number is below 1, or `columns` are repeated, missing or negative.

    Example:
        >>> from hf_gile import GileConfig, GileForSequenceClassification, GileProcessor, LabelSet, build_tokenizer
        >>> labels = LabelSet.from_names(["heart", "milk", "iron", "infant", "blood"])
        >>> tokenizer = build_tokenizer(labels.texts, min_count=1)
        >>> config = GileConfig(vocab_size=len(tokenizer), num_labels=5, problem_type="multi_label_classification")
        >>> processor = GileProcessor.for_config(tokenizer, config)
        >>> model = GileForSequenceClassification(config)
        >>> model.set_labels(labels, processor)
        >>> miner = HardNegatives(num_negatives=2)
        >>> documents = processor(["milk for an infant"], return_tensors="pt")
        >>> gold = torch.tensor([[1, 3]])
        >>> miner(model, model.gile.project_texts(**documents), gold, torch.tensor([1, 3]), None)[0].shape
        torch.Size([4])
    """

    def __init__(
        self,
        num_negatives: int,
        refresh_steps: int = 100,
        columns: Sequence[int] | None = None,
        chunk_size: int = 8192,
    ) -> None:
        counts = {"num_negatives": num_negatives, "refresh_steps": refresh_steps, "chunk_size": chunk_size}
        for name, number in counts.items():
            if number < 1:
                raise ValueError(f"{name} must be at least 1, got {number}")
        self.columns: Tensor | None = None
        if columns is not None:
            self.columns = torch.from_numpy(np.unique(np.asarray(columns, dtype=np.int64)))
            if len(self.columns) != len(columns) or len(self.columns) == 0 or int(self.columns[0]) < 0:
                raise ValueError(
                    f"columns must be distinct label indices, got {len(columns)} with {len(self.columns)} distinct "
                    f"values, the lowest {int(self.columns[0]) if len(self.columns) else 'missing'}"
                )
        self.num_negatives = num_negatives
        self.refresh_steps = refresh_steps
        self.chunk_size = chunk_size
        self._calls = 0
        self._cached: tuple[Tensor, int, Tensor, Tensor] | None = None

    def __call__(
        self,
        model: GileForSequenceClassification,
        text_codes: Tensor,
        labels: Tensor,
        sampled_columns: Tensor | None,
        column_weights: Tensor | None,
    ) -> tuple[Tensor | None, Tensor | None]:
        """Adds mined labels to a training step with B documents.

        Args:
            model: A `GileForSequenceClassification`.
            text_codes: `(B, J)`, without gradients.
            labels: `(B, P)` gold label indices padded with -100, `(B,)` label indices, or `(B, L)` zeros and ones.
            sampled_columns: `(C,)` ascending label indices of the step; None for all.
            column_weights: `(C,)`, `(1, C)` or `(B, C)`, or None.

        Returns:
            `(C',)` ascending label indices, and their weights: `(C',)`, `(1, C')` or `(B, C')`, or None.

        Raises:
            ValueError: If the model is multilingual, or `columns` are out of range.
        """
        period = self._calls // self.refresh_steps
        self._calls = self._calls + 1
        if sampled_columns is None:
            return None, column_weights
        if column_weights is None and self._has_all(sampled_columns, model.config.num_labels):
            return sampled_columns, None
        with torch.no_grad():
            hard = self._mine(model, text_codes, labels, period)
            columns = torch.unique(torch.cat([sampled_columns, hard]))
            if column_weights is None:
                return columns, None
            weights = column_weights.new_ones(*column_weights.shape[:-1], len(columns))
            weights[..., torch.searchsorted(columns, sampled_columns)] = column_weights
            weights[..., torch.searchsorted(columns, hard)] = 1.0
            return columns, weights

    def _has_all(self, sampled_columns: Tensor, num_labels: int) -> bool:
        if self.columns is None:
            return len(sampled_columns) == num_labels
        enough = len(sampled_columns) >= len(self.columns)
        return enough and bool(torch.isin(self.columns.to(sampled_columns.device), sampled_columns).all())

    def _mine(self, model: GileForSequenceClassification, text_codes: Tensor, labels: Tensor, period: int) -> Tensor:
        """Returns `(M,)` indices of hard negatives of the batch."""
        columns, codes = self._encode_labels(model, period)
        one_hot = labels.is_floating_point() or labels.dtype == torch.bool
        gold = labels if one_hot else labels.reshape(len(labels), -1)
        # Search for more labels, as gold labels may be the best.
        num_gold = int((gold > 0).sum(-1).max()) if one_hot else gold.shape[1]
        hard = columns[search_top_k(text_codes, codes, 0.0, self.num_negatives + num_gold).columns]
        is_gold = gold.gather(1, hard) > 0 if one_hot else (hard[:, :, None] == gold[:, None]).any(-1)
        eligible = ~is_gold
        return torch.unique(hard[eligible & (eligible.cumsum(-1) <= self.num_negatives)])

    def _encode_labels(self, model: GileForSequenceClassification, period: int) -> tuple[Tensor, Tensor]:
        """Encodes the trainable labels; returns their indices and their codes."""
        words = model.label_input_ids  # a different tensor after a change of labels or device
        if self._cached is None or self._cached[0] is not words or self._cached[1] != period:
            if len(model.config.languages) > 1:
                raise ValueError(
                    f"hard negatives need a single language, but this model has {len(model.config.languages)}: disable "
                    "them with UnitLoss(miner=None), or train a monolingual model"
                )
            num_labels = model.config.num_labels
            if self.columns is None:
                columns = torch.arange(num_labels, device=words.device)
            else:
                columns = self.columns.to(words.device)
                if int(columns[-1]) >= num_labels:
                    raise ValueError(
                        f"columns has {int(columns[-1])}, but there are {num_labels} labels (0 to {num_labels - 1})"
                    )
            self._cached = None  # release old codes before computing new codes
            language = model.config.languages[0] if model.config.languages else None
            codes: Any = None
            for start, chunk in zip(
                range(0, len(columns), self.chunk_size), columns.split(self.chunk_size), strict=True
            ):
                part = model.project_stored_labels(chunk, language)
                codes = part.new_empty(len(columns), part.shape[1]) if codes is None else codes
                codes[start : start + len(chunk)] = part
            self._cached = (words, period, columns, codes)
        return self._cached[2:]
