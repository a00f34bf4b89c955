"""`hf-gile distill` makes a static model from a model and texts, and refuses what it cannot."""

import json

import pytest
from transformers import AutoModelForSequenceClassification, AutoProcessor

from hf_gile import Label, LabelScoringPipeline, LabelSet
from hf_gile.training import model_from_text_encoder, processor_from_text_encoder

TEXTS = ["iron diet of rats", "low iron diet", "human milk", "breast milk of rats", "heart failure", "acute heart"]
LABELS = ["iron", "iron", "milk", "milk", "heart", "heart"]
pytestmark = pytest.mark.usefixtures("datasets_cache", "short_search")


@pytest.fixture
def teacher(tmp_path, save_text_encoder):
    encoder = save_text_encoder(texts=TEXTS, hidden_size=20)
    options = {"output_layer": "bilinear", "cosine_score": True, "label_rows": "full", "freeze_text_encoder": True}
    model = model_from_text_encoder(encoder, num_labels=3, problem_type="single_label_classification", **options)
    processor = processor_from_text_encoder(encoder, model.config)
    model.set_labels(LabelSet([Label(name, name) for name in ("iron", "milk", "heart")]), processor)
    LabelScoringPipeline(model, processor=processor).save_pretrained(tmp_path / "teacher")
    return tmp_path / "teacher"


def test_a_model_is_distilled_from_texts_without_labels(run, tmp_path, teacher):
    texts, fast = tmp_path / "texts.txt", tmp_path / "fast"
    texts.write_text("\n".join([*TEXTS, ""]), encoding="utf-8")
    result = run("distill", teacher, texts, "--output_dir", fast)
    assert f"{teacher} reads 6 texts" in result.stderr
    assert "the head is unchanged: with --labels COLUMN" in result.stderr
    model = AutoModelForSequenceClassification.from_pretrained(fast)
    assert model.config.text_config.text_encoder_type == "static"
    answer = run("score", fast, "--top-k", 1, input="iron diet\n").stdout
    assert json.loads(answer)["labels"][0] in LABELS
    result = run("distill", teacher, texts, "--output_dir", fast, ends=1)
    assert f"{fast} exists and is not empty: name another, or pass --overwrite_output_dir" in result.stderr
    run("distill", teacher, texts, "--output_dir", fast, "--overwrite_output_dir")
    result = run("labels", "add", fast, "x", "blood", ends=1)
    assert "new labels need the encoder, which taught this static model and is not available here" in result.stderr
    run("labels", "retire", fast, "milk")
    assert AutoModelForSequenceClassification.from_pretrained(fast).label_set.ids == ["iron", "heart"]


def test_the_head_is_fitted_to_the_labels_of_a_table(run, tmp_path, teacher):
    table, fast = tmp_path / "table.jsonl", tmp_path / "fast"
    pairs = enumerate(zip(TEXTS * 15, LABELS * 15, strict=True))
    rows = [{"text": f"{text} {number}", "topic": label} for number, (text, label) in pairs]
    table.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    run("distill", teacher, table, "--labels", "topic", "--output_dir", fast)
    model = AutoModelForSequenceClassification.from_pretrained(fast)
    processor = AutoProcessor.from_pretrained(fast)
    logits = model(**processor(["iron diet", "human milk", "heart failure"], return_tensors="pt")).logits
    assert [model.config.id2label[column] for column in logits.argmax(1).tolist()] == ["iron", "milk", "heart"]
    assert all(label.count > 20 for label in model.label_set)
