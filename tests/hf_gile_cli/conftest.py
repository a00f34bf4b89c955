import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest


@pytest.fixture
def datasets_cache(tmp_path, monkeypatch):
    """Sets the cache folder of `datasets` to the folder of the test."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def start():
    """Starts the command in a separate process."""
    processes = []

    def start_command(*arguments, **options):
        settings = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        command = [sys.executable, "-m", "hf_gile_cli", *map(str, arguments)]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        # Processes started by a shell in the background ignore interrupts.
        settings["preexec_fn"] = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        processes.append(subprocess.Popen(command, env=environment, **settings | options))
        return processes[-1]

    yield start_command
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def saved_model(tmp_path, tmp_path_factory, make_model):
    """Returns the folder of a saved model with five labels, of which a single label is seen."""
    original = tmp_path_factory.getbasetemp() / "saved_model"  # saved once, then copied
    if not original.exists():
        model, processor = make_model(problem_type="multi_label_classification")
        model.set_labels(model.label_set.with_counts({"Iron": 7}), processor)
        for part in (model, processor):
            part.save_pretrained(original)
    return Path(shutil.copytree(original, tmp_path / "model"))
