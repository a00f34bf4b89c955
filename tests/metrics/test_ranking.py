import numpy as np
import pytest
import torch
from sklearn.metrics import (
    coverage_error,
    label_ranking_average_precision_score,
    label_ranking_loss,
    ndcg_score,
)

from hf_gile.metrics import RankingMetrics, ranking_metrics

MEANS = ("average_precision", "ranking_loss", "one_error", "coverage")
FEW = np.array([-np.inf, -1.0, -0.0, 0.0, 0.5, np.inf])


def batch(seed, documents=23, num_labels=17, ties=True, gold_share=0.3):
    random = np.random.default_rng(seed)
    shape = (documents, num_labels)
    scores = random.choice(FEW[1:-1], shape) if ties else random.normal(size=shape)
    return scores, random.random(shape) < gold_share


def sparse(gold, seed=0):
    """Returns shuffled columns with padding at random positions."""
    random = np.random.default_rng(seed)
    width = int(gold.sum(axis=1).max()) + 3
    columns = np.full((len(gold), width), -100)
    for row, chosen in zip(columns, gold, strict=True):
        row[random.permutation(width)[: chosen.sum()]] = random.permutation(chosen.nonzero()[0])
    return columns


def literal_one_error(scores, gold):
    errors = []
    for row, chosen in zip(scores, gold, strict=True):
        negatives = row[~chosen]
        errors.append(bool(len(negatives)) and negatives.max() >= row[chosen].max())
    return np.mean(errors)


def sklearn_means(scores, gold):
    some = gold.any(axis=1)
    scores, gold = scores[some], gold[some]
    return {
        "average_precision": label_ranking_average_precision_score(gold, scores),
        "ranking_loss": label_ranking_loss(gold, scores),
        "one_error": literal_one_error(scores, gold),
        "coverage": coverage_error(gold, scores),
        "documents": some.sum(),
        "skipped": (~some).sum(),
    }


def streamed(scores, labels, num_labels=17, **kwargs):
    metrics = RankingMetrics(num_labels, **kwargs)
    metrics.update(scores, labels)
    return metrics.compute()


@pytest.mark.parametrize("gold_share", [0.03, 0.3, 0.95])
@pytest.mark.parametrize("ties", [True, False])
def test_means_equal_scikit_learn(ties, gold_share):
    for seed in range(11):
        scores, gold = batch(seed, ties=ties, gold_share=gold_share)
        expected = pytest.approx(sklearn_means(scores, gold), abs=1e-12)
        assert streamed(scores, gold) == expected


def test_metrics_of_two_labels_equal_scikit_learn():
    for seed in range(11):
        scores, gold = batch(seed, documents=7, num_labels=2, gold_share=0.5)
        expected = pytest.approx(sklearn_means(scores, gold), abs=1e-12)
        assert streamed(scores, gold, num_labels=2) == expected


def test_sparse_and_multi_hot_gold_labels_give_the_same_metrics():
    for seed in range(5):
        scores, gold = batch(seed)
        forms = [gold, gold.astype(np.float32), torch.tensor(gold).double(), sparse(gold, seed)]
        forms += [sparse(gold, seed).astype(np.int32), torch.tensor(sparse(gold, seed + 1))]
        results = [streamed(scores, form) for form in forms]
        assert all(result == pytest.approx(results[0], abs=1e-12) for result in results)


def test_a_tie_counts_against_the_model():
    result = ranking_metrics(torch.zeros(1, 5), torch.tensor([[2]]))
    assert {name: result[name].item() for name in MEANS} == {
        "average_precision": 0.2,
        "ranking_loss": 1.0,
        "one_error": 1.0,
        "coverage": 5.0,
    }


def test_negative_zero_ties_with_zero():
    for gold in (0, 1):
        result = ranking_metrics(torch.tensor([[0.0, -0.0]]), torch.tensor([[gold]]))
        assert result["one_error"].item() == 1
        assert result["average_precision"].item() == 0.5


