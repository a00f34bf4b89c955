"""Splits into parts, and labels held out for the test part."""

import random

import pytest
from datasets import Dataset

from hf_gile import Label
from hf_gile.data.parts import PARTS, collect_labels, fill_parts, hold_out_labels, make_split

NAMES = ["heart", "milk", "iron", "kidney", "human"]


def documents(number, seed=0):
    draw = random.Random(seed)
    gold = [sorted(draw.sample(NAMES, k=draw.choice([1, 2]))) for _ in range(number)]
    return Dataset.from_dict({"id": [f"{seed}-{row}" for row in range(number)], "labels": gold})


def records(*gold):
    return Dataset.from_dict(
        {"meshUI": [list(ids) for ids in gold], "meshMajor": [[f"{i}!" for i in ids] for ids in gold]}
    )


def test_missing_parts_are_split_from_the_training_documents():
    original = documents(200)
    cut = fill_parts({"train": original})
    assert sorted(name for part in PARTS for name in cut[part]["id"]) == sorted(original["id"])
    assert fill_parts({"train": original})["test"]["id"][:] == cut["test"]["id"][:]
    other = fill_parts({"train": original, "test": documents(3, seed=1)})
    assert len(other["test"]) == 3
    assert len(other["train"]) + len(other["validation"]) == 200
    with pytest.raises(ValueError, match="no documents for validation: pass --validation_files"):
        fill_parts({"train": documents(1)})


@pytest.mark.parametrize(
    ("texts", "parts", "message"),
    [
        (["a b", "a  b"], [], "pass --validation_files and --test_files, or more training documents; parts are cut by"),
        (["a b", "a  b"], [], "by a hash of the text, and the text of all documents is the same$"),
        (["a b"], ["test"], "train: pass --validation_files, or more training .* by a hash of the text$"),
        ([], ["validation", "test"], "no documents for train: pass --train_files with documents$"),
    ],
)
def test_an_empty_part_is_explained(texts, parts, message):
    others = {part: documents(3) for part in parts}
    with pytest.raises(ValueError, match=message):
        fill_parts({**others, "train": Dataset.from_dict({"text": texts})}, column="text")


def test_a_split_by_text_ignores_ids_and_white_space_and_keeps_equal_texts_together():
    def split(file, end):
        rows = {"id": [f"{file}:{row}" for row in range(200)], "text": [f"text {row % 100}{end}" for row in range(200)]}
        return fill_parts({"train": Dataset.from_dict(rows)}, column="text")

    first, other = split("a", ""), split("b", " ")
    for part in PARTS:
        assert [text.strip() for text in other[part]["text"]] == first[part]["text"][:]
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


def test_an_existing_split_gets_label_counts():
    train, test = records("ba", "a"), records("ac")
    split = make_split(train, train, test)
    assert (split.seen, split.unseen) == ({"a": 2, "b": 1}, {"c": 1})
    assert make_split(train, train, test, ["d", "c"]).unseen == {"d": 0, "c": 1}
    with pytest.raises(ValueError, match="training documents have 1 unseen labels, such as b"):
        make_split(train, train, test, ["b"])


def test_labels_missing_from_the_vocabulary_keep_their_record_names():
    split = make_split(records("ba"), records("a"), records("ac"), ["d", "c"])
    labels, missing = collect_labels(split, [Label("a", "Apple"), Label("x", "Other")])
    assert (labels.names, labels.seen) == (["Apple", "b!", "c!"], [True, True, False])
    assert missing == 3
