import gzip
import json
import os
import pickle
import sys
from functools import partial

import pytest
from papers.records import SUFFIXES, load_records, read_records

from hf_gile.data import ReadReport
from hf_gile.data.files import find_files

CITATION = """<PubmedArticle><MedlineCitation><PMID Version="1">{pmid}</PMID><Article>
<Journal><JournalIssue><PubDate><Year>1976</Year></PubDate></JournalIssue></Journal>
<ArticleTitle>{title}</ArticleTitle><Abstract><AbstractText>{abstractText}</AbstractText></Abstract></Article>
<MeshHeadingList><MeshHeading><DescriptorName UI="D051379">Mice</DescriptorName></MeshHeading></MeshHeadingList>
</MedlineCitation></PubmedArticle>"""


def raw(pmid, **changes):
    return {
        "pmid": str(pmid),
        "title": "On mice.",
        "abstractText": "Mice were seen.",
        "year": 1976,
        "meshUI": ["D051379"],
        "meshMajor": ["Mice"],
    } | changes


@pytest.fixture
def write(tmp_path):
    """Writes a file of records in the format of its suffix; in XML, records without a title are deletions."""

    def write_file(name, *records):
        path = tmp_path / "data" / name
        path.parent.mkdir(exist_ok=True, parents=True)
        if ".xml" in name.lower():
            citations = [CITATION.format(**record) for record in records if "title" in record]
            deletions = [f"<PMID>{record['pmid']}</PMID>" for record in records if "title" not in record]
            notice = f"<DeleteCitation>{''.join(deletions)}</DeleteCitation>" if deletions else ""
            text = f"<PubmedArticleSet>{''.join(citations)}{notice}</PubmedArticleSet>"
        elif ".jsonl" in name:
            text = "".join(json.dumps(record) + "\n" for record in records)
        else:
            text = json.dumps({"articles": records})
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return write_file


@pytest.fixture
def load(tmp_path):
    """Loads records with a separate cache for each test."""

    def load_paths(paths, **options):
        return load_records(paths, cache_dir=tmp_path / "cache", **options)

    return load_paths


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
    assert sorted(pmids(read_records(str(folder)))) == expected
    assert sorted(pmids(read_records(f"{folder}/*"))) == expected
    assert pmids(read_records(f"{folder}/**/h.*")) == ["8"]
    assert pmids(read_records([folder / "c.json", folder / "a.xml"])) == ["3", "1"]


def test_a_file_named_twice_is_read_once(write):
    path = write("a.json", raw(3))
    assert find_files([path, path.parent, str(path), f"{path.parent}/*.json"], SUFFIXES) == [path.resolve()]


def test_an_existing_name_with_glob_characters_is_read_literally(write):
    assert pmids(read_records(write("a[1].json", raw(3)))) == ["3"]


@pytest.mark.parametrize("missing", ["absent.xml", "absent/*.xml", ""])
def test_missing_paths_are_reported_before_reading(tmp_path, missing):
    path = missing and str(tmp_path / missing)
    with pytest.raises(FileNotFoundError, match=missing.replace("*", r"\*") or "an empty string"):
        read_records(path)


def test_empty_folders_and_unknown_formats_are_named(tmp_path, write):
    (tmp_path / "empty").mkdir()
    text = write("notes.txt", raw(3))
    for path in (tmp_path / "empty", text, text.parent, f"{text.parent}/*.txt"):
        with pytest.raises(ValueError, match=r"nothing to read at .*expected \.xml, \.json, \.jsonl"):
            read_records(path)
    with pytest.raises(ValueError, match="at least one file, folder or glob, got none"):
        read_records([])


def test_records_without_abstract_or_headings_are_skipped_and_counted(write):
    path = write(
        "a.jsonl", raw(2, abstractText=" "), raw(3), raw(5, abstractText=None), raw(7, meshUI=[], meshMajor=[])
    )
    report = ReadReport()
    assert pmids(read_records(path, report)) == ["3"]
    assert (report.files, report.records) == (1, 1)
    assert report.left_out == {"without abstract": 2, "without headings": 1}
    assert str(report) == "1 record from 1 file; left out: without abstract (2), without headings (1)"
    assert report.examples["without headings"] == [f"{path.resolve()}: pmid 7"]


