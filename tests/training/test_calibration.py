import json
import math
import weakref
from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForSequenceClassification
from transformers.modeling_outputs import SequenceClassifierOutput

from hf_gile import GileConfig, GileForSequenceClassification, GileProcessor, Label, LabelSet, build_tokenizer
from hf_gile.metrics import CalibrationMetrics, LabelMetrics
from hf_gile.metrics.batch import read_batch
from hf_gile.models.search_gile import calibrated
from hf_gile.training import GileDataCollator, calibrate
from hf_gile.training.calibration import fit
from hf_gile.training.calibration.calibrating import with_number
from hf_gile.training.calibration.promised_recall import promised_threshold
from hf_gile.training.calibration.score_counts import ScoreCounts

SEEN = 11
UNSEEN = 6


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
        padded = read_batch(logits, gold)[1]
        documents = torch.arange(len(logits))[:, None]
        batches = [
            {"input_ids": documents[start : start + 32], "labels": padded[start : start + 32]}
            for start in range(0, len(logits), 32)
        ]
        return model, batches

    return make


def measured(logits, gold, seen=None, **options):
    metrics = CalibrationMetrics(logits.shape[1], seen=seen, **options)
    metrics.update(logits, gold)
    return metrics.compute()


@pytest.mark.parametrize("method", ["platt", "spline"])
def test_calibration_holds_on_other_documents(scripted, method):
    model, batches = scripted(*scores(seed=1, documents=1501))
    figures = calibrate(model, batches, method=method)
    assert model.config.calibration["seen"]["method"] == model.config.calibration["unseen"]["method"] == method
    logits, gold = scores(seed=2, documents=1501)
    seen = model.stored_labels.seen()
    before = measured(logits, gold, seen=seen)
    after = measured(calibrated(logits, seen, model.config.calibration), gold, seen=seen)
    for group in ("seen", "unseen"):
        for name in ("expected_calibration_error", "top_5_expected_calibration_error"):
            was, now = before[f"{group}_{name}"], after[f"{group}_{name}"]
            # With 15 bins of about a thousand cells, the random error is about sqrt(15 p (1 - p) / 9000).
            assert now < 0.02 < was
            # The documents of the fit give the same result.
            assert figures[f"{group}_{name}_before"] == pytest.approx(was, abs=0.02)
            assert figures[f"{group}_{name}_after"] == pytest.approx(now, abs=0.02)


def test_calibrate_reports_the_same_figures_as_the_metrics(scripted):
    logits, gold = scores(seed=3)
    model, batches = scripted(logits, gold)
    figures = calibrate(model, batches, label_thresholds=False)
    seen = model.stored_labels.seen()
    after = calibrated(logits, seen, model.config.calibration)
    for when, scored in {"before": logits, "after": after}.items():
        exact = measured(scored, gold, seen=seen)
        for group in ("seen", "unseen"):
            for name in ("expected_calibration_error", "top_5_expected_calibration_error"):
                # Logits are rounded to three digits: a cell in a thousand falls into the next bin.
                assert figures[f"{group}_{name}_{when}"] == pytest.approx(exact[f"{group}_{name}"], abs=2e-3)
    for scored, threshold, name in [
        (logits, 0.5, "micro_f1_before"),
        (after, model.stored_labels.thresholds(), "micro_f1"),
    ]:
        metrics = LabelMetrics(SEEN + UNSEEN, seen=seen, threshold=threshold)
        metrics.update(scored, gold)
        for group in ("seen", "unseen"):
            assert figures[f"{group}_{name}"] == pytest.approx(metrics.compute()[f"{group}_micro_f1"], abs=1e-12)
    for group in ("seen", "unseen"):
        assert model.config.thresholds[group] == figures[f"{group}_threshold"]
        assert figures[f"{group}_micro_f1"] > figures[f"{group}_micro_f1_before"]
    assert figures["documents"] == len(logits)
    json.dumps(figures)
    assert all(label.threshold is None for label in model.label_set)


