"""Splits of records: by year, as in section 4.1.1 of the paper, by held-out labels, and those that exist."""

import random
from collections import Counter

import pytest
from datasets import Dataset
from papers.record_source import collect_labels, make_split
from papers.year_split import year_split
from papers.zero_shot import split_of, zero_shot_split

from hf_gile import Label
from hf_gile.data import held_out_labels

YEARS = [1999, 2003, 2004, 2004, 2005, 2010, 2015, 2016, None]


def make_records(count=2003, labels=101, seed=0):
    """Returns records with label frequencies as unequal as those of headings."""
    generator = random.Random(seed)
    ids = [f"D{number:06}" for number in range(labels)]
    weights = [1 / (rank + 1) for rank in range(labels)]
    records = []
    for pmid in range(1, count + 1):
        chosen = sorted(set(generator.choices(ids, weights, k=generator.randint(1, 7))))
        record = {"pmid": str(pmid), "title": "", "abstractText": "Mice.", "year": 1976}
        records.append(record | {"meshUI": chosen, "meshMajor": [f"name of {ui}" for ui in chosen]})
    return records


def labels_of(records):
    return {label for record in records for label in record["meshUI"]}


def dated_records(count=509):
    return [record | {"year": YEARS[row % len(YEARS)]} for row, record in enumerate(make_records(count))]


@pytest.fixture(params=["list", "shuffled dataset"])
def in_any_form(request):
    """Returns records as a list, or in another order as a dataset."""
    shuffle = request.param != "list"
    return lambda records: Dataset.from_list(records).shuffle(seed=0) if shuffle else records


def test_documents_are_split_by_year_and_otherwise_unchanged(in_any_form):
    records = in_any_form(dated_records())
    split = year_split(records, test_until=2015, validation=101)
    parts = {part: list(getattr(split, part)) for part in ("train", "validation", "test")}
    part_of = {record["pmid"]: part for part, rows in parts.items() for record in rows}
    for part, rows in parts.items():
        assert rows == [record for record in records if part_of.get(record["pmid"]) == part]
    years = {part: {record["year"] for record in rows} for part, rows in parts.items()}
    assert years["train"] == years["validation"] == {1999, 2003, 2004}
    assert years["test"] == {2005, 2010, 2015}
    assert len(parts["validation"]) == 101
    assert split.dropped == {"without year": 56, "other years": 56}
    assert len(part_of) == len(records) - 112


def test_labels_without_training_documents_are_unseen(in_any_form):
    split = year_split(in_any_form(dated_records()), validation=0.5)
    assert split.seen == Counter(label for record in split.train for label in record["meshUI"])
    tested = Counter(label for record in split.test for label in record["meshUI"])
    trained = labels_of(split.train)
    assert split.unseen == {label: count for label, count in tested.items() if label not in trained}
    assert split.unseen_by_chance == {}
    assert list(split.seen) == sorted(split.seen)


def test_validation_documents_do_not_depend_on_the_order_of_records():
    # Literal values: a change here would silently change every published split.
    split = year_split(dated_records(101), validation=5)
    assert [record["pmid"] for record in split.validation] == ["4", "31", "47", "55", "92"]
    backwards = year_split(iter(dated_records(101)[::-1]), validation=5)
    assert list(backwards.validation) == list(split.validation)[::-1]
    assert backwards.seen == split.seen
    more = year_split(dated_records(101), validation=7)
    assert {record["pmid"] for record in split.validation} < {record["pmid"] for record in more.validation}
    other = year_split(dated_records(101), validation=5, salt="other")
    assert other.validation != split.validation


def labelled(*gold):
    return Dataset.from_list([{"meshUI": [*ids], "meshMajor": [f"{i}!" for i in ids]} for ids in gold])


def test_an_existing_split_gets_label_counts():
    train, test = labelled("ba", "a"), labelled("ac")
    split = make_split(train, train, test)
    assert (split.seen, split.unseen) == ({"a": 2, "b": 1}, {"c": 1})
    assert make_split(train, train, test, ["d", "c"]).unseen == {"d": 0, "c": 1}
    with pytest.raises(ValueError, match="training documents have 1 unseen labels, such as b"):
        make_split(train, train, test, ["b"])


def test_labels_missing_from_the_vocabulary_keep_their_record_names():
    split = make_split(labelled("ba"), labelled("a"), labelled("ac"), ["d", "c"])
    labels, missing = collect_labels(split, [Label("a", "Apple"), Label("x", "Other")])
    assert (labels.names, labels.seen) == (["Apple", "b!", "c!"], [True, True, False])
    assert missing == 3


def test_test_labels_are_seen_held_out_or_unseen_by_chance(in_any_form):
    split = zero_shot_split(in_any_form(make_records(701)), share=0.3, test=0.3)
    groups = [split.seen, split.unseen, split.unseen_by_chance]
    assert labels_of(split.test) <= set().union(*groups)
    assert sum(map(len, groups)) == len(set().union(*groups))
    assert split.seen == Counter(label for record in split.train for label in record["meshUI"])
    tested = Counter(label for record in split.test for label in record["meshUI"])
    for label, count in (split.unseen | split.unseen_by_chance).items():
        assert count == tested[label]


def test_the_split_keeps_all_documents_and_the_test_labels(in_any_form):
    all_records = in_any_form(make_records(701))
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
    ("split", "options", "message"),
    [
        (year_split, {"test_from": 2004}, "come after training years, got train_until=2004, test_from=2004"),
        (year_split, {"validation": 1.0}, r"a fraction \(a float\) below 1, or a number below the 228 doc.*, got 1.0"),
        (year_split, {"train_until": 1998}, "no documents for training, until 1998: all 509 are from 1999 to 2016"),
        (zero_shot_split, {"share": 1.5}, "share must be between 0 and 1, got 1.5"),
        (zero_shot_split, {"min_count": 7, "max_count": 5}, "min_count 7 must not exceed max_count 5"),
        (zero_shot_split, {"validation": 0.5, "test": 0.5}, "leave some training documents, got 0.5 and 0.5"),
        (zero_shot_split, {"share": 1.0, "min_count": 0, "max_count": 10**9}, "documents is left for training"),
    ],
)
def test_invalid_years_shares_and_sizes_are_refused(split, options, message):
    with pytest.raises(ValueError, match=message):
        split(dated_records(), **options)
