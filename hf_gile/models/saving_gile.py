"""Saves the files of a model, or of its processor, together, and checks that the files of a folder belong together.

New files are written to a folder `.saving-TOKEN` in the folder of the model. When they are complete and on disk, they
are moved to their destinations, and the manifest last. It has the SHA-256 of each file of the model, or of its
processor. A folder whose files differ from a manifest is not loaded, so no load mixes files of two saves.
"""

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path, PurePosixPath
from stat import S_ISDIR, S_ISREG
from typing import Any, ClassVar, TypeVar

from huggingface_hub import hf_hub_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    HFValidationError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from safetensors import SafetensorError, safe_open
from transformers.utils import logging

Loaded = TypeVar("Loaded")

MANIFESTS = {"model": "model_manifest.json", "processor": "processor_manifest.json"}
"""Files with the hashes of the files of each part of a saved model."""

LOCATION = ("cache_dir", "force_download", "local_files_only", "revision", "subfolder", "token")
"""Arguments of `from_pretrained` that say where files are."""

LONGEST_JSON = 1 << 28
"""Largest size in bytes of a JSON file of a saved model."""

STAGING = ".saving-"
"""Start of the name of a folder with new files."""

_logger = logging.get_logger(__name__)

open_saves: set[Path] = set()
"""Folders with the new files of the saves of this process."""

