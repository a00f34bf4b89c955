"""Two processes train the same model as a single process, with all labels in each or with shared labels."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("processes.py")
LOSSES = ["sigmoid", "softmax", "decoupled"]
MODES = {
    kind: [f"{kind}-{labels}-{loss}" for labels in ("whole", "shared") for loss in LOSSES] for kind in ("ddp", "fsdp")
}


def run(*arguments, processes):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    launch = [sys.executable]
    if processes > 1:
        launch += ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    command = [*launch, SCRIPT, *arguments]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-3000:]


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """Returns weights and losses after three steps, by mode."""
    folder = tmp_path_factory.mktemp("weights")
    run(folder, *(f"single-logits-{loss}" for loss in LOSSES), processes=1)
    for modes in MODES.values():
        run(folder, *modes, processes=2)
    return {file.stem: load_file(file) for file in folder.iterdir()}


@pytest.mark.parametrize("mode", MODES["ddp"] + MODES["fsdp"])
def test_two_processes_reach_the_weights_of_a_single_process(weights, mode):
    expected = weights[f"single-logits-{mode.rpartition('-')[2]}"]
    assert weights[mode].keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(weights[mode][name], tensor, rtol=1e-10, atol=1e-10)
    assert expected["losses"][2] < expected["losses"][0]


@pytest.mark.slow
def test_an_uneven_last_batch_does_not_change_the_trained_weights(tmp_path):
    kinds = [f"{labels}-{loss}" for labels in ("logits", "chunks") for loss in LOSSES]
    run(tmp_path, *(f"single-trainer-{kind}" for kind in kinds), processes=1)
    run(tmp_path, *(f"ddp-trainer-{kind}" for kind in kinds), processes=2)
    for kind in kinds:
        expected, actual = (load_file(tmp_path / f"{mode}-trainer-{kind}.safetensors") for mode in ("single", "ddp"))
        for name, tensor in expected.items():
            torch.testing.assert_close(actual[name], tensor, rtol=1e-10, atol=1e-10)


def test_processes_that_share_labels_must_have_equal_inputs(tmp_path):
    run(tmp_path, "differ", processes=2)
    first, second = ((tmp_path / f"differ-{rank}.txt").read_text().splitlines() for rank in (0, 1))
    messages = ["documents: 3 to 4", "checksum of the labels: ", "checksum of the labels: 0 to ", "excluded_columns"]
    messages.append("column_weights are for a sample")
    assert first[:5] == second[:5]
    for line, message in zip(first, messages, strict=False):
        assert message in line
    assert all(float(line) > 0 for line in (first[5], second[5]))  # padded to the widest batch
