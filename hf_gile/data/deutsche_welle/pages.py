"""Articles of Deutsche Welle out of their web pages, in the forms that the site has had.

    today, data        <script type="application/ld+json">{"@type": "NewsArticle", "headline": ..., ...}
                       <script>window.__APP_STATE__ = {...{"content": {"__typename": "Article", "title": ...,
                           "teaser": ..., "text": "<p>...", "thematicFocusCategory": {"name": ...},
                           "relatedAutoTopics": [{"name": ...}], "contentDate": ...}}}</script>
    today, page        <header><div data-tracking-name="content-detail-kicker"><span>SECTION</span>...</div>
                       <h1>TITLE</h1><p class="teaser-text">...</p></header>
                       <div data-tracking-name="rich-text" class="rich-text"><p>...</p></div>
                       <aside data-tracking-name="related-topics"><a>KEYWORD</a>...</aside>
    until about 2022   <div id="navPath"><a>home</a><a>SECTION</a>...</div> <h1>TITLE</h1> <p class="intro">...</p>
                       <div class="longText"><p>...</p></div>
                       <ul class="smallList"><li><strong>Keywords</strong> <a>KEYWORD</a>...</li></ul>

The site could not be asked while this was written: the forms are those that public scrapers of it rely on, and the
tests are pages made up after them. So try it on some hundred pages first, and look at what is left out. Where the
descriptions left doubt this reader is tolerant: other names of the same thing are tried, the same data is also looked
for in `<script id="__NEXT_DATA__">` and the like, and what one form lacks is taken from another. Sections are the
"general" labels of the published data, keywords the "specific" ones.
"""

from __future__ import annotations

import html as entities
import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .web_text import decoded_html, html_tree, one_line, paragraphs

if TYPE_CHECKING:
    from lxml.html import HtmlElement

_LONGEST_NAME = 100  # of a label, in characters: what is longer is no name


@dataclass(frozen=True)
class DWArticle:
    """One article.

    Args:
        url: Its address.
        title: The headline.
        paragraphs: The text, the teaser first; without captions, links to other articles and the like.
        categories: The sections of the site it stands in, the "general" labels.
        keywords: The "specific" labels.
        date: When it appeared, as the page says; `2017-03-31` where it says 31.03.2017.
        language: The code of its language, such as `en`.
    """

    url: str
    title: str
    paragraphs: tuple[str, ...]
    categories: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    date: str | None = None
    language: str | None = None

    @property
    def text(self) -> str:
        """Title and paragraphs, one on each line."""
        return "\n".join((self.title, *self.paragraphs))


@dataclass
class _Form:
    """What one form of the page says; empty where it says nothing."""

    kind: str = ""
    title: str = ""
    teaser: str = ""
    paragraphs: list[str] = field(default_factory=list)
    categories: list[str] = field(default_factory=list)
    keywords: list[str] = field(default_factory=list)
    date: str = ""
    language: str = ""


def parse_dw_page(html: bytes, url: str = "", charset: str | None = None) -> DWArticle:
    """Reads the article of a page.

    Each field is taken from the first form that has it: data for search engines (JSON-LD), data of the site's own
    program, the page itself. The text is taken from JSON-LD last, which has no paragraphs.

    Args:
        html: The page.
        url: Its address, which tells articles from galleries.
        charset: As the answer's header declares it; a byte order mark goes before, a `<meta>` behind, then UTF-8.

    Returns:
        The article.

    Raises:
        ImportError: If lxml is not installed.
        UnicodeDecodeError: If the page is not in its charset.
        ValueError: If the page holds no article; the message is the reason.

    Example:
        >>> page = '<html lang="en"><h1>On mice</h1><div class="longText"><p>Mice were seen.</p></div></html>'
        >>> parse_dw_page(page.encode()).paragraphs
        ('Mice were seen.',)
    """
    page = html_tree(decoded_html(html, charset))
    data, program, markup = _linked_data(page), _program_data(page, url), _markup(page)
    forms = (data, program, markup)
    kind = _kind_of(url) or program.kind or data.kind
    if kind not in ("", "article"):
        raise ValueError(kind)
    title = re.sub(r"\s*\|.*\bDW\b.*", "", next((form.title for form in forms if form.title), ""))
    body = next((form.paragraphs for form in (program, markup, data) if form.paragraphs), [])
    if not title:
        raise ValueError("no title")
    if not body:
        raise ValueError("no text")
    if data.kind != "article" and re.match(r"(?:error\s*)?(?:404|410|5\d\d)\b", title, re.IGNORECASE):
        raise ValueError("error page")
    teaser = next((form.teaser for form in forms if form.teaser), "")
    language = next((form.language for form in forms if form.language), "")
    return DWArticle(
        url=url,
        title=title,
        paragraphs=tuple(body if teaser in ("", title, body[0]) else (teaser, *body)),
        categories=tuple(_names(next((form.categories for form in forms if form.categories), []))),
        keywords=tuple(_names(next((form.keywords for form in forms if form.keywords), []))),
        date=next((form.date for form in forms if form.date), None),
        language=language.lower().replace("_", "-").partition("-")[0] or None,
    )


