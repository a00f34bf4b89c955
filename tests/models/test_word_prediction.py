"""The part of AiTextML that makes vectors predict the words of their text."""

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError

from hf_gile import GileConfig
from hf_gile.models.word_prediction_gile import WordPrediction

V, D = 23, 7


@pytest.fixture
def predict():
    torch.manual_seed(0)
    module = WordPrediction(GileConfig(vocab_size=V, embedding_size=D, text_encoder_type="nn", word_prediction=1.0))
    torch.nn.init.normal_(module.context.weight)
    return module


def test_a_vector_that_points_at_its_words_predicts_them_better(predict):
    words = torch.tensor([[3, 4, 0], [9, 0, 0]])
    context = predict.context.weight
    with torch.no_grad():
        context[[3, 4, 9]] = torch.eye(3, D)  # words that have nothing in common
    towards = torch.stack([context[3] + context[4], context[9]])
    losses = [predict(given, words, torch.Generator().manual_seed(1)) for given in (towards, towards.flip(0))]
    assert losses[0] < losses[1]


def test_the_loss_is_the_one_written_by_hand(predict):
    words, vector = torch.tensor([[5, 6, 0]]), torch.randn(1, D)
    loss = predict(vector, words, torch.Generator().manual_seed(1))
    drawn = torch.randint(V, (64,), generator=torch.Generator().manual_seed(1)).tolist()
    scores = (vector @ predict.context.weight.T)[0]
    noise = [-torch.log(torch.sigmoid(-scores[word])) for word in drawn if word not in (0, 5, 6)]
    expected = -torch.log(torch.sigmoid(scores[[5, 6]])).mean() + 5 * sum(noise) / len(noise)
    torch.testing.assert_close(loss, expected)


def test_a_text_alone_ends_at_its_words_and_where_it_ends_among_others(predict):
    words, start = torch.tensor([[3, 0], [9, 8]]), torch.zeros(2, D)
    together = predict.infer(start, words)
    torch.testing.assert_close(predict.infer(start[:1], words[:1]), together[:1])
    assert (together[0] @ predict.context.weight[3]).item() > 0
    with torch.inference_mode():
        torch.testing.assert_close(predict.infer(start.clone(), words), together)


def test_padding_and_empty_texts_do_not_count(predict):
    vectors = torch.randn(2, D, requires_grad=True)
    loss = predict(vectors, torch.zeros(2, 3, dtype=torch.long))
    assert loss == 0
    loss.backward()
    loss = predict(vectors, torch.tensor([[5, 0, 0], [0, 0, 0]]))
    (gradient,) = torch.autograd.grad(loss, [vectors])
    assert gradient[0].any()
    assert not gradient[1].any()


def test_inferring_moves_a_vector_to_predict_its_words_and_leaves_the_words_alone(predict):
    words, start = torch.tensor([[3, 4, 6], [9, 8, 0]]), torch.zeros(2, D)
    before = predict.context.weight.clone()
    inferred = predict.infer(start, words)
    assert torch.equal(predict.context.weight, before)
    assert predict.context.weight.grad is None
    old, new = (predict(given, words, torch.Generator().manual_seed(2)) for given in (start, inferred))
    assert new < old


def test_unseen_labels_of_a_classifier_get_inferred_vectors(make_model):
    model, processor = make_model(
        "nn", "bilinear", label_encoder_type="learned", training_loss="warp", word_prediction=1.0
    )
    words = processor(["breast milk and iron", "the heart"], return_tensors="pt")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(20):
        optimizer.zero_grad()
        model.train()(**words, labels=torch.tensor([[1, 2], [0, -100]])).loss.backward()
        optimizer.step()
    with torch.no_grad():
        average = model.eval()(**words).logits
        model.infer_label_vectors(torch.tensor([4]))
        inferred = model(**words).logits
    assert torch.equal(average[:, :4], inferred[:, :4])
    assert not torch.equal(average[:, 4], inferred[:, 4])


def test_a_model_that_predicts_no_words_infers_none(make_model):
    with pytest.raises(ValueError, match=r"trained with config\.word_prediction above zero"):
        make_model()[0].infer_label_vectors(torch.tensor([0]))


def test_vectors_must_have_the_size_of_words():
    with pytest.raises(StrictDataclassError, match="vectors of the size of word vectors, got 11, 7 and 7"):
        GileConfig(word_prediction=1.0, embedding_size=7, hidden_size=11)
