"""Word vectors that were trained elsewhere, from files of any format that has a reader here.

| suffix | what is in it |
| --- | --- |
| `.vec`, `.txt` | text: on each line a word and D numbers, with a space between them. fastText and word2vec begin with a line `V D`, GloVe does not; the content tells |
| `.bin` | binary word2vec: a line `V D`, then V times a word, a space, D numbers as float32 and perhaps a line end |
| `.npz` | two arrays of numpy: `words`, V texts, and `vectors`, `(V, D)` |
| `.pkl` | a pickled pair: a list of V words, and a list or an array of their V vectors of D numbers |

Each may be packed by gzip, and have `.gz` behind its suffix then. fastText's own `.bin` is another format, a whole model;
its vectors are in the `.vec` beside it.

The last is the published format of multilingual hierarchical attention networks (Pappas & Popescu-Belis, IJCNLP 2017),
which GILE uses on Deutsche Welle; it is read without running anything that the pickle names.

From a file to a model, where `V` is `2 +` the number of words:

    words, vectors = load_word_vectors("glove.840B.300d.txt", max_words=400_000).normalized().table()
    tokenizer = build_tokenizer(vocabulary=words)
    model = GileModel(GileConfig(vocab_size=len(words), embedding_size=vectors.shape[1]))
    set_word_vectors(model, vectors)
"""  # noqa: E501 - a row of a table is one line

from __future__ import annotations

import codecs
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from reprlib import repr as shortened
from typing import IO, Any

import numpy as np

from ..tokenizing import PAD, UNK, normalizer_and_splitter
from .files import open_binary, read_npz
from .report import ReadReport
from .safe_pickle import load_pickle

Matrix = np.ndarray[Any, np.dtype[np.float32]]
Block = tuple[Sequence[Any], Matrix, Sequence[int]]  # words, vectors and where in the file they are

_LONGEST_LINE = 1 << 20
_ROWS = 1000  # parsed at a time
_SAMPLE = 100  # lines that tell the size of the vectors
_CHUNK = 1 << 20
_LONGEST_HEADER = 100
_HEADER = re.compile(rb"([0-9]{1,18})\s+([0-9]{1,18})")
_FASTTEXT_MODEL = (793_712_314).to_bytes(4, "little")
_NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Words and their vectors; a word's id is its place.

    Args:
        words: V words, each once.
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
        """Puts the padding word and the unknown word in front, as `build_tokenizer` does.

        Returns:
            `2 + V` words for `build_tokenizer(vocabulary=...)`, and their `(2 + V, D)` vectors for
            `hf_gile.training.set_word_vectors`: zeros for padding, and for the unknown word the mean of all words.

        Raises:
            ValueError: If one of the two is among the words already.
        """
        for name in (PAD, UNK):
            if name in self.words:
                raise ValueError(f"word {self.words.index(name):,} is {name!r}, which the table puts in front itself")
        table = np.empty((2 + len(self.words), self.vectors.shape[1]), np.float32)
        table[0] = 0
        # The mean of all words says nothing in particular, as an unknown word should.
        table[1] = self.vectors.mean(0, dtype=np.float64)
        table[2:] = self.vectors
        return [PAD, UNK, *self.words], table

    def normalized(self, report: ReadReport | None = None) -> WordVectors:
        """Writes the words as the tokenizer writes those of a text, and drops those that it never can.

        The tokenizer lower-cases, replaces numbers that stand alone and cuts at all but letters and digits
        (`normalizer_and_splitter`). So most rows of a large file, such as `The`, `U.S.` or `New York`, are never looked
        up. Of several words that become the same one the first is kept, in most files the most frequent.

        Args:
            report: Counts what is dropped; its number of records stays that of the words read.

        Returns:
            The words that are exactly one word of the tokenizer, in their order.

        Raises:
            ValueError: If there is no such word.
        """
        report = ReadReport() if report is None else report
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
                f"of {len(self.words):,} words, none is one word of the tokenizer: {shortened(self.words)}"
            )
        return WordVectors(list(rows), self.vectors[list(rows.values())])


