import pytest

from hf_gile import Label
from hf_gile.data.homonyms import distinguish


@pytest.mark.parametrize(
    ("hints", "texts"),
    [
        ({"3": ["nature", "", "Hg"], "5": ["nature", "", "a planet"]}, ["Mercury: Hg", "Mercury: a planet"]),
        ({"5": ["planets"]}, ["Mercury", "Mercury: planets"]),
        ({}, ["Mercury: 3", "Mercury: 5"]),
        (
            {"3": ["planets"], "5": ["people", "a singer"], "7": ["people", "a god"]},
            ["Mercury: planets", "Mercury: people. a singer", "Mercury: people. a god"],
        ),
    ],
)
def test_labels_of_the_same_text_are_distinguished_by_their_first_hint_that_differs(hints, texts):
    labels = [Label(label_id, "Mercury") for label_id in "357"[: len(texts)]]
    assert distinguish(labels, hints).texts == texts


def test_hints_follow_the_description_and_ids_follow_hints_of_another_label():
    labels = [Label("3", "Mercury", "it shines"), Label("5", "Mercury", "it shines")]
    texts = distinguish(labels, {"3": ["metals"], "5": ["planets"]}).texts
    assert texts == ["Mercury: it shines. metals", "Mercury: it shines. planets"]
    labels = [Label("3", "Mercury"), Label("5", "Mercury"), Label("7", "Mercury", "planets")]
    texts = distinguish(labels, {"3": ["metals"], "5": ["planets"], "7": ["gods"]}).texts
    assert texts == ["Mercury: metals", "Mercury: planets. 5", "Mercury: planets. 7"]


def test_the_same_text_in_two_languages_is_no_homonym():
    labels = [Label("3", "Mercury", language="english"), Label("5", "Mercury", language="french")]
    assert list(distinguish(labels, {"3": ["metals"], "5": ["planets"]})) == labels
