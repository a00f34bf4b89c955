import gzip
import json
import tracemalloc

import pytest

from hf_gile.data import ReadReport, bioasq, json_text, read_bioasq
from hf_gile.data.bioasq import cut, read_piece

RECORD = {
    "journal": "Journal of mice",
    "year": "1976",
    "pmid": "5",
    "title": "Über Mäuse.",
    "abstractText": 'Mice "were" [seen]: {β, 😀}\\ \n',
    "meshMajor": ["Animals", "Mice"],
}
ARTICLES = [RECORD | {"pmid": str(pmid)} for pmid in (3, 5, 7, 11, 13)]


def document(records=ARTICLES, **options):
    return json.dumps({"articles": records}, **options)


@pytest.fixture
def records_of(tmp_path):
    """Reads the records of a file with this content."""

    def read(content, report=None, name="a.json", **options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return list(read_bioasq(path, report, **options))

    return read


def test_a_record_without_ids_uses_heading_names_as_ids(records_of):
    assert records_of(document([RECORD])) == [
        {
            "pmid": "5",
            "title": RECORD["title"],
            "abstractText": RECORD["abstractText"],
            "year": 1976,
            "meshUI": ["Animals", "Mice"],
            "meshMajor": ["Animals", "Mice"],
        }
    ]


def test_ids_come_from_the_record_then_the_mapping_then_the_name(records_of):
    records = [RECORD, RECORD | {"meshUI": ["D3", "D5"]}]
    first, second = records_of(document(records), ui_of={"Mice": "D051379"})
    assert first["meshUI"] == ["Animals", "D051379"]
    assert second["meshUI"] == ["D3", "D5"]


@pytest.mark.parametrize("options", [{}, {"indent": 2}, {"separators": (",", ":")}, {"ensure_ascii": False}])
@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 7, 11, 13, 101, 1 << 20])
def test_any_json_layout_gives_the_same_records_at_any_buffer_size(records_of, monkeypatch, options, chunk):
    monkeypatch.setattr(json_text, "_CHUNK", chunk)
    content = json.dumps({"version": 12, "articles": ARTICLES, "notes": {"a": [None]}}, **options)
    assert [record["pmid"] for record in records_of(content)] == ["3", "5", "7", "11", "13"]
    assert records_of(content)[-1]["abstractText"] == RECORD["abstractText"]


def test_the_bioasq_layout_with_a_record_per_line_is_read(records_of):
    lines = ",\n".join(json.dumps(record) for record in ARTICLES)
    assert len(records_of(f'{{"articles":[\n{lines}\n]}}\n')) == 5


def test_json_lines_give_the_same_records_as_json(records_of):
    lines = "\n".join(json.dumps(record) for record in ARTICLES)
    expected = records_of(document())
    assert records_of(lines, name="a.jsonl") == expected
    assert records_of(lines.replace("\n", "\r\n\r\n") + "\n", name="a.jsonl") == expected
    assert records_of(gzip.compress(lines.encode()), name="a.jsonl.gz") == expected
    assert records_of(gzip.compress(document().encode()), name="a.json.gz") == expected


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
@pytest.mark.parametrize(
    ("encoding", "requested"),
    [
        ("utf-8", "utf-8"),
        ("utf-8-sig", "utf-8"),
        ("utf-8-sig", "utf-8-sig"),
        ("utf-8", "UTF8"),
        ("cp1252", "windows-1252"),
        ("latin-1", "windows-1252"),
        ("latin-1", "latin-1"),
    ],
)
def test_utf_8_and_windows_1252_are_read(records_of, name, encoding, requested):
    record = RECORD | {"abstractText": "naïve"}
    text = json.dumps(record, ensure_ascii=False)
    content = (text if name == "a.jsonl" else f'{{"articles": [{text}]}}').encode(encoding)
    (read,) = records_of(content, name=name, encoding=requested)
    assert (read["title"], read["abstractText"]) == ("Über Mäuse.", "naïve")


@pytest.mark.parametrize("encoding", ["utf-16", "klingon", None])
def test_other_encodings_are_refused(records_of, encoding):
    with pytest.raises(ValueError, match='encoding must be "utf-8", "windows-1252" or "latin-1"'):
        records_of(document(), encoding=encoding)


