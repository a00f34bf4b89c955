import pytest

from hf_gile import Label
from hf_gile.data import ReadReport
from hf_gile.data.homonyms import check_choices, distinguish, join_descriptions


def test_labels_with_different_texts_are_unchanged():
    labels = [Label("3", "Mercury", "a metal"), Label("5", "Mercury"), Label("7", "Venus")]
    report = ReadReport()
    assert list(distinguish(labels, {"3": ["metals"], "5": ["planets"]}, report)) == labels
    assert report.left_out == {}


def test_a_hint_is_appended_to_the_description():
    labels = [Label("3", "Mercury", "it shines"), Label("5", "Mercury", "it shines")]
    texts = distinguish(labels, {"3": ["metals"], "5": ["planets"]}).texts
    assert texts == ["Mercury: it shines. metals", "Mercury: it shines. planets"]


def test_hints_shared_by_all_homonyms_are_skipped():
    labels = [Label("3", "Mercury"), Label("5", "Mercury")]
    texts = distinguish(labels, {"3": ["nature", "", "Hg"], "5": ["nature", "", "a planet"]}).texts
    assert texts == ["Mercury: Hg", "Mercury: a planet"]


def test_a_missing_hint_differs_from_a_hint():
    assert distinguish([Label("3", "Mercury"), Label("5", "Mercury")], {"5": ["planets"]}).texts == [
        "Mercury",
        "Mercury: planets",
    ]


def test_labels_with_the_same_hint_get_a_second_hint():
    labels = [Label(label_id, "Mercury") for label_id in "357"]
    hints = {"3": ["planets"], "5": ["people", "a singer"], "7": ["people", "a god"]}
    texts = distinguish(labels, hints).texts
    assert texts == ["Mercury: planets", "Mercury: people. a singer", "Mercury: people. a god"]


def test_ids_distinguish_homonyms_without_hints():
    assert distinguish([Label("3", "Mercury"), Label("5", "Mercury")], {}).texts == ["Mercury: 3", "Mercury: 5"]


def test_a_hint_that_reproduces_another_label_is_followed_by_ids():
    labels = [Label("3", "Mercury"), Label("5", "Mercury"), Label("7", "Mercury", "planets")]
    texts = distinguish(labels, {"3": ["metals"], "5": ["planets"], "7": ["gods"]}).texts
    assert texts == ["Mercury: metals", "Mercury: planets. 5", "Mercury: planets. 7"]


def test_the_same_text_in_two_languages_is_no_homonym():
    labels = [Label("3", "Mercury", language="english"), Label("5", "Mercury", language="french")]
    assert list(distinguish(labels, {"3": ["metals"], "5": ["planets"]})) == labels


def test_each_homonym_is_counted_once():
    report = ReadReport()
    hints = {"3": ["a", "c"], "5": ["a", "d"]}
    distinguish([Label("3", "Mercury"), Label("5", "Mercury"), Label("7", "Venus")], hints, report, "a.ttl")
    assert report.homonyms == 2
    assert str(report).endswith("; left out: none; labels with the same text, distinguished by their descriptions: 2")
    report.add(report)
    assert report.homonyms == 4


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([], "a.ttl: no labels"),
        ([Label("3", "Mercury"), Label("3", "Mercury")], "a.ttl, row 2: id '3' is already used in row 1"),
    ],
)
def test_homonyms_that_hints_cannot_distinguish_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        distinguish(labels, {}, source="a.ttl")


def test_descriptions_end_without_a_full_stop():
    assert join_descriptions(["one. ", "", "two", "three..."]) == "one. two. three"
    assert join_descriptions([]) == join_descriptions(["", "."]) == ""


@pytest.mark.parametrize("describe", ["definitions", ["broader", "broader"], [None], ["definition", 5]])
def test_an_unknown_choice_is_refused_with_the_valid_choices(describe):
    with pytest.raises(ValueError, match="describe must be distinct parts of definition, broader, in any order, got"):
        check_choices(describe, ("definition", "broader"))


def test_choices_keep_their_order_and_may_be_a_single_string():
    assert check_choices(["broader", "definition"], ("definition", "broader")) == ("broader", "definition")
    assert check_choices("broader", ("definition", "broader")) == ("broader",)
    assert check_choices((), ("definition", "broader")) == ()
