"""Two model folders with the same name, loaded in the same process, run separate code."""

import shutil
import sys
from pathlib import Path

import pytest
from transformers import (
    CONFIG_MAPPING,
    PROCESSOR_MAPPING,
    AutoConfig,
    AutoModel,
    dynamic_module_utils,
    pipeline,
)

from hf_gile import GileConfig


def remote_modules():
    return [name for name in sys.modules if name.split(".")[0] == "transformers_modules"]


@pytest.fixture
def without_package(monkeypatch, tmp_path):
    """Removes the registration of hf_gile, as in a process that has not imported it."""
    monkeypatch.delitem(CONFIG_MAPPING._extra_content, "gile")
    for config in [config for config in PROCESSOR_MAPPING._extra_content if issubclass(config, GileConfig)]:
        monkeypatch.delitem(PROCESSOR_MAPPING._extra_content, config)
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.syspath_prepend(tmp_path / "modules")
    for name in remote_modules():
        monkeypatch.delitem(sys.modules, name)
    yield
    for name in remote_modules():
        del sys.modules[name]


@pytest.mark.slow
def test_two_model_folders_run_separate_code(without_package, make_model, tmp_path):
    model, processor = make_model()
    model.save_pretrained(tmp_path / "a" / "model")
    processor.save_pretrained(tmp_path / "a" / "model")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    changed = ("scoring_gile.py", "pipeline_gile.py")
    for name in ("a", "b"):
        for file in changed:
            with (tmp_path / name / "model" / file).open("a") as opened:
                opened.write(f"\nFOLDER = {name!r}\n")
    for name in ("a", "b"):
        options = {"pretrained_model_name_or_path": str(tmp_path / name / "model"), "trust_remote_code": True}
        pipe = pipeline("zero-shot-classification", options["pretrained_model_name_or_path"], trust_remote_code=True)
        models = [auto.from_pretrained(**options) for auto in (AutoConfig, AutoModel)] + [pipe.model]
        # A processor and a pipeline do not use all files.
        for loaded in [*models, pipe.processor, pipe]:
            module = sys.modules[type(loaded).__module__]
            assert module.__name__.startswith("transformers_modules.model.")
            for file in (Path(module.__file__).with_name(file) for file in changed):
                if file.is_file() or loaded in models:
                    assert file.read_text().endswith(f"FOLDER = {name!r}\n"), type(loaded).__name__
