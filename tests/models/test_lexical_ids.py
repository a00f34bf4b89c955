"""Hashes of words and character n-grams."""

import zlib

import pytest

from hf_gile.models import lexical_gile
from hf_gile.models.lexical_gile import LEXICAL_BUCKETS, LexicalFeatures, count_features, lexical_features


def test_features_are_hashes_that_never_change():
    assert lexical_features("milks") == [
        2 * zlib.crc32(b"milks") % LEXICAL_BUCKETS,
        2 * zlib.crc32(b"milk") % LEXICAL_BUCKETS + 1,
        2 * zlib.crc32(b"ilks") % LEXICAL_BUCKETS + 1,
    ]
    assert lexical_features("milks")[0] == 833932


@pytest.mark.parametrize(
    ("text", "same"), [("ﬁlm", "FILM"), ("Straße", "STRASSE"), ("e\u0301te\u0301", "été"), ("well-known", "well known")]
)
def test_case_and_unicode_form_are_ignored(text, same):
    assert lexical_features(text) == lexical_features(same)


@pytest.mark.parametrize(
    ("text", "number"),
    [("", 0), (" .,!", 0), ("\ud800", 0), ("हिन्दी भाषा।", 2), ("a" * 1000, 16)],
    ids=["empty", "no words", "half a character", "vowel signs", "cut"],
)
def test_texts_have_a_number_of_words(text, number):
    assert sum(feature % 2 == 0 for feature in lexical_features(text)) == number


def test_compounds_share_features_with_their_parts():
    shared = set(lexical_features("Haustier")) & set(lexical_features("Tierhaus"))
    assert len(shared) == 2  # haus, tier
    assert all(number % 2 for number in shared)


def test_east_asian_texts_share_character_features():
    assert set(lexical_features("機械学習")) & set(lexical_features("学習理論")) != set()


def test_words_of_a_title_count_three_times_and_follow_once_more():
    iron = lexical_features("iron")
    title = dict.fromkeys((LEXICAL_BUCKETS + feature for feature in iron), 1)
    assert count_features("iron\nmilk") == dict.fromkeys(iron, 3) | dict.fromkeys(lexical_features("milk"), 1) | title
    assert count_features("iron milk\n") == count_features(" \niron milk") == count_features("iron milk")


def test_a_short_text_of_one_line_is_a_title_whose_words_count_once():
    words = dict.fromkeys(sorted(lexical_features("iron milk")), 1)
    assert count_features("iron milk") == words | {LEXICAL_BUCKETS + feature: 1 for feature in words}
    longer = "milk " * 50 + "iron"
    assert set(count_features(longer)) == set(words)
    title = {LEXICAL_BUCKETS + feature for feature in lexical_features("iron")}
    assert set(count_features(f"iron\n{longer}")) == set(words) | title


def test_features_of_a_batch_are_padded_to_the_longest_document():
    lists = lexical_gile.list_features(["iron", "", "iron ore, iron"])
    features = LexicalFeatures.of(lexical_gile.pad_features(lists))
    assert (features.ids >= 0).sum(1).tolist() == [len(count_features(text)) for text in ("iron", "", "iron ore, iron")]
    assert features.counts[features.ids < 0].eq(0).all()
    for row, text in ((0, "iron"), (2, "iron ore, iron")):
        one = features.take([row])
        is_feature = one.ids >= 0
        pairs = zip(one.ids[is_feature].tolist(), one.counts[is_feature].tolist(), strict=True)
        assert dict(pairs) == count_features(text)
