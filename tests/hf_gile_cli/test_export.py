import json
import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from hf_gile import GileForSequenceClassification, GileProcessor
from hf_gile.publishing import save


@pytest.fixture
def save_model(tmp_path, make_over_encoder):
    """Saves a model over a random encoder, and returns its folder."""

    def save_options(**options):
        save(tmp_path / "model", *make_over_encoder(**options), index=False, card=False)
        return tmp_path / "model"

    return save_options


TEXTS = ["Breast milk lowers the risk of infection.", "iron", "", "Rats were fed a diet low in iron. " * 30]

# Runs in a process that cannot import hf_gile.
ELSEWHERE = """
import sys
sys.modules["hf_gile"] = None
import json
import duckdb, onnxruntime, torch
from pyarrow import parquet
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from transformers import AutoProcessor, AutoTokenizer

texts = json.load(sys.stdin)
encoder, labels = SentenceTransformer("sentences", device="cpu"), load_file("sentences/labels.safetensors")
codes = encoder.encode(texts, convert_to_tensor=True)
scores = {"sentences": codes @ labels["codes"].T + labels["bias"]}
table = parquet.read_table("labels.parquet")
bias = float(table.schema.metadata[b"bias"])
scores["vectors"] = codes @ torch.tensor(table["vector"].to_pylist()).T + bias
processor, session = AutoProcessor.from_pretrained("onnx", trust_remote_code=True), onnxruntime.InferenceSession
inputs = {name: tensor.numpy() for name, tensor in processor(texts, return_tensors="pt").items()}
for name in ("model", "model_int8"):
    scores[name] = torch.tensor(session(f"onnx/{name}.onnx").run(None, inputs)[0])
codes = torch.tensor(session("onnx/text.onnx").run(None, inputs)[0])
scores["text"] = codes @ torch.tensor(parquet.read_table("codes.parquet")["vector"].to_pylist()).T + bias
size = codes.shape[1]
product = f"SELECT array_inner_product(vector::FLOAT[{size}], ?::FLOAT[{size}]) + ? FROM 'codes.parquet'"
rows = [duckdb.execute(product, [code, bias]).fetchall() for code in codes.tolist()]
scores["duckdb"] = torch.tensor(rows)[..., 0]
words = AutoTokenizer.from_pretrained("onnx")(texts, padding=True, truncation=True, return_tensors="np")
scores["tokenizer"] = torch.tensor(session("onnx/model.onnx").run(None, dict(words))[0])
save_file({name: values.contiguous() for name, values in scores.items()}, "scores.safetensors")
"""


@pytest.mark.slow
def test_exports_of_a_saved_folder_give_its_scores_where_hf_gile_is_not_installed(run, save_model, tmp_path):
    for name in ("sentence_transformers", "onnxruntime", "onnxscript", "pyarrow", "duckdb"):
        pytest.importorskip(name)
    folder = save_model(output_layer="bilinear", cosine_score=True, lexical=True)
    run("export", "sentence-transformers", folder, tmp_path / "sentences", "--without-words")
    run("export", "onnx", folder, tmp_path / "onnx", "--int8", "--without-words")
    run("export", "vectors", folder, tmp_path / "codes.parquet", "--without-words")
    scaled = ("--without-words", "--for-sentence-transformers")
    run("export", "vectors", folder, tmp_path / "labels.parquet", *scaled)
    model, processor = (kind.from_pretrained(folder) for kind in (GileForSequenceClassification, GileProcessor))
    words = processor(TEXTS, return_tensors="pt")
    with torch.no_grad():
        codes = model.eval().gile.project_texts(words["input_ids"], words["attention_mask"])
        expected = model.gile.score(codes, model.project_stored_labels())
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = {"cwd": tmp_path, "env": environment, "input": json.dumps(TEXTS), "capture_output": True, "text": True}
    done = subprocess.run([sys.executable, "-c", ELSEWHERE], check=False, **process)
    assert done.returncode == 0, done.stderr
    scores = load_file(tmp_path / "scores.safetensors")
    near = scores.pop("model_int8")
    assert 0 < (near - expected).abs().max() < 0.5 * expected.std()
    assert set(scores) == {"sentences", "vectors", "model", "text", "duckdb", "tokenizer"}
    for values in scores.values():
        torch.testing.assert_close(values, expected, rtol=1e-5, atol=1e-5)


def test_a_folder_for_sentence_transformers_is_written_once(run, save_model, tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    over_an_encoder = save_model()
    done = run("export", "sentence-transformers", over_an_encoder, tmp_path / "out")
    assert "out, with 5 labels in labels.safetensors" in done.stderr
    assert not list((tmp_path / "out").rglob("*.py"))
    loaded = sentence_transformers.SentenceTransformer(str(tmp_path / "out"), device="cpu")
    assert loaded.encode(["iron"]).shape == (1, 13)
    assert "not empty" in run("export", "sentence-transformers", over_an_encoder, tmp_path / "out", ends=1).stderr


@pytest.mark.parametrize("kind", ["sentence-transformers", "onnx", "vectors"])
def test_words_are_left_out_only_on_request(run, save_model, tmp_path, kind):
    pytest.importorskip("sentence_transformers")
    model, out = save_model(lexical=True), tmp_path / "out.sql"
    error = run("export", kind, model, out, ends=1).stderr
    assert "exports cannot represent: leave them out with --without-words; docs/exports.md" in error
    assert "config" not in error
    assert "without_words" not in error
    if kind != "onnx":  # slow
        run("export", kind, model, out, "--without-words")
        assert out.exists()
