"""Two processes train the same model as a single process, with all labels in each or with shared labels."""

import os
import subprocess
import sys
from pathlib import Path

import processes
import pytest
import torch
from safetensors.torch import load_file

pytestmark = pytest.mark.slow

MODES = ["ddp-whole-sigmoid", "ddp-shared-sigmoid", "ddp-shared-softmax"]
MODES += ["fsdp-whole-softmax", "fsdp-shared-sigmoid", "fsdp-shared-softmax"]


def run(*arguments):
    """Runs the script in two processes."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    command = [*launch, Path(processes.__file__), *arguments]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-3000:]


def assert_equal(actual, expected):
    assert actual.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(actual[name], tensor, rtol=1e-10, atol=1e-10)


def test_two_processes_reach_the_weights_of_a_single_process(tmp_path):
    run(tmp_path, *MODES)
    for loss in ("sigmoid", "softmax"):
        _, expected = processes.train(["single", "logits", loss])
        assert expected["losses"][2] < expected["losses"][0]
        for mode in (mode for mode in MODES if mode.endswith(loss)):
            assert_equal(load_file(tmp_path / f"{mode}.safetensors"), expected)


def test_an_uneven_last_batch_does_not_change_the_trained_weights(tmp_path):
    kinds = ["trainer-logits-sigmoid", "trainer-chunks-sigmoid", "trainer-chunks-softmax"]
    run(tmp_path, *(f"ddp-{kind}" for kind in kinds))
    for kind in kinds:
        _, expected = processes.train_with_trainer(["single", *kind.split("-")])
        assert_equal(load_file(tmp_path / f"ddp-{kind}.safetensors"), expected)


def test_processes_that_share_labels_must_have_equal_inputs(tmp_path):
    run(tmp_path, "differ")
    first, second = ((tmp_path / f"differ-{rank}.txt").read_text().splitlines() for rank in (0, 1))
    messages = ["documents: 3 to 4", "checksum of the labels: ", "checksum of the labels: 0 to ", "excluded_columns"]
    messages.append("column_weights are for a sample")
    assert first[:5] == second[:5]
    for line, message in zip(first, messages, strict=False):
        assert message in line
    assert all(float(line) > 0 for line in (first[5], second[5]))  # padded to the widest batch
