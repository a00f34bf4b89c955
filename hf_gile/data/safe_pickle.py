"""Pickles of strangers, read without running anything they name.

A pickle is a program: it names functions and has them called. Here every name it may use stands for a function of this
file that makes plain data or refuses, and all other names are refused. numpy's own functions are not among them:
`dtype.__setstate__` takes any memory layout, such as one in which bytes of the file are addresses of objects.
"""

from __future__ import annotations

import gzip
import io
import math
import os
import pickle
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def load_pickle(path: str | os.PathLike[str]) -> Any:
    """Reads a pickle of lists, tuples, dicts, sets, texts, numbers and numpy arrays, and of nothing else.

    Args:
        path: A file of any protocol, packed by gzip or not.

    Returns:
        What was pickled. A `str` of Python 2 comes as bytes: it does not say its encoding, and `unicode` comes as text.
        Arrays come as a subclass of `np.ndarray`, which `np.asarray` makes plain.

    Raises:
        ValueError: If the file is empty, damaged or no pickle, or if it names anything else, which the message tells.
    """
    data = Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":  # no pickle starts so
        try:
            data = gzip.decompress(data)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{path}: damaged gzip file: {error}") from error
    if not data:
        raise ValueError(f"{path}: empty file")
    try:
        return _Unpickler(io.BytesIO(data), encoding="bytes").load()
    except Exception as error:  # garbage can raise anything
        raise ValueError(
            f"{path}: expected a pickle of lists, tuples, dicts, sets, texts, numbers and numpy arrays: {error}"
        ) from error


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"the global {module}.{name} is forbidden")
        stand_in = _STAND_INS[module, name]
        # A new function each time: a pickle may also write into what it gets.
        return stand_in and (lambda *arguments: stand_in(*arguments))


class _Dtype:
    """What a pickle says of a dtype, as long as it is one of numbers, texts or any objects."""

    def __init__(self, code: str | bytes, *_: object) -> None:
        self.code = code
        self.set_order("")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, order, *layout = state
        if layout[:3] != [None, None, None]:
            raise pickle.UnpicklingError("a dtype with fields or of arrays is forbidden")
        self.set_order(order)

    def set_order(self, order: str | bytes) -> None:
        code = _text(order) + _text(self.code)
        if not re.fullmatch(r"[<>=|]?(b1|[iu][1248]|f[248]|[US][0-9]+|O8?)", code):
            raise pickle.UnpicklingError(f"the dtype {code!r} is forbidden")
        self.dtype: np.dtype[Any] = np.dtype(code)


class _Array(np.ndarray[Any, Any]):
    """An array whose state is checked before numpy sees it."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, is_fortran, items = state
        if not isinstance(dtype, _Dtype):
            raise pickle.UnpicklingError("an array has no dtype")
        # numpy checks the size of bytes, but reads on behind the end of a list that is too short.
        if dtype.dtype.hasobject and not (isinstance(items, list) and len(items) == math.prod(shape)):
            raise pickle.UnpicklingError(f"an array of shape {shape} has another number of objects")
        checked: Any = (1, shape, dtype.dtype, bool(is_fortran), items)
        super().__setstate__(checked)


def _array(*_: object) -> _Array:
    return np.empty(0, np.int8).view(_Array)


def _array_of_buffer(buffer: bytes, dtype: _Dtype, shape: tuple[int, ...], order: str) -> _Array:
    array = _array()
    array.__setstate__((1, shape, dtype, order == "F", bytes(memoryview(buffer))))
    return array


def _scalar(dtype: _Dtype, item: bytes | str) -> Any:
    array = _array()
    array.__setstate__((1, (), dtype, False, item))
    return array[()]


def _encoded(text: str, encoding: str | bytes) -> bytes:
    # How protocol 2 writes bytes. Any other encoding would have Python look for a codec of that name.
    if _text(encoding) not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"the encoding {encoding!r} is forbidden")
    return text.encode("latin-1")


def _text(value: str | bytes) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else value


_STAND_INS: dict[tuple[str, str], Callable[..., Any] | None] = {
    (module, name): stand_in
    for modules, name, stand_in in [
        ("numpy", "ndarray", None),  # only ever handed to _reconstruct, which makes no other
        ("numpy", "dtype", _Dtype),
        ("numpy.core.multiarray numpy._core.multiarray", "_reconstruct", _array),
        ("numpy.core.multiarray numpy._core.multiarray", "scalar", _scalar),
        ("numpy.core.numeric numpy._core.numeric", "_frombuffer", _array_of_buffer),
        ("_codecs", "encode", _encoded),
        ("builtins __builtin__", "bytes", lambda: b""),  # by protocol 2 only if there are none
        ("builtins __builtin__", "set", set),
        ("builtins __builtin__", "frozenset", frozenset),
        ("builtins __builtin__", "complex", complex),
    ]
    for module in modules.split()
}
