"""Articles of Deutsche Welle out of their web pages.

The text is what trafilatura, a kept library, takes for the text of a page. Title, teaser and labels come from the data
for search engines (JSON-LD), or else from where the site shows them:

    <script type="application/ld+json">{"@type": "NewsArticle", "headline": ..., "keywords": ..., ...}</script>
    <article><header><div data-tracking-name="content-detail-kicker"><span>SECTION</span>...</div>
    <h1>TITLE</h1><p class="teaser-text">...</p></header> ... <p>TEXT</p> ... </article>
    <aside data-tracking-name="related-topics"><a>KEYWORD</a>...</aside>

The site could not be asked while this was written: the form is the one that public scrapers of it rely on. So try it on
some hundred pages first, and look at what is left out. Sections are the "general" labels of the published data,
keywords the "specific" ones.
"""

from __future__ import annotations

import codecs
import html as entities
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ...extras import needs_extra

if TYPE_CHECKING:
    from lxml.html import HtmlElement

_LONGEST_NAME = 100  # of a label, in characters: what is longer is no name
_TEASER = "//header//p[contains(@class, 'teaser-text')]"
_SECTIONS = "//*[@data-tracking-name='content-detail-kicker']/span"
_KEYWORDS = "//aside[@data-tracking-name='related-topics']//a"
# trafilatura drops the joiners that Persian words are written with; this stands in for them.
_JOINER, _STAND_IN = re.compile("\u200c|&zwnj;|&#8204;|&#x200c;", re.IGNORECASE), "\ufffc"
# Within an article, but not of its text; last, what consists mostly of a link to another article.
_ASIDES = [
    "//h1 | //header | //footer | //nav | //aside | //figure | //blockquote[contains(@class, 'tweet')]",
    "//*[contains(@class, 'advertisement') or contains(@class, 'embed') or contains(@data-tracking-name, 'sharing')]",
    "//*[self::p or self::li][string-length(normalize-space()) < 2 * string-length(normalize-space(.//a[1]))]",
]


@dataclass(frozen=True)
class DWArticle:
    """One article.

    Args:
        title: The headline.
        paragraphs: The text, the teaser first; without captions, links to other articles and the like.
        sections: The sections of the site it stands in, the "general" labels.
        keywords: The "specific" labels.
        language: The code of its language, such as `en`.
    """

    title: str
    paragraphs: tuple[str, ...]
    sections: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    language: str | None = None

    @property
    def text(self) -> str:
        """Title and paragraphs, one on each line."""
        return "\n".join((self.title, *self.paragraphs))


def parse_dw_page(html: bytes, url: str = "", charset: str | None = None) -> DWArticle:
    """Reads the article of a page.

    Args:
        html: The page.
        url: Its address, which tells articles from galleries.
        charset: As the answer's header declares it; without one that Python knows, UTF-8.

    Returns:
        The article.

    Raises:
        ImportError: If trafilatura is not installed.
        UnicodeDecodeError: If the page is not in its charset.
        ValueError: If the page holds no article; the message is the reason.

    Example:
        >>> page = "<html lang='en'><body><h1>On mice</h1><p>Mice were seen.</p><p>Again.</p></body></html>"
        >>> parse_dw_page(page.encode()).paragraphs
        ('Mice were seen.', 'Again.')
    """
    with needs_extra("data", "reading web pages"):
        import trafilatura
    kind = re.search(r"/([a-z]+)-\d+/?$", urlsplit(url).path)
    if kind and kind[1] != "a":
        raise ValueError(f"the address is not of an article but of {kind[1]}-NUMBER")
    text = _JOINER.sub(_STAND_IN, html.decode(_codec(charset)).replace("\0", ""))
    page = trafilatura.load_html(text)
    if page is None:
        raise ValueError("empty page")
    data = _linked_data(page)
    title = re.sub(r"\s*\|.*\bDW\b.*", "", _plain(data.get("headline")) or next(_texts(page, "//h1 | //title"), ""))
    if not title:
        raise ValueError("no title")
    if "headline" not in data and re.match(r"(?:error\s*)?(?:404|410|5\d\d)\b", title, re.IGNORECASE):
        raise ValueError("error page")
    teaser = next(_texts(page, _TEASER), "") or _plain(data.get("description"))
    sections = _names(data.get("articleSection")) or [*_texts(page, _SECTIONS)] or _names(data.get("path"))[1:]
    keywords = _names(data.get("keywords"), cut=True) or [*_texts(page, _KEYWORDS)]
    language = _plain(data.get("inLanguage")) or page.get("lang", "")
    body = trafilatura.extract(page, include_comments=False, include_tables=False, prune_xpath=_ASIDES) or ""
    lines = [_one_line(line.removeprefix("- ")) for line in body.splitlines()]
    if not any(lines):
        raise ValueError("no text")
    teaser = "" if teaser in (title, lines[0]) else teaser
    return DWArticle(
        title=title,
        paragraphs=tuple(line for line in (teaser, *lines) if line),
        sections=_labels(sections),
        keywords=_labels(keywords),
        language=language.lower().replace("_", "-").partition("-")[0] or None,
    )


def _codec(charset: str | None) -> str:
    try:
        name = codecs.lookup(charset or "utf-8").name
    except LookupError:
        name = "utf-8"
    return {"utf-8": "utf-8-sig", "iso8859-1": "cp1252", "ascii": "cp1252"}.get(name, name)  # as browsers do


def _one_line(text: str) -> str:
    return " ".join(text.translate({0: None, 0xAD: None, ord(_STAND_IN): "\u200c"}).split())


def _plain(value: object) -> str:
    """The text of a value of JSON, which may hold entities."""
    return _one_line(entities.unescape(value)) if isinstance(value, str) else ""


def _texts(page: HtmlElement, path: str) -> Iterator[str]:
    return filter(None, (_one_line(element.text_content()) for element in page.xpath(path)))


def _labels(names: Iterable[str]) -> tuple[str, ...]:
    stripped = (name.strip(" ,;|/>»") for name in names)
    return tuple(dict.fromkeys(name for name in stripped if 0 < len(name) <= _LONGEST_NAME))


def _linked_data(page: HtmlElement) -> dict[str, Any]:
    """The fields of the article in JSON-LD, and of a path of sections as `path`."""
    fields: dict[str, Any] = {}
    for script in page.xpath("//script[contains(@type, 'ld+json')]"):
        try:
            value = json.loads(script.text or "", strict=False)
        except (ValueError, RecursionError):
            continue  # a page can do without it
        items = [value] if isinstance(value, dict) else value if isinstance(value, list) else []
        graphs = [item["@graph"] for item in items if isinstance(item, dict) and isinstance(item.get("@graph"), list)]
        for item in filter(lambda item: isinstance(item, dict), chain(items, *graphs)):
            kinds = item.get("@type")
            kinds = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if isinstance(kind, str)]
            if any(kind.endswith("Article") for kind in kinds):
                fields = item | fields
            elif "BreadcrumbList" in kinds:
                fields.setdefault("path", item.get("itemListElement"))
    return fields


def _names(value: object, cut: bool = False) -> list[str]:
    """Names out of a text, an object with a name, or a list of these."""
    if isinstance(value, list):
        return [name for one in value if not isinstance(one, list) for name in _names(one, cut)]
    if isinstance(value, dict):
        return _names(value.get("name") or value.get("item"), cut)
    return list(filter(None, re.split("[,،;]", _plain(value)) if cut else [_plain(value)]))
