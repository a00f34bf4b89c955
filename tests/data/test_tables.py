"""Tables of documents and labels: every format gives the same result, and errors name file and line."""

import gzip
import json
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from written_tables import content

from hf_gile.data import ReadReport, table_files
from hf_gile.data.loading import Piece
from hf_gile.data.sniffing import Format, sniff
from hf_gile.data.table_files import read_rows
from hf_gile.data.tables import load_table, table_of

DOCUMENTS = [
    {"id": "d3", "text": 'On mice.\nMice "were" seen,\nand rats.', "labels": ["mice", "rats"]},
    {"id": "d5", "text": "Über Mäuse.", "labels": ["mice"]},
    {"id": "d7", "text": "naïve β 😀", "labels": ["stars", "mice"]},
]


@pytest.fixture
def load(tmp_path):
    """Loads with a separate cache for each test; returns rows as a list, and the report."""

    def load_all(paths, text="text", **options):
        dataset, report = load_table(paths, text, cache_dir=tmp_path / "cache", **options)
        return list(dataset), report

    return load_all


@pytest.fixture
def stream(load):
    """Returns the rows of a file, without a cache."""

    def read(paths, text="text", **options):
        return load(paths, text, streaming=True, **options)

    return read


NAMES = ["a.csv", "a.tsv", "a.jsonl", "a.json", "a.parquet", "a.csv.gz", "a.Tsv.gz", "a.jsonl.gz", "a.json.gz"]


@pytest.mark.parametrize("name", NAMES)
def test_every_format_gives_the_same_documents(write, stream, name):
    documents, report = stream(write(name), ["title", "abstract"], id="id", separator=";")
    assert documents == DOCUMENTS
    assert (report.files, report.records, report.left_out) == (1, 3, {})


def test_datasets_streams_and_processes_give_the_same_documents(write, load, stream):
    paths = [write(name) for name in NAMES]
    options = {"text": ["title", "abstract"], "separator": ";"}
    documents, report = load(paths, **options, num_proc=2)
    assert (documents, report) == stream(paths, **options)
    assert (report.files, report.records) == (9, 27)


def test_default_ids_are_the_file_with_the_line_or_row_number(write, stream):
    rows = [{"text": "On\nmice.", "labels": "m"}, {"text": "", "labels": "m"}, {"text": "On rats.", "labels": "r"}]
    lines = {"csv": [2, 5], "tsv": [2, 5], "jsonl": [1, 3], "json": [1, 3], "parquet": [1, 3]}
    for suffix, expected in lines.items():
        documents, _ = stream(write(f"a.{suffix}", rows=rows))
        assert [row["id"] for row in documents] == [f"a.{suffix}:{line}" for line in expected]


def test_files_with_the_same_name_are_distinguished_by_folder(write, stream):
    rows = [{"text": "On mice.", "labels": "m"}]
    paths = [write("train/a.jsonl", rows=rows), write("test/a.jsonl", rows=rows)]
    assert [row["id"] for row in stream(paths)[0]] == ["train/a.jsonl:1", "test/a.jsonl:1"]


@pytest.mark.parametrize("labels", [None, [], ";; ", [None]])
def test_rows_without_labels_are_negatives_unless_they_are_to_be_dropped(write, stream, labels):
    rows = [{"text": "On mice.", "labels": ["m"]}, {"text": "x", "labels": labels}, {"text": " ", "labels": ["m"]}]
    path = write("a.jsonl", rows=rows)
    documents, report = stream(path, separator=";")
    assert [row["labels"] for row in documents] == [["m"], []]
    assert (report.records, report.without_labels, report.left_out) == (2, 1, {"without text": 1})
    documents, report = stream(path, separator=";", unlabelled="drop")
    assert [row["labels"] for row in documents] == [["m"]]
    assert report.left_out == {"without labels": 1, "without text": 1}
    assert report.examples["without labels"][0].endswith("a.jsonl: line 2")