@pytest.mark.parametrize("objective", ["micro_f1", "recall@0.8"])
def test_figures_before_a_second_calibration_are_those_of_the_first_on_the_new_documents(scripted, objective):
    model, batches = scripted(*scores(seed=3))
    calibrate(model, batches, label_thresholds=False, objective="recall@0.8")
    logits, gold = scores(seed=5)
    moved = logits / 2 - 1
    stored = calibrated(moved, model.stored_labels.seen(), model.config.calibration)
    seen, thresholds = model.stored_labels.seen(), model.stored_labels.thresholds()
    metrics = LabelMetrics(SEEN + UNSEEN, seen=seen, threshold=thresholds)
    metrics.update(stored, gold)
    expected = measured(stored, gold, seen=seen)
    _, batches = scripted(moved, gold)
    model.table = moved
    figures = calibrate(model, batches, label_thresholds=False, objective=objective)
    for group in ("seen", "unseen"):
        error = figures[f"{group}_expected_calibration_error_before"]
        assert error == pytest.approx(expected[f"{group}_expected_calibration_error"], abs=3e-3)
        assert figures[f"{group}_micro_f1_before"] == pytest.approx(metrics.compute()[f"{group}_micro_f1"], abs=2e-3)
        assert figures[f"{group}_recall_before"] < 0.78 < figures[f"{group}_recall"] or objective == "micro_f1"
        assert figures[f"{group}_expected_calibration_error_after"] < error


def test_label_thresholds_are_stored_in_the_label_set_and_on_disk(scripted, tmp_path):
    logits, gold = scores(seed=4, documents=1001)
    logits = logits + torch.linspace(-8, 8, SEEN + UNSEEN)  # which a common calibration cannot undo
    model, batches = scripted(logits, gold)
    figures = calibrate(model, batches, method="platt")
    label_thresholds = [label.threshold for label in model.label_set]
    number = sum(threshold is not None for threshold in label_thresholds)
    assert figures["seen_label_thresholds"] + figures["unseen_label_thresholds"] == number > SEEN
    seen = model.stored_labels.seen()
    more, right = scores(seed=5, documents=1001)
    more = calibrated(more + torch.linspace(-8, 8, SEEN + UNSEEN), seen, model.config.calibration)
    results = {}
    for name, thresholds in {
        "individual": model.stored_labels.thresholds(),
        "common": torch.tensor([model.config.thresholds["seen" if is_seen else "unseen"] for is_seen in seen]),
    }.items():
        metrics = LabelMetrics(SEEN + UNSEEN, seen=seen, threshold=thresholds)
        metrics.update(more, right)
        results[name] = metrics.compute()
    for group in ("seen", "unseen"):
        assert results["individual"][f"{group}_micro_f1"] > results["common"][f"{group}_micro_f1"] + 0.02
        for name, end in {"common": "", "individual": "_of_label_thresholds"}.items():
            for figure in ("micro_f1", "macro_f1"):
                held_out = figures[f"{group}_held_out_{figure}{end}"]
                assert held_out == pytest.approx(results[name][f"{group}_{figure}"], abs=0.03)
    model.save_pretrained(tmp_path)
    reloaded = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert reloaded.config.calibration == model.config.calibration
    assert reloaded.config.thresholds == model.config.thresholds
    assert torch.equal(reloaded.stored_labels.thresholds(), model.stored_labels.thresholds())
    # A second call replaces all results of the first.
    calibrate(model, batches, label_thresholds=False, columns=range(5))
    assert [label.threshold for label in model.label_set] == [None] * 5 + label_thresholds[5:]


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


