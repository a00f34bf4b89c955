import json
from pathlib import Path

import numpy as np
import pytest
import torch
from answers import logits_of
from torch import nn

from hf_gile import GileForSequenceClassification, Label, LabelIndex, LabelSet, label_index
from hf_gile.label_index import fingerprint
from hf_gile.models import search_gile
from hf_gile.models.search_gile import compute_scores, search_top_k

TEXTS = ["Breast milk and iron. The heart.", "blood", "Infants were fed with milk for 12 weeks.", ""]
NAMES = ["Iron", "Milk, Human", "Risk of Infection", "Heart Failure", "Rats", "Cardiac Output", "Diet", "Blood"]


@pytest.fixture
def small_blocks(monkeypatch):
    """Reduces the chunk size, so that a few thousand labels take many chunks."""
    monkeypatch.setattr(search_gile, "_CPU_BLOCK", (4, 256))


@pytest.fixture
def parts(make_model):
    model, processor = make_model()
    return model.gile, processor


def text_codes_of(gile, processor, **options):
    with torch.no_grad():
        return gile.project_texts(**processor(TEXTS, return_tensors="pt", **options))


def whole_numbers(documents, labels, size=6, seed=0):
    """Returns codes whose products are exact in any summation order, with many ties."""
    generator = torch.Generator().manual_seed(seed)
    draw = [torch.randint(-3, 4, (rows, size), generator=generator).float() for rows in (documents, labels)]
    return draw[0], draw[1]


def plain_index(codes, bias=0.5):
    return LabelIndex(LabelSet.from_names([f"label {row}" for row in range(len(codes))]), codes, bias, None, "none")


FIELDS = [("text_encoder_type", "han"), ("output_layer", "bilinear"), ("output_layer", "linear")]


@pytest.mark.parametrize(("field", "value"), [*FIELDS, ("label_encoder_type", "text_encoder")])
def test_stored_labels_can_be_indexed_with_every_output_layer(make_model, field, value):
    model, processor = make_model(**{field: value})
    model.train()
    index = LabelIndex.build(model, batch_size=2)
    assert model.training
    assert not index.codes.requires_grad
    assert index.label_set == model.eval().label_set
    expected = logits_of(model, processor(TEXTS, return_tensors="pt"))
    torch.testing.assert_close(index.scores(text_codes_of(model.gile, processor)), expected)


def test_a_score_depends_on_neither_the_other_labels_nor_their_order(small_blocks):
    texts, codes = whole_numbers(9, 1000)
    scores = plain_index(codes).scores(texts)
    order = torch.randperm(1000, generator=torch.Generator().manual_seed(1))
    assert torch.equal(plain_index(codes[order]).scores(texts), scores[:, order])
    for some in (order[:3], torch.arange(300, 700)):
        assert torch.equal(plain_index(codes[some]).scores(texts), scores[:, some])
        assert torch.equal(plain_index(codes).scores(texts, some), scores[:, some])
    assert plain_index(codes).scores(texts[:0]).shape == (0, 1000)


@pytest.mark.parametrize("label_encoder_type", ["mean", "text_encoder"])
def test_codes_do_not_depend_on_the_batch_size(make_model, label_encoder_type):
    model, processor = make_model(label_encoder_type=label_encoder_type)
    # Of different lengths, so that batches are padded differently.
    labels = LabelSet.from_names({f"{' '.join(NAMES[: 1 + row % 5])} {row}": "" for row in range(9)})
    expected = LabelIndex.build(model, processor, labels).codes
    for batch_size in (1, 7):
        codes = LabelIndex.build(model, processor, labels, batch_size=batch_size).codes
        torch.testing.assert_close(codes, expected, rtol=1e-6, atol=1e-6)


def test_renaming_a_label_of_a_linear_unit_keeps_its_code(make_model):
    model, processor = make_model(output_layer="linear")
    index = LabelIndex.build(model)
    codes = index.codes.clone()
    index.rename("Iron", "Rats", model, processor)
    assert index.label_set == model.label_set.rename("Iron", "Rats")
    assert torch.equal(index.codes, codes)
    model.set_labels(index.label_set, processor)


