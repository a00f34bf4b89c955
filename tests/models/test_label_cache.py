import pickle
from concurrent.futures import ThreadPoolExecutor

import torch

from hf_gile import LabelSet
from hf_gile.models.stored_labels_gile import LabelCache

MODEL = ("state of the model",)


def labels(name):
    return LabelSet.from_names([name])


def test_threads_get_their_codes_within_the_limit_of_memory():
    cache = pickle.loads(pickle.dumps(LabelCache(max_bytes=60)))

    def ask(first):
        for step in range(200):
            number = (first + step) % 7
            result = torch.full((1, 5), float(number))
            codes = cache.codes(labels(str(number)), MODEL, lambda result=result: result)
            assert codes[0, 0] == number

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(ask, range(6)))
    assert cache.num_bytes == 20 * len(cache._codes) <= 60