@pytest.mark.parametrize("chunk", [7, 1 << 20])
def test_an_encoding_error_names_the_byte_and_the_remedy(records_of, monkeypatch, chunk):
    monkeypatch.setattr(json_text, "_CHUNK", chunk)
    for mark in (b"", b"\xef\xbb\xbf"):
        content = mark + b'{"articles": [], "notes": "Stra\xdfe"}'
        start = content.index(b"\xdf")
        with pytest.raises(ValueError, match=f'byte {start} is not utf-8; try encoding="windows-1252"'):
            records_of(content)


@pytest.mark.parametrize("chunk", [7, 1 << 20])
def test_skip_mode_keeps_records_before_an_invalid_byte(records_of, monkeypatch, chunk):
    monkeypatch.setattr(json_text, "_CHUNK", chunk)
    content = document(ensure_ascii=False).encode()
    report = ReadReport(on_error="skip")
    readable = records_of(content.replace(b'"pmid": "11"', b'"pmid": "11\xdf"'), report)
    assert [record["pmid"] for record in readable] == ["3", "5", "7"]
    assert "damaged after 3 records: byte " in report.examples["damaged file"][0]


def test_an_invalid_byte_affects_only_its_line(records_of):
    lines = [json.dumps(record, ensure_ascii=False).encode() for record in ARTICLES]
    lines[2] = lines[2].replace("Ü".encode(), b"\xdc")
    with pytest.raises(ValueError, match=r"a\.jsonl: line 3: byte \d+ is not utf-8; try encoding"):
        records_of(b"\n".join(lines), name="a.jsonl")
    report = ReadReport(on_error="skip")
    assert len(records_of(b"\n".join(lines), report, "a.jsonl")) == 4
    assert report.left_out == {"malformed record": 1}


MALFORMED = {
    "not an object": (["5"], "a record must be a JSON object"),
    "no pmid": ({key: RECORD[key] for key in RECORD if key != "pmid"}, "a record needs pmid, got the keys"),
    "no headings": ({"pmid": "5", "title": "", "abstractText": ""}, "a record needs meshMajor"),
    "null pmid": (RECORD | {"pmid": None}, "pmid must not be empty, got None"),
    "empty pmid": (RECORD | {"pmid": " "}, "pmid must not be empty"),
    "true pmid": (RECORD | {"pmid": True}, "pmid must be text, got True"),
    "number for a title": (RECORD | {"title": 5}, "title must be text, got 5"),
    "list for an abstract": (RECORD | {"abstractText": ["a"]}, "abstractText must be text, got"),
    "text for headings": (RECORD | {"meshMajor": "Mice"}, "meshMajor must be a list of text, got 'Mice'"),
    "number for a heading": (RECORD | {"meshMajor": [5]}, "a heading in meshMajor must be text, got 5"),
    "empty heading": (RECORD | {"meshMajor": ["Mice", ""]}, "a heading in meshMajor must not be empty"),
    "fewer ids than names": (RECORD | {"meshUI": ["D1"]}, "1 meshUI for 2 meshMajor"),
    "word for a year": (RECORD | {"year": "recent"}, "year must be a year or null, got 'recent'"),
    "long year": (RECORD | {"year": 10**9}, "year must be a year or null"),
    "fraction of a year": (RECORD | {"year": 1976.5}, "year must be a year or null"),
    "NUL": (RECORD | {"title": "a\0b"}, "title contains a NUL character"),
    "half a pair": (RECORD | {"abstractText": "\ud83d"}, "abstractText contains a lone surrogate"),
}


@pytest.mark.parametrize(("raw", "message"), MALFORMED.values(), ids=MALFORMED)
def test_the_error_for_a_malformed_record_gives_its_position_or_skips_it(records_of, raw, message):
    records = [ARTICLES[0], raw, ARTICLES[1]]
    contents = {"a.json": document(records), "a.jsonl": "\n".join(map(json.dumps, records))}
    for (name, content), unit in zip(contents.items(), ("record", "line"), strict=True):
        with pytest.raises(ValueError, match=f"{name}: {unit} 2: {message}"):
            records_of(content, name=name)
        report = ReadReport(on_error="skip")
        assert [record["pmid"] for record in records_of(content, report, name)] == ["3", "5"]
        assert report.left_out == {"malformed record": 1}


