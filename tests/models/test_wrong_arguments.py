"""Common wrong arguments are refused by name, with advice."""

import pytest
import torch

from hf_gile import (
    GileConfig,
    GileForSequenceClassification,
    GileProcessor,
    Label,
    LabelIndex,
    LabelScoringPipeline,
    LabelSet,
    build_tokenizer,
)
from hf_gile.training import GileDataCollator


class Parts:
    def __init__(self, make_model):
        self.model, self.processor = make_model(problem_type="multi_label_classification")
        self.gile = self.model.gile
        self.labels = self.model.label_set
        self.words = self.processor(["iron", "milk"], return_tensors="pt")
        self.pipe = LabelScoringPipeline(model=self.model, processor=self.processor)
        self.index = LabelIndex.build(self.model)
        self.linear, _ = make_model(output_layer="linear")
        self.one_label, _ = make_model(problem_type="single_label_classification")

    def for_config(self, config):
        return GileProcessor.for_config(self.processor.tokenizer, config)

    def collate(self, example):
        """Makes a batch of a valid example and another."""
        return GileDataCollator(self.processor)([{"input_ids": [2], "labels": [1]}, example])

    def loss(self, labels, model="model", **options):
        """Computes the loss of two documents."""
        return getattr(self, model)(**self.words, labels=torch.tensor(labels), **options)

    def exclude(self, columns):
        return self.model(**self.words, excluded_columns=torch.tensor(columns))

    def index_of(self, model="model", labels=None, **options):
        return LabelIndex.build(getattr(self, model), self.processor, labels or self.labels, **options)


@pytest.fixture
def parts(make_model):
    return Parts(make_model)


