import io
import json
import logging

import pytest
import torch
from answers import scores
from transformers import BertConfig, BertForSequenceClassification, pipeline
from transformers.utils import logging as transformers_logging

from hf_gile import GileForSequenceClassification, GileProcessor, Label, LabelIndex, LabelSet, build_tokenizer

TEXTS = ["Breast milk and iron. The heart.", "blood", "Infants were fed with milk for 12 weeks.", ""]
CANDIDATES = ["Iron", "Milk, Human", "Risk of Infection"]
IRON = Label("b", "Iron", "a metal", broader=("a", "c", "elsewhere"))
OF_COWS = Label("d", "Milk", "of cows", broader=("c",))
RELATED = LabelSet([Label("a", "Blood", broader=("z",)), IRON, Label("c", "Milk"), OF_COWS])


@pytest.fixture
def pipe(make_model):
    model, processor = make_model("han", problem_type="multi_label_classification")
    return pipeline("label-scoring", model=model, processor=processor)


def test_other_models_keep_the_pipelines_of_transformers(tmp_path, pieces):
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    names = {"entailment": 0, "neutral": 1, "contradiction": 2}
    model = BertForSequenceClassification(BertConfig(vocab_size=len(pieces), **sizes, num_labels=3, label2id=names))
    for part in (model, pieces):
        part.save_pretrained(tmp_path)
    for options in ({"model": str(tmp_path)}, {"model": model, "tokenizer": pieces}):
        built_in = pipeline("zero-shot-classification", **options)
        assert type(built_in).__name__ == "ZeroShotClassificationPipeline"
        assert sorted(built_in("milk", candidate_labels=["iron", "milk"])["labels"]) == ["iron", "milk"]
        assert type(pipeline("text-classification", **options)).__name__ == "TextClassificationPipeline"


def test_hypothesis_templates_are_ignored_with_a_warning(pipe, monkeypatch):
    messages = []
    logger = type(transformers_logging.get_logger("x"))
    monkeypatch.setattr(logger, "warning_once", lambda _, text: messages.append(text))
    expected = pipe(TEXTS, CANDIDATES)
    assert not messages
    assert pipe(TEXTS, CANDIDATES, hypothesis_template="This text is about {}.") == expected
    assert "hypothesis_template is ignored" in messages[0]


def test_answers_have_the_shape_of_the_built_in_pipeline(pipe):
    answer = pipe(TEXTS[0], candidate_labels=CANDIDATES)
    assert list(answer) == ["sequence", "labels", "scores"]
    assert answer["sequence"] == TEXTS[0]
    assert sorted(answer["labels"]) == CANDIDATES
    assert answer["scores"] == sorted(answer["scores"], reverse=True)
    assert pipe(TEXTS[:1], CANDIDATES) == pipe(sequences=TEXTS[:1], candidate_labels=CANDIDATES) == [answer]
    assert pipe(TEXTS[0], CANDIDATES, threshold=1.0) == {"sequence": TEXTS[0], "labels": [], "scores": []}
    assert pipe(TEXTS[0], "Iron, Blood")["labels"] in (["Iron", "Blood"], ["Blood", "Iron"])


def test_pipeline_scores_equal_model_scores(pipe):
    model, processor = pipe.model, pipe.processor
    expected = model.gile(**processor(TEXTS, label_text=CANDIDATES, return_tensors="pt")).logits.sigmoid()
    for answer, row in zip(pipe(TEXTS, CANDIDATES), expected, strict=True):
        assert scores(answer) == pytest.approx(dict(zip(CANDIDATES, row.tolist(), strict=True)), rel=1e-5)
    expected = model(**processor(TEXTS[:1], return_tensors="pt")).logits.sigmoid()[0].tolist()
    assert scores(pipe(TEXTS[0])) == pytest.approx(dict(zip(model.label_set.names, expected, strict=True)), rel=1e-5)


def test_a_processor_of_another_model_is_refused(pipe):
    model, processor = pipe.model, pipe.processor
    other = GileProcessor(build_tokenizer(["other words"], min_count=1), processor.reads_sentences)
    with pytest.raises(ValueError, match="use the processor saved with the model"):
        pipeline("label-scoring", model=model, processor=other)
    other = GileProcessor(processor.tokenizer, reads_sentences=False)
    with pytest.raises(ValueError, match="has reads_sentences=False, but the model needs reads_sentences=True"):
        pipeline("label-scoring", model=model, processor=other)


def test_single_label_models_use_softmax_by_default(make_pipe):
    pipe = make_pipe(problem_type="single_label_classification")
    assert sum(pipe(TEXTS[0])["scores"]) == pytest.approx(1)
    assert sum(pipe(TEXTS[0], multi_label=True)["scores"]) != pytest.approx(1)


def test_labels_are_encoded_once(pipe, monkeypatch):
    first = pipe(TEXTS[0], CANDIDATES)
    monkeypatch.setattr(pipe.model.gile, "project_labels", None)
    assert pipe(TEXTS[0], CANDIDATES) == first


@pytest.mark.parametrize("options", [{}, {"top_k": 2}, {"multi_label": False}])
def test_an_index_gives_the_same_answers_as_its_labels(pipe, options, tmp_path):
    labels = LabelSet([Label(f"id {name}", name, "blood") for name in CANDIDATES])
    LabelIndex.build(pipe.model, pipe.processor, labels).save_pretrained(tmp_path)
    index = LabelIndex.from_pretrained(tmp_path)
    assert pipe(TEXTS, index, batch_size=2, **options) == pipe(TEXTS, labels, batch_size=2, **options)


