from itertools import pairwise

import numpy as np
import pytest
import torch

from hf_gile.metrics import F1Metrics, LabelMetrics, decile_figures, propensities
from hf_gile.metrics.frequency import DECILES, read_deciles


def test_propensities_equal_the_formula_of_the_paper():
    counts, n = np.array([0, 1, 3, 900]), 5000
    c = (np.log(n) - 1) * (1.5 + 1) ** 0.55
    expected = [1 / (1 + c * np.exp(-0.55 * np.log(count + 1.5))) for count in counts]
    for form in (counts, counts.tolist(), torch.tensor(counts), counts.astype(float)):
        np.testing.assert_allclose(propensities(form, n), expected, rtol=1e-14)
    c = (np.log(n) - 1) * (0.4 + 1) ** 0.5
    expected = [1 / (1 + c * np.exp(-0.5 * np.log(count + 0.4))) for count in counts]
    np.testing.assert_allclose(propensities(counts, n, a=0.5, b=0.4), expected, rtol=1e-14)


def test_propensities_are_probabilities_that_rise_with_the_count():
    known = propensities(np.arange(1001), num_documents=1000 + 1)
    assert (np.diff(known) > 0).all()
    assert known.min() > 0
    assert known.max() < 1


@pytest.mark.parametrize(
    ("counts", "options", "message"),
    [
        ([1, -2], {}, "counts must be numbers of at least 0, got -2 for label 1"),
        ([1, float("nan")], {}, "got nan for label 1"),
        ([[1, 2]], {}, r"shape \(L,\), a number for each label, got int64 of shape \(1, 2\)"),
        (["a"], {}, "a number for each label, got <U1"),
        ([True], {}, "a number for each label, got bool"),
        ([1, 101], {}, "a label has 101 training documents, but num_documents is 100"),
        ([1], {"num_documents": 2}, "at least 3 training documents, got 2"),
        ([1], {"a": 0.0}, r"a and b must be positive, got a=0.0 and b=1.5"),
        ([1], {"b": -1.0}, r"a and b must be positive, got a=0.55 and b=-1.0"),
    ],
)
def test_invalid_counts_and_constants_are_refused(counts, options, message):
    with pytest.raises(ValueError, match=message):
        propensities(counts, **{"num_documents": 100, **options})


@pytest.mark.parametrize("labels", [40, 47, 10, 7])
def test_deciles_have_equal_sizes_and_contain_each_label_once(labels):
    counts = np.random.default_rng(labels).integers(1, 4, labels + 5)
    counts[::3] = 0
    groups = read_deciles(counts, len(counts))
    assert tuple(groups) == DECILES
    columns = torch.cat(list(groups.values())).tolist()
    assert sorted(columns) == np.flatnonzero(counts).tolist()
    assert (np.diff(counts[columns]) >= 0).all()
    assert all(left < right or counts[left] < counts[right] for left, right in pairwise(columns))
    sizes = [len(group) for group in groups.values()]
    assert max(sizes) - min(sizes) <= 1


def test_an_empty_decile_has_no_metrics():
    metrics = LabelMetrics(3, counts=[5, 0, 1], top_k=[1])
    metrics.update(torch.tensor([[1.0, -1.0, 2.0]]), torch.tensor([[0, 2]]))
    figures = decile_figures(metrics.compute())
    assert figures["macro_f1"][:2] == [1.0, 1.0]
    assert figures["macro_recall_at_1"][:2] == [1.0, 0.0]
    assert np.isnan([values[2:] for values in figures.values()]).all()


def test_decile_metrics_are_read_under_a_prefix():
    metrics = F1Metrics(10, counts=range(1, 11))
    gold = torch.stack([torch.arange(10) < 2, torch.arange(10) >= 2])
    metrics.update(torch.tensor([[1.0] * 2 + [-1.0] * 8, [-1.0] * 10]), gold)
    expected = {"macro_f1": [1.0, 1.0, *[0.0] * 8]}
    result = metrics.compute()
    assert decile_figures(result) == expected
    assert decile_figures({f"eval_{name}": value for name, value in result.items()}, "eval_") == expected
    with pytest.raises(ValueError, match="no metric starts with 'eval_decile_1_': create the metrics with counts="):
        decile_figures(result, "eval_")
