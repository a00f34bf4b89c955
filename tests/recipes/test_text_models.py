"""Recipes with a pretrained encoder and held-out labels, and metrics for model selection."""

import json
import random

import pytest
import torch
import yaml
from train_bioasq import Recipe
from transformers import AutoModelForSequenceClassification, TrainingArguments

from hf_gile import GileProcessor
from hf_gile.training import ThresholdTuner

WORDS = {
    "heart": ("heart failure", "heart failing cardiac output ventricle"),
    "milk": ("human milk", "milk breast human feeding"),
    "iron": ("iron", "iron anemia ferritin deficiency"),
    "kidney": ("kidney", "kidney renal nephron urine"),
    "cardiac": ("cardiac output", "cardiac output ventricle pumped"),
}


def write_rows(path, number, labels, seed):
    draw = random.Random(seed)
    rows = []
    for row in range(number):
        gold = sorted(draw.sample(labels, k=draw.choice([1, 2])))
        words = [word for label in gold for word in WORDS[label][1].split()]
        draw.shuffle(words)
        rows.append({"key": f"{seed}-{row}", "text": " ".join(words) + ". " + " ".join(words[:3]) + ".", "tags": gold})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def run(tmp_path, save_text_encoder, run_recipe):
    folder = save_text_encoder(texts=[" ".join(words) for words in WORDS.values()])
    seen = [name for name in WORDS if name != "cardiac"]
    for name, number, labels in (("train", 60, seen), ("dev", 20, seen), ("test", 30, list(WORDS))):
        write_rows(tmp_path / f"{name}.jsonl", number, labels, seed=len(name))
    lines = (f'{name},"{words[0]}","{words[1]}",{words[1].split()[-1]}\n' for name, words in WORDS.items())
    (tmp_path / "labels.csv").write_text("id,name,about,other\n" + "".join(lines))

    def run_table(*arguments):
        settings = {
            "train_files": "train.jsonl",
            "validation_files": "dev.jsonl",
            "test_files": "test.jsonl",
            "labels": "tags",
            "label_file": "labels.csv",
            "label_description": "about",
            "label_synonyms": "other",
            "text_encoder": folder,
            "joint_size": 41,
            "num_negatives": 2,
            "num_train_epochs": 6,
            "per_device_train_batch_size": 5,
            "use_cpu": True,
            "output_dir": str(tmp_path / "out"),
        }
        (tmp_path / "mine.yaml").write_text(yaml.safe_dump(settings))
        done = run_recipe("train_units", ["--config", "mine.yaml", *arguments])
        path = tmp_path / "out" / "results.json"
        return done, json.loads(path.read_text()) if path.is_file() else None

    return run_table


@pytest.mark.slow
def test_a_frozen_encoder_with_every_term_scores_seen_and_unseen_labels(run, tmp_path):
    terms = ["--units", "linear", "gile_rows", "--bag_size", "64", "--label_row_dropout", "0.2", "--joint_layers", "2"]
    readings = ["--label_texts", "name", "--calibration", "none"]
    weights = ["--class_balanced", "0.9", "--hidden_act", "tanh", "--bf16", "true"]
    done, results = run("--freeze_text_encoder", *terms, *readings, *weights)
    assert done.returncode == 0, done.stderr[-3000:]
    test = results["gile_rows"]["test"]
    assert test["test_seen_average_precision"] > 0.9
    assert results["linear"]["test"]["test_average_precision"] > 0.8
    assert test["test_unseen_documents"] > 0
    for figure in ("psp_at_5", "precision_at_1", "precision_at_3", "ndcg_at_5", "seen_micro_f1"):
        assert 0 <= test[f"test_{figure}"] <= 1, figure
    assert test["test_documents_per_second"] > 0
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out/gile_rows/model")
    assert model.config.text_config.freeze_text_encoder
    assert model.config.cosine_score
    assert model.config.label_rows
    assert model.label_set.texts == model.label_set.names
    assert model.gile.bag.log_weights.weight[0].item() == -20  # padding; weights are computed on training documents
    # The threshold is tuned on candidates of validation documents, which exclude "cardiac".
    rows = [json.loads(line) for line in (tmp_path / "dev.jsonl").read_text().splitlines()]
    gold = [[label in row["tags"] for label in model.label_set.ids[:4]] for row in rows]
    processor = GileProcessor.from_pretrained(tmp_path / "out/gile_rows/model")
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        logits = model.eval()(**processor([row["text"] for row in rows], return_tensors="pt")).logits
    tuner = ThresholdTuner(4)
    tuner.update(logits[:, :4].float(), torch.tensor(gold))
    assert model.config.thresholds["seen"] == pytest.approx(tuner.compute()["threshold"], abs=0.02)
    assert model.config.thresholds.keys() == {"seen"}