def test_a_file_without_usable_records_is_refused_under_any_policy(write):
    path = write("a.jsonl", raw(2, abstractText=""))
    for report in (ReadReport(), ReadReport("skip")):
        with pytest.raises(
            ValueError, match=r"a\.jsonl: no record has both an abstract and headings.*without abstract"
        ):
            list(read_records(path, report))


def test_a_repeated_pmid_is_refused_or_skipped_after_its_first_record(write):
    for pmid in ("3", "x3", "03", "123456789"):
        paths = [write("a.json", raw(pmid), raw(5)), write("b.json", raw(7), raw(pmid, title="Later"))]
        with pytest.raises(ValueError, match=rf"b\.json: pmid {pmid} was read before"):
            list(read_records(paths))
        report = ReadReport("skip")
        records = list(read_records(paths, report))
        assert pmids(records) == [pmid, "5", "7"]
        assert records[0]["title"] == "On mice."
        assert report.left_out == {"repeated pmid": 1}


def test_pmids_that_differ_in_leading_zeros_or_digits_are_different(write):
    different = ["3", "03", "३", "3a", "30"]
    assert pmids(read_records(write("a.json", *(raw(pmid) for pmid in different)))) == different


def test_a_damaged_file_is_named_or_skipped(write):
    complete = write("c.json", raw(7))
    empty = write("a.json", raw(3))
    empty.write_bytes(b"")
    cut = write("b.jsonl.gz", raw(5))
    cut.write_bytes(cut.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"a\.json: empty file"):
        list(read_records(complete.parent))
    with pytest.raises(ValueError, match=r"b\.jsonl\.gz: damaged after"):
        list(read_records([complete, cut]))
    report = ReadReport("skip")
    assert "7" in pmids(read_records(complete.parent, report))
    assert report.left_out == {"damaged file": 2}
    assert report.files == 3


def test_options_reach_the_bioasq_reader(write):
    path = write("a.json", raw(3, meshUI=None))
    path.write_bytes(path.read_bytes().replace(b"On mice", b"\xdcber"))
    (record,) = read_records(path, encoding="latin-1", ui_of={"Mice": "D1"})
    assert (record["title"], record["meshUI"]) == ("Über.", ["D1"])


def test_an_unknown_error_policy_is_refused(write):
    with pytest.raises(ValueError, match='on_error must be "raise" or "skip", got'):
        load_records(write("a.json", raw(3)), on_error="ignore")


def test_loaded_records_equal_read_records(write, load):
    paths = [write("a.json", raw(3), raw(5, year=None)), write("b.xml", raw(7))]
    dataset, report = load(paths)
    assert list(dataset) == list(read_records(paths))
    assert (report.files, report.records) == (2, 3)


def test_the_cache_returns_the_same_records_and_report(write, load, monkeypatch):
    path = write("a.jsonl", raw(3), raw(5, abstractText=""), {"pmid": "7"})
    first, report = load(path, on_error="skip")
    monkeypatch.setattr("papers.records._read_piece", lambda *_, **__: 1 / 0)
    cached, cached_report = load(path, on_error="skip")
    assert list(cached) == list(first)
    assert cached._fingerprint == first._fingerprint
    assert cached_report == report
    assert report.left_out == {"without abstract": 1, "malformed record": 1}


def test_a_changed_file_is_read_again(write, load):
    path = write("a.json", raw(3))
    assert load(path)[0]["pmid"] == ["3"]
    before = path.stat().st_mtime_ns
    write("a.json", raw(5))
    os.utime(path, ns=(before + 1, before + 1))
    assert load(path)[0]["pmid"] == ["5"]
    write("a.json", raw(5), raw(7))
    os.utime(path, ns=(before + 1, before + 1))
    assert load(path)[0]["pmid"] == ["5", "7"]


def test_different_files_or_arguments_are_read_again(write, load):
    path = write("a.json", raw(3, meshUI=None))
    assert load(path)[0][0]["meshUI"] == ["Mice"]
    assert load(path, ui_of={"Mice": "D1"})[0][0]["meshUI"] == ["D1"]
    assert load(path, ui_of={"Mice": "D2"})[0][0]["meshUI"] == ["D2"]
    write("b.json", raw(5))
    assert load(path.parent)[0]["pmid"] == ["3", "5"]