def test_null_fields_are_read_as_empty(records_of):
    raw = RECORD | {"pmid": 5, "title": None, "abstractText": None, "meshMajor": None, "meshUI": None, "year": None}
    (record,) = records_of(document([raw]))
    assert record == {"pmid": "5", "title": "", "abstractText": "", "year": None, "meshUI": [], "meshMajor": []}


def test_a_list_of_records_is_read(records_of):
    assert [record["pmid"] for record in records_of(json.dumps([RECORD, RECORD | {"pmid": "7"}]))] == [
        RECORD["pmid"],
        "7",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "damaged after 0 records: empty file"),
        (" \n", "damaged after 0 records: empty file"),
        ("5", r"expected '\{', got '5'"),
        ("[] 5", "expected the end of the file after the closing bracket, got '5'"),
        ('{"documents": []}', r"expected .*articles.*, got the keys \['documents'\]"),
        ('{"articles": {}}', r"expected '\[', got '\{\}\}'"),
        (document()[:-1], r"damaged after 5 records: expected ',', got 'the end of the file'"),
        (document()[:-2], r"damaged after 5 records: expected ',', got 'the end of the file'"),
        (document()[:-9], "damaged after 4 records"),
        (document() + document(), "damaged after 5 records: expected the end of the file"),
        (document().replace('"pmid": "7"', '"pmid" "7"'), "damaged after 2 records: Expecting ':' delimiter"),
        (document().replace("}, {", "} {"), "damaged after 1 records: expected ','"),
        (document().replace("Journal", "Jour\0nal"), "damaged after 0 records: Invalid control character"),
        ('{"articles": [' + "[" * 100_003, "damaged after 0 records: nested too deeply"),
        ('{"articles": [{"year": ' + "1" * 5003 + "}]}", "damaged after 0 records: Exceeds the limit"),
    ],
)
def test_a_damaged_file_is_named_with_the_number_of_records_read(records_of, content, message):
    with pytest.raises(ValueError, match=rf"a\.json: .*{message}"):
        records_of(content)


def test_a_malformed_line_affects_no_other_line(records_of):
    lines = [json.dumps(record) for record in ARTICLES]
    for bad in (lines[1][:-7], lines[1] + "}", "[" * 100_003, "\0"):
        content = "\n".join([lines[0], bad, *lines[2:]])
        with pytest.raises(ValueError, match=r"a\.jsonl: line 2: "):
            records_of(content, name="a.jsonl")
        report = ReadReport(on_error="skip")
        assert len(records_of(content, report, "a.jsonl")) == 4
    with pytest.raises(ValueError, match="empty file"):
        records_of("", name="a.jsonl")


