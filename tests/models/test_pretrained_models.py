"""Models over pretrained encoders: loading, pooling, frozen and refreshed vectors, training steps."""

import shutil
from itertools import pairwise

import pytest
import torch
from answers import logits_of, scores
from papers.chunked_training import ChunkedLoss
from papers.unit_loss import UnitLoss
from torch.nn import functional
from transformers import AutoModel

from hf_gile import GileForSequenceClassification, GileProcessor, LabelScoringPipeline, LabelSet
from hf_gile.label_index import fingerprint
from hf_gile.models import text_encoders_gile
from hf_gile.models.text_encoders_gile import rms_normalized
from hf_gile.training import model_from_text_encoder

TEXTS = ["The failing heart pumps less. Blood of infants.", "Breast milk.", "Iron, iron: iron"]
GOLD = torch.tensor([[0, 3], [1, -100], [2, 4]])
RELATIVE = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}
BOTH_ENDS = {"bos_token_id": 2, "eos_token_id": 3}
ENCODERS = {
    "DebertaV2": {**RELATIVE, "position_buckets": 8, "norm_rel_ebd": "layer_norm"},
    "GPT2": BOTH_ENDS,
    "MPNet": {"pad_token_id": 0},
    "ModernBert": {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3, **BOTH_ENDS},
    "Roberta": {"pad_token_id": 0},
}
WITHOUT_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
KINDS = ["transformer", "hierarchical_transformer"]
EVERYTHING = {"cosine_score": True, "label_rows": "full", "joint_layers": 2}


def batch_of(processor):
    return processor(TEXTS, return_tensors="pt")


