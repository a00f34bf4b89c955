"""The mixture weights terms by group of labels; literal formulas of whole scores are in test_score_terms.py."""

import torch

from hf_gile.models.mixture_gile import TERMS, Mixture, RowTable

WEIGHTS = {
    "seen": {"joint": 0.5, "rows": 3.0},
    "rare": {"joint": 1.5, "offset": 2.0},
    "unseen": {"joint": 9.0, "offset": -1.0},
}


def rows_of(*rarity):
    table = RowTable(len(rarity), 3)
    with torch.no_grad():
        table.rarity[:] = torch.tensor(rarity)
    return table()


def test_a_label_with_a_row_has_weights_between_those_of_rare_and_of_seen_labels():
    mixture = Mixture(list(TERMS), WEIGHTS)
    rows = rows_of(0.0, 0.25, 1.0)
    assert rows.seen.tolist() == [False, True, True]
    torch.testing.assert_close(mixture.of_rows("joint", rows), torch.tensor([9.0, 0.75, 1.5]))
    torch.testing.assert_close(mixture.of_rows("offset", rows), torch.tensor([-1.0, 0.5, 2.0]))
    assert mixture.of_rows("rows", rows) == 3.0  # rows of unseen labels are zero
    assert mixture.of_rows("joint", None) == 9.0


def test_weights_that_are_not_set_are_the_defaults():
    mixture = Mixture(list(TERMS), {"seen": {"match": 0.5}})
    assert [mixture.of_group(group, "match") for group in ("seen", "rare", "unseen")] == [0.5, 0.5, 1.0]
    assert mixture.of_rows("cosine", rows_of(0.0, 1.0)) == 1.0


def test_gradients_reach_the_weights_of_every_group():
    weights = {group: {"joint": torch.tensor(1.0, requires_grad=True)} for group in ("seen", "rare", "unseen")}
    mixture = Mixture(["joint"], weights)
    mixture.add(
        {"joint": torch.ones(2, 3)}, torch.tensor([True, True, False]), torch.tensor([0.25, 0.5, 0.0])
    ).sum().backward()
    assert [weights[group]["joint"].grad.item() for group in weights] == [2.5, 1.5, 2.0]


def test_a_table_of_the_same_size_keeps_its_parameters():
    table = RowTable(3, 2)
    torch.nn.init.normal_(table.weight)
    before = table().take(torch.arange(3))
    same, longer = table.reordered(torch.tensor([2, 0, -1])), table.reordered(torch.tensor([0, 1, 2, -1]))
    assert same is table
    assert torch.equal(table.weight, torch.stack([before.weight[2], before.weight[0], torch.zeros(2)]))
    assert longer.weight.shape == (4, 2)
