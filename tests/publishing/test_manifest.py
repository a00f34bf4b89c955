"""The manifest of a model on the Hub."""

import pytest
from transformers import Trainer, TrainingArguments
from transformers.utils import hub as transformers_hub

from hf_gile import GileForSequenceClassification, GileProcessor
from hf_gile.models.saving_gile import MANIFESTS, find_problem, read_manifest

REPO = "ada/gile"


@pytest.fixture(autouse=True)
def _new_client(monkeypatch):
    """Forgets the client of Transformers, which is for the Hub of an earlier test."""
    monkeypatch.setattr(transformers_hub, "_hf_api", None)


@pytest.fixture
def load(hub, tmp_path):
    """Loads model and processor from the Hub into a new cache."""

    def load_both():
        kinds, options = (GileForSequenceClassification, GileProcessor), {"trust_remote_code": False}
        return [kind.from_pretrained(REPO, cache_dir=tmp_path / "cache", **options) for kind in kinds]

    return load_both


def manifest_of(hub, folder):
    folder.mkdir()
    for name in MANIFESTS.values():
        (folder / name).write_bytes(hub.repositories[REPO].files()[name])
    return {part: read_manifest(folder, part) for part in MANIFESTS}


def push_parts(model, processor, tmp_path):
    model.push_to_hub(REPO)
    processor.push_to_hub(REPO)


def push_by_trainer(model, processor, tmp_path):
    args = TrainingArguments(str(tmp_path / "run"), report_to="none", hub_model_id=REPO)
    trainer = Trainer(model, args, processing_class=processor)
    trainer.init_hf_repo()
    trainer.push_to_hub()
    assert find_problem(tmp_path / "run", "model") is None


@pytest.mark.parametrize("push", [push_parts, push_by_trainer])
def test_the_hub_has_the_manifests_of_both_parts(hub, load, make_model, tmp_path, push):
    model, processor = make_model()
    push(model, processor, tmp_path)
    parts = manifest_of(hub, tmp_path / "parts")
    assert {"config.json", "labels.jsonl", "model.safetensors"} <= parts["model"]["files"].keys()
    assert {"tokenizer.json", "processor_config.json"} <= parts["processor"]["files"].keys()
    assert parts["model"]["processor"] == parts["processor"]["processor"] == processor.processor_fingerprint
    loaded, _ = load()
    assert loaded.label_set == model.label_set
    assert loaded.processor_fingerprint == processor.processor_fingerprint
    files = hub.repositories[REPO].files()
    hub.change(REPO, "labels.jsonl", files["labels.jsonl"].replace(b"pumps less", b"pumps more"))
    hub.change(REPO, "tokenizer.json", files["tokenizer.json"].replace(b'"milk"', b'"mild"'))
    options = {"cache_dir": tmp_path / "other"}
    with pytest.raises(ValueError, match=r"ada/gile: labels.jsonl differs from \w+_manifest.json"):
        GileForSequenceClassification.from_pretrained(REPO, **options)
    with pytest.raises(ValueError, match=r"ada/gile: tokenizer.json differs from \w+_manifest.json"):
        GileProcessor.from_pretrained(REPO, trust_remote_code=False, **options)
