"""Training with two processes on a CPU, as in docs/cli.md."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["gile", "auto"])
def test_torchrun_trains_in_two_processes_on_a_cpu(tmp_path, save_text_encoder, unit):
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    (command,) = re.findall(r"`torchrun (.*?) \$\(hf-gile train --where\) (.*?) --config mine.yaml`", page)
    words = ("milk", "iron", "heart", "blood")
    rows = [f"{word} {word} notes {number},{word.title()}" for number in range(20) for word in words]
    (tmp_path / "notes.csv").write_text("\n".join(["text,labels", *rows]) + "\n")
    settings = {"train_files": ["notes.csv"], "output_dir": "out", "num_train_epochs": 1, "min_count": 1}
    settings |= {"text_encoder": save_text_encoder()} if unit == "auto" else {}
    settings |= {"units": [unit], "per_device_train_batch_size": 7, "make_cards": False}
    (tmp_path / "mine.yaml").write_text(json.dumps(settings))
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    launcher = [sys.executable, "-m", "torch.distributed.run", *command[0].split()]
    recipe = subprocess.run(
        [sys.executable, "-m", "hf_gile_cli", "train", "--where"], capture_output=True, text=True, check=True
    ).stdout.strip()
    run = subprocess.run(
        [*launcher, recipe, *command[1].split(), "--config", "mine.yaml"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert "training in 2 processes" in run.stdout + run.stderr or unit == "auto"
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert set(results) == {"tfidf_linear_svm", unit}
    assert ("chosen" in results[unit]) == (unit == "auto")
