"""Projects label codes to two dimensions, for the map on a card.

Shapes: M labels on the map, J joint size.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..extras import needs_extra
from ..models.labels_gile import Label

MOST = 1_500
"""Maximum number of labels on a map."""

_FEW = 30  # with fewer labels, neighbourhoods are meaningless and t-SNE is not useful
_COMPONENTS = 50


def mapped_labels(labels: Sequence[Label], most: int = MOST) -> list[int]:
    """Chooses the labels of a map: evenly spaced by frequency, with up to a quarter never trained on.

    Args:
        labels: The labels.
        most: Maximum number of labels.

    Returns:
        Their indices, ascending; the choice does not depend on the order of the labels.

    Example:
        >>> labels = [Label(f"L{n}", f"name {n}", seen=True, count=n) for n in range(5)]
        >>> mapped_labels(labels, most=3)
        [1, 3, 4]
    """
    places = sorted(range(len(labels)), key=lambda place: (-labels[place].count, labels[place].id))
    if len(places) <= most:
        return sorted(places)
    seen, unseen = ([place for place in places if labels[place].seen is kind] for kind in (True, False))
    share = min(len(unseen), max(most // 4, most - len(seen)))
    chosen = []
    for group, size in ((seen, most - share), (unseen, share)):
        chosen += [group[place * len(group) // size] for place in range(size)]
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
    wide = codes.detach().cpu().double().numpy()
    wide = wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-12)
    wide = wide - wide.mean(axis=0)
    # PCA by the products of the codes, whose number does not depend on the length of the codes.
    variances, components = np.linalg.eigh(wide @ wide.T)
    reduced = (components * np.sqrt(variances.clip(min=0)))[:, ::-1][:, :_COMPONENTS]
    # The sign of a component is arbitrary: its largest part is made positive.
    largest = np.abs(reduced).argmax(axis=0)
    reduced = reduced * np.where(reduced[largest, range(reduced.shape[1])] < 0, -1, 1)
    spread = reduced[:, 0].std()
    if len(wide) < _FEW or spread < 1e-9:
        return reduced[:, :2], "PCA"
    with needs_extra("train", "the map of the labels"):
        from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(wide) - 1) / 3)
    places = TSNE(2, perplexity=perplexity, init=reduced[:, :2] / spread * 1e-4, random_state=0).fit_transform(reduced)
    return places, "PCA, then t-SNE"


__all__ = ["MOST", "mapped_labels", "project"]
