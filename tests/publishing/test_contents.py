"""Files of a folder that are uploaded, left out, or missing."""

import gzip
import pickle

import numpy as np
import pytest
import torch

from hf_gile.publishing import save
from hf_gile.publishing.contents import is_managed, missing_parts, select_files


def test_every_file_of_a_saved_model_is_uploaded(tmp_path, make_saved, make_pretrained):
    save(tmp_path / "pretrained", *make_pretrained(joint_size=7))
    for folder in (make_saved(), tmp_path / "pretrained"):
        files, left_out = select_files(folder)
        assert left_out == []
        assert set(files) == {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert is_managed("label_embeds.safetensors") == is_managed("labels.jsonl")


def test_pickles_are_not_uploaded_under_any_name(tmp_path):
    (tmp_path / "training_args.bin").write_bytes(pickle.dumps({"learning_rate": 1e-3}))
    (tmp_path / "vocabulary").write_bytes(pickle.dumps(["a", "b"]))
    torch.save({"weight": torch.zeros(2)}, tmp_path / "weights.model")
    torch.save({"weight": torch.zeros(2)}, tmp_path / "old.model", _use_new_zipfile_serialization=False)
    (tmp_path / "words.pkl.gz").write_bytes(gzip.compress(pickle.dumps(["a", "b"])))
    np.save(tmp_path / "objects.npy", np.array([{}, []], dtype=object))
    np.savez(tmp_path / "mixed.npz", numbers=np.arange(3), objects=np.array([{}], dtype=object))
    files, left_out = select_files(tmp_path)
    assert not files
    assert left_out == sorted(path.name for path in tmp_path.iterdir())
    assert len(left_out) == 7


UPLOADED = ["LICENSE", "NOTICE.txt", "figures/mine.png", "index/label_index.json", "neighbours.safetensors"]
LEFT_OUT = [
    *(".env", "trainer_state.json", "train.log", "rows.parquet", "train.jsonl", "a.pyc", "notebook.ipynb"),
    *("checkpoint-12/", "runs/", "wandb/", ".git/", "__pycache__/", "index/weights.pt"),
]


def test_documents_of_the_author_are_uploaded_and_those_of_training_are_not(tmp_path):
    for name in (*UPLOADED, *LEFT_OUT):
        path = tmp_path / (f"{name}file.json" if name.endswith("/") else name)
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}")
    (tmp_path / "elsewhere").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    files, left_out = select_files(tmp_path)
    assert sorted(files) == UPLOADED
    assert sorted(left_out) == sorted([*LEFT_OUT, "elsewhere/", "nowhere"])


@pytest.mark.parametrize(
    ("gone", "missing"),
    [
        ("model.safetensors", "the weights (model.safetensors)"),
        ("pipeline_gile.py", "its code (pipeline_gile.py)"),
        ("tokenizer.json", "its processor (tokenizer.json)"),
        ("labels.jsonl", "its labels (labels.jsonl)"),
    ],
)
def test_missing_parts_of_a_folder_are_named(make_saved, gone, missing):
    folder = make_saved()
    assert missing_parts(folder) == []
    (folder / gone).unlink()
    assert missing_parts(folder) == [missing]


def test_unrelated_files_are_not_treated_as_model_files(make_saved):
    files, _ = select_files(make_saved())
    assert {path for path in files if not is_managed(path)} == {"README.md", "config.json"}  # never deleted
    for path in ("notebook.ipynb", "figures/mine.png", "index/notes.txt", "sub/model.safetensors", "train.py"):
        assert not is_managed(path)
