import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from hf_gile import Label, LabelSet
from hf_gile.models.pipeline_gile import LabelCache

MODEL = ("state of the model",)


def kept(cache, labels, state=MODEL, size=1, languages=()):
    """Return whether the codes of labels were cached; caches them otherwise."""
    made = []
    cache.codes(labels, languages, lambda words: state, lambda: (made.append(1) or torch.zeros(size, 5), None))
    return not made


def labels(name):
    return LabelSet.from_names([name])


def test_least_recently_used_codes_are_evicted_first():
    cache = LabelCache(max_bytes=3 * 20)
    for name in "abc":
        assert not kept(cache, labels(name))
    assert kept(cache, labels("a"))
    assert not kept(cache, labels("d"))
    assert kept(cache, labels("a"))
    assert kept(cache, labels("c"))
    assert not kept(cache, labels("b"))
    assert (len(cache), cache.num_bytes) == (3, 60)


def test_a_large_set_evicts_several_small_sets():
    cache = LabelCache(max_bytes=3 * 20)
    for name in "abc":
        kept(cache, labels(name))
    assert not kept(cache, labels("large"), size=2)
    assert cache.num_bytes == 60
    assert [kept(cache, labels(name)) for name in ("large", "c")] == [True, True]
    assert not kept(cache, labels("larger"), size=4)
    assert not kept(cache, labels("larger"), size=4)
    assert [kept(cache, labels(name)) for name in ("large", "c")] == [True, True]


def test_a_smaller_limit_applies_from_the_next_codes():
    cache = LabelCache(max_bytes=5 * 20)
    for name in "abcde":
        kept(cache, labels(name))
    cache.max_bytes = 40
    kept(cache, labels("f"))
    assert (len(cache), cache.num_bytes) == (2, 40)


def test_codes_are_recomputed_when_the_model_changes():
    cache = LabelCache()
    assert not kept(cache, labels("a"), "before", languages=("english",))
    assert not kept(cache, labels("a"), "before", languages=("german",))
    assert not kept(cache, labels("a"), "after", languages=("english",))
    assert kept(cache, labels("a"), "before", languages=("german",))
    assert (len(cache), cache.num_bytes) == (2, 40)


def test_equal_label_sets_share_an_entry():
    one, other = LabelSet([Label("1", "Iron", "blood")]), LabelSet([Label("1", "Iron", "blood")])
    cache = LabelCache()
    assert cache.label_set(one) is cache.label_set(other) is one
    assert [kept(cache, one), kept(cache, other)] == [False, True]
    assert not kept(cache, LabelSet([Label("2", "Iron: blood")]))
    assert not kept(cache, LabelSet([Label("1", "Iron", "blood", language="german")]))
    del one
    cache.max_bytes = 20
    kept(cache, labels("another"))  # in the place of all
    assert cache.label_set(other) is other


def test_texts_are_distinguished_despite_separators_in_names():
    cache = LabelCache()
    assert not kept(cache, LabelSet.from_names(["a", "b"]))
    assert not kept(cache, LabelSet.from_names(['a", "b']))
    assert not kept(cache, LabelSet.from_names(["b", "a"]))


def test_names_become_a_label_set_once_while_their_codes_are_cached():
    cache = LabelCache(max_bytes=20)
    given = ["a"]
    one = cache.label_set(given)
    kept(cache, one)
    assert cache.label_set(("a",)) is one
    assert cache.label_set({"a": ""}) is not one
    del one
    assert len(cache._by_names) == 1
    kept(cache, labels("b"))
    assert len(cache._by_names) == 0


def test_facts_are_recomputed_when_their_state_changes():
    cache, own = LabelCache(), labels("a")
    assert cache.fact(own, "names", 1, lambda: "first") == "first"
    assert cache.fact(own, "names", 1, lambda: "second") == "first"
    assert cache.fact(own, "names", 2, lambda: "third") == "third"
    assert cache.fact(labels("b"), "names", 2, lambda: "of another set") == "of another set"


def test_a_copy_starts_empty_with_the_same_limit():
    cache = LabelCache(max_bytes=60)
    kept(cache, labels("a"))
    again = pickle.loads(pickle.dumps(cache))
    assert (again.max_bytes, again.num_bytes, len(again)) == (60, 0, 0)
    assert not kept(again, labels("a"))


@pytest.mark.parametrize("max_bytes", [20, 60, 400])
def test_concurrent_threads_keep_the_byte_count_correct(max_bytes):
    cache = LabelCache(max_bytes=max_bytes)

    def ask(first):
        for place in range(200):
            number = (first + place) % 7
            made = torch.full((1, 5), float(number))
            codes = cache.codes(labels(str(number)), (), lambda _: MODEL, lambda made=made: (made, None))
            assert codes[0, 0] == number

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(ask, range(6)))
    assert cache.num_bytes == 20 * len(cache) <= max_bytes
