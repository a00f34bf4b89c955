"""Inputs of the pipeline: lists, columns, datasets, streams, and refused types."""

import numpy as np
import pandas
import pytest
from datasets import Dataset
from torch.utils.data import Dataset as TorchDataset
from transformers.pipelines.pt_utils import KeyDataset

TEXTS = ["Breast milk and iron. The heart.", "blood", "Infants were fed with milk for 12 weeks.", "", "Rats."]
CANDIDATES = ["Iron", "Milk, Human", "Risk of Infection"]


def rows():
    return Dataset.from_dict({"text": TEXTS, "id": list(range(5))})


TABLE = pandas.DataFrame({"text": TEXTS, "id": range(5)})
STREAMS = {
    "generator": lambda: (text for text in TEXTS),
    "column of an IterableDataset": lambda: rows().to_iterable_dataset()["text"],
    "KeyDataset": lambda: KeyDataset(rows(), "text"),
}
LISTS = {
    "column of a Dataset": lambda: rows()["text"],
    "column of a DataFrame": lambda: TABLE["text"],
    "array": lambda: np.array(TEXTS),
    "values of a mapping": lambda: dict(enumerate(TEXTS)).values(),
}


@pytest.mark.parametrize("make", STREAMS.values(), ids=STREAMS)
@pytest.mark.parametrize("batch_size", [1, 2])
def test_streams_are_answered_as_streams(pipe, make, batch_size):
    expected = pipe(TEXTS, CANDIDATES, batch_size=batch_size)
    answers = pipe(make(), CANDIDATES, batch_size=batch_size)
    assert not isinstance(answers, list)
    assert list(answers) == expected
    assert list(pipe(iter(()), CANDIDATES)) == []


@pytest.mark.parametrize("make", LISTS.values(), ids=LISTS)
def test_sequences_in_memory_are_answered_as_lists(pipe, make):
    assert pipe(make(), CANDIDATES, batch_size=3) == pipe(TEXTS, CANDIDATES, batch_size=3)


def test_a_stream_is_read_a_batch_at_a_time(pipe):
    read = []

    def texts():
        for text in TEXTS:
            read.append(text)
            yield text

    answers = iter(pipe(texts(), CANDIDATES, batch_size=2))
    next(answers)
    assert len(read) == 2
    next(answers), next(answers)
    assert len(read) == 4


def test_a_dataset_is_read_lazily_and_has_a_length(pipe):
    class Texts(TorchDataset):
        read = 0

        def __len__(self):
            return len(TEXTS)

        def __getitem__(self, position):
            self.read += 1
            return TEXTS[position]

    texts = Texts()
    answers = pipe(texts, CANDIDATES)
    assert len(answers) == 5
    assert texts.read == 0
    assert [answer["sequence"] for answer in answers] == TEXTS


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (None, r"text\[2\] must be a text.*, got NoneType: .* drop rows without a text"),
        ({"text": "a", "id": 3}, r"text\[2\] must be a text.*, got dict: pass the text column"),
        (["blood", None], r"text\[2\] must be a text.*, got list"),
        ("iron \ud83d", r"text\[2\] has a lone surrogate, '\\ud83d' at position 5"),
    ],
    ids=["none", "row", "list", "surrogate"],
)
def test_an_invalid_text_is_refused_by_position(pipe, bad, message):
    texts = [*TEXTS[:2], bad]
    with pytest.raises(ValueError, match=message):
        pipe(texts, CANDIDATES)
    answers = iter(pipe((text for text in texts), CANDIDATES))
    assert [next(answers)["sequence"] for _ in range(2)] == TEXTS[:2]
    with pytest.raises(ValueError, match=message):
        next(answers)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"inputs": {"text": "blood"}}, r"text\[0\] must be a text.*, got dict: pass the text column"),
        ({"inputs": []}, "no texts to score: pass at least one"),
        ({"inputs": KeyDataset([], "text")}, "no texts to score: pass at least one"),
        ({"inputs": rows().to_iterable_dataset()}, "got IterableDataset instead of texts: pass the text column"),
        ({"inputs": TABLE}, "got DataFrame instead of texts: pass the text column"),
        ({"sequences": TEXTS}, "pass the texts either as inputs or as sequences, got both"),
        ({"candidate_labels": TABLE}, r"candidate_labels must be names, .*, got DataFrame"),
        ({"candidate_labels": " , "}, "no labels; at least one is required"),
        ({"candidate_labels": 3}, "candidate_labels must be names"),
        ({"inputs": "iron", "candidate_labels": ["Iron", ""]}, "row 2: the id is empty"),
        ({"inputs": "iron", "candidate_labels": [["Iron"], ["Blood"]]}, r"row 1: id must be str, got \['Iron'\]"),
        ({"inputs": ["iron", "milk"], "candidate_labels": [3, 4]}, "row 1: id must be str, got 3"),
        ({"candidate_labels": ["Iron", "Milk \ude00"]}, r"label_text\[1\] has a lone surrogate"),
        ({"candidate_labels": {"Iron": None}}, "description must be str, got None"),
        ({"top_k": 2.0}, "top_k must be a whole number, at least 1, got 2.0"),
        ({"threshold": 2}, "threshold must be a probability between 0 and 1, got 2"),
        ({"threshold": "tuned"}, "got 'tuned'; or 'stored'"),
        ({"long_texts": "sum"}, "long_texts must be one of cut, max, mean, got 'sum'"),
        ({"topk": 3}, "has no option 'topk'; it has candidate_labels, multi_label, top_k, .* and batch_size"),
    ],
)
def test_invalid_arguments_are_refused(pipe, arguments, message):
    with pytest.raises(ValueError, match=message):
        pipe(**({"inputs": TEXTS} | arguments))


def test_a_model_in_training_is_put_in_evaluation_mode(make_pipe):
    pipe = make_pipe(word_dropout=0.5)
    expected = pipe(TEXTS, CANDIDATES)
    pipe.model.train()
    assert pipe(TEXTS, CANDIDATES) == expected
    assert not pipe.model.training
    answers = pipe(iter(TEXTS), CANDIDATES)
    pipe.model.train()
    assert list(answers) == expected
