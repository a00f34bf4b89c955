import pytest

from hf_gile import Label
from hf_gile.data import ReadReport
from hf_gile.data.homonyms import check_choices, described, distinct


def test_labels_with_different_texts_are_unchanged():
    labels = [Label("3", "Mercury", "a metal"), Label("5", "Mercury"), Label("7", "Venus")]
    report = ReadReport()
    assert list(distinct(labels, {"3": ["metals"], "5": ["planets"]}, report)) == labels
    assert report.left_out == {}


def test_a_hint_goes_behind_the_description():
    labels = [Label("3", "Mercury", "it shines"), Label("5", "Mercury", "it shines")]
    texts = distinct(labels, {"3": ["metals"], "5": ["planets"]}).texts
    assert texts == ["Mercury: it shines. metals", "Mercury: it shines. planets"]


def test_hints_that_are_the_same_for_all_are_passed_over():
    labels = [Label("3", "Mercury"), Label("5", "Mercury")]
    texts = distinct(labels, {"3": ["nature", "", "Hg"], "5": ["nature", "", "a planet"]}).texts
    assert texts == ["Mercury: Hg", "Mercury: a planet"]


def test_an_empty_hint_differs_from_another_one():
    assert distinct([Label("3", "Mercury"), Label("5", "Mercury")], {"5": ["planets"]}).texts == [
        "Mercury",
        "Mercury: planets",
    ]


def test_those_that_one_hint_leaves_alike_get_another_one():
    labels = [Label(label_id, "Mercury") for label_id in "357"]
    hints = {"3": ["planets"], "5": ["people", "a singer"], "7": ["people", "a god"]}
    texts = distinct(labels, hints).texts
    assert texts == ["Mercury: planets", "Mercury: people. a singer", "Mercury: people. a god"]


def test_ids_distinguish_homonyms_without_hints():
    assert distinct([Label("3", "Mercury"), Label("5", "Mercury")], {}).texts == ["Mercury: 3", "Mercury: 5"]


def test_a_hint_may_lead_into_the_text_of_another_label():
    labels = [Label("3", "Mercury"), Label("5", "Mercury"), Label("7", "Mercury", "planets")]
    texts = distinct(labels, {"3": ["metals"], "5": ["planets"], "7": ["gods"]}).texts
    assert texts == ["Mercury: metals", "Mercury: planets. 5", "Mercury: planets. 7"]


def test_the_same_text_in_two_languages_is_not_shared():
    labels = [Label("3", "Mercury", language="english"), Label("5", "Mercury", language="french")]
    assert list(distinct(labels, {"3": ["metals"], "5": ["planets"]})) == labels


def test_every_label_whose_text_was_shared_is_counted_once():
    report = ReadReport()
    hints = {"3": ["a", "c"], "5": ["a", "d"]}
    distinct([Label("3", "Mercury"), Label("5", "Mercury"), Label("7", "Venus")], hints, report, "a.ttl")
    assert report.left_out == {"text shared by several labels": 2}
    assert report.examples["text shared by several labels"] == ["a.ttl: 'Mercury' (3)", "a.ttl: 'Mercury' (5)"]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([], "a.ttl: no labels"),
        ([Label("3", "Mercury"), Label("3", "Mercury")], "a.ttl, row 2: id '3' is already used in row 1"),
    ],
)
def test_what_hints_cannot_mend_is_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        distinct(labels, {}, source="a.ttl")


def test_descriptions_are_sentences_without_a_last_full_stop():
    assert described(["one. ", "", "two", "three..."]) == "one. two. three"
    assert described([]) == described(["", "."]) == ""


@pytest.mark.parametrize("describe", ["definitions", ["broader", "broader"], [None], ["definition", 5]])
def test_what_is_no_choice_names_the_choices(describe):
    with pytest.raises(ValueError, match="describe takes any of definition, broader, each once and in any order; got"):
        check_choices(describe, ("definition", "broader"))


def test_choices_keep_their_order_and_one_may_stand_alone():
    assert check_choices(["broader", "definition"], ("definition", "broader")) == ("broader", "definition")
    assert check_choices("broader", ("definition", "broader")) == ("broader",)
    assert check_choices((), ("definition", "broader")) == ()
