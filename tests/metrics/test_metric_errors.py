"""Error messages of metrics state the expected and the passed value, and a remedy."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from hf_gile.metrics import LabelMetrics, propensities

SCORES = torch.zeros(2, 5)
LABELS = torch.tensor([[0, 3, -100], [1, -100, -100]])
NAN = torch.tensor([[0.0, torch.nan, 1, 1, 1], [0.0, 1, 1, 1, 1]])

BATCHES = {
    "scores of a single document": (SCORES[0], LABELS, r"got float32 of shape \(5,\); pass the logits"),
    "scores as texts": (np.array([["a"], ["b"]]), LABELS, "scores must be a torch tensor or a numeric numpy array"),
    "scores of other labels": (torch.zeros(2, 3), LABELS, "each of the 5 labels, got 3 columns"),
    "NaN": (NAN, LABELS, "NaN in 1 of 2 documents; check whether training diverged"),
    "labels of a single document": (SCORES, LABELS[0], r"each of the 2 documents, got int64 of shape"),
    "column too large": (SCORES, torch.tensor([[0], [5]]), r"index 5, but .* \(0 to 4\); see document 1 of"),
    "repeated column": (SCORES, torch.tensor([[0, -100, 0], [1, 2, 3]]), "twice, of document 0 of the batch"),
    "integer multi-hot": (SCORES, torch.eye(5)[:2].long(), "or zeros and ones as floats"),
    "soft labels": (SCORES, torch.full((2, 5), 0.25), "must be 0 or 1, got 0.25; round"),
}


@pytest.mark.parametrize(("scores", "labels", "message"), BATCHES.values(), ids=BATCHES)
def test_invalid_batches_are_refused(scores, labels, message):
    metrics = LabelMetrics(5)
    with pytest.raises(ValueError, match=message):
        metrics.update(scores, labels)
    with pytest.raises(ValueError, match=r"got none; call update"):
        metrics.compute()


PROPENSITIES = "propensities must be above 0 and up to 1 for each of the 5 labels"
OPTIONS = {
    "short mask": ({"seen": np.ones(3, bool)}, r"shape \(5,\), got bool of shape \(3,\); pass True or False"),
    "mask of columns": ({"seen": np.arange(5)}, r"bool mask of shape \(5,\), got int64 of shape \(5,\)"),
    "empty mask": ({"seen": torch.zeros(5, dtype=torch.bool)}, "at least one of the 5 labels, got none"),
    "large threshold": ({"threshold": 1.5}, r"probability in 0\.\.1, got 1.5; pass sigmoid"),
    "few thresholds": ({"threshold": torch.full((3,), 0.5)}, r"each of the 5 labels, got shape \(3,\)"),
    "propensity of zero": ({"propensities": [0.5, 0.5, 0.5, 0.5, 0.0]}, PROPENSITIES),
    "few propensities": ({"propensities": [0.5]}, PROPENSITIES),
}


@pytest.mark.parametrize(("options", "message"), OPTIONS.values(), ids=OPTIONS)
def test_invalid_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LabelMetrics(5, **options)


def test_several_label_inputs_are_refused():
    prediction = SimpleNamespace(predictions=SCORES, label_ids=(LABELS, LABELS))
    with pytest.raises(ValueError, match=r"a single array .* got 2; set TrainingArguments\(label_names"):
        LabelMetrics(5)(prediction)


def test_an_empty_batch_counts_no_documents():
    metrics = LabelMetrics(5, seen=np.arange(5) < 2)
    metrics.update(SCORES[:0], LABELS[:0])
    with pytest.raises(ValueError, match="at least one document, got none"):
        metrics.compute()


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([1, -2], r"counts must be a number of at least 0 for each label, got \[1, -2\]"),
        ([[1, 2]], r"counts must be a number of at least 0 for each label, got \[\[1, 2\]\]"),
        ([1, 101], "a label has 101 training documents, but num_documents is 100"),
    ],
)
def test_invalid_counts_are_refused(counts, message):
    with pytest.raises(ValueError, match=message):
        propensities(counts, num_documents=100)
