r"""Documents of Deutsche Welle out of what `crawl_dw` wrote, as texts or in the published format of word ids.

A document is an article of the published lists, in the split that the lists say. Its labels are the sections it stands
in ("general") or its keywords ("specific"), in lower case as in the published data:

    {"id": "http://dw.com/p/10o55", "url": "https://www.dw.com/en/...", "title": "On mice",
     "text": "On mice\nMice were seen.\n...", "labels": ["english:science", "english:germany"], "language": "english"}
"""

from __future__ import annotations

import json
import os
import zlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer, models

from ...extras import needs_extra
from ...models.labels_gile import Label, LabelSet
from ...models.processing_gile import split_sentences
from ...tokenizing import UNK, normalizer_and_splitter
from ...writing import whole_file
from ..report import ReadReport
from ..word_vectors import WordVectors
from .crawl import SETS, SPLITS, answers_of, read_lists
from .pages import DWArticle, parse_dw_page
from .polite_web import MOST_BYTES

if TYPE_CHECKING:
    from datasets import Dataset

LANGUAGE_CODES = {
    "english": "en", "german": "de", "spanish": "es", "portuguese": "pt", "ukrainian": "uk", "russian": "ru",
    "arabic": "ar", "persian": "fa",
}  # fmt: skip
"""What pages call the languages of the lists."""

_COLUMNS = ("id", "url", "title", "text", "labels", "language")


def load_dw_pages(
    folder: str | os.PathLike[str],
    language: str,
    labels: str = "general",
    report: ReadReport | None = None,
    *,
    min_count: int = 1,
) -> tuple[dict[str, Dataset], LabelSet]:
    """Reads documents and labels of a language out of the pages of a crawl, which need not be complete.

    Left out and counted: addresses without a page, pages without an article (galleries, videos, pages that say 404),
    articles in another language than that of the list, articles without a label, and an article that two addresses
    lead to: it stays in test, or else in dev.

    Args:
        folder: What `crawl_dw` wrote.
        language: As the lists call it.
        labels: `"general"`, the sections, or `"specific"`, the keywords; of the published lists of that name.
        report: Counts what is left out, and says whether damaged pages raise.
        min_count: A label that fewer documents of train have is left out, of documents too.

    Returns:
        From each split to a dataset, in memory, with the columns `id`, `url`, `title`, `text`, `labels` (ids of labels)
        and `language`; and the labels, as `language:name`, the most frequent first.

    Raises:
        FileNotFoundError: If there is no crawl of such lists in the folder.
        ValueError: If labels is something else, train has no label, or a page is damaged.
    """
    if labels not in SETS:
        raise ValueError(f"labels must be one of {', '.join(SETS)}, got {labels!r}")
    with needs_extra("data", "load_dw_pages"):
        from datasets import Dataset, Features, List, Value
    folder = Path(folder)
    report = ReadReport() if report is None else report
    rows = _rows(folder, labels, language, report)
    counts = Counter(label for row in rows["train"] for label in row["labels"])
    enough = {label: count for label, count in counts.most_common() if count >= min_count}
    if not enough:
        raise ValueError(
            f"{folder}: no article with {labels} labels in train of {language}: {report}; crawl more of it"
        )
    features = Features({name: List(Value("string")) if name == "labels" else Value("string") for name in _COLUMNS})
    documents = {}
    for split in SPLITS:
        labelled = []
        for row in rows[split]:
            row["labels"] = [label for label in row["labels"] if label in enough]
            if row["labels"]:
                labelled.append(row)
            else:
                report.leave_out("without labels", row["id"])
        report.records += len(labelled)
        columns = {name: [row[name] for row in labelled] for name in _COLUMNS}
        documents[split] = Dataset.from_dict(columns, features=features)
    label_set = LabelSet(
        Label(label, label.removeprefix(f"{language}:"), language=language, seen=True, count=count)
        for label, count in enough.items()
    )
    return documents, label_set


