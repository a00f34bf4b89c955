import json
import math

import pytest
import torch
from transformers import AutoModelForSequenceClassification
from transformers.modeling_outputs import SequenceClassifierOutput

from hf_gile import GileForSequenceClassification, Label, LabelSet
from hf_gile.metrics import CalibrationMetrics, LabelMetrics
from hf_gile.metrics.batch import read_batch
from hf_gile.models.search_gile import calibrated
from hf_gile.training import GileDataCollator, calibrate
from hf_gile.training.calibration.calibrating import with_number
from hf_gile.training.calibration.thresholds import promised_threshold

SEEN = 11
UNSEEN = 6
SINGLE = "single_label_classification"


class Scripted(GileForSequenceClassification):
    """A model whose logits for a document, which is a number, are a row of a table."""

    table: torch.Tensor
    batches_read = 0

    def forward(self, input_ids, attention_mask=None):
        assert not self.training
        self.batches_read += 1
        return SequenceClassifierOutput(logits=self.table[input_ids[:, 0]].to(self.dtype))


def scores(seed, documents=307, num_labels=SEEN + UNSEEN):
    """Returns logits that are overconfident for unseen labels, and gold labels drawn from true probabilities."""
    random = torch.Generator().manual_seed(seed)
    true = 2 * torch.randn(documents, num_labels, generator=random) - 2
    gold = torch.rand(true.shape, generator=random) < true.sigmoid()
    overconfident = torch.arange(num_labels) >= SEEN
    return torch.where(overconfident, 2 * true + 3, 1.3 * true), gold


def exclusive(logits):
    """The gold labels of documents that have their best label only."""
    return torch.nn.functional.one_hot(logits.argmax(1), logits.shape[1]).bool()


@pytest.fixture
def scripted(make_model):
    """Creates a scripted model with stored labels from logits, and batches of its documents."""

    def make(logits, gold, problem_type="multi_label_classification", seen=SEEN):
        tiny, processor = make_model(problem_type=problem_type)
        number = logits.shape[1]
        labels = LabelSet(Label(f"id{column}", f"name {column}", seen=column < seen) for column in range(number))
        model = Scripted(tiny.config)
        model.set_labels(labels, processor)
        model.table = logits
        padded = read_batch(logits, gold)[1].split(32)
        documents = torch.arange(len(logits))[:, None].split(32)
        pairs = zip(documents, padded, strict=True)
        return model, [{"input_ids": ids, "labels": labels} for ids, labels in pairs]

    return make


def measured(logits, gold, seen=None, **options):
    metrics = CalibrationMetrics(logits.shape[1], seen=seen, **options)
    metrics.update(logits, gold)
    return metrics.compute()


@pytest.mark.parametrize("method", ["platt", "spline"])
def test_calibration_holds_on_other_documents(scripted, method):
    model, batches = scripted(*scores(seed=1, documents=1501))
    calibrate(model, batches, method=method)
    assert model.config.calibration["seen"]["method"] == model.config.calibration["unseen"]["method"] == method
    logits, gold = scores(seed=2, documents=1501)
    seen = model.stored_labels.seen()
    before = measured(logits, gold, seen=seen)
    after = measured(calibrated(logits, seen, model.config.calibration), gold, seen=seen)
    for group in ("seen", "unseen"):
        for name in ("expected_calibration_error", "top_5_expected_calibration_error"):
            # With 15 bins of about a thousand cells, the random error is about sqrt(15 p (1 - p) / 9000).
            assert after[f"{group}_{name}"] < 0.02 < before[f"{group}_{name}"]


def test_batches_may_have_logits_in_place_of_inputs(scripted):
    logits, gold = scores(seed=3)
    model, batches = scripted(logits, gold)
    figures = calibrate(model, batches, method="platt")
    fitted = model.config.calibration
    model.config.usual_score = 0.0
    model.config.calibration = {}
    model.config.thresholds = {}
    scored = [{"logits": logits[batch["input_ids"][:, 0]], "labels": batch["labels"]} for batch in batches]
    assert calibrate(model, scored, method="platt") == figures
    assert model.config.calibration == fitted