def test_a_reader_error_is_passed_on_and_leaves_no_cache(write, load):
    path = write("a.json", raw(3), {"pmid": "5"})
    for _ in range(2):
        with pytest.raises(ValueError, match=r"a\.json: record 2: a record needs title"):
            load(path)
    assert load(path, on_error="skip")[1].left_out == {"malformed record": 1}


def test_files_are_read_again_if_their_reports_were_deleted(write, load, tmp_path):
    path = write("a.json", raw(3))
    load(path)
    (reports,) = (tmp_path / "cache").rglob("reports.json")
    reports.unlink()
    assert load(path)[1].records == 1


def test_without_datasets_the_error_names_the_extra(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ImportError, match=r"pip install 'hf-gile\[data\]'"):
        load_records(write("a.json", raw(3)))


@pytest.fixture
def baseline(write):
    """Returns a baseline of two files, and two update files."""
    write("pubmed24n0001.xml.gz", raw(3), raw(5), raw(7))
    write("pubmed24n0002.xml.gz", raw(11), raw(13), raw(17))
    write("pubmed24n0003.xml.gz", raw(5, title="Later."), raw(19), {"pmid": "13"}, {"pmid": "17"})
    return write("pubmed24n0004.xml.gz", raw(17, title="Back."), raw(5, title="Last."), raw(3, abstractText="")).parent


REVISED = {"7": "On mice.", "11": "On mice.", "19": "On mice.", "17": "Back.", "5": "Last."}
OUT = {"superseded": 3, "deleted": 2, "without abstract": 1}


def test_update_files_revise_and_delete_earlier_records(baseline):
    report = ReadReport()
    assert {record["pmid"]: record["title"] for record in read_records(baseline, report)} == REVISED
    assert report.left_out == OUT
    assert report.examples["deleted"][0].endswith("pubmed24n0002.xml.gz: citation 2 (pmid 13)")


@pytest.mark.parametrize("num_proc", [None, 2])
@pytest.mark.parametrize("streaming", [False, True])
def test_update_files_work_in_streams_and_with_several_processes(baseline, load, num_proc, streaming):
    for _ in range(2):
        records, report = load(baseline, num_proc=num_proc, streaming=streaming)
        assert {record["pmid"]: record["title"] for record in records} == REVISED
        assert report.left_out == OUT
        assert (report.files, report.records) == (4, 5)


def test_changed_update_files_affect_earlier_files(baseline, write, load):
    assert load(baseline)[1].left_out == OUT
    write("pubmed24n0004.xml.gz", raw(23))
    dataset, report = load(baseline)
    assert dict(zip(dataset["pmid"], dataset["title"], strict=True)) == {
        "3": "On mice.", "7": "On mice.", "11": "On mice.", "5": "Later.", "19": "On mice.", "23": "On mice."
    }  # fmt: skip
    assert report.left_out == {"superseded": 1, "deleted": 2}


def test_file_names_order_updates_while_paths_order_records(baseline):
    files = sorted(baseline.iterdir())[::-1]
    records = list(read_records(files))
    assert {record["pmid"]: record["title"] for record in records} == REVISED
    assert pmids(records) == ["17", "5", "19", "11", "7"]


def test_gaps_in_the_file_numbers_are_counted(baseline, load):
    (baseline / "pubmed24n0002.xml.gz").unlink()
    for _ in range(2):
        _, report = load(baseline)
        assert report.left_out["missing file"] == 1
        assert report.examples["missing file"][0].startswith("pubmed24n0002 is missing between files")


def test_records_revised_by_a_damaged_update_are_skipped(baseline, load):
    path = baseline / "pubmed24n0004.xml.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()).replace(b"Last.", b"Last.\0")))
    with pytest.raises(ValueError, match=r"pubmed24n0004\.xml\.gz: damaged after 1 records: .*Char 0x0"):
        load(baseline)
    dataset, report = load(baseline, on_error="skip")
    assert dict(zip(dataset["pmid"], dataset["title"], strict=True)) == {
        key: title for key, title in REVISED.items() if key != "5"
    }
    assert report.left_out == {"superseded": 3, "deleted": 2, "damaged file": 1}