@pytest.mark.parametrize("few", [0, 7])
def test_documents_with_few_unseen_labels_keep_the_unseen_calibration(scripted, few):
    logits, gold = scores(seed=6)
    model, batches = scripted(logits, gold)
    calibrate(model, batches, method="platt")
    before = model.config.calibration, model.config.thresholds
    gold[few:, SEEN:] = False
    alone, batches = scripted(logits[:100], gold[:100])
    calibrate(alone, batches, method="platt")
    figures = calibrate(model, batches, method="platt")
    assert figures.get("note", "").endswith("so unseen labels keep theirs") == bool(few)
    for combined, new, earlier in zip(
        (model.config.calibration, model.config.thresholds),
        (alone.config.calibration, alone.config.thresholds),
        before,
        strict=True,
    ):
        assert combined == {"seen": new["seen"], "unseen": earlier["unseen"]}
        assert new["seen"] != earlier["seen"]


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("documents", [0, 49, 60, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 29))])
def test_few_documents_with_unseen_labels_share_the_seen_calibration(scripted, documents, single):
    logits, gold = scores(seed=16)
    gold[:, SEEN:] = False
    gold[:documents, -1] = True
    if single:
        rows = torch.arange(len(gold))
        column = torch.where(gold[:, -1], gold.shape[1] - 1, logits[:, :SEEN].argmax(1))
        gold = torch.zeros_like(gold)
        gold[rows, column] = True
    kind = "single_label_classification" if single else "multi_label_classification"
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


@pytest.mark.parametrize("documents", [9, 49, 300])
@pytest.mark.parametrize("single", [False, True])
def test_nine_in_ten_documents_reach_the_usual_score(scripted, documents, single):
    logits, gold = scores(seed=18, documents=documents)
    if single:
        gold = torch.nn.functional.one_hot((logits + torch.randn(logits.shape)).argmax(1), logits.shape[1]).bool()
    kind = "single_label_classification" if single else "multi_label_classification"
    model, batches = scripted(logits, gold, problem_type=kind)
    assert "unusual_documents" not in calibrate(model, batches, method="platt", columns=range(SEEN + UNSEEN))
    ours = calibrated(logits, model.stored_labels.seen(), model.config.calibration)
    best = (ours.softmax(1) if single else ours.sigmoid()).max(1).values
    expected = {9: 0.0, 49: best.min().item(), 300: best.quantile(0.1).item()}
    assert model.config.usual_score == pytest.approx(expected[documents], rel=1e-4)
    if documents == 300:
        figures = calibrate(model, batches, method="platt", columns=range(SEEN + UNSEEN))
        assert figures["unusual_documents"] == pytest.approx(0.1)


def test_a_single_document_with_unseen_labels_changes_nothing(scripted):
    logits, gold = scores(seed=17, documents=3)
    gold[:] = False
    gold[0, -1] = True
    model, batches = scripted(logits, gold)
    assert set(calibrate(model, batches, method="platt")) == {"documents", "note"}
    assert (model.config.calibration, model.config.thresholds) == ({}, {})


def test_a_well_calibrated_group_stays_uncalibrated(scripted):
    generator = torch.Generator().manual_seed(8)
    logits = torch.randn(307, SEEN + UNSEEN, generator=generator) * 2 - 1
    gold = torch.rand(logits.shape, generator=generator) < logits.sigmoid()
    logits[:, SEEN:] *= 3  # logits of seen labels are correct
    model, batches = scripted(logits, gold)
    calibrate(model, batches, method="spline")
    seen = model.stored_labels.seen()
    ours = calibrated(logits, seen, model.config.calibration)
    assert torch.equal(ours[:, seen], logits[:, seen])
    assert not torch.equal(ours[:, ~seen], logits[:, ~seen])


def test_documents_are_scored_once_in_any_order_and_form(scripted):
    logits, gold = scores(seed=7)
    model, batches = scripted(logits, gold)
    figures = calibrate(model, batches, method="platt")
    assert model.batches_read == len(batches)
    calibration = model.config.calibration
    labels = model.label_set
    documents = torch.cat([batch["input_ids"] for batch in batches])
    for form in (read_batch(logits, gold)[1], gold, gold.float()):
        model.config.calibration, model.config.thresholds, model.config.usual_score = {}, {}, 0.0
        assert calibrate(model, [{"input_ids": documents, "labels": form}], method="platt") == figures
        assert model.config.calibration == calibration
        assert model.label_set == labels


