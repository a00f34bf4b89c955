"""Hierarchical precision and recall, which count the ancestors of labels: a near miss in a thesaurus is partly correct.

Shapes: B documents in the batch, L labels, P gold labels of a document, padded.
"""

from collections.abc import Iterable

from ..models.labels_gile import LabelSet
from ..models.losses_gile import IGNORE, widened
from .batch import Array, read_batch, require_documents
from .classification import read_threshold


def with_ancestors(label_set: LabelSet) -> list[frozenset[str]]:
    """Returns the ids of each label and of its ancestors, by `Label.broader`.

    Args:
        label_set: L labels. Parents outside the label set are included, but their ancestors are unknown.

    Returns:
        L sets of ids; the ancestors of a label on a cycle include the whole cycle.

    Example:
        >>> from hf_gile import Label
        >>> labels = LabelSet([Label("a", "organ"), Label("b", "heart", broader=("a", "x"))])
        >>> [sorted(ids) for ids in with_ancestors(labels)]
        [['a'], ['a', 'b', 'x']]
    """
    broader = {label.id: label.broader for label in label_set}
    ancestors = []
    for label in label_set:
        ids, queue = {label.id}, [label.id]
        while queue:
            new = set(broader.get(queue.pop(), ())) - ids
            ids |= new
            queue += new
        ancestors.append(frozenset(ids))
    return ancestors


class HierarchicalMetrics:
    """Hierarchical precision, recall and F1 over any number of batches.

    T and P are the gold and predicted labels of a document with all their ancestors. Sums are over documents:

        hierarchical precision = sum |P & T| / sum |P|
        hierarchical recall    = sum |P & T| / sum |T|

    (Kiritchenko, Matwin, Nock and Famili, Learning and evaluation in the presence of class hierarchies, 2006). Top
    labels count like other labels. Values are in 0..1, and 0 if the denominator is 0. For labels without parents, they
    are micro precision, recall and F1.

    Args:
        label_set: The L labels, with their parents in `Label.broader`.
        threshold: Minimum probability of a predicted label, for all labels or `(L,)` for each.

    Raises:
        ValueError: If a threshold is not in 0..1, or there is not a threshold for each label.

    Example:
        >>> import torch
        >>> from hf_gile import Label
        >>> parents = {"heart": ("organ",), "lung": ("organ",)}
        >>> labels = LabelSet(Label(name, name, broader=parents.get(name, ())) for name in ("organ", "heart", "lung"))
        >>> metrics = HierarchicalMetrics(labels)
        >>> metrics.update(torch.tensor([[-1.0, 2.0, -1.0]]), torch.tensor([[2]]))  # heart instead of lung
        >>> metrics.compute()
        {'hierarchical_precision': 0.5, 'hierarchical_recall': 0.5, 'hierarchical_f1': 0.5}
    """

    def __init__(self, label_set: LabelSet, threshold: float | Array = 0.5) -> None:
        self.nodes = with_ancestors(label_set)
        self.threshold = read_threshold(threshold, len(label_set))
        self.reset()

    def reset(self) -> None:
        """Discards all batches."""
        self.hits = self.predicted = self.gold = self.documents = 0

    def update(self, scores: Array, labels: Array) -> None:
        """Adds a batch.

        Args:
            scores: `(B, L)` logits.
            labels: `(B, P)` label indices padded with -100, or `(B, L)` multi-hot.

        Raises:
            ValueError: If scores and labels do not match; nothing is added then.
        """
        scores, gold = read_batch(scores, labels, len(self.nodes))
        probabilities = widened(scores).sigmoid().cpu()
        predicted = probabilities >= self.threshold.to(probabilities.dtype)
        for row, columns in zip(predicted, gold.cpu(), strict=True):
            predicted_nodes = self._nodes(row.nonzero()[:, 0].tolist())
            gold_nodes = self._nodes(columns[columns != IGNORE].tolist())
            self.hits += len(predicted_nodes & gold_nodes)
            self.predicted += len(predicted_nodes)
            self.gold += len(gold_nodes)
        self.documents += len(gold)

    def _nodes(self, columns: Iterable[int]) -> frozenset[str]:
        """Returns the ids of labels and of their ancestors."""
        return frozenset().union(*(self.nodes[column] for column in columns))

    def compute(self) -> dict[str, float]:
        """Computes the metrics.

        Returns:
            `hierarchical_precision`, `hierarchical_recall` and `hierarchical_f1`.

        Raises:
            ValueError: If there are no documents yet.
        """
        require_documents(self.documents)
        return {
            "hierarchical_precision": self.hits / max(1, self.predicted),
            "hierarchical_recall": self.hits / max(1, self.gold),
            "hierarchical_f1": 2 * self.hits / max(1, self.predicted + self.gold),
        }
