"""The record type of all readers, and its validation."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from html import unescape
from reprlib import repr as shortened
from typing import Any, TypedDict

_INVISIBLE = re.compile("[\u00ad\u200b\u2060\ufeff]")  # soft hyphens, spaces without width, byte order marks
_INLINE = re.compile(r"</?(a|b|em|font|i|small|span|strong|sub|u)(\s[^<>]*)?>", re.IGNORECASE)
_BLOCK = re.compile(r"</?(br|div|h[1-6]|li|ol|p|ul)(\s[^<>]*)?/?>", re.IGNORECASE)
_SUPERSCRIPT = re.compile(r"<sup>([^<>]*)</sup>")
_ENTITY = re.compile(r"&(#\d{1,6}|#x[0-9a-fA-F]{1,5}|[A-Za-z]{2,8}\d{0,2});")
_RAISED = {"", "st", "nd", "rd", "th", "tm", "r", "\N{REGISTERED SIGN}", "\N{TRADE MARK SIGN}"}  # not exponents


class Record(TypedDict):
    """An abstract with its MeSH headings, with the keys of BioASQ.

        {"pmid": "5", "title": "On mice.", "abstractText": "Mice were seen.", "year": 1976,
         "meshUI": ["D000818", "D051379"], "meshMajor": ["Animals", "Mice"]}

    `meshUI` and `meshMajor` have the same length and order, without repetitions. `year` is None if unknown.
    """

    pmid: str
    title: str
    abstractText: str
    year: int | None
    meshUI: list[str]
    meshMajor: list[str]


def validate_record(raw: object, ui_of: Mapping[str, str] | None = None) -> Record:
    """Validates a JSON object and converts it to a record.

    Null is read as an empty text. Without `meshUI` (BioASQ has names only), ids of headings are looked up in `ui_of`;
    unknown names are used as ids. Repeated headings count once.

    Args:
        raw: A decoded JSON value.
        ui_of: Maps heading names to ids.

    Returns:
        The record.

    Raises:
        ValueError: If a key is missing or a value has the wrong type.

    Example:
        >>> raw = {"pmid": 5, "title": "On mice.", "abstractText": None, "meshMajor": ["Mice"]}
        >>> validate_record(raw, ui_of={"Mice": "D051379"})["meshUI"]
        ['D051379']
    """
    if not isinstance(raw, Mapping):
        raise ValueError(f"a record must be a JSON object, got {shortened(raw)}")
    missing = [key for key in ("pmid", "title", "abstractText", "meshMajor") if key not in raw]
    if missing:
        raise ValueError(f"a record needs {', '.join(missing)}, got the keys {shortened([*raw])}")
    names = _check_headings(raw, "meshMajor")
    if raw.get("meshUI") is None:
        ids = [*names] if ui_of is None else [ui_of.get(name, name) for name in names]
    else:
        ids = _check_headings(raw, "meshUI")
        if len(ids) != len(names):
            raise ValueError(f"{len(ids)} meshUI for {len(names)} meshMajor; the numbers must be equal")
    texts = {key: clean_text(raw[key], key) for key in ("title", "abstractText")}
    return make_record(
        raw["pmid"],
        texts["title"],
        texts["abstractText"],
        raw.get("year"),
        ids,
        names,
    )


def make_record(
    pmid: object,
    title: str,
    abstract: str,
    year: object,
    ids: list[str],
    names: list[str],
) -> Record:
    """Makes a record of valid texts and headings; repeated headings count once.

    Args:
        pmid: A number or text.
        title: The title.
        abstract: The abstract.
        year: A number, text or None.
        ids: Ids of the headings.
        names: Names of the headings.

    Raises:
        ValueError: If the pmid is empty, or the year is not a year.
    """
    if len(set(ids)) < len(ids):  # by id, since several spellings of a name may share an id
        headings = dict(zip(reversed(ids), reversed(names), strict=True))
        ids = list(dict.fromkeys(ids))
        names = [headings[ui] for ui in ids]
    return {
        "pmid": _parse_pmid(pmid),
        "title": title,
        "abstractText": abstract,
        "year": _parse_year(year),
        "meshUI": ids,
        "meshMajor": names,
    }


def clean_text(value: object, name: str) -> str:
    """Checks a text.

    Args:
        value: The text; None is read as empty.
        name: Name of the text, for messages.

    Returns:
        The text.

    Raises:
        ValueError: If it is not a valid text.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text, got {shortened(value)}")
    if "\0" in value:
        raise ValueError(f"{name} contains a NUL character")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:  # a lone surrogate, which JSON can represent and Arrow cannot
            raise ValueError(f"{name} contains a lone surrogate, which is not valid text") from None
    return value


