"""Reads labels that are numbers: columns or lists of zeros and ones, shares, and classes."""

import re
import shlex
from collections import Counter
from collections.abc import Collection, Container, Mapping, Sequence
from numbers import Real
from os.path import commonprefix
from reprlib import repr as shortened
from typing import Any

from .label_cells import is_missing, number_of
from .schema import Row, clean_label

FEW = 10
"""Number of rows, below which nothing follows from what they have in common."""

_ANSWERS = (
    ("true", "false"), ("t", "f"),
    ("wahr", "falsch"), ("vrai", "faux"), ("vero", "falso"), ("verdadero", "falso"),
    ("verdadeiro", "falso"), ("waar", "onwaar"), ("sand", "falsk"), ("sant", "falskt"),
    ("sann", "usann"), ("tosi", "epätosi"), ("prawda", "fałsz"), ("pravda", "nepravda"),
    ("igaz", "hamis"), ("adevărat", "fals"), ("истина", "ложь"), ("doğru", "yanliş"),
    ("yes", "no"), ("y", "n"),
    ("ja", "nein"), ("oui", "non"),
    ("si", "no"), ("sí", "no"),
    ("sim", "não"), ("tak", "nie"), ("да", "нет"), ("是", "否"), ("はい", "いいえ"),
    ("ja", "nee"), ("ja", "nej"), ("kyllä", "ei"), ("igen", "nem"), ("ano", "ne"), ("evet", "hay\u0131r"),
    ("checked", "unchecked"), ("selected", "not selected"), ("on", "off"),
    ("present", "absent"), ("\u6709", "\u65e0"), ("\u6709", "\u7121"), ("s\u00ec", "no"),
    ("\u25cb", "\u00d7"), ("\u25ef", "\u00d7"), ("x", ""), ("v", ""),
    ("\u2713", "\u2717"), ("\u2714", "\u2718"), ("\u2611", "\u2610"), ("\u2705", "\u274c"),
)  # fmt: skip
_YES = {yes for yes, _ in _ANSWERS}
_NO = {no for _, no in _ANSWERS if no}
_MARK = re.compile(r"[^\w\s.?\u2013\u2014-]")  # a sign for yes if no other is used, such as a star
_NEARLY_ALL = 0.9  # of lists or cells, since a few may be damaged or empty
_MOST = 0.5  # of cells, if the others are words, or -1 for what is not known
_FEW_NUMBERS = 3  # beyond 0 and 1, of a column that has neither counts nor shares
_COMMA = re.compile(r"^(\d*),(?=\d+$)")  # of decimals in much of Europe
_COUNTED = re.compile(
    r"(.*[_ ])?(id|idx|index|k?folds?|split)|unnamed.*|row|(is_)?(train|test|val|valid|validation|dev)", re.IGNORECASE
)
# Of columns, up to a sign before a word. A point or a slash after a single letter is of an abbreviation.
_PREFIX = re.compile(r".*(?:[_:=\[]|(?<=[^\W\d_]\w)(?:/|\.(?!.*[\s.])))", re.DOTALL)
_NEGATION = re.compile(r"(?:\b|_)(no|non|not|without)(?:\b|_)", re.IGNORECASE)


def are_flags(cells: Collection[Any]) -> bool:
    """Checks whether cells are numbers from 0 to 1, or the same two words for yes and no; False without cells."""
    texts = {cell.strip().lower() for cell in cells if isinstance(cell, str)}
    words = {text for text in texts if text in _YES or text in _NO or _MARK.fullmatch(text)}
    are_answers = len(words) < 2 or any(words <= {*pair} for pair in _ANSWERS)
    return bool(cells) and are_answers and all(map(is_flag, cells))


def is_flag(value: Any) -> bool:
    """Checks whether a cell is a number from 0 to 1, a boolean, or a word for these."""
    number = as_number(value)
    return number is not None and 0 <= number <= 1


def as_number(value: Any) -> float | None:
    """Returns the number of a cell, which may be a percentage, 0 or 1 for a boolean; None for anything else."""
    if isinstance(value, str):
        lowered = value.strip().lower()
        if lowered in _YES or lowered in _NO or _MARK.fullmatch(lowered):
            return float(lowered not in _NO)
        number = number_of(_COMMA.sub(r"\1.", lowered.removesuffix("%").strip()))
        if number is None:
            return None
        return number / 100 if lowered.endswith("%") else float(number)
    return float(value) if isinstance(value, Real) else None


def read_flag(value: Any, column: str) -> bool:
    """Returns whether a cell is more than a half, and False if it has no value; raises a ValueError for others."""
    number = 0.0 if is_missing(value) else as_number(value)
    if number is None or not 0 <= number <= 1:
        raise ValueError(f"{column} must be a number from 0 to 1, as in other rows, got {shortened(value)}")
    return number > 0.5


