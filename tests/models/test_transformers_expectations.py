"""What Transformers, its Trainer and peft expect of any model, as the tests of its own models have it."""

import pytest
import torch
from transformers import BertConfig

from hf_gile import GileConfig, GileForSequenceClassification, GileModel

WORDS = torch.tensor([[3, 7], [5, 0], [11, 2]])
BERT = {
    "vocab_size": 29,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 17,
    "max_position_embeddings": 41,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
KINDS = ("wan", "han", "transformer")


@pytest.fixture
def make():
    """Makes a tiny classifier of three stored labels, in evaluation mode."""

    def make_classifier(kind, **fields):
        if kind == "transformer":
            encoder = BertConfig(**BERT)
            own = {"text_encoder_config": encoder, "pooling": "mean", "max_words": 41, "max_label_words": 2}
            own["label_encoder_type"] = "text_encoder"
        else:
            own = {"vocab_size": 29, "embedding_size": 7, "hidden_size": 5, "attention_size": 3}
        torch.manual_seed(0)
        config = GileConfig(text_encoder_type=kind, joint_size=6, num_labels=3, label_length=2, **own, **fields)
        model = GileForSequenceClassification(config)
        model.label_input_ids.copy_(WORDS)
        with torch.no_grad():  # biases start at zero
            for name, parameter in model.named_parameters():
                if name.endswith("bias"):
                    parameter.normal_()
        return model.eval()

    return make_classifier


def documents(kind, documents=3, sentences=2, words=5):
    """Random documents; the last has no words, the first is padded."""
    shape = (documents, sentences, words) if kind == "han" else (documents, words)
    torch.manual_seed(1)
    ids = torch.randint(1, 29, shape)
    mask = torch.ones_like(ids)
    mask[0, ..., words // 2 :] = 0
    mask[-1] = 0
    return {"input_ids": ids, "attention_mask": mask}


@pytest.mark.parametrize("kind", KINDS)
def test_hidden_states_may_be_asked_for(make, kind):
    model, inputs = make(kind), documents(kind)
    assert torch.equal(model(**inputs, output_hidden_states=True).logits, model(**inputs).logits)
    output = model.gile(**inputs, label_input_ids=WORDS, output_hidden_states=False)
    assert output.logits.shape == (3, 3)


def test_arguments_that_forward_does_not_have_are_refused(make):
    model, inputs = make("wan"), documents("wan")
    for part, labels in ((model, {}), (model.gile, {"label_input_ids": WORDS})):
        with pytest.raises(TypeError, match="unexpected keyword argument 'token_type_ids'"):
            part(**inputs, **labels, token_type_ids=inputs["input_ids"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model_class", [GileModel, GileForSequenceClassification])
def test_only_pretrained_encoders_support_checkpoints_of_activations(make, kind, model_class):
    model = model_class(make(kind).config)
    assert model.supports_gradient_checkpointing is (kind == "transformer")
    enable = getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)  # the older name
    if kind == "transformer":
        enable()
        assert any(getattr(module, "gradient_checkpointing", False) for module in model.modules())
        return
    with pytest.raises(ValueError, match=r"does not support (activation|gradient) checkpointing"):
        enable()


@pytest.mark.parametrize("kind", KINDS)
def test_tuples_hold_what_outputs_hold(make, kind):
    model, inputs = make(kind), documents(kind)
    for part, labels in ((model, {}), (model.gile, {"label_input_ids": WORDS})):
        named = part(**inputs, **labels, output_attentions=True, return_dict=True)
        plain = part(**inputs, **labels, output_attentions=True, return_dict=False)
        assert len(plain) == len(named.to_tuple())
        for one, other in zip(plain, named.to_tuple(), strict=True):
            torch.testing.assert_close(one, other)


class TextTower(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model.gile.project_texts(input_ids, attention_mask)


class Scores(TextTower):
    def forward(self, input_ids, attention_mask):
        return self.model(input_ids, attention_mask).logits


def exported(module, inputs):
    """An exported program of any number and length of documents."""
    sizes = dict.fromkeys(range(inputs["input_ids"].dim()), torch.export.Dim.DYNAMIC)
    arguments = tuple(inputs.values())
    return torch.export.export(module, arguments, dynamic_shapes=(sizes, sizes)).module()


@pytest.mark.parametrize(
    ("part", "kind", "fields"),
    [
        pytest.param(Scores, "wan", {}, id="wan"),
        pytest.param(Scores, "han", {}, id="han", marks=pytest.mark.slow),
        pytest.param(Scores, "transformer", {}, id="transformer"),
        *(pytest.param(TextTower, kind, {}, id=f"text tower, {kind}", marks=pytest.mark.slow) for kind in KINDS),
        pytest.param(Scores, "wan", {"bag_size": 5, "cosine_score": True}, id="bag", marks=pytest.mark.slow),
        pytest.param(Scores, "wan", {"output_layer": "linear"}, id="linear", marks=pytest.mark.slow),
    ],
)
def test_exported_programs_compute_what_models_do_at_any_size(make, part, kind, fields):
    model = make(kind, **fields)
    with torch.inference_mode():
        model(**documents(kind))  # and keep the codes of labels
    program, module = exported(part(model), documents(kind)), part(model)
    for sizes in ((3, 2, 5), (2, 3, 7), (5, 1, 4)):
        inputs = tuple(documents(kind, *sizes).values())
        with torch.no_grad():
            torch.testing.assert_close(program(*inputs), module(*inputs), rtol=1e-5, atol=1e-6)


def test_exports_ask_for_label_codes(make):
    with pytest.raises(
        ValueError, match=r"call it once, in evaluation mode and without gradients, before torch\.export"
    ):
        exported(Scores(make("wan")), documents("wan"))


@pytest.mark.parametrize("kind", ["wan", "han", pytest.param("transformer", marks=pytest.mark.slow)])
def test_compiled_towers_are_one_graph_at_any_size(make, kind):
    torch.compiler.reset()
    tower = TextTower(make(kind))
    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph

    compiled = torch.compile(tower, backend=count, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for sizes in ((3, 2, 5), (4, 3, 7), (5, 4, 6)):
            inputs = tuple(documents(kind, *sizes).values())
            torch.testing.assert_close(compiled(*inputs), tower(*inputs), rtol=1e-5, atol=1e-6)
    assert len(graphs) == 1
