"""A loopback Hub, and models to upload."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import close_session
from loopback_hub import LoopbackHub, Token, serve

from hf_gile.publishing import push_folder, save

TOKENS = {
    "hf_ada": Token("ada", organisations=("engines",)),
    "hf_ada_reads": Token("ada", "read", ("engines",)),
    "hf_bob": Token("bob"),
}


def pytest_collection_modifyitems(items):
    """Ignores that huggingface_hub sends files by a deprecated option of its HTTP library."""
    ignored = pytest.mark.filterwarnings("ignore:Use 'content=<...>' to upload:DeprecationWarning")
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(ignored)


@pytest.fixture
def hub(monkeypatch):
    """Starts a loopback Hub for huggingface_hub in this process, logged in as ada."""
    with serve(LoopbackHub(TOKENS)) as hub:
        # The value of the environment variable at import time; see tests/conftest.py.
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        template = f"{hub.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr("huggingface_hub.utils._http.time", SimpleNamespace(sleep=lambda seconds: None))
        monkeypatch.setenv("HF_TOKEN", "hf_ada")
        yield hub
        close_session()
        assert hub.unknown == []


@pytest.fixture
def publish(tmp_path):
    """Saves a model, and uploads it."""

    def run(model, processor, repo_id, card="# A model\n", **options):
        folder = tmp_path / "published"
        save(folder, model, processor, card=card)
        return push_folder(folder, repo_id, **options)

    return run


@pytest.fixture
def make_saved(tmp_path, tmp_path_factory, make_model):
    """Returns a copy of the folder of a model with random weights and a card, which is saved once."""

    def make(name="saved", joint_size=13):
        original = tmp_path_factory.getbasetemp() / f"saved-{joint_size}"
        if not original.exists():
            model, processor = make_model(joint_size=joint_size)
            save(original, model, processor, card="# A model\n")
        return Path(shutil.copytree(original, tmp_path / name))

    return make
