import json
import os

import pytest
from transformers import pipeline

from hf_gile.publishing import push_folder
from hf_gile.publishing.contents import verify_code


def test_unmodified_code_is_reported_as_the_same(run, make_saved):
    done = run("verify", make_saved())
    assert {line.split()[0] for line in done.stdout.splitlines()} == {"same"}
    assert len(done.stdout.splitlines()) == 18
    assert done.stderr == "all code is identical to the installed hf-gile\n"  # a folder has no version to pin


@pytest.mark.parametrize("status", ["missing", "differs"])
def test_modified_code_is_reported(run, status, make_saved):
    folder = make_saved()
    (folder / "scoring_gile.py").unlink()
    if status == "differs":
        (folder / "scoring_gile.py").write_text("import os\n")
    assert verify_code(str(folder)).files["scoring_gile.py"][1] == status
    done = run("verify", folder, ends=1)
    assert [line.split()[-1] for line in done.stdout.splitlines() if line.startswith(status)] == ["scoring_gile.py"]
    assert "review the code before you trust it" in done.stderr


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("config.json", {"backbone": [{"auto_map": {"AutoModel": ["eve/code--a.B"]}}]}),
        ("tokenizer_config.json", {"auto_map": ["eve/code--a.B", None]}),
    ],
)
def test_code_in_another_repository_is_reported_from_every_file(run, name, entry, make_saved):
    folder = make_saved()
    content = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps({"custom_pipelines": {}, **content, **entry, "other": "text--text"}))
    assert "elsewhere  eve/code--a.B" in run("verify", folder, ends=1).stdout


def test_verifying_a_hub_model_names_the_checked_commit(run, hub, make_saved):
    folder = make_saved()
    first = push_folder(folder, "ada/milk").commit
    (folder / "search_gile.py").write_text("import os\n")
    push_folder(folder, "ada/milk")
    run("verify", "ada/milk", ends=1)
    done = run("verify", "ada/milk", "--revision", first)
    assert f'revision="{first}", code_revision="{first}"' in done.stderr
    pinned = {"revision": first, "code_revision": first}
    pipe = pipeline("zero-shot-classification", model="ada/milk", trust_remote_code=True, device="cpu", **pinned)
    assert len(pipe("Milk.", top_k=2)["labels"]) == 2


def test_a_folder_without_a_model_is_refused(run, tmp_path):
    assert "is not a saved GILE model" in run("verify", tmp_path, ends=1).stderr


def test_a_pipe_in_a_folder_is_refused_before_it_is_read(make_saved):
    folder, name = make_saved(), "more_gile.py"
    os.mkfifo(folder / name)
    with pytest.raises(ValueError, match=rf"{name} is a pipe, a socket or a device"):
        verify_code(folder)
    with pytest.raises(ValueError, match=rf"{name} is a pipe, a socket or a device"):
        push_folder(folder, "ada/milk", dry_run=True)
