"""The table of docs/pretrained.md on zero-shot is what benchmarks/zero_shot.py wrote."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import zero_shot  # noqa: E402

RUNS = json.loads((ROOT / "benchmarks" / "results" / "zero_shot.json").read_text())["runs"]


def test_the_table_is_what_the_benchmark_wrote():
    page = (ROOT / "docs" / "pretrained.md").read_text()
    missing = [line for line in zero_shot.table(RUNS).splitlines() if line not in page]
    assert not missing, "\n".join(["write these rows into docs/pretrained.md", *missing])


def test_the_table_has_every_run():
    assert set(RUNS) == {"general", *(f"intents {fold}" for fold in range(zero_shot.FOLDS))}
    assert "-" not in {cell for name, row in zero_shot.cells(RUNS).items() if "tuned" not in name for cell in row}


def test_a_cell_is_the_mean_of_its_runs():
    def run(figure):
        own = {"all": {"precision_at_1": figure, "average_precision": 1.0}}
        return {"cosine": {"figures": {"among 50": own, "among 150": own}}}

    rows = zero_shot.cells({"intents 0": run(0.5), "intents 1": run(0.7)})
    assert rows["MiniLM cosine"] == ["60.0", "60.0", "-", "-", "-", "-"]
    assert set(rows["TF-IDF cosine"]) == {"-"}


def test_tfidf_ranks_the_labels_that_the_recipe_ranks(tmp_path):
    """Held-out labels among themselves and among all, and a whole set; words decide."""
    names = [f"thing {'abcdefghij'[place] * 3}" for place in range(10)]
    for file in ("own", "foreign"):
        rows = [{"text": f"about a {name.split()[1]}", "labels": name} for name in names * 3]
        (tmp_path / f"{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sets = {
        "own": {"files": str(tmp_path / "own.jsonl"), "held_out": 0.5},
        "foreign": {"files": str(tmp_path / "foreign.jsonl"), "test_only": True},
    }
    (tmp_path / "sets.yaml").write_text(json.dumps(sets))
    figures = zero_shot.tfidf_cosine(tmp_path / "sets.yaml")
    assert figures["foreign"]["all"] == {
        "precision_at_1": 1.0,
        "average_precision": 1.0,
        "documents": 30,
        "candidates": 10,
    }
    held_out, among_all = figures["own"]["held_out"], figures["own"]["held_out_among_all"]
    assert held_out["documents"] == among_all["documents"] == 3 * held_out["candidates"] < 30
    assert among_all["candidates"] == 10
    assert held_out["precision_at_1"] == among_all["precision_at_1"] == 1.0
