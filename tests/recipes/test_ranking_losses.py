"""WARP and hinge losses equal loops over pairs of labels."""

import pytest
import torch
from baselines import hinge, warp

from hf_gile.models.losses_gile import multi_hot
from hf_gile.training import GileLoss

B, L = 3, 17
RANKING = {"warp": warp, "hinge": hinge}
LABELS = torch.tensor([[2, 5, -100], [16, -100, -100], [-100, -100, -100]])


@pytest.fixture
def logits():
    return torch.randn(B, L, dtype=torch.double, generator=torch.Generator().manual_seed(0))


def ranking_loss_by_hand(logits, targets, weights, kind):
    """Computes both ranking losses in loops over pairs of labels."""
    total = 0.0
    for row in range(len(logits)):
        negatives = [column for column in range(logits.shape[1]) if not targets[row, column]]
        for gold in range(logits.shape[1]):
            if not targets[row, gold]:
                continue
            margins = [max(0.0, 1 - logits[row, gold].item() + logits[row, other].item()) for other in negatives]
            counts = [weights[other].item() for other in negatives]
            weighted = sum(margin * count for margin, count in zip(margins, counts, strict=True))
            if kind == "hinge":
                total += weighted / sum(counts)
            else:
                rank = sum(count for margin, count in zip(margins, counts, strict=True) if margin > 0)
                harmonic = sum(1 / position for position in range(1, round(rank) + 1))
                total += harmonic * weighted / max(rank, 1)
    return total / len(logits)


@pytest.mark.parametrize("kind", ["warp", "hinge"])
def test_ranking_losses_equal_hand_written_formulas(logits, kind):
    targets = multi_hot(LABELS, L)
    for weights in (torch.ones(L, dtype=torch.double), torch.randint(1, 4, (L,)).double()):
        expected = ranking_loss_by_hand(logits, targets, weights, kind)
        passed_weights = None if bool((weights == 1).all()) else weights
        assert RANKING[kind](logits, targets, passed_weights).item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("kind", ["warp", "hinge"])
def test_a_model_trains_with_a_ranking_loss_but_not_in_chunks(make_model, kind):
    model, processor = make_model()
    model.loss_function = GileLoss(RANKING[kind])
    inputs = processor(["breast milk", "iron"], return_tensors="pt")
    output = model.train()(**inputs, labels=torch.tensor([[1, 2], [0, -100]]), sampled_columns=torch.arange(4))
    output.loss.backward()
    assert model.gile.output_layer.classifier.weight.grad.any()
    with pytest.raises(ValueError, match=f"the loss {kind} needs the scores of all labels at once"):
        GileLoss(RANKING[kind], chunk_size=2)