def test_calibrate_reports_the_same_figures_as_the_metrics(scripted):
    logits, gold = scores(seed=3)
    model, batches = scripted(logits, gold)
    figures = calibrate(model, batches, method="platt", label_thresholds=False)
    seen = model.stored_labels.seen()
    after = calibrated(logits, seen, model.config.calibration)
    for when, scored in {"before": logits, "after": after}.items():
        exact = measured(scored, gold, seen=seen)
        for group in ("seen", "unseen"):
            for name in ("expected_calibration_error", "top_5_expected_calibration_error"):
                # Logits are rounded to three digits: a cell in a thousand falls into the next bin.
                assert figures[f"{group}_{name}_{when}"] == pytest.approx(exact[f"{group}_{name}"], abs=2e-3)
    metrics = LabelMetrics(SEEN + UNSEEN, seen=seen, threshold=model.stored_labels.thresholds())
    metrics.update(after, gold)
    for group in ("seen", "unseen"):
        assert figures[f"{group}_micro_f1"] == pytest.approx(metrics.compute()[f"{group}_micro_f1"], abs=1e-12)
        assert model.config.thresholds[group] == figures[f"{group}_threshold"]
        assert figures[f"{group}_micro_f1"] > figures[f"{group}_micro_f1_before"]
    assert figures["documents"] == len(logits)
    json.dumps(figures)
    assert all(label.threshold is None for label in model.label_set)


def test_only_unseen_labels_with_gold_documents_are_candidates(scripted):
    logits, gold = scores(seed=6)
    gold[:, SEEN + 2 :] = False
    model, batches = scripted(logits, gold)
    model.label_set = model.label_set.update("id16", threshold=0.9).update("id1", threshold=0.9)
    calibrate(model, batches, method="platt", label_thresholds=False)
    calibration = model.config.calibration
    assert model.label_set[16].threshold == 0.9  # not a candidate
    assert model.label_set[1].threshold is None
    model.config.calibration = {}
    calibrate(model, iter(batches), method="platt", columns=[*range(SEEN + 2)], label_thresholds=False)
    assert model.config.calibration == calibration
    with pytest.raises(ValueError, match="pass a DataLoader or a list, not a generator; or the candidate labels"):
        calibrate(model, iter(batches), method="platt")
    gold[:, SEEN:] = False
    model, batches = scripted(logits, gold)
    figures = calibrate(model, batches, method="platt")
    assert set(model.config.calibration) == set(model.config.thresholds) == {"seen"}
    assert not [name for name in figures if name.startswith("unseen")]


def test_excluded_labels_do_not_affect_calibration(scripted):
    logits, gold = scores(seed=9)
    model, batches = scripted(torch.cat([logits, torch.full_like(logits, -torch.inf)]), torch.cat([gold, gold & False]))
    calibrate(model, batches, label_thresholds=False, method="platt")
    before = model.config.calibration, model.config.thresholds
    model, batches = scripted(logits, gold)
    calibrate(model, batches, label_thresholds=False, method="platt")
    assert (model.config.calibration, model.config.thresholds) == before


def test_a_bare_linear_unit_gets_thresholds_of_its_group(make_model):
    model, processor = make_model(output_layer="linear", problem_type="multi_label_classification")
    model.label_set = None
    batch = GileDataCollator(processor)([{"input_ids": [2, 3], "labels": [1]}, {"input_ids": [4], "labels": [0, 2]}])
    calibrate(model, [batch], method="platt")
    assert set(model.config.thresholds) == {"seen"}
    assert model.stored_labels.thresholds().tolist() == pytest.approx([model.config.thresholds["seen"]] * 5)


def test_invalid_options_are_refused_without_changes(scripted):
    model, batches = scripted(*scores(seed=11))
    for options, message in [
        ({"method": "gamma"}, "'multi_label_classification' must be one of spline, platt, none, got 'gamma'"),
        ({"objective": "f1"}, "objective must be micro_f1, macro_f1 or, for example, recall@0.8, got 'f1'"),
        ({"objective": "recall@1.5"}, "objective must be micro_f1"),
        ({"columns": [3, 3]}, "columns must be distinct indices of the 17 stored labels, got 2"),
        ({"columns": [17]}, "columns must be distinct indices of the 17 stored labels"),
        ({"columns": []}, "columns must be distinct indices of the 17 stored labels"),
    ]:
        with pytest.raises(ValueError, match=message):
            calibrate(model, batches, **options)
    assert (model.config.calibration, model.config.thresholds, model.batches_read) == ({}, {}, 0)


