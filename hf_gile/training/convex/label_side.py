"""The label side: a bilinear form between the vectors of documents and labels, for seen and unseen labels.

Shapes: N documents, L labels, P size of a vector.
"""

from dataclasses import dataclass

from torch import Tensor

from .documents import Documents
from .losses import listwise_loss, minimize

_FIRST_FACTOR = 10.0


@dataclass(frozen=True, eq=False)
class Bilinear:
    """The form h . (c I + M) e.

    Args:
        matrix: `(P, P)`, M, the term "joint".
        factor: c, of the term "cosine".
    """

    matrix: Tensor
    factor: float

    def terms(self, vectors: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Computes "cosine" and "joint" of `(N, P)` documents and `(L, P)` labels, `(N, L)` each."""
        return {"cosine": self.factor * vectors @ labels.T, "joint": vectors @ self.matrix @ labels.T}


def fit_bilinear(
    documents: Documents, labels: Tensor, l2: float, start: Bilinear | None = None, max_iter: int = 40
) -> Bilinear:
    """Fits a bilinear form that ranks the labels of documents. Convex.

        score = h . (c I + M) e

    M is shrunk to zero, so that the cosine decides where documents give no evidence.

    Args:
        documents: N documents; labels without documents are not candidates.
        labels: `(L, P)` vectors e.
        l2: The weight of L2 of M, in a loss that is the sum over the documents.
        start: The form to start from; by default M = 0.
        max_iter: Maximum number of iterations of L-BFGS.
    """
    seen = documents.counts(len(labels)) > 0
    candidates = labels[seen]
    size = labels.shape[1]
    if start is None:
        start = Bilinear(labels.new_zeros(size, size), _FIRST_FACTOR)
    matrix = start.matrix.clone().requires_grad_()
    factor = labels.new_tensor(start.factor, requires_grad=True)

    def score(block: Documents) -> Tensor:
        return (factor * block.vectors + block.vectors @ matrix) @ candidates.T

    width = max(len(candidates), size)
    minimize([matrix, factor], score, documents.among(seen), listwise_loss, l2, max_iter, width)
    return Bilinear(matrix.detach(), factor.item())
