"""Commands neither follow nor change what a stranger planted in a model folder."""

import json
import os
import shutil
import signal

import pytest
from typer.testing import CliRunner

from hf_gile import writing
from hf_gile_cli.app import app

READERS = {
    "score": ["score", "MODEL", "NOTES"],
    "score into a folder": ["score", "MODEL", "NOTES", "--output", "OUT", "--workers", "1"],
    "show": ["labels", "show", "MODEL"],
    "dry run": ["labels", "retire", "MODEL", "Iron", "--dry-run"],
    "push": ["push", "MODEL", "user/model", "--dry-run"],
    "verify": ["verify", "MODEL"],
    "index": ["index", "MODEL", "OUT"],
    "audit": ["audit", "MODEL", "NOTES", "--text", "text", "--labels", "labels", "--output", "OUT"],
    "evaluate": ["evaluate", "MODEL", "NOTES", "--text", "text", "--labels", "labels", "--output", "OUT.json"],
    "vectors": ["export", "vectors", "MODEL", "OUT.sql"],
    "space": ["space", "MODEL", "--output", "OUT"],
    "repair": ["repair", "MODEL"],
}
WRITERS = {
    "add": ["labels", "add", "MODEL", "D1", "Diet"],
    "retire": ["labels", "retire", "MODEL", "Iron"],
    "import": ["labels", "import", "MODEL", "NEW"],
    "calibrate": ["calibrate", "MODEL", "NOTES", "--text", "text", "--labels", "labels"],
    "card": ["card", "MODEL"],
}


def plant_journal(folder, home):
    """Plants the journal of an earlier format, with links out of the folder."""
    (folder / ".saving" / "new").mkdir(parents=True)
    (folder / ".saving" / "old").symlink_to(home)
    (folder / ".saving" / "new" / ".bashrc").write_text("theirs")
    (folder / ".bashrc").write_text("theirs")
    (folder / ".saving" / "moves.json").write_text('{"stale": ["../home/.bashrc", "/etc/passwd", "labels.jsonl"]}')


def plant_staging(folder, home):
    staging = folder / f".saving-{'0' * 16}"
    staging.mkdir()
    (staging / "labels.jsonl").symlink_to(home / ".bashrc")
    (staging / "figures").symlink_to(home)
    (staging / "model_manifest.json").write_text('{"files": {}, "processor": null}')
    record = writing._record(folder).name
    (folder / record).write_text(json.dumps({"staging": staging.name, "files": {"../home/.bashrc": ""}, "stale": []}))


def plant_linked_staging(folder, home):
    (folder / ".saving-0").symlink_to(home)
    (folder / ".lock").symlink_to(home / ".bashrc")


def plant_interrupted_saves(folder, home):
    for plant in SAVES.values():
        plant(folder, home)


def pipe(name):
    def plant(folder, home):
        (folder / name).unlink(missing_ok=True)
        (folder / name).parent.mkdir(exist_ok=True)
        os.mkfifo(folder / name)

    return plant


def link(name, target):
    return lambda folder, home: (folder / name).symlink_to({"home": home, "folder": folder}.get(target, target))


def manifest(content):
    return lambda folder, home: (folder / "model_manifest.json").write_bytes(content)


def manifest_of(name):
    return manifest(json.dumps({"processor": None, "files": {name: "0"}}).encode())


SAVES = {"journal": plant_journal, "staging": plant_staging, "linked staging": plant_linked_staging}
PLANTS = SAVES | {
    "linked index": link("index", "home"),
    "link to a device": link("card.yaml", "/dev/zero"),
    "link to itself": link("loop", "folder"),
    "name with a newline": lambda folder, home: (folder / "a\n\x1b[31mhf-gile").write_text("x"),
    "pipe config.json": pipe("config.json"),
    "pipe model_manifest.json": pipe("model_manifest.json"),
    "pipe index": pipe("index/label_index.json"),
    "manifest list": manifest(b"[]"),
    "manifest wrong": manifest(b'{"stale": 7, "files": null, "token": "../../home"}'),
    "manifest deep": manifest(b"[" * 100_000),
    "manifest bytes": manifest(b"\xff\xfe\x00"),
    "manifest root": manifest_of("/dev/zero"),
    "manifest outside": manifest_of("../home/.bashrc"),
}
OF_ALL_COMMANDS = {"interrupted saves": plant_interrupted_saves, "pipe labels.jsonl": pipe("labels.jsonl")}