def test_infinite_scores_are_ordered_like_very_large_scores():
    for seed in range(5):
        _, gold = batch(seed)
        scores = np.random.default_rng(seed).choice(FEW, gold.shape)
        # Labels with minus infinity are not candidates, unless they are gold.
        scores[np.isneginf(scores) & ~gold.astype(bool)] = -9
        finite = np.nan_to_num(scores, posinf=9, neginf=-9.5)
        assert streamed(scores, gold) == pytest.approx(streamed(finite, gold), abs=1e-12)


def test_labels_with_a_score_of_minus_infinity_are_excluded():
    rng = np.random.default_rng(0)
    scores, gold = rng.normal(size=(7, 11)), np.zeros((7, 11), dtype=bool)
    gold[np.arange(7), rng.integers(5, size=7)] = True
    scores[:, 5:] = -np.inf
    left_out = ranking_metrics(scores, gold)
    restricted = ranking_metrics(scores[:, :5], gold[:, :5])
    for name, values in restricted.items():
        torch.testing.assert_close(left_out[name], values)


def test_double_scores_that_differ_below_single_precision_do_not_tie():
    scores = torch.tensor([[1.0, 1.0 + 1e-12]], dtype=torch.float64)
    assert ranking_metrics(scores, torch.tensor([[1]]))["one_error"].item() == 0
    assert ranking_metrics(scores.float(), torch.tensor([[1]]))["one_error"].item() == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_scores_keep_their_ties(dtype):
    scores, gold = batch(seed=3, ties=False)
    scores = torch.tensor(scores).to(dtype)
    expected = sklearn_means(scores.double().numpy(), gold)
    assert streamed(scores, gold) == pytest.approx(expected, abs=1e-12)


def test_metrics_do_not_depend_on_the_order_of_labels():
    for seed in range(5):
        scores, gold = batch(seed)
        order = np.random.default_rng(seed).permutation(17)
        expected = pytest.approx(streamed(scores, gold), abs=1e-12)
        assert streamed(scores[:, order], gold[:, order]) == expected


def test_metrics_are_unchanged_by_monotonic_transformations():
    scores, gold = batch(seed=5)
    assert streamed(np.exp(3 * scores) - 2, gold) == streamed(scores, gold)


def test_batch_sizes_do_not_change_the_metrics():
    scores, gold = batch(seed=1)
    for seed in range(5):
        cuts = np.sort(np.random.default_rng(seed).integers(0, 24, size=5))  # also empty batches
        metrics = RankingMetrics(17)
        for part, labels in zip(np.split(scores, cuts), np.split(gold, cuts), strict=True):
            metrics.update(part, sparse(labels) if len(labels) else labels)
        assert metrics.compute() == pytest.approx(streamed(scores, gold), abs=1e-12)


def test_groups_equal_scikit_learn_on_their_columns():
    for seed in range(5):
        scores, gold = batch(seed)
        seen = np.random.default_rng(seed).permutation(17) < 11
        expected = sklearn_means(scores, gold)
        for prefix, group in (("seen_", seen), ("unseen_", ~seen)):
            means = sklearn_means(scores[:, group], gold[:, group])
            expected |= {prefix + name: value for name, value in means.items()}
        among_all = sklearn_means(np.where(gold & seen, -9, scores), gold & ~seen)  # without the seen gold labels
        expected["unseen_among_all_average_precision"] = among_all["average_precision"]
        for labels in (gold, sparse(gold)):
            result = streamed(scores, labels, seen=seen)
            assert result == pytest.approx(expected, abs=1e-12)


def test_columns_restrict_ranks_and_gold_labels():
    scores, gold = batch(seed=7)
    columns = np.arange(17) % 3 == 0  # padding must not become label 0
    result = ranking_metrics(scores, sparse(gold), columns=columns)
    expected = ranking_metrics(scores[:, columns], gold[:, columns])
    for name, value in expected.items():
        torch.testing.assert_close(result[name], value, equal_nan=True)


