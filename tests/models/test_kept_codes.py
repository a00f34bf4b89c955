"""Stored label codes and vectors follow every change of weights, even through `.data`."""

import pytest
import torch

from hf_gile import LabelIndex, LabelScoringPipeline
from hf_gile.default_pipeline import without_reading_weights
from hf_gile.label_index import fingerprint
from hf_gile.models import stored_labels_gile
from hf_gile.models.stored_labels_gile import compute_state

TEXT = "The failing heart pumps less blood."


@pytest.mark.parametrize(("dtype", "size"), [(torch.float32, 1), (torch.bfloat16, 511), (torch.uint8, 300_007)])
def test_a_change_of_any_number_is_detected(dtype, size):
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randint(0, 100, (size,), generator=generator).to(dtype)
    before, where = compute_state(numbers), torch.randint(0, size, (20,), generator=generator).tolist()
    for position in [0, size - 1, *where]:
        version = numbers._version
        numbers.data[position] += 1
        assert numbers._version == version
        assert compute_state(numbers) != before
        numbers.data[position] -= 1
        assert compute_state(numbers) == before


def test_swapped_rows_are_detected():
    table = torch.randn(2000, 300, generator=torch.Generator().manual_seed(0))
    before = compute_state(table)
    for first, second in ((0, 1999), (7, 8)):
        changed = table.clone()
        changed[[first, second]] = table[[second, first]]
        assert compute_state(changed) != before
        assert compute_state(changed.T.contiguous()) != compute_state(table.T.contiguous())
    assert compute_state(table[1:]) == compute_state(table[1:].clone())  # also of a view


def words_of(model):
    return model.label_input_ids.unique()


def test_changes_of_embeddings_that_no_label_uses_keep_codes(make_model):
    model, processor = make_model()
    table, read = model.gile.get_input_embeddings().weight, words_of(model)
    (other,) = [row for row in range(1, len(table)) if row not in read][:1]
    with torch.no_grad():
        model(**processor(TEXT, return_tensors="pt"))
        cached = model.project_stored_labels()
        table.data[other] += 1
        assert model.project_stored_labels() is cached
        table.data[int(read[-1])] += 1
        assert model.project_stored_labels() is not cached


def test_every_change_through_data_changes_the_scores(make_model):
    options = {"label_rows": True, "cosine_score": True, "bag_size": 3}
    model, processor = make_model(problem_type="multi_label_classification", **options)
    inputs, pipe = processor(TEXT, return_tensors="pt"), LabelScoringPipeline(model=model, processor=processor)
    pad = model.config.text_config.pad_token_id
    row = int(next(word for word in words_of(model) if word != pad))
    index = LabelIndex.build(model)
    weights = {id(weight): weight for weight in (*model.gile.label_parameters(), model.gile.label_rows.weight)}
    for weight in weights.values():
        with torch.no_grad():
            model(**inputs)
            pipe(TEXT)
            pipe(TEXT, candidate_labels=["heart", "milk"])
        hash_before = fingerprint(model)
        weight.data[row if len(weight) == model.config.text_config.vocab_size else -1] += 0.5
        assert fingerprint(model) != hash_before
        with pytest.raises(ValueError, match="build it again"):
            index.check_fits(model)
        with torch.no_grad():
            fresh = model.gile.project_labels(**model.stored_inputs())
            torch.testing.assert_close(model.project_stored_labels(), fresh)
            answer = pipe(TEXT, candidate_labels=["heart", "milk"])
        fresh_pipe = LabelScoringPipeline(model=model, processor=processor)
        assert answer == fresh_pipe(TEXT, candidate_labels=["heart", "milk"])


def test_changing_returned_codes_does_not_affect_the_model(make_model):
    model, processor = make_model()
    inputs = processor(TEXT, return_tensors="pt")
    with torch.no_grad():
        before = model(**inputs).logits
        model.project_stored_labels().zero_()
        assert torch.equal(model(**inputs).logits, before)


@pytest.mark.parametrize("table", [False, True], ids=["a weight", "a row of the tokens"])
def test_label_vectors_follow_changes_of_a_frozen_encoder_through_data(make_pretrained, table):
    model, processor = make_pretrained(freeze_text_encoder=True)
    inputs = processor(TEXT, return_tensors="pt")
    transformer = model.gile.text_encoder.transformer

    def loss():
        return model(**inputs, labels=torch.tensor([[1]])).loss.item()

    def write():
        weight = (
            transformer.get_input_embeddings().weight if table else transformer.encoder.layer[0].output.dense.weight
        )
        weight.data[int(words_of(model)[-1]) if table else 0] *= -3

    losses = [loss()]  # in evaluation, with gradients
    write()
    model.train()
    losses.append(loss())
    model.eval()
    write()
    model.train()
    losses.append(loss())
    expected = make_pretrained(freeze_text_encoder=True)[0].train()
    expected.load_state_dict(model.state_dict())
    assert losses[2] == pytest.approx(expected(**inputs, labels=torch.tensor([[1]])).loss.item())
    assert len({round(loss, 6) for loss in losses}) == 3


def test_a_frozen_encoder_is_not_hashed_at_each_training_step(make_pretrained, monkeypatch):
    model, processor = make_pretrained(freeze_text_encoder=True)
    model.train()
    inputs = processor(TEXT, return_tensors="pt")
    model(**inputs, labels=torch.tensor([[1]]))
    monkeypatch.setattr("hf_gile.models.label_embeds_gile.compute_encoder_state", None)
    model(**inputs, labels=torch.tensor([[1]]))
    with torch.no_grad():
        model.gile.text_encoder.transformer.encoder.layer[0].output.dense.weight += 1
    with pytest.raises(TypeError, match="not callable"):  # a version counter has changed
        model(**inputs, labels=torch.tensor([[1]]))


def step(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=10.0)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()


CHANGES = {
    "an optimizer's step": step,
    "in place": lambda model: next(iter(model.gile.label_parameters())).mul_(-3),
    "another tensor": lambda model: setattr(weight := model.gile.label_parameters()[0], "data", 0.5 - weight.data),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_tensor_versions_reveal_ordinary_changes(make_model, monkeypatch, change):
    model, _ = make_model()
    monkeypatch.setattr(stored_labels_gile, "_hash", None)  # no weights are read
    with torch.no_grad():
        with without_reading_weights(model.parameters()):
            cached = model.project_stored_labels()
        with without_reading_weights(model.parameters()):
            assert model.project_stored_labels() is cached
        change(model)
        fresh = model.gile.project_labels(**model.stored_inputs())
        with without_reading_weights(model.parameters()):
            torch.testing.assert_close(model.project_stored_labels(), fresh)
        assert not torch.allclose(cached, fresh)
