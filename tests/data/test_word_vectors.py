import gzip

import numpy as np
import pytest
from small_vectors import MISMATCHES, VECTORS, WORDS, check_read

from hf_gile import build_tokenizer
from hf_gile.data import WordVectors, load_word_vectors


@pytest.fixture
def save(tmp_path):
    """Writes an .npz file with arrays."""

    def save_arrays(vectors=VECTORS, words=WORDS):
        np.savez(tmp_path / "english.npz", words=words, vectors=vectors)
        return tmp_path / "english.npz"

    return save_arrays


EMPTY = [(["the", "a", ""], VECTORS, "word 2 must not be empty"), (np.zeros(0, str), np.zeros((0, 2)), "no words")]


@pytest.mark.parametrize(("words", "vectors", "message"), [*MISMATCHES, *EMPTY])
def test_mismatched_words_and_vectors_are_refused_by_position(save, words, vectors, message):
    with pytest.raises(ValueError, match=rf"english\.npz: .*{message}"):
        load_word_vectors(save(vectors, words))


def test_npz_files_without_words_and_vectors_are_refused(save, load):
    message = r"english\.npz: expected an \.npz file with the arrays words and vectors"
    with pytest.raises(ValueError, match=message):  # which numpy would unpickle
        load_word_vectors(save(VECTORS, np.array(WORDS, object)))
    with pytest.raises(ValueError, match=message):
        load(b"the 0.5 -1.0", "english.npz")


def test_unknown_suffixes_are_refused_with_the_known_suffixes(tmp_path):
    with pytest.raises(ValueError, match=r"english\.model: word vectors must be in a \.npz, \.npz\.gz, \.vec"):
        load_word_vectors(tmp_path / "english.model")
    with pytest.raises(FileNotFoundError, match=r"no file .*english\.vec"):
        load_word_vectors(tmp_path / "english.vec")


TEXT = "the 0.5 -1.0\nžižek 0 +2.\nكلمة 3 2.5E-1\n".encode()


@pytest.fixture
def load(write):
    """Loads a file with these bytes."""
    return lambda data, name="english.vec", **options: load_word_vectors(write(name, data), **options)


TEXTS = {
    "english.txt": TEXT,
    "word2vec.txt": b"3 2\n" + TEXT.replace(b"\n", b" \n"),
    "windows.vec": b"\xef\xbb\xbf3 2\r\n" + TEXT.replace(b"\n", b"\r\n"),
    "tabs.txt": TEXT.replace(b" ", b"\t"),
    "uneven.txt": b"\n" + TEXT.replace(b" ", b"  ").rstrip(),
    "packed.VEC.GZ": gzip.compress(b"3 2\n" + TEXT),
    "plain.txt.gz": TEXT,
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts_are_read(load, name, report):
    check_read(load(TEXTS[name], name, report=report))
    assert (report.files, report.records, report.left_out) == (1, 3, {})
    first = load(TEXTS[name], name, max_words=2)
    assert first.words == WORDS[:2]
    assert np.array_equal(first.vectors, VECTORS[:2])


def test_packed_arrays_are_read_up_to_max_words(save, load):
    packed = gzip.compress(save(VECTORS.astype(np.float64)).read_bytes())
    check_read(load(packed, "english.npz.gz"))
    assert load(packed, "english.npz.gz", max_words=2).words == WORDS[:2]
    with pytest.raises(ValueError, match="max_words must be a positive number or None, got 0"):
        load(packed, "english.npz.gz", max_words=0)


def test_words_are_read_unchanged(load):
    words = ['"', "#", "//", "nan", "null", "1984", "-", "3.5", "\xa0", "\u3000", "a\x85b", "\ufeff", ","]
    text = "".join(f"{word} 0.5 {row}\n" for row, word in enumerate(words))
    for first in ("the 1 2\n", f"{len(words)} 2\n"):
        got = load((first + text).encode())
        assert got.words[-len(words) :] == words
        assert got.vectors[-len(words) :, 1].tolist() == [*range(len(words))]
    assert load("à 1\nü 2\n".encode("cp1252"), encoding="windows-1252").words == ["à", "ü"]


SPACES = "the 1 2 3\n. . . 4 5 6\nat name@domain.com 7 8 9\n"  # as in GloVe 840B


@pytest.mark.parametrize(
    ("text", "words", "size"),
    [
        ("2 3\na 1 2 3\nb 4 5 6", ["a", "b"], 3),
        ("7 3\nthe 4\nof 5", ["7", "the", "of"], 1),
        ("1984 3 5\nthe 4 6\nof 5 7", ["1984", "the", "of"], 2),
        ("17 1 2\n4 3 4", ["17", "4"], 2),
        (SPACES, ["the", ". . .", "at name@domain.com"], 3),
        (f"3 3\n{SPACES}", ["the", ". . .", "at name@domain.com"], 3),
    ],
)
def test_a_first_line_of_two_numbers_may_be_a_header_and_words_may_have_spaces(load, text, words, size):
    got = load(text.encode(), "glove.txt")
    assert (got.words, got.vectors.shape) == (words, (len(words), size))
    assert got.vectors[-1, -1] == float(text.split()[-1])


GOOD = "a 1 2 3\nb 1 2 3\n"


@pytest.mark.parametrize(
    ("line", "reason", "message"),
    [
        ("c 1 2", "malformed line", "line 3: expected a word and 3 finite numbers, got 'c 1 2'"),
        ("c 1 1,5 3", "malformed line", "line 3: expected a word and 3 finite numbers"),
        ("c 1 2 1e39", "malformed line", "line 3: expected a word and 3 finite numbers"),
        ("c \t \t \t", "malformed line", "line 3: expected a word and 3 finite numbers"),
        (" 1 2 3", "malformed word", "line 3 must not be empty"),
        ("\udcfc 1 2 3", "malformed line", "line 3: byte 1 of the line is not utf-8"),
        ("a 1 2 4", "repeated word", "'a' is line 1 and line 3; words must be unique"),
    ],
)
def test_bad_lines_are_refused_by_number_or_skipped(load, line, reason, message, lenient):
    text = f"{GOOD}{line}\nd 4 5 6\n".encode(errors="surrogateescape")
    with pytest.raises(ValueError, match=rf"english\.vec: {message}"):
        load(text)
    got = load(text, report=lenient)
    assert got.words == ["a", "b", "d"]
    assert got.vectors.tolist() == [[1, 2, 3], [1, 2, 3], [4, 5, 6]]
    assert (lenient.records, lenient.left_out) == (3, {reason: 1})


@pytest.mark.parametrize("declared", [1, 3])
def test_headers_must_match_the_content(load, declared, lenient):
    text = f"{declared} 3\n{GOOD}".encode()
    with pytest.raises(ValueError, match=rf"english\.vec: line 1 declares {declared} words, but the file has 2"):
        load(text)
    assert load(text, report=lenient).words == ["a", "b"]
    assert lenient.left_out == {"wrong header": 1}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no words"),
        (b"0 3\n", "no words"),
        (b"some words\nand more words\n", "line 1: expected a word and 1 finite numbers, got 'some words'"),
        (GOOD.encode("utf-16"), "line 1: byte 1 of the line is not utf-8"),
        (gzip.compress(GOOD.encode())[:-9], "damaged after 2 records"),
    ],
)
def test_text_files_of_another_format_are_refused(load, data, message):
    with pytest.raises(ValueError, match=rf"english\.vec: {message}"):
        load(data)


