r"""Reader of datasets of the Extreme Classification Repository, as raw text in several formats.

The files of a dataset are in a folder, or in `raw_data`, `raw` or `raw_text` within it, optionally gzipped:

| training documents | their labels | label texts | excluded pairs |
| --- | --- | --- | --- |
| `trn.json` | in it | `lbl.json`, `Yf.txt` | `filter_labels_train.txt` |
| `trn_X.txt` | `trn_X_Y.txt`, `trn_X_Y.npz`, `Y.trn.npz` | `Y.txt`, `lbl.txt`, `Yf.txt` | `trn_filter_labels.txt` |
| `train.raw.txt`, `trn.raw.txt` | the same | `label.raw.txt`, `lbl.raw.txt` | the same |
| `X.trn.txt` | the same | `output-items.txt` | |

Test documents: `tst` for `trn` and `test` for `train`. Columns can be combined freely; the first existing file is used.

`.json`, an object per line; labels are line numbers in `lbl.json`, from 0:

    {"uid": "B00", "title": "Mouse trap", "content": "For mice.", "target_ind": [7, 30], "target_rel": [1.0, 1.0]}
    {"uid": "B01", "title": "Cheese", "content": ""}

`.txt`, a document or label per line, in some datasets as `B00->Mouse trap`. `trn_X_Y.txt`, first the numbers of
documents and labels, then per line the labels of a document, possibly none:

    294805 131073
    7:1.0 30:1.0

`.npz`, the same as a scipy sparse matrix by rows. Filters, a document and a label per line, from 0: pairs excluded from
evaluation, such as a product and itself:

    0 7

The older files `train.txt` and `test.txt` have bags of word numbers, which cannot be converted to text.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any

from hf_gile.data.encodings import resolve_encoding
from hf_gile.data.files import data_suffix, read_npz
from hf_gile.data.homonyms import distinguish
from hf_gile.data.json_text import check_parts
from hf_gile.data.loading import Piece, document_features, load_pieces, useful_documents
from hf_gile.data.report import ReadReport
from hf_gile.data.schema import clean_text, document_id, join_columns
from hf_gile.data.table_files import read_lines
from hf_gile.models.labels_gile import Label, LabelSet

if TYPE_CHECKING:
    from datasets import Dataset, Features

# Part of the cache key, which does not cover this code: increment it when the resulting documents change.
_VERSION = 1
_FOLDERS = ("", "raw_data", "raw", "raw_text")
_TEXTS = {
    "train": ("trn.json", "trn_X.txt", "train.raw.txt", "trn.raw.txt", "X.trn.txt"),
    "test": ("tst.json", "tst_X.txt", "test.raw.txt", "tst.raw.txt", "X.tst.txt"),
}
_GOLD = {
    "train": ("trn_X_Y.txt", "trn_X_Y.npz", "Y.trn.npz"),
    "test": ("tst_X_Y.txt", "tst_X_Y.npz", "Y.tst.npz"),
}
_FILTERS = {
    "train": ("filter_labels_train.txt", "trn_filter_labels.txt"),
    "test": ("filter_labels_test.txt", "tst_filter_labels.txt"),
}
_LABELS = ("lbl.json", "Y.txt", "lbl.txt", "label.raw.txt", "lbl.raw.txt", "output-items.txt", "Yf.txt")
_UID = re.compile(r"(\S+?)->")


@dataclass(frozen=True, eq=False)
class XMCCorpus:
    """Documents and labels of a dataset.

    Args:
        documents: For each split, a dataset on disk with the columns `id`, `text`, `labels` and `excluded`, the ids of
            labels excluded from evaluation, for `encode_dataset(..., excluded="excluded")`.
        label_set: The labels in order, with their line numbers as ids and with counts of training documents.
    """

    documents: dict[str, Dataset]
    label_set: LabelSet


def load_xmc(
    folder: str | os.PathLike[str],
    splits: Sequence[str] = ("train", "test"),
    *,
    encoding: str = "utf-8",
    report: ReadReport | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
) -> XMCCorpus:
    """Reads an extreme classification dataset.

    Documents are read in constant memory and cached; labels are stored in memory. A label without a text is named by
    its number, and numbers are appended to repeated texts, so that no label is lost.

    Args:
        folder: Folder with the files, directly or in a subfolder; see above.
        splits: `"train"`, `"test"` or both.
        encoding: Encoding of documents and labels; several datasets use `"latin-1"`.
        report: Counts documents, and decides whether malformed documents raise errors (the default) or are skipped.
        cache_dir: Cache folder; by default the cache of `datasets`.

    Returns:
        The documents with a text and at least one label, and all labels.

    Raises:
        ImportError: If datasets is not installed.
        FileNotFoundError: If a file is missing.
        ValueError: If the files are bags of words, or a label matrix does not match the labels. Unless the report skips
            errors: if a line is malformed, or documents and their labels differ in number.
    """
    folder = Path(folder)
    report = ReadReport() if report is None else report
    encoding = resolve_encoding(encoding)
    if not splits or any(split not in _TEXTS for split in splits):
        raise ValueError(f"splits are {' and '.join(map(repr, _TEXTS))}, got {list(splits)}")
    texts = {split: _find_texts(folder, split) for split in splits}
    labels_file = _require_file(folder, _LABELS)
    labels = _read_labels(labels_file, encoding, report)
    documents: dict[str, Dataset] = {}
    for split, file in texts.items():
        gold = None if data_suffix(file) == ".json" else _require_file(folder, _GOLD[split])
        excluded = _find_file(folder, _FILTERS[split])
        files = [None if path is None else str(path) for path in (gold, excluded)]
        states = [(path.stat().st_size, path.stat().st_mtime_ns) for path in (gold, excluded) if path is not None]
        documents[split] = load_pieces(
            partial(_read_documents, gold=files[0], excluded=files[1], num_labels=len(labels), encoding=encoding),
            [Piece(str(file))],
            _features,
            key=["xmc", _VERSION, encoding, len(labels), files, states],
            report=report,
            cache_dir=cache_dir,
        )
    label_set = distinguish(labels, {}, report, str(labels_file))
    if "train" in documents:
        label_set = label_set.with_counts(_count_labels(documents["train"]))
    return XMCCorpus(documents, label_set)


def _features() -> Features:
    features = document_features()
    features["excluded"] = features["labels"]
    return features


def _count_labels(documents: Dataset) -> dict[str, int]:
    import pyarrow.compute as pc

    counts = pc.value_counts(pc.list_flatten(documents.data.column("labels")))
    return dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True))


def _find_file(folder: Path, names: Sequence[str]) -> Path | None:
    paths = (folder / sub / (name + end) for name in names for sub in _FOLDERS for end in ("", ".gz"))
    return next((path.resolve() for path in paths if path.is_file()), None)


def _require_file(folder: Path, names: Sequence[str]) -> Path:
    path = _find_file(folder, names)
    if path is None:
        raise FileNotFoundError(f"no {' or '.join(names)} in {folder}, with or without .gz")
    return path


def _find_texts(folder: Path, split: str) -> Path:
    path = _find_file(folder, _TEXTS[split])
    if path is None and (bags := _find_file(folder, (f"{split}.txt",))) is not None:
        raise ValueError(
            f"{bags}: bags of words without text; use the raw text of the dataset: {', '.join(_TEXTS[split])}"
        )
    return _require_file(folder, _TEXTS[split])


def _read_labels(file: Path, encoding: str, report: ReadReport) -> list[Label]:
    report.files += 1
    labels = []
    with_uid = _has_uids(file, encoding)
    for number, line in report.until_damage(read_lines(Piece(str(file)), encoding), file):
        name = description = ""
        try:
            if isinstance(line, ValueError):
                raise line
            if data_suffix(file) == ".json":
                row = _parse_object(line)
                name, description = (clean_text(row.get(key), key).strip() for key in ("title", "content"))
            else:
                name = clean_text(_split_uid(line, with_uid)[1], "a label").strip()
        except ValueError as error:
            report.problem("malformed label", f"{file}: line {number:,}: {error}")
        else:
            if not name and not description:
                report.leave_out("label without text", f"{file}: line {number:,}")
        label_id = str(number - 1)
        labels.append(Label(label_id, name or description or label_id, description if name else ""))
    if not labels:
        raise ValueError(f"{file}: no labels")
    return labels


def _read_documents(
    piece: Piece, report: ReadReport, *, gold: str | None, excluded: str | None, num_labels: int, encoding: str
) -> Iterator[dict[str, Any]]:
    path = Path(piece.path)
    report.files += 1
    excluded_by_document = {} if excluded is None else _read_pairs(excluded, num_labels, report)
    gold_rows = None if gold is None else _read_gold(gold, num_labels, report)
    with_uid = _has_uids(path, encoding)
    count = 0
    for number, line in report.until_damage(read_lines(piece, encoding), path):
        where = f"{path}: line {number:,}"
        columns: list[int] | ValueError = []
        if gold_rows is not None:
            if (next_gold := next(gold_rows, None)) is None:
                if isinstance(line, str) and not line.strip():
                    continue  # an empty line at the end
                report.problem("damaged file", f"{where}: {gold} has labels for only {count:,} documents")
                return
            columns = next_gold
        count += 1
        try:
            if isinstance(line, ValueError):
                raise line
            if gold_rows is None:
                row = _parse_object(line)
                uid, text = row.get("uid"), join_columns(row, ("title", "content"))
                columns = _parse_targets(row, num_labels)
            else:
                uid, text = _split_uid(line, with_uid)
                text = clean_text(text, "the text").strip()
            if isinstance(columns, ValueError):
                raise columns
            excluded_labels = excluded_by_document.pop(number - 1, {})
            document = {
                "id": str(number - 1) if uid in (None, "") else document_id(uid, "uid"),
                "text": text,
                "labels": [str(column) for column in dict.fromkeys(columns) if column not in excluded_labels],
                "excluded": list(map(str, excluded_labels)),
            }
        except ValueError as error:
            report.problem("malformed document", f"{where}: {error}")
            continue
        yield from useful_documents([(where, document)], report, "drop")
    if gold_rows is not None and next(gold_rows, None) is not None:
        report.problem("damaged file", f"{path}: {count:,} documents, but {gold} has labels for more")
    if excluded_by_document and (last := max(excluded_by_document)) >= count:
        report.problem(
            "damaged file", f"{excluded}: refers to document {last:,}, but {path} has {count:,}, counted from 0"
        )


def _parse_targets(row: Mapping[str, Any], num_labels: int) -> list[int]:
    columns = row.get("target_ind")
    if not isinstance(columns, list):
        raise ValueError(f"target_ind must be a list of label numbers, got {shortened(columns)}")
    for column in columns:
        if type(column) is not int or not 0 <= column < num_labels:
            raise _label_error(column, num_labels)
    return columns


def _parse_object(line: str) -> Mapping[str, Any]:
    check_parts(line)
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(row, dict):
        raise ValueError(f"expected an object, got {shortened(row)}")
    return row


def _has_uids(file: Path, encoding: str) -> bool:
    first = [
        line for _, line in ReadReport("skip").until_damage(islice(read_lines(Piece(str(file)), encoding), 100), file)
    ]
    return bool(first) and all(isinstance(line, ValueError) or _UID.match(line) for line in first)


def _split_uid(line: str, with_uid: bool) -> tuple[str | None, str]:
    if not with_uid:
        return None, line
    uid = _UID.match(line)
    if uid is None:
        raise ValueError(f"expected uid->text, as in previous lines, got {shortened(line)}")
    return uid[1], line[uid.end() :]


def _read_gold(path: str, num_labels: int, report: ReadReport) -> Iterator[list[int] | ValueError]:
    report.files += 1
    return _read_npz_gold(path, num_labels) if path.endswith(".npz") else _read_text_gold(path, num_labels, report)


def _read_text_gold(path: str, num_labels: int, report: ReadReport) -> Iterator[list[int] | ValueError]:
    lines = report.until_damage(read_lines(Piece(path), "utf-8"), path)
    _, first = next(lines, (1, ""))
    sizes = first.split() if isinstance(first, str) else []
    if len(sizes) != 2 or not all(size.isdecimal() for size in sizes):
        raise ValueError(f"{path}: line 1: expected the numbers of documents and labels, got {shortened(str(first))}")
    _check_num_labels(path, int(sizes[1]), num_labels)
    count = 0
    for number, line in lines:
        count += 1
        columns: list[int] | ValueError
        try:
            if isinstance(line, ValueError):
                raise line
            columns = _parse_gold_line(line, num_labels)
        except ValueError as error:
            columns = ValueError(f"{path}: line {number:,}: {error}")
        yield columns
    if count != int(sizes[0]):
        report.problem("damaged file", f"{path}: line 1 declares {int(sizes[0]):,} documents, but {count:,} follow")


def _parse_gold_line(line: str, num_labels: int) -> list[int]:
    columns = []
    for cell in line.split():
        label, _, value = cell.partition(":")
        column = _parse_number(label, num_labels)
        try:
            relevant = not value or float(value) > 0
        except ValueError:
            raise ValueError(f"expected labels as 7:1.0, got {cell!r}") from None
        if relevant:
            columns.append(column)
    return columns


def _read_npz_gold(path: str, num_labels: int) -> Iterator[list[int] | ValueError]:
    expected = "a sparse matrix by rows, as scipy.sparse.save_npz writes"
    (kind,) = read_npz(path, ["format"], expected)
    if kind.size != 1 or kind.item() not in ("csr", b"csr"):
        raise ValueError(f"{path}: expected {expected}, got {shortened(kind.tolist())}: use matrix.tocsr()")
    shape, starts, columns, values = read_npz(path, ["shape", "indptr", "indices", "data"], expected)
    if any(part.ndim != 1 for part in (shape, starts, columns, values)) or len(shape) != 2:
        raise ValueError(f"{path}: the arrays of the sparse matrix do not match: not all are lists of numbers")
    is_valid = {shape.dtype.kind, starts.dtype.kind, columns.dtype.kind} <= set("iu") and values.dtype.kind in "biuf"
    rows, declared = shape.tolist() if is_valid else (0, num_labels)
    _check_num_labels(path, declared, num_labels)
    is_valid = is_valid and len(starts) == rows + 1 > 0 and starts[0] == 0 and starts[-1] == len(columns) == len(values)
    if not is_valid or (starts[1:] < starts[:-1]).any() or ((columns < 0) | (columns >= num_labels)).any():
        raise ValueError(f"{path}: the arrays of the sparse matrix do not match")
    for start, stop in pairwise(map(int, starts)):
        yield columns[start:stop][values[start:stop] > 0].tolist()


def _check_num_labels(path: str, declared: int, num_labels: int) -> None:
    if declared != num_labels:
        raise ValueError(f"{path}: {declared:,} labels, but {num_labels:,} label texts")


def _read_pairs(path: str, num_labels: int, report: ReadReport) -> dict[int, dict[int, None]]:
    report.files += 1
    pairs: dict[int, dict[int, None]] = {}
    for number, line in report.until_damage(read_lines(Piece(path), "utf-8"), path):
        try:
            if isinstance(line, ValueError):
                raise line
            cells = line.split()
            if len(cells) == 2:
                pairs.setdefault(_parse_number(cells[0]), {})[_parse_number(cells[1], num_labels)] = None
            elif cells:
                raise ValueError(f"expected the numbers of a document and a label, got {shortened(line)}")
        except ValueError as error:
            report.problem("malformed pair", f"{path}: line {number:,}: {error}")
    return pairs


def _parse_number(text: str, size: int | None = None) -> int:
    if not text.isdecimal():
        raise ValueError(f"expected a whole number, got {shortened(text)}")
    number = int(text)
    if size is not None and number >= size:
        raise _label_error(number, size)
    return number


def _label_error(column: object, num_labels: int) -> ValueError:
    return ValueError(f"no label {shortened(column)}, only 0 to {num_labels - 1:,}")
