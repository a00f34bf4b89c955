"""Expectations of Transformers, its Trainer and peft, as in the tests of Transformers models."""

import accelerate
import peft
import pytest
import torch
from answers import logits_of
from transformers import TorchAoConfig
from transformers.utils import logging as transformers_logging

from hf_gile import GileForSequenceClassification, Label, LabelSet
from hf_gile.models.lexical_gile import LexicalFeatures, list_features, pad_features


@pytest.fixture
def make(make_model, make_pretrained):
    """Creates a tiny classifier with stored labels, in evaluation mode."""

    def make_classifier(kind, **fields):
        make_parts = make_pretrained if kind == "transformer" else make_model
        return make_parts(kind, **fields)[0]

    return make_classifier


def documents(kind, documents=3, sentences=2, words=5):
    """Returns random documents; the last has no words, the first is padded."""
    shape = (documents, sentences, words) if kind == "han" else (documents, words)
    torch.manual_seed(1)
    ids = torch.randint(1, 24, shape)
    mask = torch.ones_like(ids)
    mask[0, ..., words // 2 :] = 0
    mask[-1] = 0
    return {"input_ids": ids, "attention_mask": mask}


REQUESTS = [("transformer", "argument"), ("hierarchical_transformer", "configuration")]


@pytest.mark.parametrize(("kind", "requested_by"), REQUESTS)
def test_hidden_states_of_a_pretrained_encoder_are_returned(make_pretrained, kind, requested_by):
    labels = LabelSet([Label(name, name, language=name) for name in ("de", "en")])
    model, processor = make_pretrained(kind, languages=["de", "en"], labels=labels)
    texts = ["the heart pumps", "iron. milk and the blood of an infant", ""]
    inputs = processor(texts, language=["en", "de", "en"], return_tensors="pt")
    model.config.output_hidden_states = requested_by == "configuration"
    options = {"output_hidden_states": True} if requested_by == "argument" else {}
    transformer, ids, mask = model.gile.text_encoder.transformer, inputs["input_ids"], inputs["attention_mask"]
    with torch.no_grad():
        width = ids.shape[-1]
        exact = transformer(ids.view(-1, width), attention_mask=mask.view(-1, width), output_hidden_states=True)
        for part, labels in ((model, {}), (model.gile, {"label_input_ids": model.label_input_ids})):
            if labels:
                labels["label_language"] = "en"
            output = part(**inputs, **labels, **options)
            torch.testing.assert_close(output.logits, part(**inputs, **labels, output_hidden_states=False).logits)
            states = output.hidden_states
            assert len(states) == 3
            for state, expected in zip(states, exact.hidden_states, strict=True):
                assert state.shape == (*ids.shape, 12)
                expected = expected.view(state.shape)
                torch.testing.assert_close(state[mask.bool()], expected[mask.bool()])
            assert part(**inputs, **labels, output_hidden_states=False).hidden_states is None
        empty = {"input_ids": ids[2:], "attention_mask": torch.zeros_like(mask[2:]), "language": "en"}
        assert len(model(**empty, **options).hidden_states) == 3


def test_word_encoders_say_that_they_have_no_hidden_states(make, monkeypatch):
    messages = []
    logger = type(transformers_logging.get_logger("x"))
    monkeypatch.setattr(logger, "warning_once", lambda _, text: messages.append(text))
    model, inputs = make("wan"), documents("wan")
    assert model(**inputs, output_hidden_states=None).hidden_states is None  # as peft
    assert not messages
    output = model(**inputs, output_hidden_states=True)
    assert torch.equal(output.logits, model(**inputs).logits)
    assert messages == ["output_hidden_states: only pretrained encoders have hidden states to return"]


def test_word_encoders_do_not_support_activation_checkpointing(make):
    model = make("wan")
    assert not model.supports_gradient_checkpointing
    enable = getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)  # old name
    with pytest.raises(ValueError, match=r"does not support (activation|gradient) checkpointing"):
        enable()


def test_exporting_requires_computed_label_codes(make):
    message = r"call it once, in evaluation mode and without gradients, before torch\.export"
    with pytest.raises(ValueError, match=message):
        torch.export.export(make("wan"), (), documents("wan"))


