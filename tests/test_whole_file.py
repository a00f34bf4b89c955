"""Files that are written completely or not at all."""

import csv
import os
import threading

import pytest
import torch
from safetensors.torch import save_file

from hf_gile import Label, LabelSet, load_labels
from hf_gile.data import save_labels
from hf_gile.writing import new_files, whole_file

resource = pytest.importorskip("resource")


JSONL = (".jsonl", LabelSet.save, LabelSet.load, {"name": "half \ud83d"})
CSV = (".csv", save_labels, load_labels, {"synonyms": ("\ud800",)})


@pytest.mark.parametrize(("suffix", "save", "load", "bad"), [JSONL, CSV])
def test_a_failed_save_of_labels_keeps_the_old_file(tmp_path, suffix, save, load, bad):
    path = tmp_path / f"labels{suffix}"
    old = LabelSet.from_names(["Iron"])
    save(old, path)
    more = [Label(f"D{j}", f"label {j}") for j in range(300)]
    labels = old.add(*more, Label("bad", "b")).update("bad", **bad)
    with pytest.raises(ValueError, match=rf"labels\{suffix}: label 'bad' cannot be written: it has a lone surrogate"):
        save(labels, path)
    assert load(path) == old
    assert list(tmp_path.iterdir()) == [path]


def test_cells_up_to_the_reading_limit_are_written(tmp_path):
    path = tmp_path / "labels.csv"
    labels = LabelSet([Label("a", "Iron", "x" * 131_073, synonyms=("y" * 70_000, "z" * 70_000))])
    save_labels(labels, path)
    before = csv.field_size_limit()
    assert load_labels(path) == labels
    assert csv.field_size_limit() == before
    longer = labels.update("a", description="x" * ((1 << 24) + 1))
    message = r"label 'a' .* description has 16,777,217 characters, .* write a \.jsonl file"
    with pytest.raises(ValueError, match=message):
        save_labels(longer, path)
    assert load_labels(path) == labels


def test_writing_replaces_a_link_and_keeps_permissions(tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "link").symlink_to("file")
    with whole_file(tmp_path / "link") as written:
        written.write_text("new")
    assert (tmp_path / "file").read_text() == "old"
    assert (tmp_path / "link").read_text() == "new"
    assert (tmp_path / "link").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_new_weights_have_the_mode_of_other_new_files(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        with whole_file(tmp_path / "index.safetensors") as written:
            save_file({"codes": torch.zeros(1)}, written)  # safetensors writes files for their owner alone
        with new_files(tmp_path / "model") as new:
            (new / "figures").mkdir()
            save_file({"codes": torch.zeros(1)}, new / "model.safetensors")
            save_file({"codes": torch.zeros(1)}, new / "figures" / "codes.safetensors")
    finally:
        os.umask(before)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.name: path.stat().st_mode & 0o777 for path in files} == {
        "index.safetensors": mode,
        "model.safetensors": mode,
        "codes.safetensors": mode,
    }


def test_a_named_pipe_is_written_to_and_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    read = []
    thread = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    thread.start()
    with whole_file(tmp_path / "pipe") as written:
        written.write_text("new")
    thread.join()
    assert read == ["new"]
    assert (tmp_path / "pipe").is_fifo()
