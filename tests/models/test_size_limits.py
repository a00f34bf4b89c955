"""Small configurations of huge models, and non-finite numbers."""

import os

import pytest
from huggingface_hub.errors import StrictDataclassError

from hf_gile import GileConfig, GileForSequenceClassification, GileProcessor, GileTextConfig, LabelSet


def test_a_large_size_is_accepted_after_raising_the_limit(monkeypatch):
    monkeypatch.setitem(GileConfig.largest, "joint_size", 2**31)
    assert GileConfig(joint_size=2**31).joint_size == 2**31


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e39])
def test_non_finite_numbers_are_refused_in_every_field(value):
    fields = GileConfig.__annotations__ | GileTextConfig.__annotations__
    floats = [name for name, kind in fields.items() if float in getattr(kind, "__args__", [kind])]
    assert {"label_prior", "word_dropout", "cosine_scale"} < set(floats)
    for name in floats:
        with pytest.raises(StrictDataclassError):
            GileConfig(**{name: value})


@pytest.mark.parametrize("name", ["config.json", "index/label_index.json"])
def test_a_folder_with_a_pipe_is_refused_at_once(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    for load in (GileForSequenceClassification.from_pretrained, GileProcessor.from_pretrained):
        with pytest.raises(ValueError, match=rf"{name} is a pipe, a socket or a device, which no model has"):
            load(tmp_path)


def test_a_json_file_and_a_label_of_gigabytes_are_refused_unread(tmp_path):
    for name in ("config.json", "labels.jsonl"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(1 << 33)
    with pytest.raises(ValueError, match="more than 268,435,456"):
        GileProcessor.from_pretrained(tmp_path)
    with pytest.raises(ValueError, match="row 1: longer than 16,777,216"):
        LabelSet.load(tmp_path / "labels.jsonl")
