"""Precision and recall that count the ancestors of labels: a near miss in a thesaurus is no plain error.

Shapes: B documents in the batch, L labels, P gold labels of a document, padded.
"""

from collections.abc import Iterable

from ..models.labels_gile import LabelSet
from ..models.losses_gile import IGNORE, widened
from .batch import Array, read_batch, require_documents
from .classification import read_threshold


def with_ancestors(label_set: LabelSet) -> list[frozenset[str]]:
    """The ids of each label and of all labels above it, by `Label.broader`.

    Args:
        label_set: L labels. Parents that are not in it count, but what is above these is not known.

    Returns:
        L sets of ids; a label on a cycle has the whole cycle above it.

    Example:
        >>> from hf_gile import Label
        >>> labels = LabelSet([Label("a", "organ"), Label("b", "heart", broader=("a", "x"))])
        >>> [sorted(ids) for ids in with_ancestors(labels)]
        [['a'], ['a', 'b', 'x']]
    """
    broader = {label.id: label.broader for label in label_set}
    found = []
    for label in label_set:
        ids, waiting = {label.id}, [label.id]
        while waiting:
            new = set(broader.get(waiting.pop(), ())) - ids
            ids |= new
            waiting += new
        found.append(frozenset(ids))
    return found


class HierarchicalMetrics:
    """Hierarchical precision, recall and F1 over any number of batches.

    With all ancestors of its labels, a document has gold nodes T and predicted nodes P. Sums are over documents:

        hierarchical precision = sum |P & T| / sum |P|
        hierarchical recall    = sum |P & T| / sum |T|

    (Kiritchenko, Matwin, Nock and Famili, Learning and evaluation in the presence of class hierarchies, 2006). Top
    labels count like any others. Values are in 0..1; a ratio of nothing is 0. Labels without parents give micro
    precision, recall and F1.

    Args:
        label_set: The L labels, with their parents in `Label.broader`.
        threshold: Least probability of a predicted label, for all labels or `(L,)` for each.

    Raises:
        ValueError: A threshold is not in 0..1, or does not fit the labels.

    Example:
        >>> import torch
        >>> from hf_gile import Label
        >>> parents = {"heart": ("organ",), "lung": ("organ",)}
        >>> labels = LabelSet(Label(name, name, broader=parents.get(name, ())) for name in ("organ", "heart", "lung"))
        >>> metrics = HierarchicalMetrics(labels)
        >>> metrics.update(torch.tensor([[-1.0, 2.0, -1.0]]), torch.tensor([[2]]))  # heart in the place of lung
        >>> metrics.compute()
        {'hierarchical_precision': 0.5, 'hierarchical_recall': 0.5, 'hierarchical_f1': 0.5}
    """

    def __init__(self, label_set: LabelSet, threshold: float | Array = 0.5) -> None:
        self.nodes = with_ancestors(label_set)
        self.threshold = read_threshold(threshold, len(label_set))
        self.reset()

    def reset(self) -> None:
        """Forgets every batch."""
        self.hits = self.predicted = self.gold = self.documents = 0

    def update(self, scores: Array, labels: Array) -> None:
        """Adds a batch.

        Args:
            scores: `(B, L)` logits.
            labels: `(B, P)` integer columns padded with -100, or `(B, L)` multi-hot.

        Raises:
            ValueError: If scores and labels do not fit together; nothing is added then.
        """
        scores, gold = read_batch(scores, labels, len(self.nodes))
        probabilities = widened(scores).sigmoid().cpu()
        predicted = probabilities >= self.threshold.to(probabilities.dtype)
        for row, columns in zip(predicted, gold.cpu(), strict=True):
            given = self._nodes(row.nonzero()[:, 0].tolist())
            right = self._nodes(columns[columns != IGNORE].tolist())
            self.hits += len(given & right)
            self.predicted += len(given)
            self.gold += len(right)
        self.documents += len(gold)

    def _nodes(self, columns: Iterable[int]) -> frozenset[str]:
        return frozenset().union(*(self.nodes[column] for column in columns))

    def compute(self) -> dict[str, float]:
        """Returns the values so far.

        Returns:
            `hierarchical_precision`, `hierarchical_recall` and `hierarchical_f1`.

        Raises:
            ValueError: If no document came yet.
        """
        require_documents(self.documents)
        return {
            "hierarchical_precision": self.hits / max(1, self.predicted),
            "hierarchical_recall": self.hits / max(1, self.gold),
            "hierarchical_f1": 2 * self.hits / max(1, self.predicted + self.gold),
        }
