"""Counts what Table 1 of GILE counts: documents, words, labels, and their mean lengths."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from hf_gile.data.deutsche_welle import load_dw
from hf_gile.data.records import load_records

WORD = re.compile(r"\w+|[^\w\s]")


def describe(data: Path, kind: str, language: str = "") -> dict[str, float]:
    """Describes a data set of all parts together.

    Args:
        data: Folder of all data.
        kind: records, for MEDLINE; general or specific, for news.
        language: Language of news, or all.
    """
    if kind == "records":
        files = [str(data / "pubmed_mesh" / f"{part}.jsonl.gz") for part in ("train", "validation", "test")]
        rows, _ = load_records(files)
        texts = ((f"{row['title']} {row['abstractText']}").lower() for row in rows)
        names = {ui: name for row in rows for ui, name in zip(row["meshUI"], row["meshMajor"], strict=True)}
        return count((WORD.findall(text) for text in texts), [WORD.findall(name) for name in names.values()])
    corpus = load_dw(data / "dw_format" / kind, None if language == "all" else [language])
    documents = (
        [(name, word) for sentence in sentences for word in sentence]
        for name, parts in corpus.documents.items()
        for rows in parts.values()
        for sentences in rows["input_ids"]
    )
    labels = [label for labels in corpus.label_words.values() for label in labels]
    return count(documents, labels)


def count(documents: Iterable[Sequence[object]], labels: Sequence[Sequence[object]]) -> dict[str, float]:
    """Counts documents and labels, each a list of words."""
    number, total = 0, 0
    distinct: set[object] = set()
    for words in documents:
        number += 1
        total += len(words)
        distinct.update(words)
    return {
        "documents": number,
        "words": len(distinct),
        "words per document": total / number,
        "labels": len(labels),
        "words per label": sum(map(len, labels)) / len(labels),
    }
