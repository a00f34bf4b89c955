"""Batches: documents and gold labels are padded, and the labels that a training step scores are sampled.

Sampling is section 3.4 of GILE, Eq. 17.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ..models import GileProcessor
from ..models.lexical_gile import pad_features
from ..models.losses_gile import IGNORE
from ..models.texts_gile import pad_rows

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class LabelSampler:
    """Samples the labels of a training step: all gold labels of the batch, and negatives.

    With `weighted=True`, each sampled label is weighted by the inverse of its sampling probability (Horvitz & Thompson,
    1952). A loss that is a sum over labels, such as binary cross-entropy, is then an unbiased estimate of the loss over
    all `columns`, and probabilities are meaningful. Without weights it is Eq. 17 of the paper as printed, which sees
    too few negatives and therefore learns probabilities that are too high. The kinds of sampling are:

    - uniform, as in the paper: `num_negatives` other labels with equal probability. Unbiased if weighted.
    - in-batch (`num_negatives=0`): only the gold labels of the batch. Biased, also with weights, because labels without
      documents in the batch are never negatives. A rare label occurs in a batch of B about once per document, and
      learns a prior of 1 / B: probabilities are too high, especially those of rare labels.

    `recipes/papers` has further kinds: for each document, by frequency, with weights of labels, and hard negatives.

    A draw depends only on the seed, the epoch and the batch, so training is reproducible when resumed or with other
    numbers of data loading processes. `EpochCallback` sets the epoch; without it, a repeated batch repeats its draw,
    which matters for batches with a single document and data that is not shuffled.

    The time of a draw does not depend on the number of labels.

    Args:
        num_labels: Number L of stored labels.
        num_negatives: Number of labels sampled per batch; 0 uses gold labels only, None all labels.
        columns: Indices of labels to sample from, such as those of seen labels; by default all. Gold labels of the
            batch are always added.
        weighted: Whether to weight sampled labels by inverse probability.
        seed: Seed of the draws.

    Raises:
        ValueError: If `columns` are out of range, repeated or missing.

    Example:
        >>> sampler = LabelSampler(num_labels=1000, num_negatives=4)
        >>> columns, weights = sampler([[7, 3], [7]])
        >>> len(columns), weights[columns == 7], weights.sum()
        (6, tensor([1.]), tensor(1000.))
    """

    def __init__(
        self,
        num_labels: int,
        num_negatives: int | None = None,
        columns: Sequence[int] | None = None,
        weighted: bool = True,
        seed: int = 0,
    ) -> None:
        listed = np.arange(num_labels) if columns is None else np.asarray(columns, dtype=np.int64)
        self.columns = np.unique(listed)
        if len(self.columns) != len(listed) or not len(listed):
            raise ValueError(
                f"columns must be distinct labels to sample from, got {len(listed)}: {listed[:8].tolist()}"
            )
        _check_range("columns has", self.columns, num_labels)
        self._sampled_from = np.zeros(num_labels, dtype=bool)
        self._sampled_from[self.columns] = True
        self.num_labels = num_labels
        self.num_negatives = num_negatives
        self.weighted = weighted
        self.seed = seed
        # Shared memory, so that persistent workers of a DataLoader see the next epoch.
        self._epoch = torch.zeros(1, dtype=torch.long).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch, so that batches get new draws."""
        self._epoch[0] = epoch

    def __call__(self, gold: Sequence[Sequence[int]], batch_key: int = 0) -> tuple[Tensor, Tensor | None]:
        """Samples the labels of a training step.

        Args:
            gold: Gold label indices of each of B documents.
            batch_key: A hash of the batch, for the seed.

        Returns:
            `(C,)` ascending label indices, and their `(C,)` weights, or None for unit weights.

        Raises:
            ValueError: If a gold label index is out of range.
        """
        indices = [np.asarray(columns, dtype=np.int64) for columns in gold]
        positives = np.unique(np.concatenate(indices))
        _check_range("gold label", positives, self.num_labels)
        if self.num_negatives is None:
            added = positives[~self._sampled_from[positives]]
            columns = np.insert(self.columns, np.searchsorted(self.columns, added), added)
            return torch.from_numpy(columns), None
        rng = np.random.default_rng([self.seed, int(self._epoch), batch_key])
        columns, weights = self.sample(rng, indices, positives)
        return torch.from_numpy(columns), None if weights is None else torch.from_numpy(weights).float()

    def sample(
        self, rng: np.random.Generator, gold: Sequence[IntArray], positives: IntArray
    ) -> tuple[IntArray, FloatArray | None]:
        """Samples labels for a batch with gold indices by document, and all of them, ascending; see `__call__`."""
        sampled, draw_weights = self.draw(rng, positives)
        columns = np.union1d(positives, sampled)
        if not self.weighted or bool((draw_weights == 1.0).all()):
            return columns, None
        weights = np.ones(len(columns))
        weights[np.searchsorted(columns, sampled)] = draw_weights
        return columns, weights

    def draw(self, rng: np.random.Generator, gold: IntArray) -> tuple[IntArray, FloatArray]:
        """Draws labels other than the ascending gold ones; returns them and their weights."""
        num_others = len(self.columns) - int(self._sampled_from[gold].sum())
        size = min(self.num_negatives or 0, num_others)
        draw_weights = np.full(size, num_others / max(size, 1))
        if 4 * (size + len(gold)) > len(self.columns):
            remaining = self._sampled_from.copy()
            remaining[gold] = False
            return rng.choice(np.flatnonzero(remaining), size, replace=False), draw_weights
        # Few out of many: drawing with rejection of repetitions is also uniform, and does not iterate over all
        # labels for each document.
        drawn = np.empty(0, dtype=np.int64)
        while len(drawn) < size:
            drawn = np.concatenate([drawn, self.columns[rng.integers(len(self.columns), size=2 * size)]])
            drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
            drawn = drawn[~np.isin(drawn, gold)]
        return drawn[:size], draw_weights


