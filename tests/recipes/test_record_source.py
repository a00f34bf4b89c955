"""Splits and labels of records with MeSH headings."""

import pytest
from datasets import Dataset
from papers.record_source import collect_labels, make_split

from hf_gile import Label


def records(*gold):
    return Dataset.from_dict(
        {"meshUI": [list(ids) for ids in gold], "meshMajor": [[f"{i}!" for i in ids] for ids in gold]}
    )


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
