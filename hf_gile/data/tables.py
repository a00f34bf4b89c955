r"""Documents and labels in tables: CSV, TSV, JSON lines, JSON and Parquet files, and any dataset of the Hub.

A row is a document. `.csv`, or `.tsv` with tabs, the first line naming the columns:

    title,abstract,subjects
    On mice.,"Mice, and rats.",D051379; D051381

`.jsonl`, an object on each line; `.json`, a list of such objects; `.parquet`, columns of the same types:

    {"title": "On mice.", "abstract": "Mice, and rats.", "subjects": ["D051379", "D051381"]}

All but Parquet may be packed by gzip. `load_table(path, text=["title", "abstract"], labels="subjects")` reads them, the
first with `separator=";"`. What the label ids mean is another table, for `load_labels`:

    {"id": "D051379", "name": "Mice", "synonyms": ["Mouse", "House Mouse"]}
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..models.labels_gile import Label, LabelSet
from .files import Paths, find_files
from .homonyms import distinct
from .loading import Piece, load_pieces
from .report import ReadReport
from .schema import clean_text, joined_text
from .table_files import SUFFIXES, Format, checked_encoding, no_column, read_rows, table_pieces

if TYPE_CHECKING:
    from datasets import Dataset, Features, IterableDataset

# Part of the cache's key, which cannot see that this code changed: count up when documents change.
_VERSION = 1


class _Columns(NamedTuple):
    text: tuple[str, ...]
    labels: str | None
    id: str | None
    separator: str | None


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
    """Reads the documents of tables: those with a text and at least one label.

    The suffix tells the format: `.csv`, `.tsv`, `.jsonl`, `.json` or `.parquet`, all but the last with or without
    `.gz`. Several processes share out files, parts of `.jsonl` files that are large and not packed, and row groups of
    Parquet files. Memory does not grow with the files.

    Args:
        paths: Files, folders and globs.
        text: The column of the text, or several that are joined by line ends.
        labels: The column of the label ids: a list, or one text or whole number. None for a table without them: all
            documents with a text are kept, and their lists are empty.
        id: The column of the documents' ids, which must differ (in a stream nobody looks). By default the name of the
            file and the line, as `notes.csv:17`: of a `.json` file the record, of Parquet the row, of a `.jsonl` file
            that is shared out the byte it starts at.
        separator: Cuts a text into label ids, whose white space around them is dropped; or `"json"` if the text is a
            JSON list.
        delimiter: Between the cells of a line; by default a comma in `.csv` and a tab in `.tsv`.
        quotes: Whether cells in double quotes may hold delimiters and line ends; else quotes are text like any other.
        encoding: Of the text files, such as `"utf-8"`, `"windows-1252"`, `"latin-1"` or `"utf-16"`.
        on_error: `"raise"`, or `"skip"` to leave malformed rows out and count them.
        num_proc: Number of processes.
        streaming: Whether to return a stream instead of a dataset on disk.
        cache_dir: Where to cache; that of `datasets` by default.

    Returns:
        The columns `id`, `text` and `labels` (label ids, each once, in the order of the source), and the report of how
        they were read.

    Raises:
        ImportError: If datasets is not installed.
        FileNotFoundError: If a path leads nowhere.
        ValueError: If there is no such column, no row is of use, or anything is malformed and is not to be skipped.
    """
    report = ReadReport(on_error)
    form = Format(checked_encoding(encoding), delimiter, quotes)
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise ValueError(f"delimiter must be one character, and no quote or line end; got {delimiter!r}")
    columns = _checked_columns(text, labels, id, separator)
    files = find_files(paths, SUFFIXES)
    names = short_names(files)
    dataset = load_pieces(
        partial(_documents, columns=columns, form=form, names=names),
        [piece for file in files for piece in table_pieces(file, form)],
        document_features,
        key=["table", _VERSION, columns, form, names],
        report=report,
        num_proc=num_proc,
        streaming=streaming,
        cache_dir=cache_dir,
    )
    if id is not None and not streaming:
        dataset = _first_of_each_id(dataset, report)
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
    """Gives a dataset of any source, such as the Hub, the columns that `load_table` gives.

    Args:
        dataset: The documents.
        text: The column of the text, or several that are joined by line ends.
        labels: The column of the label ids: a class, a text or a whole number, or a list of these. Classes become
            their names; -1 is no class.
        id: The column of the documents' ids; by default the row. The workers that share a stream count each for itself.
        separator: Cuts a text into label ids; or `"json"` if the text is a JSON list.
        report: Says whether malformed rows raise, as they do without. Counts the rows, but not those of a stream.

    Returns:
        The columns `id`, `text` and `labels`, without the rows that have no text or no label; and the labels by name
        in the order of the classes, if the labels are classes.

    Raises:
        ValueError: If there is no such column or a row is malformed.

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
    columns = _checked_columns(text, labels, id, separator)
    if isinstance(dataset, dict):
        raise ValueError(f"pass one split of the dataset, such as dataset[{next(iter(dataset))!r}], not all of them")
    if dataset.features is None:
        raise ValueError("the columns of this stream are not known: give it features, as in dataset.cast(features)")
    for column in (*columns.text, labels, *([] if id is None else [id])):
        if column not in dataset.features:
            raise no_column(column, dataset.features, "the dataset")
    feature = dataset.features[labels]
    feature = getattr(feature, "feature", feature)  # that of a list
    names = list(feature.names) if hasattr(feature, "names") else None
    options = {"desc": "documents"} if hasattr(dataset, "num_rows") else {}  # a stream has no progress bar
    documents = dataset.with_format(None).map(
        _documents_of_batch,
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


def load_labels(
    path: str | os.PathLike[str],
    *,
    id: str = "id",
    name: str | Sequence[str] = "name",
    description: str | Sequence[str] | None = None,
    synonyms: str | Sequence[str] | None = None,
    language: str | None = None,
    encoding: str = "utf-8",
    report: ReadReport | None = None,
) -> LabelSet:
    """Reads a table of labels of any format that `load_table` reads.

    A table that has no other columns than the fields of `Label` gives all of them; `save_labels` writes such. Of any
    other table, a column `broader` holds the ids of parents, unless it is read as something else. Labels of the same
    name and description get what else may tell them apart behind the description: their other names, at last their id.

    Args:
        path: The file.
        id: The column of the ids.
        name: The column of the names, or several of which the first that is not empty counts.
        description: The column of what else is known, or several that are joined by semicolons; so are lists.
        synonyms: The column of other names, or several; each a list, or a text as `split_synonyms` reads it.
        language: The column of the language of name and description.
        encoding: Of a text file; see `load_table`.
        report: Counts labels and says whether malformed rows raise, as they do without, or are left out.

    Returns:
        The labels, in the order of the file.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If there is no such column, or no label. Unless the report says to skip: if a row is malformed, has
            no id or no name, or the id of an earlier row.
    """
    report = ReadReport() if report is None else report
    file, *more = find_files(path, SUFFIXES)
    if more:
        raise ValueError(f"{path}: expected one file of labels, got {len(more) + 1}")
    form = Format(checked_encoding(encoding))
    names, descriptions = _several(name), _several(description) if description else ()
    others = _several(synonyms) if synonyms else ()
    needed = [id, *names, *descriptions, *others, *([] if language is None else [language])]
    rows = list(read_rows(Piece(str(file)), report, form, needed, all_columns=True))
    own = {field.name for field in fields(Label)}
    if not descriptions and not others and language is None and all(own.issuperset(row) for _, _, row in rows):
        descriptions, others, language = ("description",), ("synonyms",), "language"
        own -= {"id", "name", "description", "synonyms", "language"}
    else:
        own = {"broader"} - {*descriptions, *others, *names}
    labels: dict[str, Label] = {}
    hints: dict[str, list[str]] = {}
    places: dict[str, str] = {}
    for where, _, row in rows:
        try:
            label_id = document_id(row.get(id), id)
            if label_id in places:
                raise ValueError(f"the id {label_id!r} stands in {places[label_id]} already")
            given = list(filter(None, (clean_text(row.get(column), column).strip() for column in names)))
            if not given:
                raise ValueError(f"the label {label_id!r} has no {' and no '.join(names)}")
            label = Label(
                id=label_id,
                name=given[0],
                description=_description(row, descriptions),
                synonyms=_synonyms(row, others),
                language=None if language is None else clean_text(row.get(language), language).strip() or None,
                **{field: _own_value(field, row[field]) for field in own if row.get(field) not in (None, "")},
            )
        except ValueError as error:
            report.problem("malformed label", f"{file}: {where}: {error}")
            continue
        report.records += 1
        labels[label_id], places[label_id] = label, where
        hints[label_id] = [other for other in given if other != label.name]
    return distinct(labels.values(), hints, report, str(file))


def short_names(files: Sequence[Path]) -> dict[str, str]:
    """Returns what files are called in the ids of their documents.

    Args:
        files: The files.

    Returns:
        From the path of each to its name; if two have the same, to its path within the folder that holds them all.

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


def document_id(value: object, what: str) -> str:
    """Checks an id.

    Args:
        value: A text or a whole number.
        what: What to call it in messages.

    Returns:
        The id, without white space around it.

    Raises:
        ValueError: If it is empty or something else.
    """
    is_number = isinstance(value, int) and not isinstance(value, bool)
    checked = clean_text(str(value) if is_number else value, what).strip()
    if not checked:
        raise ValueError(f"{what} must not be empty, got {shortened(value)}")
    return checked


def label_ids(value: object, what: str, separator: str | None = None) -> list[str]:
    """Returns the label ids that a value holds.

    Args:
        value: A text, a whole number, a list of these, or None.
        what: What to call it in messages.
        separator: Cuts a text into label ids; or `"json"` if the text is a JSON list.

    Returns:
        The ids, each once.

    Raises:
        ValueError: If it is something else, or an id of a list is empty.

    Example:
        >>> label_ids("mice; rats;mice;", "tags", ";")
        ['mice', 'rats']
        >>> label_ids('["mice", 7]', "tags", "json")
        ['mice', '7']
    """
    if isinstance(value, str):
        if separator != "json":
            ids = [clean_text(value, what)] if separator is None else clean_text(value, what).split(separator)
            return list(dict.fromkeys(filter(None, map(str.strip, ids))))
        value = _json_list(value, what) if value.strip() else None
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        value = [value]
    return list(dict.fromkeys([document_id(one, f"a label id in {what}") for one in value]))


def _json_list(text: str, what: str) -> list[Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, list):
        raise ValueError(f"{what} must be a JSON list, got {shortened(text)}")
    return value


def is_useful(
    document: Mapping[str, Any], where: str, report: ReadReport, without_labels: str | None = "without labels"
) -> bool:
    """Tells whether a model can be trained on a document, and counts it, or that it was left out.

    Args:
        document: With `text` and `labels`.
        where: Where it is, for the examples of the report.
        report: Counts it.
        without_labels: Under which heading to count a document without labels; None if it is of use.

    Returns:
        Whether it has a text and labels.
    """
    if not document["text"]:
        report.leave_out("without text", where)
    elif not document["labels"] and without_labels is not None:
        report.leave_out(without_labels, where)
    else:
        report.records += 1
        return True
    return False


def _documents(
    piece: Piece, report: ReadReport, *, columns: _Columns, form: Format, names: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    needed = [*columns.text, *([] if columns.id is None else [columns.id])]
    may_lack = [] if columns.labels is None else [columns.labels]
    for where, place, row in read_rows(piece, report, form, needed, may_lack):
        try:
            document = _document(row, columns, f"{names[piece.path]}:{place}")
        except ValueError as error:
            report.problem("malformed row", f"{piece.path}: {where}: {error}")
            continue
        lacks = f"without {columns.labels!r}" if columns.labels and columns.labels not in row else "without labels"
        if is_useful(document, f"{piece.path}: {where}", report, lacks if columns.labels else None):
            yield document


def _document(row: Mapping[str, Any], columns: _Columns, place: str) -> dict[str, Any]:
    if columns.id is not None and columns.id not in row:
        raise no_column(columns.id, row, place)
    return {
        "id": place if columns.id is None else document_id(row.get(columns.id), columns.id),
        "text": joined_text(row, columns.text),
        "labels": []
        if columns.labels is None
        else label_ids(row.get(columns.labels), columns.labels, columns.separator),
    }


def _documents_of_batch(
    batch: Mapping[str, list[Any]],
    places: list[int],
    *,
    columns: _Columns,
    names: list[str] | None,
    on_error: Literal["raise", "skip"],
) -> dict[str, list[Any]]:
    documents: dict[str, list[Any]] = {"id": [], "text": [], "labels": []}
    report = ReadReport(on_error)
    labels = columns.labels or ""
    for number, place in enumerate(places):
        row = {column: batch[column][number] for column in (*columns.text, labels, columns.id) if column is not None}
        try:
            if names is not None:
                row[labels] = _names_of_classes(row[labels], names)
            document = _document(row, columns, str(place))
        except ValueError as error:
            report.problem("malformed row", f"row {place:,} of the dataset: {error}")
            continue
        if document["text"] and document["labels"]:
            for key, value in document.items():
                documents[key].append(value)
    return documents


def _names_of_classes(value: object, names: list[str]) -> list[str]:
    classes: list[Any] = value if isinstance(value, list) else [value]
    classes = [one for one in classes if one is not None and one != -1]  # -1 is what the Hub has for none
    if not all(isinstance(one, int) and 0 <= one < len(names) for one in classes):
        raise ValueError(f"a class must be a whole number from 0 to {len(names) - 1:,}, got {shortened(value)}")
    return [names[one] for one in classes]


def _first_of_each_id(dataset: Dataset, report: ReadReport) -> Any:
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


def _description(row: Mapping[str, Any], columns: Sequence[str]) -> str:
    parts: list[str] = []
    for column in columns:
        value = row.get(column)
        for part in value if isinstance(value, list | tuple) else [value]:
            parts.append(clean_text(part, column).strip())
    return "; ".join(dict.fromkeys(filter(None, parts)))


def _synonyms(row: Mapping[str, Any], columns: Sequence[str]) -> tuple[str, ...]:
    names: list[str] = []
    for column in columns:
        value = row.get(column)
        if isinstance(value, list | tuple):
            names += filter(None, (clean_text(part, column).strip() for part in value))
        else:
            names += split_synonyms(clean_text(value, column))
    return tuple(names)


def split_synonyms(cell: str) -> tuple[str, ...]:
    r"""The synonyms of a cell.

    Args:
        cell: Synonyms with semicolons between them; `\;` is a semicolon of a synonym, and `\\` a backslash.

    Example:
        >>> split_synonyms(r"breast milk; mother's milk;; a\;b")
        ('breast milk', "mother's milk", 'a;b')
    """
    parts = re.findall(r"(?:[^;\\]|\\[;\\]?)+", cell)
    return tuple(re.sub(r"\\([;\\])", r"\1", part) for part in map(str.strip, parts) if part)


def _own_value(field: str, value: object) -> Any:
    if field == "broader":
        return _synonyms({field: value}, [field])
    # A cell of CSV says true, 7 or 0.5 as JSON does.
    try:
        return json.loads(value.lower()) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        expected = "true or false" if field == "seen" else "a number"
        raise ValueError(f"{field} must be {expected}, got {shortened(value)}") from None


def _checked_columns(text: str | Sequence[str], labels: str | None, id: str | None, separator: str | None) -> _Columns:
    if separator == "":
        raise ValueError("separator must not be empty; pass None if a text is one label id")
    return _Columns(_several(text), labels, id, separator)


def _several(names: str | Sequence[str]) -> tuple[str, ...]:
    names = (names,) if isinstance(names, str) else tuple(names)
    if not names or len(set(names)) < len(names):
        raise ValueError(f"expected the name of a column, or several that differ, got {list(names)}")
    return names
