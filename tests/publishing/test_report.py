"""Reports on labelled documents."""

import math

import numpy as np
import pytest
import torch
from answers import logits_of
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score
from two_languages import LABELS, TEXTS, make_bilingual

from hf_gile import GileConfig, GileForSequenceClassification, GileProcessor
from hf_gile.metrics import CalibrationMetrics, LabelMetrics
from hf_gile.models.search_gile import calibrated
from hf_gile.publishing import Report, make_report

WORDS = ["breast", "milk", "infants", "heart", "blood", "rats", "iron", "infection", "risk", "diet", "weeks"]
PLATT = {"method": "platt", "scale": 0.7, "offset": 0.3}
CALIBRATION = {"seen": PLATT, "unseen": PLATT | {"scale": 0.4, "offset": 0.0}}


@pytest.fixture
def documents():
    """Returns 23 texts with known words, and gold labels for most of them."""
    chosen = np.random.default_rng(3)
    texts = [" ".join(chosen.choice(WORDS, 7)) for _ in range(23)]
    names = ["Heart Failure", "Milk, Human", "Iron", "Infant", "Blood"]
    gold = [chosen.choice(names, row % 4, replace=False).tolist() for row in range(23)]
    return texts, gold


@pytest.fixture
def make(make_model, label_set):
    """Creates a model with two unseen labels, and thresholds that assign some labels."""

    def make(calibration=None, **options):
        model, processor = make_model(embedding_std=4.0, **options)
        with torch.no_grad():
            model.gile.output_layer.classifier.bias.fill_(-3.0)
        counts = {"Heart Failure": 7, "Milk, Human": 3, "Iron": 1}
        counted = label_set.with_counts(counts).update("Iron", threshold=0.45)
        model.set_labels(counted, processor, model.label_input_ids)
        model.config.calibration = calibration or {}
        model.config.thresholds = {"seen": 0.41, "unseen": 0.37}
        return model, processor

    return make


def score(model, processor, texts):
    return logits_of(model, processor(texts, return_tensors="pt"))


def multi_hot(model, gold):
    rows = torch.zeros(len(gold), len(model.label_set))
    for row, ids in zip(rows, gold, strict=True):
        row[model.label_set.columns(ids)] = 1.0
    return rows


def test_report_metrics_equal_metrics_of_all_scores(make, documents):
    texts, gold = documents
    model, processor = make(CALIBRATION)
    report = make_report(model, processor, texts, gold, batch_size=3, num_training_documents=11)
    raw, truth = score(model, processor, texts), multi_hot(model, gold)
    scores = calibrated(raw, model.stored_labels.seen(), model.config.calibration)
    seen = model.stored_labels.seen()
    expected = LabelMetrics(5, seen, model.stored_labels.thresholds(), top_k=(1, 3, 5))
    expected.update(scores, truth)
    error = CalibrationMetrics(5, seen)
    error.update(scores, truth)
    for name, value in {**expected.compute(), **error.compute()}.items():
        assert (name in report.metrics) == math.isfinite(value), name
        if math.isfinite(value):
            assert report.metrics[name] == pytest.approx(value, abs=1e-6), name
    assert 0 < report.metrics["psp_at_3"] <= 1
    error.reset()
    error.update(raw, truth)
    name = "unseen_expected_calibration_error"
    assert report.metrics[f"uncalibrated_{name}"] == pytest.approx(error.compute()[name], abs=1e-6)
    assert report.metrics[f"uncalibrated_{name}"] != pytest.approx(report.metrics[name], abs=1e-3)
    times = ["before", "after"]
    assert {group: list(bins) for group, bins in report.reliability.items()} == {"seen": times, "unseen": times}
    assert sum(entry["count"] for entry in report.reliability["seen"]["before"]) == 23 * 3


def test_per_label_metrics_equal_scikit_learn(make, documents):
    texts, gold = documents
    model, processor = make(CALIBRATION)
    report = make_report(model, processor, texts, gold)
    scores = calibrated(score(model, processor, texts), model.stored_labels.seen(), model.config.calibration)
    assigned = (scores.sigmoid() >= model.stored_labels.thresholds()).numpy()
    truth = multi_hot(model, gold).numpy()
    assert [row["id"] for row in report.labels] == model.label_set.ids
    for column, row in enumerate(report.labels):
        pair = truth[:, column], assigned[:, column]
        assert row["support"] == truth[:, column].sum()
        expected = {
            "precision": precision_score(*pair, zero_division=np.nan),
            "recall": recall_score(*pair, zero_division=np.nan),
            "f1": f1_score(*pair, zero_division=np.nan),
        }
        for name, value in expected.items():
            assert row[name] == (None if math.isnan(value) else pytest.approx(value, abs=1e-4)), (row, name)
    assert [row["count"] for row in report.labels] == [7, 3, 1, 0, 0]
    assert [row["threshold"] for row in report.labels] == pytest.approx([0.41, 0.41, 0.45, 0.37, 0.37])


