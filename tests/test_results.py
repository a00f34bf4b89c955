"""Scripts write the files of benchmarks/results, and pages quote them."""

import json
import re
from pathlib import Path

import machine
import pytest

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
FILES = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*.json")}

OLDER = """
calibration evaluation_memory literal_and_fast loader_and_model loss_memory peers pubmed_mesh read_medline
sampling_curves scoring search search_model stream_bioasq training_step what_matters
"""
"""Files without commit or seed, written before scripts wrote them. A file leaves this list when it is measured again;
none is ever added."""

EACH = ("calibration", "audit", "promised_recall", "shortlist", "corrections")
KEYED = dict.fromkeys(EACH, "*") | {"obvious": "* * *", "unseen_price": "* *"}
KEYED |= {"gpu": "sections *", "paper_tables": "sources *", "translation": "runs *"}
"""Files of runs that are written one after the other, each with its own commit, seed and machine."""


def at(content, path):
    """The entries of a nested object, by a path of keys, * for all."""
    if not path:
        return [content]
    key, _, rest = path.partition(" ")
    every = list(content.values()) if isinstance(content, dict) else content
    entries = every if key == "*" else [content[key]]
    return [found for entry in entries for found in at(entry, rest)]


def test_the_list_of_older_files_only_shrinks():
    assert set(OLDER.split()) <= set(FILES)
    assert len(OLDER.split()) <= 15


def test_a_results_file_records_commit_seed_and_machine():
    for name, content in FILES.items():
        for entry in at(content, KEYED.get(name, "")):
            missing = {*machine.PROVENANCE} - set(entry)
            assert missing <= {"commit", "seed"}, name
            assert bool(missing) == (name in OLDER.split()), name
            assert {"cpu", "threads", "python", "torch", "transformers", "date"} <= set(entry["machine"]), name
            if "commit" in entry:
                assert re.fullmatch("[0-9a-f]{40}", entry["commit"]), f"{name}: measure again when you have committed"


def test_no_measured_time_is_a_round_number():
    for row in at(FILES["obvious"], "* * *"):
        for name, value in row.items():
            assert "second" not in name or value != round(value, 3), name


def test_results_are_written_atomically_with_their_provenance(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(machine, "commit", lambda: "c" * 40)
    path = machine.write_results("tiny", {"runs": {"a": 1.5}}, seed=3)
    first = json.loads(path.read_text())
    assert (first["commit"], first["seed"], first["runs"]) == ("c" * 40, 3, {"a": 1.5})
    assert set(machine.machine()) == set(first["machine"])
    monkeypatch.setattr(machine, "commit", lambda: "d" * 40)
    second = json.loads(machine.write_results("tiny", {"runs": {"a": 1.5, "b": 2.5}}, kept=first).read_text())
    assert second["commit"] == "d" * 40
    assert second["earlier"] == [{name: first[name] for name in machine.PROVENANCE}]
    before = path.read_bytes()
    with pytest.raises(TypeError):
        machine.write_results("tiny", {"runs": object()})
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["tiny.json"]


SCRIPTS = {"search": ["search", "search_model"]}
SCRIPTS["translation"] = ["translation", "translation_small", "translation_speed"]
MEANS = {"corrections", "obvious", "paper_tables", "tags", "unseen_price"}
"""Files of which a page has means of several runs; tests of obvious, paper_tables and figures make them."""

PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])
MENTION = re.compile(r"(?:benchmarks|recipes)/(\w+)\.(?:py|json)|results/(\w+)\.json")


def tables_of(text):
    """Each table of a page: the results that the text of its section last named before it, and its rows."""
    named, rows, found = [], [], []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            rows.append(line)
            continue
        if rows:
            found.append((named, rows[2:]))
            rows = []
        if line.startswith("## "):
            named = []
        for match in MENTION.finditer(line):
            name = match[1] or match[2]
            files = [file for file in SCRIPTS.get(name, [name]) if file in FILES and file not in MEANS]
            named = files or named
    return found


def leaves(content):
    if isinstance(content, dict):
        keys = [float(key) for key in content if key.isdigit()]
        return keys + leaves([*content.values()])
    if isinstance(content, list):
        return [found for value in content for found in leaves(value)]
    return [float(content)] if isinstance(content, int | float) and not isinstance(content, bool) else []


NUMBER = re.compile(r"^(more than )?(-?[\d,]+(?:\.(\d+))?(?:e[-+]?\d+)?)([MK]?)\*?(?: ± ([\d.]+))?$")


def is_quoted(cell, numbers):
    """Whether a cell is no number, or the rounding of one: itself, in percent, thousandths, minutes, or inverse."""
    match = NUMBER.match(cell)
    if match is None:
        return True
    unit = {"M": 1e6, "K": 1e3, "": 1}[match[4]]
    value = float(match[2].replace(",", "")) * unit
    error = 0.006 * abs(value) if "e" in match[2] else 0.51 * 10.0 ** -len(match[3] or "") * unit
    inverses = [1 / number for number in numbers if number]
    scaled = [number * factor for number in numbers for factor in (1, 100, 1000, 1 / 60)]
    return any(abs(number - value) <= error for number in inverses + scaled)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_table_figures_occur_in_the_results_file_of_their_section(page):
    for named, rows in tables_of(page.read_text(encoding="utf-8")):
        numbers = [number for name in named for number in leaves(FILES[name])]
        wrong = [row for row in rows if not all(is_quoted(cell.strip(), numbers) for cell in row.split("|")[2:-1])]
        assert not (named and wrong), "\n".join([f"not in results of {' or '.join(named)}:", *wrong])
