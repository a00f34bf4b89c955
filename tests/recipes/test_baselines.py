"""The baselines of Table 2: learned label vectors, vectors that predict the words of a text, and ranking losses."""

import pytest
import torch
from answers import logits_of
from baselines import AiTextML, LearnedLabels, hinge, warp
from baselines.word_prediction import WordPrediction
from papers.chunked_training import ChunkedLoss

from hf_gile import GileConfig, GileProcessor
from hf_gile.models.losses_gile import multi_hot
from hf_gile.training import GileLoss

V, D = 23, 7


@pytest.fixture
def predict():
    torch.manual_seed(0)
    module = WordPrediction(V, D, pad_token_id=0)
    torch.nn.init.normal_(module.context.weight)
    return module


def test_the_loss_equals_a_hand_written_formula(predict):
    words, vector = torch.tensor([[5, 6, 0]]), torch.randn(1, D)
    loss = predict(vector, words, torch.Generator().manual_seed(1))
    sampled = torch.randint(V, (64,), generator=torch.Generator().manual_seed(1)).tolist()
    scores = (vector @ predict.context.weight.T)[0]
    noise = [-torch.log(torch.sigmoid(-scores[word])) for word in sampled if word not in (0, 5, 6)]
    expected = -torch.log(torch.sigmoid(scores[[5, 6]])).mean() + 5 * sum(noise) / len(noise)
    torch.testing.assert_close(loss, expected)


def test_inference_does_not_depend_on_other_texts_in_the_batch(predict):
    words, start = torch.tensor([[3, 0], [9, 8]]), torch.zeros(2, D)
    together = predict.infer(start, words)
    torch.testing.assert_close(predict.infer(start[:1], words[:1]), together[:1])
    assert (together[0] @ predict.context.weight[3]).item() > 0
    with torch.inference_mode():
        torch.testing.assert_close(predict.infer(start.clone(), words), together)


def test_padding_and_empty_texts_are_ignored(predict):
    vectors = torch.randn(2, D, requires_grad=True)
    loss = predict(vectors, torch.zeros(2, 3, dtype=torch.long))
    assert loss == 0
    loss.backward()
    loss = predict(vectors, torch.tensor([[5, 0, 0], [0, 0, 0]]))
    (gradient,) = torch.autograd.grad(loss, [vectors])
    assert gradient[0].any()
    assert not gradient[1].any()


@pytest.fixture
def make(tokenizer, label_set):
    def make_baseline(kind, **fields):
        torch.manual_seed(0)
        sizes = {"vocab_size": len(tokenizer), "embedding_size": D, "num_labels": len(label_set)}
        fields = {"text_encoder_type": "nn", "output_layer": "bilinear", **fields}
        model = kind(GileConfig(**sizes, **fields, problem_type="multi_label_classification"))
        processor = GileProcessor.for_config(tokenizer, model.config)
        model.set_labels(label_set, processor)
        return model, processor

    return make_baseline


def train(model, inputs, steps=20):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        model.train()(**inputs).loss.backward()
        optimizer.step()
    return model.eval()


def test_learned_label_vectors_start_at_the_mean_of_their_words(make):
    model, processor = make(LearnedLabels)
    inputs = processor(["breast milk and iron", "the heart"], return_tensors="pt")
    with torch.no_grad():
        mean = model.gile.project_labels(model.label_input_ids)
        torch.testing.assert_close(model.eval().project_stored_labels(), mean)
    before = logits_of(model, inputs)
    model.loss_function = GileLoss()
    gold = {"labels": torch.tensor([[0], [1]]), "sampled_columns": torch.tensor([0, 1, 2])}
    train(model, {**inputs, **gold}, steps=1)
    moved = model.label_residual.weight.abs().sum(1) > 0
    assert moved.tolist() == [True, True, True, False, False]
    assert not torch.allclose(logits_of(model, inputs), before)


def test_vectors_of_unseen_labels_are_inferred(make):
    model, processor = make(AiTextML)
    words = processor(["breast milk and iron", "the heart"], return_tensors="pt")
    train(model, {**words, "labels": torch.tensor([[1, 2], [0, -100]])})
    assert model.word_prediction.context.weight.any()
    average = logits_of(model, words)
    model.infer_label_vectors(torch.tensor([4]))
    inferred = logits_of(model, words)
    assert torch.equal(average[:, :4], inferred[:, :4])
    assert not torch.equal(average[:, 4], inferred[:, 4])


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (LearnedLabels, {"output_layer": "linear"}, "learned label vectors need label_encoder_type 'mean'"),
        (AiTextML, {"text_encoder_type": "wan", "hidden_size": 11}, "vectors of equal size, got 11, 7 and 7"),
    ],
)
def test_incompatible_baseline_options_are_refused(make, kind, fields, message):
    with pytest.raises(ValueError, match=message):
        make(kind, **fields)


B, L = 3, 17
RANKING = {"warp": warp, "hinge": hinge}
LABELS = torch.tensor([[2, 5, -100], [16, -100, -100], [-100, -100, -100]])


@pytest.fixture
def logits():
    return torch.randn(B, L, dtype=torch.double, generator=torch.Generator().manual_seed(0))


def ranking_loss_by_hand(logits, targets, weights, kind):
    """Computes both ranking losses in loops over pairs of labels."""
    total = 0.0
    for row in range(len(logits)):
        negatives = [column for column in range(logits.shape[1]) if not targets[row, column]]
        for gold in range(logits.shape[1]):
            if not targets[row, gold]:
                continue
            margins = [max(0.0, 1 - logits[row, gold].item() + logits[row, other].item()) for other in negatives]
            counts = [weights[other].item() for other in negatives]
            weighted = sum(margin * count for margin, count in zip(margins, counts, strict=True))
            if kind == "hinge":
                total += weighted / sum(counts)
            else:
                rank = sum(count for margin, count in zip(margins, counts, strict=True) if margin > 0)
                harmonic = sum(1 / position for position in range(1, round(rank) + 1))
                total += harmonic * weighted / max(rank, 1)
    return total / len(logits)


@pytest.mark.parametrize("kind", ["warp", "hinge"])
def test_ranking_losses_equal_hand_written_formulas(logits, kind):
    targets = multi_hot(LABELS, L)
    for weights in (torch.ones(L, dtype=torch.double), torch.randint(1, 4, (L,)).double()):
        expected = ranking_loss_by_hand(logits, targets, weights, kind)
        passed_weights = None if bool((weights == 1).all()) else weights
        assert RANKING[kind](logits, targets, passed_weights).item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("kind", ["warp", "hinge"])
def test_a_model_trains_with_a_ranking_loss_but_not_in_chunks(make_model, kind):
    model, processor = make_model()
    model.loss_function = GileLoss(RANKING[kind])
    inputs = processor(["breast milk", "iron"], return_tensors="pt")
    output = model.train()(**inputs, labels=torch.tensor([[1, 2], [0, -100]]), sampled_columns=torch.arange(4))
    output.loss.backward()
    assert model.gile.output_layer.classifier.weight.grad.any()
    with pytest.raises(ValueError, match=f"the loss {kind} needs the scores of all labels at once"):
        ChunkedLoss(RANKING[kind], chunk_size=2)
