"""Figures in docs/ equal the benchmark results."""

import json
import sys
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import corrections  # noqa: E402
import pictures  # noqa: E402
import tags  # noqa: E402
import unseen_price  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"


def price_rows():
    yield from unseen_price.table(json.loads((RESULTS / "unseen_price.json").read_text())).splitlines()


def correction_rows():
    yield from corrections.table(json.loads((RESULTS / "corrections.json").read_text())).splitlines()


def tag_rows():
    yield from tags.table(json.loads((RESULTS / "tags.json").read_text())).splitlines()


@pytest.mark.parametrize(
    ("file", "rows"),
    [
        ("docs/calibration.md", price_rows),
        ("docs/service.md", correction_rows),
        ("docs/tags.md", tag_rows),
    ],
    ids=["price", "corrections", "tags"],
)
def test_tables_equal_the_benchmark_results(file, rows):
    text = (ROOT / file).read_text()
    missing = [line for line in rows() if line not in text]
    assert not missing, "\n".join(["write these rows into " + file, *missing])


@pytest.mark.parametrize(("read", "title"), pictures.PICTURES.items(), ids=lambda part: getattr(part, "__name__", ""))
def test_a_picture_shows_the_benchmark_results_and_a_page_shows_it(read, title):
    name = read.__name__
    with Image.open(ROOT / "docs" / "pictures" / f"{name}.png") as image:
        shown = image.info["Description"]
    assert shown == pictures.written(read(pictures.read_results())), "run python benchmarks/pictures.py"
    page = {"home": "README.md", "speed": "docs/scale_out.md"}.get(name, f"docs/tutorials/{name}.md")
    assert f"pictures/{name}.png)" in (ROOT / page).read_text()
