"""Ranking losses of `(B, C)` logits, of which a `GileLoss` takes one: `GileLoss(warp)`. They need all scores at once.

Shapes: B documents, C columns scored, M gold labels of the batch.
"""

import torch
from torch import Tensor

from hf_gile.models.losses_gile import widened


def _violations(logits: Tensor, targets: Tensor, column_weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """For each of M gold labels, `(M, C)`: by how much each other label comes too near, and for how many it counts."""
    logits = widened(logits)
    rows, columns = targets.nonzero(as_tuple=True)
    margins = (1 - logits[rows, columns][:, None] + logits[rows]).clamp(min=0)
    counts = 1 - targets[rows].to(logits.dtype)
    # The lowest number marks a label that is no candidate for this document.
    counts = counts * (logits[rows] > torch.finfo(logits.dtype).min)
    return margins, counts if column_weights is None else counts * column_weights.expand_as(targets)[rows]


def hinge(logits: Tensor, targets: Tensor, column_weights: Tensor | None = None) -> Tensor:
    """The hinge loss between each gold label and each other label: `max(0, 1 - s_gold + s_other)`.

    The paper tried one (section 4.1.1, note 5) without giving its form. Chosen here: averaged over the other labels,
    summed over the gold labels, averaged over the documents.

    Args:
        logits: `(B, C)` scores.
        targets: `(B, C)` zeros and ones.
        column_weights: `(C,)` or `(B, C)`: how many columns of the full set each one stands for.

    Returns:
        The loss, a scalar in float32 or better.
    """
    margins, counts = _violations(logits, targets, column_weights)
    return ((margins * counts).sum(-1) / counts.sum(-1).clamp(min=1)).sum() / len(logits)


def warp(logits: Tensor, targets: Tensor, column_weights: Tensor | None = None) -> Tensor:
    """The WARP loss (Weston et al., 2010): a gold label with many labels above it counts more.

        sum over gold labels of  (1 + 1/2 + ... + 1/r) * mean of the violations (1 - s_gold + s_other) > 0

    with r the number of violations. The original draws other labels until one violates, and estimates r from the number
    of draws; here all scores are at hand, so r is counted and the mean taken: what the draws estimate.

    Args:
        logits: `(B, C)` scores.
        targets: `(B, C)` zeros and ones.
        column_weights: `(C,)` or `(B, C)`: how many columns of the full set each one stands for.

    Returns:
        The loss, averaged over the documents: a scalar in float32 or better.
    """
    margins, counts = _violations(logits, targets, column_weights)
    rank = ((margins > 0) * counts).sum(-1).detach()
    # The harmonic number of r: digamma(r + 1) + Euler's constant, which also serves between whole numbers.
    weight = torch.digamma(rank + 1) + 0.5772156649015329
    return (weight * (margins * counts).sum(-1) / rank.clamp(min=1)).sum() / len(logits)
