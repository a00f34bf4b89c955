import pytest
import torch
from torch.nn import functional

from hf_gile.models.losses_gile import binary_cross_entropy, cross_entropy, multi_hot

B, L = 3, 17


LOGITS = torch.randn(B, L, dtype=torch.double, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([[2, 5, -100], [16, -100, -100], [-100, -100, -100]])


def test_multi_hot_marks_gold_columns_and_skips_padding():
    target = multi_hot(LABELS, L)
    assert target.shape == (B, L)
    assert target.nonzero().tolist() == [[0, 2], [0, 5], [1, 16]]


def test_a_column_out_of_range_is_named():
    with pytest.raises(ValueError, match="labels has index -1, but there are 17 labels"):
        multi_hot(torch.tensor([[0, -1]]), L)


def test_sigmoid_loss_equals_equation_15_times_the_number_of_labels():
    targets = multi_hot(LABELS, L).double()
    y_hat = 1 / (1 + torch.exp(-LOGITS))
    equation_15 = -(targets * y_hat.log() + (1 - targets) * (1 - y_hat).log()).sum() / (B * L)
    torch.testing.assert_close(binary_cross_entropy(LOGITS, targets), equation_15 * L)


def test_softmax_loss_equals_torch_cross_entropy():
    gold = torch.tensor([2, 16, 0])
    expected = functional.cross_entropy(LOGITS, gold)
    torch.testing.assert_close(cross_entropy(LOGITS, multi_hot(gold[:, None], L)), expected)


def test_half_precision_logits_are_summed_in_single_precision():
    assert binary_cross_entropy(LOGITS.bfloat16(), multi_hot(LABELS, L)).dtype == torch.float32
