"""Scripts write the files of benchmarks/results, and pages quote them."""

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
sys.path.insert(0, str(ROOT / "benchmarks"))

import machine  # noqa: E402

FILES = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*.json")}

OLDER = {
    "calibration": {"commit", "seed"},
    "evaluation_memory": {"commit", "seed"},
    "literal_and_fast": {"commit", "seed"},
    "loader_and_model": {"commit", "seed"},
    "loss_memory": {"commit", "seed"},
    "peers": {"commit", "seed"},
    "pubmed_mesh": {"commit", "seed"},
    "read_medline": {"commit", "seed"},
    "sampling_curves": {"commit"},
    "scoring": {"commit", "seed"},
    "search": {"commit", "seed"},
    "search_model": {"commit", "seed"},
    "stream_bioasq": {"commit", "seed"},
    "training_step": {"commit", "seed"},
    "what_matters": {"commit", "seed"},
}
"""What files lack that were written before scripts wrote it. A file leaves this list when it is measured again; none is
ever added."""

GROUPS = {f"{metric} {group}" for group in ("seen", "unseen") for metric in ("RL", "AvgPr", "OneErr")}
UNSEEN = {column for column in GROUPS if "unseen" in column}
RANKS = ("average_precision", "precision_at_1")
TIMES = {"median_s", "min_s", "max_s"}
SEARCHED = {"k", "way", "recall", "documents_per_second", "times", "faster_than_exact"}

ROWS = {
    "audit": ("*", {"documents", "labels", "headings", "corrupted", "drift", *machine.PROVENANCE}, set()),
    "calibration": (
        "*",
        {"model", "documents", "labels", "seconds", "fitted", "probabilities", "thresholds", *machine.PROVENANCE},
        set(),
    ),
    "corrections": ("* rows *", {"corrections", "all", "seen", "unseen", "slowest_s"}, set()),
    "evaluation_memory": ("runs * *", {"before_mib", "documents_per_second", "metrics", "peak_mib"}, set()),
    "exports": ("runs *", {"average_precision", "accuracy", "documents_per_second"}, set()),
    "fast_index": ("search rows *", {"k", "way", "recall", "documents_per_second", "faster_than_exact"}, set()),
    "gpu": ("sections *", {"seconds", "rows", *machine.PROVENANCE}, {"error"}),
    "general_scorer": ("encoders *", {"mean_ratio", "sets", "weights"}, set()),
    "literal_and_fast": ("runs *", TIMES, {"memory_mib"}),
    "loader_and_model": ("encoders *", {"documents_per_second", "ratios"}, set()),
    "loss_memory": ("runs * *", set(), {"gflops", "loss", "memory_mib", "seconds", "needs_at_least_mib"}),
    "cold_start": ("commands *", {"cpu_s", "times_bare"}, set()),
    "new_words": ("runs *", {"0", "1", "5", "20", "share_written"}, set()),
    "obvious": (
        "* * *",
        {"training_cpu_seconds", "documents_per_cpu_second", "threshold", "test", "details", *machine.PROVENANCE},
        set(),
    ),
    "output_layers": ("sampled * *", {"seconds", "loss", "tokens_per_second", "times_tied"}, set()),
    "paper_tables": ("runs * *", {"source", "code", "cpu_seconds", "seconds", "figures"}, {"stamped"}),
    "peers": ("systems *", {"name", "figures"}, set()),
    "promised_recall": ("*", {"documents", "fitted_on", *machine.PROVENANCE}, set()),
    "pubmed_mesh": ("test * *", GROUPS - UNSEEN, UNSEEN),
    "read_medline": ("runs *", {*TIMES, "median_cpu_s", "files_per_s", "citations_per_s", "yields"}, set()),
    "reading": (
        "runs *",
        {"rows", "bare", "rows_per_cpu_s", "bare_rows_per_cpu_s", "cpu_of_bare", "peak_mib", "peak_of_four_times_mib"},
        set(),
    ),
    "reliability": ("sections * *", {"cases", "taken", "refused", "crashes", "peak_mib", "seconds"}, set()),
    "sampling_curves": ("runs *", {"flags", "curve", "time_beside_all_labels"}, set()),
    "scale_out": (
        "kills",
        {"rows", "parts", "parts_left_after_each_kill", "lost", "twice", "out_of_order", "rejected", "other_scores"}
        | {"rows_per_cpu_second"},
        set(),
    ),
    "scoring": ("runs * *", {*TIMES, "documents_per_s", "gflops", "times_bare_product"}, set()),
    "search": ("results *", SEARCHED, {"size", "probes", "oversampling"}),
    "search_model": ("results *", SEARCHED, {"size", "probes", "oversampling"}),
    "service": ("runs *", {"documents_per_second", "times_pipeline"}, {"p50_ms", "p99_ms", "cpu_ms"}),
    "shortlist": ("*", {"documents", "labels", "systems", "tokens", *machine.PROVENANCE}, set()),
    "stream_bioasq": (
        "runs *",
        {"records", "seconds", "cpu_seconds", "records_per_s", "mb_per_s", "rss_after_imports_mb", "peak_rss_mb"},
        set(),
    ),
    "unseen_price": (
        "* * rows *",
        {"seen", "added", "seen_alone", "seen_among_all", "price"}
        | {f"{prefix}_{figure}" for prefix in ("unseen_among_all", "tfidf") for figure in RANKS},
        set(),
    ),
    "training_step": ("runs *", {*TIMES, "memory_mib", "first_loss", "times_linear"}, set()),
    "translation": (
        "runs * models *",
        {"parameters", "training_cpu_seconds", "epochs", "validation_bleu", "bleu", "interval", "nearest"}
        | {f"f1_{third}" for third in ("low", "medium", "high")},
        {"p_value"},
    ),
    "translation_small": (
        "runs * models *",
        {"parameters", "training_cpu_seconds", "epochs", "validation_bleu", "bleu", "interval", "nearest"}
        | {f"f1_{third}" for third in ("low", "medium", "high")},
        {"p_value"},
    ),
    "translation_speed": ("layers * *", {"seconds", "tokens_per_second", "times_nmt"}, set()),
    "what_matters": ("settings *", {*GROUPS, "best_epoch", "changed", "minutes"} - UNSEEN, UNSEEN),
}
"""Where the rows of a file are, the fields that each of them has, and those that some have."""

