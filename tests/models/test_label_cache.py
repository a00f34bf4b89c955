import pickle
from concurrent.futures import ThreadPoolExecutor

import torch

from hf_gile import Label, LabelSet
from hf_gile.models.stored_labels_gile import LabelCache

MODEL = ("state of the model",)


def is_cached(cache, labels, state=MODEL, size=1, languages=()):
    """Checks whether the codes of labels are cached, and caches them otherwise."""
    calls = []
    cache.codes((labels, *languages), lambda words: state, lambda: (calls.append(1) or torch.zeros(size, 5), None))
    return not calls


def labels(name):
    return LabelSet.from_names([name])


def test_least_recently_used_codes_are_evicted_first():
    cache = LabelCache(max_bytes=3 * 20)
    for name in "abc":
        assert not is_cached(cache, labels(name))
    assert is_cached(cache, labels("a"))
    assert not is_cached(cache, labels("d"))
    assert is_cached(cache, labels("a"))
    assert is_cached(cache, labels("c"))
    assert not is_cached(cache, labels("b"))
    assert (len(cache._codes), cache.num_bytes) == (3, 60)


def test_a_large_set_evicts_several_small_sets():
    cache = LabelCache(max_bytes=3 * 20)
    for name in "abc":
        is_cached(cache, labels(name))
    assert not is_cached(cache, labels("large"), size=2)
    assert cache.num_bytes == 60
    assert [is_cached(cache, labels(name)) for name in ("large", "c")] == [True, True]
    assert not is_cached(cache, labels("larger"), size=4)
    assert not is_cached(cache, labels("larger"), size=4)
    assert [is_cached(cache, labels(name)) for name in ("large", "c")] == [True, True]


def test_codes_are_recomputed_when_the_model_changes():
    cache = LabelCache()
    assert not is_cached(cache, labels("a"), "before", languages=("english",))
    assert not is_cached(cache, labels("a"), "before", languages=("german",))
    assert not is_cached(cache, labels("a"), "after", languages=("english",))
    assert is_cached(cache, labels("a"), "before", languages=("german",))
    assert (len(cache._codes), cache.num_bytes) == (2, 40)


def test_equal_label_sets_share_an_entry():
    first_set, second_set = LabelSet([Label("1", "Iron", "blood")]), LabelSet([Label("1", "Iron", "blood")])
    cache = LabelCache()
    assert cache.label_set(first_set) is cache.label_set(second_set) is first_set
    assert [is_cached(cache, first_set), is_cached(cache, second_set)] == [False, True]
    assert not is_cached(cache, LabelSet([Label("2", "Iron: blood")]))
    assert not is_cached(cache, LabelSet([Label("1", "Iron", "blood", language="german")]))
    assert not is_cached(cache, LabelSet.from_names(["a", "b"]))
    assert not is_cached(cache, LabelSet.from_names(['a", "b']))


def test_a_copy_starts_empty_with_the_same_limit():
    cache = LabelCache(max_bytes=60)
    is_cached(cache, labels("a"))
    restored = pickle.loads(pickle.dumps(cache))
    assert (restored.max_bytes, restored.num_bytes, len(restored._codes)) == (60, 0, 0)
    assert not is_cached(restored, labels("a"))


def test_concurrent_threads_keep_the_byte_count_correct():
    cache = LabelCache(max_bytes=60)

    def ask(first):
        for step in range(200):
            number = (first + step) % 7
            result = torch.full((1, 5), float(number))
            codes = cache.codes(labels(str(number)), lambda _: MODEL, lambda result=result: (result, None))
            assert codes[0, 0] == number

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(ask, range(6)))
    assert cache.num_bytes == 20 * len(cache._codes) <= 60
