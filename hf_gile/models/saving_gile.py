"""Replaces the files of a saved model together, and checks that the files of a folder belong together.

New files are written to a folder `.saving-TOKEN` in the folder of the model. When they are complete and on disk, they
are moved to their destinations, and `manifest.json` last. It has the SHA-256 of each file of the model, and of its
processor. A folder whose files differ from its manifest is not loaded, so no load mixes files of two saves.

A record of the save is in the cache folder of this user, outside of the model. If a process is killed, `complete` uses
it to finish the moves. Nothing in the folder of a model can start them: it may come from somebody else.
"""

import errno
import glob
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from stat import S_ISDIR, S_ISREG
from typing import Any, TypeVar

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

from filelock import FileLock, Timeout
from huggingface_hub import hf_hub_download
from huggingface_hub.constants import HF_HOME
from huggingface_hub.errors import EntryNotFoundError, RevisionNotFoundError
from transformers.utils import logging
from transformers.utils.hub import cached_file

Loaded = TypeVar("Loaded")

MANIFEST = "manifest.json"
"""File with the hashes of the files of a model and of its processor, written last."""

SAVES = Path(HF_HOME) / "hf_gile" / "saves"
"""Folder with the records of unfinished saves of this user."""

_logger = logging.get_logger(__name__)

_CONFIG = "config.json"
_STAGING = ".saving-"
_LARGEST = 1 << 20  # bytes of a manifest
_PAUSES = (0.05, 0.2, 0.5, 1.0)  # seconds before a folder is read again
_WEIGHTS = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors|model\.safetensors\.index\.json")
_TOKENIZER = re.compile(
    r"(added_tokens|preprocessor_config|processor_config|special_tokens_map|tokenizer|tokenizer_config|vocab)\.json"
    r"|merges\.txt|vocab\.txt|chat_template\.jinja"
)
_HUB_OPTIONS = ("cache_dir", "force_download", "local_files_only", "proxies", "revision", "subfolder", "token")
_HUB = ("repo_id", "commit_message", "commit_description", "private", "create_pr", "revision", "tags")


def load_checked(
    source: str | os.PathLike[str] | None,
    part: str,
    load: Callable[[], Loaded],
    arguments: Mapping[str, Any] | None = None,
    names: Collection[str] | None = None,
) -> tuple[Loaded, str | None]:
    """Loads a part of a saved model, and checks its files against the manifest, if there is one.

    If another process saves the model meanwhile, it is loaded again.

    Args:
        source: Folder, or name on the Hub; None if nothing is read.
        part: `"model"` or `"processor"`.
        load: Loads the part.
        arguments: Arguments of `from_pretrained`.
        names: Names of the files to check; by default all files of the part.

    Returns:
        What `load` returns, and the fingerprint of the processor in the manifest.

    Raises:
        ValueError: If a save was interrupted, or a file has changed since it was saved.
    """
    if source is None:
        return load(), None
    options = hub_options(arguments or {})
    folder = Path(source, options.get("subfolder", ""))
    if not folder.is_dir():
        loaded = load()
        missing = {"_raise_exceptions_for_missing_entries": False, "_raise_exceptions_for_connection_errors": False}
        manifest = cached_file(source, MANIFEST, **missing, **options)
        if manifest is None:
            return loaded, None
        if problem := find_problem(Path(manifest).parent, part, names, is_complete=False):
            raise ValueError(f"{source}: {problem}")
        return loaded, read_manifest(Path(manifest).parent).get(part, {}).get("processor")
    for pause in (*_PAUSES, 0):
        before = _state(folder, part, names)
        failure = None
        problem = find_problem(folder, part, names) if _has_staging(folder) else None
        if problem is None:
            try:
                loaded = load()
            except Exception as error:
                failure = error
            problem = find_problem(folder, part, names)
        is_stable = before == _state(folder, part, names)
        if is_stable and (problem is None or not _has_staging(folder)):
            if failure is not None:
                raise failure
            if problem is None:
                return loaded, before[0].get(part, {}).get("processor")
            break
        time.sleep(pause)
    raise ValueError(f"{folder}: {problem or 'another process is saving the model: load it again'}") from failure