def test_without_a_column_of_labels_the_column_label_is_read(write, stream):
    rows = [{"text": "On mice.", "label": "mice"}, {"text": "On rats.", "label": "rats"}]
    documents, report = stream(write("a.csv", rows=rows))
    assert [document["labels"] for document in documents] == [["mice"], ["rats"]]
    assert "'label'" in report.notes[0]


def test_a_column_without_any_label_is_refused(write, load):
    path = write("a.jsonl", '{"text": "x"}\n{"text": "y", "labels": ["m"]}\n')
    assert [row["labels"] for row in load(path)[0]] == [[], ["m"]]
    with pytest.raises(ValueError, match=r"a\.jsonl: no row has a label in 'labels': .* all 2 rows; name the col"):
        load(write("a.jsonl", '{"text": "x", "labels": null}\n{"text": "y"}\n'))


def test_a_run_stops_if_most_rows_have_no_text_unless_errors_are_skipped(write, load):
    rows = [{"text": "x" * (number % 6 == 0), "labels": "m"} for number in range(36)]
    path = write("a.jsonl", rows=rows)
    with pytest.raises(ValueError, match=r"30 of 36 rows would be left out: without text \(30\), first .*l: line 2"):
        load(path)
    assert load(path, on_error="skip")[1].left_out == {"without text": 30}


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json", "a.parquet"])
def test_a_missing_column_is_named_with_the_existing_columns(write, stream, name):
    path = write(name)
    with pytest.raises(ValueError, match=r"no column 'TEXTS', only texts, labels; did you mean 'texts'\?"):
        stream(write("b.csv", "texts,labels\nx,m\n"), "TEXTS")
    with pytest.raises(ValueError, match=r"a\.\w+: no column 'abstrakt', only id, title, abstract, labels; did you"):
        stream(path, ["title", "abstrakt"], on_error="skip")
    with pytest.raises(ValueError, match=r"a\.\w+: .*no (column )?'uid', only id, title, abstract, labels"):
        stream(path, "title", id="uid")


def test_numbers_are_texts_and_absent_columns_are_empty(write, stream):
    titles = ["Titanic", 1776, "", 9.5, float("nan"), None]
    rows = [{"title": title, "labels": "film"} for title in titles]
    rows.append({"title": "x", "abstract": "y", "labels": "film"})
    documents, _ = stream(write("a.json", rows=rows), ["title", "abstract"])
    assert [row["text"] for row in documents] == ["Titanic", "1776", "9.5", "x\ny"]


def test_a_column_within_an_object_is_pointed_out(write, stream):
    path = write("a.json", '[{"id": 1, "data": {"text": "x"}, "labels": "m"}]')
    with pytest.raises(ValueError, match=r"no column 'text', only id, data, labels; .*'data' has it: flatten objects"):
        stream(path)


@pytest.fixture
def refuse(stream):
    """Checks that a file is refused, or read but for a single record on request; returns the documents."""

    def check(path, message, reason="malformed row", **options):
        with pytest.raises(ValueError, match=message):
            stream(path, **options)
        documents, report = stream(path, on_error="skip", **options)
        assert report.left_out == {reason: 1}
        return documents

    return check


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": 5, "text": [7], "labels": "m"}', r"text must be text, got \[7\]"),
        ('{"id": 5, "text": "a\\u0000b", "labels": "m"}', "text contains a NUL character"),
        ('{"id": 5, "text": "y", "labels": 7.5}', "a label in labels must be a text or a whole number, got 7.5"),
        ('{"id": 5, "text": "y", "labels": [["m"], ["r"]]}', r"a label in labels must be text, got \['m'\]"),
        ('{"id": null, "text": "y", "labels": "m"}', "id must not be empty, got None"),
        ("[1, 2]", r"expected an object, got \[1, 2\]"),
        ('{"text": "x", ', "not JSON: "),
        ("[" * 100_000, "nested too deeply|not JSON"),
        ('{"text": "Stra\udcdfe"}', "byte 15 of the line is not utf-8; if the file is in windows-1252, pass enc"),
    ],
)
def test_malformed_json_lines_are_named_or_skipped(write, refuse, line, message):
    good = '{{"id": {}, "text": "x", "labels": "m"}}'.format
    path = write("a.jsonl", f"{good(3)}\n\n{line}\r\n{good(7)}".encode(errors="surrogateescape"))
    documents = refuse(path, rf"a\.jsonl: line 3: ({message})", id="id")
    assert [row["id"] for row in documents] == ["3", "7"]


