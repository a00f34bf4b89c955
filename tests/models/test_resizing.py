import pytest


@pytest.mark.parametrize("make", ["make_model", "make_pretrained"])
def test_the_number_of_words_cannot_change(make, request):
    model, _ = request.getfixturevalue(make)()
    words = model.get_input_embeddings()
    assert model.resize_token_embeddings(words.num_embeddings) is words
    with pytest.raises(ValueError, match="their number cannot be changed: create a model for the new tokenizer"):
        model.resize_token_embeddings(words.num_embeddings + 3)