def step(model, processor, **inputs):
    """Returns the loss and the gradients of a training step."""
    model.train().zero_grad()
    loss = model(**{**batch_of(processor), "labels": GOLD, **inputs}).loss
    loss.backward()
    return loss, {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_are_loaded_unchanged_and_saved_with_the_model(tmp_path, make_pretrained, name):
    model, processor = make_pretrained(encoder={"kind": name, **ENCODERS[name]})
    encoder = AutoModel.from_pretrained(tmp_path / "encoder").eval()
    inputs = batch_of(processor)
    with torch.no_grad():
        rows = zip(inputs["input_ids"], inputs["attention_mask"].bool(), strict=True)
        means = [encoder(input_ids=ids[is_token][None]).last_hidden_state[0].mean(0) for ids, is_token in rows]
        expected = functional.normalize(torch.stack(means), dim=-1) * len(means[0]) ** 0.5
        torch.testing.assert_close(model.gile.embed_texts(**inputs)[0], expected, rtol=1e-4, atol=1e-5)
        logits = model(**inputs).logits
    model.save_pretrained(tmp_path / "model")
    shutil.rmtree(tmp_path / "encoder")
    assert str(tmp_path) not in (tmp_path / "model" / "config.json").read_text()
    reloaded = GileForSequenceClassification.from_pretrained(tmp_path / "model").eval()
    assert reloaded.state_dict().keys() == model.state_dict().keys()
    for weight, before in zip(reloaded.state_dict().values(), model.state_dict().values(), strict=True):
        assert torch.equal(weight, before)
    assert torch.equal(reloaded(**inputs).logits, logits)
    assert fingerprint(reloaded) == fingerprint(model)
    _, gradients = step(reloaded, processor)
    assert gradients.keys() == dict(model.named_parameters()).keys()


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_similar_length_are_encoded_together(make_pretrained, monkeypatch, kind):
    model, processor = make_pretrained(kind, encoder=WITHOUT_DROPOUT, pooling="attention", **EVERYTHING)
    expected_loss, expected = step(model, processor)
    read = []
    model.gile.text_encoder.transformer.register_forward_pre_hook(
        lambda _, __, inputs: read.append(inputs["attention_mask"]), with_kwargs=True
    )
    monkeypatch.setattr(text_encoders_gile, "TOKENS_AT_ONCE", 20)
    loss, got = step(model, processor)
    assert len(read) > 4
    assert all(mask.numel() <= 20 or len(mask) == 1 for mask in read)
    assert sum(mask.logical_not().sum() for mask in read) < 0.2 * sum(mask.numel() for mask in read)
    torch.testing.assert_close(loss, expected_loss)
    for name, gradient in expected.items():
        torch.testing.assert_close(got[name], gradient, rtol=1e-4, atol=1e-5)


def test_the_model_has_the_dtype_of_the_encoder(tmp_path, make_pretrained):
    model, _ = make_pretrained(text_encoder_options={"dtype": torch.bfloat16}, **EVERYTHING)
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
    model.save_pretrained(tmp_path / "model")
    reloaded = GileForSequenceClassification.from_pretrained(tmp_path / "model", dtype=torch.float32).eval()
    assert {weight.dtype for weight in reloaded.parameters()} == {torch.float32}


@pytest.mark.parametrize("kind", KINDS)
def test_scores_in_16_bits_are_close_to_full_precision(make_pretrained, kind):
    model, processor = make_pretrained(kind, pooling="attention", **EVERYTHING)
    batch = batch_of(processor)
    expected = logits_of(model, batch)
    with torch.autocast("cpu", torch.bfloat16):
        got = step(model, processor)
        torch.testing.assert_close(logits_of(model.eval(), batch).float(), expected, rtol=0.05, atol=0.3)
    model.bfloat16()
    torch.testing.assert_close(logits_of(model, batch).float(), expected, rtol=0.05, atol=0.3)
    for loss, gradients in (got, step(model, processor)):
        assert loss.isfinite()
        assert all(gradient.isfinite().all() for gradient in gradients.values())


def test_a_frozen_encoder_has_no_gradient_and_no_dropout(tmp_path, make_pretrained):
    model, processor = make_pretrained(freeze_text_encoder=True)
    model.save_pretrained(tmp_path / "model")
    assert not GileForSequenceClassification(model.config).gile.text_encoder.transformer.training
    with torch.inference_mode():
        model(**batch_of(processor))  # caches label vectors that are then trained on
    for candidate in (model, GileForSequenceClassification.from_pretrained(tmp_path / "model")):
        _, gradients = step(candidate, processor)
        trained = {name for name, weight in candidate.named_parameters() if weight.requires_grad}
        assert gradients.keys() == trained
        assert not any("transformer" in name for name in trained)
        assert not any(module.training for module in candidate.gile.text_encoder.transformer.modules())
        assert candidate.training
        assert candidate.gile.text_encoder.training
        assert torch.equal(candidate(**batch_of(processor)).logits, candidate(**batch_of(processor)).logits)


def test_labels_are_refreshed_periodically_without_gradients(make_pretrained):
    model, processor = make_pretrained(encoder={"hidden_dropout_prob": 0.3})
    model.loss_function = UnitLoss(refresh_steps=3)
    encoder, read = model.gile.text_encoder, []
    encoder.transformer.register_forward_hook(lambda *_: read.append((torch.is_grad_enabled(), encoder.training)))
    encodings = []
    for _ in range(4):
        step(model, processor)
        encodings.append(model.loss_function._refreshed[2])
        with torch.no_grad():  # like an optimizer
            encoder.transformer.embeddings.word_embeddings.weight.add_(0.3)
    documents, labels = (True, True), (False, False)
    assert read == [documents, labels, documents, documents, documents, labels]
    assert [torch.equal(first, second) for first, second in pairwise(encodings)] == [True, True, False]


WINDOWS = {"text_encoder_type": "hierarchical_transformer", "encoder_cell": "bigru"}


@pytest.mark.parametrize("options", [{}, {"freeze_text_encoder": True}, WINDOWS])
def test_chunked_losses_give_all_trained_weights_a_gradient(make_pretrained, options):
    # With DDP, processes wait for the gradients of all weights.
    model, processor = make_pretrained(**options, **EVERYTHING)
    model.loss_function = UnitLoss(chunk_size=2)
    _, gradients = step(model, processor)
    assert gradients.keys() == {name for name, weight in model.named_parameters() if weight.requires_grad}


def test_gradient_checkpointing_keeps_gradients(make_pretrained):
    model, processor = make_pretrained(encoder=WITHOUT_DROPOUT)
    model.loss_function = ChunkedLoss(chunk_size=2)
    runs = []
    model.gile.text_encoder.transformer.encoder.layer[0].attention.register_forward_hook(lambda *_: runs.append(1))
    _, expected = step(model, processor)
    before = len(runs)
    getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()  # the deprecated name
    _, got = step(model, processor)
    assert len(runs) - before > before  # recomputed in the backward pass
    for name, gradient in expected.items():
        torch.testing.assert_close(got[name], gradient)


def test_limits_stay_within_the_positions_of_the_encoder(make_pretrained, encoder_folder):
    assert model_from_text_encoder(encoder_folder()).config.text_config.max_words == 41
    assert model_from_text_encoder(encoder_folder("MPNet", **ENCODERS["MPNet"])).config.text_config.max_words == 39
    folder = encoder_folder("Roberta", **ENCODERS["Roberta"])  # whose positions start after the padding index
    model = model_from_text_encoder(folder).eval()
    assert model.config.text_config.max_words == 40
    assert model.gile.project_texts(torch.full((1, 40), 5)).isfinite().all()
    for field in ("max_words", "max_label_words"):
        with pytest.raises(ValueError, match=f"{field} must be at most 40, .* got 41"):
            model_from_text_encoder(folder, **{field: 41})
    model_from_text_encoder(folder, label_encoder_type="mean", max_label_words=41)
    with pytest.raises(ValueError, match=r"reads at most 40 tokens, got 41; .*truncation=True"):
        model.gile.project_texts(torch.full((1, 41), 5))


@pytest.mark.parametrize("kind", KINDS)
def test_the_vector_of_a_label_with_a_frame_is_the_mean_of_both_readings(make_pretrained, kind):
    model, processor = make_pretrained(kind)
    twice = GileProcessor.for_config(processor.tokenizer, model.config, label_frame="blood of {}.")
    names = ["iron", "human milk"]

    def pool(processor, texts):
        ids = processor(label_text=texts, return_tensors="pt")["label_input_ids"]
        return model.gile.text_encoder.pool_labels(ids, ids != 0)

    plain, framed = pool(processor, names), pool(processor, [f"blood of {name}." for name in names])
    torch.testing.assert_close(pool(twice, names), rms_normalized(plain + framed))
    model.set_labels(LabelSet.from_names(names), twice)
    pipe = LabelScoringPipeline(model=model, processor=twice)
    by_name = pipe("Iron in milk.", candidate_labels=names)
    assert scores(pipe("Iron in milk.")) == pytest.approx(scores(by_name))
