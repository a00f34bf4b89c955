"""Replacing files together despite failures, interrupts and kills."""

import os
import threading
from contextlib import suppress

import pytest

from hf_gile.publishing import exchange as module
from hf_gile.publishing.exchange import complete, exchange, exclusive_lock

OLD = {"config.json": "old", "index/codes": "old", "labels.jsonl": "old", "notes.txt": "mine"}
NEW = {"config.json": "new", "figures/map.png": "new", "labels.jsonl": "new", "notes.txt": "mine"}
OPERATIONS = ("replace", "link", "unlink", "rmdir", "mkdir", "fsync")


class Ended(BaseException):
    """Simulates the end of the process."""


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def contents(folder):
    names = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return {name: (folder / name).read_text() for name in names}


def put(folder):
    with exchange(folder, lambda names: [name for name in OLD if name not in names and name != "notes.txt"]) as new:
        write(new, {name: text for name, text in NEW.items() if name != "notes.txt"})


@pytest.fixture
def fail(monkeypatch):
    """Makes selected file operations fail."""

    def start(fails, error):
        number = [0]

        def patched(name):
            real = getattr(os, name)

            def call(*arguments, **options):
                number[0] += 1
                if fails(number[0]):
                    raise error
                return real(*arguments, **options)

            monkeypatch.setattr(os, name, call)

        for name in OPERATIONS:
            patched(name)
        return number

    return start


@pytest.fixture
def operations(tmp_path, fail, monkeypatch):
    """Returns the number of operations of an exchange."""
    write(tmp_path / "counted", OLD)
    number = fail(lambda number: False, None)
    put(tmp_path / "counted")
    monkeypatch.undo()
    return number[0]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(5, "Input/output error")])
def test_a_failed_operation_leaves_the_folder_unchanged(tmp_path, fail, operations, monkeypatch, error):
    seen = set()
    for step in range(1, operations + 1):
        folder = tmp_path / str(step)
        write(folder, OLD)
        fail(lambda number, step=step: number == step, error)
        with suppress(type(error)):
            put(folder)
        monkeypatch.undo()
        complete(folder)
        present = contents(folder)
        leftover = {name for name in present if name.startswith(".")}
        assert all(name.startswith(".saving/old/") or name == ".lock" for name in leftover)  # of a failed removal
        present = {name: text for name, text in present.items() if name not in leftover}
        assert present in (OLD, NEW)
        seen.add(present == NEW)
        put(folder)
        assert contents(folder) == NEW
    assert seen == {True, False}


@pytest.mark.slow
def test_the_next_call_repairs_a_failed_rollback(tmp_path, fail, operations, monkeypatch):
    ends = []
    for first in range(1, operations + 1):
        for more in range(1, 8):
            folder = tmp_path / f"{first}-{more}"
            write(folder, OLD)
            fail(lambda number, first=first, more=more: number == first or number >= first + more, Ended())
            with pytest.raises(Ended):
                put(folder)
            monkeypatch.undo()
            was_under_way = (folder / ".saving" / "moves.json").exists()
            complete(folder)
            present = {name: text for name, text in contents(folder).items() if not name.startswith(".")}
            assert present in (OLD, NEW)
            ends.append((was_under_way, present == NEW))
    assert set(ends) == {(False, False), (False, True), (True, True)}


def test_completion_may_be_interrupted_at_any_point(tmp_path, fail, operations, monkeypatch):
    ends = 0
    for step in range(1, operations + 1):
        folder = tmp_path / str(step)
        write(folder, OLD)
        write(folder / ".saving" / "new", {name: text for name, text in NEW.items() if name != "notes.txt"})
        (folder / ".saving" / "moves.json").write_text('{"stale": ["index/codes"]}')
        fail(lambda number, step=step: number >= step, Ended())
        try:
            complete(folder)
        except Ended:
            ends += 1
        monkeypatch.undo()
        complete(folder)
        put(folder)
        assert contents(folder) == NEW
    assert ends > 10


def test_files_are_never_written_outside_the_folder(tmp_path):
    write(tmp_path / "model", OLD)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "model" / "figures").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=r"figures.map\.png is outside .*replace the link"):
        put(tmp_path / "model")
    (tmp_path / "model" / ".saving" / "new").mkdir(parents=True)
    (tmp_path / "secret").write_text("mine")
    (tmp_path / "model" / ".saving" / "moves.json").write_text('{"stale": ["../secret"]}')
    with pytest.raises(ValueError, match="secret is outside"):
        complete(tmp_path / "model")
    assert (tmp_path / "secret").read_text() == "mine"


def test_the_next_save_removes_leftovers_of_a_killed_save(tmp_path):
    write(tmp_path / "model", OLD)
    write(tmp_path / "model" / ".saving" / "new", {"model.safetensors": "half"})
    complete(tmp_path / "model")
    assert (tmp_path / "model" / ".saving").exists()  # may belong to a running save
    put(tmp_path / "model")
    assert contents(tmp_path / "model") == NEW


def test_file_systems_without_hard_links_are_supported(tmp_path, monkeypatch):
    def refuse(*arguments, **options):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refuse)
    write(tmp_path / "model", OLD)
    put(tmp_path / "model")
    assert contents(tmp_path / "model") == NEW


def test_a_lock_on_a_folder_is_exclusive_and_reentrant(tmp_path):
    order = []

    def other():
        with exclusive_lock(tmp_path, lambda: order.append("waits")):
            order.append("other")

    with exclusive_lock(tmp_path):
        thread = threading.Thread(target=other)
        thread.start()
        with exclusive_lock(tmp_path):
            while not order:
                pass
        order.append("first")
    thread.join()
    assert order == ["waits", "first", "other"]
    assert list(tmp_path.iterdir()) == []


def test_other_processes_wait_for_a_running_save(tmp_path, monkeypatch):
    write(tmp_path / "model", OLD)
    threads = []
    real = module._move

    def move(folder, names, stale):
        threads.append(threading.Thread(target=complete, args=(folder,)))
        threads[0].start()
        real(folder, names, stale)

    monkeypatch.setattr(module, "_move", move)
    put(tmp_path / "model")
    threads[0].join()
    assert len(threads) == 1
    assert contents(tmp_path / "model") == NEW
