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
import unseen_price  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
COLUMNS = [f"{metric} {group}" for group in ("seen", "unseen") for metric in ("RL", "AvgPr", "OneErr")]


def row(name, figures, last):
    cells = [f"{figures[column]:.2f}" if column in figures else "-" for column in COLUMNS]
    return f"| {' | '.join([name, *cells, last])} |"


def curves_rows():
    results = json.loads((RESULTS / "pubmed_mesh.json").read_text())
    for unit, name in {"linear": "linear", "gile": "gile"}.items():
        means = {metric: value["mean"] for metric, value in results["test_mean"][unit].items()}
        yield row(name, means, f"{results['minutes'][unit]:.1f}")


def training_rows():
    results = json.loads((RESULTS / "what_matters.json").read_text())
    for name, figures in results["settings"].items():
        yield row(name, figures, f"{figures['best_epoch']:.0f}")


def reading_rows():
    for kind, run in json.loads((RESULTS / "reading.json").read_text())["runs"].items():
        cells = [f"{run['rows_per_cpu_s']:,.0f}", f"`{run['bare']}`", f"{run['cpu_of_bare']:.1f}"]
        peaks = [f"{run['peak_mib']:.0f}", f"{run['peak_of_four_times_mib']:.0f}"]
        yield f"| {' | '.join([f'.{kind}', *cells, *peaks])} |"


def cold_start_rows():
    for command, figures in json.loads((RESULTS / "cold_start.json").read_text())["commands"].items():
        yield f"| {command} | {figures['cpu_s']:.1f} | {figures['times_bare']:.2f} |"


def price_rows():
    yield from unseen_price.table(json.loads((RESULTS / "unseen_price.json").read_text())).splitlines()


def correction_rows():
    yield from corrections.table(json.loads((RESULTS / "corrections.json").read_text())).splitlines()


@pytest.mark.parametrize(
    ("file", "rows"),
    [
        ("docs/from_scratch.md", training_rows),
        ("docs/from_scratch.md", curves_rows),
        ("docs/data.md", reading_rows),
        ("docs/cli.md", cold_start_rows),
        ("docs/calibration.md", price_rows),
        ("docs/service.md", correction_rows),
    ],
    ids=["what matters", "curves", "reading", "cold start", "price", "corrections"],
)
def test_tables_equal_the_benchmark_results(file, rows):
    text = (ROOT / file).read_text()
    missing = [line for line in rows() if line not in text]
    assert not missing, "\n".join(["write these rows into " + file, *missing])


def test_ratios_of_the_literal_form_equal_the_benchmark_results():
    results = json.loads((RESULTS / "literal_and_fast.json").read_text())
    text = (ROOT / "docs" / "from_scratch.md").read_text()
    for name, ratio in results["ratios"].items():
        assert f"| {name} | {ratio:.1f} |" in text


@pytest.mark.parametrize(("read", "title"), pictures.PICTURES.items(), ids=lambda part: getattr(part, "__name__", ""))
def test_a_picture_shows_the_benchmark_results_and_a_page_shows_it(read, title):
    name = read.__name__
    with Image.open(ROOT / "docs" / "pictures" / f"{name}.png") as image:
        shown = image.info["Description"]
    assert shown == pictures.written(read(pictures.read_results())), "run python benchmarks/pictures.py"
    page = "README.md" if name == "home" else f"docs/tutorials/{name}.md"
    assert f"pictures/{name}.png)" in (ROOT / page).read_text()
