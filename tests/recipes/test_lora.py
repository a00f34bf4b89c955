"""Low-rank adapters in the pretrained encoder: trained, saved, resumed, merged."""

import sys

import pytest
import torch
from answers import logits_of
from datasets import Dataset
from papers.lora import add_lora, merge_lora
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

from hf_gile.training import GileDataCollator, encode_dataset

TEXTS = ["Breast milk.", "The failing heart pumps less blood.", "Iron", "milk and iron", "Infants were fed with milk"]
GOLD = [["Milk, Human"], ["Heart Failure", "Blood"], ["Iron"], ["Milk, Human", "Iron"], ["Infant", "Milk, Human"]]


@pytest.fixture
def make_adapted(make_pretrained):
    """Creates a model with adapters and its processor."""
    pytest.importorskip("peft")

    def make():
        problem = {"label_encoder_type": "text_encoder", "problem_type": "multi_label_classification"}
        model, processor = make_pretrained(joint_size=13, **problem)
        add_lora(model, rank=2)
        return model, processor

    return make


def test_adapters_are_trained_and_merged_into_an_ordinary_model_with_the_same_scores(make_adapted, label_set, tmp_path):
    model, processor = make_adapted()
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    dataset = encode_dataset(Dataset.from_dict({"text": TEXTS, "labels": GOLD}), processor, label_set)
    args = TrainingArguments(str(tmp_path), use_cpu=True, report_to="none", max_steps=3, learning_rate=2e-2)
    Trainer(model, args, data_collator=GileDataCollator(processor), train_dataset=dataset).train()
    changed = {name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])}
    assert any(name.startswith("gile.text_encoder.") and "lora_B" in name for name in changed)
    assert not [name for name in changed if ".transformer." in name and "lora_" not in name]
    batch = processor(TEXTS, return_tensors="pt")
    adapted = logits_of(model.eval(), batch)
    merge_lora(model)
    assert torch.allclose(logits_of(model, batch), adapted, atol=1e-5)
    assert all(parameter.requires_grad for parameter in model.parameters())
    model.save_pretrained(tmp_path / "merged")
    processor.save_pretrained(tmp_path / "merged")
    assert not [name for name in load_file(tmp_path / "merged" / "model.safetensors") if "lora" in name]
    merged = AutoModelForSequenceClassification.from_pretrained(tmp_path / "merged").eval()
    assert torch.allclose(merged(**batch).logits, adapted, atol=1e-4)


def test_unsupported_adapters_are_refused(make_adapted, make_model, make_pretrained):
    model, _ = make_adapted()
    with pytest.raises(ValueError, match="the model already has adapters"):
        add_lora(model)
    merge_lora(model)
    with pytest.raises(ValueError, match="the model has no adapters to merge"):
        merge_lora(model)
    with pytest.raises(ValueError, match="rank must be at least 1, got 0"):
        add_lora(model, rank=0)
    with pytest.raises(ValueError, match="LoRA needs a pretrained encoder"):
        add_lora(make_model()[0])
    with pytest.raises(ValueError, match="freeze_text_encoder freezes the whole encoder"):
        add_lora(make_pretrained(freeze_text_encoder=True)[0])


def test_without_peft_the_error_names_the_extra(make_model, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    message = r"LoRA needs the `train` extra: pip install 'hf-gile\[train\]', or in a clone: .* -e '\.\[train\]' \("
    with pytest.raises(ImportError, match=message):
        add_lora(make_model()[0])
