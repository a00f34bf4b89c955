"""Files of a folder replaced together: all of them or none, whatever ends the process or the machine.

New files are written to `.saving/new` in the folder. When they are complete, `.saving/moves.json` is written: from then
on the new files count. Each is moved to its place, and the file that was there to `.saving/old`; then `.saving` is
removed. If the process is killed on the way, `complete` does the moves that are left. Until then models refuse to load.
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
    """Keeps other processes from changing a saved model or a file; waits for one that does. May be nested.

    The lock is a hidden file, in the folder or beside the file, that is removed at the end.

    Args:
        path: The folder of the model, or the file.
        waiting: Called before a wait.

    Raises:
        OSError: The folder cannot be written to.
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
                with suppress(OSError):  # Windows removes it itself
                    place.unlink()
        finally:
            lock.release()


def complete(folder: Path) -> None:
    """Does what is left of a save that was interrupted after all its files were written.

    Args:
        folder: The folder of a saved model.

    Raises:
        OSError: The folder cannot be written to.
        ValueError: A file would leave the folder.
    """
    journal = folder / UNFINISHED_SAVE
    if not journal.is_file():
        return
    try:
        with alone(folder):
            if journal.is_file():  # else a running save has ended
                names, stale = _names(journal.with_name("new")), json.loads(journal.read_bytes())["stale"]
                _check(folder, [*names, *stale])
                _move(folder, names, stale)
                _end(folder)
            _discard(folder)
    except OSError as error:
        raise OSError(f"{folder}: a save was interrupted, and cannot be completed: {error}") from error


@contextmanager
def exchange(folder: Path, stale: Callable[[set[str]], list[str]]) -> Iterator[Path]:
    """Gives an empty folder to write to, and puts its files in their places if nothing fails.

    Args:
        folder: Where the files go.
        stale: Called with the names of the new files; returns those of other files to remove.

    Raises:
        OSError: A file cannot be written, or its place is a folder; the error names it. The folder is as it was.
        ValueError: A file would leave the folder, through a link. The folder is as it was.
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
    """Names, in errors of writing, the file as the user knows it: libraries name none, or the source of a copy."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError):
            target = Path(str(error.filename2 or error.filename or new))
            if target.is_relative_to(new) and error.errno is not None:
                raise OSError(error.errno, error.strerror, str(folder / target.relative_to(new))) from error
        elif "(os error " in str(error):  # of a library in Rust
            raise OSError(f"{folder}: {error}") from error
        raise


def _names(new: Path) -> list[str]:
    return sorted(path.relative_to(new).as_posix() for path in new.rglob("*") if path.is_file())


def _check(folder: Path, names: list[str]) -> None:
    for name in names:
        place = folder / name
        if not place.parent.resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"{place} is outside of {folder}: replace the link in its path by a folder")
        if place.is_dir():
            raise FileExistsError(f"{place} is a folder, where a file of the model goes: move it away")


def _move(folder: Path, names: list[str], stale: list[str]) -> None:
    """Moves new files to their places, and those that are there away. Goes on where an earlier call has ended."""
    new, old = (folder / UNFINISHED_SAVE).with_name("new"), (folder / UNFINISHED_SAVE).with_name("old")
    for name in [*names, *stale]:
        place, before = folder / name, old / name
        is_new = (new / name).exists()
        if (is_new or name in stale) and (place.exists() or place.is_symlink()):
            before.parent.mkdir(parents=True, exist_ok=True)
            before.unlink(missing_ok=True)
            try:
                os.link(place, before, follow_symlinks=False)  # whoever reads meanwhile misses no file
            except (OSError, NotImplementedError):  # not on this file system
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
    """Undoes `_move`; if this is interrupted in turn, `_move` can still be called."""
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
    """Removes what saves have left that do not count, unless one is to be completed."""
    journal = folder / UNFINISHED_SAVE
    if journal.parent.is_dir() and not journal.is_file():
        shutil.rmtree(journal.parent)
