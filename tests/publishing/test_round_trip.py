"""A process without hf_gile loads published models from the Hub and computes bitwise identical scores."""

import json
import os
import re
import subprocess
import sys

import pytest
import torch
from answers import logits_of
from safetensors.torch import load_file

from hf_gile import Label, LabelIndex
from hf_gile.publishing import push_folder
from hf_gile.training import model_from_text_encoder, processor_from_text_encoder

TEXTS = ["Breast milk and iron. The heart.", "Blood was drawn.", ""]

# Run in a process that cannot import hf_gile.
SCRIPT = """
import json, sys
sys.modules["hf_gile"] = None
import torch
from safetensors.torch import save_file
from transformers import AutoModel, AutoModelForSequenceClassification, AutoProcessor, pipeline

request = json.load(sys.stdin)
texts, results = request["texts"], {}
for name, (repo, options) in request["models"].items():
    trust = {**options, "trust_remote_code": True}
    processor = AutoProcessor.from_pretrained(repo, **trust)
    classifier = AutoModelForSequenceClassification.from_pretrained(repo, **trust).eval()
    AutoModel.from_pretrained(repo, **trust)
    pipe = pipeline("zero-shot-classification", model=repo, **trust)
    assert type(pipe).__name__ == "LabelScoringPipeline"
    assert type(pipeline("text-classification", model=repo, **trust)).__name__ == "StoredLabelsPipeline"
    with torch.no_grad():
        results[name] = classifier(**processor(texts, return_tensors="pt")).logits
        piped = pipe.model(**pipe.processor(texts, return_tensors="pt")).logits
    assert torch.equal(piped, results[name])
for repo in request["hidden"]:
    try:
        AutoModel.from_pretrained(repo, trust_remote_code=True)
        raise AssertionError(f"{repo} was loaded without a token")
    except OSError as error:
        assert "401" in f"{error} {error.__cause__}", error
save_file(results, request["out"])
"""


@pytest.mark.slow
def test_scores_are_the_same_from_every_revision_on_the_hub(hub, publish, tmp_path, make_model, save_text_encoder):
    first, processor = make_model("han")
    published = publish(first, processor, "ada/gile")
    # Loaded by commit, since main changes; then a branch with an additional label.
    publish(make_model("han", joint_size=3)[0], processor, "ada/gile")
    second, _ = make_model("han", joint_size=5)
    more = second.label_set.add(Label("D051381", "Rats", "were fed a diet"))
    second.set_labels(more, processor)
    publish(second, processor, "ada/gile", revision="rats/more")
    # A private model with several weight files, and a model with a pretrained encoder.
    wide, words = make_model("wan", hidden_size=23, joint_size=17)
    wide.save_pretrained(tmp_path / "sharded", max_shard_size="1KB")
    words.save_pretrained(tmp_path / "sharded")
    LabelIndex.build(wide, dtype=torch.float16).save_pretrained(tmp_path / "sharded" / "index")
    push_folder(tmp_path / "sharded", "engines/secret", private=True)
    shards = [path for path in hub.repositories["engines/secret"].files() if path.startswith("model-")]
    assert len(shards) > 1
    encoder = save_text_encoder()
    terms = {"joint_size": 7, "cosine_score": True, "label_rows": "full"}
    tuned = model_from_text_encoder(encoder, num_labels=5, **terms).eval()
    torch.nn.init.normal_(tuned.gile.label_rows.weight)
    pieces = processor_from_text_encoder(encoder, tuned.config)
    tuned.set_labels(first.label_set, pieces)
    publish(tuned, pieces, "ada/tuned")

    models = {
        "commit": ("ada/gile", {"revision": published.commit}, first, processor),
        "branch": ("ada/gile", {"revision": "rats/more"}, second, processor),
        "private": ("engines/secret", {"token": "hf_ada_reads"}, wide, words),
        "pretrained": ("ada/tuned", {}, tuned, pieces),
    }
    request = {"texts": TEXTS, "models": {name: case[:2] for name, case in models.items()}}
    request |= {"hidden": ["engines/secret"], "out": str(tmp_path / "results.safetensors")}
    unset = ("HF_HUB_OFFLINE", "HF_TOKEN", "PYTHONPATH")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1"}
    command = [sys.executable, "-W", "error", "-c", SCRIPT]
    options = {"env": environment, "cwd": tmp_path, "capture_output": True, "text": True}
    before = len(hub.requests)
    result = subprocess.run(command, input=json.dumps(request), **options)
    assert result.returncode == 0, result.stderr
    results = load_file(tmp_path / "results.safetensors")
    for name, (_, _, model, processor) in models.items():
        assert torch.equal(results[name], logits_of(model, processor(TEXTS, return_tensors="pt"))), name
    # Model, towers, processor and pipeline together request each code file once, by HEAD and GET.
    code = [path for path in hub.repositories["ada/tuned"].files() if path.endswith(".py")]
    requests = [line for line in hub.requests[before:] if re.search(r" /ada/tuned/resolve/.*\.py$", line)]
    assert len(requests) == 2 * len(code)
