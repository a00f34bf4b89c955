"""Training on documents with a single label each."""

import pytest
from papers.unit_settings import UnitSettings
from transformers import TrainingArguments


def test_a_spline_over_a_softmax_is_refused(tmp_path):
    settings = {"problem_type": "single_label_classification", "calibration": "spline"}
    with pytest.raises(ValueError, match="must be platt or none"):
        UnitSettings(**settings).check(TrainingArguments(str(tmp_path), use_cpu=True))


def test_documents_that_all_have_the_same_label_are_refused(tmp_path, run_recipe):
    rows = "".join(f"text {row},milk\n" for row in range(60))
    (tmp_path / "a.csv").write_text(f"text,labels\n{rows}")
    done = run_recipe("train_table", ["--train_files", "a.csv", "--use_cpu"])
    assert done.returncode == 1
    assert "all documents have the same label, 'milk', so there is nothing to learn: add documents with" in done.stderr


def test_a_label_that_nearly_all_documents_have_is_named_beside_the_figures(tmp_path, run_recipe):
    rows = "".join(f"text {row},{'milk' if row % 10 else 'iron'}\n" for row in range(200))
    (tmp_path / "a.csv").write_text(f"text,labels\n{rows}")
    done = run_recipe("train_table", ["--train_files", "a.csv", "--use_cpu", "--text_encoder", "words"])
    assert "18 of 20 test documents have the label 'milk'" in done.stdout
