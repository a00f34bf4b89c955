"""Word vectors that were trained elsewhere, from files of any format that has a reader here.

| suffix | what is in it |
| --- | --- |
| `.pkl`, `.pkl.gz` | a pickled pair: a list of V words, and a list or an array of their V vectors of D numbers |
| `.npz` | two arrays of numpy: `words`, V texts, and `vectors`, `(V, D)` |

The first is the published format of multilingual hierarchical attention networks (Pappas & Popescu-Belis, IJCNLP 2017),
which GILE uses on Deutsche Welle; it is read without running anything that the pickle names.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .safe_pickle import load_pickle


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Words and their vectors; a word's id is its place.

    Args:
        words: V words, each once.
        vectors: `(V, D)` float32, all finite.
    """

    words: list[str]
    vectors: np.ndarray[Any, np.dtype[np.float32]]


def load_word_vectors(path: str | os.PathLike[str]) -> WordVectors:
    """Reads word vectors; the suffix tells the format.

    Args:
        path: The file.

    Returns:
        The words, in the order of the file, and their vectors.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the suffix is not known, the file is damaged or of another format, words and vectors differ in
            number, vectors differ in size or are not finite numbers, or a word is there twice.
    """
    path = Path(path)
    reader = next((reader for suffix, reader in READERS.items() if path.name.lower().endswith(suffix)), None)
    if reader is None:
        raise ValueError(f"{path}: word vectors are read from {', '.join(READERS)}")
    words, vectors = reader(path)
    return WordVectors(_checked_words(words, path), _checked_vectors(vectors, len(words), path))


def _read_pickle(path: Path) -> tuple[Any, Any]:
    pair = load_pickle(path)
    if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(hasattr(part, "__len__") for part in pair):
        raise ValueError(f"{path}: expected a pair (words, vectors), got {type(pair).__name__}")
    return pair[0], pair[1]


def _read_npz(path: Path) -> tuple[Any, Any]:
    try:
        with zipfile.ZipFile(path):  # of any other file, np.load would say that it is a forbidden pickle
            pass
        with np.load(path, allow_pickle=False) as arrays:
            return np.atleast_1d(arrays["words"]), np.atleast_1d(arrays["vectors"])
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path}: expected an .npz file with the arrays words and vectors: {error}") from error


READERS: dict[str, Callable[[Path], tuple[Any, Any]]] = {
    ".pkl": _read_pickle,
    ".pkl.gz": _read_pickle,
    ".npz": _read_npz,
}
"""From the suffix of a file to the function that reads its words and vectors."""


def _checked_words(words: Any, path: Path) -> list[str]:
    rows: dict[str, int] = {}
    for row, word in enumerate(words):
        try:
            word = word.decode() if isinstance(word, bytes) else word  # a str of Python 2
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: word {row:,} is not UTF-8: {word!r}") from error
        if not isinstance(word, str):
            raise ValueError(f"{path}: word {row:,} must be a text, got {word!r}")
        word = str(word)  # a text of an array is of numpy's own kind
        if rows.setdefault(word, row) != row:
            raise ValueError(f"{path}: {word!r} is word {rows[word]:,} and word {row:,}; each must be there once")
    if not rows:
        raise ValueError(f"{path}: no words")
    return list(rows)


def _checked_vectors(vectors: Any, number: int, path: Path) -> np.ndarray[Any, np.dtype[np.float32]]:
    if len(vectors) != number:
        raise ValueError(f"{path}: {number:,} words, but {len(vectors):,} vectors")
    for row, vector in enumerate(vectors):
        if np.size(vector) != np.size(vectors[0]):
            raise ValueError(
                f"{path}: vector {row:,} has {np.size(vector)} numbers, those before it have {np.size(vectors[0])}"
            )
    matrix = np.array(vectors)
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiu":
        raise ValueError(f"{path}: vectors must be rows of numbers, got shape {matrix.shape} of {matrix.dtype}")
    with np.errstate(over="ignore"):  # what is too large for float32 is not finite then
        matrix = matrix.astype(np.float32, copy=False)
    finite = np.isfinite(matrix).all(1)
    if not finite.all():
        row = int(finite.argmin())
        raise ValueError(f"{path}: vector {row:,} must be finite, got {matrix[row]}")
    return matrix
