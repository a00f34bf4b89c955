"""Extracts articles of Deutsche Welle from the pages that `crawl_dw` fetched, with the labels of the published data.

The text is extracted by trafilatura, a maintained library; everything else has a fixed location in the page:

    <html lang="LANGUAGE"> ... <article><header><div data-tracking-name="content-detail-kicker"><span>SECTION</span>...
    </div><h1>TITLE</h1><p class="teaser-text">...</p></header> ... <p>TEXT</p> ... </article>
    <aside data-tracking-name="related-topics"><a>KEYWORD</a>...</aside>

The site was not accessible during development; this is the format that public scrapers rely on. Try it on a few hundred
pages first, and check the report. A document is an article of the published lists, in the split of its list. Its labels
are its sections ("general") or its keywords ("specific"), in lower case.
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections import Counter
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from ...extras import needs_extra
from ...models.labels_gile import Label, LabelSet
from ..report import ReadReport
from .crawl import MAX_PAGE_BYTES, SETS, SPLITS, AnyPath, open_answers, read_lists

if TYPE_CHECKING:
    from datasets import Dataset

LANGUAGE_CODES = {
    "english": "en", "german": "de", "spanish": "es", "portuguese": "pt", "ukrainian": "uk", "russian": "ru",
    "arabic": "ar", "persian": "fa",
}  # fmt: skip
"""Language codes in pages, for the languages of the lists."""

_COLUMNS = ("id", "url", "title", "text", "labels", "language")
_MAX_NAME = 100  # maximum number of characters of a label
_TEASER = "//header//p[contains(@class, 'teaser-text')]"
_SECTIONS = "//*[@data-tracking-name='content-detail-kicker']/span"
_KEYWORDS = "//aside[@data-tracking-name='related-topics']//a"
# trafilatura drops the joiners of Persian words; this character replaces them temporarily.
_JOINER, _STAND_IN = re.compile("\u200c|&zwnj;|&#8204;|&#x200c;", re.IGNORECASE), "\ufffc"
# Elements of an article outside its text; the last matches links to other articles.
_ASIDES = [
    "//h1 | //header | //footer | //nav | //aside | //figure | //blockquote[contains(@class, 'tweet')]",
    "//*[contains(@class, 'advertisement') or contains(@class, 'embed') or contains(@data-tracking-name, 'sharing')]",
    "//*[self::p or self::li][string-length(normalize-space()) < 2 * string-length(normalize-space(.//a[1]))]",
]


class DWArticle(NamedTuple):
    """An article."""

    title: str
    paragraphs: tuple[str, ...]  # the teaser first, without captions and links to other articles
    sections: tuple[str, ...]  # the "general" labels
    keywords: tuple[str, ...]  # the "specific" labels
    language: str | None  # language code, such as en

    @property
    def text(self) -> str:
        """Returns the title and the paragraphs, one per line."""
        return "\n".join((self.title, *self.paragraphs))


def parse_dw_page(html: bytes, url: str = "", charset: str | None = None) -> DWArticle:
    """Extracts the article of a page, which is read as UTF-8 if its charset is unknown to Python.

    Raises:
        UnicodeDecodeError: If the page is not in its charset.
        ValueError: If the page contains no article; the message is the reason.
    """
    with needs_extra("data", "reading web pages"):
        import trafilatura
    kind = re.search(r"/([a-z]+)-\d+/?$", urlsplit(url).path)
    if kind and kind[1] != "a":
        raise ValueError(f"the address belongs to {kind[1]}-NUMBER, not to an article")
    page = trafilatura.load_html(_JOINER.sub(_STAND_IN, html.decode(_resolve_codec(charset)).replace("\0", "")))
    if page is None:
        raise ValueError("empty page")

    def extract_texts(path: str) -> list[str]:
        return [text for text in (_normalize_line(element.text_content()) for element in page.xpath(path)) if text]

    # Before the text, because trafilatura removes elements from the page.
    sections, keywords = (_clean_labels(extract_texts(path)) for path in (_SECTIONS, _KEYWORDS))
    teasers = extract_texts(_TEASER)[:1]
    title = re.sub(r"\s*\|.*\bDW\b.*", "", next(iter(extract_texts("//h1") or extract_texts("//title")), ""))
    if not title:
        raise ValueError("no title")
    if not sections and re.match(r"(?:error\s*)?(?:404|410|5\d\d)\b", title, re.IGNORECASE):
        raise ValueError("error page")
    body = trafilatura.extract(page, include_comments=False, include_tables=False, prune_xpath=_ASIDES) or ""
    lines = [line for line in (_normalize_line(line.removeprefix("- ")) for line in body.splitlines()) if line]
    if not lines:
        raise ValueError("no text")
    teaser = [text for text in teasers if text not in (title, lines[0])]
    language = page.get("lang", "").lower().replace("_", "-").partition("-")[0] or None
    return DWArticle(title, (*teaser, *lines), sections, keywords, language)


def load_dw_pages(
    folder: AnyPath, language: str, labels: str = "general", report: ReadReport | None = None, *, min_count: int = 1
) -> tuple[dict[str, Dataset], LabelSet]:
    """Reads documents and labels of a language from the pages of a crawl, which may be incomplete.

    Skipped and counted: addresses without a page, pages without an article (a gallery, an error), and articles without
    a label or in a different language than the list. Articles in several splits stay in test, or otherwise in dev.

    Args:
        folder: Output folder of `crawl_dw`.
        language: Language, as named in the lists.
        labels: `"general"` (sections) or `"specific"` (keywords), from the published lists of the same name.
        report: Counts skipped input, and decides whether damaged pages raise errors.
        min_count: Minimum number of training documents of a label; rarer labels are removed from documents as well.

    Returns:
        From each split to a dataset, in memory, with the columns `id` (the address listed), `url`, `title`, `text`,
        `labels` (such as `english:science`) and `language`; and the labels, the most frequent first.

    Raises:
        FileNotFoundError: If there is no crawl of such lists in the folder.
        ValueError: If `labels` is invalid, train has no label, or a page is damaged.
    """
    if labels not in SETS:
        raise ValueError(f"labels must be one of {', '.join(SETS)}, got {labels!r}")
    with needs_extra("data", "load_dw_pages"):
        from datasets import Dataset, Features, List, Value
    folder = Path(folder)
    report = ReadReport() if report is None else report
    rows = _collect_rows(folder, labels, language, report)
    counts = Counter(label for row in rows["train"] for label in row["labels"])
    frequent = {label: count for label, count in counts.most_common() if count >= min_count}
    if not frequent:
        raise ValueError(f"{folder}: no article with {labels} labels in train of {language}: {report}; crawl more")
    features = Features(dict.fromkeys(_COLUMNS, Value("string")) | {"labels": List(Value("string"))})
    documents = {}
    for split in SPLITS:
        labelled = []
        for row in rows[split]:
            row["labels"] = [label for label in row["labels"] if label in frequent]
            if row["labels"]:
                labelled.append(row)
            else:
                report.leave_out("without labels", row["id"])
        report.records += len(labelled)
        columns = {name: [row[name] for row in labelled] for name in _COLUMNS}
        documents[split] = Dataset.from_dict(columns, features=features)
    label_set = LabelSet(
        Label(label, label.removeprefix(f"{language}:"), language=language, seen=True, count=count)
        for label, count in frequent.items()
    )
    return documents, label_set


def _collect_rows(folder: Path, labels: str, language: str, report: ReadReport) -> dict[str, list[dict[str, Any]]]:
    lists = read_lists(folder / "lists" / labels, [language])
    rows: dict[str, list[dict[str, Any]]] = {}
    seen: dict[str, str] = {}
    with open_answers(folder) as table:
        for split in ("test", "dev", "train"):
            rows[split] = []
            for url in lists[labels, split, language]:
                final_url, article = _load_article(table, url, report)
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


def _load_article(table: Connection, url: str, report: ReadReport) -> tuple[str, DWArticle | None]:
    answer = table.execute("SELECT final_url, charset, reason, page FROM answers WHERE url = ?", (url,)).fetchone()
    final_url, charset, reason, page = answer or ("", None, "not fetched yet", b"")
    if reason is not None:
        report.leave_out(f"without page: {reason}", url)
        return final_url, None
    report.files += 1
    where = f"{url}: {final_url}"
    try:
        return final_url, parse_dw_page(zlib.decompressobj().decompress(page, MAX_PAGE_BYTES), final_url, charset)
    except zlib.error as error:
        report.problem("damaged page", f"{where}: {error}")
    except UnicodeDecodeError as error:
        report.problem("page not in its charset", f"{where}: byte {error.start:,} is not {error.encoding}")
    except ValueError as error:
        report.leave_out(f"no article: {error}", where)
    return final_url, None


def _resolve_codec(charset: str | None) -> str:
    try:
        name = codecs.lookup(charset or "utf-8").name
    except LookupError:
        name = "utf-8"
    return {"utf-8": "utf-8-sig", "iso8859-1": "cp1252", "ascii": "cp1252"}.get(name, name)  # as browsers do


def _normalize_line(text: str) -> str:
    return " ".join(text.translate({0: None, 0xAD: None, ord(_STAND_IN): "\u200c"}).split())


def _clean_labels(names: list[str]) -> tuple[str, ...]:
    stripped = (name.strip(" ,;|/>»") for name in names)
    return tuple(dict.fromkeys(name for name in stripped if 0 < len(name) <= _MAX_NAME))
