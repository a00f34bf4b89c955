import gzip
import json
import os
import shutil
import sys

import pytest

from hf_gile.data import ReadReport, load_records, read_records
from hf_gile.data.files import find_files
from hf_gile.data.records import SUFFIXES

XML = """<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID>{pmid}</PMID><Article>
<Journal><JournalIssue><PubDate><Year>1976</Year></PubDate></JournalIssue></Journal>
<ArticleTitle>On mice.</ArticleTitle><Abstract><AbstractText>Mice were seen.</AbstractText></Abstract></Article>
<MeshHeadingList><MeshHeading><DescriptorName UI="D051379">Mice</DescriptorName></MeshHeading></MeshHeadingList>
</MedlineCitation></PubmedArticle></PubmedArticleSet>"""


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
    """Writes a file of records, in the format that its name says."""

    def write_file(name, *records):
        path = tmp_path / "data" / name
        path.parent.mkdir(exist_ok=True, parents=True)
        if ".xml" in name.lower():
            text = XML.format(pmid=records[0]["pmid"])
        elif ".jsonl" in name:
            text = "".join(json.dumps(record) + "\n" for record in records)
        else:
            text = json.dumps({"articles": records})
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return write_file


@pytest.fixture
def load(tmp_path):
    """Loads records with a cache of the test's own."""

    def load_paths(paths, **options):
        return load_records(paths, cache_dir=tmp_path / "cache", **options)

    return load_paths


def pmids(records):
    return [record["pmid"] for record in records]


def test_a_file_a_folder_and_a_glob_name_the_same_files(write):
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


def test_a_name_with_the_signs_of_a_glob_is_a_name_first(write):
    assert pmids(read_records(write("a[1].json", raw(3)))) == ["3"]


@pytest.mark.parametrize("given", ["absent.xml", "absent/*.xml", ""])
def test_a_path_that_leads_nowhere_is_named_before_reading(tmp_path, given):
    path = given and str(tmp_path / given)
    with pytest.raises(FileNotFoundError, match=given.replace("*", r"\*") or "an empty one"):
        read_records(path)


def test_folders_and_files_of_no_known_format_are_named(tmp_path, write):
    (tmp_path / "empty").mkdir()
    text = write("notes.txt", raw(3))
    for given in (tmp_path / "empty", text, text.parent, f"{text.parent}/*.txt"):
        with pytest.raises(ValueError, match=r"nothing to read at .*expected \.xml, \.json, \.jsonl"):
            read_records(given)
    with pytest.raises(ValueError, match="at least one file, folder or glob, got none"):
        read_records([])


def test_records_without_abstract_or_headings_are_left_out_and_counted(write):
    path = write(
        "a.jsonl", raw(2, abstractText=" "), raw(3), raw(5, abstractText=None), raw(7, meshUI=[], meshMajor=[])
    )
    report = ReadReport()
    assert pmids(read_records(path, report)) == ["3"]
    assert (report.files, report.records) == (1, 1)
    assert report.left_out == {"without abstract": 2, "without headings": 1}
    assert str(report) == "1 records from 1 file; left out: 2 without abstract, 1 without headings"
    assert report.examples["without headings"] == [f"{path.resolve()}: pmid 7"]


def test_no_usable_record_at_all_is_an_error_under_any_policy(write):
    path = write("a.jsonl", raw(2, abstractText=""))
    for report in (ReadReport(), ReadReport("skip")):
        with pytest.raises(ValueError, match=r"no record has both an abstract and headings.*1 without abstract"):
            list(read_records(path, report))


def test_a_repeated_pmid_raises_and_its_first_record_stays_when_skipping(write):
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
    given = ["3", "03", "३", "3a", "30"]
    assert pmids(read_records(write("a.json", *(raw(pmid) for pmid in given)))) == given


def test_damaged_files_are_named_or_skipped_and_the_others_read(write):
    whole = write("c.json", raw(7))
    empty = write("a.json", raw(3))
    empty.write_bytes(b"")
    cut = write("b.jsonl.gz", raw(5))
    cut.write_bytes(cut.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"a\.json: empty file"):
        list(read_records(whole.parent))
    with pytest.raises(ValueError, match=r"b\.jsonl\.gz: damaged after"):
        list(read_records([whole, cut]))
    report = ReadReport("skip")
    assert "7" in pmids(read_records(whole.parent, report))
    assert report.left_out == {"damaged file": 2}
    assert report.files == 3


def test_options_reach_the_reader_of_bioasq(write):
    path = write("a.json", raw(3, meshUI=None))
    path.write_bytes(path.read_bytes().replace(b"On mice", b"\xdcber"))
    (record,) = read_records(path, encoding="latin-1", ui_of={"Mice": "D1"})
    assert (record["title"], record["meshUI"]) == ("Über.", ["D1"])


def test_an_unknown_policy_is_refused(write):
    with pytest.raises(ValueError, match='on_error must be "raise" or "skip", got'):
        load_records(write("a.json", raw(3)), on_error="ignore")


def test_loaded_records_equal_read_records(write, load):
    paths = [write("a.json", raw(3), raw(5, year=None)), write("b.xml", raw(7))]
    dataset, report = load(paths)
    assert list(dataset) == list(read_records(paths))
    assert (report.files, report.records) == (2, 3)


def test_the_cache_gives_records_and_report_again(write, load, monkeypatch):
    path = write("a.jsonl", raw(3), raw(5, abstractText=""), {"pmid": "7"})
    first, report = load(path, on_error="skip")
    monkeypatch.setattr("hf_gile.data.records._read", None)
    again, report_again = load(path, on_error="skip")
    assert list(again) == list(first)
    assert again._fingerprint == first._fingerprint
    assert report_again == report
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


def test_other_files_and_arguments_are_read_again(write, load):
    path = write("a.json", raw(3, meshUI=None))
    assert load(path)[0][0]["meshUI"] == ["Mice"]
    assert load(path, ui_of={"Mice": "D1"})[0][0]["meshUI"] == ["D1"]
    assert load(path, ui_of={"Mice": "D2"})[0][0]["meshUI"] == ["D2"]
    write("b.json", raw(5))
    assert load(path.parent)[0]["pmid"] == ["3", "5"]


def test_an_error_while_loading_is_the_readers_own_and_leaves_no_cache(write, load):
    path = write("a.json", raw(3), {"pmid": "5"})
    for _ in range(2):
        with pytest.raises(ValueError, match=r"a\.json: record 2: a record needs title"):
            load(path)
    assert load(path, on_error="skip")[1].left_out == {"malformed record": 1}


def test_a_deleted_report_is_named(write, load, tmp_path):
    path = write("a.json", raw(3))
    load(path)
    (report,) = (tmp_path / "cache").rglob("report.json")
    report.unlink()
    with pytest.raises(FileNotFoundError, match=r"report\.json was deleted; delete .* too"):
        load(path)
    shutil.rmtree(report.parent)
    assert load(path)[1].records == 1


def test_a_missing_datasets_names_the_extra(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ImportError, match=r"pip install 'hf-gile\[train\]'"):
        load_records(write("a.json", raw(3)))


def test_the_abstracts_of_the_shared_data_are_read(shared_data):
    report = ReadReport()
    records = list(read_records(shared_data / "pubmed_mesh" / "*.jsonl.gz", report))
    assert len(records) == report.records == 23_260 + 2_866 + 2_977
    assert report.left_out == {}
