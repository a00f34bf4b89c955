"""The published news: texts written as word ids, shares of documents, and the data of the paper."""

import json
from itertools import pairwise

import numpy as np
import pytest
from datasets import Dataset
from papers.deutsche_welle import load_dw
from papers.news import LOW_RESOURCE_LEVELS, joint_size_for, low_resource, paper_threshold
from write_dw import write_dw

from hf_gile import GileConfig, GileModel, LabelSet
from hf_gile.data import ReadReport, WordVectors

WORDS = ["science", "sports", "the", "ball", "moves"]
TABLE = WordVectors(WORDS, np.eye(5, 3, dtype=np.float32) + 1)
TEXTS = [
    {"id": "a", "text": "The ball moves. The unknown words!", "labels": ["Sports", "Zebrafish"]},
    {"id": "b", "text": "Science moves.", "labels": ["Science", "sports"]},
    {"id": "c", "text": "Nothing.", "labels": ["Science"]},
    {"id": "d", "text": "The ball.", "labels": ["Zebrafish"]},
]


def test_texts_are_written_as_ids_of_known_words(tmp_path):
    report = ReadReport()
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


def test_labels_without_a_known_word_are_no_labels_of_the_language(tmp_path):
    with pytest.raises(ValueError, match="german: no label has a word with a vector; are these the vectors of german"):
        write_dw({"train": Dataset.from_list(TEXTS)}, LabelSet.from_names(["Sport"]), tmp_path, "german", TABLE)
    assert list(tmp_path.iterdir()) == []


def test_the_recipe_writes_all_languages(tmp_path, run_recipe):
    for part in ("train", "dev", "test"):
        (tmp_path / "texts" / part).mkdir(parents=True)
        lines = [json.dumps(row) for row in TEXTS]
        for language in ("english", "german"):
            (tmp_path / "texts" / part / f"{language}.jsonl").write_text("\n".join(lines))
            np.savez(tmp_path / f"{language}.npz", words=WORDS, vectors=TABLE.vectors)
    done = run_recipe("write_dw", ["--texts", "texts", "--word_vectors", tmp_path, "--output_dir", "ids"])
    assert done.returncode == 0, done.stderr
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


def test_paper_threshold_returns_the_fixed_thresholds_of_the_paper():
    assert [paper_threshold(number) for number in (1, 399, 400, 26000)] == [0.4, 0.4, 0.2, 0.2]
    assert [paper_threshold(number, low_resource=True) for number in (399, 400)] == [0.3, 0.3]
    with pytest.raises(ValueError, match="num_labels must be at least 1, got 0"):
        paper_threshold(0)


def test_equation_19_gives_about_as_many_parameters_as_a_linear_unit():
    for k in (327, 26_104):
        joint = joint_size_for(100, 40, k)
        ours = GileModel(GileConfig(vocab_size=3, embedding_size=40, joint_size=joint)).output_layer
        linear = GileModel(
            GileConfig(vocab_size=3, embedding_size=40, output_layer="linear", num_labels=k)
        ).output_layer
        sizes = [sum(p.numel() for p in part.parameters()) for part in (ours, linear)]
        assert sizes[0] == pytest.approx(sizes[1], rel=0.03)
