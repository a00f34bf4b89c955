"""Makes label sets of what readers read: descriptions, repeated ids, and labels with the same name."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..models.labels_gile import Label, LabelSet
from .report import ReadReport
from .schema import clean_text


def make_labels(
    rows: Iterable[tuple[str, Any]],
    read: Callable[[Any], tuple[Label, Sequence[str]]],
    report: ReadReport,
    source: str,
) -> LabelSet:
    """Makes the label set of a vocabulary from rows with their locations.

    `read` returns the label of a row, and hints for `distinguish`; see `ReadReport.read_each`.

    Raises:
        ValueError: If there are no labels. Unless the report says to skip: if a row is malformed, or repeats an id with
            another name.
    """

    def read_valid(row: object) -> tuple[Label, Sequence[str]]:
        label, hints = read(row)
        for text in (label.id, label.name, label.description, *label.synonyms, *hints):
            clean_text(text, "a text")
        return label, hints

    found: dict[str, tuple[Label, Sequence[str], str]] = {}
    for where, (label, hints) in report.read_each(rows, read_valid, "malformed label"):
        first, _, location = found.setdefault(label.id, (label, hints, where))
        if first is label:
            report.records += 1
        elif first.name == label.name:
            report.leave_out("repeated", where)
        else:
            report.problem(
                "malformed label",
                f"{where}: the id {label.id!r} is already used in {location}: write a row for each "
                "label, with its other names in other columns",
            )
    if not found:
        raise ValueError(f"{source}: no labels; at least one is required; {report}")
    return distinguish(
        (label for label, _, _ in found.values()),
        {label.id: hints for label, hints, _ in found.values()},
        report,
        source,
    )


def distinguish(
    labels: Iterable[Label],
    hints: Mapping[str, Sequence[str]],
    report: ReadReport | None = None,
    source: str = "label set",
) -> LabelSet:
    """Makes a label set, in the order of the labels, in which all have different texts.

    Labels that share name, description and language get their first hint appended to the description, unless it is the
    same for all of them. Labels that still share their text get their second hint, and so on, and finally their id.
    Other labels are not changed.

    Args:
        labels: The labels.
        hints: Hints by label id, best first, that distinguish a label from its homonyms; a hint may be empty.
        report: Counts the labels that shared their text.
        source: Source of the labels, for messages.

    Raises:
        ValueError: If the labels are no valid label set, for example because of a repeated id.

    Example:
        >>> labels = [Label("Q308", "Mercury"), Label("Q925", "Mercury"), Label("Q313", "Venus")]
        >>> distinguish(labels, {"Q308": ["planets"], "Q925": ["metals"], "Q313": ["planets"]}).texts
        ['Mercury: planets', 'Mercury: metals', 'Venus']
    """
    labels = list(labels)
    report = report or ReadReport()
    rounds = max((len(hints.get(label.id, ())) for label in labels), default=0)
    for turn in range(rounds + 1):
        groups = defaultdict(list)
        for position, label in enumerate(labels):
            groups[label.text, label.language].append(position)
        homonyms = [positions for positions in groups.values() if len(positions) > 1]
        if turn == 0:
            report.homonyms += sum(map(len, homonyms))
        for positions in homonyms:
            ids = [labels[position].id for position in positions]
            texts = ids if turn == rounds else ["".join(hints.get(name, ())[turn : turn + 1]) for name in ids]
            if len(set(texts)) > 1:
                for position, text in zip(positions, texts, strict=True):
                    labels[position] = replace(
                        labels[position], description=join_descriptions([labels[position].description, text])
                    )
        if not homonyms:
            break
    report.note(note_case((label.text, label.language) for label in labels))
    return LabelSet(labels, source)


def note_case(texts: Iterable[tuple[str, str | None]]) -> str:
    """Returns a note on texts that differ only in case, width, signs for spaces or the last sign; empty if none do."""
    variants = defaultdict(list)
    for text, language in texts:
        plain = unicodedata.normalize("NFKC", text).casefold()
        variants[re.sub(r"[\s_-]+", " ", plain).strip(" .,;:"), language].append(text)
    similar = [forms for forms in variants.values() if len(forms) > 1]
    if not similar:
        return ""
    shown = " and ".join(map(repr, similar[0][:2]))
    return f"{sum(map(len, similar)):,} labels differ from others in case, spaces or punctuation only, such as {shown}"


def join_descriptions(texts: Iterable[str]) -> str:
    """Joins texts that are not empty into sentences, without a full stop at the end.

    Example:
        >>> join_descriptions(["weak heart", "", "The heart pumps too little blood.", "Heart Diseases"])
        'weak heart. The heart pumps too little blood. Heart Diseases'
    """
    return ". ".join(filter(None, (text.rstrip(". ") for text in texts)))
