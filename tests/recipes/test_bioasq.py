import json

import pytest
from papers.bioasq import read_bioasq

from hf_gile.data import json_text

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
def records_of(write):
    """Reads the records of a file with this content."""
    return lambda content, report=None, name="a.json": list(read_bioasq(write(name, content), report))


def test_a_record_without_ids_uses_heading_names_as_ids(records_of):
    unchanged = {name: RECORD[name] for name in ("pmid", "title", "abstractText", "meshMajor")}
    assert records_of(document([RECORD])) == [unchanged | {"year": 1976, "meshUI": ["Animals", "Mice"]}]


@pytest.mark.parametrize("options", [{"indent": 2}, {"separators": (",", ":"), "ensure_ascii": False}])
@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_any_json_layout_gives_the_same_records_at_any_buffer_size(records_of, monkeypatch, options, chunk):
    monkeypatch.setattr(json_text, "_CHUNK", chunk)
    content = json.dumps({"version": 12, "articles": ARTICLES, "notes": {"a": [None]}}, **options)
    records = records_of(content)
    assert [record["pmid"] for record in records] == ["3", "5", "7", "11", "13"]
    assert records[-1]["abstractText"] == RECORD["abstractText"]


def test_json_lines_give_the_same_records_as_json(records_of):
    expected = records_of(document())
    lines = "\r\n\r\n".join(map(json.dumps, ARTICLES)) + "\n"
    assert records_of(ARTICLES, name="a.jsonl") == expected
    assert records_of(lines, name="a.jsonl") == expected
    assert records_of(ARTICLES, name="a.jsonl.gz") == expected
    assert records_of(document(), name="a.json.gz") == expected


MALFORMED = {
    "no pmid": ({key: RECORD[key] for key in RECORD if key != "pmid"}, "a record needs pmid, got the keys"),
    "text for headings": (RECORD | {"meshMajor": "Mice"}, "meshMajor must be a list of text, got 'Mice'"),
    "fewer ids than names": (RECORD | {"meshUI": ["D1"]}, "1 meshUI for 2 meshMajor"),
    "word for a year": (RECORD | {"year": "recent"}, "year must be a year or null, got 'recent'"),
    "NUL": (RECORD | {"title": "a\0b"}, "title contains a NUL character"),
    "half a pair": (RECORD | {"abstractText": "\ud83d"}, "abstractText contains a lone surrogate"),
}


@pytest.mark.parametrize(("name", "unit"), [("a.json", "record"), ("a.jsonl", "line")])
@pytest.mark.parametrize(("raw", "message"), MALFORMED.values(), ids=MALFORMED)
def test_the_error_for_a_malformed_record_gives_its_position_or_skips_it(records_of, raw, message, name, unit, lenient):
    records = [ARTICLES[0], raw, ARTICLES[1]]
    content = records if name == "a.jsonl" else document(records)
    with pytest.raises(ValueError, match=f"{name}: {unit} 2: {message}"):
        records_of(content, name=name)
    assert [record["pmid"] for record in records_of(content, lenient, name)] == ["3", "5"]
    assert lenient.left_out == {"malformed record": 1}


def test_null_fields_are_read_as_empty(records_of):
    raw = RECORD | {"pmid": 5, "title": None, "abstractText": None, "meshMajor": None, "meshUI": None, "year": None}
    (record,) = records_of(document([raw]))
    assert record == {"pmid": "5", "title": "", "abstractText": "", "year": None, "meshUI": [], "meshMajor": []}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty file"),
        ('{"articles": {}}', r"expected a list of objects.*, got an object with the keys \['articles'\]"),
        (document()[:-9], "damaged after 4 records"),
        (document().replace("}, {", "} {"), "damaged after 1 records: expected ','"),
        ('{"articles": [' + "[" * 100_003, "damaged after 0 records: nested too deeply"),
    ],
)
def test_a_damaged_file_is_named_with_the_number_of_records_read(records_of, content, message):
    with pytest.raises(ValueError, match=rf"a\.json: .*{message}"):
        records_of(content)


def test_spaces_around_headings_are_no_part_of_labels(records_of):
    (record,) = records_of(document([RECORD | {"meshMajor": [" Mice", "Rats "], "meshUI": None}]))
    assert record["meshUI"] == record["meshMajor"] == ["Mice", "Rats"]
