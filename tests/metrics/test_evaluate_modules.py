import subprocess
import sys

import pytest
import torch

from hf_gile.metrics import CalibrationMetrics, LabelMetrics

evaluate = pytest.importorskip("evaluate")
from hf_gile.metrics.evaluate_modules import LabelCalibration, LabelF1, LabelRanking, write_metric  # noqa: E402

SEEN = [True, True, False, True, False, True]
GOLD = [[0, 2], [1], [], [5, 3, 4], [2], [0]]


@pytest.fixture
def scores():
    return torch.randn(6, 6, generator=torch.Generator().manual_seed(1))


def expected(scores):
    measured = LabelMetrics(6, SEEN, threshold=0.4, top_k=(1, 3)), CalibrationMetrics(6, SEEN, top_k=2)
    padded = torch.tensor([[*row, *[-100] * (3 - len(row))] for row in GOLD])
    for metric in measured:
        metric.update(scores, padded)
    return {**measured[0].compute(), **measured[1].compute()}


def test_modules_equal_the_metrics_batch_by_batch(scores):
    modules = [
        LabelRanking(seen=SEEN, top_k=(1, 3)),
        LabelF1(seen=SEEN, threshold=0.4),
        LabelCalibration(seen=SEEN, top_k=2),
    ]
    results = {}
    for module in modules:
        for rows in (slice(4), slice(4, 6)):
            module.add_batch(predictions=scores[rows].tolist(), references=GOLD[rows])
        results |= module.compute()
    assert results == pytest.approx(expected(scores), abs=1e-6)


def test_modules_can_be_combined(scores):
    both = evaluate.combine([LabelRanking(top_k=(1,)), LabelF1()])
    results = both.compute(predictions=scores.tolist(), references=GOLD)
    assert {"average_precision", "precision_at_1", "micro_f1"} <= results.keys()


def test_a_written_folder_loads_as_a_metric(scores, tmp_path):
    script = write_metric(LabelF1, tmp_path / "label_f1")
    assert script.name == "label_f1.py"
    assert {path.name for path in script.parent.iterdir()} == {"label_f1.py", "README.md", "requirements.txt"}
    module = evaluate.load(str(script.parent), threshold=0.4, seen=SEEN)
    results = module.compute(predictions=scores.tolist(), references=GOLD)
    assert results == pytest.approx({name: expected(scores)[name] for name in results}, abs=1e-6)
    assert "unseen_macro_f1" in results


def test_without_evaluate_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "evaluate", None)
    monkeypatch.delitem(sys.modules, "hf_gile.metrics.evaluate_modules")
    with pytest.raises(ImportError, match=r"a metric of evaluate needs the `export` extra"):
        __import__("hf_gile.metrics.evaluate_modules")


@pytest.mark.slow
def test_importing_the_metrics_does_not_import_evaluate():
    code = "import sys, hf_gile.metrics; sys.exit('evaluate' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
