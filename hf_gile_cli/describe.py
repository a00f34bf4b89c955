"""`hf-gile describe`: describes a collection of labelled documents."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Annotated, Any

import typer

from .measure import LabelledDocuments
from .options import Json
from .running import note, visible, write_json

_MOST = 10
"""Number of labels listed by name."""

_GROUPS = {"1": 1, "2-9": 2, "10-99": 10, "100+": 100}
"""Groups of labels by their number of documents: name and smallest number."""


@dataclass(kw_only=True)
class Describing(LabelledDocuments):
    """Options of `hf-gile describe`."""

    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Plot of the number of documents of each label: .png, .pdf or .svg."),
    ] = None
    as_json: Json = False


def describe(options: Describing) -> None:
    """Count documents, words and labels. Also shows how many documents the labels have.

    Words are counted as a model over words reads them: in lower case, with numbers as a single word.

    hf-gile describe records.jsonl --text title --text abstract --labels subjects
    hf-gile describe notes.csv --labels tags --separator ";" --plot labels.png
    """
    rows = options.read()
    figures = count(read_words(rows["text"]), rows["labels"])
    counts = figures.pop("label_counts")
    figures["most_frequent_labels"] = dict(list(counts.items())[:_MOST])
    if options.plot is not None:
        _plot(list(counts.values()), options.plot)
        note(f"plot of label frequencies: {options.plot}")
    if options.as_json:
        write_json(figures)
    else:
        _print(figures)


def read_words(texts: Iterable[str]) -> Iterator[list[list[str]]]:
    """Splits texts into sentences of words, as a model over words reads them.

    Example:
        >>> list(read_words(["The heart pumps. It beats 70 times."]))
        [[['the', 'heart', 'pumps'], ['it', 'beats', 'NUM', 'times']]]
    """
    from hf_gile.models.texts_gile import split_sentences
    from hf_gile.tokenizing import normalizer_and_splitter

    normalizer, splitter = normalizer_and_splitter()
    for text in texts:
        sentences = map(normalizer.normalize_str, split_sentences(text))
        yield [[word for word, _ in splitter.pre_tokenize_str(sentence)] for sentence in sentences]


def count(documents: Iterable[Sequence[Sequence[Hashable]]], labels: Iterable[Sequence[str]]) -> dict[str, Any]:
    """Counts documents, words and labels.

    Args:
        documents: The words of each sentence of each document.
        labels: The distinct labels of each document.

    Returns:
        Counts and means by name. `label_counts` has the number of documents of each label, most frequent first.

    Raises:
        ValueError: If there is no document.
    """
    sentences = words = 0
    distinct: set[Hashable] = set()
    for document in documents:
        sentences += len(document)
        words += sum(map(len, document))
        distinct.update(*document)
    counts: Counter[str] = Counter()
    sizes = []
    for names in labels:
        sizes.append(len(names))
        counts.update(names)
    if not sizes:
        raise ValueError("there is no document to describe")
    return {
        "documents": len(sizes),
        "documents_without_labels": sizes.count(0),
        "sentences": sentences,
        "words": words,
        "distinct_words": len(distinct),
        "words_per_document": words / len(sizes),
        "labels": len(counts),
        "labels_per_document": {"mean": fmean(sizes), "median": median(sizes), "max": max(sizes)},
        "labels_by_documents": _group(counts.values()),
        "label_counts": dict(counts.most_common()),
    }


def _group(counts: Iterable[int]) -> dict[str, int]:
    """Counts labels by group."""
    groups = dict.fromkeys(_GROUPS, 0)
    for count in counts:
        groups[max((name for name in _GROUPS if _GROUPS[name] <= count), key=_GROUPS.__getitem__)] += 1
    return groups


def _print(figures: Mapping[str, Any]) -> None:
    """Prints the figures as a table."""
    for name, value in figures.items():
        label = name.replace("_", " ")
        if name == "labels_by_documents":
            for group, number in value.items():
                _line(f"labels of {group} {'document' if group == '1' else 'documents'}", number)
        elif name == "most_frequent_labels":
            typer.echo("\nmost frequent labels, with their documents")
            for label, number in value.items():
                _line(label, number)
        elif isinstance(value, Mapping):
            for statistic, number in value.items():
                _line(f"{label}, {statistic}", number)
        else:
            _line(label, value)


def _line(name: str, number: float) -> None:
    """Prints a number and what it counts; the name may be untrusted text."""
    shown = f"{number:,}" if isinstance(number, int) else f"{number:,.2f}"
    typer.echo(f"{shown:>12}  {visible(name)}")


def _plot(counts: list[int], path: Path) -> None:
    """Plots the number of documents of labels by their rank, both on logarithmic scales."""
    from hf_gile.extras import needs_extra
    from hf_gile.writing import whole_file

    with needs_extra("train", "--plot"):
        from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axis = figure.add_subplot()
    axis.loglog(range(1, len(counts) + 1), counts, marker=".", linestyle="none")
    axis.set_xlabel("rank of the label")
    axis.set_ylabel("documents")
    with whole_file(path) as staged:
        figure.savefig(staged, format=path.suffix[1:] or "png", dpi=160)
