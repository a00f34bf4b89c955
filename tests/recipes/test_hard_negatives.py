"""Hard negatives are the best labels that are not gold, and leave the sampled loss unbiased."""

from itertools import combinations

import pytest
import torch
from answers import logits_of
from papers.hard_negatives import HardNegatives
from papers.unit_loss import UnitLoss

from hf_gile import LabelSet, build_tokenizer
from hf_gile.models import search_gile

WORDS = ["milk", "iron", "heart", "blood", "infant", "breast", "diet", "risk", "rat", "fed"]
NAMES = [*WORDS, "breast milk", "iron diet", "heart blood"]
L = len(NAMES)
TEXTS = ["milk of the breast fed infant", "blood of the heart", "rat diet"]
GOLD = torch.tensor([[0, 10, 4], [2, 3, -100], [8, -100, -100]])


@pytest.fixture
def tokenizer():
    return build_tokenizer(WORDS, min_count=1)


@pytest.fixture
def label_set():
    return LabelSet.from_names(NAMES)


@pytest.fixture
def make(make_model):
    """Makes a model in training, and its documents."""

    def make_miner(miner=None, output_layer="gile"):
        sizes = {"joint_size": 17, "joint_act": "tanh", "hidden_act": "tanh"}
        model, processor = make_model(output_layer=output_layer, problem_type="multi_label_classification", **sizes)
        model.loss_function = UnitLoss(miner=miner)
        return model.train(), processor(TEXTS, return_tensors="pt")

    return make_miner


class Recorder(HardNegatives):
    """Records the number of scored columns of each step."""

    def __call__(self, *arguments):
        columns, weights = super().__call__(*arguments)
        self.sizes = [*getattr(self, "sizes", []), len(columns)]
        return columns, weights


def best_others(model, documents, number):
    """Returns the labels that are not gold with the highest scores, of all scores."""
    scores = logits_of(model.eval(), documents)
    model.train()
    for row, gold in zip(scores, GOLD, strict=True):
        row[gold[gold >= 0]] = -torch.inf
    return set(scores.topk(number).indices.flatten().tolist())


GOLD_COLUMNS = torch.tensor([0, 2, 3, 4, 8, 10])


@pytest.mark.parametrize(("output_layer", "number"), [("gile", 2), ("linear", 9), ("only_input", 1)])
def test_each_document_gets_its_best_labels_that_are_not_gold(make, monkeypatch, output_layer, number):
    monkeypatch.setattr(search_gile, "_CPU_BLOCK", (2, 5))
    model, documents = make(HardNegatives(number, chunk_size=4), output_layer)
    codes = model.gile.project_texts(**documents).detach()
    columns, weights = model.loss_function.miner(model, codes, GOLD, GOLD_COLUMNS, None)
    assert weights is None
    assert columns.tolist() == sorted({*GOLD_COLUMNS.tolist(), *best_others(model, documents, number)})


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def test_sampled_losses_and_gradients_average_to_the_full_loss(make):
    model, documents = make()
    full = model(**documents, labels=GOLD).loss
    expected = gradients(model, full)
    miner = Recorder(2, columns=range(L))
    model.loss_function = UnitLoss(miner=miner)
    losses, sums = [], 0
    negative_columns = [column for column in range(L) if column not in GOLD_COLUMNS.tolist()]
    for sampled in combinations(negative_columns, 2):
        columns = torch.tensor(sorted([*GOLD_COLUMNS.tolist(), *sampled]))
        weights = torch.ones(len(columns))
        weights[torch.isin(columns, torch.tensor(sampled))] = len(negative_columns) / 2
        output = model(**documents, labels=GOLD, sampled_columns=columns, column_weights=weights)
        losses.append(output.loss.item())
        sums = sums + gradients(model, output.loss)
    assert len(set(miner.sizes)) > 1, "some samples contain a hard negative, some do not"
    assert sum(losses) / len(losses) == pytest.approx(full.item(), rel=1e-5)
    torch.testing.assert_close(sums / len(losses), expected, rtol=1e-4, atol=1e-5)
