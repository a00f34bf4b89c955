"""What is seen in the first bytes of a file: format, compression, encoding, delimiter, quotes and header."""
# ruff: noqa: RUF001

import bz2
import csv
import gzip
import io
import lzma
import zipfile

import pytest
from written_tables import zipped

from hf_gile.data import load_table
from hf_gile.data.files import data_suffix, open_binary
from hf_gile.data.sniffing import Requested, sniff, sniff_bytes

ROWS = [["id", "text", "tags"], ["1", "Über Mäuse, und Ratten", "mice"], ["2", 'On "rats"; again', "rats"]]


def cells(rows, delimiter, quote='"'):
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter, quotechar=quote).writerows(rows)
    return written.getvalue()


@pytest.mark.parametrize(("suffix", "usual"), [(".csv", ","), (".tsv", "\t")])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_seen_whatever_the_name(suffix, usual, delimiter):
    form = sniff_bytes(cells(ROWS, delimiter).encode(), suffix)
    assert (form.kind, form.delimiter, form.quote, form.columns) == ("csv", delimiter, '"', ())
    assert form.note == ("" if delimiter == usual else f"delimiter {delimiter!r}")


JAPANESE = "text,tags\n" + "荷物はまだ届いていません。返金してください,返品\n退款退款上,退\n" * 20
SEEN = [
    (b"text;tags\nOne, two, three;a, b\nFour, five;c\n", {"delimiter": ";"}),
    (b'text,tags\n"One; two\nthree; four",a;b\nx,c;d\n', {"delimiter": ","}),
    (b"text\nOne, two\n", {"delimiter": ","}),
    (b'text,tags\n"a, b",x\nc,"y, z"\n', {"quote": '"'}),
    (b"text,tags\n'a, b',x\nc,'y, z'\n", {"quote": "'"}),
    (b"text,tags\nIt's, x\nthe dogs' food,y\n", {"quote": '"'}),
    (JAPANESE.encode("utf-16-le"), {"encoding": "utf-16-le"}),
    (JAPANESE.encode("utf-16-be"), {"encoding": "utf-16-be"}),
    ("《紅樓夢》\n《西遊記》\n".encode("utf-16-le"), {"encoding": "utf-16-le"}),
    (b"text,tags\nOn mi\0e.,x\nOn rats.,y\n", {"encoding": "utf-8"}),  # of a damaged sign
    (cells(ROWS, ";").encode("utf-8-sig"), {"encoding": "utf-8", "delimiter": ";"}),
    (cells(ROWS, ";").encode("utf-16"), {"encoding": "utf-16", "delimiter": ";"}),
    (cells(ROWS, ";").encode("utf-16-be"), {"encoding": "utf-16-be", "delimiter": ";"}),
]


@pytest.mark.parametrize(("content", "fields"), SEEN)
def test_delimiters_quotes_and_encodings_are_seen(content, fields):
    form = sniff_bytes(content, ".csv")._asdict()
    assert form | fields == form


@pytest.mark.parametrize(
    ("content", "suffix", "kind"),
    [
        ('{"text": "a"}\n{"text": "b"}\n', ".json", "jsonl"),
        ('{"text": "a"}', ".json", "json"),
        ('[{"text": "a"}]', ".jsonl", "json"),
        ("[a] note,x\nb,y\n", ".csv", "csv"),
        ("@prefix a: <http://a.org/> .\n", ".rdf", "turtle"),
        ("# by Skosify\n\nPREFIX a: <http://a.org/>\n", ".xml", "turtle"),
        ('<http://a.org/1> <http://a.org/2> "x" .\n', ".nt", "ntriples"),
        ('<?xml version="1.0"?>\n<rdf:RDF/>', ".ttl", "xml"),
        ('<?xml version="1.0"?><!DOCTYPE html><html xmlns="x">', ".csv", "html"),
        ("- a\n", ".yaml", "yaml"),
        ("", ".csv", "empty"),
    ],
)
def test_the_kind_follows_from_the_content(content, suffix, kind):
    assert sniff_bytes(content.encode(), suffix).kind == kind


