"""Hard negatives: the labels that the model, as it is, takes for gold and that are not."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..models import GileForSequenceClassification
from ..models.search_gile import top_k_of

_DOCUMENTS = 1024
"""Documents whose text codes are kept for `make_search`."""


class HardNegatives:
    """Adds to the sampled columns of a training step the best-scored labels that are not gold, for each document.

    It is the `miner` of a `GileLoss`, which calls it in every training step; nothing else changes, with the stock
    `Trainer` as well.

        model.loss_function = GileLoss(miner=HardNegatives(num_negatives=8, columns=range(num_seen)))

    It searches the codes of all trainable labels, which it keeps and encodes anew every `refresh_steps` steps, without
    gradients; the loss scores the columns with the labels as they are, gradients and all.

    A hard column counts once, for all documents of the batch, and every other column as the sampler has it. The loss
    stays an unbiased estimate of the loss over all columns, if that of the sampler is one: what is hard follows from
    the batch, the weights and the kept codes, not from the draw, so given these a column that is not hard is drawn with
    probability p as before and counts 1/p, which is once on average, and a hard one counts once for certain. Where the
    sample has no weights (in-batch, `weighted=False`) it is as biased as before, if less so.

    The codes follow from the weights and from when they were last encoded. A resumed training encodes them at its first
    step, so it ends where an uninterrupted one does, bit for bit, if the checkpoint is of a step of which the
    uninterrupted one encodes them as well: the number of forward passes before it (of one process) is a multiple
    of `refresh_steps`. Otherwise its codes are somewhat fresher, and it mines others; as it may with `make_search`, as
    the last documents are not saved either.

    With several processes each mines for its own batch. In a model of several languages, labels of the others count as
    any: this refuses it. `excluded_columns` are not known here: such a column may be mined, and then does not count for
    its document, as ever. Where a step trains on all `columns`, and where it has no sampled columns, there is nothing
    to add, nor any search.

    Args:
        num_negatives: Labels searched for each document; the step scores the union.
        refresh_steps: Training steps (forward passes) between two encodings of the labels.
        columns: The trainable columns, as of the `LabelSampler`; no others are mined. All by default.
        chunk_size: Labels encoded at a time.
        make_search: Makes of `(L, J)` label codes, each time they are encoded, and the text codes of the last documents
            (up to 1024, at first those of one batch) what finds candidates: an object with `candidates(text_codes, k)`,
            best first, see the `search` of `LabelIndex`. The codes are those of `columns`, and so must be the label set
            of an index made of them. A million labels on a CPU need one, with `refresh_steps` in the thousands:

                label_set = LabelSet(model.label_set[column] for column in columns)

                def make_search(codes, text_codes):
                    index = LabelIndex(label_set, codes, 0.0, None, "")
                    return ApproximateSearch.build(index, text_codes, size=min(64, len(text_codes)))

            What it misses is not mined; the loss is as unbiased. By default the search is exact, B L J multiplications.

    Raises:
        ValueError: A number below one, or columns that are repeated, missing or negative.

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
        make_search: Callable[[Tensor, Tensor], Any] | None = None,
    ) -> None:
        given = {"num_negatives": num_negatives, "refresh_steps": refresh_steps, "chunk_size": chunk_size}
        for name, number in given.items():
            if number < 1:
                raise ValueError(f"{name} must be at least 1, got {number}")
        self.columns: Tensor | None = None
        if columns is not None:
            self.columns = torch.from_numpy(np.unique(np.asarray(columns, dtype=np.int64)))
            if len(self.columns) != len(columns) or len(self.columns) == 0 or int(self.columns[0]) < 0:
                raise ValueError(
                    f"columns must be columns of labels, each once, got {len(columns)} with {len(self.columns)} "
                    f"different ones, the lowest of them {int(self.columns[0]) if len(self.columns) else 'missing'}"
                )
        self.num_negatives = num_negatives
        self.refresh_steps = refresh_steps
        self.chunk_size = chunk_size
        self.make_search = make_search
        self._calls = 0
        self._last: list[Tensor] = []
        self._kept: tuple[Tensor, int, Tensor, Tensor, Any] | None = None

    def __call__(
        self,
        model: GileForSequenceClassification,
        text_codes: Tensor,
        labels: Tensor,
        sampled_columns: Tensor | None,
        column_weights: Tensor | None,
    ) -> tuple[Tensor | None, Tensor | None]:
        """Adds the columns of one step, of B documents.

        Args:
            model: A `GileForSequenceClassification`.
            text_codes: `(B, J)`, without gradients.
            labels: `(B, P)` gold columns padded with -100, `(B,)` columns, or `(B, L)` zeros and ones.
            sampled_columns: `(C,)` ascending columns of the step; None for all.
            column_weights: `(C,)`, `(1, C)` or `(B, C)`, or None.

        Returns:
            `(C',)` ascending columns, and their weights: `(C',)`, `(1, C')` or `(B, C')`, or None as given.

        Raises:
            ValueError: The model has several languages, or columns are not among its labels.
        """
        period, self._calls = self._calls // self.refresh_steps, self._calls + 1
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
        """`(M,)` hard columns of the batch."""
        if self.make_search is not None:
            self._last.append(text_codes)
            while sum(map(len, self._last[1:])) >= _DOCUMENTS:
                del self._last[0]
        columns, codes, search = self._labels(model, period)
        one_hot = labels.is_floating_point() or labels.dtype == torch.bool
        gold = labels if one_hot else labels.reshape(len(labels), -1)
        # As many more as a document has gold labels, which may be the best.
        spare = int((gold > 0).sum(-1).max()) if one_hot else gold.shape[1]
        if search is None:
            found = top_k_of(text_codes, codes, 0.0, self.num_negatives + spare).columns
        else:
            found = search.candidates(text_codes, min(self.num_negatives + spare, len(codes))).to(columns.device)
        found, known = columns[found.clamp(min=0)], found >= 0
        is_gold = gold.gather(1, found) > 0 if one_hot else (found[:, :, None] == gold[:, None]).any(-1)
        known &= ~is_gold
        return torch.unique(found[known & (known.cumsum(-1) <= self.num_negatives)])

    def _labels(self, model: GileForSequenceClassification, period: int) -> tuple[Tensor, Tensor, Any]:
        """The trainable columns, their codes, and what searches these."""
        words = model.label_input_ids  # of other labels, or on another device, a tensor of its own
        if self._kept is None or self._kept[0] is not words or self._kept[1] != period:
            if len(model.config.languages) > 1:
                raise ValueError(
                    f"hard negatives are mined in one label space, and this model has {len(model.config.languages)} "
                    "languages: take them off, GileLoss(miner=None), or train a model of one language"
                )
            num_labels = model.config.num_labels
            if self.columns is None:
                columns = torch.arange(num_labels, device=words.device)
            else:
                columns = self.columns.to(words.device)
                if int(columns[-1]) >= num_labels:
                    raise ValueError(
                        f"columns holds {int(columns[-1])}, but there are {num_labels} labels (0 to {num_labels - 1})"
                    )
            self._kept = None  # not old and new codes at once
            language = model.config.languages[0] if model.config.languages else None
            codes: Any = None
            for start, chunk in zip(
                range(0, len(columns), self.chunk_size), columns.split(self.chunk_size), strict=True
            ):
                part = model.project_stored_labels(chunk, language)
                codes = part.new_empty(len(columns), part.shape[1]) if codes is None else codes
                codes[start : start + len(chunk)] = part
            search = None if self.make_search is None else self.make_search(codes, torch.cat(self._last))
            self._kept = (words, period, columns, codes, search)
        return self._kept[2:]
