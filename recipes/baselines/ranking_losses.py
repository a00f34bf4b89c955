"""Implements ranking losses of `(B, C)` logits for `GileLoss`, such as `GileLoss(warp)`. They need all scores at once.

Shapes: B documents, C scored labels, M gold labels of the batch.
"""

import torch
from torch import Tensor

from hf_gile.models.losses_gile import widened


def _violations(logits: Tensor, targets: Tensor, column_weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Computes the margin violations of each label for each of M gold labels, and their weights: both `(M, C)`."""
    logits = widened(logits)
    rows, columns = targets.nonzero(as_tuple=True)
    margins = (1 - logits[rows, columns][:, None] + logits[rows]).clamp(min=0)
    counts = 1 - targets[rows].to(logits.dtype)
    # The lowest number marks labels that are not candidates for this document.
    counts = counts * (logits[rows] > torch.finfo(logits.dtype).min)
    return margins, counts if column_weights is None else counts * column_weights.expand_as(targets)[rows]


def hinge(logits: Tensor, targets: Tensor, column_weights: Tensor | None = None) -> Tensor:
    """Computes the hinge loss between gold labels and other labels: `max(0, 1 - s_gold + s_other)`.

    The paper tried a hinge loss (section 4.1.1, note 5) without stating its form. This loss is averaged over the other
    labels, summed over gold labels and averaged over documents.

    Args:
        logits: `(B, C)` scores.
        targets: `(B, C)` zeros and ones.
        column_weights: `(C,)` or `(B, C)`: number of labels of the full set that each sampled label represents.

    Returns:
        The loss, a scalar in float32 or better.
    """
    margins, counts = _violations(logits, targets, column_weights)
    return ((margins * counts).sum(-1) / counts.sum(-1).clamp(min=1)).sum() / len(logits)


def warp(logits: Tensor, targets: Tensor, column_weights: Tensor | None = None) -> Tensor:
    """Computes the WARP loss (Weston et al., 2010), with higher weights for gold labels of low rank.

        sum over gold labels of  (1 + 1/2 + ... + 1/r) * mean of the violations (1 - s_gold + s_other) > 0

    with r the number of violations. The original samples other labels until a violation, and estimates r from the
    number of samples. With all scores available, r and the mean are computed exactly.

    Args:
        logits: `(B, C)` scores.
        targets: `(B, C)` zeros and ones.
        column_weights: `(C,)` or `(B, C)`: number of labels of the full set that each sampled label represents.

    Returns:
        The loss, averaged over the documents: a scalar in float32 or better.
    """
    margins, counts = _violations(logits, targets, column_weights)
    rank = ((margins > 0) * counts).sum(-1).detach()
    # The harmonic number of r is digamma(r + 1) + Euler's constant, which is also defined between integers.
    weight = torch.digamma(rank + 1) + 0.5772156649015329
    return (weight * (margins * counts).sum(-1) / rank.clamp(min=1)).sum() / len(logits)