@pytest.mark.parametrize("kind", ["wan", pytest.param("transformer", marks=pytest.mark.slow)])
def test_compiled_towers_are_a_single_graph_at_any_size(make, kind):
    torch.compiler.reset()
    tower = make(kind).gile.project_texts
    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph

    compiled = torch.compile(tower, backend=count, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for sizes in ((3, 2, 5), (4, 3, 7)):
            inputs = tuple(documents(kind, *sizes).values())
            torch.testing.assert_close(compiled(*inputs), tower(*inputs), rtol=1e-5, atol=1e-6)
    assert len(graphs) == 1


OF_WORDS = ["word_embeddings", "dense", "context", "input_projection", "label_projection"]
ADAPTERS = [("han", {}, OF_WORDS), ("transformer", {"label_rows": "full"}, "all-linear")]


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # required by peft
@pytest.mark.parametrize(("kind", "fields", "targets"), ADAPTERS)
def test_trained_adapters_score_the_same_after_merging(make, kind, fields, targets):
    model, inputs, words = make(kind, joint_act="tanh", **fields), documents(kind), torch.tensor([[3, 9], [4, 0]])
    before = logits_of(model, inputs)
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, task_type=peft.TaskType.SEQ_CLS, target_modules=targets))
    torch.manual_seed(3)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:
                parameter.normal_(std=0.5)
    adapted.train()(**inputs, labels=torch.tensor([[0, 1], [2, -100], [1, -100]])).loss.backward()
    for name, parameter in adapted.named_parameters():
        # A linear layer in attention, and the head, which SEQ_CLS trains completely.
        assert not parameter.requires_grad or parameter.grad is not None, name
    stored = logits_of(adapted.eval(), inputs)
    new = logits_of(adapted.base_model.model.gile, inputs | {"label_input_ids": words})
    merged = adapted.merge_and_unload()
    torch.testing.assert_close(logits_of(merged, inputs), stored, rtol=1e-4, atol=1e-5)
    after = logits_of(merged.gile, inputs | {"label_input_ids": words})
    torch.testing.assert_close(after, new, rtol=1e-4, atol=1e-5)
    assert (stored - before).abs().max() > 0.01


TERMS = {"cosine_score": True, "hidden_size": 7, "label_rows": "full", "lexical": True}


@pytest.mark.parametrize(("kind", "fields"), [("wan", TERMS), ("han", {"encoder_cell": "gru"}), ("transformer", {})])
def test_weights_may_be_offloaded_until_modules_are_called(make, kind, fields):
    model, inputs = make(kind, **fields), documents(kind)
    if "lexical" in fields:
        features = LexicalFeatures.of(pad_features(list_features(["label"] * len(inputs["input_ids"]))))
        inputs |= {"lexical_ids": features.ids, "lexical_counts": features.counts}
    expected = logits_of(model, inputs)
    model = accelerate.cpu_offload(model, execution_device=torch.device("cpu"))
    assert all(weight.is_meta for weight in model.parameters())
    for _ in range(2):
        torch.testing.assert_close(logits_of(model, inputs), expected)


@pytest.mark.parametrize("kind", ["wan", "transformer"])
def test_a_quantized_model_is_saved_and_loaded(make, kind, tmp_path):
    quantization = pytest.importorskip("torchao.quantization")
    make(kind).save_pretrained(tmp_path / "plain")
    weights = TorchAoConfig(quantization.Int8WeightOnlyConfig())
    options = {"device_map": "cpu", "quantization_config": weights}
    quantized = GileForSequenceClassification.from_pretrained(tmp_path / "plain", **options)
    quantized.save_pretrained(tmp_path / "quantized")
    loaded = GileForSequenceClassification.from_pretrained(tmp_path / "quantized", device_map="cpu")
    inputs = documents(kind)
    assert torch.equal(logits_of(loaded, inputs), logits_of(quantized, inputs))
    assert not torch.equal(logits_of(loaded, inputs), logits_of(make(kind), inputs))