@pytest.mark.slow
def test_hierarchical_adapters_are_merged_and_chosen_on_held_out_labels(run, tmp_path):
    chosen = "eval_validation_unseen_average_precision"
    done, results = run(
        *["--units", "linear", "gile", "--hierarchical", "--max_sentence_words", "9", "--lora_rank", "2"],
        *["--held_out_labels", "1", "--metric_for_best_model", chosen, "--text_encoder_learning_rate", "1e-3"],
        *["--label_refresh_steps", "3", "--num_train_epochs", "3", "--label_texts", "synonyms"],
        *["--text_encoder_options", '{"attention_probs_dropout_prob": 0.0}', "--make_cards", "false"],
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "1 of them held out for validation" in done.stdout
    history = results["gile"]["history"]
    best = max(range(len(history)), key=lambda epoch: history[epoch][chosen])
    (state,) = (tmp_path / "out" / "gile").glob("checkpoint-*/trainer_state.json")
    state = json.loads(state.read_text())
    assert state["best_metric"] == pytest.approx(history[best][chosen])
    assert "eval_validation_average_precision" in results["linear"]["history"][0]
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out/gile/model")
    assert [label.seen for label in model.label_set] == [True, True, True, False, False]
    assert not [name for name in model.state_dict() if "lora" in name]
    assert model.config.text_config.text_encoder_config.attention_probs_dropout_prob == 0
    assert model.label_set[0].description == model.label_set[0].synonyms[0]
    assert results["gile"]["test"]["test_unseen_documents"] == sum(
        "cardiac" in json.loads(line)["tags"] for line in (tmp_path / "test.jsonl").read_text().splitlines()
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"units": ["gile", "wsabie"], "text_encoder": "x"}, "unit wsabie supports word models only"),
        ({"label_texts": "titles"}, "label_texts must be one of name, synonyms, definitions"),
        ({"lora_rank": 2}, "lora_rank needs a pretrained encoder"),
    ],
)
def test_incompatible_settings_are_named(tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        Recipe(**settings).check(TrainingArguments(str(tmp_path), use_cpu=True))


@pytest.mark.slow
def test_a_model_on_a_frozen_encoder_can_be_trained_with_its_encoder(run, tmp_path):
    common = ["--units", "gile_rows", "--label_texts", "name", "--num_train_epochs", "2", "--make_cards", "false"]
    done, _ = run("--freeze_text_encoder", "--bag_size", "32", *common)
    assert done.returncode == 0, done.stderr[-3000:]
    first = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out/gile_rows/model")
    (tmp_path / "out").rename(tmp_path / "first")
    start = [
        "--text_encoder_options",
        '{"hidden_dropout_prob": 0.0}',
        "--start_from",
        str(tmp_path / "first/gile_rows/model"),
        "--lexical",
        "--term_weights",
        '{"unseen": {"match": 5}}',
    ]
    done, results = run(*start, "--label_refresh_steps", "4", "--text_encoder_learning_rate", "1e-5", *common)
    assert done.returncode == 0, done.stderr[-3000:]
    second = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out/gile_rows/model")
    assert results["gile_rows"]["history"][0]["eval_validation_seen_average_precision"] > 0.5
    assert not second.config.text_config.freeze_text_encoder
    assert second.config.lexical
    assert second.config.term_weights == {"unseen": {"match": 5}}
    weights = dict(first.gile.text_encoder.named_parameters())
    for name, weight in second.gile.text_encoder.named_parameters():
        assert 0 < (weight - weights[name]).abs().max() < 0.01, name
    assert (
        second.gile.label_rows.weight - first.gile.label_rows.weight
    ).abs().max() < first.gile.label_rows.weight.abs().max()
    done, _ = run(*start, "--units", "linear")
    assert "has output_layer 'gile', but unit linear has 'linear'" in done.stderr
