"""Losses without logits equal losses with logits, in value and gradient, without storing logits."""

import pytest
import torch
from papers.chunked_losses import LabelChunks, chunked_loss
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from hf_gile.models.losses_gile import binary_cross_entropy, multi_hot
from hf_gile.training.losses import cross_entropy

B, L, J, D, V = 5, 23, 7, 3, 11
LOSSES = {"binary_cross_entropy": binary_cross_entropy, "cross_entropy": cross_entropy}
GOLD = {
    "binary_cross_entropy": torch.tensor([[2, 22, -100], [0, -100, -100], [-100] * 3, [9, 4, 7], [-100, 8, 22]]),
    "cross_entropy": torch.tensor([[2], [0], [22], [7], [7]]),
}
EXCLUDED = torch.tensor([[1, 3, -100], [-100, -100, -100], [21, 0, 9], [-100, 10, 11], [21, -100, 1]])


class Problem(nn.Module):
    """Labels with words, a projection and a vector each, and documents."""

    def __init__(self, dtype=torch.float64, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.words = nn.Embedding(V, D)
        self.project = nn.Linear(D, J)
        self.residual = nn.Parameter(torch.randn(L, D))
        self.texts = nn.Parameter(torch.randn(B, J))
        self.bias = nn.Parameter(torch.tensor([-0.7]))
        self.label_words = torch.randint(V, (L, 4))
        self.to(dtype)

    def encode(self, words, residual):
        return self.project(self.words(words).mean(1) + residual).tanh()

    def dense(self, loss, gold, weights=None, excluded=None):
        codes = self.encode(self.label_words, self.residual)
        logits = self.texts @ codes.T + self.bias
        if excluded is not None:
            mask = multi_hot(excluded, L).bool()
            logits = logits.masked_fill(mask, torch.finfo(logits.dtype).min)
        return LOSSES[loss](logits, multi_hot(gold, L), weights) * B

    def chunks(self):
        parameters = [self.words.weight, *self.project.parameters()]
        return LabelChunks(self.encode, [self.label_words, self.residual], parameters)

    def chunked(self, loss, gold, weights=None, excluded=None, chunk_size=4):
        return chunked_loss(loss, self.texts, gold, self.chunks(), self.bias, chunk_size, weights, excluded)

    def with_gradients(self, loss):
        self.zero_grad()
        (3 * loss).backward()
        gradients = {name: parameter.grad.double() for name, parameter in self.named_parameters()}
        return {"loss": loss.detach().double(), **gradients}


def weights_of(kind, gold):
    """Weights of labels. Zeros are those of samples per document: the second and third have no negatives, the fourth
    has no labels at all."""
    if kind == "zeros":
        weights = torch.ones(B, L, dtype=torch.float64)
        weights[1:4] = 0
        weights[1:3] = multi_hot(gold, L)[1:3].double()
        return weights
    shape = {"shared": [L], "individual": [B, L]}
    return torch.rand(*shape[kind], dtype=torch.float64) + 0.5 if kind else None


PLAIN = [(None, None, 1), (None, EXCLUDED, 100)]
WEIGHTED = [("shared", EXCLUDED, 4), ("individual", None, 4), ("zeros", EXCLUDED, 23)]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("weights", "excluded", "chunk_size"), [*PLAIN, *WEIGHTED])
def test_values_and_gradients_equal_the_loss_with_logits(loss, chunk_size, weights, excluded):
    problem = Problem()
    gold = GOLD[loss]
    weights = weights_of(weights, gold)
    expected = problem.with_gradients(problem.dense(loss, gold, weights, excluded))
    got = problem.with_gradients(problem.chunked(loss, gold, weights, excluded, chunk_size))
    for name, value in expected.items():
        assert value.isfinite().all()
        torch.testing.assert_close(got[name], value, rtol=1e-10, atol=1e-10, msg=lambda text, name=name: name + text)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", ["bfloat16", "autocast"])
def test_errors_in_low_precision_do_not_exceed_those_with_logits(loss, kind):
    # With autocast, a bias as in a new model with many labels: in 16 bits, it has steps of 0.03.
    gold = GOLD[loss]
    errors = {"dense": {}, "chunked": {}}
    for seed in range(20):
        # Expected values are those of the rounded numbers.
        short = Problem(torch.bfloat16 if kind == "bfloat16" else torch.float32, seed)
        if kind == "autocast":
            short.bias.data.fill_(-4.65)
        exact = Problem(torch.float64, seed)
        exact.load_state_dict(short.state_dict())
        truth = exact.with_gradients(exact.dense(loss, gold))
        for form in errors:
            with torch.autocast("cpu", torch.bfloat16, enabled=kind == "autocast"):
                loss_of_form = getattr(short, form)(loss, gold)
            assert loss_of_form.dtype == torch.float32
            for name, value in short.with_gradients(loss_of_form).items():
                error = (value - truth[name]).norm() / truth[name].norm()
                errors[form][name] = errors[form].get(name, 0.0) + error.item() / 20
    if loss != "binary_cross_entropy":
        del errors["chunked"]["bias"]  # a softmax does not depend on the bias
    for name, error in errors["chunked"].items():
        assert error <= 1.25 * errors["dense"][name] + 1e-6, name
    assert kind != "autocast" or errors["chunked"]["texts"] > 1e-4  # chunks are computed in bfloat16


class Largest(TorchDispatchMode):
    """Records the size of the largest tensor."""

    numel = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor) and not tensor._is_view():
                self.numel = max(self.numel, tensor.numel())
        return result


@pytest.mark.parametrize("loss", LOSSES)
def test_scores_and_codes_of_all_labels_are_never_in_memory(loss):
    labels, chunk_size = 5000, 100
    words = torch.randint(V, (labels, 2))
    problem = Problem()
    residual_free = LabelChunks(
        lambda words: problem.project(problem.words(words).mean(1)),
        [words],
        [problem.words.weight, *problem.project.parameters()],
    )
    with Largest() as largest:
        chunked_loss(loss, problem.texts, GOLD[loss], residual_free, problem.bias, chunk_size).backward()
    assert largest.numel <= chunk_size * max(B, J, 2 * D)


def test_encoder_dropout_is_the_same_in_both_passes():
    # If only one pass dropped the code of the label, the gradient of a softmax would not sum to zero.
    problem = Problem()
    chunks = problem.chunks()
    dropped = LabelChunks(
        lambda *rows: nn.functional.dropout(chunks.encode(*rows), 0.5), chunks.rows, chunks.parameters
    )
    chunked_loss("cross_entropy", problem.texts, GOLD["cross_entropy"], dropped, problem.bias, 4).backward()
    assert problem.bias.grad.abs().item() < 1e-12
