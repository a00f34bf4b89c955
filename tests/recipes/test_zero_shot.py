from collections import Counter

import pytest
from mesh_records import labels_of, make_records
from papers.zero_shot import split_of, zero_shot_split

from hf_gile.data import held_out_labels


@pytest.fixture(params=["list", "shuffled dataset"])
def all_records(request):
    """Returns records, as a list or a dataset."""
    if request.param == "list":
        return make_records(701)
    dataset = pytest.importorskip("datasets").Dataset.from_list(make_records(701))
    return dataset.shuffle(seed=0)


def test_test_labels_are_seen_held_out_or_unseen_by_chance(all_records):
    split = zero_shot_split(all_records, share=0.3, test=0.3)
    groups = [split.seen, split.unseen, split.unseen_by_chance]
    assert labels_of(split.test) <= set().union(*groups)
    assert sum(map(len, groups)) == len(set().union(*groups))
    assert split.seen == Counter(label for record in split.train for label in record["meshUI"])
    tested = Counter(label for record in split.test for label in record["meshUI"])
    for label, count in (split.unseen | split.unseen_by_chance).items():
        assert count == tested[label]


def test_the_split_keeps_all_documents_and_the_test_labels(all_records):
    split = zero_shot_split(all_records, share=0.3)
    by_pmid = {record["pmid"]: record for record in all_records}
    assert list(split.test) == [record for record in all_records if split_of(record["pmid"]) == "test"]
    for part, records in (("train", split.train), ("validation", split.validation)):
        part_ids = [record["pmid"] for record in all_records if split_of(record["pmid"]) == part]
        assert len(records) + split.dropped[part] == len(part_ids)
        for record in records:
            original = by_pmid[record["pmid"]]
            names = dict(zip(original["meshUI"], original["meshMajor"], strict=True))
            remaining = [label for label in original["meshUI"] if label not in split.unseen]
            assert record == original | {"meshUI": remaining, "meshMajor": [names[label] for label in remaining]}
            assert remaining
    assert split.dropped["train"] > 0


def test_held_out_labels_are_the_same_on_every_machine():
    # Literal values: a change here would silently change every published split.
    assert held_out_labels(dict.fromkeys(map(str, range(60)), 7)) == ["10", "11", "13", "18", "21", "25", "43", "6"]
    assert [pmid for pmid in range(20) if split_of(str(pmid)) == "test"] == [0, 4]
    assert [pmid for pmid in range(20) if split_of(str(pmid)) == "validation"] == [6, 7, 13]


def test_labels_out_of_range_are_never_held_out():
    counts = {f"D{count}": count for count in range(1, 1001)}
    for label in held_out_labels(counts, share=1.0, min_count=7, max_count=11):
        assert 7 <= counts[label] <= 11
    assert len(held_out_labels(counts, share=1.0, min_count=7, max_count=11)) == 5
    assert held_out_labels(counts, share=0.0) == []


def test_shares_are_met_and_a_salt_selects_other_labels():
    counts = dict.fromkeys(map(str, range(10_007)), 7)
    held_out = held_out_labels(counts, share=0.2)
    assert len(held_out) == pytest.approx(2001, rel=0.06)
    assert set(held_out_labels(counts, share=0.1)) < set(held_out)
    salted = held_out_labels(counts, share=0.2, salt="other")
    assert len(set(salted) & set(held_out)) == pytest.approx(400, rel=0.2)
    parts = Counter(split_of(str(pmid), validation=0.1, test=0.2) for pmid in range(10_007))
    assert parts["test"] == pytest.approx(2001, rel=0.06)
    assert parts["validation"] == pytest.approx(1001, rel=0.09)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"share": 1.5}, "share must be between 0 and 1, got 1.5"),
        ({"min_count": 7, "max_count": 5}, "min_count 7 must not exceed max_count 5"),
        ({"validation": 0.5, "test": 0.5}, "leave some training documents, got 0.5 and 0.5"),
        ({"share": 1.0, "min_count": 0, "max_count": 10**9}, "documents is left for training"),
    ],
)
def test_invalid_shares_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        zero_shot_split(make_records(101), **options)
