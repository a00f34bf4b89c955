import json
import os

import pytest
from transformers import pipeline
from typer.testing import CliRunner

from hf_gile.publishing import push_folder
from hf_gile.publishing.contents import verify_code
from hf_gile_cli.app import app


def verify(*arguments):
    return CliRunner().invoke(app, ["verify", *map(str, arguments)], prog_name="hf-gile")


def test_unmodified_code_is_reported_as_the_same(make_saved):
    done = verify(make_saved())
    assert done.exit_code == 0, done.output
    assert {line.split()[0] for line in done.stdout.splitlines()} == {"same"}
    assert len(done.stdout.splitlines()) == 18
    assert done.stderr == "all code is identical to the installed hf-gile\n"  # a folder has no version to pin


@pytest.mark.parametrize("status", ["missing", "differs"])
def test_modified_code_is_reported(status, make_saved):
    folder = make_saved()
    (folder / "scoring_gile.py").unlink()
    if status == "differs":
        (folder / "scoring_gile.py").write_text("import os\n")
    assert verify_code(str(folder)).files["scoring_gile.py"][1] == status
    done = verify(folder)
    assert done.exit_code == 1
    assert [line.split()[-1] for line in done.stdout.splitlines() if line.startswith(status)] == ["scoring_gile.py"]
    assert "review the code before you trust it" in done.stderr


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("config.json", {"backbone": [{"auto_map": {"AutoModel": ["eve/code--a.B"]}}]}),
        ("tokenizer_config.json", {"auto_map": ["eve/code--a.B", None]}),
    ],
)
def test_code_in_another_repository_is_reported_from_every_file(name, entry, make_saved):
    folder = make_saved()
    content = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps({"custom_pipelines": {}, **content, **entry, "other": "text--text"}))
    done = verify(folder)
    assert done.exit_code == 1
    assert "elsewhere  eve/code--a.B" in done.stdout


def test_verifying_a_hub_model_names_the_checked_commit(hub, make_saved):
    folder = make_saved()
    first = push_folder(folder, "ada/milk").commit
    (folder / "search_gile.py").write_text("import os\n")
    push_folder(folder, "ada/milk")
    assert verify("ada/milk").exit_code == 1
    done = verify("ada/milk", "--revision", first)
    assert done.exit_code == 0, done.output
    assert f'revision="{first}", code_revision="{first}"' in done.stderr
    pinned = {"revision": first, "code_revision": first}
    pipe = pipeline("zero-shot-classification", model="ada/milk", trust_remote_code=True, device="cpu", **pinned)
    assert len(pipe("Milk.", top_k=2)["labels"]) == 2


def test_a_folder_without_a_model_is_refused(tmp_path):
    done = verify(tmp_path)
    assert done.exit_code == 1
    assert "is not a saved GILE model" in done.stderr


def test_a_pipe_in_a_folder_is_refused_before_it_is_read(make_saved):
    folder, name = make_saved(), "more_gile.py"
    os.mkfifo(folder / name)
    with pytest.raises(ValueError, match=rf"{name} is a pipe, a socket or a device"):
        verify_code(folder)
    with pytest.raises(ValueError, match=rf"{name} is a pipe, a socket or a device"):
        push_folder(folder, "ada/milk", dry_run=True)
