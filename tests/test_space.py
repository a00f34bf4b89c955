"""The demo page; tests/hf_gile_cli/test_space_command.py serves it."""

import pytest

from hf_gile import Label, LabelSet
from hf_gile.space import SHOWN, TEXT_LENGTH, read_labels, score_text

TEXT = "Breast milk for infants. Blood was drawn."


def test_the_page_shows_the_probabilities_of_the_pipeline(make_pipe):
    pipe = make_pipe()
    for typed, candidates in {"": None, "Iron\nRats: fed": {"Iron": "", "Rats": "fed"}}.items():
        scores, note = score_text(pipe, None, TEXT, typed, None)
        answer = pipe(TEXT, candidates)
        assert list(scores.items()) == list(zip(answer["labels"], answer["scores"], strict=True))
        assert note == ""
    assert "knows" in score_text(pipe, None, "zzz", "", None)[1]


def test_the_page_scores_the_labels_passed_in(make_pipe):
    labels = LabelSet([Label("1", "Rats"), Label("2", "Iron")])
    scores, _ = score_text(make_pipe(), labels, TEXT, "", None)
    assert set(scores) == {"Rats", "Iron"}


def test_only_the_best_of_many_labels_are_shown(make_pipe):
    typed = "\n".join(f"milk {number}" for number in range(30))
    assert len(score_text(make_pipe(), None, TEXT, typed, None)[0]) == SHOWN


def test_descriptions_follow_a_tab_or_colon():
    labels = read_labels("Iron\tFe: a metal\n\n Milk, Human: breast milk\nRe:search\nIron\tFe: a metal\n")
    described = [("Iron", "Fe: a metal"), ("Milk, Human", "breast milk"), ("Re:search", "")]
    assert [(label.name, label.description) for label in labels] == described
    assert read_labels(" \n") is None


@pytest.mark.parametrize(
    ("options", "text", "typed", "message"),
    [
        ({}, "a", "b" * (TEXT_LENGTH + 1), "20,000 characters each"),
        ({}, TEXT, "Iron: Fe\nIron: a metal", "has two descriptions"),
        ({"output_layer": "linear"}, TEXT, "Rats", "linear"),
    ],
)
def test_wrong_input_is_refused(make_pipe, options, text, typed, message):
    with pytest.raises(ValueError, match=message):
        score_text(make_pipe(**options), None, text, typed, None)
