"""Data collator: pads documents and gold labels, and samples labels for training steps."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..models import GileProcessor
from ..models.lexical_gile import pad_features
from ..models.losses_gile import IGNORE
from .label_sampling import LabelSampler


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
        if not hasattr(processor, "pad_documents"):
            raise ValueError(
                f"processor must be a GileProcessor, got {type(processor).__name__}; use GileProcessor.for_config("
                "tokenizer, model.config)"
            )
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
            ValueError: If an example has no `input_ids`, or its labels are not label indices.
        """
        features = _check_examples(features)
        # input_ids come first: the Trainer takes the batch size from the first tensor.
        batch = self.processor.pad_documents([feature["input_ids"] for feature in features])
        if "language" in features[0]:
            batch["language"] = _language_indices(features, self.processor.languages)
        if "excluded_columns" in features[0]:
            batch["excluded_columns"] = pad_indices(_read_indices(features, "excluded_columns"))
        if "lexical_ids" in features[0]:
            batch |= pad_features({name: [feature[name] for feature in features] for name in _LEXICAL})
        if "pooled_embeds" in features[0]:
            batch["pooled_embeds"] = _pad_pooled_embeds(features)
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
    if not isinstance(features, Sequence) or not len(features):
        raise ValueError(f"features must be a non-empty list of examples, got {features!r:.100}")
    if isinstance(features[0], list):
        features = [feature for row in features for feature in (row if isinstance(row, list) else [row])]
    required = ["input_ids", *(name for name in _ALL_OR_NONE if name in features[0])]
    for position, feature in enumerate(features):
        if not isinstance(feature, Mapping):
            raise ValueError(
                f"example {position} of the batch must be a mapping with input_ids, got {type(feature).__name__}"
            )
        missing = [name for name in required if name not in feature]
        if missing:
            raise ValueError(
                f"example {position} of the batch has no {missing[0]}, only {sorted(feature)}; create input_ids with "
                "hf_gile.training.encode_dataset or processor(text)['input_ids'], and add other fields to all examples "
                "or to none"
            )
    return features


def _language_indices(features: Sequence[Any], languages: list[str]) -> Tensor:
    for position, feature in enumerate(features):
        if feature.get("language") not in languages:
            raise ValueError(
                f"language of example {position} must be one of {', '.join(languages) or '(the processor has none)'}, "
                f"got {feature.get('language')!r:.100}"
            )
    return torch.tensor([languages.index(feature["language"]) for feature in features])


def _pad_pooled_embeds(features: Sequence[Any]) -> Tensor:
    pooled = [_read_vectors(feature["pooled_embeds"], position) for position, feature in enumerate(features)]
    if not pooled[0].dim() or len({tuple(vectors.shape[vectors.dim() - 1 :]) for vectors in pooled}) > 1:
        raise ValueError("pooled_embeds of the batch have different sizes: compute them with the same model")
    return pad_sequence(pooled, batch_first=True) if pooled[0].dim() > 1 else torch.stack(pooled)


def _read_indices(features: Sequence[Any], name: str) -> list[Any]:
    """Returns the label indices of a field of each example; gold labels are distinct."""
    rows = []
    for position, feature in enumerate(features):
        try:
            columns = np.atleast_1d(np.asarray(feature[name]))
        except ValueError:  # lists of different lengths
            columns = np.asarray(None)
        is_index = columns.dtype.kind in "iu" or columns.size == 0
        is_repeated = is_index and name == "labels" and len(np.unique(columns)) < columns.size
        if columns.ndim > 1 or not is_index or is_repeated:
            raise ValueError(
                f"{name} of example {position} must be distinct label indices, got {feature[name]!r:.100}; convert "
                "zeros and ones with np.flatnonzero"
            )
        rows.append(columns)
    return rows


def _read_vectors(value: object, position: int) -> Tensor:
    try:
        return torch.as_tensor(np.asarray(value, np.float32))
    except (TypeError, ValueError):
        raise ValueError(f"pooled_embeds of example {position} must be numbers, got {value!r:.100}") from None


def pad_indices(rows: Iterable[Any], padding: int = IGNORE) -> Tensor:
    """Converts lists of integers, or single integers, to a padded `(N, P)` tensor with P of at least 1.

    Args:
        rows: N lists or integers.
        padding: What shorter lists are padded with.
    """
    lists = [np.atleast_1d(row).tolist() for row in rows]
    width = max([1, *map(len, lists)])
    padded = [[*row, *[padding] * (width - len(row))] for row in lists]
    return torch.tensor(padded, dtype=torch.long).view(len(lists), width)


def _hash_batch(batch: dict[str, Tensor]) -> int:
    digest = hashlib.blake2b(digest_size=8)
    for name in ("input_ids", "labels"):
        digest.update(batch[name].numpy().tobytes())
    return int.from_bytes(digest.digest(), "little")
