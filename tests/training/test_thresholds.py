import numpy as np
import pytest
import torch
from papers.threshold_tuner import ThresholdTuner
from transformers import EvalPrediction

from hf_gile.metrics import F1Metrics, LabelMetrics
from hf_gile.metrics.batch import read_batch
from hf_gile.training.calibration import Calibration, fit
from hf_gile.training.calibration.score_counts import ScoreCounts
from hf_gile.training.calibration.thresholds import MIN_DOCUMENTS, MIN_GOLD

FEW = np.array([-3.0, -0.5, -0.0, 0.0, 0.5, 4.0], dtype=np.float32)


def batch(seed, documents=23, num_labels=17, gold_share=0.3, ties=True):
    random = np.random.default_rng(seed)
    shape = (documents, num_labels)
    scores = random.choice(FEW, shape) if ties else 3 * random.standard_normal(shape, dtype=np.float32)
    return scores, random.random(shape) < gold_share


def sparse(gold):
    return read_batch(np.zeros(gold.shape, np.float32), gold)[1].numpy()


def brute_force(scores, gold):
    """Returns the best micro-F1 of all thresholds, by `LabelMetrics`."""
    return max(micro_f1_at(threshold, scores, gold) for threshold in np.unique(torch.tensor(scores).sigmoid().numpy()))


def micro_f1_at(threshold, scores, gold):
    metrics = LabelMetrics(scores.shape[1], threshold=float(threshold))
    metrics.update(scores, gold)
    return metrics.compute()["micro_f1"]


def tuned(scores, labels, batch_size=None, **options):
    tuner = ThresholdTuner(scores.shape[1], **options)
    for start in range(0, len(scores), batch_size or len(scores)):
        chunk = slice(start, start + (batch_size or len(scores)))
        tuner.update(scores[chunk], labels[chunk])
    return tuner.compute()


@pytest.mark.parametrize(("gold_share", "ties"), [(0.03, True), (0.3, False), (1.0, True)])
def test_no_other_threshold_is_better(gold_share, ties):
    for seed in range(2):
        scores, gold = batch(seed, documents=7, gold_share=gold_share, ties=ties)
        scores = scores.astype(np.float16).astype(np.float32)
        best = brute_force(scores, gold)
        for labels in (gold, sparse(gold)):
            result = tuned(scores, labels, batch_size=7)
            assert result["tuned_micro_f1"] == pytest.approx(best, abs=1e-12)
            assert result["tuned_micro_f1"] == pytest.approx(micro_f1_at(result["threshold"], scores, gold), abs=1e-12)


@pytest.mark.parametrize(("ties", "gold_share"), [(True, 0.06), (False, 0.3)])
def test_with_a_label_in_any_case_no_other_threshold_is_better(ties, gold_share):
    scores, gold = batch(seed=5, gold_share=gold_share, ties=ties)
    scores[0, 0] = -100  # an outlier
    counts = ScoreCounts(torch.ones(17, dtype=torch.bool), force_label=True)
    for start in range(0, 23, 5):
        counts.update(torch.tensor(scores[start : start + 5]), torch.tensor(sparse(gold)[start : start + 5]))
    fitted = fit(counts, method=None, label_thresholds=False)

    def micro_f1(threshold):
        metrics = F1Metrics(17, float(threshold), force_label=True)
        metrics.update(scores, gold)
        return metrics.compute()["micro_f1"]

    best = max(map(micro_f1, [*np.unique(torch.tensor(scores).sigmoid().numpy()), 1.0]))
    assert fitted.figures["seen_micro_f1"] == pytest.approx(best)
    assert micro_f1(fitted.thresholds["seen"]) == pytest.approx(best)
    assert fitted.thresholds["seen"] < 1
    before = fit(counts, None, stored=Calibration(thresholds={"seen": 0.5})).figures
    assert before["seen_micro_f1_before"] == pytest.approx(micro_f1(0.5))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_excluded_labels_are_never_predicted(dtype):
    scores, gold = batch(seed=3)
    candidates = np.random.default_rng(3).random(gold.shape) < 0.5
    gold &= candidates
    for lowest in (-torch.inf, torch.finfo(dtype).min):
        masked = torch.tensor(scores, dtype=dtype).masked_fill(torch.tensor(~candidates), lowest)
        expected = tuned(scores[candidates][None], gold[candidates][None])
        assert tuned(masked, gold) == expected


UNREACHABLE = torch.tensor([[1.0, -torch.inf]]), torch.tensor([[1]])


@pytest.mark.parametrize(("scores", "gold"), [(torch.zeros(3, 5), torch.full((3, 1), -100)), UNREACHABLE])
def test_tuning_without_reachable_gold_labels_is_refused(scores, gold):
    with pytest.raises(ValueError, match="needs a gold label that is a candidate, got none"):
        tuned(scores, gold)


def test_documents_and_labels_are_required():
    with pytest.raises(ValueError, match="at least one document"):
        ThresholdTuner(3).compute()


def test_a_failed_evaluation_does_not_affect_the_next():
    scores, gold = batch(seed=5)
    tuner = ThresholdTuner(17)
    assert tuner(EvalPrediction(-scores, gold), compute_result=False) == {}
    with pytest.raises(ValueError, match="label_ids must be a single array of gold labels, got 2"):
        tuner(EvalPrediction(scores, (gold, gold)))
    assert tuner(EvalPrediction((scores, scores), gold)) == tuned(scores, gold)
    assert tuner.counts.documents == 0


def groups(seed=3, documents=61):
    """Returns logits of 7 seen and 5 unseen labels, which are overconfident for unseen labels, and gold labels."""
    random = np.random.default_rng(seed)
    scores, gold = random.standard_normal((documents, 12)).astype(np.float32), random.random((documents, 12)) < 0.3
    scores += 3 * gold
    scores[:, 7:] += 4
    return scores, gold, np.arange(12) < 7


def test_unseen_labels_with_enough_documents_get_a_separate_threshold():
    scores, gold, seen = groups(documents=MIN_GOLD + 5)
    actual = tuned(scores, sparse(gold), batch_size=7, seen=seen)
    apart = {name.removeprefix("unseen_"): value for name, value in actual.items() if name.startswith("unseen_")}
    assert apart == tuned(scores[:, 7:], gold[:, 7:])
    assert {name: actual[name] for name in apart} == tuned(scores[:, :7], gold[:, :7])
    tuner = ThresholdTuner(12, seen=seen)
    for _ in range(2):
        assert tuner(EvalPrediction(scores, gold)) == actual
    few = gold.copy()
    few[MIN_DOCUMENTS - 1 :, 7:] = False
    assert tuned(scores, sparse(few), seen=seen) == tuned(scores[:, :7], few[:, :7])
