"""Recipes with a pretrained encoder and held-out labels, and metrics for model selection."""

import json

import pytest
import torch
from answers import logits_of
from papers.threshold_tuner import ThresholdTuner
from topics import SEEN
from transformers import AutoModelForSequenceClassification

from hf_gile import GileProcessor

pytestmark = pytest.mark.slow


@pytest.fixture
def run(run_recipe, table_files, topic_encoder):
    labels = "--label_description about --label_synonyms other"
    steps = "--joint_size 41 --num_negatives 2 --per_device_train_batch_size 5"

    def run_units(flags):
        return run_recipe("train_units", f"{table_files} {labels} --text_encoder {topic_encoder} {steps} {flags}")

    return run_units


@pytest.fixture
def load(tmp_path):
    return lambda unit: AutoModelForSequenceClassification.from_pretrained(tmp_path / "out" / unit / "model")


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_frozen_encoder_with_every_term_scores_seen_and_unseen_labels(run, load, tmp_path):
    terms = "--units linear gile_rows --label_row_dropout 0.2 --joint_layers 2"
    readings = "--label_texts name --calibration none"
    weights = "--class_balanced 0.9 --hidden_act tanh --bf16 true"
    steps = "--num_train_epochs 20 --patience 20 --learning_rate 0.05"  # what 12 random numbers a text need
    done = run(f"--freeze_text_encoder {steps} {terms} {readings} {weights}")
    test = done.results["gile_rows"]["test"]
    assert test["test_seen_average_precision"] > 0.75  # 0.54 without training
    assert done.results["linear"]["test"]["test_average_precision"] > 0.75
    assert test["test_unseen_documents"] > 0
    for figure in ("psp_at_5", "precision_at_1", "precision_at_3", "ndcg_at_5", "seen_micro_f1"):
        assert 0 <= test[f"test_{figure}"] <= 1, figure
    model = load("gile_rows")
    assert model.config.text_config.freeze_text_encoder
    assert model.config.cosine_score
    assert model.config.label_rows
    assert model.label_set.texts == model.label_set.names
    # The threshold is tuned on candidates of validation documents, which exclude "cardiac".
    rows = rows_of(tmp_path / "dev.jsonl")
    gold = [[label in row["labels"] for label in model.label_set.ids[: len(SEEN)]] for row in rows]
    processor = GileProcessor.from_pretrained(tmp_path / "out/gile_rows/model")
    with torch.autocast("cpu", torch.bfloat16):
        logits = logits_of(model.eval(), processor([row["text"] for row in rows], return_tensors="pt"))
    tuner = ThresholdTuner(len(SEEN))
    tuner.update(logits[:, : len(SEEN)].float(), torch.tensor(gold))
    assert model.config.thresholds["seen"] == pytest.approx(tuner.compute()["threshold"], abs=0.02)
    assert model.config.thresholds.keys() == {"seen"}


def test_hierarchical_adapters_are_merged_and_chosen_on_held_out_labels(run, load, tmp_path):
    chosen = "eval_validation_unseen_average_precision"
    done = run(
        "--units linear gile --hierarchical --max_sentence_words 9 --lora_rank 2 --num_train_epochs 3"
        f" --held_out_labels 1 --metric_for_best_model {chosen} --text_encoder_learning_rate 1e-3"
        " --label_refresh_steps 3 --label_texts synonyms --make_cards false"
        """ --text_encoder_options '{"attention_probs_dropout_prob": 0.0}'"""
    )
    assert "1 of them held out for validation" in done.stdout
    history = done.results["gile"]["history"]
    best = max(range(len(history)), key=lambda epoch: history[epoch][chosen])
    (state,) = (tmp_path / "out" / "gile").glob("checkpoint-*/trainer_state.json")
    assert json.loads(state.read_text())["best_metric"] == pytest.approx(history[best][chosen])
    assert "eval_validation_average_precision" in done.results["linear"]["history"][0]
    model = load("gile")
    assert [label.seen for label in model.label_set] == [True, True, True, False, False]
    assert not [name for name in model.state_dict() if "lora" in name]
    assert model.config.text_config.text_encoder_config.attention_probs_dropout_prob == 0
    assert model.label_set[0].description == model.label_set[0].synonyms[0]
    with_unseen = ["cardiac" in row["labels"] for row in rows_of(tmp_path / "test.jsonl")]
    assert done.results["gile"]["test"]["test_unseen_documents"] == sum(with_unseen)


def test_a_model_on_a_frozen_encoder_can_be_trained_with_its_encoder(run, load, run_recipe, tmp_path):
    common = "--units gile_rows --label_texts name --num_train_epochs 2 --make_cards false"
    run(f"--freeze_text_encoder {common}")
    first = load("gile_rows")
    (tmp_path / "out").rename(tmp_path / "first")
    start = "--start_from first/gile_rows/model --lexical"
    start += """ --text_encoder_options '{"hidden_dropout_prob": 0.0}' --term_weights '{"unseen": {"match": 5}}'"""
    done = run(f"{start} --label_refresh_steps 4 --text_encoder_learning_rate 1e-5 {common}")
    second = load("gile_rows")
    assert done.results["gile_rows"]["history"][0]["eval_validation_seen_average_precision"] > 0.5
    assert not second.config.text_config.freeze_text_encoder
    assert second.config.lexical
    assert second.config.term_weights == {"unseen": {"match": 5}}
    weights = dict(first.gile.text_encoder.named_parameters())
    for name, weight in second.gile.text_encoder.named_parameters():
        assert 0 < (weight - weights[name]).abs().max() < 0.01, name
    rows, changed = first.gile.label_rows.weight, second.gile.label_rows.weight
    assert (changed - rows).abs().max() < rows.abs().max()
    done = run_recipe("train_units", "--start_from first/gile_rows/model --units linear --output_dir x", fails=True)
    assert "has output_layer 'gile', but unit linear has 'linear'" in done.stderr
