import numpy as np
import pytest
import torch
from torch import nn
from transformers import EvalPrediction, Trainer, TrainingArguments

from hf_gile.metrics import F1Metrics, LabelMetrics
from hf_gile.metrics.batch import read_batch
from hf_gile.training import ThresholdTuner, paper_threshold, tune_threshold
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


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("gold_share", [0.03, 0.3, 0.95, 1.0])
def test_no_other_threshold_is_better(gold_share, ties):
    for seed in range(3):
        scores, gold = batch(seed, documents=11, gold_share=gold_share, ties=ties)
        scores = scores.astype(np.float16).astype(np.float32)
        for labels in (gold, sparse(gold)):
            result = tuned(scores, labels, batch_size=7)
            assert result["tuned_micro_f1"] == pytest.approx(brute_force(scores, gold), abs=1e-12)
            assert result["tuned_micro_f1"] == pytest.approx(micro_f1_at(result["threshold"], scores, gold), abs=1e-12)
            assert result["threshold"] == tune_threshold(scores, labels)


def test_the_threshold_is_halfway_to_the_highest_refused_score():
    scores, gold = torch.tensor([[3.0, 1.0, -1.0, -2.0]]), torch.tensor([[0, 1]])
    assert tune_threshold(scores, gold) == 0.5


def test_calibration_and_tuning_find_the_same_numbers():
    scores, gold, seen = groups(documents=MIN_GOLD + 5)
    counts = ScoreCounts(torch.tensor(seen))
    counts.update(torch.tensor(scores), torch.tensor(sparse(gold)))
    fitted, found = fit(counts, method=None), tuned(scores, gold, batch_size=7, seen=seen)
    assert fitted.thresholds == {"seen": found["threshold"], "unseen": found["unseen_threshold"]}
    assert fitted.figures["seen_threshold"] == found["threshold"]
    assert fitted.figures["seen_micro_f1"] == found["tuned_micro_f1"]
    assert fitted.figures["unseen_micro_f1"] == found["unseen_tuned_micro_f1"]


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("gold_share", [0.06, 0.3])
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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_excluded_labels_are_never_predicted(dtype):
    scores, gold = batch(seed=3)
    candidates = np.random.default_rng(3).random(gold.shape) < 0.5
    gold &= candidates
    for lowest in (-torch.inf, torch.finfo(dtype).min):
        masked = torch.tensor(scores, dtype=dtype).masked_fill(torch.tensor(~candidates), lowest)
        expected = tuned(scores[candidates][None], gold[candidates][None])
        assert tuned(masked, gold) == expected
        assert tune_threshold(masked, gold) == expected["threshold"]


def test_an_excluded_gold_label_counts_as_missed():
    scores, gold = torch.tensor([[1.0, -torch.inf, 0.0]]), torch.tensor([[0, 1]])
    metrics = LabelMetrics(3, threshold=tune_threshold(scores, gold))
    metrics.update(scores, gold)
    assert metrics.compute()["micro_f1"] == tuned(scores, gold)["tuned_micro_f1"] == 2 / 3


@pytest.mark.parametrize(
    ("scores", "gold"),
    [
        (torch.zeros(3, 5), torch.full((3, 1), -100)),
        (torch.full((3, 5), -torch.inf), torch.tensor([[1], [2], [3]])),
        (torch.tensor([[1.0, -torch.inf]]), torch.tensor([[1]])),
    ],
)
def test_tuning_without_reachable_gold_labels_is_refused(scores, gold):
    with pytest.raises(ValueError, match="needs a gold label that is a candidate, got none"):
        tuned(scores, gold)


def test_documents_and_labels_are_required():
    with pytest.raises(ValueError, match="at least one document"):
        ThresholdTuner(3).compute()
    with pytest.raises(ValueError, match="at least one document"):
        tune_threshold(torch.zeros(0, 3), torch.zeros(0, 1, dtype=torch.long))
    with pytest.raises(ValueError, match="num_labels must be at least 1, got 0"):
        ThresholdTuner(0)


