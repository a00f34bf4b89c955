import re
from collections import Counter

import pytest
import torch
from answers import logits_of
from lxml import html
from papers.attention import explain, heat_map

MILK = "Breast milk (12.5 g) is fed to INFANTS. The zebra pumps 30% less blood!"
TEXTS = [MILK, "Iron.", ["Blood was drawn.", "...", "Rats were fed"]]
RECORD = {
    "text": [["breast", "milk"], ["infants", "were", "fed"]],
    "watts": [[0.25, 0.75], [0.5, 0.25, 0.25]],
    "satts": [0.8, 0.2],
    "gold_tags": ["Milk, Human", "Iron"],
    "tags": [["Milk, Human", 0.93], ["Infant", 0.525]],
}


def one(value):
    return pytest.approx(value, abs=1e-6)


def test_words_are_shown_as_the_model_reads_them(make_model):
    first, second, third = explain(*make_model("han"), TEXTS)
    assert first["text"] == [
        ["breast", "milk", "NUM", "g", "is", "fed", "to", "infants"],
        ["the", "zebra", "pumps", "NUM", "less", "blood"],
    ]
    assert second["text"] == [["iron"]]
    assert third["text"] == [["blood", "was", "drawn"], ["rats", "were", "fed"]]


def test_weights_equal_the_attention_of_the_model(make_model):
    model, processor = make_model("han")
    with torch.no_grad():
        words, sentences = model(**processor(TEXTS, return_tensors="pt"), output_attentions=True).attentions
    for place, record in enumerate(explain(model, processor, TEXTS)):
        for row, weights in enumerate(record["watts"]):
            assert weights == one(words[place, row, : len(weights)].tolist())
            assert not words[place, row, len(weights) :].any()
        assert record["satts"] == one(sentences[place, : len(record["text"])].tolist())
        assert not sentences[place, len(record["text"]) :].any()


def test_predictions_are_the_most_probable_labels(make_model):
    model, processor = make_model("han", problem_type="single_label_classification")
    scores = logits_of(model, processor(TEXTS, return_tensors="pt")).softmax(-1)
    records = explain(model, processor, TEXTS, gold=[["Iron", "Blood"], [], ["Infant"]], top_k=3)
    for row, record in zip(scores, records, strict=True):
        expected = sorted(zip(row.tolist(), model.label_set.names, strict=True), reverse=True)[:3]
        assert [name for name, _ in record["tags"]] == [name for _, name in expected]
        assert [score for _, score in record["tags"]] == one([score for score, _ in expected])
    assert [record["gold_tags"] for record in records] == [["Iron", "Blood"], [], ["Infant"]]
    threshold = scores[0].median().item()
    assert all(score >= threshold for _, score in explain(model, processor, TEXTS, threshold=threshold)[0]["tags"])


def test_models_without_attention_and_mismatched_gold_are_refused(make_model):
    with pytest.raises(ValueError, match=r"the text encoder 'nn' with pooling .* has no attention to words"):
        explain(*make_model("nn"), TEXTS[:1])
    model, processor = make_model()
    with pytest.raises(ValueError, match="expected gold labels for 2 texts, got 1"):
        explain(model, processor, TEXTS[:2], gold=[[]])
    with pytest.raises(ValueError, match="no label has the id 'iron'"):
        explain(model, processor, ["Iron."], gold=[["iron"]])
    model.label_set = None
    with pytest.raises(ValueError, match="the model has no label set"):
        explain(model, processor, ["Iron."])


def read_page(text):
    """Parses a page, all of whose elements are closed."""
    opened = Counter(re.findall(r"<(\w+)", text)) - Counter(meta=text.count("<meta"))
    assert opened == Counter(re.findall(r"</(\w+)", text))
    return html.document_fromstring(text)


def texts(page, tag):
    return [element.text for element in page.iter(tag)]


def test_the_word_with_the_highest_weight_has_full_colour():
    page = read_page(heat_map(RECORD))
    shares = {"breast": "0.33", "milk": "1.00", "infants": "0.17", "were": "0.08", "fed": "0.08"}
    shown = {span.text: span.get("style") for span in page.xpath("//span[@style]")}
    assert shown == {word: f"--a:{share}" for word, share in shares.items()}
    assert texts(page, "small") == ["93.0%", "52.5%", "80%", "20%"]


def test_records_are_escaped_in_html():
    attack = "<script>alert('{0}')</script>\"&"
    record = {"text": [[attack, "{style}"]], "watts": [[0.5, 0.5]], "satts": [1.0]}
    record |= {"gold_tags": [attack, attack + "!"], "tags": [[attack, "0.5"]]}
    page = read_page(heat_map([record, record], title=attack))
    assert texts(page, "script") == []
    assert texts(page, "h1") == texts(page, "title") == [attack]
    assert texts(page, "span") == [attack, attack + "!", attack, "{style}"] * 2


def test_a_page_loads_no_external_resources():
    page = heat_map([RECORD])
    for way_out in ("http", "src=", "href=", "url(", "@import", "<script", "<link"):
        assert way_out not in page
    assert page.startswith("<!doctype html>")
