"""The tables of docs/calibration.md equal the output of `python benchmarks/calibration.py --table`."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from calibration import tables

ROOT = Path(__file__).parents[1]
TABLES = tables(json.loads((ROOT / "benchmarks" / "results" / "calibration.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize("title", TABLES)
def test_the_page_shows_the_measured_tables(title):
    assert f"{title}\n\n{TABLES[title]}\n" in (ROOT / "docs" / "calibration.md").read_text(encoding="utf-8")
