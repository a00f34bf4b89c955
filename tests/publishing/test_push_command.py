"""`hf-gile push` against a Hub."""

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
