"""Saving a model with card, report, labels and index."""

import re
from pathlib import Path

import pytest
import torch
from answers import logits_of
from papers.lora import add_lora, merge_lora
from transformers import AutoModelForSequenceClassification, AutoProcessor
from two_languages import make_bilingual

from hf_gile import GileForSequenceClassification, GileProcessor, LabelIndex, LabelSet, build_tokenizer
from hf_gile.publishing import Report, save

TEXTS = ["Breast milk and iron. The heart.", "Blood of rats."]


def score(model, processor):
    return logits_of(model, processor(TEXTS, return_tensors="pt"))


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_folder_contains_the_complete_model(tmp_path, make_model):
    model, processor = make_model()
    written = save(tmp_path / "saved", model, processor, report=Report({}, []), card="# Hearts\n")
    assert {path.relative_to(tmp_path / "saved").as_posix() for path in written} == set(contents(tmp_path / "saved"))
    names = {path.name for path in written}
    assert {"config.json", "model.safetensors", "labels.jsonl", "tokenizer.json", "results.json", "README.md"} <= names
    reloaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "saved").eval()
    assert reloaded.label_set == model.label_set
    reloaded_processor = AutoProcessor.from_pretrained(tmp_path / "saved")
    assert torch.equal(score(reloaded, reloaded_processor), score(model, processor))
    index = LabelIndex.from_pretrained(tmp_path / "saved" / "index", reloaded)
    assert index.codes.dtype == torch.float16
    assert index.label_set == model.label_set


def test_saving_does_not_change_the_model(tmp_path, make_model):
    model, processor = make_model()
    model.train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    save(tmp_path / "saved", model, processor, card="")
    assert model.training
    assert model.label_set.names[0] == "Heart Failure"
    assert model.config.num_labels == 5
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_a_multilingual_model_gets_an_index_per_language(tmp_path):
    model, processor = make_bilingual()
    save(tmp_path / "saved", model, processor, card="")
    for language, names in {"german": ["gift", "eisen"], "english": ["gift", "milk", "iron"]}.items():
        index = LabelIndex.from_pretrained(tmp_path / "saved" / "index" / language, model)
        assert index.label_set.ids == [f"{language}:{name}" for name in names]


def test_saving_again_writes_the_same_files(tmp_path, make_model):
    model, processor = make_model()
    save(tmp_path / "saved", model, processor, card="# One")
    before = contents(tmp_path / "saved")
    save(tmp_path / "saved", model, processor, card="# One")
    assert contents(tmp_path / "saved") == before
    save(tmp_path / "other", model, processor, card="# One")
    assert contents(tmp_path / "other") == before


def test_saving_removes_outdated_model_files_and_keeps_the_rest(tmp_path, make_model):
    model, processor = make_model()
    folder = tmp_path / "saved"
    save(folder, model, processor, card="")
    old_codes = next(folder.glob("index/*.safetensors")).name
    (folder / "model-00001-of-00002.safetensors").write_bytes(b"")
    (folder / "old_gile.py").write_text("")
    with (folder / "modeling_gile.py").open("a") as code:
        code.write("from .old_gile import something\n")
    (folder / "train_gile.py").write_text("mine")
    (folder / "notebook.ipynb").write_text("{}")
    (folder / "labels.csv").write_text("id,name\n")  # may be the source of the labels
    (folder / "index" / "notes.txt").write_text("mine")
    model.set_labels(LabelSet.from_names(["Iron"]), processor)
    save(folder, model, processor, card="")
    names = set(contents(folder))
    assert {"notebook.ipynb", "labels.csv", "index/notes.txt", "train_gile.py"} <= names
    assert not {"model-00001-of-00002.safetensors", "old_gile.py", f"index/{old_codes}"} & names
    save(folder, model, processor, card="", index=False)
    assert {name for name in contents(folder) if name.startswith("index/")} == {"index/notes.txt"}


def test_a_full_disk_is_reported_with_the_path(tmp_path, make_model):
    resource = pytest.importorskip("resource")
    model, processor = make_model()
    folder = tmp_path / "saved"
    save(folder, model, processor, card="# First")
    before = contents(folder)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limit[1]))
    try:
        with pytest.raises(OSError, match=re.escape(str(folder))) as raised:
            save(folder, make_model(joint_size=3)[0], processor, card="# Second")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert "_gile.py" in str(raised.value)  # Python's error for a copy names the source file
    assert ".saving" not in str(raised.value)
    assert "hf_gile/models" not in str(raised.value)
    assert contents(folder) == before


def test_an_interrupt_among_the_moves_completes_them(tmp_path, make_model, monkeypatch):
    model, processor = make_model()
    folder = tmp_path / "saved"
    save(folder, model, processor, card="# First")
    moved, replace_file = [], Path.replace

    def interrupt(self, target):
        if target == folder / "model.safetensors" and not moved:
            moved.append(self)
            raise KeyboardInterrupt
        return replace_file(self, target)

    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(folder, make_model(joint_size=3)[0], processor, card="# Second")
    assert moved
    assert GileForSequenceClassification.from_pretrained(folder).config.joint_size == 3
    assert (folder / "README.md").read_text() == "# Second"
    assert not list(folder.glob(".*"))


def test_saved_files_contain_no_local_paths(tmp_path, make_pretrained):
    model, processor = make_pretrained(joint_size=7)
    save(tmp_path / "saved", model, processor, card="")
    for name, data in contents(tmp_path / "saved").items():
        assert str(tmp_path).encode() not in data, name


def test_invalid_models_are_refused_before_writing(tmp_path, make_model):
    model, processor = make_model()
    folder = tmp_path / "saved"
    with pytest.raises(ValueError, match="which a GileModel does not store"):
        save(folder, model.gile, processor)
    bare = GileForSequenceClassification(model.config)
    with pytest.raises(ValueError, match="no labels stored: call"):
        save(folder, bare, processor)
    other = GileProcessor(build_tokenizer(["other words"], min_count=1))
    with pytest.raises(ValueError, match="use the processor saved with the model"):
        save(folder, model, other, card="")
    assert not folder.exists()


def test_a_model_with_adapters_is_refused(tmp_path, make_pretrained):
    model, processor = make_pretrained(joint_size=7)
    add_lora(model, rank=2)
    with pytest.raises(ValueError, match=r"a model with adapters.*merge them"):
        save(tmp_path / "saved", model, processor, card="")
    merge_lora(model)
    save(tmp_path / "saved", model, processor, card="")
    reloaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "saved").eval()
    assert torch.equal(score(reloaded, processor), score(model.eval(), processor))
