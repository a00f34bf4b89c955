"""Training tasks: problem types, held-out labels, and the metric for model selection."""

import numpy as np
import pytest
from datasets import Dataset

from hf_gile import Label, LabelSet
from hf_gile.training.task import (
    TextTask,
    as_read,
    check_metric,
    hold_out,
    metric_name,
    problem_type_of,
    stored_rule,
    words_of,
)


def test_texts_come_from_a_column_or_a_function():
    rows = {"train": Dataset.from_dict({"a": ["x", "y"], "b": ["z", "w"]})}
    labels = LabelSet.from_names(["iron"])
    assert list(TextTask(rows, labels, "b").texts("train", 1)) == ["z"]
    assert list(TextTask(rows, labels, lambda row: row["a"] + row["b"]).texts("train")) == ["xz", "yw"]


@pytest.mark.parametrize(
    ("requested", "gold", "expected"),
    [
        (None, [["a"], ["b"]], "single_label_classification"),
        (None, [["a"], ["b", "a"]], "multi_label_classification"),
        ("multi_label_classification", [["a"], ["b"]], "multi_label_classification"),
    ],
)
def test_the_problem_type_follows_from_the_documents(requested, gold, expected):
    parts = {"train": Dataset.from_dict({"tags": [["a"]]}), "test": Dataset.from_dict({"tags": gold})}
    assert problem_type_of(parts, "tags", requested) == expected
    if expected == "multi_label_classification" and requested is None:
        with pytest.raises(ValueError, match=r"document 1 of test has 2 labels"):
            problem_type_of(parts, "tags", "single_label_classification")


@pytest.mark.parametrize("part", ["train", "validation"])
def test_a_label_is_assigned_in_any_case_unless_there_are_negatives(part):
    parts = {name: Dataset.from_dict({"tags": [["a"], ["b", "a"]]}) for name in ("train", "validation")}
    assert stored_rule(parts, "tags") == {"at_least": 1}
    assert stored_rule({**parts, part: Dataset.from_dict({"tags": [["a"], []]})}, "tags") == {}


def test_word_vectors_start_from_a_file_if_available(tmp_path):
    (tmp_path / "vectors.txt").write_text("milk 1 0\niron 0 2\n")
    texts = ["milk heart heart", "milk heart"]
    tokenizer, vectors = words_of(texts, ["rare"], 2, None, keep_vectors=False)
    assert vectors is None
    assert {"milk", "heart", "rare"} <= tokenizer.get_vocab().keys()
    path = str(tmp_path / "vectors.txt")
    tokenizer, vectors = words_of(texts, [], 2, path, keep_vectors=True)
    assert {"milk", "iron"} <= tokenizer.get_vocab().keys()
    assert "heart" not in tokenizer.get_vocab()
    np.testing.assert_allclose(vectors[tokenizer.get_vocab()["iron"]], [0, 2])
    tokenizer, vectors = words_of(texts, [], 2, path, keep_vectors=False)
    assert len(tokenizer) == len(vectors)
    assert "heart" in tokenizer.get_vocab()


def test_held_out_labels_are_reproducible_and_follow_seen_labels():
    labels = LabelSet([*(Label(f"D{n}", f"name {n}", seen=True, count=n) for n in range(2, 30)), Label("U", "unseen")])
    held, ids = hold_out(labels, 5)
    assert len(ids) == 5
    assert [label.id for label in held][-1] == "U"
    assert {label.id for label in held[23:28]} == ids
    assert all(label.count == 0 and not label.seen for label in held[23:])
    assert all(label.seen and label.count for label in held[:23])
    assert not ids & {"D2", "D3", "D4"}  # too rare to be held out
    assert hold_out(LabelSet(reversed(labels)), 5)[1] == ids
    with pytest.raises(ValueError, match="held_out_labels 26: only 25 of 28 seen labels"):
        hold_out(labels, 26)


def test_labels_are_read_by_name_or_with_synonyms_but_stay_distinct():
    iron = Label("1", "iron", "a metal", synonyms=("ferrum", "Fe"))
    labels = LabelSet([iron, Label("2", "a", "one"), Label("3", "a", "other")])
    assert as_read(labels, "name").texts == ["iron", "a: one", "a: other"]
    assert as_read(labels, "synonyms").texts == ["iron: ferrum; Fe", "a: one", "a: other"]
    assert as_read(labels, "definitions") is labels


def test_the_epoch_is_chosen_by_the_requested_metric():
    assert metric_name(None, True) == metric_name("loss", True) == "eval_validation_seen_average_precision"
    assert metric_name("loss", False) == "eval_validation_average_precision"
    assert metric_name("validation_unseen_ndcg_at_5", True) == "eval_validation_unseen_ndcg_at_5"
    assert metric_name("eval_validation_unseen_ndcg_at_5", False) == "eval_validation_ndcg_at_5"
    assert metric_name(None, False, True) == "eval_validation_accuracy"
    assert metric_name(None, True, True) == "eval_validation_seen_accuracy"
    with pytest.raises(ValueError, match="does not compute 'recall_at_9'; did you mean"):
        check_metric("recall_at_9", (5,))