def find_problem(folder: Path, part: str, names: Collection[str] | None = None, is_complete: bool = True) -> str | None:
    """Describes the first file of a saved model that differs from the manifest, or returns None.

    Args:
        folder: Folder of the model.
        part: `"model"` or `"processor"`.
        names: Names of the files to check; by default all files of the part.
        is_complete: Whether all files of the manifest must exist; a cache of the Hub has those that were needed.
    """
    try:
        parts = read_manifest(folder)
    except ValueError as error:
        return str(error)
    files = parts.get(part, {}).get("files", {})
    checked = sorted(files if names is None else files.keys() & set(names))
    is_interrupted = _has_staging(folder)
    hint = f"save the model again, or remove {MANIFEST} if the change is intended"
    if is_interrupted:
        hint = f"a save was interrupted; `hf-gile repair {folder}` completes it, if it was made on this machine"
    for name in checked:
        path = folder / name
        if not path.is_file() and is_complete:
            return f"{name} is missing, but {MANIFEST} lists it: {hint}"
        if not path.is_file() or _digest(path) == files[name]:
            continue
        if name == _CONFIG and not is_interrupted:  # often edited by hand, and checked when it is read
            _logger.warning(f"{path} was changed after the model was saved")
            continue
        return f"{name} differs from {MANIFEST}, so it is damaged or belongs to another save: {hint}"
    for name in ("model.safetensors", "model.safetensors.index.json"):  # the files that Transformers looks for
        if names is None and any(map(_WEIGHTS.fullmatch, files)) and name not in files and (folder / name).is_file():
            return f"{MANIFEST} does not list {name}, which belongs to another save: {hint}"
    expected, actual = (parts.get(name, {}).get("processor") for name in ("model", "processor"))
    if part == "processor" and expected and actual and expected != actual:
        return (
            "the processor is not that of the model, as if only one of both was saved: save the other again, or call "
            "model.set_labels(model.label_set, processor) and save both"
        )
    return None


def read_manifest(folder: Path) -> dict[str, Any]:
    """Returns the manifest of a folder, by part: `files`, and a fingerprint of the `processor`; empty without one.

    Raises:
        ValueError: If the file is not a manifest.
    """
    file = folder / MANIFEST
    try:
        if not file.is_file():
            return {}
        with file.open("rb") as opened:
            content = json.loads(opened.read(_LARGEST + 1)[:_LARGEST])
        parts = content["parts"]
        for part in parts.values():
            if not all(map(_is_inside, part["files"])) or not isinstance(part["processor"], str | None):
                raise ValueError("unexpected values")
    except FileNotFoundError:  # replaced just now
        return {}
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        raise ValueError(f"{MANIFEST} is damaged: save the model again, or remove it") from None
    return parts


@contextmanager
def new_files(folder: Path, find_stale: Callable[[set[str]], Iterable[str]] = lambda names: ()) -> Iterator[Path]:
    """Provides an empty folder to write to; on success, its files replace those of a folder together.

    On an error, nothing changes. If the process is killed, the folder has the old files, the new files, or a mixture
    that does not load until `complete` has moved the other files. Can be nested.

    Args:
        folder: Destination of the files.
        find_stale: Called with the names of the new files; returns the names of other files to remove.

    Raises:
        OSError: If a file cannot be written; the error names it.
        ValueError: If a file would be moved outside of the folder through a link.
    """
    folder.mkdir(parents=True, exist_ok=True)
    token = secrets.token_hex(8)
    staging = folder / f"{_STAGING}{token}"
    if folder.name.startswith(_STAGING):  # part of a larger save
        staging.mkdir()
        yield staging
        _add_parts(staging, folder)
        names = _list_files(staging)
        _move(folder, staging, names, [name for name in find_stale(set(names)) if name not in names])
        shutil.rmtree(staging)
        return
    with exclusive_lock(folder):
        _complete(folder)
        _write_record(folder, {"token": token, "files": {}, "stale": []})
        names = []
        try:
            with _name_destination(staging, folder):
                staging.mkdir()
                yield staging
                _add_parts(staging, folder)
                names = _list_files(staging)
                stale = [name for name in find_stale(set(names)) if name not in names]
                _check_targets(folder, [*names, *stale])
                for path in [*sorted(staging.rglob("*")), staging, folder]:
                    sync_to_disk(path)
                files = {name: _digest(staging / name) for name in names}
                _write_record(folder, {"token": token, "files": files, "stale": stale})
            _move(folder, staging, names, stale)
        except BaseException:
            if not all((staging / name).exists() for name in names):  # some files are moved
                _move(folder, staging, names, stale)
            _forget(folder, staging)
            raise
        _forget(folder, staging)


