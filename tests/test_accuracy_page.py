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


def test_the_front_door_has_the_figures_that_were_measured():
    names = {
        "MiniLM cosine": "minilm_cosine",
        "TF-IDF cosine, names and descriptions": "tfidf_described",
        "omikuji, Parabel": "omikuji_parabel",
        "GILE, word attention": "gile_wan",
        "GILE over MiniLM": "gile_minilm",
    }
    for name, system in names.items():
        test = RESULTS["pubmed_mesh"][system]["1"]["test"]
        figures = [test.get(f"{group}average_precision") for group in ("seen_", "unseen_", "")]
        cells = ["-" if figure is None else f"{100 * figure:.2f}" for figure in figures]
        assert f"| {name} | {' | '.join(cells)} |\n" in (ROOT / "README.md").read_text(encoding="utf-8")
