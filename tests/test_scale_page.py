"""The tables of docs/scale.md equal the benchmark results."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def read(name):
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())


def number(value):
    """Three digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def scoring():
    for labels, figures in read("scoring")["runs"].items():
        ways = ["LabelIndex.scores", "bare product and topk", "LabelIndex.top_k", "formula as printed"]
        cells = [f"{figures[way]['times_bare_product']:.2f}" for way in ways]
        yield [f"{int(labels):,}", number(figures["bare product"]["documents_per_s"]), *cells]


def peers():
    for system in read("peers")["systems"].values():
        cells = []
        for figure in system["figures"]:
            mark = "*" if "extrapolated_from" in figure else ""
            cells.append(number(1 / figure["seconds_per_document"]) + mark)
        yield [system["name"], *cells]


def training_step():
    for system, figures in read("training_step")["runs"].items():
        seconds, memory = figures["median_s"], figures["memory_mib"]
        yield [system, f"{1000 * seconds:,.0f}", f"{figures['times_linear']:.2f}", f"{memory:,.0f}"]


def loss_memory():
    runs = read("loss_memory")["runs"]
    for labels in runs["chunked"]:
        cells = []
        for form in ("chunked", "with logits"):
            figures = runs[form][labels]
            if "seconds" in figures:
                cells += [f"{figures['seconds']:.1f}", f"{figures['memory_mib']:,.0f}"]
            else:
                cells += ["-", f"more than {figures['needs_at_least_mib']:,.0f}"]
        yield [f"{int(labels):,}", *cells, f"{runs['as printed'][labels]['needs_at_least_mib']:,.0f}"]


def sampling_curves():
    for way, run in read("sampling_curves")["runs"].items():
        last = run["curve"][-1]
        figures = [f"{last['test'][f'AvgPr {group}']:.2f}" for group in ("seen", "unseen")]
        yield [way, f"{last['train_seconds'] / 60:.1f}", f"{run['time_beside_all_labels']:.2f}", *figures]


def search(name="search"):
    """The exact ways, and the settings of recall 0.95 and more that no other beats in recall and speed."""
    results = read(name)["results"]
    for result in results:
        others = [other for other in results if other["k"] == result["k"] and "size" in other]
        recall, speed = result["recall"], result["documents_per_second"]
        beaten = any(other["recall"] >= recall and other["documents_per_second"] > speed for other in others)
        if "size" not in result or (recall >= 0.95 and not beaten):
            figures = [f"{recall:.3f}", number(speed), f"{result['faster_than_exact']:.1f}"]
            yield [str(result["k"]), result["way"], *figures]


def search_model():
    return search("search_model")


def evaluation_memory():
    runs = read("evaluation_memory")["runs"]
    names = {"index": "evaluate_index", "batches": "Trainer, by batches", "whole": "Trainer, all logits kept"}
    for way, name in names.items():
        for documents, figures in runs[way].items():
            cells = [f"{figures['peak_mib']:,.0f}", number(figures["documents_per_second"])]
            yield [name, f"{int(documents):,}", *cells]


TABLES = [scoring, peers, training_step, loss_memory, sampling_curves, search, search_model, evaluation_memory]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_tables_equal_the_benchmark_results(table):
    page = (ROOT / "docs" / "scale.md").read_text()
    missing = [line for line in (f"| {' | '.join(cells)} |" for cells in table()) if line not in page]
    assert not missing, "\n".join(["write these rows into docs/scale.md", *missing])
