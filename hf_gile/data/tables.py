r"""Reader of documents and labels in tables: CSV, TSV, JSON lines, JSON and Parquet files, and datasets of the Hub.

A row is a document. `.csv`, or `.tsv` with tabs, with a header:

    title,abstract,subjects
    On mice.,"Mice, and rats.",D051379; D051381

`.jsonl`, an object per line; `.json`, a list of such objects; `.parquet`, columns of the same types:

    {"title": "On mice.", "abstract": "Mice, and rats.", "subjects": ["D051379", "D051381"]}

All but Parquet may be compressed with gzip. `load_table(path, text=["title", "abstract"], labels="subjects")` reads
them, with `separator=";"` for the first. `label_tables` reads tables of labels.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..models.labels_gile import LabelSet
from .files import Paths, data_suffix, find_files
from .loading import Piece, load_pieces
from .report import ReadReport
from .schema import clean_text, join_columns
from .sniffing import resolve_encoding
from .table_files import SUFFIXES, Format, missing_column_error, read_rows, table_pieces

if TYPE_CHECKING:
    from datasets import Dataset, Features, IterableDataset

# Part of the cache key, which does not cover this code: increment it when the resulting documents change.
_VERSION = 1


class _Columns(NamedTuple):
    text: tuple[str, ...]
    labels: str | None
    id: str | None
    separator: str | None

    @property
    def arguments(self) -> dict[str, str]:
        """Returns the argument that names each column."""
        named = {"labels": self.labels, "id": self.id}
        return {column: name for name, column in named.items() if column} | dict.fromkeys(self.text, "text")


def load_table(
    paths: Paths,
    text: str | Sequence[str] = "text",
    labels: str | None = "labels",
    *,
    id: str | None = None,
    separator: str | None = None,
    delimiter: str | None = None,
    quotes: bool = True,
    encoding: str = "utf-8",
    on_error: Literal["raise", "skip"] = "raise",
    num_proc: int | None = None,
    streaming: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
) -> tuple[Dataset | IterableDataset, ReadReport]:
    """Reads documents with a text and at least one label from tables.

    The suffix determines the format: `.csv`, `.tsv`, `.jsonl`, `.json` or `.parquet`, all but the last with or without
    `.gz`. Several processes divide files, parts of large uncompressed `.jsonl` files, and row groups of Parquet files.
    Memory use does not grow with the files.

    Args:
        paths: Files, folders and globs.
        text: Column with the text, or several columns, joined by line breaks.
        labels: Column with the label ids: a list, a string or an integer. None for a table without labels: all
            documents with a text are returned, with empty lists.
        id: Column with the document ids, which must be unique (not checked in a stream). By default the file name and
            position, as in `notes.csv:17`: the line, the record of `.json`, the row of Parquet, or the byte offset in a
            divided `.jsonl` file.
        separator: Separator of label ids within a string, ignoring white space; or `"json"` for JSON lists.
        delimiter: Delimiter of cells; by default a comma in `.csv` and a tab in `.tsv`.
        quotes: Whether cells may be in double quotes, which allows delimiters and line breaks; otherwise quotes are
            text.
        encoding: Encoding of text files, such as `"utf-8"`, `"windows-1252"`, `"latin-1"` or `"utf-16"`.
        on_error: `"raise"`, or `"skip"` to skip and count malformed rows.
        num_proc: Number of processes.
        streaming: Whether to return a stream instead of a dataset on disk.
        cache_dir: Cache folder; by default the cache of `datasets`.

    Returns:
        Documents with the columns `id`, `text` and `labels` (distinct label ids in order), and the read report.

    Raises:
        ImportError: If datasets is not installed.
        FileNotFoundError: If a path does not exist.
        ValueError: If a column is missing, no row is usable, or input is malformed and `on_error` is `"raise"`.
    """
    report = ReadReport(on_error)
    form = Format(resolve_encoding(encoding), delimiter, quotes)
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise ValueError(f"delimiter must be a single character other than a quote or line break, got {delimiter!r}")
    columns = _check_columns(text, labels, id, separator)
    files = find_files(paths, SUFFIXES)
    names = short_names(files)
    if len(files) == 1 and on_error == "raise" and files[0].stat().st_size == 0:
        raise ValueError(f"{files[0]} is empty")
    try:
        dataset = load_pieces(
            partial(_read_documents, columns=columns, form=form, names=names),
            [piece for file in files for piece in table_pieces(file, form)],
            document_features,
            key=["table", _VERSION, columns, form, names],
            report=report,
            num_proc=num_proc,
            streaming=streaming,
            cache_dir=cache_dir,
        )
    except ValueError:
        if report.files == 1 and not report.left_out:  # it was read completely
            has_header = data_suffix(files[0]) in (".csv", ".tsv")
            raise ValueError(f"{files[0]} has {'a header and ' if has_header else ''}no rows") from None
        raise
    if id is not None and not streaming:
        dataset = _drop_repeated_ids(dataset, report)
    return dataset, report


def table_of(
    dataset: Dataset | IterableDataset,
    text: str | Sequence[str] = "text",
    labels: str = "labels",
    *,
    id: str | None = None,
    separator: str | None = None,
    report: ReadReport | None = None,
) -> tuple[Dataset | IterableDataset, LabelSet | None]:
    """Converts any dataset, such as from the Hub, to the columns of `load_table`.

    Args:
        dataset: The documents.
        text: Column with the text, or several columns, joined by line breaks.
        labels: Column with the label ids: a class, a string or an integer, or a list of these. Classes are replaced by
            their names; -1 is ignored.
        id: Column with the document ids; by default the row, counted per worker in a stream.
        separator: Separator of label ids within a string; or `"json"` for JSON lists.
        report: Decides whether malformed rows raise (the default). Counts rows, but not those of a stream.

    Returns:
        Documents with the columns `id`, `text` and `labels`, excluding rows without text or label; and a label set of
        the class names, if the labels are classes.

    Raises:
        ValueError: If a column is missing or a row is malformed.

    Example:
        >>> from datasets import ClassLabel, Dataset, Features, List, Value
        >>> features = Features({"title": Value("string"), "tags": List(ClassLabel(names=["mice", "rats"]))})
        >>> rows = Dataset.from_dict({"title": ["On rats.", "On stars."], "tags": [[1, 0], []]}, features=features)
        >>> documents, label_set = table_of(rows, text="title", labels="tags")
        >>> documents[:]
        {'id': ['0'], 'text': ['On rats.'], 'labels': [['rats', 'mice']]}
        >>> label_set.ids
        ['mice', 'rats']
    """
    report = ReadReport() if report is None else report
    columns = _check_columns(text, labels, id, separator)
    if isinstance(dataset, dict):
        raise ValueError(f"pass a split of the dataset, such as dataset[{next(iter(dataset))!r}], not all splits")
    if dataset.features is None:
        raise ValueError("the columns of this stream are unknown: set its features, as in dataset.cast(features)")
    for column in (*columns.text, labels, *([] if id is None else [id])):
        if column not in dataset.features:
            raise missing_column_error(column, dataset.features, "the dataset", columns.arguments[column])
    feature = dataset.features[labels]
    feature = getattr(feature, "feature", feature)  # the feature of a list
    names = list(feature.names) if hasattr(feature, "names") else None
    options = {"desc": "documents"} if hasattr(dataset, "num_rows") else {}  # streams have no progress bar
    documents = dataset.with_format(None).map(
        _convert_batch,
        with_indices=True,
        batched=True,
        fn_kwargs={"columns": columns, "names": names, "on_error": report.on_error},
        remove_columns=list(dataset.features),
        features=document_features(),
        **options,
    )
    if hasattr(dataset, "num_rows"):
        report.records += len(documents)
        if left_out := len(dataset) - len(documents):
            reason = "without text or labels" + (", or malformed" if report.on_error == "skip" else "")
            report.left_out[reason] = report.left_out.get(reason, 0) + left_out
    return documents, None if names is None else LabelSet.from_names(names)


def short_names(files: Sequence[Path]) -> dict[str, str]:
    """Returns short names of files for document ids.

    Args:
        files: The files.

    Returns:
        Maps each path to its file name, or to the path within the common folder if names are repeated.

    Example:
        >>> short_names([Path("/data/train/a.csv"), Path("/data/test/a.csv")])
        {'/data/train/a.csv': 'train/a.csv', '/data/test/a.csv': 'test/a.csv'}
    """
    if len({file.name for file in files}) == len(files):
        return {str(file): file.name for file in files}
    folder = os.path.commonpath([file.parent for file in files])
    return {str(file): file.relative_to(folder).as_posix() for file in files}


def document_features() -> Features:
    """Returns the features of a document: `id`, `text` and `labels`, a list of label ids."""
    from datasets import Features, List, Value

    return Features({"id": Value("string"), "text": Value("string"), "labels": List(Value("string"))})


def document_id(value: object, name: str) -> str:
    """Checks an id.

    Args:
        value: A string or an integer.
        name: Name for messages.

    Returns:
        The id without surrounding white space.

    Raises:
        ValueError: If it is empty or of another type.
    """
    is_number = isinstance(value, int) and not isinstance(value, bool)
    checked = clean_text(str(value) if is_number else value, name).strip()
    if not checked:
        raise ValueError(f"{name} must not be empty, got {shortened(value)}")
    return checked


def label_ids(value: object, name: str, separator: str | None = None) -> list[str]:
    """Parses label ids.

    Args:
        value: A string, an integer, a list of these, or None.
        name: Name for messages.
        separator: Separator of label ids within a string; or `"json"` for JSON lists.

    Returns:
        Distinct ids.

    Raises:
        ValueError: If the type is wrong, or an id in a list is empty.

    Example:
        >>> label_ids("mice; rats;mice;", "tags", ";")
        ['mice', 'rats']
        >>> label_ids('["mice", 7]', "tags", "json")
        ['mice', '7']
    """
    if isinstance(value, str):
        if separator != "json":
            ids = [clean_text(value, name)] if separator is None else clean_text(value, name).split(separator)
            return list(dict.fromkeys(filter(None, map(str.strip, ids))))
        value = _parse_json_list(value, name) if value.strip() else None
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        value = [value]
    return list(dict.fromkeys([document_id(item, f"a label id in {name}") for item in value]))


def separator_hint(ids: Iterable[str], known: Container[str]) -> str:
    """Suggests a separator if unknown label ids look like several ids in a string.

    Args:
        ids: Unknown label ids.
        known: Known label ids.

    Returns:
        A question to append to a message; empty if no id looks like several.

    Example:
        >>> separator_hint(["mice;rats"], {"mice"})
        " (did you mean --separator ';'?)"
    """
    for sign in (";", "|", ","):
        split_ids = [label_id.split(sign) for label_id in ids if sign in label_id]
        # Many ids contain commas, so a part must be known; few ids contain the other separators.
        if split_ids and (sign != "," or any(part.strip() in known for parts in split_ids for part in parts)):
            return f" (did you mean --separator {sign!r}?)"
    return ""


def separator_note(ids: Collection[str]) -> str:
    """Suggests a separator if it splits label ids into fewer distinct ids.

    Args:
        ids: Distinct label ids.

    Returns:
        A note; empty if no separator does.

    Example:
        >>> separator_note(["mice;rats", "mice", "rats"])
        "note: split by ';', the 3 distinct labels would be 2; did you mean --separator ';'?"
    """
    for sign in ("json", ";", "|", ","):
        try:
            number = len({part for label_id in ids for part in label_ids(label_id, "labels", sign)})
        except ValueError:  # no JSON
            continue
        if number < len(ids):
            return (
                f"note: split by {sign!r}, the {len(ids):,} distinct labels would be {number:,}; did you mean "
                f"--separator {sign!r}?"
            )
    return ""


def _parse_json_list(text: str, name: str) -> list[Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, list):
        raise ValueError(f"{name} must be a JSON list, got {shortened(text)}")
    return value


def is_useful(
    document: Mapping[str, Any], where: str, report: ReadReport, without_labels: str | None = "without labels"
) -> bool:
    """Checks whether a document has a text and labels, and counts it.

    Args:
        document: Document with `text` and `labels`.
        where: Location, for the examples of the report.
        report: Counts the document as a record or as skipped.
        without_labels: Category to count documents without labels under; None to accept them.

    Returns:
        Whether the document is usable.
    """
    if not document["text"]:
        report.leave_out("without text", where)
    elif not document["labels"] and without_labels is not None:
        report.leave_out(without_labels, where)
    else:
        report.records += 1
        return True
    return False


def _read_documents(
    piece: Piece, report: ReadReport, *, columns: _Columns, form: Format, names: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    needed = [*columns.text, *([] if columns.id is None else [columns.id])]
    may_lack = [] if columns.labels is None else [columns.labels]
    for where, position, row in read_rows(piece, report, form, needed, may_lack, arguments=columns.arguments):
        try:
            document = _parse_document(row, columns, f"{names[piece.path]}:{position}")
        except ValueError as error:
            report.problem("malformed row", f"{piece.path}: {where}: {error}")
            continue
        reason = f"without {columns.labels!r}" if columns.labels and columns.labels not in row else "without labels"
        if is_useful(document, f"{piece.path}: {where}", report, reason if columns.labels else None):
            yield document


def _parse_document(row: Mapping[str, Any], columns: _Columns, position: str) -> dict[str, Any]:
    if columns.id is not None and columns.id not in row:
        raise missing_column_error(columns.id, row, position, "id")
    return {
        "id": position if columns.id is None else document_id(row.get(columns.id), columns.id),
        "text": join_columns(row, columns.text),
        "labels": []
        if columns.labels is None
        else label_ids(row.get(columns.labels), columns.labels, columns.separator),
    }


def _convert_batch(
    batch: Mapping[str, list[Any]],
    positions: list[int],
    *,
    columns: _Columns,
    names: list[str] | None,
    on_error: Literal["raise", "skip"],
) -> dict[str, list[Any]]:
    documents: dict[str, list[Any]] = {"id": [], "text": [], "labels": []}
    report = ReadReport(on_error)
    labels = columns.labels or ""
    for number, position in enumerate(positions):
        row = {column: batch[column][number] for column in (*columns.text, labels, columns.id) if column is not None}
        try:
            if names is not None:
                row[labels] = _class_names(row[labels], names)
            document = _parse_document(row, columns, str(position))
        except ValueError as error:
            report.problem("malformed row", f"row {position:,} of the dataset: {error}")
            continue
        if document["text"] and document["labels"]:
            for key, value in document.items():
                documents[key].append(value)
    return documents


def _class_names(value: object, names: list[str]) -> list[str]:
    classes: list[Any] = value if isinstance(value, list) else [value]
    classes = [number for number in classes if number is not None and number != -1]  # -1 stands for no class on the Hub
    if not all(isinstance(number, int) and 0 <= number < len(names) for number in classes):
        raise ValueError(f"a class must be a whole number from 0 to {len(names) - 1:,}, got {shortened(value)}")
    return [names[number] for number in classes]


def _drop_repeated_ids(dataset: Dataset, report: ReadReport) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    ids = dataset.data.column("id")
    if pc.count_distinct(ids).as_py() == len(ids):
        return dataset
    rows = pa.table({"id": ids, "row": pa.array(range(len(ids)))})
    rows = rows.group_by("id").aggregate([("row", "min"), ("row", "count")])
    for repeated in rows.filter(pc.field("row_count") > 1).to_pylist():
        for _ in range(repeated["row_count"] - 1):
            report.problem("repeated id", f"{repeated['row_count']:,} documents have the id {repeated['id']!r}")
            report.records -= 1
    return dataset.select(sorted(rows["row_min"].to_pylist()))


def _check_columns(text: str | Sequence[str], labels: str | None, id: str | None, separator: str | None) -> _Columns:
    if separator == "":
        raise ValueError("separator must not be empty; pass None if a string is a single label id")
    return _Columns(as_tuple(text), labels, id, separator)


def as_tuple(names: str | Sequence[str]) -> tuple[str, ...]:
    """Returns names of columns, which must be distinct, as a tuple."""
    names = (names,) if isinstance(names, str) else tuple(names)
    if not names or len(set(names)) < len(names):
        raise ValueError(f"expected a column name, or several distinct names, got {list(names)}")
    return names