def test_the_only_list_of_objects_in_a_json_object_is_a_table(write, stream):
    rows = '[{"text": "x", "labels": ["m"]}, {"text": "y", "labels": []}]'
    path = write("a.json", f'{{"version": 1.5, "tags": ["a", [1]], "data": {rows}, "empty": [], "by": {{"a": []}}}}')
    assert [row["id"] for row in stream(path)[0]] == ["a.json:1", "a.json:2"]
    path = write("b.json", f'{{"train": {rows}, "test": {rows}}}')
    with pytest.raises(ValueError, match=r"a single list of objects, got the lists \['train', 'test'\]"):
        stream(path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('{"text": "x"}', r"expected a list of objects, .*, got an object with the keys \['text'\]"),
        ('[{"text": "x", "labels": "m"}', "expected ',', got 'the end of the file'"),
        ('[{"text": "x", "labels": "m"}] {', "expected the end of the file after the last bracket, got '{'"),
        ('{\n"text": "x",\n"labels": ["m"]\n}\n{\n"text": "y"\n}', "write objects one after another as .*`jq -c .`"),
    ],
)
def test_a_json_file_must_contain_a_list(write, refuse, data, message):
    refuse(write("a.json", data), rf"a\.json: .*{message}", "damaged file")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "windows-1252", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl", "a.json"])
def test_encodings_byte_order_marks_and_line_ends_are_handled(write, stream, encoding, name):
    row = '{"text": "Über Mäuse", "labels": "mäuse"}\r\n'
    text = {"csv": 'text,labels\r\n"Über\r\nMäuse",mäuse\r\n', "jsonl": row, "json": f"[{row}]"}
    data = text[name.split(".")[1]].encode(encoding)
    (row,), _ = stream(write(name, gzip.compress(data) if name.endswith("gz") else data), encoding=encoding)
    assert row["labels"] == ["mäuse"]
    assert row["text"].split() == ["Über", "Mäuse"]


def test_an_encoding_error_names_the_line_and_a_likely_encoding(write, refuse):
    path = write("a.csv", "text,labels\nx,mäuse\n".encode() + "Über,m\ny,m\n".encode("latin-1"))
    documents = refuse(path, r"a\.csv: line 3: byte 1 .* not utf-8; if .*, pass encoding=.windows-1252.$")
    assert [row["text"] for row in documents] == ["x", "y"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("y", "1 cells, but the first line has 2"),
        ("y,m,z", "3 cells, but the first line has 2; quote cells that contain ',' or a line break"),
        ("\u2018y, z\u2019,m", "replace \u2018 by \", or pass --quote '\u2018' if this also ends cells"),
        ('"y "said", z",m', "quote not closed, or not doubled in a cell"),
        ('"y,m', "quote not closed"),
    ],
)
def test_malformed_csv_lines_are_named_or_skipped(write, refuse, line, message):
    path = write("a.csv", f'text,labels\n"x\n\nx",m\n{line}\n\nz,m\n"z\nz",m\n')
    documents = refuse(path, rf"a\.csv: line 5: .*({message})")
    assert [row["id"] for row in documents] == ["a.csv:2", "a.csv:7", "a.csv:8"]
    assert [row["text"] for row in documents] == ["x\n\nx", "z", "z\nz"]


