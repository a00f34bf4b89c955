"""Uploads to the Hub in a single commit, and their errors."""

import traceback

import pytest
from loopback_hub import Fault
from transformers.utils.hub import cached_file

from hf_gile.publishing import PlannedFile, push_folder
from hf_gile.publishing.hub import explain

REPO = "ada/gile"


def statuses(publication):
    return {file.path: file.status for file in publication.files}


def test_all_files_of_a_folder_are_uploaded_in_a_single_commit(hub, make_saved):
    folder = make_saved()
    (folder / "training_args.bin").write_bytes(b"")
    (folder / "checkpoint-3").mkdir()
    published = push_folder(folder, REPO)
    repository = hub.repositories[REPO]
    assert repository.history()[1:] == ["initial commit"]
    assert repository.history()[0].startswith("GILE model with 5 labels, by hf_gile ")
    assert published.commit == repository.branches["main"]
    assert published.url == f"{hub.url}/{REPO}"
    assert published.pull_request is None
    files = {path: data for path, data in repository.files().items() if path != ".gitattributes"}
    assert files == {file.path: (folder / file.path).read_bytes() for file in published.files}
    assert {path.name for path in folder.glob("*_gile.py")} <= set(files)
    assert {"model.safetensors", "index/label_index.json", "README.md"} <= set(files)
    assert set(statuses(published).values()) == {"new"}
    assert published.left_out == ["checkpoint-3/", "training_args.bin"]
    assert published.changes == published.files


def test_uploading_writes_the_repository_name_into_the_card(hub, make_saved):
    folder = make_saved()
    (folder / "README.md").write_text('# A model\n\npipeline(model="path/to/this/model")\n')
    before = (folder / "README.md").read_bytes()
    push_folder(folder, REPO)
    assert hub.repositories[REPO].files()["README.md"] == b'# A model\n\npipeline(model="ada/gile")\n'
    assert (folder / "README.md").read_bytes() == before
    assert push_folder(folder, REPO).commit is None


def test_a_new_version_deletes_only_files_of_the_old_version(hub, make_saved, make_model):
    folder = make_saved()
    (folder / "model.safetensors").unlink()
    make_model()[0].save_pretrained(folder, max_shard_size="1KB")
    (folder / "old_gile.py").write_text("")
    push_folder(folder, REPO)
    hub.change(REPO, "notebook.ipynb", b"{}")
    hub.change(REPO, "figures/mine.png", b"")
    hub.change(REPO, "figures/calibration.png", b"")
    before = hub.repositories[REPO].files()
    assert "model.safetensors.index.json" in before
    published = push_folder(make_saved("second", joint_size=3), REPO)
    after = hub.repositories[REPO].files()
    deleted = {path for path, status in statuses(published).items() if status == "deleted"}
    assert deleted == set(before) - set(after)
    names = {"model", "model.safetensors.index.json", "old_gile.py", "index/label_index"}
    assert {path.split("-")[0] for path in deleted} == names | {"figures/calibration.png"}
    assert {"notebook.ipynb", "figures/mine.png", "model.safetensors"} <= set(after)
    assert statuses(published)["config.json"] == "changed"
    assert statuses(published)["modeling_gile.py"] == "unchanged"
    assert len(hub.repositories[REPO].history()) == 6


def test_dry_runs_only_report_planned_changes(hub, make_saved):
    folder = make_saved()
    first = push_folder(folder, REPO, dry_run=True)
    assert set(statuses(first).values()) == {"new"}
    assert first.is_new
    assert first.files[0] == PlannedFile("README.md", 10, "new")
    assert hub.repositories == {}
    push_folder(folder, REPO)
    (folder / "README.md").write_text("# Other\n")
    hub.change(REPO, "results.json", b"{}")
    before = len(hub.requests)
    second = push_folder(folder, REPO, dry_run=True)
    assert second.changes == [PlannedFile("README.md", 8, "changed"), PlannedFile("results.json", 2, "deleted")]
    assert second.commit is None
    assert second.is_new is False
    assert all(request.startswith("GET ") for request in hub.requests[before:])


