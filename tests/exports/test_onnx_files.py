import pytest
import torch

from hf_gile.exports import export_onnx

TEXTS = ["Breast milk.", "Rats were fed a diet low in iron. Blood was drawn.", "iron", ""]


def run(path, processor, texts):
    session = pytest.importorskip("onnxruntime").InferenceSession(path)
    words = processor(texts, return_tensors="pt")["input_ids"]
    mask = (words != processor.tokenizer.pad_token_id).long()
    return torch.from_numpy(session.run(None, {"input_ids": words.numpy(), "attention_mask": mask.numpy()})[0])


@pytest.fixture(params=["han", "transformer"])
def model(request, make_model, make_over_encoder):
    return make_over_encoder() if request.param == "transformer" else make_model(request.param)


@pytest.mark.slow
def test_onnx_runtime_scores_like_the_model(model, tmp_path):
    pytest.importorskip("onnxscript")
    model, processor = model
    export_onnx(model, processor, tmp_path, int8=True)
    with torch.no_grad():
        for texts in (TEXTS, TEXTS[1:2]):  # of other sizes than what was exported with
            words = processor(texts, return_tensors="pt")
            torch.testing.assert_close(run(tmp_path / "model.onnx", processor, texts), model(**words).logits)
            codes = model.gile.project_texts(**words)
            torch.testing.assert_close(run(tmp_path / "text.onnx", processor, texts), codes, atol=1e-5, rtol=1e-5)
        logits = model(**processor(TEXTS, return_tensors="pt")).logits
    near = run(tmp_path / "model_int8.onnx", processor, TEXTS)
    assert 0 < (near - logits).abs().max() < 0.5 * logits.std()
    assert {"labels.jsonl", "tokenizer.json", "processor_config.json"} <= {path.name for path in tmp_path.iterdir()}


def test_models_that_onnx_cannot_express_are_refused(make_model, make_over_encoder, tmp_path):
    pytest.importorskip("onnxruntime")
    with pytest.raises(ValueError, match="encoder_cell gru runs a loop over words"):
        export_onnx(*make_model(encoder_cell="gru"), tmp_path / "out")
    words = {"lexical": True, "term_weights": {"unseen": {"match": 2.0}}}
    with pytest.raises(ValueError, match="leave them out with without_words=True"):
        export_onnx(*make_over_encoder(**words), tmp_path / "out")
    assert not (tmp_path / "out").exists()
