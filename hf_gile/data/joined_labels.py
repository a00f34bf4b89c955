"""Sees whether the cells of a column are labels, or several labels joined by a sign.

Joined labels combine freely, so a piece that occurs in several cells moves: its position differs, counted from the
start and from the end, also where pieces are in alphabetical order. The parts of a name, such as a surname or a level
of a hierarchy, stay where they are.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from reprlib import repr as shortened
from typing import TYPE_CHECKING

from .label_cells import has_lists
from .schema import clean_label, plain_text

if TYPE_CHECKING:
    from ..models.labels_gile import LabelSet

SPELLED = {"tab": "\t", "\\t": "\t", "newline": "\n", "\\n": "\n", "space": " "}
"""Signs that are hard to type, by name."""

_USUAL = (";", "|", "\t", "\n", ",", "/")
_ENDS = tuple(",;|\u060c\u061b\u3001\uff0c\uff1b")
_NUMERIC = ",;|\t\n "  # signs between class numbers, rather than between the parts of a date
_NAMES = {sign: name for name, sign in SPELLED.items() if name.isalpha()}
_OTHER = re.compile(r"\\[nt]|\u3000|,? (?:and|und|et|y|e|och|og|en|or|oder) |  +|[^\w\s\"'()\[\]{}<\\]+|[<\\]|__+")
_FIRM = re.compile(r"[\u2022\u00a6]|\\[nt]")  # signs that no name has
_CODE = re.compile(r"[^\W\d][_.:#]+\w|^[#@]\w")  # a tag, such as cs.CL
_NUMBER = re.compile(r"[-+]?\d+")
_SIGNS = re.compile(r"^\w+://\S*[/#](?=[^/#])|^\w+:(?=\S)|[\s_-]+|[/#]+$")
_WORD = re.compile(r"(?:^|[\W_])[^\W\d_]{2,}(?:$|[\W_])|[^\W\d_]{4}|[^\W\d_\x00-\x7f]")
_LISTED = re.compile(
    r"""<\w+\b[^<>]*>.*</\w+>|[$\u2021\u01c2]+a\s?\w.*|"""  # XML, subfields of MARC
    r"""["']?(a:\d+:|\w[\w.]*(?=\((?:[\[({"']|-?[\d.]+,))|%\w)?[\[({].*[\])}]["']?|0[01]{2,}""",
    re.DOTALL,
)
_SCORED = re.compile(r".*\w\s*[:=(^]\s*(0?\.\d+|1\.0+|\d+(\.\d+)?\s?%)\)?\s*", re.DOTALL)

_MOST_PIECES = 8  # of a label that contains the separator
_FEW = 20  # rows, below which nothing is said about how often labels recur
_SENTENCE = 40  # characters
_MOVING = 0.3  # share of moving pieces; it is below 0.25 in names, and above 0.4 in joined labels


def joined_by(texts: Iterable[str], known: Container[str] = ()) -> str | None:
    """Returns the sign that joins the labels of cells, or None if a cell seems to be a label.

    Example:
        >>> joined_by(["mice; rats", "rats;cats", "cats; mice", "mice;rats; cats"])
        ';'
        >>> joined_by(["Milk, Human", "Infant, Newborn", "Milk, Human", "Infant, Premature"])
    """
    cells = Counter(map(str.strip, texts))
    others = Counter(sign for cell in cells for sign in set(_OTHER.findall(cell)))
    frequent = [sign for sign, number in others.most_common(8) if number > 0.1 * len(cells) and sign not in _USUAL]
    all_cells = "\0".join(cells)
    longer = [sign for sign in frequent if all_cells.count(sign[0]) == all_cells.count(sign) and sign[0] in _USUAL]
    spaced = [sign for sign in frequent if sign[0] == " "]
    for sign in (*longer, *_USUAL, *spaced, " ", *frequent):  # such as ";#" and " and "
        joined = {cell: split(cell, sign) for cell in cells if sign in cell}
        if sign in ";|," and joined and all(cell.endswith(sign) for cell in cells):
            return sign
        joined = {cell: parts for cell, parts in joined.items() if len(parts) > 1}
        are_known = sum(all(part in known for part in parts) for parts in joined.values()) > 0.5 * len(joined)
        if joined and (are_known or _are_joined(joined, cells, sign)):
            return sign
    return None


def joins_known(texts: Iterable[str], known: Collection[str]) -> str | None:
    """Returns the sign that certainly joins labels: all pieces of cells are known, and no label may be such a cell.

    Example:
        >>> joins_known(["mice; rats", "mice"], {"mice", "rats"})
        ';'
        >>> joins_known(["Milk, Iron", "Milk"], {"Milk", "Human", "Iron", "Milk, Human"})
    """
    cells = set(map(clean_label, texts))
    unknown = [cell for cell in cells if cell not in known]

    def are_known(cell: str, sign: str) -> bool:
        return all(part in known for part in split(cell, sign))

    for sign in (*_USUAL, " ") if unknown else ():
        if all(are_known(cell, sign) for cell in unknown) and not any(
            sign in label and (label in cells or are_known(label, sign)) for label in known
        ):
            return sign
    return None


def join_known(pieces: Sequence[str], sign: str, compound: Sequence[str]) -> list[str]:
    """Joins the pieces of labels that contain the sign between them; these labels are sorted.

    Example:
        >>> join_known(["Music", " Food", " drink", " Travel"], ",", ["Food, drink"])
        ['Music', 'Food, drink', 'Travel']
    """
    labels = []
    first = 0
    while first < len(pieces):
        longest = pieces[first : first + _MOST_PIECES]
        while len(longest) > 1:
            label = sign.join(longest).strip()
            if compound[bisect_left(compound, label) : bisect_right(compound, label)]:
                break
            longest = longest[:-1]
        labels.append(sign.join(longest).strip())
        first += len(longest)
    return labels


def split(cell: str, sign: str) -> list[str]:
    """Returns the pieces of a cell between the sign, which are not empty."""
    return [piece.strip() for piece in cell.split(sign) if piece.strip()]


def refuse_joined(texts: Sequence[str], title: str, known: Collection[str], is_split: bool = False) -> None:
    """Refuses cells that look like several labels each, or that a model cannot learn, with the flag that decides.

    Raises:
        ValueError: If they do, and are not `known` ids; `title` names the column. If cells are split, only if their
            pieces cannot be read.
    """
    unknown = [text for text in texts if clean_label(text) not in known]
    if not unknown:
        return
    if sum(bool(_LISTED.fullmatch(text) or _SCORED.fullmatch(text)) for text in texts) > 0.5 * len(texts):
        raise ValueError(
            f"{title}: cells such as {shortened(texts[0])} look like lists, labels with scores, or "
            'markup, but cannot be read: write names of labels as JSON, such as ["mice", "rats"], '
            "or pass --separator none if each cell is a label"
        )
    if is_split:
        return
    sign = joined_by(unknown, known)
    if sign is not None:
        cell = max(unknown, key=lambda text: len(split(text, sign)))
        parts = " and ".join(map(repr, split(cell, sign)[:2]))
        raise ValueError(
            f"{title}: cells such as {shortened(cell)} look like several labels, {parts}: pass --separator "
            f"'{_NAMES.get(sign, sign)}', or --separator none if each cell is a label"
        )
    if known or not are_different(texts):
        return
    without_words = sum(_WORD.search(text) is None or "://" in text for text in texts) > 0.5 * len(texts)
    if without_words or sum(map(len, texts)) > _SENTENCE * len(texts):
        kind = "ids" if without_words else "sentences"
        raise ValueError(
            f"{title}: {len(set(texts)):,} of {len(texts):,} cells are different, such as {shortened(texts[0])}, and "
            f"look like {kind}, so there is nothing to learn: choose another column with --labels, name ids with "
            "--label_file, pass --separator with the sign between labels, or --separator none if each cell is a label"
        )


def are_different(texts: Sequence[str]) -> bool:
    """Checks whether nearly all of at least a few cells are different."""
    return len(texts) >= _FEW and len(set(texts)) > 0.9 * len(texts)


def describe_near_forms(missing: Sequence[str], labels: "LabelSet") -> str:
    """Returns a note on label ids that are written otherwise than known ids, are names of labels, or several labels.

    Example:
        >>> from hf_gile import LabelSet
        >>> describe_near_forms(["mice;rats"], LabelSet.from_names(["mice"]))
        " (did you mean --separator ';'?)"
    """
    known = set(labels.ids)
    by_form = {_form(label_id): label_id for label_id in labels.ids}
    if near := next(filter(None, (by_form.get(_form(label_id)) for label_id in missing)), None):
        return f" (the labels have {near!r}, which differs in case, spaces, zeros, entities or prefix: write it so)"
    if names := {label.name: label.id for label in labels if label.name != label.id}.keys() & set(missing):
        return f" ({min(names)!r} is the name of a label, but the documents must have ids)"
    # Many names contain commas and spaces, so all parts must be known; few contain the first separators.
    for sign in (*_USUAL, " "):
        if any(sign in label and (sign in ";|" or known.issuperset(split(label, sign))) for label in missing):
            return f" (did you mean --separator {_NAMES.get(sign, sign)!r}?)"
    return ""


def _form(label_id: str) -> str:
    """Returns what label ids share that differ in case, spaces, zeros before, entities of HTML, or parts of a URI."""
    return _SIGNS.sub("", clean_label(plain_text(label_id))).casefold().lstrip("0")


def unlike(new: Iterable[str], known: set[str]) -> list[str]:
    """Returns new labels in another form than known ones: lists, known labels with a sign between, numbers or names.

    Example:
        >>> unlike(["mice, rats", "cats, big", "['mice']", "3"], {"mice", "rats"})
        ['mice, rats', "['mice']", '3']
    """
    are_numbers = {_NUMBER.fullmatch(label) is not None for label in known}
    return [
        label
        for label in new
        if has_lists([label])
        or (_NUMBER.fullmatch(label) is not None) not in are_numbers
        or any(sign in label and known.issuperset(split(label, sign)) for sign in (*_USUAL, " "))
    ]


def _are_joined(joined: Mapping[str, Sequence[str]], cells: Mapping[str, int], sign: str) -> bool:
    """Checks whether the pieces of cells with a sign are labels that combine freely; `cells` has all, with counts."""
    pieces = [piece for parts in joined.values() for piece in parts]
    share = sum(cells[cell] for cell in joined) / sum(cells.values())
    ended = sum(piece.endswith(_ENDS) for piece in pieces)  # by the sign that joins
    if share < 0.02 or ended > 0.3 * len(pieces):
        return False
    uses = Counter(piece for parts in joined.values() for piece in set(parts))
    uses.update(cell for cell in cells if cell not in joined)
    recurring = sum(uses[piece] > 1 for piece in pieces) / len(pieces)
    if sign in ";|\t\n" or _FIRM.match(sign):  # hardly any name has these
        return recurring >= 0.5 or _move(joined, 1)
    if sign not in _NUMERIC and (any("://" in cell for cell in joined) or all(map(_NUMBER.fullmatch, pieces))):
        return False  # addresses, numbers, dates, times, versions
    alone = sum(piece in cells for piece in pieces) / len(pieces)
    if alone == 1 and (sign == "," or (sign.strip() not in ("", "-", "_") and len(joined) > 2)):
        return True
    is_small = 2 * len(uses) <= len(cells)  # the vocabulary
    if share < 0.1 or recurring < 0.2 or not _move(joined, 4 if is_small or sign in ", " else 8):
        return False
    if sign != " ":
        return sign in ",/\u2013" or sign[0] == " " or is_small or (len(joined) >= 5 and alone > 0.6)
    # Words of phrases recur, too, and some are in most phrases.
    are_codes = sum(_CODE.search(piece) is not None for piece in uses) > 0.3 * len(uses)
    is_free = alone > 0.7 and max(uses.values()) <= 0.5 * len(cells)
    return (is_small or are_codes or is_free) and all(
        re.search(r"\w", piece) for piece in pieces
    )  # signs are no labels


def _move(joined: Mapping[str, Sequence[str]], least: int) -> bool:
    """Checks whether many pieces move among those that recur, which must be `least` different ones or more."""
    positions: dict[str, list[tuple[int, int]]] = {}
    for parts in joined.values():
        ends = {piece: (position, len(parts) - position) for position, piece in enumerate(parts)}
        for piece in ends:
            positions.setdefault(piece, []).append(ends[piece])
    recurring = [pairs for pairs in positions.values() if len(pairs) > 1]
    moving = [pairs for pairs in recurring if all(len(set(side)) > 1 for side in zip(*pairs, strict=True))]
    return len(recurring) >= least and sum(map(len, moving)) > _MOVING * sum(map(len, recurring))
