"""A static encoder is a sum of vectors, learns from its teacher, and leaves labels to it."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from hf_gile import GileForSequenceClassification, Label, LabelIndex, LabelScoringPipeline, LabelSet
from hf_gile.training import attach_teacher, distill, teach
from hf_gile.training.fit import can_fit_labels

WORDS = ["iron", "milk", "heart", "blood", "rats", "diet", "low", "fed", "acute", "failure", "human", "breast"]
NAMES = ["iron diet", "human milk", "heart failure"]
UNKNOWN = torch.tensor([[2, 9, 10, 11, 9, 3]])
LABELS = LabelSet([Label(f"l{row}", name) for row, name in enumerate(NAMES)])


def texts(number, seed=0):
    """Texts of three topics, of a few words each."""
    chance = np.random.default_rng(seed)
    topics = [["iron", "diet", "low"], ["milk", "human", "breast"], ["heart", "failure", "acute"]]
    gold = chance.integers(3, size=number)
    return [" ".join(chance.permutation([*topics[g], *chance.choice(WORDS, 3)])) for g in gold], gold


@pytest.fixture
def make_teacher(save_text_encoder, make_pretrained):
    def make(**options):
        encoder = save_text_encoder(texts=[*WORDS, *NAMES], hidden_size=20, **options)
        fields = {"output_layer": "bilinear", "cosine_score": True, "label_rows": "full", "freeze_text_encoder": True}
        return make_pretrained(LABELS, encoder, problem_type="single_label_classification", lexical=True, **fields)

    return make


@pytest.fixture
def taught(make_teacher):
    """A teacher, its processor and the model that it taught."""
    teacher, processor = make_teacher()
    documents = texts(80)[0]
    return teacher, processor, distill(teacher, processor, documents, teach(teacher, processor, documents))


@pytest.fixture
def fast(taught):
    return taught[2]


def literal_vector(encoder, ids):
    """Adds the vectors of the tokens of a document and of its pairs, as the docstring of `StaticEncoder` says."""
    table = dict(zip(encoder.keys.tolist(), encoder.bits.view(torch.float16).float(), strict=True))
    total = torch.zeros(encoder.bits.shape[1])
    for position, token in enumerate(ids):
        total += table.get(token, torch.zeros_like(total))
        if position:
            total += table.get((ids[position - 1] + 1) * encoder.vocab_size + token, torch.zeros_like(total))
    return total / total.square().mean().sqrt().clamp(min=1e-9)


def test_document_vectors_equal_a_loop_over_tokens_and_pairs(fast):
    documents = ["rats fed a diet low in iron", "milk", "human breast milk milk", "", "unknown"]
    inputs = fast.processor(documents, return_tensors="pt")
    inputs = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    vectors = fast.model.gile.embed_texts(**inputs)[0]
    ids = fast.processor(documents)["input_ids"]
    expected = torch.stack([literal_vector(fast.model.gile.text_encoder, row) for row in ids])
    torch.testing.assert_close(vectors, expected, rtol=3e-3, atol=3e-3)
    assert any(key >= fast.model.gile.text_encoder.vocab_size for key in fast.model.gile.text_encoder.keys.tolist())


def test_a_table_learns_the_vectors_of_its_teacher_and_keeps_those_of_labels(taught):
    teacher, processor, fast = taught
    new = texts(40, seed=5)[0]
    learned = teach(teacher, processor, new)
    inputs = fast.processor(new, return_tensors="pt")
    inputs = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    cosines = functional.cosine_similarity(fast.model.gile.embed_texts(**inputs)[0], learned, dim=-1)
    assert cosines.mean() > 0.9
    assert abs(float(cosines.mean()) - fast.cosine) < 0.1
    torch.testing.assert_close(fast.model.project_stored_labels(), teacher.project_stored_labels())


def test_new_labels_need_the_teacher(taught, make_teacher, tmp_path):
    teacher, _, fast = taught
    pipe = LabelScoringPipeline(fast.model, processor=fast.processor)
    assert sorted(pipe("iron", LabelSet([LABELS[2], LABELS[0]]))["labels"]) == ["heart failure", "iron diet"]
    new = LabelSet([Label("b", "blood"), LABELS[0]])
    with pytest.raises(ValueError, match=r"1 labels are new to this model, whose static text encoder.*attach_teacher"):
        pipe("iron", new)
    with pytest.raises(ValueError, match="new labels need the encoder, which taught this static model and is not"):
        attach_teacher(fast.model).gile.embed_labels(UNKNOWN)
    attach_teacher(fast.model, teacher)
    index = LabelIndex.build(fast.model, fast.processor, new)
    torch.testing.assert_close(index.codes, LabelIndex.build(teacher, fast.processor, new).codes)
    fast.model.set_labels(new, fast.processor)
    pipe.save_pretrained(tmp_path / "fast")
    again = GileForSequenceClassification.from_pretrained(tmp_path / "fast")
    torch.testing.assert_close(again.project_stored_labels(), fast.model.project_stored_labels())
    other, _ = make_teacher(initializer_range=0.1)
    with pytest.raises(ValueError, match="this is not the encoder that the labels of the static model were encoded by"):
        attach_teacher(again, other).gile.embed_labels(UNKNOWN)


def test_models_without_such_an_encoder_are_refused(fast, make_model):
    with pytest.raises(ValueError, match="got text_encoder_type 'static'"):
        teach(fast.model, fast.processor, ["iron"])
    with pytest.raises(ValueError, match=r"only a model with a pretrained encoder.*got text_encoder_type 'wan'"):
        teach(*make_model(), ["iron"])
    with pytest.raises(ValueError, match="only a model with a pretrained encoder"):
        can_fit_labels(make_model()[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_saved_model_has_16_bits_a_number(fast, tmp_path, dtype):
    LabelScoringPipeline(fast.model.to(dtype), processor=fast.processor).save_pretrained(tmp_path)
    model = GileForSequenceClassification.from_pretrained(tmp_path, dtype=dtype)
    bits = [one.gile.text_encoder.bits for one in (model, fast.model)]
    assert torch.equal(*bits)
    assert bits[0].dtype == torch.int16
    inputs = fast.processor(["iron diet"], return_tensors="pt")
    assert torch.equal(model(**inputs).logits, fast.model(**inputs).logits)