def test_nan_scores_are_refused_and_add_nothing():
    scores, gold = batch(seed=4)
    tuner = ThresholdTuner(17)
    tuner.update(scores, gold)
    before = tuner.compute()
    undefined = scores.copy()
    undefined[3, 5] = np.nan
    with pytest.raises(ValueError, match="scores must be numbers, got NaN in 1 of 23"):
        tuner.update(undefined, gold)
    with pytest.raises(ValueError, match="a column for each of the 17 labels"):
        tuner.update(scores[:, :5], gold[:, :5])
    assert tuner.compute() == before


def test_a_failed_evaluation_does_not_affect_the_next():
    scores, gold = batch(seed=5)
    tuner = ThresholdTuner(17)
    assert tuner(EvalPrediction(-scores, gold), compute_result=False) == {}
    with pytest.raises(ValueError, match="label_ids must be a single array of gold labels, got 2"):
        tuner(EvalPrediction(scores, (gold, gold)))
    assert tuner(EvalPrediction((scores, scores), gold)) == tuned(scores, gold)
    assert tuner.counts.documents == 0


class TinyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(7, 13)

    def forward(self, features, labels=None):
        logits = self.linear(features)
        return {"loss": logits.square().mean(), "logits": logits}


@pytest.mark.parametrize("batch_eval_metrics", [True, False])
def test_the_tuner_works_in_a_trainer_with_label_metrics(tmp_path, batch_eval_metrics):
    torch.manual_seed(0)
    model, features = TinyModel(), torch.randn(23, 7)
    labels = torch.randint(13, (23, 1))
    metrics, tuner = LabelMetrics(13), ThresholdTuner(13)

    def compute_metrics(batch, compute_result=True):
        return {**metrics(batch, compute_result), **tuner(batch, compute_result)}

    trainer = Trainer(
        model,
        TrainingArguments(
            output_dir=str(tmp_path),
            per_device_eval_batch_size=5,
            batch_eval_metrics=batch_eval_metrics,
            remove_unused_columns=False,
            use_cpu=True,
            report_to="none",
            disable_tqdm=True,
        ),
        eval_dataset=[{"features": x, "labels": y} for x, y in zip(features, labels, strict=True)],
        compute_metrics=compute_metrics,
    )
    with torch.no_grad():
        scores = model(features)["logits"]
    for _ in range(2):
        result = trainer.evaluate()
        assert result["eval_threshold"] == tune_threshold(scores, labels)
        assert result["eval_micro_f1"] < result["eval_tuned_micro_f1"]


def test_paper_threshold_returns_the_fixed_thresholds_of_the_paper():
    assert [paper_threshold(number) for number in (1, 399, 400, 26000)] == [0.4, 0.4, 0.2, 0.2]
    assert [paper_threshold(number, low_resource=True) for number in (399, 400)] == [0.3, 0.3]
    with pytest.raises(ValueError, match="num_labels must be at least 1, got 0"):
        paper_threshold(0)


def groups(seed=3, documents=61):
    """Returns logits of 7 seen and 5 unseen labels, which are overconfident for unseen labels, and gold labels."""
    random = np.random.default_rng(seed)
    scores, gold = random.standard_normal((documents, 12)).astype(np.float32), random.random((documents, 12)) < 0.3
    scores += 3 * gold
    scores[:, 7:] += 4
    return scores, gold, np.arange(12) < 7


def test_unseen_labels_without_documents_do_not_affect_the_threshold():
    scores, gold, seen = groups()
    gold[:, 7:] = False
    alone = tuned(scores[:, :7], gold[:, :7])
    assert tuned(scores, sparse(gold), batch_size=7, seen=seen) == alone
    assert abs(tuned(scores, gold)["threshold"] - alone["threshold"]) > 0.05  # without the mask, they affect it
    order = np.random.default_rng(1).permutation(12)  # seen labels need not be first
    assert tuned(scores[:, order], sparse(gold[:, order]), seen=seen[order]) == alone


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


def test_without_unseen_labels_all_labels_are_tuned_together():
    scores, gold, _ = groups()
    assert tuned(scores, gold, seen=[True] * 12) == tuned(scores, gold)


def test_a_mask_of_another_length_is_refused():
    with pytest.raises(ValueError, match="12"):
        ThresholdTuner(12, seen=[True, False])
