"""Weights, vectors and files that are missing, or contain NaN or infinity."""

import json
import resource

import pytest
import torch

from hf_gile import GileForSequenceClassification, GileProcessor, LabelIndex


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
    message = rf"{tmp_path.name}: label_input_ids must be word ids of this model, from 0 to \d+, got .*{word}"
    with pytest.raises(ValueError, match=message):
        GileForSequenceClassification.from_pretrained(tmp_path)


@pytest.mark.parametrize("options", [{}, {"top_k": 2}, {"threshold": 0.5, "candidate_labels": ["Iron", "Blood"]}])
def test_a_pipeline_never_returns_nan_scores(pipe, options):
    poisoned(pipe.model, "gile.output_layer.input_projection.bias", float("nan"))
    with pytest.raises(ValueError, match="are NaN: the weights of the model contain NaN or infinity"):
        pipe(["iron", "milk"], **options)


def edit(name, change):
    """Returns a function that changes a file of a folder."""
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def fields(**values):
    return edit("config.json", lambda data: json.dumps(json.loads(data) | values).encode())


WEIGHTS = "model.safetensors"
DAMAGE = [
    (lambda folder: (folder / WEIGHTS).unlink(), "no file named model.safetensors"),
    (edit(WEIGHTS, lambda data: data[:-1]), r"the model is damaged \(SafetensorError"),
    (edit(WEIGHTS, lambda data: data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]), "differs from model_manifest.json"),
    (edit("tokenizer.json", lambda data: data.replace(b"milk", b"mild")), "tokenizer.json differs from processor_man"),
    (edit("model_manifest.json", lambda data: data.replace(b'"', b"", 1)), "model_manifest.json is damaged"),
    (edit("labels.jsonl", lambda data: data.replace(b"Iron", b"Irom")), "labels.jsonl has 5 labels that differ from"),
    (edit("config.json", lambda data: data[:50]), "config.json"),
    (edit("processor_config.json", lambda data: b"[]"), "the processor or its tokenizer is damaged"),
    (fields(joint_size=17), "sizes of weights differ from config.json"),
    (fields(joint_size="many"), "config.json is not the configuration of a GILE model: .*joint_size"),
    (fields(document_size=5), "config.json is not the configuration of a GILE model: .*document_size"),
    # Little in the file, much in memory.
    (fields(text_config={"vocab_size": 2**24, "embedding_size": 2**16}), "numbers of gile.text_encoder.word_embedd"),
    (fields(label_length=2**16, id2label=dict.fromkeys(range(9000), "")), "numbers of stored_labels.input_id"),
]


def load(folder):
    GileForSequenceClassification.from_pretrained(folder)
    GileProcessor.from_pretrained(folder)


@pytest.mark.parametrize(("damage", "message"), DAMAGE)
def test_a_damaged_model_is_refused_and_takes_little_memory(saved, damage, message):
    damage(saved)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises((ValueError, OSError), match=message) as caught:
        load(saved)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 18  # KiB
    assert type(caught.value).__module__ == "builtins"


def test_a_flipped_bit_in_an_index_is_detected(tmp_path, make_model):
    index = LabelIndex.build(make_model()[0])
    index.save_pretrained(tmp_path)
    for file in sorted(tmp_path.iterdir()):
        data = file.read_bytes()
        file.write_bytes(data[:-7] + bytes([data[-7] ^ 1]) + data[-6:])
        for mmap in (True, False):
            with pytest.raises(ValueError, match=rf"{file.name}.*(build|upgrade)"):
                LabelIndex.from_pretrained(tmp_path, mmap=mmap)
        file.write_bytes(data)
    assert torch.equal(LabelIndex.from_pretrained(tmp_path).codes, index.codes)
