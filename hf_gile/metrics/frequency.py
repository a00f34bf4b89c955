"""Label frequencies in training: propensities, and groups of rare and frequent labels.

Shapes: `L` labels scored.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .batch import Array

DECILES = tuple(f"decile_{number}_" for number in range(1, 11))
"""Prefixes of metrics by label frequency, from the rarest to the most frequent tenth."""


def propensities(
    counts: Array | Sequence[float], num_documents: int, a: float = 0.55, b: float = 1.5
) -> NDArray[np.float64]:
    """Estimates the probability that a relevant label was assigned to a document (Jain et al., KDD 2016).

        p_l = 1 / (1 + C (N_l + b)^-a),  C = (log N - 1) (b + 1)^a

    with N_l training documents of label l among N. The defaults are those of the authors, except for data from
    Wikipedia (a 0.5, b 0.4) and Amazon (a 0.6, b 2.6).

    Args:
        counts: `(L,)` training documents of each label, 0 for a label unseen in training.
        num_documents: N, the number of training documents; at least 3, since C would otherwise be negative.
        a: Exponent of the frequency.
        b: Offset of the frequency.

    Returns:
        `(L,)` propensities, in 0..1, higher for more frequent labels.

    Raises:
        ValueError: If counts are not between 0 and N, there are too few documents, or `a` or `b` is not positive.

    Example:
        >>> propensities([0, 1, 1000], num_documents=1000).round(3)
        array([0.113, 0.145, 0.821])
    """
    if num_documents < 3:
        raise ValueError(f"propensities need at least 3 training documents, got {num_documents}")
    if not (a > 0 and b > 0):
        raise ValueError(f"a and b must be positive, got a={a} and b={b}")
    frequencies = read_counts(counts)
    if frequencies.max(initial=0) > num_documents:
        raise ValueError(
            f"a label has {frequencies.max():g} training documents, but num_documents is {num_documents}; count each "
            "document of a label once, and pass the number of all training documents"
        )
    scale = (math.log(num_documents) - 1) * (b + 1) ** a
    return 1 / (1 + scale * (frequencies + b) ** -a)


def decile_figures(result: Mapping[str, float], prefix: str = "") -> dict[str, list[float]]:
    """Collects metrics by label frequency, for a table or a plot.

    Args:
        result: Results of metrics with `counts`; may include other results.
        prefix: Prefix of each name, such as "eval_" of a Trainer.

    Returns:
        Ten values for each metric, from the rarest to the most frequent tenth of the seen labels.

    Raises:
        ValueError: If there are no such metrics.

    Example:
        >>> from hf_gile.metrics import F1Metrics
        >>> metrics = F1Metrics(num_labels=20, counts=range(1, 21))
        >>> metrics.update(torch.tensor([[1.0] * 4 + [-1.0] * 16]), torch.tensor([[0, 1, 2, 5]]))
        >>> decile_figures(metrics.compute())["macro_f1"][:3]
        [1.0, 1.0, 0.0]
    """
    names = [name.removeprefix(prefix + DECILES[0]) for name in result if name.startswith(prefix + DECILES[0])]
    if not names:
        raise ValueError(
            f"no metric starts with {prefix + DECILES[0]!r}: create the metrics with counts=, and pass the prefix of "
            f"the names, got {', '.join(sorted(result)[:5])}..."
        )
    return {name: [result[prefix + decile + name] for decile in DECILES] for name in names}


def read_counts(counts: Array | Sequence[float], num_labels: int | None = None) -> NDArray[np.float64]:
    """Checks counts of training documents.

    Args:
        counts: `(L,)` training documents of each label.
        num_labels: L, if known.

    Returns:
        `(L,)` float64, a copy.

    Raises:
        ValueError: If counts are negative, NaN or infinite, or their number is wrong.

    Example:
        >>> read_counts([3, 0], num_labels=2)
        array([3., 0.])
    """
    return _check_numbers(counts, "counts", num_labels, lambda array: array >= 0, "of at least 0")


def read_propensities(values: Array | Sequence[float], num_labels: int) -> Tensor:
    """Checks propensities.

    Args:
        values: `(L,)` propensities.
        num_labels: Number of labels L.

    Returns:
        `(L,)` float64 on the CPU, a copy.

    Raises:
        ValueError: If they are not above 0 and at most 1, or their number is wrong.

    Example:
        >>> read_propensities([0.5, 1], num_labels=2)
        tensor([0.5000, 1.0000], dtype=torch.float64)
    """
    array = _check_numbers(
        values, "propensities", num_labels, lambda array: (array > 0) & (array <= 1), "above 0 and up to 1"
    )
    return torch.from_numpy(array)


def read_deciles(counts: Array | Sequence[float] | None, num_labels: int) -> dict[str, Tensor]:
    """Divides the labels with training documents into ten groups by frequency.

    The sizes of groups differ by at most one. Among labels of the same frequency, the lower index counts as rarer. With
    fewer than ten labels, the last groups are empty.

    Args:
        counts: `(L,)` training documents of each label; None returns no groups.
        num_labels: Number of labels L.

    Returns:
        Label indices of each group by prefix of its metrics, "decile_1_" (the rarest) to "decile_10_".

    Raises:
        ValueError: As in `read_counts`, or if no label has training documents.

    Example:
        >>> read_deciles([9, 0, *range(1, 10)], num_labels=11)["decile_10_"]
        tensor([10])
    """
    if counts is None:
        return {}
    frequencies = read_counts(counts, num_labels)
    order = np.argsort(frequencies, kind="stable")
    seen = order[frequencies[order] > 0]
    if len(seen) == 0:
        raise ValueError("counts must contain a label with training documents, got only zeros; leave counts out")
    return dict(zip(DECILES, map(torch.from_numpy, np.array_split(seen, len(DECILES))), strict=True))


def require_same_deciles(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    """Raises an error for metrics with different groups by frequency, which cannot be merged.

    Args:
        ours: Label indices of each group of the metrics to extend.
        theirs: Label indices of each group of the metrics to add.

    Raises:
        ValueError: If they differ.

    Example:
        >>> require_same_deciles(read_deciles([1, 2], 2), read_deciles([3, 4], 2))
    """
    if ours.keys() != theirs.keys() or not all(torch.equal(ours[prefix], theirs[prefix]) for prefix in ours):
        raise ValueError(
            "metrics can be merged only with the same counts, got different groups of labels; create both with the "
            "same counts"
        )


def _check_numbers(
    values: Array | Sequence[float],
    name: str,
    num_labels: int | None,
    is_valid: Callable[[NDArray[np.float64]], NDArray[np.bool_]],
    requirement: str,
) -> NDArray[np.float64]:
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.dtype.kind not in "iuf" or array.ndim != 1 or num_labels not in (None, len(array)):
        shape = "(L,)" if num_labels is None else f"({num_labels},)"
        raise ValueError(
            f"{name} must have shape {shape}, a number for each label, got {array.dtype} of shape {array.shape}"
        )
    array = array.astype(np.float64)
    wrong = np.flatnonzero(~(np.isfinite(array) & is_valid(array)))
    if len(wrong):
        raise ValueError(f"{name} must be numbers {requirement}, got {array[wrong[0]]:g} for label {wrong[0]}")
    return array