def test_a_branch_is_created_from_an_unchanged_main(hub, make_saved):
    folder = make_saved()
    push_folder(folder, REPO)
    main = hub.repositories[REPO].branches["main"]
    push_folder(make_saved("second", joint_size=3), REPO, revision="wide/joint")
    repository = hub.repositories[REPO]
    assert repository.branches["main"] == main
    assert len(repository.history("wide/joint")) == 3
    assert push_folder(folder, REPO, revision="copy").commit is None
    assert repository.branches["copy"] == main
    push_folder(make_saved("third", joint_size=2), REPO, revision="wide/joint")
    assert len(repository.history("wide/joint")) == 4


def test_a_pull_request_needs_no_write_access(hub, make_saved):
    folder = make_saved()
    push_folder(folder, REPO)
    main = hub.repositories[REPO].branches["main"]
    other = make_saved("second", joint_size=3)
    published = push_folder(other, REPO, create_pr=True, token="hf_bob", commit_message="Smaller")
    repository = hub.repositories[REPO]
    assert published.pull_request == f"{hub.url}/{REPO}/discussions/1"
    assert published.commit == repository.pulls["refs/pr/1"]
    assert repository.history("refs/pr/1") == ["Smaller", *repository.history()]
    assert repository.branches["main"] == main
    (other / "README.md").write_text("# Better\n")
    push_folder(other, REPO, revision="refs/pr/1")
    assert repository.files("refs/pr/1")["README.md"] == b"# Better\n"
    assert repository.branches["main"] == main


def test_a_private_repository_is_created_private(hub, make_saved):
    folder = make_saved()
    push_folder(folder, REPO, private=True)
    assert hub.repositories[REPO].private
    assert push_folder(folder, REPO, private=True).commit is None
    with pytest.raises(ValueError, match="exists and is private, not public as requested"):
        push_folder(folder, REPO, private=False)
    hub.create("engines/gile")
    for dry_run in (True, False):
        with pytest.raises(ValueError, match="exists and is public, not private as requested"):
            push_folder(folder, "engines/gile", private=True, dry_run=dry_run)
    assert len(hub.repositories["engines/gile"].history()) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"token": "hf_nobody"}, r"ada/gile does not exist, or needs a valid token \(401: Invalid cred.*hf auth login"),
        ({"token": False}, r"needs a valid token \(401"),
        ({"token": "hf_bob"}, r"no permission for ada/gile \(403: You don't.*namespace \"ada\""),
    ],
)
def test_the_error_without_write_access_says_what_to_do(hub, make_saved, options, message):
    folder = make_saved()
    with pytest.raises(PermissionError, match=message) as error:
        push_folder(folder, REPO, **options)
    assert error.value.__cause__.response.status_code in (401, 403)
    assert hub.repositories == {}


def test_an_invalid_token_is_refused_without_showing_it(hub, make_saved):
    token = "hf_sécret hf_secret"
    with pytest.raises(ValueError, match="pass the token alone") as error:
        push_folder(make_saved(), REPO, token=token)
    assert "cret" not in "".join(traceback.format_exception(error.value))
    assert hub.requests == []


def test_read_only_access_suggests_a_pull_request(hub, make_saved):
    folder = make_saved()
    hub.create(REPO)
    with pytest.raises(PermissionError, match="propose the change with create_pr=True, or --create-pr"):
        push_folder(folder, REPO, token="hf_bob")
    with pytest.raises(PermissionError, match="403"):
        push_folder(folder, REPO, token="hf_bob", revision="mine")
    assert hub.repositories[REPO].branches.keys() == {"main"}
    assert len(hub.repositories[REPO].history()) == 1


