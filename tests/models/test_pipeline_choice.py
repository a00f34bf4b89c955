"""Labels that the pipeline returns: calibrated probabilities, thresholds, top_k, force_label."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from answers import scores
from transformers import pipeline

from hf_gile import Label, LabelIndex, LabelSet
from hf_gile.models import pipeline_gile, search_gile
from hf_gile.models.search_gile import Choice, best_labels, calibrated, compute_scores

TEXTS = ["Breast milk and iron. The heart.", "blood", "Infants were fed with milk for 12 weeks.", ""]
# Stored seen and unseen labels, and a label that is not stored.
CANDIDATES = ["Iron", "Milk, Human", "Blood", "Risk of Infection", "Infant"]


def platt(scale, offset):
    return {"method": "platt", "scale": scale, "offset": offset}


def spline(logits, values):
    return {"method": "spline", "logits": logits, "values": values}


CURVE = spline([-2.0, -1.0, 0.5], [-5.0, 0.0, 0.25])
CALIBRATIONS = {
    "platt": {"seen": platt(0.5, 1.25), "unseen": platt(2.0, -0.75)},
    "platt of unseen": {"unseen": platt(0.25, 0.0)},
    "spline": {"seen": CURVE, "unseen": spline([-3.0, 3.0], [-0.5, 0.5])},
}


@pytest.fixture
def pipe(make_model, label_set):
    model, processor = make_model(problem_type="multi_label_classification")
    labels = label_set.with_counts({"Iron": 3, "Milk, Human": 2, "Heart Failure": 1})
    labels = labels.update("Iron", threshold=0.875).update("Infant", threshold=0.125)
    model.set_labels(labels, processor)
    model.config.thresholds = {"seen": 0.25, "unseen": 0.625}
    return pipeline("label-scoring", model=model, processor=processor)


def index_of(pipe):
    return LabelIndex.build(pipe.model, pipe.processor, LabelSet.from_names(CANDIDATES))


def literal(pipe, candidates, multi_label=True):
    """Returns the probability of each label for each text."""
    words = pipe.processor(TEXTS, label_text=candidates, return_tensors="pt")
    logits = pipe.model.gile(**words).logits.detach()
    seen = torch.tensor([name.split(":")[0] in ("Iron", "Milk, Human", "Heart Failure") for name in candidates])
    logits = calibrated(logits, seen, pipe.model.config.calibration)
    probabilities = logits.sigmoid() if multi_label else logits.softmax(-1)
    return [dict(zip(candidates, row.tolist(), strict=True)) for row in probabilities]


FORMS = [("platt", True), ("platt of unseen", False), ("spline", True), ("spline", False)]


@pytest.mark.parametrize(("calibration", "multi_label"), FORMS)
def test_scores_are_calibrated_by_seen_and_unseen_group(pipe, calibration, multi_label):
    uncalibrated = pipe(TEXTS, CANDIDATES, multi_label=multi_label)
    pipe.model.config.calibration = calibration = CALIBRATIONS[calibration]
    forms = (CANDIDATES, LabelSet.from_names(CANDIDATES), index_of(pipe))
    for labels in forms:
        answers = pipe(TEXTS, labels, multi_label=multi_label, batch_size=3)
        for answer, expected in zip(answers, literal(pipe, CANDIDATES, multi_label), strict=True):
            assert scores(answer) == pytest.approx(expected, rel=1e-5)
            assert answer["scores"] == sorted(answer["scores"], reverse=True)
    assert answers != uncalibrated
    # The order of seen and unseen labels changes only if both groups are calibrated.
    assert (answers[0]["labels"] == uncalibrated[0]["labels"]) == (set(calibration) == {"unseen"})


def many_labels(num_labels=101):
    """Returns random codes of labels and of seven documents."""
    torch.manual_seed(0)
    return torch.randn(num_labels, 5), torch.randn(7, 5)


def test_scores_of_many_labels_are_computed_in_blocks_of_documents(monkeypatch):
    codes, text_codes = many_labels()
    choice = Choice(top_k=11, threshold=torch.rand(101), seen=torch.rand(101) < 0.5, calibration=CALIBRATIONS["spline"])
    at_once = best_labels(text_codes, codes, 0.5, choice)
    sizes = []

    def counted(texts, *rest):
        sizes.append(len(texts))
        return compute_scores(texts, *rest)

    monkeypatch.setattr(search_gile, "compute_scores", counted)
    monkeypatch.setattr(search_gile, "SCORES_AT_ONCE", 3 * 101)
    in_parts = best_labels(text_codes, codes, 0.5, choice)
    assert sizes == [3, 3, 1]
    full = calibrated(compute_scores(text_codes, codes, 0.5), choice.seen, choice.calibration).sigmoid()
    full = full.masked_fill(full < choice.threshold, -1)
    for whole, part, row in zip(at_once, in_parts, full, strict=True):
        assert whole.columns.tolist() == part.columns.tolist() == row.argsort(descending=True)[:11].tolist()
        torch.testing.assert_close(whole.scores, part.scores)


@pytest.mark.parametrize("k", [7, 60, 500])
@pytest.mark.parametrize("num_seen", [0, 3, 101])
@pytest.mark.parametrize("calibration", ["platt", "spline"])
def test_top_labels_of_both_groups_need_no_calibration_of_all(monkeypatch, k, num_seen, calibration):
    monkeypatch.setattr(search_gile, "_CPU_BLOCK", (3, 7))
    calibration = CALIBRATIONS[calibration]
    codes, text_codes = many_labels()
    seen = torch.zeros(101, dtype=torch.bool)
    seen[torch.randperm(101)[:num_seen]] = True
    full = calibrated(compute_scores(text_codes, codes, 0.5), seen, calibration).sigmoid()
    if 2 * k <= 101:
        monkeypatch.setattr(search_gile, "compute_scores", None)
    answers = best_labels(text_codes, codes, 0.5, Choice(top_k=k, seen=seen, calibration=calibration))
    for answer, row in zip(answers, full, strict=True):
        best = row.sort(descending=True, stable=True)
        assert answer.columns.tolist() == best.indices[:k].tolist()
        torch.testing.assert_close(answer.scores, best.values[:k])


@pytest.mark.parametrize(("num_seen", "softmax"), [(0, False), (50, False), (50, True)])
def test_ties_after_calibration_are_broken_by_uncalibrated_scores(num_seen, softmax):
    codes, text_codes = many_labels()
    codes[:] = (codes * 16).round() / 16  # all sums are exact in any order
    text_codes = (text_codes * 16).round() / 16
    codes[70:] = codes[:31]  # some logits are equal even without calibration
    seen = torch.arange(101) < num_seen
    flat = spline([-3.0, -2.5, 2.5, 3.0], [-4.0, 1.0, 1.00001, 2.0])
    choice = Choice(not softmax, seen=seen, calibration={"seen": flat, "unseen": flat})
    raw = compute_scores(text_codes, codes, 0.5)
    logits = calibrated(raw, seen, choice.calibration)
    rankings = [
        [column for *_, column in sorted(zip((-scores).tolist(), (-tie_breakers).tolist(), range(101), strict=True))]
        for scores, tie_breakers in zip(logits, raw, strict=True)
    ]
    assert len(logits[0].unique()) < len(raw[0].unique())
    for k in (None, 1, 40):
        answers = best_labels(text_codes, codes, 0.5, replace(choice, top_k=k))
        assert [answer.columns.tolist() for answer in answers] == [ranking[:k] for ranking in rankings]
    forced = best_labels(text_codes, codes, 0.5, replace(choice, threshold=1.0, force_label=True))
    assert [answer.columns.tolist() for answer in forced] == [ranking[:1] for ranking in rankings]


def test_a_label_threshold_takes_precedence_over_its_group_threshold(pipe):
    thresholds = {"Iron": 0.875, "Milk, Human": 0.25, "Blood": 0.625, "Risk of Infection": 0.625, "Infant": 0.125}
    full = pipe(TEXTS, CANDIDATES)
    assert {len(answer["labels"]) for answer in full} == {5}
    for labels in (CANDIDATES, index_of(pipe)):
        for answer, whole in zip(pipe(TEXTS, labels, threshold="stored", batch_size=3), full, strict=True):
            expected = {name: score for name, score in scores(whole).items() if score >= thresholds[name]}
            assert scores(answer) == pytest.approx(expected, rel=1e-6)
            assert answer["labels"] == list(expected)
    best, second = full[0]["labels"][:2]  # a better label below its threshold displaces no other
    labels = [Label("1", best.lower(), threshold=1.0), Label("2", second.lower(), threshold=0.0)]
    assert pipe(TEXTS[0], labels, threshold="stored", top_k=1)["labels"] == [second.lower()]


def test_stored_thresholds_follow_the_model(pipe):
    model, processor = pipe.model, pipe.processor
    assert pipe(TEXTS, threshold="stored") != pipe(TEXTS)
    model.config.thresholds = {"seen": 0.0, "unseen": 0.0}
    model.set_labels(model.label_set.update("Iron", threshold=None).update("Infant", threshold=0), processor)
    for labels in (None, CANDIDATES):
        assert pipe(TEXTS, labels, threshold="stored") == pipe(TEXTS, labels)
    model.config.thresholds["unseen"] = 1.0
    assert all("Blood" not in answer["labels"] for answer in pipe(TEXTS, CANDIDATES, threshold="stored"))
    model.config.thresholds = {}
    model.set_labels(LabelSet(replace(label, threshold=None) for label in model.label_set), processor)
    assert pipe(TEXTS, threshold="stored") == pipe(TEXTS, threshold=0.5)


@pytest.mark.parametrize("threshold", ["stored", 0.4, 1.0])
@pytest.mark.parametrize("multi_label", [True, False])
def test_top_k_selects_among_labels_above_their_threshold(pipe, threshold, multi_label):
    pipe.model.config.calibration = CALIBRATIONS["platt"]
    options = {"threshold": threshold, "multi_label": multi_label}
    passing = pipe(TEXTS, CANDIDATES, **options)
    forced = pipe(TEXTS, CANDIDATES, force_label=True, **options)
    best = pipe(TEXTS, CANDIDATES, multi_label=multi_label, top_k=1)
    for answer, forced_answer, best_answer in zip(passing, forced, best, strict=True):
        expected = scores(answer) or scores(best_answer)
        assert scores(forced_answer) == pytest.approx(expected, rel=1e-5)
        assert forced_answer["labels"] == list(expected)
    for answers, force_label in ((passing, False), (forced, True)):
        heads = pipe(TEXTS, CANDIDATES, top_k=2, force_label=force_label, **options)
        for answer, top in zip(answers, heads, strict=True):
            assert top["labels"] == answer["labels"][:2]
            assert top["scores"] == pytest.approx(answer["scores"][:2], rel=1e-5)


def test_a_model_that_stores_the_rule_assigns_at_least_the_best_label(pipe):
    model, processor = pipe.model, pipe.processor
    strict = LabelSet(replace(label, threshold=None) for label in model.label_set)
    model.set_labels(strict, processor)
    model.config.thresholds = {"seen": 1.0, "unseen": 1.0, "at_least": 1}
    for top_k in (None, 2):
        answers = pipe(TEXTS, threshold="stored", top_k=top_k)
        assert [answer["labels"] for answer in answers] == [answer["labels"] for answer in pipe(TEXTS, top_k=1)]
    assert pipe(TEXTS[0], threshold="stored", force_label=False)["labels"] == []
    assert pipe(TEXTS[0], threshold=1.0)["labels"] == []  # not the stored rule
    assert pipe(TEXTS[0], ["Iron", "Blood"], threshold="stored")["labels"] == []  # its label may be another
    model.config.thresholds = {"seen": 1.0, "at_least": 0}
    assert pipe(TEXTS[0], threshold="stored")["labels"] == []


def test_texts_unlike_the_training_documents_are_noticed_once(pipe, monkeypatch):
    said = []
    logger = SimpleNamespace(warning=said.append, warning_once=said.append)
    monkeypatch.setattr(pipeline_gile.logging, "get_logger", lambda name: logger)
    best = sorted(answer["scores"][0] for answer in pipe(TEXTS))
    config = pipe.model.config
    config.usual_score = best[0] * 0.99
    pipe(TEXTS * 13)
    assert pipe.note_on_texts() == ""
    config.usual_score = (best[1] + best[2]) / 2
    pipe(TEXTS * 4, CANDIDATES)  # other labels tell nothing
    assert said == []
    pipe(TEXTS * 20, batch_size=7)
    pipe(TEXTS)
    assert len(set(said)) == 1  # which is said once
    assert said[0].startswith("these texts look unlike those that the model was trained on: the best label of ")


def test_with_stored_thresholds_a_single_label_model_returns_the_best(make_model, label_set):
    model, processor = make_model(problem_type="single_label_classification")
    model.set_labels(label_set.with_counts({"Iron": 3}), processor)
    model.config.thresholds = {"seen": 0.99, "unseen": 0.99}
    pipe = pipeline("label-scoring", model=model, processor=processor)
    best = pipe(TEXTS, top_k=1)
    assert pipe(TEXTS, threshold="stored") == pipe(TEXTS, threshold="stored", top_k=3) == best
    assert [len(answer["labels"]) for answer in pipe(TEXTS, threshold="stored", multi_label=True)] == [0] * len(TEXTS)
