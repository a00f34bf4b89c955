"""The steps of an experiment work separately and do not change the caller's arguments."""

import re
from pathlib import Path

import pytest
import torch
from answers import logits_of
from datasets import Dataset
from papers.threshold_tuner import ThresholdTuner
from papers.unit_runs import first_columns
from papers.unseen_weights import weigh_unseen

from hf_gile import GileConfig, GileForSequenceClassification, GileProcessor, Label, LabelSet, build_tokenizer
from hf_gile.training import GileDataCollator, GileLoss, LabelSampler
from hf_gile.training.experiment import (
    Experiment,
    encode_parts,
    run_arguments,
    save_model,
    with_a_label,
)
from hf_gile.training.reporting import say_calibration
from hf_gile.training.task import TextTask

WORDS = {"red": "crimson", "blue": "navy", "green": "olive", "grey": "ash"}


@pytest.fixture
def args(arguments):
    best = {"eval_strategy": "epoch", "save_strategy": "epoch", "load_best_model_at_end": True}
    return arguments(num_train_epochs=9, per_device_train_batch_size=8, learning_rate=1e-2, **best)


@pytest.fixture
def make(args, tmp_path):
    """Creates an experiment with colours; the last colour is held out of training."""

    def make_experiment(**options):
        torch.manual_seed(0)
        names = list(WORDS)
        labels = LabelSet(Label(name, name, seen=name != "grey", count=20 * (name != "grey")) for name in names)
        tokenizer = build_tokenizer([*WORDS.values(), "a thing"], label_texts=names, min_count=1)
        config = GileConfig(vocab_size=len(tokenizer), num_labels=4, problem_type="multi_label_classification")
        model, processor = GileForSequenceClassification(config), GileProcessor.for_config(tokenizer, config)
        model.set_labels(labels, processor)
        model.loss_function = GileLoss()
        parts = {}
        for part, chosen in {"train": names[:3] * 20, "validation": names * 5, "test": names[:3] * 5}.items():
            rows = [{"text": f"a {WORDS[name]} thing", "labels": [name]} for name in chosen]
            parts[part] = Dataset.from_list(rows)
        encoded = encode_parts(TextTask(parts, labels), model, processor)
        run = run_arguments(args, tmp_path / "epochs", "eval_validation_seen_average_precision")
        sampler = LabelSampler(4, num_negatives=2, columns=range(3))
        options = {"held_out": {"grey"}, "num_documents": 60} | options
        return Experiment(model, processor, encoded, sampler, run, **options)

    return make_experiment


def test_an_experiment_fits_calibrates_tests_and_saves(make, args, tmp_path):
    experiment = make()
    experiment.fit(patience=9)
    result = experiment.fitted
    assert [entry["epoch"] for entry in result["history"]] == list(range(1, 10))
    assert result["parameters"] == sum(x.numel() for x in experiment.model.parameters() if x.requires_grad)
    assert "seen_threshold" in experiment.calibrate("platt")
    assert experiment.model.config.thresholds.keys() == {"seen"}  # too few documents have held-out labels
    report = experiment.test(dataset="colours")
    assert (report.dataset, report.documents, len(report.labels)) == ("colours", 15, 3)
    assert report.metrics["average_precision"] == 1.0
    assert report.metrics["micro_f1"] == 1.0
    others = {"precision_at_1", "recall_at_3", "psp_at_1", "uncalibrated_expected_calibration_error"}
    assert others <= set(report.metrics)
    assert weigh_unseen(experiment) == {}  # the model has no code of words
    save_model(experiment.trainer, tmp_path / "model")
    saved = {path.name for path in (tmp_path / "model").iterdir()}
    assert {"model.safetensors", "labels.jsonl", "processor_config.json"} <= saved
    assert "training_args.bin" not in saved
    assert (args.output_dir, args.metric_for_best_model) == (str(tmp_path / "run"), "loss")


