"""Safe loading of untrusted pickles.

A pickle is a program that names functions to call. Here, every permitted name is mapped to a function of this file that
creates plain data or raises an error. All other names are refused. Functions of numpy are not permitted:
`dtype.__setstate__` accepts any memory layout, including object pointers read from the file.
"""

from __future__ import annotations

import io
import math
import os
import pickle
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from hf_gile.data.files import read_into_memory

_MIN_LIMIT = 1 << 20  # number of opcodes and values that any file may have


def load_pickle(path: str | os.PathLike[str]) -> Any:
    """Loads a pickle that contains only lists, tuples, dicts, sets, texts, numbers and numpy arrays.

    Keys of dicts and members of sets must be texts or integers below 2^61, since hashing nested tuples could take
    forever. Memory use is limited to a small multiple of the file size.

    Args:
        path: A file of any protocol, optionally gzipped.

    Returns:
        The unpickled object. A `str` of Python 2 is returned as bytes, since its encoding is unknown, and `unicode` as
        text. Arrays are of a subclass of `np.ndarray`, which `np.asarray` converts.

    Raises:
        ValueError: If the file is empty, damaged or not a pickle, contains anything else, or expands beyond its size.
    """
    size = Path(path).stat().st_size
    data = read_into_memory(path)
    if not data:
        raise ValueError(f"{path}: empty file")
    try:
        limit = max(_MIN_LIMIT, size)
        plain = _is_plain(data, limit)
        value = pickle.loads(data, encoding="bytes") if plain else _Unpickler(data, limit).load()
        _check_size(value, max(1 << 17, 8 * len(data)))
    except Exception as error:  # invalid data can raise any exception
        raise ValueError(
            f"{path}: expected a pickle of lists, tuples, dicts, sets, texts, numbers and numpy arrays: "
            f"{str(error)[:200] or type(error).__name__}"
        ) from error
    return value


def _is_plain(data: bytes, limit: int) -> bool:
    """Checks whether the fast C unpickler is safe: only lists, tuples, texts and numbers.

    For these it neither looks up names nor hashes. It allocates memory as declared in the file, which is checked here.
    """
    position = 0
    while True:
        run = _PLAIN.match(data, position)
        assert run is not None
        if run.end() > position:
            limit -= (run.end() - position) // 9 if run.lastgroup else run.end() - position
            position = run.end()
            continue
        code = data[position : position + 1]
        if code == pickle.STOP:
            return limit >= 0
        width = _WIDTHS.get(code)
        if width is None or limit < 0:
            return False
        number = int.from_bytes(data[position + 1 : position + 1 + width], "little")
        position += 1 + width
        if number > (position if code == pickle.LONG_BINPUT else len(data) - position):
            return False
        position += number if code not in (pickle.LONG_BINPUT, pickle.FRAME) else 0


# Opcodes of fixed length, and opcodes followed by an index or a length of so many bytes.
_PLAIN = re.compile(rb"(?s)(?P<floats>(?:G.{8})+)|(?:[N\x88\x89\](eat)\x85\x86\x87\x94]|[Khq\x80].|M..|[Jj].{4})*")
_WIDTHS = {
    pickle.LONG_BINPUT: 4,
    pickle.BINUNICODE: 4,
    pickle.BINSTRING: 4,
    pickle.BINBYTES: 4,
    pickle.SHORT_BINUNICODE: 1,
    pickle.SHORT_BINSTRING: 1,
    pickle.SHORT_BINBYTES: 1,
    pickle.BINUNICODE8: 8,
    pickle.BINBYTES8: 8,
    pickle.FRAME: 8,
}


class _Opcodes(dict[int, Callable[["_Unpickler"], None]]):
    """Handlers of opcodes, which also limit the number of opcodes."""

    left = 0

    def __getitem__(self, code: int) -> Callable[[_Unpickler], None]:
        self.left -= 1
        if self.left < 0:
            raise pickle.UnpicklingError(
                "too many values for a file of this size; if you trust it, decompress it (gunzip)"
            )
        if code not in self:
            raise pickle.UnpicklingError(f"the opcode {bytes([code])!r} is forbidden or unknown")
        return super().__getitem__(code)


