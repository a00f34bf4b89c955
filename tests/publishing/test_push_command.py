"""`hf-gile push` against a Hub."""

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from hf_gile_cli.app import app

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=<...>' to upload:DeprecationWarning")


def push(*arguments):
    return CliRunner().invoke(app, ["push", *map(str, arguments)], prog_name="hf-gile")


def test_a_push_makes_one_commit_and_a_second_one_none(hub, make_saved):
    folder = make_saved()
    first = push(folder, "ada/milk", "--private", "--message", "Milk")
    assert first.exit_code == 0, first.output
    assert "new " in first.stdout
    assert "commit " in first.stderr
    again = push(folder, "ada/milk")
    assert again.exit_code == 0, again.output
    assert {line.split()[0] for line in again.stdout.splitlines()} == {"unchanged"}
    assert again.stderr.startswith("nothing has changed: ")


def test_a_token_that_may_not_write_is_named(hub, make_saved):
    refused = push(make_saved(), "ada/milk", "--token", "hf_bob")
    assert refused.exit_code == 1
    assert refused.stderr.startswith("hf-gile push: ")
    assert "403" in refused.stderr


def test_a_pushed_model_is_scored_with_and_shown_by_its_name(hub, make_saved, tmp_path):
    folder = make_saved()
    pushed = push(folder, "ada/milk", "--private")
    assert pushed.exit_code == 0, pushed.output
    environment = os.environ | {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "0"}

    def run(*arguments):
        command = [sys.executable, "-m", "hf_gile_cli", *arguments]
        return subprocess.run(command, env=environment, input="Rats were fed.\n", capture_output=True, text=True)

    scored, shown, absent = run("score", "ada/milk"), run("labels", "show", "ada/milk"), run("score", "ada/beer")
    here = CliRunner().invoke(app, ["score", str(folder)], input="Rats were fed.\n")
    assert (scored.returncode, scored.stdout) == (0, here.stdout)
    assert (shown.returncode, shown.stdout) == (0, CliRunner().invoke(app, ["labels", "show", str(folder)]).stdout)
    assert absent.returncode == 1
    assert absent.stderr.startswith("hf-gile score: ada/beer is no folder here, and the Hub does not give it: ")
