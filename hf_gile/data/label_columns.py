"""Sees how a table writes the labels of its documents, and reads them.

A column of labels may have a label a cell, lists (also as text, as Python, NumPy and JSON write them), objects, class
numbers, numbers by label, or several labels joined by a sign. A table may also have a column of zeros and ones for each
label. `see` decides from the first rows what a column is, says so in a line, and refuses what is ambiguous.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, repeat
from reprlib import repr as shortened
from typing import Any, NamedTuple

from .joined_labels import SPELLED, are_different, join_known, joined_by, joins_known, refuse_joined
from .label_cells import (
    LIST_START,
    MISSING,
    are_lists,
    clean_id,
    has_lists,
    is_missing,
    note_changed,
    number_of,
    parse_list,
    plain_cell,
    sign_of_bits,
    whole_number,
)
from .label_numbers import (
    FEW,
    are_flags,
    are_shares,
    class_name,
    have_positions,
    is_flag,
    name_flags,
    named_classes,
    read_flag,
    refuse_rows,
)
from .schema import BLOCK, Row, as_list

SAMPLE = 2000
"""Number of rows from which the form of labels is seen."""

_KEYS = (  # of objects, in order of preference
    "name", "label", "title", "display_name", "displayName", "classname", "tag", "term",
    "prefLabel", "descriptor", "topic", "subject", "keyword", "heading", "id", "@id", "ui",
    "code", "uri", "value", "choices", "category",
)  # fmt: skip
_CODE = re.compile(  # digits, and no three letters in a row
    r"(?=.*\d)(?!.*[^\W\d_]{3}).*|(label|class|category|cluster|topic)[ _-]?\d+", re.DOTALL | re.IGNORECASE
)
_ZEROS = ("0", "0.0", "-1")  # beside words, a document without labels
_NOTHING = re.compile(
    r"\W*(none|na|nothing|no (label|genre|tag|topic|category|keyword)\w*( \w+)?|unlabell?ed|unknown|missing"
    r"|not applicable|keine?s?|k\. ?a\.|n\.v\.|nicht zutreffend|unbekannt|aucune?|ninguno)\W*",
    re.IGNORECASE,
)
# In straight, typographic or French quotes.
_QUOTED = re.compile(
    r"""\A\s*(?:(["'])([^"']*)\1|[\u201c\u201e\xab]\s*([^\u201c-\u201e\xab\xbb]*)[\u201c\u201d\xbb])\s*\Z"""
)


class LabelColumn(NamedTuple):
    """How the labels of a row are read.

    Args:
        columns: The columns.
        form: `"plain"` (a label, or a list of labels), `"list"` (lists written as text),
            `"mixed"` (some cells are such lists, as of Label Studio), `"flags"` (a column of zeros
            and ones for each label), `"positions"` (a list of zeros and ones), or `"shares"` (numbers by label).
        separators: Signs between the labels of a text.
        compound: Known labels that contain the separator, sorted.
        key: Key of the label in an object.
        names: Names of classes by number, for each column; or of positions, or of the columns of zeros and ones.
        whole: Whether texts such as "3.0" are whole numbers that a library wrote with a point.
        literal: Words of `MISSING` that are labels.
        note: What the columns were taken for, in a line.
    """

    columns: tuple[str, ...]
    form: str = "plain"
    separators: tuple[str, ...] = ()
    compound: tuple[str, ...] = ()
    key: str | None = None
    names: tuple[tuple[str, ...], ...] = ()
    whole: bool = False
    literal: tuple[str, ...] = ()
    note: str = ""

    def read(self, row: Row) -> list[str]:
        """Returns the distinct labels of a row, in order.

        Raises:
            ValueError: If a cell has another form.
        """
        if self.form == "flags":
            named = zip(self.columns, self.names[0], strict=True)
            return list(dict.fromkeys(name for column, name in named if read_flag(row.get(column), column)))
        labels = map(self._read_cell, map(row.get, self.columns), self.columns, self.names or repeat(()))
        return [*filter(None, dict.fromkeys(chain.from_iterable(labels)))]

    def _read_cell(self, cell: Any, column: str, names: Sequence[str]) -> Iterable[str]:
        """Returns the labels of a cell, some of which may be empty; numbers stand for the `names` of classes."""
        items = self.items(cell, column)
        if not names and self.form != "shares":
            return (self._read_item(item, column) for item in items)
        items = [item for item in items if not self.is_absent(item)]
        if self.form == "shares":
            shares = items[0].items() if items and isinstance(items[0], Mapping) else ()
            return (name for name, share in shares if read_flag(share, name))
        if self.form != "positions":
            return (class_name(item, names) for item in items if number_of(str(item)) != -1)  # no class, on the Hub
        if items and len(items) != len(names):
            raise ValueError(f"{column} must have {len(names)} numbers, got {shortened(items)}")
        return (name for name, share in zip(names, items, strict=False) if read_flag(share, name))

    def _read_item(self, item: Any, column: str) -> str:
        """Returns the label of an item; empty for one that stands for none."""
        if not isinstance(item, str):
            return "" if is_missing(item) else clean_id(item, f"a label in {column}")
        return _label_of((self.whole and whole_number(item)) or item, self.literal, column)

    def items(self, value: Any, column: str) -> Sequence[Any]:
        """Splits a cell into the values of its labels, some of which may be missing."""
        value = plain_cell(value)
        if isinstance(value, str) and self.form != "plain":
            if self.is_absent(value):
                return []
            if self.form in ("list", "mixed") or not self.separators:
                parsed = parse_list(value)
                if parsed is not None:
                    value = parsed
                elif self.form != "mixed" or LIST_START.match(value):
                    raise ValueError(
                        f"{column} must be a list, as in other rows, got {shortened(value)}; write each cell as JSON, "
                        'such as ["mice", "rats"]'
                    )
        items = as_list(value)
        if len(items) == 1 and isinstance(items[0], list | tuple):  # of a lone annotator
            items = items[0]
        if self.key is not None:
            values = [item.get(self.key) if isinstance(item, Mapping) else item for item in items]
            items = [part for item in values for part in as_list(item)]
        return [part for item in items for part in self._split(item)]

    def is_absent(self, value: Any) -> bool:
        """Checks whether a cell or an item of it has no label."""
        return is_missing(value) and not (self.literal and isinstance(value, str) and value.strip() in self.literal)

    def _split(self, item: object) -> list[Any]:
        if not self.separators or not isinstance(item, str):
            return [item]
        usual, *others = self.separators
        for sign in others:
            item = item.replace(sign, usual)
        if usual == "":
            return [*item]
        pieces = item.split(usual)
        are_cut = any(piece.lstrip().startswith('"') and piece.count('"') % 2 for piece in pieces)
        if are_cut and item.count('"') % 2 == 0:  # by signs within quotes
            pieces = re.split(rf'{re.escape(usual)}(?=(?:[^"]*"[^"]*")*[^"]*\Z)', item)
        elif self.compound:
            pieces = join_known(pieces, usual, self.compound)
        if usual == "\n":  # of which each may have a bullet, or a number from 1
            lines = enumerate(filter(None, map(str.strip, pieces)), 1)
            pieces = [re.sub(rf"^([*\u2022\u00b7\u2013-]|{number}[.)])\s+", "", line) for number, line in lines]
        return pieces


@lru_cache(1 << 16)
def _label_of(text: str, literal: tuple[str, ...], column: str) -> str:
    """Returns the label of a text, since texts recur; empty for a text that stands for none."""
    is_absent = is_missing(text) and text.strip() not in literal
    plain = _QUOTED.sub(r"\2\3", text).removeprefix("__label__")  # of fastText, in a table
    return "" if is_absent else clean_id(plain, f"a label in {column}")


def see(
    rows: Sequence[Row],
    columns: Sequence[str],
    separator: str | None = None,
    known: Collection[str] = (),
    classes: Mapping[str, Sequence[str]] | None = None,
) -> LabelColumn:
    """Sees how columns hold labels, from the first rows of a table.

    Args:
        rows: Rows.
        columns: The columns; several are a column of zeros and ones a label, or hold labels each.
        separator: Sign between the labels of a cell; `"json"` for lists as text; `"none"` if a cell is a label.
        known: Ids of all labels. If it is a list, it names the positions of lists of zeros and ones, and class numbers.
        classes: Names of classes by number, for columns that have them.

    Raises:
        ValueError: If labels could be read in two ways; the message has the flag that decides.
    """
    positions = tuple(known) if isinstance(known, list | tuple) else ()
    known = frozenset(known)
    literal = sorted(MISSING if separator == "none" else MISSING & known)
    form = LabelColumn(tuple(columns), literal=tuple(literal))
    title = f"label column{'s' * (len(columns) > 1)} {', '.join(map(repr, columns[:9]))}"
    by_column = [[cell for row in rows if not form.is_absent(cell := row.get(column))] for column in columns]
    if len(columns) > 1 and any(by_column) and all(map(are_flags, filter(None, by_column))):
        flags, description = name_flags(rows, columns, separator, known)
        description += _unreadable(form, flags, known)
        return _noted(form._replace(form="flags", names=(flags,)), f"{title}: {description}", "--labels", rows)
    if classes:
        form = form._replace(names=tuple(tuple(classes.get(column, ())) for column in columns))
    elif separator is None:
        refuse_rows(rows, columns, by_column, title, known)
    cells = [*map(plain_cell, chain.from_iterable(by_column))]
    texts = [cell for cell in cells if isinstance(cell, str)]
    if separator not in (None, "none", "json"):
        signs = _signs(str(separator), texts)
        compound = [label for label in known if signs[0] in label] if len(signs) == 1 else []
        form = form._replace(separators=signs, compound=tuple(sorted(compound)))
    if separator == "json" or (separator != "none" and (are_lists(texts) or has_lists(texts))):
        parsed = [parse_list(cell) if isinstance(cell, str) else cell for cell in cells]
        is_mixed = separator != "json" and None in parsed
        form = form._replace(form="mixed" if is_mixed else "list")
        pairs = [pair for pair in zip(parsed, cells, strict=True) if is_mixed or pair[0] is not None]
        cells = [cell if value is None else value for value, cell in pairs]
    lists = _present(form, cells, title)
    bits = [*chain.from_iterable(lists)] if separator is None and known.isdisjoint(texts) else []
    if (sign := sign_of_bits(bits)) is not None:
        form = form._replace(separators=(sign,))
        lists = _present(form, cells, title)
    if any(isinstance(cell, list | tuple) for cell in cells) or form.separators:
        names = next(iter(form.names), positions)
        if have_positions(lists, title, names, bool(known), sign is not None) and not form.names:
            form = form._replace(form="positions", names=(positions,) * len(columns))
            return _noted(form, f"{title}: lists of zeros and ones for the labels of --label_file", "--labels", rows)
    if any(map(any, lists)) and all(map(are_shares, lists)):
        return _noted(form._replace(form="shares"), f"{title}: numbers from 0 to 1 by label", "--separator", rows)
    if key := _key(lists, title, known):
        form = form._replace(key=key)
        lists = _present(form, cells, title)
    items = [*chain.from_iterable(lists)]
    pieces = [item for item in items if isinstance(item, str)]
    if separator is None and not form.names and (sign := joins_known(pieces, known)):
        form = form._replace(separators=(sign,))
    form = form._replace(whole=bool(pieces) and None not in map(whole_number, pieces))
    counted = ""
    if names := () if form.names else named_classes(items, positions):
        form = form._replace(names=(names,) * len(columns))
        first, last = len(names) - len(positions), max(int(number_of(str(item)) or 0) for item in items)
        counted = f", counted in --label_file from {first} ({names[first]!r}) to {last} ({names[last]!r})"
    doubts = _unreadable(form, items, known) + _note_first(items)
    description = f"{title}: {_describe(form, cells, items)}{counted}{_note_scores(cells)}{doubts}"
    if pieces and not (form.whole and known) and (form.separators or (separator is None and not form.names)):
        refuse_joined(pieces, title, known, any(sign in text for sign in form.separators for text in texts))
    if separator and form.separators and (sign := joined_by(pieces)):
        flag = f"pass --separator {separator}{sign}"
        remedy = f"replace {sign!r} by {separator!r}" if sign.strip(", ").isalpha() else flag
        description += f" (if {next(piece for piece in pieces if sign in piece)!r} is several labels, {remedy})"
    return _noted(form, description, "--separator", rows)


def _present(form: LabelColumn, cells: Sequence[Any], title: str) -> list[list[Any]]:
    """Returns the items of each cell that have a value."""
    return [[item for item in form.items(cell, title) if not form.is_absent(item)] for cell in cells]


def _signs(separator: str, texts: Sequence[str]) -> tuple[str, ...]:
    """Returns the signs of a separator, which are its characters if it only occurs in parts."""
    if separator == "":
        raise ValueError("separator must not be empty; pass None if a string is a single label id")
    joined = "\0".join(texts)
    sign = BLOCK.sub("\n", SPELLED.get(separator, separator))
    if sign not in joined and separator in joined:  # such as a backslash and an n
        sign = separator
    if sign not in joined and all(character in joined and not character.isalnum() for character in sign):
        return tuple(dict.fromkeys(sign))
    return (sign,)


def _describe(form: LabelColumn, cells: Sequence[Any], items: Sequence[Any]) -> str:
    """Says what the cells of a column are."""
    if form.separators:
        return f"labels separated by {' and '.join(map(repr, form.separators))}"
    if form.form in ("list", "mixed"):
        return "lists written as text" + (", or a label" if form.form == "mixed" else "")
    if form.names:
        return "numbers of classes, which have names"
    if form.key:
        return f"objects, by their {form.key!r}"
    if any(isinstance(cell, list | tuple) for cell in cells):
        return "lists of labels"
    texts = [str(item) for item in items]
    if are_different(texts):
        return f"a label a cell, {len(set(texts)):,} labels in {len(texts):,} rows"
    return "a label a cell"


def _unreadable(form: LabelColumn, items: Sequence[Any], known: Collection[str]) -> str:
    """Says that a model cannot read labels, if they are yes and no, or codes, and no names are known."""
    if known or form.names:
        return ""
    if are_flags(items) and len(set(items)) < 3:
        kind = "yes and no"
    elif items and all(_CODE.fullmatch(str(item)) for item in items):
        kind = "codes"
    else:
        return ""
    return f"; a model cannot read the meaning of {kind}: name them with --label_file"


def _note_scores(cells: Iterable[Any]) -> str:
    """Says that scores of objects are not read, if they differ."""
    objects = [item for cell in cells for item in as_list(cell) if isinstance(item, Mapping)]
    keys = ("score", "confidence", "probability")
    scores = [key for key in keys if len({str(item[key]) for item in objects if is_flag(item.get(key))}) > 1]
    return "".join(f"; their {key!r} is not read: leave out labels with a low one" for key in scores)


def _note_first(items: Sequence[Any]) -> str:
    """Says that the first label may belong to a second header, since it is the only one that does not recur."""
    counts = Counter(map(str, items))
    first = next(map(str, items), "")
    if len(items) < 2 * FEW or counts.pop(first) > 1 or min(counts.values(), default=1) < 2:
        return ""
    return f"; {first!r} is only in the first row: if it is a second row of names, remove it"


def _key(lists: Sequence[Sequence[Any]], title: str, known: Collection[str]) -> str | None:
    """Returns the key of labels in objects, if there are any; refuses objects for all labels in each cell."""
    objects = [item for item in chain.from_iterable(lists) if isinstance(item, Mapping) and any(item.values())]
    if not objects:
        return None
    if any(item.get("status") in ("draft", "discarded") for item in objects):
        raise ValueError(f"{title} has objects of status draft or discarded: leave them out")
    usable = [
        {key for key in item if not (is_missing(item[key]) or isinstance(item[key], Mapping))} for item in objects
    ]
    keys = [key for key in _KEYS if all(key in names for names in usable)]
    named = [key for key in keys if sum(str(item[key]) in known for item in objects) > 0.5 * len(objects)]
    if not keys:
        raise ValueError(
            f"labels are objects with the keys {shortened([*objects[0]])}, of which none is a name or id: "
            "write a list of the names of a document's labels, as [item[KEY] for item in labels] in Python"
        )
    key = (named or keys)[0]
    labels = [[item[key] for item in listed if isinstance(item, Mapping)] for listed in lists]
    if len(labels) >= FEW and len(labels[0]) > 1 and len({frozenset(map(str, names)) for names in labels}) == 1:
        raise ValueError(
            f"{title}: all cells have the same labels, such as {shortened(labels[0][0])}: "
            "leave out those that a document lacks, such as those with a low score"
        )
    return key


def _noted(form: LabelColumn, description: str, flag: str, rows: Iterable[Row]) -> LabelColumn:
    """Adds a line with two examples."""
    texts = [str(row[name]).strip() for row in rows for name in form.columns if isinstance(row.get(name), str)]
    notes = [description]
    if form.form == "plain":
        missing = [text for text in texts if text and form.is_absent(text)]
        present = [text for text in texts if not form.is_absent(text)]
        have_words = any(number_of(text) is None for text in present)
        words = [text for text in present if _NOTHING.fullmatch(text) or (have_words and text in _ZEROS)]
        notes += [f"{text!r} is no label" for text in missing[:1]]
        notes += [f"{text!r} is a label: leave cells empty where a document has none" for text in words[:1]]
    notes += filter(None, [note_changed(texts)])
    examples: dict[str, None] = {}
    for row in rows:
        try:
            labels = form.read(row)
        except ValueError:  # reported with its line
            continue
        if labels:
            examples[" | ".join(labels[:5]) + (" | ..." if len(labels) > 5 else "")] = None
        if len(examples) == 2:
            break
    shown = " and ".join(repr(example if len(example) <= 99 else f"{example[:99]}...") for example in examples)
    if shown:
        notes[-1] += f", such as {shown}"
    return form._replace(note=f"{'; '.join(notes)} ({flag} overrules)")
