"""The label side: a bilinear form of the vectors of documents and labels, or GILE, for seen and unseen labels.

Shapes: N documents, L labels, P size of a vector.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .documents import Documents
from .losses import listwise_loss, minimize

_FIRST_FACTOR = 10.0

_RMS_IN_TANH = 0.5
"""Root mean square of vectors inside tanh at first: below 0.25 the unit is nearly linear, above 1 it saturates."""

_JOINT_STEPS = 40

_FITTED = ("label_weight", "label_bias", "text_weight", "text_bias", "weight")


@dataclass(frozen=True, eq=False)
class Bilinear:
    """The form h . (c I + M) e.

    Args:
        matrix: `(P, P)`, M, the term "joint".
        factor: c, of the term "cosine".
    """

    matrix: Tensor
    factor: float

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """M."""
        return (self.matrix,)

    def terms(self, vectors: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Computes "cosine" and "joint" of `(N, P)` documents and `(L, P)` labels, `(N, L)` each."""
        return {"cosine": self.factor * vectors @ labels.T, "joint": vectors @ self.matrix @ labels.T}


def fit_bilinear(documents: Documents, labels: Tensor, l2: float, max_iter: int = 40) -> Bilinear:
    """Fits a bilinear form that ranks the labels of documents. Convex.

        score = h . (c I + M) e

    M is shrunk to zero, so that the cosine decides where documents give no evidence.

    Args:
        documents: N documents; labels without documents are not candidates.
        labels: `(L, P)` vectors e.
        l2: The weight of L2 of M, in a loss that is the sum over the documents.
        max_iter: Maximum number of iterations of L-BFGS.
    """
    seen = documents.counts(len(labels)) > 0
    candidates = labels[seen]
    size = labels.shape[1]
    matrix = labels.new_zeros(size, size, requires_grad=True)
    factor = labels.new_tensor(_FIRST_FACTOR, requires_grad=True)

    def score(block: Documents) -> Tensor:
        return (factor * block.vectors + block.vectors @ matrix) @ candidates.T

    def penalty() -> Tensor:
        return l2 / 2 * matrix.square().sum() / len(documents)

    width = max(len(candidates), size)
    known = documents.among(seen)
    minimize([matrix, factor], score, known, listwise_loss, penalty, width=width, max_iter=max_iter)
    return Bilinear(matrix.detach(), factor.item())


@dataclass(frozen=True, eq=False)
class Joint:
    """The joint space of GILE, Eq. 14, of size P: w . (tanh(U e + b_u) * tanh(V h + b_v)); and the cosine.

    Args:
        label_weight: `(P, P)`, U.
        label_bias: `(P,)`, b_u.
        text_weight: `(P, P)`, V.
        text_bias: `(P,)`, b_v.
        weight: `(P,)`, w.
        factor: The factor of the cosine.
    """

    label_weight: Tensor
    label_bias: Tensor
    text_weight: Tensor
    text_bias: Tensor
    weight: Tensor
    factor: float

    @classmethod
    def start(cls, form: Bilinear, vectors: Tensor, labels: Tensor) -> "Joint":
        """Returns the unit that nearly is a bilinear form, which is GILE without activations (Eq. 18).

        Args:
            form: The form.
            vectors: `(N, P)` documents, for which the length of w makes up for tanh.
            labels: `(L, P)` labels.
        """
        size = labels.shape[1]
        scale = _RMS_IN_TANH * size**0.5
        identity = torch.eye(size)
        whole = form.factor * identity + form.matrix
        text_weight = scale * whole.T.contiguous() * (size**0.5 / whole.norm().clamp(min=1e-9))
        zeros = torch.zeros(size)
        unit = cls(scale * identity, zeros, text_weight, zeros, torch.ones(size), form.factor)
        exact = sum(form.terms(vectors, labels).values(), torch.tensor(0.0))
        nearly = unit.scores(vectors, labels)
        factor = ((exact * nearly).sum() / nearly.square().sum().clamp(min=1e-9)).clamp(min=1e-3)
        return replace(unit, weight=factor.expand(size))

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """U, b_u, V, b_v and w."""
        return tuple(getattr(self, name) for name in _FITTED)

    def scores(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """Computes `(N, L)` scores in the joint space."""
        texts = torch.tanh(vectors @ self.text_weight.T + self.text_bias)
        return (texts * self.weight) @ torch.tanh(labels @ self.label_weight.T + self.label_bias).T

    def terms(self, vectors: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Computes "cosine" and "joint" of `(N, P)` documents and `(L, P)` labels, `(N, L)` each."""
        return {"cosine": self.factor * vectors @ labels.T, "joint": self.scores(vectors, labels)}


def fit_joint(documents: Documents, labels: Tensor, pull: float, form: Bilinear) -> Joint:
    """Fits the joint space of GILE to rank the labels of documents, from a bilinear form on. Not convex.

        min  loss / N + pull / (2 N) |x - x_0|^2

    x are U, V and w, divided by the scale of their start x_0. Pulled back to where it starts, the unit ranks unseen
    labels as well as the form, and seen labels of few documents better. A free w would fit the documents by itself.

    Args:
        documents: N documents; labels without documents are not candidates.
        labels: `(L, P)` vectors e.
        pull: Weight of the distance from the start, in documents.
        form: The form to start from.
    """
    seen = documents.counts(len(labels)) > 0
    candidates = labels[seen]
    documents = documents.among(seen)
    number = max(1, len(documents))
    start = Joint.start(form, documents.vectors[:1000], candidates)
    scale = _RMS_IN_TANH * labels.shape[1] ** 0.5
    scales = (scale, 1.0, scale, 1.0, start.weight)
    starts = [tensor / size for tensor, size in zip(start.tensors, scales, strict=True)]
    numbers = [tensor.clone().requires_grad_() for tensor in starts]

    def unit() -> Joint:
        tensors = (tensor * size for tensor, size in zip(numbers, scales, strict=True))
        return replace(start, **dict(zip(_FITTED, tensors, strict=True)))

    def score(block: Documents) -> Tensor:
        return unit().scores(block.vectors, candidates)

    def penalty() -> Tensor:
        distances = [(numbers[position] - starts[position]).square().sum() for position in (0, 2, 4)]  # U, V and w
        return pull / (2 * number) * torch.as_tensor(sum(distances))

    width = max(len(candidates), labels.shape[1])
    minimize(numbers, score, documents, listwise_loss, penalty, width=width, max_iter=_JOINT_STEPS, tolerance=1e-7)
    with torch.no_grad():
        return unit()
