"""Words and parts of words as numbers."""

import zlib

import pytest

from hf_gile.models.processing_gile import LEXICAL_BUCKETS, lexical_ids


def words_of(text):
    return [number for number in lexical_ids(text) if number % 2 == 0]


def test_ids_are_hashes_that_never_change():
    assert lexical_ids("milks") == [
        2 * zlib.crc32(b"milks") % LEXICAL_BUCKETS,
        2 * zlib.crc32(b"milk") % LEXICAL_BUCKETS + 1,
        2 * zlib.crc32(b"ilks") % LEXICAL_BUCKETS + 1,
    ]
    assert lexical_ids("milks")[0] == 833932


def test_repeats_stand_as_often_as_they_occur():
    assert lexical_ids("a dog, a cat") == [*lexical_ids("a dog"), *lexical_ids("a cat")]


@pytest.mark.parametrize(
    ("text", "same"), [("ﬁlm", "FILM"), ("Straße", "STRASSE"), ("e\u0301te\u0301", "été"), ("well-known", "well known")]
)
def test_case_and_form_do_not_count(text, same):
    assert lexical_ids(text) == lexical_ids(same)


def test_compounds_share_parts():
    shared = set(lexical_ids("Haustier")) & set(lexical_ids("Tierhaus"))
    assert len(shared) == 2  # haus, tier
    assert all(number % 2 for number in shared)


def test_short_words_have_no_parts():
    assert len(lexical_ids("milk")) == 1


def test_words_of_scripts_with_vowel_signs_are_whole():
    assert len(words_of("हिन्दी भाषा।")) == 2


def test_east_asian_texts_share_parts():
    assert set(lexical_ids("機械学習")) & set(lexical_ids("学習理論")) != set()


@pytest.mark.parametrize("text", ["", " .,!", "\ud800"])
def test_texts_without_words_have_none(text):
    assert lexical_ids(text) == []


def test_endless_words_are_cut():
    assert len(words_of("a" * 1000)) == 16
