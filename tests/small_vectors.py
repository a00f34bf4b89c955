"""Words and vectors for the tests of readers of word vectors, and what all of these readers refuse."""

import numpy as np

WORDS = ["the", "žižek", "كلمة"]
VECTORS = np.array([[0.5, -1.0], [0.0, 2.0], [3.0, 0.25]], np.float32)

MISMATCHES = [
    (WORDS[:2], VECTORS, "2 words, but 3 vectors"),
    (WORDS, [[1.0, 2.0], [3.0, float("nan")], [5.0, 6.0]], "vector 1 must be finite"),
    (WORDS, [[1.0, 2.0], [3.0, 1e300], [5.0, 6.0]], "vector 1 must be finite"),
    (WORDS, [["1", "2"]] * 3, "rows of numbers"),
    (WORDS, [1.0, 2.0, 3.0], "rows of numbers"),
    (WORDS, np.zeros((3, 2, 2)), "rows of numbers"),
    (["the", "a", "the"], VECTORS, "'the' is word 0 and word 2"),
]
"""Words and vectors that do not belong together, and the end of the message."""


def check_read(got):
    assert got.words == WORDS
    assert {type(word) for word in got.words} == {str}
    assert type(got.vectors) is np.ndarray
    assert got.vectors.dtype == np.float32
    assert np.array_equal(got.vectors, VECTORS)
