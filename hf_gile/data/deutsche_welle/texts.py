r"""Documents of Deutsche Welle out of what `crawl_dw` wrote, as texts or in the published format of word ids.

A document is an article of the published lists, in the split that the lists say. Its labels are the sections it stands
in ("general") or its keywords ("specific"), in lower case as in the published data:

    {"id": "http://dw.com/p/10o55", "url": "https://www.dw.com/en/...", "title": "On mice",
     "text": "On mice\nMice were seen.\n...", "labels": ["english:science", "english:germany"], "language": "english"}
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tokenizers import Tokenizer, models

from ...extras import needs_extra
from ...models.labels_gile import Label, LabelSet, whole_file
from ...models.processing_gile import split_sentences
from ...tokenizing import UNK, normalizer_and_splitter
from ..files import read_held
from ..report import ReadReport
from ..word_vectors import WordVectors
from .crawl import SETS, SPLITS, Answer, Lists, read_index, read_lists
from .pages import DWArticle, parse_dw_page

if TYPE_CHECKING:
    from datasets import Dataset

LANGUAGE_CODES = {
    "english": "en",
    "german": "de",
    "spanish": "es",
    "portuguese": "pt",
    "ukrainian": "uk",
    "russian": "ru",
    "arabic": "ar",
    "persian": "fa",
}
"""What pages call the languages of the lists."""


@dataclass(frozen=True, eq=False)
class DWTexts:
    """The documents and labels of each language, as texts.

    Args:
        documents: From each language and split to a dataset with the columns `id`, `url`, `title`, `text`, `labels`,
            ids of the language's labels, and `language`.
        label_sets: From each language to its labels, as `language:name`, the most frequent first.
    """

    documents: dict[str, dict[str, Dataset]]
    label_sets: dict[str, LabelSet]

    @property
    def languages(self) -> list[str]:
        """The languages that have documents."""
        return list(self.documents)


def load_dw_pages(
    folder: str | os.PathLike[str],
    labels: str = "general",
    languages: Iterable[str] | None = None,
    report: ReadReport | None = None,
    *,
    min_count: int = 1,
) -> DWTexts:
    """Reads documents and labels out of the pages of a crawl, which need not be complete.

    Left out and counted: addresses without a page, pages without an article (galleries, videos, pages that say 404),
    articles in another language than that of the list, articles without a label, and an article that two addresses
    lead to: it stays in test, or else in dev.

    Args:
        folder: What `crawl_dw` wrote.
        labels: `"general"`, the sections, or `"specific"`, the keywords; of the published lists of that name.
        languages: By default all that were crawled.
        report: Counts what is left out and says whether damaged files and pages that are not in their charset raise,
            as they do without, or are left out.
        min_count: A label that fewer documents of train have is left out, of documents too.

    Returns:
        The texts, in memory: load a few languages at a time if it is small.

    Raises:
        ImportError: If datasets or lxml is not installed.
        FileNotFoundError: If there is no crawl of such lists in the folder.
        ValueError: If labels is something else, not one document is left, or, unless the report says to skip, anything
            is damaged.
    """
    if labels not in SETS:
        raise ValueError(f"labels must be one of {', '.join(SETS)}, got {labels!r}")
    folder = Path(folder)
    report = ReadReport() if report is None else report
    lists = read_lists(folder / "lists" / labels, languages)
    texts = DWTexts({}, {})
    for language in dict.fromkeys(language for *_, language in lists):
        rows = _rows(folder, labels, language, lists, report)
        counts = Counter(label for row in rows["train"] for label in row["labels"])
        kept = [label for label, count in counts.most_common() if count >= min_count]
        documents = {split: list(_labelled(rows[split], set(kept), report)) for split in SPLITS}
        if not kept or not any(documents.values()):
            report.leave_out("language without documents", language)
            continue
        report.records += sum(map(len, documents.values()))
        texts.documents[language] = {split: _dataset(documents[split]) for split in SPLITS}
        texts.label_sets[language] = LabelSet(
            Label(label, label.removeprefix(f"{language}:"), language=language, seen=True, count=counts[label])
            for label in kept
        )
    if not texts.documents:
        raise ValueError(f"{folder}: no article with {labels} labels in train: {report}")
    return texts


def write_dw(
    texts: DWTexts,
    folder: str | os.PathLike[str],
    word_vectors: Mapping[str, WordVectors],
    report: ReadReport | None = None,
) -> None:
    """Writes texts in the published format of word ids, which `load_dw` reads.

    Sentences are those of `split_sentences`, words those of `normalizer_and_splitter`: in lower case, so that words of
    the vectors that are not will never be found. Words without a vector are left out. A label none of whose words has
    one is left out and counted, and so is a document without words or without labels; two labels of the same words,
    apart from those without a vector, become one.

    Args:
        texts: The documents and labels.
        folder: Gets `SPLIT/LANGUAGE.json`.
        word_vectors: For each language of the texts.
        report: Counts documents and what is left out.

    Raises:
        ValueError: If a language has no word vectors, or none of its labels has a word with a vector.
    """
    report = ReadReport() if report is None else report
    for language in texts.languages:
        if language not in word_vectors:
            raise ValueError(f"word_vectors has no {language!r}, only {', '.join(word_vectors) or 'nothing'}")
        words = _WordIds(word_vectors[language].words)
        column_of: dict[str, int] = {}
        places: dict[str, int] = {}
        for label in texts.label_sets[language]:
            ids = "_".join(str(word) for sentence in words([label.name]) for word in sentence)
            if ids:
                column_of[label.id] = places.setdefault(ids, len(places))
            else:
                report.leave_out("label without word vectors", label.id)
        if not places:
            raise ValueError(f"{language}: no label has a word with a vector; are these the vectors of {language}?")
        for split, documents in texts.documents[language].items():
            path = Path(folder) / split / f"{language}.json"
            with whole_file(path) as written, written.open("w", encoding="utf-8") as file:
                _write_split(file, documents, words, column_of, list(places), report)


class _WordIds:
    """Makes the ids of the known words of sentences."""

    def __init__(self, words: list[str]) -> None:
        vocabulary = {word: row for row, word in enumerate(words)}
        self._unknown = vocabulary.setdefault(UNK, len(words))
        self._tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNK))
        self._tokenizer.normalizer, self._tokenizer.pre_tokenizer = normalizer_and_splitter()

    def __call__(self, sentences: list[str]) -> list[list[int]]:
        encodings = self._tokenizer.encode_batch_fast(sentences, add_special_tokens=False)
        found = ([word for word in encoding.ids if word != self._unknown] for encoding in encodings)
        return [sentence for sentence in found if sentence]


def _write_split(
    file: IO[str],
    documents: Dataset,
    words: _WordIds,
    column_of: dict[str, int],
    label_ids: list[str],
    report: ReadReport,
) -> None:
    gold: list[list[int]] = []
    file.write('{"X_ids": [')
    for row in documents:
        sentences = words(split_sentences(row["text"]))
        columns = sorted({column_of[label] for label in row["labels"] if label in column_of})
        if not sentences or not columns:
            report.leave_out("without words" if not sentences else "without labels", row["id"])
            continue
        file.write(f"{', ' if gold else ''}{json.dumps(sentences)}")
        gold.append(columns)
        report.records += 1
    file.write(f'], "Y_ids": {json.dumps(gold)}, "label_ids": {json.dumps(label_ids)}}}')


def _rows(
    folder: Path, labels: str, language: str, lists: Lists, report: ReadReport
) -> dict[str, list[dict[str, Any]]]:
    addresses = {split: lists[labels, split, language] for split in SPLITS}
    wanted = {url for urls in addresses.values() for url in urls}
    answers = {answer.url: answer for answer in read_index(folder, report) if answer.url in wanted}
    rows: dict[str, list[dict[str, Any]]] = {}
    seen: dict[str, str] = {}
    for split in ("test", "dev", "train"):
        rows[split] = []
        for url in addresses[split]:
            answer = answers.get(url)
            if answer is None or answer.file is None:
                reason = "not asked yet" if answer is None else answer.reason
                report.leave_out(f"without page: {reason}", url)
                continue
            article = _article(folder / answer.file, answer, report)
            if article is None:
                continue
            if article.language not in (None, LANGUAGE_CODES.get(language, article.language)):
                report.leave_out("in another language", f"{url}: {article.language}")
            elif seen.setdefault(article.url, url) != url:
                report.leave_out("same article as another address", f"{url}, {seen[article.url]}")
            else:
                names = article.categories if labels == "general" else article.keywords
                rows[split].append(
                    {
                        "id": url,
                        "url": article.url,
                        "title": article.title,
                        "text": article.text,
                        "labels": list(dict.fromkeys(f"{language}:{name.lower()}" for name in names)),
                        "language": language,
                    }
                )
    return rows


def _article(path: Path, answer: Answer, report: ReadReport) -> DWArticle | None:
    report.files += 1
    try:
        page = read_held(path)
    except FileNotFoundError:
        report.problem("damaged page", f"{path}: the index has it, but there is no such file; crawl again")
        return None
    except ValueError as error:
        report.problem("damaged page", f"{error}; crawl again")
        return None
    try:
        return replace(parse_dw_page(page, answer.final_url, answer.charset), url=answer.final_url)
    except UnicodeDecodeError as error:
        report.problem(
            "page not in its charset", f"{path}: {answer.final_url}: byte {error.start:,} is not {error.encoding}"
        )
    except ValueError as error:
        report.leave_out(f"no article: {error}", f"{path}: {answer.final_url}")
    return None


def _labelled(rows: list[dict[str, Any]], kept: set[str], report: ReadReport) -> Iterator[dict[str, Any]]:
    for row in rows:
        labels = [label for label in row["labels"] if label in kept]
        if labels:
            yield {**row, "labels": labels}
        else:
            report.leave_out("without labels", row["id"])


def _dataset(rows: list[dict[str, Any]]) -> Dataset:
    with needs_extra("data", "load_dw_pages"):
        from datasets import Dataset, Features, List, Value
    text = Value("string")
    kinds = {"id": text, "url": text, "title": text, "text": text, "labels": List(text), "language": text}
    return Dataset.from_dict({name: [row[name] for row in rows] for name in kinds}, features=Features(kinds))
