"""Writes files without losing those that they replace, and CSV that no spreadsheet executes.

The files of a model are replaced together, as `models/saving_gile.py` describes. A record of the save is in the cache
folder of this user, outside of the model. If a process is killed, `complete` uses it to finish the moves. Nothing in
the folder of a model can start them: it may come from somebody else.
"""

import csv
import glob
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR, S_ISREG

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

from filelock import FileLock, Timeout
from huggingface_hub.constants import HF_HOME

from .models import saving_gile
from .models.saving_gile import (
    MANIFESTS,
    STAGING,
    check_targets,
    compute_digest,
    find_problem,
    make_readable,
    move_files,
    sync_to_disk,
)

SAVES = Path(HF_HOME) / "hf_gile" / "saves"
"""Folder with the records of unfinished saves of this user."""

# Signs that start a formula, also in the widths of East Asian scripts, after the apostrophes of earlier escapes.
_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")  # noqa: RUF001


@contextmanager
def new_files(
    folder: Path, find_stale: Callable[[Path, set[str]], Iterable[str]] = lambda folder, names: ()
) -> Iterator[Path]:
    """Provides an empty folder to write to; on success, its files replace those of a folder together.

    On an error, nothing changes. If the process is killed, the folder has the old files, the new files, or a mixture
    that does not load until `complete` has moved the other files. Can be nested.

    Args:
        folder: Destination of the files.
        find_stale: Called with the folder and the names of the new files; returns the names of other files to remove.

    Raises:
        OSError: If a file cannot be written; the error names it.
        ValueError: If a file would be moved outside of the folder through a link, or an interrupted save was changed.
    """
    if folder in saving_gile.open_saves:  # part of a larger save
        with saving_gile.new_files(folder, find_stale) as new:
            yield new
        return
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(folder):
        _complete(folder)
        with _name_destination(folder), saving_gile.new_files(folder, find_stale, _record_save) as new:
            yield new
        _forget(folder)


@contextmanager
def _name_destination(folder: Path) -> Iterator[None]:
    """Names the destination file in write errors, as libraries name no file, or the source of a copy."""
    try:
        yield
    except OSError as error:
        target = Path(str(error.filename2 or error.filename or folder))
        if error.errno is None or not target.is_relative_to(folder):
            raise
        parts = [name for name in target.relative_to(folder).parts if not name.startswith(STAGING)]
        raise OSError(error.errno, error.strerror, str(folder.joinpath(*parts))) from error
    except Exception as error:
        if "(os error " in str(error):  # from a Rust library
            raise OSError(f"{folder}: {error}") from error
        raise


def complete(folder: Path) -> bool:
    """Completes a save of this user that was interrupted, or removes its files if it had not begun to move them.

    Returns:
        Whether there was such a save.

    Raises:
        OSError: If the folder cannot be written to.
        ValueError: If new files were changed meanwhile.
    """
    if not _record(folder).is_file():
        return False
    with exclusive_lock(folder):
        return _complete(folder)


def check_files(folder: Path) -> None:
    """Raises a ValueError if a save of a model was interrupted, or a file has changed since."""
    for part in MANIFESTS:
        if problem := find_problem(folder, part):
            raise ValueError(f"{folder}: {problem}")


def _complete(folder: Path) -> bool:
    if not _record(folder).is_file():
        return False
    try:
        record = json.loads(_record(folder).read_bytes())
        staging = folder / record["staging"]
        files = record["files"]
        stale = record["stale"]
    except (LookupError, RecursionError, TypeError, ValueError):
        raise ValueError(f"{_record(folder)}, the record of an interrupted save, is damaged: remove it") from None
    if not _is_folder(staging):
        _forget(folder)
        return False
    for path in staging.rglob("*"):
        if files and not _is_unchanged(path, files.get(path.relative_to(staging).as_posix())):
            raise ValueError(f"{path} was changed after a save was interrupted: remove {staging} to give up this save")
    try:
        if files:
            check_targets(folder, [*files, *stale])
            move_files(folder, staging, list(files), stale)
    except OSError as error:
        raise OSError(f"{folder}: a save was interrupted and cannot be completed: {error}") from error
    shutil.rmtree(staging)
    _forget(folder)
    return True


def _is_unchanged(path: Path, digest: str | None) -> bool:
    """Checks whether a path is a folder, or a file with this digest, if it has one."""
    mode = path.lstat().st_mode
    if not S_ISREG(mode):
        return S_ISDIR(mode)
    return digest is None or digest == compute_digest(path)


def _record(folder: Path) -> Path:
    """Returns the file of the record of a save."""
    return SAVES / f"{hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:32]}.json"