def test_batches_without_gold_labels_are_refused_without_changes(scripted):
    logits, gold = scores(seed=12)
    model, batches = scripted(logits, gold)
    model.train()
    calibrate(model, batches, method="platt")
    before = model.config.calibration, model.config.thresholds, model.label_set
    out_of_range = {"input_ids": torch.zeros(1, 1).long(), "labels": torch.tensor([[17]])}
    for bad, message in [
        ([out_of_range], "labels has index 17, but there are 17 labels"),
        ([batch | {"labels": torch.full((len(batch["labels"]), 1), -100)} for batch in batches], "none of the 307 doc"),
        ([batches[0] | {"labels": torch.tensor([[1]])}], "labels must have a row for each of the 32 documents"),
    ]:
        with pytest.raises(ValueError, match=message):
            calibrate(model, bad, method="platt")
        assert (model.config.calibration, model.config.thresholds, model.label_set) == before
        assert model.training
    model.table = torch.full_like(logits, math.nan)
    with pytest.raises(ValueError, match="scores must be numbers, got NaN"):
        calibrate(model, batches, method="platt")
    assert (model.config.calibration, model.config.thresholds, model.label_set) == before
    model, batches = scripted(logits, gold & False, seen=0)
    with pytest.raises(ValueError, match="there are no candidate labels: no stored label is marked"):
        calibrate(model, batches, method="platt")


def test_exclusive_labels_get_no_thresholds(scripted):
    logits, _ = scores(seed=10, num_labels=SEEN)
    model, batches = scripted(logits, exclusive(logits), problem_type=SINGLE)
    model.config.thresholds = {"seen": 0.9}  # from an earlier version of the model
    model.label_set = model.label_set.update(model.label_set.ids[0], threshold=0.2)
    figures = calibrate(model, batches)
    assert model.config.thresholds == {}
    assert all(label.threshold is None for label in model.label_set if label.seen)
    assert figures["accuracy_before"] == figures["accuracy_after"] == 1
    assert not any("threshold" in name or "f1" in name for name in figures)


def test_recall_is_not_promised_for_unseen_labels_without_documents(scripted):
    logits, gold = scores(seed=1, documents=900)
    seen = scripted(logits, gold)[0].stored_labels.seen()
    model, batches = scripted(logits, gold & seen)
    figures = calibrate(model, batches, method="platt", objective="recall@0.8")
    assert "unseen" not in model.config.thresholds
    assert figures["note"].startswith("no recall is guaranteed for unseen labels")
    assert "note" not in calibrate(*scripted(logits, gold), method="platt", objective="recall@0.8")


def test_impossible_promises_are_refused(scripted):
    with pytest.raises(ValueError, match=r"3 documents are too few for a recall of 0\.8: at least 4 are needed"):
        promised_threshold([torch.ones(1)] * 3, 0.8)
    assert promised_threshold([torch.ones(1)] * 4, 0.8) == pytest.approx(1, abs=1e-4)
    logits = scores(seed=1)[0]
    model, batches = scripted(logits, exclusive(logits), SINGLE)
    with pytest.raises(ValueError, match="a single-label model has no thresholds"):
        calibrate(model, batches, objective="recall@0.8")


def test_figures_before_a_second_calibration_are_those_of_the_first_on_the_new_documents(scripted):
    model, batches = scripted(*scores(seed=3))
    calibrate(model, batches, method="platt", objective="recall@0.8")
    logits, gold = scores(seed=5)
    moved = logits / 2 - 1
    seen = model.stored_labels.seen()
    stored = calibrated(moved, seen, model.config.calibration)
    metrics = LabelMetrics(SEEN + UNSEEN, seen=seen, threshold=model.stored_labels.thresholds())
    metrics.update(stored, gold)
    exact = metrics.compute() | measured(stored, gold, seen=seen)
    _, batches = scripted(moved, gold)
    model.table = moved
    figures = calibrate(model, batches, method="platt", objective="recall@0.8")
    for group in ("seen", "unseen"):
        error = figures[f"{group}_expected_calibration_error_before"]
        assert error == pytest.approx(exact[f"{group}_expected_calibration_error"], abs=3e-3)
        assert figures[f"{group}_expected_calibration_error_after"] < error
        assert figures[f"{group}_micro_f1_before"] == pytest.approx(exact[f"{group}_micro_f1"], abs=2e-3)
        assert figures[f"{group}_recall_before"] < 0.78 < figures[f"{group}_recall"]


