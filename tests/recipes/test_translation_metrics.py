"""BLEU comparisons of systems, and word F1 by training frequency."""

import pytest
import sacrebleu
from papers.translation import compare_translations, word_f1_by_frequency

RIGHT = [f"the {size} {animal} sleeps in the {place}" for size in "ab" for animal in "cd" for place in ("sun", "snow")]


def test_bleu_equals_sacrebleu_and_p_values_separate_chance_from_difference():
    wrong = [line.replace("sleeps in", "runs off") for line in RIGHT]
    near = [*RIGHT[:-1], "the b d sleeps in some snow"]
    other = ["the a c rests in the sun", *RIGHT[1:]]
    systems = {"near": near, "other": other, "wrong": wrong, "right": RIGHT}
    figures = compare_translations(systems, RIGHT, samples=200)
    for name, lines in systems.items():
        assert figures[name]["bleu"] == pytest.approx(sacrebleu.corpus_bleu(lines, [RIGHT]).score)
        assert figures[name]["interval"] >= 0
    assert "p_value" not in figures["near"]
    assert figures["wrong"]["p_value"] < 0.01 < 0.1 < figures["other"]["p_value"]
    assert figures["right"]["interval"] < 1e-6 < figures["near"]["interval"]


def test_each_system_needs_a_translation_of_each_reference():
    with pytest.raises(ValueError, match="short has 2 translations, but there are 8"):
        compare_translations({"all": RIGHT, "short": RIGHT[:2]}, RIGHT)


def test_word_f1_is_computed_for_each_third_of_frequency():
    training = ["a a a a b b b c c", "c d d e f"]  # e, f; b, d; a, c: ranked by their counts
    results = word_f1_by_frequency(["A b e x", "a a d"], ["a b e", "f c"], training)
    # (correct, predicted, gold) are (1, 1, 2) for low, (1, 2, 1) for medium, and (1, 3, 2) for high frequencies.
    assert results == pytest.approx({"low": 2 / 3, "medium": 2 / 3, "high": 2 / 5})
