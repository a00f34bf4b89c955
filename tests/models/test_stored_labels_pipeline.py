"""The pipeline "text-classification" of a saved model: the shapes of the built-in pipeline, our probabilities."""

import pytest
from answers import logits_of
from datasets import Dataset
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer, pipeline
from transformers.pipelines.pt_utils import KeyDataset

from hf_gile import LabelScoringPipeline
from hf_gile.models.pipeline_gile import StoredLabelsPipeline

TEXTS = ["Breast milk and iron. The heart.", "Rats were fed a diet low in iron.", ""]
CALIBRATION = {"seen": {"method": "platt", "scale": 0.5, "offset": -1.0}}


def ours(model, processor, **options):
    return StoredLabelsPipeline(model=model, processor=processor, **options)


def shape(answer):
    """Returns the structure of an answer, whose iterators are read."""
    if isinstance(answer, dict):
        return {name: type(value).__name__ for name, value in answer.items()}
    return [shape(entry) for entry in answer]


@pytest.mark.parametrize("options", [{}, {"top_k": 2, "batch_size": 2}])
@pytest.mark.parametrize("defaults", [{}, {"top_k": 1}], ids=str)
def test_answers_have_the_shapes_of_the_built_in_pipeline(make_model, defaults, options):
    pipe = ours(*make_model("han"), **defaults)
    words = BertTokenizer(vocab={word: row for row, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "iron"])})
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = BertConfig(vocab_size=5, num_labels=3, problem_type="multi_label_classification", **sizes)
    model = BertForSequenceClassification(config)
    expected = pipeline("text-classification", model=model, tokenizer=words, **defaults)
    inputs = [
        "iron",
        ["iron"],
        {"text": "iron", "text_pair": "milk"},
        [{"text": "iron", "text_pair": "milk"}, {"text": "iron"}],
        KeyDataset(Dataset.from_dict({"words": ["iron", "milk", "a"]}), "words"),
    ]
    for texts in inputs:
        assert shape(pipe(texts, **options)) == shape(expected(texts, **options)), texts
    streams = [(text for text in ["iron", "milk"]) for _ in range(2)]
    assert shape(pipe(streams[0], **options)) == shape(expected(streams[1], **options))


@pytest.mark.parametrize(
    ("kind", "problem", "calibration"),
    [("wan", "multi", {}), ("han", "multi", CALIBRATION), ("wan", "single", CALIBRATION)],
)
def test_probabilities_equal_those_of_label_scoring(make_model, kind, problem, calibration):
    model, processor = make_model(kind, problem_type=f"{problem}_label_classification")
    model.config.calibration = calibration
    expected = LabelScoringPipeline(model=model, processor=processor)(TEXTS)
    pipe = ours(model, processor)
    for answer, scores in zip(pipe(TEXTS, top_k=None), expected, strict=True):
        assert [entry["label"] for entry in answer] == scores["labels"]
        assert [entry["score"] for entry in answer] == scores["scores"]
    assert [answer["label"] for answer in pipe(TEXTS)] == [scores["labels"][0] for scores in expected]
    for function, multi_label in (("sigmoid", True), ("softmax", False)):
        expected = LabelScoringPipeline(model=model, processor=processor)(TEXTS[0], multi_label=multi_label)
        answer = pipe(TEXTS[0], function_to_apply=function, top_k=None)
        assert [entry["score"] for entry in answer] == expected["scores"]
    logits = sorted(logits_of(model, processor(TEXTS[:1], return_tensors="pt"))[0].tolist(), reverse=True)
    answer = pipe(TEXTS[0], function_to_apply="none", top_k=None)
    assert [entry["score"] for entry in answer] == pytest.approx(logits, rel=1e-5, abs=1e-6)


def test_tokenizer_options_are_accepted_unless_they_change_the_text(make_model):
    pipe = ours(*make_model(max_words=11))
    expected = pipe(TEXTS)
    assert pipe(TEXTS, truncation=True, padding=True, max_length=512) == expected
    assert pipe(TEXTS, truncation="longest_first", max_length=11) == expected
    for options, message in (
        ({"truncation": False}, "texts are always cut; long_texts='max' reads them in pieces"),
        ({"max_length": 10}, "this model reads up to 11 words or tokens of a text"),
        ({"function_to_apply": "tanh"}, "must be 'sigmoid', 'softmax' or 'none', got 'tanh'"),
        ({"threshold": 0.5}, "the text-classification pipeline has no option 'threshold'; it has top_k"),
    ):
        with pytest.raises(ValueError, match=message):
            pipe(TEXTS, **options)
    for texts in ({"text": "iron", "title": "a"}, [{"text_pair": "a"}], None):
        with pytest.raises(ValueError, match="must be a text"):
            pipe(texts)
    with pytest.raises(ValueError, match="inputs: text and text_pair must be texts, got str and list"):
        pipe({"text": "milk", "text_pair": ["iron"]})


TASKS = [("text-classification", "transformer"), ("zero-shot-classification", "han")]


@pytest.mark.parametrize(("task", "kind"), TASKS)
def test_a_built_in_pipeline_refuses_a_loaded_model_and_names_ours(make_model, make_pretrained, task, kind):
    model, processor = make_pretrained() if kind == "transformer" else make_model(kind, lexical=kind == "han")
    options = {"candidate_labels": ["iron", "milk"]} if task == "zero-shot-classification" else {}
    for reader in (processor, processor.tokenizer):
        pipe = pipeline(task, model=model, tokenizer=reader)
        with pytest.raises((ValueError, AttributeError), match=r"pipeline\('label-scoring', model=model, processor="):
            pipe(TEXTS[0], **options)
    assert pipeline("label-scoring", model=model, processor=processor)(TEXTS[0], **options)["labels"]
