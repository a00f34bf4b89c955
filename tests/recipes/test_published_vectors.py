"""Published word vectors, pickled or binary: read, refused, converted, and preferred by the news recipe."""

import gzip
import pickle

import numpy as np
import pytest
from papers.binary_vectors import load_binary_vectors
from papers.pickled_vectors import load_pickled_vectors, read_language
from small_vectors import MISMATCHES, VECTORS, WORDS, check_read

from hf_gile.data import load_word_vectors

BINARY = b"".join(word.encode() + b" " + vector.tobytes() for word, vector in zip(WORDS, VECTORS, strict=True))
WORD2VEC = b"3 2\n" + b"\n".join([BINARY[:12], BINARY[12:28], BINARY[28:], b""])


@pytest.fixture
def pickled(write):
    """Writes a pickled pair."""

    def write_pair(words=WORDS, vectors=VECTORS, name="english.pkl.gz"):
        return write(name, pickle.dumps((words, vectors), 2))

    return write_pair


PAIRS = {
    "a list of arrays": (WORDS, list(VECTORS), "english.pkl.gz"),
    "lists": (WORDS, VECTORS.tolist(), "english.PKL"),
    "an array of words": (np.array(WORDS), VECTORS, "english.pkl.gz"),
    "bytes": ([word.encode() for word in WORDS], VECTORS, "python2.pkl.gz"),
}


@pytest.mark.parametrize(("words", "vectors", "name"), PAIRS.values(), ids=PAIRS)
def test_words_and_vectors_are_read(pickled, words, vectors, name):
    check_read(load_pickled_vectors(pickled(words, vectors, name)))


@pytest.mark.parametrize(
    ("words", "vectors", "message"),
    [
        *MISMATCHES,
        (WORDS, [[1.0, 2.0], [3.0, 4.0], [5.0]], "vector 2 has 1 numbers, previous vectors have 2"),
        (["the", "a", b"\xff"], VECTORS, "word 2 is not UTF-8"),
    ],
)
def test_mismatched_words_and_vectors_are_refused_by_position(pickled, words, vectors, message):
    with pytest.raises(ValueError, match=rf"english\.pkl\.gz: .*{message}"):
        load_pickled_vectors(pickled(words, vectors))


def test_what_the_package_does_not_read_is_converted(write, pickled, tmp_path, run_recipe):
    pickled()
    with pytest.raises(ValueError, match=r"english\.bin is binary: convert it to \.npz with recipes/convert_vectors"):
        load_word_vectors(write("english.bin", WORD2VEC))
    for flags, words in (("english.pkl.gz english.npz", WORDS), ("english.bin english.npz --max_words 2", WORDS[:2])):
        done = run_recipe("convert_vectors", flags)
        assert done.stdout == f"{len(words)} words, 2 numbers each: english.npz\n"
        got = load_word_vectors(tmp_path / "english.npz")
        assert got.words == words
        assert np.array_equal(got.vectors, VECTORS[: len(words)])


def test_word_vectors_of_a_language_are_a_pickle_or_another_format(pickled, tmp_path):
    pickled(name="english.pkl")
    np.savez(tmp_path / "english.npz", words=["other"], vectors=VECTORS[:1])
    np.savez(tmp_path / "german.npz", words=["wort"], vectors=VECTORS[:1])
    assert read_language(tmp_path, "english").words == WORDS
    assert read_language(tmp_path, "german").words == ["wort"]
    with pytest.raises(FileNotFoundError, match="no word vectors for 'french': expected one of "):
        read_language(tmp_path, "french")


@pytest.mark.parametrize("data", [b"3 2\n" + BINARY, WORD2VEC, gzip.compress(WORD2VEC)])
def test_binary_words_and_vectors_are_read(write, data):
    path = write("english.bin", data)
    check_read(load_binary_vectors(path))
    assert load_binary_vectors(path, max_words=2).words == WORDS[:2]


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
def test_files_that_are_not_binary_word2vec_are_refused(write, data, message):
    with pytest.raises(ValueError, match=rf"english\.bin: .*{message}"):
        load_binary_vectors(write("english.bin", data))
