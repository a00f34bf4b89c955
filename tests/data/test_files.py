"""Files that unpack to gigabytes or take many times their size are refused."""

import bz2
import gzip
import lzma

import pyarrow as pa
import pytest
from papers.records import read_records
from pyarrow import parquet

from hf_gile.data import load_mesh, load_skos, load_table
from hf_gile.data.files import open_binary

HEAD = b'<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID Version="1">5</PMID>'


@pytest.fixture
def packed(write):
    return lambda name, data: write(name, gzip.compress(data, 6))


@pytest.mark.parametrize("held", [False, True])
def test_decompression_bombs_are_refused_with_instructions(packed, held):
    path = packed("a.txt.gz", bytes(20 << 20))
    with open_binary(path, in_memory=held) as stream, pytest.raises(ValueError, match=r"a\.txt\.gz: .* \(gunzip\)"):
        stream.read()


def test_highly_compressible_files_are_read(packed):
    text = b"".join(b"%d\tmice and rats and mice and rats and mice\n" % number for number in range(200_000))
    path = packed("a.txt.gz", text)
    assert len(text) > 15 * path.stat().st_size
    with open_binary(path) as stream:
        assert sum(map(len, iter(lambda: stream.readline(1 << 20), b""))) == len(text)


@pytest.mark.parametrize(
    ("name", "start", "row"),
    [
        ("a.json.gz", b'[{"text": "On mice.", "labels": ["mice"]},', b" " * 1_000_000),
        ("a.csv.gz", b"text,labels\n", b"m" * 1_000_000 + b",mice\n"),
    ],
    ids=["json", "csv"],
)
def test_compressed_tables_that_expand_too_much_are_refused(packed, name, start, row):
    path = packed(name, start + row * 20)
    with pytest.raises(ValueError, match=rf"{name}: damaged after \d+ records: .*expands to more than 200 times its"):
        rows(path)


@pytest.mark.parametrize(("module", "kind"), [(gzip, "changed"), (bz2, "cut"), (lzma, "changed")])
def test_a_damaged_compressed_table_is_named(write, module, kind):
    data = module.compress(b"text,labels\n" + b"".join(b"text %d,mice\n" % number for number in range(2_011)))
    half = len(data) // 2
    path = write("a.csv", data[:half] + (b"" if kind == "cut" else bytes(99) + data[half + 99 :]))
    with pytest.raises(ValueError, match=r"a\.csv: (damaged after [\d,]+ records|line [\d,]+): "):
        rows(path)


@pytest.fixture
def written(tmp_path):
    def write(text, labels, **options):
        path = tmp_path / "a.parquet"
        table = pa.table({"text": text, "labels": labels})
        parquet.write_table(table, path, compression="zstd", store_schema=False, **options)
        return path

    return write


def rows(path, **options):
    return list(load_table(path, streaming=True, **options)[0])


def read_citations(path):
    return list(read_records(path))


LONG = b"<i>" + b"x" * (9 << 20) + b"</i><i>" + b"x" * (8 << 20)
TAGS = b"<i/>" * ((1 << 20) + 1)
ATTRIBUTES = b'<i a="" b="" c="" d="" e="" f="" g="" h="" i=""/>' * (1 << 18)
MANY = "more than 1,048,576 tags and attributes"
LARGE = {
    "bytes": (read_citations, HEAD + LONG, "longer than 16,777,216 b"),
    "tags": (read_citations, HEAD + TAGS, MANY),
    "attributes": (read_citations, HEAD + ATTRIBUTES, MANY),
    "MeSH": (load_mesh, b"<DescriptorRecordSet><DescriptorRecord>" + TAGS, MANY),
}


@pytest.mark.parametrize(("read", "content", "problem"), LARGE.values(), ids=LARGE)
def test_a_large_xml_record_is_refused(write, read, content, problem):
    with pytest.raises(ValueError, match=rf"a\.xml: damaged after 0 records: .*{problem}"):
        read(write("a.xml", content))


def test_many_xml_records_are_larger_than_one_may_be(write, lenient):
    record = HEAD.removeprefix(b"<PubmedArticleSet>") + b"x" * (6 << 20) + b"</MedlineCitation></PubmedArticle>"
    path = write("a.xml", b"<PubmedArticleSet>" + record * 3 + b"</PubmedArticleSet>")
    with pytest.raises(ValueError, match=r"superseded \(2\), malformed record \(1\)"):
        list(read_records(path, lenient))


def test_a_parquet_text_of_thirty_megabytes_is_refused_before_it_is_unpacked(written):
    path = written(["a" * 30_000_000], ["x"], use_dictionary=False)
    assert path.stat().st_size < 10_000
    with pytest.raises(ValueError, match=r"expands to more than 200 times its size.* write it without compression"):
        rows(path)


@pytest.mark.parametrize("nested", [False, True])
def test_a_parquet_text_that_a_thousand_rows_share_is_unpacked_once(written, nested):
    shared = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), pa.array(["a" * 1_000_000]))
    text, labels = shared, ["x"] * 1000
    if nested:
        text, labels = ["a"], pa.ListArray.from_arrays(pa.array([0, 1000], pa.int32()), shared)
    path = written(text, labels, dictionary_pagesize_limit=1 << 30)
    with pytest.raises(ValueError, match="expands to more than 200 times its size"):
        rows(path)


def test_a_long_parquet_row_is_skipped_and_the_others_are_read(written, monkeypatch):
    monkeypatch.setattr("hf_gile.data.parquet_files.MAX_RECORD", 100)
    texts = ["a", "b" * 101, "c" * 70, *"defg" * 20]
    path = written(texts, ["x"] * len(texts))
    with pytest.raises(ValueError, match=r"a\.parquet: row 2: the row is longer than 100 bytes"):
        rows(path)
    assert [row["text"] for row in rows(path, on_error="skip")] == [texts[0], *texts[2:]]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_json_of_a_million_lists_is_refused(packed, name):
    row = b'{"text": "a", "labels": [' + b"[]," * (1 << 20) + b"[]]}"
    content = row if name == "a.jsonl" else b"[" + row + b"]"
    with pytest.raises(ValueError, match=r"a record has more than 1,048,576 lists and objects"):
        rows(packed(f"{name}.gz", content))


def test_statements_of_a_few_bytes_are_limited_by_the_size_of_the_file(packed, monkeypatch):
    monkeypatch.setattr("hf_gile.data.rdf._FEW_STATEMENTS", 100)
    with pytest.raises(ValueError, match=r"a\.ttl\.gz: .*more than \d+ statements.*decompress it first"):
        load_skos(packed("a.ttl.gz", b"[] a [].\n" * 10_000))
