"""Text out of web pages: bytes to characters, characters to elements, elements to paragraphs."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...extras import needs_extra

if TYPE_CHECKING:
    from lxml.html import HtmlElement

_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_META = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)


def decoded_html(html: bytes, charset: str | None = None) -> str:
    r"""Returns the characters of a page.

    Args:
        html: The page.
        charset: As the answer's header declares it. A byte order mark goes before it, a `<meta>` of the page behind it,
            then comes UTF-8. A charset that nobody knows is passed over; Latin-1 is read as windows-1252, as browsers
            do.

    Returns:
        The text.

    Raises:
        UnicodeDecodeError: If a byte is not of that charset.

    Example:
        >>> decoded_html(b'<meta charset="iso-8859-1"><p>Stra\xdfe')
        '<meta charset="iso-8859-1"><p>Straße'
    """
    for mark, codec in _MARKS.items():
        if html.startswith(mark):
            return html[len(mark) :].decode(codec)
    declared = _META.search(html[:4096])
    for name in (charset, declared[1].decode("ascii") if declared else None):
        try:
            codec = codecs.lookup(name).name if name else ""
        except LookupError:
            continue
        if codec in ("iso8859-1", "ascii"):
            codec = "cp1252"
        if codec and not codec.startswith("utf-16"):  # a page that says so in ASCII is not in UTF-16
            return html.decode(codec)
    return html.decode("utf-8")


def html_tree(text: str) -> HtmlElement:
    """Parses a page or a part of one, as browsers do: nothing is malformed.

    Args:
        text: Its characters.

    Returns:
        The root element.

    Raises:
        ImportError: If lxml is not installed.
        ValueError: If there is nothing in it.
    """
    with needs_extra("data", "reading web pages"):
        from lxml import etree
        from lxml.html import HTMLParser, document_fromstring
    # As bytes: lxml refuses a text that declares an encoding. NUL would end it.
    parser = HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    try:
        return document_fromstring(text.replace("\0", "").encode("utf-8", "replace"), parser=parser)
    except etree.ParserError:
        raise ValueError("empty page") from None


def one_line(text: str) -> str:
    r"""Joins the words of a text by single spaces, and puts together what soft hyphens divide.

    Args:
        text: Any text.

    Returns:
        One line.

    Example:
        >>> one_line(" Donau\xaddampf \n schiff ")
        'Donaudampf schiff'
    """
    return " ".join(text.replace("\xad", "").split())


_BLOCKS = {
    "address", "article", "aside", "blockquote", "body", "br", "dd", "div", "dl", "dt", "figure", "footer", "form",
    "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "iframe", "li", "main", "nav", "ol", "p", "pre", "section",
    "table", "td", "th", "tr", "ul", "video",
}  # fmt: skip
_ASIDES = {
    "aside", "audio", "button", "figcaption", "figure", "footer", "form", "header", "iframe", "nav", "noscript",
    "object", "picture", "script", "select", "style", "svg", "template", "video",
}  # fmt: skip
_ASIDE_NAMES = re.compile(
    r"(?:^|[\s_-])(?:advert\w*|author\S*|caption|comments?|copyright|embed|feedback\S*|gallery|linkList|newsletter|picBox"
    r"|related\S*|shar(?:e|ing)\S*|smallList|social\S*|teaser\S*|tweet|vjs-\S*|widget)(?:$|\s)",
    re.IGNORECASE,
)
# What a paragraph begins with that only leads to another article, in the eight languages of Deutsche Welle.
_LEADS = re.compile(
    r"(?:read (?:more|also)|also read|see also|watch|more on|edited by"
    r"|mehr (?:dazu|zum thema|lesen)|lesen sie|siehe auch"
    r"|leer más|lea (?:también|más)|lee también|vea también"
    r"|leia (?:mais|também)|ve(?:r|ja) também"
    r"|читайте (?:также|ещё|еще)|смотрите также|подробнее"
    r"|читайте (?:також|ще)|дивіться також|докладніше"
    r"|[اإ]قرأ (?:أيض\w*|المزيد)|شاهد أيض\w*|(?:همچنین |بیشتر )بخوانید)([^:]{0,40}:)?",
    re.IGNORECASE,
)
# Of a report: ab/cd (dpa, afp).
_SIGNATURE = re.compile(
    r"[\w/]{2,20} ?\([^()]*\b(?:afp|ap|dapd?|dpa|efe|epd|interfax|kna|lusa|reuters|rtrd?|sid)\b[^()]*\)", re.IGNORECASE
)


def paragraphs(body: HtmlElement) -> list[str]:
    """Returns the lines of text of an element, without what is not the text's own.

    That is: captions, figures, forms, scripts, advertisement, buttons to share, teasers, paragraphs that consist of
    links or only lead to another article, and signatures of news agencies.

    Args:
        body: The element.

    Returns:
        Lines that are not empty.

    Example:
        >>> page = "<p>Mice&nbsp;were <b>seen</b>.</p><p>Read more: <a>On rats</a></p><figure>A mouse</figure>Again."
        >>> paragraphs(html_tree(page))
        ['Mice were seen.', 'Again.']
    """
    return [line for line in _lines(body) if line]


def _lines(body: HtmlElement) -> Iterator[str]:
    from lxml import etree

    pieces: list[str] = []
    own = links = 0  # letters and digits that are not in a link; links that are open

    def add(text: str | None) -> None:
        nonlocal own
        pieces.append(text or "")
        own += 0 if links else _letters(text or "")

    def line() -> str:
        nonlocal own
        text = one_line("".join(pieces))
        lead = _LEADS.match(text)
        only_leads = lead is not None and (lead[1] or _letters(lead[0]) >= own)
        aside = own == 0 or only_leads or _SIGNATURE.fullmatch(text)
        pieces.clear()
        own = 0
        return "" if aside else text

    walk = etree.iterwalk(body, events=("start", "end"))
    for event, element in walk:
        if element.tag in _BLOCKS:
            yield line()
        links += (element.tag == "a") * (1 if event == "start" else -1)
        if event == "end":
            add(element.tail if element is not body else "")
        elif element is not body and _is_aside(element):
            walk.skip_subtree()
        else:
            add(element.text)
    yield line()


def _letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def _is_aside(element: HtmlElement) -> bool:
    names = " ".join(element.get(name, "") for name in ("class", "id", "data-tracking-name"))
    return element.tag in _ASIDES or bool(_ASIDE_NAMES.search(names))
