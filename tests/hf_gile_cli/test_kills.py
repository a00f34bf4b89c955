"""Commands that are killed at any file operation leave a consistent model folder."""

import builtins
import io
import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
from forks import is_killed

from hf_gile import GileForSequenceClassification, LabelIndex
from hf_gile.publishing import save
from hf_gile.publishing.exchange import complete

OPERATIONS = ("replace", "rename", "link", "unlink", "rmdir", "mkdir", "fsync")
ROWS = [
    ("Breast milk lowers the risk of infection.", ["Milk, Human", "Infant"]),
    ("The failing heart pumps less blood.", ["Heart Failure", "Blood"]),
    ("Rats were fed a diet low in iron.", ["Iron"]),
    ("Blood was drawn, and iron was measured.", ["Iron", "Blood"]),
]
COMMANDS = ("add", "retire", "rename", "import", "calibrate")


@pytest.fixture
def model(tmp_path, make_model, datasets_cache):
    """Returns the folder of a saved model with an index, thresholds, two weight shards and a user file."""
    model, processor = make_model(problem_type="multi_label_classification")
    model.set_labels(model.label_set.with_counts({"Iron": 7, "Blood": 3}).update("Iron", threshold=0.4), processor)
    save(tmp_path / "model", model, processor, card="# A model")
    (tmp_path / "model" / "notes.txt").write_text("mine")
    (tmp_path / "model" / "model-00001-of-00002.safetensors").write_bytes(b"stale")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"text": a, "labels": b}) + "\n" for a, b in ROWS))
    (tmp_path / "new.csv").write_text("id,name\nD1,Diet\nD2,Infection\n")
    return tmp_path / "model"


def words_of(command, folder):
    rest = {
        "add": ["labels", "add", folder, "D1", "Diet"],
        "retire": ["labels", "retire", folder, "Iron"],
        "rename": ["labels", "rename", folder, "Iron", "Iron, Dietary"],
        "import": ["labels", "import", folder, folder.parent / "new.csv"],
        "calibrate": ["calibrate", folder, folder.parent / "rows.jsonl", "--text", "text", "--labels", "labels"],
    }
    return [str(word) for word in rest[command]]


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


def contents(folder):
    """Returns the files of a model, without temporary files of a save."""
    files = {}
    for path in folder.rglob("*"):
        if path.is_file() and path.relative_to(folder).parts[0] not in (".saving", ".lock"):
            files[path.relative_to(folder).as_posix()] = path.read_bytes()
    return files


class Snapshots:
    """Records the state of a folder after a kill at each file operation of a command."""

    def __init__(self, folder, step):
        self.folder, self.step, self.states, self.busy, self.number = folder, step, [], False, 0
        self.read, self.synced, self.unsynced = {}, set(), None

    def take(self, name, arguments):
        if self.busy:
            return
        if name == "fsync":
            self.synced.add(str(Path(f"/proc/self/fd/{arguments[0]}").readlink()))
        self.number += 1
        if self.number % self.step:
            return
        self.busy = True
        state = {}
        for path in self.folder.rglob("*"):
            if path.is_file():
                about = path.stat()
                key = (about.st_ino, about.st_mtime_ns, about.st_size)
                if key not in self.read:
                    self.read[key] = path.read_bytes()
                state[path.relative_to(self.folder).as_posix()] = self.read[key]
        if ".saving/moves.json" in state and self.unsynced is None:
            new = self.folder / ".saving" / "new"
            paths = {str(path) for path in (*new.rglob("*"), new, self.folder)}
            self.unsynced = {path for path in paths if path not in self.synced}
        self.states.append(state)
        self.busy = False


def restored(state, folder):
    for name, data in state.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.skipif(sys.platform != "linux", reason="reads synced files from /proc")
@pytest.mark.parametrize(
    ("command", "step"), [("add", 13), *(pytest.param(command, 1, marks=pytest.mark.slow) for command in COMMANDS)]
)
def test_a_kill_at_any_operation_leaves_the_old_or_the_new_model(run, model, before_each, tmp_path, command, step):
    old, snapshots = contents(model), Snapshots(model, step)
    before_each(snapshots.take)
    run(*words_of(command, model))
    snapshots.busy = True
    new = contents(model)
    assert {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)} >= {"config.json"}
    assert "model-00001-of-00002.safetensors" not in new
    assert not (model / ".saving").exists()
    assert not (model / ".lock").exists()
    ends = Counter()
    for number, state in enumerate(snapshots.states):
        if ".saving/moves.json" in state:
            folder = restored(state, tmp_path / str(number))
            with pytest.raises(ValueError, match=r"a save was interrupted.*hf-gile labels show"):
                GileForSequenceClassification.from_pretrained(folder)
            complete(folder)
            assert contents(folder) == new
            assert not (folder / ".saving").exists()
            ends["completed"] += 1
        else:
            loaded = {name: data for name, data in state.items() if not name.startswith((".saving/", ".lock"))}
            ends["old" if loaded == old else "new"] += 1
            assert loaded in (old, new)
    assert snapshots.unsynced == set()  # also safe against power cuts
    assert min(ends["old"], ends["completed"], ends["new"]) > 0
    sys.stdout.write(f"\n{command}: {len(snapshots.states)} points, {dict(ends)}\n")  # pytest -s


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("command", COMMANDS)
def test_after_a_kill_the_next_command_and_load_see_a_consistent_model(run, model, before_each, tmp_path, command):
    def seen(folder):
        loaded = GileForSequenceClassification.from_pretrained(folder)
        index = LabelIndex.from_pretrained(folder / "index", loaded)
        assert index.label_set.ids == loaded.label_set.ids
        return loaded.label_set, loaded.config.calibration, loaded.config.thresholds

    def killed_at(number, folder):
        """Runs the command in a child that is killed before an operation; returns whether it was killed."""

        def act():
            remaining = [number]

            def count(name, arguments):
                remaining[0] -= 1
                if remaining[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

            before_each(count)
            run(*words_of(command, folder))

        return is_killed(act)

    state = {path.relative_to(model).as_posix(): path.read_bytes() for path in model.rglob("*") if path.is_file()}
    old = seen(model)
    run(*words_of(command, model))
    new = seen(model)
    assert old != new
    ends, number = Counter(), 5
    while True:
        folder = restored(state, tmp_path / f"killed-{number}")
        if not killed_at(number, folder):
            break
        run("labels", "show", folder)
        files = seen(folder)
        assert files in (old, new)
        ends["old" if files == old else "new"] += 1
        number += 29
    sys.stdout.write(f"\n{command}: {dict(ends)}\n")  # pytest -s
    assert min(ends["old"], ends["new"]) > 0
