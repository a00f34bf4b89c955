"""benchmarks/calibration.py: its fits, documents, results file and output."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hf_gile import LabelSet
from hf_gile.training import calibrate

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import calibration  # noqa: E402
from obvious_sets import Task  # noqa: E402

TEXTS = ["the heart pumps blood", "breast milk", "iron in blood", "the failing heart", "infants and milk"]
GOLD = [[0, 2], [1], [2, 3], [0, 4], [1, 4]]


@pytest.fixture
def saved(make_model, label_set, tmp_path):
    """A model, a folder of it and a task: Blood was held out of training, and Iron is in the test alone."""
    names = ["Heart Failure", "Milk, Human", "Blood", "Infant", "Iron"]
    labels = LabelSet(replace(label_set[label_set.column(name)], seen=name != "Iron") for name in names)
    task = Task(
        name="tiny",
        texts={"train": [], "validation": TEXTS * 30, "test": TEXTS},
        gold={"train": [], "validation": [[c for c in row if c < 4] for row in GOLD * 30], "test": GOLD},
        labels=labels,
    )
    model, processor = make_model(problem_type="multi_label_classification")
    order = [label for label in labels if label.id != "Blood"]  # as the recipe: the held-out ones behind the seen
    held_out = replace(labels[2], seen=False)
    model.set_labels(LabelSet([*order[:3], held_out, order[3]]), processor)
    folder = tmp_path / "gile" / "model"
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return model, processor, folder, task


@pytest.mark.slow
def test_the_benchmark_fits_like_calibrate_and_measures_the_test(saved, monkeypatch, tmp_path, capsys):
    model, processor, folder, task = saved
    monkeypatch.setitem(calibration.SETS, "tiny", lambda data, seed: task)
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps({"other": {}}))
    monkeypatch.setattr(
        sys, "argv", ["calibration.py", "--data", ".", "--model", f"tiny={folder}", "--results", str(path)]
    )
    calibration.main()
    written = json.loads(path.read_text())
    assert list(written) == ["other", "tiny"]
    result = written["tiny"]
    assert result["labels"] == {"seen": 3, "held out": 1, "unseen": 1}
    assert result["documents"] == {"validation": 150, "test": 5}
    assert result["model"] == "gile"

    # Columns of the model: Heart Failure, Milk, Infant, Blood (held out), Iron (unseen).
    gold = torch.full((150, 2), -100)
    for row, columns in zip(gold, task.gold["validation"], strict=True):
        row[: len(columns)] = torch.tensor([{0: 0, 1: 1, 2: 3, 3: 2}[column] for column in columns])
    batch = {**processor(task.texts["validation"], return_tensors="pt"), "labels": gold}
    calibrate(model, [batch], columns=range(4))
    for group, own in model.config.calibration.items():
        for name in ("logits", "values"):
            assert result["fitted"]["spline"][group][name] == pytest.approx(own[name], rel=1e-3, abs=1e-3)
    path.write_text(json.dumps({"tiny": result}))
    monkeypatch.setattr(sys, "argv", ["calibration.py", "--table", "--results", str(path)])
    capsys.readouterr()
    calibration.main()
    printed = capsys.readouterr().out
    assert "tiny, probabilities, percent: fitted on 150 documents, measured on 5; labels: 3 seen, 1 held out" in printed
    assert f"| platt | {100 * result['probabilities']['platt']['seen_expected_calibration_error']:.2f} |" in printed
    assert printed.count("| shrunk, micro_f1 |") == 1


def test_a_model_without_held_out_labels_is_refused(saved, tmp_path):
    model, processor, _, task = saved
    model.set_labels(LabelSet(replace(label, seen=label.id != "Iron") for label in model.label_set), processor)
    model.save_pretrained(tmp_path / "all")
    processor.save_pretrained(tmp_path / "all")
    with pytest.raises(ValueError, match="no label was held out of training; train with --held_out_labels"):
        calibration.measure(task, tmp_path / "all")
