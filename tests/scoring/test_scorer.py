import pickle

import pyarrow as pa
import pytest
import torch

from hf_gile import GileForSequenceClassification, GileProcessor, LabelIndex, LabelScoringPipeline, LabelSet
from hf_gile.scoring import GileScorer, scorer

TEXTS = ["Rats were fed.", "", "Breast milk for infants. " * 30, "The failing heart pumps less blood.", "Zebrafish."]


@pytest.fixture
def pipe(saved):
    model = GileForSequenceClassification.from_pretrained(saved).eval()
    return LabelScoringPipeline(model=model, processor=GileProcessor.from_pretrained(saved))


def check(columns, answers):
    assert columns["labels"] == [answer["labels"] for answer in answers]
    for scores, answer in zip(columns["scores"], answers, strict=True):
        assert scores == pytest.approx(answer["scores"], rel=1e-5)
    assert columns["note"] == [answer.get("note") for answer in answers]


@pytest.mark.parametrize("batch_tokens", [1, 1 << 14])
def test_the_scorer_equals_the_pipeline_for_any_batch_size(saved, pipe, batch_tokens):
    columns = GileScorer(saved, batch_tokens=batch_tokens, top_k=3)({"text": TEXTS, "id": range(5)})
    check(columns, pipe(TEXTS, top_k=3))
    assert columns["id"] == range(5)
    assert columns["text"] is TEXTS


def test_labels_may_be_a_set_an_index_or_an_index_folder(saved, pipe, tmp_path):
    labels = LabelSet.from_names(["Milk", "Rats", "Iron"])
    index = LabelIndex.build(pipe.model, pipe.processor, labels)
    index.save_pretrained(tmp_path / "index")
    answers = pipe(TEXTS, labels, threshold=0.1)
    for given in (labels, index, tmp_path / "index"):
        check(GileScorer(saved, given, threshold=0.1)({"text": TEXTS}), answers)


def test_text_columns_are_joined(saved, pipe):
    batch = {"title": ["Rats.", None], "body": ["They were fed.", "Milk."]}
    check(GileScorer(saved, text=["title", "body"])(batch), pipe(["Rats.\nThey were fed.", "Milk."], top_k=10))


def test_an_invalid_row_gets_a_note_and_affects_no_other_row(saved, pipe):
    columns = GileScorer(saved)({"text": ["Rats.", [7], "half a \ud83d pair", None]})
    assert [labels is None for labels in columns["labels"]] == [False, True, True, False]
    assert columns["scores"][1:3] == [None, None]
    assert "got [7]" in columns["note"][1]
    assert columns["note"][2]
    check({name: column[:1] for name, column in columns.items()}, pipe(["Rats."], top_k=10))


def test_an_arrow_table_is_returned_as_an_arrow_table(saved):
    table = pa.table({"text": [*TEXTS, None], "n": range(6)})
    for given in (table, table.to_batches()[0]):
        scored = GileScorer(saved, top_k=2)(given)
        assert type(scored) is type(given)
        assert scored.column_names == ["text", "n", "labels", "scores", "note"]
        types = [str(scored.schema.field(name).type) for name in ("labels", "scores")]
        assert types == ["list<item: string>", "list<item: float>"]
        assert [len(labels) for labels in scored["labels"].to_pylist()] == [2] * 6


def test_the_scorer_works_with_datasets_map(saved, pipe, tmp_path):
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"text": TEXTS})
    cache = str(tmp_path / "cache.arrow")
    scored = rows.map(GileScorer(saved), batched=True, batch_size=2, cache_file_name=cache)
    check(scored[:], pipe(TEXTS, top_k=10))
    again = datasets.fingerprint.Hasher.hash
    assert again(GileScorer(saved)) == again(GileScorer(saved)) != again(GileScorer(saved, top_k=3))


def test_a_pickled_scorer_reloads_the_model_and_detects_changes(saved, pipe):
    pickled = pickle.dumps(GileScorer(saved, top_k=2))
    assert len(pickled) < 2000
    check(pickle.loads(pickled)({"text": TEXTS}), pipe(TEXTS, top_k=2))
    with torch.no_grad():
        next(pipe.model.parameters()).add_(1)
    pipe.model.save_pretrained(saved)
    with pytest.raises(ValueError, match="has changed since the scorer was created"):
        pickle.loads(pickled)


def test_bf16_changes_probabilities_only_slightly(saved, monkeypatch):
    monkeypatch.setattr(scorer, "has_bf16", lambda device: True)
    wide, narrow = (GileScorer(saved, bf16=bf16, top_k=None)({"text": TEXTS}) for bf16 in (False, True))
    scores = [
        dict(zip(labels, values, strict=True))
        for columns in (wide, narrow)
        for labels, values in zip(columns["labels"], columns["scores"], strict=True)
    ]
    for before, after in zip(scores[:5], scores[5:], strict=True):
        assert after == pytest.approx(before, abs=0.02)
    assert scores[:5] != scores[5:]


def test_wrong_options_are_refused_before_a_model_is_loaded():
    with pytest.raises(ValueError, match="return_parents is supported by the pipeline only"):
        GileScorer("absent", return_parents=True)
