"""The label side: rows of seen labels, and a bilinear form or GILE for seen and unseen labels.

A row is a logistic regression on the vectors of documents. The form compares them with the vectors of labels.

Shapes: N documents, L labels, S labels with documents, P size of a vector.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from ...models.mixture_gile import Rows
from .documents import Documents
from .losses import binary_loss, listwise_loss, minimize

CONSTANT = 3.0
"""Constant appended to a vector for b_l of a row: the larger it is, the less L2 shrinks b_l."""

_HALF_RARE = 3
"""Training documents with which a label has half the weights of "rare", and half those of "seen"."""

_FIRST_FACTOR = 10.0

_RMS_IN_TANH = 0.5
"""Root mean square of vectors inside tanh at first: below 0.25 the unit is nearly linear, above 1 it saturates."""

_JOINT_STEPS = 40

_FITTED = ("label_weight", "label_bias", "text_weight", "text_bias", "weight")


def basis_of(vectors: Tensor) -> Tensor:
    """Returns an orthonormal basis, `(P, R)`, of a space with `(N, P)` vectors; R is the smaller of N and P.

    A matrix that multiplies these vectors, and is pulled to where it starts, only moves within this space.
    """
    return torch.linalg.qr(vectors[: vectors.shape[1]].T).Q


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
        return block.vectors @ parameter.T

    def penalty() -> Tensor:
        return l2 / 2 * parameter.square().sum() / len(documents)

    known = replace(documents.among(seen), vectors=functional.pad(documents.vectors, (0, 1), value=CONSTANT))
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


def fit_bilinear(documents: Documents, labels: Tensor, l2: float, max_iter: int = 40) -> Bilinear:
    """Fits a bilinear form that ranks the labels of documents. Convex.

        score = h . (c I + M) e

    M is shrunk to zero, so that the cosine decides where documents give no evidence, and c to 10: labels of few
    documents are easy to tell apart, whatever c, but a large c makes unrelated labels nearly certain.

    Args:
        documents: N documents; labels without documents are not candidates.
        labels: `(L, P)` vectors e.
        l2: The weight of L2 of M, in a loss that is the sum over the documents.
        max_iter: Maximum number of iterations of L-BFGS.
    """
    seen = documents.counts(len(labels)) > 0
    of_texts = basis_of(documents.vectors)
    of_labels = basis_of(labels[seen])
    candidates = labels[seen] @ of_labels
    cosine = of_texts.T @ of_labels
    matrix = torch.zeros_like(cosine, requires_grad=True)
    factor = labels.new_tensor(_FIRST_FACTOR, requires_grad=True)

    def score(block: Documents) -> Tensor:
        return torch.linalg.multi_dot([block.vectors, factor * cosine + matrix, candidates.T])

    def penalty() -> Tensor:
        return l2 / 2 * (matrix.square().sum() + (factor - _FIRST_FACTOR).square()) / len(documents)

    width = max(len(candidates), labels.shape[1])
    known = replace(documents.among(seen), vectors=documents.vectors @ of_texts)
    minimize([matrix, factor], score, known, listwise_loss, penalty, width=width, max_iter=max_iter)
    return Bilinear(of_texts @ matrix.detach() @ of_labels.T, factor.item())


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
    U and V move within the spaces of the vectors of labels and documents, where the minimum is.

    Args:
        documents: N documents; labels without documents are not candidates.
        labels: `(L, P)` vectors e.
        pull: Weight of the distance from the start, in documents.
        form: The form to start from.
    """
    seen = documents.counts(len(labels)) > 0
    of_texts = basis_of(documents.vectors)
    of_labels = basis_of(labels[seen])
    candidates = labels[seen] @ of_labels
    known = replace(documents.among(seen), vectors=documents.vectors @ of_texts)
    start = Joint.start(form, documents.vectors[:1000], labels[seen])
    within = replace(start, label_weight=start.label_weight @ of_labels, text_weight=start.text_weight @ of_texts)
    scale = _RMS_IN_TANH * labels.shape[1] ** 0.5
    scales = (scale, 1.0, scale, 1.0, start.weight)
    moves = [torch.zeros_like(tensor, requires_grad=True) for tensor in within.tensors]

    def moved(unit: Joint) -> Joint:
        tensors = (tensor + size * move for tensor, size, move in zip(unit.tensors, scales, moves, strict=True))
        return replace(unit, **dict(zip(_FITTED, tensors, strict=True)))

    def score(block: Documents) -> Tensor:
        return moved(within).scores(block.vectors, candidates)

    def penalty() -> Tensor:
        squares = [moves[position].square().sum() for position in (0, 2, 4)]  # of U, V and w
        return pull / (2 * max(1, len(documents))) * torch.stack(squares).sum()

    minimize(
        moves,
        score,
        known,
        listwise_loss,
        penalty,
        width=max(len(candidates), labels.shape[1]),
        max_iter=_JOINT_STEPS,
        tolerance=1e-7,
    )
    with torch.no_grad():
        moves[0] = moves[0] @ of_labels.T
        moves[2] = moves[2] @ of_texts.T
        return moved(start)
