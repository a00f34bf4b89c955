"""Tables, pictures and pages of docs/ equal the benchmark results."""

import json
from pathlib import Path

import calibration
import corrections
import gpu
import obvious
import pictures
import pytest
import shortlist
import tags
import torch
import unseen_price
from obvious_sets import Task
from PIL import Image

from hf_gile import LabelScoringPipeline
from hf_gile.serving import Correction

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def read(name):
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def calibration_tables(results):
    return [f"{title}\n\n{table}\n" for title, table in calibration.tables(results).items()]


@pytest.mark.parametrize(
    ("page", "name", "parts"),
    [
        ("docs/calibration.md", "calibration", calibration_tables),
        ("docs/calibration.md", "unseen_price", lambda results: unseen_price.table(results).splitlines()),
        ("docs/service.md", "corrections", lambda results: corrections.table(results).splitlines()),
        ("docs/tags.md", "tags", lambda results: tags.table(results).splitlines()),
        ("README.md", "obvious", lambda results: [obvious.front_table(results)]),
    ],
)
def test_tables_equal_the_benchmark_results(page, name, parts):
    text = (ROOT / page).read_text(encoding="utf-8")
    missing = [part for part in parts(read(name)) if part not in text]
    assert not missing, "\n".join([f"write this into {page}:", *missing])


@pytest.mark.parametrize("benchmark", [obvious, gpu], ids=lambda module: module.__name__)
def test_a_page_equals_the_benchmark_output(benchmark):
    assert benchmark.PAGE.read_text(encoding="utf-8") == benchmark.page(read(benchmark.__name__))


@pytest.mark.parametrize(("show", "title"), pictures.PICTURES.items(), ids=lambda part: getattr(part, "__name__", ""))
def test_a_picture_shows_the_benchmark_results_and_a_page_shows_it(show, title):
    name = show.__name__
    with Image.open(ROOT / "docs" / "pictures" / f"{name}.png") as image:
        shown = image.info["Description"]
    assert shown == pictures.written(show(pictures.read_results())), "run python benchmarks/pictures.py"
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


def test_shortlists_are_measured_for_each_group():
    scores = torch.arange(60.0).expand(2, 60)
    found = shortlist.of_lists(lambda rows: scores[rows], [[59, 0], [45]], num_seen=50)
    shares = {"all": [0.25, 0.75, 0.75], "seen": [0.0, 0.5, 0.5], "unseen": [1.0, 1.0, 1.0]}
    for group, expected in shares.items():
        assert [found.pop(f"{group}_{size}") for size in (10, 20, 50)] == expected
    assert not found
