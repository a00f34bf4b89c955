"""From a dataset of texts and label ids to what the collator takes."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from transformers import BatchFeature

from ..models import GileProcessor, LabelSet
from .collator import GileDataCollator

if TYPE_CHECKING:
    from datasets import Dataset


def encode_dataset(
    dataset: "Dataset",
    processor: GileProcessor,
    label_set: LabelSet,
    text: str | Callable[[dict[str, Any]], str] = "text",
    labels: str = "labels",
    on_unknown_label: str = "raise",
    language: str | None = None,
    excluded: str | None = None,
    num_proc: int | None = None,
) -> "Dataset":
    """Turns texts into word ids and label ids into columns.

    Args:
        dataset: A `datasets.Dataset` of documents, or an `IterableDataset` with known columns.
        processor: Makes word ids of texts.
        label_set: Gives each label id its column.
        text: The column of the texts, or a function that makes a text of a row.
        labels: The column of the label ids: a list, or one.
        on_unknown_label: `"raise"`, or `"drop"` to leave out label ids of a list that the label set does not have.
        language: The language of the documents, in a model of several.
        excluded: The column of the lists of label ids that are no candidates for a document, if there is one; ids that
            the label set does not have are left out.
        num_proc: Number of processes, of a dataset that is not a stream.

    Returns:
        A dataset with the columns `input_ids` (no padding), `labels` (columns of the label set) and, if there are any,
        `lexical_ids`, `language` and `excluded_columns`.

    Raises:
        ValueError: A column does not exist, or a label id is not in the label set.
    """
    if on_unknown_label not in ("raise", "drop"):
        raise ValueError(f"on_unknown_label must be 'raise' or 'drop', got {on_unknown_label!r}")
    if isinstance(dataset, dict):
        raise ValueError(f"pass one split of the dataset, such as dataset[{next(iter(dataset))!r}], not all of them")
    if dataset.column_names is None:
        raise ValueError(
            "the columns of this stream are not known: give it features, as in IterableDataset.cast(features)"
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
            if not isinstance(ids, list | tuple):
                raise ValueError(f"labels must be label ids, a text or a list of texts, got {ids!r}")
            ids = dict.fromkeys(ids)  # a label given twice counts once
            if on_unknown_label == "drop":
                ids = [label_id for label_id in ids if label_id in label_set]
            gold.append(label_set.columns(ids))
        encoded = {**processor(texts, language=language), "labels": gold}
        if "lexical_ids" in encoded:  # there are many
            encoded["lexical_ids"] = [np.array(ids, np.int32) for ids in encoded["lexical_ids"]]
        if excluded is not None:
            encoded["excluded_columns"] = [
                label_set.columns(label_id for label_id in ids if label_id in label_set) for ids in batch[excluded]
            ]
        return encoded if language is None else {**encoded, "language": [language] * len(texts)}

    options: dict[str, Any] = {}
    if hasattr(dataset, "num_rows"):  # a stream has neither a progress bar nor processes
        options = {"desc": "words and columns", "num_proc": num_proc}
    return dataset.map(encode, batched=True, remove_columns=dataset.column_names, **options)


class ReadBefore:
    """What a processor makes of texts, with what a frozen encoder has made of them: it need not read them again.

    Args:
        processor: The processor.
        texts: N texts.
        rows: The same, encoded.
    """

    def __init__(self, processor: GileProcessor, texts: Iterable[str], rows: "Dataset") -> None:
        self.collator = GileDataCollator(processor)
        self.place = {text: place for place, text in enumerate(texts)}
        read = [name for name in ("input_ids", "lexical_ids", "pooled_embeds") if name in rows.column_names]
        self.rows = rows.select_columns(read)

    def __call__(self, text: Sequence[str], **_: Any) -> BatchFeature:
        """Collates some of the texts."""
        return BatchFeature(self.collator([self.rows[self.place[one]] for one in text]))
