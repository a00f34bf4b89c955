"""The published news: texts written as word ids, shares of documents, and the data of the paper."""

from itertools import pairwise

import numpy as np
import pytest
from datasets import Dataset
from papers.deutsche_welle import load_dw
from papers.news import LOW_RESOURCE_LEVELS, low_resource
from write_dw import write_dw

from hf_gile import LabelSet
from hf_gile.data import WordVectors

WORDS = ["science", "sports", "the", "ball", "moves"]
TABLE = WordVectors(WORDS, np.eye(5, 3, dtype=np.float32) + 1)
TEXTS = [
    {"id": "a", "text": "The ball moves. The unknown words!", "labels": ["Sports", "Zebrafish"]},
    {"id": "b", "text": "Science moves.", "labels": ["Science", "sports"]},
    {"id": "c", "text": "Nothing.", "labels": ["Science"]},
    {"id": "d", "text": "The ball.", "labels": ["Zebrafish"]},
]


def test_texts_are_written_as_ids_of_known_words(tmp_path, report):
    labels = LabelSet.from_names(["Science", "Sports", "sports", "Zebrafish"])
    write_dw({"train": Dataset.from_list(TEXTS)}, labels, tmp_path, "english", TABLE, report)
    corpus = load_dw(tmp_path, splits=["train"], word_vectors={"english": TABLE})
    assert corpus.label_sets["english"].names == ["science", "sports"]
    rows = corpus.documents["english"]["train"]
    texts = [[[WORDS[word] for word in sentence] for sentence in row["input_ids"]] for row in rows]
    assert texts == [[["the", "ball", "moves"], ["the"]], [["science", "moves"]]]
    assert rows["labels"] == [[1], [0, 1]]
    assert report.records == 2
    assert report.left_out == {"label without word vectors": 1, "without words": 1, "without labels": 1}


def test_the_recipe_writes_all_languages(write, tmp_path, run_recipe):
    for language in ("english", "german"):
        for part in ("train", "dev", "test"):
            write(f"texts/{part}/{language}.jsonl", TEXTS)
        np.savez(tmp_path / f"{language}.npz", words=WORDS, vectors=TABLE.vectors)
    done = run_recipe("write_dw", "--texts texts --word_vectors . --output_dir ids")
    assert "german: 6 records from 3 files; left out: " in done.stdout
    corpus = load_dw(tmp_path / "ids", word_vectors=tmp_path)
    assert corpus.languages == ["english", "german"]
    assert all(len(rows) == 2 for rows in corpus.documents["german"].values())


def test_smaller_low_resource_shares_are_subsets_of_larger_shares():
    train = Dataset.from_dict({"number": range(1000)})
    levels = [percent for level in LOW_RESOURCE_LEVELS.values() for percent in level]
    shares = [set(low_resource(train, percent, seed=7)["number"]) for percent in levels]
    assert [len(share) for share in shares] == [1, 2, 3, 4, 5, 10, 20, 30, 40, 50, 100, 200, 300, 400, 500]
    assert all(small < large for small, large in pairwise(shares))
    assert set(low_resource(train, 10, seed=7)["number"]) == shares[10] != set(low_resource(train, 10)["number"])
    assert low_resource(train, 100)["number"] == train["number"]
    assert len(low_resource(train.select([0]), 0.1)) == 1
    with pytest.raises(ValueError, match="percent must be above 0 and at most 100"):
        low_resource(train, 101)
