"""Losses over weighted columns equal literal formulas and plain losses."""

from itertools import product

import pytest
import torch

from hf_gile.models import losses_gile
from hf_gile.models.losses_gile import binary_cross_entropy, multi_hot
from hf_gile.training.losses import cross_entropy, gold_positions

B, L = 3, 17
LOSSES = {"binary_cross_entropy": binary_cross_entropy, "cross_entropy": cross_entropy}


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
    sampled = multi_hot(gold_positions(LABELS, L, columns), len(columns))
    torch.testing.assert_close(sampled, multi_hot(LABELS, L)[:, columns])


@pytest.mark.parametrize("columns", [[0, 2], [0, 2, 5, 15]], ids=["past the end", "in between"])
def test_a_gold_column_missing_from_the_sample_is_named(columns):
    with pytest.raises(ValueError, match="which sampled_columns lacks"):
        gold_positions(LABELS, L, torch.tensor(columns))


def test_softmax_weights_equal_repeated_columns(logits):
    # A column of weight three counts like three equal columns.
    targets = multi_hot(torch.tensor([[0], [1], [0]]), 3)
    repeated = torch.cat([logits[:, :3], logits[:, 2:3], logits[:, 2:3]], dim=1)
    padded = torch.nn.functional.pad(targets, (0, 2))
    weighted = cross_entropy(logits[:, :3], targets, torch.tensor([1.0, 1.0, 3.0]))
    torch.testing.assert_close(weighted, cross_entropy(repeated, padded))


# Four documents: all weights 1, 0 except for gold labels, all 0, and labels that are not candidates.
WEIGHTS = torch.tensor([[1.0, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0], [0, 1, 0, 1]])
NO_CANDIDATES = torch.tensor([[0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 1, 0]]).bool()
GOLD = {
    "none": [[-100]] * 4,
    "some": [[0, 1], [0, 1], [-100, -100], [-100, 1]],
    "all": [[0, 1, 2, 3], [0, 1, -100, -100], [0, 1, 2, -100], [-100, 0, 1, 3]],
    "single labels": [[2], [1], [0], [1]],
}
CASES = [*product(LOSSES, ["single labels"]), *product(["binary_cross_entropy"], ["none", "some", "all"])]


@pytest.mark.parametrize(("loss", "gold"), CASES)
def test_losses_and_gradients_are_finite_with_zero_weights(loss, gold):
    scores = torch.randn(4, 4, requires_grad=True, generator=torch.Generator().manual_seed(0))
    logits = scores.masked_fill(NO_CANDIDATES, torch.finfo(scores.dtype).min)
    targets = multi_hot(torch.tensor(GOLD[gold]), 4)
    value = LOSSES[loss](logits, targets, WEIGHTS)
    value.backward()
    assert value.isfinite()
    assert value >= 0
    assert scores.grad.isfinite().all()