def clean_label(text: str) -> str:
    """Returns a label as it is compared: composed letters (NFC), single spaces, no invisible signs.

    Example:
        >>> clean_label(" Cafe\u0301\u00a0 au lait\u200b")
        'Café au lait'
    """
    if not text.isascii():
        text = _INVISIBLE.sub("", unicodedata.normalize("NFC", text))
    return " ".join(text.split())


def plain_text(text: str) -> str:
    """Returns a text without the markup and the entities of HTML; others than the usual tags remain.

    Example:
        >>> plain_text("<p>10<sup>3</sup> cats &amp; <i>mice</i></p> < <guide>")
        ' 10^3 cats & mice  < <guide>'
    """
    if "<" in text:
        text = _BLOCK.sub(" ", _INLINE.sub("", text))
        text = _SUPERSCRIPT.sub(lambda match: raise_text(match.string[: match.start()], match[1]), text)
    if "&" in text:
        text = _ENTITY.sub(lambda match: unescape(match[0]).replace("\u00a0", " "), text)
    return text


def raise_text(before: str, text: str) -> str:
    """Writes a superscript as plain text: an exponent follows a caret.

    Args:
        before: The text before it.
        text: The superscript.

    Example:
        >>> "10" + raise_text("10", "-3"), "the 1" + raise_text("the 1", "st"), "[" + raise_text("[", "14") + "C]"
        ('10^-3', 'the 1st', '[14C]')
    """
    is_exponent = before[-1:].isalnum() or before[-1:] in (")", "]")
    return text if not is_exponent or text.strip().lower() in _RAISED else f"^{text}"


def join_columns(row: Mapping[str, Any], columns: Sequence[str]) -> str:
    r"""Joins the text columns of a row.

    Args:
        row: Cells by column; missing cells and None are empty texts.
        columns: Columns with the text, joined by line breaks.

    Raises:
        ValueError: If a cell is not a text.

    Example:
        >>> join_columns({"title": "On mice. ", "note": None, "body": "Mice ate."}, ["title", "note", "body"])
        'On mice.\nMice ate.'
    """
    if len(columns) == 1:
        return clean_text(row.get(columns[0]), columns[0]).strip()
    texts = [clean_text(row.get(column), column).strip() for column in columns]
    return "\n".join([text for text in texts if text])


def _check_headings(raw: Mapping[str, Any], key: str) -> list[str]:
    values = [] if raw[key] is None else raw[key]
    if not isinstance(values, list):
        raise ValueError(f"{key} must be a list of text, got {shortened(values)}")
    for value in values:
        if not isinstance(value, str):
            raise ValueError(f"a heading in {key} must be text, got {shortened(value)}")
        if not value or value.isspace():
            raise ValueError(f"a heading in {key} must not be empty, got {shortened(values)}")
    clean_text(" ".join(values), f"a heading in {key}")  # checked together for speed
    return values


def _parse_pmid(value: object) -> str:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    pmid = clean_text(str(value) if is_number else value, "pmid").strip()
    if not pmid:
        raise ValueError(f"pmid must not be empty, got {shortened(value)}")
    return pmid


def _parse_year(value: object) -> int | None:
    if value is None or value == "":
        return None
    if isinstance(value, str) and len(year := value.strip()) == 4 and year.isascii() and year.isdigit():
        return int(year)
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10_000:
        return value
    raise ValueError(f"year must be a year or null, got {shortened(value)}")