_InPython: Any = pickle._Unpickler


class _Unpickler(_InPython):
    """The Python unpickler with limits; the C unpickler would allocate four gigabytes for a file of nine bytes."""

    def __init__(self, data: bytes, limit: int) -> None:
        super().__init__(io.BytesIO(data), encoding="bytes")
        self.left = 8 * max(_MIN_LIMIT, len(data))
        self.dispatch = _Opcodes(_OPCODES)
        self.dispatch.left = limit

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"the global {module[:80]}.{name[:80]} is forbidden")
        stand_in = _STAND_INS[module, name]
        # A new function each time, since a pickle may also modify it.
        return stand_in and (lambda *arguments: stand_in(*arguments))

    def load_keys(self, name: str, step: int) -> None:
        """Handles an opcode that hashes the values after the mark."""
        _check_keys(self.stack[::step])
        getattr(super(), name)()

    def load_setitem(self) -> None:
        """Sets an item of a dict."""
        _check_keys(self.stack[-2:-1])
        super().load_setitem()

    def load_object(self, name: str) -> None:
        """Handles an opcode that builds an object from values, which may be shared."""
        getattr(super(), name)()
        built = self.stack[-1]
        if isinstance(built, np.ndarray):
            self.left -= built.nbytes + built.size
        elif isinstance(built, bytes | set | frozenset):
            self.left -= len(built) * (1 if isinstance(built, bytes) else 8)
        if self.left < 0:
            raise pickle.UnpicklingError("arrays are too large for a file of this size")

    def load_bytearray8(self) -> None:
        """Creates a bytearray of the actual size, not of the declared size."""
        size = int.from_bytes(self.read(8), "little")
        self.append(bytearray(self.read(size)))


_OPCODES: dict[int, Callable[[Any], None]] = {
    **_InPython.dispatch,
    pickle.SETITEM[0]: _Unpickler.load_setitem,
    pickle.SETITEMS[0]: lambda self: self.load_keys("load_setitems", 2),
    pickle.DICT[0]: lambda self: self.load_keys("load_dict", 2),
    pickle.ADDITEMS[0]: lambda self: self.load_keys("load_additems", 1),
    pickle.FROZENSET[0]: lambda self: self.load_keys("load_frozenset", 1),
    pickle.REDUCE[0]: lambda self: self.load_object("load_reduce"),
    pickle.BUILD[0]: lambda self: self.load_object("load_build"),
    pickle.BYTEARRAY8[0]: _Unpickler.load_bytearray8,
}
for _code in (pickle.INST, pickle.OBJ, pickle.NEWOBJ, pickle.NEWOBJ_EX, pickle.EXT1, pickle.EXT2, pickle.EXT4):
    del _OPCODES[_code[0]]


def _check_keys(values: Iterable[Any]) -> None:
    for value in values:
        # Integers that differ by 2^61 - 1 have the same hash: a large set of them would take forever.
        is_number = isinstance(value, int | np.integer) and abs(int(value)) < 1 << 61
        if not (value is None or is_number or type(value) in (str, bytes, np.str_, np.bytes_)):
            raise pickle.UnpicklingError("dict keys and set members must be texts or integers below 2^61")


def _check_size(value: object, limit: int) -> None:
    """Counts all values including repetitions, since a few nested lists can refer to each other many times."""
    remaining = [value]
    while remaining:
        value = remaining.pop()
        if isinstance(value, np.ndarray):
            limit -= value.size + value.nbytes // 8
            value = value.ravel().tolist() if value.dtype.hasobject else ()
        limit -= len(value) if isinstance(value, _CONTAINERS) else 0
        if limit < 0:
            raise pickle.UnpicklingError("nested lists are repeated too often")
        if isinstance(value, dict):
            value = value.values()
        if isinstance(value, (*_CONTAINERS, type({}.values()))) and not _LEAVES.issuperset(map(type, value)):
            remaining += [item for item in value if isinstance(item, _NESTED)]


