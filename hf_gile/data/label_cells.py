"""Reads single cells of labels: lists written as text, numbers, zeros and ones, cells without a value."""

import ast
import json
import math
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from numbers import Integral, Real
from reprlib import repr as shortened
from typing import Any

from .json_text import parse_text
from .schema import (
    BLOCK,
    NO_TEXT,
    SPREADSHEET_ERRORS,
    as_list,
    clean_label,
    clean_text,
    decode_entities,
    plain_text,
)

MISSING = {
    *NO_TEXT, *SPREADSHEET_ERRORS, "NaT", "None", "null", "Null", "nil", "NIL", "Nil",
    "undefined", "NA", "N/A", "n/a", "N.A.", "n.a.", "N.A", "(null)", "(blank)", "(none)", "(leer)", "(vide)",
    "<none>", "-", "--", "\u2013", "\u2014", ".", "?", "character(0)", "logical(0)", "integer(0)",
}  # fmt: skip
"""How programs and people write a cell without a value, which may be in brackets. A word such as "none" is a label."""

_CHANGED = re.compile(
    r"\d(\.\d+)?E\+\d+|\d{1,3}(,\d{3})+|(?=.*\d)(\d\d?[. -]+)?"
    r"(?i:Jan|Feb|M[a\xe4]rz?|Mrz|Apr|Ma[iy]|Jun|Jul|Aug|Sep|O[ck]t|Nov|De[cz])([. -]+\d\d)?"
)
_LONGEST_OBJECTS = 1 << 16  # characters; Python's parser takes much more memory than that of JSON
_WHOLE = re.compile(r"-?\d+\.(0*|\d+e\+\d\d)")
_BIT = r"(?:0(?:\.0*)?|1(?:\.0*)?)(?:e\+00)?"
_BITS = re.compile(rf"{_BIT}(?:\s*([,;|/])\s*|(\s)\s*|){_BIT}")
_TAG = re.compile("<([^<>]+)>")
_TAGS = re.compile(r"(?:<[^<>]+>\s*)+")
_SPECIAL = re.compile("[<&\r\v\f\x1c-\x1f\x85\u2028\u2029]|;#| \\(https?:")
_LINK = re.compile(r" \(https?://[^\s()]*\)")  # behind the name of a page, as of Notion
_LOOKUP = re.compile(r"(^|;#)\d+;#(?=\D)")  # the id before a name, as of SharePoint
_OPEN, _CLOSE = "[({", "])}"
# The type before a list, as in String["mice"] of Julia and ARRAY['mice'] of SQL.
_TYPED = re.compile(
    r"""\A([a-zA-Z][\w.]*(\{[\w., ]*\})?(?=\[["'])"""
    r"|(Any|String|\w+\{[\w., ]*\})(?=\[\]))"
)
_SPARK = r"(?:mutable\.)?(?:WrappedArray|ArraySeq|ArrayBuffer)\("  # starts no label, unlike List(
_WRAPPED = rf"(?:{_SPARK}|(?:(?:np\.)?[aA]rray|tensor|deque|frozenset|[sS]et|tuple|[lL]ist|Vector|Index|c)\()"
_WRAPPER = re.compile(rf"{_WRAPPED}(.*?)(?:,\s*\w+=[^()\[\]]*)?\)", re.DOTALL)
LIST_START = re.compile(rf"[\[{{]|{_WRAPPED}")
_CERTAIN = re.compile(rf"""{_SPARK}|c\(\d|\w[\w.{{}}]*\[["']|(?:[\[{{(]|{_WRAPPED}[\[{{(]?)\s*(?:[\w.]+ = )?["']""")
_NUMBER = re.compile(r"[+-]?(0|[1-9]\d{0,999}|(?=\.\d))(\.\d*)?([eE][+-]?\d+)?|nan", re.ASCII)
_QUOTED = r"""(b?"(?:[^"\\]|\\.)*"|b?'(?:[^'\\]|\\.)*')"""
# An ellipsis stands for lost items, and a name with a value, as of maps in Java, for none.
_BARE = (
    r"""((?!\.\.\.|[^,\n\[\](){}]*[:=]\s*(?:[\d.]+|true|false)\s*(?:,|\Z))"""
    r"""[^\s,'"\[\](){}<:][^,\n\[\](){}]*)"""
)
# ="007" is text in Excel.
_ONE_QUOTED = re.compile(r"""(?:[=b]|np\.str_\()?(["'])([^"'\\\[({][^"'\\]*)\1\)?""")
_ITEM = re.compile(rf"\s*(?:np\.\w+\(|[\w.]+ = (?=[\"']))?(?:{_QUOTED}\)?(?=[\s,]|$)|{_BARE}\)?)\s*,?", re.DOTALL)


def is_missing(value: Any) -> bool:
    """Checks whether a cell has no value: None, NaN, an object without keys, white space, or a word for these."""
    if isinstance(value, str):
        inner = value.strip("[](){}<>'\" \t\n")
        return not inner or inner in MISSING or inner.isspace() or value.strip() in MISSING
    return value is None or value == {} or (isinstance(value, float) and math.isnan(value))


def note_changed(ids: Iterable[Any]) -> str:
    """Returns a note if an id is a date, or a number with an exponent; empty otherwise."""
    notes = (
        f"the id {changed!r} looks like a number that a spreadsheet has changed: format ids as text"
        for changed in filter(_CHANGED.fullmatch, map(str, ids))
    )
    return next(notes, "")