def write_dw(
    documents: Mapping[str, Dataset],
    label_set: LabelSet,
    folder: str | os.PathLike[str],
    language: str,
    word_vectors: WordVectors,
    report: ReadReport | None = None,
) -> None:
    """Writes texts in the published format of word ids, which `load_dw` reads.

    Words are in lower case: those of the vectors that are not will never be found. Words without a vector are left out.
    Labels and documents of which nothing stays are left out and counted; two labels of which the same words stay become
    one.

    Args:
        documents: Of each split.
        label_set: Their labels.
        folder: Gets `SPLIT/LANGUAGE.json`.
        language: Names the files.
        word_vectors: Of the language.
        report: Counts documents and what is left out.

    Raises:
        ValueError: If no label has a word with a vector.
    """
    report = ReadReport() if report is None else report
    vocabulary = {word: row for row, word in enumerate(word_vectors.words)}
    unknown = vocabulary.setdefault(UNK, len(word_vectors.words))
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNK))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer_and_splitter()

    def known(sentences: list[str]) -> list[list[int]]:
        encodings = tokenizer.encode_batch_fast(sentences, add_special_tokens=False)
        sentences_of_ids = ([word for word in encoding.ids if word != unknown] for encoding in encodings)
        return [ids for ids in sentences_of_ids if ids]

    column_of: dict[str, int] = {}
    columns_of_ids: dict[str, int] = {}
    for label in label_set:
        if words := known([label.name]):
            column_of[label.id] = columns_of_ids.setdefault("_".join(map(str, words[0])), len(columns_of_ids))
        else:
            report.leave_out("label without word vectors", label.id)
    if not column_of:
        raise ValueError(f"{language}: no label has a word with a vector; are these the vectors of {language}?")
    for split, rows in documents.items():
        gold: list[list[int]] = []
        path = Path(folder) / split / f"{language}.json"
        with whole_file(path) as written, written.open("w", encoding="utf-8") as file:
            file.write('{"X_ids": [')
            for row in rows:  # a large language takes a gigabyte as numbers of Python
                sentences = known(split_sentences(row["text"]))
                columns = sorted({column_of[label] for label in row["labels"] if label in column_of})
                if not sentences or not columns:
                    report.leave_out("without words" if not sentences else "without labels", row["id"])
                    continue
                file.write(f"{', ' if gold else ''}{json.dumps(sentences)}")
                gold.append(columns)
            file.write(f'], "Y_ids": {json.dumps(gold)}, "label_ids": {json.dumps([*columns_of_ids])}}}')
        report.records += len(gold)


def _rows(folder: Path, labels: str, language: str, report: ReadReport) -> dict[str, list[dict[str, Any]]]:
    lists = read_lists(folder / "lists" / labels, [language])
    rows: dict[str, list[dict[str, Any]]] = {}
    seen: dict[str, str] = {}
    with answers_of(folder) as table:
        for split in ("test", "dev", "train"):
            rows[split] = []
            for url in lists[labels, split, language]:
                final_url, article = _article(table, url, report)
                if article is None:
                    continue
                if article.language not in (None, LANGUAGE_CODES.get(language, article.language)):
                    report.leave_out("in another language", f"{url}: {article.language}")
                elif seen.setdefault(final_url, url) != url:
                    report.leave_out("same article as another address", f"{url}, {seen[final_url]}")
                else:
                    names = article.sections if labels == "general" else article.keywords
                    ids = list(dict.fromkeys(f"{language}:{name.lower()}" for name in names))
                    values = (url, final_url, article.title, article.text, ids, language)
                    rows[split].append(dict(zip(_COLUMNS, values, strict=True)))
    return rows


def _article(table: Connection, url: str, report: ReadReport) -> tuple[str, DWArticle | None]:
    answer = table.execute("SELECT final_url, charset, reason, page FROM answers WHERE url = ?", (url,)).fetchone()
    final_url, charset, reason, page = answer or ("", None, "not asked yet", b"")
    if reason is not None:
        report.leave_out(f"without page: {reason}", url)
        return final_url, None
    report.files += 1
    where = f"{url}: {final_url}"
    try:
        return final_url, parse_dw_page(zlib.decompressobj().decompress(page, MOST_BYTES), final_url, charset)
    except zlib.error as error:
        report.problem("damaged page", f"{where}: {error}")
    except UnicodeDecodeError as error:
        report.problem("page not in its charset", f"{where}: byte {error.start:,} is not {error.encoding}")
    except ValueError as error:
        report.leave_out(f"no article: {error}", where)
    return final_url, None
