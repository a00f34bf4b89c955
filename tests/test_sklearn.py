"""GileClassifier in scikit-learn tools, over a tiny encoder."""

import pickle
from dataclasses import fields

import numpy as np
import pandas
import pytest
import train_table
from pages import blocks
from scipy.sparse import csr_matrix
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted, validate_data

from hf_gile import LabelSet
from hf_gile.sklearn import GileClassifier
from hf_gile.training.encoders import FoundEncoder
from hf_gile.training.options import STEPS

pytestmark = pytest.mark.usefixtures("short_search")

WORDS = {
    "heart": "heart failing cardiac ventricle",
    "iron": "iron anemia ferritin deficiency",
    "milk": "milk breast human feeding",
    "rats": "rats animal rodents laboratory",
}
NAMES = sorted(WORDS)


def draw(number, most=1, seed=0):
    """Texts, and of each the labels whose words it has."""
    draws = np.random.default_rng(seed)
    gold = [sorted(draws.choice(NAMES, draws.integers(1, most + 1), replace=False).tolist()) for _ in range(number)]
    return [" ".join(word for label in row for word in draws.permutation(WORDS[label].split())) for row in gold], gold


@pytest.fixture
def make(save_text_encoder):
    encoder = save_text_encoder(texts=[*WORDS.values(), "blood"])

    def classifier(labels=None, **options):
        return GileClassifier(labels, text_encoder=encoder, **options)

    return classifier


@pytest.mark.slow
def test_single_label_probabilities_sum_to_one(make, capsys):
    texts, gold = draw(140)
    model = make().fit(texts, [row[0] for row in gold])
    assert capsys.readouterr() == ("", "")
    assert model.classes_.tolist() == NAMES
    held, right = draw(20, seed=1)
    probabilities = model.predict_proba(held)
    assert probabilities.sum(1) == pytest.approx(np.ones(20), abs=1e-5)
    assert model.classes_[probabilities.argmax(1)].tolist() == model.predict(held).tolist()
    assert model.decision_function(held).argmax(1).tolist() == probabilities.argmax(1).tolist()
    assert model.score(held, [row[0] for row in right]) > 0.9


def test_decision_values_of_two_labels_are_one_dimensional(make):
    texts, gold = draw(40)
    model = make(settings={"lexical": False}).fit(texts, [int(row[0] in ("heart", "iron")) for row in gold])
    assert model.classes_.tolist() == [0, 1]
    assert not model.model_.config.lexical
    decisions = model.decision_function(texts)
    assert decisions.shape == (40,)
    assert (decisions > 0).astype(int).tolist() == model.predict(texts).tolist()


def test_labels_may_be_partly_described_and_added_after_fit(make, tmp_path):
    texts, gold = draw(60, most=2)
    model = make({"iron": "a metal in blood", "blood": ""}).fit(texts, gold)
    assert model.classes_.tolist() == [*NAMES, "blood"]
    assert [label.description for label in model.labels_] == ["", "a metal in blood", "", "", ""]
    assert model.labels_.seen == [True, True, True, True, False]
    assert sum(label.count for label in model.labels_) == sum(map(len, gold))  # fitted on all texts in the end
    assert model.score(texts, gold) > 0.7
    assert all(model.predict(["blood", "nothing of this"]))  # all training documents have a label
    before = model.predict_proba(texts)
    model.add_labels({"cardiac ventricle": "of the heart"})
    assert model.classes_.tolist() == [*NAMES, "blood", "cardiac ventricle"]
    after = model.predict_proba(texts)
    assert after[:, :5] == pytest.approx(before, abs=1e-5)
    assert after.shape == (60, 6)
    assert 0 < after[:, 5].min() < after[:, 5].max() < 1
    with pytest.raises(ValueError, match="id 'iron' is already used in row 2"):
        model.add_labels(["iron"])
    model.save_pretrained(tmp_path)
    assert (tmp_path / "labels.jsonl").is_file()
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict_proba(texts) == after).all()


def test_the_order_of_texts_does_not_change_the_model(make):
    texts, gold = draw(60, most=2)
    order = np.random.default_rng(1).permutation(60)
    model = make().fit(texts, gold)
    other = make().fit([texts[row] for row in order], [gold[row] for row in order])
    assert other.labels_ == model.labels_
    assert other.model_.config.term_weights == model.model_.config.term_weights
    assert (other.predict_proba(texts) == model.predict_proba(texts)).all()


@pytest.mark.slow
def test_the_scikit_learn_page_runs(save_text_encoder, monkeypatch, tmp_path):
    encoder = save_text_encoder(texts=["Rats were fed iron. Milk for infants drink human"])
    monkeypatch.setattr("hf_gile.training.fit.text_encoders", lambda texts: [FoundEncoder("all-MiniLM-L6-v2", encoder)])
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks("docs/scikit_learn.md"):
        exec(block, names)
    assert names["search"].best_score_ > 0.8
    assert (tmp_path / "runs/classifier/config.json").is_file()


