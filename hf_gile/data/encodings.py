"""Sees in a file's first bytes how characters are encoded."""

from __future__ import annotations

import codecs
import re

_NULS = 0.3  # share of NUL bytes from which a text without a byte order mark is UTF-16
_BOMS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_LEGACY = ["cp1251", "cp1252", "cp1253", "cp1255", "cp1256", "koi8_r"]
_LEGACY += ["shift_jis", "euc_jp", "gb18030", "big5", "euc_kr"]


def resolve_encoding(encoding: str) -> str:
    """Returns Python's name of an encoding, `"utf-8"` with a byte order mark or without.

    Raises:
        ValueError: If Python does not support it.
    """
    try:
        name = codecs.lookup(encoding).name
        "a".encode(name)
    except (LookupError, TypeError, UnicodeError):
        raise ValueError(f'encoding must be known to Python, such as "windows-1252", got {encoding!r}') from None
    return "utf-8" if name == "utf-8-sig" else name


def see_unicode(head: bytes) -> str | None:
    """Returns the encoding of a byte order mark, or UTF-16 if every other byte is NUL."""
    for bom, encoding in _BOMS.items():
        if head.startswith(bom):
            return encoding
    for encoding, every_other in (("utf-16-le", head[1:4096:2]), ("utf-16-be", head[:4096:2])):
        if every_other.count(0) > _NULS * len(every_other):
            return encoding
    return None


def see_encoding(head: bytes) -> str:
    """Returns UTF-8, unless bytes are not UTF-8 and hardly any others are more than ASCII."""
    if head.isascii():
        return "utf-8"
    text = head.decode("utf-8", "replace")
    invalid = text.count("\ufffd") - text.endswith("\ufffd")  # the last character may be cut
    valid = sum(map(len, re.findall("[^\0-\x7f\ufffd]+", text)))
    if valid >= invalid:
        return "utf-8"  # with damaged lines, if any, which the reader reports
    lines = [line for line in head.splitlines() if not line.isascii()]
    text_bytes = b"\n".join(lines[:200])
    runs = re.findall(rb"[\x80-\xff]+", text_bytes)
    # Letters beyond ASCII are few and alone in Latin script, of which Western Europe's is by far the most frequent.
    if sum(len(run) for run in runs if len(run) > 1) < 0.5 * sum(map(len, runs)):
        return "cp1252"
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return "cp1252"
    best = from_bytes(text_bytes, cp_isolation=_LEGACY).best()
    return "cp1252" if best is None else best.encoding
