"""Stored label codes and vectors follow changes of weights, even through `.data`."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch
from answers import logits_of

from hf_gile import LabelIndex, LabelScoringPipeline, LabelSet
from hf_gile.label_index import fingerprint
from hf_gile.models import stored_labels_gile
from hf_gile.models.stored_labels_gile import LabelCache, compute_state, hash_bits

TEXT = "The failing heart pumps less blood."


@pytest.mark.parametrize(("dtype", "size"), [(torch.float32, 1), (torch.bfloat16, 511), (torch.uint8, 300_007)])
def test_a_fingerprint_covers_every_bit(dtype, size):
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randint(0, 100, (size,), generator=generator).to(dtype)
    before, where = hash_bits(numbers), torch.randint(0, size, (20,), generator=generator).tolist()
    for position in [0, size - 1, *where]:
        numbers[position] += 1
        assert hash_bits(numbers) != before
        numbers[position] -= 1
        assert hash_bits(numbers) == before


def test_a_fingerprint_depends_on_order():
    table = torch.randn(2000, 300, generator=torch.Generator().manual_seed(0))
    before = hash_bits(table)
    for first, second in ((0, 1999), (7, 8)):
        changed = table.clone()
        changed[[first, second]] = table[[second, first]]
        assert hash_bits(changed) != before
        assert hash_bits(changed.T.contiguous()) != hash_bits(table.T.contiguous())
    assert hash_bits(table[1:]) == hash_bits(table[1:].clone())  # also of a view


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (2000, 300)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8, torch.float8_e4m3fn], ids=str)
def test_a_change_of_all_numbers_through_data_is_detected(shape, dtype):
    numbers = torch.ones(shape).to(dtype)
    before = compute_state(numbers)
    assert compute_state(numbers) == before
    version = numbers._version
    numbers.data.copy_(torch.full(shape, 2.0))
    assert numbers._version == version
    assert compute_state(numbers) != before


def test_a_state_tells_tensors_of_equal_numbers_apart():
    numbers = torch.ones(20)
    states = [compute_state(x) for x in (numbers, numbers.clone(), numbers.view(4, 5), numbers.view(torch.int32))]
    assert len(set(states)) == 4


def test_weights_on_the_meta_device_count_as_changed():
    offloaded = torch.empty(3, device="meta")
    assert compute_state(offloaded) != compute_state(offloaded)


def test_inference_tensors_have_a_state():
    with torch.inference_mode():
        numbers = torch.ones(3)
        before = compute_state(numbers)
        assert compute_state(numbers) == before
        assert compute_state(numbers.mul_(2)) != before


def test_a_change_of_any_weight_through_data_changes_the_scores(make_pipe):
    pipe = make_pipe(label_rows="full", cosine_score=True, hidden_size=7)
    model, processor = pipe.model, pipe.processor
    inputs = processor(TEXT, return_tensors="pt")
    index = LabelIndex.build(model)
    weights = {id(weight): weight for weight in (*model.gile.label_parameters(), model.gile.label_rows.weight)}
    for weight in weights.values():
        logits_of(model, inputs)
        pipe(TEXT)
        pipe(TEXT, candidate_labels=["heart", "milk"])
        hash_before = fingerprint(model)
        weight.data += 0.5
        assert fingerprint(model) != hash_before
        with pytest.raises(ValueError, match="build it again"):
            index.check_fits(model)
        with torch.no_grad():
            fresh = model.gile.project_labels(**model.stored_inputs())
            torch.testing.assert_close(model.project_stored_labels(), fresh)
        fresh_pipe = LabelScoringPipeline(model=model, processor=processor)
        expected = fresh_pipe(TEXT, candidate_labels=["heart", "milk"])
        assert pipe(TEXT, candidate_labels=["heart", "milk"]) == expected


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
    layer = transformer.get_input_embeddings() if table else transformer.encoder.layer[0].output.dense

    def loss():
        return model(**inputs, labels=torch.tensor([[1]])).loss.item()

    def write():
        layer.weight.data[model.label_input_ids.max() if table else 0] *= -3

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


def train_step(model, make, **options):
    weight = model.gile.get_input_embeddings().weight
    weight.grad = torch.zeros_like(weight)
    weight.grad[model.label_input_ids.max()] = 1  # of a single word
    make([weight], lr=0.5, **options).step()


OPTIMIZERS = {
    f"{make.__name__}, {kind}": partial(train_step, make=make, foreach=kind == "foreach", fused=kind == "fused")
    for make in (torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD)
    for kind in ("plain", "foreach", "fused")
}


def load(model, assign=False):
    state = {name: weight + 0.5 for name, weight in model.state_dict().items() if "ids" not in name}
    model.load_state_dict(state, strict=False, assign=assign)


CHANGES = OPTIMIZERS | {
    "in place": lambda model: model.gile.label_parameters()[0].mul_(-3),
    "a copy": lambda model: model.gile.label_parameters()[0].copy_(torch.ones(())),
    "another tensor": lambda model: setattr(weight := model.gile.label_parameters()[0], "data", 0.5 - weight.data),
    "in place through data": lambda model: model.gile.label_parameters()[0].data.add_(0.5),
    "load_state_dict": load,
    "load_state_dict, other tensors": partial(load, assign=True),
    "another type": lambda model: model.double(),
    "another type and back": lambda model: model.bfloat16().float(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changes_of_weights_are_noticed_without_reading_them_all(make_model, monkeypatch, change):
    model, _ = make_model()
    monkeypatch.setattr(stored_labels_gile, "_SAMPLED", 1)
    monkeypatch.setattr(stored_labels_gile, "hash_bits", None)
    with torch.no_grad():
        cached = model.project_stored_labels()
        assert model.project_stored_labels() is cached
        change(model)
        fresh = model.gile.project_labels(**model.stored_inputs())
        assert torch.equal(model.project_stored_labels(), fresh)
        assert not torch.equal(cached, fresh)


def test_clearing_the_cache_shows_a_single_changed_number(make_pipe):
    pipe = make_pipe()
    model, processor = pipe.model, pipe.processor
    pipe(TEXT, candidate_labels=["heart", "milk"])
    hash_before = fingerprint(model)
    weight = model.gile.get_input_embeddings().weight
    weight.data[processor.tokenizer.convert_tokens_to_ids("milk"), 1] += 100
    model.stored_labels.clear_cache()
    assert fingerprint(model) != hash_before
    expected = LabelScoringPipeline(model=model, processor=processor)(TEXT, candidate_labels=["heart", "milk"])
    assert pipe(TEXT, candidate_labels=["heart", "milk"]) == expected
    with torch.no_grad():
        fresh = model.gile.project_labels(**model.stored_inputs())
        assert torch.equal(model.project_stored_labels(), fresh)


def test_least_recently_used_codes_are_evicted_first():
    cache = LabelCache(max_bytes=60)
    computed = []
    for name in "abcadacb":  # a codes' size is 20
        codes = cache.codes((LabelSet.from_names([name]),), ("model",), partial(computed_codes, computed, name))
        assert codes.shape == (1, 5)
    assert computed == ["a", "b", "c", "d", "b"]
    assert (len(cache._codes), cache.num_bytes) == (3, 60)


def computed_codes(computed, name):
    computed.append(name)
    return torch.zeros(1, 5)


def test_threads_get_their_codes_within_the_limit_of_memory():
    cache = pickle.loads(pickle.dumps(LabelCache(max_bytes=60)))

    def ask(first):
        for step in range(200):
            number = (first + step) % 7
            labels = LabelSet.from_names([str(number)])
            codes = cache.codes((labels,), ("model",), lambda number=number: torch.full((1, 5), float(number)))
            assert codes[0, 0] == number

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(ask, range(6)))
    assert cache.num_bytes == 20 * len(cache._codes) <= 60