def test_skip_mode_skips_invalid_rows_of_arrays(save, lenient):
    words = [b"the", b"\xff", b"the", b"", b"nan", b"a"]
    vectors = [[1, 2], [3, 4], [5, 6], [7, 8], [9, np.nan], [11, 12]]
    got = load_word_vectors(save(vectors, words), report=lenient)
    assert got.words == ["the", "a"]
    assert got.vectors.tolist() == [[1, 2], [11, 12]]
    assert lenient.left_out == {"malformed word": 3, "repeated word": 1}


def test_unknown_encodings_are_refused(load):
    with pytest.raises(ValueError, match="encoding must be known to Python"):
        load(TEXT, encoding="rot13")
    check_read(load(TEXT.decode().encode("utf-16"), encoding="utf-16"))


def test_a_table_starts_with_padding_and_the_unknown_word():
    words, vectors = WordVectors(WORDS, VECTORS).table()
    assert words == ["[PAD]", "[UNK]", *WORDS]
    assert vectors.dtype == np.float32
    assert np.array_equal(vectors[0], [0, 0])
    assert np.allclose(vectors[1], VECTORS.mean(0))
    assert np.array_equal(vectors[2:], VECTORS)
    with pytest.raises(ValueError, match=r"word 1 is '\[UNK\]', which is reserved"):
        WordVectors(["a", "[UNK]"], VECTORS[:2]).table()


def test_normalized_words_equal_those_of_the_tokenizer(report):
    words = ["the", "The", "1984", "3.5", "U.S.", "New York", "</s>", "s", "#", "\xa0", "ﬁsh", "FISH", "Straße"]
    vectors = np.arange(2 * len(words), dtype=np.float32).reshape(-1, 2)
    got = WordVectors(words, vectors).normalized(report)
    assert got.words == ["the", "NUM", "s", "fish", "straße"]
    assert np.array_equal(got.vectors, vectors[[0, 2, 7, 10, 12]])
    assert report.left_out == {"same word in normal form": 3, "not one word": 5}
    assert report.examples["same word in normal form"][0] == "word 1: 'The', as word 0"
    tokenizer = build_tokenizer(vocabulary=got.words)
    assert [*map(tokenizer.tokenize, ("THE", "77", "Fish", "STRAßE"))] == [["the"], ["NUM"], ["fish"], ["straße"]]
    with pytest.raises(ValueError, match=r"none of 2 words is a single word of the tokenizer: \['\.', '\?'\]"):
        WordVectors([".", "?"], vectors[:2]).normalized()
