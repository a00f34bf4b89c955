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
        tokens: What means something in the format, to be put in anywhere.

    Returns:
        A strategy of valid files with flipped bits, lost, doubled and moved parts, tokens put in and parts of other
        files, cut off, packed by gzip and damaged again, or in another encoding; and of bytes of any kind.
    """
    place = st.floats(0, 1)
    edit = st.one_of(
        st.tuples(st.just("flip"), place, st.integers(0, 7)),
        st.tuples(st.just("put"), place, st.sampled_from([*tokens, *_TOKENS])),
        st.tuples(st.just("replace"), place, st.binary(min_size=1, max_size=4)),
        st.tuples(st.just("drop"), place, place),
        st.tuples(st.just("double"), place, place),
        st.tuples(st.just("splice"), place, st.tuples(st.sampled_from(files), place, place)),
        st.tuples(st.just("cut"), place, st.none()),
        st.tuples(st.just("many"), place, st.tuples(st.sampled_from([*tokens, b"[", b'{"a":', b"<a>"]), _times)),
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
    for kind, place, what in edits:
        at = int(place * len(data))
        if kind == "flip":
            data = data[:at] + bytes(byte ^ (1 << what) for byte in data[at : at + 1]) + data[at + 1 :]
        elif kind == "put":
            data = data[:at] + what + data[at:]
        elif kind == "replace":
            data = data[:at] + what + data[at + len(what) :]
        elif kind == "cut":
            data = data[:at]
        elif kind == "many":
            data = data[:at] + what[0] * what[1] + data[at:]
        elif kind == "splice":
            other, start, length = what
            first = int(start * len(other))
            data = data[:at] + other[first : first + int(length * (len(other) - first))] + data[at:]
        else:
            part = data[at : at + int(what * (len(data) - at))]
            data = data[:at] + (part * 2 if kind == "double" else b"") + data[at + len(part) :]
    return data
