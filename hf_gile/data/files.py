"""Which files a user's paths mean, and opening them."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterable, Sequence
from glob import glob
from pathlib import Path
from typing import IO, cast

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""Files, folders and globs, or one of them."""


def suffix_of(path: Path) -> str:
    """Returns the suffix that tells the format, `.gz` aside.

    Args:
        path: A file's name.

    Returns:
        The suffix in lower case.

    Example:
        >>> suffix_of(Path("pubmed20n0014.XML.gz"))
        '.xml'
    """
    return (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()


def find_files(paths: Paths, suffixes: Sequence[str]) -> list[Path]:
    """Returns the readable files that paths mean, each once.

    The order is that of the paths, and by name within a folder or a glob.

    Args:
        paths: Files, folders (their own files, not those of folders inside) and globs.
        suffixes: Those of the formats that can be read, in lower case and without `.gz`, as `suffix_of` gives them.

    Returns:
        At least one file.

    Raises:
        FileNotFoundError: If a path or glob leads nowhere.
        ValueError: If there are no paths, or a path leads to nothing of a known format.
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    found: dict[Path, None] = {}
    for given in paths:
        path = Path(given)
        if given == "":  # an unset shell variable, which Path would take for this very folder
            raise FileNotFoundError("paths must name files, folders or globs, got an empty one")
        if path.is_file():
            candidates = [path]
        elif path.is_dir():
            candidates = sorted(child for child in path.iterdir() if child.is_file())
        else:
            matches = [Path(match) for match in glob(str(given), recursive=True)]  # noqa: PTH207
            candidates = sorted(match for match in matches if match.is_file())
            if not candidates:
                raise FileNotFoundError(f"no file, folder or glob match at {given} (in {Path.cwd()})")
        known = [candidate for candidate in candidates if suffix_of(candidate) in suffixes]
        if not known:
            raise ValueError(
                f"nothing to read at {given}: expected {', '.join(suffixes)}, "
                f"each with or without .gz, got {len(candidates)} other files (folders inside are "
                "not searched)"
            )
        found.update(dict.fromkeys(file.resolve() for file in known))
    if not found:
        raise ValueError("paths must name at least one file, folder or glob, got none")
    return list(found)


def open_binary(path: str | os.PathLike[str]) -> IO[bytes]:
    """Opens a file, and unpacks it if its first bytes say gzip, whatever its name says.

    Args:
        path: The file.

    Returns:
        The unpacked bytes.
    """
    with Path(path).open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    if packed:
        return cast(IO[bytes], _Unpacked(path, "rb"))
    return Path(path).open("rb")


class _Unpacked(gzip.GzipFile):
    """A packed file that gives all it can unpack of a damaged file before it raises.

    `GzipFile.read` drops what it has unpacked of a block when the file is cut off within it.
    """

    damage: Exception | None = None

    def read(self, size: int | None = -1) -> bytes:
        wanted = -1 if size is None or size < 0 else size
        data = bytearray()
        while self.damage is None and len(data) != wanted:
            try:
                piece = self.read1(wanted - len(data) if wanted > 0 else -1)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                self.damage = error
                break
            if not piece:
                break
            data += piece
        if self.damage is not None and not data:
            raise self.damage
        return bytes(data)
