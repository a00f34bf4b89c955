"""Texts from files and streams; tests/hf_gile_cli/test_score.py also covers all formats."""

import gzip
import json
from io import BytesIO

import pytest

from hf_gile.data import Document, document_pieces, read_documents
from hf_gile.data.sniffing import Requested


def texts(source, *columns, **options):
    stream = BytesIO(source if isinstance(source, bytes) else source.encode())
    return [document.text for document in read_documents(stream, columns or ("text",), **options)]


def test_a_stream_is_json_lines_if_its_first_line_is_an_object():
    assert texts('{"text": "one"}\n{"text": "two"}\n') == ["one", "two"]
    assert texts('["one"]\n{"text": "two"}\n') == ['["one"]', '{"text": "two"}']
    assert texts("{one}\n") == ["{one}"]
    assert texts('{"text": "one"}\n', format="text") == ['{"text": "one"}']
    assert texts("") == []


def test_documents_are_yielded_before_the_next_line_is_available():
    class Slow(BytesIO):
        def readline(self, size=-1):
            line = super().readline(size)
            if not line:
                raise AssertionError("the reader waits for a line that is not needed yet")
            return line

    documents = read_documents(Slow(b"one\ntwo\n"))
    assert next(documents).text == "one"
    assert next(documents).text == "two"


def test_several_columns_are_joined_and_missing_values_are_empty():
    rows = [{"title": "One.", "body": None, "key": 7}, {"title": "", "body": "Two.", "key": "b"}]
    source = BytesIO("".join(json.dumps(row) + "\n" for row in rows).encode())
    assert list(read_documents(source, ["title", "body"], id="key")) == [Document("7", "One."), Document("b", "Two.")]


def test_compressed_files_and_other_encodings_are_read(write):
    path = write("table.csv.gz", gzip.compress("id,text\n1,Käse\n".encode("windows-1252")))
    for requested in (Requested(encoding="windows-1252"), Requested()):
        assert list(read_documents(path, requested=requested)) == [Document("1", "Käse")]
    wide = BytesIO("Käse\nMäuse\n".encode("utf-16"))
    assert [document.text for document in read_documents(wide)] == ["Käse", "Mäuse"]


def test_excel_tables_are_read_from_streams():
    data = "\ufefftext;tags\r\nÜber den Zug, heute;a\r\n".encode()
    assert list(read_documents(BytesIO(data), format="csv")) == [Document(None, "Über den Zug, heute")]
    with pytest.raises(ValueError, match=r"no column 'title', only text;tags; .* pass --delimiter"):
        list(read_documents(BytesIO(b"text;tags\na;b\n"), ["title"], format="csv", requested=Requested(delimiter=",")))


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ('{"text": [5]}', {}, r"standard input: line 1: text must be text, got \[5\]"),
        ('{"text": "a"}\n{"tex": "b"}', {}, "line 2: no column 'text', only tex; did you mean 'tex'"),
        ('{"text": "a"}\n{', {}, "line 2: not JSON"),
        ('{"text": "a"}\n[]', {}, r"line 2: expected an object, got \[\]"),
        ('{"text": "a", "key": null}', {"id": "key"}, "line 1: key must not be empty"),
        ("id,text\n1\n", {"format": "csv"}, "line 2: 1 cells, but the first line has 2"),
        ("text\ttext\na\tb\n", {"format": "csv"}, "line 2: no column .text., only text.1, text.2; did you mean"),
    ],
)
def test_a_malformed_line_is_reported_or_skipped(source, options, message, lenient):
    with pytest.raises(ValueError, match=message):
        texts(source, **options)
    readable = texts(source, **options, report=lenient)
    assert (len(readable), sum(lenient.left_out.values())) == (lenient.records, 1)


def test_missing_files_and_unknown_formats_are_refused_at_once(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file at .*absent.txt"):
        read_documents(tmp_path / "absent.txt")
    with pytest.raises(ValueError, match="format must be one of text, jsonl, csv, got 'xml'"):
        read_documents(BytesIO(), format="xml")
    with pytest.raises(ValueError, match="encoding must be known to Python"):
        read_documents(BytesIO(), requested=Requested(encoding="utf-7000"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"On mice.\n"), "standard input is compressed: decompress it, as in zcat FILE"),
        (b'[{"text": "On mice."}]', "standard input is a list in JSON: pass the file, .*--format text"),
        (b"%PDF-1.7\n", "standard input is a binary file"),
    ],
)
def test_streams_that_are_no_lines_are_refused(content, message):
    with pytest.raises(ValueError, match=message):
        texts(content)
    assert texts(b"[1] On mice.") == ["[1] On mice."]


def test_the_header_of_a_piped_table_is_noted(report):
    texts(b"text of mice; rats\n", report=report)
    assert not report.notes
    assert texts(b"label;text\n3;On mice.\n", report=report) == ["label;text", "3;On mice."]
    note = "the first line, 'label;text', was scored as a text: if it names columns, pass --format csv"
    assert report.notes == [note]


def test_lines_of_old_macs_are_read_and_folders_are_refused(write):
    path = write("a.txt", b"On mice.\rOn rats.\r")
    assert [document.text for document in read_documents(path)] == ["On mice.", "On rats."]
    assert texts(path.read_bytes()) == ["On mice.", "On rats."]
    with pytest.raises(ValueError, match="is a folder: pass its files, as in "):
        read_documents(path.parent)


@pytest.mark.parametrize("content", ["| text | n |\n|---|---|\n| On mice. | 3 |\n", '{"text": "On mice."}\n'])
def test_tables_of_markdown_and_json_lines_are_no_lines_of_text(write, content):
    path = write("a.md", content)
    assert [document.text for document in read_documents(path)] == ["On mice."]
    assert len(list(read_documents(path, format="text"))) == content.count("\n")


def test_a_text_whose_first_line_names_the_columns_is_a_table(write):
    path = write("notes.txt", "tag\ttext\na\tOn mice.\n")
    assert list(read_documents(path)) == [Document(None, "On mice.")]
    assert [piece.stop for piece in document_pieces(str(path), 4)] == [None]
    assert [document.text for document in read_documents(path, format="text")] == ["tag\ttext", "a\tOn mice."]
    path.write_text("ham\tOn, mice.\nspam\tOn, rats.\n")
    requested = Requested(columns=("tag,text",))
    assert [document.text for document in read_documents(path, requested=requested)] == ["On, mice.", "On, rats."]


def test_what_is_no_text_is_not_read_by_line(write):
    with pytest.raises(ValueError, match=r"a\.yaml is YAML"):
        list(read_documents(write("a.yaml", "- On mice.")))
    with pytest.raises(ValueError, match="a is a pointer of Git LFS"):
        list(read_documents(write("a", "version https://git-lfs.github.com/spec/")))
