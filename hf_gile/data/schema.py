"""The record that every reader yields, and the check that it is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from reprlib import repr as shortened
from typing import Any, TypedDict


class Record(TypedDict):
    """One abstract with its MeSH headings, under the keys of BioASQ.

        {"pmid": "5", "title": "On mice.", "abstractText": "Mice were seen.", "year": 1976,
         "meshUI": ["D000818", "D051379"], "meshMajor": ["Animals", "Mice"]}

    `meshUI` and `meshMajor` are as long as each other and in the same order, without repetition.
    `year` is None where the source has none.
    """

    pmid: str
    title: str
    abstractText: str
    year: int | None
    meshUI: list[str]
    meshMajor: list[str]


def checked_record(raw: object, ui_of: Mapping[str, str] | None = None) -> Record:
    """Returns the record a JSON object holds.

    A null text is an empty one. Without `meshUI` (BioASQ gives names only) the id of a heading is
    its `ui_of`, or the name itself where that is missing too. A heading given twice counts once.

    Args:
        raw: A decoded JSON value.
        ui_of: From the name of a heading to its id.

    Returns:
        The record.

    Raises:
        ValueError: If a key is missing or a value has the wrong type.

    Example:
        >>> raw = {"pmid": 5, "title": "On mice.", "abstractText": None, "meshMajor": ["Mice"]}
        >>> checked_record(raw, ui_of={"Mice": "D051379"})["meshUI"]
        ['D051379']
    """
    if not isinstance(raw, Mapping):
        raise ValueError(f"a record must be a JSON object, got {shortened(raw)}")
    missing = [key for key in ("pmid", "title", "abstractText", "meshMajor") if key not in raw]
    if missing:
        raise ValueError(f"a record needs {', '.join(missing)}, got the keys {shortened([*raw])}")
    names = _headings(raw, "meshMajor")
    if raw.get("meshUI") is None:
        ids = [*names] if ui_of is None else [ui_of.get(name, name) for name in names]
    else:
        ids = _headings(raw, "meshUI")
        if len(ids) != len(names):
            raise ValueError(f"{len(ids)} meshUI for {len(names)} meshMajor; they go in pairs")
    if len(set(ids)) < len(ids):  # by id, since two spellings of a name may share one
        headings = dict(zip(reversed(ids), reversed(names), strict=True))
        ids = list(dict.fromkeys(ids))
        names = [headings[ui] for ui in ids]
    return {
        "pmid": _pmid(raw["pmid"]),
        "title": clean_text(raw["title"], "title"),
        "abstractText": clean_text(raw["abstractText"], "abstractText"),
        "year": _year(raw.get("year")),
        "meshUI": ids,
        "meshMajor": names,
    }


def clean_text(value: object, what: str) -> str:
    """Checks a text.

    Args:
        value: The text; None is an empty one.
        what: What to call it in messages.

    Returns:
        The text.

    Raises:
        ValueError: If it is something else, or holds what no text holds.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{what} must be text, got {shortened(value)}")
    if "\0" in value:
        raise ValueError(f"{what} holds a NUL character")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:  # half of a surrogate pair, which JSON can spell and Arrow cannot
            raise ValueError(f"{what} holds half a surrogate pair, which is not text") from None
    return value


def joined_text(row: Mapping[str, Any], columns: Sequence[str]) -> str:
    r"""Makes the text of a row.

    Args:
        row: Cells by column; a missing one, like None, is an empty text.
        columns: Those of the text, which line ends join.

    Raises:
        ValueError: A cell is no text.

    Example:
        >>> joined_text({"title": "On mice. ", "note": None, "body": "Mice ate."}, ["title", "note", "body"])
        'On mice.\nMice ate.'
    """
    return "\n".join(filter(None, (clean_text(row.get(column), column).strip() for column in columns)))


def _headings(raw: Mapping[str, Any], key: str) -> list[str]:
    values = [] if raw[key] is None else raw[key]
    if not isinstance(values, list):
        raise ValueError(f"{key} must be a list of text, got {shortened(values)}")
    for value in values:
        if not isinstance(value, str):
            raise ValueError(f"a heading in {key} must be text, got {shortened(value)}")
        if not value or value.isspace():
            raise ValueError(f"a heading in {key} must not be empty, got {shortened(values)}")
    clean_text(" ".join(values), f"a heading in {key}")  # once for all, since there are many
    return values


def _pmid(value: object) -> str:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    pmid = clean_text(str(value) if is_number else value, "pmid").strip()
    if not pmid:
        raise ValueError(f"pmid must not be empty, got {shortened(value)}")
    return pmid


def _year(value: object) -> int | None:
    if value is None or value == "":
        return None
    if isinstance(value, str) and len(year := value.strip()) == 4 and year.isascii() and year.isdigit():
        return int(year)
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10_000:
        return value
    raise ValueError(f"year must be a year or null, got {shortened(value)}")
