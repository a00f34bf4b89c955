"""The table of benchmarks/accuracy.py: what is measured of a system, what is written, and what is printed."""

import json
import math
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from hf_gile import Label, LabelSet

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import accuracy  # noqa: E402
from accuracy_systems import LOWEST, SYSTEMS, Fitted, System, dense, logit, of_labels, write_svm  # noqa: E402
from accuracy_systems import words_of as words  # noqa: E402
from accuracy_task import Task, hold_out  # noqa: E402

GOLD = [[0, 2], [1, 3], [0]]
SCORES = torch.tensor([[2.0, -1.0, 1.0, -3.0], [-2.0, 1.5, -1.0, 3.0], [1.0, -2.0, -3.0, -4.0]])


@pytest.fixture
def task():
    """Three seen labels and an unseen one; the documents are their own places."""
    counts = [30, 20, 10, 0]
    labels = LabelSet([Label(f"D{place}", f"name {place}", seen=n > 0, count=n) for place, n in enumerate(counts)])
    seen = [[column for column in row if column < 3] for row in GOLD]
    return Task(
        name="three documents",
        texts={"train": ["x"] * 40, "validation": ["0", "1", "2"], "test": ["0", "1", "2"]},
        gold={"train": [[0]] * 40, "validation": seen, "test": GOLD},
        labels=labels,
        num_seen=3,
        other_texts=[["other 0"], [], [], []],
        recipe=("train_table.py", {"text": ["title"]}),
    )


def score(texts):
    return SCORES[[int(text) for text in texts]]


def test_a_system_that_scores_all_labels_is_measured_in_each_group(task):
    figures = accuracy.evaluate(task, score, unseen=True)
    test = figures["test"]
    assert test["average_precision"] == test["seen_average_precision"] == test["unseen_average_precision"] == 1.0
    assert test["unseen_documents"] == 1
    # Validation has no unseen gold labels; of those it has, the lowest is at 1.0, and only an unseen label is above it.
    assert figures["threshold"] == pytest.approx(1 / (1 + math.exp(-1)))
    assert test["micro_f1"] == 1.0


def test_unseen_labels_do_not_move_the_threshold_of_a_system_that_scores_them(task):
    def surer(texts):
        return score(texts) + torch.tensor([0.0, 0.0, 0.0, 9.0])

    seen_only = accuracy.evaluate(task, lambda texts: score(texts)[:, :3], unseen=False)
    figures = accuracy.evaluate(task, surer, unseen=True)
    assert figures["threshold"] == seen_only["threshold"]
    assert figures["test"]["seen_micro_f1"] == seen_only["test"]["seen_micro_f1"] == 1.0


def test_a_system_of_seen_labels_has_the_unseen_ones_last_and_no_figures_of_them(task):
    test = accuracy.evaluate(task, lambda texts: score(texts)[:, :3], unseen=False)["test"]
    assert not any(name.startswith("unseen_") for name in test)
    assert test["seen_average_precision"] == 1.0
    # The unseen gold label of the second document comes behind all others: (1/1 + 2/4) / 2.
    assert test["average_precision"] == pytest.approx((1 + 0.75 + 1) / 3)
    assert test["seen_micro_f1"] == 1.0
    assert test["micro_f1"] == pytest.approx(2 * 4 / (4 + 5))


def test_propensities_and_deciles_come_from_the_training_documents(task):
    test = accuracy.evaluate(task, score, unseen=True)["test"]
    assert test["psp_at_5"] == pytest.approx(1.0)
    # The rarest of the three seen labels is the first group, the most frequent the third.
    assert [test[f"decile_{place}_macro_f1"] for place in (1, 2, 3)] == [1.0, 1.0, 1.0]
    assert math.isnan(test["decile_4_macro_f1"])


