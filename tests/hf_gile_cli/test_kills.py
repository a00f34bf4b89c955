"""A save that is killed at any file operation leaves a consistent model folder."""

import builtins
import io
import os
import shutil
import sys
from pathlib import Path

import pytest
import torch
from transformers import Trainer, TrainingArguments

from hf_gile import GileForSequenceClassification, GileProcessor, LabelIndex, build_tokenizer, writing
from hf_gile.models import saving_gile
from hf_gile.publishing import save
from hf_gile.writing import complete

OPERATIONS = ("replace", "rename", "link", "unlink", "rmdir", "mkdir", "fsync")


@pytest.fixture
def model(tmp_path, make_model, monkeypatch):
    """Returns the folder of a saved model with an index, thresholds, two weight shards and a user file."""
    model, processor = make_model(problem_type="multi_label_classification")
    model.set_labels(model.label_set.with_counts({"Iron": 7, "Blood": 3}).update("Iron", threshold=0.4), processor)
    save(tmp_path / "model", model, processor, card="# A model")
    (tmp_path / "model" / "notes.txt").write_text("mine")
    (tmp_path / "model" / "model-00001-of-00002.safetensors").write_bytes(b"stale")
    monkeypatch.setattr(writing, "SAVES", tmp_path / "saves")
    return tmp_path / "model"


@pytest.fixture
def before_each(monkeypatch):
    """Calls a function before each file operation that changes files."""

    def patch(act):
        def patched(module, name, changes=lambda *arguments: True):
            real = getattr(module, name)

            def call(*arguments, **options):
                if changes(*arguments, *options.values()):
                    act(name, arguments)
                return real(*arguments, **options)

            monkeypatch.setattr(module, name, call)

        for name in OPERATIONS:
            patched(os, name)
        for module in (builtins, io):
            patched(module, "open", lambda *arguments: bool(set("wax+") & set(str([*arguments[1:2]]))))

    return patch


PARTS = ("config.json", "labels.jsonl", "processor_config.json", "tokenizer.json", "tokenizer_config.json")


def contents(folder):
    """Returns the files of a model, without temporary files of a save."""
    files = {}
    for path in folder.rglob("*"):
        if path.is_file() and not path.relative_to(folder).parts[0].startswith((".saving-", ".lock")):
            files[path.relative_to(folder).as_posix()] = path.read_bytes()
    return files


@pytest.fixture
def saves(run, make_model):
    """Returns functions that save another model over the model of a folder, by name."""

    def another():
        texts = ["iron of rats", "milk of mothers", "blood", "heart failure", "infant"]
        tokenizer = build_tokenizer(texts, min_count=1)
        old, _ = make_model()
        config = type(old.config)(vocab_size=len(tokenizer), num_labels=5, text_encoder_type="wan", joint_size=3)
        torch.manual_seed(1)
        model, processor = GileForSequenceClassification(config), GileProcessor.for_config(tokenizer, config)
        model.set_labels(old.label_set.update("Iron", description="a metal"), processor)
        return model, processor

    def in_two_calls(folder, **options):
        model, processor = another()
        model.save_pretrained(folder, **options)
        processor.save_pretrained(folder)

    def processor_first(folder):
        for part in reversed(another()):
            part.save_pretrained(folder)

    def trainer():
        model, processor = another()
        return Trainer(model, TrainingArguments("unused", report_to="none"), processing_class=processor)

    return {
        "add": lambda folder: run("labels", "add", folder, "D1", "Diet"),
        "save": lambda folder: save(folder, *another(), card=False),
        "save_pretrained": in_two_calls,
        "processor first": processor_first,
        "shards": lambda folder: in_two_calls(folder, max_shard_size="1KB"),
        "Trainer.save_model": lambda folder: trainer().save_model(str(folder)),
    }


class Snapshots:
    """Records the different states of a folder, and of the records of saves, before each file operation."""

    def __init__(self, folder):
        self.folder = folder
        self.states, self.busy, self.last = [], False, None
        self.read, self.synced, self.unsynced = {}, set(), set()

    def take(self, name, arguments):
        if self.busy:
            return
        self.busy = True
        if name == "fsync":
            self.synced.add(str(Path(f"/proc/self/fd/{arguments[0]}").readlink()))
        if name in ("replace", "rename") and Path(arguments[1]).parent == self.folder:
            source = Path(arguments[0])
            if source.parent.name.startswith(".saving-"):
                self.unsynced |= {str(path) for path in (source, source.parent)} - self.synced
        state, keys = {}, []
        record = writing._record(self.folder)
        for path in (*self.folder.rglob("*"), record):
            if path.is_file():
                about = path.stat()
                key = (about.st_ino, about.st_mtime_ns, about.st_size)
                if key not in self.read:
                    self.read[key] = path.read_bytes()
                name = "" if path == record else os.path.relpath(path, self.folder)
                state[name] = self.read[key]
                keys.append((name, key))
        if keys != self.last:
            self.states.append(state)
        self.last = keys
        self.busy = False


def restored(state, folder):
    """Writes a recorded state to another folder."""
    folder.mkdir(parents=True)
    for name, data in state.items():
        path = folder / name if name else writing._record(folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def outcome(folder, old, new):
    """Returns what loads from a folder: `old`, `new`, `mixed`, or `refused`, with the message."""
    try:
        model = GileForSequenceClassification.from_pretrained(folder)
        GileProcessor.from_pretrained(folder)
        if (folder / "index").is_dir():
            LabelIndex.from_pretrained(folder / "index", model)
    except (ValueError, OSError) as error:
        return "refused", str(error)
    loaded = {name: data for name, data in contents(folder).items() if is_part(name)}
    for end, files in (("old", old), ("new", new)):
        if loaded == {name: data for name, data in files.items() if is_part(name)}:
            return end, ""
    return "mixed", ""


def is_part(name):
    return name in PARTS or name.endswith(".safetensors")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads synced files from /proc")
@pytest.mark.parametrize("kind", ["add", "save", "save_pretrained", "processor first", "shards", "Trainer.save_model"])
def test_a_kill_at_any_operation_leaves_an_old_or_a_new_model(model, saves, before_each, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(saving_gile, "_PAUSES", ())
    for name in ("index", "notes.txt"):
        path = model / name
        if kind not in ("add", "save"):  # they do not know of an index
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    old, snapshots = contents(model), Snapshots(model)
    before_each(snapshots.take)
    saves[kind](model)
    monkeypatch.undo()
    monkeypatch.setattr(writing, "SAVES", tmp_path / "saves")
    monkeypatch.setattr(saving_gile, "_PAUSES", ())
    new = contents(model)
    assert old["config.json"] != new["config.json"]
    assert not list(model.glob(".*"))
    ends = set()
    for number, state in enumerate(snapshots.states):
        folder = restored(state, tmp_path / str(number))
        end, message = outcome(folder, old, new)
        ends.add(end)
        assert end != "mixed", contents(folder).keys()
        if end == "refused":
            assert "a save was interrupted; `hf-gile repair" in message or "save the other again" in message
            if complete(folder):
                assert outcome(folder, old, new)[0] == "new" or kind not in ("add", "save")
    assert not snapshots.unsynced  # also safe against power cuts
    assert ends == {"old", "refused", "new"}
