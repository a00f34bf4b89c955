import numpy as np
from numpy.testing import assert_allclose

from hf_gile.training import latent_word_vectors


def test_the_mean_word_vector_has_the_direction_of_the_document_in_the_latent_space():
    documents = [[1, 2, 2], [2, 3], [4, 5], [5, 4, 3], [1, 1, 3]]
    counts = np.zeros((5, 7))
    for row, words in enumerate(documents):
        np.add.at(counts[row], words, 1)
    x = counts * (np.log(6 / (1 + (counts > 0).sum(0))) + 1)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    u, singular, _ = np.linalg.svd(x, full_matrices=False)
    expected = u[:, :2] * singular[:2]
    means = np.stack([latent_word_vectors(documents, 7, 2)[words].mean(0) for words in documents])
    norms = np.linalg.norm(means, axis=1, keepdims=True), np.linalg.norm(expected, axis=1, keepdims=True)
    similar = [(rows / norm) @ (rows / norm).T for rows, norm in zip((means, expected), norms, strict=True)]
    assert_allclose(*similar, atol=1e-4)


def test_absent_and_ignored_words_have_zero_vectors():
    vectors = latent_word_vectors([[1, 2], [2, 3], [1, 3, 3]], 6, 4, ignored=[3])
    assert vectors.any(1).tolist() == [False, True, True, False, False, False]
    assert not vectors[:, 3].any()  # the rank is that of three documents
    assert np.isfinite(vectors).all()