KEYED = {
    "obvious": "* * *",
    "calibration": "*",
    "audit": "*",
    "gpu": "sections *",
    "paper_tables": "sources *",
    "promised_recall": "*",
    "shortlist": "*",
    "translation": "runs *",
    "corrections": "*",
    "unseen_price": "* *",
}
"""Files of runs that are written one after the other, each with its own commit, seed and machine."""


def at(content, path):
    """The entries of a nested object, by a path of keys, * for all."""
    key, _, rest = path.partition(" ")
    every = list(content.values()) if isinstance(content, dict) else content
    entries = every if key == "*" else [content[key]]
    return [found for entry in entries for found in (at(entry, rest) if rest else [entry])]


def test_every_results_file_is_written_by_a_script():
    assert set(FILES) <= set(ROWS)


def test_the_list_of_older_files_only_shrinks():
    assert set(OLDER) <= set(FILES)
    assert len(OLDER) <= 15


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_results_file_records_commit_seed_and_machine(name):
    wanted = {*machine.PROVENANCE}
    for entry in at(FILES[name], KEYED[name]) if name in KEYED else [FILES[name]]:
        assert wanted - set(entry) == OLDER.get(name, set())
        assert {"cpu", "threads", "python", "torch", "transformers", "date"} <= set(entry["machine"])
        if "commit" in entry:
            assert re.fullmatch("[0-9a-f]{40}", entry["commit"]), "measure again when what you changed is committed"