def test_an_index_of_another_model_or_language_is_refused(pipe):
    index = LabelIndex.build(pipe.model, pipe.processor, LabelSet.from_names(CANDIDATES))
    pipe(TEXTS[0], index)
    with pytest.raises(ValueError, match=r"built with language=None, label_language=None, but .*'german': build"):
        pipe(TEXTS[0], index, label_language="german")
    with pytest.raises(ValueError, match=r"must be one of the languages of this model, \[\]"):
        pipe(TEXTS[0], label_language="german")
    with torch.no_grad():
        pipe.model.gile.get_input_embeddings().weight[7] += 1
    with pytest.raises(ValueError, match=r"build it again with LabelIndex\.build"):
        pipe(TEXTS[0], index)


def test_a_saved_pipeline_keeps_its_length_limits(tmp_path, make_pipe):
    pipe = make_pipe("han", max_sentences=1, max_sentence_words=2, max_label_words=2)
    declared = pipe.model.config.custom_pipelines
    pipe.save_pretrained(tmp_path)
    assert pipe.model.config.custom_pipelines == declared
    reloaded = pipeline("zero-shot-classification", model=str(tmp_path), trust_remote_code=True)
    for answer, expected in zip(reloaded(TEXTS, CANDIDATES), pipe(TEXTS, CANDIDATES), strict=True):
        assert scores(answer) == pytest.approx(scores(expected), rel=1e-5)
    saved = json.loads((tmp_path / "config.json").read_text())["custom_pipelines"]
    assert list(saved) == ["text-classification", "zero-shot-classification"]


@pytest.mark.parametrize("indexed", [False, True])
def test_parents_are_the_names_of_the_direct_parents(pipe, indexed):
    labels = LabelIndex.build(pipe.model, pipe.processor, RELATED) if indexed else RELATED
    answer = pipe(TEXTS[0], labels, return_parents=True)
    parents = {"Blood": [], "Iron": ["Blood", "Milk (c)"], "Milk (c)": [], "Milk (d)": ["Milk (c)"]}
    assert dict(zip(answer["labels"], answer["parents"], strict=True)) == parents


def test_stored_labels_keep_their_parents_in_any_batch(pipe, tmp_path):
    labels = pipe.model.label_set.update("Infant", broader=("Blood",))
    pipe.model.set_labels(labels, pipe.processor)
    pipe.save_pretrained(tmp_path)
    loaded = GileForSequenceClassification.from_pretrained(tmp_path)
    pipe = pipeline("label-scoring", model=loaded, processor=pipe.processor)
    texts = [TEXTS[0], "Infants.", "Blood."]
    answers = pipe(texts, batch_size=2, return_parents=True)
    assert [dict(zip(a["labels"], a["parents"], strict=True))["Infant"] for a in answers] == [["Blood"]] * 3
    assert [answer["labels"] for answer in answers] == [pipe(text)["labels"] for text in texts]


def test_a_shortlist_lists_the_best_labels_as_text(pipe):
    answer = pipe(TEXTS[0], RELATED, shortlist=3)
    assert answer["labels"] == pipe(TEXTS[0], RELATED, top_k=3)["labels"]
    lines = {"Blood": "- Blood", "Iron": "- Iron: a metal", "Milk (c)": "- Milk (c)", "Milk (d)": "- Milk (d): of cows"}
    assert answer["shortlist"].splitlines() == [lines[name] for name in answer["labels"]]


def test_a_model_without_a_label_set_lists_names(make_pipe):
    pipe = make_pipe(output_layer="linear")
    pipe.model.stored_labels.label_set = None
    answer = pipe(TEXTS[0], shortlist=2, return_parents=True)
    assert answer["shortlist"].splitlines() == [f"- {name}" for name in answer["labels"]]
    assert answer["parents"] == [[], []]


NOTE = "the model knows no word of this text"


@pytest.fixture
def warned(monkeypatch):
    """Collects the log messages of models and indexes."""
    handler = logging.StreamHandler(io.StringIO())
    for name in ("transformers", "hf_gile.label_index"):
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)
    logging.getLogger().addHandler(handler)
    yield handler.stream
    logging.getLogger().removeHandler(handler)


def test_an_emoji_label_scores_like_an_unknown_label(pipe, warned):
    alone = pipe("Iron in blood.", ["Iron", "Blood"])
    for _ in range(2):
        found = scores(pipe("Iron in blood.", ["Iron", "\N{GRINNING FACE}", "Blood", "zebra", "..."]))
    assert found["\N{GRINNING FACE}"] == found["zebra"] == found["..."]
    assert {label: found[label] for label in alone["labels"]} == pytest.approx(scores(alone), rel=1e-6)
    assert warned.getvalue().count("gives them the same score (3): '\N{GRINNING FACE}', 'zebra', '...'") == 1


@pytest.mark.parametrize("long_texts", ["cut", "max"])
def test_the_answer_for_a_text_of_unknown_words_has_a_note(pipe, long_texts):
    texts = ["Iron in blood.", "zebra", "", "\N{GRINNING FACE}", "zebra iron"]
    answers = pipe(texts, ["Iron", "Blood"], long_texts=long_texts, batch_size=2)
    assert [answer.get("note") for answer in answers] == [None, NOTE, NOTE, NOTE, None]
    assert pipe("zebra", ["Iron"])["note"] == NOTE


def test_the_note_for_a_long_text_depends_on_the_words_read(make_pipe):
    pipe = make_pipe(max_words=2)
    assert pipe("zebra zebra iron")["note"] == NOTE
    assert "note" not in pipe("zebra zebra iron", long_texts="max")
