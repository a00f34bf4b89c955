"""Every model of the paper is built, trained, saved and loaded, and scores do not depend on the batch."""

import pytest
import torch
from answers import logits_of

from hf_gile import GileForSequenceClassification
from hf_gile.training import set_word_vectors


def documents(encoder, size=3):
    torch.manual_seed(1)
    shape = (size, 8) if encoder in ("nn", "wan") else (size, 4, 6)
    return torch.randint(2, 23, shape)


OF_WORDS = [("nn", "dense", "gile"), ("wan", "gru", "only_label"), ("wan", "dense", "bilinear")]
OF_SENTENCES = [("hnn", "bigru", "only_input"), ("han", "gru", "bilinear_yh15"), ("han", "bigru", "linear")]


@pytest.mark.parametrize(("encoder", "cell", "layer"), [*OF_WORDS, *OF_SENTENCES])
def test_every_model_trains_and_reloads(tmp_path, make_model, encoder, cell, layer):
    model, _ = make_model(encoder, layer, encoder_cell=cell)
    words, labels = documents(encoder), torch.tensor([[0, 1], [2, -100], [3, 4]])
    model.train()(input_ids=words, labels=labels).loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name
    model.eval().save_pretrained(tmp_path)
    loaded = GileForSequenceClassification.from_pretrained(tmp_path)
    assert torch.equal(logits_of(loaded, {"input_ids": words}), logits_of(model, {"input_ids": words}))


@pytest.mark.parametrize("pooling", ["attention", "mean", "sum"])
@pytest.mark.parametrize(
    ("encoder", "cell"),
    [("nn", "dense"), ("wan", "dense"), ("wan", "gru"), ("hnn", "dense"), ("han", "dense"), ("han", "bigru")],
)
def test_other_documents_and_padding_never_change_a_score(make_model, encoder, cell, pooling):
    model = make_model(encoder, encoder_cell=cell, pooling=pooling)[0].double()
    words = documents(encoder)
    words[0, ..., -3:] = 0
    if words.dim() == 3:
        words[0, 1] = 0  # an empty sentence between two sentences
    padded = torch.nn.functional.pad(words, (0, 2) if words.dim() == 2 else (0, 2, 0, 3))
    together, attentions = model.gile.embed_texts(padded)
    for row in range(len(words)):
        alone, weights = model.gile.embed_texts(words[row : row + 1])
        torch.testing.assert_close(together[row : row + 1], alone)
        torch.testing.assert_close(attentions[0][row][..., : words.shape[-1]][: words.shape[1]], weights[0][0])
    for weights in attentions:
        sums = weights.sum(-1)
        if pooling != "sum" or encoder in ("nn", "hnn"):
            assert (((sums - 1).abs() < 1e-9) | (sums == 0)).all()
    assert (attentions[0][padded == 0] == 0).all()
    vectors, mask = model.gile.get_input_embeddings()(padded).detach(), padded != 0
    vectors[~mask] = torch.nan
    torch.testing.assert_close(model.gile.embed_texts(inputs_embeds=vectors, attention_mask=mask)[0], together)


def test_labels_can_be_read_by_the_text_encoder(make_model):
    model, _ = make_model("han", label_encoder_type="text_encoder", word_dropout=0.9)
    words = torch.tensor([[3, 4, 0], [5, 0, 0]])
    expected = model.gile.embed_texts(words[:, None])[0]
    torch.testing.assert_close(model.gile.embed_labels(words), expected)
    torch.testing.assert_close(model.train().gile.embed_labels(words), expected)  # without word dropout
    assert model.gile.output_layer.label_projection.in_features == 11


def test_word_vectors_can_be_set_except_that_of_padding(make_model):
    model, _ = make_model()
    words = model.get_input_embeddings().weight
    vectors = torch.randn_like(words)
    set_word_vectors(model, vectors.numpy())
    assert torch.equal(words[1:], vectors[1:])
    assert not words[0].any()


@pytest.mark.parametrize("kind", ["wan", "han"])
def test_word_dropout_drops_distinct_words_in_training_only(make_model, kind):
    model = make_model(kind, word_dropout=0.5)[0].gile
    words = torch.tensor([[3, 4, 3, 5, 4, 3]])
    words = words if kind == "wan" else words[None]
    torch.testing.assert_close(model.embed_texts(words)[0], model.embed_texts(words)[0], rtol=0, atol=0)
    model.train()
    torch.manual_seed(0)
    left_out = 0
    for _ in range(100):
        read = model.embed_texts(words)[1][0].flatten() > 0
        assert read[0] == read[2] == read[5]
        assert read[1] == read[4]
        left_out += (~read[[0, 1, 3]]).sum().item()
    assert abs(left_out / 300 - 0.5) < 0.1
