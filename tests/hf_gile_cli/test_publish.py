import json
import os
import shutil
import signal
from pathlib import Path

import pytest
import yaml
from forks import is_killed
from huggingface_hub import ModelCard

from hf_gile import writing

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")


def test_cards_contain_the_content_of_files_and_options(run, saved_model, tmp_path):
    (tmp_path / "card.yaml").write_text(yaml.safe_dump({"license": "mit", "language": ["en"], "summary": "On milk."}))
    done = run("card", saved_model, "--info", tmp_path / "card.yaml", "--license", "apache-2.0", "--tag", "dairy")
    assert done.stderr == f"{saved_model / 'README.md'}; no results.json: run hf-gile evaluate first to show results\n"
    card = ModelCard.load(saved_model / "README.md")
    assert (card.data.license, card.data.language) == ("apache-2.0", ["en"])
    assert "dairy" in card.data.tags
    assert "On milk." in card.text
    assert (saved_model / "labels.csv").is_file()


def test_cards_are_reproducible(run, saved_model):
    run("card", saved_model, "--repo-id", "user/milk", "--license", "mit", "--tag", "dairy")
    first = (saved_model / "README.md").read_text()
    run("card", saved_model)
    assert (saved_model / "README.md").read_text() == first
    run("card", saved_model, "--license", "apache-2.0")
    card = ModelCard.load(saved_model / "README.md")
    assert card.data.license == "apache-2.0"
    assert "dairy" in card.data.tags


INVALID = {
    "licence: mit": "card.yaml: a card has no field 'licence'; did you mean license?",
    "a: [": "is not YAML",
    "license: No Licence": "license must be the id of a licence on the Hub",
}


@pytest.mark.parametrize("content", INVALID)
def test_an_invalid_card_file_is_named_and_no_card_written(run, saved_model, write, content):
    path = write("card.yaml", content)
    assert INVALID[content] in run("card", saved_model, "--info", path, ends=1).stderr
    assert not (saved_model / "README.md").exists()


def test_dry_runs_list_files_to_upload_and_to_skip(run, saved_model):
    (saved_model / "training_args.bin").write_bytes(b"a pickle")
    result = run("push", saved_model, "user/model", "--dry-run")
    files = {line.split()[-1]: line.split()[0] for line in result.stdout.splitlines()}
    assert files["config.json"] == files["model.safetensors"] == files["labels.jsonl"] == "new"
    assert "training_args.bin" not in files
    assert "left out: training_args.bin, not a file of a model" in result.stderr
    assert f"{len(files)} changes: " in result.stderr
    assert "is not compared, so all files count as new" in result.stderr


def test_a_folder_of_another_model_is_not_pushed(run, saved_model):
    (saved_model / "config.json").write_text(json.dumps({"model_type": "bert"}))
    assert "is not a complete saved GILE model" in run("push", saved_model, "user/model", ends=1).stderr


def test_an_interrupted_save_is_completed_by_mend(run, saved_model, make_model, monkeypatch, tmp_path):
    monkeypatch.setattr(writing, "SAVES", tmp_path / "saves")
    real = Path.replace

    def kill(self, target):
        if Path(target) == saved_model / "model.safetensors":
            os.kill(os.getpid(), signal.SIGKILL)
        return real(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", kill)
        assert is_killed(lambda: make_model(joint_size=3)[0].save_pretrained(saved_model))
    refused = run("score", saved_model, input="iron\n", ends=1).stderr
    assert f"a save was interrupted; `hf-gile repair {saved_model}` completes it" in refused
    assert "a save was interrupted" in run("labels", "show", saved_model, ends=1).stderr
    shutil.copytree(saved_model, tmp_path / "copy")
    assert "a save was interrupted" in run("repair", tmp_path / "copy", ends=1).stderr
    assert run("repair", saved_model).stderr == f"{saved_model}: the save is complete\n"
    assert run("repair", saved_model).stderr == f"{saved_model}: no save was interrupted on this machine\n"
    run("score", saved_model, input="iron\n")