_CONTAINERS = (list, tuple, set, frozenset, dict)
_NESTED = (*_CONTAINERS, np.ndarray)
_LEAVES = {str, bytes, int, float, type(None)}


class _Dtype:
    """A dtype in a pickle, limited to numbers, texts and objects."""

    def __init__(self, code: str | bytes, *_: object) -> None:
        self.code = code
        self.set_order("")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, order, *layout = state
        if layout[:3] != [None, None, None]:
            raise pickle.UnpicklingError("a dtype with fields or of arrays is forbidden")
        self.set_order(order)

    def set_order(self, order: str | bytes) -> None:
        code = _decode_ascii(order)[:9] + _decode_ascii(self.code)[:99]
        if not re.fullmatch(r"[<>=|]?(b1|[iu][1248]|f[248]|[US][0-9]+|O8?)", code):
            raise pickle.UnpicklingError(f"the dtype {code!r} is forbidden")
        self.dtype: np.dtype[Any] = np.dtype(code)


class _Array(np.ndarray[Any, Any]):
    """An array whose state is checked before numpy sees it."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, is_fortran, items = state
        if not isinstance(dtype, _Dtype):
            raise pickle.UnpicklingError("an array has no dtype")
        # numpy checks the size of bytes, but reads past the end of a list that is too short.
        if dtype.dtype.hasobject and not (isinstance(items, list) and len(items) == math.prod(shape)):
            raise pickle.UnpicklingError(f"an array of shape {shape} has a wrong number of objects")
        checked_state: Any = (1, shape, dtype.dtype, bool(is_fortran), items)
        super().__setstate__(checked_state)


def _make_array(*_: object) -> _Array:
    return np.empty(0, np.int8).view(_Array)


def _make_array_from_buffer(buffer: bytes, dtype: _Dtype, shape: tuple[int, ...], order: str) -> _Array:
    array = _make_array()
    array.__setstate__((1, shape, dtype, order == "F", bytes(memoryview(buffer))))
    return array


def _make_scalar(dtype: _Dtype, item: bytes | str) -> Any:
    array = _make_array()
    array.__setstate__((1, (), dtype, False, item))
    return array[()]


def _encode_latin1(text: str, encoding: str | bytes) -> bytes:
    # The encoding of bytes in protocol 2. For any other, Python would search for a codec of that name.
    if _decode_ascii(encoding) not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"the encoding {encoding!r} is forbidden")
    return text.encode("latin-1")


def _make_set(items: Iterable[Any] = ()) -> set[Any]:
    members = list(items)
    _check_keys(members)
    return set(members)


def _decode_ascii(value: str | bytes) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else value


_STAND_INS: dict[tuple[str, str], Callable[..., Any] | None] = {
    (module, name): stand_in
    for modules, name, stand_in in [
        ("numpy", "ndarray", None),  # only passed to _reconstruct, which ignores it
        ("numpy", "dtype", _Dtype),
        ("numpy.core.multiarray numpy._core.multiarray", "_reconstruct", _make_array),
        ("numpy.core.multiarray numpy._core.multiarray", "scalar", _make_scalar),
        ("numpy.core.numeric numpy._core.numeric", "_frombuffer", _make_array_from_buffer),
        ("_codecs", "encode", _encode_latin1),
        ("builtins __builtin__", "bytes", lambda: b""),  # empty bytes in protocol 2
        ("builtins __builtin__", "set", _make_set),
        ("builtins __builtin__", "frozenset", lambda items=(): frozenset(_make_set(items))),
        ("builtins __builtin__", "complex", complex),
    ]
    for module in modules.split()
}