def test_an_unclosed_quote_loses_a_single_row_of_a_large_file(write, refuse, monkeypatch):
    monkeypatch.setattr(table_files, "MAX_RECORD", 1000)
    rows = [f"row {number},m" for number in range(500)]
    rows[100] = '"row 100,m'
    path = write("a.csv", "text,labels\n" + "\n".join(rows))
    documents = refuse(path, r"a\.csv: line 102: a row is longer than 1,000 .*quote not closed")
    assert [row["text"] for row in documents] == [f"row {number}" for number in range(500) if number != 100]


def test_cells_that_programs_write_without_a_text_or_label_are_empty(write, stream):
    table = [{"title": "NA", "note": "nan", "labels": "m"}, {"title": "None", "note": "\\N", "labels": "r"}]
    for name in ("a.csv", "a.jsonl"):
        rows, report = stream(write(name, rows=table), text=["title", "note"])
        assert [row["text"] for row in rows] == ["None"]
        assert report.left_out == {"without text": 1}


def test_invalid_arguments_are_refused(write, stream):
    path = write("a.csv")
    with pytest.raises(ValueError, match="separator must not be empty"):
        stream(path, separator="")
    with pytest.raises(ValueError, match="expected a name, or several distinct names, got"):
        stream(path, ["title", "title"])
    with pytest.raises(ValueError, match='on_error must be "raise" or "skip"'):
        stream(path, on_error="ignore")
    with pytest.raises(ValueError, match=r"nothing to read at .*expected \.csv, \.tsv, \.tab, \.jsonl"):
        stream(write("b/a.pdf", "x").parent)
    with pytest.raises(FileNotFoundError, match=r"absent\.csv"):
        stream(path.with_name("absent.csv"))


@pytest.mark.parametrize("name", ["a.csv.gz", "a.jsonl.gz", "a.json.gz"])
def test_skip_mode_keeps_rows_before_damage_in_a_compressed_file(write, refuse, name):
    data = content(name, [{"text": f"row {number}", "labels": "m"} for number in range(1000)])
    assert len(refuse(write(name, data[:-9]), rf"{name}: damaged after [0-9,]+ records: ", "damaged file")) > 500


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json", "a.parquet"])
def test_empty_files_are_refused(write, stream, name):
    path = write(name, b"")
    with pytest.raises(ValueError, match=rf"{name} is empty$"):
        stream(path)
    with pytest.raises(ValueError, match=rf"{name}: empty file; fix it"):
        stream([path, write("b.csv", "text,labels\nx,m\n")])


def test_tables_without_rows_are_refused(write, load):
    for name, data in (("a.csv", "text,labels\n"), ("a.json", "[]")):
        with pytest.raises(ValueError, match=rf"{name} has no rows, or only a header$"):
            load(write(name, data))
    with pytest.raises(ValueError, match="no record can be used: 0 records from 1 file; left out: without text"):
        load(write("a.parquet", rows=[{"text": "", "labels": ""}]))


def test_damaged_parquet_is_named_or_skipped(write, refuse, stream):
    data = content("a.parquet", [{"text": f"row {number}", "labels": "m"} for number in range(5000)])
    for damaged in (b"PAR1", data[:-100], b"text,labels", data[:2000] + bytes(500) + data[2500:]):
        refuse(write("a.parquet", damaged), r"a\.parquet: damaged after 0 records: ", "damaged file")
    with pytest.raises(ValueError, match=r"a\.parquet\.gz is a compressed Parquet file: decompress it first"):
        stream(write("a.parquet.gz", gzip.compress(data)))


def test_row_groups_of_a_parquet_file_are_split_among_processes(write, load, stream, monkeypatch):
    rows = [{"text": f"row {number}", "labels": "m"} for number in range(50)]
    path = write("a.parquet", rows=rows, row_group_size=7)
    monkeypatch.setattr(table_files, "_PIECE", 400)
    assert 2 < len(table_files.file_pieces(path, Format("parquet"))) < 8
    documents, report = load(path, num_proc=3)
    assert [row["text"] for row in documents] == [row["text"] for row in rows]
    assert [row["id"] for row in documents] == [f"a.parquet:{number}" for number in range(1, 51)]
    assert documents == stream(path)[0]
    assert (report.files, report.records) == (1, 50)


