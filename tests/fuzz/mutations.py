"""Hypothesis strategies for files: valid files with damage, and random bytes."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

_TOKENS = [
    b"\0", b"\xff", b"\xc3", b"\xef\xbb\xbf", b"\xff\xfe", b"\n", b"\r", b"\t", b" ", b'"', b"'", b",", b";", b"\\",
    b"{", b"}", b"[", b"]", b"<", b">", b"&", b"]]>", b"<!--", b"-1", b"0", b"1e999", b"NaN", b"null", b"true", b"[[",
    b"\\ud800", b"\\u0000", b"9" * 30, b"\xed\xa0\x80", b"\x80\x04", b"\x1f\x8b",
]  # fmt: skip
_ENCODINGS = ["utf-16", "utf-16-le", "utf-32", "utf-8-sig", "cp1252", "cp037"]


def mutated(files: Sequence[bytes], tokens: Sequence[bytes] = ()) -> st.SearchStrategy[bytes]:
    """Draws the bytes of a file.

    Args:
        files: Valid files of the format.
        tokens: Meaningful tokens of the format, inserted at any position.

    Returns:
        A strategy of arbitrary bytes, and of valid files with flipped bits, dropped, doubled and moved parts, inserted
        tokens and parts of other files, truncated, compressed by gzip and damaged, or in another encoding.
    """
    position = st.floats(0, 1)
    edit = st.one_of(
        st.tuples(st.just("flip"), position, st.integers(0, 7)),
        st.tuples(st.just("put"), position, st.sampled_from([*tokens, *_TOKENS])),
        st.tuples(st.just("replace"), position, st.binary(min_size=1, max_size=4)),
        st.tuples(st.just("drop"), position, position),
        st.tuples(st.just("double"), position, position),
        st.tuples(st.just("splice"), position, st.tuples(st.sampled_from(files), position, position)),
        st.tuples(st.just("cut"), position, st.none()),
        st.tuples(st.just("many"), position, st.tuples(st.sampled_from([*tokens, b"[", b'{"a":', b"<a>"]), _times)),
    )
    damaged = st.builds(_edited, st.sampled_from(files), st.lists(edit, max_size=4))
    packed = st.builds(_edited, st.builds(_packed, damaged), st.lists(edit, max_size=1))
    encoded = st.builds(_encoded, damaged, st.sampled_from(_ENCODINGS))
    return st.one_of(damaged, damaged, damaged, packed, encoded, st.binary(max_size=200))


_times = st.integers(2, 20_000)


def _packed(data: bytes) -> bytes:
    return gzip.compress(data, 1, mtime=0)


def _encoded(data: bytes, encoding: str) -> bytes:
    return data.decode("latin-1" if encoding == "cp037" else "utf-8", "replace").encode(encoding, "replace")


def _edited(data: bytes, edits: list[tuple[str, float, Any]]) -> bytes:
    for kind, position, argument in edits:
        at = int(position * len(data))
        if kind == "flip":
            data = data[:at] + bytes(byte ^ (1 << argument) for byte in data[at : at + 1]) + data[at + 1 :]
        elif kind == "put":
            data = data[:at] + argument + data[at:]
        elif kind == "replace":
            data = data[:at] + argument + data[at + len(argument) :]
        elif kind == "cut":
            data = data[:at]
        elif kind == "many":
            data = data[:at] + argument[0] * argument[1] + data[at:]
        elif kind == "splice":
            other, start, length = argument
            first = int(start * len(other))
            data = data[:at] + other[first : first + int(length * (len(other) - first))] + data[at:]
        else:
            part = data[at : at + int(argument * (len(data) - at))]
            data = data[:at] + (part * 2 if kind == "double" else b"") + data[at + len(part) :]
    return data
