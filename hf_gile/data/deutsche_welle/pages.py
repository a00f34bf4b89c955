"""Articles of Deutsche Welle out of their web pages.

The text is what trafilatura, a kept library, takes for the text of a page; all else stands where the site shows it:

    <html lang="LANGUAGE"> ... <article><header><div data-tracking-name="content-detail-kicker"><span>SECTION</span>...
    </div><h1>TITLE</h1><p class="teaser-text">...</p></header> ... <p>TEXT</p> ... </article>
    <aside data-tracking-name="related-topics"><a>KEYWORD</a>...</aside>

The site could not be asked while this was written: the form is the one that public scrapers of it rely on. So try it on
some hundred pages first, and look at what is left out. Sections are the "general" labels of the published data,
keywords the "specific" ones.
"""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple
from urllib.parse import urlsplit

from ...extras import needs_extra

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


class DWArticle(NamedTuple):
    """An article."""

    title: str
    paragraphs: tuple[str, ...]  # the teaser first; without captions, links to other articles and the like
    sections: tuple[str, ...]  # the "general" labels
    keywords: tuple[str, ...]  # the "specific" labels
    language: str | None  # its code, such as en

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

    Raises:
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
    page = trafilatura.load_html(_JOINER.sub(_STAND_IN, html.decode(_codec(charset)).replace("\0", "")))
    if page is None:
        raise ValueError("empty page")

    def shown(path: str) -> list[str]:
        return [text for text in (_one_line(element.text_content()) for element in page.xpath(path)) if text]

    # Before the text, because trafilatura takes out of the page what it leaves out.
    sections, keywords, teasers = _labels(shown(_SECTIONS)), _labels(shown(_KEYWORDS)), shown(_TEASER)[:1]
    title = re.sub(r"\s*\|.*\bDW\b.*", "", next(iter(shown("//h1") or shown("//title")), ""))
    if not title:
        raise ValueError("no title")
    if not sections and re.match(r"(?:error\s*)?(?:404|410|5\d\d)\b", title, re.IGNORECASE):
        raise ValueError("error page")
    body = trafilatura.extract(page, include_comments=False, include_tables=False, prune_xpath=_ASIDES) or ""
    lines = [line for line in (_one_line(line.removeprefix("- ")) for line in body.splitlines()) if line]
    if not lines:
        raise ValueError("no text")
    teaser = [text for text in teasers if text not in (title, lines[0])]
    language = page.get("lang", "").lower().replace("_", "-").partition("-")[0] or None
    return DWArticle(title, (*teaser, *lines), sections, keywords, language)


def _codec(charset: str | None) -> str:
    try:
        name = codecs.lookup(charset or "utf-8").name
    except LookupError:
        name = "utf-8"
    return {"utf-8": "utf-8-sig", "iso8859-1": "cp1252", "ascii": "cp1252"}.get(name, name)  # as browsers do


def _one_line(text: str) -> str:
    return " ".join(text.translate({0: None, 0xAD: None, ord(_STAND_IN): "\u200c"}).split())


def _labels(names: list[str]) -> tuple[str, ...]:
    stripped = (name.strip(" ,;|/>»") for name in names)
    return tuple(dict.fromkeys(name for name in stripped if 0 < len(name) <= _LONGEST_NAME))
