"""The adapters of benchmarks/leaderboards.py fit the packages of the leaderboards, where these are installed."""

import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from leaderboards import Scorer, for_btzsc, for_workrb  # noqa: E402

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


def test_btzsc_measures_a_model(scorer, monkeypatch, tmp_path):
    benchmark = pytest.importorskip("btzsc")
    from btzsc import data

    references = scorer(TEXTS, LABELS[1:]).argmax(1).numpy()
    made_up = data.BTZSCDataset("agnews", TEXTS, LABELS[1:], references, "topic", "news")
    monkeypatch.setattr(data, "load_btzsc_dataset", lambda name, **options: made_up)
    results = benchmark.BTZSCBenchmark(["agnews"]).evaluate(for_btzsc(scorer, "tiny"), show_progress=False)
    assert results.per_dataset()["macro_f1"].tolist() == [1.0]
    assert results.to_json(tmp_path / "results.json")["evaluation"]["precision"] == "float32"
    assert results.compare_baselines(metric="f1")["model"][0] == "tiny"


def test_workrb_measures_a_model(scorer, tmp_path):
    workrb = pytest.importorskip("workrb")
    from workrb.tasks import HouseSkillExtractRanking, RankingDataset

    best = scorer(TEXTS, LABELS).topk(2).indices.tolist()

    class MadeUp(HouseSkillExtractRanking):
        def load_dataset(self, dataset_id, split):
            return RankingDataset(TEXTS, best, LABELS, dataset_id)

    model = for_workrb(scorer, "tiny")
    task = MadeUp(split="test", languages=["en"])
    results = workrb.evaluate(model, [task], output_folder=str(tmp_path / "out"))
    (measured,) = results.task_results.values()
    assert measured.datasetid_results["en"].metrics_dict["rp@10"] == 1
