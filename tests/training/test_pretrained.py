"""Training with a pretrained encoder: precomputed vectors, token weights, the learning rate of the encoder."""

import numpy as np
import pytest
import torch
from datasets import Dataset

from hf_gile.settings import only_read
from hf_gile.training import GileDataCollator, add_pooled_embeds, encode_dataset, parameter_groups

TEXTS = ["Breast milk.", "The failing heart pumps less blood. Cardiac output was measured.", "Iron", "", "milk. iron."]
GOLD = [["Milk, Human"], ["Heart Failure", "Blood"], ["Iron"], [], ["Milk, Human", "Iron"]]


@pytest.fixture
def make(make_pretrained, label_set):
    def make_model(**fields):
        fields = only_read(**{"text_encoder_type": "transformer", "joint_size": 13} | fields)
        model, processor = make_pretrained(problem_type="multi_label_classification", **fields)
        dataset = encode_dataset(Dataset.from_dict({"text": TEXTS, "labels": GOLD}), processor, label_set)
        return model, processor, dataset

    return make_model


KINDS = [
    {},
    {"text_encoder_type": "hierarchical_transformer", "max_sentence_words": 6, "pooling": "cls"},
]


@pytest.mark.parametrize("fields", KINDS, ids=["documents", "windows"])
def test_precomputed_vectors_give_the_same_scores(make, fields):
    model, processor, dataset = make(freeze_text_encoder=True, **fields)
    pooled = add_pooled_embeds(dataset, model, processor, batch_size=2)
    collator = GileDataCollator(processor)
    batch, plain = collator(list(pooled)), collator(list(dataset))
    stream = add_pooled_embeds(dataset.to_iterable_dataset(), model, processor)
    for row, expected in zip(stream, pooled, strict=True):
        assert np.allclose(row["pooled_embeds"], expected["pooled_embeds"])
    assert batch["pooled_embeds"].shape[-1] == 12
    with torch.no_grad():
        expected = model(**plain).logits
        model.gile.text_encoder.transformer.forward = None  # must not run again
        assert torch.allclose(model(**batch).logits, expected, atol=1e-5)


def test_vectors_are_recomputed_only_for_changed_weights_or_documents(make, tmp_path):
    model, processor, dataset = make(freeze_text_encoder=True)
    dataset.to_parquet(tmp_path / "rows.parquet")
    dataset = Dataset.from_parquet(str(tmp_path / "rows.parquet"), cache_dir=str(tmp_path / "cache"))
    runs = []
    transformer = model.gile.text_encoder.transformer
    transformer.register_forward_hook(lambda *_: runs.append(1))

    def runs_of(dataset):
        runs.clear()
        add_pooled_embeds(dataset, model, processor)
        return len(runs)

    assert runs_of(dataset) == 1
    assert runs_of(dataset) == 0
    assert runs_of(dataset.map(lambda row: {"labels": row["labels"][1:]})) == 0
    assert runs_of(dataset.map(lambda row: {"input_ids": row["input_ids"][:1]})) == 1
    with torch.no_grad():
        transformer.embeddings.LayerNorm.bias[2] += 1
    assert runs_of(dataset) == 1


@pytest.mark.parametrize("fields", [{}, {"freeze_text_encoder": True, "pooling": "attention"}])
def test_precomputed_vectors_of_a_trained_encoder_are_refused(make, fields):
    model, processor, dataset = make(**fields)
    with pytest.raises(ValueError, match="pooled_embeds need a frozen encoder"):
        add_pooled_embeds(dataset, model, processor)


def rate_of(groups, parameter):
    return next(group["lr"] for group in groups if any(member is parameter for member in group["params"]))


def test_a_pretrained_encoder_has_a_separate_learning_rate(make):
    model, *_ = make(label_rows="full")
    groups = parameter_groups(model, 1e-2, text_encoder_learning_rate=1e-3, weight_decay=0.1)
    encoder = model.gile.text_encoder.transformer
    assert {rate_of(groups, weight) for weight in encoder.parameters()} == {1e-3}
    assert rate_of(groups, model.gile.label_rows.weight) == 1e-2
    grouped = sorted(id(parameter) for group in groups for parameter in group["params"])
    assert grouped == sorted(id(parameter) for parameter in model.parameters() if parameter.requires_grad)
    undecayed = [parameter for group in groups if group["weight_decay"] == 0 for parameter in group["params"]]
    assert any(parameter is model.gile.label_rows.weight for parameter in undecayed)
    for group in groups:
        if group["weight_decay"]:
            assert group["weight_decay"] == 0.1
            assert all(parameter.dim() > 1 for parameter in group["params"])
