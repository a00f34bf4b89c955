"""Readers of labels that are no table: a text with a label on each line, or JSON with nothing but names."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from ..models.labels_gile import Label, LabelSet
from .files import open_binary, read_into_memory
from .homonyms import distinguish
from .json_text import check_parts
from .label_cells import clean_id
from .loading import Piece
from .report import ReadReport
from .schema import clean_label, decode_entities
from .sniffing import Format
from .table_files import read_rows

_IF_TABLE = "if it is a table, name its columns in a first line, such as id and name, or with --columns id,name"
_LISTED = "has a number, a bullet or quotes"
_LEAVE_OUT = "leave them out, or write a table with the columns id and name"
_KEYS = ("id2label", "names", "labels")
_CONTROL = re.compile("[\0-\b\x0e-\x1f\x7f]")
_BULLET = re.compile(r"(--?|[*\u2022\u2013\u2014])\s")
_QUOTED = re.compile(r"""(["']).*\1,?$""")
# A code that numbers a name: not a number in a name such as "2 stars" and "0-17".
_NUMBERED = re.compile(
    r"([A-Za-z]{0,3}\d[\d.-]*)"
    r"(?:\s*[=,:]\s*|\s?[.)\u2013-]\s*|\s)\s*"
    r"""(["'(]*[^\W\d].*)"""
)
_HEADER = re.compile(
    r"(id|((pref(erred)?|class|label|category|topic|tag|intent|subject)[\s_-]*)?"
    r"((label|name|class|categor(y|ie)|topic|tag|title)(e?s)?"
    r"|(term|keyword|subject|heading|intent)s?)):?",
    re.IGNORECASE,
)
_FOREIGN_HEADERS = {
    "schlagwort", "schlagwörter", "stichwort", "begriff",
    "bezeichnung", "kategorie", "thema", "themen",
    "étiquette", "catégorie", "catégories", "thème", "thèmes",
    "sujet", "sujets", "mot-clé", "mots-clés", "libellé",
    "etiqueta", "etiquetas", "categoría", "categorías",
    "tema", "temas", "materia", "nombre", "palabra clave",
    "categoria", "categorias", "assunto", "assuntos",
    "palavra-chave", "argomento", "soggetto", "parola chiave",
    "trefwoord", "trefwoorden", "onderwerp", "categorie",
    "emne", "emneord", "ämne", "ämnesord", "kategori",
    "asiasana", "temat", "kategoria",
    "категория", "тема", "рубрика",
    "标签", "类别", "主题", "关键词",
}  # fmt: skip
"""Names of columns of labels in other languages."""


def note_header(cells: Sequence[str]) -> str:
    """Returns a note if the first cell of a column is its name, such as "Category name"; empty if it is a label.

    Args:
        cells: All cells.
    """
    are_headers = [_is_header(cell) for cell in cells]
    if len(cells) < 2 or not are_headers[0] or any(are_headers[1:]):
        return ""
    return f"the first line, {cells[0]!r}, names the only column: it is no label"


def _is_header(cell: str) -> bool:
    if cell.lower().rstrip(":") in _FOREIGN_HEADERS:
        return True
    return _HEADER.fullmatch(cell) is not None


def read_names(file: Path, form: Format, report: ReadReport) -> LabelSet:
    """Reads a label from each line of a text; a line that starts with a number sign and a space is a comment.

    Args:
        file: The file.
        form: Its format.
        report: Counts labels, and lines that repeat them.

    Raises:
        ValueError: If the lines are no labels, but a table or the items of a list.
    """
    names: dict[str, None] = {}
    for where, _, row in read_rows(Piece(str(file)), report, form, ["text"]):
        if _CONTROL.search(row["text"]):
            raise ValueError(f"{file} is neither a text nor of another known format: {where} has a control character")
        for line in row["text"].splitlines():  # also at line breaks of other systems
            name = clean_label(decode_entities(line))
            if "\t" in line.strip():
                raise ValueError(f"{file}: {where}: a label has a tab; {_IF_TABLE}")
            if name in names:
                report.leave_out("repeated", f"{file}: {where}")
            elif re.match(r"#+(\s|$)", line):
                report.leave_out("comment", f"{file}: {where}")
            elif name:
                if names and re.match(r"\t|\s\s", line):
                    report.note("lines are indented, as of a tree: parents are read from a table with a column broader")
                names[name] = None
    if note := note_header(list(names)):
        report.note(note)
        del names[next(iter(names))]
    if problem := _describe_problem(list(names)):
        raise ValueError(f"{file}: {problem}")
    if len(names) == 1:
        report.note(f"a single label, {next(iter(names))!r}: a text has a label on each line")
    report.records += len(names)
    return distinguish((Label(name, name) for name in names), {}, report, str(file))


def _describe_problem(names: Sequence[str]) -> str:
    """Says why lines are no names of labels; empty if they are."""
    if bullets := [name for name in names if _BULLET.match(name)]:
        return f"a line {_LISTED}, such as {bullets[0]!r}: {_LEAVE_OUT}"
    if not names:
        return "no line has a label"
    if len(names) == 1:
        signs = [sign for sign in ",;|" if names[0].count(sign) > 1]
        if signs or re.match(r"""[\[({]\s*["'].*[\])}]$""", names[0]):
            return f"a line has several labels, such as {names[0]!r}; a text has a label on each line"
        return ""
    numbered = [match.groups() for match in map(_NUMBERED.match, names) if match]
    are_numbered = len(numbered) == len(names) and all(
        len(set(parts)) == len(names) for parts in zip(*numbered, strict=True)
    )
    if are_numbered or all(map(_QUOTED.match, names)):
        return f"each line {_LISTED}, such as {names[0]!r}: {_LEAVE_OUT}"
    for sign in ";|":
        if all(sign in name for name in names):
            return f"each line has {sign!r}, such as {names[0]!r}; {_IF_TABLE}"
    if all(name.endswith(",") for name in names):
        return f"each line ends with ',', such as {names[0]!r}; {_IF_TABLE}"
    return ""


def read_json_names(file: Path, report: ReadReport) -> LabelSet | None:
    """Reads a list of names, or names by number or numbers by name, also in a config.json or of a `ClassLabel`.

    Args:
        file: The file.
        report: Counts labels.

    Returns:
        The labels, or None for other JSON.
    """
    with open_binary(file) as stream:
        if not re.match(rb'(\xef\xbb\xbf)?\s*(\[\s*"|\{)', stream.read(1 << 12)):
            return None
    text = read_into_memory(file)
    check_parts(text)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None  # the reader of tables reports the error
    names = content
    if isinstance(content, dict):
        names = next((content[key] for key in _KEYS if isinstance(content.get(key), list | dict)), content)
    if isinstance(names, dict):
        numbers = [number for number in names.values() if isinstance(number, int)]
        if sorted(numbers) == list(range(len(names))):  # numbers by name
            names = {str(number): name for name, number in names.items()}
        elif not all(map(str.isdecimal, names)):
            return None  # such as the answer of a server
    else:
        names = {clean_label(decode_entities(str(name))): name for name in names}
    if not names or not all(isinstance(name, str) for name in names.values()):
        return None
    report.files += 1
    report.records += len(names)
    return distinguish(
        (Label(clean_id(label_id, "id"), clean_id(name, "name")) for label_id, name in names.items()),
        {},
        report,
        str(file),
    )
