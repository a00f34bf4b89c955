"""Tests fail for every mutation in broken_lines.py."""

import subprocess
import sys
from pathlib import Path

import pytest
from broken_lines import MUTATIONS, ROOT


def test_each_mutated_line_occurs_exactly_once():
    for mutation in MUTATIONS:
        mutation.apply(ROOT)  # raises otherwise
        assert all((ROOT / "tests" / test).is_file() for test in mutation.tests.split()), mutation


@pytest.mark.slow
def test_every_mutation_makes_a_test_fail():
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("broken_lines.py"))], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
