import pytest
import torch

from hf_gile import Label, LabelSet
from hf_gile.metrics import F1Metrics, HierarchicalMetrics

TREE = {"organ": (), "heart": ("organ",), "valve": ("heart",), "lung": ("organ",), "fish": ()}
LABELS = LabelSet(Label(name, name, broader=parents) for name, parents in TREE.items())


def logits_of(*names):
    return torch.tensor([[3.0 if label.id in names else -3.0 for label in LABELS]])


def measured(documents, labels=LABELS, **options):
    metrics = HierarchicalMetrics(labels, **options)
    for predicted, gold in documents:
        columns = labels.columns(gold) or [-100]
        metrics.update(logits_of(*predicted), torch.tensor([columns]))
    return metrics.compute()


@pytest.mark.parametrize(
    ("predicted", "gold", "precision", "recall"),
    [
        (["valve"], ["valve"], 1, 1),
        (["heart"], ["valve"], 1, 2 / 3),  # too broad: nothing is wrong, but a label is missing
        (["valve"], ["heart"], 2 / 3, 1),
        (["lung"], ["heart"], 1 / 2, 1 / 2),
        (["fish"], ["heart"], 0, 0),
        (["valve", "lung"], ["heart", "fish"], 2 / 4, 2 / 3),
        ([], ["heart"], 0, 0),
        ([], [], 0, 0),
    ],
)
def test_shared_ancestors_count_as_correct(predicted, gold, precision, recall):
    result = measured([(predicted, gold)])
    assert result["hierarchical_precision"] == pytest.approx(precision)
    assert result["hierarchical_recall"] == pytest.approx(recall)


def test_sums_are_over_documents():
    result = measured([(["valve"], ["valve"]), (["fish"], ["heart"])])
    assert result["hierarchical_precision"] == 3 / 4
    assert result["hierarchical_recall"] == 3 / 5
    assert result["hierarchical_f1"] == 2 * 3 / 9


def test_without_parents_hierarchical_f1_equals_micro_f1():
    flat = LabelSet(Label(label.id, label.name) for label in LABELS)
    generator = torch.Generator().manual_seed(1)
    scores, gold = torch.randn(20, 5, generator=generator), torch.rand(20, 5, generator=generator) < 0.4
    hierarchical, flat_metrics = HierarchicalMetrics(flat, threshold=0.6), F1Metrics(5, threshold=0.6)
    for metrics in (hierarchical, flat_metrics):
        metrics.update(scores, gold)
    assert hierarchical.compute()["hierarchical_f1"] == pytest.approx(flat_metrics.compute()["micro_f1"])


def test_cycles_end_and_parents_outside_the_set_count():
    labels = LabelSet([Label("a", "a", broader=("b",)), Label("b", "b", broader=("a", "outside"))])
    metrics = HierarchicalMetrics(labels)
    metrics.update(torch.tensor([[2.0, -2.0]]), torch.tensor([[1]]))
    assert metrics.compute()["hierarchical_f1"] == 1
    assert metrics.hits == 3


def test_an_empty_evaluation_is_refused():
    with pytest.raises(ValueError, match="document"):
        HierarchicalMetrics(LABELS).compute()