def _check_range(name: str, ascending: IntArray, num_labels: int) -> None:
    wrong = ascending[(ascending < 0) | (ascending >= num_labels)]
    if len(wrong):
        raise ValueError(f"{name} {wrong[0]}, but there are {num_labels} labels (0 to {num_labels - 1})")


class EpochCallback(TrainerCallback):
    """Sets the epoch of objects with random draws: a `LabelSampler`, a dataset in a drawn order.

    Args:
        drawers: Objects with a `set_epoch` method.
    """

    def __init__(self, *drawers: Any) -> None:
        self.drawers = drawers
        self.next_epoch = 0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Starts at the first epoch, or at the resumed epoch."""
        self.next_epoch = int(state.epoch or 0)

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Sets the epoch before its batches are created."""
        # Counted here, since state.epoch is a fraction of max_steps for streams of unknown length.
        for drawer in self.drawers:
            drawer.set_epoch(self.next_epoch)
        self.next_epoch += 1


class GileDataCollator:
    """Creates batches for `GileForSequenceClassification` and the stock `Trainer`.

    Args:
        processor: The processor of the `input_ids`, which pads them.
        label_sampler: Samples the labels of each step, for a model with a `GileLoss`, which ignores them in evaluation.
            By default all labels are used.

    Example:
        >>> from hf_gile import build_tokenizer
        >>> processor = GileProcessor(build_tokenizer(["a cat sat"], min_count=1))
        >>> collator = GileDataCollator(processor)
        >>> collator([{"input_ids": [2, 3], "labels": [4, 1]}, {"input_ids": [2], "labels": []}])["labels"]
        tensor([[   4,    1],
                [-100, -100]])
    """

    def __init__(self, processor: GileProcessor, label_sampler: LabelSampler | None = None) -> None:
        self.processor = processor
        self.label_sampler = label_sampler

    def __call__(self, features: Sequence[Any]) -> dict[str, Tensor]:
        """Creates a batch.

        Args:
            features: B examples with `input_ids` from the processor, without padding, and optionally `labels`, a list
                of gold label indices or a single index; `language`, a language of the processor; `excluded_columns`, a
                list of indices of excluded labels; `lexical_ids` and `lexical_counts`, from a processor with lexical
                features; `pooled_embeds`, from `add_pooled_embeds`. Or rows of such examples, which are joined.

        Returns:
            `input_ids` and `attention_mask` from `GileProcessor.pad_documents`. With labels: `labels`, `(B, P)` padded
            with -100 or `(B,)`, and `shift_labels`, `(B,)` zeros, by which `Trainer` counts documents. With a sampler:
            `sampled_columns` `(1, C)`, and `column_weights` `(1, C)` or `(B, C)`. With languages: `language` `(B,)`,
            indices of the languages of the processor. With excluded labels: `excluded_columns`, `(B, E)` padded with
            -100. Also `lexical_ids` and `lexical_counts` `(B, F)`, and `pooled_embeds`, `(B, P)` or `(B, S, P)` padded
            with zeros.

        Raises:
            ValueError: If an example has no `input_ids`, an unknown language, or labels that are not label indices.
        """
        features = _check_examples(features)
        # input_ids come first: the Trainer takes the batch size from the first tensor.
        batch = self.processor.pad_documents([feature["input_ids"] for feature in features])
        if "language" in features[0]:
            languages = self.processor.languages
            batch["language"] = torch.tensor([languages.index(feature["language"]) for feature in features])
        if "excluded_columns" in features[0]:
            batch["excluded_columns"] = pad_indices(_read_indices(features, "excluded_columns"))
        if "lexical_ids" in features[0]:
            batch |= pad_features({name: [feature[name] for feature in features] for name in _LEXICAL})
        if "pooled_embeds" in features[0]:
            vectors = [torch.as_tensor(np.asarray(feature["pooled_embeds"], np.float32)) for feature in features]
            batch["pooled_embeds"] = pad_sequence(vectors, batch_first=True)
        if "labels" not in features[0]:
            return batch
        gold = _read_indices(features, "labels")
        labels = pad_indices(gold)
        is_single = np.ndim(features[0]["labels"]) == 0
        batch["labels"] = labels[:, 0] if is_single else labels
        # Trainer divides the loss of a step by the count of numbers other than -100 in shift_labels. Without
        # shift_labels it counts gold labels instead of documents.
        batch["shift_labels"] = torch.zeros(len(labels), dtype=torch.long)
        if self.label_sampler is not None:
            sampled, weights = self.label_sampler([columns.tolist() for columns in gold], _hash_batch(batch))
            # (1, C): for streams, accelerate truncates every tensor to the rows of the batch.
            batch["sampled_columns"] = sampled[None]
            if weights is not None:
                batch["column_weights"] = weights.reshape(-1, len(sampled))
        return batch


