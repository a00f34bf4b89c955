"""Saved models contain their code and load without hf_gile."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from answers import logits_of
from safetensors.torch import load_file, save_file
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

import hf_gile
from hf_gile import GileConfig, GileForSequenceClassification, Label, LabelScoringPipeline, LabelSet
from hf_gile.training import distill, teach

MODELS = Path(hf_gile.__file__).parent / "models"
TEXTS = ["Breast milk and iron. The heart.", ""]

# Run in a process that cannot import hf_gile: answers of each folder, as the Hub shows how to ask.
CLEAN_ROOM = """
import json, sys
sys.modules["hf_gile"] = None
from transformers import AutoModelForSequenceClassification, AutoProcessor, pipeline

trust, answers, request = {"trust_remote_code": True}, {}, json.load(sys.stdin)
texts = request["texts"]
for folder, options in request["folders"].items():
    processor = AutoProcessor.from_pretrained(folder, **trust)
    model = AutoModelForSequenceClassification.from_pretrained(folder, **trust).eval()
    inputs = processor(texts, return_tensors="pt", **options)
    zero_shot = pipeline("zero-shot-classification", model=folder, **trust)
    labels = {} if options else {"candidate_labels": model.label_set}
    scored = zero_shot(texts, batch_size=2, **labels, **options)
    ours = pipeline("label-scoring", model=model, processor=processor)
    assert ours(texts, batch_size=2, **labels, **options) == scored
    classify = pipeline("text-classification", model=folder, **trust)
    classified = classify(texts, top_k=None, batch_size=2, **options)
    logits = model(**inputs).logits.tolist()
    answers[folder] = {"logits": logits, "scored": scored, "classified": classified}
    model.save_pretrained(folder + "-again")  # still contains its code
