"""Writes the report of a training run: a single HTML file that loads nothing, for reading and passing on.

Shapes: B documents, C candidate labels.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest
from pathlib import Path

import torch
from torch import Tensor

from ..extras import needs_extra
from ..models.labels_gile import LabelSet
from ..scoring.evidence import find_evidence
from ..writing import write_text
from .plots import calibration_points
from .report import Report

PAGE_FILE = "report.html"
"""File of the page in the output folder of a run."""

_MOST_LABELS = 25
_MOST_ERRORS = 10
_MOST_PARTS = 4
_MOST_CHARACTERS = 400


@dataclass(frozen=True)
class Mistake:
    """A test document whose best label is wrong.

    Args:
        text: The document.
        gold: Names of its labels.
        predicted: Name of the label that it got.
        probability: Probability of this label.
        gold_probability: Probability of the best of its labels.
        evidence: The parts of the text that raise the score of the wrong label most.
    """

    text: str
    gold: list[str]
    predicted: str
    probability: float
    gold_probability: float
    evidence: list[str]


@dataclass(frozen=True)
class Run:
    """What the page shows of a run.

    Args:
        title: Name of the data.
        said: Lines that the run printed before the table, such as what was chosen and why.
        table: Rows of metrics, from 0 to 1, by system and heading, ours last.
        curves: Points (step, value) by name, of a model trained in steps.
        next_steps: Commands and advice.
    """

    title: str
    said: list[str]
    table: dict[str, dict[str, float]]
    curves: dict[str, list[tuple[float, float]]]
    next_steps: list[str]


@torch.no_grad()
def worst_mistakes(
    probabilities: Callable[[range], Tensor],
    gold: Sequence[Sequence[int]],
    columns: Sequence[int],
    score: Callable[[list[str]], Tensor],
    texts: Sequence[str],
    labels: LabelSet,
    batch_size: int = 32,
) -> list[Mistake]:
    """Finds the documents whose wrong best label is furthest above their gold labels.

    Args:
        probabilities: Maps positions of B documents to their `(B, L)` probabilities.
        gold: Indices of the labels of each document.
        columns: Indices of the C candidates.
        score: Maps texts to their logits, for the evidence.
        texts: The documents.
        labels: The labels.
        batch_size: Maximum number of documents scored at a time.
    """
    mistakes = []
    wrong = nlargest(_MOST_ERRORS, _wrong_labels(probabilities, gold, columns, len(texts), batch_size))
    for _, position, best, probability, right in wrong:

        def score_best(parts: list[str], column: int = best) -> Tensor:
            return score(parts)[:, [column]]

        (evidence,) = find_evidence(score_best, texts[position], score_best([texts[position]])[0])
        names = [labels[column].name for column in gold[position]]
        parts = [part for part, _ in evidence[:_MOST_PARTS]]
        mistakes.append(Mistake(texts[position], names, labels[best].name, probability, right, parts))
    return mistakes


def _wrong_labels(
    probabilities: Callable[[range], Tensor],
    gold: Sequence[Sequence[int]],
    columns: Sequence[int],
    num_texts: int,
    batch_size: int,
) -> Iterator[tuple[float, int, int, float, float]]:
    """Yields documents whose best label is wrong: its lead, their position, the label, its and their probability."""
    candidates = torch.tensor(columns)
    known = set(columns)
    for start in range(0, num_texts, batch_size):
        positions = range(start, min(start + batch_size, num_texts))
        for position, row in zip(positions, probabilities(positions).float().cpu(), strict=True):
            of_gold = [column for column in gold[position] if column in known]
            if not of_gold:
                continue
            wrong = row[candidates].masked_fill(torch.isin(candidates, torch.tensor(of_gold)), -1.0)
            best = int(candidates[wrong.argmax()])
            right = float(row[of_gold].max())
            lead = float(row[best]) - right
            if lead > 0:
                yield lead, position, best, float(row[best]), right


def write_page(folder: Path, run: Run, report: Report, labels: LabelSet, mistakes: Sequence[Mistake]) -> None:
    """Writes `report.html` to the output folder of a run; needs jinja2."""
    with needs_extra("train", "the report of a run"):
        from jinja2 import Environment

    template = Path(__file__).with_name("run_report.html.jinja").read_text(encoding="utf-8")
    tested = [row for row in report.labels if row["support"] and row["f1"] is not None]
    frequent = nlargest(_MOST_LABELS, tested, key=lambda row: row["support"])
    headings = list(dict.fromkeys(name for row in run.table.values() for name in row))
    page = (
        Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
        .from_string(template)
        .render(
            run=run,
            headings=headings,
            best={name: max(row.get(name, 0.0) for row in run.table.values()) for name in headings},
            report=report,
            labels=[
                {**row, "name": labels[labels.column(row["id"])].name}
                for row in sorted(frequent, key=lambda row: row["f1"])
            ],
            num_tested=len(tested),
            calibration={
                group: {time: _path(points) for time, points in times.items()}
                for group, times in calibration_points(report.reliability).items()
            },
            curves={name: _polyline(points) for name, points in run.curves.items() if len(points) > 1},
            mistakes=mistakes,
            most_characters=_MOST_CHARACTERS,
        )
    )
    write_text(folder / PAGE_FILE, page)


def _polyline(points: Sequence[tuple[float, float]]) -> str:
    """Returns the points of a line, scaled to a box of 200 x 200."""
    steps = [step for step, _ in points]
    values = [value for _, value in points]
    width = max(steps) - min(steps) or 1
    height = max(values) - min(values) or 1
    return _path([((step - min(steps)) / width, (value - min(values)) / height) for step, value in points])


def _path(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{200 * x:.1f},{200 - 200 * y:.1f}" for x, y in points)
