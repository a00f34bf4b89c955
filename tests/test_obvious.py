"""benchmarks/obvious.py: splits and labels of its data sets, its systems, metrics and page."""

import json
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, label_ranking_average_precision_score

from hf_gile import Label

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import obvious  # noqa: E402
import obvious_systems as systems  # noqa: E402
from obvious_sets import hold_out, make_task  # noqa: E402

TOPICS = {"cats": "cat purrs whiskers paw", "boats": "boat sails harbour mast", "bread": "flour oven dough yeast"}


def sentences(number, generator, topics):
    """Texts of three words of each topic, and a word that says nothing."""
    return [
        (" ".join([*generator.choice(words.split(), 3), generator.choice(["the", "a", "of"])]), [topic])
        for topic, words in topics.items()
        for _ in range(number)
    ]


@pytest.fixture
def one_label():
    generator = np.random.default_rng(0)
    documents = {part: sentences(number, generator, TOPICS) for part, number in {"train": 20, "test": 6}.items()}
    documents["validation"] = sentences(6, generator, TOPICS)
    return make_task("tiny", documents, [Label(topic, topic) for topic in TOPICS])


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


# --- Sets ------------------------------------------------------------------------------------------------------------


def test_seen_labels_come_first_and_unknown_labels_are_dropped(several_labels):
    assert several_labels.labels.ids == ["a", "b", "c", "d"]
    assert several_labels.labels.seen == [True, True, True, False]
    assert several_labels.num_seen == 3
    assert not several_labels.one_label
    task = make_task("x", {"train": [("t", ["a", "gone", "a"])], "test": [("u", ["a"])]}, [Label("a", "a")])
    assert task.gold == {"train": [[0]], "test": [[0]]}
    assert task.labels[0].count == 1


def test_held_out_labels_occur_only_in_the_test(several_labels, monkeypatch):
    monkeypatch.setattr("obvious_sets.held_out_labels", lambda counts, share: ["b"])
    held = hold_out(several_labels, 0.5)
    assert held.labels.ids == ["a", "c", "b"]
    assert held.labels.seen == [True, True, False]
    assert held.texts["test"] == held.texts["validation"] == several_labels.texts["validation"]
    old, new = several_labels.labels.ids, held.labels.ids
    for before, without, whole in zip(
        several_labels.gold["validation"], held.gold["validation"], held.gold["test"], strict=True
    ):
        assert {old[column] for column in before} == {new[column] for column in whole}
        assert set(without) == set(whole) - {2}


# --- Figures ---------------------------------------------------------------------------------------------------------


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


def test_unseen_labels_compete_with_all_but_the_seen_gold_labels(several_labels):
    test = obvious.evaluate(several_labels, random_scores, unseen=True)["test"]
    scores, precisions = random_scores(several_labels.texts["test"]), []
    for row, gold in zip(scores, several_labels.gold["test"], strict=True):
        if 3 in gold:
            rivals = [column for column in range(3) if column not in gold]
            precisions.append(1 / (1 + sum(row[column] > row[3] for column in rivals).item() if rivals else 1))
    assert test["unseen_among_all_average_precision"] == pytest.approx(np.mean(precisions))


def test_single_label_sets_use_the_best_label_and_no_threshold(one_label):
    def score(texts):
        assert texts == one_label.texts["test"][: len(texts)]
        return torch.tensor([[0.0, -1.0, -2.0]]).expand(len(texts), 3)

    test = obvious.evaluate(one_label, score, unseen=True)["test"]
    assert test["precision_at_1"] == test["micro_f1"] == pytest.approx(1 / 3)
    assert test["macro_f1"] == pytest.approx(0.5 / 3)
    assert set(test) == {*obvious.COLUMNS.values(), *obvious.ANNIF.values()}  # all of its labels are seen


# --- Systems ---------------------------------------------------------------------------------------------------------

OPTIONS = systems.Options(threads=1, cache=Path(), e5="")


def fit(name, task):
    return systems.SYSTEMS[name].fit(task, 1, OPTIONS)


def test_a_linear_classifier_learns_topics(one_label):
    test = obvious.evaluate(one_label, fit("chars_svc", one_label).score, unseen=False)["test"]
    assert test["precision_at_1"] == 1.0


def test_ours_gets_files_without_settings_or_test_texts(tmp_path):
    known = [Label("a", "first", "a thing", synonyms=("one",)), Label("b", "second")]
    documents = {"train": [("Title\nText\nmore", ["a"])], "validation": [("V\nw", ["a"])], "test": [("T\nsecret", [])]}
    task = make_task("titled", documents, known, titled=True)
    flags = systems.write_files(task, tmp_path)
    assert json.loads((tmp_path / "train.jsonl").read_text()) == {
        "title": "Title",
        "text": "Text\nmore",
        "labels": ["a"],
    }
    assert {flag for flag in flags if flag.startswith("--")} == {
        "--text",
        "--train_files",
        "--validation_files",
        "--test_files",
        "--label_file",
        "--label_description",
        "--label_synonyms",
    }
    assert not any("secret" in path.read_text() for path in tmp_path.iterdir())