# What the last part of an address begins with, before a number: a-77538843 is an article.
_KINDS = {
    "a": "article",
    "av": "video",
    "video": "video",
    "audio": "audio",
    "g": "gallery",
    "live": "live blog",
    "program": "programme",
    "person": "author",
    "s": "section",
    "st": "section",
    "t": "topic",
}
_TYPES = {
    "Article": "article",
    "ImageGallery": "gallery",
    "VideoObject": "video",
    "Video": "video",
    "AudioObject": "audio",
    "Audio": "audio",
    "LiveBlogPosting": "live blog",
    "Liveblog": "live blog",
}


def _kind_of(url: str) -> str:
    found = re.search(r"/([a-z]+)-\d+/?$", urlsplit(url).path)
    return _KINDS.get(found[1], "") if found else ""


def _plain(value: Any) -> str:
    """The text of a value of JSON, which may hold entities."""
    return one_line(entities.unescape(value)) if isinstance(value, str) else ""


def _names(values: Iterable[str]) -> list[str]:
    """Names as they come, each once."""
    found: dict[str, str] = {}
    for value in values:
        name = one_line(value).strip(" ,;|/>»")
        if 0 < len(name) <= _LONGEST_NAME:
            found.setdefault(name.casefold(), name)
    return list(found.values())


def _lines(text: Any) -> list[str]:
    """The paragraphs of a text of JSON, which may be HTML."""
    if not isinstance(text, str) or not text.strip():
        return []
    if re.search(r"<(?:p|br|div|h\d)\b", text, re.IGNORECASE):
        return paragraphs(html_tree(text))
    return list(filter(None, map(_plain, text.splitlines())))


# JSON-LD


def _linked_data(page: HtmlElement) -> _Form:
    form = _Form()
    for script in page.iter("script"):
        if "ld+json" not in script.get("type", ""):
            continue
        for item in _items(_json(script.text or "")):
            types = item.get("@type")
            types = [one for one in (types if isinstance(types, list) else [types]) if isinstance(one, str)]
            if any(one.endswith("Article") for one in types) and form.kind != "article":
                form.kind = "article"
                form.title = _plain(item.get("headline")) or _plain(item.get("name"))
                form.teaser = " ".join(_lines(item.get("description")))
                form.paragraphs = _lines(item.get("articleBody"))
                form.categories = _listed(item.get("articleSection")) or form.categories
                form.keywords = _listed(item.get("keywords"), cut=True)
                form.date = _plain(item.get("datePublished"))
                form.language = _plain(item.get("inLanguage"))
            elif "BreadcrumbList" in types:
                # Home is the first of them.
                form.categories = form.categories or _listed(item.get("itemListElement"))[1:]
            elif not form.kind:
                form.kind = next((_TYPES[one] for one in types if one in _TYPES), "")
    return form


def _items(value: Any) -> Iterator[dict[str, Any]]:
    """The objects of JSON-LD: alone, in a list, or in a @graph."""
    if isinstance(value, dict):
        yield value
        value = value.get("@graph")
    for item in value if isinstance(value, list) else []:
        if isinstance(item, dict):
            yield item


def _listed(value: Any, cut: bool = False) -> list[str]:
    """Names out of a text, an object with a name, or a list of these."""
    if isinstance(value, list):
        return list(chain.from_iterable(_listed(one, cut) for one in value if not isinstance(one, list)))
    if isinstance(value, dict):
        return _listed(value.get("name") or value.get("item"))
    return _cut(_plain(value)) if cut else [_plain(value)] if _plain(value) else []


def _cut(text: str) -> list[str]:
    return [name for name in re.split("[,،;]", text) if name.strip()]