def test_held_out_labels_leave_training_and_are_gold_in_the_test(task, monkeypatch):
    monkeypatch.setattr("accuracy_task.held_out_labels", lambda counts, share: ["D1"])
    held = hold_out(task, 0.5)
    assert held.labels.ids == ["D0", "D2", "D1"]
    assert held.labels.seen == [True, True, False]
    assert held.num_seen == 2
    assert held.gold["validation"] == [[0, 1], [], [0]]
    assert held.gold["test"] == [[0, 1], [2], [0]]
    assert held.texts["test"] == task.texts["validation"]
    assert held.other_texts == [["other 0"], [], []]
    assert [label.count for label in held.labels] == [30, 10, 0]


def test_a_share_that_holds_nothing_out_is_refused(task):
    with pytest.raises(ValueError, match="holds out none of 3 labels"):
        hold_out(task, 0.0)


def test_the_score_of_a_label_is_that_of_its_name_plus_the_best_of_its_texts():
    scores = torch.tensor([[0.1, 0.5, 0.2, 0.3]])  # a label of three texts, and one of a name alone
    assert of_labels(scores, np.array([0, 3]))[0].tolist() == pytest.approx([0.6, 0.6])
    assert of_labels(scores, None) is scores


def test_words_lose_the_s_of_a_plural_and_not_that_of_gas():
    assert words("Rats, GAS and X-rays") == ["rat", "gas", "and", "ray"]


def test_labels_that_a_tree_does_not_return_come_last():
    scores = logit(dense([[(2, 0.5), (0, 0.25)], []], num_labels=3))
    assert scores[0].tolist() == pytest.approx([math.log(0.25 / 0.75), LOWEST, 0.0])
    assert scores[1].tolist() == [LOWEST] * 3


def test_a_probability_of_one_is_the_best_score_and_finite():
    scores = logit(torch.tensor([[1.0, 0.999]]))
    assert scores[0, 0] > scores[0, 1]
    assert scores.isfinite().all()


def test_the_file_of_a_tree_library_has_sizes_labels_and_ascending_features(tmp_path):
    texts = sp.csr_matrix(np.array([[0.0, 0.5, 0.25], [1.0, 0.0, 0.0]], np.float32))
    texts.indices[:2], texts.data[:2] = [2, 1], [0.25, 0.5]  # scipy does not promise an order
    write_svm(tmp_path / "train.txt", texts, [[3, 1], []], num_labels=4)
    assert (tmp_path / "train.txt").read_text() == "2 3 4\n3,1 1:0.5 2:0.25\n 0:1\n"


def run_of(average_precision, unseen=None):
    test = dict.fromkeys(accuracy.COLUMNS.values(), 0.5) | {"average_precision": average_precision}
    test |= {f"seen_{name}": value for name, value in list(test.items())}
    if unseen is not None:
        test |= dict.fromkeys((f"unseen_{name}" for name in accuracy.COLUMNS.values()), unseen)
    for place in range(1, 11):
        test |= {f"decile_{place}_{name}": place / 100 for name in accuracy.DECILES.values()}
    cost = {"training_cpu_seconds": 1234.5, "training_seconds": 2000.0}
    speed = {"documents_per_second": 41.26, "documents_per_cpu_second": 80.0}
    return {**cost, **speed, "ten_best_documents_per_cpu_second": 512.0, "test": test}