def test_excluded_labels_do_not_affect_calibration(scripted):
    logits, gold = scores(seed=9)
    model, batches = scripted(torch.cat([logits, torch.full_like(logits, -torch.inf)]), torch.cat([gold, gold & False]))
    calibrate(model, batches, method="platt")
    before = model.config.calibration, model.config.thresholds
    model, batches = scripted(logits, gold)
    calibrate(model, batches, method="platt")
    assert (model.config.calibration, model.config.thresholds) == before


@pytest.mark.parametrize("has_unseen", [False, True])
def test_exclusive_labels_are_calibrated_by_their_softmax(scripted, has_unseen):
    def draw(seed):
        random = torch.Generator().manual_seed(seed)
        true = 2 * torch.randn(1501, 7, generator=random)
        gold = torch.multinomial(true.softmax(-1), 1, generator=random)
        logits = 3 * true
        if has_unseen:
            logits[:, 5:] += 4
        return logits, torch.zeros(true.shape, dtype=torch.bool).scatter_(1, gold, True)

    model, batches = scripted(*draw(1), problem_type="single_label_classification", seen=5 if has_unseen else 7)
    for batch in batches:
        batch["labels"] = batch["labels"][:, 0]
    figures = calibrate(model, batches)
    calibration = model.config.calibration
    assert calibration["seen"]["scale"] == pytest.approx(1 / 3, abs=0.05)
    assert set(calibration) == ({"seen", "unseen"} if has_unseen else {"seen"})
    if has_unseen:
        assert calibration["unseen"]["scale"] == pytest.approx(1 / 3, abs=0.05)
        assert calibration["unseen"]["offset"] - calibration["seen"]["offset"] == pytest.approx(-4 / 3, abs=0.3)
    logits, gold = draw(2)
    seen = model.stored_labels.seen()
    for when, scores in {"before": logits, "after": calibrated(logits, seen, calibration)}.items():
        exact = measured(scores.double().softmax(-1).logit(), gold, seen=seen if has_unseen else None)
        name = "seen_expected_calibration_error" if has_unseen else "expected_calibration_error"
        assert exact[name] < 0.02 if when == "after" else exact[name] > 0.02
        group = "seen_expected_calibration_error"
        assert figures[f"{group}_{when}"] == pytest.approx(exact[name], abs=0.015)
        right = float(gold.gather(1, scores.argmax(1, keepdim=True)).float().mean())
        assert figures[f"accuracy_{when}"] == pytest.approx(right, abs=0.04)
    with pytest.raises(ValueError, match="'single_label_classification' must be one of platt, got"):
        calibrate(model, batches, method="spline")


def test_a_softmax_is_fitted_on_a_subset_of_many_documents(scripted, monkeypatch):
    logits, gold = scores(seed=10, num_labels=SEEN)
    gold = torch.zeros_like(gold).scatter_(1, logits.argmax(1, keepdim=True), True)
    model, batches = scripted(logits, gold, problem_type="single_label_classification")
    calibrate(model, batches)
    full_scale = model.config.calibration["seen"]["scale"]
    monkeypatch.setattr("hf_gile.training.calibration.softmax._MAX_LOGITS", 200 * SEEN)
    figures = calibrate(model, batches)
    assert figures["documents"] == 307
    halves, halved = scripted(logits[::2], gold[::2], problem_type="single_label_classification")
    calibrate(halves, halved)
    assert model.config.calibration == halves.config.calibration
    assert model.config.calibration["seen"]["scale"] != full_scale