def _json(text: str) -> Any:
    """A value of JSON; None for what is none, since a page can do without it."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


# The data of the site's program

_TITLE_KEYS = ("title", "headline", "name")
_CATEGORY_KEYS = ("thematicFocusCategory", "thematicFocusCollection", "category", "categories", "navigations")


def _program_data(page: HtmlElement, url: str) -> _Form:
    number = re.search(r"-(\d+)/?$", urlsplit(url).path)
    best: dict[str, Any] = {}
    best_rank = (False, False, 0)
    for item in chain.from_iterable(map(_objects, _states(page))):
        text = _first(item, "text", "longText", "body", "articleBody")
        if isinstance(text, str) and _plain(_first(item, *_TITLE_KEYS)):
            own = number is not None and str(item.get("id")) == number[1]
            rank = (own, item.get("__typename") == "Article", len(text))
            if rank > best_rank:
                best, best_rank = item, rank
    return _Form(
        kind=_TYPES.get(str(best.get("__typename")), ""),
        title=_plain(_first(best, *_TITLE_KEYS)),
        teaser=" ".join(_lines(_first(best, "teaser", "shortTeaser", "intro", "description"))),
        paragraphs=_lines(_first(best, "text", "longText", "body", "articleBody")),
        categories=_listed(_first(best, *_CATEGORY_KEYS)),
        keywords=_listed(_first(best, "keywords", "relatedAutoTopics", "autoTopics", "tags"), cut=True),
        date=_plain(_first(best, "contentDate", "firstPublicationDate", "datePublished", "publicationDate")),
        language=_plain(_first(best, "languageCode", "inLanguage", "language")),
    )


def _first(item: dict[str, Any], *keys: str) -> Any:
    return next((item[key] for key in keys if item.get(key)), None)


def _states(page: HtmlElement) -> Iterator[Any]:
    for script in page.iter("script"):
        text = script.text or ""
        if script.get("id") == "__NEXT_DATA__":
            yield _json(text)
        elif (start := re.search(r"window\.__\w+__\s*=\s*(?=[{\[])", text)) is not None:
            try:
                yield json.JSONDecoder(strict=False).raw_decode(text, start.end())[0]
            except (ValueError, RecursionError):
                continue


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """All objects within a value, the outer ones first."""
    waiting = deque([value])
    while waiting:
        one = waiting.popleft()
        if isinstance(one, dict):
            yield one
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)


# The page itself

_KEYWORDS = {
    "keywords", "schlagwörter", "palabras clave", "palavras-chave", "ключевые слова", "ключові слова",
    "كلمات مفتاحية", "الكلمات المفتاحية", "کلیدواژه", "کلیدواژه‌ها", "کلیدواژه ها",  # noqa: RUF001
}  # fmt: skip
_DATES = {"date", "datum", "fecha", "data", "дата", "تاريخ", "التاريخ", "تاریخ"}


def _has(name: str) -> str:
    return f"contains(concat(' ', normalize-space(@class), ' '), ' {name} ')"


_TITLES = ("//article//header//h1", f"//*[{_has('col3')}]//h1", "//h1")
_TEASERS = (f"//header//p[{_has('teaser-text')}]", "//article//header//p", f"//p[{_has('intro')}]")
_BODIES = (
    f"//div[@data-tracking-name='rich-text' or {_has('rich-text')}]",
    f"//div[{_has('longText')}]",
    "//*[@itemprop='articleBody']",
    "//article",
)
_SECTIONS = ("//*[@data-tracking-name='content-detail-kicker']/span", "(//*[@id='navPath']//a)[position() > 1]")
_TOPICS = ("//aside[@data-tracking-name='related-topics']//a",)


def _markup(page: HtmlElement) -> _Form:
    def texts(paths: Iterable[str]) -> list[str]:
        """The texts at the first path where there are any."""
        found = ([one_line(one.text_content()) for one in page.xpath(path)] for path in paths)
        return next((list(filter(None, one)) for one in found if any(one)), [])

    def meta(*names: str) -> str:
        for name in names:
            for one in page.xpath("//meta[@name=$name or @property=$name]", name=name):
                if text := one_line(one.get("content") or one.get("value") or ""):
                    return text
        return ""

    keywords, dates = _labelled(page, _KEYWORDS), _labelled(page, _DATES)
    day = re.fullmatch(r"(\d\d?)\.(\d\d?)\.(\d{4})", "".join(dates))
    return _Form(
        title=next(iter(texts(_TITLES)), "") or meta("og:title"),
        teaser=next(iter(texts(_TEASERS)), ""),
        paragraphs=_body(page),
        categories=texts(_SECTIONS),
        keywords=texts(_TOPICS) or keywords or _cut(meta("keywords", "news_keywords")),
        date=f"{day[3]}-{int(day[2]):02}-{int(day[1]):02}" if day else meta("date", "article:published_time"),
        language=page.get("lang") or "",
    )


def _body(page: HtmlElement) -> list[str]:
    for path in _BODIES:
        found = page.xpath(path)
        outer = [one for one in found if not any(parent in found for parent in one.iterancestors())]
        lines = list(chain.from_iterable(map(paragraphs, outer)))
        if lines:
            return lines
    return []


def _labelled(page: HtmlElement, labels: set[str]) -> list[str]:
    """What an item of the old form's list says: `<li><strong>Keywords</strong> <a>mice</a>, <a>rats</a></li>`."""
    for item in page.xpath("//li[strong]"):
        label = one_line(item.find("strong").text_content())
        if label.rstrip(" :").casefold() in labels:
            rest = one_line(item.text_content()).removeprefix(label)
            return [one_line(link.text_content()) for link in item.iter("a")] or _cut(rest.strip(" :"))
    return []
