"""Readers of pretrained word vectors in several formats.

| suffix | content |
| --- | --- |
| `.vec`, `.txt` | text: a word and D numbers per line, separated by spaces. fastText and word2vec start with a line `V D`, GloVe does not; this is detected |
| `.npz` | two arrays of numpy: `words`, V texts, and `vectors`, `(V, D)` |

Each may be compressed with gzip, with the additional suffix `.gz`.
"""  # noqa: E501 - a row of a table is one line

import os
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from reprlib import repr as shortened
from typing import Any

import numpy as np

from ..tokenizing import PAD, UNK, normalizer_and_splitter
from .encodings import resolve_encoding
from .files import data_suffix, open_binary, read_npz
from .report import ReadReport
from .schema import clean_text
from .table_files import stream_lines

READERS = (".npz", ".npz.gz", ".vec", ".vec.gz", ".txt", ".txt.gz")
"""Suffixes of files with word vectors."""

Matrix = np.ndarray[Any, np.dtype[np.float32]]

_SAMPLE = 100  # lines used to detect the vector size
_HEADER = re.compile("([0-9]{1,18}) ([0-9]{1,18})")
_ENDS_IN_NUMBER = re.compile(r".+ [+-]?[0-9]*((?<=[0-9])|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SPACES = re.compile("[ \t]+")


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Words and their vectors; the id of a word is its position.

    Args:
        words: V distinct words.
        vectors: `(V, D)` float32, all finite.

    Example:
        >>> glove = WordVectors(["the", "The", "e.g.", "12"], np.eye(4, 2, dtype=np.float32))
        >>> words, vectors = glove.normalized().table()
        >>> words
        ['[PAD]', '[UNK]', 'the', 'NUM']
        >>> vectors
        array([[0. , 0. ],
               [0.5, 0. ],
               [1. , 0. ],
               [0. , 0. ]], dtype=float32)
    """

    words: list[str]
    vectors: Matrix

    def table(self) -> tuple[list[str], Matrix]:
        """Adds the padding word and the unknown word in front, as `build_tokenizer` does.

        Returns:
            `2 + V` words for `build_tokenizer(vocabulary=...)`, and their `(2 + V, D)` vectors for
            `hf_gile.training.set_word_vectors`: zeros for padding, and for the unknown word the mean of all words.

        Raises:
            ValueError: If the vocabulary already contains the padding or the unknown word.
        """
        for name in (PAD, UNK):
            if name in self.words:
                raise ValueError(f"word {self.words.index(name):,} is {name!r}, which is reserved: remove it")
        table = np.empty((2 + len(self.words), self.vectors.shape[1]), np.float32)
        table[0] = 0
        # The mean of all words is neutral, as an unknown word should be.
        table[1] = self.vectors.mean(0, dtype=np.float64)
        table[2:] = self.vectors
        return [PAD, UNK, *self.words], table

    def normalized(self, report: ReadReport | None = None) -> "WordVectors":
        """Normalizes the words like the tokenizer, and drops words that it never produces.

        The tokenizer lower-cases, replaces standalone numbers and splits at all characters but letters and digits
        (`normalizer_and_splitter`), so it never looks up most rows of a large file, such as `The`, `U.S.` or `New
        York`. Of several words with the same normal form, the first is used, which is the most frequent in most files.

        Args:
            report: Counts dropped words; its number of records does not change.

        Returns:
            The words that correspond to exactly one word of the tokenizer, in order.

        Raises:
            ValueError: If no word is left.
        """
        report = report or ReadReport()
        normalizer, splitter = normalizer_and_splitter()
        rows: dict[str, int] = {}
        for row, word in enumerate(self.words):
            text = normalizer.normalize_str(word)
            if [piece for piece, _ in splitter.pre_tokenize_str(text)] != [text]:
                report.leave_out("not one word", f"word {row:,}: {word!r}")
            elif rows.setdefault(text, row) != row:
                report.leave_out("same word in normal form", f"word {row:,}: {word!r}, as word {rows[text]:,}")
        if not rows:
            raise ValueError(
                f"none of {len(self.words):,} words is a single word of the tokenizer: {shortened(self.words)}"
            )
        return WordVectors(list(rows), self.vectors[list(rows.values())])


def load_word_vectors(
    path: str | os.PathLike[str],
    *,
    max_words: int | None = None,
    encoding: str = "utf-8",
    report: ReadReport | None = None,
) -> WordVectors:
    """Reads word vectors; the suffix determines the format.

    Args:
        path: The file.
        max_words: Maximum number of rows, from the start of the file, where most files have frequent words. The rest of
            a text file is not read.
        encoding: Encoding of the words in a text file.
        report: Counts words and decides whether malformed words raise (the default) or are skipped. Of repeated words,
            the first row is used.

    Returns:
        The words in file order, and their vectors.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the suffix or the encoding is unknown, the file is of another format or has no words, the numbers
            of words and vectors differ, or vectors differ in size; also, unless the report says to skip, if the file is
            damaged, a word is empty, repeated or in another encoding, a vector contains NaN or infinity, or the header
            has a wrong number of words. The message gives the line in a text file, from 1, or else the word, from 0.
    """
    path = Path(path)
    report = report or ReadReport()
    if path.name.lower().endswith((".bin", ".bin.gz")):
        raise ValueError(f"{path} is binary: convert it to .npz with recipes/convert_vectors.py")
    if not path.name.lower().endswith(READERS):
        raise ValueError(f"{path}: word vectors must be in a {', '.join(READERS)} file")
    if max_words is not None and not (isinstance(max_words, int) and max_words > 0):
        raise ValueError(f"max_words must be a positive number or None, got {max_words!r}")
    encoding = resolve_encoding(encoding)
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    report.files += 1
    if data_suffix(path) == ".npz":
        words, vectors = read_npz(path, ("words", "vectors"), "an .npz file with the arrays words and vectors")
        return check_word_vectors(words, vectors, path, max_words=max_words, report=report)
    return _select(*_read_text(path, encoding, max_words, report), "line", path, report)


def check_word_vectors(
    words: Sequence[Any] | np.ndarray[Any, Any],
    vectors: Sequence[Any] | np.ndarray[Any, Any],
    path: str | os.PathLike[str],
    *,
    max_words: int | None = None,
    report: ReadReport | None = None,
) -> WordVectors:
    """Checks V words (as text or as bytes in UTF-8) and `(V, D)` vectors from a file in any format.

    `max_words`, `report` and errors are as in `load_word_vectors`.

    Example:
        >>> check_word_vectors(["the", "iron"], np.eye(2, 3), "english.h5").words
        ['the', 'iron']
    """
    words = np.atleast_1d(words) if isinstance(words, np.ndarray) else words
    vectors = np.atleast_1d(vectors) if isinstance(vectors, np.ndarray) else vectors
    if len(words) != len(vectors):
        raise ValueError(f"{path}: {len(words):,} words, but {len(vectors):,} vectors")
    if len(words) == 0:
        raise ValueError(f"{path}: no words")
    matrix = np.asarray(vectors[:max_words])  # converts subclasses to plain arrays
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiu":
        raise ValueError(f"{path}: vectors must be rows of numbers, got shape {matrix.shape} of {matrix.dtype}")
    with np.errstate(over="ignore"):  # numbers too large for float32 become infinite
        matrix = matrix.astype(np.float32, copy=False)
    return _select(words[:max_words], matrix, range(len(matrix)), "word", path, report or ReadReport())


def _select(
    words: Sequence[Any] | np.ndarray[Any, Any],
    vectors: Matrix,
    positions: Sequence[int],
    unit: str,
    path: str | os.PathLike[str],
    report: ReadReport,
) -> WordVectors:
    """Selects the well-formed rows; `unit` is what their positions in the file count."""
    first: dict[str, int] = {}
    rows = []
    for row, (word, position) in enumerate(zip(words, positions, strict=True)):
        try:
            text = str(clean_text(word, f"{unit} {position:,}"))  # which numpy texts are not
            if not text:
                raise ValueError(f"{unit} {position:,} must not be empty")
            if not np.isfinite(vectors[row]).all():
                raise ValueError(f"vector {position:,} must be finite, got {shortened(vectors[row].tolist())}")
        except ValueError as error:
            report.problem("malformed word", f"{path}: {error}")
            continue
        if first.setdefault(text, position) == position:
            rows.append(row)
        else:
            where = f"{unit} {first[text]:,} and {unit} {position:,}"
            report.problem("repeated word", f"{path}: {shortened(text)} is {where}; words must be unique")
    if not rows:
        raise ValueError(f"{path}: no words")
    report.records += len(rows)
    return WordVectors([*first], vectors if len(rows) == len(vectors) else vectors[rows])


def _read_text(
    path: Path, encoding: str, max_words: int | None, report: ReadReport
) -> tuple[list[str], Matrix, list[int]]:
    """Returns words, vectors and their lines."""
    words: list[str] = []
    lines: list[int] = []
    numbers = array("f")  # grows without a copy
    with open_binary(path) as stream:
        rows = _read_lines(report.until_damage(stream_lines(stream, encoding), path), path, report)
        sample = list(islice(rows, 1 + _SAMPLE))
        header = _HEADER.fullmatch(sample[0][1]) if sample else None
        counts = Counter(line.count(" ") for _, line in sample[1 if header else 0 :])
        size = min(counts, key=lambda count: (-counts[count], count), default=0)  # a few words have spaces
        declared = None
        if header and (not counts or int(header[2]) == size):  # else a word that is a number
            declared = int(header[1])
            sample = sample[1:]
        number = 0
        for line, text in islice(chain(sample, rows), max_words):
            number += 1
            try:
                word, vector = _parse_line(text, size)
            except ValueError:
                message = f"line {line:,}: expected a word and {size:,} finite numbers, got {text[:80]!r}"
                report.problem("malformed line", f"{path}: {message}")
                continue
            words.append(word)
            lines.append(line)
            numbers.frombytes(vector.data.cast("B"))
    if declared is not None and number != min(declared, max_words or declared):
        more = "at least " if number == max_words else ""
        report.problem("wrong header", f"{path}: line 1 declares {declared:,} words, but the file has {more}{number:,}")
    return words, np.frombuffer(numbers, np.float32).reshape(len(words), size), lines


def _read_lines(
    lines: Iterable[tuple[int, str | ValueError]], path: Path, report: ReadReport
) -> Iterator[tuple[int, str]]:
    """Yields lines that are not empty, with their numbers and with single spaces."""
    for number, line in lines:
        if isinstance(line, ValueError):
            report.problem("malformed line", f"{path}: line {number:,}: {line}")
        elif text := _SPACES.sub(" ", line.rstrip(" \t\r\n")):
            yield number, text


def _parse_line(line: str, size: int) -> tuple[str, Matrix]:
    """Returns the word and the vector of a line; raises a ValueError if it is malformed."""
    word, *numbers = line.rsplit(" ", size)  # a word may have spaces
    if not size or len(numbers) < size or _ENDS_IN_NUMBER.fullmatch(word):
        raise ValueError
    with np.errstate(over="ignore"):  # numbers too large for float32 become infinite
        vector = np.array(numbers, np.float32)
    if not np.isfinite(vector).all():
        raise ValueError
    return word, vector
