"""Hard negatives are the best labels that are not gold, and leave the sampled loss unbiased."""

from itertools import combinations

import pytest
import torch
from papers.hard_negatives import HardNegatives
from papers.unit_loss import UnitLoss

from hf_gile import (
    GileConfig,
    GileForSequenceClassification,
    GileProcessor,
    LabelSet,
    build_tokenizer,
)
from hf_gile.models import search_gile

WORDS = ["milk", "iron", "heart", "blood", "infant", "breast", "diet", "risk", "rat", "fed"]
NAMES = [*WORDS, "breast milk", "iron diet", "heart blood"]
L = len(NAMES)
TEXTS = ["milk of the breast fed infant", "blood of the heart", "rat diet"]
GOLD = torch.tensor([[0, 10, 4], [2, 3, -100], [8, -100, -100]])
ALL = torch.arange(L)


def make_model(miner=None, output_layer="gile", labels=None, **options):
    torch.manual_seed(0)
    tokenizer = build_tokenizer(WORDS, min_count=1)
    joint = {"gile": {"joint_size": 17, "joint_act": "tanh"}, "only_input": {"joint_act": "tanh"}}.get(output_layer, {})
    config = GileConfig(
        vocab_size=len(tokenizer),
        embedding_size=7,
        hidden_size=11,
        attention_size=5,
        hidden_act="tanh",
        output_layer=output_layer,
        num_labels=L,
        problem_type="multi_label_classification",
        **joint,
        **options,
    )
    processor = GileProcessor.for_config(tokenizer, config)
    model = GileForSequenceClassification(config)
    model.set_labels(labels or LabelSet.from_names(NAMES), processor)
    model.loss_function = UnitLoss(miner=miner)
    return model.train(), processor


class Recorder(HardNegatives):
    """Records the number of scored columns of each step."""

    def __call__(self, *arguments):
        columns, weights = super().__call__(*arguments)
        self.sizes = [*getattr(self, "sizes", []), len(columns)]
        return columns, weights


def negatives(model, processor, number, columns=ALL):
    """Returns the highest-scoring labels that are not gold, from all scores."""
    model.eval()
    with torch.no_grad():
        scores = model(**processor(TEXTS, return_tensors="pt")).logits
    model.train()
    mined = set()
    for row, gold in zip(scores, GOLD.tolist(), strict=True):
        candidates = [column for column in columns.tolist() if column not in gold]
        mined |= set(sorted(candidates, key=lambda column: -row[column])[:number])
    return mined


def mine(model, processor, sampled, weights=None, labels=GOLD):
    """Calls the miner like the model does; returns columns and weights."""
    codes = model.gile.project_texts(**processor(TEXTS, return_tensors="pt")).detach()
    return model.loss_function.miner(model, codes, labels, sampled, weights)


GOLD_COLUMNS = torch.tensor([0, 2, 3, 4, 8, 10])


@pytest.mark.parametrize(("output_layer", "number"), [("gile", 2), ("linear", 9), ("only_input", 1)])
def test_each_document_gets_its_best_labels_that_are_not_gold(monkeypatch, output_layer, number):
    monkeypatch.setattr(search_gile, "_CPU_BLOCK", (2, 5))
    model, processor = make_model(HardNegatives(number, chunk_size=4), output_layer)
    columns, weights = mine(model, processor, GOLD_COLUMNS)
    assert weights is None
    assert columns.tolist() == sorted({*GOLD_COLUMNS.tolist(), *negatives(model, processor, number)})


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def test_sampled_losses_and_gradients_average_to_the_full_loss():
    model, processor = make_model()
    documents = processor(TEXTS, return_tensors="pt")
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
        output = model(
            **documents,
            labels=GOLD,
            sampled_columns=columns,
            column_weights=weights,
        )
        losses.append(output.loss.item())
        sums = sums + gradients(model, output.loss)
    assert len(set(miner.sizes)) > 1, "some samples contain a hard negative, some do not"
    assert sum(losses) / len(losses) == pytest.approx(full.item(), rel=1e-5)
    torch.testing.assert_close(sums / len(losses), expected, rtol=1e-4, atol=1e-5)
