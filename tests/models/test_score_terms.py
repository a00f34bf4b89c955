"""Terms other than the joint embedding: cosines, label rows, deeper projections."""

import pytest
import torch
from answers import logits_of, scores
from papers.literal import literal_scores
from papers.unit_loss import UnitLoss
from transformers import pipeline

from hf_gile import GileConfig, GileForSequenceClassification, GileModel, Label, LabelIndex, LabelSet
from hf_gile.models.mixture_gile import Mixture, Rows, RowTable
from hf_gile.models.scoring_gile import JointInputLabelEmbedding
from hf_gile.settings import only_read
from hf_gile.training.losses import project_vectors

B, L = 3, 17
TEXTS = ["The failing heart pumps less. Blood of infants.", "Breast milk.", "Iron, iron: iron"]
TERMS = {
    "all": {"cosine_score": True, "label_rows": "full", "joint_layers": 3},
    "only label": {"cosine_score": True, "label_rows": "full", "output_layer": "only_label"},
    "bilinear": {"cosine_score": True, "label_rows": "full", "output_layer": "bilinear_yh15"},
}


def texts_of(processor, texts=TEXTS):
    return processor(texts, return_tensors="pt")


def randomized(layer):
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    return layer


@pytest.mark.parametrize("options", TERMS.values(), ids=TERMS)
def test_fast_path_equals_the_formula_in_values_and_gradients(options):
    torch.manual_seed(0)
    sizes = {"embedding_size": 7, "hidden_size": 7, "joint_size": 13, "joint_act": "tanh"}
    config = GileConfig(**only_read(**(sizes | options)))
    layer = randomized(JointInputLabelEmbedding(config).double())
    texts = torch.randn(B, config.document_size, dtype=torch.double, requires_grad=True)
    labels = torch.randn(L, config.label_size, dtype=torch.double, requires_grad=True)
    row_tensors = [torch.randn(size, dtype=torch.double, requires_grad=True) for size in ((L, config.document_size), L)]
    rows = Rows(*row_tensors, torch.rand(L, dtype=torch.double)) if config.label_rows else None
    fast = layer.score(layer.project_texts(texts), layer.project_labels(labels, label_rows=rows))
    literal = literal_scores(layer, texts, labels, label_rows=rows)
    torch.testing.assert_close(fast, literal, rtol=1e-10, atol=1e-10)
    inputs = [texts, labels, *(row_tensors if config.label_rows else ()), *layer.parameters()]
    upstream = torch.randn(B, L, dtype=torch.double)
    actual, expected = (torch.autograd.grad((found * upstream).sum(), inputs) for found in (fast, literal))
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)
    assert layer.cosine or layer.rows


