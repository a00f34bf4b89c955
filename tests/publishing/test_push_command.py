"""`hf-gile push` against a Hub."""

from huggingface_hub import constants


def test_a_second_push_without_changes_makes_no_commit(run, hub, make_saved):
    folder = make_saved()
    first = run("push", folder, "ada/milk", "--private", "--message", "Milk")
    assert "new " in first.stdout
    assert "commit " in first.stderr
    repeated = run("push", folder, "ada/milk")
    assert repeated.stdout == ""
    assert repeated.stderr.startswith("nothing has changed: ")


def test_a_dry_run_announces_a_new_repository_or_pull_request(run, hub, make_saved):
    folder = make_saved()
    message = "ada/milk does not exist or is not visible with this token: it would be created, "
    for flags, kind in (([], "private or public by its owner's settings"), (["--private"], "private")):
        assert f"{message}{kind}\n" in run("push", folder, "ada/milk", "--dry-run", *flags).stderr
    assert hub.repositories == {}
    hub.create("ada/milk")
    proposed = run("push", folder, "ada/milk", "--dry-run", "--create-pr").stderr
    assert "would be created" not in proposed
    assert f", as a pull request: {hub.url}/ada/milk\n" in proposed


def test_a_pushed_model_can_be_used_by_its_hub_name(run, hub, make_saved, tmp_path, monkeypatch):
    folder = make_saved()
    run("push", folder, "ada/milk", "--private")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "home"))
    for command in (["score"], ["labels", "show"]):
        answers = [run(*command, model, input="Rats were fed.\n").stdout for model in ("ada/milk", folder)]
        assert answers[0] == answers[1]
    absent = run("score", "ada/beer", input="Rats were fed.\n", ends=1)
    assert absent.stderr == (
        "hf-gile score: ada/beer is no local file or folder, and cannot be read from the Hub: it, or this branch of "
        "it, does not exist or is not visible with this token (404: Repository not found): check the names; if it is "
        "private, log in with `hf auth login` or set HF_TOKEN\n"
    )
    monkeypatch.setenv("HF_TOKEN", "hf_nobody")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "other"))
    unknown = run("labels", "show", "ada/milk", ends=1)
    assert "needs a valid token (401: Invalid credentials in Authorization header): check" in unknown.stderr
    assert unknown.stderr.count("\n") == 1
