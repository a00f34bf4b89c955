"""BioASQ as numbers, in the HDF5 form that GILE published beside its code.

The published instructions (https://github.com/idiap/gile, with the address of the data) name a folder with a file for
each split, and pickles of the labels that are seen in training and of those that are not:

    FOLDER/train/english.h5    FOLDER/dev/english.h5    FOLDER/test/english.h5
    FOLDER/seen_ids.pkl        FOLDER/unseen_ids.pkl

The published files themselves were not at hand when this was written, so every form that their description allows is
read, and another one is refused with what the file holds. A dataset of numbers may be of whole numbers or of floats.

| in the file | forms |
| --- | --- |
| `X_ids`, N documents of word ids | `(N, W)` or `(N, S, W)` numbers, 0 where there is no word; N rows of any length, or `(N, S)` sentences of any length |
| `Y_ids`, the labels of each document, places in `label_ids` | `(N, P)` numbers, -1 where there is no label; N rows of any length; `(N, L)` zeros and ones |
| `label_ids`, L labels | `(L, T)` word ids, 0 where there is no word; L rows of any length; L texts of word ids joined by "_" |

Each may be one dataset, or be cut into numbered chunks: `X_ids/0`, `X_ids/1`, ... or `0/X_ids`, `1/X_ids`, ... or `X_ids_0`,
`X_ids_1`, ...; chunks follow each other by number.

The word id 0 is padding everywhere. The word vectors are a file of their own, for `load_word_vectors`; whether it has a
row for the padding its number of rows tells.
"""  # noqa: E501 - a row of a table is one line

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any

import numpy as np

from ..extras import needs_extra
from .loading import Piece, load_pieces
from .report import ReadReport
from .safe_pickle import load_pickle

if TYPE_CHECKING:
    from datasets import Dataset, Features, IterableDataset

_SUFFIXES = (".h5", ".hdf5")
_MOST_WORDS = 1 << 31  # ids are kept as int32
_BLOCK = 1 << 24  # bytes read at a time
_BLOCK_ROWS = 4096
_HINT = "; if it only fills up the row, say so with label_padding"

# Part of the cache's key, which cannot see that this code changed: count up when documents change.
_VERSION = 1


@dataclass(frozen=True, eq=False)
class PublishedBioASQ:
    """Documents and labels in numbers.

    Args:
        documents: From each split to a dataset or a stream with the columns `input_ids`, word ids, and `labels`, places
            in `label_words`.
        label_words: The word ids of each label; of a label whose words are all unknown, none.
        seen: The labels that the published models were trained on.
        unseen: The labels that they were not.
    """

    documents: dict[str, Dataset | IterableDataset]
    label_words: list[list[int]]
    seen: list[int]
    unseen: list[int]


def load_published_bioasq(
    folder: str | os.PathLike[str],
    splits: Sequence[str] = ("train", "dev", "test"),
    report: ReadReport | None = None,
    *,
    label_padding: int = -1,
    streaming: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
) -> PublishedBioASQ:
    """Reads documents and labels in the published form, a block of documents at a time.

    Sentences are put one after the other, as the published model reads a document. Documents without words are left
    out. The documents are cached, and read again when their file is changed.

    Args:
        folder: Has a folder for each split, with one `.h5` or `.hdf5` file, and perhaps, in it or in folders inside,
            pickles whose names begin with `seen_ids` and `unseen_ids`.
        splits: Names of folders.
        report: Counts documents and says whether malformed ones raise, as they do without, or are left out.
        label_padding: The number that fills up the rows of `Y_ids`. If a document has another one more than once, that
            is taken for a sign of a wrong padding, and raises.
        streaming: Whether to return streams, which read the files whenever they are iterated over.
        cache_dir: Where to cache; that of `datasets` by default.

    Returns:
        The documents, memory-mapped or as streams, and the labels; without the pickles neither seen nor unseen ones.

    Raises:
        ImportError: If h5py or datasets is not installed.
        FileNotFoundError: If a split has no file.
        ValueError: If a file is not of this form, its `label_ids` are not those of the other splits, or seen and unseen
            labels are not labels or overlap. Unless the report says to skip: if a file is damaged, or a document has
            word ids or labels that cannot be; when it is read, in a stream. The message names file and document,
            counted from 1.
    """
    folder = Path(folder)
    report = ReadReport() if report is None else report
    if not splits:
        raise ValueError("splits must name at least one folder, got none")
    files = {split: _file(folder, split) for split in splits}
    label_words = _label_words(files[splits[0]])
    for path in [*files.values()][1:]:
        if _label_words(path) != label_words:
            raise ValueError(f"{path}: label_ids differ from those of {files[splits[0]]}")
    seen, unseen = (_columns(folder, name, len(label_words)) for name in ("seen_ids", "unseen_ids"))
    if both := set(seen) & set(unseen):
        raise ValueError(f"{folder}: seen_ids and unseen_ids both have label {min(both):,}")
    documents = {
        split: load_pieces(
            partial(_documents, number_of_labels=len(label_words), label_padding=label_padding),
            [Piece(str(path))],
            _features,
            key=["published_bioasq", _VERSION, len(label_words), label_padding],
            report=report,
            streaming=streaming,
            cache_dir=cache_dir,
        )
        for split, path in files.items()
    }
    return PublishedBioASQ(documents, label_words, seen, unseen)


