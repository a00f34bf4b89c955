from functools import partial

import pytest
from medline_xml import citation, deletion, document
from papers.records import load_records, read_records

from hf_gile.data import ReadReport


def raw(pmid, **changes):
    record = {"pmid": str(pmid), "title": "On mice.", "abstractText": "Mice were seen.", "year": 1976}
    return record | {"meshUI": ["D051379"], "meshMajor": ["Mice"]} | changes


def as_xml(record):
    abstract = f"<Abstract><AbstractText>{record['abstractText']}</AbstractText></Abstract>"
    return citation(record["pmid"], title=record["title"], abstract=abstract)


@pytest.fixture
def write(write):
    """Writes records in the format of the suffix of a file; in XML, last records without a title are deletions."""

    def write_records(name, *records):
        content = list(records) if ".jsonl" in name else {"articles": records}
        if ".xml" in name.lower():
            articles = [record for record in records if "title" in record]
            deleted = [record["pmid"] for record in records[len(articles) :]]
            content = document(*map(as_xml, articles), deletion(*deleted))
        return write(f"data/{name}", content)

    return write_records


@pytest.fixture
def load(tmp_path):
    """Loads records with a separate cache for each test."""
    return partial(load_records, cache_dir=tmp_path / "cache")


def pmids(records):
    return [record["pmid"] for record in records]


def test_a_file_a_folder_and_a_glob_read_the_same_files(write):
    names = ["a.xml", "b.xml.gz", "c.json", "d.json.gz", "e.jsonl", "f.jsonl.gz", "g.XML"]
    for pmid, name in enumerate(names, 1):
        write(name, raw(pmid))
    folder = write("readme.md", raw(1)).parent
    write("b.xml.gz.md5", raw(1))
    write("inside/h.xml", raw(8))
    expected = list("1234567")
    assert sorted(pmids(read_records(folder))) == expected
    assert sorted(pmids(read_records(f"{folder}/*"))) == expected
    assert pmids(read_records(f"{folder}/**/h.*")) == ["8"]
    assert pmids(read_records([folder / "c.json", folder / "a.xml"])) == ["3", "1"]


def test_records_without_abstract_or_headings_are_skipped_and_counted(write, report):
    empty = [raw(2, abstractText=" "), raw(5, abstractText=None), raw(7, meshUI=[], meshMajor=[])]
    path = write("a.jsonl", raw(3), *empty)
    assert pmids(read_records(path, report)) == ["3"]
    assert str(report) == "1 record from 1 file; left out: without abstract (2), without headings (1)"
    assert report.examples["without headings"] == [f"{path.resolve()}: pmid 7"]


def test_files_without_usable_records_are_refused_under_any_policy(write, load):
    path = write("a.jsonl", raw(2, abstractText=""))
    with pytest.raises(ValueError, match=r"a\.jsonl: no record has both an abstract and headings.*without abstract"):
        list(read_records(path, ReadReport("skip")))
    with pytest.raises(ValueError, match=r"no record can be used.*without abstract \(1\)"):
        load(path)


@pytest.mark.parametrize("pmid", ["3", "x3"])
def test_a_repeated_pmid_is_refused_or_skipped_after_its_first_record(write, pmid, lenient):
    paths = [write("a.json", raw(pmid), raw("03")), write("b.json", raw(7), raw(pmid, title="Later"))]
    with pytest.raises(ValueError, match=rf"b\.json: pmid {pmid} was read before"):
        list(read_records(paths))
    records = list(read_records(paths, lenient))
    assert pmids(records) == [pmid, "03", "7"]
    assert records[0]["title"] == "On mice."
    assert lenient.left_out == {"repeated pmid": 1}


def test_the_cache_returns_the_same_records_and_report(write, load, monkeypatch):
    path = write("a.jsonl", raw(3), raw(5, abstractText=""), {"pmid": "7"})
    first, report = load(path, on_error="skip")
    monkeypatch.setattr("papers.records._read_piece", lambda *_, **__: 1 / 0)
    cached, cached_report = load(path, on_error="skip")
    assert list(cached) == list(first)
    assert cached._fingerprint == first._fingerprint
    assert cached_report == report
    assert report.left_out == {"without abstract": 1, "malformed record": 1}


def test_different_files_or_arguments_are_read_again(write, load):
    path = write("a.json", raw(3, meshUI=None))
    assert load(path)[0][0]["meshUI"] == ["Mice"]
    assert load(path, ui_of={"Mice": "D1"})[0][0]["meshUI"] == ["D1"]
    assert load(path, ui_of={"Mice": "D2"})[0][0]["meshUI"] == ["D2"]
    write("b.json", raw(5))
    assert load(path.parent)[0]["pmid"] == ["3", "5"]


@pytest.fixture
def baseline(write):
    """Returns a baseline of two files, and two update files."""
    write("pubmed24n0001.xml.gz", raw(3), raw(5), raw(7))
    write("pubmed24n0002.xml.gz", raw(11), raw(13), raw(17))
    write("pubmed24n0003.xml.gz", raw(5, title="Later."), raw(19), {"pmid": "13"}, {"pmid": "17"})
    return write("pubmed24n0004.xml.gz", raw(17, title="Back."), raw(5, title="Last."), raw(3, abstractText="")).parent


REVISED = {"7": "On mice.", "11": "On mice.", "19": "On mice.", "17": "Back.", "5": "Last."}
OUT = {"superseded": 3, "deleted": 2, "without abstract": 1}


@pytest.mark.parametrize(("num_proc", "streaming"), [(None, False), (2, False), (None, True)])
def test_update_files_revise_and_delete_earlier_records(baseline, load, num_proc, streaming):
    for _ in range(2):
        records, report = load(baseline, num_proc=num_proc, streaming=streaming)
        assert {record["pmid"]: record["title"] for record in records} == REVISED
        assert report.left_out == OUT
        assert (report.files, report.records) == (4, 5)
        assert report.examples["deleted"][0].endswith("pubmed24n0002.xml.gz: citation 2 (pmid 13)")


def test_gaps_in_the_file_numbers_are_counted(baseline, load):
    (baseline / "pubmed24n0002.xml.gz").unlink()
    _, report = load(baseline)
    assert report.left_out["missing file"] == 1
    assert report.examples["missing file"][0].startswith("pubmed24n0002 is missing between files")


@pytest.fixture
def large(write, monkeypatch):
    """Writes two files with many parts; of 97 pmids, two are repeated within a part, five across files."""
    monkeypatch.setattr("hf_gile.data.table_files._PIECE", 1009)
    some = [raw(pmid) for pmid in range(1, 54)]
    some[13:13] = [raw(13, title="Later."), raw(13, title="Later.")]
    return [write("a.jsonl", *some), write("b.jsonl", *(raw(pmid, title="Of b.") for pmid in range(49, 98)))]


@pytest.mark.parametrize("num_proc", [None, 2])
def test_repeated_pmids_are_dropped_alike_with_any_number_of_processes(large, load, num_proc, lenient):
    with pytest.raises(ValueError, match=r"a\.jsonl: pmid 13 was read before; fix it"):
        load(large, num_proc=num_proc)
    expected = list(read_records(large, lenient))
    assert [int(pmid) for pmid in pmids(expected)] == list(range(1, 98))
    assert sum(record["title"] == "On mice." for record in expected) == 53
    assert lenient.left_out == {"repeated pmid": 7}
    first, _ = load(large, on_error="skip", num_proc=num_proc)
    dataset, of_dataset = load(large, on_error="skip", num_proc=num_proc)
    assert list(dataset) == expected
    assert of_dataset == lenient
    assert dataset._fingerprint == first._fingerprint
