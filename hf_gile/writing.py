"""Files that are written whole or not at all."""

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives a path beside a file to write to, and replaces the file by that if nothing fails.

    After a failure, a kill or a power cut, the file is the old one or the new one, never a part.

    Args:
        path: The file; its folder is made if it does not exist. A link is replaced, not the file it points to.

    Raises:
        OSError: The file cannot be written; the error names it.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():  # /dev/stdout, say
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
    """Waits until a file, or the names in a folder, would survive a power cut.

    Args:
        path: The file or folder.
    """
    if os.name == "nt" and path.is_dir():
        return
    opened = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot
            raise
    finally:
        os.close(opened)