def complete(folder: Path) -> bool:
    """Completes a save of this user that was interrupted, or removes its files if it had not begun to move them.

    Args:
        folder: Folder of a saved model.

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


def _complete(folder: Path) -> bool:
    if not _record(folder).is_file():
        return False
    try:
        record = json.loads(_record(folder).read_bytes())
        staging, files, stale = folder / f"{_STAGING}{record['token']}", record["files"], record["stale"]
    except (LookupError, RecursionError, TypeError, ValueError):
        raise ValueError(f"{_record(folder)}, the record of an interrupted save, is damaged: remove it") from None
    if not _is_folder(staging):
        _forget(folder, staging)
        return False
    for path in staging.rglob("*"):
        about = path.lstat()
        name = path.relative_to(staging).as_posix()
        is_ours = S_ISDIR(about.st_mode) or (S_ISREG(about.st_mode) and files.get(name, "") in ("", _digest(path)))
        if files and not is_ours:
            raise ValueError(f"{path} was changed after a save was interrupted: remove {staging} to give up this save")
    try:
        if files:
            _check_targets(folder, [*files, *stale])
            _move(folder, staging, list(files), stale)
    except OSError as error:
        raise OSError(f"{folder}: a save was interrupted and cannot be completed: {error}") from error
    _forget(folder, staging)
    return True


def _move(folder: Path, staging: Path, names: Iterable[str], stale: Iterable[str]) -> None:
    """Moves new files to their destinations and removes stale files; the manifest comes last."""
    waiting = sorted((name for name in names if (staging / name).exists()), key=MANIFEST.__eq__)
    parents = {folder}
    for name in waiting:
        target = folder / name
        if name == MANIFEST:
            _remove(folder, stale)
            for parent in parents:
                sync_to_disk(parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        (staging / name).replace(target)
        parents.add(target.parent)
    _remove(folder, stale)
    for parent in parents:
        sync_to_disk(parent)


def _remove(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        (folder / name).unlink(missing_ok=True)


def _forget(folder: Path, staging: Path) -> None:
    """Removes the remains of a save."""
    if _is_folder(staging):
        shutil.rmtree(staging)
    with suppress(OSError):  # without its files, a record has no effect
        _record(folder).unlink(missing_ok=True)


def _record(folder: Path) -> Path:
    """Returns the file of the record of a save."""
    return SAVES / f"{hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:32]}.json"


def _write_record(folder: Path, content: Mapping[str, Any]) -> None:
    try:
        with whole_file(_record(folder)) as written:
            written.write_text(json.dumps(content), encoding="utf-8")
    except OSError:  # without a cache folder, an interrupted save is refused, but cannot be completed
        with suppress(OSError):
            _record(folder).unlink(missing_ok=True)


def _add_parts(staging: Path, folder: Path) -> None:
    """Adds the parts that are not saved again to a new manifest."""
    new = read_manifest(staging)
    with suppress(ValueError):  # a damaged manifest is replaced
        if new:
            _write_parts(staging, {**read_manifest(folder), **new})


def _describe(folder: Path, processor: str | None) -> dict[str, Any]:
    """Returns the part of a manifest for the files of a folder; code is shared by the parts and not in it."""
    names = [name for name in _list_files(folder) if not name.endswith(".py")]
    return {"processor": processor, "files": {name: _digest(folder / name) for name in names}}


def _write_parts(folder: Path, parts: Mapping[str, Any]) -> None:
    text = json.dumps({"parts": parts}, indent=1, sort_keys=True) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8")


def hub_options(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Selects the arguments of `from_pretrained` that determine where files are."""
    return {name: arguments[name] for name in _HUB_OPTIONS if arguments.get(name) is not None}


def find_old_weights(folder: Path, names: Collection[str]) -> list[str]:
    """Returns the names of other weights of a folder, which would be loaded with new files."""
    if not any(map(_WEIGHTS.fullmatch, names)):
        return []
    return [path.name for path in folder.iterdir() if _WEIGHTS.fullmatch(path.name) and path.name not in names]


def find_old_tokenizer(folder: Path, names: Collection[str]) -> list[str]:
    """Returns the names of files of another tokenizer in a folder, which would be loaded with new files."""
    return [path.name for path in folder.iterdir() if _TOKENIZER.fullmatch(path.name) and path.name not in names]


