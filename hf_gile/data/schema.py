"""Checks and cleans texts, ids and names that readers read."""

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from html import unescape
from reprlib import repr as shortened
from typing import Any

Row = Mapping[str, Any]
"""The cells of a row by column."""

NO_TEXT = {"NULL", "\\N", "NaN", "nan", "<NA>"}
"""How programs write a cell without a text, which nobody writes as a text or a name."""

SPREADSHEET_ERRORS = {"#N/A", "#NA", "#NV", "#NAME?", "#NULL!", "#VALUE!", "#WERT!", "#REF!", "#DIV/0!", "#NUM!"}
"""How spreadsheets write a cell whose formula has no result."""

_EMPTY = {"", "NA", "(null)", *NO_TEXT, *SPREADSHEET_ERRORS}  # of texts; also of R: a name may be NA

# Of words and directions; joiners have a meaning.
_INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")
_INLINE = re.compile(r"</?(a|b|em|font|i|small|span|strong|sub|u)(\s[^<>]*)?>", re.IGNORECASE)
BLOCK = re.compile(r"</?(br|div|h[1-6]|hr|li|ol|p|ul)(\s[^<>]*)?/?>|[\r\v\f\x1c-\x1f\x85\u2028\u2029]", re.IGNORECASE)
"""Tags of HTML at which a line or a block ends, and line breaks other than a line feed, as of FileMaker."""

_SUPERSCRIPT = re.compile(r"<sup>([^<>]*)</sup>")
_ENTITY = re.compile(r"&(#\d{1,6}|#x[0-9a-fA-F]{1,5}|[A-Za-z]{2,8}\d{0,2});")
_RAISED = {"", "st", "nd", "rd", "th", "tm", "r", "\N{REGISTERED SIGN}", "\N{TRADE MARK SIGN}"}  # not exponents


def clean_text(value: object, name: str) -> str:
    """Returns a text, which is empty for None.

    Raises:
        ValueError: If it is not a valid text; the message has its `name`.
    """
    if value is None:
        return ""
    if isinstance(value, bytes):  # as some programs write texts to Parquet
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise ValueError(f"{name} is not UTF-8, got {shortened(value)}") from None
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


def document_id(value: object, name: str) -> str:
    """Returns an id, a string or an integer, without surrounding white space.

    Raises:
        ValueError: If it is empty or of another type; the message has its `name`.
    """
    is_number = isinstance(value, int) and not isinstance(value, bool)
    checked = clean_text(str(value) if is_number else value, name).strip()
    if not checked:
        raise ValueError(f"{name} must not be empty, got {shortened(value)}")
    return checked


def clean_label(text: str) -> str:
    """Returns a label as it is compared: composed letters (NFC), single spaces, no invisible signs.

    Example:
        >>> clean_label(" Cafe\u0301\u00a0 au lait\u200b")
        'Café au lait'
    """
    if not text.isascii():
        text = _INVISIBLE.sub("", unicodedata.normalize("NFC", text))
    return " ".join(text.split())


def as_names(names: str | Iterable[str], choices: Collection[str] | None = None) -> tuple[str, ...]:
    """Returns a name, or several, as a tuple.

    Raises:
        ValueError: If a name is repeated, or not among the choices.
    """
    result = (names,) if isinstance(names, str) else tuple(names)
    if len(set(result)) < len(result):
        raise ValueError(f"expected a name, or several distinct names, got {list(result)}")
    if choices is not None and not set(result).issubset(choices):
        raise ValueError(f"expected names among {', '.join(choices)}, got {list(result)}")
    return result


def column_names(names: str | Iterable[str]) -> tuple[str, ...]:
    """Returns a column, or several, as a tuple; raises a ValueError for an empty list."""
    if not names:
        raise ValueError(f"expected a column, or several, got {names!r}")
    return as_names(names)


def as_list(value: object) -> Sequence[Any]:
    """Returns a list as it is, and anything else as the only item of a list."""
    return value if isinstance(value, list | tuple) else [value]


def decode_entities(text: object) -> Any:
    """Returns a text with the characters that entities of HTML stand for, such as `&amp;`; anything else as it is."""
    if not isinstance(text, str) or "&" not in text:
        return text
    return _ENTITY.sub(lambda match: unescape(match[0]).replace("\u00a0", " "), text)


def plain_text(text: str) -> str:
    """Returns a text without the markup and the entities of HTML; others than the usual tags remain.

    Example:
        >>> plain_text("<p>10<sup>3</sup> cats &amp; <i>mice</i></p> < <guide>")
        ' 10^3 cats & mice  < <guide>'
    """
    if "<" in text:
        text = BLOCK.sub(" ", _INLINE.sub("", text))
        text = _SUPERSCRIPT.sub(lambda match: raise_text(match.string[: match.start()], match[1]), text)
    return decode_entities(text)


def raise_text(before: str, text: str) -> str:
    """Writes a superscript, which follows the text `before`, as plain text: an exponent follows a caret.

    Example:
        >>> "10" + raise_text("10", "-3"), "the 1" + raise_text("the 1", "st"), "[" + raise_text("[", "14") + "C]"
        ('10^-3', 'the 1st', '[14C]')
    """
    is_exponent = before[-1:].isalnum() or before[-1:] in (")", "]")
    return text if not is_exponent or text.strip().lower() in _RAISED else f"^{text}"


def join_columns(row: Row, columns: Sequence[str]) -> str:
    r"""Joins the text columns of a row by line breaks.

    Missing cells, None and words for these, such as R's NA, are empty texts. Numbers are read as text.

    Raises:
        ValueError: If a cell is not a text.

    Example:
        >>> join_columns({"title": "On mice. ", "note": None, "body": "Mice ate."}, ["title", "note", "body"])
        'On mice.\nMice ate.'
    """
    texts = []
    for column in columns:
        value = row.get(column)
        if type(value) in (int, float):
            value = str(value)  # a missing number is "nan"
        texts.append(clean_text(value, column).strip())
    return "\n".join([text for text in texts if text not in _EMPTY])
