"""How well scores rank the gold labels of a document above its other labels.

Also the one door of this package: `read_batch` checks scores and gold labels for every metric.
Shapes: `B` documents in the batch, `L` labels scored, `P` gold labels per document, padded.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = Tensor | NDArray[Any]

PADDING = -100
SCORE_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def ranking_metrics(scores: Array, labels: Array, columns: Array | Sequence[bool] | None = None) -> dict[str, Tensor]:
    """Scores the ranking of each document.

    With `rank(l)` the number of labels that score at least as high as label `l`, itself included,
    and `gold_rank(l)` the number of gold labels among them, a document with `G` gold labels has

        average_precision = 1/G        sum over gold l of gold_rank(l) / rank(l)
        ranking_loss      = 1/(G(L-G)) sum over gold l of (rank(l) - gold_rank(l))
        one_error         = 1 if rank(l) > gold_rank(l) for the best-scored gold l, else 0
        coverage          = rank(l) of the worst-scored gold l

    A tie thus counts against the model, and the order of the labels never matters. The first two
    are `label_ranking_average_precision_score` and `label_ranking_loss` of scikit-learn, in 0..1
    (the tables of the GILE paper show percent); coverage is a number of labels, its
    `coverage_error`. A document whose labels are all gold has average precision 1, losses 0.

    Labels are ranked on the device of the scores; the results are on the CPU.

    Args:
        scores: `(B, L)` logits, or any scores in the same order.
        labels: `(B, P)` integer columns of the gold labels, padded with -100; or `(B, L)` multi-hot
            of bool or 0.0 and 1.0.
        columns: `(L,)` bool, the group of labels to look at: ranks and gold labels are restricted
            to it. All labels by default.

    Returns:
        `(B,)` float64 for each of the four names above, NaN where a document has no gold label in
        the group, and `(B,)` bool `counted`, False there.

    Raises:
        ValueError: If scores, labels or columns do not fit together.

    Example:
        >>> result = ranking_metrics(torch.tensor([[0.9, 0.1, 0.4, 0.3]]), torch.tensor([[0, 3]]))
        >>> result["average_precision"], result["ranking_loss"]
        (tensor([0.8333], dtype=torch.float64), tensor([0.2500], dtype=torch.float64))
    """
    scores, gold = read_batch(scores, labels)
    if columns is not None:
        scores, gold = _restrict(scores, gold, read_columns(columns, scores.shape[1]))
    at_gold = _at_gold(scores, gold)
    return _measure(_rank(scores, at_gold), at_gold, gold != PADDING, scores.shape[1])


class RankingMetrics:
    """Means of `ranking_metrics` over any number of batches, which it does not keep.

    With a mask of seen labels every mean comes three times: over all labels under its own name, and
    as `seen_...` and `unseen_...`. As in the GILE paper, seen labels are ranked among the seen ones
    only, and unseen among the unseen. Documents without a gold label in a group are left out of its
    means and counted as `skipped`.

    Args:
        num_labels: Number of labels L of every batch.
        seen: `(L,)` bool, True for the labels that were seen in training.

    Raises:
        ValueError: If the mask does not fit the labels.

    Example:
        >>> metrics = RankingMetrics(num_labels=3)
        >>> metrics.update(torch.tensor([[0.9, 0.1, 0.4]]), torch.tensor([[2]]))
        >>> metrics.update(torch.tensor([[0.2, 0.8, 0.3]]), torch.tensor([[-100]]))
        >>> result = metrics.compute()
        >>> result["average_precision"], result["documents"], result["skipped"]
        (0.5, 1, 1)
    """

    def __init__(self, num_labels: int, seen: Array | Sequence[bool] | None = None) -> None:
        self.groups = read_groups(num_labels, seen)
        self.num_labels = num_labels
        self.reset()

    def reset(self) -> None:
        """Forgets every batch."""
        names = ("average_precision", "ranking_loss", "one_error", "coverage")
        self.sums = {prefix: dict.fromkeys(names, 0.0) for prefix in self.groups}
        self.counted = dict.fromkeys(self.groups, 0)
        self.documents = 0

    def update(self, scores: Array, labels: Array) -> None:
        """Adds a batch.

        Args:
            scores: `(B, L)` logits, or any scores in the same order.
            labels: `(B, P)` integer columns padded with -100, or `(B, L)` multi-hot.

        Raises:
            ValueError: If scores and labels do not fit together; nothing is added then.
        """
        scores, gold = read_batch(scores, labels, self.num_labels)
        at_gold = _at_gold(scores, gold)
        groups = {prefix: columns.to(scores.device) for prefix, columns in self.groups.items()}
        ranks = {
            prefix: _rank(_select(scores, columns), at_gold)
            for prefix, columns in groups.items()
            if prefix or len(groups) == 1
        }
        # seen and unseen make up all labels: their ranks add up, which saves the longest sort
        if len(groups) > 1:
            ranks[""] = ranks["seen_"] + ranks["unseen_"]
        for prefix, columns in groups.items():
            is_gold = (gold != PADDING) & columns[gold.clamp(min=0)]
            result = _measure(ranks[prefix], at_gold, is_gold, int(columns.sum()))
            counted = result.pop("counted")
            for name, value in result.items():
                self.sums[prefix][name] += value[counted].sum().item()
            self.counted[prefix] += int(counted.sum())
        self.documents += len(gold)

    def compute(self) -> dict[str, float]:
        """Returns the means so far.

        Returns:
            For each group the means, the number of `documents` they are over, and of documents
            `skipped`. If all were skipped, no mean is defined and each is NaN.

        Raises:
            ValueError: If no document came yet.
        """
        require_documents(self.documents)
        result: dict[str, float] = {}
        for prefix, counted in self.counted.items():
            for name, value in self.sums[prefix].items():
                result[prefix + name] = value / counted if counted else float("nan")
            result[f"{prefix}documents"] = counted
            result[f"{prefix}skipped"] = self.documents - counted
        return result

    def merge(self, other: "RankingMetrics") -> None:
        """Adds the batches that another worker has seen.

        Args:
            other: Metrics of the same labels and seen labels; it stays as it is.

        Raises:
            ValueError: If labels or seen labels differ; nothing is added then.
        """
        require_same_groups(self.groups, other.groups)
        for prefix in self.groups:
            for name, value in other.sums[prefix].items():
                self.sums[prefix][name] += value
            self.counted[prefix] += other.counted[prefix]
        self.documents += other.documents


def read_batch(scores: Array, labels: Array, num_labels: int | None = None) -> tuple[Tensor, Tensor]:
    """Checks a batch and brings its gold labels to one form.

    Args:
        scores: `(B, L)` floating point.
        labels: `(B, P)` integer columns padded with -100, or `(B, L)` multi-hot.
        num_labels: L, where it is known.

    Returns:
        `(B, L)` scores as they came, without gradient, and `(B, P)` int64 gold columns padded with
        -100, on the device of the scores; P is at least 1.

    Raises:
        ValueError: If scores and labels do not fit together.

    Example:
        >>> read_batch(torch.zeros(2, 3), torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))[1]
        tensor([[   0,    2],
                [   1, -100]])
    """
    scores = _to_tensor(scores, "scores").detach()
    if scores.ndim != 2 or scores.shape[1] == 0 or scores.dtype not in SCORE_TYPES:
        raise ValueError(
            "scores must be float16, bfloat16, float32 or float64 of shape (documents, labels), "
            f"got {_described(scores)}; pass the logits of the whole label set"
        )
    if num_labels is not None and scores.shape[1] != num_labels:
        raise ValueError(
            f"scores must have one column for each of the {num_labels} labels, got "
            f"{scores.shape[1]} columns; score the same label set that the metrics were made for"
        )
    labels = _to_tensor(labels, "labels").detach().to(scores.device)
    if labels.ndim != 2 or len(labels) != len(scores):
        raise ValueError(
            f"labels must have a row for each of the {len(scores)} documents, got "
            f"{_described(labels)}; pass columns (documents, gold) padded with -100 or "
            "multi-hot (documents, labels)"
        )
    # amax passes NaN on and needs no (B, L) mask
    undefined = int(scores.amax(dim=1).isnan().sum()) if len(scores) else 0
    if undefined:
        raise ValueError(
            f"scores must be numbers, got NaN in {undefined} of {len(scores)} documents; "
            "look for a diverged or half-precision model"
        )
    if labels.dtype == torch.bool or labels.is_floating_point():
        return scores, _gold_of_multi_hot(labels, scores.shape[1])
    return scores, _gold_of_columns(labels, scores.shape[1])


def read_columns(columns: Array | Sequence[bool], num_labels: int) -> Tensor:
    """Checks a group of labels.

    Args:
        columns: `(L,)` bool, True for the labels of the group.
        num_labels: Number of labels L.

    Returns:
        `(L,)` bool.

    Raises:
        ValueError: If it is not boolean, not of length L, or selects nothing.

    Example:
        >>> read_columns([True, False], num_labels=2)
        tensor([ True, False])
    """
    known = columns if isinstance(columns, Tensor) else np.asarray(columns)
    mask = _to_tensor(known, "a group of labels").detach()
    if mask.dtype != torch.bool or mask.shape != (num_labels,):
        raise ValueError(
            f"a group of labels must be a bool mask of shape ({num_labels},), got "
            f"{_described(mask)}; give True or False for each label of the scores"
        )
    if not mask.any():
        raise ValueError(
            f"a group of labels must hold at least one of the {num_labels} labels, got none; leave the group out"
        )
    return mask


def widened(scores: Tensor) -> Tensor:
    """Takes half-precision scores to float32; equal scores stay equal.

    Args:
        scores: `(B, L)` scores.

    Returns:
        `(B, L)` scores of float32 or float64, the same tensor if they were that.

    Example:
        >>> widened(torch.ones(2, 3, dtype=torch.bfloat16)).dtype
        torch.float32
    """
    return scores if scores.dtype == torch.float64 else scores.float()


def read_groups(num_labels: int, seen: Array | Sequence[bool] | None) -> dict[str, Tensor]:
    """Makes the groups of labels that are measured, by the prefix of their names.

    Args:
        num_labels: Number of labels L.
        seen: `(L,)` bool, True for the labels that were seen in training.

    Returns:
        `(L,)` bool for each group, on the CPU: all labels under "", and with a mask of seen labels
        also "seen_" and "unseen_".

    Raises:
        ValueError: If there are no labels, or the mask does not fit or does not divide them.

    Example:
        >>> read_groups(2, seen=[True, False])["unseen_"]
        tensor([False,  True])
    """
    if num_labels < 1:
        raise ValueError(f"num_labels must be at least 1, got {num_labels}; give the number of labels scored")
    groups = {"": torch.ones(num_labels, dtype=torch.bool)}
    if seen is None:
        return groups
    mask = read_columns(seen, num_labels).cpu().clone()
    if mask.all():
        raise ValueError(f"seen must leave at least one unseen label, got all {num_labels} labels seen; leave seen out")
    return {**groups, "seen_": mask, "unseen_": ~mask}


def require_documents(documents: int) -> None:
    """Refuses to compute metrics of nothing.

    Args:
        documents: Number of documents so far.

    Raises:
        ValueError: If there are none.

    Example:
        >>> require_documents(1)
    """
    if documents == 0:
        raise ValueError("metrics need at least one document, got none; call update(...) first")


def require_same_groups(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    """Refuses to merge metrics of different labels.

    Args:
        ours: `(L,)` bool for each group of the metrics that grow.
        theirs: `(L,)` bool for each group of the metrics to add.

    Raises:
        ValueError: If they differ.

    Example:
        >>> require_same_groups(read_groups(3, None), read_groups(3, None))
    """
    if len(ours[""]) != len(theirs[""]):
        raise ValueError(
            f"metrics can be merged over the same labels only, got {len(ours[''])} and "
            f"{len(theirs[''])} labels; make both with the same num_labels"
        )
    if ours.keys() != theirs.keys() or not all(
        torch.equal(columns, theirs[prefix]) for prefix, columns in ours.items()
    ):
        raise ValueError(
            "metrics can be merged over the same seen labels only, got two different masks; "
            "make both with the same seen"
        )


def _at_gold(scores: Tensor, gold: Tensor) -> Tensor:
    return widened(scores.gather(1, gold.clamp(min=0)))  # (B, P)


def _rank(scores: Tensor, at_gold: Tensor) -> Tensor:
    """Counts the scores of each document that are at least as high as those of its gold labels."""
    ascending = _ascending(widened(scores).contiguous())
    return scores.shape[1] - torch.searchsorted(ascending, at_gold)


def _measure(rank: Tensor, at_gold: Tensor, is_gold: Tensor, num_labels: int) -> dict[str, Tensor]:
    gold_count = is_gold.sum(dim=1)
    # what is not gold sorts behind every gold score, so it is never among the scores below one
    gold_ascending = at_gold.masked_fill(~is_gold, torch.inf).sort(dim=1).values
    gold_rank = gold_count[:, None] - torch.searchsorted(gold_ascending, at_gold)

    # to the CPU before float64, which not every accelerator has
    rank, gold_rank, is_gold, gold_count = (tensor.cpu() for tensor in (rank, gold_rank, is_gold, gold_count))
    wrong = rank - gold_rank
    precision = (gold_rank.double() / rank).masked_fill(~is_gold, 0)
    pairs = (gold_count * (num_labels - gold_count)).clamp(min=1)
    fewest_wrong = wrong.masked_fill(~is_gold, num_labels).amin(dim=1)
    result = {
        "average_precision": precision.sum(dim=1) / gold_count,
        "ranking_loss": wrong.masked_fill(~is_gold, 0).sum(dim=1).double() / pairs,
        "one_error": (fewest_wrong > 0).double(),
        "coverage": rank.masked_fill(~is_gold, 0).amax(dim=1).double(),
    }
    counted = gold_count > 0
    result = {name: value.masked_fill(~counted, torch.nan) for name, value in result.items()}
    return {**result, "counted": counted}


def _restrict(scores: Tensor, gold: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """Keeps the labels of a group only, and numbers them anew."""
    columns = columns.to(scores.device)
    position = (columns.cumsum(dim=0) - 1).masked_fill(~columns, PADDING)  # (L,)
    kept = position[gold.clamp(min=0)].masked_fill(gold == PADDING, PADDING)
    return _select(scores, columns), kept


def _select(scores: Tensor, columns: Tensor) -> Tensor:
    return scores.index_select(1, columns.nonzero().flatten())


def _ascending(scores: Tensor) -> Tensor:
    # numpy sorts values alone and with SIMD, about four times as fast as torch.sort on a CPU
    if scores.device.type == "cpu":
        return torch.from_numpy(np.sort(scores.numpy(), axis=1))
    return scores.sort(dim=1).values


def _to_tensor(array: Array, name: str) -> Tensor:
    if isinstance(array, Tensor):
        return array
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        found = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise ValueError(
            f"{name} must be a torch tensor or a numeric numpy array, got {found}; convert with torch.as_tensor"
        )
    # torch takes neither read-only memory nor negative strides
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))


def _gold_of_columns(labels: Tensor, num_labels: int) -> Tensor:
    gold = labels.long()
    outside = (gold != PADDING) & ((gold < 0) | (gold >= num_labels))
    if outside.any():
        document, place = outside.nonzero()[0].tolist()
        raise ValueError(
            f"gold labels must be columns 0..{num_labels - 1}, or -100 for padding, got "
            f"{gold[document, place]} in document {document}; check the label set or the padding"
        )
    ordered = gold.sort(dim=1).values
    repeated = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != PADDING)
    if repeated.any():
        document, place = repeated.nonzero()[0].tolist()
        raise ValueError(
            f"each gold label of a document must be given once, got {ordered[document, place]} "
            f"twice in document {document}; remove it, or pass multi-hot labels as bool"
        )
    return gold if gold.shape[1] else gold.new_full((len(gold), 1), PADDING)


def _gold_of_multi_hot(labels: Tensor, num_labels: int) -> Tensor:
    if labels.shape[1] != num_labels:
        raise ValueError(
            f"multi-hot labels must have {num_labels} columns, got {_described(labels)}; "
            "score the same label set, or pass gold columns as integers"
        )
    soft = (labels != 0) & (labels != 1)
    if soft.any():
        raise ValueError(
            f"multi-hot labels must be 0 or 1, got {labels[soft][0].item():g}; "
            "round soft labels, and give gold columns as integers"
        )
    document, column = labels.nonzero(as_tuple=True)
    counts = document.bincount(minlength=len(labels))
    place = torch.arange(len(document), device=labels.device)
    place = place - (counts.cumsum(dim=0) - counts)[document]
    gold = column.new_full((len(labels), max([1, *counts.tolist()])), PADDING)
    gold[document, place] = column
    return gold


def _described(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