@pytest.mark.parametrize(("size", "end"), [(1, "\n"), (17, "\r\n"), (53, "\n\n"), (1000, "\n")])
def test_parts_of_json_lines_give_each_line_once_at_any_size(write, stream, monkeypatch, size, end):
    rows = [{"text": "x" * (number % 31) + "ß", "labels": number} for number in range(40)]
    path = write("a.jsonl", "\ufeff" + end.join(json.dumps(row, ensure_ascii=False) for row in rows))
    monkeypatch.setattr(table_files, "_PIECE", size)
    documents, report = stream(path)
    assert [row["labels"] for row in documents] == [[str(number)] for number in range(40)]
    assert (report.files, report.records) == (1, 40)
    if size == 17:
        start = int(documents[-1]["id"].removeprefix("a.jsonl:byte "))
        assert json.loads(path.read_bytes()[start:])["labels"] == 39


def test_errors_in_a_part_of_a_file_name_the_byte(write, load, monkeypatch):
    monkeypatch.setattr(table_files, "_PIECE", 40)
    good = '{"text": "x", "labels": "m"}\n'
    path = write("a.jsonl", good * 9 + "{\n" + good)
    with pytest.raises(ValueError, match=rf"a\.jsonl: line at byte {9 * len(good)}: not JSON"):
        load(path, num_proc=2)
    assert len(load(path, num_proc=2, on_error="skip")[0]) == 10


def test_compressed_and_utf_16_files_are_not_split(write, stream, monkeypatch):
    monkeypatch.setattr(table_files, "_PIECE", 40)
    rows = [{"text": f"row {number}", "labels": "m"} for number in range(50)]
    assert len(stream(write("a.jsonl", content("a.jsonl.gz", rows)))[0]) == 50
    wide = content("a.jsonl", rows).decode().encode("utf-16")
    assert len(stream(write("a.jsonl", wide), encoding="utf-16")[0]) == 50


def test_repeated_ids_are_refused_or_skipped_after_the_first_document(write, load):
    rows = [{"id": name, "text": f"row {number}", "labels": "m"} for number, name in enumerate("abca")]
    paths = [write("a.csv", rows=rows), write("b.csv", rows=[{"id": "b", "text": "row 4", "labels": "m"}])]
    with pytest.raises(ValueError, match=r"2 documents have the id '[ab]'; if each has a label of a document, join"):
        load(paths, id="id")
    documents, report = load(paths, id="id", on_error="skip")
    assert [row["text"] for row in documents] == ["row 0", "row 1", "row 2"]
    assert (report.records, report.left_out) == (3, {"repeated id": 2})


def test_all_reading_options_are_part_of_the_cache_key(write, load):
    path = write("a.csv", "text,more,labels\nx,y,a;b\n")
    assert load(path)[0][0]["labels"] == ["a;b"]
    assert load(path, separator=";")[0][0]["labels"] == ["a", "b"]
    assert load(path, ["text", "more"])[0][0]["text"] == "x\ny"
    assert load(path, labels=None)[0][0]["labels"] == []
    assert load(path, id="more")[0][0]["id"] == "y"
    assert load(path.rename(path.with_name("b.csv")))[0][0]["id"] == "b.csv:2"


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json", "a.csv.gz"])
def test_memory_does_not_grow_with_the_file(write, name):
    piece = Piece(str(write(name, rows=[{"text": "mice and rats " * 3000, "labels": "m"}] * 180)))
    tracemalloc.start()
    assert sum(1 for _ in read_rows(piece, ReadReport(), sniff(piece.path), {"text": "text"})) == 180
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6


# table_of


@pytest.fixture
def dataset_of():
    import datasets

    def make(values, feature=None, text=None, **columns):
        columns = {"text": text or [f"text {number}" for number in range(len(values))], "labels": values} | columns
        rows = datasets.Dataset.from_dict(columns)
        return rows if feature is None else rows.cast(datasets.Features({**rows.features, "labels": feature}))

    return make