@pytest.mark.parametrize("name", ["a.json.gz", "a.jsonl.gz"])
def test_skip_mode_keeps_records_before_damage_in_a_compressed_file(records_of, name):
    records = [RECORD | {"pmid": str(pmid)} for pmid in range(1, 1010)]
    content = document(records) if name == "a.json.gz" else "\n".join(map(json.dumps, records))
    packed = gzip.compress(content.encode(), compresslevel=0)
    report = ReadReport(on_error="skip")
    readable = records_of(packed[: len(packed) // 2], report, name)
    assert 400 < len(readable) < 600
    assert report.left_out["damaged file"] == 1
    with pytest.raises(ValueError, match=r"damaged after .* records: Compressed file ended"):
        records_of(packed[: len(packed) // 2], name=name)


@pytest.mark.parametrize(
    "name", ["a.json.gz", "a.jsonl", *(pytest.param(name, marks=pytest.mark.slow) for name in ("a.json", "a.jsonl.gz"))]
)
def test_memory_does_not_grow_with_the_file(tmp_path, name):
    line = json.dumps(RECORD | {"abstractText": "mice " * 600})
    count = 16_000_000 // len(line)
    path = tmp_path / name
    with gzip.open(path, "wt", compresslevel=1) if name.endswith(".gz") else path.open("w") as file:
        file.write("" if "jsonl" in name else '{"articles": [\n')
        file.writelines(line + ("\n" if "jsonl" in name or i == count - 1 else ",\n") for i in range(count))
        file.write("" if "jsonl" in name else "]}")
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_bioasq(path)) == count
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


def test_a_syntax_error_does_not_load_the_rest_of_the_file(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"articles": [{"pmid" "5"}' + ', {"pmid": "5"}' * 2_000_003 + "]}")
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="Expecting ':' delimiter"):
            list(read_bioasq(path))
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_records_may_exceed_the_buffer_but_not_the_limit(records_of, monkeypatch, name):
    huge = RECORD | {"abstractText": "mice " * 1_000_003}
    content = document([huge]) if name == "a.json" else json.dumps(huge) + "\n"
    (record,) = records_of(content, name=name)
    assert record["abstractText"] == huge["abstractText"]
    monkeypatch.setattr(json_text, "MAX_RECORD", 1 << 20)
    with pytest.raises(ValueError, match="longer than 1,048,576"):
        records_of(content, name=name)


MANY = [RECORD | {"pmid": str(pmid)} for pmid in range(1, 102)]


def lines_of(records=MANY, first='{"articles":[\n', last="\n]}", **options):
    return first + ",\n".join(json.dumps(record, **options) for record in records) + last


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(bioasq, "_PIECE", 3001)


@pytest.fixture
def pieces_of(tmp_path, small_pieces):
    """Splits a file with this content."""

    def cut_content(content, name="a.json"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return cut(path)

    return cut_content


def read_pieces(pieces, report=None, **options):
    return [record for piece in pieces for record in read_piece(piece, report or ReadReport(), **options)]


LAYOUTS = {
    "BioASQ": lines_of(),
    "BioASQ, first article beside the bracket": lines_of(first='{"articles":[', last="]}"),
    "line ends of Windows": lines_of().replace("\n", "\r\n"),
    "empty lines": lines_of().replace("\n", "\n\n \n"),
    "space at the ends of lines": lines_of().replace("\n", " \n"),
    "keys before and after": lines_of(first='{"version": 12,\n"articles":[\n', last='],\n"notes": [{"a": null}]}\n'),
    "two articles on some lines": lines_of().replace(
        '},\n{"journal": "Journal of mice", "year": "1976", "pmid": "5',
        '}, {"journal": "Journal of mice", "year": "1976", "pmid": "5',
    ),
    "some articles on several lines": lines_of().replace('"title"', '\n"title"', 7),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [1, 211, 3001, 30_011])
def test_the_parts_of_a_json_file_contain_each_record_once(pieces_of, monkeypatch, layout, size):
    monkeypatch.setattr(bioasq, "_PIECE", size)
    for encoding in ("utf-8", "utf-8-sig"):
        pieces = pieces_of(LAYOUTS[layout].encode(encoding))
        assert pieces[0].start == 0
        assert pieces[-1].stop is None
        assert [piece.stop for piece in pieces[:-1]] == [piece.start for piece in pieces[1:]]
        assert (len(pieces) > 1) == (size < 30_011)
        assert read_pieces(pieces) == list(read_bioasq(pieces[0].path))


@pytest.mark.parametrize("size", [1, 211, 3001])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
def test_the_parts_of_a_json_lines_file_contain_each_record_once(pieces_of, monkeypatch, size, end):
    monkeypatch.setattr(bioasq, "_PIECE", size)
    pieces = pieces_of("".join(json.dumps(record, ensure_ascii=False) + end for record in MANY)[:-1], "a.jsonl")
    assert len(pieces) > 5
    assert [record["pmid"] for record in read_pieces(pieces)] == [str(pmid) for pmid in range(1, 102)]


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (document(MANY), "a.json"),
        (document(MANY, indent=0), "a.json"),
        (document(MANY, indent=2), "a.json"),
        (lines_of().replace("[", "[\n").replace("{", "{\n"), "a.json"),
        (gzip.compress(lines_of().encode(), 0), "a.json.gz"),
        (gzip.compress(lines_of().encode(), 0), "a.json"),
        ("[" * 100_003 + "\n" + "[" * 100_003, "a.json"),
        (b"\xff" * 10_007, "a.json"),
        (b"\xff" * 10_007, "a.jsonl"),
        ("", "a.json"),
    ],
    ids=[
        "single line",
        "many lines",
        "indented",
        "lines within articles",
        "packed",
        "compressed under another suffix",
        "brackets",
        "no text",
        "a line",
        "empty",
    ],
)
def test_other_layouts_are_not_split(pieces_of, content, name):
    (piece,) = pieces_of(content, name)
    assert (piece.start, piece.stop) == (0, None)


def test_overlong_lines_prevent_splitting(pieces_of, monkeypatch):
    monkeypatch.setattr(bioasq, "_LONGEST_SEARCH", 5003)
    records = [*MANY[:31], RECORD | {"pmid": "102", "abstractText": "mice " * 5003}, *MANY[31:]]
    pieces = pieces_of(lines_of(records))
    assert 1 < len(pieces) < 5
    assert len(read_pieces(pieces)) == 102


def test_nested_records_are_not_taken_for_articles(pieces_of):
    """Checks that no record is lost silently if another line looks like an article."""
    inner = ",\n".join(json.dumps(record) for record in MANY)
    content = f'{{"articles":[\n{{"notes": [\n{inner}\n], {json.dumps(RECORD)[1:]}\n]}}'
    pieces = pieces_of(content)
    assert len(pieces) > 5
    message = r"a\.json: damaged after 0 records: Expecting .* got 'byte 3,\d\d\d, where another record starts'"
    with pytest.raises(ValueError, match=message):
        read_pieces(pieces)


def test_records_of_another_list_are_not_taken_for_articles(pieces_of):
    other = ",\n".join(json.dumps(record) for record in MANY)
    pieces = pieces_of(lines_of(MANY[:3], last=f'\n], "other": [\n{other}\n]}}'))
    with pytest.raises(ValueError, match=r"damaged after 3 records: Expecting .* where another record starts"):
        read_pieces(pieces)


def test_the_error_for_a_malformed_record_of_a_part_names_its_byte(pieces_of):
    records = [*MANY[:50], {"pmid": "7"}, *MANY[50:]]
    for pieces, unit in (
        (pieces_of(lines_of(records)), "record"),
        (pieces_of("\n".join(map(json.dumps, records)), "a.jsonl"), "line"),
    ):
        with pytest.raises(ValueError, match=rf"a\.jsonl? from byte \d+,\d\d\d: {unit} \d: a record needs title"):
            read_pieces(pieces)
        report = ReadReport("skip")
        assert len(read_pieces(pieces, report)) == 101
        assert report.left_out == {"malformed record": 1}


def test_damage_affects_only_the_rest_of_its_part(pieces_of):
    pieces = pieces_of(lines_of().replace('"pmid": "50"', '"pmid" "50"'))
    with pytest.raises(ValueError, match=r"a\.json from byte \d+,\d\d\d: damaged after \d records: Expecting ':'"):
        read_pieces(pieces)
    report = ReadReport("skip")
    pmids = [record["pmid"] for record in read_pieces(pieces, report)]
    assert report.left_out == {"damaged file": 1}
    assert pmids[:49] == [str(pmid) for pmid in range(1, 50)]
    assert pmids[-40:] == [str(pmid) for pmid in range(62, 102)]


def test_byte_positions_in_a_part_count_from_the_start_of_the_file(pieces_of):
    content = lines_of(ensure_ascii=False).encode()
    content = content.replace(b'"pmid": "50"', b'"pmid": "50\xdf"')
    with pytest.raises(ValueError, match=f"byte {content.index(0xDF):,} is not utf-8"):
        read_pieces(pieces_of(content))
    windows = lines_of(ensure_ascii=False).replace("β, 😀", "ß").encode("cp1252")
    assert read_pieces(pieces_of(windows), encoding="windows-1252")[-1]["title"] == "Über Mäuse."


def test_parsing_a_record_twice_gives_separate_lists(records_of):
    (record,) = records_of(document([RECORD]))
    assert record["meshUI"] is not record["meshMajor"]