def class_name(value: object, names: Sequence[str]) -> str:
    """Returns the name of a class by its number or name; raises a ValueError for others."""
    if isinstance(value, str) and value.strip() in names:
        return value.strip()
    number = number_of(str(value))
    if number is None or isinstance(value, bool) or not float(number).is_integer() or not 0 <= number < len(names):
        raise ValueError(f"a class must be a whole number from 0 to {len(names) - 1:,}, got {shortened(value)}")
    return names[int(number)]


def are_shares(items: Sequence[Any]) -> bool:
    """Checks whether a cell is an object with a number from 0 to 1 for each label."""
    return (
        len(items) == 1
        and isinstance(items[0], Mapping)
        and all(not isinstance(value, str) and is_flag(value) for value in items[0].values())
    )


def named_classes(items: Sequence[Any], known: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of classes that count labels from 0 or 1; nothing if they may be ids."""
    numbers = {number_of(str(item)) for item in items}
    first = int(0 not in numbers)  # -1 is no class beside 0
    if not numbers <= {*range(2 * first - 1, first + len(known))} or (first and len(known) not in numbers):
        return ()
    ends = [*map(_last_number, known)]
    ids = {end for end, label_id in zip(ends, known, strict=True) if label_id.isdecimal()}
    may_be_ids = numbers - {-1} <= {*ends} and ends != [*range(first, first + len(known))]
    return () if may_be_ids or not ids.isdisjoint(numbers) else ("0",) * first + tuple(known)


def _last_number(label_id: str) -> Any:
    """Returns the number at the end of an id, without zeros; None if it does not end in digits."""
    digits = label_id[len(label_id.rstrip("0123456789")) :]
    return number_of(digits.lstrip("0") or digits[:1])


def have_positions(
    lists: Sequence[Sequence[Any]],
    title: str,
    names: Sequence[str],
    are_known: bool,
    are_texts: bool,
) -> bool:
    """Checks whether nearly all cells are lists of numbers from 0 to 1, one for each name.

    The names have an order, unlike labels that are only known.

    Raises:
        ValueError: If there are such lists without as many names.
    """
    lists = list(filter(None, lists))
    width, number = next(iter(Counter(map(len, lists)).most_common(1)), (0, 0))
    if width < 2 or number < _NEARLY_ALL * len(lists):
        return False
    numbers = [[number_of(item) if isinstance(item, str) else item for item in items] for items in lists]
    different = {item if isinstance(item, Real) else None for items in numbers for item in items}
    are_shares = all(map(is_flag, different))
    if None in different or not (are_shares or (width > 2 and len(different) == 2)):  # such as 1 and -1
        return False
    if are_shares and width == len(names):
        return True
    if names and width == 2 and different <= {0, 1}:  # pairs of classes
        return False
    in_order = f"a --label_file with these {width} labels in order, or "
    example = next(items for items in numbers if len(items) == width)
    raise ValueError(
        f"{title}: lists of zeros and ones, such as {shortened(list(example))}, say which of {width} labels a "
        f"document has, but not their names: pass {in_order if names or not are_known else ''}a table with the "
        f"names of labels in cells, or with a column a label (--labels NAME NAME ...)"
        f"{', or --separator none if each cell is a label' * are_texts}"
    )


def flag_columns(
    rows: Sequence[Row],
    others: Collection[str],
    known: Collection[str] = (),
) -> list[str]:
    """Returns the columns that only have numbers from 0 to 1, if there are at least two; `others` are excluded.

    Raises:
        ValueError: If another column nearly is one of zeros and ones, or has the name of a known label.
    """
    flags = _flags(rows, others, known)
    if flags:
        for column in _candidates(rows, known):
            if column not in flags and column not in others:
                _refuse_odd(rows, column, flags, column in known)
    return flags


def name_flags(
    rows: Sequence[Row], columns: Sequence[str], separator: str | None, known: Collection[str]
) -> tuple[tuple[str, ...], str]:
    """Returns the labels of columns of zeros and ones, and a description.

    A prefix of all columns, as of `pandas.get_dummies`, is no part of a label, unless it has a meaning.
    """
    prefix = (_PREFIX.match(commonprefix(columns)) or [""])[0]  # noqa: RUF071 - of characters
    end = next((pair[1] for pair in ("()", "[]") if prefix.count(pair[0]) > prefix.count(pair[1])), "")
    whole = tuple(map(clean_label, columns))
    names = tuple(clean_label(column.removeprefix(prefix).removesuffix(end)) for column in columns)
    are_foreign = set(known).isdisjoint(names) if known else all(map(str.isdecimal, names))
    is_open = not all(column.endswith(end) for column in columns)
    if separator is not None or "" in names or is_open or are_foreign or _NEGATION.search(prefix):
        names = whole
    description = "a column of zeros and ones a label"
    if names != whole:
        description += f", without their prefix {prefix!r} (--separator none keeps it)"
    others = {column: _cells(rows, column) for column in rows[0] if column not in ("", *columns)}
    if left_out := [
        column
        for column, cells in others.items()
        if are_flags(cells) or not _NO.isdisjoint(str(cell).lower() for cell in cells)
    ]:
        description += f" (left out, though from 0 to 1, or no, too: {shortened(left_out)[1:-1]})"
    return names, description


def _flags(rows: Sequence[Row], others: Collection[str], known: Collection[str]) -> list[str]:
    """Returns what `flag_columns` does; columns of ones are left out, unless their name is known."""
    cells = {column: _cells(rows, column) for column in _candidates(rows, known) if column not in others}
    ones = {column for column in cells if len(rows) >= FEW and all(as_number(row.get(column)) == 1 for row in rows)}
    ones.difference_update(known)
    flags = [column for column in cells if column not in ones and are_flags(cells[column])]
    whole = {column for column in flags if all(as_number(cell) in (0, 1) for cell in cells[column])}
    # A share may be the agreement of annotators.
    flags = [column for column in flags if not whole or column in whole or column in known]
    return flags if len(flags) > 1 else []


def _candidates(rows: Sequence[Row], known: Collection[str]) -> list[str]:
    """Returns the columns that may be labels: those with a known name, or one that is not of ids or parts."""
    names = [column for row in rows[:1] for column in row if column]
    return [column for column in names if column in known or not _COUNTED.fullmatch(column)]


def _refuse_odd(rows: Sequence[Row], column: str, flags: Sequence[str], is_known: bool) -> None:
    """Refuses a column if nearly all cells are zeros and ones, unlike counts and shares, or if its name is known."""
    cells = _cells(rows, column)
    numbers = [as_number(cell) for cell in cells]
    others = {number for number in numbers if number not in (0, 1, None)}
    share = sum(number in (0, 1) for number in numbers) / max(1, len(cells))
    is_nearly = (
        1 in numbers
        and (0 in numbers or len(cells) < len(rows))
        and (share >= _NEARLY_ALL or (share >= _MOST and all(number < 0 for number in others)))
        and len(others) <= _FEW_NUMBERS
    )
    if is_nearly or (is_known and cells):
        counts = Counter(map(str, cells))
        odd = min(cells, key=lambda cell: (as_number(cell) in (0, 1), is_flag(cell), counts[str(cell)]))
        place = next(number for number, row in enumerate(rows, 1) if row.get(column) is odd)
        raise ValueError(
            f"column {column!r} seems to be a label, like other columns of zeros and ones, but has "
            f"{shortened(odd)} in row {place:,}: write 0 or 1, or leave it out with --labels "
            f"{' '.join(map(shlex.quote, flags))}"
        )


def _cells(rows: Sequence[Row], column: str) -> list[Any]:
    """Returns the cells of a column that have a value."""
    return [row[column] for row in rows if not is_missing(row.get(column))]


def refuse_rows(
    rows: Sequence[Row],
    columns: Sequence[str],
    cells: Sequence[Sequence[Any]],
    title: str,
    known: Container[str],
) -> None:
    """Refuses rejected rows, a lone column of zeros and ones beside others, and columns that only look like these.

    The cells of each column are those with a value.
    """
    if any("_input_hash" in row and row.get("answer") in ("reject", "ignore") for row in rows):
        raise ValueError("rows whose answer is reject or ignore, as of Prodigy, have other labels: leave them out")
    words = [{str(cell).strip().lower() for cell in column} for column in cells if column]
    seen = sorted(set().union(*words))
    if len(columns) == 1:
        flags = _flags(rows, (), ())
        if columns[0] in flags and set(seen) <= {"0", "1", "0.0", "1.0", "false", "true"}:
            raise ValueError(
                f"{title} has zeros and ones, and so have other columns, so each may be a label: pass --labels "
                f"{' '.join(map(shlex.quote, flags))}, or --separator none if 0 and 1 are the labels"
            )
        return
    # One word is in all columns, such as 0 or "no", and the other may be the name of the column; or there are more.
    are_two = (
        len(words) > 1
        and (common := set.intersection(*words))
        and (sum(map(is_flag, common)) > 1 or all(len(cells) <= 2 for cells in words))
    )
    are_numbers = bool(seen) and all(number_of(word.removesuffix("%")) is not None for word in seen)
    if (are_two or are_numbers) and not any(word in known for word in seen):
        raise ValueError(
            f"{title}: cells such as {shortened(seen[0])} and {shortened(seen[-1])} are the same in all columns, or "
            "numbers beyond 0 to 1: write 1 in the columns of a document's labels and 0 in others, or pass --separator "
            "none if cells are labels"
        )
