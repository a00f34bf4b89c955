import gzip
import pickle

import numpy as np
import pytest

from hf_gile.data import load_word_vectors

WORDS = ["the", "žižek", "كلمة"]
VECTORS = np.array([[0.5, -1.0], [0.0, 2.0], [3.0, 0.25]], np.float32)


@pytest.fixture
def write(tmp_path):
    """Writes a pickled pair, or the arrays of an .npz file."""

    def write_file(words=WORDS, vectors=VECTORS, name="english.pkl.gz"):
        path = tmp_path / name
        if name.endswith(".npz"):
            np.savez(path, words=words, vectors=vectors)
        else:
            data = pickle.dumps((words, vectors), 2)
            path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write_file


@pytest.mark.parametrize(
    ("words", "vectors", "name"),
    [
        (WORDS, list(VECTORS), "english.pkl.gz"),
        (WORDS, VECTORS.tolist(), "english.PKL"),
        (tuple(WORDS), VECTORS.astype(np.float64), "english.pkl"),
        (np.array(WORDS), VECTORS, "english.pkl.gz"),
        (np.array(WORDS, object), VECTORS, "english.pkl.gz"),
        ([word.encode() for word in WORDS], VECTORS, "python2.pkl.gz"),
        (np.array(WORDS), VECTORS, "english.npz"),
    ],
    ids=["a list of arrays", "lists", "float64", "an array of words", "objects", "bytes", "npz"],
)
def test_words_and_vectors_are_read(write, words, vectors, name):
    got = load_word_vectors(write(words, vectors, name))
    assert got.words == WORDS
    assert {type(word) for word in got.words} == {str}
    assert type(got.vectors) is np.ndarray
    assert got.vectors.dtype == np.float32
    assert np.array_equal(got.vectors, VECTORS)


@pytest.mark.parametrize(
    ("words", "vectors", "message"),
    [
        (WORDS[:2], VECTORS, "2 words, but 3 vectors"),
        (WORDS, [[1.0, 2.0], [3.0, 4.0], [5.0]], "vector 2 has 1 numbers, those before it have 2"),
        (WORDS, [[1.0, 2.0], [3.0, float("nan")], [5.0, 6.0]], "vector 1 must be finite"),
        (WORDS, [[1.0, 2.0], [3.0, 1e300], [5.0, 6.0]], "vector 1 must be finite"),
        (WORDS, [["1", "2"]] * 3, "rows of numbers"),
        (WORDS, [1.0, 2.0, 3.0], "rows of numbers"),
        (WORDS, np.zeros((3, 2, 2)), "rows of numbers"),
        (["the", "a", "the"], VECTORS, "'the' is word 0 and word 2"),
        (["the", "a", 5], VECTORS, "word 2 must be a text, got 5"),
        (["the", "a", b"\xff"], VECTORS, "word 2 is not UTF-8"),
        ([], [], "no words"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_does_not_fit_is_refused_by_place(write, words, vectors, message):
    with pytest.raises(ValueError, match=rf"english\.pkl\.gz: .*{message}"):
        load_word_vectors(write(words, vectors))


def test_a_pickle_of_something_else_is_refused(tmp_path):
    for content in ({"words": WORDS}, (WORDS,), (WORDS, 3), 7):
        path = tmp_path / "english.pkl"
        path.write_bytes(pickle.dumps(content))
        with pytest.raises(ValueError, match=r"english\.pkl: expected a pair \(words, vectors\)"):
            load_word_vectors(path)


def test_npz_files_of_something_else_are_refused(write, tmp_path):
    path = tmp_path / "english.npz"
    message = r"english\.npz: expected an \.npz file with the arrays words and vectors"
    with pytest.raises(ValueError, match=message):  # numpy would unpickle them
        load_word_vectors(write(np.array(WORDS, object), VECTORS, "english.npz"))
    np.savez(path, words=WORDS)
    with pytest.raises(ValueError, match=message):
        load_word_vectors(path)
    path.write_bytes(b"the 0.5 -1.0")
    with pytest.raises(ValueError, match=message):
        load_word_vectors(path)


def test_unknown_suffixes_are_refused_by_those_known(tmp_path):
    with pytest.raises(ValueError, match=r"english\.vec: word vectors are read from \.pkl, \.pkl\.gz, \.npz"):
        load_word_vectors(tmp_path / "english.vec")
    with pytest.raises(FileNotFoundError):
        load_word_vectors(tmp_path / "english.pkl")


def test_published_word_vectors_of_a_language(shared_data):
    got = load_word_vectors(shared_data / "dw_format" / "word_vectors" / "arabic.pkl.gz")
    assert got.vectors.shape == (20_882, 50)
    assert "العلوم" in got.words