def test_a_real_model_is_calibrated_on_collated_batches(make_model, label_set):
    texts = ["the heart pumps blood", "breast milk", "iron in blood", "the failing heart"] * 5
    model, processor = make_model(problem_type="multi_label_classification")
    model.set_labels(LabelSet(replace(label, seen=label.id != "Iron") for label in label_set), processor)
    gold = [[0, 4], [1], [2, 4], [0]] * 5
    rows = [
        {"input_ids": ids, "labels": columns} for ids, columns in zip(processor(texts)["input_ids"], gold, strict=True)
    ]
    rows *= 10
    batches = [GileDataCollator(processor)(rows[start : start + 7]) for start in range(0, 200, 7)]
    model.train()
    figures = calibrate(model, batches, bf16=True, method="platt")
    assert model.training
    assert figures["documents"] == 200
    assert set(model.config.thresholds) == {"seen", "unseen"}
    assert all(0 < threshold <= 1 for threshold in model.stored_labels.thresholds())


def test_multilingual_documents_are_calibrated_with_labels_of_their_language():
    texts = {"english": ["iron and milk", "milk"], "german": ["eisen und milch", "eisen"]}
    tokenizer = build_tokenizer(texts, min_count=1)
    config = GileConfig(
        vocab_size=len(tokenizer),
        languages=list(texts),
        embedding_size=7,
        joint_size=13,
        num_labels=4,
        problem_type="multi_label_classification",
    )
    processor = GileProcessor.for_config(tokenizer, config)
    model = GileForSequenceClassification(config)
    names = {"english": ["iron", "milk"], "german": ["eisen", "milch"]}
    model.set_labels(
        LabelSet(Label(name, name, language=language, seen=True) for language in texts for name in names[language]),
        processor,
    )
    rows = [
        {"input_ids": processor(text, language=language)["input_ids"][0], "language": language, "labels": [column]}
        for text, language, column in [
            ("iron and milk", "english", 0),
            ("milk", "english", 1),
            ("eisen und milch", "german", 3),
            ("eisen", "german", 2),
        ]
    ]
    calibrate(model, [GileDataCollator(processor)(rows * 5)])
    # Each of the 20 documents has two candidates, of which half are gold.
    counts = ScoreCounts(torch.ones(4, dtype=torch.bool))
    batch = GileDataCollator(processor)(rows * 5)
    gold = batch.pop("labels")
    with torch.no_grad():
        counts.update(model.eval()(**batch).logits, gold)
    assert int(counts.cells[0].sum()) == 40
    assert model.config.calibration == fit(counts).calibration


def test_a_bare_linear_unit_gets_thresholds_of_its_group(make_model):
    model, processor = make_model(output_layer="linear", problem_type="multi_label_classification")
    model.label_set = None
    batch = GileDataCollator(processor)([{"input_ids": [2, 3], "labels": [1]}, {"input_ids": [4], "labels": [0, 2]}])
    calibrate(model, [batch], method="platt")
    assert set(model.config.thresholds) == {"seen"}
    assert model.stored_labels.thresholds().tolist() == pytest.approx([model.config.thresholds["seen"]] * 5)


@pytest.mark.parametrize(("factor", "is_kept"), [(1.0, False), (3.0, True)])
def test_a_calibration_that_fails_validation_is_dropped(scripted, factor, is_kept):
    generator = torch.Generator().manual_seed(8)
    logits = torch.randn(61, 17, generator=generator) * 2 - 1
    multi_hot = torch.rand(61, 17, generator=generator) < logits.sigmoid()  # the logits are correct before * 3
    model, batches = scripted(logits * factor, multi_hot)
    model.config.calibration = {"seen": {"method": "platt", "scale": 5.0, "offset": 5.0}}
    calibrate(model, batches, method="spline")
    assert (model.config.calibration.get("seen", {}).get("method") == "spline") == is_kept
    scored = logits * factor
    ours = calibrated(scored, model.stored_labels.seen(), model.config.calibration)[:, :SEEN]
    assert torch.equal(ours, scored[:, :SEEN]) != is_kept
    assert "seen" in model.config.thresholds


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "gamma"}, "method must be one of platt, spline, got 'gamma'"),
        ({"objective": "f1"}, "objective must be micro_f1, macro_f1 or, for example, recall@0.8, got 'f1'"),
        ({"columns": [3, 3]}, "columns must be distinct indices of the 17 stored labels, got 2"),
        ({"columns": [17]}, "columns must be distinct indices of the 17 stored labels"),
        ({"columns": []}, "columns must be distinct indices of the 17 stored labels"),
    ],
)
def test_invalid_options_are_refused_without_changes(scripted, options, message):
    model, batches = scripted(*scores(seed=11))
    with pytest.raises(ValueError, match=message):
        calibrate(model, batches, **options)
    assert (model.config.calibration, model.config.thresholds, model.batches_read) == ({}, {}, 0)