def load_word_vectors(
    path: str | os.PathLike[str],
    *,
    max_words: int | None = None,
    encoding: str = "utf-8",
    report: ReadReport | None = None,
) -> WordVectors:
    """Reads word vectors; the suffix tells the format.

    Args:
        path: The file.
        max_words: Rows read at most, from the start of the file, where most files have the frequent words. Of text and
            `.bin` files the rest is not even read.
        encoding: Of the words, unless they are text already (`.npz`, most pickles).
        report: Counts words and says whether malformed ones raise, as they do without, or are left out; the rows after
            them move up. Of a word that is there twice the first row stays.

    Returns:
        The words, in the order of the file, and their vectors.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the suffix or the encoding is not known, the file is of another format or has no words, words and
            vectors differ in number, or vectors differ in size. Unless the report says to skip: if the file is damaged,
            a word is empty, of another encoding or there twice, a vector is not of finite numbers, or the first line
            promises another number of words. The message names the line of a text file, counted from 1, or else the
            word, counted from 0.
    """
    path = Path(path)
    report = ReadReport() if report is None else report
    reader = next((reader for suffix, reader in READERS.items() if path.name.lower().endswith(suffix)), None)
    if reader is None:
        raise ValueError(f"{path}: word vectors are read from {', '.join(READERS)}")
    if max_words is not None and not (isinstance(max_words, int) and max_words > 0):
        raise ValueError(f"max_words must be a positive number or None, got {max_words!r}")
    source = _Source(path, max_words, _codec(encoding), report, "line" if reader is _read_text else "word")
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    report.files += 1
    table = _Table(source)
    for block in reader(source):
        table.add(*block)
    if not table.places:
        raise ValueError(f"{path}: no words")
    report.records += len(table.places)
    return table.word_vectors()


@dataclass(frozen=True)
class _Source:
    path: Path
    max_words: int | None
    encoding: str
    report: ReadReport
    unit: str  # in which messages count


