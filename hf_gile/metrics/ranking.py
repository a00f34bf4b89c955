"""Ranking metrics: how well scores rank gold labels above other labels.

Shapes: `B` documents in the batch, `L` labels scored, `P` gold labels per document, padded.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..models.losses_gile import IGNORE, widened
from .batch import Array, read_batch, read_groups, require_documents
from .trainer import TrainerMetric

_AMONG_ALL = "among_all_average_precision"


def ranking_metrics(scores: Array, labels: Array, top_k: Sequence[int] = ()) -> dict[str, Tensor]:
    """Computes the ranking metrics of each document.

    With `rank(l)` the number of labels that score at least as high as label `l`, itself included,
    and `gold_rank(l)` the number of gold labels among them, a document with `G` gold labels has

        average_precision = 1/G        sum over gold l of gold_rank(l) / rank(l)
        ranking_loss      = 1/(G(L-G)) sum over gold l of (rank(l) - gold_rank(l))
        one_error         = 1 if rank(l) > gold_rank(l) for the best-scored gold l, else 0
        coverage          = rank(l) of the worst-scored gold l

    Ties thus count against the model, and the order of labels does not matter. The first two equal
    `label_ranking_average_precision_score` and `label_ranking_loss` of scikit-learn, in 0..1 (the GILE paper shows
    percent); coverage is a number of labels, as in `coverage_error`. A document with only gold labels has average
    precision 1 and losses 0. Labels with a score of minus infinity are not candidates, and do not count among the L
    labels unless gold.

    Let `position(l)` be the rank of a gold label after all other labels with the same score (with distinct positions
    for gold labels), and `hits` the number of gold labels with `position(l) <= k`. Each k of `top_k` adds

        precision_at_k = hits / k
        recall_at_k    = hits / G
        ndcg_at_k      = sum over these gold l of 1/log2(1 + position(l)) / the same sum for positions 1..min(G, k)

    Labels are ranked on the device of the scores; the results are on the CPU.

    Args:
        scores: `(B, L)` logits, or any scores in the same order.
        labels: `(B, P)` indices of gold labels, padded with -100; or `(B, L)` multi-hot as bool or 0.0 and 1.0.
        top_k: Numbers of labels k, each at least 1.

    Returns:
        `(B,)` float64 for each of the names above, NaN for documents without a gold label, and `(B,)` bool `counted`,
        False for these.

    Raises:
        ValueError: If scores and labels do not match.

    Example:
        >>> result = ranking_metrics(torch.tensor([[0.9, 0.1, 0.4, 0.3]]), torch.tensor([[0, 3]]))
        >>> result["average_precision"], result["ranking_loss"]
        (tensor([0.8333], dtype=torch.float64), tensor([0.2500], dtype=torch.float64))
    """
    scores, gold = read_batch(scores, labels)
    at_gold = _gather_gold(scores, gold)
    rank, candidates = _rank(scores, at_gold)
    return _measure(rank, at_gold, gold != IGNORE, candidates, top_k)


class RankingMetrics(TrainerMetric):
    """Streaming means of `ranking_metrics`.

    With a mask of seen labels, each mean is also computed as `seen_...` and `unseen_...`. As in the GILE paper, labels
    are then ranked within the group. Documents without a gold label in a group are skipped and counted as `skipped`.
    `unseen_among_all_average_precision` ranks unseen gold labels among all labels except the seen gold labels.

    With propensities p, the propensity-scored precision (Jain et al., KDD 2016) is computed for each k, normalised as
    in the Extreme Classification Repository: divided by the best possible value, after summing both over all documents
    (it is not a mean over documents).

        psp_at_k = sum over documents, gold l with position(l) <= k of 1/p(l)
                   / sum over documents of the k largest 1/p(l) of their gold labels

    Among gold labels with the same score, the label with the lowest p comes last.

    Args:
        num_labels: Number of labels L of every batch.
        seen: `(L,)` bool, True for the labels that were seen in training.
        top_k: Numbers of labels k, for precision, recall and nDCG at k.
        propensities: `(L,)` label propensities from `propensities`, for `psp_at_k`.

    Raises:
        ValueError: If an argument does not match the labels.

    Example:
        >>> metrics = RankingMetrics(num_labels=3)
        >>> metrics.update(torch.tensor([[0.9, 0.1, 0.4]]), torch.tensor([[2]]))
        >>> metrics.update(torch.tensor([[0.2, 0.8, 0.3]]), torch.tensor([[-100]]))
        >>> result = metrics.compute()
        >>> result["average_precision"], result["documents"], result["skipped"]
        (0.5, 1, 1)
    """

    def __init__(
        self,
        num_labels: int,
        seen: Array | Sequence[bool] | None = None,
        top_k: Sequence[int] = (),
        propensities: Array | Sequence[float] | None = None,
    ) -> None:
        self.groups = read_groups(num_labels, seen)
        self.gains: Tensor | None = None
        if propensities is not None:
            shares = torch.as_tensor(propensities, dtype=torch.double)
            if shares.shape != (num_labels,) or not bool(((shares > 0) & (shares <= 1)).all()):
                raise ValueError(f"propensities must be above 0 and up to 1 for each of the {num_labels} labels")
            self.gains = 1 / shares
        self.num_labels = num_labels
        self.top_k = tuple(dict.fromkeys(top_k))  # distinct
        self.reset()

    def reset(self) -> None:
        """Discards all batches."""
        names = [
            "average_precision",
            "ranking_loss",
            "one_error",
            "coverage",
            *(f"{name}_at_{k}" for k in self.top_k for name in ("precision", "recall", "ndcg")),
        ]
        if self.gains is not None:
            names += [f"{name}_at_{k}" for k in self.top_k for name in ("gain", "best_gain")]
        self.sums = {prefix: dict.fromkeys(names, 0.0) for prefix in self.groups}
        if "unseen_" in self.groups:
            self.sums["unseen_"][_AMONG_ALL] = 0.0
        self.counted = dict.fromkeys(self.groups, 0)
        self.documents = 0

    def add(self, scores: Tensor, gold: Tensor) -> None:
        """Adds checked documents."""
        at_gold = _gather_gold(scores, gold)
        groups = {prefix: columns.to(scores.device) for prefix, columns in self.groups.items()}
        ranks = {
            prefix: _rank(_select(scores, columns), at_gold)
            for prefix, columns in groups.items()
            if prefix or len(groups) == 1
        }
        # seen and unseen labels partition all labels: adding their ranks saves the longest sort
        if len(groups) > 1:
            ranks[""] = tuple(seen + unseen for seen, unseen in zip(ranks["seen_"], ranks["unseen_"], strict=True))
        gains = None if self.gains is None else self.gains[gold.clamp(min=0).cpu()]
        for prefix, columns in groups.items():
            is_gold = (gold != IGNORE) & columns[gold.clamp(min=0)]
            rank, candidates = ranks[prefix]
            result = _measure(rank, at_gold, is_gold, candidates, self.top_k, gains)
            counted = result.pop("counted")
            if prefix == "unseen_":
                is_other = (gold != IGNORE) & ~is_gold
                among_all, others = _without(ranks[""], at_gold, is_other)
                result[_AMONG_ALL] = _measure(among_all, at_gold, is_gold, others, ())["average_precision"]
            for name, value in result.items():
                self.sums[prefix][name] += value[counted].sum().item()
            self.counted[prefix] += int(counted.sum())
        self.documents += len(gold)

    def compute(self) -> dict[str, float]:
        """Computes the means.

        Returns:
            For each group, the means and the numbers of `documents` and of `skipped` documents. Means are NaN if all
            documents were skipped. Also `psp_at_k` with propensities.

        Raises:
            ValueError: If there are no documents yet.
        """
        require_documents(self.documents)
        result: dict[str, float] = {}
        for prefix, counted in self.counted.items():
            sums = dict(self.sums[prefix])
            for k in self.top_k if self.gains is not None else ():
                gain = sums.pop(f"gain_at_{k}")
                best = sums.pop(f"best_gain_at_{k}")
                result[f"{prefix}psp_at_{k}"] = gain / best if counted else float("nan")
            for name, value in sums.items():
                result[prefix + name] = value / counted if counted else float("nan")
            result[f"{prefix}documents"] = counted
            result[f"{prefix}skipped"] = self.documents - counted
        return result


def _gather_gold(scores: Tensor, gold: Tensor) -> Tensor:
    return widened(scores.gather(1, gold.clamp(min=0)))  # (B, P)


def _rank(scores: Tensor, at_gold: Tensor) -> tuple[Tensor, ...]:
    """Counts, per document, the scores at least as high as each gold score, and the candidates."""
    ascending = _sort_ascending(widened(scores).contiguous())
    lowest = torch.full_like(ascending[:, :1], -torch.inf)
    candidates = scores.shape[1] - torch.searchsorted(ascending, lowest, right=True)[:, 0]
    return scores.shape[1] - torch.searchsorted(ascending, at_gold), candidates


def _without(ranks: tuple[Tensor, ...], at_gold: Tensor, is_other: Tensor) -> tuple[Tensor, ...]:
    """Removes some gold labels from the results of `_rank`: the ranks of gold labels, and the number of candidates."""
    rank, candidates = ranks
    ascending = at_gold.masked_fill(~is_other, torch.inf).sort(dim=1).values
    above = is_other.sum(dim=1, keepdim=True) - torch.searchsorted(ascending, at_gold)
    return rank - above, candidates - (is_other & ~at_gold.isneginf()).sum(dim=1)


def _measure(
    rank: Tensor,
    at_gold: Tensor,
    is_gold: Tensor,
    candidates: Tensor,
    top_k: Sequence[int],
    gains: Tensor | None = None,
) -> dict[str, Tensor]:
    gold_count = is_gold.sum(dim=1)
    # other labels sort after all gold scores, so they are never below a gold score
    gold_ascending = at_gold.masked_fill(~is_gold, torch.inf).sort(dim=1).values
    gold_rank = gold_count[:, None] - torch.searchsorted(gold_ascending, at_gold)

    # to the CPU before float64, which not every accelerator has
    on_cpu = (tensor.cpu() for tensor in (rank, gold_rank, at_gold, is_gold, gold_count, candidates))
    rank, gold_rank, at_gold, is_gold, gold_count, candidates = on_cpu
    is_left_out = is_gold & at_gold.isneginf()
    left_out = is_left_out.sum(dim=1)  # gold labels count as candidates
    rank = torch.minimum(
        rank, (candidates + left_out)[:, None]
    )  # labels that are not candidates never rank above others
    wrong = rank - gold_rank
    pairs = (gold_count * (candidates + left_out - gold_count)).clamp(min=1)
    precision = (gold_rank.double() / rank.clamp(min=1)).masked_fill(~is_gold, 0)
    fewest_wrong = wrong.masked_fill(~is_gold, torch.iinfo(wrong.dtype).max).amin(dim=1)
    result = {
        "average_precision": precision.sum(dim=1) / gold_count,
        "ranking_loss": wrong.masked_fill(~is_gold, 0).sum(dim=1).double() / pairs,
        "one_error": (fewest_wrong > 0).double(),
        "coverage": rank.masked_fill(~is_gold, 0).amax(dim=1).double(),
    }
    if top_k:
        # among equal scores, the largest gain comes last
        by_gain = torch.arange(at_gold.shape[1]).expand_as(at_gold) if gains is None else gains.argsort(dim=1)
        scores = at_gold.masked_fill(~is_gold, -torch.inf).gather(1, by_gain)
        best_first = by_gain.gather(1, scores.argsort(dim=1, descending=True, stable=True))
        order = torch.arange(1, at_gold.shape[1] + 1).expand_as(at_gold)
        position = wrong + torch.empty_like(wrong).scatter_(1, best_first, order)
        position = position.masked_fill(~is_gold | is_left_out, torch.iinfo(wrong.dtype).max)
        gain = 1 / torch.log2(1 + position.double())
        best_gain = (1 / torch.log2(2 + torch.arange(max(top_k), dtype=torch.float64))).cumsum(dim=0)
        if gains is not None:
            gains = gains.masked_fill(~is_gold, 0)
            best_gains = gains.sort(dim=1, descending=True).values.cumsum(dim=1)
        for k in top_k:
            is_hit = position <= k
            hits = is_hit.sum(dim=1).double()
            ideal = best_gain[gold_count.clamp(min=1, max=k) - 1]
            result[f"precision_at_{k}"] = hits / k
            result[f"recall_at_{k}"] = hits / gold_count
            result[f"ndcg_at_{k}"] = gain.masked_fill(~is_hit, 0).sum(dim=1) / ideal
            if gains is not None:
                result[f"gain_at_{k}"] = gains.masked_fill(~is_hit, 0).sum(dim=1)
                result[f"best_gain_at_{k}"] = best_gains[:, min(k, best_gains.shape[1]) - 1]
    counted = gold_count > 0
    result = {name: value.masked_fill(~counted, torch.nan) for name, value in result.items()}
    return {**result, "counted": counted}


def _select(scores: Tensor, columns: Tensor) -> Tensor:
    return scores.index_select(1, columns.nonzero().flatten())


def _sort_ascending(scores: Tensor) -> Tensor:
    # numpy sorts values alone and with SIMD, about four times as fast as torch.sort on a CPU
    if scores.device.type == "cpu":
        return torch.from_numpy(np.sort(scores.numpy(), axis=1))
    return scores.sort(dim=1).values


def propensities(
    counts: Array | Sequence[float], num_documents: int, a: float = 0.55, b: float = 1.5
) -> NDArray[np.float64]:
    """Estimates the probability that a relevant label was assigned to a document (Jain et al., KDD 2016).

        p_l = 1 / (1 + C (N_l + b)^-a),  C = (log N - 1) (b + 1)^a

    with N_l training documents of label l among N. The defaults are those of the authors, except for data from
    Wikipedia (a 0.5, b 0.4) and Amazon (a 0.6, b 2.6).

    Args:
        counts: `(L,)` training documents of each label, 0 for a label unseen in training.
        num_documents: N, the number of training documents. Of less than 3, C would be negative and is 0.
        a: Exponent of the frequency.
        b: Offset of the frequency.

    Returns:
        `(L,)` propensities, in 0..1, higher for more frequent labels.

    Raises:
        ValueError: If counts are not between 0 and N.

    Example:
        >>> propensities([0, 1, 1000], num_documents=1000).round(3)
        array([0.113, 0.145, 0.821])
    """
    frequencies = read_counts(counts)
    if frequencies.max(initial=0) > num_documents:
        raise ValueError(
            f"a label has {frequencies.max():g} training documents, but num_documents is {num_documents}; count each "
            "document of a label once, and pass the number of all training documents"
        )
    scale = max(math.log(max(num_documents, 1)) - 1, 0) * (b + 1) ** a
    return 1 / (1 + scale * (frequencies + b) ** -a)


def read_counts(counts: Array | Sequence[float]) -> NDArray[np.float64]:
    """Checks `(L,)` counts of training documents, and returns them in float64.

    Raises:
        ValueError: If they are not a number of at least 0 for each label.

    Example:
        >>> read_counts([3, 0])
        array([3., 0.])
    """
    numbers = np.asarray(counts, np.float64)
    if numbers.ndim != 1 or not (numbers >= 0).all():
        raise ValueError(f"counts must be a number of at least 0 for each label, got {counts!r:.200}")
    return numbers