def tree(folder):
    """Returns all entries of a folder, without following links."""
    entries = {}
    for path in folder.rglob("*"):
        about = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        entries[path.relative_to(folder).as_posix()] = (about.st_mode, about.st_ino, content)
    return entries


@pytest.fixture
def model(tmp_path, write, saved_model, datasets_cache, monkeypatch):
    monkeypatch.setattr(writing, "SAVES", tmp_path / "saves")
    rows = [{"text": "Rats were fed a diet low in iron.", "labels": ["Iron"]}, {"text": "milk", "labels": ["Infant"]}]
    write("notes.jsonl", "".join(json.dumps(row) + "\n" for row in rows * 3))
    write("new.csv", "id,name\nD1,Diet\n")
    write("home/.bashrc", "mine")
    write("home/docs/thesis.txt", "mine")
    return saved_model


@pytest.fixture
def limit():
    """Fails a test that hangs."""

    def end(number, frame):
        raise AssertionError("the command hangs")

    signal.signal(signal.SIGALRM, end)
    signal.alarm(60)
    yield
    signal.alarm(0)


def result_of(words, folder):
    names = {"MODEL": folder, "NOTES": folder.parent / "notes.jsonl", "NEW": folder.parent / "new.csv"}
    names |= {f"OUT{suffix}": folder.parent / f"out{suffix}" for suffix in ("", ".json", ".sql")}
    result = CliRunner().invoke(app, [str(names.get(word, word)) for word in words], prog_name="hf-gile")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    assert not any(kind in result.stderr for kind in ("TypeError", "AttributeError", "RecursionError", "KeyError"))
    for name in ("out", "out.json", "out.sql"):
        path = folder.parent / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return result


def cases(commands, usual):
    """Returns pairs of a command and a plant: all plants for the usual command, two for the others."""
    fast = [(usual, plant) for plant in SAVES | OF_ALL_COMMANDS]
    slow = [(usual, plant) for plant in PLANTS if plant not in SAVES]
    slow += [(command, plant) for command in commands if command != usual for plant in OF_ALL_COMMANDS]
    return [*fast, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in slow)]


@pytest.mark.parametrize(("command", "plant"), cases(READERS, "score"))
def test_commands_that_read_change_nothing(model, tmp_path, limit, command, plant):
    (PLANTS | OF_ALL_COMMANDS)[plant](model, tmp_path / "home")
    before, home = tree(model), tree(tmp_path / "home")
    result = result_of(READERS[command], model)
    assert tree(model) == before
    assert tree(tmp_path / "home") == home
    if plant in (*SAVES, "interrupted saves") and command in ("score", "show", "index"):
        assert result.exit_code == 0, result.output


@pytest.mark.parametrize(("command", "plant"), cases(WRITERS, "add"))
def test_commands_that_write_change_only_the_model(model, tmp_path, limit, command, plant):
    (PLANTS | OF_ALL_COMMANDS)[plant](model, tmp_path / "home")
    before, home = tree(model), tree(tmp_path / "home")
    result_of(WRITERS[command], model)
    after = tree(model)
    assert tree(tmp_path / "home") == home
    for name in before:
        if name.startswith((".saving", ".bashrc", "a\n", "loop")):
            assert after[name] == before[name]
    assert set(after) - set(before) <= {"README.md", "labels.csv", "card.yaml"}
