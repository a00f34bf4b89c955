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
from obvious_sets import Task  # noqa: E402

from hf_gile import LabelScoringPipeline  # noqa: E402
from hf_gile.serving import Correction  # noqa: E402

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


def test_a_label_gains_from_corrections_in_the_benchmark(make_model, label_set, monkeypatch, tmp_path):
    model, processor = make_model()
    LabelScoringPipeline(model=model, processor=processor).save_pretrained(tmp_path / "runs" / "auto" / "model")
    monkeypatch.setattr(corrections, "NUMBERS", (0, 2))
    texts = ["Infants were fed with milk.", "Iron in blood."]
    task = Task("clinc150", {"test": texts}, {"test": [[0], [1]]}, label_set)
    taught = [Correction(text, (label_set[column].id,)) for column, text in enumerate(texts)]
    rows = corrections.measure(task, taught, tmp_path, tmp_path / "journal")
    assert [row["corrections"] for row in rows] == [0, 2]
    assert rows[1]["all"] == 1
