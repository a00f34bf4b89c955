"""Saved models contain their code and load without hf_gile."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForSequenceClassification, AutoProcessor

import hf_gile
from hf_gile import GileForSequenceClassification

MODELS = Path(hf_gile.__file__).parent / "models"
TEXTS = ["Breast milk and iron. The heart.", ""]

# Run in a process that cannot import hf_gile.
CLEAN_ROOM = """
import sys
sys.modules["hf_gile"] = None
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoProcessor, pipeline

folder, out, texts = sys.argv[1], sys.argv[2], sys.argv[3:]
trust = {"trust_remote_code": True}
assert type(AutoConfig.from_pretrained(folder, **trust)).__name__ == "GileConfig"
processor = AutoProcessor.from_pretrained(folder, **trust)
classifier = AutoModelForSequenceClassification.from_pretrained(folder, **trust).eval()
both = AutoModel.from_pretrained(folder, **trust).eval()
labels = classifier.label_set
with torch.no_grad():
    stored = classifier(**processor(texts, return_tensors="pt")).logits
    towers = both(**processor(texts, label_text=labels.texts, return_tensors="pt")).logits
answers = []
pipe = pipeline("zero-shot-classification", model=folder, **trust)
assert type(pipe).__name__ == "LabelScoringPipeline"
answer = pipe(texts, candidate_labels=labels, batch_size=2)
order = [[entry["labels"].index(name) for name in labels.names] for entry in answer]
answers.append(torch.tensor([[entry["scores"][i] for i in row] for entry, row in zip(answer, order)]))
pipe = pipeline("label-scoring", model=classifier, processor=processor)
assert type(pipe).__name__ == "LabelScoringPipeline"
assert pipe(texts, candidate_labels=labels, batch_size=2) == answer
pipe = pipeline("text-classification", model=folder, **trust)
assert type(pipe).__name__ == "StoredLabelsPipeline"
rows = [{entry["label"]: entry["score"] for entry in row} for row in pipe(texts, top_k=None, batch_size=2)]
answers.append(torch.tensor([[row[name] for name in labels.names] for row in rows]))
save_file({"stored": stored, "towers": towers, "scored": answers[0], "classified": answers[1]}, out)
# A model saved by this process still contains its code.
classifier.save_pretrained(out + ".again")
"""


def score_without_hf_gile(folder, out):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(out.parent / "home")}
    command = [sys.executable, "-W", "error", "-c", CLEAN_ROOM, str(folder), str(out), *TEXTS]
    result = subprocess.run(command, env=environment, cwd=out.parent, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return load_file(out)


@pytest.mark.slow
def test_a_saved_model_gives_the_same_logits_without_hf_gile_installed(tmp_path, make_model):
    model, processor = make_model("han", problem_type="multi_label_classification")
    folder = tmp_path / "saved"
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    with torch.no_grad():
        local = model(**processor(TEXTS, return_tensors="pt")).logits
    remote = score_without_hf_gile(folder, tmp_path / "logits.safetensors")
    assert torch.equal(remote["stored"], local)
    assert torch.equal(remote["towers"], local)
    assert torch.equal(remote["scored"], local.sigmoid())
    assert torch.equal(remote["classified"], local.sigmoid())
    resaved = tmp_path / "logits.safetensors.again"
    assert {path.name for path in folder.iterdir() if path.suffix == ".py"} == {
        path.name for path in resaved.iterdir() if path.suffix == ".py"
    }


def test_a_folder_has_all_code_but_the_published_graph_and_loads_without_it(tmp_path, make_model):
    model, processor = make_model()
    model.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    files = {path.name for path in MODELS.glob("*_gile.py")} - {"published_gile.py"}
    assert {path.name for path in tmp_path.glob("*.py")} == files
    for path in tmp_path.glob("*.py"):
        assert path.read_text() == (MODELS / path.name).read_text()
    assert type(AutoModelForSequenceClassification.from_pretrained(tmp_path)) is GileForSequenceClassification
    assert type(AutoProcessor.from_pretrained(tmp_path)) is hf_gile.GileProcessor


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


def test_missing_weights_of_a_checkpoint_are_initialized(tmp_path, make_model):
    # Built on the meta device, a missing weight is memory garbage unless _init_weights fills it.
    model, _ = make_model()
    model.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    weights = load_file(file)
    partial = {name: tensor for name, tensor in weights.items() if "attention" not in name and "label_proj" not in name}
    assert len(partial) == len(weights) - 5
    save_file(partial, file, metadata={"format": "pt"})
    (tmp_path / "model_manifest.json").unlink()
    reloaded, report = GileForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)
    assert len(report["missing_keys"]) == 5
    for name, tensor in reloaded.state_dict().items():
        assert tensor.isfinite().all()
        assert tensor.abs().max() < 100
        if name in partial:
            assert torch.equal(tensor, partial[name])