_CONFIG = "config.json"
_LARGEST = 1 << 20  # bytes of a manifest
_LONGEST_NAME = 255  # characters of a name in it
_PAUSES = (0.05, 0.2, 0.5, 1.0)  # seconds before a folder is read again
_WEIGHTS = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors|model\.safetensors\.index\.json")
_TOKENIZER = re.compile(
    r"(added_tokens|preprocessor_config|processor_config|special_tokens_map|tokenizer|tokenizer_config|vocab)\.json"
    r"|merges\.txt|vocab\.txt|chat_template\.jinja"
)
_UPLOAD = ("repo_id", "commit_message", "commit_description", "private", "create_pr", "revision", "tags")


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
        ValueError: If a save was interrupted, a file has changed since it was saved, or `check_folder` refuses one.
    """
    arguments = arguments or {}
    if source is None:
        return load(), None
    folder = Path(source, arguments.get("subfolder") or "")
    if not folder.is_dir():
        loaded = load()
        manifests = [find_file(source, name, arguments) for name in MANIFESTS.values()]
        snapshot = next((manifest.parent for manifest in manifests if manifest is not None), None)
        if snapshot is None:
            return loaded, None
        if problem := find_problem(snapshot, part, names, is_complete=False):
            raise ValueError(f"{source}: {problem}")
        return loaded, read_manifest(snapshot, part).get("processor")
    check_folder(folder)
    for pause in (*_PAUSES, 0):
        before = _state(folder)
        failure = None
        problem = find_problem(folder, part, names) if _has_staging(folder) else None
        if problem is None:
            try:
                loaded = load()
            except Exception as error:
                failure = error
            else:
                problem = find_problem(folder, part, names)
        is_stable = before == _state(folder)
        if is_stable and problem is None and failure is None:
            return loaded, read_manifest(folder, part).get("processor")
        if is_stable and not _has_staging(folder):
            break
        time.sleep(pause)
    if is_stable and failure is not None:
        raise failure
    raise ValueError(f"{folder}: {problem or 'another process is saving the model: load it again'}") from failure


def check_folder(folder: Path) -> None:
    """Refuses a folder of a model that cannot be read in a short time.

    Raises:
        ValueError: If it contains a pipe, a socket or a device, a JSON file that is too long, or adapters, with which
            transformers would load another model that they name.
    """
    if os.path.lexists(folder / "adapter_config.json"):
        raise ValueError(f"{folder} contains adapters of another model: merge them into its weights")
    for path in sorted([*folder.iterdir(), *folder.glob("index/*")]):
        if not path.exists():  # a link to nothing is like a missing file
            continue
        info = path.stat()
        if not (S_ISREG(info.st_mode) or S_ISDIR(info.st_mode)):
            raise ValueError(f"{path} is a pipe, a socket or a device, which no model has: remove it")
        if path.suffix == ".json" and info.st_size > LONGEST_JSON:
            raise ValueError(f"{path} has {info.st_size:,} bytes, more than {LONGEST_JSON:,}: it is damaged")


def find_file(source: str | os.PathLike[str], name: str, arguments: Mapping[str, Any]) -> Path | None:
    """Returns the path of a file of a saved model, downloaded if needed, or None if it is missing.

    Args:
        source: Folder, or name on the Hub.
        name: Name of the file.
        arguments: Arguments of `from_pretrained`.
    """
    folder = Path(source, arguments.get("subfolder") or "")
    if folder.is_dir():
        return folder / name if (folder / name).is_file() else None
    options = {option: arguments[option] for option in LOCATION if arguments.get(option) is not None}
    try:
        return Path(hf_hub_download(str(source), name, **options))
    except (EntryNotFoundError, HFValidationError, RepositoryNotFoundError, RevisionNotFoundError):
        return None  # the loader describes what is wrong, if anything


def find_problem(folder: Path, part: str, names: Collection[str] | None = None, is_complete: bool = True) -> str | None:
    """Describes the first file of a saved model that differs from the manifest, or returns None.

    Args:
        folder: Folder of the model.
        part: `"model"` or `"processor"`.
        names: Names of the files to check; by default all files of the part.
        is_complete: Whether all files of the manifest must exist; a cache of the Hub has those that were needed.
    """
    try:
        manifest = read_manifest(folder, part)
        expected = read_manifest(folder, "model").get("processor")
    except ValueError as error:
        return str(error)
    files = manifest.get("files", {})
    is_interrupted = _has_staging(folder)
    hint = f"save the model again, or remove {MANIFESTS[part]} if the change is intended"
    if is_interrupted:
        hint = f"a save was interrupted; `hf-gile repair {folder}` completes it, if hf_gile made it on this machine"
    for name in sorted(files if names is None else files.keys() & set(names)):
        path = folder / name
        if not path.is_file() and is_complete:
            return f"{name} is missing, but {MANIFESTS[part]} lists it: {hint}"
        if path.is_file() and path.suffix == ".safetensors" and not _is_safetensors(path):
            return f"{name} is damaged: {hint}"  # without hashing what may be a file of terabytes
        is_changed = path.is_file() and compute_digest(path) != files[name]
        if is_changed and name == _CONFIG and not is_interrupted:  # often edited by hand, and checked when it is read
            _logger.warning(f"{path} was changed after the model was saved")
        elif is_changed:
            return f"{name} differs from {MANIFESTS[part]}, so it is damaged or belongs to another save: {hint}"
    for name in ("model.safetensors", "model.safetensors.index.json"):  # the files that Transformers looks for
        if names is None and any(map(_WEIGHTS.fullmatch, files)) and name not in files and (folder / name).is_file():
            return f"{MANIFESTS[part]} does not list {name}, which belongs to another save: {hint}"
    actual = manifest.get("processor")
    if expected and actual and expected != actual:
        return (
            "the processor is not that of the model, as if only one of both was saved: save the other again, or call "
            "model.set_labels(model.label_set, processor) and save both"
        )
    return None


def read_manifest(folder: Path, part: str) -> dict[str, Any]:
    """Returns the manifest of a part: hashes of its `files`, and a fingerprint of the `processor`; empty without one.

    Raises:
        ValueError: If the file is not a manifest.
    """
    file = folder / MANIFESTS[part]
    try:
        if not file.is_file():
            return {}
        with file.open("rb") as opened:
            manifest = json.loads(opened.read(_LARGEST + 1)[:_LARGEST])
        if not all(map(_is_inside, manifest["files"].keys())) or not isinstance(manifest["processor"], str | None):
            raise ValueError("unexpected values")
    except FileNotFoundError:  # replaced just now
        return {}
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        raise ValueError(f"{MANIFESTS[part]} is damaged: save the model again, or remove it") from None
    return manifest


def write_manifest(folder: Path, part: str, processor: str | None) -> None:
    """Writes the manifest of the files of a folder, except code, which the parts share.

    Args:
        folder: Folder with the files of a part.
        part: `"model"` or `"processor"`.
        processor: Fingerprint of the processor, if known.
    """
    names = [name for name in _list_files(folder) if not name.endswith(".py")]
    manifest = {"processor": processor, "files": {name: compute_digest(folder / name) for name in names}}
    (folder / MANIFESTS[part]).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


@contextmanager
def new_files(
    folder: Path,
    find_stale: Callable[[Path, set[str]], Iterable[str]] = lambda folder, names: (),
    record: Callable[[Path, Collection[str], Collection[str]], None] = lambda staging, names, stale: None,
) -> Iterator[Path]:
    """Provides an empty folder to write to; on success, its files replace those of a folder together.

    On an error, nothing changes. If the process is killed, the folder has the old files, the new files, or a mixture
    that does not load. Can be nested.

    Args:
        folder: Destination of the files.
        find_stale: Called with the folder and the names of the new files; returns the names of other files to remove.
        record: Called with the folder of the new files and the names of new and stale files, first without names, and
            again before files are moved.

    Raises:
        OSError: If a file cannot be written.
        ValueError: If a file would be moved outside of the folder through a link.
    """
    folder.mkdir(parents=True, exist_ok=True)
    staging = folder / f"{STAGING}{secrets.token_hex(8)}"
    names: list[str] = []
    stale: list[str] = []
    record(staging, names, stale)
    try:
        staging.mkdir()
        open_saves.add(staging)
        yield staging
        names = _list_files(staging)
        for name in names:
            make_readable(staging / name)
        stale = [name for name in find_stale(folder, set(names)) if name not in names]
        check_targets(folder, [*names, *stale])
        for path in [*sorted(staging.rglob("*")), staging, folder]:
            sync_to_disk(path)
        record(staging, names, stale)
        move_files(folder, staging, names, stale)
    except BaseException:
        if not all((staging / name).exists() for name in names):  # some files are moved
            move_files(folder, staging, names, stale)
        shutil.rmtree(staging, ignore_errors=True)
        raise
    finally:
        open_saves.discard(staging)
    shutil.rmtree(staging)


def move_files(folder: Path, staging: Path, names: Collection[str], stale: Iterable[str]) -> None:
    """Moves new files that are not moved yet, and removes stale files; manifests come last."""
    _replace(folder, staging, [name for name in names if name not in MANIFESTS.values()])
    for name in stale:
        (folder / name).unlink(missing_ok=True)
    sync_to_disk(folder)
    _replace(folder, staging, [name for name in names if name in MANIFESTS.values()])


def _replace(folder: Path, staging: Path, names: Iterable[str]) -> None:
    parents = {folder}
    for name in names:
        target = folder / name
        if (staging / name).exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            (staging / name).replace(target)
            parents.add(target.parent)
    for parent in parents:
        sync_to_disk(parent)


def check_targets(folder: Path, names: Iterable[str]) -> None:
    """Refuses destinations of files that are outside of a folder, or cannot be replaced.

    Raises:
        OSError: If a folder is in the place of a file, or a file in that of a folder.
        ValueError: If a destination is outside of the folder.
    """
    for name in names:
        target = folder / name
        if not _is_inside(name) or not target.parent.resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"{target} is outside {folder}: replace the link in its path with a folder")
        if target.is_dir() and not target.is_symlink():
            raise FileExistsError(f"{target} is a folder, but the model has a file with this name: move it away")
        if target.parent.exists() and not target.parent.is_dir():
            raise FileExistsError(f"{target.parent} is a file, but the model has a folder with this name: move it away")


class SavedTogether:
    """Saves the files of a model, or of its processor, together."""

    manifest_part: ClassVar[str]
    new_files: ClassVar[Callable[..., AbstractContextManager[Path]]] = staticmethod(new_files)
    """Writes the files. That of hf_gile can complete a save that was interrupted."""

    processor_fingerprint: Any
    """Hash of what determines the meaning of ids, if known."""

    def save_pretrained(
        self, save_directory: str | os.PathLike[str], *, push_to_hub: bool = False, **kwargs: Any
    ) -> list[str] | None:
        """Saves all files together; see `save_pretrained` of Transformers.

        Returns:
            The files written, for a processor.
        """
        # Not in super(), which would push before all files are saved.
        upload = {name: kwargs.pop(name) for name in _UPLOAD if name in kwargs}
        folder = Path(save_directory)
        if kwargs.get("distributed_checkpoint"):
            return self._write(folder, **kwargs)  # processes write a folder together
        if not kwargs.get("is_main_process", True):
            with tempfile.TemporaryDirectory() as scratch:
                self._write(Path(scratch), **kwargs)  # takes part in gathering weights
            return None
        with self.new_files(folder, self._find_stale) as new:
            files = self._write(new, **kwargs)
            write_manifest(new, self.manifest_part, self.processor_fingerprint)
        if push_to_hub:
            name = upload.pop("repo_id", folder.name)
            self.push_to_hub(name, token=kwargs.get("token"), **upload)  # type: ignore[attr-defined]
        return files and [str(folder / Path(file).name) for file in files]

    def _write(self, folder: Path, **kwargs: Any) -> list[str] | None:
        """Writes the files to an empty folder."""
        return super().save_pretrained(str(folder), **kwargs)  # type: ignore[misc]

    def _find_stale(self, folder: Path, names: set[str]) -> list[str]:
        """Returns files of an older save, which would be loaded with new files of these names."""
        stale = []
        for pattern in (_WEIGHTS, _TOKENIZER):
            if any(map(pattern.fullmatch, names)):
                stale += [path.name for path in folder.iterdir() if pattern.fullmatch(path.name)]
        return stale


def _state(folder: Path) -> list[Any]:
    """Returns what changes with each save, which replaces a manifest."""
    states: list[Any] = []
    for name in MANIFESTS.values():
        with suppress(OSError):
            about = (folder / name).stat()
            states.append((name, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns))
    return states


def _list_files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _has_staging(folder: Path) -> bool:
    """Returns whether a save is running, or was interrupted."""
    return any(folder.glob(f"{STAGING}*"))


def _is_inside(name: object) -> bool:
    """Checks whether a name in a manifest is a path inside its folder, in its only spelling."""
    path = PurePosixPath(str(name))
    is_path = str(path) == name and name.isprintable() and len(name) <= _LONGEST_NAME
    return is_path and not path.is_absolute() and ".." not in path.parts


def _is_safetensors(path: Path) -> bool:
    """Checks whether the header of a file describes tensors of its size."""
    try:
        with safe_open(path, "pt"):
            return True
    except SafetensorError:
        return False


def compute_digest(path: Path) -> str:
    """Computes the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make_readable(path: Path) -> None:
    """Gives a new file the mode of its folder, without execution: safetensors writes files for their owner alone.

    Args:
        path: The file.
    """
    with suppress(OSError):  # not supported by the file system
        path.chmod(path.parent.stat().st_mode & 0o666)


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
