"""The split by year of section 4.1.1 of the paper."""

from collections import Counter

import pytest
from mesh_records import labels_of, make_records
from papers.year_split import year_split

YEARS = [1999, 2003, 2004, 2004, 2005, 2010, 2015, 2016, None]


def dated_records(count=509):
    return [record | {"year": YEARS[row % len(YEARS)]} for row, record in enumerate(make_records(count))]


@pytest.fixture(params=["list", "shuffled dataset"])
def records(request):
    """Returns records, as a list or a dataset."""
    if request.param == "list":
        return dated_records()
    dataset = pytest.importorskip("datasets").Dataset.from_list(dated_records())
    return dataset.shuffle(seed=0)


def test_documents_are_split_by_year_and_otherwise_unchanged(records):
    split = year_split(records, test_until=2015, validation=101)
    expected = {2005: "test", 2010: "test", 2015: "test", 2016: None, None: None}
    parts = {record["pmid"]: part for part in ("train", "validation", "test") for record in getattr(split, part)}
    by_pmid = {record["pmid"]: record for record in records}
    for pmid, record in by_pmid.items():
        if record["year"] is not None and record["year"] <= 2004:
            assert parts[pmid] in ("train", "validation")
        else:
            assert parts.get(pmid) == expected[record["year"]]
    for part in ("train", "validation", "test"):
        rows = list(getattr(split, part))
        assert rows == [by_pmid[row["pmid"]] for row in rows]
        order = [record["pmid"] for record in records if parts.get(record["pmid"]) == part]
        assert [row["pmid"] for row in rows] == order
    assert len(split.validation) == 101
    assert split.dropped == {"without year": 56, "other years": 56}


def test_labels_without_training_documents_are_unseen(records):
    split = year_split(records, validation=0.5)
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test_from": 2004}, "must come after training years, got train_until=2004, test_from=2004"),
        ({"validation": 1.0}, r"a fraction \(a float\) below 1, or a number below the 228 documents .*, got 1.0"),
        ({"train_until": 1998}, "no documents for training, until 1998: all 509 are from 1999 to 2016"),
    ],
)
def test_invalid_years_and_sizes_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        year_split(dated_records(), **options)
