import pytest
import torch
from papers.literal import literal_scores

from hf_gile import GileConfig, GileModel
from hf_gile.models.scoring_gile import JointInputLabelEmbedding
from hf_gile.models.text_encoders_gile import mean_of_words

B, L, D, H, J = 2, 17, 7, 11, 13


@pytest.fixture
def joint():
    torch.manual_seed(0)
    layer = JointInputLabelEmbedding(GileConfig(embedding_size=D, hidden_size=H, joint_size=J, joint_act="tanh"))
    return layer.double()


@pytest.fixture
def vectors():
    torch.manual_seed(1)
    return (torch.randn(size, dtype=torch.double, requires_grad=True) for size in ((B, H), (L, D)))


def fast_scores(layer, texts, labels):
    return layer.score(layer.project_texts(texts), layer.project_labels(labels))


def test_the_literal_layer_equals_equation_14(joint, vectors):
    texts, labels = (vector.detach() for vector in vectors)
    v, b_v = joint.input_projection.weight, joint.input_projection.bias
    u, b_u = joint.label_projection.weight, joint.label_projection.bias
    w, b = joint.classifier.weight[0], joint.classifier.bias
    for i in range(B):
        for j in range(L):
            expected = sum(
                w[k] * torch.tanh(u[k] @ labels[j] + b_u[k]) * torch.tanh(v[k] @ texts[i] + b_v[k]) for k in range(J)
            )
            torch.testing.assert_close(literal_scores(joint, texts, labels)[i, j], (expected + b)[0])


def test_an_identity_projection_without_biases_equals_the_bilinear_unit(vectors):
    # Eq. 18: g_out = I, no biases, linear activation gives E V h.
    texts, labels = vectors
    layer = JointInputLabelEmbedding(GileConfig(embedding_size=D, hidden_size=H, joint_size=D, joint_act="linear"))
    layer = layer.double()
    with torch.no_grad():
        torch.nn.init.eye_(layer.label_projection.weight)
        torch.nn.init.ones_(layer.classifier.weight)
        for linear in (layer.label_projection, layer.input_projection, layer.classifier):
            torch.nn.init.zeros_(linear.bias)
    expected = (labels @ layer.input_projection.weight @ texts.T).T
    torch.testing.assert_close(fast_scores(layer, texts, labels), expected)


def test_the_parameter_count_does_not_depend_on_the_label_count():
    sizes = [
        sum(parameter.numel() for parameter in GileModel(GileConfig(vocab_size=3, num_labels=labels)).parameters())
        for labels in (2, 26_104)
    ]
    assert sizes[0] == sizes[1]


def test_adding_or_permuting_labels_keeps_the_other_scores(joint, vectors):
    texts, labels = vectors
    scores = fast_scores(joint, texts, labels)
    torch.testing.assert_close(fast_scores(joint, texts, labels[:-1]), scores[:, :-1])
    order = torch.randperm(L)
    torch.testing.assert_close(fast_scores(joint, texts, labels[order]), scores[:, order])


def test_label_vectors_are_means_of_words_without_padding():
    table = torch.nn.Embedding(5, D)  # a table of passed vectors may have no padding index
    vectors = mean_of_words(table, torch.tensor([[2, 3, 0], [4, 0, 0], [0, 0, 0]]), 0)
    torch.testing.assert_close(vectors[0], (table.weight[2] + table.weight[3]) / 2)
    torch.testing.assert_close(vectors[1], table.weight[4])
    assert (vectors[2] == 0).all()
