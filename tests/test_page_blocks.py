"""Code examples of docs/ that need prepared models and data; tests of single pages run the others."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import Trainer, TrainingArguments

from hf_gile import GileForSequenceClassification, LabelSet
from hf_gile.exports import export_onnx, export_sentence_transformers
from hf_gile.publishing import save
from hf_gile.training import GileLoss, encode_dataset, model_from_text_encoder, processor_from_text_encoder

ROOT = Path(__file__).parents[1]
TEXTS = ["The failing heart pumps less blood.", "Breast milk for infants.", "Rats were fed iron."]
GOLD = [["Heart Failure"], ["Milk, Human", "Infant"], ["Iron"]]


def run(page, opening, names):
    """Runs the block of a page that begins with an opening."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL)
    (block,) = [block for block in blocks if block.startswith(opening)]
    exec(compile(block, page, "exec"), names)
    return names


def rows(copies=1, labels=GOLD):
    return Dataset.from_dict({"text": TEXTS * copies, "labels": labels * copies})


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_example_with_lexical_terms_runs(make_model):
    model, processor = make_model(problem_type="multi_label_classification")
    for part in (model, processor):
        part.save_pretrained("model")
    processor.lexical = True
    names = {"dataset": encode_dataset(rows(), processor, model.label_set), "folder": "model", "processor": processor}
    names["GileForSequenceClassification"] = GileForSequenceClassification
    assert run("how_it_works.md", "from hf_gile.training import set_lexical", names)["model"].config.lexical


def test_the_convex_fitting_example_runs(save_text_encoder):
    encoder, labels = save_text_encoder(), LabelSet.from_names(["Heart", "Milk", "Iron"])
    model = model_from_text_encoder(encoder, num_labels=3, problem_type="single_label_classification")
    processor = processor_from_text_encoder(encoder, model.config)
    encoded = encode_dataset(rows(6, [["Heart"], ["Milk"], ["Iron"]]), processor, labels)
    names = {"encoder": encoder, "labels": labels, "processor": processor}
    names["parts"] = {"train": encoded, "validation": encoded}
    names = run("how_it_works.md", "from hf_gile.training import add_pooled_embeds, fit_convex", names)
    assert names["fitted"].chosen


def test_the_frozen_encoder_and_learning_rate_examples_run(save_text_encoder):
    encoder, labels = save_text_encoder(), LabelSet.from_names(["Heart Failure", "Milk, Human", "Iron", "Infant"])
    model = model_from_text_encoder(
        encoder, num_labels=4, problem_type="multi_label_classification", freeze_text_encoder=True
    )
    processor = processor_from_text_encoder(encoder, model.config)
    model.set_labels(labels, processor)
    names = {"model": model, "processor": processor, "labels": labels, "rows": rows(), "torch": torch}
    names |= {"encode_dataset": encode_dataset, "Trainer": Trainer}
    names["args"] = TrainingArguments("runs", use_cpu=True, report_to="none")
    frozen = run("pretrained.md", "from hf_gile.training import add_pooled", dict(names))
    assert "pooled_embeds" in frozen["dataset"].column_names
    model = model_from_text_encoder(encoder, num_labels=4, problem_type="multi_label_classification")
    names |= {"dataset": encode_dataset(rows(), processor, labels), "model": model}
    groups = run("pretrained.md", "from hf_gile.training import parameter_groups", names)["groups"]
    assert {group["lr"] for group in groups} == {1e-4, 2e-3}


def test_the_example_of_a_static_encoder_runs(save_text_encoder):
    encoder, labels = save_text_encoder(), LabelSet.from_names(["Heart Failure", "Milk, Human", "Iron"])
    model = model_from_text_encoder(encoder, num_labels=3, freeze_text_encoder=True)
    processor = processor_from_text_encoder(encoder, model.config)
    model.set_labels(labels, processor)
    names = {"model": model, "processor": processor, "texts": TEXTS}
    names = run("scale_out.md", "from hf_gile.training import attach_teacher", names)
    assert names["fast"].model.config.text_config.text_encoder_type == "static"


def test_the_torch_export_example_runs(make_model):
    model, processor = make_model(problem_type="multi_label_classification")
    inputs = processor(TEXTS, return_tensors="pt")
    names = run("pretrained.md", "model.eval()", {"torch": torch, "model": model, "inputs": inputs})
    exported = names["program"].module()(inputs["input_ids"], inputs["attention_mask"])
    torch.testing.assert_close(exported["logits"], model(**inputs).logits)


