"""Splits into parts, and labels held out for the test part."""

import random

import pytest
from datasets import Dataset
from table_source import hold_out_labels

from hf_gile.data.parts import PARTS, fill_parts

NAMES = ["heart", "milk", "iron", "kidney", "human"]


def rows(gold, seed=0):
    return Dataset.from_dict({"id": [f"{seed}-{row}" for row in range(len(gold))], "labels": gold})


def documents(number, seed=0):
    draw = random.Random(seed)
    return rows([sorted(draw.sample(NAMES, k=draw.choice([1, 2]))) for _ in range(number)], seed)


def test_missing_parts_are_split_from_the_training_documents():
    original = documents(200)
    cut = fill_parts({"train": original})
    assert sorted(name for part in PARTS for name in cut[part]["id"]) == sorted(original["id"])
    assert [len(cut[part]) for part in PARTS] == [160, 20, 20]
    other = fill_parts({"train": original, "test": documents(3, seed=1)})
    assert [len(other[part]) for part in PARTS] == [180, 20, 3]


@pytest.mark.parametrize("number", [3, 7, 53])
def test_small_tables_are_split_whatever_their_texts(number):
    for seed in range(7):
        cut = fill_parts({"train": documents(number, seed)})
        fewest = 2 if number >= 7 else 1
        assert min(map(len, cut.values())) >= fewest
        assert len(cut["train"]) >= number / 3


def test_every_label_keeps_a_training_document():
    gold = [[f"label {row % 40}"] for row in range(100)] + [["frequent"]] * 300
    cut = fill_parts({"train": rows(gold)})
    assert {name for ids in cut["train"]["labels"] for name in ids} == {name for ids in gold for name in ids}
    frequent = [sum(ids == ["frequent"] for ids in cut[part]["labels"]) for part in PARTS]
    assert frequent == pytest.approx([240, 30, 30], abs=3)
    assert [len(cut[part]) for part in PARTS] == [320, 40, 40]


@pytest.mark.parametrize(
    ("texts", "parts", "message"),
    [
        (["a b", "a  b"], [], "2 documents with 1 different texts are too few .* pass --validation_files and --te"),
        (["a b"], ["test"], "1 documents with 1 different texts are too few .* pass --validation_files, or more"),
        ([], ["validation", "test"], "no documents for train: pass --train_files with documents$"),
    ],
)
def test_too_few_documents_are_explained(texts, parts, message):
    others = {part: documents(3) for part in parts}
    with pytest.raises(ValueError, match=message):
        fill_parts({**others, "train": Dataset.from_dict({"text": texts})}, column="text")


def test_a_split_by_text_ignores_order_and_white_space_and_keeps_equal_texts_together():
    def split(order, end):
        rows = {"id": [*order], "text": [f"text {row % 100}{end}" for row in order]}
        return fill_parts({"train": Dataset.from_dict(rows)}, column="text")

    first, other = split(range(200), ""), split(range(199, -1, -1), " ")
    for part in PARTS:
        assert {text.strip() for text in other[part]["text"]} == set(first[part]["text"])
    sets = [set(first[part]["text"]) for part in PARTS]
    assert sum(map(len, sets)) == len(set().union(*sets)) == 100


def test_held_out_labels_appear_in_the_test_part_only():
    parts = {part: documents(60, seed=len(part)) for part in PARTS}
    reduced = hold_out_labels(parts, share=0.5)
    names = {part: {name for row in reduced[part]["labels"] for name in row} for part in PARTS}
    assert set(NAMES) - names["train"]
    assert names["train"]
    assert names["validation"] == names["train"]
    assert names["test"] == set(NAMES)
    assert all(reduced["validation"]["labels"])
    with pytest.raises(ValueError, match=r"held_out 1.0 removes all labels of the train documents: lower it"):
        hold_out_labels(parts, share=1.0)
