"""Atomic replacement of several files in a folder, even if the process or the machine fails.

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
def alone(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Locks a saved model or a file against changes by other processes, waiting if necessary. Can be nested.

    The lock is a hidden file, in the folder or next to the file, that is removed at the end.

    Args:
        path: Folder of the model, or the file.
        waiting: Called before waiting.

    Raises:
        OSError: If the folder cannot be written to.
    """
    path = path.resolve()
    place = path / ".lock" if path.is_dir() else path.with_name(f".{path.name}.lock")
    lock = FileLock(place, is_singleton=True)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if waiting is not None:
            waiting()
        lock.acquire()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(place.parent)) from None
    try:
        yield
    finally:
        try:
            if lock.lock_counter == 1:
                with suppress(OSError):  # Windows removes it automatically
                    place.unlink()
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
        with alone(folder):
            if journal.is_file():  # otherwise another save has just completed
                names, stale = _names(journal.with_name("new")), json.loads(journal.read_bytes())["stale"]
                _check(folder, [*names, *stale])
                _move(folder, names, stale)
                _end(folder)
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
    with alone(folder):
        _discard(folder)
        names: list[str] = []
        gone: list[str] = []
        try:
            with _naming(new, folder):
                new.mkdir(parents=True)
                yield new
                names = _names(new)
                gone = stale(set(names))
                _check(folder, [*names, *gone])
                for path in [*sorted(new.rglob("*")), new, folder]:
                    sync_to_disk(path)
                with whole_file(journal) as written:
                    written.write_text(json.dumps({"stale": gone}), encoding="utf-8")
            _move(folder, names, gone)
            _end(folder)
        except BaseException:
            if journal.is_file():
                _move_back(folder, names, gone)
                _end(folder)
            raise
        finally:
            _discard(folder)


@contextmanager
def _naming(new: Path, folder: Path) -> Iterator[None]:
    """Names the destination file in write errors, as libraries name no file or the source of a copy."""
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


def _names(new: Path) -> list[str]:
    return sorted(path.relative_to(new).as_posix() for path in new.rglob("*") if path.is_file())


def _check(folder: Path, names: list[str]) -> None:
    for name in names:
        place = folder / name
        if not place.parent.resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"{place} is outside {folder}: replace the link in its path by a folder")
        if place.is_dir():
            raise FileExistsError(f"{place} is a folder, but the model has a file with this name: move it away")


def _move(folder: Path, names: list[str], stale: list[str]) -> None:
    """Moves new files to their destination and existing files away. Resumes an interrupted call."""
    new, old = (folder / UNFINISHED_SAVE).with_name("new"), (folder / UNFINISHED_SAVE).with_name("old")
    for name in [*names, *stale]:
        place, before = folder / name, old / name
        is_new = (new / name).exists()
        if (is_new or name in stale) and (place.exists() or place.is_symlink()):
            before.parent.mkdir(parents=True, exist_ok=True)
            before.unlink(missing_ok=True)
            try:
                os.link(place, before, follow_symlinks=False)  # readers never miss a file
            except (OSError, NotImplementedError):  # not supported by this file system
                place.replace(before)
        if name in stale:
            place.unlink(missing_ok=True)
        if is_new:
            place.parent.mkdir(parents=True, exist_ok=True)
            (new / name).replace(place)
    for above in {(folder / name).parent for name in [*names, *stale]}:
        if above.is_dir():
            sync_to_disk(above)


def _move_back(folder: Path, names: list[str], stale: list[str]) -> None:
    """Undoes `_move`; if this is interrupted too, `_move` can still be called."""
    new, old = (folder / UNFINISHED_SAVE).with_name("new"), (folder / UNFINISHED_SAVE).with_name("old")
    for name in [*names, *stale]:
        place, before = folder / name, old / name
        if name not in stale and not (new / name).exists():
            place.replace(new / name)
        if before.exists() or before.is_symlink():
            before.replace(place)


def _end(folder: Path) -> None:
    journal = folder / UNFINISHED_SAVE
    journal.unlink(missing_ok=True)
    sync_to_disk(journal.parent)


def _discard(folder: Path) -> None:
    """Removes the remains of uncommitted saves, unless a committed one must be completed."""
    journal = folder / UNFINISHED_SAVE
    if journal.parent.is_dir() and not journal.is_file():
        shutil.rmtree(journal.parent)
