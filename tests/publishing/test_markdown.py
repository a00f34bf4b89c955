"""Untrusted texts on generated pages."""

import ast
import html
import re
from itertools import product

from markdown_it import MarkdownIt

from hf_gile.publishing.markdown import escaped, one_line, python_text, shortened

HOSTILE = [
    "a | b || c",
    "<script>alert(1)</script><img src=x onerror=y>",
    "**bold** _it_ __b__ ~~gone~~ `code` ``` fence",
    "[link](javascript:alert(1)) ![image](x.png) <https://example.org>",
    "# heading",
    "1. list",
    "- list",
    "= rule",
    "> quotation",
    "&lt;b&gt; &amp; &#65;",
    "back\\slash \\| \\*",
    "line\nbreak\r\nand\ttab\u2028end",
    "$x^2$ $$y$$",
    "ends with a backslash\\",
    "http://example.org www.example.org me@example.org @somebody #12 :tada:",
    "{{ 7 * 7 }} {% raw %}",
]


def visible_text(markdown):
    """Returns the visible text of a single paragraph."""
    page = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(markdown)
    inner = re.fullmatch(r"<p>(.*)</p>\n", page, flags=re.DOTALL)
    assert inner, page
    assert "<" not in inner[1], page
    return html.unescape(inner[1])


def test_escaped_text_is_rendered_literally_and_in_one_cell_of_a_table():
    markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
    for text in HOSTILE:
        assert visible_text(escaped(text)) == " ".join(text.split())
        page = markdown.render(f"| a | b |\n| :-- | --: |\n| {escaped(text)} | next |\n")
        cells = re.findall(r"<td[^>]*>(.*?)</td>", page, flags=re.DOTALL)
        assert [html.unescape(cell) for cell in cells] == [" ".join(text.split()), "next"]


def test_control_characters_are_removed_and_joining_characters_preserved():
    assert one_line("abc\u202edef\u2066g\x00h\u200f") == "abcdefgh"
    assert escaped("لب") == "\u2068لب\u2069"
    assert escaped("heart") == "heart"
    assert one_line("a\u200cb \u200d") == "a\u200cb \u200d"
    escaped("broken \ud800 text").encode("utf-8")


def test_a_shortened_text_never_exceeds_the_limit():
    for text, length in product([*HOSTILE, "Donaudampfschifffahrtsgesellschaft", "e\u0301" * 30], (1, 5, 40)):
        cut = shortened(text, length)
        assert len(cut) <= length
        assert cut == one_line(text) or cut.endswith("…")


def test_a_python_literal_evaluates_to_the_text():
    for text in HOSTILE:
        assert ast.literal_eval(python_text(text)) == one_line(text)
        assert "\n" not in python_text(text)
