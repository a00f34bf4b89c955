"""Encodes datasets of texts and label ids for the collator."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm.auto import tqdm
from transformers import BatchFeature

from ..models import GileProcessor, LabelSet
from .collator import GileDataCollator

if TYPE_CHECKING:
    from datasets import Dataset

_TIMED = 3.0
"""Seconds after which the duration of a phase is estimated."""

_LONG = 30.0
"""Seconds of a phase that is announced."""

shows_progress: ContextVar[bool] = ContextVar("shows_progress", default=True)
"""Whether phases have progress bars, on a terminal."""


@contextmanager
def without_bars() -> Iterator[None]:
    """Hides the progress bars of `datasets`."""
    from datasets import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    were_hidden = are_progress_bars_disabled()
    disable_progress_bars()
    try:
        yield
    finally:
        if not were_hidden:
            enable_progress_bars()


def encode_dataset(
    dataset: "Dataset",
    processor: GileProcessor,
    label_set: LabelSet,
    text: str | Callable[[dict[str, Any]], str] = "text",
    labels: str = "labels",
    on_unknown_label: str = "raise",
    language: str | None = None,
    excluded: str | None = None,
) -> "Dataset":
    """Converts texts to word ids, and label ids to label indices.

    Args:
        dataset: A `datasets.Dataset` of documents, or an `IterableDataset` with known columns.
        processor: Converts texts to word ids.
        label_set: Maps label ids to indices.
        text: Column with the texts, or a function that returns the text of a row.
        labels: Column with the label ids: a list or a string.
        on_unknown_label: `"raise"`, or `"drop"` to drop label ids that the label set does not contain, from lists.
        language: Language of the documents, for a multilingual model.
        excluded: Optional column with lists of ids of labels that are not candidates for a document; unknown ids are
            ignored.

    Returns:
        A dataset with the columns `input_ids` (without padding), `labels` (indices in the label set) and, if
        applicable, `lexical_ids`, `lexical_counts`, `language` and `excluded_columns`.

    Raises:
        ValueError: If a column does not exist, or a label id is unknown.
    """
    if dataset.column_names is None:
        raise ValueError(
            "the columns of this stream are unknown: set its features, as in IterableDataset.cast(features)"
        )
    for column in (labels, text, excluded):
        if isinstance(column, str) and column not in dataset.column_names:
            raise ValueError(f"the dataset has no column {column!r}, only {', '.join(dataset.column_names)}")

    def encode(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
        if isinstance(text, str):
            texts = batch[text]
        else:
            texts = [text(dict(zip(batch, row, strict=True))) for row in zip(*batch.values(), strict=True)]
        gold: list[Any] = []
        for ids in batch[labels]:
            if isinstance(ids, str):
                gold.append(label_set.column(ids))
                continue
            ids = dict.fromkeys(ids)  # repeated labels count once
            if on_unknown_label == "drop":
                ids = [label_id for label_id in ids if label_id in label_set]
            gold.append(label_set.columns(ids))
        encoded = {**processor(texts, language=language), "labels": gold}
        if "lexical_ids" in encoded:  # less memory than int64
            encoded["lexical_ids"] = [np.array(ids, np.int32) for ids in encoded["lexical_ids"]]
            encoded["lexical_counts"] = [np.array(counts, np.int16) for counts in encoded["lexical_counts"]]
        if excluded is not None:
            encoded["excluded_columns"] = [
                label_set.columns(label_id for label_id in ids if label_id in label_set) for ids in batch[excluded]
            ]
        return encoded

    options: dict[str, Any] = {}
    if hasattr(dataset, "num_rows"):  # streams have no progress bar
        options = {"desc": "encoding texts and labels"}
    return dataset.map(encode, batched=True, remove_columns=dataset.column_names, **options)


def batches_by_length(lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Yields the positions of documents in batches, those of similar length together.

    The order of the batches is random, so that the first ones tell how long all of them take.
    """
    order = np.argsort(lengths, kind="stable").tolist()
    starts = np.arange(0, len(order), size)
    for start in np.random.default_rng(0).permutation(starts):
        yield order[start : start + size]


class Progress:
    """A progress bar, and a line that says how long a phase will take, if that is long.

    Args:
        phase: Name of the phase.
        total: Number of documents.
        unit: What a document is called.
        is_even: Whether each takes about the same time; otherwise there is no such line.
    """

    def __init__(self, phase: str, total: int, unit: str = "document", is_even: bool = True) -> None:
        self.phase = phase
        self.total = total
        self.unit = unit
        self.done = 0
        self.start = time.perf_counter()
        self.is_timed = not is_even
        is_hidden = None if shows_progress.get() else True  # None: without a terminal
        # With a delay, there is no bar if nothing is to do.
        self.bar = tqdm(desc=phase, total=total, unit=f" {unit}s", delay=0.1, disable=is_hidden)

    def count(self, number: int) -> None:
        """Counts documents that are done."""
        self.bar.update(number)
        self.done += number
        if self.done >= self.total:
            self.bar.close()
        seconds = time.perf_counter() - self.start
        if self.is_timed or seconds < _TIMED:
            return
        self.is_timed = True
        speed = self.done / seconds
        left = (self.total - self.done) / speed
        if left > _LONG:
            minutes = round(left / 60) or 1
            counted = f"{minutes:,} minute{'s' * (minutes > 1)}"
            tqdm.write(f"  {self.phase}: about {counted}: {self.total:,} {self.unit}s at {speed:.3g} a second")


class ReadBefore:
    """A processor of documents that are encoded already, which may have precomputed outputs of a frozen encoder."""

    def __init__(self, processor: GileProcessor, rows: "Dataset") -> None:
        self.collator = GileDataCollator(processor)
        names = ("input_ids", "lexical_ids", "lexical_counts", "pooled_embeds")
        self.rows = rows.select_columns([name for name in names if name in rows.column_names])

    def __call__(self, text: Sequence[int], **_: Any) -> BatchFeature:
        """Returns a batch of the documents at some positions."""
        return BatchFeature(self.collator([self.rows[position] for position in text]))
