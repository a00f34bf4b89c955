import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.sparse import csr_matrix, vstack
from sklearn.linear_model import Ridge

from hf_gile.models.lexical_gile import LEXICAL_BUCKETS, WordRows, count_features
from hf_gile.training.convex import word_rows
from hf_gile.training.convex.word_rows import WordRegression, feature_counts, gold_matrix

WORDS = [f"w{number}" for number in range(30)]


def documents(number=40, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, 12)) for _ in range(number)]


def regression_of(texts):
    counted = map(count_features, texts)
    rows = ({"lexical_ids": list(row), "lexical_counts": list(row.values())} for row in counted)
    return WordRegression(feature_counts(rows))


def weigh_counts(text):
    """Computes x without its idf, by the formula."""
    x = np.zeros(LEXICAL_BUCKETS)
    for feature, count in count_features(text).items():
        if feature < LEXICAL_BUCKETS:  # others are of the title
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
    rows = regression.fit(torch.arange(40), gold_matrix(gold, 4), l2=0.5, parts_weight=0.5)
    x, used = features(texts)
    has = np.zeros((40, 4))
    for row, columns in enumerate(gold):
        has[row, columns[columns >= 0]] = 1
    expected = Ridge(alpha=0.5, fit_intercept=False).fit(x, has).predict(x)
    scores = regression.scores(torch.arange(40), rows, torch.ones(4, dtype=torch.bool))
    np.testing.assert_allclose(scores, np.log1p(200 * expected.clip(min=0)), atol=2e-2)
    assert set(rows.indices) <= set(used)
    assert not rows[3].nnz


def test_steps_minimize_the_squared_hinge_loss():
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


def test_rare_labels_have_shorter_rows(monkeypatch):
    monkeypatch.setattr(word_rows, "_MARGIN_STEPS", 1)
    texts = documents()
    regression = regression_of(texts)
    targets = gold_matrix(torch.tensor([[0, 1]] * 4 + [[0, -100]] * 12 + [[-100, -100]] * 24), 3)
    full = regression.fit(torch.arange(40), targets, 1.0, 0.5)
    monkeypatch.setattr(word_rows, "_ALL_WORDS", 20)
    monkeypatch.setattr(word_rows, "_LABELS_AT_ONCE", 1)
    pruned = regression.fit(torch.arange(40), targets, 1.0, 0.5)
    frequent, rare, none = pruned.getnnz(1).tolist()
    assert frequent == pytest.approx(2 * rare, abs=1)
    assert 15 < frequent + rare <= 20
    assert none == 0
    for row, remaining in zip(full[:2], pruned[:2], strict=True):
        assert sorted(abs(remaining.data)) == pytest.approx(sorted(abs(row.data))[-remaining.nnz :], rel=1e-5)


def test_labels_without_documents_use_documents_that_name_them():
    gold = torch.tensor([[0, 0], [-100, -100], [2, 0]])
    name_matches = csr_matrix([[0.0, 0.5, 1.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    assert gold_matrix(gold, 3).toarray().tolist() == [[1, 0, 0], [0, 0, 0], [1, 0, 1]]
    assert gold_matrix(gold, 3, name_matches).toarray().tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 1]]


@pytest.mark.parametrize("sizes", [[2, 2], [-1, 4]])
def test_rows_with_damaged_sizes_are_refused(sizes):
    with pytest.raises(ValueError, match="do not add up to their 3 words: the model is damaged"):
        WordRows(torch.tensor(sizes), torch.arange(3), torch.ones(3))(torch.tensor([0]))
