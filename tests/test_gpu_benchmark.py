"""benchmarks/gpu.py runs with tiny models on a CPU, so that it runs on the day that there is a GPU."""

import json
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import gpu  # noqa: E402
from gpu_sections import SECTIONS, Bench, Section  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "gpu.json"
QUICK = {"attention", "search", "texts"}


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in SECTIONS]
)
def test_each_section_measures_its_rows_on_a_cpu(name, tmp_path):
    # oneDNN has LSTMs in bf16 only for processors with AVX-512.
    with torch.backends.mkldnn.flags(enabled=False):
        SECTIONS[name].run(Bench("cpu", True, 0, tmp_path / "rows"))
    rows = gpu.read_rows(tmp_path / "rows")
    assert rows
    # The package flash_attn is for GPUs only.
    assert {row for row, figures in rows.items() if "error" in figures} <= {"flash_attention_2, bf16"}
    assert all(figures.get("equal", True) for figures in rows.values())
    assert gpu.table(rows).count("\n") == len(rows) + 1


def fails(bench):
    bench.write("before", ms=1.5)
    with bench.row("broken"):
        raise RuntimeError("out of memory")
    bench.write("after", ms=2.5)


def test_a_row_that_fails_records_its_error_and_the_next_rows_run(tmp_path):
    fails(Bench("cpu", True, 0, tmp_path / "rows"))
    rows = gpu.read_rows(tmp_path / "rows")
    assert list(rows) == ["before", "broken", "after"]
    assert rows["broken"] == {"error": "RuntimeError: out of memory"}


def test_results_are_written_after_each_section_beside_earlier_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu, "SECTIONS", dict.fromkeys(("first", "second"), Section("Title", "Text.", fails, 60)))
    path, written = tmp_path / "gpu.json", []
    path.write_text('{"sections": {"earlier": {}}}')
    write = gpu.write_json
    monkeypatch.setattr(gpu, "write_json", lambda *file: (write(*file), written.append(path.read_text())))
    gpu.main(["--tiny", "--device", "cpu", "--output", str(path), "--commit", "c" * 40])
    assert [list(json.loads(text)["sections"]) for text in written] == [
        ["earlier", "first"],
        ["earlier", "first", "second"],
    ]
    section = json.loads(path.read_text())["sections"]["second"]
    assert section["commit"] == "c" * 40
    assert section["machine"]["device"] == "cpu"
    assert list(section["rows"]) == ["before", "broken", "after"]


@pytest.mark.parametrize(
    ("flags", "message"), [(["--tiny"], "--tiny needs --output"), (["--device", "cpu"], "has no GPU")]
)
def test_the_results_of_a_gpu_are_not_overwritten_by_others(flags, message, capsys):
    with pytest.raises(SystemExit):
        gpu.main(flags)
    assert message in capsys.readouterr().err


def test_the_page_equals_the_benchmark_output():
    assert gpu.PAGE.read_text(encoding="utf-8") == gpu.page(gpu.read_results(RESULTS))
