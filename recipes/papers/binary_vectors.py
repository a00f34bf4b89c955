"""Reader of binary word2vec: a line `V D`, then V times a word, a space, D float32 numbers and optionally a newline."""

import os
import re
from collections.abc import Iterator
from typing import IO

import numpy as np

from hf_gile.data.files import open_binary
from hf_gile.data.word_vectors import WordVectors, check_word_vectors

_HEADER = re.compile(rb"([0-9]{1,18})\s+([0-9]{1,18})")
_FASTTEXT_MODEL = (793_712_314).to_bytes(4, "little")
_CHUNK = 1 << 20


def load_binary_vectors(path: str | os.PathLike[str], max_words: int | None = None) -> WordVectors:
    """Reads a `.bin` file, compressed or not.

    Args:
        path: The file.
        max_words: Maximum number of words, from the start of the file; the rest is not read.

    Raises:
        ValueError: If it is not such a file, or ends too early; also as in `load_word_vectors`.
    """
    try:
        return _load(path, max_words)
    except EOFError as error:
        raise ValueError(f"{path}: damaged compressed file: {error}") from error


def _load(path: str | os.PathLike[str], max_words: int | None) -> WordVectors:
    with open_binary(path) as stream:
        start = stream.readline(100)
        if start.startswith(_FASTTEXT_MODEL):
            raise ValueError(f"{path}: a fastText model, not binary word2vec; use its .vec file")
        header = _HEADER.fullmatch(start.rstrip())
        if not header or not 0 < int(header[2]) <= _CHUNK // 4:
            raise ValueError(f"{path}: expected a first line such as b'3000000 300' (words, numbers), got {start!r}")
        declared, size = map(int, header.groups())
        try:
            rows = list(_read_rows(stream, min(declared, max_words or declared), 4 * size))
        except ValueError as error:
            raise ValueError(f"{path}: line 1 declares {declared:,} words, but {error}") from None
    vectors = np.frombuffer(b"".join(vector for _, vector in rows), "<f4").reshape(-1, size)
    return check_word_vectors([word for word, _ in rows], vectors.astype(np.float32), path)


def _read_rows(stream: IO[bytes], count: int, width: int) -> Iterator[tuple[bytes, bytes]]:
    data = b""
    position = 0
    for number in range(count):
        while (end := data.find(b" ", position)) < 0 or len(data) <= end + width:
            if end < 0 and len(data) - position > _CHUNK:
                raise ValueError(f"word {number:,} has no end")
            more = stream.read(_CHUNK)
            if not more:
                raise ValueError(f"the file ends within word {number:,}")
            data = data[position:] + more
            position = 0
        # word2vec ends each vector with a newline, unlike other programs.
        yield data[position:end].lstrip(b"\n"), data[end + 1 : end + 1 + width]
        position = end + 1 + width
