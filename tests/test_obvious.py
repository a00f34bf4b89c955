"""benchmarks/obvious.py: splits and labels of its data sets, its systems and metrics."""

import json

import numpy as np
import obvious
import obvious_systems as systems
import pytest
import torch
from obvious_sets import make_task
from sklearn.metrics import f1_score, label_ranking_average_precision_score

from hf_gile import Label


@pytest.fixture
def several_labels():
    """Four labels, the last of which has no training document; random gold labels, and texts that are numbers."""
    generator = np.random.default_rng(1)

    def rows(number, labels):
        return [
            (str(place), [label for label in labels if generator.random() < 0.5] or [labels[place % len(labels)]])
            for place in range(number)
        ]

    documents = {"train": rows(30, "abc"), "validation": rows(20, "abc"), "test": rows(40, "abcd")}
    return make_task("several", documents, [Label(name, f"label {name}") for name in "dabc"])


def random_scores(texts):
    rows = [np.random.default_rng(int(text)).normal(size=4) for text in texts]
    return torch.tensor(np.stack(rows), dtype=torch.float32)


def multi_hot(gold, columns):
    return np.array([[column in row for column in columns] for row in gold]).astype(int)


def test_seen_labels_come_first_and_unknown_labels_are_dropped(several_labels):
    assert several_labels.labels.ids == ["a", "b", "c", "d"]
    assert several_labels.labels.seen == [True, True, True, False]
    assert several_labels.num_seen == 3
    assert not several_labels.one_label
    task = make_task("x", {"train": [("t", ["a", "gone", "a"])], "test": [("u", ["a"])]}, [Label("a", "a")])
    assert task.gold == {"train": [[0]], "test": [[0]]}
    assert task.labels[0].count == 1


def test_metrics_equal_scikit_learn(several_labels):
    task = several_labels
    figures = obvious.evaluate(task, random_scores, unseen=True)
    test, gold = figures["test"], task.gold["test"]
    scores = random_scores(task.texts["test"]).numpy()
    predicted = (torch.from_numpy(scores).sigmoid() >= figures["threshold"]).numpy()
    for prefix, columns in {"": range(4), "seen_": range(3), "unseen_": [3]}.items():
        targets = multi_hot(gold, columns)
        ranked = targets.any(axis=1)
        own = scores[:, list(columns)]
        precision = label_ranking_average_precision_score(targets[ranked], own[ranked])
        assert test[f"{prefix}average_precision"] == pytest.approx(precision)
        hits = targets[np.arange(len(own)), own.argmax(axis=1)][ranked]
        assert test[f"{prefix}precision_at_1"] == pytest.approx(hits.mean())
        if prefix != "unseen_":
            for average in ("micro", "macro"):
                f1 = f1_score(targets, predicted[:, list(columns)], average=average, zero_division=0)
                assert test[f"{prefix}{average}_f1"] == pytest.approx(f1)


def test_the_threshold_is_tuned_for_seen_labels_on_validation_documents(several_labels):
    task = several_labels
    threshold = obvious.evaluate(task, random_scores, unseen=True)["threshold"]
    scores = random_scores(task.texts["validation"]).numpy()[:, :3]
    targets = multi_hot(task.gold["validation"], range(3))
    probabilities = 1 / (1 + np.exp(-scores.astype(np.float64)))
    f1 = [f1_score(targets, probabilities >= least, average="micro") for least in np.unique(probabilities)]
    best = f1_score(targets, probabilities >= threshold - 1e-9, average="micro")
    assert best == pytest.approx(max(f1))


def test_single_label_sets_use_the_best_label_and_no_threshold():
    rows = [(f"text {number} of {topic}", [topic]) for topic in "abc" for number in range(6)]
    parts = dict.fromkeys(("train", "validation", "test"), rows)
    task = make_task("tiny", parts, [Label(name, name) for name in "abc"])

    def score(texts):
        assert texts == task.texts["test"][: len(texts)]
        return torch.tensor([[0.0, -1.0, -2.0]]).expand(len(texts), 3)

    test = obvious.evaluate(task, score, unseen=True)["test"]
    assert test["precision_at_1"] == test["micro_f1"] == pytest.approx(1 / 3)
    assert test["macro_f1"] == pytest.approx(0.5 / 3)
    assert set(test) == {*obvious.COLUMNS.values(), *obvious.ANNIF.values()}  # all of its labels are seen


def test_ours_gets_files_without_settings_or_test_texts(tmp_path):
    known = [Label("a", "first", "a thing", synonyms=("one",)), Label("b", "second")]
    documents = {"train": [("Title\nText\nmore", ["a"])], "validation": [("V\nw", ["a"])], "test": [("T\nsecret", [])]}
    task = make_task("titled", documents, known, titled=True)
    flags = systems.write_files(task, tmp_path)
    row = {"title": "Title", "text": "Text\nmore", "labels": ["a"]}
    assert json.loads((tmp_path / "train.jsonl").read_text()) == row
    expected = {"--text", "--train_files", "--validation_files", "--test_files"}
    expected |= {"--label_file", "--label_description", "--label_synonyms"}
    assert {flag for flag in flags if flag.startswith("--")} == expected
    assert not any("secret" in path.read_text() for path in tmp_path.iterdir())
