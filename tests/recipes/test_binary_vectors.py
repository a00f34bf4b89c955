"""Binary word2vec: read, refused and converted."""

import gzip

import numpy as np
import pytest
from papers.binary_vectors import load_binary_vectors
from small_vectors import VECTORS, WORDS, check_read

from hf_gile.data import load_word_vectors

BINARY = b"".join(word.encode() + b" " + vector.tobytes() for word, vector in zip(WORDS, VECTORS, strict=True))
WORD2VEC = b"3 2\n" + b"\n".join([BINARY[:12], BINARY[12:28], BINARY[28:], b""])


@pytest.fixture
def load(tmp_path):
    def load_bytes(data, **options):
        path = tmp_path / "english.bin"
        path.write_bytes(data)
        return load_binary_vectors(path, **options)

    return load_bytes


@pytest.mark.parametrize("data", [b"3 2\n" + BINARY, WORD2VEC, gzip.compress(WORD2VEC)])
def test_words_and_vectors_are_read(load, data):
    check_read(load(data))
    assert load(data, max_words=2).words == WORDS[:2]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"the 0.5 -1.0\n", "expected a first line .* got b'the 0.5 -1.0"),
        (b"3 2\n" + BINARY[:-1], "line 1 declares 3 words, but the file ends within word 2"),
        (b"999999999999 2\n" + BINARY, "line 1 declares 999,999,999,999 words, but the file ends within word 3"),
        (b"2 2\na " + bytes(8) + b"a " + bytes(8), "'a' is word 0 and word 1"),
        (b"1 2\na " + bytes(4) + np.float32(np.nan).tobytes(), "vector 0 must be finite"),
        (b"\xba\x16\x4f\x2f" + bytes(30), r"a fastText model, .* use its \.vec file"),
    ],
    ids=range(6),
)
def test_files_of_another_format_are_refused(load, data, message):
    with pytest.raises(ValueError, match=rf"english\.bin: .*{message}"):
        load(data)


def test_the_recipe_converts_what_the_package_refuses(tmp_path, run_recipe):
    (tmp_path / "english.bin").write_bytes(WORD2VEC)
    with pytest.raises(ValueError, match=r"english\.bin is binary: convert it to \.npz with recipes/convert_vectors"):
        load_word_vectors(tmp_path / "english.bin")
    done = run_recipe("convert_vectors", [tmp_path / "english.bin", "english.npz", "--max_words", 2])
    assert "2 words, 2 numbers each: english.npz" in done.stdout
    assert load_word_vectors(tmp_path / "english.npz").words == WORDS[:2]
