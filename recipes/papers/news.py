"""Training data in the Deutsche Welle format: documents of word ids, and labels, some of them held out.

Section 4.2 of the GILE paper. The words come in pickles, see `papers.pickled_vectors`, or in another format of
`load_word_vectors`.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from hf_gile.data.zero_shot import drop_labels
from hf_gile.models.labels_gile import LabelSet
from papers.deutsche_welle import JointCorpus, load_dw
from papers.pickled_vectors import read_language

if TYPE_CHECKING:
    from datasets import Dataset

LOW_RESOURCE_LEVELS: dict[str, tuple[float, ...]] = {
    "tiny": (0.1, 0.2, 0.3, 0.4, 0.5),
    "small": (1.0, 2.0, 3.0, 4.0, 5.0),
    "medium": (10.0, 20.0, 30.0, 40.0, 50.0),
}
"""Percentages of the training documents; the paper reports the mean of each level (section 4.2)."""


Parts: TypeAlias = "dict[str, dict[str, Dataset]]"
"""Documents by language and part: train, dev and test."""


@dataclass(frozen=True, eq=False)
class News:
    """Documents and labels of some languages.

    Args:
        corpus: Words and labels of all languages.
        parts: The documents; held-out labels are removed from train and dev.
        labels: The labels with their numbers of training documents; labels without documents are unseen.
        held_out: Indices of labels that are held out of training, or have no training documents.
    """

    corpus: JointCorpus
    parts: Parts
    labels: LabelSet
    held_out: set[int]

    @property
    def seen(self) -> list[int]:
        """Indices of the labels to train on."""
        return [column for column in range(len(self.labels)) if column not in self.held_out]

    @property
    def groups(self) -> list[bool] | None:
        """Mask of seen labels, if some are held out: both groups are measured separately."""
        return self.labels.seen if self.held_out else None

    def flat(self) -> "News":
        """Returns the same data with documents as flat lists of words, for an encoder without sentences."""

        def words(sentences: list[list[int]]) -> dict[str, list[int]]:
            return {"input_ids": [word for sentence in sentences for word in sentence]}

        return replace(
            self,
            parts={
                language: {part: rows.map(words, input_columns="input_ids") for part, rows in parts.items()}
                for language, parts in self.parts.items()
            },
        )

    def all(self, part: str) -> "Dataset":
        """Returns the documents of all languages.

        Args:
            part: Name of the split.
        """
        from datasets import concatenate_datasets

        return concatenate_datasets([parts[part] for parts in self.parts.values()])


def read_news(
    data: str,
    languages: list[str],
    word_vectors: str | None = None,
    held_out: float = 0.0,
    percent: float = 100.0,
    seed: int = 0,
    **limits: Any,
) -> News:
    """Reads news.

    Args:
        data: Folder with train, dev and test, each with LANGUAGE.json.
        languages: Languages to read; by default all.
        word_vectors: Folder of word vectors; by default word_vectors next to the data.
        held_out: Share of the labels to hold out from training, chosen by a hash of their ids.
        percent: Percentage of the training documents of the last language to use.
        seed: Seed of their selection.
        limits: `max_sentences` and `max_sentence_words` of `load_dw`.
    """
    folder = Path(word_vectors or Path(data).parent / "word_vectors")
    languages = languages or sorted(path.stem for path in (Path(data) / "train").glob("*.json"))
    vectors = {language: read_language(folder, language) for language in languages}
    corpus = load_dw(data, languages or None, word_vectors=vectors, **limits).joint()
    unseen = {column for column, label in enumerate(corpus.label_set) if not label.seen or draw(label.id) < held_out}
    parts: Parts = {language: {} for language in corpus.languages}
    for language, documents in corpus.documents.items():
        for part, rows in documents.items():
            rows = drop_labels(rows, unseen) if unseen and part != "test" else rows
            if "language" not in rows.column_names:
                rows = rows.add_column("language", [language] * len(rows))
            parts[language][part] = rows
    scarce = parts[corpus.languages[-1]]
    scarce["train"] = low_resource(scarce["train"], percent, seed)
    return News(corpus, parts, count_labels(corpus.label_set, [splits["train"] for splits in parts.values()]), unseen)


def low_resource(documents: "Dataset", percent: float, seed: int = 0) -> "Dataset":
    """Selects a share of the training documents, to simulate a low-resource language (section 4.2).

    With the same seed, a smaller share is a subset of any larger share.

    Args:
        documents: The training documents of a language.
        percent: Percentage of documents, as in `LOW_RESOURCE_LEVELS`; at least one document is selected.
        seed: Another seed selects other documents.

    Returns:
        The selected documents, in their original order.

    Raises:
        ValueError: If percent is not above 0 and at most 100, or there are no documents.

    Example:
        >>> from datasets import Dataset
        >>> train = Dataset.from_dict({"labels": [[0], [1]] * 500})
        >>> [len(low_resource(train, percent)) for percent in LOW_RESOURCE_LEVELS["tiny"]]
        [1, 2, 3, 4, 5]
    """
    if not 0 < percent <= 100:
        raise ValueError(f"percent must be above 0 and at most 100, got {percent}")
    if len(documents) == 0:
        raise ValueError("documents is an empty dataset: pass training documents")
    order = np.random.default_rng(seed).permutation(len(documents))
    return documents.select(np.sort(order[: max(1, round(len(documents) * percent / 100))]))


def draw(label_id: str) -> float:
    """Draws a number from 0 to 1 by a hash of a label's id.

    Args:
        label_id: The id.
    """
    return int.from_bytes(hashlib.sha256(label_id.encode()).digest()[:8], "big") / 2**64


def count_labels(labels: LabelSet, parts: list[Any]) -> LabelSet:
    """Returns the labels with their numbers of training documents; labels without documents are stored as unseen.

    Args:
        labels: The labels.
        parts: Training documents with a column `labels` of label indices.
    """
    counts = Counter(column for rows in parts for columns in rows["labels"] for column in columns)
    return labels.with_counts({labels[column].id: count for column, count in counts.items()})


def joint_size_for(hidden_size: int, embedding_size: int, num_labels: int | Sequence[int]) -> int:
    """Computes the joint size for which GILE has about as many parameters as a linear unit (Eq. 19).

    Args:
        hidden_size: Size of a document vector (d_h).
        embedding_size: Size of a label vector (d).
        num_labels: Number of labels k, or numbers for each language.

    Returns:
        d_h k / (d_h + d), at least 1, with k summed over the languages; rounded down, as in the published models.

    Example:
        >>> joint_size_for(hidden_size=100, embedding_size=40, num_labels=[327, 367])
        495
    """
    k = num_labels if isinstance(num_labels, int) else sum(num_labels)
    return max(1, hidden_size * k // (hidden_size + embedding_size))


def paper_threshold(num_labels: int, low_resource: bool = False) -> float:
    """Returns the fixed threshold of the paper.

    Args:
        num_labels: Number of labels.
        low_resource: Whether only a part of the training documents is used, as in Table 7 of the paper.

    Returns:
        A probability: 0.4 for fewer than 400 labels, otherwise 0.2; always 0.3 for low-resource training.

    Raises:
        ValueError: If there are no labels.

    Example:
        >>> paper_threshold(7), paper_threshold(850), paper_threshold(850, low_resource=True)
        (0.4, 0.2, 0.3)
    """
    if num_labels < 1:
        raise ValueError(f"num_labels must be at least 1, got {num_labels}; pass the number of scored labels")
    if low_resource:
        return 0.3
    return 0.4 if num_labels < 400 else 0.2
