"""The prose of code and pages avoids phrases that readers stumble over."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

import hf_gile

ROOT = Path(hf_gile.__file__).parent.parent
AVOIDED = {
    r"whoever": "the caller, the reader, the user",
    r"(to|can|cannot|could) be had": "available",
    r"mend(s|ed|ing)?": "fix, help",
    r"anew": "again",
    r"in vain": "without effect",
    r"all the same": "still",
    r"told apart": "distinguished",
    r"sets? apart": "isolated, held out",
    r"in their places?": "instead",
    r"(is|are) none": "is missing, is empty",
    r"leads? nowhere": "is broken",
    r"not finite": "NaN or infinity",
    r"(for )?want of": "without",
    r"hitherto|thereof|whereof|whilst|amongst|nought|aught": "so far, of it, while, among, nothing",
}
PATTERN = re.compile(rf"\b({'|'.join(AVOIDED)})\b")


def prose_of_code(path):
    """Yields the line number and text of each string and comment."""
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def prose_of_page(path):
    """Yields the text of a page with its code blocks blanked, so that line numbers stay."""
    text = path.read_text(encoding="utf-8")
    yield 1, re.sub(r"```.*?```", lambda block: "\n" * block[0].count("\n"), text, flags=re.DOTALL)


def avoided_phrases(pieces):
    return [
        (line + text.count("\n", 0, hit.start()), hit[0]) for line, text in pieces for hit in PATTERN.finditer(text)
    ]


CODE = [path for folder in ("hf_gile", "hf_gile_cli", "recipes") for path in (ROOT / folder).rglob("*.py")]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


@pytest.mark.parametrize(("paths", "prose"), [(CODE, prose_of_code), (PAGES, prose_of_page)], ids=["code", "pages"])
def test_avoided_phrases_are_absent(paths, prose):
    found = [
        f"{path.relative_to(ROOT)}:{line}: {phrase}" for path in paths for line, phrase in avoided_phrases(prose(path))
    ]
    assert not found, f"write plainer English: {found}, for example {AVOIDED}"
