"""Reader of labels without columns: texts with a label on each line, and JSON with nothing but names."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from ..models.labels_gile import Label, LabelSet
from .files import read_head, read_into_memory
from .homonyms import distinguish
from .json_text import check_parts, parse_text
from .label_cells import clean_id
from .loading import Piece
from .report import ReadReport
from .schema import clean_label, decode_entities
from .sniffing import Format
from .table_files import read_rows

_IF_TABLE = (
    "if it is a table, name its columns in a first line, such as id and name, or choose those named there "
    "with --label_id and --label_name"
)
_INDENTED = "lines are indented, as of a tree: parents are read from a table with a column broader"
_ON_EACH_LINE = "a text has a label on each line"
# Also rules, lines of trees, code, settings, cells of CSV, and figures of a report.
_BULLET = re.compile(
    r"(--?|[*\u2022\u2013\u2014])\s|[-=*_~+ ]{3,}$|[\u2502\u251c\u2514]"
    r'|\[\w+\]$|.*\{$|(?=.*\w).*[\[(:]$|[\]}][\]);,]*$|\);?$|"[^",]*,.*"$'
    r'|msg(id|str) "|[\w.-]+ ?= ?"[^"]*"$|.*\s\d*\.\d+\s+[\d.]+$'
)
_SEVERAL = re.compile(r"""(?:.*([,;|]).*\1|[\[({]\s*["'].*[\])}]$)""")
# A code that numbers a name: not a number in a name such as "2 stars" and "0-17"; or a number after a name.
_NUMBERED = [
    re.compile(
        r"[(\[\"']?(?P<number>\w+://\S+|[A-Za-z]{0,3}\d[\d.-]*|[A-Za-z](?=\s?[.)\u2013-]\s)|[IVXLC]+(?=[.)]\s))"
        r"[\"']?(?:\s*[=,:&]\s*|\s?[.)\]\u2013-]\s*|\s)\s*"
        r"""(?P<name>["'(]*[^\W\d].*)"""
    ),
    re.compile(r"(?P<name>[\s\d]*[^\s\d].*?)\s*(?:=>?|->|:)\s*(?P<number>\d+)"),
]
_PAIR = re.compile(r"(\d+)\t([^\0-\x1f]*\S)\s*")
_FOREIGN = (
    "schlagwort|schlagwörter|stichwort|begriff|bezeichnung|kategorie|thema|themen|étiquette"
    "|catégorie|catégories|thème|thèmes|sujet|sujets|mot-clé|mots-clés|libellé|etiqueta|etiquetas"
    "|categoría|categorías|tema|temas|materia|nombre|palabra clave|categoria|categorias|assunto"
    "|assuntos|palavra-chave|argomento|soggetto|parola chiave|trefwoord|trefwoorden|onderwerp"
    "|categorie|emne|emneord|ämne|ämnesord|kategori|asiasana|temat|kategoria|категория|тема"
    "|рубрика|标签|类别|主题|关键词"
)
_HEADER = re.compile(
    r"(id|((pref(erred)?|class|label|category|topic|tag|intent|subject)[\s_-]*)?"
    r"((label|name|class|categor(y|ie)|topic|tag|title)(e?s)?"
    rf"|(term|keyword|subject|heading|intent)s?)|{_FOREIGN}):?",
    re.IGNORECASE,
)


def read_names(file: Path, form: Format, report: ReadReport) -> LabelSet | None:
    """Reads labels of a text, or of JSON with nothing but names; returns None for other files.

    A line of a text that starts with a number sign and a space is a comment. Lines may have an id and a name with a tab
    between, if the ids count the lines from 0 or 1. JSON has a list of names, names by number, or numbers by name, as
    of a `ClassLabel`.

    Raises:
        ValueError: If lines of a text are no names of labels, or it has no labels.
    """
    names: dict[str, str] = {}
    if form.kind == "text":
        names = _read_lines(file, form, report)
    elif form.kind == "json":
        names = _read_json(file)
        report.files += bool(names)
    if not names:
        return None
    report.records += len(names)
    return distinguish((Label(label_id, name) for label_id, name in names.items()), {}, report, str(file))


def note_header(cells: Sequence[str]) -> str:
    """Returns a note if the first cell of a column is its name, such as "Category name"; empty if it is a label."""
    if len(cells) < 2 or not _HEADER.fullmatch(cells[0]) or any(map(_HEADER.fullmatch, cells[1:])):
        return ""
    return f"the first line, {cells[0]!r}, names the only column: it is no label"


def _read_lines(file: Path, form: Format, report: ReadReport) -> dict[str, str]:
    names: dict[str, str] = {}
    rows = list(read_rows(Piece(str(file)), report, form))
    pairs = [_PAIR.fullmatch(row["text"]) for _, _, row in rows if row["text"].strip()]
    ids = [pair[1] for pair in pairs if pair]
    if 0 < len(ids) == len(pairs) and _count_lines(ids):
        return {pair[1]: clean_label(decode_entities(pair[2])) for pair in pairs if pair}
    for where, _, row in rows:
        if re.search("[\0-\b\x0e-\x1f\x7f]", row["text"]):
            raise ValueError(f"{where} has a control character: the file is neither a text nor of another known format")
        for line in row["text"].splitlines():  # also at line breaks of other systems
            name = clean_label(decode_entities(line)).removeprefix("__label__")  # of fastText
            if "\t" in line.strip():
                raise ValueError(f"{where}: a label has a tab; {_IF_TABLE}")
            if name in names:
                report.leave_out("repeated", where)
            elif re.match(r"#+(\s|$)", line):
                report.leave_out("comment", where)
            elif name:
                if names and re.match(r"\t|\s\s", line):
                    report.note(_INDENTED)
                names[name] = name
    if note := note_header(list(names)):
        report.note(note)
        del names[next(iter(names))]
    if problem := _describe_problem(list(names)):
        raise ValueError(f"{file}: {problem}")
    if len(names) == 1:
        report.note(f"a single label, {next(iter(names))!r}: {_ON_EACH_LINE}")
    return names


def _describe_problem(names: Sequence[str]) -> str:
    """Says why lines are no names of labels; empty if they are."""
    if not names:
        return "no line has a label"
    listed = [name for name in names if _BULLET.match(name)]
    if len(names) > 1:
        listed += [name for pattern in _NUMBERED for name in _numbered(pattern, names)]
        listed += names if all(re.match(r"""(["']).*\1,?$""", name) for name in names) else []
    if listed:
        return (
            f"a line has a number, a bullet, quotes or other signs, such as {listed[0]!r}: "
            "leave them out, or write a table with the columns id and name"
        )
    if len(names) == 1:
        return f"a line has several labels, such as {names[0]!r}; {_ON_EACH_LINE}" if _SEVERAL.match(names[0]) else ""
    for sign in ";|=":
        if all(sign in name for name in names):
            return f"each line has {sign!r}, such as {names[0]!r}; {_IF_TABLE}"
    if all(name.endswith(",") for name in names):
        return f"each line ends with ',', such as {names[0]!r}; {_IF_TABLE}"
    return ""


def _numbered(pattern: re.Pattern[str], names: Sequence[str]) -> list[str]:
    """Returns the lines with a number, if most have another number, and most of these another name; or all a count.

    Lines around those of a code book have none, such as "value topic" and "names:".
    """
    matches = [match for match in map(pattern.fullmatch, names) if match]
    counted = {match["name"] for match in matches if match["number"].isdecimal()}
    numbers = {match["number"]: match["name"] for match in matches}
    share = 0.5 if len(numbers) > 2 and _count_lines(list(numbers)) else 0.8
    are_most = len(numbers) >= share * len(names) and len({*numbers.values()}) > 0.7 * len(numbers)
    return [match[0] for match in matches] if are_most or len(counted) == len(names) else []


def _count_lines(numbers: list[str]) -> bool:
    """Checks whether numbers count from 0 or from 1."""
    return numbers in ([*map(str, range(first, first + len(numbers)))] for first in (0, 1))


def _read_json(file: Path) -> dict[str, str]:
    """Returns names by id; empty for JSON that is not names alone, which the reader of tables reports."""
    if not re.match(rb'(\xef\xbb\xbf)?\s*(\[\s*"|\{)', read_head(file, 1 << 12)):
        return {}
    text = read_into_memory(file)
    check_parts(text)
    names = parse_text(json.loads, text)
    if isinstance(names, dict):
        names = next(
            (
                names[key]
                for key in ("id2label", "label2id", "names", "labels")
                if isinstance(names.get(key), list | dict)
            ),
            names,
        )
    if isinstance(names, list):
        names = {clean_label(decode_entities(str(name))): name for name in names}
    elif isinstance(names, dict) and {*map(repr, names.values())} == {*map(repr, range(len(names)))}:
        names = {str(number): name for name, number in names.items()}
    elif not isinstance(names, dict) or not all(map(str.isdecimal, names)):
        return {}  # such as the answer of a server
    if not all(isinstance(name, str) for name in names.values()):
        return {}
    return {clean_id(label_id, "id"): clean_id(name, "name") for label_id, name in names.items()}
