"""Blocks of code in pages."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def blocks(page, language="python"):
    """Returns the code of a page in a language, block by block."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def run(page, opening, names=None):
    """Runs the block of a page that begins with an opening, and returns the names that it knows then."""
    (block,) = [block for block in blocks(page) if block.startswith(opening)]
    names = {} if names is None else names
    exec(compile(block, page, "exec"), names)
    return names
