"""Training on documents with a single label each."""

import csv
import json
import random
import re
import sys
from pathlib import Path

import pytest
from transformers import TrainingArguments

sys.path.insert(0, str(Path(__file__).parents[2] / "recipes"))

import train_units
from papers.unit_settings import UnitSettings

from hf_gile import GileForSequenceClassification, GileProcessor, LabelScoringPipeline

WORDS = {
    "heart": "heart failing cardiac ventricle pumped",
    "milk": "milk breast feeding infant colostrum",
    "iron": "iron anemia ferritin deficiency blood",
    "kidney": "kidney renal nephron urine dialysis",
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Trains on single-label documents in this process; returns the printed text and the folder of the run."""
    folder = tmp_path_factory.mktemp("single")
    draw = random.Random(7)
    for name, number in {"notes": 240, "held-back": 40}.items():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "topic"])
            for _ in range(number):
                gold = draw.choice(list(WORDS))
                writer.writerow([" ".join(draw.choices(WORDS[gold].split(), k=6)), gold])
    flags = {
        "train_files": str(folder / "notes.csv"),
        "test_files": str(folder / "held-back.csv"),
        "labels": "topic",
        "units": "gile",
        "embedding_size": 23,
        "joint_size": 29,
        "min_count": 1,
        "num_train_epochs": 4,
        "per_device_train_batch_size": 16,
        "use_cpu": "true",
        "output_dir": str(folder / "out"),
    }
    arguments = [str(word) for name, value in flags.items() for word in (f"--{name}", value)]
    printed = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["train_units.py", *arguments])
        patch.setattr("builtins.print", lambda *words, **_: printed.append(" ".join(map(str, words))))
        train_units.main()
    return "\n".join(printed), folder / "out"


def test_single_label_training_uses_softmax_and_accuracy(trained):
    printed, folder = trained
    assert "every document has exactly one label: trained with softmax, chosen by accuracy" in printed
    assert "Acc  MacroF1" in printed
    assert "left out of macro-F1" not in printed
    assert "warning" not in printed
    assert re.search(r"^4 labels, such as \w+, \w+, \w+$", printed, re.MULTILINE)
    result = json.loads((folder / "results.json").read_text())["gile"]
    assert result["test"]["test_accuracy"] > 0.9
    assert result["test"]["test_macro_f1"] > 0.9
    epochs = [row["eval_validation_accuracy"] for row in result["history"]]
    state = json.loads(max((folder / "gile").glob("checkpoint-*/trainer_state.json")).read_text())
    assert state["best_metric"] == max(epochs)
    # A softmax over four labels starts near log(4), the sum of four sigmoids near 4 log(2), or 2.2 with the prior.
    assert result["losses"][0][1] < 1.5


def test_the_saved_model_assigns_a_single_label(trained):
    folder = trained[1] / "gile" / "model"
    model = GileForSequenceClassification.from_pretrained(folder)
    assert model.config.problem_type == "single_label_classification"
    assert model.config.calibration["seen"]["method"] == "platt"
    assert model.config.thresholds == {}
    pipe = LabelScoringPipeline(model=model, processor=GileProcessor.from_pretrained(folder))
    assert sum(pipe("cardiac ventricle")["scores"]) == pytest.approx(1)
    assert pipe("cardiac ventricle", threshold="stored")["labels"] == ["heart"]


def test_the_card_of_a_single_label_model_shows_accuracy_without_a_threshold(trained):
    card = (trained[1] / "gile" / "model" / "README.md").read_text()
    assert "- single-label" in card
    assert "Assigns to a text the best of 4 labels" in card
    assert "| accuracy |" in card
    assert "name: Micro-F1" not in card
    assert "threshold=" not in card
    assert "On 40 documents of held-back (test), in percent:" in card
    assert "Data: notes." in card


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"problem_type": "single_label_classification", "calibration": "spline"}, "must be platt or none"),
        (
            {"problem_type": "single_label_classification", "propensity_weighted": True},
            "propensity_weighted does not support",
        ),
    ],
)
def test_settings_incompatible_with_softmax_are_refused(settings, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        UnitSettings(**settings).check(TrainingArguments(str(tmp_path), use_cpu=True))


def test_documents_that_all_have_the_same_label_are_refused(tmp_path, run_recipe):
    rows = "".join(f"text {row},milk\n" for row in range(60))
    (tmp_path / "a.csv").write_text(f"text,labels\n{rows}")
    done = run_recipe("train_table", ["--train_files", "a.csv", "--use_cpu"])
    assert done.returncode == 1
    assert "all documents have the same label, 'milk', so there is nothing to learn: add documents with" in done.stderr
