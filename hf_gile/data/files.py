"""Finds, opens and decompresses input files, and parses records in XML, in limited memory."""

import bz2
import errno
import gzip
import io
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from glob import glob
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from ..extras import needs_extra

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""Files, folders and globs, or a single one."""

MAX_RECORD = 1 << 24
"""Largest size of a record, a line or a row, in bytes or characters."""
MAX_PARTS = 1 << 20
"""Largest number of elements of a record, or of lists and objects: each takes a hundred bytes in memory."""

_FREE = 1 << 24  # bytes that any compressed file may unpack to
_RATIO = 200
_IN_MEMORY_RATIO = 32
PACKED_SUFFIXES = (".gz", ".zip", ".bz2", ".xz")
"""Suffixes of compressed files."""

_ABOUT = re.compile(
    r"(read_?me|licen[cs]e|copying|copyright|notice|changelog)(\.(txt|md|rst|html?))?$|.*\.pdf$", re.IGNORECASE
)
_DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)


def data_suffix(path: Path) -> str:
    """Returns the suffix of a file name in lower case, without that of a compression; in a `.zip`, of the file in it.

    Example:
        >>> data_suffix(Path("pubmed20n0014.XML.gz"))
        '.xml'
    """
    if path.suffix.lower() == ".zip" and zipfile.is_zipfile(path):
        with suppress(ValueError, zipfile.BadZipFile), zipfile.ZipFile(path) as archive:  # reported when it is opened
            return Path(_only_member(archive, path).filename).suffix.lower()
    return (path.with_suffix("") if path.suffix.lower() in PACKED_SUFFIXES else path).suffix.lower()


def find_files(paths: Paths, suffixes: Sequence[str], any_name: bool = False) -> list[Path]:
    """Returns the distinct files of paths, in their order, and sorted by name within a folder or a glob.

    Their suffixes, as of `data_suffix`, are among those given; with `any_name`, a path of a file may have another.

    Raises:
        FileNotFoundError: If a path or glob does not match any file.
        ValueError: If there are no paths, or a path has no file of a known format.
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    files: dict[Path, None] = {}
    for pattern in paths:
        if pattern == "":  # an unset shell variable, which Path would resolve to the current folder
            raise FileNotFoundError("paths must name files, folders or globs, got an empty string")
        path = Path(pattern)
        matches = [path]
        if path.is_dir():
            matches = sorted(path.iterdir())
        elif not path.is_file():
            matches = sorted(map(Path, glob(str(pattern), recursive=True)))  # noqa: PTH207
            if not matches:
                raise FileNotFoundError(f"nothing matches {pattern} (in {Path.cwd()})")
        readable = candidates = [match for match in matches if match.is_file()]
        if path.is_dir() and {"dataset_dict.json", "state.json"} & {match.name for match in candidates}:
            raise ValueError(
                f"{path} was written by save_to_disk of datasets: train with --dataset {pattern}, "
                'or write it as datasets.load_from_disk(...).to_parquet("table.parquet")'
            )
        if not any_name or candidates != [path]:
            readable = [candidate for candidate in candidates if data_suffix(candidate) in suffixes]
        if not readable:
            raise ValueError(
                f"nothing to read at {pattern}: expected {', '.join(suffixes)}, each also compressed as "
                f"{', '.join(PACKED_SUFFIXES)}, got {len(candidates)} other files (subfolders are not "
                "searched; if each label has a folder of texts, write a table with the columns text and label)"
            )
        files.update(dict.fromkeys(file.resolve() for file in readable))
    if not files:
        raise ValueError("paths must name at least one file, folder or glob, got none")
    return list(files)


