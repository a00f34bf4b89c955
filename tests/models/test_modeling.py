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


def test_a_document_without_known_words_gets_a_score(make_model):
    model, processor = make_model()
    logits = model(**processor(["zebrafish quantum", "", "!"], return_tensors="pt")).logits
    assert logits.isfinite().all()
    assert torch.equal(logits[1], logits[2])


def test_linear_units_refuse_untrained_labels(make_model, label_set):
    model, processor = make_model(output_layer="linear")
    with pytest.raises(ValueError, match="scores only the labels it was trained on"):
        both_towers(model, processor, label_set)
    with pytest.raises(ValueError, match="label set has 4 labels, this linear unit has 5"):
        model.set_labels(label_set[1:], processor)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "pass exactly one of label_input_ids and label_embeds"),
        ({"label_input_ids": torch.ones(1, 1), "label_embeds": torch.ones(1, 7)}, "pass exactly one"),
        ({"label_input_ids": torch.ones(3, dtype=torch.long)}, r"must have shape \(L, T\), got \(3,\)"),
        ({"label_embeds": torch.ones(2, 8)}, r"label_embeds must have shape \(L, 7\), got \(2, 8\)"),
    ],
    ids=["neither", "both", "dimensions", "size of vectors"],
)
def test_wrong_labels_are_refused(make_model, arguments, message):
    model, _ = make_model()
    with pytest.raises(ValueError, match=message):
        model.gile.project_labels(**arguments)


def test_classifiers_without_labels_raise_an_error_with_instructions():
    model = GileForSequenceClassification(GileConfig(vocab_size=5))
    with pytest.raises(ValueError, match=r"no label set is stored.*call model.set_labels"):
        model(input_ids=torch.tensor([[3]]))


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


class TestLoss:
    gold = torch.tensor([[1, 2], [0, -100]])

    def loss(self, model, processor, **arguments):
        return model(**processor(TEXTS, return_tensors="pt"), **arguments)

    def test_sigmoid_loss_accepts_columns_or_multi_hot_labels(self, make_model):
        model, processor = make_model()
        output = self.loss(model, processor, labels=self.gold)
        dense = multi_hot(self.gold, 5)
        stock = functional.binary_cross_entropy_with_logits(output.logits, dense) * 5
        torch.testing.assert_close(output.loss, stock)
        torch.testing.assert_close(self.loss(model, processor, labels=dense).loss, stock)

    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            (torch.tensor([[1], [5]]), r"labels has index 5, but there are 5 labels \(0 to 4\)"),
            (
                torch.tensor([[0, 1, 1], [0, 0, 1]]),
                "contains a gold label of a document twice.*zeros and ones as floats",
            ),
            (torch.tensor([0.0, 1.0]), r"labels must have shape \(2, P\)"),
            (torch.zeros(2, 4), "labels of zeros and ones must have 5 columns, one for each stored label, got 4"),
        ],
        ids=["out of range", "integer zeros and ones", "one-dimensional floats", "too few columns"],
    )
    def test_invalid_labels_are_refused(self, make_model, labels, message):
        model, processor = make_model(problem_type="multi_label_classification")
        with pytest.raises(ValueError, match=message):
            self.loss(model, processor, labels=labels)

    def test_a_softmax_refuses_several_gold_labels(self, make_model):
        model, processor = make_model(problem_type="single_label_classification")
        with pytest.raises(ValueError, match="takes exactly one gold label for each document"):
            self.loss(model, processor, labels=self.gold)


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
    for wrong in (torch.tensor([[5], [0]]), torch.tensor([[0]])):
        with pytest.raises(ValueError, match=r"must be label indices below 5, \(2, E\) padded with -100"):
            model(**batch, excluded_columns=wrong)
    with pytest.raises(ValueError, match=r"document 0 .* has the gold label 1 .* in its excluded_columns"):
        model(**batch, excluded_columns=excluded, labels=torch.tensor([[1], [0]]))