def test_requests_are_checked():
    assert Requested("tab", "none", "windows-1252", ("a,b", "c")).check() == ("\t", "none", "cp1252", ("a", "b", "c"))
    for request, message in {
        Requested(delimiter=";;"): "delimiter must be a single character other than a quote or line break",
        Requested(quote="ab"): "quote must be a single character",
        Requested(encoding="klingon"): "encoding must be known to Python",
        Requested(columns=("a", "a")): "columns must be distinct names",
    }.items():
        with pytest.raises(ValueError, match=message):
            request.check()


def zip_files(data):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.csv", data)
        archive.writestr("__MACOSX/._a.csv", b"x")
        archive.writestr("README.txt", "about the file")
    return packed.getvalue()


PACKERS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zip": zip_files}


@pytest.mark.parametrize("suffix", PACKERS)
def test_compressed_files_are_seen_by_content(write, suffix):
    data = cells(ROWS, ";").encode()
    path = write(f"a.csv.{suffix}", PACKERS[suffix](data))
    assert sniff(path).delimiter == ";"
    assert data_suffix(path) == ".csv"
    with open_binary(path) as stream:
        assert stream.readline() + stream.read() == data


def test_archives_of_several_files_are_refused(tmp_path):
    path = tmp_path / "a.csv"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.csv", "x")
        archive.writestr("b.csv", "x")
    with pytest.raises(ValueError, match=r"a\.csv is an archive of 2 files \(a\.csv, b\.csv\): unpack it"):
        sniff(path)


def test_vocabularies_are_no_tables(write):
    with pytest.raises(ValueError, match=r"a\.csv: expected a table, got xml"):
        load_table(write("a.csv", "<?xml version='1.0'?><a/>"), text="text", labels="labels")


SENTENCES = {
    "cp1252": "Où est l’œuvre déjà reçue ?",
    "cp1254": "Kargo geç geldi, müşteri ağladı",
    "cp1250": "Příliš žluťoučký kůň úpěl ďábelské ódy",
    "iso8859_2": "Proszę o zwrot pieniędzy za książkę",
    "cp852": "Zażółć gęślą jaźń",
    "cp850": "Größe und Müller, déjà vu",
    "mac_roman": "Größe und Müller, “déjà vu”",
    "cp1257": "Ačiū už greitą atsakymą",
    "cp1251": "Где мой заказ, спасибо",
    "koi8_u": "Где мой заказ, спасибо",
    "cp866": "Где мой заказ, спасибо",
    "cp1253": "Πού είναι το δέμα μου",
    "cp1255": "איפה החבילה שלי",
    "cp1256": "شكرا جزيلا لكم",
    "iso2022_jp_ext": "荷物はどこですか",
    "cp932": "荷物はどこですか",
    "euc_jp": "荷物はどこですか",
    "gb18030": "我的包裹在哪里",
    "big5": "我的包裹在哪裡",
    "cp949": "내 소포는 어디에 있나요",
    "johab": "내 소포는 어디에 있나요",
    "iso2022_kr": "내 소포는 어디에 있나요",
    "hz": "我的包裹在哪里",
    "cp874": "พัสดุของฉันอยู่ที่ไหน",
}


@pytest.mark.parametrize("encoding", SENTENCES)
def test_encodings_of_old_programs_are_seen_by_the_letters_of_languages(encoding):
    form = sniff_bytes(f"text,tags\n{SENTENCES[encoding]},x\n".encode(encoding), ".csv")
    assert form.encoding == encoding
    if encoding in ("iso2022_jp_ext", "iso2022_kr", "hz"):  # which are certain
        return
    example = form.note.removeprefix(f"encoding {encoding}, as in ").strip("'")
    assert example
    assert example in SENTENCES[encoding]


@pytest.mark.parametrize("word", ["12 €", "Café", "it’s “fine” – ok", "§ 5"])
def test_few_characters_beyond_ascii_are_those_of_western_europe(word):
    assert sniff_bytes(f"text,tags\n{word},x\n".encode("cp1252"), ".csv").encoding == "cp1252"


