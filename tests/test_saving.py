"""Replacing files together despite failures, interrupts, kills and strangers."""

import json
import os
import shutil
import sys
import threading
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from forks import is_killed

from hf_gile import writing as module
from hf_gile.models import saving_gile
from hf_gile.models.saving_gile import find_problem, load_checked, write_manifest
from hf_gile.writing import complete, exclusive_lock, new_files, whole_file

OLD = {"config.json": "old", "index/codes": "old", "labels.jsonl": "old", "notes.txt": "mine"}
NEW = {"config.json": "new", "figures/map.png": "new", "labels.jsonl": "new", "notes.txt": "mine"}
OPERATIONS = ("replace", "unlink", "rmdir", "mkdir", "fsync")


class Ended(BaseException):
    """Simulates the end of the process."""


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def contents(folder):
    names = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return {name: (folder / name).read_text() for name in names if name != "model_manifest.json"}


def put(folder, files=NEW, replace=new_files):
    stale = [name for name in OLD if name != "notes.txt"]
    with replace(folder, lambda folder, names: [name for name in stale if name not in names]) as new:
        write(new, {name: text for name, text in files.items() if name != "notes.txt"})
        write_manifest(new, "model", None)


def start(folder):
    """Returns a folder with an old save."""
    put(folder, OLD)
    (folder / "notes.txt").write_text("mine")
    return folder


def is_mixed(folder):
    return find_problem(folder, "model", names=NEW.keys() - {"notes.txt"}) is not None


@pytest.fixture(autouse=True)
def saves(tmp_path_factory, monkeypatch):
    """Sets the folder of records."""
    monkeypatch.setattr(module, "SAVES", tmp_path_factory.mktemp("saves"))
    return module.SAVES


@pytest.fixture
def each_failure(tmp_path, monkeypatch):
    """Acts on a folder again and again, fails at the next operation each time, and yields the folder."""

    def fail_each(act, error, begin=start, recovers=False):
        for step in count(1):
            folder = begin(tmp_path / str(step))
            number = count(1)

            def patched(real, step=step, number=number):
                def call(*arguments, **options):
                    now = next(number)
                    if now == step or (now > step and not recovers):
                        raise error
                    return real(*arguments, **options)

                return call

            with monkeypatch.context() as patch, suppress(type(error)):
                for name in OPERATIONS:
                    patch.setattr(os, name, patched(getattr(os, name)))
                act(folder)
            if next(number) <= step:  # no operation has failed
                return
            yield folder

    return fail_each


def visible(folder):
    return {name: text for name, text in contents(folder).items() if name[0] != "."}


def test_a_failed_operation_leaves_the_old_or_the_new_files(each_failure):
    seen = set()
    for folder in each_failure(put, OSError(5, "Input/output error"), recovers=True):
        complete(folder)
        assert visible(folder) in (OLD, NEW)
        seen.add(visible(folder) == NEW)
        put(folder)
        assert contents(folder) == NEW
    assert seen == {True, False}


def test_after_a_kill_at_any_operation_files_are_old_new_or_refused_and_completed(each_failure):
    ends = set()
    for folder in each_failure(put, Ended()):
        was_mixed = is_mixed(folder)
        if not was_mixed:
            assert visible(folder) in (OLD, NEW)
        complete(folder)
        assert visible(folder) in ([NEW] if was_mixed else [OLD, NEW])
        ends.add((was_mixed, visible(folder) == NEW))
        assert not list(folder.glob(".saving-*"))
    assert ends == {(False, False), (True, True), (False, True)}


def test_after_a_kill_the_code_of_a_model_alone_leaves_old_or_new_files_or_is_refused(each_failure):
    put_model = partial(put, replace=saving_gile.new_files)
    ends = []
    for folder in each_failure(put_model, Ended()):
        ends.append("refused" if is_mixed(folder) else visible(folder))
        put_model(folder)
        assert not is_mixed(folder)
    assert all(end in ends for end in (OLD, NEW, "refused"))
    assert all(end in (OLD, NEW, "refused") for end in ends)


def test_completion_may_be_interrupted_at_any_point(each_failure, monkeypatch):
    ends = 0
    for folder in each_failure(complete, Ended(), partial(interrupted, monkeypatch=monkeypatch)):
        ends += 1
        complete(folder)
        assert {name: text for name, text in contents(folder).items() if name != ".lock"} == NEW
    assert ends > 10