@dataclass
class _Table:
    """The words and vectors read so far."""

    source: _Source
    places: dict[str, int] = field(default_factory=dict)
    vectors: Matrix = field(default_factory=lambda: np.empty((0, 0), np.float32))

    def add(self, words: Sequence[Any], vectors: Matrix, places: Sequence[int]) -> None:
        """Takes over the rows that are well-formed and new, and treats the others as problems."""
        before = len(self.places)
        infinite = set(np.flatnonzero(~np.isfinite(vectors).all(1)).tolist())
        rows = []
        for row, (word, place) in enumerate(zip(words, places, strict=True)):
            if row in infinite:
                self._refuse(
                    "malformed word", f"vector {place:,} must be finite, got {shortened(vectors[row].tolist())}"
                )
            elif self._add(word, place):
                rows.append(row)
        kept = vectors if len(rows) == len(vectors) else vectors[rows]
        if before == 0:
            self.vectors = kept
            return
        if len(self.places) > len(self.vectors):
            if not self.vectors.flags.owndata:
                self.vectors = self.vectors.copy()
            # In place, where np.concatenate would hold all twice.
            self.vectors.resize((len(self.places) * 9 // 8, vectors.shape[1]), refcheck=False)
        self.vectors[before : len(self.places)] = kept

    def _add(self, word: object, place: int) -> bool:
        where = f"{self.source.unit} {place:,}"
        codec = self.source.encoding
        try:
            word = word.decode(codec) if isinstance(word, bytes) else word
        except UnicodeDecodeError:
            return self._refuse(
                "malformed word", f"{where} is not {codec.upper()}, pass another encoding: {shortened(word)}"
            )
        if not isinstance(word, str):
            return self._refuse("malformed word", f"{where} must be a text, got {shortened(word)}")
        if not word or "\0" in word:
            return self._refuse("malformed word", f"{where} must not be empty or hold a NUL, got {shortened(word)}")
        first = self.places.setdefault(str(word), place)  # a text of an array is of numpy's own kind
        if first != place:
            return self._refuse(
                "repeated word",
                f"{shortened(word)} is {self.source.unit} {first:,} and {where}; each must be there once",
            )
        return True

    def _refuse(self, reason: str, message: str) -> bool:
        self.source.report.problem(reason, f"{self.source.path}: {message}")
        return False

    def word_vectors(self) -> WordVectors:
        """Gives the table away."""
        if len(self.vectors) > len(self.places):
            self.vectors.resize((len(self.places), self.vectors.shape[1]), refcheck=False)
        return WordVectors(list(self.places), self.vectors)


def _read_text(source: _Source) -> Iterator[Block]:
    with open_binary(source.path) as stream:
        lines = _lines(stream, source)
        first = list(islice(lines, 1 + _SAMPLE))
        if not first:
            raise ValueError(f"{source.path}: no words")
        size, promised = _size_and_number(first, source)
        rows = islice(chain(first if promised is None else first[1:], lines), source.max_words)
        number = 0
        while block := list(islice(rows, _ROWS)):
            number += len(block)
            yield _parsed(block, size, source)
        if promised is not None and number != min(promised, source.max_words or promised):
            more = "at least " if number == source.max_words else ""
            source.report.problem(
                "wrong header", f"{source.path}: line 1 promises {promised:,} words, the file has {more}{number:,}"
            )


def _lines(stream: IO[bytes], source: _Source) -> Iterator[tuple[int, bytes]]:
    """Yields the lines that are not empty, by number and without white space at their end."""

    def lines() -> Iterator[bytes]:
        while line := stream.readline(_LONGEST_LINE):
            if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
                raise ValueError(f"a line of more than {_LONGEST_LINE:,} bytes")
            yield line.rstrip()

    for number, line in enumerate(source.report.until_damage(lines(), source.path), 1):
        if number == 1 and source.encoding == "utf-8":
            line = line.removeprefix(codecs.BOM_UTF8)
        if b"\0" in line:
            source.report.problem(
                "malformed line",
                f"{source.path}: line {number:,} holds a NUL byte; a binary word2vec file should be named .bin, "
                "and UTF-16 is not read",
            )
        elif line:
            yield number, line


def _size_and_number(first: list[tuple[int, bytes]], source: _Source) -> tuple[int, int | None]:
    """Returns the size of the vectors, and the number of words if the first line is one that promises both."""
    header = _HEADER.fullmatch(first[0][1])
    if not header:
        return _size(first, source), None
    promised, promised_size = map(int, header.groups())
    size = _size(first[1:], source) if first[1:] else promised_size
    if size == 1 and promised_size != 1:  # a word that is a number, and its vector of one number
        return size, None
    if size != promised_size:
        source.report.problem(
            "wrong header",
            f"{source.path}: line 1 promises vectors of {promised_size:,} numbers, the lines after it have {size:,}",
        )
    return size, promised


def _size(lines: list[tuple[int, bytes]], source: _Source) -> int:
    """Returns how many numbers most lines end with: a word may have spaces (". . ."), or be a number itself."""
    sizes = Counter[int]()
    for _, line in lines:
        parts = line.split()[1:]
        others = (place for place, part in enumerate(reversed(parts)) if not _NUMBER.fullmatch(part))
        sizes[next(others, len(parts))] += 1
    size = max(sizes, key=lambda size: (sizes[size], -size))
    if size == 0:
        raise ValueError(f"{source.path}: expected a word and its numbers on each line, got {lines[0][1][:80]!r}")
    return size


def _parsed(lines: list[tuple[int, bytes]], size: int, source: _Source) -> Block:
    rows: list[tuple[bytes, bytes, int]] = []
    for place, line in lines:
        word, _, numbers = line.partition(b" ")
        try:
            if word.split() != [word] or numbers.count(b" ") != size - 1:
                word, numbers = _apart(line, size)
        except ValueError as error:
            source.report.problem("malformed line", f"{source.path}: line {place:,}: {error}")
        else:
            rows.append((word, numbers, place))
    vectors = _matrix([numbers for _, numbers, _ in rows], size)
    if vectors is None:  # line by line, to see which
        good = []
        for row in rows:
            try:
                good.append((row, _vector(row[1], size)))
            except ValueError as error:
                source.report.problem("malformed line", f"{source.path}: line {row[2]:,}: {error}")
        rows = [row for row, _ in good]
        vectors = np.array([vector for _, vector in good], np.float32).reshape(-1, size)
    return [word for word, _, _ in rows], vectors, [place for _, _, place in rows]


def _apart(line: bytes, size: int) -> tuple[bytes, bytes]:
    """Takes a line of any white space apart, whose word may have spaces; the numbers come with one space between."""
    word, *numbers = line.rsplit(None, size)
    parts = word.split()
    if line[:1].isspace():
        raise ValueError(f"no word before the numbers: {line[:80]!r}")
    if len(numbers) < size or (len(parts) > 1 and _NUMBER.fullmatch(parts[-1])):
        raise ValueError(f"expected a word and {size:,} numbers, got {len(line.split()) - 1:,}: {line[:80]!r}")
    return word, b" ".join(numbers)


def _matrix(texts: list[bytes], size: int) -> Matrix | None:
    """Returns the numbers of good lines; None if there is any other among them."""
    if not texts:
        return None
    try:
        # Faster than np.array(line.split(), np.float32) and than np.fromstring, and stricter.
        matrix = np.loadtxt(texts, np.float32, comments=None, delimiter=" ", ndmin=2)
    except ValueError:
        return None
    return matrix if matrix.shape == (len(texts), size) and np.isfinite(matrix).all() else None


def _vector(text: bytes, size: int) -> Matrix:
    numbers = text.split()
    if len(numbers) != size:
        raise ValueError(f"expected {size:,} numbers, got {len(numbers):,}: {text[:80]!r}")
    vector = _float32([float(number) if _NUMBER.fullmatch(number) else np.nan for number in numbers])
    finite = np.isfinite(vector)
    if not finite.all():
        place = int(finite.argmin())
        raise ValueError(f"number {place + 1:,} of {size:,} must be finite, got {numbers[place][:80]!r}")
    return vector


def _float32(numbers: object) -> Matrix:
    with np.errstate(over="ignore"):  # what is too large for float32 is not finite then
        return np.asarray(numbers).astype(np.float32, copy=False)


def _read_binary(source: _Source) -> Iterator[Block]:
    path, report = source.path, source.report
    with open_binary(path) as stream:
        start = next(report.until_damage(iter(lambda: stream.readline(_LONGEST_HEADER), None), path), b"")
        if start.startswith(_FASTTEXT_MODEL):
            raise ValueError(
                f"{path}: a model of fastText, not binary word2vec; read its word vectors from the .vec file"
            )
        header = _HEADER.fullmatch(start.rstrip())
        if not header or not 0 < int(header[2]) <= _CHUNK // 4:
            raise ValueError(f"{path}: expected a first line such as b'3000000 300' (words, numbers), got {start!r}")
        rows = report.until_damage(_binary_rows(stream, int(header[1]), 4 * int(header[2]), source.max_words), path)
        number = 0
        while block := list(islice(rows, _ROWS if number else 1)):
            if number == 0 and not block[0][1].strip(b"0123456789+-.eE \r\n"):
                raise ValueError(f"{path}: text, not binary word2vec; name it .vec or .txt")
            vectors = np.frombuffer(b"".join(vector for _, vector in block), "<f4").reshape(len(block), -1)
            yield [word for word, _ in block], vectors.astype(np.float32), range(number, number + len(block))
            number += len(block)


def _binary_rows(stream: IO[bytes], promised: int, width: int, max_words: int | None) -> Iterator[tuple[bytes, bytes]]:
    data, at = b"", 0
    for number in range(promised if max_words is None else min(promised, max_words)):
        while (end := data.find(b" ", at)) < 0 or len(data) <= end + width:
            if end < 0 and len(data) - at > _CHUNK:
                raise ValueError(f"word {number:,} has no end")
            more = stream.read(_CHUNK)
            if not more:
                raise ValueError(f"line 1 promises {promised:,} words, the file ends within word {number:,}")
            data, at = data[at:] + more, 0
        # word2vec itself ends a vector with a line end, others do not.
        yield data[at:end].lstrip(b"\n"), data[end + 1 : end + 1 + width]
        at = end + 1 + width
    if (max_words is None or max_words > promised) and (data[at:] + stream.read(1)).strip():
        raise ValueError(f"line 1 promises {promised:,} words, the file goes on behind them")


def _read_pickle(source: _Source) -> Iterator[Block]:
    pair = load_pickle(source.path)
    kinds = (list, tuple, np.ndarray)
    if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(isinstance(part, kinds) for part in pair):
        raise ValueError(f"{source.path}: expected a pair (words, vectors), got {type(pair).__name__}")
    yield _checked(pair[0], pair[1], source)


def _read_npz(source: _Source) -> Iterator[Block]:
    names = ("words", "vectors")
    words, vectors = read_npz(source.path, names, "an .npz file with the arrays words and vectors")
    yield _checked(words, vectors, source)


def _checked(words: Any, vectors: Any, source: _Source) -> Block:
    path = source.path
    words, vectors = (np.atleast_1d(part) if isinstance(part, np.ndarray) else part for part in (words, vectors))
    if len(words) != len(vectors):
        raise ValueError(f"{path}: {len(words):,} words, but {len(vectors):,} vectors")
    if len(words) == 0:
        raise ValueError(f"{path}: no words")
    words, vectors = words[: source.max_words], vectors[: source.max_words]
    for row, vector in enumerate(vectors if isinstance(vectors, list | tuple) else ()):
        if not _is_of_numbers(vector):  # of texts, numpy would make a table as wide as the longest of them
            raise ValueError(f"{path}: vectors must be rows of numbers, got {shortened(vector)} as vector {row:,}")
        if np.size(vector) != np.size(vectors[0]):
            raise ValueError(
                f"{path}: vector {row:,} has {np.size(vector)} numbers, those before it have {np.size(vectors[0])}"
            )
    matrix = np.asarray(vectors)  # plain, whatever subclass of an array it was
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiu":
        raise ValueError(f"{path}: vectors must be rows of numbers, got shape {matrix.shape} of {matrix.dtype}")
    return words, _float32(matrix), range(len(words))


def _is_of_numbers(vector: object) -> bool:
    if isinstance(vector, np.ndarray):
        return vector.dtype.kind in "fiu"
    kinds = set(map(type, vector)) if isinstance(vector, list | tuple) else {str}
    return all(issubclass(kind, int | float | np.number) for kind in kinds)


READERS: dict[str, Callable[[_Source], Iterator[Block]]] = {
    suffix + packed: reader
    for suffix, reader in {
        ".pkl": _read_pickle,
        ".npz": _read_npz,
        ".vec": _read_text,
        ".txt": _read_text,
        ".bin": _read_binary,
    }.items()
    for packed in ("", ".gz")
}
"""From the suffix of a file to the function that reads its words and vectors."""


def _codec(encoding: str) -> str:
    try:
        name = codecs.lookup(encoding).name.removesuffix("-sig")
        if " 1\n".encode(name) == b" 1\n":  # lines are split as bytes
            return name
    except (LookupError, TypeError):
        pass
    raise ValueError(f"encoding must be one that has ASCII in it, such as 'utf-8' or 'latin-1', got {encoding!r}")
