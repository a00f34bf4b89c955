"""Escapes untrusted texts for a page: a single, shortened line without effect in Markdown, HTML or a terminal."""

import json
import re
import unicodedata

# Characters with a meaning in Markdown, its extensions on the Hub (tables, math, mentions, issue numbers) or HTML.
_SIGNS = re.compile(r"[&<>|`*_\[\]\\#~$!@]|:(?=//|\w+:)|(?<=www)\.")
_DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def one_line(text: str) -> str:
    r"""Returns a text in one line, without invisible characters and direction controls.

    Example:
        >>> one_line("Heart\n\tFailure\u202e ")
        'Heart Failure'
    """
    signs = (sign for sign in " ".join(text.split()) if sign not in _DIRECTIONS)
    return " ".join("".join(sign for sign in signs if unicodedata.category(sign) not in ("Cc", "Cs", "Co")).split())


def shortened(text: str, length: int) -> str:
    """Returns a text in one line of at most `length` characters, cut at the end of a word, with an ellipsis.

    Example:
        >>> shortened("The failing heart pumps less blood.", 20)
        'The failing heart…'
    """
    line = one_line(text)
    if len(line) <= length:
        return line
    cut = line[:length].rfind(" ")
    if cut < length // 2:  # a long word, or a script without spaces
        cut = length - 1
        while cut > 1 and unicodedata.combining(line[cut]):
            cut -= 1
    return line[:cut].rstrip(" ,;:.") + "…"


def escaped(text: str, length: int | None = None) -> str:
    r"""Escapes an untrusted text as Markdown that shows it literally, in one line.

    Args:
        text: Any text.
        length: Maximum number of characters shown; by default all.

    Returns:
        The text, with entities for characters that have a meaning in Markdown or HTML. Text written from right to left
        is isolated, so that it does not reorder the text around it.

    Example:
        >>> print(escaped("a|b <b>*c*</b>\n`d`"))
        a&#124;b &#60;b&#62;&#42;c&#42;&#60;/b&#62; &#96;d&#96;
    """
    line = one_line(text)
    if length is not None:
        line = shortened(text, length)
    safe = _SIGNS.sub(lambda sign: f"&#{ord(sign[0])};", line)
    safe = re.sub(r"^(\d*)([-+=.)])", lambda start: f"{start[1]}&#{ord(start[2])};", safe)
    if any(unicodedata.bidirectional(sign) in ("R", "AL") for sign in line):
        return f"\u2068{safe}\u2069"
    return safe


def python_text(text: str) -> str:
    r"""Returns an untrusted text as a literal for a Python program on the page, in one line.

    Example:
        >>> print(python_text('the "heart"\n'))
        "the \"heart\""
    """
    return json.dumps(one_line(text), ensure_ascii=False)
