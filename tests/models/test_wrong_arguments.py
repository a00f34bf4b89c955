"""Common wrong arguments are refused by name, with advice."""

import pytest
import torch

from hf_gile import GileProcessor, LabelIndex, LabelScoringPipeline
from hf_gile.training import GileDataCollator


class Parts:
    def __init__(self, make_model):
        self.model, self.processor = make_model(problem_type="multi_label_classification")
        self.labels = self.model.label_set
        self.pipe = LabelScoringPipeline(model=self.model, processor=self.processor)
        self.index = LabelIndex.build(self.model)
        self.collate = GileDataCollator(self.processor)
        self.words = self.processor(["iron", "milk"], return_tensors="pt")


@pytest.fixture
def parts(make_model):
    return Parts(make_model)


MISTAKES = {
    # processor
    "mapping for labels": (lambda a: a.processor(label_text={"a": "b"}), "label_text must be a list of label texts"),
    "ragged nesting": (lambda a: a.processor([["a"], "b", ["c", "d"]]), r"text\[0\] must be a text, .* got list"),
    "model for a configuration": (
        lambda a: GileProcessor.for_config(a.processor.tokenizer, a.model),
        "config must be a GileConfig, such as model.config, got GileForSequenceClassification",
    ),
    "number for a tokenizer": (lambda a: GileProcessor(5), "tokenizer must be a transformers tokenizer, got int"),
    # pipeline
    "labels for texts": (
        lambda a: a.pipe(a.labels),
        "got LabelSet instead of texts: .* labels as candidate_labels",
    ),
    # model
    "ids beyond the vocabulary": (
        lambda a: a.model(input_ids=torch.tensor([[2, 999]])),
        r"input_ids must be word ids of this model, from 0 to \d+, got 2 to 999; use the processor "
        r"saved with",
    ),
    "lists for tensors": (
        lambda a: a.model(**a.processor(["iron"])),
        r"input_ids must be a tensor, got list; .* return_tensors='pt'",
    ),
    "names for a label set": (
        lambda a: a.model.set_labels(["Iron"], a.processor),
        r"label_set must be a LabelSet, got list; use LabelSet.from_names\(names\)",
    ),
    # index
    "text for text codes": (lambda a: a.index.top_k("iron", 2), "text_codes must be a tensor of shape .* got str"),
    "label set for a processor": (
        lambda a: LabelIndex.build(a.model, a.labels),
        r"instead of the processor: call LabelIndex\.build\(model, processor,",
    ),
    "no label": (lambda a: a.index.top_k(torch.zeros(1, 13), 0), "k must be a whole number, at least 1, got 0"),
    # collator
    "labels of some": (
        lambda a: a.collate([{"input_ids": [2], "labels": [1]}, {"input_ids": [3]}]),
        r"example 1 of the batch has no labels, only \['input_ids'\]",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_wrong_arguments_raise_clear_errors(parts, mistake):
    call, message = MISTAKES[mistake]
    with pytest.raises(ValueError, match=message) as caught:
        call(parts)
    assert len(str(caught.value)) < 500


def test_counts_may_be_numpy_integers(label_set):
    counted = label_set.with_counts({"Iron": torch.tensor(3).numpy()[()]})
    assert [label.count for label in counted if label.seen] == [3]
    assert type(counted[counted.column("Iron")].count) is int
