import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.sparse import csr_matrix, vstack
from sklearn.linear_model import Ridge

from hf_gile import Label
from hf_gile.models.lexical_gile import LEXICAL_BUCKETS, LexicalFeatures, Postings, WordRows, count_features
from hf_gile.training.convex import word_rows
from hf_gile.training.convex.word_rows import WordRegression, feature_counts, gold_matrix

WORDS = [f"w{number}" for number in range(30)]


def documents(number=40, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, 12)) for _ in range(number)]


def regression_of(texts):
    counted = map(count_features, texts)
    return WordRegression(
        feature_counts({"lexical_ids": list(row), "lexical_counts": list(row.values())} for row in counted)
    )


def weigh_counts(text):
    """Computes x without its idf, by the formula."""
    x = np.zeros(LEXICAL_BUCKETS)
    for feature, count in count_features(text).items():
        x[feature] = count / (count + 1)
    return x / np.linalg.norm(x)


def features(texts):
    rows = vstack([csr_matrix(weigh_counts(text)) for text in texts], format="csc")
    df = rows.getnnz(0)
    rows = rows[:, df >= 2].toarray() * (np.log((1 + len(texts)) / (1 + df[df >= 2])) + 1)
    return rows / np.sqrt((rows**2).sum() / len(rows)), np.flatnonzero(df >= 2)


@pytest.mark.parametrize("solved_at_once", [4000, 10])
def test_word_rows_equal_a_ridge_regression(monkeypatch, solved_at_once):
    monkeypatch.setattr(word_rows, "_SOLVED_AT_ONCE", solved_at_once)
    monkeypatch.setattr(word_rows, "_MARGIN_STEPS", 1)
    texts = documents()
    gold = torch.tensor([[0 if "w1 " in text else 1, 2 if "w2" in text else -100] for text in texts])
    regression = regression_of(texts)
    rows = regression.fit(torch.arange(40), gold_matrix(gold, 4), l2=0.5)
    x, used = features(texts)
    has = np.zeros((40, 4))
    for row, columns in enumerate(gold):
        has[row, columns[columns >= 0]] = 1
    expected = Ridge(alpha=0.5, fit_intercept=False).fit(x, has).predict(x)
    scores = regression.scores(torch.arange(40), rows, torch.ones(4, dtype=torch.bool))
    np.testing.assert_allclose(scores, np.log1p(200 * expected.clip(min=0)), atol=2e-2)
    assert set(rows.indices) <= set(used)
    assert not rows[3].nnz


@pytest.mark.parametrize("solved_at_once", [4000, 10])
def test_steps_minimize_the_squared_hinge_loss(monkeypatch, solved_at_once):
    monkeypatch.setattr(word_rows, "_SOLVED_AT_ONCE", solved_at_once)
    x = csr_matrix(features(documents(200))[0].astype(np.float32))
    has = x.toarray() > 0
    y = np.stack([has[:, 2 * label : 2 * label + 2].any(1) for label in range(3)], 1).astype(np.float32)
    solve = word_rows._solver(x, 0.5, 8)

    def loss(w):
        """Returns the loss of `(W, 3)` weights and its gradient."""
        w = w.reshape(-1, 3)
        signs = np.where(y > 0, -1, 1)
        margins = np.maximum(0, (y > 0) + signs * (x @ w))
        return (margins**2).sum() + 0.5 * (w**2).sum(), (w + 2 * (x.T @ (signs * margins))).ravel()

    once, often = (loss(word_rows.fit_margins(x, x.T.tocsr(), solve, y, steps))[0] for steps in (1, 15))
    least = minimize(loss, np.zeros(x.shape[1] * 3), jac=True, method="L-BFGS-B").fun
    assert least < 0.9 * once
    assert often == pytest.approx(least, rel=0.01)


def test_rows_keep_the_words_with_the_largest_weights(monkeypatch):
    texts = documents()
    gold = torch.tensor([[int("w3 " in text)] for text in texts])
    regression = regression_of(texts)
    full = regression.fit(torch.arange(40), gold_matrix(gold, 2), 1.0)
    monkeypatch.setattr(word_rows, "_ROW_WORDS", 1)
    pruned = regression.fit(torch.arange(40), gold_matrix(gold, 2), 1.0)[1]
    word = next(iter(count_features("w3")))
    assert pruned.indices.tolist() == [word]
    assert pruned[0, word] == pytest.approx(full[1, word], rel=1e-4)