def test_a_pmid_repeated_across_xml_and_json_is_refused(write, load):
    paths = [write("a.xml", raw(3), raw(3, title="Later.")), write("b.json", raw(5), raw(3, title="JSON"))]
    for read in (lambda **options: list(read_records(paths, ReadReport(**options))), partial(load, paths)):
        with pytest.raises(ValueError, match=r"b\.json: pmid 3 was read before"):
            read()
    dataset, report = load(paths, on_error="skip")
    assert list(zip(dataset["pmid"], dataset["title"], strict=True)) == [("3", "Later."), ("5", "On mice.")]
    assert report.left_out == {"superseded": 1, "repeated pmid": 1}


@pytest.fixture
def large(write, monkeypatch):
    """Writes two files with many parts; of 97 pmids, two are repeated within a part, five across files."""
    monkeypatch.setattr("hf_gile.data.table_files._PIECE", 1009)
    some = [raw(pmid) for pmid in range(1, 54)]
    some[13:13] = [raw(13, title="Later."), raw(13, title="Later.")]
    return [write("a.jsonl", *some), write("b.jsonl", *(raw(pmid, title="Of b.") for pmid in range(49, 98)))]


@pytest.mark.parametrize("num_proc", [None, 2, pytest.param(7, marks=pytest.mark.slow)])
def test_repeated_pmids_are_dropped_alike_with_any_number_of_processes(large, load, num_proc):
    with pytest.raises(ValueError, match=r"a\.jsonl: pmid 13 was read before; fix it"):
        load(large, num_proc=num_proc)
    report = ReadReport("skip")
    expected = list(read_records(large, report))
    assert [int(pmid) for pmid in pmids(expected)] == list(range(1, 98))
    assert sum(record["title"] == "On mice." for record in expected) == 53
    assert report.left_out == {"repeated pmid": 7}
    first, _ = load(large, on_error="skip", num_proc=num_proc)
    dataset, of_dataset = load(large, on_error="skip", num_proc=num_proc)
    assert list(dataset) == expected
    assert of_dataset == report
    assert dataset._fingerprint == first._fingerprint


def test_a_stream_drops_the_same_repeated_pmids_in_every_epoch(large, load):
    stream, report = load(large, on_error="skip", streaming=True)
    assert stream.num_shards > 7
    expected = list(read_records(large, ReadReport("skip")))
    assert list(stream) == expected
    assert report.left_out == {"repeated pmid": 7}
    assert list(stream.take(11)) == expected[:11]
    assert list(stream) == expected
    pairs = list(zip(stream, stream, strict=True))
    assert pairs == list(zip(expected, expected, strict=True))
    fresh = load(large, on_error="skip", streaming=True)[0]
    assert [first for first, _ in zip(fresh, fresh, strict=True)] == expected
    with pytest.raises(ValueError, match=r"a\.jsonl: pmid 13 was read before"):
        list(load(large, streaming=True)[0])


def test_a_stream_can_be_pickled(large, load):
    stream, _ = load(large, on_error="skip", streaming=True)
    assert list(pickle.loads(pickle.dumps(stream))) == list(stream)


def test_unusable_records_do_not_count_as_duplicates(write, load):
    paths = [write("a.json", raw(3, abstractText=""), raw(5)), write("b.json", raw(3))]
    assert pmids(read_records(paths)) == load(paths)[0]["pmid"][:] == ["5", "3"]


def test_an_empty_dataset_is_refused(write, load):
    path = write("a.jsonl", raw(2, abstractText=""))
    with pytest.raises(ValueError, match=r"no record can be used.*without abstract \(1\)"):
        load(path)


@pytest.mark.slow
def test_the_abstracts_of_the_shared_data_are_read(shared_data):
    report = ReadReport()
    records = list(read_records(shared_data / "pubmed_mesh" / "*.jsonl.gz", report))
    assert len(records) == report.records == 23_260 + 2_866 + 2_977
    assert report.left_out == {}
