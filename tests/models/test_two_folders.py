"""Two folders of the same name, loaded in one process, each run the code they were saved with."""

import shutil
import sys
from pathlib import Path

import pytest
from transformers import (
    CONFIG_MAPPING,
    PROCESSOR_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoProcessor,
    dynamic_module_utils,
    pipeline,
)

from hf_gile import GileConfig


def remote_modules():
    return [name for name in sys.modules if name.split(".")[0] == "transformers_modules"]


@pytest.fixture
def without_package(monkeypatch, tmp_path):
    """Takes the registration of hf_gile back, as in a process that has not imported it."""
    monkeypatch.delitem(CONFIG_MAPPING._extra_content, "gile")
    monkeypatch.delitem(PROCESSOR_MAPPING._extra_content, GileConfig)
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.syspath_prepend(tmp_path / "modules")
    for name in remote_modules():
        monkeypatch.delitem(sys.modules, name)
    yield
    for name in remote_modules():
        del sys.modules[name]


@pytest.mark.parametrize("changed", ["score_terms_gile", "pipeline_gile"])
def test_each_folder_runs_its_own_code(without_package, make_model, tmp_path, changed):
    model, processor = make_model()
    model.save_pretrained(tmp_path / "a" / "model")
    processor.save_pretrained(tmp_path / "a" / "model")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    for name in ("a", "b"):
        with (tmp_path / name / "model" / f"{changed}.py").open("a") as file:
            file.write(f"\nFOLDER = {name!r}\n")
    for name in ("a", "b", "a"):
        folder = str(tmp_path / name / "model")
        trust = {"trust_remote_code": True}
        loaded = [
            AutoConfig.from_pretrained(folder, **trust),
            AutoModel.from_pretrained(folder, **trust),
            AutoModelForSequenceClassification.from_pretrained(folder, **trust),
            AutoProcessor.from_pretrained(folder, **trust),
            pipeline("zero-shot-classification", model=folder, **trust),
        ]
        for one in loaded:
            package = type(one).__module__.rpartition(".")[0]
            assert package.startswith("transformers_modules.model.")
            file = Path(sys.modules[type(one).__module__].__file__).with_name(f"{changed}.py")
            is_model = "Model" in type(one).__name__ or "Classification" in type(one).__name__
            if file.is_file() or is_model:  # a processor has no need of all files
                assert file.read_text().endswith(f"FOLDER = {name!r}\n"), type(one).__name__