def _features() -> Features:
    from datasets import Features, List, Value

    return Features({"input_ids": List(Value("int32")), "labels": List(Value("int64"))})


def _file(folder: Path, split: str) -> Path:
    inside = sorted((folder / split).iterdir()) if (folder / split).is_dir() else []
    files = [path for path in inside if path.suffix.lower() in _SUFFIXES and path.is_file()]
    if not files:
        found = [path.name for path in (inside or (sorted(folder.iterdir()) if folder.is_dir() else []))]
        raise FileNotFoundError(f"no file {folder / split / 'english.h5'}; found only {shortened(found)}")
    if len(files) > 1:
        raise ValueError(f"{folder / split}: expected one HDF5 file, got {', '.join(path.name for path in files)}")
    return files[0]


@contextmanager
def _open(path: Path | str) -> Iterator[Any]:
    with needs_extra("data", "load_published_bioasq"):
        import h5py
    try:
        with h5py.File(path, "r") as file:
            yield file
    except ValueError:
        raise
    except Exception as error:  # of a broken file, h5py raises nearly anything
        raise ValueError(f"{path}: expected a whole HDF5 file: {error}") from error


def _parts(file: Any, name: str) -> list[Any]:
    """Returns the datasets that a name stands for: one, or its chunks in order."""
    import h5py

    found: dict[str, Any] = {}
    file.visititems(lambda path, node: found.update({path: node} if isinstance(node, h5py.Dataset) else {}))
    chosen = [path for path in found if re.search(rf"(^|/){name}([_-]?[0-9]+)?(/|$)", path)]
    if not chosen:
        held = ", ".join(f"{path} {node.shape} of {node.dtype}" for path, node in [*found.items()][:9]) or "nothing"
        raise ValueError(f"{file.filename}: expected a dataset {name}, or chunks of it; got {held}")
    return [found[path] for path in sorted(chosen, key=lambda path: [*map(int, re.findall("[0-9]+", path))])]


def _kind(parts: list[Any], forms: Sequence[tuple[str, int]]) -> str:
    """Returns whether datasets hold numbers, rows of any length or texts; a form is that and a number of dimensions."""
    import h5py

    kinds = set()
    for part in parts:
        base = h5py.check_vlen_dtype(part.dtype)
        if h5py.check_string_dtype(part.dtype) is not None:
            kind = "texts"
        elif (part.dtype if base is None else base).kind in "iufb":
            kind = "numbers" if base is None else "rows of any length"
        else:
            kind = "something else"
        if (kind, len(part.shape or ())) not in forms:
            raise ValueError(
                f"{part.file.filename}: {part.name} has shape {part.shape} of {part.dtype}; expected "
                + " or ".join(f"{form} in {dimensions} dimensions" for form, dimensions in forms)
            )
        kinds.add(kind)
    if len(kinds) > 1:
        raise ValueError(
            f"{parts[0].file.filename}: chunks like {parts[0].name} hold both {' and '.join(sorted(kinds))}"
        )
    return kind


