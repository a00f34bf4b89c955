import pytest
import torch


@pytest.fixture(params=["wan", "han"])
def model(request, make_model):
    return make_model(request.param)[0].gile.double()


def document(model, words):
    """Returns a document of words, as a single sentence for a HAN."""
    words = torch.tensor(words)[None]
    return words if model.config.text_config.text_encoder_type == "wan" else words[None]


def encode(model, input_ids, **kwargs):
    return model.embed_texts(input_ids, **kwargs)[0]


def test_an_empty_document_is_a_zero_vector_with_finite_gradients(model):
    batch = torch.cat([document(model, [0, 0, 0]), document(model, [3, 0, 0])])
    embeds, attentions = model.embed_texts(batch)
    assert embeds[0].eq(0).all()
    assert embeds[1].ne(0).any()
    assert all(weights[0].eq(0).all() for weights in attentions)
    embeds.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.text_encoder.parameters())


def test_repeated_words_count_each_time(model):
    # Ids are encoded once per distinct word; word vectors are encoded separately at every position.
    input_ids = document(model, [3, 4, 3, 3, 5])
    vectors = model.get_input_embeddings()(input_ids)
    torch.testing.assert_close(encode(model, input_ids), encode(model, None, inputs_embeds=vectors))
    assert not torch.allclose(encode(model, input_ids), encode(model, document(model, [3, 4, 5])))


def test_word_dropout_drops_distinct_words_in_training_only(model):
    model.config.text_config.word_dropout = 0.5
    input_ids = document(model, [3, 4, 3, 5, 4, 3])
    torch.testing.assert_close(encode(model, input_ids), encode(model, input_ids), rtol=0, atol=0)
    model.train()
    torch.manual_seed(0)
    left_out = 0
    for _ in range(100):
        read = model.embed_texts(input_ids)[1][0].flatten() > 0
        assert read[0] == read[2] == read[5]
        assert read[1] == read[4]
        left_out += (~read[[0, 1, 3]]).sum().item()
    assert abs(left_out / 300 - 0.5) < 0.1