def test_the_calibration_is_printed_in_a_line_for_each_group(make):
    lines, experiment = [], make()
    say_calibration(experiment.calibrate("platt"), lines.append, has_unseen=True)
    seen = r"  seen labels, 20 documents left out: calibration error of the best labels \d+\.\d -> \d.+, threshold 0.+"
    assert re.fullmatch(seen, lines[0])
    assert lines[1].startswith("  5 documents have unseen labels, 5 in total: too few to fit")
    assert len(lines) == 2
    experiment.parts["validation"] = experiment.parts["test"]
    experiment.model.config.calibration, experiment.model.config.thresholds = {}, {}
    lines.clear()
    say_calibration(experiment.calibrate("none"), lines.append, has_unseen=True, method="none")
    threshold = experiment.model.config.thresholds["seen"]
    note = "no document left out has unseen labels, so they use the calibration and the threshold of seen labels"
    assert lines == [f"  seen labels, 15 documents left out: no calibration, threshold {threshold:.3f}", f"  {note}"]


def test_without_calibration_the_tuned_thresholds_are_stored(make):
    experiment = make()
    experiment.model.config.calibration = {"unseen": {"method": "platt", "scale": 2.0, "offset": 1.0}}
    experiment.calibrate("none")
    rows = experiment.parts["validation"]
    experiment.model.eval()
    batch = GileDataCollator(experiment.processor)([rows[row] for row in range(len(rows))])
    logits = logits_of(experiment.model, batch)[:, :3]
    gold = batch["labels"].masked_fill(batch["labels"] > 2, -100)
    tuner = ThresholdTuner(3)
    tuner.update(logits, gold)
    assert experiment.model.config.thresholds == {"seen": tuner.compute()["threshold"]}
    assert experiment.model.config.calibration == {}
    assert all(label.threshold is None for label in experiment.labels)
    experiment.model.config.problem_type = "single_label_classification"
    assert experiment.calibrate("none") == {}


def test_held_out_labels_are_candidates_only_in_validation(make):
    experiment = make()
    assert (experiment.in_validation, experiment.in_test) == ([0, 1, 2, 3], [0, 1, 2])
    experiment = make(held_out=())
    assert (experiment.in_validation, experiment.in_test) == ([0, 1, 2, 3], [0, 1, 2, 3])


def test_sampled_encoding_also_samples_validation_documents_evenly(make):
    experiment = make()
    rows = Dataset.from_dict({"text": ["a navy thing"] * 12, "labels": [[name] for name in WORDS] * 3})
    task = TextTask({"validation": rows, "test": rows}, experiment.labels)
    encoded = encode_parts(task, experiment.model, experiment.processor, max_read=4)
    assert len(encoded["test"]) == 12
    assert encoded["validation"]["labels"][:] == [[0], [3], [2], [1]]  # rows 0, 3, 6 and 9


@pytest.mark.parametrize(("metric", "greater"), [("eval_accuracy", True), ("eval_one_error", False)])
def test_the_training_arguments_of_a_run_are_copied(args, metric, greater):
    arguments = run_arguments(args, Path("elsewhere"), metric)
    assert (arguments.output_dir, arguments.metric_for_best_model) == ("elsewhere", metric)
    assert arguments.greater_is_better == greater
    assert args.output_dir != "elsewhere"


def test_unknown_labels_and_documents_without_labels_are_dropped():
    rows = Dataset.from_dict({"labels": [[0, 2], [2], [1]], "excluded_columns": [[3], [], [0]]})
    parts = first_columns({"train": rows}, 2)
    assert parts["train"][:] == {"labels": [[0], [], [1]], "excluded_columns": [[], [], [0]]}
    assert with_a_label(parts)["train"]["labels"][:] == [[0], [1]]
    with pytest.raises(ValueError, match="no document of test has a label of the model"):
        with_a_label({"test": Dataset.from_dict({"labels": [[], []]})})