class SavedTogether:
    """Saves the files of a model, or of its processor, together."""

    manifest_part: str

    def _save_together(
        self,
        folder: str | os.PathLike[str],
        write: Callable[[Path], Loaded],
        find_stale: Callable[[Path, set[str]], Iterable[str]],
        processor: str | None,
    ) -> Loaded:
        """Saves files.

        Args:
            folder: Destination of the files.
            write: Writes them to another folder, which is empty.
            find_stale: Called with the destination and the names of the files; returns the names of files to remove.
            processor: Fingerprint of the processor, if known.
        """
        folder = Path(folder)
        with new_files(folder, partial(find_stale, folder)) as new:
            written = write(new)
            _write_parts(new, {self.manifest_part: _describe(new, processor)})
        return written

    def _upload_modified_files(
        self, working_dir: str | os.PathLike[str], repo_id: str, *args: Any, **kwargs: Any
    ) -> Any:
        """Uploads files to the Hub; the manifest there keeps its other part."""
        options = {name: kwargs[name] for name in ("revision", "token") if kwargs.get(name) is not None}
        with suppress(EntryNotFoundError, RevisionNotFoundError):
            _add_parts(Path(working_dir), Path(hf_hub_download(repo_id, MANIFEST, **options)).parent)
        return super()._upload_modified_files(working_dir, repo_id, *args, **kwargs)  # type: ignore[misc]


def split_hub_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Removes the arguments of `push_to_hub` from those of `save_pretrained`, and returns them."""
    return {name: arguments.pop(name) for name in _HUB if name in arguments}


def _state(folder: Path, part: str, names: Collection[str] | None) -> list[Any]:
    """Returns what changes when a file of a part is replaced."""
    parts: Mapping[str, Any] = {}
    with suppress(ValueError):
        parts = read_manifest(folder)
    files = parts.get(part, {}).get("files", {})
    states: list[Any] = [parts]
    for name in sorted(files if names is None else files.keys() & set(names)):
        try:
            about = (folder / name).stat()
            states.append((about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns))
        except OSError:
            states.append(None)
    return states


def _list_files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _has_staging(folder: Path) -> bool:
    """Returns whether a save is running, or was interrupted."""
    return any(folder.glob(f"{_STAGING}*"))


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_inside(name: object) -> bool:
    """Checks whether a name in a manifest is a path inside its folder."""
    path = PurePosixPath(str(name))
    return isinstance(name, str) and not path.is_absolute() and ".." not in path.parts


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_targets(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        target = folder / name
        if not _is_inside(name) or not target.parent.resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"{target} is outside {folder}: replace the link in its path with a folder")
        if target.is_dir() and not target.is_symlink():
            raise FileExistsError(f"{target} is a folder, but the model has a file with this name: move it away")
        if target.parent.exists() and not target.parent.is_dir():
            raise FileExistsError(f"{target.parent} is a file, but the model has a folder with this name: move it away")


@contextmanager
def _name_destination(staging: Path, folder: Path) -> Iterator[None]:
    """Names the destination file in write errors, as libraries name no file, or the source of a copy."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError):
            target = Path(str(error.filename2 or error.filename or staging))
            if target.is_relative_to(staging) and error.errno is not None:
                inner = target.relative_to(staging)
                parts = [name for name in inner.parts if not name.startswith(_STAGING)]
                raise OSError(error.errno, error.strerror, str(folder.joinpath(*parts))) from error
        elif "(os error " in str(error):  # from a Rust library
            raise OSError(f"{folder}: {error}") from error
        raise


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
    remove_abandoned(path.parent, path.name)
    written = path
    try:
        with _locked_folder(path) as scratch:
            written = scratch / path.name
            yield written
            sync_to_disk(written)
            if path.exists():
                shutil.copymode(path, written)
            written.replace(path)
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(written), str(written.parent)):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    sync_to_disk(path.parent)


def remove_abandoned(folder: Path, name: str = "*") -> None:
    """Removes the temporary folders of `whole_file` that killed processes of this machine left.

    Args:
        folder: Folder of the files.
        name: Name of the file; by default any.
    """
    for scratch in folder.glob(f".{glob.escape(name) if name != '*' else name}.writing-{_machine()}-????????"):
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


def sync_to_disk(path: Path) -> None:
    """Flushes a file, or the entries of a folder, to disk.

    Args:
        path: The file or folder.
    """
    if os.name == "nt" and path.is_dir():
        return
    opened = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno != errno.EINVAL:  # not supported by the file system
            raise
    finally:
        os.close(opened)


__all__ = [
    "MANIFEST",
    "complete",
    "exclusive_lock",
    "find_problem",
    "load_checked",
    "new_files",
    "remove_abandoned",
    "sync_to_disk",
    "whole_file",
]
