"""Labels and texts without any known word."""

import io
import logging

import pytest

from hf_gile import LabelScoringPipeline

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
        answer = pipe("Iron in blood.", ["Iron", "\N{GRINNING FACE}", "Blood", "zebra", "..."])
    scores = dict(zip(answer["labels"], answer["scores"], strict=True))
    assert scores["\N{GRINNING FACE}"] == scores["zebra"] == scores["..."]
    for label, score in zip(alone["labels"], alone["scores"], strict=True):
        assert scores[label] == pytest.approx(score, rel=1e-6)
    assert warned.getvalue().count("gives them the same score (3): '\N{GRINNING FACE}', 'zebra', '...'") == 1


@pytest.mark.parametrize("long_texts", ["cut", "max"])
def test_the_answer_for_a_text_of_unknown_words_has_a_note(pipe, long_texts):
    texts = ["Iron in blood.", "zebra", "", "\N{GRINNING FACE}", "zebra iron"]
    answers = pipe(texts, ["Iron", "Blood"], long_texts=long_texts, batch_size=2)
    assert [answer.get("note") for answer in answers] == [None, NOTE, NOTE, NOTE, None]
    assert pipe("zebra", ["Iron"])["note"] == NOTE


def test_the_note_for_a_long_text_depends_on_the_words_read(make_model):
    model, processor = make_model(problem_type="multi_label_classification", max_words=2)
    pipe = LabelScoringPipeline(model=model, processor=processor)
    assert pipe("zebra zebra iron")["note"] == NOTE
    assert "note" not in pipe("zebra zebra iron", long_texts="max")
