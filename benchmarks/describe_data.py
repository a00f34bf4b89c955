"""Counts what Table 1 of GILE counts, as `hf-gile describe` does: documents, words, labels, and their mean lengths."""

from pathlib import Path

from papers.deutsche_welle import load_dw
from papers.records import load_records

from hf_gile_cli.describe import count, read_words


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
        texts = (f"{row['title']}\n{row['abstractText']}" for row in rows)
        names = {ui: name for row in rows for ui, name in zip(row["meshUI"], row["meshMajor"], strict=True)}
        label_words = [[word for sentence in label for word in sentence] for label in read_words(names.values())]
        figures = count(read_words(texts), (row["meshUI"] for row in rows))
    else:
        corpus = load_dw(data / "dw_format" / kind, None if language == "all" else [language])
        label_words = [list(words) for of_language in corpus.label_words.values() for words in of_language]
        parts = [(name, rows) for name, by_part in corpus.documents.items() for rows in by_part.values()]
        documents = (
            [[(name, word) for word in sentence] for sentence in sentences]
            for name, rows in parts
            for sentences in rows["input_ids"]
        )
        labels = ([f"{name} {label}" for label in assigned] for name, rows in parts for assigned in rows["labels"])
        figures = count(documents, labels)
    return {
        "documents": figures["documents"],
        "words": figures["distinct_words"],
        "words per document": figures["words_per_document"],
        "labels": len(label_words),
        "words per label": sum(map(len, label_words)) / len(label_words),
    }