@pytest.mark.parametrize("name", sorted(FILES))
def test_each_row_has_the_fields_written_by_its_script(name):
    path, fields, more = ROWS[name]
    rows = at(FILES[name], path)
    assert rows
    for row in rows:
        assert fields - set(row) <= OLDER.get(name, set())
        assert set(row) <= fields | more


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


def test_outside_a_git_clone_the_commit_is_unknown(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setattr(machine, "RESULTS", tmp_path / "results")
    assert machine.commit() == "unknown"


# --- Pages -----------------------------------------------------------------------------------------------------------

SCRIPTS = {
    "search": ["search", "search_model"],
    "translation": ["translation", "translation_small", "translation_speed"],
}
MEANS = {"corrections", "obvious", "paper_tables", "unseen_price"}
"""Files of which a page has means of several runs; tests of obvious, paper_tables and figures make them."""

PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])
MENTION = re.compile(r"(?:benchmarks|recipes)/(\w+)\.(?:py|json)|results/(\w+)\.json")


def tables_of(text):
    """Each table of a page: the results that the text of its section last named before it, and its rows."""
    named, section, rows, found = [], "", [], []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            rows.append(line)
            continue
        if rows:
            found.append((section, named, rows[2:]))
            rows = []
        if line.startswith("## "):
            section, named = line, []
        for match in MENTION.finditer(line):
            name = match[1] or match[2]
            files = [file for file in SCRIPTS.get(name, [name]) if file in FILES and file not in MEANS]
            named = files or named
    return found


def leaves(content):
    if isinstance(content, dict):
        keys = [float(key) for key in content if key.isdigit()]
        return keys + [found for value in content.values() for found in leaves(value)]
    if isinstance(content, list):
        return [found for value in content for found in leaves(value)]
    return [float(content)] if isinstance(content, int | float) and not isinstance(content, bool) else []


NUMBER = re.compile(r"^(more than )?(-?[\d,]+(?:\.(\d+))?(?:e[-+]?\d+)?)([MK]?)\*?(?: ± ([\d.]+))?$")


def is_quoted(cell, numbers):
    """Whether a cell is no number, or the rounding of one: itself, in percent, thousandths, minutes, or inverse."""
    match = NUMBER.match(cell)
    if match is None:
        return True
    value = float(match[2].replace(",", "")) * {"M": 1e6, "K": 1e3, "": 1}[match[4]]
    error = 0.51 * 10.0 ** -len(match[3] or "") * {"M": 1e6, "K": 1e3, "": 1}[match[4]]
    error = max(error if "e" not in match[2] else 0.0, 0.006 * abs(value) if "e" in match[2] else 0.0)
    return any(abs(number * factor - value) <= error for number in numbers for factor in (1, 100, 1000, 1 / 60)) or any(
        number and abs(1 / number - value) <= error for number in numbers
    )


QUOTED = {
    (page.name, place): (section, named, rows)
    for page in PAGES
    for place, (section, named, rows) in enumerate(tables_of(page.read_text(encoding="utf-8")))
    if named
}


@pytest.mark.parametrize("table", QUOTED, ids=str)
def test_table_figures_occur_in_the_results_file_of_their_section(table):
    _, named, rows = QUOTED[table]
    numbers = [number for name in named for number in leaves(FILES[name])]
    wrong = [row for row in rows if not all(is_quoted(cell.strip(), numbers) for cell in row.split("|")[2:-1])]
    assert not wrong, "\n".join([f"not in benchmarks/results/{' or '.join(named)}.json:", *wrong])


def test_an_unmeasured_figure_is_detected():
    numbers = [0.4873, 12.5, 0.25]
    for cell in ("48.73", "0.49", "12.5", "4.00", "-", "words", "0.2"):
        assert is_quoted(cell, numbers), cell
    for cell in ("48.83", "0.47", "14", "5.00", "1,000"):
        assert not is_quoted(cell, numbers), cell