@pytest.mark.skipif(sys.platform != "linux", reason="reads the names of synced files from /proc")
def test_new_files_are_on_disk_before_they_are_moved(tmp_path, monkeypatch):
    folder = start(tmp_path / "model")
    synced, moved, unsynced = set(), [], set()
    real = os.replace

    def replace(source, target):
        if Path(source).parent.name.startswith(".saving-"):
            moved.append(target)
            unsynced.update({str(source), str(Path(source).parent)} - synced)
        real(source, target)

    monkeypatch.setattr(os, "fsync", lambda file: synced.add(str(Path(f"/proc/self/fd/{file}").readlink())))
    monkeypatch.setattr(os, "replace", replace)
    put(folder)
    assert len(moved) >= 3
    assert not unsynced  # after a power cut


def interrupted(folder, monkeypatch, files=NEW):
    """Returns a folder with a save that was killed before the last file."""
    start(folder)
    real = Path.replace

    def replace(self, target):
        if Path(target) in (folder / "labels.jsonl", folder / "model_manifest.json"):
            raise Ended
        return real(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace)
        with pytest.raises(Ended):
            put(folder, files)
    assert is_mixed(folder)
    return folder


def test_files_are_never_written_outside_the_folder(tmp_path):
    folder = start(tmp_path / "model")
    (tmp_path / "elsewhere").mkdir()
    (folder / "figures").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=r"figures.map\.png is outside .*replace the link"):
        put(folder)
    assert not list((tmp_path / "elsewhere").iterdir())
    assert contents(folder) == OLD
    (folder / "figures").unlink()
    put(folder)
    assert contents(folder) == NEW


@pytest.mark.parametrize("files", [["config.json"], {"a\0b": "0"}, {"../config.json": "0"}], ids=repr)
def test_a_manifest_with_impossible_names_is_damaged(tmp_path, files):
    folder = start(tmp_path / "model")
    (folder / "model_manifest.json").write_text(json.dumps({"processor": None, "files": files}))
    assert find_problem(folder, "model") == "model_manifest.json is damaged: save the model again, or remove it"
    with pytest.raises(ValueError, match=r"model_manifest\.json is damaged"):
        load_checked(folder, "model", lambda: None)


def to_link(path, target):
    path.unlink()
    path.symlink_to(target)


@pytest.mark.parametrize(
    "change",
    [
        lambda staging, secret: to_link(staging / "labels.jsonl", secret),
        lambda staging, secret: (staging / "figures").symlink_to(secret.parent),
        lambda staging, secret: (staging / "labels.jsonl").write_text("forged"),
    ],
)
def test_an_interrupted_save_with_changed_files_is_not_completed(tmp_path, monkeypatch, change):
    secret = tmp_path / "home" / "secret"
    secret.parent.mkdir()
    secret.write_text("mine")
    folder = interrupted(tmp_path / "model", monkeypatch)
    (staging,) = folder.glob(".saving-*")
    if (staging / "figures").is_dir():
        shutil.rmtree(staging / "figures")
    change(staging, secret)
    for act in (complete, put):
        with pytest.raises(ValueError, match=r"was changed after a save was interrupted: remove"):
            act(folder)
    assert is_mixed(folder)
    assert secret.read_text() == "mine"
    shutil.rmtree(staging)
    put(folder)
    assert contents(folder) == NEW


def test_the_next_save_removes_leftovers_of_a_killed_save_and_nothing_else(tmp_path, monkeypatch):
    folder = start(tmp_path / "model")
    strange = {".saving/moves.json": '{"stale": ["notes.txt"]}', ".saving-0123/config.json": "theirs"}
    write(folder, strange)
    with monkeypatch.context() as patch:
        patch.setattr(saving_gile, "compute_digest", lambda path: os.kill(os.getpid(), 9))
        assert is_killed(lambda: put(folder))
    assert len(list(folder.glob(".saving-*"))) == 2
    put(folder)
    assert contents(folder) == NEW | strange


def test_the_next_write_removes_the_temporary_file_of_a_killed_process(tmp_path):
    path = tmp_path / "labels.sql"

    def die():
        with whole_file(path) as staged:
            staged.write_text("half")
            os.kill(os.getpid(), 9)

    assert is_killed(die)
    assert list(tmp_path.glob(".labels.sql.writing-*"))
    (tmp_path / ".labels.sql-notes").write_text("mine")
    with whole_file(path) as first:
        first.write_text("first")
        with whole_file(path) as second:
            second.write_text("second")
        assert first.read_text() == "first"  # of a living process
    assert contents(tmp_path) == {"labels.sql": "first", ".labels.sql-notes": "mine"}


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