def _rows(part: Any) -> Iterator[Any]:
    size = part.dtype.itemsize * math.prod(part.shape[1:])
    stored = part.chunks[0] if part.chunks else 1
    step = min(_BLOCK_ROWS, max(1, _BLOCK // max(1, size)))
    step = max(1, step // stored) * stored  # whole chunks as HDF5 has them, for each is unpacked at once
    for start in range(0, len(part), step):
        try:
            block = part[start : start + step]
        except Exception as error:  # of a broken file, h5py raises nearly anything
            raise ValueError(f"{part.name}, rows {start:,} and on: {error}") from error
        yield from block


def _label_words(path: Path) -> list[list[int]]:
    with _open(path) as file:
        parts = _parts(file, "label_ids")
        _kind(parts, [("numbers", 2), ("rows of any length", 1), ("texts", 1)])
        chunks: list[list[list[int]]] = []
        for part in parts:
            labels: list[list[int]] = []
            chunks.append(labels)
            try:
                for label in _rows(part):
                    labels.append(_words(_of_text(label) if isinstance(label, bytes | str) else label))
            except ValueError as error:
                raise ValueError(f"{path}: {part.name}[{len(labels)}]: {error}") from error
    # Chunks of documents may each come with all labels.
    labels = chunks[0] if all(chunk == chunks[0] for chunk in chunks) else [*chain.from_iterable(chunks)]
    if not labels:
        raise ValueError(f"{path}: label_ids is empty")
    return labels


def _of_text(label: bytes | str) -> np.ndarray[Any, Any]:
    text = label.decode("latin-1") if isinstance(label, bytes) else label
    if not re.fullmatch("[0-9]{1,10}(_[0-9]{1,10})*", text):
        raise ValueError(f'expected word ids joined by "_", got {text!r}')
    return np.array(text.split("_"), np.int64)


def _columns(folder: Path, name: str, number_of_labels: int) -> list[int]:
    files = [path for path in sorted([*folder.iterdir(), *folder.glob("*/*")]) if path.name.startswith(name)]
    if not files:
        return []
    if len(files) > 1:
        raise ValueError(f"{folder}: expected one pickle {name}, got {', '.join(map(str, files))}")
    content = load_pickle(files[0])
    if not isinstance(content, list | tuple | set | frozenset | np.ndarray):
        raise ValueError(f"{files[0]}: expected a list of labels, got {shortened(content)}")
    try:
        columns = np.array(sorted(content) if isinstance(content, set | frozenset) else list(content))
        return _labels(columns, number_of_labels)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{files[0]}: expected a list of labels: {error}") from error


def _documents(
    piece: Piece, report: ReadReport, *, number_of_labels: int, label_padding: int
) -> Iterator[dict[str, list[int]]]:
    path = piece.path
    report.files += 1
    with _open(path) as file:
        texts, gold = _parts(file, "X_ids"), _parts(file, "Y_ids")
        _kind(texts, [("numbers", 2), ("numbers", 3), ("rows of any length", 1), ("rows of any length", 2)])
        in_rows = _kind(gold, [("numbers", 2), ("rows of any length", 1)]) == "numbers"
        in_columns = in_rows and all(part.shape[1] == number_of_labels for part in gold)
        sizes = [sum(map(len, parts)) for parts in (texts, gold)]
        if sizes[0] != sizes[1]:
            raise ValueError(f"{path}: {sizes[0]:,} X_ids, but {sizes[1]:,} Y_ids")
        rows = zip(*(chain.from_iterable(map(_rows, parts)) for parts in (texts, gold)), strict=True)
        for number, (text, labels) in enumerate(report.until_damage(rows, path), 1):
            try:
                words = _words(text)
                if in_columns:
                    columns = _of_columns(labels)
                else:
                    columns = _labels(labels[labels != label_padding], number_of_labels, _HINT)
            except ValueError as error:
                report.problem("malformed document", f"{path}: document {number:,}: {error}")
                continue
            if not words:
                report.leave_out("without words", f"{path}: document {number:,}")
                continue
            report.records += 1
            yield {"input_ids": words, "labels": columns}


def _words(ids: np.ndarray[Any, Any]) -> list[int]:
    """Returns the words of a document or a label, in whatever shape they come."""
    if ids.dtype == object:  # sentences of any length
        ids = np.concatenate([np.zeros(0, np.int32), *ids])
    return _whole_numbers(ids[ids != 0], "word ids", _MOST_WORDS)


def _labels(numbers: np.ndarray[Any, Any], number_of_labels: int, hint: str = "") -> list[int]:
    labels = _whole_numbers(numbers, "labels", number_of_labels)
    if len(set(labels)) < len(labels):
        label, times = Counter(labels).most_common(1)[0]
        raise ValueError(f"label {label:,} is there {times} times{hint}")
    return labels


def _of_columns(row: np.ndarray[Any, Any]) -> list[int]:
    good = (row == 0) | (row == 1)
    if not good.all():
        raise ValueError(f"expected a zero or a one for each label, got {row[~good][0]}")
    return np.flatnonzero(row).tolist()


def _whole_numbers(numbers: np.ndarray[Any, Any], what: str, size: int) -> list[int]:
    good = (numbers >= 0) & (numbers < size)
    good[good] = numbers[good] % 1 == 0
    if not good.all():
        raise ValueError(f"{what} must be whole numbers from 0 to {size - 1:,}, got {numbers[~good][0]}")
    return numbers.astype(np.int64).tolist()
