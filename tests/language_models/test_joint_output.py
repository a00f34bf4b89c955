"""The joint output layer alone: formulas, parameter counts, cached codes, losses."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from hf_gile.language_models import JointOutputEmbedding, joint_output
from hf_gile.language_models.joint_output import chunked_cross_entropy, linear_cross_entropy


def layer(words=11, size=5, hidden_size=5, **settings):
    torch.manual_seed(3)
    made = JointOutputEmbedding(nn.Embedding(words, size).weight, hidden_size, **settings).double()
    for parameter in made.parameters():
        parameter.data = torch.randn_like(parameter)
    return made


def test_logits_equal_equation_14():
    joint = layer(size=5, hidden_size=7, joint_size=3)
    h = torch.randn(2, 7).double()
    (u,), v = joint.g_out.layers, joint.g_inp
    classifiers = torch.tanh(joint.weight @ u.weight.T + u.bias)
    expected = torch.tanh(h @ v.weight.T + v.bias) @ classifiers.T + joint.bias
    torch.testing.assert_close(joint(h), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("form", "equation"),
    [
        ("bilinear", lambda e, h, o, c: e @ c.weight @ h),
        ("output", lambda e, h, o, c: torch.tanh(e @ o.layers[0].weight.T + o.layers[0].bias) @ h),
        ("context", lambda e, h, o, c: e @ torch.tanh(c.weight @ h + c.bias[:, None])),
        ("tied", lambda e, h, o, c: e @ h),
    ],
)
def test_other_forms_equal_equations_6_7_and_18(form, equation):
    joint = layer(hidden_size=5 if form == "tied" else 7, form=form)
    h = torch.randn(2, 5 if form == "tied" else 7).double()
    expected = equation(joint.weight, h.T, joint.g_out, joint.g_inp).T + joint.bias
    torch.testing.assert_close(joint(h), expected, rtol=0, atol=1e-12)


# Table 2: parameters of NMT-joint less those of NMT-tied in millions, and the joint size of which the paper speaks.
TABLE_2 = [
    (47.5, 43.3, 4096),
    (75.5, 75.0, 512),
    (146.3, 144.2, 2048),
]


@pytest.mark.parametrize(("joint", "tied", "joint_size"), TABLE_2)
def test_parameter_counts_equal_equation_16_and_table_2(joint, tied, joint_size):
    with torch.device("meta"):
        made = JointOutputEmbedding(nn.Embedding(32000, 512).weight, 512, joint_size, projection_bias=False)
    assert made.num_output_parameters() == 512 * joint_size + joint_size * 512 + 32000
    assert (made.num_output_parameters() - 32000) / 1e6 == pytest.approx(joint - tied, abs=0.1)


def test_parameter_counts_of_all_forms_equal_table_3():
    sizes = {"bilinear": 0.3, "output": 0.3, "context": 0.3, "joint": 0.5, "tied": 0}
    with torch.device("meta"):
        table = nn.Embedding(32000, 512).weight
        for form, millions in sizes.items():
            own = JointOutputEmbedding(table, 512, 512, form, projection_bias=False).num_output_parameters() - 32000
            assert own / 1e6 == pytest.approx(millions, abs=0.05), form


def test_depth_adds_projections_with_residual_connections():
    joint = layer(joint_size=5, depth=2, residual=True)
    first, second = joint.g_out.layers
    one = first(joint.weight) + joint.weight
    torch.testing.assert_close(joint.codes(), second(one) + one + joint.weight)
    plain = layer(joint_size=5, depth=2)
    torch.testing.assert_close(plain.codes(), plain.g_out.layers[1](plain.g_out.layers[0](plain.weight)))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"form": "trilinear"}, "form must be one of"),
        ({"form": "tied", "hidden_size": 4}, "form='bilinear'"),
        ({"depth": 0}, "at least 1"),
        ({"form": "context", "depth": 2}, "g_out"),
    ],
)
def test_invalid_settings_are_refused(settings, says):
    with pytest.raises(ValueError, match=says):
        layer(**settings)


def calls_of(joint):
    calls = []
    joint.g_out.register_forward_hook(lambda *args: calls.append(1))
    return calls


def test_codes_are_computed_once_within_a_keeping_codes_block():
    joint, h = layer(), torch.randn(1, 5).double()
    calls = calls_of(joint)
    with torch.no_grad(), joint.keeping_codes():
        first = joint(h)
        assert torch.equal(joint(h), first)
    assert (len(calls), joint._cached) == (1, None)


@pytest.mark.parametrize("name", ["weight", "g_out.layers.0.bias"])
def test_codes_are_recomputed_after_a_weight_changes(name):
    joint, h = layer(), torch.randn(1, 5).double()
    with torch.no_grad(), joint.keeping_codes():
        before = joint(h)
        joint.get_parameter(name).add_(1)
        written = joint(h)
        assert not torch.equal(written, before)
        joint.get_parameter(name).data = joint.get_parameter(name).data + 1
        assert not torch.equal(joint(h), written)


def gradients(joint, loss):
    return torch.autograd.grad(loss, [*joint.parameters()])


@pytest.mark.parametrize("way", ["loss", "checkpoints"])
def test_losses_without_logits_are_exact(way):
    joint, h = layer(hidden_size=7, joint_size=3), torch.randn(9, 7).double()
    labels = torch.tensor([1, 10, -100, 0, 3, 3, -100, 7, 9])
    expected = functional.cross_entropy(joint(h), labels)
    if way == "loss":
        loss = joint.loss(h, labels)
    else:
        counts = labels != -100
        loss = chunked_cross_entropy(joint.g_inp(h[counts]), joint.codes(), labels[counts], joint.bias, elements=30) / 7
    assert abs(loss - expected) < 1e-10
    for found, right in zip(gradients(joint, loss), gradients(joint, expected), strict=True):
        torch.testing.assert_close(found, right, rtol=0, atol=1e-10)


def test_the_torch_function_and_the_fallback_agree(monkeypatch):
    inputs, weight, bias = torch.randn(6, 3), torch.randn(11, 3), torch.randn(11)
    labels = torch.tensor([1, 0, 3, 10, 2, 2])
    here = linear_cross_entropy(inputs, weight, labels, bias)
    monkeypatch.setattr(joint_output, "CHECKPOINTED", ())
    torch.testing.assert_close(linear_cross_entropy(inputs, weight, labels, bias), here)
    monkeypatch.delattr(functional, "linear_cross_entropy", raising=False)
    torch.testing.assert_close(linear_cross_entropy(inputs, weight, labels, bias), here)


def test_a_batch_without_labels_has_no_loss():
    joint = layer()
    loss = joint.loss(torch.randn(2, 5).double(), torch.tensor([-100, -100]))
    loss.backward()
    assert loss == 0
    assert not joint.weight.grad.any()


def test_a_vocabulary_sample_contains_all_labels_and_has_the_requested_size():
    joint, h = layer(words=200), torch.randn(4, 5).double()
    labels = torch.tensor([3, 3, 150, 199])
    words, columns = joint._sample(labels, 0.25)
    assert words.tolist() == sorted({*words.tolist()})
    assert (len(words), words[columns].tolist()) == (50, labels.tolist())
    others = {tuple(joint._sample(labels, 0.25)[0].tolist()) for _ in range(3)}
    assert len(others) == 3
    loss = joint.loss(h, labels, sample=0.02)  # 4 words, of which 3 are labels
    loss.backward()
    assert (joint.weight.grad.abs().sum(1) > 0).sum() == 4
    torch.testing.assert_close(joint.loss(h, labels, sample=1.0), functional.cross_entropy(joint(h), labels))
    with pytest.raises(ValueError, match="above 0"):
        joint.loss(h, labels, sample=0)