def clean_id(value: object, name: str = "a label") -> str:
    """Returns a label id, which may be a whole number or a boolean, as `clean_label` writes it, without markup of HTML.

    Raises:
        ValueError: If it is empty or of another type; the message has its `name`.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Integral) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    if isinstance(value, Real):
        raise ValueError(f"{name} must be a text or a whole number, got {value}")
    checked = clean_label(plain_text(clean_text(value, name)))
    if not checked:
        raise ValueError(f"{name} must not be empty, got {shortened(value)}")
    return checked


def plain_cell(cell: object) -> Any:
    r"""Returns a cell without the markup of HTML, whose blocks are lines; tags alone are a list for `parse_list`.

    Example:
        >>> plain_cell("<li>mice</li><li>R&amp;D</li>"), plain_cell("<mice><rats>"), plain_cell("3;#mice;#5;#rats")
        ('\nmice\n\nR&D\n', '<mice><rats>', 'mice;#rats')
    """
    if not isinstance(cell, str) or not _SPECIAL.search(cell):
        return cell  # at once, since most cells are so
    if "<" not in cell:
        cell = BLOCK.sub("\n", cell)
    elif not _TAGS.fullmatch(cell.strip()):
        cell = plain_text(BLOCK.sub("\n", cell))
    return _LOOKUP.sub(r"\1", decode_entities(_LINK.sub("", cell)))


def parse_list(text: str) -> list[Any] | None:
    r"""Parses a list as Python, NumPy, JSON, a database or Stack Exchange writes it; returns None for any other text.

    Example:
        >>> parse_list("['mice', \"rats' tails\"]"), parse_list("['mice' 'rats']"), parse_list('["mice", 7]')
        (['mice', "rats' tails"], ['mice', 'rats'], ['mice', 7])
        >>> parse_list("{mice, red rats}"), parse_list("[0. 1.]"), parse_list("set()"), parse_list("mice")
        (['mice', 'red rats'], [0.0, 1.0], [], None)
        >>> parse_list("<mice><rats>"), parse_list("[{'id': 7, 'name': 'mice'}]")
        (['mice', 'rats'], [{'id': 7, 'name': 'mice'}])
    """
    text = _TYPED.sub("", text.strip())
    if _TAGS.fullmatch(text):
        return [item.strip() for item in _TAG.findall(text)]
    if whole := _ONE_QUOTED.fullmatch(text):
        return [whole[2]]
    if wrapped := _WRAPPER.fullmatch(text):
        inner = wrapped[1].strip()
        text = inner if re.match(r"[\[({]", inner) else f"[{inner}]"
    if len(text) < 2 or text[0] not in _OPEN or text[-1] != _CLOSE[_OPEN.index(text[0])]:
        return None
    value = parse_text(json.loads, text)
    if value is None and ":" in text and "{" in text and len(text) <= _LONGEST_OBJECTS:
        value = parse_text(ast.literal_eval, text)  # objects, as Python writes them
    if isinstance(value, dict | list | tuple):
        return [*as_list(value)]
    inner = text[1:-1].strip()
    items: list[Any] = []
    at = 0
    while at < len(inner):
        match = _ITEM.match(inner, at)
        if match is None:
            return None
        quoted, bare = match.groups()
        if quoted:
            item = parse_text(ast.literal_eval, quoted.replace("\n", "\\n"))
            if item is None:
                return None
            items.append(item.decode() if isinstance(item, bytes) else item)
        else:
            bare = bare.strip(" \t\u2018\u2019\u201c\u201d")
            numbers = [number_of(word) for word in bare.split()]  # between white space
            items += [None if bare == "None" else bare] if None in numbers else numbers
        at = match.end()
    return items


def number_of(word: str) -> int | float | bool | None:
    """Returns the number that a word is written for; None for another word."""
    word = word.strip()
    if word in ("True", "False"):
        return word == "True"
    if _NUMBER.fullmatch(word) is None:  # such as 007
        return None
    return int(word) if word.lstrip("+-").isdigit() else float(word)


def are_lists(texts: Sequence[str]) -> bool:
    """Checks whether most texts are lists for `parse_list`."""
    return bool(texts) and sum(parse_list(text) is not None for text in texts) > 0.5 * len(texts)


def has_lists(texts: Sequence[str]) -> bool:
    """Checks whether a text is a list for `parse_list` that starts as no label does, such as with a quote."""
    return any(_CERTAIN.match(text) and parse_list(text) is not None for text in texts)


def sign_of_bits(texts: Sequence[Any]) -> str | None:
    """Returns the sign, perhaps empty, between as many zeros and ones in each text, and None if there are others.

    Example:
        >>> sign_of_bits(["0, 1, 1", "1, 0, 0"]), sign_of_bits(["011", "100"]), sign_of_bits(["10", "11"])
        (',', '', None)
    """
    match = _BITS.match(texts[0]) if texts and all(isinstance(text, str) for text in texts) else None
    if match is None:
        return None
    sign = match[1] or match[2] or ""
    rows = [[bit.strip() for bit in (text.split(sign) if sign else text) if bit.strip()] for text in texts]
    are_bits = all(re.fullmatch(_BIT, bit) for row in rows for bit in row) and len(set(map(len, rows))) == 1
    return sign if are_bits and (sign or any(text.startswith("0") for text in texts)) else None


def whole_number(text: str) -> str | None:
    """Returns the digits of a whole number that a library wrote with a point, such as 3.0 or 1.20e+01; otherwise None.

    Example:
        >>> whole_number("3.0"), whole_number("1.20e+01"), whole_number("1.25e+01"), whole_number("3")
        ('3', '12', None, None)
    """
    if _WHOLE.fullmatch(text.strip()) is None:
        return None
    digits, _, rest = f"{Decimal(text.strip()):f}".partition(".")
    return None if rest.strip("0") else digits
