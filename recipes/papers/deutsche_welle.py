"""Readers of the published Deutsche Welle format: news in several languages as word ids.

`FOLDER/SPLIT/LANGUAGE.json`, with the splits train, dev and test:

    {"X_ids": [[[13, 2, 7], [5, 7]], [[4, 4, 0, 9]]],
     "Y_ids": [[0, 1], [1]],
     "label_ids": ["13_2", "8"]}

`X_ids` are the documents: sentences of word ids, which are rows of the word vectors of the language. `Y_ids` are the
labels of each document: indices into `label_ids`, which are the word ids of each label. The published script
(https://github.com/idiap/mhan, with the addresses of the texts, which may not be passed on) writes `Y_ids` as lists of
word ids instead, `[[[13, 2], [8]], [[8]]]`; both are read.

For a multilingual model, a `JointCorpus` joins all languages in one vocabulary and one label table:

    row of the word table    0: padding   1: unknown   2 ...: words of language 1   2 + V_1 ...: of language 2   ...
    column of the labels     0 ...: labels of language 1   L_1 ...: of language 2   ...

Shapes: V words, L labels, T words of a label, D word-embedding size.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any

import numpy as np

from hf_gile.data.report import ReadReport
from hf_gile.data.word_vectors import READERS, WordVectors, load_word_vectors
from hf_gile.extras import needs_extra
from hf_gile.models.labels_gile import Label, LabelSet

if TYPE_CHECKING:
    from datasets import Dataset

_KEYS = ("X_ids", "Y_ids", "label_ids")
_MAX_WORDS = 1 << 31  # of an unspecified vocabulary: ids are stored as int32


@dataclass(frozen=True, eq=False)
class DWCorpus:
    """The documents and labels of each language, with separate ids per language.

    Args:
        documents: From each language and split to a dataset with the columns `input_ids`, sentences of word ids, and
            `labels`, columns of the language's labels.
        label_words: From each language to the word ids of each of its labels.
        label_sets: From each language to its labels by name, as `language:label_ids`; empty without word vectors.
        word_vectors: From each language to its words; empty without word vectors.
    """

    documents: dict[str, dict[str, Dataset]]
    label_words: dict[str, list[list[int]]]
    label_sets: dict[str, LabelSet]
    word_vectors: dict[str, WordVectors]

    @property
    def languages(self) -> list[str]:
        """The languages, in the order of the joint form."""
        return list(self.documents)

    def joint(self) -> JointCorpus:
        """Joins the words of all languages in one table, and their labels in another.

        Raises:
            ValueError: If there are no word vectors, those of two languages differ in size, or a word of a single
                language is the padding or the unknown word.
        """
        if not self.word_vectors:
            raise ValueError("the joint form needs words: pass word_vectors to load_dw")
        sizes = {language: table.vectors.shape[1] for language, table in self.word_vectors.items()}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"the word vectors of all languages must have the same size, got {sizes}")
        all_words: list[str] = []
        for language, table in self.word_vectors.items():
            tag = f"{language}:" if len(self.languages) > 1 else ""
            all_words += [tag + word for word in table.words]
        vectors = np.concatenate([table.vectors for table in self.word_vectors.values()])
        words, vectors = WordVectors(all_words, vectors).table()
        word_offsets = _compute_offsets(2, [len(table.words) for table in self.word_vectors.values()])
        label_offsets = _compute_offsets(0, [len(labels) for labels in self.label_words.values()])
        label_words = [
            [word + offset for word in label]
            for labels, offset in zip(self.label_words.values(), word_offsets, strict=True)
            for label in labels
        ]
        label_input_ids = np.zeros((len(label_words), max(map(len, label_words))), np.int64)
        for row, label in enumerate(label_words):
            label_input_ids[row, : len(label)] = label
        return JointCorpus(
            documents={
                language: {
                    split: _shift_ids(
                        dataset,
                        word_offsets[position],
                        label_offsets[position],
                        {"language": [language] * len(dataset)} if len(self.languages) > 1 else {},
                    )
                    for split, dataset in self.documents[language].items()
                }
                for position, language in enumerate(self.languages)
            },
            words=words,
            vectors=vectors,
            label_set=LabelSet(label for label_set in self.label_sets.values() for label in label_set),
            label_input_ids=label_input_ids,
            label_languages=np.repeat(np.arange(len(self.languages)), [*map(len, self.label_words.values())]),
            word_offsets=dict(zip(self.languages, word_offsets, strict=True)),
            label_offsets=dict(zip(self.languages, label_offsets, strict=True)),
        )


@dataclass(frozen=True, eq=False)
class JointCorpus:
    """All languages in one vocabulary and one label table, for a multilingual model.

    Args:
        documents: From each language and split to a dataset with the columns `input_ids`, sentences of rows of the word
            table, `labels`, columns of all labels, and, if there are several languages, `language`.
        words: `2 + V` words, each as `language:word` if there are several languages; first padding and unknown word.
        vectors: `(2 + V, D)` float32: zeros for padding, the mean of all words for the unknown word.
        label_set: L labels, grouped by language.
        label_input_ids: `(L, T)` rows of the word table, padded with 0.
        label_languages: `(L,)` index of each label's language.
        word_offsets: Offset of the word ids of each language.
        label_offsets: Offset of the label indices of each language.
    """

    documents: dict[str, dict[str, Dataset]]
    words: list[str]
    vectors: np.ndarray[Any, np.dtype[np.float32]]
    label_set: LabelSet
    label_input_ids: np.ndarray[Any, np.dtype[np.int64]]
    label_languages: np.ndarray[Any, np.dtype[np.int64]]
    word_offsets: dict[str, int]
    label_offsets: dict[str, int]

    @property
    def languages(self) -> list[str]:
        """The languages, in the order of their words and labels."""
        return list(self.documents)


def load_dw(
    folder: str | os.PathLike[str],
    languages: Iterable[str] | None = None,
    splits: Sequence[str] = ("train", "dev", "test"),
    word_vectors: str | os.PathLike[str] | Mapping[str, WordVectors] | None = None,
    report: ReadReport | None = None,
    *,
    max_sentences: int | None = None,
    max_sentence_words: int | None = None,
) -> DWCorpus:
    """Reads documents and labels in the Deutsche Welle format.

    Sentences without words are left out, and repeated labels of a document count once. Labels store their number of
    training documents.

    Args:
        folder: Folder with a subfolder for each split, with a file for each language.
        languages: Languages to read; by default all with a file in the first split, by name.
        splits: Names of the subfolders.
        word_vectors: The words of the ids: a folder of files `LANGUAGE.npz` (or another format of `load_word_vectors`),
            or word vectors by language. Without them labels have no names.
        report: Counts documents, and decides whether malformed documents raise errors (the default) or are skipped.
        max_sentences: Maximum number of sentences per document; 30 in the paper, by default all.
        max_sentence_words: Maximum number of words per sentence; 30 in the paper, by default all.

    Returns:
        The documents, in memory, and the labels.

    Raises:
        ImportError: If datasets is not installed.
        FileNotFoundError: If a language has no file in a split, or no word vectors.
        ValueError: If a file has another format, or its `label_ids` differ from those of other splits. Unless the
            report skips errors: if a document has no words, an unknown word id or an unknown label. The message names
            file and document, counted from 1.
    """
    folder = Path(folder)
    report = ReadReport() if report is None else report
    if languages is None:
        languages = sorted(path.stem for path in (folder / splits[0]).glob("*.json"))
        if not languages:
            raise FileNotFoundError(f"no file LANGUAGE.json in {folder / splits[0]}")
    corpus = DWCorpus({}, {}, {}, {})
    for language in languages:
        words = None
        if word_vectors is not None:
            words = corpus.word_vectors[language] = read_word_vectors(word_vectors, language)
        files = {split: folder / split / f"{language}.json" for split in splits}
        contents = {split: _load_content(path) for split, path in files.items()}
        label_ids = contents[splits[0]]["label_ids"]
        for split, content in contents.items():
            if content["label_ids"] != label_ids:
                raise ValueError(f"{files[split]}: label_ids differ from those of {files[splits[0]]}")
        vocabulary = _MAX_WORDS if words is None else len(words.words)
        corpus.label_words[language] = _parse_label_words(label_ids, vocabulary, files[splits[0]])
        corpus.documents[language] = {
            split: _parse_documents(content, vocabulary, (max_sentences, max_sentence_words), files[split], report)
            for split, content in contents.items()
        }
        if words is not None:
            counts = Counter[int]()
            if "train" in splits:
                counts.update(column for row in corpus.documents[language]["train"]["labels"] for column in row)
            corpus.label_sets[language] = LabelSet(
                (
                    Label(
                        id=f"{language}:{label_ids[column]}",
                        name=" ".join(words.words[word] for word in label),
                        language=language,
                        seen=counts[column] > 0,
                        count=counts[column],
                    )
                    for column, label in enumerate(corpus.label_words[language])
                ),
                source=f"{files[splits[0]]}: label_ids",
            )
    return corpus


def read_word_vectors(source: str | os.PathLike[str] | Mapping[str, WordVectors], language: str) -> WordVectors:
    """Reads the word vectors of a language.

    Args:
        source: A folder with a file named for the language, or the vectors of each language.
        language: The language.

    Raises:
        FileNotFoundError: If the folder has no such file.
        ValueError: If the language has no word vectors.
    """
    if isinstance(source, Mapping):
        if language not in source:
            raise ValueError(f"word_vectors has no {language!r}, only {', '.join(source)}")
        return source[language]
    files = [Path(source) / f"{language}{suffix}" for suffix in READERS]
    for path in files:
        if path.is_file():
            return load_word_vectors(path)
    raise FileNotFoundError(f"no word vectors for {language!r}: expected one of {', '.join(map(str, files))}")


def _load_content(path: Path) -> dict[str, list[Any]]:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise FileNotFoundError(f"no file {path}; the format is FOLDER/SPLIT/LANGUAGE.json") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON: {error}") from error
    if not isinstance(content, dict) or not all(isinstance(content.get(key), list) for key in _KEYS):
        raise ValueError(f"{path}: expected an object with the lists {', '.join(_KEYS)}, got {shortened(content)}")
    if len(content["X_ids"]) != len(content["Y_ids"]):
        raise ValueError(f"{path}: {len(content['X_ids']):,} X_ids, but {len(content['Y_ids']):,} Y_ids")
    return content


def _parse_label_words(label_ids: list[Any], vocabulary: int, path: Path) -> list[list[int]]:
    if not label_ids:
        raise ValueError(f"{path}: label_ids is empty")
    labels = []
    positions: dict[str, int] = {}
    for position, label in enumerate(label_ids):
        try:
            words = [int(word) for word in label.split("_")]
            _check_numbers(words, "word ids", vocabulary)
        except (AttributeError, ValueError) as error:
            raise ValueError(
                f'{path}: label_ids[{position}] must be word ids joined by "_", got {label!r}: {error}'
            ) from None
        if positions.setdefault(label, position) != position:
            raise ValueError(f"{path}: label_ids[{position}] repeats label_ids[{positions[label]}], {label!r}")
        labels.append(words)
    return labels


def _parse_documents(
    content: dict[str, list[Any]],
    vocabulary: int,
    limits: tuple[int | None, int | None],
    path: Path,
    report: ReadReport,
) -> Dataset:
    label_columns = {label: column for column, label in enumerate(content["label_ids"])}
    texts, gold = [], []
    report.files += 1
    for number, (document, labels) in enumerate(zip(content["X_ids"], content["Y_ids"], strict=True), 1):
        try:
            sentences, columns = _check_sentences(document, vocabulary), _find_columns(labels, label_columns)
        except ValueError as error:
            report.problem("malformed document", f"{path}: document {number:,}: {error}")
            continue
        report.records += 1
        texts.append([sentence[: limits[1]] for sentence in sentences[: limits[0]]])
        gold.append(columns)
    return _make_dataset({"input_ids": texts, "labels": gold})


def _check_sentences(document: object, vocabulary: int) -> list[list[int]]:
    if not isinstance(document, list) or not all(isinstance(sentence, list) for sentence in document):
        raise ValueError(f"expected sentences of word ids, got {shortened(document)}")
    _check_numbers([word for sentence in document for word in sentence], "word ids", vocabulary)
    sentences = [sentence for sentence in document if sentence]
    if not sentences:
        raise ValueError("no words")
    return sentences


def _find_columns(labels: object, label_columns: dict[str, int]) -> list[int]:
    if not isinstance(labels, list):
        raise ValueError(f"expected a list of labels, got {shortened(labels)}")
    keys = ["_".join(map(str, label)) if isinstance(label, list) else label for label in labels]
    columns: list[Any] = [label_columns.get(key, key) if isinstance(key, str) else key for key in keys]
    _check_numbers(columns, "labels", len(label_columns))
    return list(dict.fromkeys(columns))


def _check_numbers(numbers: list[Any], name: str, size: int) -> None:
    for number in numbers:
        if type(number) is not int or not 0 <= number < size:
            raise ValueError(f"{name} must be whole numbers from 0 to {size - 1:,}, got {number!r}")


def _compute_offsets(start: int, sizes: list[int]) -> list[int]:
    return list(accumulate(sizes[:-1], initial=start))


def _shift_ids(dataset: Dataset, word_offset: int, label_offset: int, more: dict[str, list[Any]]) -> Dataset:
    rows = dataset[:]
    return _make_dataset(
        {
            "input_ids": [
                [[word + word_offset for word in sentence] for sentence in document] for document in rows["input_ids"]
            ],
            "labels": [[column + label_offset for column in columns] for columns in rows["labels"]],
            **more,
        }
    )


def _make_dataset(columns: dict[str, list[Any]]) -> Dataset:
    with needs_extra("data", "load_dw"):
        from datasets import Dataset, Features, List, Value
    kinds = {"input_ids": List(List(Value("int32"))), "labels": List(Value("int64")), "language": Value("string")}
    return Dataset.from_dict(columns, features=Features({name: kinds[name] for name in columns}))