def test_the_example_with_vectors_of_texts_runs_for_the_default_kind_of_model(save_text_encoder):
    encoder, labels = save_text_encoder(), LabelSet.from_names(["Heart Failure", "Milk, Human", "Iron"])
    kind = {"output_layer": "bilinear", "cosine_score": True, "label_rows": "full", "lexical": True}
    model = model_from_text_encoder(encoder, num_labels=3, freeze_text_encoder=True, **kind)
    processor = processor_from_text_encoder(encoder, model.config)
    model.set_labels(labels, processor)
    save("model", model, processor, index=False, card=False)
    vectors = run("exports.md", "import torch\nfrom transformers", {})["vectors"]
    assert vectors.shape == (1, model.project_stored_labels().shape[1])


def test_the_sentence_transformers_example_runs(save_text_encoder):
    pytest.importorskip("sentence_transformers")
    encoder, labels = save_text_encoder(), LabelSet.from_names(["Heart Failure", "Milk, Human", "Iron"])
    model = model_from_text_encoder(encoder, num_labels=3)
    processor = processor_from_text_encoder(encoder, model.config)
    model.set_labels(labels, processor)
    export_sentence_transformers(model, processor, "out")
    logits = run("exports.md", "from safetensors.torch import load_file", {})["logits"]
    with torch.no_grad():
        expected = model.eval()(**processor(["Rats were fed iron."], return_tensors="pt")).logits
    torch.testing.assert_close(logits.cpu(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.slow  # as all exports to ONNX
def test_the_onnx_example_runs(make_model):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model, processor = make_model(problem_type="multi_label_classification")
    export_onnx(model, processor, "out")
    logits = run("exports.md", "import onnxruntime", {})["logits"]
    expected = model(**processor(["Rats were fed iron."], return_tensors="pt")).logits
    torch.testing.assert_close(torch.from_numpy(logits), expected)


def test_the_rare_label_and_loss_examples_run(make_model):
    model, _ = make_model()
    label_set = model.label_set.with_counts({"Iron": 7, "Blood": 2, "Infant": 1, "Milk, Human": 1})
    names = {"label_set": label_set, "seen": label_set.seen, "num_documents": 20, "model": model}

    run("training.md", "from hf_gile.metrics import LabelMetrics, propensities", names)
    assert run("training.md", "def focal", names)["model"].loss_function is names["focal"]


@pytest.mark.slow
def test_the_training_program_example_runs(make_model):
    model, processor = make_model(problem_type="multi_label_classification")
    model.set_labels(model.label_set.with_counts(dict.fromkeys(model.label_set.ids, 1)), processor)
    args = TrainingArguments("runs", use_cpu=True, report_to="none", num_train_epochs=1, eval_strategy="epoch")
    args.save_strategy, args.load_best_model_at_end, args.batch_eval_metrics = "epoch", True, True
    names = {"model": model, "processor": processor, "args": args, "GileLoss": GileLoss}
    names["parts"] = dict.fromkeys(("train", "validation", "test"), rows(4))
    run("training.md", "from pathlib import Path", names)
    assert Path("runs/mine/model/config.json").is_file()


def test_the_fit_example_runs(make_model, monkeypatch):
    monkeypatch.setattr("hf_gile.training.fit.text_encoders", lambda texts: [])
    label_set = make_model()[0].label_set
    label_set = label_set.with_counts(dict.fromkeys(label_set.ids, 1))
    args = TrainingArguments("runs", use_cpu=True, report_to="none", batch_eval_metrics=True)
    parts = dict.fromkeys(("train", "validation", "test"), rows(4))
    run("training.md", "from hf_gile.training.fit import fit", {"args": args, "parts": parts, "label_set": label_set})
    assert Path("runs/auto/model/config.json").is_file()


def test_the_table_and_word_vector_examples_run():
    Path("subjects.csv").write_text("id,name_en,name_de,synonyms\na,Iron,Eisen,Fe\n")
    Path("records.jsonl.gz").write_text('{"id": "1", "title": "Iron.", "abstract": "Of rats.", "subjects": ["a"]}\n')
    Path("glove.840B.300d.txt").write_text("iron 0.5 1.0\nmilk 1.0 0.25\n")
    assert len(run("data.md", "from hf_gile.data import load_labels", {})["rows"]) == 1
    names = run("data.md", "from hf_gile import GileConfig, GileModel", {})
    assert np.isfinite(names["model"].get_input_embeddings().weight.detach().numpy()).all()
