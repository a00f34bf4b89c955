"""Vectors of stored labels, saved with the model, so that a loaded model does not encode its labels again."""

import inspect

import pytest
import torch
from answers import logits_of
from safetensors.torch import load_file, save_file

from hf_gile import GileForSequenceClassification, LabelSet
from hf_gile.models.label_embeds_gile import EMBEDS_FILE, LabelEmbeds
from hf_gile.models.saving_gile import MANIFESTS
from hf_gile.models.text_encoders_gile import TransformerEncoder

NAMES = ["Heart", "Milk", "Iron in blood", "Breast milk", "Infants"]


@pytest.fixture
def encoded(monkeypatch):
    """Numbers of labels encoded by each call."""
    numbers = []
    pool = TransformerEncoder.pool

    def count(encoder, input_ids, *arguments, **options):
        if inspect.currentframe().f_back.f_back.f_code.co_name == "pool_stored_labels":
            numbers.append(len(input_ids))
        return pool(encoder, input_ids, *arguments, **options)

    monkeypatch.setattr(TransformerEncoder, "pool", count)
    return numbers


@pytest.fixture
def saved(make_pretrained, tmp_path):
    """Returns a model that has scored, its processor, its logits and the folder where it is saved."""
    model, processor = make_pretrained()
    model.set_labels(LabelSet.from_names(NAMES), processor)
    logits = score(model.eval(), processor)
    for part in (model, processor):
        part.save_pretrained(tmp_path / "model")
    return model, processor, logits, tmp_path / "model"


def score(model, processor):
    return logits_of(model, processor(["milk and iron"], return_tensors="pt"))


def test_a_loaded_model_scores_without_encoding_its_labels(saved, encoded):
    _, processor, logits, folder = saved
    loaded = GileForSequenceClassification.from_pretrained(folder)
    torch.testing.assert_close(score(loaded, processor), logits)
    assert encoded == []


def test_only_new_labels_are_encoded(saved, encoded, tmp_path):
    _, processor, logits, folder = saved
    loaded = GileForSequenceClassification.from_pretrained(folder)
    loaded.set_labels(LabelSet.from_names([*NAMES[::-1], "Milk of infants", "Iron and milk"]), processor)
    torch.testing.assert_close(score(loaded, processor)[:, :5].flip(-1), logits)
    assert encoded == [2]
    loaded.save_pretrained(tmp_path / "longer")
    longer = GileForSequenceClassification.from_pretrained(tmp_path / "longer")
    torch.testing.assert_close(score(longer, processor), score(loaded, processor))
    assert encoded == [2]


def test_vectors_of_another_encoder_are_not_used(saved, encoded):
    _model, processor, _, folder = saved
    loaded = GileForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        loaded.gile.text_encoder.transformer.embeddings.word_embeddings.weight.mul_(1.5)
    expected = loaded.gile(**processor(["milk and iron"], label_text=NAMES, return_tensors="pt")).logits
    encoded.clear()
    loaded.save_pretrained(folder)
    assert not (folder / EMBEDS_FILE).exists()
    torch.testing.assert_close(score(loaded, processor), expected)
    assert encoded == [5]


def test_vectors_may_have_8_bits(saved, encoded):
    _, processor, logits, folder = saved
    for manifest in MANIFESTS.values():
        (folder / manifest).unlink()
    embeds = LabelEmbeds.load(folder, {})
    embeds._replace(vectors=embeds.vectors.to(torch.float8_e4m3fn)).save(folder / EMBEDS_FILE)
    loaded = GileForSequenceClassification.from_pretrained(folder)
    torch.testing.assert_close(score(loaded, processor), logits, atol=0.1, rtol=0.1)
    assert encoded == []


@pytest.mark.parametrize("damage", ["fewer", "nan", "nan in 8 bits"])
def test_a_file_whose_tensors_do_not_fit_is_not_used(saved, encoded, damage):
    _, processor, logits, folder = saved
    for manifest in MANIFESTS.values():
        (folder / manifest).unlink()
    tensors = load_file(folder / EMBEDS_FILE)
    if damage == "fewer":
        tensors["vectors"] = tensors["vectors"][:-1].contiguous()
    else:
        tensors["vectors"][0] = torch.nan
    if "8 bits" in damage:
        tensors["vectors"] = tensors["vectors"].to(torch.float8_e4m3fn)
    save_file(tensors, folder / EMBEDS_FILE)
    loaded = GileForSequenceClassification.from_pretrained(folder)
    torch.testing.assert_close(score(loaded, processor), logits)
    assert encoded == [5]


def test_a_damaged_file_is_named(saved):
    *_, folder = saved
    (folder / MANIFESTS["model"]).unlink()
    (folder / EMBEDS_FILE).write_bytes(b"x" * 99)
    with pytest.raises(ValueError, match=f"{EMBEDS_FILE} is damaged .*: save the model again, or remove the file"):
        GileForSequenceClassification.from_pretrained(folder)


def test_training_over_a_frozen_encoder_uses_the_same_vectors(make_pretrained, encoded):
    model, processor = make_pretrained(freeze_text_encoder=True)
    model.set_labels(LabelSet.from_names(NAMES), processor)
    score(model.eval(), processor)
    batch = processor(["milk and iron"], return_tensors="pt")
    model.train()(**batch, labels=torch.tensor([[1]])).loss.backward()
    with torch.no_grad():
        model.gile.output_layer.input_projection.weight.mul_(1.5)  # is trained, unlike the encoder
    expected = model.eval().gile(**processor(["milk and iron"], label_text=NAMES, return_tensors="pt")).logits
    torch.testing.assert_close(score(model, processor), expected)
    assert encoded == [5]
