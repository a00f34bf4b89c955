"""Two processes train the model of one: with all labels in each, or with the labels shared among them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

SCRIPT = Path(__file__).with_name("processes.py")
LOSSES = ["sigmoid", "softmax", "decoupled"]
MODES = {
    kind: [f"{kind}-{labels}-{loss}" for labels in ("whole", "shared") for loss in LOSSES] for kind in ("ddp", "fsdp")
}


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """Weights and losses after three steps, by mode."""
    folder = tmp_path_factory.mktemp("weights")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    commands = [[sys.executable, SCRIPT, folder, *(f"one-logits-{loss}" for loss in LOSSES)]]
    commands += [[*launch, SCRIPT, folder, *modes] for modes in MODES.values()]
    for command in commands:
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr[-3000:]
    return {file.stem: load_file(file) for file in folder.iterdir()}


@pytest.mark.parametrize("mode", MODES["ddp"] + MODES["fsdp"])
def test_two_processes_end_with_the_weights_of_one(weights, mode):
    expected = weights[f"one-logits-{mode.rpartition('-')[2]}"]
    assert weights[mode].keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(weights[mode][name], tensor, rtol=1e-10, atol=1e-10)
    assert expected["losses"][2] < expected["losses"][0]
