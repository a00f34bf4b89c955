"""The adapters of benchmarks/leaderboards.py fit the packages of the leaderboards, where these are installed."""

import json
import sys

import numpy as np
import pytest
import torch
from leaderboards import SKILLS, Scorer, main

TEXTS = ["Infants were fed with milk.", "A short text", "The heart of a rat, and its milk, for a longer text"]
LABELS = ["milk", "heart", "milk", "rats", "infant"]


@pytest.fixture
def scorer(make_model):
    return Scorer(*make_model())


def test_scores_do_not_depend_on_the_order_of_texts_and_labels(scorer):
    scores = scorer(TEXTS, LABELS, batch_size=2)
    assert scores.shape == (3, 5)
    assert scores[:, 0].equal(scores[:, 2])  # the same name
    turned = scorer(TEXTS[::-1], LABELS[::-1], batch_size=3)
    assert torch.allclose(scores, turned.flip(0, 1), atol=1e-5)


@pytest.fixture
def run(make_model, monkeypatch, tmp_path):
    """Runs the command with a model of this test, and returns the place of its output."""

    def run(leaderboard):
        output = tmp_path / "output"
        monkeypatch.setattr("leaderboards.load", lambda name: make_model())
        monkeypatch.setattr(sys, "argv", ["leaderboards.py", leaderboard, "--output", str(output)])
        main()
        return output

    return run


def test_btzsc_measures_a_model_and_ranks_it_among_its_baselines(run, monkeypatch, capsys):
    data = pytest.importorskip("btzsc.data", reason="pip install btzsc")
    texts = data.BTZSCDataset("agnews", TEXTS, ["milk", "heart", "rats"], np.array([0, 1, 2]), "topic", "news")
    monkeypatch.setattr(data, "load_all_datasets", lambda **options: {"agnews": texts})
    results = json.loads(run("btzsc").read_text())
    assert results["model"]["name"] == "general"
    assert results["model"]["model_type"] == "embedding"
    assert 0 <= results["results"]["by_task"]["topic"]["macro_f1"] <= 1
    assert "general" in capsys.readouterr().out


def test_workrb_measures_the_ranking_of_skills(run, monkeypatch, capsys):
    workrb = pytest.importorskip("workrb", reason="pip install workrb")
    from workrb.tasks.abstract.ranking_base import RankingDataset

    texts = RankingDataset(TEXTS, [[0], [1], [0, 2]], ["milk", "heart", "rats"], "en")
    for name in SKILLS:
        monkeypatch.setattr(getattr(workrb.tasks, name), "load_dataset", lambda *given, **names: texts)
    assert any(run("workrb").rglob("*.json"))
    assert "rp@10" in capsys.readouterr().out