def test_learned_weights_of_labels_survive_changes(make_model):
    model, processor = make_model(label_rows="full")
    nn.init.normal_(model.gile.label_rows.weight)
    index = LabelIndex.build(model)
    codes = index.codes.clone()
    with pytest.raises(ValueError, match=r"learned weights of label 'Iron', which a GileModel cannot look up"):
        index.rename("Iron", "Rats", model.gile, processor)
    assert torch.equal(index.codes, codes)
    index.rename("Iron", "Infants", model, processor)
    renamed = model.label_set.rename("Iron", "Infants")
    iron = index.codes[2].clone()
    index.remove("Iron")
    index.add([model.label_set[2]], model, processor)
    assert torch.allclose(index.codes[-1], codes[2])  # by its id, regardless of the text in the index
    assert torch.allclose(LabelIndex.build(model, processor, LabelSet([Label("x", "Iron")])).codes, codes[2:3])
    model.set_labels(renamed, processor)
    assert torch.allclose(LabelIndex.build(model).codes[2], iron)


def test_codes_changed_in_inference_mode_can_be_changed_later(tmp_path, make_model):
    model, processor = make_model()
    index = LabelIndex.build(model)
    with torch.inference_mode():
        index.add([Label("r", "Rats")], model, processor)
        index.remove("Blood")
        index.to(dtype=torch.float64)
    assert not index.codes.is_inference()
    index.save_pretrained(tmp_path)
    with torch.inference_mode():
        loaded = LabelIndex.from_pretrained(tmp_path)
    assert not loaded.codes.is_inference()


