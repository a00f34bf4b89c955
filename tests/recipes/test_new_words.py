"""The recipe for words learned after training, on synthetic sentences."""

import random

import numpy as np
import pytest

NOUNS = {"milk": 0, "iron": 0, "blood": 0, "water": 0, "heart": 1, "kidney": 1, "liver": 1, "lung": 1}
VERBS = ("flowing", "beating")


@pytest.fixture
def files(write):
    """Writes sentences with two kinds of nouns and verbs, and word vectors that distinguish the kinds."""
    draw = random.Random(1)
    for name, number in (("train", 40), ("test", 10)):
        chosen = [[draw.choice(list(NOUNS)) for _ in range(4)] for _ in range(number)]
        sentence = "The {} {} was seen today."
        texts = [" ".join(sentence.format(VERBS[NOUNS[noun]], noun) for noun in nouns) for nouns in chosen]
        write(f"{name}.jsonl.gz", [{"abstractText": text} for text in texts])
    kinds = np.random.default_rng(0).normal(size=(2, 6))
    rows = {noun: kinds[kind] + 0.01 * len(noun) for noun, kind in NOUNS.items()}
    rows |= {word: np.random.default_rng(ord(word[0])).normal(size=6) for word in ("the", *VERBS, "was", "seen")}
    lines = [" ".join([word, *(f"{number:.4f}" for number in row)]) for word, row in rows.items()]
    write("vectors.txt", "\n".join(lines) + "\n")
    return "--texts train.jsonl.gz --test test.jsonl.gz --word_vectors vectors.txt --output_dir out"


@pytest.mark.slow
def test_vectors_make_new_words_likelier_than_the_mean(files, run_recipe, monkeypatch):
    import new_words

    monkeypatch.setattr(new_words, "best_text_encoder", lambda words: None)
    for name, value in {"WORDS": 10, "NEW": 2, "CHOOSE": 1, "FREQUENT": 5, "LATER": (1, 2)}.items():
        monkeypatch.setattr(new_words, name, value)
    sizes = "--size 8 --layers 1 --joint_size 8 --steps 60 --learning_rate 0.02 --later_rate 0.5"
    results = run_recipe("new_words", f"{files} {sizes}").results
    runs = results["runs"]
    assert set(runs) == {f"{model}, {start}" for model in new_words.MODELS for start in new_words.STARTS}
    assert len({figures["0"]["new"]["positions"] for figures in runs.values()}) == 1
    for name in ("joint", new_words.TRAINED):
        assert runs[f"{name}, vectors"]["0"]["new"]["nll"] < runs[f"{name}, mean"]["0"]["new"]["nll"]
    for name, figures in runs.items():
        assert figures["2"]["new"]["nll"] < figures["0"]["new"]["nll"]
        assert figures["0"]["among_new"]["nll"] < figures["0"]["new"]["nll"]
        assert 0 <= figures["share_written"] <= 1
        trained = results["trained"][name.rpartition(", ")[0]]
        # Other words lose exactly the probability that the new words gain.
        assert figures["0"]["rest"]["nll"] > trained["rest"]["nll"]
        assert figures["0"]["every"]["positions"] > figures["0"]["rest"]["positions"] >= trained["rare"]["positions"]
