"""Each run of the tests has caches that neither the user nor another run shares."""

import os
from pathlib import Path

import datasets
import huggingface_hub.constants
import transformers.dynamic_module_utils


def test_caches_are_in_the_folder_of_this_run():
    home = Path(os.environ["HF_HOME"])
    assert home != Path.home() / ".cache" / "huggingface"
    caches = [datasets.config.HF_DATASETS_CACHE, huggingface_hub.constants.HF_HUB_CACHE]
    caches.append(transformers.dynamic_module_utils.HF_MODULES_CACHE)
    assert all(home in Path(cache).parents for cache in caches)
