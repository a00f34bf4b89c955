"""The tables of docs/accuracy.md are what `python benchmarks/accuracy.py --table` prints."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from accuracy import tables

ROOT = Path(__file__).parents[1]
RESULTS = json.loads((ROOT / "benchmarks" / "results" / "accuracy.json").read_text(encoding="utf-8"))
TABLES = tables(RESULTS)


@pytest.mark.parametrize("title", TABLES)
def test_the_page_has_the_figures_that_were_measured(title):
    assert f"## {title}\n\n{TABLES[title]}\n" in (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")


def test_the_page_has_no_other_table():
    text = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    assert text.count("\n## ") == len(TABLES)
