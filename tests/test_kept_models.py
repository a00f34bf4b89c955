"""Benchmarks of stored models, on a tiny model."""

import sys
from pathlib import Path

import pytest
import torch

from hf_gile import LabelSet

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import audit
import shortlist
from obvious_sets import Task
from saved_models import SavedModel


@pytest.fixture
def kept(make_model, label_set, tmp_path):
    model, processor = make_model(problem_type="multi_label_classification")
    # The seen labels come first in a task, wherever the model has them.
    labels = LabelSet(reversed(label_set)).with_counts({label.id: 3 for label in label_set[1:]})
    model.set_labels(LabelSet(label for label in reversed(labels)), processor)
    generator = torch.Generator().manual_seed(1)
    texts = ["Breast milk and iron.", "The heart.", "Infants were fed.", "Blood was drawn."] * 40
    parts = ("train", "validation", "test")
    gold = {part: [torch.randperm(5, generator=generator)[:2].tolist() for _ in texts] for part in parts}
    gold["validation"] = [[column for column in row if column < 4] for row in gold["validation"]]
    return SavedModel(Task("tiny", dict.fromkeys(parts, texts), gold, labels), model, processor, tmp_path)


def test_logits_follow_the_order_of_the_task_and_are_cached(kept):
    found = kept.logits("test", 3)
    words = kept.processor(kept.task.texts["test"][:3], return_tensors="pt")
    expected = kept.model(**words).logits[:, kept.model.label_set.columns(kept.task.labels.ids)]
    assert torch.allclose(found, expected, atol=1e-5)
    kept.processor.max_words = 1  # nothing is read again
    assert torch.equal(kept.logits("test", 3), found)


def test_the_audit_is_measured(kept, monkeypatch):
    monkeypatch.setattr(audit, "DRIFTING", 2)
    monkeypatch.setattr(audit, "AT", (10,))
    figures = audit.measure(kept, {}, 1000)
    runs = figures["corrupted"]["frequent"]
    assert runs["number"] == round(0.1 * 320)
    assert runs["share"]["wrong"] == pytest.approx(0.1)
    assert {*runs["wrong"]} == {"audit", "tfidf_cosine", "frequency", "chance"}
    assert {*figures["drift"]} == {"random", "topics"}
    assert all(0 <= share <= 1 for shares in figures["drift"].values() for share in shares.values())


def test_shortlists_are_measured_for_each_group():
    scores = torch.arange(60.0).expand(2, 60)
    found = shortlist.of_lists(lambda rows: scores[rows], [[59, 0], [45]], num_seen=50)
    assert found == {
        "all_10": 0.25,
        "all_20": 0.75,
        "all_50": 0.75,
        "seen_10": 0.0,
        "seen_20": 0.5,
        "seen_50": 0.5,
        "unseen_10": 1.0,
        "unseen_20": 1.0,
        "unseen_50": 1.0,
    }
