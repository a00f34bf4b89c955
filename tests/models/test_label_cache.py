import pickle
from concurrent.futures import ThreadPoolExecutor

import torch

from hf_gile import LabelSet
from hf_gile.models.stored_labels_gile import LabelCache

MODEL = ("state of the model",)


def is_cached(cache, labels):
    """Checks whether the codes of labels are cached, and caches them otherwise."""
    calls = []
    cache.codes((labels,), MODEL, lambda: calls.append(1) or torch.zeros(1, 5))
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
            codes = cache.codes(labels(str(number)), MODEL, lambda result=result: result)
            assert codes[0, 0] == number

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(ask, range(6)))
    assert cache.num_bytes == 20 * len(cache._codes) <= 60
