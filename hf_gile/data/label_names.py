"""Readers of labels that are no table: a text with a label on each line, or JSON with nothing but names."""

from __future__ import annotations

import json
import re
from pathlib import Path

from ..models.labels_gile import Label, LabelSet
from .files import open_binary, read_into_memory
from .homonyms import distinguish
from .json_text import check_parts
from .loading import Piece
from .report import ReadReport
from .schema import clean_label
from .sniffing import Format
from .table_files import read_rows
from .tables import document_id

_IF_TABLE = "if it is a table, name its columns in a first line, such as id and name, or with --columns id,name"
_LISTED = re.compile(r"""[0-9]+\s?[.:)\-\u2013]\s|[-*\u2022]\s|(["']).*\1$""")


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
        for line in row["text"].splitlines():  # also at line breaks of other systems
            name = clean_label(line)
            if re.search("[\0-\b\x0e-\x1f]", name):
                raise ValueError(
                    f"{file} is neither a text nor of another known format: {where} has a control character"
                )
            if "\t" in line.strip():
                raise ValueError(f"{file}: {where}: a label has a tab; {_IF_TABLE}")
            if name in names:
                report.leave_out("repeated", f"{file}: {where}")
            elif re.match(r"#+(\s|$)", line):
                report.leave_out("comment", f"{file}: {where}")
            elif name:
                names[name] = None
                report.records += 1
    if len(names) > 1 and all(map(_LISTED.match, names)):
        raise ValueError(
            f"{file}: each line has a number, a bullet or quotes, such as {next(iter(names))!r}: leave them out, or "
            "write a table with the columns id and name"
        )
    for sign in ";|":
        if len(names) > 1 and all(sign in name for name in names):
            raise ValueError(f"{file}: each line has {sign!r}, such as {next(iter(names))!r}; {_IF_TABLE}")
    if len(names) == 1:
        report.note(f"a single label, {next(iter(names))!r}: a text has a label on each line")
    return distinguish((Label(name, name) for name in names), {}, report, str(file))


def read_json_names(file: Path, report: ReadReport) -> LabelSet | None:
    """Reads a list of names, or names by number or numbers by name, also in a config.json.

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
    names = content.get("id2label", content) if isinstance(content, dict) else content
    if isinstance(names, dict):
        numbers = [number for number in names.values() if isinstance(number, int)]
        if sorted(numbers) == list(range(len(names))):  # numbers by name
            names = {str(number): name for name, number in names.items()}
        elif not all(map(str.isdecimal, names)):
            return None  # such as the answer of a server
    else:
        names = {clean_label(str(name)): name for name in names}
    if not all(isinstance(name, str) for name in names.values()):
        return None
    report.files += 1
    report.records += len(names)
    return distinguish(
        (Label(document_id(label_id, "id"), clean_label(name)) for label_id, name in names.items()),
        {},
        report,
        str(file),
    )
