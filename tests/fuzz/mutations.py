"""Hypothesis strategies for files: valid files with damage, and random bytes."""

import gzip

from hypothesis import strategies as st

_TOKENS = [
    b"\0", b"\xff", b"\xc3", b"\xef\xbb\xbf", b"\xff\xfe", b"\n", b"\r", b"\t", b" ", b'"', b"'", b",", b";", b"\\",
    b"{", b"}", b"[", b"]", b"<", b">", b"&", b"]]>", b"<!--", b"-1", b"0", b"1e999", b"NaN", b"null", b"true", b"[[",
    b"\\ud800", b"\\u0000", b"9" * 30, b"\xed\xa0\x80", b"\x80\x04", b"\x1f\x8b",
]  # fmt: skip
_ENCODINGS = ["utf-16", "utf-16-le", "utf-32", "utf-8-sig", "cp1252", "cp037"]


def mutated(files, tokens=()):
    """Draws the bytes of a file: arbitrary bytes, or one of these valid files with damage.

    Bits are flipped, parts dropped, doubled and moved, tokens of the format and parts of other files inserted; files
    are truncated, compressed by gzip and damaged, or in another encoding.
    """
    position = st.floats(0, 1)
    many = st.tuples(st.sampled_from([*tokens, b"[", b'{"a":', b"<a>"]), st.integers(2, 20_000))
    edit = st.one_of(
        st.tuples(st.just("flip"), position, st.integers(0, 7)),
        st.tuples(st.just("put"), position, st.sampled_from([*tokens, *_TOKENS])),
        st.tuples(st.just("replace"), position, st.binary(min_size=1, max_size=4)),
        st.tuples(st.just("drop"), position, position),
        st.tuples(st.just("double"), position, position),
        st.tuples(st.just("splice"), position, st.tuples(st.sampled_from(files), position, position)),
        st.tuples(st.just("cut"), position, st.none()),
        st.tuples(st.just("put"), position, many.map(lambda pair: pair[0] * pair[1])),
    )
    damaged = st.builds(_edited, st.sampled_from(files), st.lists(edit, max_size=4))
    packed = st.builds(_edited, damaged.map(lambda data: gzip.compress(data, 1, mtime=0)), st.lists(edit, max_size=1))
    encoded = st.builds(_encoded, damaged, st.sampled_from(_ENCODINGS))
    return st.one_of(damaged, damaged, damaged, packed, encoded, st.binary(max_size=200))


def _encoded(data, encoding):
    return data.decode("latin-1" if encoding == "cp037" else "utf-8", "replace").encode(encoding, "replace")


def _edited(data, edits):
    for kind, position, argument in edits:
        at = int(position * len(data))
        before, after = data[:at], data[at:]
        if kind == "flip":
            after = bytes(byte ^ (1 << argument) for byte in after[:1]) + after[1:]
        elif kind == "put":
            after = argument + after
        elif kind == "replace":
            after = argument + after[len(argument) :]
        elif kind == "cut":
            after = b""
        elif kind == "splice":
            other, start, length = argument
            part = other[int(start * len(other)) :]
            after = part[: int(length * len(part))] + after
        else:
            part = after[: int(argument * len(after))]
            after = (part * 2 if kind == "double" else b"") + after[len(part) :]
        data = before + after
    return data
