"""Readers of pretrained word vectors in several formats.

| suffix | content |
| --- | --- |
| `.vec`, `.txt` | text: a word and D numbers per line, separated by spaces. fastText and word2vec start with a line `V D`, GloVe does not; this is detected |
| `.bin` | binary word2vec: a line `V D`, then V times a word, a space, D float32 numbers and optionally a newline |
| `.npz` | two arrays of numpy: `words`, V texts, and `vectors`, `(V, D)` |

Each may be compressed with gzip, with the additional suffix `.gz`. The `.bin` files of fastText are another format, for
whole models; their vectors are also available as `.vec`.

To use a file in a model, where `V` is `2 +` the number of words:

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from reprlib import repr as shortened
from typing import IO, Any

import numpy as np

from ..tokenizing import PAD, UNK, normalizer_and_splitter
from .files import open_binary, read_npz
from .report import ReadReport

Matrix = np.ndarray[Any, np.dtype[np.float32]]
Block = tuple[Sequence[Any], Matrix, Sequence[int]]  # words, vectors and their positions in the file

_MAX_LINE = 1 << 20
_ROWS = 1000  # parsed at a time
_SAMPLE = 100  # lines used to detect the vector size
_CHUNK = 1 << 20
_MAX_HEADER = 100
_HEADER = re.compile(rb"([0-9]{1,18})\s+([0-9]{1,18})")
_FASTTEXT_MODEL = (793_712_314).to_bytes(4, "little")
_NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


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

    def normalized(self, report: ReadReport | None = None) -> WordVectors:
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
        max_words: Maximum number of rows, from the start of the file, where most files have frequent words. Text and
            `.bin` files are not read any further.
        encoding: Encoding of the words, unless they are stored as text (`.npz`).
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
    report = ReadReport() if report is None else report
    reader = next((reader for suffix, reader in READERS.items() if path.name.lower().endswith(suffix)), None)
    if reader is None:
        raise ValueError(f"{path}: word vectors must be in a {', '.join(READERS)} file")
    if max_words is not None and not (isinstance(max_words, int) and max_words > 0):
        raise ValueError(f"max_words must be a positive number or None, got {max_words!r}")
    source = _Source(path, max_words, _resolve_codec(encoding), report, "line" if reader is _read_text else "word")
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    report.files += 1
    return _collect(source, reader(source))


def check_word_vectors(words: Sequence[Any], vectors: Matrix, path: str | os.PathLike[str]) -> WordVectors:
    """Checks words and vectors that come from a file in another format.

    Args:
        words: V distinct words, as text or as bytes in UTF-8.
        vectors: `(V, D)` numbers.
        path: The file, which errors name.

    Raises:
        ValueError: As in `load_word_vectors`.

    Example:
        >>> check_word_vectors(["the", "iron"], np.eye(2, 3), "english.h5").words
        ['the', 'iron']
    """
    source = _Source(Path(path), None, "utf-8", ReadReport(), "word")
    return _collect(source, [_check_arrays(words, vectors, source)])


def _collect(source: _Source, blocks: Iterable[Block]) -> WordVectors:
    table = _Table(source)
    for block in blocks:
        table.add(*block)
    if not table.positions:
        raise ValueError(f"{source.path}: no words")
    source.report.records += len(table.positions)
    return table.word_vectors()


@dataclass(frozen=True)
class _Source:
    path: Path
    max_words: int | None
    encoding: str
    report: ReadReport
    unit: str  # unit of positions in messages


@dataclass
class _Table:
    """The words and vectors read so far."""

    source: _Source
    positions: dict[str, int] = field(default_factory=dict)
    vectors: Matrix = field(default_factory=lambda: np.empty((0, 0), np.float32))

    def add(self, words: Sequence[Any], vectors: Matrix, positions: Sequence[int]) -> None:
        """Adds new well-formed rows, and reports other rows as problems."""
        before = len(self.positions)
        infinite = set(np.flatnonzero(~np.isfinite(vectors).all(1)).tolist())
        rows = []
        for row, (word, position) in enumerate(zip(words, positions, strict=True)):
            if row in infinite:
                self._refuse(
                    "malformed word", f"vector {position:,} must be finite, got {shortened(vectors[row].tolist())}"
                )
            elif self._add(word, position):
                rows.append(row)
        accepted = vectors if len(rows) == len(vectors) else vectors[rows]
        if before == 0:
            self.vectors = accepted
            return
        if len(self.positions) > len(self.vectors):
            if not self.vectors.flags.owndata:
                self.vectors = self.vectors.copy()
            # In place, since np.concatenate would double the memory.
            self.vectors.resize((len(self.positions) * 9 // 8, vectors.shape[1]), refcheck=False)
        self.vectors[before : len(self.positions)] = accepted

    def _add(self, word: object, position: int) -> bool:
        where = f"{self.source.unit} {position:,}"
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
            return self._refuse("malformed word", f"{where} must not be empty or contain a NUL, got {shortened(word)}")
        word = str(word)  # which numpy texts are not
        first = self.positions.setdefault(word, position)
        if first != position:
            return self._refuse(
                "repeated word",
                f"{shortened(word)} is {self.source.unit} {first:,} and {where}; words must be unique",
            )
        return True

    def _refuse(self, reason: str, message: str) -> bool:
        self.source.report.problem(reason, f"{self.source.path}: {message}")
        return False

    def word_vectors(self) -> WordVectors:
        """Returns the result and releases the table."""
        if len(self.vectors) > len(self.positions):
            self.vectors.resize((len(self.positions), self.vectors.shape[1]), refcheck=False)
        return WordVectors(list(self.positions), self.vectors)


def _read_text(source: _Source) -> Iterator[Block]:
    with open_binary(source.path) as stream:
        lines = _iterate_lines(stream, source)
        first = list(islice(lines, 1 + _SAMPLE))
        if not first:
            raise ValueError(f"{source.path}: no words")
        size, declared = _detect_header(first, source)
        rows = islice(chain(first if declared is None else first[1:], lines), source.max_words)
        number = 0
        while block := list(islice(rows, _ROWS)):
            number += len(block)
            yield _parse_lines(block, size, source)
        if declared is not None and number != min(declared, source.max_words or declared):
            more = "at least " if number == source.max_words else ""
            source.report.problem(
                "wrong header", f"{source.path}: line 1 declares {declared:,} words, but the file has {more}{number:,}"
            )


def _iterate_lines(stream: IO[bytes], source: _Source) -> Iterator[tuple[int, bytes]]:
    """Yields non-empty lines with their numbers, without trailing white space."""

    def lines() -> Iterator[bytes]:
        while line := stream.readline(_MAX_LINE):
            if len(line) == _MAX_LINE and not line.endswith(b"\n"):
                raise ValueError(f"a line of more than {_MAX_LINE:,} bytes")
            yield line.rstrip()

    for number, line in enumerate(source.report.until_damage(lines(), source.path), 1):
        if number == 1 and source.encoding == "utf-8":
            line = line.removeprefix(codecs.BOM_UTF8)
        if b"\0" in line:
            source.report.problem(
                "malformed line",
                f"{source.path}: line {number:,} contains a NUL byte; a binary word2vec file must be named .bin, "
                "and UTF-16 is not supported",
            )
        elif line:
            yield number, line


def _detect_header(first: list[tuple[int, bytes]], source: _Source) -> tuple[int, int | None]:
    """Detects the vector size, and the number of words if the first line is a header."""
    header = _HEADER.fullmatch(first[0][1])
    if not header:
        return _detect_size(first, source), None
    declared, declared_size = map(int, header.groups())
    size = _detect_size(first[1:], source) if first[1:] else declared_size
    if size == 1 and declared_size != 1:  # a word that is a number, with a vector of size 1
        return size, None
    if size != declared_size:
        source.report.problem(
            "wrong header",
            f"{source.path}: line 1 declares vectors of {declared_size:,} numbers, but other lines have {size:,}",
        )
    return size, declared


def _detect_size(lines: list[tuple[int, bytes]], source: _Source) -> int:
    """Detects the vector size: the most frequent count of trailing numbers, as words may contain spaces or numbers."""
    sizes = Counter[int]()
    for _, line in lines:
        parts = line.split()[1:]
        word_positions = (position for position, part in enumerate(reversed(parts)) if not _NUMBER.fullmatch(part))
        sizes[next(word_positions, len(parts))] += 1
    size = max(sizes, key=lambda size: (sizes[size], -size))
    if size == 0:
        raise ValueError(f"{source.path}: expected a word and its numbers on each line, got {lines[0][1][:80]!r}")
    return size


def _parse_lines(lines: list[tuple[int, bytes]], size: int, source: _Source) -> Block:
    rows: list[tuple[bytes, bytes, int]] = []
    for position, line in lines:
        word, _, numbers = line.partition(b" ")
        try:
            if word.split() != [word] or numbers.count(b" ") != size - 1:
                word, numbers = _split_line(line, size)
        except ValueError as error:
            source.report.problem("malformed line", f"{source.path}: line {position:,}: {error}")
        else:
            rows.append((word, numbers, position))
    vectors = _parse_matrix([numbers for _, numbers, _ in rows], size)
    if vectors is None:  # line by line, to find malformed lines
        valid = []
        for row in rows:
            try:
                valid.append((row, _parse_vector(row[1], size)))
            except ValueError as error:
                source.report.problem("malformed line", f"{source.path}: line {row[2]:,}: {error}")
        rows = [row for row, _ in valid]
        vectors = np.array([vector for _, vector in valid], np.float32).reshape(-1, size)
    return [word for word, _, _ in rows], vectors, [position for _, _, position in rows]


def _split_line(line: bytes, size: int) -> tuple[bytes, bytes]:
    """Splits a line into a word, which may have spaces, and numbers separated by single spaces."""
    word, *numbers = line.rsplit(None, size)
    parts = word.split()
    if line[:1].isspace():
        raise ValueError(f"no word before the numbers: {line[:80]!r}")
    if len(numbers) < size or (len(parts) > 1 and _NUMBER.fullmatch(parts[-1])):
        raise ValueError(f"expected a word and {size:,} numbers, got {len(line.split()) - 1:,}: {line[:80]!r}")
    return word, b" ".join(numbers)


def _parse_matrix(texts: list[bytes], size: int) -> Matrix | None:
    """Parses the numbers of lines; returns None if a line is malformed."""
    if not texts:
        return None
    try:
        # Faster and stricter than np.array(line.split(), np.float32) and np.fromstring.
        matrix = np.loadtxt(texts, np.float32, comments=None, delimiter=" ", ndmin=2)
    except ValueError:
        return None
    return matrix if matrix.shape == (len(texts), size) and np.isfinite(matrix).all() else None


def _parse_vector(text: bytes, size: int) -> Matrix:
    numbers = text.split()
    if len(numbers) != size:
        raise ValueError(f"expected {size:,} numbers, got {len(numbers):,}: {text[:80]!r}")
    vector = _to_float32([float(number) if _NUMBER.fullmatch(number) else np.nan for number in numbers])
    finite = np.isfinite(vector)
    if not finite.all():
        position = int(finite.argmin())
        raise ValueError(f"number {position + 1:,} of {size:,} must be finite, got {numbers[position][:80]!r}")
    return vector


def _to_float32(numbers: object) -> Matrix:
    with np.errstate(over="ignore"):  # numbers too large for float32 become infinite
        return np.asarray(numbers).astype(np.float32, copy=False)


def _read_binary(source: _Source) -> Iterator[Block]:
    path, report = source.path, source.report
    with open_binary(path) as stream:
        start = next(report.until_damage(iter(lambda: stream.readline(_MAX_HEADER), None), path), b"")
        if start.startswith(_FASTTEXT_MODEL):
            raise ValueError(f"{path}: a fastText model, not binary word2vec; read its word vectors from the .vec file")
        header = _HEADER.fullmatch(start.rstrip())
        if not header or not 0 < int(header[2]) <= _CHUNK // 4:
            raise ValueError(f"{path}: expected a first line such as b'3000000 300' (words, numbers), got {start!r}")
        rows = report.until_damage(_iterate_binary(stream, int(header[1]), 4 * int(header[2]), source.max_words), path)
        number = 0
        while block := list(islice(rows, _ROWS if number else 1)):
            if number == 0 and not block[0][1].strip(b"0123456789+-.eE \r\n"):
                raise ValueError(f"{path}: text, not binary word2vec; rename it to .vec or .txt")
            vectors = np.frombuffer(b"".join(vector for _, vector in block), "<f4").reshape(len(block), -1)
            yield [word for word, _ in block], vectors.astype(np.float32), range(number, number + len(block))
            number += len(block)


def _iterate_binary(
    stream: IO[bytes], declared: int, width: int, max_words: int | None
) -> Iterator[tuple[bytes, bytes]]:
    data, position = b"", 0
    for number in range(declared if max_words is None else min(declared, max_words)):
        while (end := data.find(b" ", position)) < 0 or len(data) <= end + width:
            if end < 0 and len(data) - position > _CHUNK:
                raise ValueError(f"word {number:,} has no end")
            more = stream.read(_CHUNK)
            if not more:
                raise ValueError(f"line 1 declares {declared:,} words, but the file ends within word {number:,}")
            data, position = data[position:] + more, 0
        # word2vec ends each vector with a newline, unlike other programs.
        yield data[position:end].lstrip(b"\n"), data[end + 1 : end + 1 + width]
        position = end + 1 + width
    if (max_words is None or max_words > declared) and (data[position:] + stream.read(1)).strip():
        raise ValueError(f"line 1 declares {declared:,} words, but the file has more")


def _read_npz(source: _Source) -> Iterator[Block]:
    names = ("words", "vectors")
    words, vectors = read_npz(source.path, names, "an .npz file with the arrays words and vectors")
    yield _check_arrays(words, vectors, source)


def _check_arrays(words: Any, vectors: Any, source: _Source) -> Block:
    path = source.path
    words, vectors = (np.atleast_1d(part) if isinstance(part, np.ndarray) else part for part in (words, vectors))
    if len(words) != len(vectors):
        raise ValueError(f"{path}: {len(words):,} words, but {len(vectors):,} vectors")
    if len(words) == 0:
        raise ValueError(f"{path}: no words")
    words, vectors = words[: source.max_words], vectors[: source.max_words]
    matrix = np.asarray(vectors)  # converts subclasses to plain arrays
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiu":
        raise ValueError(f"{path}: vectors must be rows of numbers, got shape {matrix.shape} of {matrix.dtype}")
    return words, _to_float32(matrix), range(len(words))


READERS: dict[str, Callable[[_Source], Iterator[Block]]] = {
    suffix + ending: reader
    for suffix, reader in {
        ".npz": _read_npz,
        ".vec": _read_text,
        ".txt": _read_text,
        ".bin": _read_binary,
    }.items()
    for ending in ("", ".gz")
}
"""Reader functions by file suffix."""


def _resolve_codec(encoding: str) -> str:
    try:
        name = codecs.lookup(encoding).name.removesuffix("-sig")
        if " 1\n".encode(name) == b" 1\n":  # lines are split as bytes
            return name
    except (LookupError, TypeError):
        pass
    raise ValueError(f"encoding must be a superset of ASCII, such as 'utf-8' or 'latin-1', got {encoding!r}")