def test_documents_without_gold_are_skipped_and_counted():
    scores = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 2.0]])
    labels = torch.tensor([[-100, -100], [-100, 2]])
    result = ranking_metrics(scores, labels)
    assert result["counted"].tolist() == [False, True]
    assert all(result[name][0].isnan() for name in MEANS)
    means = streamed(scores, labels, num_labels=3)
    assert (means["average_precision"], means["documents"], means["skipped"]) == (1, 1, 1)


@pytest.mark.parametrize("labels", [torch.empty(2, 0, dtype=torch.long), torch.zeros(2, 3)])
def test_metrics_are_nan_if_all_documents_are_skipped(labels):
    means = streamed(torch.zeros(2, 3), labels, num_labels=3)
    assert (means["documents"], means["skipped"]) == (0, 2)
    assert all(np.isnan(means[name]) for name in MEANS)


def test_a_document_with_only_gold_labels_is_ranked_perfectly():
    result = ranking_metrics(torch.zeros(1, 3), torch.ones(1, 3))
    assert {name: result[name].item() for name in MEANS} == {
        "average_precision": 1.0,
        "ranking_loss": 0.0,
        "one_error": 0.0,
        "coverage": 3.0,
    }


def test_a_single_label_is_always_ranked_perfectly():
    assert ranking_metrics(torch.zeros(2, 1), torch.tensor([[0], [-100]]))["counted"].tolist() == [
        True,
        False,
    ]


def test_reset_discards_all_batches():
    scores, gold = batch(seed=0)
    metrics = RankingMetrics(17)
    metrics.update(-scores, gold)
    metrics.reset()
    metrics.update(scores, gold)
    assert metrics.compute() == streamed(scores, gold)


def test_compute_can_be_called_between_batches():
    scores, gold = batch(seed=0)
    metrics = RankingMetrics(17)
    metrics.update(scores[:7], gold[:7])
    assert metrics.compute() == metrics.compute() == streamed(scores[:7], gold[:7])
    metrics.update(scores[7:], gold[7:])
    assert metrics.compute() == pytest.approx(streamed(scores, gold), abs=1e-12)


def test_a_full_size_batch_equals_counting_label_by_label():
    torch.manual_seed(0)
    scores = torch.randn(3, 26_104).round(decimals=2)
    labels = torch.stack([torch.randperm(26_104)[:47] for _ in range(3)])
    at_gold = scores.gather(1, labels)
    rank = torch.stack([(scores >= each[:, None]).sum(dim=1) for each in at_gold.T], dim=1)
    gold_rank = (at_gold[:, None] >= at_gold[:, :, None]).sum(dim=2)
    result = ranking_metrics(scores, labels)
    expected = (gold_rank.double() / rank).mean(dim=1)
    torch.testing.assert_close(result["average_precision"], expected, rtol=0, atol=1e-15)
    assert result["coverage"].tolist() == rank.amax(dim=1).tolist()


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(lambda x: torch.tensor(x).T.contiguous().T, id="transposed tensor"),
        pytest.param(lambda x: torch.tensor(x).requires_grad_(), id="tensor with gradient"),
        pytest.param(np.asfortranarray, id="fortran order"),
        pytest.param(lambda x: x[::-1].copy()[::-1], id="negative strides"),
        pytest.param(read_only, id="read-only"),
    ],
)
def test_metrics_do_not_depend_on_the_memory_layout(form):
    scores, gold = batch(seed=11)
    seen = np.arange(17) < 5
    assert streamed(form(scores), gold, seen=seen) == streamed(scores, gold, seen=seen)
    result, expected = ranking_metrics(form(scores), gold), ranking_metrics(scores, gold)
    assert result["average_precision"].tolist() == expected["average_precision"].tolist()


def test_scores_and_labels_are_not_modified():
    scores, gold = batch(seed=0)
    labels = sparse(gold)
    before = scores.copy(), labels.copy()
    streamed(scores, labels, seen=np.arange(17) < 5)
    np.testing.assert_array_equal(scores, before[0])
    np.testing.assert_array_equal(labels, before[1])


