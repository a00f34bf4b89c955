r"""Reader of documents and labels in tables: CSV, JSON lines, JSON and Parquet files, and datasets of the Hub.

A row is a document: of CSV with any delimiter, of JSON (also a list of objects, or Parquet), or of fastText:

    title,abstract,subjects
    On mice.,"Mice, and rats.",D051379; D051381

    {"title": "On mice.", "abstract": "Mice, and rats.", "subjects": ["D051379", "D051381"]}

    __label__mice __label__rats Mice, and rats.

`load_table(path, text=["title", "abstract"], labels="subjects")` reads them, with `separator=";"` for the first.
`sniffing` sees the format of a file, and `label_columns` that of labels. `table_of` converts any dataset.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack

from ..models.labels_gile import LabelSet
from .files import Paths, find_files
from .label_columns import SAMPLE, LabelColumn, see
from .label_numbers import flag_columns
from .loading import Piece, document_features, load_pieces, short_names, useful_documents
from .report import ReadReport
from .schema import Row, column_names, document_id, join_columns
from .sniffing import Format, Layout, Requested, sniff
from .table_files import SUFFIXES, describe_missing_column, file_pieces, read_rows

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset

# Part of the cache key, which does not cover this code: increment it when the resulting documents change.
_VERSION = 13
LABELS = "labels"
"""Column of labels, unless another is named."""

_LABEL = "label"  # read if there is no column `labels`
_SAMPLE_SIZE = 1 << 22  # characters and elements of lists

Unlabelled = Literal["negative", "drop"]
"""What documents without labels are: negatives of all labels, or left out."""

Labels = str | Sequence[str] | LabelColumn | None
"""The columns of labels, or how they are read; None for a table without labels."""


class _Columns(NamedTuple):
    """The columns that are read, and how."""

    text: tuple[str, ...]
    labels: LabelColumn
    id: str | None
    unlabelled: str

    def required(self) -> dict[str, str]:
        """Returns the argument that names each column of the text and the id."""
        arguments = dict.fromkeys(self.text, "text")
        if self.id is not None:
            arguments.setdefault(self.id, "id")
        return arguments

    def document(self, name: str, position: str, row: Row) -> dict[str, Any]:
        """Returns the document of a row; its id is the name with the position, if there is no column of ids."""
        key = name + position
        if self.id is not None:
            if self.id not in row:
                raise ValueError(describe_missing_column(self.id, row, "id"))
            key = document_id(row[self.id], self.id)
        return {"id": key, "text": join_columns(row, self.text), "labels": self.labels.read(row)}


def load_table(
    paths: Paths,
    text: str | Sequence[str] = "text",
    labels: Labels = LABELS,
    *,
    id: str | None = None,
    separator: str | None = None,
    known: Collection[str] = (),
    unlabelled: Unlabelled = "negative",
    on_error: Literal["raise", "skip"] = "raise",
    num_proc: int | None = None,
    streaming: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
    **layout: Unpack[Layout],
) -> "tuple[Dataset | IterableDataset, ReadReport]":
    """Reads documents with a text from tables, in the same memory whatever their size.

    Several processes divide files, parts of large uncompressed `.jsonl` files, and row groups of Parquet files.

    Args:
        paths: Files, folders and globs.
        text: Column with the text, or several columns, joined by line breaks.
        labels: Column with the label ids, in any form of `label_columns`; or several columns, such as a column of zeros
            and ones for each label. None for a table without labels: documents have empty lists. If there is no column
            `"labels"`, it is `"label"`, and without it all columns with zeros and ones.
        id: Column with the document ids, which must be unique (not checked in a stream). By default the file name and
            position, as in `notes.csv:17`: the line, the record of `.json`, the row of Parquet, or the byte offset in a
            divided `.jsonl` file.
        separator: Separator of label ids within a cell, ignoring white space, or several signs, as in `";,"`; `"json"`
            for lists as text; or `"none"` if each cell is a label, whatever it looks like.
        known: Ids of labels, to tell joined labels from names; a list also names positions of zeros and ones.
        unlabelled: `"negative"`, or `"drop"` to leave out documents without labels.
        on_error: `"raise"`, or `"skip"` to skip and count malformed rows.
        num_proc: Number of processes.
        streaming: Whether to return a stream.
        cache_dir: Cache folder; by default that of `datasets`.
        layout: `delimiter`, `quote` (`"none"` if quotes are text), `encoding`, and `columns`, the names of the columns
            of CSV files without a header; by default as seen in each file.

    Returns:
        Documents with the columns `id`, `text` and `labels` (distinct label ids in order), and the read report.

    Raises:
        ImportError: If datasets is not installed.
        FileNotFoundError: If a path does not exist.
        ValueError: If a column is missing or empty, labels could be read in two ways, or no row is usable. Unless
            `on_error` is `"skip"`, also if input is malformed or more than a quarter of it has no text.
    """
    report = ReadReport(on_error)
    texts = column_names(text)
    others = [*texts, *filter(None, [id])]
    files = find_files(paths, SUFFIXES, any_name=True)
    if labels is None:
        labels = LabelColumn(())
    names = labels.columns if isinstance(labels, LabelColumn) else column_names(labels)
    forms = _see_forms(files, Requested(**layout).check(), [*others, *names], report)
    features = _parquet_features(files[0], forms)
    seen = _see_labels(_first_rows(files, forms, others), labels, others, separator, known, features, report)
    read_as = _Columns(texts, seen, id, unlabelled)
    short = short_names(files)
    try:
        dataset = load_pieces(
            partial(_read_documents, columns=read_as, forms=forms, names=short),
            [piece for file in files for piece in file_pieces(file, forms[str(file)])],
            document_features,
            key=["table", _VERSION, read_as, forms, short],
            report=report,
            num_proc=num_proc,
            streaming=streaming,
            cache_dir=cache_dir,
        )
    except ValueError:
        if report.files == 1 and not report.left_out:  # it was read completely
            raise ValueError(f"{files[0]} has no rows, or only a header") from None
        raise
    if not streaming:
        _check_documents(report, seen, ", ".join(map(str, files[:3])))
        if id is not None:
            dataset = _drop_repeated_ids(dataset, report)
    return dataset, report


def table_of(
    dataset: "Dataset | IterableDataset",
    text: str | Sequence[str] = "text",
    labels: str | Sequence[str] | LabelColumn = LABELS,
    *,
    id: str | None = None,
    separator: str | None = None,
    known: Collection[str] = (),
    unlabelled: Unlabelled = "negative",
    report: ReadReport | None = None,
) -> "tuple[Dataset | IterableDataset, LabelSet | None]":
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
    texts = column_names(text)
    others = [*texts, *filter(None, [id])]
    plain = dataset.with_format(None)
    seen = _see_labels(plain, labels, others, separator, known, dataset.features, report)
    read_as = _Columns(texts, seen, id, unlabelled)
    arguments = dict.fromkeys(seen.columns, "labels") | read_as.required()
    for column, argument in arguments.items():
        if column not in dataset.features:
            raise ValueError(f"the dataset: {describe_missing_column(column, dataset.features, argument)}")
    has_length = hasattr(dataset, "num_rows")  # streams have none, and no progress bar
    documents = plain.select_columns([*arguments]).map(
        _convert_batch,
        with_indices=True,
        batched=True,
        fn_kwargs={"columns": read_as, "on_error": report.on_error},
        remove_columns=[*arguments],
        features=document_features(),
        **({"desc": "documents"} if has_length else {}),
    )
    if has_length:
        report.records += len(documents)
        report.without_labels += sum(not ids for ids in documents["labels"])
        if left_out := len(dataset) - len(documents):
            reason = "without text" + (" or labels" if unlabelled == "drop" else "")
            reason += ", or malformed" if report.on_error == "skip" else ""
            report.count(reason, left_out)
        _check_documents(report, seen, "the dataset")
    classes = _class_names(dataset.features, seen.columns)
    names = dict.fromkeys(chain.from_iterable(classes.values()))
    return documents, LabelSet.from_names([*names]) if names and seen.form == "plain" else None


def _convert_batch(
    batch: Mapping[str, list[Any]],
    positions: list[int],
    *,
    columns: _Columns,
    on_error: Literal["raise", "skip"],
) -> dict[str, list[Any]]:
    rows = (
        (f"row {position:,} of the dataset", str(position), dict(zip(batch, cells, strict=True)))
        for position, *cells in zip(positions, *batch.values(), strict=True)
    )
    documents = list(_documents_of(rows, columns, ReadReport(on_error)))
    return {key: [document[key] for document in documents] for key in ("id", "text", "labels")}


def _see_forms(
    files: Sequence[Path], requested: Requested, names: Sequence[str], report: ReadReport
) -> dict[str, Format]:
    """Sees the format of each file, and notes what is unusual."""
    forms = {str(file): sniff(file, requested, names, "table") for file in files}
    for file, form in forms.items():
        if form.note:
            report.note(f"{Path(file).name}: {form.note} (--delimiter, --quote, --encoding and --columns overrule)")
    if len(files) == 1 and report.on_error == "raise" and forms[str(files[0])].kind == "empty":
        raise ValueError(f"{files[0]} is empty")
    return forms


def _see_labels(
    rows: Iterable[Row],
    labels: str | Sequence[str] | LabelColumn,
    others: Collection[str],
    separator: str | None,
    known: Collection[str],
    features: Mapping[str, Any],
    report: ReadReport,
) -> LabelColumn:
    """Sees the form of labels in the first rows, unless it is known; `others` are the columns of the text and the id.

    If the default column does not exist, it is `label`, or the columns of zeros and ones are labels.
    """
    if not isinstance(labels, LabelColumn):
        first = list(islice(rows, SAMPLE))
        columns = column_names(labels)
        if columns == (LABELS,) and first and not any(LABELS in row for row in first):
            if _LABEL not in others and any(_LABEL in row for row in first):
                columns = (_LABEL,)
            else:
                columns = tuple(flag_columns(first, others, known)) or columns
        labels = see(first, columns, separator, known, _class_names(features, columns))
    report.note(labels.note)
    report.labels = labels
    return labels


def _parquet_features(file: Path, forms: Mapping[str, Format]) -> Mapping[str, Any]:
    """Returns the features of a Parquet file; none for other files, and for types that datasets lacks."""
    if forms[str(file)].kind != "parquet":
        return {}
    from datasets import Features
    from pyarrow.parquet import read_schema

    try:
        return Features.from_arrow_schema(read_schema(file))
    except (ValueError, TypeError, KeyError, OSError):
        return {}


def _class_names(features: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Sequence[str]]:
    """Returns the names of classes by number, for the columns that have them."""
    kinds: dict[str, Any] = {name: getattr(features.get(name), "feature", features.get(name)) for name in columns}
    return {name: tuple(kind.names) for name, kind in kinds.items() if hasattr(kind, "names")}


def _first_rows(files: Iterable[Path], forms: Mapping[str, Format], others: Collection[str]) -> Iterator[Row]:
    """Yields rows without their text, until they would take much memory."""
    size = 0
    for file in files:
        rows: Any = read_rows(Piece(str(file)), ReadReport("skip"), forms[str(file)])
        with closing(rows):
            for _, _, row in rows:
                cells = {column: value for column, value in row.items() if column not in others}
                size += sum(len(value) for value in cells.values() if isinstance(value, str | list))
                if size > _SAMPLE_SIZE:
                    return
                yield cells


def _read_documents(
    piece: Piece,
    report: ReadReport,
    *,
    columns: _Columns,
    forms: Mapping[str, Format],
    names: Mapping[str, str],
) -> Iterator[dict[str, Any]]:
    labels = dict.fromkeys(columns.labels.columns, "labels")
    rows = read_rows(piece, report, forms[piece.path], columns.required(), labels)
    return _documents_of(rows, columns, report, f"{names[piece.path]}:")


def _documents_of(
    rows: Iterable[tuple[str, str, Row]],
    columns: _Columns,
    report: ReadReport,
    name: str = "",
) -> Iterator[dict[str, Any]]:
    """Returns the usable documents of rows, as `read_rows` yields them; `name` starts their ids."""
    documents = report.read_each(rows, partial(columns.document, name), "malformed row")
    return useful_documents(documents, report, columns.unlabelled, has_labels=bool(columns.labels.columns))


def _check_documents(report: ReadReport, labels: LabelColumn, source: str) -> None:
    """Refuses a table without any label, and one of which most was left out."""
    if labels.columns and 0 < report.records == report.without_labels:
        columns = ", ".join(map(repr, labels.columns[:9]))
        raise ValueError(
            f"{source}: no row has a label in {columns}: the column is absent or empty in all {report.records:,} rows; "
            'name the column with labels="..."'
        )
    report.check_share()


def _drop_repeated_ids(dataset: "Dataset", report: ReadReport) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    ids = dataset.data.column("id")
    if pc.count_distinct(ids).as_py() == len(ids):
        return dataset
    rows = pa.table({"id": ids, "row": pa.array(range(len(ids)))})
    rows = rows.group_by("id").aggregate([("row", "min"), ("row", "count")])
    for repeated in rows.filter(pc.field("row_count") > 1).to_pylist():
        for _ in range(repeated["row_count"] - 1):
            report.problem(
                "repeated id",
                f"{repeated['row_count']:,} documents have the id {repeated['id']!r}; "
                "if each has a label of a document, join them, "
                'in pandas with groupby("id")["label"].agg(list)',
            )
            report.records -= 1
    return dataset.select(sorted(rows["row_min"].to_pylist()))
