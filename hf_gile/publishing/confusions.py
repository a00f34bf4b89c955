"""Counts which labels a model confuses.

Shapes: B documents in the batch, L scored labels, P gold labels per document, padded.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..models.losses_gile import IGNORE

_WRONG_LABELS = 20
_BUFFER_SIZE = 1 << 20


class ConfusedPairs:
    """Counts pairs of labels in the same document: a missed gold label and a wrongly predicted label.

    Memory is bounded: only the 20 best-scored wrong labels of a document count, and up to `max_pairs` pairs are stored.
    Beyond that, the rarest pairs are dropped; the count of a pair is then at most `forgotten` too low.

    Frequent labels co-occur by chance, so pairs are ranked by their excess over chance: by n - m w / N, with n
    documents of the pair, m in which the first was missed, w in which the second was wrongly predicted, and N documents
    in total.

    Args:
        num_labels: Number of labels L.
        max_pairs: Number of stored pairs, 16 bytes each.

    Raises:
        ValueError: If a number is below 1.

    Example:
        >>> pairs = ConfusedPairs(num_labels=3)
        >>> predicted = torch.tensor([[True, False, False], [False, True, False]])
        >>> pairs.update(predicted, torch.zeros(2, 3), torch.tensor([[2, -100], [1, -100]]))
        >>> pairs.most(5)
        [(2, 0, 1)]
    """

    def __init__(self, num_labels: int, max_pairs: int = 1 << 20) -> None:
        for name, value in {"num_labels": num_labels, "max_pairs": max_pairs}.items():
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self.num_labels = num_labels
        self.max_pairs = max_pairs
        self.forgotten = self.documents = 0
        self._missed: NDArray[np.int64] = np.zeros(num_labels, np.int64)
        self._wrong: NDArray[np.int64] = np.zeros(num_labels, np.int64)
        self._pairs: NDArray[np.int64] = np.zeros(0, np.int64)
        self._counts: NDArray[np.int64] = np.zeros(0, np.int64)
        self._new: list[NDArray[np.int64]] = []

    def update(self, predicted: Tensor, scores: Tensor, gold: Tensor) -> None:
        """Adds a batch.

        Args:
            predicted: `(B, L)` bool, the predicted labels of each document.
            scores: `(B, L)` scores of the predictions.
            gold: `(B, P)` gold label indices, padded with -100.
        """
        is_gold = gold != IGNORE
        missed = is_gold & ~predicted.gather(1, gold.clamp(min=0))
        documents, positions = is_gold.nonzero(as_tuple=True)
        wrong = predicted.clone()
        wrong[documents, gold[documents, positions]] = False
        best = scores.masked_fill(~wrong, -torch.inf).topk(min(_WRONG_LABELS, self.num_labels), dim=1)
        is_wrong = best.values > -torch.inf
        both = missed[:, :, None] & is_wrong[:, None, :]  # (B, P, wrong)
        pairs = gold[:, :, None] * self.num_labels + best.indices[:, None, :]
        self._new.append(pairs[both].cpu().numpy())
        self._missed += gold[missed].bincount(minlength=self.num_labels).cpu().numpy()
        self._wrong += best.indices[is_wrong].bincount(minlength=self.num_labels).cpu().numpy()
        self.documents += len(gold)
        if sum(map(len, self._new)) > max(self.max_pairs, _BUFFER_SIZE):
            self._count()

    def most(self, number: int) -> list[tuple[int, int, int]]:
        """Returns the pairs with the largest excess over chance.

        Args:
            number: Maximum number of pairs.

        Returns:
            The index of the missed label, the index of the predicted label, and the number of documents; lower indices
            first if ranks are equal.
        """
        self._count()
        missed, wrong = np.divmod(self._pairs, self.num_labels)
        excess = self._counts - self._missed[missed] * self._wrong[wrong] / max(1, self.documents)
        order = np.lexsort((self._pairs, -excess))[:number]
        return list(zip(missed[order].tolist(), wrong[order].tolist(), self._counts[order].tolist(), strict=True))

    def _count(self) -> None:
        if not self._new:
            return
        new, counts = np.unique(np.concatenate(self._new), return_counts=True)
        self._new = []
        pairs, positions = np.unique(np.concatenate([self._pairs, new]), return_inverse=True)
        total = np.bincount(positions, weights=np.concatenate([self._counts, counts]), minlength=len(pairs))
        self._pairs, self._counts = pairs, total.astype(np.int64)
        if len(pairs) > self.max_pairs:
            order = np.argsort(-self._counts, kind="stable")
            largest = np.sort(order[: self.max_pairs])
            self.forgotten += int(self._counts[order[self.max_pairs]])
            self._pairs, self._counts = self._pairs[largest], self._counts[largest]


__all__ = ["ConfusedPairs"]