def test_an_excluded_gold_label_ranks_last():
    scores = torch.tensor([[0.1, 0.2, 0.3, *[-torch.inf] * 7]])
    result = ranking_metrics(scores, torch.tensor([[9]]))
    assert result["ranking_loss"].item() == 1.0
    assert result["coverage"].item() == 4.0
    assert result["average_precision"].item() == 0.25


def literal_at_k(scores, gold, k):
    """Computes metrics from sorted labels; gold labels rank last among equal scores."""
    precision, recall, ndcg = [], [], []
    for row, chosen in zip(scores, gold, strict=True):
        best = sorted(range(len(row)), key=lambda label: (-row[label], chosen[label]))[:k]
        hits = [rank for rank, label in enumerate(best) if chosen[label] and row[label] > -np.inf]
        ideal = sum(1 / np.log2(rank + 2) for rank in range(min(k, chosen.sum())))
        precision.append(len(hits) / k)
        recall.append(len(hits) / chosen.sum())
        ndcg.append(sum(1 / np.log2(rank + 2) for rank in hits) / ideal)
    return {f"precision_at_{k}": np.mean(precision), f"recall_at_{k}": np.mean(recall), f"ndcg_at_{k}": np.mean(ndcg)}


@pytest.mark.parametrize("gold_share", [0.03, 0.3, 0.95])
@pytest.mark.parametrize("ties", [True, False])
def test_metrics_at_k_equal_those_of_the_sorted_labels(ties, gold_share):
    for seed in range(11):
        scores, gold = batch(seed, ties=ties, gold_share=gold_share)
        if seed % 2:
            scores[np.random.default_rng(seed).random(scores.shape) < 0.2] = -np.inf
        result = streamed(scores, gold, top_k=(1, 3, 17, 23))
        some = gold.any(axis=1)
        for k in (1, 3, 17, 23):
            expected = literal_at_k(scores[some], gold[some], k)
            assert {name: result[name] for name in expected} == pytest.approx(expected, abs=1e-12)


def test_ndcg_without_ties_equals_scikit_learn():
    scores, gold = batch(7, ties=False)
    some = gold.any(axis=1)
    result = streamed(scores, gold, top_k=[5])
    assert result["ndcg_at_5"] == pytest.approx(ndcg_score(gold[some], scores[some], k=5), abs=1e-12)


def test_metrics_at_k_of_a_group_use_only_labels_of_the_group():
    scores, gold = batch(3)
    seen = np.arange(17) % 3 > 0
    result = streamed(scores, gold, seen=seen, top_k=[5])
    for prefix, columns in {"": slice(None), "seen_": seen, "unseen_": ~seen}.items():
        alone = streamed(scores[:, columns], gold[:, columns], num_labels=scores[:, columns].shape[1], top_k=[5])
        for name in ("precision_at_5", "recall_at_5", "ndcg_at_5"):
            assert result[prefix + name] == pytest.approx(alone[name], abs=1e-12)


def test_k_below_one_is_refused():
    with pytest.raises(ValueError, match="at least 1, got 0"):
        RankingMetrics(3, top_k=[5, 0])
    with pytest.raises(ValueError, match="at least 1, got -1"):
        ranking_metrics(torch.zeros(1, 2), torch.tensor([[0]]), top_k=[-1])


PROPENSITIES = np.random.default_rng(9).choice([0.1, 0.25, 0.6, 1.0], 17)
COUNTS = np.random.default_rng(8).integers(0, 6, 40)


def literal_psp(scores, gold, propensities, k):
    """Computes metrics from sorted labels; gold labels rank last among equal scores, the rarest at the end."""
    gained = best = 0.0
    for row, chosen in zip(scores, gold, strict=True):
        order = sorted(range(len(row)), key=lambda label: (-row[label], chosen[label], -propensities[label]))
        gained += sum(1 / propensities[label] for label in order[:k] if chosen[label] and row[label] > -np.inf)
        best += sum(sorted(1 / propensities[chosen])[::-1][:k])
    return gained / best


