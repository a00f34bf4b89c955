"""Training with two processes on a CPU, as in docs/cli.md."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hf_gile.resources import resource

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


@pytest.fixture
def train(tmp_path, save_text_encoder):
    """Trains a unit on notes with a launcher; returns its standard output and the folder of the run."""
    words = ("milk", "iron", "heart", "blood")
    rows = [f"{word} {word} notes {number},{word.title()}" for number in range(20) for word in words]
    (tmp_path / "notes.csv").write_text("\n".join(["text,labels", *rows]) + "\n")

    def run(launcher, flags, unit):
        recipe = resource(f"recipes/train_{'table' if unit == 'auto' else 'units'}.py")
        settings = {"train_files": ["notes.csv"], "output_dir": "out", "num_train_epochs": 1}
        settings |= {"text_encoder": save_text_encoder()} if unit == "auto" else {"units": [unit], "min_count": 1}
        settings |= {"per_device_train_batch_size": 7, "make_cards": False}
        (tmp_path / "mine.yaml").write_text(json.dumps(settings))
        command = [sys.executable, "-m", *launcher, str(recipe), *flags, "--config", "mine.yaml"]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout + done.stderr, tmp_path / "out"

    return run


@pytest.mark.slow
def test_accelerate_trains_in_two_processes_on_a_cpu(train):
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    (command,) = re.findall(
        r"`accelerate launch (--multi_gpu .*?) \$\(hf-gile train --where\) (.*?) --config mine.yaml`", page
    )
    launcher, flags = (part.split() for part in command)
    said, folder = train(["accelerate.commands.launch", *launcher], flags, "auto")
    assert "FSDP" not in said
    results = json.loads((folder / "results.json").read_text())
    assert set(results) == {"tfidf_linear_svm", "auto"}
    assert "chosen" in results["auto"]


@pytest.mark.slow
def test_fsdp_on_a_cpu_is_called_ignored(train):
    launcher = ["accelerate.commands.launch", "--use_fsdp", "--fsdp_version", "2", "--num_processes", "2"]
    said, folder = train(launcher, ["--use_cpu", "--no_baselines"], "gile")
    assert "training in 2 processes" in said
    assert "FSDP is ignored on a CPU" in said
    assert (folder / "gile" / "model" / "model.safetensors").is_file()