@pytest.mark.slow
def test_ours_trains_and_scores_all_labels(one_label, tmp_path):
    options = systems.Options(threads=1, cache=tmp_path, e5="", keep=tmp_path)
    fitted = systems.ours(one_label, 1, options)
    scores = fitted.score(one_label.texts["test"])
    assert scores.shape == (18, 3)
    assert (scores.argmax(dim=1) == torch.tensor(one_label.gold["test"]).squeeze(1)).float().mean() > 0.8


# --- Runs and the page -----------------------------------------------------------------------------------------------


def run_of(figure, unseen=None):
    test = dict.fromkeys([*obvious.COLUMNS.values(), *obvious.ANNIF.values()], figure)
    if unseen is not None:
        test |= {f"seen_{name}": figure for name in obvious.COLUMNS.values()}
        test |= {
            prefix + name: unseen for prefix in ("unseen_", "unseen_among_all_") for name in test if "_f1" not in name
        }
    return {"training_cpu_seconds": 1234.5, "documents_per_cpu_second": 80.4, "threshold": 0.5, "test": test}


@pytest.fixture
def options(tmp_path):
    return Namespace(data=tmp_path, sets=["tibkat"], seeds=[1, 2], threads=1, cache=tmp_path, e5="", keep=None,
                     held_out=0.0, again=False)  # fmt: skip


def test_a_failing_run_does_not_stop_the_others(options, one_label, tmp_path, monkeypatch, capsys):
    def fails(folder, seed):
        return make_task("x", {"train": [], "validation": [], "test": []}, [Label("a", "a")])

    monkeypatch.setattr(obvious, "SETS", {"tibkat_en": fails, "tibkat_de": lambda folder, seed: one_label})
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)
    path = tmp_path / "obvious.json"
    with pytest.raises(SystemExit):
        obvious.run_system(options, "tfidf_svc", 1, path)
    assert "tibkat_en, tfidf_svc, seed 1: ValueError" in capsys.readouterr().out
    written = json.loads(path.read_text())
    assert list(written) == ["tibkat_de"]
    run = written["tibkat_de"]["tfidf_svc"]["1"]
    assert run["test"]["precision_at_1"] == 1.0
    assert run["details"] == {"C": 1.0}
    assert run["machine"]["torch"] == torch.__version__
    options.sets = ["tibkat_de"]
    obvious.run_system(options, "tfidf_described", 1, path)
    assert "left out" in capsys.readouterr().out


def test_tables_show_means_over_seeds_and_omit_missing_metrics():
    results = {
        "clinc150_unseen": {"ours": {"1": run_of(0.5, 0.25), "2": run_of(0.6, 0.35)}, "tfidf_svc": {"1": run_of(0.6)}},
        "sib200_english": {"ours": {"1": run_of(0.5)}, "bm25": {"1": run_of(0.4)}},
        "sib200_german": {"ours": {"1": run_of(0.7)}, "bm25": {"1": run_of(0.4)}},
        "annif_en": {"parabel": {"1": run_of(0.3)}},
    }
    tables = obvious.tables(results)
    assert list(tables) == ["clinc150_unseen", "sib200, P@1 by language", "annif_en"]
    unseen = tables["clinc150_unseen"].splitlines()
    assert unseen[0].startswith("|  | seen AvgPr | seen P@1 |")
    assert unseen[2] == (
        "| ours, nothing set | 55.0 | 55.0 | 55.0 | 55.0 | 30.0 | 30.0 | 30.0 | 30.0 "
        "| 55.0 | 55.0 | 55.0 | 55.0 | 1,234 | 80 | 2 |"
    )
    assert unseen[3].startswith("| TF-IDF, linear SVM | - | - | - | - | - | - | - | - | 60.0 |")
    assert tables["sib200, P@1 by language"].splitlines()[2] == "| ours, nothing set | 50.0 | 70.0 | 1,234 | 80 | 1 |"
    assert tables["annif_en"].splitlines()[0] == "|  | F1@5 | NDCG | training, CPU s | documents/CPU s | runs |"
    beside = obvious.beside(results).splitlines()
    assert "| clinc150_unseen | AvgPr | 55.0 | 60.0 | TF-IDF, linear SVM | -5.0 |" in beside
    assert "| sib200 | P@1 | 60.0 | 40.0 | BM25, names | +20.0 |" in beside


def test_the_page_equals_the_benchmark_output():
    results = obvious.read(obvious.RESULTS / "obvious.json")
    assert obvious.PAGE.read_text(encoding="utf-8") == obvious.page(results)
    assert obvious.front_table(results) in obvious.README.read_text(encoding="utf-8")