def _record_save(staging: Path, names: Collection[str], stale: Collection[str]) -> None:
    files = {name: compute_digest(staging / name) for name in names}
    content = json.dumps({"staging": staging.name, "files": files, "stale": list(stale)})
    try:
        write_text(_record(staging.parent), content)
    except OSError:  # without a cache folder, an interrupted save is refused, but cannot be completed
        _forget(staging.parent)


def _forget(folder: Path) -> None:
    with suppress(OSError):  # without its files, a record has no effect
        _record(folder).unlink(missing_ok=True)


@contextmanager
def exclusive_lock(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Locks a saved model or a file against changes by other processes, waiting if necessary. Can be nested.

    The lock is a hidden file, in the folder or next to the file, that is removed at the end.

    Args:
        path: Folder of the model, or the file.
        waiting: Called before waiting.

    Raises:
        OSError: If the folder cannot be written to, or the hidden file is a link.
    """
    path = path.resolve()
    lock_file = path / ".lock" if path.is_dir() else path.with_name(f".{path.name}.lock")
    if os.path.lexists(lock_file) and not S_ISREG(lock_file.lstat().st_mode):
        raise FileExistsError(f"{lock_file} is not a file of hf_gile: remove it")  # a link would be followed
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


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Provides a temporary path to write to, which replaces the file on success.

    After an error, a kill or a power failure, the file is either the old or the complete new one. The path is in a
    hidden folder next to the file. If a process is killed, the next one that writes the file removes this folder.

    Args:
        path: The file. Its folder is created if needed. A link is replaced, not the file it points to.

    Raises:
        OSError: If the file cannot be written; the error names it.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():  # such as /dev/stdout
        yield path
        return
    _remove_abandoned(path)
    written = path
    try:
        with _locked_folder(path) as scratch:
            written = scratch / path.name
            yield written
            make_readable(written)
            sync_to_disk(written)
            if path.exists():
                shutil.copymode(path, written)
            written.replace(path)
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(written), str(written.parent)):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    sync_to_disk(path.parent)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a text as UTF-8; an existing file is replaced once the new one is complete, see `whole_file`."""
    with whole_file(path) as written:
        written.write_text(text, encoding="utf-8")


def _remove_abandoned(path: Path) -> None:
    """Removes the temporary folders for a file that killed processes of this machine left."""
    for scratch in path.parent.glob(f".{glob.escape(path.name)}.writing-{_machine()}-????????"):
        if fcntl is None or not _is_folder(scratch):
            continue
        with suppress(OSError):  # locked by its process, or just removed
            lock = os.open(scratch, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(scratch)
            finally:
                os.close(lock)


@contextmanager
def _locked_folder(path: Path) -> Iterator[Path]:
    """Provides a temporary folder next to a file, locked while this process lives."""
    lock = None
    while lock is None:
        scratch = path.with_name(f".{path.name}.writing-{_machine()}-{secrets.token_hex(4)}")
        scratch.mkdir()
        if fcntl is None:
            break
        lock = os.open(scratch, os.O_RDONLY)
        with suppress(OSError):  # not supported by the file system
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not scratch.exists():  # removed by another process before it was locked
            os.close(lock)
            lock = None
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _machine() -> str:
    """Returns a hash of the name of this machine, since locks of other machines may be invisible."""
    return f"{zlib.crc32(platform.node().encode()):08x}"


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def write_csv(path: str | os.PathLike[str], rows: Iterable[Iterable[object]], encoding: str = "utf-8") -> None:
    """Writes CSV whose texts are escaped by `escape_formula`; an existing file is replaced once it is complete."""
    with whole_file(path) as staged, staged.open("w", encoding=encoding, newline="") as file:
        csv.writer(file).writerows(map(escape_formula, row) for row in rows)


def escape_formula(cell: object) -> object:
    """Puts an apostrophe before a text that a spreadsheet would execute, but not before a number.

    Example:
        >>> [escape_formula(cell) for cell in ("=1+1", "-2.5", "'Ewa", "'=x", 7)]
        ["'=1+1", '-2.5', "'Ewa", "''=x", 7]
    """
    if not isinstance(cell, str) or not _FORMULA.match(cell):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def unescape_formula(cell: object) -> object:
    """Reverses `escape_formula`.

    Example:
        >>> [unescape_formula(cell) for cell in ("'=1+1", "-2.5", "'Ewa", "''=x", 7)]
        ['=1+1', '-2.5', "'Ewa", "'=x", 7]
    """
    is_escaped = isinstance(cell, str) and cell.startswith("'") and _FORMULA.match(cell)
    return str(cell)[1:] if is_escaped else cell