def test_rare_labels_have_shorter_rows(monkeypatch):
    monkeypatch.setattr(word_rows, "_MARGIN_STEPS", 1)
    texts = documents()
    regression = regression_of(texts)
    targets = gold_matrix(torch.tensor([[0, 1]] * 4 + [[0, -100]] * 12 + [[-100, -100]] * 24), 3)
    full = regression.fit(torch.arange(40), targets, 1.0)
    monkeypatch.setattr(word_rows, "_ALL_WORDS", 20)
    monkeypatch.setattr(word_rows, "_LABELS_AT_ONCE", 1)
    pruned = regression.fit(torch.arange(40), targets, 1.0)
    frequent, rare, none = pruned.getnnz(1).tolist()
    assert frequent == pytest.approx(2 * rare, abs=1)
    assert 15 < frequent + rare <= 20
    assert none == 0
    for row, remaining in zip(full[:2], pruned[:2], strict=True):
        assert sorted(abs(remaining.data)) == pytest.approx(sorted(abs(row.data))[-remaining.nnz :], rel=1e-5)


def test_parts_of_words_weigh_half_as_much(monkeypatch):
    monkeypatch.setattr(word_rows, "_MARGIN_STEPS", 1)
    texts = ["abcde", "abcde", "vwxyz", "vwxyz"]
    regression = regression_of(texts)
    row = regression.fit(torch.arange(4), gold_matrix(torch.tensor([[0], [0], [1], [1]]), 2), 0.1)[0].toarray()[0]
    word, *parts = count_features("abcde")
    word, parts = (word, parts) if word % 2 == 0 else (parts[-1], [word, *parts[:-1]])
    assert len(parts) == 2
    assert row[parts] == pytest.approx(row[word] / 4, rel=1e-3)


def test_large_sets_are_fitted_on_whole_words_only(monkeypatch):
    texts = [text.replace("w", "steamboat") for text in documents()]
    monkeypatch.setattr(word_rows, "_COSTLY", 0)
    targets = gold_matrix(torch.zeros(40, 1).long(), 1)
    rows = regression_of(texts).fit(torch.arange(40), targets, 1.0)
    assert rows.nnz
    assert not (rows.indices % 2).any()


def test_labels_without_documents_use_documents_that_name_them():
    gold = torch.tensor([[0, 0], [-100, -100], [2, 0]])
    name_matches = csr_matrix([[0.0, 0.5, 1.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    assert gold_matrix(gold, 3).toarray().tolist() == [[1, 0, 0], [0, 0, 0], [1, 0, 1]]
    assert gold_matrix(gold, 3, name_matches).toarray().tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 1]]


def test_rows_are_looked_up_by_label():
    rows = WordRows(torch.tensor([2, 0, 1]), torch.tensor([7, 9, 7]), torch.tensor([0.1, 0.2, 0.3]))
    ids, positions, weights = rows(torch.tensor([2, -1, 0, 1]))
    assert ids.tolist() == [7, 7, 9]
    assert positions.tolist() == [0, 2, 2]
    torch.testing.assert_close(weights, torch.tensor([0.3, 0.1, 0.2]))


@pytest.mark.parametrize("sizes", [[2, 2], [-1, 4], [2, 2**31 - 1]])
def test_rows_with_damaged_sizes_are_refused(sizes):
    with pytest.raises(ValueError, match="do not add up to their 3 words: the model is damaged"):
        WordRows(torch.tensor(sizes), torch.arange(3), torch.ones(3))(torch.tensor([0]))


def test_postings_add_word_rows_by_the_formula():
    texts = documents(5)
    regression = regression_of(texts)
    rows = regression.fit(torch.arange(5), gold_matrix(torch.tensor([[0], [1], [0], [1], [0]]), 3), 1.0)
    labels = [Label("a", "w1"), Label("b", "w2 w3"), Label("c", "w4")]
    weights = torch.tensor([[0.0] * 3, [0.0] * 3, [2.0, 1.0, 1.0]])
    plain = Postings.build(labels, torch.ones(LEXICAL_BUCKETS), weights)
    entries = rows.tocoo()
    word_rows = tuple(map(torch.from_numpy, (entries.col, entries.row, entries.data)))
    postings = Postings.build(labels, torch.ones(LEXICAL_BUCKETS), weights, word_rows)
    counted = LexicalFeatures.count(texts)
    expected = torch.zeros(5, 3)
    for row, text in enumerate(texts):
        x = torch.from_numpy(weigh_counts(text)).float()
        for column in range(3):
            share = (x[rows[column].indices] * torch.from_numpy(rows[column].data)).sum()
            expected[row, column] = (1 + 200 * share.clamp(min=0)).log()
    match, coverage, words = postings.terms(counted)
    torch.testing.assert_close(words, expected)
    torch.testing.assert_close(torch.stack((match, coverage)), plain.terms(counted)[:2])
    torch.testing.assert_close(postings.scores(counted), expected * weights[2])
