"""Sentence pairs from files and datasets."""

import pytest
from datasets import Dataset, DatasetDict
from papers.sentence_pairs import load_sentence_pairs

GERMAN, ENGLISH = ["Ein Hund.", "Zwei\u2028Hunde."], ["A dog.", "Two dogs."]


@pytest.fixture
def folder(write, tmp_path):
    for name in ("train", "val", "test_2016"):
        write(f"{name}.de", "\n".join(GERMAN) + "\n")
        write(f"{name}.en.gz", "\n".join(ENGLISH))
    return tmp_path


def test_a_folder_of_text_files_is_read_line_by_line(folder):
    pairs = load_sentence_pairs(str(folder), "de", "en")
    assert [*pairs] == ["train", "validation", "test"]
    for rows in pairs.values():
        assert rows.to_dict() == {"source": GERMAN, "target": ENGLISH}


@pytest.mark.parametrize("nested", [True, False])
def test_datasets_may_have_a_translation_column_or_a_column_per_language(monkeypatch, nested):
    pairs = [{"de": de, "en": en} for de, en in zip(GERMAN, ENGLISH, strict=True)]
    rows = Dataset.from_dict({"translation": pairs} if nested else {"de": GERMAN, "en": ENGLISH})
    calls = []
    loaded = DatasetDict(dict.fromkeys(("train", "validation", "test"), rows))
    monkeypatch.setattr("datasets.load_dataset", lambda *names: calls.append(names) or loaded)
    read = load_sentence_pairs("wmt/wmt14", "en", "de", "de-en")["test"]
    assert read.to_dict() == {"source": ENGLISH, "target": GERMAN}
    assert calls == [("wmt/wmt14", "de-en")]
    with pytest.raises(ValueError, match="no sentences in 'fi', only"):
        load_sentence_pairs("wmt/wmt14", "fi", "en")
    del loaded["validation"]
    with pytest.raises(ValueError, match="has the splits train, test, but no validation"):
        load_sentence_pairs("wmt/wmt14", "de", "en")
