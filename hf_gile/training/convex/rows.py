"""Rows of labels: a logistic regression on the vectors of documents for each label.

Shapes: N documents, L labels, S labels with documents, P size of a vector.
"""

import torch
from torch import Tensor
from torch.nn import functional

from ...models.mixture_gile import Rows
from .documents import Documents
from .losses import binary_loss, minimize

CONSTANT = 3.0
"""Constant appended to a vector for b_l of a row: the larger it is, the less L2 shrinks b_l."""

_HALF_RARE = 3
"""Training documents with which a label has half the weights of "rare", and half those of "seen"."""


def fit_rows(documents: Documents, num_labels: int, l2: float, start: Rows | None = None, max_iter: int = 60) -> Rows:
    """Fits a row r_l and a bias b_l for each label: independent logistic regressions with L2. Convex.

        score = r_l . h + b_l

    If each document has one label, this ranks as well as a softmax does, and better together with unseen labels,
    because a softmax only learns to compare the labels that it knows.

    Args:
        documents: N documents.
        num_labels: Number of labels L.
        l2: The weight of L2; the loss is the sum over the documents, so that it is 1 / C of scikit-learn.
        start: Rows to start from; by default zero, with biases that reproduce the frequencies of the labels.
        max_iter: Maximum number of iterations of L-BFGS; with 0, the start is returned.

    Returns:
        L rows; zeros for labels without documents.
    """
    counts = documents.counts(num_labels)
    seen = counts > 0
    if start is None:
        share = (counts / max(1, len(documents))).clamp(1e-6, 1 - 1e-6)
        start = Rows(documents.vectors.new_zeros(num_labels, documents.vectors.shape[1]), share.logit(), share)
    rows = Rows(start.weight.clone(), start.bias.clone(), rarity_of(counts)).where(seen)
    if max_iter == 0 or not bool(seen.any()):
        return rows
    parameter = torch.cat([rows.weight[seen], rows.bias[seen, None] / CONSTANT], 1).requires_grad_()  # (S, P + 1)

    def score(block: Documents) -> Tensor:
        return functional.linear(block.vectors, parameter[:, :-1], CONSTANT * parameter[:, -1])

    def penalty() -> Tensor:
        return l2 / 2 * parameter.square().sum() / len(documents)

    known = documents.among(seen)
    minimize([parameter], score, known, binary_loss, penalty, width=len(parameter), max_iter=max_iter)
    rows.weight[seen] = parameter[:, :-1].detach()
    rows.bias[seen] = CONSTANT * parameter[:, -1].detach()
    return rows


def score_rows(rows: Rows, vectors: Tensor) -> Tensor:
    """Computes the `(N, L)` scores of rows for `(N, P)` vectors of documents."""
    return functional.linear(vectors, rows.weight, rows.bias)


def rarity_of(counts: Tensor) -> Tensor:
    """Returns the shares of the weights of "rare" for labels with `(L,)` numbers of training documents; 0 for none.

    rarity_l = 3 / (3 + n_l)
    """
    return _HALF_RARE / (_HALF_RARE + counts) * (counts > 0)
