"""The news recipe from the command line, on a few synthetic documents in two languages."""

import gzip
import json
import pickle
import random

import numpy as np
import pytest
from papers.units import UNITS
from train_dw import Recipe, model_fields

from hf_gile import GileForSequenceClassification, GileProcessor

WORDS = {
    "english": ["milk", "breast", "iron", "anemia", "heart", "valve", "kidney", "urine", "the", "of", "and"],
    "german": ["milch", "brust", "eisen", "blut", "herz", "klappe", "niere", "harn", "der", "und"],
}


@pytest.fixture
def data(tmp_path):
    """Writes documents: label j of a language is word 2j; documents contain words 2j and 2j + 1 of gold labels."""
    rng = random.Random(0)
    vectors = np.random.default_rng(0).normal(size=(11, 13)).astype("float32")
    for language, words in WORDS.items():
        folder = tmp_path / "dw" / "word_vectors"
        folder.mkdir(parents=True, exist_ok=True)
        table = [vectors[row] for row in range(len(words))]  # aligned: equal rows have the same meaning
        (folder / f"{language}.pkl.gz").write_bytes(gzip.compress(pickle.dumps((words, table), protocol=2)))
        for split, size in {"train": 60, "dev": 20, "test": 20}.items():
            documents, gold = [], []
            for _ in range(size):
                labels = sorted(rng.sample(range(4), k=rng.choice([1, 2])))
                sentences = [[2 * label, 2 * label + 1, len(words) - 1] for label in labels]
                documents.append(sentences)
                gold.append(labels)
            split_folder = tmp_path / "dw" / "general" / split
            split_folder.mkdir(parents=True, exist_ok=True)
            content = {"X_ids": documents, "Y_ids": gold, "label_ids": [str(2 * label) for label in range(4)]}
            (split_folder / f"{language}.json").write_text(json.dumps(content))
    return tmp_path / "dw" / "general"


def settings(data, *arguments):
    options = ["--data", str(data), "--output_dir", str(data.parents[1] / "out"), "--use_cpu", "--hidden_size", "17"]
    steps = ["--num_train_epochs", "12", "--learning_rate", "2e-2", "--epoch_size", "0", "--joint_size", "19"]
    return [*options, *steps, "--hidden_act", "tanh", *arguments]


@pytest.fixture
def run(data, run_recipe):
    def run_dw(*arguments):
        return run_recipe("train_dw", settings(data, *arguments), data), data.parents[1] / "out"

    return run_dw


@pytest.mark.slow
def test_two_languages_are_trained_together_and_reported_separately(run):
    done, output = run("--units", "linear", "gile")
    assert done.returncode == 0, done.stderr[-3000:]
    results = json.loads((output / "results.json").read_text())
    for unit in ("linear", "gile"):
        for language in WORDS:
            figures = results[unit][language]
            assert figures["tuned_f1"] > 0.85, (unit, language, figures)
            assert figures["fixed_threshold"] == 0.4
            assert figures["test"]["test_ranking_loss"] < 0.1
    assert "english" in done.stdout
    assert "german" in done.stdout
    assert not (output / "gile" / "model" / "training_args.bin").exists()
    config = json.loads((output / "gile" / "model" / "config.json").read_text())
    assert config["languages"] == ["english", "german"]
    assert config["language_labels"] == {"english": 4, "german": 4}
    folder = output / "gile" / "model"
    model, processor = GileForSequenceClassification.from_pretrained(folder), GileProcessor.from_pretrained(folder)
    inputs = processor([["niere harn"]], language="german", return_tensors="pt")
    assert model.eval()(**inputs).logits.argmax() == 7


@pytest.mark.slow
def test_a_low_resource_run_on_a_single_language_measures_unseen_labels(run):
    arguments = ["--languages", "german", "--text_encoder_type", "nn", "--percent", "50", "--held_out", "0.4"]
    done, output = run(*arguments, "--units", "gile", "--label_share", "0.7", "--save_models", "false")
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads((output / "results.json").read_text())["gile"]["german"]
    assert result["fixed_threshold"] == 0.3
    assert result["test"]["test_unseen_documents"] > 0
    assert not (output / "gile" / "model").exists()
    assert "of them unseen in training" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sharing", "all"], "sharing must be one of none, encoders, attention, both, got 'all'"),
        (["--languages", "germn"], "languages must be one of english, german, got 'germn'; did you mean german?"),
        (["--data", "absent"], "data: no file absent/train"),
    ],
)
def test_invalid_settings_are_refused_before_training(run, arguments, message):
    done, output = run(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert not output.exists()


@pytest.mark.parametrize(("cell", "parameters"), [("dense", 50_000), ("bigru", 377_000)])
def test_parameter_counts_equal_table_4_of_the_paper(cell, parameters):
    config = UNITS["linear"].config(
        **model_fields(Recipe(data="", encoder_cell=cell)),
        vocab_size=50,
        embedding_size=40,
        num_labels=152,  # the average number of labels per language
    )
    model = GileForSequenceClassification(config)
    model.get_input_embeddings().requires_grad_(False)
    assert model.num_parameters(only_trainable=True) == pytest.approx(parameters, rel=0.01)