def test_only_candidates_are_measured(make, documents):
    texts, gold = documents
    model, processor = make()
    report = make_report(model, processor, texts, gold, columns=[3, 0, 1])
    candidates = ["Heart Failure", "Milk, Human", "Infant"]
    selected = [[label_id for label_id in ids if label_id in candidates] for ids in gold]
    assert [row["id"] for row in report.labels] == candidates
    expected = LabelMetrics(3, [True, True, False], model.stored_labels.thresholds()[[0, 1, 3]])
    expected.update(score(model, processor, texts)[:, [0, 1, 3]], multi_hot(model, selected)[:, [0, 1, 3]])
    for name in ("seen_average_precision", "micro_f1", "unseen_macro_f1"):
        assert report.metrics[name] == pytest.approx(expected.compute()[name], abs=1e-6)
    assert report.metrics == make_report(model, processor, texts, gold, columns=torch.tensor([0, 1, 3])).metrics


def test_single_label_models_predict_the_best_label(make, documents):
    texts, _ = documents
    model, processor = make(CALIBRATION, problem_type="single_label_classification")
    ids = model.label_set.ids
    gold = [ids[row % 5] for row in range(22)]
    report = make_report(model, processor, texts, [*gold, []])
    scores = calibrated(score(model, processor, texts), model.stored_labels.seen(), model.config.calibration)
    predicted = [ids[column] for column in scores[:22].argmax(dim=1).tolist()]
    assert report.metrics["accuracy"] == pytest.approx(accuracy_score(gold, predicted))
    seen = [row for row in range(22) if gold[row] in ids[:3]]
    assert report.metrics["seen_accuracy"] == pytest.approx(sum(predicted[j] == gold[j] for j in seen) / len(seen))
    assert all(row["threshold"] is None for row in report.labels)
    metric = CalibrationMetrics(5, model.stored_labels.seen())
    metric.update(scores.double().softmax(dim=1).logit(), multi_hot(model, [*([x] for x in gold), []]))
    for name, value in metric.compute().items():
        assert report.metrics[name] == pytest.approx(value, abs=1e-6), name


def test_a_bare_linear_unit_is_measured_by_its_label_names(tokenizer):
    config = GileConfig(vocab_size=len(tokenizer), output_layer="linear", num_labels=3)
    model, processor = GileForSequenceClassification(config), GileProcessor.for_config(tokenizer, config)
    report = make_report(model, processor, ["iron", "milk"], [["LABEL_2"], []])
    assert [(row["id"], row["support"]) for row in report.labels] == [("LABEL_0", 0), ("LABEL_1", 0), ("LABEL_2", 1)]
    assert list(report.reliability) == ["seen"]
    assert "seen_micro_f1" not in report.metrics


def test_documents_are_measured_on_labels_of_their_language():
    model, processor = make_bilingual(LABELS.with_counts(dict.fromkeys(LABELS.ids, 1)))
    documents = [text for pair in zip(*TEXTS.values(), strict=True) for text in pair]
    gold = [["english:gift"], ["german:gift"], ["english:iron"], ["german:eisen"]]
    mixed = make_report(model, processor, documents, gold, language=["english", "german"] * 2, batch_size=3)
    assert [row["support"] for row in mixed.labels] == [1, 0, 1, 1, 1]
    assert sum(entry["count"] for entry in mixed.reliability["seen"]["before"]) == 2 * 3 + 2 * 2
    german = make_report(model, processor, TEXTS["german"], gold[1::2], language="german")
    assert [row["support"] for row in german.labels] == [0, 0, 0, 1, 1]
    with pytest.raises(ValueError, match="language must have an entry for each of the 4 texts, got 1"):
        make_report(model, processor, documents, gold, language=["english"])


def test_reports_survive_saving_and_loading(make, documents, tmp_path):
    model, processor = make(CALIBRATION)
    report = make_report(model, processor, *documents, dataset='A "set" | ☃', command="python x.py")
    report.save(tmp_path / "new" / "results.json")
    assert Report.load(tmp_path / "new" / "results.json") == report
    assert report.versions.keys() == {"hf_gile", "transformers", "torch", "python"}
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["results.json"]


WITH_NAN = b'{"metrics": {"micro_f1": NaN}, "labels": []}'
OTHERS = {"no labels": (b'{"metrics": {}}', "'labels'"), "NaN": (WITH_NAN, "the number NaN")}


@pytest.mark.parametrize(("content", "message"), [*OTHERS.values(), (b"\xff secret" * 999, "")], ids=range(3))
def test_a_file_that_is_not_a_report_is_named_and_not_quoted(tmp_path, content, message):
    (tmp_path / "results.json").write_bytes(content)
    with pytest.raises(ValueError, match=rf"results\.json is not a report .*{message}") as error:
        Report.load(tmp_path / "results.json")
    assert len(str(error.value)) < len(str(tmp_path)) + 500


def test_empty_and_mismatched_inputs_are_refused(make, documents):
    texts, gold = documents
    model, processor = make()
    with pytest.raises(ValueError, match="at least one document"):
        make_report(model, processor, [], [])
    with pytest.raises(ValueError, match="for each of the 23 texts, got 3"):
        make_report(model, processor, texts, gold[:3])
    with pytest.raises(ValueError, match=r"gold\[1\]: no label has the id 'Irn' .*did you mean 'Iron'"):
        make_report(model, processor, texts[:2], [[], ["Irn"]])
    for columns in ([], [5], [0, 0], [0.5]):
        with pytest.raises(ValueError, match="columns must be distinct indices of the 5 stored labels"):
            make_report(model, processor, texts, gold, columns=columns)
    single, processor = make(problem_type="single_label_classification")
    with pytest.raises(ValueError, match=r"gold\[0\] has 2 labels, but the model predicts a single label"):
        make_report(single, processor, texts[:1], [["Iron", "Blood"]])
