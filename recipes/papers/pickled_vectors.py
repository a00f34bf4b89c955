"""Reader of the published word vectors of Deutsche Welle.

A file is a pickled pair: a list of V words, and a list or an array of their V vectors of D numbers; gzipped as
`.pkl.gz`. Multilingual hierarchical attention networks (Pappas & Popescu-Belis, IJCNLP 2017) publish it for each
language. It is read without executing code of the pickle.
"""

import os
from pathlib import Path
from reprlib import repr as shortened
from typing import Any

import numpy as np

from hf_gile.data.word_vectors import WordVectors, check_word_vectors, load_word_vectors
from papers.deutsche_welle import read_word_vectors
from papers.safe_pickle import load_pickle


def load_pickled_vectors(path: str | os.PathLike[str]) -> WordVectors:
    """Reads pickled word vectors.

    Args:
        path: The file.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If it is not such a pickle, or as in `load_word_vectors`.
    """
    pair = load_pickle(path)
    kinds = (list, tuple, np.ndarray)
    if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(isinstance(part, kinds) for part in pair):
        raise ValueError(f"{path}: expected a pair (words, vectors), got {type(pair).__name__}")
    words, vectors = pair
    if not isinstance(vectors, np.ndarray):
        _check_rows(vectors, path)
    return check_word_vectors(words, np.asarray(vectors), path)


def load_vectors(path: str | os.PathLike[str]) -> WordVectors:
    """Reads word vectors, pickled or in a format of `load_word_vectors`.

    Args:
        path: The file.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If it is malformed.
    """
    is_pickle = Path(path).name.lower().endswith((".pkl", ".pkl.gz"))
    return load_pickled_vectors(path) if is_pickle else load_word_vectors(path)


def read_language(folder: Path, language: str) -> WordVectors:
    """Reads the word vectors of a language: pickled, or else in a format of `load_word_vectors`.

    Args:
        folder: Folder with a file named for the language.
        language: The language.

    Raises:
        FileNotFoundError: If the folder has no such file.
    """
    for suffix in (".pkl.gz", ".pkl"):
        path = folder / f"{language}{suffix}"
        if path.is_file():
            return load_pickled_vectors(path)
    return read_word_vectors(folder, language)


def _check_rows(vectors: Any, path: str | os.PathLike[str]) -> None:
    for row, vector in enumerate(vectors):
        if not _has_numbers(vector):  # for texts, numpy would allocate a table as wide as the longest
            raise ValueError(f"{path}: vectors must be rows of numbers, got {shortened(vector)} as vector {row:,}")
        if np.size(vector) != np.size(vectors[0]):
            raise ValueError(
                f"{path}: vector {row:,} has {np.size(vector)} numbers, previous vectors have {np.size(vectors[0])}"
            )


def _has_numbers(vector: object) -> bool:
    if isinstance(vector, np.ndarray):
        return vector.dtype.kind in "fiu"
    kinds = set(map(type, vector)) if isinstance(vector, list | tuple) else {str}
    return all(issubclass(kind, int | float | np.number) for kind in kinds)
