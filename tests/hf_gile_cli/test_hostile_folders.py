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
JOURNALS = {
    "empty": b'{"stale": []}',
    "stale": b'{"stale": ["../home/.bashrc", "/etc/passwd", "labels.jsonl"]}',
    "list": b"[]",
    "wrong": b'{"stale": 7, "files": null, "token": "../../home"}',
    "deep": b"[" * 100_000,
    "bytes": b"\xff\xfe\x00",
    "huge": b'{"stale": ["' + b"x" * 3_000_000 + b'"]}',
}


def plant_journal(folder, home, content):
    """Plants the journal of an earlier format, with links out of the folder."""
    (folder / ".saving" / "new").mkdir(parents=True)
    (folder / ".saving" / "old").symlink_to(home)
    (folder / ".saving" / "new" / ".bashrc").write_text("theirs")
    (folder / ".bashrc").write_text("theirs")
    (folder / ".saving" / "moves.json").write_bytes(content)


def plant_moved(folder, home):
    (folder / ".saving").mkdir()
    (folder / ".saving" / "new").symlink_to(home)
    (folder / ".saving" / "moves.json").write_text('{"stale": []}')


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


def plant_pipe(name):
    def plant(folder, home):
        (folder / name).unlink(missing_ok=True)
        (folder / name).parent.mkdir(exist_ok=True)
        os.mkfifo(folder / name)

    return plant


def plant_manifest(content):
    def plant(folder, home):
        (folder / "model_manifest.json").write_bytes(content)

    return plant


def part(name):
    return json.dumps({"processor": None, "files": {name: "0"}}).encode()


PLANTS = {
    **{
        f"journal {name}": lambda f, h, content=content: plant_journal(f, h, content)
        for name, content in JOURNALS.items()
    },
    "moved files": plant_moved,
    "staging": plant_staging,
    "linked staging": plant_linked_staging,
    "linked index": lambda folder, home: (folder / "index").symlink_to(home),
    **{
        f"pipe {name}": plant_pipe(name) for name in ("labels.jsonl", "config.json", "model_manifest.json", "README.md")
    },
    "pipe index": plant_pipe("index/label_index.json"),
    "name with a newline": lambda folder, home: (folder / "a\n\x1b[31mhf-gile").write_text("x"),
    "link to a device": lambda folder, home: (folder / "card.yaml").symlink_to("/dev/zero"),
    "link to itself": lambda folder, home: (folder / "loop").symlink_to(folder),
    **{f"manifest {name}": plant_manifest(content) for name, content in JOURNALS.items()},
    "manifest outside": plant_manifest(part("../home/.bashrc")),
    "manifest root": plant_manifest(part("/dev/zero")),
    "manifest files": plant_manifest(b'{"processor": null, "files": 3}'),
}


def tree(folder):
    """Returns all entries of a folder, without following links."""
    entries = {}
    for path in folder.rglob("*"):
        about = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        entries[path.relative_to(folder).as_posix()] = (about.st_mode, about.st_ino, content)
    return entries


@pytest.fixture
def model(tmp_path, saved_model, datasets_cache, monkeypatch):
    monkeypatch.setattr(writing, "SAVES", tmp_path / "saves")
    rows = [{"text": "Rats were fed a diet low in iron.", "labels": ["Iron"]}, {"text": "milk", "labels": ["Infant"]}]
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows * 3))
    (tmp_path / "new.csv").write_text("id,name\nD1,Diet\n")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".bashrc").write_text("mine")
    (tmp_path / "home" / "docs").mkdir()
    (tmp_path / "home" / "docs" / "thesis.txt").write_text("mine")
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


FAST = {"journal empty", "moved files", "staging", "linked staging", "pipe labels.jsonl", "manifest outside"}


def cases(commands, fast):
    """Returns all pairs of a command and a plant; few are not slow."""
    for command in commands:
        for plant in PLANTS:
            marks = () if command == fast and plant in FAST else pytest.mark.slow
            yield pytest.param(command, plant, marks=marks)


@pytest.mark.parametrize(("command", "plant"), [*cases(READERS, "score")])
def test_commands_that_read_change_nothing(model, tmp_path, limit, command, plant):
    PLANTS[plant](model, tmp_path / "home")
    before, home = tree(model), tree(tmp_path / "home")
    result = result_of(READERS[command], model)
    assert tree(model) == before
    assert tree(tmp_path / "home") == home
    if plant.startswith(("journal", "moved", "staging", "linked staging")) and command in ("score", "show", "index"):
        assert result.exit_code == 0, result.output


@pytest.mark.parametrize(("command", "plant"), [*cases(WRITERS, "add")])
def test_commands_that_write_change_only_the_model(model, tmp_path, limit, command, plant):
    PLANTS[plant](model, tmp_path / "home")
    before, home = tree(model), tree(tmp_path / "home")
    result_of(WRITERS[command], model)
    after = tree(model)
    assert tree(tmp_path / "home") == home
    for name in before:
        if name.startswith((".saving", ".bashrc", "a\n", "loop")):
            assert after[name] == before[name]
    assert set(after) - set(before) <= {"README.md", "labels.csv", "card.yaml"}
