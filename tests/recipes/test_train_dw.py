"""The news recipe from the command line, on a few synthetic documents in two languages."""

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
def data(write):
    """Writes documents: label j of a language is word 2j; documents contain words 2j and 2j + 1 of gold labels."""
    rng = random.Random(0)
    vectors = np.random.default_rng(0).normal(size=(11, 13)).astype("float32")
    for language, words in WORDS.items():
        table = list(vectors[: len(words)])  # aligned: equal rows have the same meaning
        write(f"dw/word_vectors/{language}.pkl.gz", pickle.dumps((words, table), protocol=2))
        for split, size in {"train": 60, "dev": 20, "test": 20}.items():
            gold = [sorted(rng.sample(range(4), k=rng.choice([1, 2]))) for _ in range(size)]
            documents = [[[2 * label, 2 * label + 1, len(words) - 1] for label in labels] for labels in gold]
            content = {"X_ids": documents, "Y_ids": gold, "label_ids": ["0", "2", "4", "6"]}
            write(f"dw/general/{split}/{language}.json", content)


@pytest.fixture
def run(data, run_recipe):
    sizes = "--hidden_size 17 --joint_size 19 --hidden_act tanh --use_cpu"
    steps = "--num_train_epochs 12 --learning_rate 2e-2 --epoch_size 0"
    return lambda flags: run_recipe("train_dw", f"--data dw/general --output_dir out {sizes} {steps} {flags}")


@pytest.mark.slow
def test_two_languages_are_trained_together_and_reported_separately(run, tmp_path):
    done = run("--units linear gile")
    for unit in ("linear", "gile"):
        for language in WORDS:
            figures = done.results[unit][language]
            assert figures["tuned_f1"] > 0.85, (unit, language, figures)
            assert figures["fixed_threshold"] == 0.4
            assert figures["test"]["test_ranking_loss"] < 0.1
            assert language in done.stdout
    folder = tmp_path / "out" / "gile" / "model"
    assert not (folder / "training_args.bin").exists()
    model, processor = GileForSequenceClassification.from_pretrained(folder), GileProcessor.from_pretrained(folder)
    assert model.config.languages == ["english", "german"]
    assert model.config.language_labels == {"english": 4, "german": 4}
    inputs = processor([["niere harn"]], language="german", return_tensors="pt")
    assert model.eval()(**inputs).logits.argmax() == 7


@pytest.mark.slow
def test_a_low_resource_run_on_a_single_language_measures_unseen_labels(run, tmp_path):
    documents = "--languages german --percent 50 --held_out 0.4 --label_share 0.7"
    done = run(f"{documents} --text_encoder_type nn --units gile --save_models false")
    figures = done.results["gile"]["german"]
    assert figures["fixed_threshold"] == 0.3
    assert figures["test"]["test_unseen_documents"] > 0
    assert not (tmp_path / "out" / "gile" / "model").exists()
    assert "of them unseen in training" in done.stdout


@pytest.mark.parametrize(("cell", "parameters"), [("dense", 50_000), ("bigru", 377_000)])
def test_parameter_counts_equal_table_4_of_the_paper(cell, parameters):
    sizes = {"vocab_size": 50, "embedding_size": 40, "num_labels": 152}  # labels per language, on average
    config = UNITS["linear"].config(**model_fields(Recipe(data="", encoder_cell=cell)), **sizes)
    model = GileForSequenceClassification(config)
    model.get_input_embeddings().requires_grad_(False)
    assert model.num_parameters(only_trainable=True) == pytest.approx(parameters, rel=0.01)
