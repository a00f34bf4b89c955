"""The tables of the papers: their list, their results and their page agree."""

import gzip
import json

import paper_page
import paper_rows
import paper_runs
import paper_stamps
import paper_tables
import pytest
from paper_rows import Cell, Run, Table, one

TABLES = paper_rows.tables()
RESULTS = json.loads(paper_tables.RESULTS.read_text(encoding="utf-8")) if paper_tables.RESULTS.exists() else {}
RECORDS = paper_tables.expand(RESULTS) if RESULTS else []
PAGE = paper_tables.PAGE.read_text(encoding="utf-8")


def by_name(records):
    runs = {}
    for record in records:
        runs.setdefault(record["run"], {})[str(record["seed"])] = record
    return runs


@pytest.mark.release
def test_no_run_is_older_than_the_code_that_it_depends_on():
    stale = {record["run"] for record in RECORDS if not paper_tables.is_current(record)}
    assert not stale, "python benchmarks/paper_tables.py --data FOLDER --resume measures again:\n" + "\n".join(stale)


@pytest.mark.release
def test_every_row_has_all_the_seeds_that_it_claims():
    lines = [line for table in TABLES for line in paper_page.not_measured(table, by_name(RECORDS))]
    assert not lines, "python benchmarks/paper_tables.py --data FOLDER --resume measures them:\n" + "\n".join(lines)


def test_the_page_is_what_the_script_writes():
    assert paper_page.page(TABLES, by_name(RECORDS)) == PAGE


def test_every_table_and_figure_of_both_papers_is_listed():
    titles = " ".join(table.title for table in TABLES)
    for name in [f"GILE, Table {number}" for number in range(1, 8)] + ["GILE, Figure 2"]:
        assert name in titles
    for name in [*(f"Table {number}" for number in range(1, 6)), "Figure 2", "Figure 3"]:
        assert f"Beyond Weight Tying, {name}" in titles


LINEAR, JOINT, LEARNED = (Run("news", f"--units {unit}", 7.0, seeds=2) for unit in ("linear", "gile", "other"))


def table(**cells):
    rows = {name: {"F1": cell} for name, cell in cells.items()}
    return Table("Table 9", "About.", ("F1",), rows, beside=(("joint", "linear"),))


SOURCE = {"commit": "c" * 40, "machine": {"cpu": "fast", "torch": "2", "date": "2026-01-02"}}


def records(run, *values):
    figures = ({"F1": value} for value in values)
    times = {"cpu_seconds": 5.0, "seconds": 6.0}
    by_seed = {str(seed): {"figures": figure, **times, **SOURCE} for seed, figure in enumerate(figures, 1)}
    return {run.name: by_seed}


TINY = table(linear=one(LINEAR, "F1", 40.5), joint=one(JOINT, "F1", 45.5), learned=one(LEARNED, "F1"), none=Cell(3.0))


def test_a_page_shows_means_deviations_and_the_order_of_the_paper():
    text = paper_page.page([TINY], records(LINEAR, 50.0, 52.0) | records(JOINT, 60.5, 60.5))
    assert "| linear | 51 ± 1.41 (40.5) |" in text
    assert "| joint | 60.50 ± 0 (45.5) |" in text
    assert "- **joint** beside **linear**: the order of the paper in 1 of 1." in text
    assert "- Table 9: learned: 0 of 2 runs." in text
    assert "- Table 9: none: cannot be measured on the data here." in text


def test_the_results_file_keeps_every_record(tmp_path, monkeypatch):
    monkeypatch.setattr(paper_tables, "RESULTS", tmp_path / "results" / "tables.json")
    (tmp_path / "results").mkdir()
    monkeypatch.setattr(paper_tables, "PAGE", tmp_path / "page.md")
    record = {"run": LINEAR.name, "seed": 1, "code": paper_runs.fingerprint("news"), "cpu_seconds": 5.0}
    record |= {"seconds": 6.0, "figures": {"F1": 50.0}, **SOURCE}
    (tmp_path / "a.json").write_text(json.dumps(record))
    (tmp_path / "b.json").write_text(json.dumps({**record, "seed": 2, "code": "stale"}))
    collected = paper_tables.collect(tmp_path)
    assert collected == {LINEAR.name: {"1": record}}
    assert paper_tables.collect(tmp_path, [LINEAR.name])[LINEAR.name].keys() == {"1", "2"}
    paper_tables.write([TINY], collected)
    (tmp_path / "a.json").unlink()
    (again,) = paper_tables.collect(tmp_path)[LINEAR.name].values()
    assert again.items() >= record.items()


def result(code="now", **figures):
    return {"code": code, "figures": figures}


def test_runs_are_kept_only_if_all_figures_but_times_are_equal():
    then = result("old", **{"F1": 50.0, "CPU s an epoch": 2.0})
    assert not paper_stamps.difference(then, result(**{"F1": 50.0, "CPU s an epoch": 9.0}), "old")
    assert not paper_stamps.difference(then, result(F1=50.000000000001), "old")
    assert paper_stamps.difference(then, result(F1=50.1), "old") == "F1 was 50.0, is 50.1"
    assert paper_stamps.difference(then, result(), "old") == "F1 was 50.0, is None"


def test_runs_are_not_kept_without_the_code_that_measured_them():
    assert "other code" in paper_stamps.difference(result("old"), result(), "older")
    assert "it fails now: KeyError" in paper_stamps.difference(result(), {"error": "...\nKeyError: 'x'\n"}, "now")


def test_marks_are_made_on_the_first_documents(tmp_path):
    source = tmp_path / "data" / "multi30k" / "train.de.gz"
    source.parent.mkdir(parents=True)
    source.write_bytes(gzip.compress(b"Satz\n" * 500))
    paper_stamps.cut(tmp_path / "data", tmp_path / "cut")
    assert gzip.decompress((tmp_path / "cut" / "multi30k" / "train.de.gz").read_bytes()) == b"Satz\n" * 300
