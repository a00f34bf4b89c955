"""Losses over weighted columns equal literal formulas and plain losses."""

from itertools import product

import pytest
import torch

from hf_gile.models import losses_gile
from hf_gile.models.losses_gile import multi_hot
from hf_gile.training.weighted_losses import (
    LOSSES,
    binary_cross_entropy,
    cross_entropy,
    decoupled_softmax,
    gold_positions,
)

B, L = 3, 17


@pytest.fixture
def logits():
    return torch.randn(B, L, dtype=torch.double, generator=torch.Generator().manual_seed(0))


LABELS = torch.tensor([[2, 5, -100], [16, -100, -100], [-100, -100, -100]])


@pytest.mark.parametrize("name", ["binary_cross_entropy", "cross_entropy"])
def test_without_weights_losses_equal_the_plain_losses(logits, name):
    targets = multi_hot(torch.tensor([[2], [16], [0]]), L)
    assert torch.equal(LOSSES[name](logits, targets), getattr(losses_gile, name)(logits, targets))


def test_sampled_targets_equal_columns_of_the_full_targets():
    columns = torch.tensor([0, 2, 5, 11, 16])
    torch.testing.assert_close(
        multi_hot(gold_positions(LABELS, L, columns), len(columns)), multi_hot(LABELS, L)[:, columns]
    )


@pytest.mark.parametrize("columns", [[0, 2], [0, 2, 5, 15]], ids=["past the end", "in between"])
def test_a_gold_column_missing_from_the_sample_is_named(columns):
    with pytest.raises(ValueError, match="which sampled_columns lacks"):
        gold_positions(LABELS, L, torch.tensor(columns))


def test_positive_weights_affect_only_gold_labels(logits):
    targets = multi_hot(LABELS, L).double()
    positive = torch.linspace(0, 30, L)
    y_hat = logits.sigmoid()
    terms = -(targets * positive.double() * y_hat.log() + (1 - targets) * (1 - y_hat).log())
    for weights in (None, torch.rand(L).double(), torch.rand(B, L).double()):
        expected = (terms if weights is None else terms * weights).sum() / B
        torch.testing.assert_close(binary_cross_entropy(logits, targets, weights, positive), expected)
    half = binary_cross_entropy(logits.bfloat16(), targets, None, positive)
    assert half.dtype == torch.float32
    assert half.item() == pytest.approx((terms.sum() / B).item(), rel=0.01)


def test_softmax_weights_equal_repeated_columns(logits):
    # A column of weight three counts like three equal columns.
    targets = multi_hot(torch.tensor([[0], [1], [0]]), 3)
    repeated = torch.cat([logits[:, :3], logits[:, 2:3], logits[:, 2:3]], dim=1)
    padded = torch.nn.functional.pad(targets, (0, 2))
    torch.testing.assert_close(
        cross_entropy(logits[:, :3], targets, torch.tensor([1.0, 1.0, 3.0])), cross_entropy(repeated, padded)
    )


# Four documents: all weights 1, 0 except for gold labels, all 0, and labels that are not candidates.
WEIGHTS = torch.tensor([[1.0, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0], [0, 1, 0, 1]])
NO_CANDIDATES = torch.tensor([[0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 1, 0]]).bool()
GOLD = {
    "none": [[-100]] * 4,
    "some": [[0, 1], [0, 1], [-100, -100], [-100, 1]],
    "all": [[0, 1, 2, 3], [0, 1, -100, -100], [0, 1, 2, -100], [-100, 0, 1, 3]],
    "single labels": [[2], [1], [0], [1]],
}
SEVERAL, SETS = ("binary_cross_entropy", "decoupled_softmax"), ("none", "some", "all")


@pytest.mark.parametrize(("loss", "gold"), [*product(LOSSES, ["single labels"]), *product(SEVERAL, SETS)])
def test_losses_and_gradients_are_finite_with_zero_weights(loss, gold):
    scores = torch.randn(4, 4, requires_grad=True, generator=torch.Generator().manual_seed(0))
    logits = scores.masked_fill(NO_CANDIDATES, torch.finfo(scores.dtype).min)
    targets = multi_hot(torch.tensor(GOLD[gold]), 4)
    value = LOSSES[loss](logits, targets, WEIGHTS)
    value.backward()
    assert value.isfinite()
    assert value >= 0
    assert scores.grad.isfinite().all()


@pytest.mark.parametrize("weighted", [False, True])
def test_decoupled_softmax_compares_each_gold_label_with_non_gold_labels(logits, weighted):
    weights = torch.linspace(1, 3, L, dtype=torch.double) if weighted else torch.ones(L, dtype=torch.double)
    target = multi_hot(LABELS, L)
    expected = 0.0
    for row, gold in enumerate(([2, 5], [16], [])):
        negatives = sum(weights[column] * logits[row, column].exp() for column in range(L) if column not in gold)
        expected += sum(-(logits[row, column].exp() / (logits[row, column].exp() + negatives)).log() for column in gold)
    loss = decoupled_softmax(logits, target, weights if weighted else None)
    assert loss.item() == pytest.approx(expected.item() / B)
