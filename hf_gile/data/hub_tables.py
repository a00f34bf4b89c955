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
    DEFAULT,
    Columns,
    Unlabelled,
    as_tuple,
    check_labelled,
    check_separator,
    document_features,
    flags_or,
    is_useful,
    parse_document,
)

if TYPE_CHECKING:
    from datasets import Dataset, Features, IterableDataset


def table_of(
    dataset: Dataset | IterableDataset,
    text: str | Sequence[str] = "text",
    labels: str | Sequence[str] | LabelColumn = DEFAULT,
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
    report = ReadReport() if report is None else report
    check_separator(separator)
    if isinstance(dataset, dict):
        raise ValueError(f"pass a split of the dataset, such as dataset[{next(iter(dataset))!r}], not all splits")
    if dataset.features is None:
        raise ValueError("the columns of this stream are unknown: set its features, as in dataset.cast(features)")
    texts = as_tuple(text)
    plain = dataset.with_format(None)
    first = list(islice(plain, SAMPLE))  # take() of older versions needs so many rows
    columns = flags_or(labels, first, {*texts, id})
    read_as = Columns(texts, LabelColumn(columns), id, unlabelled)
    for column in (*texts, *columns, *([] if id is None else [id])):
        if column not in dataset.features:
            raise missing_column_error(column, dataset.features, "the dataset", read_as.arguments[column])
    classes = _classes(dataset.features, columns)
    label_column = labels if isinstance(labels, LabelColumn) else see(first, columns, separator, known, classes)
    report.note(label_column.note)
    options = {"desc": "documents"} if hasattr(dataset, "num_rows") else {}  # streams have no progress bar
    documents = plain.map(
        _convert_batch,
        with_indices=True,
        batched=True,
        fn_kwargs={"columns": read_as._replace(labels=label_column), "on_error": report.on_error},
        remove_columns=list(dataset.features),
        features=document_features(),
        **options,
    )
    if hasattr(dataset, "num_rows"):
        report.records += len(documents)
        report.without_labels += sum(not ids for ids in documents["labels"])
        if left_out := len(dataset) - len(documents):
            reason = "without text" + (" or labels" if unlabelled == "drop" else "")
            reason += ", or malformed" if report.on_error == "skip" else ""
            report.left_out[reason] = report.left_out.get(reason, 0) + left_out
        check_labelled(report, label_column, "the dataset: ")
        report.check_share()
    names = dict.fromkeys(name for column in classes.values() for name in column)
    return documents, LabelSet.from_names([*names]) if names and label_column.form == "plain" else None


def _classes(features: Features, columns: Sequence[str]) -> dict[str, Sequence[str]]:
    """Returns the names of classes, for the columns that have them."""
    classes: dict[str, Sequence[str]] = {}
    for column in columns:
        feature = getattr(features[column], "feature", features[column])  # the feature of a list
        if hasattr(feature, "names"):
            classes[column] = tuple(feature.names)
    return classes


def _convert_batch(
    batch: Mapping[str, list[Any]], positions: list[int], *, columns: Columns, on_error: Literal["raise", "skip"]
) -> dict[str, list[Any]]:
    assert columns.labels is not None
    documents: dict[str, list[Any]] = {"id": [], "text": [], "labels": []}
    report = ReadReport(on_error)
    needed = [*columns.arguments]
    for number, position in enumerate(positions):
        row = {column: batch[column][number] for column in needed}
        where = f"row {position:,} of the dataset"
        try:
            document = parse_document(row, columns, str(position))
        except ValueError as error:
            report.problem("malformed row", f"{where}: {error}")
            continue
        if is_useful(document, where, report, columns.unlabelled):
            for key, value in document.items():
                documents[key].append(value)
    return documents
