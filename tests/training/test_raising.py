"""Unseen labels are raised in a ranking that they share with seen labels."""

import pytest
import torch

from hf_gile.metrics import ranking_metrics
from hf_gile.metrics.batch import read_batch
from hf_gile.models.search_gile import calibrated
from hf_gile.training.calibration import fit
from hf_gile.training.calibration.raising import PRICE, SharedRanking
from hf_gile.training.calibration.score_counts import ScoreCounts
from hf_gile.training.reporting import say_calibration

LABELS, SEEN = 40, torch.arange(40) < 25


def documents(number=300, seed=0):
    """Logits that are too low for unseen labels, and gold labels."""
    generator = torch.Generator().manual_seed(seed)
    true = 3 * torch.randn(number, LABELS, generator=generator) - 4
    is_gold = torch.rand(number, LABELS, generator=generator) < true.sigmoid()
    return true - 3.0 * ~SEEN, read_batch(true, is_gold)[1], is_gold


def ranking_of(logits, gold):
    ranking = SharedRanking()
    for rows, gold_of_rows in zip(logits.split(64), gold.split(64), strict=True):
        ranking.update(rows, gold_of_rows, SEEN)
    return ranking


def seen_precision(logits, is_gold):
    """Average precision of the seen gold labels among all labels but unseen gold ones."""
    ranked = logits.masked_fill(is_gold & ~SEEN, -torch.inf)
    return ranking_metrics(ranked, is_gold & SEEN)["average_precision"].nanmean().item()


@pytest.mark.parametrize("raised", [0.0, 3.0])
def test_the_average_precision_equals_that_of_the_raised_scores(raised):
    logits, gold, is_gold = documents()
    precision = ranking_of(logits, gold).average_precision(unseen=lambda logits: logits + raised)
    assert precision == pytest.approx(seen_precision(logits + raised * ~SEEN, is_gold), abs=1e-6)


@pytest.mark.parametrize(("handicap", "price"), [(0.0, 0.05), (5.0, 0.03)])
def test_the_best_raise_costs_at_most_its_price(handicap, price):
    logits, gold, is_gold = documents()
    raised = ranking_of(logits - handicap * ~SEEN, gold).best_raise(price)
    alone = seen_precision(logits.masked_fill(~SEEN, -torch.inf), is_gold)

    def cost(raised):
        return 1 - seen_precision(logits + (raised - handicap) * ~SEEN, is_gold) / alone

    assert cost(raised) <= price < cost(raised + 0.25)


@pytest.mark.parametrize(("rate", "slope"), [(0.5, 1.0), (4.0, 0.25)])
def test_the_crowding_is_the_inverse_rate_of_the_tail_of_wrong_scores(rate, slope):
    wrong = torch.empty(2000, LABELS).exponential_(rate, generator=torch.Generator().manual_seed(0))
    gold = torch.zeros(2000, 1, dtype=torch.long)
    logits = torch.where(SEEN, -9.0, wrong)
    logits[:, 0] = 2 / rate
    assert ranking_of(logits, gold).crowding() == pytest.approx(slope, abs=0.1)


def separable(lead, number=60):
    """Gold labels have `lead` more than others: seen ones in even documents, unseen ones in odd documents."""
    gold = torch.arange(number)[:, None] % 2 * 30
    return lead * (torch.arange(LABELS) == gold).float(), gold


@pytest.mark.parametrize(
    ("one_label", "handicap", "raised"),
    [(True, 0.0, 0.0), (True, 11.0, 1.0625), (True, 15.0, 5.0625), (False, 2.25, 2.25), (False, 0.0, 0.0)],
)
def test_exclusive_labels_are_raised_to_the_first_rank_and_others_to_a_half(one_label, handicap, raised):
    logits, gold = separable(10.0)
    ranking = ranking_of(logits - handicap * ~SEEN, gold)
    assert ranking.best_raise(0.03) == min(9.75 + handicap, 8.0)
    assert ranking.best_raise(0.03, one_label=one_label) == raised


@pytest.mark.parametrize("number", [1, 5, 10])
def test_independent_labels_are_raised_less_if_few_compete(number):
    documents, labels = 100, 2 + number
    seen = torch.arange(labels) < 2
    logits = torch.full((documents, labels), -20.0)
    logits[:, 0] = 20.0
    logits[:, 2] = -torch.arange(1, documents + 1) / 2 - 0.1
    ranking = SharedRanking()
    ranking.update(logits, torch.zeros(documents, 1, dtype=torch.long), seen)
    assert ranking.best_raise(0.05, one_label=False) == pytest.approx(number / 2 + 0.5, abs=0.5)


@pytest.mark.parametrize("seen", [True, False])
def test_a_single_group_is_not_raised(seen):
    logits, gold, _ = documents(20)
    ranking = SharedRanking()
    ranking.update(logits, gold, torch.full((LABELS,), seen))
    assert ranking.best_raise(0.03) == 0
    assert ranking.crowding() == 1.0


def test_separately_calibrated_unseen_labels_are_raised_at_little_cost():
    logits, gold, is_gold = documents(number=2000, seed=4)
    is_gold &= SEEN | (torch.rand(is_gold.shape, generator=torch.Generator().manual_seed(5)) < 0.1)  # rare if unseen
    gold = gold.masked_fill(~is_gold.gather(1, gold.clamp(min=0)), -100)
    counts = ScoreCounts(SEEN)
    counts.update(logits, gold)
    precision = {}
    for name, ranking in (("calibrated", None), ("raised", ranking_of(logits, gold))):
        fitted = fit(counts, "spline", label_thresholds=False, ranking=ranking)
        scores = calibrated(logits, SEEN, fitted.calibration)
        of_unseen = scores.masked_fill(is_gold & SEEN, -torch.inf)
        precision[name] = ranking_metrics(of_unseen, is_gold & ~SEEN)["average_precision"].nanmean().item()
    assert fitted.figures["unseen_raised"] > 0
    assert precision["raised"] > precision["calibrated"] + 0.01
    assert seen_precision(scores, is_gold) >= (1 - PRICE) * seen_precision(scores - 99.0 * ~SEEN, is_gold)


@pytest.mark.parametrize(
    ("figures", "says"),
    [
        ({"before": 0.1, "after": 0.2}, "10.0 -> 20.0 percent, no gain"),
        ({"before": 0.1, "after": 0.2, "raised": 1.5}, "(raised, so that some unseen labels reach the top of a list)"),
        ({"before": 0.1, "after": 0.1}, "calibration did not help"),
    ],
)
def test_the_line_of_a_calibration_says_what_it_is_worth(figures, says):
    fitted = {"documents": 9, "unseen_raised": figures.get("raised", 0.0)}
    for name in ("expected_calibration_error", "top_5_expected_calibration_error"):
        fitted |= {f"unseen_{name}_{when}": figures[when] for when in ("before", "after")}
    lines = []
    say_calibration(fitted, lines.append)
    assert says in lines[0]
