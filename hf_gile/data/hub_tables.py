"""Converts datasets of the Hub, and any others, to documents and labels."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from ..models.labels_gile import LabelSet
from .label_columns import SAMPLE, LabelColumn, see
from .report import ReadReport
from .table_files import missing_column_error
from .tables import (
    LABELS,
    Columns,
    Unlabelled,
    as_tuple,
    check_documents,
    choose_labels,
    class_names,
    document_features,
    documents_of,
)

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset


def table_of(
    dataset: Dataset | IterableDataset,
    text: str | Sequence[str] = "text",
    labels: str | Sequence[str] | LabelColumn = LABELS,
    *,
    id: str | None = None,
    separator: str | None = None,
    known: Collection[str] = (),
    unlabelled: Unlabelled = "negative",
    report: ReadReport | None = None,
) -> tuple[Dataset | IterableDataset, LabelSet | None]:
    """Converts any dataset, such as from the Hub, to the columns of `load_table`.

    Args:
        dataset: The documents.
        text: Column with the text, or several columns, joined by line breaks.
        labels: Column with the label ids, or several columns; see `load_table`. Classes are replaced by their names; -1
            is no label.
        id: Column with the document ids; by default the row, counted per worker in a stream.
        separator: As in `load_table`.
        known: As in `load_table`.
        unlabelled: As in `load_table`.
        report: Decides whether malformed rows raise (the default). Counts rows, but not those of a stream.

    Returns:
        Documents with the columns `id`, `text` and `labels`, excluding rows without text; and a label set of the class
        names, if the labels are classes.

    Raises:
        ValueError: If a column is missing, a row is malformed, or labels could be read in two ways.

    Example:
        >>> from datasets import ClassLabel, Dataset, Features, List, Value
        >>> features = Features({"title": Value("string"), "tags": List(ClassLabel(names=["mice", "rats"]))})
        >>> rows = Dataset.from_dict({"title": ["On rats.", "On stars."], "tags": [[1, 0], []]}, features=features)
        >>> documents, label_set = table_of(rows, text="title", labels="tags")
        >>> documents[:]
        {'id': ['0', '1'], 'text': ['On rats.', 'On stars.'], 'labels': [['rats', 'mice'], []]}
        >>> label_set.ids
        ['mice', 'rats']
    """
    report = report or ReadReport()
    if isinstance(dataset, dict):
        raise ValueError(f"pass a split of the dataset, such as dataset[{next(iter(dataset))!r}], not all splits")
    if dataset.features is None:
        raise ValueError("the columns of this stream are unknown: set its features, as in dataset.cast(features)")
    texts = as_tuple(text)
    plain = dataset.with_format(None)
    first = list(islice(plain, SAMPLE))  # take() of older versions needs so many rows
    columns = choose_labels(labels, first, {name for name in (*texts, id) if name})
    read_as = Columns(texts, LabelColumn(columns), id, unlabelled)
    for column, argument in read_as.arguments().items():
        if column not in dataset.features:
            raise missing_column_error(column, dataset.features, "the dataset", argument)
    classes = class_names(dataset.features, columns)
    seen = labels if isinstance(labels, LabelColumn) else see(first, columns, separator, known, classes)
    report.note(seen.note)
    has_length = hasattr(dataset, "num_rows")  # streams have none, and no progress bar
    documents = plain.map(
        _convert_batch,
        with_indices=True,
        batched=True,
        fn_kwargs={"columns": read_as._replace(labels=seen), "on_error": report.on_error},
        remove_columns=list(dataset.features),
        features=document_features(),
        **({"desc": "documents"} if has_length else {}),
    )
    if has_length:
        report.records += len(documents)
        report.without_labels += sum(not ids for ids in documents["labels"])
        if left_out := len(dataset) - len(documents):
            reason = "without text" + (" or labels" if unlabelled == "drop" else "")
            reason += ", or malformed" if report.on_error == "skip" else ""
            report.left_out[reason] = report.left_out.get(reason, 0) + left_out
        check_documents(report, seen, "the dataset")
    names = dict.fromkeys(name for column in classes.values() for name in column)
    return documents, LabelSet.from_names([*names]) if names and seen.form == "plain" else None


def _convert_batch(
    batch: Mapping[str, list[Any]],
    positions: list[int],
    *,
    columns: Columns,
    on_error: Literal["raise", "skip"],
) -> dict[str, list[Any]]:
    names = [*columns.arguments()]
    cells = zip(*(batch[name] for name in names), strict=True)
    rows = (
        (f"row {position:,} of the dataset", str(position), dict(zip(names, row, strict=True)))
        for position, row in zip(positions, cells, strict=True)
    )
    documents = list(documents_of(rows, columns, ReadReport(on_error)))
    return {key: [document[key] for document in documents] for key in ("id", "text", "labels")}