class TestLabelRows:
    def test_label_rows_follow_label_ids(self, tmp_path, make_pretrained):
        model, processor = make_pretrained(label_rows="full", cosine_score=True)
        logits = logits_of(model, texts_of(processor))
        before = model.gile.label_rows.state_dict()
        model.save_pretrained(tmp_path / "model")
        model = GileForSequenceClassification.from_pretrained(tmp_path / "model").eval()
        labels = model.label_set
        changed = LabelSet([Label("new", "pumps"), labels[4], labels[0]])
        model.set_labels(changed, processor)
        for name, rows in before.items():
            assert torch.equal(getattr(model.gile.label_rows, name), torch.stack([0 * rows[0], rows[4], rows[0]]))
        assert model.gile.label_rows.weight.requires_grad
        actual = logits_of(model, texts_of(processor))
        new = logits_of(model.gile, processor(TEXTS, label_text=["pumps"], return_tensors="pt"))
        torch.testing.assert_close(actual[:, 1:], logits[:, [4, 0]])
        torch.testing.assert_close(actual[:, :1], new)

    def test_the_pipeline_recognizes_stored_labels_in_every_form(self, make_pretrained):
        model, processor = make_pretrained(label_rows="full", cosine_score=True)
        pipe = pipeline("label-scoring", model=model, processor=processor)
        stored = pipe(TEXTS)
        meanings = {label.name: label.description for label in model.label_set}
        for candidates in (meanings, model.label_set, [*model.label_set, Label("x", "pumps")], LabelIndex.build(model)):
            by_name = pipe(TEXTS, candidate_labels=candidates)
            for answer, other in zip(stored, by_name, strict=True):
                found = scores(other)
                assert {name: found[name] for name in answer["labels"]} == pytest.approx(scores(answer), abs=1e-6)

    def test_row_dropout_scores_some_labels_without_their_row(self, make_pretrained):
        names = [" ".join(["iron"] * (1 + number // 7) + ["milk"] * (1 + number % 7)) for number in range(49)]
        labels = LabelSet.from_names(names)
        model, processor = make_pretrained(label_rows="full", freeze_text_encoder=True, labels=labels)
        model.loss_function = loss = UnitLoss(row_dropout=0.3)
        inputs = texts_of(processor)
        codes = model.gile.project_texts(**inputs).detach()

        def score_step():
            return model.gile.score(codes, project_vectors(model.gile, loss.label_inputs(model, None)))

        with torch.no_grad():
            with_rows = model(**inputs).logits
            without_rows = model.gile(**processor(TEXTS, label_text=labels.texts, return_tensors="pt")).logits
            model.train()
            torch.testing.assert_close(score_step(), with_rows)  # without gradients, no row is dropped
        torch.manual_seed(0)
        dropped = 0
        for _ in range(10):
            logits = score_step()
            is_dropped = torch.isclose(logits, without_rows, rtol=1e-4, atol=1e-4).all(0)
            is_unchanged = torch.isclose(logits, with_rows, rtol=1e-4, atol=1e-4).all(0)
            assert (is_dropped ^ is_unchanged).all()
            dropped += int(is_dropped.sum())
        assert dropped / (10 * 49) == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize(("name", "value"), [("label_prior", 0.2), ("embedding_std", 0.7)])
def test_initialization_fields_are_refused_when_weights_are_loaded(make_model, tmp_path, name, value):
    model, _ = make_model(hidden_size=7)
    model.save_pretrained(tmp_path)
    for kind in (GileForSequenceClassification, GileModel):
        with pytest.raises(ValueError, match=f"{name}={value} is an initial value, but .* has trained weights"):
            kind.from_pretrained(tmp_path, **{name: value})
    with_cosine = GileForSequenceClassification.from_pretrained(tmp_path, cosine_score=True, cosine_scale=5.0)
    assert with_cosine.gile.output_layer.cosine.factor.scale.tolist() == [5.0]  # of new weights


def test_a_label_with_a_row_has_weights_between_those_of_rare_and_of_seen_labels():
    groups = {"seen": {"joint": 0.5, "rows": 3.0}, "rare": {"joint": 1.5, "offset": 2.0}, "unseen": {"joint": 9.0}}
    mixture, table = Mixture(["joint", "rows", "offset"], groups), RowTable(3, 2)
    with torch.no_grad():
        table.rarity[:] = torch.tensor([0.0, 0.25, 1.0])
    rows = table()
    assert rows.seen.tolist() == [False, True, True]
    torch.testing.assert_close(mixture.of_rows("joint", rows), torch.tensor([9.0, 0.75, 1.5]))
    torch.testing.assert_close(mixture.of_rows("offset", rows), torch.tensor([0.0, 0.5, 2.0]))


def test_a_table_of_the_same_size_keeps_its_parameters():
    table = RowTable(3, 2)
    torch.nn.init.normal_(table.weight)
    before = table().take(torch.arange(3))
    same, longer = table.reordered(torch.tensor([2, 0, -1])), table.reordered(torch.tensor([0, 1, 2, -1]))
    assert same is table
    assert torch.equal(table.weight, torch.stack([before.weight[2], before.weight[0], torch.zeros(2)]))
    assert longer.weight.shape == (4, 2)
