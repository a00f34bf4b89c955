"""Tells formats and encodings by the first bytes of a file, whatever its name."""

from __future__ import annotations

import codecs
import os
import re
from pathlib import Path

from .json_text import is_json_object

_NULS = 0.3  # share of NUL bytes from which a text without a byte order mark is UTF-16
_BOMS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_TAG = re.compile(r"<[\w.-]+(:[\w.-]+)?(\s+[\w:.-]+\s*=|\s*/?>)")
_TRIPLE = re.compile(r"(<[^<>\s]*>|_:\w+)\s+(<[^<>\s]*>|a\s|\w*:\w+)")
_TURTLE = re.compile(r"(@prefix|@base|prefix\s+[\w.-]*:|base\s*<)", re.IGNORECASE)
_ONTOLOGY = re.compile(r"format-version:\s*1|Prefix\(|Ontology\(|(Prefix:\s*[\w.-]*:\s*<|Ontology:\s*<)")
_LEGACY = ["cp1251", "cp1252", "cp1253", "cp1255", "cp1256", "koi8_r"]
_LEGACY += ["shift_jis", "euc_jp", "gb18030", "big5", "euc_kr"]
_CSV_SUFFIXES = (".csv", ".tsv", ".tab")


def is_workbook(path: str | os.PathLike[str]) -> bool:
    """Checks whether a file is a spreadsheet of Excel or LibreOffice."""
    with Path(path).open("rb") as stream:
        head = stream.read(1 << 12)
    if head.startswith(b"\xd0\xcf\x11\xe0"):  # Excel until 2003
        return True
    return head.startswith(b"PK\x03\x04") and any(
        sign in head for sign in (b"[Content_Types].xml", b"mimetypeapplication/vnd.oasis", b"xl/workbook.xml")
    )


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
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
        return "utf-8"
    except UnicodeDecodeError:
        text = head.decode("utf-8", "replace")
    invalid = text.count("\ufffd")
    valid = sum(map(len, re.findall("[^\0-\x7f\ufffd]+", text)))
    if valid >= invalid:
        return "utf-8"  # with damaged lines, which the reader reports
    text_bytes = b"\n".join([line for line in head.splitlines() if not line.isascii()][:200])
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


def see_kind(text: str, suffix: str) -> str:
    """Returns the kind of a text, as in `Format`.

    Args:
        text: The beginning, without white space and byte order mark.
        suffix: Suffix of the file.
    """
    lowered = text[:200].lower()
    if lowered.startswith("version https://git-lfs.github.com/spec"):
        return "lfs"
    if lowered.startswith(("<!doctype html", "<html")):
        return "html"
    if text.startswith("<?xml") or text.startswith("<!"):
        return "html" if re.search(r"<html[\s>]", text[:2000], re.IGNORECASE) else "xml"
    if text.startswith("__label__"):
        return "fasttext"
    if text.startswith("{"):
        return _object_kind(text, suffix)
    uncommented = re.sub(r"(?m)\A(\s*#.*\n)+", "", text).lstrip()
    if _TURTLE.match(uncommented):
        return "turtle"
    if _ONTOLOGY.match(text):
        return "ontology"
    if re.match(r'\[\s*([\[{"\d\]]|-\d|$)', text):
        return "json" if suffix not in _CSV_SUFFIXES else "csv"
    if suffix in _CSV_SUFFIXES:
        return "csv"
    if _TRIPLE.match(uncommented):
        return "turtle" if suffix in (".ttl", ".n3") else "ntriples"
    if _TAG.match(text):
        return "xml"
    return {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json"}.get(suffix, "text")


def _object_kind(text: str, suffix: str) -> str:
    """Tells JSON lines from a single object, and from a CSV file whose first cell starts with a brace."""
    first, _, rest = text.partition("\n")
    is_line = is_json_object(first)
    if suffix in _CSV_SUFFIXES:
        return "jsonl" if is_line else "csv"
    if suffix in (".jsonl", ".ndjson"):
        return "jsonl"
    return "jsonl" if is_line and (rest.lstrip().startswith("{") or suffix not in (".json", ".jsonld")) else "json"
