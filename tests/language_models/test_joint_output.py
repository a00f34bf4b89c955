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


# Millions of parameters: in Table 2, of NMT-joint less those of NMT-tied for a joint size; in Table 3, of each form.
@pytest.mark.parametrize(
    ("form", "joint_size", "millions", "error"),
    [
        ("joint", 4096, 47.5 - 43.3, 0.1),
        ("joint", 512, 75.5 - 75.0, 0.1),
        ("joint", 2048, 146.3 - 144.2, 0.1),
        ("joint", 512, 0.5, 0.05),
        ("bilinear", 512, 0.3, 0.05),
        ("output", 512, 0.3, 0.05),
        ("context", 512, 0.3, 0.05),
        ("tied", 512, 0, 0.05),
    ],
)
def test_parameter_counts_equal_tables_2_and_3(form, joint_size, millions, error):
    with torch.device("meta"):
        made = JointOutputEmbedding(nn.Embedding(32000, 512).weight, 512, joint_size, form, projection_bias=False)
    own = made.num_output_parameters() - 32000
    assert own / 1e6 == pytest.approx(millions, abs=error)
    assert form != "joint" or own == 512 * joint_size + joint_size * 512  # equation 16


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


@pytest.mark.parametrize("name", ["weight", "g_out.layers.0.bias"])
def test_kept_codes_follow_changes_of_weights(name):
    joint, h = layer(), torch.randn(1, 5).double()
    weight = joint.get_parameter(name)
    with torch.no_grad(), joint.keeping_codes():
        before = joint(h)
        weight.add_(1)
        written = joint(h)
        weight.data = weight.data + 1
        assert not torch.equal(written, before)
        assert not torch.equal(joint(h), written)


def test_a_loss_in_chunks_is_exact():
    joint, h = layer(hidden_size=7, joint_size=3), torch.randn(9, 7).double()
    labels = torch.tensor([1, 10, 2, 0, 3, 3, 5, 7, 9])
    expected = functional.cross_entropy(joint(h), labels)
    loss = chunked_cross_entropy(joint.g_inp(h), joint.codes(), labels, joint.bias, elements=30) / 9
    assert abs(loss - expected) < 1e-10
    parameters = [*joint.parameters()]
    right = torch.autograd.grad(expected, parameters)
    for found, gradient in zip(torch.autograd.grad(loss, parameters), right, strict=True):
        torch.testing.assert_close(found, gradient, rtol=0, atol=1e-10)


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
    samples = set()
    for _ in range(3):
        (gradient,) = torch.autograd.grad(joint.loss(h, labels, sample=0.25), [joint.bias])
        words = gradient.nonzero().flatten().tolist()
        assert len(words) == 50
        assert {3, 150, 199} <= {*words}
        samples.add(tuple(words))
    assert len(samples) == 3
    torch.testing.assert_close(joint.loss(h, labels, sample=1.0), functional.cross_entropy(joint(h), labels))
    with pytest.raises(ValueError, match="above 0"):
        joint.loss(h, labels, sample=0)