LIBRE_OFFICE = zipped("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
BINARY = {  # and what is seen in spite of a suffix of CSV
    zipped("xl/workbook.xml", "<workbook/>"): r'is an Excel workbook: .*save it as "CSV UTF-8"',
    LIBRE_OFFICE: "is a spreadsheet of LibreOffice: save it as CSV, .*--convert-to csv",
    b"ARROW1\0\0": "is a Feather or Arrow file: convert it, as in pandas.read_feather",
    b"\x80\x04\x95": "is a pickle, which runs code when it is read",
    b"SQLite format 3\0": "is a database of SQLite: export a table",
    b"<stata_dta><header>": "is a file of Stata, SPSS, SAS or R",
    b"a.csv".ljust(257, b"\0") + b"ustar": "is an archive of an unknown kind: unpack it first",
    b"\x89HDF\r\n": "is a binary file: write it as CSV, JSON lines or Parquet",
    b"%PDF-1.4\n%\xe2\xe3": "is a binary file: write it as CSV",
    b"00714cz  a2200205n\x1e\x1fafoo\x1d": "is a MARC file: convert it",
    b"<table border='1'>": "is a web page",
    b"<!DOCTYPE html><html></html>": 'is a web page .* opens as a table in Excel, save it as "CSV UTF-8"',
    b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n": "is a pointer of Git LFS",
    b"\nPMID- 1\nTI  - On mice.\nMH  - Mice\n": "has references, or records of a catalogue or thesaurus, as text",
    b"TY  - JOUR\nTI  - On mice.\n": "has references, .* export them as CSV",
    b"% Encoding: UTF-8\n\n@article{a1,\n  title={On mice}\n}\n": "has references",
    b"=LDR  00714cam a2200205\n=245  10$aOn mice\n": "has references",
    b"003@ $0123\n021A $aOn mice\n": "has references",
    b"Cats\nMice\n  UF Mouse\n  BT Rodents\n": "has references",
    b"Mice\nUF: Mouse\nBT: Rodents\n": "has references",
    b"Mice\n  RT Rats\nMouse\n  USE Mice\n": "has references",
    b"<?xml version='1.0'?>\n<record\n xmlns='http://www.loc.gov/MARC21/slim'>": "is a MARC file: convert it",
    b"<m:collection xmlns:m='http://www.loc.gov/MARC21/slim'>": "is a MARC file: convert it",
    b"% 1. Title\n%\n\n@RELATION iris\n": "is a table as ARFF.* export it as CSV",
    b"-[ RECORD 1 ]--\nid | 1\nname | mice\n": "is a table as ARFF, or as psql and MySQL draw it",
    b"********** 1. row **********\nid: 1\nname: mice\n": "is a table as ARFF, or as psql and MySQL draw it",
    b"60 100 5\n3,17 4:0.5 7:1 12:.25\n": r"has features by number \(LIBSVM\), and no text: write a table",
    b" 4:0.5 7:1 12:.25\n": "has features by number",
    b'?c\t?label\n<http://a.org/1>\t"mice"@en\n': "has results of SPARQL as TSV, .*: ask the endpoint for CSV",
}
TEXTS = {
    "-- a dump\n/*!40101 SET NAMES utf8 */;\nDROP TABLE IF EXISTS `a`;\n": "is a dump of a database",
    "INSERT INTO a (text, labels) VALUES ('x', 'y');\n": "is a dump of a database .* export a table as CSV",
    "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n": "is a dump of a database .* export a table as CSV",
    "COPY public.a (text, labels) FROM stdin;\nx\ty\n": "is a dump of a database",
    "\u250c\u2500\u2500\u2510\n\u2502 text \u2502\n": "is a table as ARFF",
    "format-version: 1.2\n\n[Term]\nid: GO:1\n": "is an ontology in OBO, .* convert it to RDF",
    "! of today\nformat-version: 1.2\n\n[Term]\nid: GO:1\n": "is an ontology in OBO, .* convert it to RDF",
    "Prefix: : <http://a.org/>\nClass: :Iron\n": "is an ontology in OBO, Manchester",
}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        *((name, content, message) for content, message in BINARY.items() for name in ("a.csv", "a.ttl")),
        *((name, content.encode(), message) for content, message in TEXTS.items() for name in ("a.txt", "a.ttl")),
    ],
)
def test_what_no_reader_accepts_is_refused_with_what_to_do(write, name, content, message):
    with pytest.raises(ValueError, match=f"{name} {message}"):
        sniff(write(name, content))


@pytest.mark.parametrize("line", [b"iron ", b"a|", b"a|b\n" + b"-" * 9, b"\xc0\x7f\x81\x7fz", b"-| "])
def test_long_lines_are_seen_at_once(line):
    # With a pattern that backtracks, this takes minutes.
    assert sniff_bytes(line * (60_000 // len(line)), ".jsonld").kind in ("json", "jsonl", "csv", "text")