TOKENIZER = [
    (lambda a: build_tokenizer(), "pass either texts or vocabulary, got neither"),
    (lambda a: build_tokenizer("a cat"), "got a single string"),
    (lambda a: build_tokenizer(["a cat"], min_count=2), r"the vocabulary is empty.*min_count is 2"),
    (lambda a: build_tokenizer(vocabulary=["a", "b", "a"]), "contains 'a' more than once"),
]
NO_CONFIG = "config must be a GileConfig, such as model.config, got GileForSequenceClassification"
PROCESSOR = [
    (lambda a: a.processor(), "got neither"),
    (lambda a: a.processor(["a", 3]), r"text\[1\] must be a text, .* got int"),
    (lambda a: a.processor([["a"], "b", ["c", "d"]]), r"text\[0\] must be a text, .* got list"),
    (lambda a: a.processor("a", padding=True), "has no option 'padding'"),
    (lambda a: a.processor(label_text=["iron", " "]), r"label_text\[1\] must be a non-empty text"),
    (lambda a: a.processor(label_text={"a": "b"}), "label_text must be a list of label texts"),
    (lambda a: GileProcessor(5), "tokenizer must be a transformers tokenizer, got int"),
    (lambda a: a.for_config(a.model), NO_CONFIG),
    (lambda a: a.for_config(GileConfig(vocab_size=5)), "create a config with vocab_size=len"),
    (lambda a: a.collate({"input_ids": [3]}), r"example 1 of the batch has no labels, only \['input_ids'\]"),
    (lambda a: a.pipe(a.labels), "got LabelSet instead of texts: .* labels as candidate_labels"),
]
SAME_TEXT = r"row 2: 'a' is already the text of another label in row 1 \(ids '1' and '2'\)"
TRAINED_ON = "labels it was trained on"
LABELS = [
    (lambda a: LabelSet([]), "no labels; at least one is required"),
    (lambda a: LabelSet([Label("1", "a"), Label("2", "b"), Label("1", "c")]), "row 3: id '1' is already used in row 1"),
    (
        lambda a: LabelSet([Label("1", "a"), Label("2", "a")]),
        r"row 2: 'a' .* another label in row 1 \(ids '1' and '2'\)",
    ),
    (lambda a: LabelSet([Label("1", "a"), Label("2", " ")]), "row 2: the name is empty"),
    (lambda a: LabelSet([Label("", "a")]), "row 1: the id is empty"),
    (lambda a: LabelSet([Label("1", "a", threshold=1.5)]), "row 1: threshold must be a probability"),
    (lambda a: LabelSet([Label("1", "a", synonyms=["b"])]), r"row 1: synonyms must be tuple, got \['b'\]"),
    (lambda a: a.labels.add(Label("Iron", "New")), "row 6: id 'Iron' is already used in row 3"),
    (lambda a: a.labels.add(Label("x", "Fe")).rename("Iron", "Fe"), "row 6: 'Fe' is already the text of"),
    (lambda a: a.labels.retire(*a.labels.ids), "no labels; at least one is required"),
    (lambda a: a.labels.update("Irn", count=1), "no label has the id 'Irn' among 5 labels; did you mean"),
    (lambda a: a.model.set_labels(["Iron"], a.processor), r"must be a LabelSet, got list; use LabelSet.from_names\("),
    (lambda a: a.linear.set_labels(a.labels[1:], a.processor), "label set has 4 labels, this linear unit has 5"),
    (lambda a: a.linear.set_labels(a.labels[::-1], a.processor), f"{TRAINED_ON}, whose ids and order cannot change"),
]
MODEL = [
    (
        lambda a: a.model(input_ids=torch.tensor([[2, 999]])),
        r"input_ids must be word ids of this model, from 0 to \d+, got 2 to 999; use the processor saved with",
    ),
    (lambda a: a.model(**a.processor(["iron"])), r"input_ids must be a tensor, got list; .* return_tensors='pt'"),
    (
        lambda a: GileForSequenceClassification(GileConfig(vocab_size=5))(input_ids=torch.tensor([[3]])),
        r"no label set is stored.*call model.set_labels",
    ),
    (lambda a: a.linear.gile(**a.words, label_input_ids=torch.tensor([[1]])), f"scores only the {TRAINED_ON}"),
    (lambda a: a.gile.project_labels(), "pass exactly one of label_input_ids and label_embeds"),
    (lambda a: a.gile.project_labels(torch.ones(1, 1), label_embeds=torch.ones(1, 7)), "pass exactly one"),
    (lambda a: a.gile.project_labels(torch.ones(3, dtype=torch.long)), r"must have shape \(L, T\), got \(3,\)"),
    (lambda a: a.gile.project_labels(label_embeds=torch.ones(2, 8)), r"must have shape \(L, 7\), got \(2, 8\)"),
    (lambda a: a.loss([[1], [5]]), r"labels has index 5, but there are 5 labels \(0 to 4\)"),
    (lambda a: a.loss([[0, 1, 1], [0, 0, 1]]), "contains a gold label of a document twice.*zeros and ones as floats"),
    (lambda a: a.loss([0.0, 1.0]), r"labels must have shape \(2, P\)"),
    (lambda a: a.loss([[0.0] * 4] * 2), "must have 5 columns, one for each stored label, got 4"),
    (lambda a: a.loss([[1, 2], [0, -100]], "one_label"), "takes exactly one gold label for each document"),
    (lambda a: a.exclude([[5], [0]]), r"must be label indices below 5, \(2, E\) padded with -100"),
    (lambda a: a.exclude([[0]]), r"must be label indices below 5, \(2, E\) padded with -100"),
    (
        lambda a: a.loss([[1], [0]], excluded_columns=torch.tensor([[4, 1], [-100, -100]])),
        r"document 0 .* has the gold label 1 .* in its excluded_columns",
    ),
]
INDEX = [
    (lambda a: a.index.top_k("iron", 2), "text_codes must be a tensor of shape .* got str"),
    (lambda a: a.index.top_k(torch.zeros(1, 13), 0), "k must be a whole number, at least 1, got 0"),
    (lambda a: LabelIndex.build(a.gile, a.processor), "no label set is stored .*: pass label_set="),
    (lambda a: LabelIndex.build(a.model, label_set=a.labels), "must be the GileProcessor .* pass processor="),
    (lambda a: LabelIndex.build(a.model, a.labels), r"call LabelIndex\.build\(model, processor,"),
    (lambda a: a.index_of(language="english"), r"must be one of the languages of this model, \[\]"),
    (lambda a: a.index_of("linear", LabelSet.from_names(["Diet"])), f"scores only the {TRAINED_ON}"),
]


@pytest.mark.parametrize(("call", "message"), [*TOKENIZER, *PROCESSOR, *LABELS, *MODEL, *INDEX])
def test_wrong_arguments_raise_clear_errors(parts, call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call(parts)
    assert len(str(caught.value)) < 500
