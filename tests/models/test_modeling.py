import pytest
import torch
from torch.nn import functional

from hf_gile import GileConfig, GileForSequenceClassification, LabelSet
from hf_gile.models.losses_gile import multi_hot
from hf_gile.settings import only_read

TEXTS = ["breast milk and iron", "the heart"]


def both_towers(model, processor, labels):
    inputs = processor(TEXTS, label_text=labels.texts, return_tensors="pt")
    return model.gile(**inputs)


def test_both_towers_score_like_the_stored_labels(make_model, label_set):
    model, processor = make_model()
    documents = processor(TEXTS, return_tensors="pt")
    stored = model(**documents).logits
    output = both_towers(model, processor, label_set)
    torch.testing.assert_close(output.logits, stored)
    assert output.text_embeds.shape == (2, 11)
    assert output.label_embeds.shape == (5, 7)
    assert output.attentions is None
    words = processor(label_text=label_set.texts, return_tensors="pt")["label_input_ids"]
    by_vector = model.gile(**documents, label_embeds=model.gile.embed_labels(words)).logits
    torch.testing.assert_close(by_vector, stored)
    steps = model.gile.score(model.gile.project_texts(**documents), model.gile.project_labels(words))
    torch.testing.assert_close(steps, stored)
    attentions = model(**documents, output_attentions=True).attentions
    assert [tuple(weights.shape) for weights in attentions] == [(2, 4)]


def test_set_labels_changes_scores_names_and_number(make_model):
    model, processor = make_model()
    documents = processor(TEXTS, return_tensors="pt")
    with torch.no_grad():
        model(**documents)  # caches the label codes
        new = LabelSet.from_names(["Iron", "Heart", "Risk of Infection"])
        model.set_labels(new, processor)
        torch.testing.assert_close(model(**documents).logits, both_towers(model, processor, new).logits)
    assert model.config.num_labels == 3
    assert model.config.id2label[2] == "Risk of Infection"


def test_sigmoid_loss_accepts_columns_or_multi_hot_labels(make_model):
    model, processor = make_model()
    words = processor(TEXTS, return_tensors="pt")
    gold = torch.tensor([[1, 2], [0, -100]])
    dense = multi_hot(gold, 5)
    output = model(**words, labels=gold)
    stock = functional.binary_cross_entropy_with_logits(output.logits, dense) * 5
    torch.testing.assert_close(output.loss, stock)
    torch.testing.assert_close(model(**words, labels=dense).loss, stock)


def test_gradients_flow_to_the_labels_even_in_evaluation_mode(make_model):
    model, processor = make_model()
    words = processor(TEXTS, return_tensors="pt")
    with torch.inference_mode():
        model(**words)  # caches the label codes
    model(**words).logits.sum().backward()
    assert model.gile.output_layer.label_projection.weight.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("labels", "problem_type"),
    [(torch.tensor([1, 4]), "single_label_classification"), (torch.tensor([[1], [4]]), "multi_label_classification")],
    ids=["a single label", "any number"],
)
def test_the_first_labels_decide_the_problem_type(make_model, labels, problem_type):
    model, processor = make_model()
    model(**processor(TEXTS, return_tensors="pt"), labels=labels)
    assert model.config.problem_type == problem_type


@pytest.mark.parametrize("output_layer", ["gile", "linear"])
def test_fresh_weights_start_as_configured(output_layer):
    torch.manual_seed(0)
    sizes = {"embedding_size": 101, "hidden_size": 103, "joint_size": 307}
    options = {"output_layer": output_layer, "num_labels": 97, "label_prior": 0.02, "embedding_std": 0.5}
    config = GileConfig(vocab_size=1009, **only_read(**sizes, **options))
    model = GileForSequenceClassification(config)
    classifier = model.gile.output_layer.classifier
    torch.testing.assert_close(classifier.bias.sigmoid(), torch.full_like(classifier.bias, 0.02))
    assert classifier.weight.std().item() == pytest.approx(classifier.weight.shape[1] ** -0.5, rel=0.1)
    words = model.gile.get_input_embeddings().weight
    assert words[1:].std().item() == pytest.approx(0.5, rel=0.05)
    assert words[0].eq(0).all()
    dense = model.gile.text_encoder.word_encoder.dense
    assert dense.weight.std().item() == pytest.approx((2 / 101) ** 0.5, rel=0.05)
    assert dense.bias.eq(0).all()


def test_excluded_columns_get_minus_infinity_and_the_others_keep_their_scores(make_model):
    model, processor = make_model(problem_type="multi_label_classification")
    batch = processor(["Milk was fed.", "Blood."], return_tensors="pt")
    excluded = torch.tensor([[4, 1], [-100, -100]])
    all_logits = model(**batch).logits
    masked = model(**batch, excluded_columns=excluded, labels=torch.tensor([[0], [1]]))
    expected = all_logits.clone()
    expected[0, [1, 4]] = -torch.inf
    assert torch.equal(masked.logits, expected)
    assert masked.loss.isfinite()


@pytest.mark.parametrize("make", ["make_model", "make_pretrained"])
def test_the_number_of_words_cannot_change(make, request):
    model, _ = request.getfixturevalue(make)()
    words = model.get_input_embeddings()
    assert model.resize_token_embeddings(words.num_embeddings) is words
    with pytest.raises(ValueError, match="their number cannot be changed: create a model for the new tokenizer"):
        model.resize_token_embeddings(words.num_embeddings + 3)
