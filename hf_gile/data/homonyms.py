"""What the labels of a vocabulary say beside their names, and what tells those apart that share a name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ..models.labels_gile import Label, LabelSet
from .report import ReadReport


def distinct(
    labels: Iterable[Label],
    hints: Mapping[str, Sequence[str]],
    report: ReadReport | None = None,
    source: str = "label set",
) -> LabelSet:
    """Makes a label set in which no two labels say the same.

    Labels that share name, description and language get their first hints behind the description, unless these are the
    same for all of them; those that still say the same get their second hints, and so on, and at last their ids. All
    other labels stay as they are.

    Args:
        labels: The labels.
        hints: From the id of a label to what may tell it from its homonyms, the best first; a hint may be empty.
        report: Counts the labels whose text was shared.
        source: Where the labels come from, for error messages.

    Returns:
        The labels in their order.

    Raises:
        ValueError: If the labels are no label set for another reason, such as a repeated id.

    Example:
        >>> labels = [Label("Q308", "Mercury"), Label("Q925", "Mercury"), Label("Q313", "Venus")]
        >>> distinct(labels, {"Q308": ["planets"], "Q925": ["metals"], "Q313": ["planets"]}).texts
        ['Mercury: planets', 'Mercury: metals', 'Venus']
    """
    labels = list(labels)
    rounds = max((len(hints.get(label.id, ())) for label in labels), default=0)
    for turn in range(rounds + 1):
        groups = defaultdict(list)
        for place, label in enumerate(labels):
            groups[label.text, label.language].append(place)
        homonyms = [places for places in groups.values() if len(places) > 1]
        for places in homonyms:
            if turn == 0 and report is not None:
                for place in places:
                    where = f"{source}: {labels[place].text!r} ({labels[place].id})"
                    report.leave_out("text that several labels share", where)
            texts = [_hint(labels[place].id, hints, turn, rounds) for place in places]
            if len(set(texts)) > 1:
                for place, text in zip(places, texts, strict=True):
                    labels[place] = replace(labels[place], description=described([labels[place].description, text]))
        if not homonyms:
            break
    return LabelSet(labels, source)


def described(texts: Iterable[str]) -> str:
    """Joins texts to one description.

    Args:
        texts: What is known of a label; empty texts are left out.

    Returns:
        The texts, each a sentence to the eye, without a full stop at the end.

    Example:
        >>> described(["cardiac failure; weak heart", "", "The heart pumps too little blood.", "Heart Diseases"])
        'cardiac failure; weak heart. The heart pumps too little blood. Heart Diseases'
    """
    return ". ".join(filter(None, (text.rstrip(". ") for text in texts)))


def check_choices(describe: str | Iterable[str], choices: Iterable[str]) -> tuple[str, ...]:
    """Checks what a user wants descriptions to be made of.

    Args:
        describe: One of the choices or several, in the order wanted.
        choices: What there is.

    Returns:
        The chosen ones.

    Raises:
        ValueError: If one is not among the choices or comes twice.

    Example:
        >>> check_choices("broader", ["definition", "broader"])
        ('broader',)
    """
    chosen = (describe,) if isinstance(describe, str) else tuple(describe)
    choices = tuple(choices)
    if any(choice not in choices for choice in chosen) or len(set(chosen)) < len(chosen):
        raise ValueError(f"describe takes any of {', '.join(choices)}, each once and in any order; got {describe!r}")
    return chosen


def _hint(label_id: str, hints: Mapping[str, Sequence[str]], turn: int, rounds: int) -> str:
    if turn == rounds:
        return label_id
    own = hints.get(label_id, ())
    return own[turn] if turn < len(own) else ""