def open_binary(path: str | os.PathLike[str], *, in_memory: bool = False) -> IO[bytes]:
    """Opens a file and decompresses it if its content is gzip, bzip2, xz or a zip archive, whatever its name.

    A few compressed bytes can expand to any size, so beyond 16 MiB the output is limited to 200 times the size of the
    file, or 32 times if it is read into memory. Text rarely compresses to a twentieth of its size.

    Reading raises a ValueError beyond the limit, and an EOFError at damage; opening an archive of several files, a
    ValueError.
    """
    with Path(path).open("rb") as stream:
        start = stream.read(6)
    unpack = next((function for sign, function in _UNPACKERS.items() if start.startswith(sign)), None)
    if unpack is None or (unpack is _open_member and not zipfile.is_zipfile(path)):
        return Path(path).open("rb")
    return cast(IO[bytes], _LimitedStream(unpack(path), path, _IN_MEMORY_RATIO if in_memory else _RATIO))


def read_head(path: str | os.PathLike[str], size: int) -> bytes:
    """Reads the first bytes of a file, decompressed; a space if it is damaged, which its reader reports."""
    try:
        with open_binary(path) as stream:
            return stream.read(size)
    except EOFError:
        return b" "


def is_packed(path: str | os.PathLike[str]) -> bool:
    """Checks whether `open_binary` decompresses a file."""
    with Path(path).open("rb") as stream:
        return stream.read(6).startswith(PACKED)


def read_into_memory(path: str | os.PathLike[str]) -> bytes:
    """Reads a file into memory, decompressed; a damaged file and one beyond the limit raise a ValueError."""
    try:
        with open_binary(path, in_memory=True) as stream:
            return b"".join(iter(lambda: stream.read(1 << 20), b""))  # the read after the damage raises an error
    except EOFError as error:
        raise ValueError(f"{path}: damaged compressed file: {error}") from error


def unpacked_limit(path: str | os.PathLike[str], ratio: int = _RATIO) -> int:
    """Returns the number of bytes that a compressed file may unpack to: 16 MiB, or `ratio` times its size."""
    return max(_FREE, ratio * Path(path).stat().st_size)


def read_npz(
    path: str | os.PathLike[str],
    names: Sequence[str],
    content: str,
) -> list[np.ndarray[Any, Any]]:
    """Reads arrays of numbers and texts by name from an `.npz` file, optionally gzipped, without executing code.

    Raises:
        ValueError: If the file does not have such `content`, or expands to more than 200 times its size.
    """
    try:
        with Path(path).open("rb") as stream:
            is_gzip = stream.read(2) == b"\x1f\x8b"
            source = io.BytesIO(read_into_memory(path)) if is_gzip else stream
            arrays: Any = np.lib.npyio.NpzFile(source, allow_pickle=False)
            if sum(arrays.zip.getinfo(f"{name}.npy").file_size for name in names) > unpacked_limit(path):
                raise expansion_error(path, "save it with numpy.savez, which does not compress")
            content_of = [arrays[name] for name in names]
        if unusable := [array.dtype for array in content_of if array.dtype.kind not in "biufUS"]:
            raise ValueError(f"it has {unusable[0]}, not numbers or texts")
        return content_of
    except Exception as error:  # a damaged archive can raise anything
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # a failing disk
            raise
        if isinstance(error, ValueError) and str(error).startswith(f"{path}: "):
            raise
        raise ValueError(f"{path}: expected {content}: {str(error)[:200] or type(error).__name__}") from error


def expansion_error(path: object, remedy: str, ratio: int = _RATIO) -> ValueError:
    """Makes the error for a file that unpacks to more than `ratio` times its size; `remedy` says what to do."""
    return ValueError(
        f"{path}: expands to more than {ratio} times its size, like a decompression bomb; if you trust it, {remedy}"
    )


def _only_member(archive: zipfile.ZipFile, path: object) -> zipfile.ZipInfo:
    """Returns the file in a zip archive, apart from those about it and what macOS and hidden folders add."""
    members = [
        entry
        for entry in archive.infolist()
        if not entry.is_dir() and not entry.filename.startswith("__MACOSX/") and Path(entry.filename).name[0] != "."
    ]
    data = [entry for entry in members if not _ABOUT.match(Path(entry.filename).name)] or members
    if len(data) != 1:
        names = ", ".join(entry.filename for entry in data[:5])
        raise ValueError(f"{path} is an archive of {len(data)} files ({names}): unpack it, and pass a file")
    return data[0]


