"""Training with two processes on a CPU, as in docs/cli.md."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from topics import write_record_parts

from hf_gile.resources import resource

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"

pytestmark = pytest.mark.slow


@pytest.fixture
def launch(tmp_path):
    """Trains with accelerate; returns what the processes say, and their results."""

    def run(launcher, recipe, flags):
        words = f"-m accelerate.commands.launch {launcher} {resource(f'recipes/{recipe}.py')} {flags}"
        command = [sys.executable, *words.split(), "--output_dir", "out"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout + done.stderr, json.loads((tmp_path / "out" / "results.json").read_text())

    return run


def test_accelerate_trains_in_two_processes_on_a_cpu(launch, save_text_encoder, tmp_path):
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    (command,) = re.findall(
        r"`accelerate launch (--multi_gpu .*?) \$\(hf-gile train --where\) (.*?) --config mine.yaml`", page
    )
    words = ("milk", "iron", "heart", "blood")
    rows = [f"{word} {word} notes {number},{word.title()}\n" for number in range(20) for word in words]
    (tmp_path / "notes.csv").write_text("".join(["text,labels\n", *rows]))
    (tmp_path / "mine.yaml").write_text(json.dumps({"train_files": "notes.csv", "text_encoder": save_text_encoder()}))
    launcher, flags = command
    said, results = launch(launcher, "train_table", f"{flags} --config mine.yaml")
    assert "FSDP" not in said
    assert set(results) == {"tfidf_linear_svm", "auto"}
    assert "chosen" in results["auto"]


def test_two_processes_share_labels_and_fsdp_on_a_cpu_is_called_ignored(launch, tmp_path):
    files = f"{write_record_parts(tmp_path)} --make_cards false"
    labels = "--units gile --num_negatives 0 --label_chunk_size 2 --share_labels"
    sizes = "--embedding_size 37 --joint_size 41 --min_count 1"
    steps = "--num_train_epochs 8 --per_device_train_batch_size 5 --word_dropout 0.1 --use_cpu --seed 1"
    launcher = "--use_fsdp --fsdp_version 2 --num_processes 2"
    said, results = launch(launcher, "train_bioasq", f"{files} {labels} {sizes} {steps}")
    assert "training in 2 processes" in said
    assert "FSDP is ignored on a CPU" in said
    assert said.count("no document left out has unseen labels") == 1
    assert results["gile"]["test"]["test_documents"] == 30
    assert results["gile"]["test"]["test_seen_average_precision"] > 0.9
