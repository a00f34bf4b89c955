"""Files of a folder that are uploaded, left out, or missing."""

import gzip
import json
import pickle
import shutil

import numpy as np
import pytest
import torch

from hf_gile.publishing.contents import is_managed, missing_parts, select_files


def test_pickles_are_not_uploaded_under_any_name(tmp_path):
    (tmp_path / "training_args.bin").write_bytes(pickle.dumps({"learning_rate": 1e-3}))
    (tmp_path / "optimizer.pt").write_bytes(b"")
    (tmp_path / "vocabulary").write_bytes(pickle.dumps(["a", "b"]))
    torch.save({"weight": torch.zeros(2)}, tmp_path / "weights.model")
    torch.save({"weight": torch.zeros(2)}, tmp_path / "old.model", _use_new_zipfile_serialization=False)
    (tmp_path / "words.pkl.gz").write_bytes(gzip.compress(pickle.dumps(["a", "b"])))
    np.save(tmp_path / "objects.npy", np.array([{}, []], dtype=object))
    np.savez(tmp_path / "mixed.npz", numbers=np.arange(3), objects=np.array([{}], dtype=object))
    files, left_out = select_files(tmp_path)
    assert not files
    assert [name for name, _ in left_out] == [
        "mixed.npz",
        "objects.npy",
        "old.model",
        "optimizer.pt",
        "training_args.bin",
        "vocabulary",
        "weights.model",
        "words.pkl.gz",
    ]
    assert {why for _, why in left_out} == {"a pickle, which runs code when it is loaded"}


def test_damaged_arrays_and_archives_are_not_uploaded(tmp_path):
    np.save(tmp_path / "numbers.npy", np.arange(3))
    (tmp_path / "broken.npy").write_bytes((tmp_path / "numbers.npy").read_bytes()[:20])
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04 and no more")
    files, left_out = select_files(tmp_path)
    assert list(files) == ["numbers.npy"]
    assert [name for name, _ in left_out] == ["broken.npy", "broken.zip"]


def test_files_that_only_resemble_pickles_are_uploaded(tmp_path):
    np.savez(tmp_path / "numbers.npz", numbers=np.arange(3))
    # A header of 640 bytes, whose length starts like a pickle.
    (tmp_path / "model.safetensors").write_bytes((640).to_bytes(8, "little") + b" " * 639 + b".")
    (tmp_path / "text.dat").write_bytes(b"\x80\x04 no pickle ends like this")
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "mine.png").write_bytes(b"\x89PNG")
    files, left_out = select_files(tmp_path)
    assert list(files) == ["figures/mine.png", "model.safetensors", "numbers.npz", "text.dat"]
    assert left_out == []


def test_training_artifacts_are_not_uploaded(tmp_path):
    for name in ("checkpoint-12", "runs", "wandb", ".git", "__pycache__"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file.json").write_text("{}")
    for name in (".env", "trainer_state.json", "train.log", "events.out.tfevents.17", "rows.parquet", "a.pyc"):
        (tmp_path / name).write_text("x")
    (tmp_path / "notebook.ipynb").write_text("{}")
    (tmp_path / "elsewhere").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    files, left_out = select_files(tmp_path)
    assert list(files) == ["notebook.ipynb"]
    assert dict(left_out) == {
        ".env": "hidden",
        ".git/": "hidden",
        "__pycache__/": "a cache",
        "a.pyc": "a cache",
        "checkpoint-12/": "a training checkpoint",
        "elsewhere/": "a link to a folder",
        "events.out.tfevents.17": "training logs",
        "nowhere": "not a file",
        "rows.parquet": "data, which does not belong to a model",
        "runs/": "training logs",
        "train.log": "training logs",
        "trainer_state.json": "a training state",
        "wandb/": "training logs",
    }


def test_links_in_the_hub_cache_are_uploaded_as_files(tmp_path):
    snapshot = tmp_path / "snapshots" / "0a1b"
    snapshot.mkdir(parents=True)
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "2c3d").write_text("{}")
    (snapshot / "config.json").symlink_to("../../blobs/2c3d")
    files, _ = select_files(snapshot)
    assert files["config.json"].read_text() == "{}"


@pytest.mark.parametrize(
    ("gone", "missing"),
    [
        ("config.json", "a config.json with model_type 'gile'"),
        ("model.safetensors", r"the weights \(model.safetensors\)"),
        ("stored_labels_gile.py", r"its code \(stored_labels_gile.py\)"),
        ("pipeline_gile.py", r"its code \(pipeline_gile.py\)"),
        ("tokenizer.json", r"its processor \(tokenizer.json\)"),
        ("labels.jsonl", r"its labels \(labels.jsonl\)"),
    ],
)
def test_missing_parts_of_a_folder_are_named(make_saved, gone, missing):
    folder = make_saved()
    assert missing_parts(folder) == []
    (folder / gone).unlink()
    (part,) = missing_parts(folder)
    assert part == missing.replace("\\", "")


def test_a_missing_shard_is_named(tmp_path, make_model, make_saved):
    folder = make_saved()
    (folder / "model.safetensors").unlink()
    make_model()[0].save_pretrained(folder, max_shard_size="1KB")
    assert missing_parts(folder) == []
    shards = sorted(folder.glob("model-*.safetensors"))
    assert len(shards) > 1
    shards[1].unlink()
    assert missing_parts(folder) == [f"the weights ({shards[1].name})"]


def test_other_kinds_of_models_are_incomplete(tmp_path, make_saved):
    folder = make_saved()
    for broken in ("{", "[]", json.dumps({"model_type": "bert"})):
        (folder / "config.json").write_text(broken)
        assert missing_parts(folder) == ["a config.json with model_type 'gile'"]
    shutil.rmtree(folder)
    assert missing_parts(folder) == ["a config.json with model_type 'gile'"]


def test_unrelated_files_are_not_treated_as_model_files(make_saved):
    files, _ = select_files(make_saved())
    assert {path for path in files if not is_managed(path)} == {"README.md", "config.json"}  # never deleted
    for path in ("notebook.ipynb", "figures/mine.png", "index/notes.txt", "sub/model.safetensors", "train.py"):
        assert not is_managed(path)