def test_batches_without_gold_labels_are_refused_without_changes(scripted):
    logits, gold = scores(seed=12)
    model, batches = scripted(logits, gold)
    model.train()
    calibrate(model, batches, method="platt")
    before = model.config.calibration, model.config.thresholds, model.label_set
    for bad, message in [
        ([{"input_ids": torch.zeros(1, 1).long()}], r"GileDataCollator, with labels: .* got \['input_ids'\]"),
        ([torch.zeros(3)], "batches must come from a GileDataCollator"),
        (
            [{"input_ids": torch.zeros(1, 1).long(), "labels": torch.tensor([[17]])}],
            "gold label index 17, but the model has 17",
        ),
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


def counted(logits, gold):
    counts = ScoreCounts(torch.ones(logits.shape[1], dtype=torch.bool))
    counts.update(*read_batch(logits, gold))
    return counts


@pytest.mark.parametrize(
    "factor", [0.01, 1000.0, *(pytest.param(factor, marks=pytest.mark.slow) for factor in (0.1, 1.0, 100.0))]
)
def test_calibration_handles_logits_of_any_scale(factor):
    def draw(seed):
        random = torch.Generator().manual_seed(seed)
        true = torch.randn(1009, 31, generator=random)
        return factor * true, torch.rand(true.shape, generator=random) < (2 * true - 3).sigmoid()

    logits, gold = draw(1)
    fitted = fit(counted(logits, gold))
    individual = torch.where(fitted.label_thresholds.isnan(), fitted.thresholds["seen"], fitted.label_thresholds)
    test_logits, right = draw(2)
    probabilities = calibrated(test_logits, torch.ones(31, dtype=torch.bool), fitted.calibration)
    assert measured(probabilities, right)["expected_calibration_error"] < 0.01
    for thresholds in (torch.full((31,), fitted.thresholds["seen"]), individual.float()):
        metrics = LabelMetrics(31, threshold=thresholds)
        metrics.update(probabilities, right)
        assert metrics.compute()["micro_f1"] > 0.53  # the best possible value is 0.55


def test_exclusive_labels_get_no_thresholds(scripted):
    logits, gold = scores(seed=10, num_labels=SEEN)
    gold = torch.zeros_like(gold).scatter_(1, logits.argmax(1, keepdim=True), True)
    model, batches = scripted(logits, gold, problem_type="single_label_classification")
    model.config.thresholds = {"seen": 0.9}  # from an earlier version of the model
    model.label_set = model.label_set.update(model.label_set.ids[0], threshold=0.2)
    figures = calibrate(model, batches)
    assert model.config.thresholds == {}
    assert all(label.threshold is None for label in model.label_set if label.seen)
    assert figures["accuracy_before"] == figures["accuracy_after"] == 1
    assert not any("threshold" in name or "f1" in name for name in figures)


def test_the_threshold_of_separable_labels_lies_between_their_scores(scripted):
    def draw(seed, margin):
        random = torch.Generator().manual_seed(seed)
        gold = torch.zeros(61, 5, dtype=torch.bool)
        gold.scatter_(1, torch.randint(5, (61, 1), generator=random), True)
        return torch.where(gold, margin, -margin) + torch.randn(gold.shape, generator=random), gold

    model, batches = scripted(*draw(1, 20.0), seen=5)
    assert calibrate(model, batches, method="platt")["seen_micro_f1"] == 1
    logits, gold = draw(2, 9.0)  # other documents, with less confident but equally correct logits
    logits = calibrated(logits, model.stored_labels.seen(), model.config.calibration)
    assert torch.equal(logits.sigmoid() >= model.stored_labels.thresholds(), gold)


def test_scores_at_a_threshold_near_one_reach_it(scripted):
    random = torch.Generator().manual_seed(3)
    logits = 16 + 2 * torch.rand(307, 3, generator=random)
    gold = torch.ones(307, 3, dtype=torch.bool)
    model, batches = scripted(logits, gold, seen=3)
    figures = calibrate(model, batches, label_thresholds=False, method="platt")
    probabilities = calibrated(logits, model.stored_labels.seen(), model.config.calibration).sigmoid()
    assert figures["seen_micro_f1"] == 1
    assert bool((probabilities >= model.stored_labels.thresholds()).all())


def test_exclusive_labels_may_have_several_languages(scripted):
    logits, gold = scores(seed=13, documents=211, num_labels=6)
    single = torch.zeros_like(gold)
    rows = torch.arange(211)
    single[rows, logits[:, :3].argmax(1)] = True
    single[rows[::5]], single[rows[::5], 1] = False, True
    model, batches = scripted(logits[:, :3], single[:, :3], problem_type="single_label_classification", seen=3)
    calibrate(model, batches)
    alone = model.config.calibration["seen"]
    # The same labels in another language with other documents, and a gold label that is not a candidate.
    none = torch.full((211, 3), -torch.inf)
    first, second = torch.cat([logits[:, :3], none], 1), torch.cat([none, logits[:, :3]], 1)
    gold = torch.cat([single, single.roll(3, dims=1), single[:1].roll(3, dims=1)])
    all_logits = torch.cat([first, second, first[:1]])
    model, batches = scripted(all_logits, gold, problem_type="single_label_classification", seen=6)
    calibrate(model, batches)
    assert model.config.calibration["seen"]["scale"] == pytest.approx(alone["scale"], rel=0.01)


def test_subsampled_documents_are_released_from_memory(scripted, monkeypatch):
    logits, gold = scores(seed=14, num_labels=SEEN)
    gold = torch.zeros_like(gold).scatter_(1, logits.argmax(1, keepdim=True), True)
    model, batches = scripted(logits, gold, problem_type="single_label_classification")
    monkeypatch.setattr("hf_gile.training.calibration.softmax._MAX_LOGITS", 20 * SEEN)
    outputs, forward = [], Scripted.forward

    def forward_and_count(self, **inputs):
        output = forward(self, **inputs)
        outputs.append(weakref.ref(output.logits.untyped_storage()))
        assert sum(reference() is not None for reference in outputs) <= 2  # this batch and the previous batch
        return output

    monkeypatch.setattr(Scripted, "forward", forward_and_count)
    calibrate(model, batches, method="platt")
    assert len(outputs) == len(batches)


def recalls(model, logits, gold, group):
    """Returns the share of gold labels of each document that reach the threshold of their group."""
    columns = model.stored_labels.seen() == (group == "seen")
    logits, gold = (
        calibrated(logits, model.stored_labels.seen(), model.config.calibration)[:, columns],
        gold[:, columns],
    )
    assigned = (logits.sigmoid() >= model.config.thresholds[group]) & gold
    return (assigned.sum(1) / gold.sum(1))[gold.any(1)]


@pytest.mark.parametrize("recall", [0.6, 0.8])
def test_the_promised_recall_holds_on_other_documents(scripted, recall):
    model, batches = scripted(*scores(seed=1, documents=900))
    figures = calibrate(model, batches, objective=f"recall@{recall}")
    assert {label.threshold for label in model.label_set} == {None}
    test_documents = scores(seed=2, documents=2000)
    for group in ("seen", "unseen"):
        assert figures[f"{group}_promised_recall"] == recall
        measured = recalls(model, *test_documents, group).mean().item()
        assert measured == pytest.approx(recall, abs=0.04)
        columns = model.stored_labels.seen() == (group == "seen")
        probabilities = calibrated(scores(1, 900)[0], model.stored_labels.seen(), model.config.calibration).sigmoid()
        assigned = (probabilities[:, columns] >= model.config.thresholds[group]).sum(1).float().mean().item()
        assert figures[f"{group}_labels_per_document"] == pytest.approx(assigned, rel=0.02)


def test_the_promised_threshold_is_the_highest_valid_threshold():
    draws = torch.Generator().manual_seed(3)
    gold = [torch.rand(int(number), generator=draws) for number in torch.randint(1, 5, (60,), generator=draws)]
    threshold = promised_threshold(gold, 0.8)

    def risk(threshold):
        lost = sum((row < threshold).double().mean().item() for row in gold)
        return (lost + 1) / (len(gold) + 1)

    values = torch.cat(gold).sort().values
    above = values[values > threshold * 1.0001]
    assert risk(threshold) <= 0.2 < risk(above[1])


def test_recall_is_not_promised_for_unseen_labels_without_documents(scripted):
    logits, gold = scores(seed=1, documents=900)
    seen = scripted(logits, gold)[0].stored_labels.seen()
    model, batches = scripted(logits, gold & seen)
    figures = calibrate(model, batches, objective="recall@0.8")
    assert "unseen" not in model.config.thresholds
    assert figures["note"].startswith("no recall is guaranteed for unseen labels")
    assert "note" not in calibrate(*scripted(logits, gold), objective="recall@0.8")


def test_impossible_promises_are_refused(scripted):
    with pytest.raises(ValueError, match=r"3 documents are too few for a recall of 0\.8: at least 4 are needed"):
        promised_threshold([torch.ones(1)] * 3, 0.8)
    assert promised_threshold([torch.ones(1)] * 4, 0.8) == pytest.approx(1, abs=1e-4)
    model, batches = scripted(*scores(seed=1))
    for objective in ("recall@1.5", "recall@0.0", "recall"):
        with pytest.raises(ValueError, match="objective must be micro_f1"):
            calibrate(model, batches, objective=objective)
    logits = scores(seed=1)[0]
    gold = torch.zeros_like(logits, dtype=torch.bool).scatter(1, logits.argmax(1, keepdim=True), True)
    model, batches = scripted(logits, gold, "single_label_classification")
    with pytest.raises(ValueError, match="a single-label model has no thresholds"):
        calibrate(model, batches, objective="recall@0.8")


@pytest.mark.parametrize("groups", [("seen",), ("unseen",), ("seen", "unseen"), ()])
def test_a_number_of_unseen_labels_changes_no_calibration(groups):
    calibration = {group: {"method": "platt", "scale": len(group) / 5, "offset": -1.5} for group in groups}
    seen = torch.tensor([True, False, True, False])
    logits = torch.tensor([[0.5, -1.0, 2.0, 3.0]])
    numbered = with_number(with_number(calibration, 3, 1.0), 2, 0.5)
    assert (numbered["unseen"]["labels"], numbered["unseen"]["crowding"]) == (2, 0.5)
    torch.testing.assert_close(calibrated(logits, seen, numbered), calibrated(logits, seen, calibration))


@pytest.mark.parametrize("problem_type", [None, "single_label_classification"])
def test_a_crowding_that_is_not_measured_again_stays(scripted, problem_type):
    logits = scores(seed=1)[0]
    gold = torch.zeros_like(logits, dtype=torch.bool).scatter(1, logits.argmax(1, keepdim=True), True)
    model, batches = scripted(logits, gold, problem_type)
    model.config.calibration = with_number({}, 3, 0.25)
    calibrate(model, batches)
    assert model.config.calibration["unseen"]["crowding"] == 0.25