def test_a_concurrent_push_is_not_overwritten(hub, make_saved):
    folder = make_saved()
    hub.create(REPO)
    between = Fault("POST .*/commit/", before=lambda hub: hub.change(REPO, "README.md", b"# By bob"))
    hub.faults = [between]
    with pytest.raises(OSError, match=r"somebody else has pushed to ada/gile meanwhile \(412") as error:
        push_folder(folder, REPO)
    assert error.value.__cause__.response.status_code == 412
    assert hub.repositories[REPO].history() == ["Change README.md", "initial commit"]
    assert statuses(push_folder(folder, REPO))["README.md"] == "changed"
    assert hub.repositories[REPO].files()["README.md"] == b"# A model\n"


@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [
        (Fault("POST .*/preupload/", status=500, times=9), ConnectionError, r"the Hub is not available \(500"),
        (Fault("PUT /lfs/", cut=100, times=20), ConnectionError, "the connection to the Hub was interrupted"),
        (Fault("POST .*/commit/", status=413), OSError, r"the Hub refused the files of ada/gile \(413"),
    ],
)
def test_a_failed_push_changes_nothing_and_can_be_repeated(hub, make_saved, fault, kind, message):
    folder = make_saved()
    repository = hub.create(REPO, files={"notes.md": b"mine"})
    before = repository.branches["main"]
    hub.faults = [fault]
    with pytest.raises(kind, match=message) as error:
        push_folder(folder, REPO)
    assert error.value.__cause__ is not None
    assert repository.branches == {"main": before}
    hub.faults = []
    published = push_folder(folder, REPO)
    assert published.commit == repository.branches["main"]
    assert repository.commits[published.commit].parent == before
    assert repository.files()["notes.md"] == b"mine"


def test_a_push_whose_answer_was_lost_can_be_repeated(hub, make_saved):
    hub.create(REPO)
    hub.faults = [Fault("POST .*/commit/", lose=True)]
    folder = make_saved()
    with pytest.raises(ConnectionError, match="try again"):
        push_folder(folder, REPO)
    assert push_folder(folder, REPO).changes == []
    assert hub.count_requests("POST .*/commit/") == 1


def test_invalid_folders_and_names_are_refused_before_any_request(hub, make_saved, tmp_path):
    folder = make_saved()
    with pytest.raises(FileNotFoundError, match="no folder"):
        push_folder(tmp_path / "nowhere", REPO)
    for repo_id in ("gile", "https://huggingface.co/ada/gile", "ada/gi le", ""):
        with pytest.raises(ValueError, match=r"repo_id must be|Repo id must"):
            push_folder(folder, repo_id)
    with pytest.raises(ValueError, match="is a commit, which cannot be changed: pass a branch"):
        push_folder(folder, REPO, revision="0" * 40)
    (folder / "labels.jsonl").unlink()
    with pytest.raises(ValueError, match=r"not a complete saved GILE model: it lacks its labels"):
        push_folder(folder, REPO)
    assert hub.requests == []


def test_only_a_branch_can_be_pushed_to(hub, make_saved):
    folder = make_saved()
    repository = hub.create(REPO)
    repository.tags["v1"] = repository.branches["main"]
    with pytest.raises(ValueError, match="'v1' is a tag of ada/gile, which cannot be changed: pass a branch"):
        push_folder(folder, REPO, revision="v1")
    with pytest.raises(FileNotFoundError, match="or this branch of it, does not exist"):
        push_folder(folder, REPO, revision="next", create_pr=True)
    assert repository.branches.keys() == {"main"}


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (403, "this token has no permission for it (403: simulated error): to read, request access on its page"),
        (0, "OSError: ada/milk does not appear to have a file named labels.jsonl"),
    ],
)
def test_an_error_of_reading_says_what_the_hub_answered(hub, tmp_path, status, reason):
    hub.create("ada/milk", private=True)
    hub.faults = [Fault("HEAD .*", status=status, times=20 * bool(status))]
    with pytest.raises(OSError, match=r".") as error:
        cached_file("ada/milk", "labels.jsonl", cache_dir=tmp_path / "cache")
    assert explain(error.value, "it")[1].startswith(reason)