def test_tables_have_means_and_spreads_of_the_seeds_and_leave_out_what_a_system_cannot_do():
    results = {
        "tibkat_en": {
            "tfidf_cosine": {"1": run_of(0.4, unseen=0.25)},
            "omikuji_parabel": {"1": run_of(0.5), "2": run_of(0.6)},
        }
    }
    tables = accuracy.tables(results)
    seen = tables["tibkat_en, seen labels"].splitlines()
    assert seen[0] == "|  | AvgPr | RL | OneErr | P@1 | P@3 | P@5 | nDCG@5 | PSP@5 | F1 | runs |"
    assert seen[1].count("---") == 11
    assert seen[2].startswith("| TF-IDF cosine, names | 40.00 | 50.00 |")
    assert seen[3].startswith("| omikuji, Parabel (default) | 55.00 ± 7.07 | 50.00 ± 0.00 |")
    assert seen[3].endswith("| 2 |")
    unseen = tables["tibkat_en, unseen labels"].splitlines()
    assert unseen[0] == seen[0].replace(" F1 |", "")  # no validation document tells of a threshold for them
    assert len(unseen) == 3
    assert unseen[2].startswith("| TF-IDF cosine, names | 25.00 |")
    assert tables["tibkat_en, cost"].splitlines()[3] == (
        "| omikuji, Parabel (default) | 1,234 | 2,000 | 80 | 41.3 | 512 | 2 |"
    )
    deciles = next(table for title, table in tables.items() if "macro F1" in title).splitlines()
    assert deciles[2] == "| TF-IDF cosine, names | " + " | ".join(f"{n}.00" for n in range(1, 11)) + " | 1 |"


@pytest.fixture
def options(tmp_path):
    return Namespace(
        data=tmp_path,
        sets=["tibkat_en"],
        systems=["tfidf_cosine", "omikuji_parabel"],
        seeds=[1, 2],
        threads=1,
        cache=tmp_path,
        held_out=0.0,
        epochs=None,
        runs=None,
        again=False,
    )


def test_what_has_been_run_is_kept_and_not_run_again(options, tmp_path, monkeypatch):
    started = []

    def run(script, *flags):
        started.append(flags[1:4])
        return "a library says something\n" + json.dumps(run_of(0.5)) + "\n"

    monkeypatch.setattr(accuracy, "in_own_process", run)
    path = tmp_path / "results" / "accuracy.json"
    known = {"tibkat_en": {"omikuji_parabel": {"1": run_of(0.25)}}}
    path.parent.mkdir()
    path.write_text(json.dumps(known))
    accuracy.run_all(options, known, path)
    # Nothing is drawn in a cosine, so one seed is all; the first one of the tree is there.
    assert started == [("tibkat_en", "tfidf_cosine", "1"), ("tibkat_en", "omikuji_parabel", "2")]
    written = json.loads(path.read_text())["tibkat_en"]
    assert {name: list(runs) for name, runs in written.items()} == {
        "omikuji_parabel": ["1", "2"],
        "tfidf_cosine": ["1"],
    }
    assert written["omikuji_parabel"]["1"]["test"]["average_precision"] == 0.25


def test_a_system_that_fails_does_not_stop_the_others_and_is_named_at_the_end(options, tmp_path, monkeypatch):
    def run(script, *flags):
        if "tfidf_cosine" in flags:
            raise RuntimeError("no room")
        return json.dumps(run_of(0.5))

    monkeypatch.setattr(accuracy, "in_own_process", run)
    with pytest.raises(SystemExit, match="tibkat_en, tfidf_cosine, seed 1: no room"):
        accuracy.run_all(options, {}, tmp_path / "accuracy.json")
    assert list(json.loads((tmp_path / "accuracy.json").read_text())["tibkat_en"]) == ["omikuji_parabel"]


def test_a_run_is_what_the_system_fits_and_what_it_says_of_its_training(task, options, monkeypatch):
    fit = Fitted(score, more_seconds=(1000.0, 500.0), details={"epochs": 3})
    monkeypatch.setitem(accuracy.SETS, "tibkat_en", lambda folder: task)
    monkeypatch.setitem(SYSTEMS, "tfidf_cosine", System("any", lambda task, seed, options: fit, unseen=True))
    figures = accuracy.measure(options, "tibkat_en", "tfidf_cosine", 1)
    assert 1000 <= figures["training_seconds"] < 1500
    assert 500 <= figures["training_cpu_seconds"] < 1000
    assert figures["epochs"] == 3
    assert figures["test"]["unseen_average_precision"] == 1.0
    assert json.loads(json.dumps(figures))["machine"]["torch"] == torch.__version__
