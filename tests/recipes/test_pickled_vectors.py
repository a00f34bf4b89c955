"""Published word vectors, pickled: read, refused, converted, and preferred by the news recipe."""

import gzip
import pickle

import numpy as np
import pytest
from papers.pickled_vectors import load_pickled_vectors, read_language
from small_vectors import MISMATCHES, VECTORS, WORDS, check_read

from hf_gile.data import load_word_vectors


@pytest.fixture
def write(tmp_path):
    """Writes a pickled pair."""

    def write_file(words=WORDS, vectors=VECTORS, name="english.pkl.gz"):
        path = tmp_path / name
        data = pickle.dumps((words, vectors), 2)
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write_file


@pytest.mark.parametrize(
    ("words", "vectors", "name"),
    [
        (WORDS, list(VECTORS), "english.pkl.gz"),
        (WORDS, VECTORS.tolist(), "english.PKL"),
        (np.array(WORDS), VECTORS, "english.pkl.gz"),
        ([word.encode() for word in WORDS], VECTORS, "python2.pkl.gz"),
    ],
    ids=["a list of arrays", "lists", "an array of words", "bytes"],
)
def test_words_and_vectors_are_read(write, words, vectors, name):
    got = load_pickled_vectors(write(words, vectors, name))
    check_read(got)


@pytest.mark.parametrize(
    ("words", "vectors", "message"),
    [
        *MISMATCHES,
        (WORDS, [[1.0, 2.0], [3.0, 4.0], [5.0]], "vector 2 has 1 numbers, previous vectors have 2"),
        (["the", "a", b"\xff"], VECTORS, "word 2 is not UTF-8"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_mismatched_words_and_vectors_are_refused_by_position(write, words, vectors, message):
    with pytest.raises(ValueError, match=rf"english\.pkl\.gz: .*{message}"):
        load_pickled_vectors(write(words, vectors))


def test_a_pickle_is_converted_for_other_readers(write, run_recipe):
    done = run_recipe("convert_vectors", [write(), "english.npz"])
    assert done.stdout == "3 words, 2 numbers each: english.npz\n", done.stderr
    got = load_word_vectors(write().with_name("english.npz"))
    assert got.words == WORDS
    assert np.array_equal(got.vectors, VECTORS)


def test_word_vectors_of_a_language_are_a_pickle_or_another_format(write, tmp_path):
    write(name="english.pkl")
    np.savez(tmp_path / "english.npz", words=["other"], vectors=VECTORS[:1])
    np.savez(tmp_path / "german.npz", words=["wort"], vectors=VECTORS[:1])
    assert read_language(tmp_path, "english").words == WORDS
    assert read_language(tmp_path, "german").words == ["wort"]
    with pytest.raises(FileNotFoundError, match="no word vectors for 'french': expected one of "):
        read_language(tmp_path, "french")
