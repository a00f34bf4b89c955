import numpy as np
import pytest
import torch
from two_languages import LABELS, make_bilingual

from hf_gile import GileConfig, GileForSequenceClassification, Label, LabelSet
from hf_gile.models.search_gile import calibrated

PLATT = {"method": "platt", "scale": 0.7, "offset": -1.3}
SPLINE = {"method": "spline", "logits": [-5.0, -4.5, 0.25, 3.0], "values": [-5.5, -3.0, 0.0, 0.5]}
STEEP = SPLINE | {"values": [-7.0, -2.0, -1.99, 4.0]}
SEEN = torch.tensor([True, False, True, False, True])


def literal(x, method):
    """Calibrates a single number by the formula in the docstring of `calibrated`."""
    if method is None:
        return x
    if method["method"] == "platt":
        return method["scale"] * x + method["offset"]
    if x <= method["logits"][0]:
        return x - method["logits"][0] + method["values"][0]
    if x >= method["logits"][-1]:
        return x - method["logits"][-1] + method["values"][-1]
    return np.interp(x, method["logits"], method["values"])


@pytest.mark.parametrize(("seen", "unseen"), [(None, PLATT), (SPLINE, None), (PLATT, STEEP)])
def test_each_group_is_calibrated_by_a_separate_formula(seen, unseen):
    calibration = {name: method for name, method in {"seen": seen, "unseen": unseen}.items() if method}
    logits = 4 * torch.randn(7, 3, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    logits[0, 0], logits[1, 1], logits[2, 2] = -5.0, 0.25, -torch.inf  # knots, and labels that are excluded
    ours = calibrated(logits, SEEN, calibration)
    for index in np.ndindex(7, 3, 5):
        method = (seen or unseen) if SEEN[index[-1]] else (unseen or seen)  # a missing group uses the other
        expected = literal(logits[index].item(), method)
        assert ours[index].item() == pytest.approx(expected, abs=1e-12)
    for group in (SEEN, ~SEEN):  # a single group gives the same
        torch.testing.assert_close(calibrated(logits[..., group], SEEN[group], calibration), ours[..., group])


@pytest.mark.parametrize(("number", "loss"), [(1, 0.0), (800, np.log(100))])
def test_many_unseen_labels_are_lowered_beside_seen_ones(number, loss):
    calibration = {"seen": PLATT, "unseen": {**PLATT, "labels": 8}}
    seen = torch.arange(number + 3) < 3
    logits = torch.randn(2, number + 3, generator=torch.Generator().manual_seed(1))
    expected = PLATT["scale"] * logits + PLATT["offset"] - loss * ~seen
    torch.testing.assert_close(calibrated(logits, seen, calibration), expected, check_dtype=False)
    best = calibrated(logits[:, :4], seen[:4], calibration, num_unseen=number)
    torch.testing.assert_close(best, expected[:, :4], check_dtype=False)
    alone = calibrated(logits, torch.zeros_like(seen), calibration)
    torch.testing.assert_close(alone, PLATT["scale"] * logits + PLATT["offset"])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("method", [PLATT, STEEP], ids=["platt", "steep"])
def test_calibration_keeps_the_order_within_a_group(method, dtype):
    logits = torch.linspace(-20, 20, 40_009).to(dtype).unique()  # ascending
    ours = calibrated(logits, torch.ones(len(logits), dtype=torch.bool), {"seen": method})
    assert ours.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    steps = ours.diff()
    assert (steps >= 0).all()
    rounding = 0 if dtype == torch.float64 else 1e-2
    assert (steps[logits.double().diff() > rounding] > 0).all()


def test_without_a_calibration_logits_are_unchanged():
    logits = torch.randn(3, 5)
    assert calibrated(logits, SEEN, {}) is logits
    with pytest.raises(ValueError, match=r"each of the 5 labels, got shape \(4,\)"):
        calibrated(logits, SEEN[:4], {})


def test_labels_are_matched_by_id_or_by_text_and_language(make_model):
    model, processor = make_model()
    iron, blood = Label("1", "Iron", seen=True, threshold=0.3), Label("2", "Blood", "red", seen=True)
    model.set_labels(LabelSet([iron, blood, Label("3", "Milk, Human")]), processor)
    requested = [
        Label("3", "Another name"),
        Label("x", "Iron"),
        Label("x", "Blood", threshold=0.9),  # another text
        Label("y", "Blood", "red", threshold=0.9),
        Label("1", "Iron", threshold=0.9),
    ]
    assert model.stored_labels.find_columns(requested).tolist() == [2, 0, -1, 1, 0]
    assert model.stored_labels.seen(requested).tolist() == [False, True, False, True, True]
    assert model.stored_labels.seen().tolist() == [True, True, False]
    model.config.thresholds = {"seen": 0.25}
    expected = torch.tensor([0.25, 0.3, 0.9, 0.25, 0.3])
    assert torch.equal(model.stored_labels.thresholds(requested), expected)
    model.config.thresholds = {"seen": 0.25, "unseen": 0.125}
    assert torch.equal(model.stored_labels.thresholds(), torch.tensor([0.3, 0.25, 0.125]))
    assert model.stored_labels.thresholds(requested)[0] == 0.125


def test_labels_are_matched_however_their_letters_are_composed(make_model):
    model, processor = make_model()
    model.set_labels(LabelSet([Label("1", "Café"), Label("Œuvré", "Art")]), processor)
    requested = [Label("x", "Cafe\u0301"), Label("Œuvre\u0301", "Work"), Label("y", "Cafe")]
    assert model.stored_labels.find_columns(requested).tolist() == [0, 1, -1]


def test_labels_of_several_languages_are_matched_within_their_language():
    model, processor = make_bilingual()
    model.set_labels(LABELS.with_counts({"english:gift": 3}), processor)
    names = LabelSet.from_names(["gift", "milk"])
    assert model.stored_labels.find_columns(names, "english").tolist() == [0, 1]
    assert model.stored_labels.find_columns(names, "german").tolist() == [3, -1]
    assert model.stored_labels.seen(names, "german").tolist() == [False, False]
    assert model.stored_labels.seen(names, "english").tolist() == [True, False]


def test_all_labels_of_a_bare_linear_unit_count_as_seen(tokenizer, label_set):
    fields = {"output_layer": "linear", "num_labels": 3, "thresholds": {"seen": 0.125}}
    model = GileForSequenceClassification(GileConfig(vocab_size=len(tokenizer), **fields))
    assert model.stored_labels.seen().tolist() == [True] * 3
    assert model.stored_labels.thresholds().tolist() == [0.125] * 3
    assert model.stored_labels.find_columns(label_set).tolist() == [-1] * 5
    assert model.stored_labels.seen(label_set).tolist() == [False] * 5
    assert model.stored_labels.thresholds(label_set).tolist() == [0.125] * 5
    model.config.thresholds = {}
    assert model.stored_labels.thresholds(label_set).tolist() == [0.5] * 5


def test_thresholds_follow_label_ids_when_labels_change(make_model, label_set):
    model, processor = make_model()
    labels = label_set.update("Blood", threshold=0.1).update("Iron", threshold=0.9)
    model.set_labels(labels.rename("Iron", "Iron, Dietary").retire("Heart Failure").add(Label("x", "Rats")), processor)
    assert model.label_set.ids == ["Milk, Human", "Iron", "Infant", "Blood", "x"]
    assert model.stored_labels.thresholds().tolist() == pytest.approx([0.5, 0.9, 0.5, 0.1, 0.5])
