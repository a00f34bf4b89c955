import pytest
import torch
from datasets import Dataset

from hf_gile import GileProcessor, LabelSet
from hf_gile.training import GileDataCollator, LabelSampler, encode_dataset

TEXTS = ["Breast milk and iron.", "The heart. Blood!", ""]
ROWS = {"text": TEXTS, "labels": [["Iron", "Milk, Human"], ["Blood"], []]}


@pytest.fixture
def processor(tokenizer):
    return GileProcessor(tokenizer, reads_sentences=True)


def test_texts_and_ids_become_words_and_columns(processor, label_set):
    encoded = encode_dataset(Dataset.from_dict(ROWS), processor, label_set)
    assert sorted(encoded.column_names) == ["input_ids", "labels"]
    assert encoded["labels"][:] == [[2, 1], [4], []]
    assert encoded["input_ids"][:] == processor(ROWS["text"])["input_ids"]


def test_texts_may_combine_several_columns(processor, label_set):
    rows = Dataset.from_dict({"title": ["Milk"], "body": ["and iron"], "labels": ["Iron"]})
    encoded = encode_dataset(rows, processor, label_set, text=lambda row: f"{row['title']}. {row['body']}")
    assert encoded["input_ids"][:] == processor(["Milk. and iron"])["input_ids"]
    assert encoded["labels"][:] == [2]


def test_unknown_label_ids_are_refused_or_dropped(processor):
    labels = LabelSet.from_names(["Iron", "Blood"])
    rows = Dataset.from_dict(ROWS)
    with pytest.raises(ValueError, match="no label has the id 'Milk, Human' among 2 labels"):
        encode_dataset(rows, processor, labels)
    assert encode_dataset(rows, processor, labels, on_unknown_label="drop")["labels"][:] == [[0], [1], []]


def test_batches_are_padded_and_sampled(processor, label_set):
    encoded = encode_dataset(Dataset.from_dict(ROWS), processor, label_set)
    sampler = LabelSampler(len(label_set), num_negatives=1, columns=[0, 1, 2, 3])
    batch = GileDataCollator(processor, sampler)(list(encoded))
    assert next(iter(batch)) == "input_ids"
    assert batch["labels"].tolist() == [[2, 1], [4, -100], [-100, -100]]
    assert {1, 2, 4} < set(batch["sampled_columns"][0].tolist())
    assert batch["sampled_columns"].shape == batch["column_weights"].shape == (1, 4)
    for name, tensor in processor(ROWS["text"], return_tensors="pt").items():
        assert torch.equal(batch[name], tensor)


def test_the_sample_depends_on_the_batch(processor, label_set):
    encoded = list(encode_dataset(Dataset.from_dict(ROWS), processor, label_set))
    collator = GileDataCollator(processor, LabelSampler(1000, num_negatives=11))
    first = collator(encoded)["sampled_columns"]
    assert torch.equal(collator(encoded)["sampled_columns"], first)
    assert not torch.equal(collator(encoded[::-1])["sampled_columns"], first)


@pytest.mark.parametrize(
    ("example", "message"),
    [
        ({"text": ""}, r"example 1 of the batch has no input_ids, only \['text'\]"),
        ({"input_ids": [[3]], "labels": [9]}, "gold label 9, but there are 5 labels"),
        ({"input_ids": [[3]], "labels": [0.0, 1.0]}, r"labels of example 1 must be distinct label indices, got \[0"),
        ({"input_ids": [[3]], "labels": [0, 1, 1]}, r"labels of example 1 must be distinct label indices, got \[0"),
    ],
)
def test_invalid_examples_are_named(processor, example, message):
    with pytest.raises(ValueError, match=message):
        GileDataCollator(processor, LabelSampler(5))([{"input_ids": [[3]], "labels": []}, example])


def test_labels_in_torch_format_are_accepted(processor):
    ids = processor("milk")["input_ids"][0]
    single = GileDataCollator(processor)([{"input_ids": ids, "labels": torch.tensor(3)}])
    several = GileDataCollator(processor)([{"input_ids": ids, "labels": torch.tensor([3, 1])}])
    assert single["labels"].tolist() == [3]
    assert several["labels"].tolist() == [[3, 1]]


def test_streams_are_encoded_but_other_data_are_refused(processor, label_set):
    rows = Dataset.from_dict(ROWS)
    stream = encode_dataset(rows.to_iterable_dataset(), processor, label_set)
    assert [row["labels"] for row in stream] == [[2, 1], [4], []]
    with pytest.raises(ValueError, match="the dataset has no column 'abstract', only text, labels"):
        encode_dataset(rows, processor, label_set, text="abstract")
