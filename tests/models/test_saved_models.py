"""Saved models: what is in the manifest, and loading beside a process that saves."""

import shutil
import threading

import pytest
import torch
from safetensors.torch import save_file
from transformers import pipeline

from hf_gile import GileForSequenceClassification, GileProcessor, build_tokenizer
from hf_gile.models import saving_gile
from hf_gile.models.saving_gile import MANIFESTS, read_manifest


def test_the_manifests_have_all_files_except_code(saved):
    model, processor = (read_manifest(saved, part) for part in MANIFESTS)
    names = {path.name for path in saved.iterdir() if path.suffix != ".py"} - {*MANIFESTS.values()}
    assert {*model["files"], *processor["files"]} == names
    assert model["processor"] == processor["processor"] != ""


@pytest.mark.parametrize("options", [{"max_shard_size": "1KB"}, {"variant": "half"}])
def test_models_saved_with_options_of_transformers_load(saved, make_model, options):
    model, processor = make_model(joint_size=3)
    model.save_pretrained(saved, **options)
    processor.save_pretrained(saved)
    arguments = {"variant": options["variant"]} if "variant" in options else {}
    loaded = GileForSequenceClassification.from_pretrained(saved, **arguments)
    assert all(map(torch.equal, loaded.state_dict().values(), model.state_dict().values()))
    model.save_pretrained(saved)
    assert GileForSequenceClassification.from_pretrained(saved).label_set == model.label_set
    assert not list(saved.glob("model-0*"))


def test_models_in_a_subfolder_are_checked(saved, tmp_path):
    assert GileForSequenceClassification.from_pretrained(tmp_path, subfolder="saved").label_set is not None
    (saved / "labels.jsonl").write_bytes((saved / "labels.jsonl").read_bytes().replace(b"pumps", b"pumpt"))
    with pytest.raises(ValueError, match=r"labels.jsonl differs from model_manifest.json"):
        GileForSequenceClassification.from_pretrained(tmp_path, subfolder="saved")


def test_a_configuration_may_be_edited(saved):
    text = (saved / "config.json").read_text()
    (saved / "config.json").write_text(text.replace('"label_prior": 0.01', '"label_prior": 0.02'))
    assert (saved / "config.json").read_text() != text
    assert GileForSequenceClassification.from_pretrained(saved).config.label_prior == 0.02


def test_weights_of_another_save_are_refused(saved, make_model):
    make_model()[0].save_pretrained(saved, max_shard_size="1KB")
    save_file(make_model()[0].state_dict(), saved / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"does not list model.safetensors, which belongs to another save"):
        GileForSequenceClassification.from_pretrained(saved)


@pytest.mark.parametrize("first", [0, 1])
def test_a_model_with_the_processor_of_another_model_is_refused(saved, make_model, first):
    tokenizer = build_tokenizer(["iron in blood"], min_count=1)
    old, _ = make_model()
    config = type(old.config)(vocab_size=len(tokenizer), num_labels=5, text_encoder_type="wan", joint_size=3)
    model, processor = GileForSequenceClassification(config), GileProcessor.for_config(tokenizer, config)
    model.set_labels(old.label_set, processor)
    parts = (model, processor)
    parts[first].save_pretrained(saved)
    message = "the processor is not that of the model, as if only one of both was saved: save the other again"
    with pytest.raises(ValueError, match=message):
        GileProcessor.from_pretrained(saved)
    with pytest.raises((ValueError, OSError), match=message):
        pipeline("zero-shot-classification", model=str(saved), trust_remote_code=True)
    parts[1 - first].save_pretrained(saved)
    assert GileProcessor.from_pretrained(saved).processor_fingerprint == processor.processor_fingerprint


def test_a_reader_beside_a_writer_never_sees_a_mixture(saved, make_model, monkeypatch):
    models = [make_model(joint_size=size)[0] for size in (13, 3)]
    for model, value in zip(models, (0.25, 0.75), strict=True):
        model.set_labels(model.label_set.update("Iron", threshold=value), make_model()[1])
    models[0].save_pretrained(saved)
    monkeypatch.setattr(saving_gile, "_PAUSES", (0.05,) * 40)
    ended = threading.Event()

    def write():
        while not ended.wait(0.02):
            for model in reversed(models):
                model.save_pretrained(saved)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(6):
            loaded = GileForSequenceClassification.from_pretrained(saved)
            threshold = loaded.label_set[loaded.label_set.column("Iron")].threshold
            assert (loaded.config.joint_size, threshold) in ((13, 0.25), (3, 0.75))
    finally:
        ended.set()
        thread.join()
    shutil.rmtree(saved)
