"""Texts longer than the model reads, in pieces."""

import pytest
import torch
from answers import logits_of, scores
from transformers import pipeline

from hf_gile.models import pipeline_gile

SHORT = "Breast milk and iron. The heart."
LONG = (
    "Breast milk lowers the risk of infection in infants. Infants were fed with milk for 12 weeks. Blood. "
    "The failing heart pumps less blood! Cardiac output was measured in 30 patients, and iron was measured in rats. "
    "Rats were fed a diet low in iron."
)
CANDIDATES = ["Iron", "Milk, Human", "Risk of Infection", "Blood"]
WORDS = {"max_words": 7}
SENTENCES = {"max_sentences": 2, "max_sentence_words": 5}
MODELS = {"wan": WORDS, "han with gru": SENTENCES | {"encoder_cell": "bigru"}}
PRETRAINED = {"transformer": WORDS, "hierarchical_transformer": SENTENCES}


@pytest.fixture(params=[*MODELS, *PRETRAINED])
def pipe(request, make_model, make_pretrained):
    kind = request.param.split()[0]
    if kind in PRETRAINED:
        model, processor = make_pretrained(kind, **PRETRAINED[kind])
    else:
        model, processor = make_model(kind, problem_type="multi_label_classification", **MODELS[request.param])
    return pipeline("label-scoring", model=model, processor=processor)


def test_pieces_cover_the_text_and_respect_the_length_limit(pipe):
    processor = pipe.processor
    (pieces,) = processor.pieces(LONG)
    assert len(pieces) > 2
    reads_sentences = processor.reads_sentences
    for piece in pieces:
        assert len(piece) <= (processor.max_sentences if reads_sentences else processor.max_words)
        for sentence in piece if reads_sentences else []:
            assert 0 < len(sentence) <= processor.max_sentence_words
    rows = [row for piece in pieces for row in (piece if reads_sentences else [piece])]
    special = {*processor.tokenizer.all_special_ids} - {processor.tokenizer.unk_token_id}
    whole = processor.tokenizer(LONG, add_special_tokens=False)["input_ids"]
    assert [word for row in rows for word in row if word not in special] == whole


MODES = [("max", {"top_k": 2}), ("max", {"multi_label": False}), ("mean", {"threshold": 0.3})]


@pytest.mark.parametrize(("long_texts", "options"), MODES)
def test_a_label_gets_the_highest_or_mean_logit_of_the_pieces(pipe, long_texts, options):
    (pieces,) = pipe.processor.pieces(LONG)
    words = pipe.processor(label_text=CANDIDATES, return_tensors="pt")
    documents = map(pipe.processor.pad_documents, ([piece] for piece in pieces))
    logits = torch.cat([logits_of(pipe.model.gile, {**document, **words}) for document in documents])
    logits = logits.amax(0) if long_texts == "max" else logits.mean(0)
    expected = logits.softmax(-1) if options.get("multi_label") is False else logits.sigmoid()
    ranking = sorted(zip(expected.tolist(), CANDIDATES, strict=True), reverse=True)
    ranking = [pair for pair in ranking if pair[0] >= options.get("threshold", 0)][: options.get("top_k")]
    answer = pipe(LONG, CANDIDATES, long_texts=long_texts, **options)
    assert answer["labels"] == [name for _, name in ranking]
    assert answer["scores"] == pytest.approx([score for score, _ in ranking], rel=1e-5)
    assert answer["sequence"] == LONG


@pytest.mark.parametrize("options", [{"top_k": 2}, {"threshold": 0.5, "force_label": True, "batch_size": 5}], ids=str)
def test_a_short_text_has_the_same_answer_in_all_modes(pipe, options):
    texts = ["Iron.", LONG, "", "The heart. Blood.", LONG[50:]]
    cut = pipe(texts, CANDIDATES, **options)
    for long_texts in ("max", "mean"):
        answers = pipe(texts, CANDIDATES, long_texts=long_texts, **options)
        for position in (0, 2, 3):
            assert answers[position] == cut[position]
    assert answers[1] != cut[1]  # the mean; the best scores may all be in the first piece


def test_pieces_of_a_batch_are_encoded_in_blocks(pipe, monkeypatch):
    expected = pipe([LONG, SHORT, LONG * 7], CANDIDATES, long_texts="max", batch_size=3)
    monkeypatch.setattr(pipeline_gile, "_PIECES_AT_ONCE", 2)
    sizes, encode = [], pipe.model.gile.embed_texts

    def counted(input_ids, **rest):
        sizes.append(len(input_ids))
        return encode(input_ids, **rest)

    monkeypatch.setattr(pipe.model.gile, "embed_texts", counted)
    answers = pipe([LONG, SHORT, LONG * 7], CANDIDATES, long_texts="max", batch_size=3)
    assert sum(sizes) == sum(map(len, pipe.processor.pieces([LONG, SHORT, LONG * 7])))
    assert max(sizes) == 3  # as many as texts in the batch; otherwise two pieces would be encoded together
    assert len(sizes) > 5
    for answer, actual in zip(expected, answers, strict=True):
        assert scores(answer) == pytest.approx(scores(actual), rel=1e-5)