class OfNumbers(GileClassifier):
    """Reads rows of numbers as texts, which is what scikit-learn checks classifiers with."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.one_d_array, tags.input_tags.string = True, False, False
        tags.classifier_tags.poor_score = True
        return tags

    def fit(self, X, y):
        X, y = validate_data(self, X, y, multi_output=True)
        return super().fit(words_of(X), y)

    def _logits(self, X):
        check_is_fitted(self)
        return super()._logits(words_of(validate_data(self, X, reset=False)))


def words_of(rows):
    return [" ".join(f"column{place}is{round(number)}" for place, number in enumerate(row)) for row in rows]


@pytest.mark.slow
def test_the_classifier_passes_check_estimator(make, monkeypatch):
    monkeypatch.setattr(GileClassifier.__init__, "__kwdefaults__", make().get_params() | {"labels": None})
    inexact = {"check_methods_sample_order_invariance": "sums of 32 bits are rounded by their order"}
    skipped = {"check_array_api_input"}
    results = check_estimator(OfNumbers(), expected_failed_checks=inexact, on_skip=None, on_fail=None)
    failed = {one["check_name"]: one["exception"] for one in results if one["status"] not in ("passed", "xfail")}
    assert failed.keys() <= skipped, failed
    assert len(results) > 50


def test_the_classifier_uses_the_defaults_of_the_command():
    classifier = GileClassifier()
    classifier._form = "lists"
    settings, args = classifier._settings("runs")
    different = {"problem_type": None, "baselines": True, "make_cards": True}
    defaults = {field.name: getattr(train_table.Recipe(), field.name) for field in fields(settings)}
    assert vars(settings) | different == defaults
    assert {name: getattr(args, name) for name in STEPS} == STEPS | {"report_to": []}


SIGNED = np.array([[1, -1], [-1, 1]])


@pytest.mark.parametrize(
    ("texts", "y", "options", "message"),
    [
        ("one text", ["a"], {}, "X must be a list of texts, got str"),
        (["a", "b"], ["a"], {}, "y must have labels for each of the 2 texts, got 1"),
        (["a", "b"], ["a", "b"], {}, "2 documents with labels are too few"),
        (["a", "b"], ["a", None], {}, r"y\[1\] is missing: leave out"),
        (["a", "b"], [["a"], "b"], {}, r"y\[1\] is 'b', but others are lists: pass a list for each text"),
        (["a", "b"], ["a;b", "b;c;a"], {}, "y: 'a;b' looks like several labels"),
        (["a", "b"], ["010", "100"], {}, "lists of zeros and ones, such as .*, say which of 3 labels"),
        (["a", "b"], [["a"], ["b"]], {"labels": LabelSet.from_names(["a", "c"])}, "no label has the id 'b'"),
        (["a", "b"], [[0, 1, 1], [1, 0, 0]], {"labels": ["a", "b"]}, "y has 3 columns, but labels has 2"),
        (["a", "b"], SIGNED, {}, r"y: a table must have zeros and ones, got -1\.0: pass y > 0\.5"),
        (["a"] * 4, [["a"], ["b"]] * 2, {"settings": {"epochs": 3}}, "hf-gile train has no setting epochs"),
    ],
)
def test_invalid_input_is_refused(texts, y, options, message):
    with pytest.raises(ValueError, match=message):
        GileClassifier(**options).fit(texts, y)


STORED = csr_matrix((np.array([1, 0, 1]), ([0, 0, 1], [0, 1, 1])))
FRAME = pandas.DataFrame([[1, 0], [1, 1]], columns=["mice", "rats"])
CELLS = pandas.Series([np.array(["mice", "rats"], object), np.array(["rats"], object), np.array([], object)])


@pytest.mark.parametrize(
    ("y", "labels", "gold", "classes"),
    [
        (FRAME, None, [["mice"], ["mice", "rats"]], ["mice", "rats"]),
        (FRAME, ["rats", "mice", "cats"], [["mice"], ["mice", "rats"]], ["mice", "rats", "cats"]),
        (STORED, None, [["0"], ["1"]], ["0", "1"]),
        (CELLS, None, [["mice", "rats"], ["rats"], []], ["mice", "rats"]),
        ([{"mice": 1, "rats": 0}, {"mice": 0, "rats": 0}], ["mice", "rats"], [["mice"], []], ["mice", "rats"]),
        ([[{"name": "mice"}], []], ["mice", "rats"], [["mice"], []], ["mice", "rats"]),
    ],
    ids=["columns", "columns of known labels", "stored zeros", "lists of Parquet", "numbers by label", "objects"],
)
def test_labels_are_read_in_every_form(y, labels, gold, classes):
    classifier = GileClassifier(labels)
    found, known = classifier._read_labels(y)
    assert found == gold
    assert [*known] == classifier.classes_.tolist() == classes
    assert (classifier._form == "lists") == (y is not FRAME and y is not STORED)


def test_a_text_of_each_label_is_enough(make):
    model = make().fit([*WORDS.values()], [*WORDS])
    assert model.predict([*WORDS.values()]).tolist() == [*WORDS]
