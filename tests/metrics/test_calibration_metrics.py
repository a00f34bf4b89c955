from decimal import Decimal

import numpy as np
import pytest
import torch
from sklearn.metrics import brier_score_loss

from hf_gile.metrics import CalibrationMetrics
from hf_gile.metrics.calibration import softmax_to_sigmoid_logits

SEEN = np.arange(17) % 3 != 1


def batch(seed, documents=23, num_labels=17):
    random = np.random.default_rng(seed)
    scores = 3 * random.standard_normal((documents, num_labels)) - 1
    return scores, random.random(scores.shape) < 1 / (1 + np.exp(1 - scores / 2))


def literal(cells, bins):
    """Computes the expected calibration error of (probability, gold) pairs by loops over bins and pairs."""
    rows = []
    for k in range(bins):
        members = [(p, y) for p, y in cells if k / bins <= p < (k + 1) / bins or (p == 1 and k == bins - 1)]
        if members:
            rows.append((np.mean([p for p, _ in members]), np.mean([y for _, y in members]), len(members)))
    return sum(count * abs(p - y) for p, y, count in rows) / len(cells), rows


def measured(scores, labels, batch_size=None, **options):
    metrics = CalibrationMetrics(scores.shape[1], **options)
    for start in range(0, len(scores), batch_size or len(scores)):
        chunk = slice(start, start + (batch_size or len(scores)))
        metrics.update(scores[chunk], labels[chunk])
    return metrics


@pytest.mark.parametrize(("bins", "top_k"), [(1, 3), (15, 19)])
def test_metrics_equal_the_formula_and_sklearn(bins, top_k):
    scores, gold = batch(seed=1)
    metrics = measured(scores, gold, seen=SEEN, bins=bins, top_k=top_k)
    figures = metrics.compute()
    assert len(figures) == 9
    probabilities = torch.from_numpy(scores).sigmoid().numpy()
    for prefix, columns in {"": SEEN | ~SEEN, "seen_": SEEN, "unseen_": ~SEEN}.items():
        p, y = probabilities[:, columns], gold[:, columns]
        every = list(zip(p.ravel(), y.ravel(), strict=True))
        error, rows = literal(every, bins)
        assert figures[f"{prefix}expected_calibration_error"] == pytest.approx(error, abs=1e-12)
        assert figures[f"{prefix}brier"] == pytest.approx(brier_score_loss(y.ravel(), p.ravel()), abs=1e-12)
        ours = metrics.reliability(prefix.removesuffix("_"))
        np.testing.assert_allclose([(row["probability"], row["frequency"], row["count"]) for row in ours], rows)
        for row in ours:
            assert row["low"] <= row["probability"] <= row["high"]
            assert row["high"] - row["low"] == pytest.approx(1 / bins)
        order = np.argsort(-p, axis=1)[:, :top_k]
        best = [(p[row, column], y[row, column]) for row, chosen in enumerate(order) for column in chosen]
        error, _ = literal(best, bins)
        assert figures[f"{prefix}top_{top_k}_expected_calibration_error"] == pytest.approx(error, abs=1e-12)


def test_batching_and_merging_do_not_change_the_metrics():
    scores, gold = batch(seed=2)
    single = measured(scores, gold, seen=SEEN)
    for size in (1, 5):
        parts = measured(scores, gold, batch_size=size, seen=SEEN)
        assert parts.compute() == pytest.approx(single.compute(), abs=1e-12)
        assert parts.reliability("seen") == [pytest.approx(row) for row in single.reliability("seen")]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_excluded_labels_do_not_count(dtype):
    scores, gold = batch(seed=3)
    scores = torch.tensor(scores, dtype=dtype)
    few = measured(scores[:, :3], gold[:, :3], top_k=3).compute()
    # The last bit of a sigmoid depends on memory alignment.
    rounding = 2 * torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps
    for lowest in (-torch.inf, torch.finfo(dtype).min):
        masked = scores.clone()
        masked[:, 3:] = lowest
        assert measured(masked, gold, top_k=3).compute() == pytest.approx(few, abs=rounding)
        masked[:] = lowest
        assert all(np.isnan(value) for value in measured(masked, gold).compute().values())


@pytest.mark.parametrize("row", [[800.0, 0.0, -800.0], [0.3, -2.5, 0.1, 5.0]])
def test_softmax_logits_become_sigmoid_logits_to_the_last_digit(row):
    for dtype in (torch.float32, torch.float64):
        logits = torch.tensor(row, dtype=dtype)
        exact = [Decimal(logit) for logit in logits.tolist()]
        expected = []
        for position, logit in enumerate(exact):
            rest = sum(other.exp() for other in [*exact[:position], *exact[position + 1 :]])
            expected.append(float(logit - rest.ln()))
        converted = softmax_to_sigmoid_logits(logits)
        torch.testing.assert_close(converted, torch.tensor(expected, dtype=torch.double), rtol=1e-14, atol=1e-14)
        torch.testing.assert_close(converted.sigmoid(), logits.double().softmax(-1), rtol=1e-12, atol=0)
