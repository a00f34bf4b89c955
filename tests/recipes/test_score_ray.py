import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytest.importorskip("ray")

import score_ray
from on_ray import ROWS, TEXTS

from hf_gile.scoring import GileScorer


@pytest.mark.slow  # Ray starts processes that import torch
def test_a_killed_actor_neither_loses_nor_repeats_rows(make_model, tmp_path):
    for part in make_model(problem_type="multi_label_classification"):
        part.save_pretrained(tmp_path / "model")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "RAY_worker_niceness": "0",  # by default 15, and workers die where that is less than the test has
        "RAY_raylet_start_wait_time_s": "300",  # on a busy machine
    }
    script = str(Path(__file__).with_name("on_ray.py"))
    subprocess.run([sys.executable, script, str(tmp_path / "model"), str(tmp_path)], env=environment, check=True)

    assert (tmp_path / "killed").exists()
    assert len(list(tmp_path.glob("*.actor"))) >= 2  # the killed actor and its successor; the other may start too late
    rows = sorted(pq.read_table(tmp_path / "scored").to_pylist(), key=lambda row: row["id"])
    assert [row["id"] for row in rows] == list(range(ROWS))
    expected = GileScorer(tmp_path / "model", top_k=2)({"text": TEXTS})
    for row in rows:
        assert row["labels"] == expected["labels"][row["id"] % len(TEXTS)]
        assert row["scores"] == pytest.approx(expected["scores"][row["id"] % len(TEXTS)], rel=1e-5)


def test_actors_that_take_all_cores_are_refused(monkeypatch):
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 3})
    with pytest.raises(ValueError, match=r"3 actors take all 3 cores .*leave at least one for reading and writing"):
        score_ray.add_scores(None, "model", 3)
