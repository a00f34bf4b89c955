"""Common wrong arguments are refused by name, with advice."""

import pytest
import torch

from hf_gile import GileProcessor, LabelIndex, LabelScoringPipeline
from hf_gile.metrics import F1Metrics, RankingMetrics
from hf_gile.training import GileDataCollator, LabelSampler


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
    "number for a language": (
        lambda a: a.processor("a", language=5),
        "language must be a language, or a language for each",
    ),
    "ragged nesting": (lambda a: a.processor([["a"], "b", ["c", "d"]]), r"text\[0\] must be a text, .* got list"),
    "texts for ids": (
        lambda a: a.processor.pad_documents(["iron"]),
        "document 0 of the batch must be a list of word ids, .* got str 'iron'",
    ),
    "model for a configuration": (
        lambda a: GileProcessor.for_config(a.processor.tokenizer, a.model),
        "config must be a GileConfig, got GileForSequenceClassification; pass model.config",
    ),
    "number for a tokenizer": (lambda a: GileProcessor(5), "tokenizer must be a transformers tokenizer, got int 5"),
    # pipeline
    "labels for texts": (
        lambda a: a.pipe(a.labels),
        r"got a label set instead of texts: .* candidate_labels=label_set\)",
    ),
    "processor for labels": (lambda a: a.pipe("iron", candidate_labels=a.processor), "candidate_labels must be names"),
    "folder for a model": (
        lambda a: LabelScoringPipeline(model="folder", processor=a.processor),
        "needs a GileForSequenceClassification, got str; use AutoModelForSequenceClassification.from_pretrained",
    ),
    # model
    "ids beyond the vocabulary": (
        lambda a: a.model(input_ids=torch.tensor([[2, 999]])),
        r"input_ids must be word ids of this model, from 0 to \d+, got 2 to 999; use the processor "
        r"saved with",
    ),
    "label ids beyond the vocabulary": (
        lambda a: a.model.gile(a.words["input_ids"], label_input_ids=torch.tensor([[999]])),
        "label_input_ids must be word ids of this model, from 0",
    ),
    "numbers for ids": (lambda a: a.model(input_ids=torch.rand(2, 3)), "input_ids must be integer word ids"),
    "lists for tensors": (
        lambda a: a.model(**a.processor(["iron"])),
        r"input_ids must be a tensor, got list; .* return_tensors='pt'",
    ),
    "list of labels": (lambda a: a.model(**a.words, labels=[[1], [2]]), "labels must be a tensor, got list"),
    "names for a label set": (
        lambda a: a.model.set_labels(["Iron"], a.processor),
        r"label_set must be a LabelSet, got list; use LabelSet.from_names\(names\)",
    ),
    "tokenizer in set_labels": (
        lambda a: a.model.set_labels(a.labels, a.processor.tokenizer),
        "processor must be the GileProcessor saved with the model, got",
    ),
    # label set
    "list of ids for an id": (
        lambda a: a.labels.retire(["Iron"]),
        r"an id must be a string, got list; .* remove\(\*ids\)",
    ),
    "unknown field": (lambda a: a.labels.update("Iron", title="Fe"), "a label has no field 'title'; it has id, name"),
    "text for a count": (lambda a: a.labels.with_counts({"Iron": "3"}), "count of label 'Iron' must be a whole number"),
    # index
    "text for text codes": (lambda a: a.index.top_k("iron", 2), "text_codes must be a tensor, got str; project_text"),
    "list of columns": (lambda a: a.index.scores(torch.zeros(1, 13), [1]), "columns must be a tensor of label indices"),
    "processor to check": (lambda a: a.index.check_fits(a.processor), "model must be a GileModel or a"),
    # collator
    "tokenizer in a collator": (lambda a: GileDataCollator(a.processor.tokenizer), "processor must be a GileProcessor"),
    "nothing to collate": (lambda a: a.collate([]), "features must be a non-empty list of examples"),
    "texts to collate": (lambda a: a.collate(["iron"]), "example 0 of the batch must be a mapping with input_ids, got"),
    "labels of some": (
        lambda a: a.collate([{"input_ids": [2], "labels": [1]}, {"input_ids": [3]}]),
        "example 1 of the batch has no labels, unlike the first example",
    ),
    "label set in a sampler": (
        lambda a: LabelSampler(a.labels),
        r"num_labels must be a whole number, .* len\(label_set\)",
    ),
    # metrics
    "one k": (lambda a: RankingMetrics(5, top_k=3), r"top_k must be a list of numbers, such as \(1, 3, 5\)"),
    "text of a threshold": (
        lambda a: F1Metrics(5, threshold="stored"),
        "threshold must be a probability, or a probability for",
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
