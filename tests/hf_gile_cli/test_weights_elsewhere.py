"""The command only loads weights from the model folder."""

import json
import shutil

import pytest


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("model.safetensors.index.json", {"weight_map": {"a": "../private.safetensors"}}, "outside its folder"),
        ("model.safetensors.index.json", {"weight_map": ["a"]}, "does not list weight files"),
        ("adapter_config.json", {"peft_type": "LORA", "base_model_name_or_path": "../private"}, "contains adapters"),
    ],
)
def test_weights_outside_the_folder_are_refused(run, saved_model, tmp_path, name, content, says):
    shutil.move(saved_model / "model.safetensors", tmp_path / "private.safetensors")
    (saved_model / name).write_text(json.dumps(content))
    assert says in run("score", saved_model, input="iron\n", ends=1).stderr


def test_weights_in_several_files_are_read(run, saved_model, make_model):
    (saved_model / "model.safetensors").unlink()
    make_model(problem_type="multi_label_classification")[0].save_pretrained(saved_model, max_shard_size="1KB")
    assert (saved_model / "model.safetensors.index.json").is_file()
    assert json.loads(run("score", saved_model, input="iron\n").stdout)["labels"]