@pytest.mark.parametrize("gold_share", [0.03, 0.3, 0.95])
@pytest.mark.parametrize("ties", [True, False])
def test_propensity_scored_precision_equals_that_of_the_sorted_labels(ties, gold_share):
    for seed in range(11):
        scores, gold = batch(seed, ties=ties, gold_share=gold_share)
        if seed % 2:
            scores[np.random.default_rng(seed).random(scores.shape) < 0.2] = -np.inf
        for labels in (gold, sparse(gold, seed)):
            result = streamed(scores, labels, top_k=(1, 3, 17, 23), propensities=PROPENSITIES)
            for k in (1, 3, 17, 23):
                expected = literal_psp(scores, gold, PROPENSITIES, k)
                assert result[f"psp_at_{k}"] == pytest.approx(expected, abs=1e-12)


def test_propensity_scored_precision_equals_a_hand_computed_value():
    # Ranked c, a, b, d. The first finds a of a and b, the second c and d of b, c and d.
    scores = torch.tensor([[3.0, 2.0, 4.0, 1.0]] * 2)
    labels = torch.tensor([[0, 1, -100], [1, 2, 3]])
    metrics = RankingMetrics(4, top_k=[2], propensities=[0.5, 0.25, 1.0, 0.2])
    metrics.update(scores, labels)
    result = metrics.compute()
    assert result["psp_at_2"] == pytest.approx((2 + 1) / (2 + 4 + 4 + 5))
    assert not {"gain_at_2", "best_gain_at_2"} & result.keys()


def test_with_equal_propensities_psp_is_the_share_of_the_achievable_hits():
    scores, gold = batch(4)
    result = streamed(scores, gold, top_k=[3], propensities=np.full(17, 0.3))
    hits = result["precision_at_3"] * 3 * result["documents"]
    assert result["psp_at_3"] == pytest.approx(hits / np.minimum(gold.sum(axis=1), 3).sum(), abs=1e-12)


def test_propensity_scored_precision_of_a_group_uses_only_its_labels():
    scores, gold = batch(3)
    seen = np.arange(17) % 3 > 0
    result = streamed(scores, gold, seen=seen, top_k=[5], propensities=PROPENSITIES)
    for prefix, columns in {"seen_": seen, "unseen_": ~seen}.items():
        expected = literal_psp(scores[:, columns], gold[:, columns], PROPENSITIES[columns], 5)
        assert result[f"{prefix}psp_at_5"] == pytest.approx(expected, abs=1e-12)


def test_other_metrics_do_not_depend_on_propensities():
    scores, gold = batch(6)
    result = streamed(scores, gold, top_k=[5, 5], propensities=PROPENSITIES)
    plain = streamed(scores, gold, top_k=[5])
    assert {name: result[name] for name in plain} == pytest.approx(plain, abs=1e-12)
    assert set(result) - set(plain) == {"psp_at_5"}


def test_without_gold_labels_propensity_scored_precision_is_nan():
    result = streamed(torch.zeros(2, 3), torch.zeros(2, 3), 3, top_k=[1], propensities=[1, 1, 1])
    assert np.isnan(result["psp_at_1"])


def test_tail_metrics_of_several_batches_equal_those_of_a_single_batch():
    scores, gold = batch(seed=2)
    options = {"seen": np.arange(17) < 11, "top_k": [1, 5], "propensities": PROPENSITIES}
    expected = pytest.approx(streamed(scores, gold, **options), abs=1e-12, nan_ok=True)
    first = RankingMetrics(17, **options)
    for rows in (slice(0, 3), slice(3, 3), slice(3, 7), slice(7, None)):
        first.update(scores[rows], gold[rows])
    assert first.compute() == expected
    first.reset()
    first.update(scores, gold)
    assert first.compute() == expected