def _open_member(path: str | os.PathLike[str]) -> Any:
    try:
        archive = zipfile.ZipFile(path)
        return archive.open(_only_member(archive, path))
    except (RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:  # encrypted, damaged
        raise ValueError(f"{path}: {error}; unpack it first") from None


def _damage_of(error: Exception) -> EOFError:
    """Returns the error of a damaged file; raises that of a failing disk."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error
    return EOFError(str(error))


_UNPACKERS: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": gzip.GzipFile,
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
    b"PK\x03\x04": _open_member,
}
PACKED = tuple(_UNPACKERS)
"""First bytes of compressed files."""


class _LimitedStream(io.BufferedIOBase):
    """A stream of decompressed bytes that returns everything before damage, and limits their number.

    `read` of the libraries drops the decompressed part of a block when the file is truncated within it.
    """

    def __init__(self, stream: Any, path: str | os.PathLike[str], ratio: int) -> None:
        self.stream, self.path, self.ratio = stream, path, ratio
        self.limit = unpacked_limit(path, ratio)
        self.damage: EOFError | None = None

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self.damage = None
        return int(self.stream.seek(offset, whence))

    def close(self) -> None:
        self.stream.close()
        super().close()

    def read(self, size: int | None = -1) -> bytes:
        wanted = -1 if size is None or size < 0 else size
        data = bytearray()
        while self.damage is None and len(data) != wanted:
            try:
                piece = self.stream.read1(wanted - len(data) if wanted > 0 else -1)
            except _DAMAGE as error:
                self.damage = _damage_of(error)
                break
            if not piece:
                break
            data += piece
            self._check()
        if self.damage is not None and not data:
            raise self.damage
        return bytes(data)

    read1 = read

    def readline(self, size: int | None = -1) -> bytes:
        try:
            line: bytes = self.stream.readline(-1 if size is None else size)
        except _DAMAGE as error:
            raise _damage_of(error) from error
        self._check()
        return line

    def _check(self) -> None:
        if self.stream.tell() > self.limit:
            raise expansion_error(self.path, "decompress it (gunzip) first", self.ratio)


def parse_xml(stream: IO[bytes], tags: str | Sequence[str]) -> Iterator[Any]:
    """Yields the elements with these tags, and releases each when the next is requested.

    Raises:
        ImportError: If lxml is not installed.
        ValueError: If an element is longer than `MAX_RECORD`, or has more than `MAX_PARTS` tags and attributes.
        SyntaxError: If it is not XML.
    """
    source = _LimitedRecords(stream)
    for _, element in import_lxml().iterparse(source, tag=tags, remove_comments=True, remove_pis=True):
        source.start_record()
        yield element
        element.clear()


def import_lxml() -> Any:
    """Imports `lxml.etree`; raises an ImportError that says how to install it."""
    with needs_extra("data", "reading MEDLINE or MeSH in XML"):
        from lxml import etree
    return etree


class _LimitedRecords:
    """A stream that refuses records that are too large.

    A parser takes a hundred bytes for an element of four bytes, so elements and attributes are limited too.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.start_record()

    def start_record(self) -> None:
        self.size = self.parts = 0
        self._uncounted: list[bytes] = []

    def read(self, size: int) -> bytes:
        """Reads `size` bytes; raises a ValueError if the record is too large."""
        data = self.stream.read(size)
        self.size += len(data)
        self._uncounted.append(data)
        if self.size > MAX_RECORD:
            raise ValueError(f"a record is longer than {MAX_RECORD:,} bytes")
        if self.size > MAX_PARTS:  # fewer bytes have fewer parts, and counting takes time
            self.parts += sum(chunk.count(b"<") + chunk.count(b"=") for chunk in self._uncounted)
            self._uncounted.clear()
            if self.parts > MAX_PARTS:
                raise ValueError(f"a record has more than {MAX_PARTS:,} tags and attributes")
        return data
