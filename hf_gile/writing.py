"""Atomic file writes."""

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Provides a temporary path to write to, which replaces the file on success.

    After an error, a kill or a power failure, the file is either the old or the complete new one.

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
    written = path.with_name(f".{path.stem}-{secrets.token_hex(4)}{path.suffix}")
    try:
        yield written
        sync_to_disk(written)
        if path.exists():
            shutil.copymode(path, written)
        written.replace(path)
    except BaseException as error:
        written.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None and error.filename in (None, str(written)):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    sync_to_disk(path.parent)


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
