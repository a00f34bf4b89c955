"""Expectations of Transformers, its Trainer and peft, as in the tests of Transformers models."""

import accelerate
import peft
import pytest
import torch
from answers import logits_of
from transformers import TorchAoConfig

from hf_gile import GileForSequenceClassification
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


def test_hidden_states_are_refused(make):
    model, inputs = make("wan"), documents("wan")
    expected = model(**inputs).logits
    for part in (model, model.gile):
        with pytest.raises(ValueError, match="GILE models return no hidden states"):
            part(**inputs, output_hidden_states=True)
    assert torch.equal(model(**inputs, output_hidden_states=None).logits, expected)  # as peft
    model.config.output_hidden_states = True
    with pytest.raises(ValueError, match="GILE models return no hidden states"):
        model(**inputs)


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