def test_failed_changes_leave_the_index_unchanged(parts):
    gile, processor = parts
    index = LabelIndex.build(gile, processor, LabelSet.from_names(NAMES))
    codes = index.codes.clone()
    with pytest.raises(ValueError, match="id 'Iron' is already used in row 1"):
        index.add([Label("Iron", "Fe")], gile, processor)
    with pytest.raises(ValueError, match="no label has the id 'Irn'"):
        index.remove("Iron", "Irn")
    with pytest.raises(ValueError, match="has a lone surrogate"):
        index.rename("Iron", "Fe \udc00", gile, processor)
    with torch.no_grad():
        gile.get_input_embeddings().weight[3] += 1
    with pytest.raises(ValueError, match=r"another model, or by this model with other weights .* build it again"):
        index.rename("Iron", "Fe", gile, processor)
    assert index.label_set == LabelSet.from_names(NAMES)
    assert torch.equal(index.codes, codes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("labels", [1, 64, 3001])
def test_top_k_is_a_stable_sort_of_all_scores(small_blocks, labels, dtype):
    texts, codes = whole_numbers(11, labels)
    texts[3] = 0  # all labels tie
    expected = (texts @ codes.T + 0.5).sort(dim=-1, descending=True, stable=True)
    for k in (1, np.int64(10), 5000):
        best = plain_index(codes.to(dtype)).top_k(texts, k)
        assert best.scores.shape == best.columns.shape == (11, min(k, labels))
        assert torch.equal(best.scores, expected.values[:, :k].to(best.scores.dtype))
        assert torch.equal(best.columns, expected.indices[:, :k])


def test_only_a_block_of_scores_is_in_memory(small_blocks, monkeypatch):
    sizes = []
    mm = torch.mm
    monkeypatch.setattr(torch, "mm", lambda left, right, out: sizes.append(out.numel()) or mm(left, right, out=out))
    texts, codes = whole_numbers(50, 3000)
    plain_index(codes).top_k(texts, 5)
    assert max(sizes) <= 4 * 256
    assert sum(sizes) == 50 * 3000


def test_sixteen_bit_codes_score_by_their_stored_values(parts):
    gile, processor = parts
    texts = text_codes_of(gile, processor)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        exact = LabelIndex.build(gile, processor, LabelSet.from_names(NAMES))
    index = LabelIndex.build(gile, processor, LabelSet.from_names(NAMES), dtype=torch.bfloat16)
    assert torch.equal(exact.codes.bfloat16(), index.codes)
    assert index.codes.dtype == torch.bfloat16
    expected = texts @ index.codes.float().T + index.bias
    torch.testing.assert_close(index.scores(texts), expected)
    assert index.scores(texts.bfloat16()).dtype == torch.float32
    assert index.to(dtype=torch.float32).scores(texts.double()).dtype == torch.float64


def test_scores_stay_float32_under_autocast():
    generator = torch.Generator().manual_seed(5)
    texts, codes = torch.randn(5, 50, generator=generator), torch.randn(2000, 50, generator=generator)
    index = plain_index(codes)
    expected, best = index.scores(texts), index.top_k(texts, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(index.scores(texts), expected)
        assert torch.equal(index.top_k(texts, 3).scores, best.scores)


def test_codes_outside_the_float16_range_are_refused(parts):
    gile, processor = parts
    with torch.no_grad():
        gile.get_input_embeddings().weight[5] *= 1e7
    names = LabelSet.from_names(NAMES)
    with pytest.raises(ValueError, match=r"contains NaN or infinity in torch\.float16; use torch\.bfloat16"):
        LabelIndex.build(gile, processor, names, dtype=torch.float16)
    index = LabelIndex.build(gile, processor, names)
    with pytest.raises(ValueError, match=r"torch.float16"):
        index.to(dtype=torch.float16)
    assert index.codes.dtype == torch.float32


def test_a_wrapped_model_counts_as_its_inner_model(make_model):
    model, processor = make_model()
    wrapped = nn.Module()  # like DistributedDataParallel
    wrapped.module = model
    index = LabelIndex.build(wrapped, processor, LabelSet.from_names(NAMES))
    index.check_fits(wrapped)
    index.rename("Iron", "Infant", wrapped, processor)
    index.check_fits(model)


def test_the_fingerprint_covers_everything_that_affects_codes(tmp_path, make_model):
    model, processor = make_model()
    ours = fingerprint(model)
    model.save_pretrained(tmp_path / "saved")
    assert fingerprint(GileForSequenceClassification.from_pretrained(tmp_path / "saved")) == ours
    twin, _ = make_model(label_prior=0.3)
    assert fingerprint(twin) == ours
    other, _ = make_model(joint_act="tanh")
    assert fingerprint(other) != ours
    model.set_labels(LabelSet.from_names(["Iron", "Milk"]), processor)
    assert fingerprint(model) == ours


@pytest.mark.parametrize(("mmap", "dtype"), [(True, None), (False, torch.bfloat16)])
def test_a_saved_index_loads_unchanged(tmp_path, make_model, mmap, dtype):
    model, processor = make_model()
    labels = LabelSet([Label("1", "Iron", "a metal", count=3, seen=True), Label("2", "Milk"), Label("3", "Blood")])
    index = LabelIndex.build(model, processor, labels, dtype=dtype)
    index.save_pretrained(tmp_path)
    reloaded = LabelIndex.from_pretrained(tmp_path, model, mmap=mmap)
    assert reloaded.label_set == labels
    assert torch.equal(reloaded.codes, index.codes)
    assert reloaded.codes.dtype == index.codes.dtype
    for name in ("bias", "language", "label_language", "model_fingerprint"):
        assert getattr(reloaded, name) == getattr(index, name)
    with next(tmp_path.glob("*.safetensors")).open("r+b") as opened:
        opened.seek(-1, 2)
        opened.write(b"\x7f")
    assert torch.equal(reloaded.codes, index.codes) == (not mmap)


def test_changing_a_loaded_index_does_not_change_its_file(tmp_path, make_model):
    model, processor = make_model()
    model.save_pretrained(tmp_path)  # the folder may be that of the model
    theirs = len(list(tmp_path.iterdir()))
    built = LabelIndex.build(model, processor, LabelSet.from_names(NAMES))
    built.save_pretrained(tmp_path)
    index = LabelIndex.from_pretrained(tmp_path)
    index.rename("Rats", "Infants", model, processor)
    index.add([Label("G1", "Infant")], model, processor)
    index.remove("Iron")
    assert torch.equal(LabelIndex.from_pretrained(tmp_path).codes, built.codes)
    index.save_pretrained(tmp_path)  # overwrites the mapped file
    reloaded = LabelIndex.from_pretrained(tmp_path, model)
    assert reloaded.label_set == index.label_set
    assert torch.equal(reloaded.codes, index.codes)
    assert len(list(tmp_path.iterdir())) == theirs + 3
    assert GileForSequenceClassification.from_pretrained(tmp_path).label_set == model.label_set


@pytest.mark.parametrize("step", ["save_file", "unlink"])
def test_an_interrupted_save_keeps_the_old_index(tmp_path, make_model, monkeypatch, step):
    model, processor = make_model()
    old = LabelIndex.build(model, processor, LabelSet.from_names(NAMES))
    new = LabelIndex.build(model, processor, LabelSet.from_names(NAMES[:3]))
    old.save_pretrained(tmp_path)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    owner = label_index if step == "save_file" else Path
    with monkeypatch.context() as patch:
        patch.setattr(owner, step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            new.save_pretrained(tmp_path)
    expected_index = new if step == "unlink" else old
    reloaded = LabelIndex.from_pretrained(tmp_path, model)
    assert reloaded.label_set == expected_index.label_set
    assert torch.equal(reloaded.codes, expected_index.codes)
    new.save_pretrained(tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def test_damaged_newer_and_foreign_indexes_are_refused(tmp_path, make_model):
    model, processor = make_model()
    with pytest.raises(FileNotFoundError, match=r"label_index\.json"):
        LabelIndex.from_pretrained(tmp_path)
    LabelIndex.build(model, processor, LabelSet.from_names(NAMES)).save_pretrained(tmp_path)
    other, _ = make_model(joint_act="tanh")
    with pytest.raises(ValueError, match="build it again"):
        LabelIndex.from_pretrained(tmp_path, other)
    head = tmp_path / "label_index.json"
    good = json.loads(head.read_text())
    head.write_text(json.dumps(good | {"format_version": 99}))
    with pytest.raises(ValueError, match="format_version 99, this code reads 1: upgrade hf-gile"):
        LabelIndex.from_pretrained(tmp_path)
    foreign = "is not the main file of a label index"
    for text, message in (("{", foreign), ("[]", foreign), ('{"format_version": 1}', "the index is damaged")):
        head.write_text(text)
        with pytest.raises(ValueError, match=message):
            LabelIndex.from_pretrained(tmp_path)
    head.write_text(json.dumps(good))
    LabelSet.from_names(NAMES[:3]).save(tmp_path / good["labels"])
    with pytest.raises(ValueError, match=r"a row for each of the 3 labels, got shape \(8, 13\)\): build and save"):
        LabelIndex.from_pretrained(tmp_path, verify=False)
    (tmp_path / good["codes"]).unlink()
    with pytest.raises(ValueError, match=r"safetensors.*: build and save it again"):
        LabelIndex.from_pretrained(tmp_path)


def test_saving_keeps_unrelated_files(tmp_path):
    _, codes = whole_numbers(1, 9)
    theirs = ["label_index-sources.csv", "label_index-0123456789.json"]
    for name in theirs:
        (tmp_path / name).write_text("theirs")
    for _ in range(2):
        plain_index(codes).save_pretrained(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} > set(theirs)
    assert len(list(tmp_path.iterdir())) == len(theirs) + 3


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_gpu_gives_the_scores_and_ties_of_the_cpu(dtype, monkeypatch):
    monkeypatch.setattr(search_gile, "_GPU_BLOCK", (4, 1024))
    texts, codes = whole_numbers(17, 5001)
    expected = search_top_k(texts, codes, 0.5, 9)
    for text_dtype in (torch.float32, dtype):
        best = search_top_k(texts.to("cuda", text_dtype), codes.to("cuda", dtype), 0.5, 9)
        assert torch.equal(best.scores.cpu(), expected.scores)
        assert torch.equal(best.columns.cpu(), expected.columns)
        scores = compute_scores(texts.to("cuda", text_dtype), codes.to("cuda", dtype), 0.5)
        assert torch.equal(scores.cpu(), compute_scores(texts, codes, 0.5))
