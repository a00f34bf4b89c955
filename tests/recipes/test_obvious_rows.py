"""The scikit-learn baselines of recipes, on the documents and candidates of a unit."""

import numpy as np
import obvious_rows
import pytest
import torch
from datasets import Dataset
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import label_ranking_average_precision_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC
from transformers import TrainingArguments

from hf_gile import Label, LabelSet
from hf_gile.training.options import Options
from hf_gile.training.study import Study
from hf_gile.training.task import TextTask

WORDS = {"heart": "ventricle output pumped", "milk": "breast feeding infant", "iron": "ferritin anemia deficiency"}
TEXTS = [f"{' '.join(words.split()[k:])} of {name} in {k} rats" for k in range(3) for name, words in WORDS.items()]
TEXTS += ["milk of infant with anemia", "ventricle and ferritin", "a rat"]
GOLD = [[name] for _ in range(3) for name in WORDS] + [["milk", "iron"], ["heart", "iron"], []]


def documents(texts, gold):
    return Dataset.from_dict({"text": texts, "labels": gold})


def study_of(tmp_path, test, gold=GOLD, unseen=(), lines=None):
    """Creates the study of a unit: labels in `WORDS` are seen, other labels unseen."""
    known = [Label(name, name.title(), seen=True, count=sum(name in row for row in gold)) for name in WORDS]
    labels = LabelSet([*known, *(Label(name, name.title()) for name in unseen)])
    parts = {"train": documents(TEXTS, gold), "validation": documents(TEXTS[:9], GOLD[:9]), "test": test}
    study = Study(Options(), TrainingArguments(str(tmp_path), use_cpu=True), TextTask(parts, labels))
    study.say = print if lines is None else lines.append
    return study


def test_the_linear_svm_equals_scikit_learn(tmp_path):
    texts = ["infant milk feeding", "anemia in rats", "pumped by ventricle with iron"]
    study = study_of(tmp_path, documents(texts, [["milk"], ["iron"], []]))
    rows = obvious_rows.obvious_rows(study, (2,))
    assert list(rows) == ["tfidf_linear_svm"]
    # Words that only occur in labels also have columns, which are zero in all training documents.
    features = TfidfVectorizer(sublinear_tf=True)
    gold = np.array([[name in row for name in WORDS] for row in GOLD], dtype=int)
    svm = OneVsRestClassifier(LinearSVC(random_state=0)).fit(features.fit_transform(TEXTS), gold)
    expected = svm.decision_function(features.transform(texts))
    words = obvious_rows.Words(study)
    scores = obvious_rows.linear_svm(words, study.described)(words.documents["test"])
    np.testing.assert_allclose(scores, expected, atol=1e-3)
    figures = rows["tfidf_linear_svm"]
    precision = label_ranking_average_precision_score([[0, 1, 0], [0, 0, 1]], expected[:2])
    assert figures["test"]["test_average_precision"] == pytest.approx(precision)
    assert figures["test"].keys() >= {"test_precision_at_1", "test_recall_at_2", "test_psp_at_2", "test_micro_f1"}
    validation = svm.decision_function(features.transform(TEXTS[:9]))
    predicted = torch.from_numpy(validation).sigmoid().numpy() >= figures["threshold"]
    assert (predicted == gold[:9]).all()  # the threshold separates the validation documents
    assert figures["seconds"] > 0


def test_the_table_has_no_figures_over_labels_that_a_system_cannot_score(tmp_path):
    lines = []
    test = documents(["milk, milk, milk, zebra", "milk"], [["zebra"], ["milk"]])
    study = study_of(tmp_path, test, unseen=["caries", "zebra"], lines=lines)
    obvious_rows.measure_obvious_rows(study)
    study.show()
    groups, headings, svm, cosine, *notes = next(text for text in lines if text.startswith("\ntest")).split("\n")[1:]
    assert " ".join(groups.split()) == "test all labels seen labels unseen labels unseen among all"
    assert headings.split() == ["AvgPr", "micro-F1"] * 3 + ["AvgPr", "minutes"]
    assert svm.split()[:5] == ["tfidf_linear_svm", "-", "-", "100.00", svm.split()[4]]
    assert svm.split()[5:-1] == ["-"] * 3
    assert cosine.split()[1] == "75.00"  # zebra is second to milk
    assert cosine.split()[-2] == "50.00"
    assert {len(line) for line in (headings, svm, cosine)} == {len(headings)}
    assert notes[0] == "test documents: 2; labels: 3 seen, 2 unseen"


def test_single_label_documents_are_measured_by_the_best_label(tmp_path):
    gold = [[row[0]] if row else ["milk"] for row in GOLD]
    test = documents(["infant milk", "anemia", "zebra", "breast"], [["milk"], ["iron"], ["zebra"], ["iron"]])
    rows = obvious_rows.obvious_rows(study_of(tmp_path, test, gold, unseen=["zebra"]), ())
    # The SVM has no third label, so the document with this label is not evaluated.
    assert rows["tfidf_linear_svm"]["test"]["test_accuracy"] == pytest.approx(2 / 3)
    assert rows["tfidf_cosine"]["test"]["test_accuracy"] == pytest.approx(1 / 2)
    assert "threshold" not in rows["tfidf_linear_svm"]
    ties = documents(["a dog", "a zebra", "milk, milk and iron"], [["heart"], ["zebra"], ["milk"]])
    figures = obvious_rows.obvious_rows(study_of(tmp_path, ties, gold, unseen=["zebra"]), ())["tfidf_cosine"]["test"]
    assert figures["test_precision_at_1"] == pytest.approx(2 / 3)
    assert figures["test_accuracy"] == pytest.approx(2 / 3)  # a tie is no hit
    assert figures["test_average_precision"] == pytest.approx((1 / 4 + 1 + 1) / 3)


def test_neighbours_replace_an_svm_that_would_take_minutes(tmp_path, monkeypatch):
    lines = []
    monkeypatch.setattr(obvious_rows, "MAX_PRODUCTS", 10)
    monkeypatch.setattr(obvious_rows, "NEIGHBOURS", 2)
    study = study_of(tmp_path, documents(["ferritin anemia", "rats"], [["iron"], []]), lines=lines)
    rows = obvious_rows.obvious_rows(study, ())
    assert list(rows) == ["tfidf_neighbours"]
    assert lines[0] == "tfidf_linear_svm left out: 3 labels x 12 documents take more than a minute"
    words = obvious_rows.Words(study)
    cosines = (words.documents["test"] @ words.documents["train"].T).toarray()[0]
    near = np.argsort(-cosines)[:2]
    expected = [sum(cosines[row] ** 2 for row in near if name in GOLD[row]) for name in WORDS]
    scores = obvious_rows.neighbours(words, study.described)(words.documents["test"])[0]
    np.testing.assert_allclose(scores, np.array(expected) / (cosines[near] ** 2).sum())