def features_of_labels():
    from datasets import ClassLabel, List, Sequence, Value

    names = ClassLabel(names=["mice", "rats", "stars"])
    return {
        "a class": ([1, -1, 0, None], names, [["rats"], [], ["mice"], []]),
        "classes": ([[1, 0], [], [0, 0], None], List(names), [["rats", "mice"], [], ["mice"], []]),
        "a sequence of classes": ([[1, 0], [-1]], Sequence(names), [["rats", "mice"], []]),
        "texts": ([["b", "a"], []], List(Value("string")), [["b", "a"], []]),
        "a text": (["b; a", "", "c"], Value("string"), [["b", "a"], [], ["c"]]),
        "a number": ([7, 0], Value("int64"), [["7"], ["0"]]),
    }


@pytest.mark.parametrize("kind", features_of_labels())
def test_dataset_labels_become_label_ids(dataset_of, kind):
    values, feature, expected = features_of_labels()[kind]
    rows = dataset_of(values, feature)
    for source in (rows, rows.to_iterable_dataset()):
        documents, label_set = table_of(source, separator=";")
        assert [row["labels"] for row in documents] == expected
        assert list(documents.features) == ["id", "text", "labels"]
        assert (label_set and label_set.ids) == (["mice", "rats", "stars"] if "class" in kind else None)


def test_dataset_rows_become_documents_or_are_skipped_and_counted(dataset_of, lenient):
    columns = {"text": ["x", "", "y", "a\0b"], "title": [None, None, "b", "c"], "key": [3, 5, 7, 11]}
    rows = dataset_of([["m"], ["m"], [], ["r"]], **columns)
    with pytest.raises(ValueError, match="row 3 of the dataset: text contains a NUL"):
        table_of(rows)
    documents, _ = table_of(rows, ["title", "text"], id="key", report=lenient)
    assert documents["id"] == ["3", "7"]
    assert documents["text"] == ["x", "b\ny"]
    assert (lenient.records, lenient.without_labels) == (2, 1)
    assert lenient.left_out == {"without text, or malformed": 2}
    assert table_of(rows.select([0, 2]), "text", unlabelled="drop")[0]["id"] == ["0"]


def test_classes_of_a_parquet_file_of_the_hub_get_their_names(dataset_of, tmp_path, load):
    from datasets import ClassLabel, List

    rows = dataset_of([[0], [1]], List(ClassLabel(names=["mice", "rats"])))
    assert [row["labels"] for row in table_of(rows.with_format("numpy"))[0]] == [["mice"], ["rats"]]
    rows.to_parquet(tmp_path / "a.parquet")
    assert [row["labels"] for row in load(tmp_path / "a.parquet")[0]] == [["mice"], ["rats"]]


def test_maps_and_bytes_of_parquet_are_read(write, load):
    tags = pa.array([[("mice", 0.9), ("rats", 0.1)], []], pa.map_(pa.string(), pa.float64()))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": [b"On mice.", b"On \xc3\xbc."], "labels": tags}), sink)
    rows = load(write("a.parquet", sink.getvalue().to_pybytes()))[0]
    assert [(row["text"], row["labels"]) for row in rows] == [("On mice.", ["mice"]), ("On \xfc.", [])]


def test_datasets_without_the_columns_are_refused(dataset_of):
    rows = dataset_of([["m"]])
    for options in ({"text": "txt"}, {"labels": "lables"}, {"id": "ids"}):
        with pytest.raises(ValueError, match=r"the dataset: no column '.*', only text, labels"):
            table_of(rows, **options)
    with pytest.raises(ValueError, match=r"pass a split of the dataset, such as dataset\['train'\]"):
        table_of({"train": rows})
    stream = rows.to_iterable_dataset()
    stream.info.features = None
    with pytest.raises(ValueError, match="the columns of this stream are unknown: set its features"):
        table_of(stream)