_LEXICAL = ("lexical_ids", "lexical_counts")

# Fields that must be present in all examples of a batch or in none.
_ALL_OR_NONE = ("labels", "excluded_columns", *_LEXICAL, "pooled_embeds")


def _check_examples(features: Sequence[Any]) -> Sequence[Any]:
    if isinstance(features[0], list):
        features = [feature for row in features for feature in (row if isinstance(row, list) else [row])]
    for position, feature in enumerate(features):
        required = ["input_ids", *(name for name in _ALL_OR_NONE if name in features[0])]
        missing = [name for name in required if name not in feature]
        if missing:
            raise ValueError(
                f"example {position} of the batch has no {missing[0]}, only {sorted(feature)}; create input_ids with "
                "hf_gile.training.encode_dataset or processor(text)['input_ids'], and add other fields to all examples "
                "or to none"
            )
    return features


def _read_indices(features: Sequence[Any], name: str) -> list[Any]:
    """Returns the label indices of a field of each example; gold labels are distinct."""
    rows = []
    for position, feature in enumerate(features):
        columns = np.atleast_1d(feature[name])
        is_repeated = name == "labels" and len(np.unique(columns)) < columns.size
        if is_repeated or (columns.size and columns.dtype.kind not in "iu"):
            raise ValueError(
                f"{name} of example {position} must be distinct label indices, got {feature[name]!r:.100}; convert "
                "zeros and ones with np.flatnonzero"
            )
        rows.append(columns)
    return rows


def pad_indices(rows: Iterable[Any], padding: int = IGNORE) -> Tensor:
    """Converts N lists of integers, or integers, to a padded `(N, P)` tensor with P of at least 1."""
    return pad_rows([np.atleast_1d(row).tolist() for row in rows], padding)


def _hash_batch(batch: dict[str, Tensor]) -> int:
    digest = hashlib.blake2b(digest_size=8)
    for name in ("input_ids", "labels"):
        digest.update(batch[name].numpy().tobytes())
    return int.from_bytes(digest.digest(), "little")
