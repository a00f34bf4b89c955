"""Weights, vectors and files that are missing, or contain NaN or infinity."""

import pytest
import torch

from hf_gile import GileForSequenceClassification, GileProcessor, LabelIndex, LabelScoringPipeline


def poisoned(model, name, value):
    with torch.no_grad():
        model.get_parameter(name).view(-1)[3] = value
    return model


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_non_finite_weights_are_refused_by_name(tmp_path, make_model, value):
    model, _ = make_model()
    poisoned(model, "gile.output_layer.label_projection.weight", value).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"label_projection.weight contains (nan|inf) at \[0, 3\]"):
        GileForSequenceClassification.from_pretrained(tmp_path)


@pytest.mark.parametrize("word", [-1, 1 << 40])
def test_stored_labels_with_invalid_word_ids_are_refused(tmp_path, make_model, word):
    model, _ = make_model()
    model.label_input_ids[2, 0] = word
    model.save_pretrained(tmp_path)
    with pytest.raises(
        ValueError,
        match=rf"{tmp_path.name}: label_input_ids must be word ids of this model, from 0 to \d+, got .*{word}",
    ):
        GileForSequenceClassification.from_pretrained(tmp_path)


@pytest.mark.parametrize("options", [{}, {"top_k": 2}, {"threshold": 0.5, "candidate_labels": ["Iron", "Blood"]}])
def test_a_pipeline_never_returns_nan_scores(make_model, options):
    model, processor = make_model(problem_type="multi_label_classification")
    pipe = LabelScoringPipeline(model=model, processor=processor)
    poisoned(model, "gile.output_layer.input_projection.bias", float("nan"))
    with pytest.raises(ValueError, match="are NaN: the weights of the model contain NaN or infinity"):
        pipe(["iron", "milk"], **options)


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("model.safetensors", lambda data: data[:-1], r"the model is damaged \(SafetensorError"),
        ("model.safetensors", None, "no file named model.safetensors"),
        (
            "model.safetensors",
            lambda data: data[:-3] + bytes([data[-3] ^ 1]) + data[-2:],
            "differs from model_manifest.json",
        ),
        (
            "tokenizer.json",
            lambda data: data.replace(b"milk", b"mild"),
            "tokenizer.json differs from processor_manifest.json",
        ),
        ("model_manifest.json", lambda data: data.replace(b'"', b"", 1), "model_manifest.json is damaged"),
        ("labels.jsonl", lambda data: data.replace(b"Iron", b"Irom"), "labels.jsonl has 5 labels that differ from"),
        ("config.json", lambda data: data[:50], "config.json"),
        ("processor_config.json", lambda data: b"[]", "the processor or its tokenizer is damaged"),
    ],
)
def test_a_damaged_file_of_a_model_is_refused(tmp_path, make_model, name, damage, message):
    model, processor = make_model()
    model.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    file = tmp_path / name
    data = file.read_bytes()
    file.unlink()
    if damage is not None:
        file.write_bytes(damage(data))
    load = GileProcessor if "tokenizer" in name or "processor" in name else GileForSequenceClassification
    with pytest.raises((ValueError, OSError), match=message) as caught:
        load.from_pretrained(tmp_path)
    assert type(caught.value).__module__ == "builtins"


@pytest.fixture
def saved_index(tmp_path, make_model, label_set):
    model, processor = make_model()
    index = LabelIndex.build(model, processor, label_set)
    index.save_pretrained(tmp_path)
    return tmp_path, index


def test_a_flipped_bit_in_an_index_is_detected(saved_index):
    folder, index = saved_index
    for file in sorted(folder.iterdir()):
        data = file.read_bytes()
        file.write_bytes(data[:-7] + bytes([data[-7] ^ 1]) + data[-6:])
        for mmap in (True, False):
            with pytest.raises(ValueError, match=rf"{file.name}.*(build|upgrade)"):
                LabelIndex.from_pretrained(folder, mmap=mmap)
        file.write_bytes(data)
    assert torch.equal(LabelIndex.from_pretrained(folder).codes, index.codes)
