"""`hf-gile push` against a Hub."""

from huggingface_hub import constants
from typer.testing import CliRunner

from hf_gile_cli.app import app


def push(*arguments):
    return CliRunner().invoke(app, ["push", *map(str, arguments)], prog_name="hf-gile")


def test_a_second_push_without_changes_makes_no_commit(hub, make_saved):
    folder = make_saved()
    first = push(folder, "ada/milk", "--private", "--message", "Milk")
    assert first.exit_code == 0, first.output
    assert "new " in first.stdout
    assert "commit " in first.stderr
    repeated = push(folder, "ada/milk")
    assert repeated.exit_code == 0, repeated.output
    assert repeated.stdout == ""
    assert repeated.stderr.startswith("nothing has changed: ")


def test_a_dry_run_announces_a_new_repository_or_pull_request(hub, make_saved):
    folder = make_saved()
    message = "ada/milk does not exist or is not visible with this token: it would be created, "
    for flags, kind in (([], "private or public by its owner's settings"), (["--private"], "private")):
        assert f"{message}{kind}\n" in push(folder, "ada/milk", "--dry-run", *flags).stderr
    assert hub.repositories == {}
    hub.create("ada/milk")
    proposed = push(folder, "ada/milk", "--dry-run", "--create-pr").stderr
    assert "would be created" not in proposed
    assert f", as a pull request: {hub.url}/ada/milk\n" in proposed


def test_a_pushed_model_can_be_used_by_its_hub_name(hub, make_saved, tmp_path, monkeypatch):
    folder = make_saved()
    pushed = push(folder, "ada/milk", "--private")
    assert pushed.exit_code == 0, pushed.output

    def run(*arguments, token="hf_ada", cache="home"):
        monkeypatch.setenv("HF_TOKEN", token)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / cache))
        return CliRunner().invoke(app, arguments, input="Rats were fed.\n", prog_name="hf-gile")

    scored, listed, absent = run("score", "ada/milk"), run("labels", "show", "ada/milk"), run("score", "ada/beer")
    assert (scored.exit_code, scored.stdout) == (0, run("score", str(folder)).stdout)
    assert (listed.exit_code, listed.stdout) == (0, run("labels", "show", str(folder)).stdout)
    assert absent.exit_code == 1
    assert absent.stderr == (
        "hf-gile score: ada/beer is no local file or folder, and cannot be read from the Hub: it, or this branch of "
        "it, does not exist or is not visible with this token (404: Repository not found): check the names; if it is "
        "private, log in with `hf auth login` or set HF_TOKEN\n"
    )
    unknown = run("labels", "show", "ada/milk", token="hf_nobody", cache="other")
    assert unknown.exit_code == 1
    assert "needs a valid token (401: Invalid credentials in Authorization header): check" in unknown.stderr
    assert unknown.stderr.count("\n") == 1
