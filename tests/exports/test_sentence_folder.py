import pytest
import torch
from answers import logits_of
from safetensors.torch import load_file

from hf_gile import LabelSet
from hf_gile.exports import export_sentence_transformers

TEXTS = ["Breast milk lowers the risk of infection.", "iron", "", "Rats were fed a diet low in iron. " * 9]


AS_AUTO_FITS = {
    "cosine_score": True,
    "label_rows": "full",
    "term_weights": {"seen": {"rows": 2.0, "offset": 0.3}, "unseen": {"cosine": 0.5, "offset": -1.0}},
}
FAMILY = {
    "cls": {"pooling": "cls", "joint_act": "relu"},
    "sum": {"pooling": "sum"},
    "prompt": {"text_prompt": "iron: "},
    "only_label": {"output_layer": "only_label"},
    "linear": {"output_layer": "linear"},
    "as auto fits": {"joint_act": "tanh", **AS_AUTO_FITS},
    "as auto fits many labels": {"output_layer": "bilinear", **AS_AUTO_FITS},
}


@pytest.mark.parametrize("fields", FAMILY.values(), ids=FAMILY)
def test_sentence_transformers_scores_like_the_model(fields, make_over_encoder, tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    model, processor = make_over_encoder(**fields)
    logits = logits_of(model, processor(TEXTS, return_tensors="pt"))
    export_sentence_transformers(model, processor, tmp_path / "out")
    loaded = sentence_transformers.SentenceTransformer(str(tmp_path / "out"), device="cpu")
    labels = load_file(tmp_path / "out" / "labels.safetensors")
    scores = loaded.encode(TEXTS, convert_to_tensor=True) @ labels["codes"].T + labels["bias"]
    torch.testing.assert_close(scores, logits, rtol=1e-5, atol=1e-5)
    assert LabelSet.load(tmp_path / "out" / "labels.jsonl") == model.label_set


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pooling": "attention"}, "mean, sum or cls pooling, got text_encoder_type 'transformer' with pooling 'att"),
        ({"joint_act": "gelu"}, "joint_act 'gelu' is not a torch activation"),
        ({"cosine_score": True, "joint_act": "relu"}, "cosine_score=True, .* a layer has a single activation"),
    ],
)
def test_models_that_cannot_be_exported_are_refused(fields, message, make_over_encoder, make_model, tmp_path):
    pytest.importorskip("sentence_transformers")
    with pytest.raises(ValueError, match="Sentence Transformers needs a pretrained encoder"):
        export_sentence_transformers(*make_model(), tmp_path / "out")
    with pytest.raises(ValueError, match=message):
        export_sentence_transformers(*make_over_encoder(**fields), tmp_path / "out")
    assert not (tmp_path / "out").exists()
