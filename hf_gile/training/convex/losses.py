"""Losses of scores, and their minimization by L-BFGS over blocks of documents.

Shapes: N documents, L labels.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from .documents import Documents

Loss = Callable[[Tensor, Documents], Tensor]


def listwise_loss(scores: Tensor, documents: Documents) -> Tensor:
    """Cross-entropy of each gold label against all labels that are not gold; with one gold label, the softmax loss.

        loss = sum_d sum_{g gold} log(1 + exp(log sum_{l not gold} exp(s_dl) - s_dg))

    Args:
        scores: `(N, L)` scores s.
        documents: N documents.

    Returns:
        A scalar.
    """
    targets, candidates = documents.targets(scores.shape[1])
    is_gold = targets > 0
    others = scores.masked_fill(is_gold, -torch.inf)
    if candidates is not None:
        others = others.masked_fill(~candidates, -torch.inf)
    rows, columns = is_gold.nonzero(as_tuple=True)
    lowest = torch.finfo(scores.dtype).min / 4  # no infinity for a document whose labels are all gold
    rest = torch.logsumexp(others.clamp(min=lowest), 1)
    return functional.softplus(rest[rows] - scores[rows, columns]).sum()


def binary_loss(scores: Tensor, documents: Documents) -> Tensor:
    """Binary cross-entropy of each label.

    Args:
        scores: `(N, L)` scores.
        documents: N documents.

    Returns:
        The sum over documents and their candidate labels, a scalar.
    """
    targets, candidates = documents.targets(scores.shape[1])
    weights = None if candidates is None else candidates.to(scores)
    return functional.binary_cross_entropy_with_logits(scores, targets, weights, reduction="sum")


def scaled_loss(scores: Tensor, documents: Documents) -> float:
    """Returns the `listwise_loss` of a document with scores times the best factor, as a mixture can reach it.

    Args:
        scores: `(N, L)` scores.
        documents: N documents.
    """
    if not len(documents):
        return 0.0
    spread = scores.abs().mean().item() or 1.0
    losses = [listwise_loss(scores * (factor / spread), documents).item() for factor in np.geomspace(0.3, 30, 21)]
    return min(losses) / len(documents)


def minimize(
    parameters: Sequence[Tensor],
    score: Callable[[Documents], Tensor],
    documents: Documents,
    loss: Loss,
    penalty: Callable[[], Tensor],
    *,
    width: int,
    max_iter: int,
    tolerance: float = 1e-6,
) -> None:
    """Minimizes the mean loss of documents and a penalty of the parameters, in place by L-BFGS.

    Args:
        parameters: Tensors with gradients.
        score: Computes the scores of a block of documents.
        documents: N documents.
        loss: Sums up the loss of a block.
        penalty: Computes what is added to the mean loss.
        width: Numbers in memory per document.
        max_iter: Maximum number of iterations.
        tolerance: Largest gradient at which the search ends.
    """
    number = max(1, len(documents))
    optimizer = torch.optim.LBFGS(
        parameters, max_iter=max_iter, history_size=10, line_search_fn="strong_wolfe", tolerance_grad=tolerance
    )

    @torch.enable_grad()
    def closure() -> Tensor:
        optimizer.zero_grad()
        total = penalty()
        total.backward()
        for _, block in documents.blocks(width):
            part = loss(score(block), block) / number
            part.backward()
            total = total.detach() + part.detach()
        return total

    optimizer.step(closure)
