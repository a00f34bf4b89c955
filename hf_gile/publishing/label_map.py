"""Projects label codes to two dimensions, for the map on a card.

Shapes: M labels on the map, J joint size.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..extras import needs_extra
from ..models.labels_gile import Label

MAX_LABELS = 1_500
"""Maximum number of labels on a map."""

_MIN_FOR_TSNE = 30  # with fewer labels, neighbourhoods are meaningless, and t-SNE is not useful
_COMPONENTS = 50


def select_labels(labels: Sequence[Label], max_labels: int = MAX_LABELS) -> list[int]:
    """Chooses the labels of a map: evenly spaced by frequency, with up to a quarter of unseen labels.

    Args:
        labels: The labels.
        max_labels: Maximum number of labels.

    Returns:
        Indices of the chosen labels, ascending; the choice does not depend on the order of the labels.

    Example:
        >>> labels = [Label(f"L{n}", f"name {n}", seen=True, count=n) for n in range(5)]
        >>> select_labels(labels, max_labels=3)
        [1, 3, 4]
    """
    ranked = sorted(range(len(labels)), key=lambda index: (-labels[index].count, labels[index].id))
    if len(ranked) <= max_labels:
        return sorted(ranked)
    seen, unseen = ([index for index in ranked if labels[index].seen is kind] for kind in (True, False))
    share = min(len(unseen), max(max_labels // 4, max_labels - len(seen)))
    chosen = []
    for group, size in ((seen, max_labels - share), (unseen, share)):
        chosen += [group[index * len(group) // size] for index in range(size)]
    return sorted(chosen)


def project(codes: Tensor) -> tuple[NDArray[np.float64], str]:
    """Projects label codes to the plane, deterministically.

    Codes are scaled to length 1, so that positions do not depend on the frequency of labels, which affects the length.

    Args:
        codes: `(M, J)` label codes, at least 3.

    Returns:
        `(M, 2)` positions, and the name of the method.

    Raises:
        ImportError: If scikit-learn is not installed.
        ValueError: If there are fewer than 3 codes.
    """
    if len(codes) < 3:
        raise ValueError(f"a map needs at least 3 labels, got {len(codes)}")
    vectors = codes.detach().cpu().double().numpy()
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    vectors = vectors - vectors.mean(axis=0)
    # PCA by the (M, M) inner products of the codes, whose size does not depend on J.
    variances, components = np.linalg.eigh(vectors @ vectors.T)
    reduced = (components * np.sqrt(variances.clip(min=0)))[:, ::-1][:, :_COMPONENTS]
    # The sign of a component is arbitrary: make its largest entry positive.
    largest = np.abs(reduced).argmax(axis=0)
    reduced = reduced * np.where(reduced[largest, range(reduced.shape[1])] < 0, -1, 1)
    spread = reduced[:, 0].std()
    if len(vectors) < _MIN_FOR_TSNE or spread < 1e-9:
        return reduced[:, :2], "PCA"
    with needs_extra("train", "the map of the labels"):
        from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(vectors) - 1) / 3)
    positions = TSNE(2, perplexity=perplexity, init=reduced[:, :2] / spread * 1e-4, random_state=0).fit_transform(
        reduced
    )
    return positions, "PCA, then t-SNE"


__all__ = ["MAX_LABELS", "project", "select_labels"]