def test_label_thresholds_are_stored_in_the_label_set_and_on_disk(scripted, tmp_path):
    logits, gold = scores(seed=4, documents=1001)
    logits = logits + torch.linspace(-8, 8, SEEN + UNSEEN)  # which a common calibration cannot undo
    model, batches = scripted(logits, gold)
    figures = calibrate(model, batches, method="platt")
    label_thresholds = [label.threshold for label in model.label_set]
    number = sum(threshold is not None for threshold in label_thresholds)
    assert figures["seen_label_thresholds"] + figures["unseen_label_thresholds"] == number > SEEN
    for group in ("seen", "unseen"):
        common = figures[f"{group}_held_out_micro_f1"]
        assert figures[f"{group}_held_out_micro_f1_of_label_thresholds"] > common + 0.02
    model.save_pretrained(tmp_path)
    reloaded = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert reloaded.config.calibration == model.config.calibration
    assert reloaded.config.thresholds == model.config.thresholds
    assert torch.equal(reloaded.stored_labels.thresholds(), model.stored_labels.thresholds())
    # A second call replaces all results of the first.
    calibrate(model, batches, label_thresholds=False, columns=range(5))
    assert [label.threshold for label in model.label_set] == [None] * 5 + label_thresholds[5:]


def test_documents_with_few_unseen_labels_keep_the_unseen_calibration(scripted):
    logits, gold = scores(seed=6)
    model, batches = scripted(logits, gold)
    calibrate(model, batches, method="platt")
    calibration, thresholds = model.config.calibration, model.config.thresholds
    gold[7:, SEEN:] = False
    alone, batches = scripted(logits[:100], gold[:100])
    calibrate(alone, batches, method="platt")
    figures = calibrate(model, batches, method="platt")
    assert figures["note"].endswith("so unseen labels keep theirs")
    ours, of_alone = model.config, alone.config
    assert ours.calibration == {"seen": of_alone.calibration["seen"], "unseen": calibration["unseen"]}
    assert ours.thresholds == {"seen": of_alone.thresholds["seen"], "unseen": thresholds["unseen"]}
    assert of_alone.calibration["seen"] != calibration["seen"]


@pytest.mark.parametrize(("documents", "single"), [(0, False), (49, False), (49, True), (60, True)])
def test_few_documents_with_unseen_labels_share_the_seen_calibration(scripted, documents, single):
    logits, gold = scores(seed=16)
    gold[:, SEEN:] = False
    gold[:documents, -1] = True
    if single:
        column = torch.where(gold[:, -1], gold.shape[1] - 1, logits[:, :SEEN].argmax(1))
        gold = torch.nn.functional.one_hot(column, gold.shape[1]).bool()
    kind = SINGLE if single else "multi_label_classification"
    model, batches = scripted(logits, gold, problem_type=kind)
    model.label_set = model.label_set.update("id16", threshold=0.9)
    figures = calibrate(model, batches, columns=range(SEEN + UNSEEN), method="platt")
    enough = documents >= 50
    groups = {"seen", "unseen"} if enough else {"seen"}
    assert set(model.config.calibration) == groups
    assert set(model.config.thresholds) == (set() if single else groups)
    assert figures.get("note", "").startswith(f"{documents} document") == (0 < documents < 50)
    assert any(name.startswith("unseen_") for name in figures) == enough
    if not enough:
        ours = calibrated(logits, model.stored_labels.seen(), model.config.calibration)
        assert torch.equal(ours.argsort(dim=1), logits.argsort(dim=1))
    if not enough and not single:
        unseen = model.stored_labels.thresholds()[~model.stored_labels.seen()].tolist()
        assert unseen[-1] == pytest.approx(0.9)  # thresholds of single labels do not change
        assert unseen[:-1] == pytest.approx([model.config.thresholds["seen"]] * (UNSEEN - 1))


@pytest.mark.parametrize(("documents", "single"), [(9, False), (49, True), (300, False), (300, True)])
def test_nine_in_ten_documents_reach_the_usual_score(scripted, documents, single):
    logits, gold = scores(seed=18, documents=documents)
    if single:
        gold = exclusive(logits + torch.randn(logits.shape))
    model, batches = scripted(logits, gold, problem_type=SINGLE if single else "multi_label_classification")
    assert "unusual_documents" not in calibrate(model, batches, method="platt", columns=range(SEEN + UNSEEN))
    ours = calibrated(logits, model.stored_labels.seen(), model.config.calibration)
    best = (ours.softmax(1) if single else ours.sigmoid()).max(1).values
    expected = {9: 0.0, 49: best.min().item(), 300: best.quantile(0.1).item()}
    assert model.config.usual_score == pytest.approx(expected[documents], rel=1e-4)
    if documents == 300:
        figures = calibrate(model, batches, method="platt", columns=range(SEEN + UNSEEN))
        assert figures["unusual_documents"] == pytest.approx(0.1)


