"""benchmarks/gpu.py runs with tiny models on a CPU, so that it runs on the day that there is a GPU."""

import gpu
import pytest
import torch
from gpu_sections import SECTIONS, Bench

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
    assert not [row for row, figures in rows.items() if "error" in figures]
    assert all(figures.get("equal", True) for figures in rows.values())
    assert gpu.table(rows).count("\n") == len(rows) + 1


@pytest.mark.parametrize(
    ("flags", "message"), [(["--tiny"], "--tiny needs --output"), (["--device", "cpu"], "has no GPU")]
)
def test_the_results_of_a_gpu_are_not_overwritten_by_others(flags, message, capsys):
    with pytest.raises(SystemExit):
        gpu.main(flags)
    assert message in capsys.readouterr().err