print(json.dumps(answers))
"""


@pytest.mark.slow
def test_every_kind_of_model_scores_without_hf_gile_installed(tmp_path, make_model, make_pretrained):
    labels = [Label(f"{language}{name}", name, language=language) for language in ("de", "en") for name in ("a", "b")]
    models = {
        "words": make_model("han", problem_type="multi_label_classification"),
        "tokens": make_pretrained("hierarchical_transformer", lexical=True, label_rows="full"),
        "languages": make_pretrained(languages=["de", "en"], labels=LabelSet(labels)),
    }
    teacher = make_pretrained(output_layer="bilinear", cosine_score=True, freeze_text_encoder=True)
    texts = [f"{text} {number}" for text in TEXTS for number in range(30)]
    fast = distill(*teacher, texts, teach(*teacher, texts))
    models["static"] = fast.model, fast.processor
    models["words"][0].config.calibration = {"seen": {"method": "platt", "scale": 0.5, "offset": -1.0}}
    folders = {str(tmp_path / name): {"language": "en"} if name == "languages" else {} for name in models}
    for folder, (model, processor) in zip(folders, models.values(), strict=True):
        LabelScoringPipeline(model=model, processor=processor).save_pretrained(folder)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    command, request = [sys.executable, "-W", "error", "-c", CLEAN_ROOM], {"folders": folders, "texts": TEXTS}
    options = {"env": environment, "cwd": tmp_path, "capture_output": True, "text": True}
    done = subprocess.run(command, input=json.dumps(request), **options)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    for (folder, options), (model, processor) in zip(folders.items(), models.values(), strict=True):
        inputs = processor(TEXTS, return_tensors="pt", **options)
        assert torch.equal(torch.tensor(answers[folder]["logits"]), logits_of(model, inputs))
        expected = LabelScoringPipeline(model=model, processor=processor)(TEXTS, batch_size=2, **options)
        assert answers[folder]["scored"] == expected
        for answer, scores in zip(answers[folder]["classified"], expected, strict=True):
            assert [entry["label"] for entry in answer] == scores["labels"]
            assert [entry["score"] for entry in answer] == scores["scores"]
        again = Path(folder + "-again")
        assert {path.name for path in again.glob("*.py")} == {path.name for path in Path(folder).glob("*.py")}


def test_a_folder_has_all_code_but_the_published_graph_and_loads_without_it(saved):
    files = {path.name for path in MODELS.glob("*_gile.py")} - {"published_gile.py"}
    assert {path.name for path in saved.glob("*.py")} == files
    for path in saved.glob("*.py"):
        assert path.read_text() == (MODELS / path.name).read_text()
    assert type(AutoModelForSequenceClassification.from_pretrained(saved)) is GileForSequenceClassification
    assert type(AutoProcessor.from_pretrained(saved)) is hf_gile.GileProcessor


@pytest.mark.parametrize("path", sorted(MODELS.glob("*_gile.py")), ids=lambda path: path.name)
def test_travelling_files_import_only_siblings_and_transformers_dependencies(path):
    allowed = {"torch", "transformers", "tokenizers", "huggingface_hub", "numpy", "safetensors"}
    allowed |= {"filelock"}  # needed by huggingface_hub
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            assert node.level == 1, f"line {node.lineno}: a parent folder does not travel"
            assert (MODELS / f"{node.module}.py").is_file(), f"line {node.lineno}: only `from .sibling import name`"
            continue
        elif isinstance(node, ast.ImportFrom):
            names = [node.module]
        else:
            continue
        for name in names:
            top = name.split(".")[0]
            assert top in allowed or top in sys.stdlib_module_names, f"line {node.lineno} imports {name}"


def test_both_towers_can_be_saved_alone_and_get_labels_later(tmp_path, make_model, label_set):
    model, processor = make_model()
    model.gile.save_pretrained(tmp_path)
    both = AutoModel.from_pretrained(tmp_path).eval()
    inputs = processor(TEXTS, label_text=label_set.texts, return_tensors="pt")
    assert torch.equal(both(**inputs).logits, model.gile(**inputs).logits)
    classifier = GileForSequenceClassification.from_pretrained(tmp_path).eval()
    documents = processor(TEXTS, return_tensors="pt")
    with pytest.raises(ValueError, match="its checkpoint was saved without labels"):
        classifier(**documents)
    classifier.set_labels(label_set, processor)
    assert torch.equal(classifier(**documents).logits, model(**documents).logits)


def test_saving_removes_labels_of_an_earlier_model(saved, tokenizer):
    GileForSequenceClassification(GileConfig(vocab_size=len(tokenizer), num_labels=3)).save_pretrained(saved)
    assert AutoModelForSequenceClassification.from_pretrained(saved).label_set is None


def test_missing_weights_of_a_checkpoint_are_initialized(saved):
    # Built on the meta device, a missing weight is memory garbage unless _init_weights fills it.
    file = saved / "model.safetensors"
    weights = load_file(file)
    partial = {name: tensor for name, tensor in weights.items() if "attention" not in name and "label_proj" not in name}
    assert len(partial) == len(weights) - 5
    save_file(partial, file, metadata={"format": "pt"})
    (saved / "model_manifest.json").unlink()
    reloaded, report = GileForSequenceClassification.from_pretrained(saved, output_loading_info=True)
    assert len(report["missing_keys"]) == 5
    for name, tensor in reloaded.state_dict().items():
        assert tensor.isfinite().all()
        assert tensor.abs().max() < 100
        if name in partial:
            assert torch.equal(tensor, partial[name])


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
    for part in make_model():
        part.save_pretrained(tmp_path / "a" / "model")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    changed = ("scoring_gile.py", "pipeline_gile.py")
    for name in ("a", "b"):
        for file in changed:
            with (tmp_path / name / "model" / file).open("a") as opened:
                opened.write(f"\nFOLDER = {name!r}\n")
    for name in ("a", "b"):
        path, trust = str(tmp_path / name / "model"), {"trust_remote_code": True}
        pipe = pipeline("zero-shot-classification", path, **trust)
        models = [auto.from_pretrained(path, **trust) for auto in (AutoConfig, AutoModel)] + [pipe.model]
        # A processor and a pipeline do not use all files.
        for loaded in [*models, pipe.processor, pipe]:
            module = sys.modules[type(loaded).__module__]
            assert module.__name__.startswith("transformers_modules.model.")
            for file in (Path(module.__file__).with_name(file) for file in changed):
                if file.is_file() or loaded in models:
                    assert file.read_text().endswith(f"FOLDER = {name!r}\n"), type(loaded).__name__