def test_a_well_calibrated_group_stays_uncalibrated(scripted):
    generator = torch.Generator().manual_seed(8)
    logits = torch.randn(307, SEEN + UNSEEN, generator=generator) * 2 - 1
    gold = torch.rand(logits.shape, generator=generator) < logits.sigmoid()
    logits[:, SEEN:] *= 3  # logits of seen labels are correct
    model, batches = scripted(logits, gold)
    model.config.calibration = {"seen": {"method": "platt", "scale": 5.0, "offset": 5.0}}
    calibrate(model, batches, method="spline")
    seen = model.stored_labels.seen()
    ours = calibrated(logits, seen, model.config.calibration)
    assert torch.equal(ours[:, seen], logits[:, seen])
    assert not torch.equal(ours[:, ~seen], logits[:, ~seen])
    assert set(model.config.thresholds) == {"seen", "unseen"}


def test_exclusive_labels_are_calibrated_by_their_softmax(scripted):
    def draw(seed):
        random = torch.Generator().manual_seed(seed)
        true = 2 * torch.randn(1501, 7, generator=random)
        gold = torch.multinomial(true.softmax(-1), 1, generator=random)
        logits = 3 * true
        logits[:, 5:] += 4
        return logits, torch.zeros(true.shape, dtype=torch.bool).scatter_(1, gold, True)

    model, batches = scripted(*draw(1), problem_type=SINGLE, seen=5)
    for batch in batches:
        batch["labels"] = batch["labels"][:, 0]
    figures = calibrate(model, batches)
    calibration = model.config.calibration
    for group in ("seen", "unseen"):
        assert calibration[group]["scale"] == pytest.approx(1 / 3, abs=0.05)
    assert calibration["unseen"]["offset"] - calibration["seen"]["offset"] == pytest.approx(-4 / 3, abs=0.3)
    logits, gold = draw(2)
    seen = model.stored_labels.seen()
    name = "seen_expected_calibration_error"
    for when, of_labels in {"before": logits, "after": calibrated(logits, seen, calibration)}.items():
        exact = measured(of_labels.double().softmax(-1).logit(), gold, seen=seen)[name]
        assert exact < 0.02 if when == "after" else exact > 0.02
        assert figures[f"{name}_{when}"] == pytest.approx(exact, abs=0.015)
        right = float(gold.gather(1, of_labels.argmax(1, keepdim=True)).float().mean())
        assert figures[f"accuracy_{when}"] == pytest.approx(right, abs=0.04)
    with pytest.raises(ValueError, match="'single_label_classification' must be one of platt, got"):
        calibrate(model, batches, method="spline")


def test_the_promised_recall_holds_on_other_documents(scripted):
    model, batches = scripted(*scores(seed=1, documents=900))
    figures = calibrate(model, batches, method="platt", objective="recall@0.8")
    assert {label.threshold for label in model.label_set} == {None}
    seen = model.stored_labels.seen()
    for group, columns in {"seen": seen, "unseen": ~seen}.items():
        assert figures[f"{group}_promised_recall"] == 0.8

        def assigned(logits, columns=columns, group=group):
            probabilities = calibrated(logits, seen, model.config.calibration).sigmoid()[:, columns]
            return probabilities >= model.config.thresholds[group]

        logits, gold = scores(seed=2, documents=2000)
        gold = gold[:, columns]
        recalls = ((assigned(logits) & gold).sum(1) / gold.sum(1))[gold.any(1)]
        assert recalls.mean().item() == pytest.approx(0.8, abs=0.04)
        number = assigned(scores(1, 900)[0]).sum(1).float().mean().item()
        assert figures[f"{group}_labels_per_document"] == pytest.approx(number, rel=0.02)


@pytest.mark.parametrize("problem_type", [None, SINGLE])
def test_a_crowding_that_is_not_measured_again_stays(scripted, problem_type):
    logits = scores(seed=1)[0]
    model, batches = scripted(logits, exclusive(logits), problem_type)
    model.config.calibration = with_number({}, 3, 0.25)
    calibrate(model, batches, method="platt")
    assert model.config.calibration["unseen"]["crowding"] == 0.25
