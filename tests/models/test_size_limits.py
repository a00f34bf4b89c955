"""Small configurations of huge models, and non-finite numbers."""

import json
import os
import resource

import pytest
from huggingface_hub.errors import StrictDataclassError

from hf_gile import GileConfig, GileForSequenceClassification, GileProcessor, GileTextConfig, LabelSet


def test_a_large_size_is_accepted_after_raising_the_limit(monkeypatch):
    monkeypatch.setitem(GileConfig.largest, "bag_size", 2**31)
    assert GileConfig(bag_size=2**31).bag_size == 2**31


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e39])
def test_non_finite_numbers_are_refused_in_every_field(value):
    fields = GileConfig.__annotations__ | GileTextConfig.__annotations__
    floats = [name for name, kind in fields.items() if float in getattr(kind, "__args__", [kind])]
    assert {"label_prior", "word_dropout", "cosine_scale"} < set(floats)
    for name in floats:
        with pytest.raises(StrictDataclassError):
            GileConfig(**{name: value})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"text_config": {"vocab_size": 2**24, "embedding_size": 2**16}},
            "needs .* numbers of gile.text_encoder.word_embeddings.weight, which",
        ),
        (
            {"label_length": 2**16, "id2label": {str(j): str(j) for j in range(9000)}},
            "numbers of stored_labels.input_id",
        ),
        ({"joint_size": 17}, "sizes of weights differ from config.json"),
        ({"joint_size": "many"}, "config.json is not the configuration of a GILE model: .*joint_size"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_loading_a_small_folder_takes_little_memory(tmp_path, make_model, fields, message):
    model, _ = make_model()
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | fields))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match=message):
        GileForSequenceClassification.from_pretrained(tmp_path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 18  # KiB


@pytest.mark.parametrize("name", ["config.json", "index/label_index.json"])
def test_a_folder_with_a_pipe_is_refused_at_once(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    for load in (GileForSequenceClassification.from_pretrained, GileProcessor.from_pretrained):
        with pytest.raises(ValueError, match=rf"{name} is a pipe, a socket or a device, which no model has"):
            load(tmp_path)


def test_a_json_file_and_a_label_of_gigabytes_are_refused_unread(tmp_path):
    for name, problem in {
        "config.json": "more than 268,435,456",
        "labels.jsonl": "row 1: longer than 16,777,216",
    }.items():
        path = tmp_path / name
        with path.open("wb") as file:
            file.truncate(1 << 33)
        load = LabelSet.load if name == "labels.jsonl" else GileProcessor.from_pretrained
        with pytest.raises(ValueError, match=problem):
            load(path if name == "labels.jsonl" else tmp_path)
