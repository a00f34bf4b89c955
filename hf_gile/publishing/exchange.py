"""Replaces several files in a folder atomically, even if the process or the machine fails.

New files are written to `.saving/new` in the folder. When they are complete, writing `.saving/moves.json` commits them.
Each file is then moved to its destination, and an existing file to `.saving/old`. Finally, `.saving` is removed. If the
process is killed meanwhile, `complete` finishes the moves. Until then, models refuse to load.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ..models.modeling_gile import UNFINISHED_SAVE
from ..writing import sync_to_disk, whole_file


@contextmanager
def exclusive_lock(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Locks a saved model or a file against changes by other processes, waiting if necessary. Can be nested.

    The lock is a hidden file, in the folder or next to the file, that is removed at the end.

    Args:
        path: Folder of the model, or the file.
        waiting: Called before waiting.

    Raises:
        OSError: If the folder cannot be written to.
    """
    path = path.resolve()
    lock_file = path / ".lock" if path.is_dir() else path.with_name(f".{path.name}.lock")
    lock = FileLock(lock_file, is_singleton=True)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if waiting is not None:
            waiting()
        lock.acquire()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(lock_file.parent)) from None
    try:
        yield
    finally:
        try:
            if lock.lock_counter == 1:
                with suppress(OSError):  # Windows removes it automatically
                    lock_file.unlink()
        finally:
            lock.release()


def complete(folder: Path) -> None:
    """Completes a save that was interrupted after it was committed.

    Args:
        folder: Folder of a saved model.

    Raises:
        OSError: If the folder cannot be written to.
        ValueError: If a file would be moved outside the folder.
    """
    journal = folder / UNFINISHED_SAVE
    if not journal.is_file():
        return
    try:
        with exclusive_lock(folder):
            if journal.is_file():  # otherwise another save has just completed
                names, stale = _list_files(journal.with_name("new")), json.loads(journal.read_bytes())["stale"]
                _check_targets(folder, [*names, *stale])
                _move(folder, names, stale)
                _finish(folder)
            _discard(folder)
    except OSError as error:
        raise OSError(f"{folder}: a save was interrupted and cannot be completed: {error}") from error


@contextmanager
def exchange(folder: Path, stale: Callable[[set[str]], list[str]]) -> Iterator[Path]:
    """Provides an empty folder to write to, and moves its files to their destination on success.

    Args:
        folder: Destination of the files.
        stale: Called with the names of the new files; returns the names of other files to remove.

    Raises:
        OSError: If a file cannot be written, or its destination is a folder; the error names it. Nothing is changed.
        ValueError: If a file would be moved outside the folder through a link. Nothing is changed.
    """
    complete(folder)
    journal = folder / UNFINISHED_SAVE
    new = journal.with_name("new")
    with exclusive_lock(folder):
        _discard(folder)
        names: list[str] = []
        outdated: list[str] = []
        try:
            with _name_destination(new, folder):
                new.mkdir(parents=True)
                yield new
                names = _list_files(new)
                outdated = stale(set(names))
                _check_targets(folder, [*names, *outdated])
                for path in [*sorted(new.rglob("*")), new, folder]:
                    sync_to_disk(path)
                with whole_file(journal) as staged:
                    staged.write_text(json.dumps({"stale": outdated}), encoding="utf-8")
            _move(folder, names, outdated)
            _finish(folder)
        except BaseException:
            if journal.is_file():
                _move_back(folder, names, outdated)
                _finish(folder)
            raise
        finally:
            _discard(folder)


@contextmanager
def _name_destination(new: Path, folder: Path) -> Iterator[None]:
    """Names the destination file in write errors, as libraries name no file, or the source of a copy."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError):
            target = Path(str(error.filename2 or error.filename or new))
            if target.is_relative_to(new) and error.errno is not None:
                raise OSError(error.errno, error.strerror, str(folder / target.relative_to(new))) from error
        elif "(os error " in str(error):  # from a Rust library
            raise OSError(f"{folder}: {error}") from error
        raise


def _list_files(new: Path) -> list[str]:
    return sorted(path.relative_to(new).as_posix() for path in new.rglob("*") if path.is_file())


def _check_targets(folder: Path, names: list[str]) -> None:
    for name in names:
        target = folder / name
        if not target.parent.resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"{target} is outside {folder}: replace the link in its path with a folder")
        if target.is_dir():
            raise FileExistsError(f"{target} is a folder, but the model has a file with this name: move it away")


def _move(folder: Path, names: list[str], stale: list[str]) -> None:
    """Moves new files to their destination and existing files away. Resumes an interrupted call."""
    new, old = (folder / UNFINISHED_SAVE).with_name("new"), (folder / UNFINISHED_SAVE).with_name("old")
    for name in [*names, *stale]:
        target, backup = folder / name, old / name
        is_new = (new / name).exists()
        if (is_new or name in stale) and (target.exists() or target.is_symlink()):
            backup.parent.mkdir(parents=True, exist_ok=True)
            backup.unlink(missing_ok=True)
            try:
                os.link(target, backup, follow_symlinks=False)  # readers never miss a file
            except (OSError, NotImplementedError):  # not supported by this file system
                target.replace(backup)
        if name in stale:
            target.unlink(missing_ok=True)
        if is_new:
            target.parent.mkdir(parents=True, exist_ok=True)
            (new / name).replace(target)
    for parent in {(folder / name).parent for name in [*names, *stale]}:
        if parent.is_dir():
            sync_to_disk(parent)


def _move_back(folder: Path, names: list[str], stale: list[str]) -> None:
    """Undoes `_move`; if this is also interrupted, `_move` can still be called."""
    new, old = (folder / UNFINISHED_SAVE).with_name("new"), (folder / UNFINISHED_SAVE).with_name("old")
    for name in [*names, *stale]:
        target, backup = folder / name, old / name
        if name not in stale and not (new / name).exists():
            target.replace(new / name)
        if backup.exists() or backup.is_symlink():
            backup.replace(target)


def _finish(folder: Path) -> None:
    """Removes the journal, which ends a committed save."""
    journal = folder / UNFINISHED_SAVE
    journal.unlink(missing_ok=True)
    sync_to_disk(journal.parent)


def _discard(folder: Path) -> None:
    """Removes the remains of uncommitted saves, unless a committed save must be completed."""
    journal = folder / UNFINISHED_SAVE
    if journal.parent.is_dir() and not journal.is_file():
        shutil.rmtree(journal.parent)
