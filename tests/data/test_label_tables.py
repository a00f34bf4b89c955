"""Tables of labels: every format gives the same result, and errors name file and line."""

import gzip

import pytest

from hf_gile import Label, LabelSet
from hf_gile.data import ReadReport, save_labels
from hf_gile.data.label_tables import load_labels
from hf_gile.data.tables import load_table

LABELS = [
    {
        "ui": "D3",
        "name_en": "Mice",
        "name_de": "Mäuse",
        "synonyms": ["Mouse", "House Mouse", "Mouse"],
        "note": "Small.",
    },
    {"ui": "D5", "name_en": None, "name_de": "Ratten", "synonyms": [], "note": None},
]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.json", "a.parquet", "a.jsonl.gz"])
def test_label_tables_may_have_any_format_and_columns(write, name):
    path = write(name, rows=LABELS)
    labels = load_labels(path, id="ui", name=["name_en", "name_de"], description=["synonyms", "note"])
    mouse = "Mouse; House Mouse" if name not in ("a.csv", "a.tsv") else "Mouse; House Mouse; Mouse"
    assert labels == LabelSet([Label("D3", "Mice", f"{mouse}; Small."), Label("D5", "Ratten")])
    assert load_labels(path, id="ui", name="name_de").names == ["Mäuse", "Ratten"]
    assert load_labels(path, id="ui", name="name_de", language="ui")[0].language == "D3"


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_synonyms_may_be_a_list_or_a_semicolon_separated_cell(write, name):
    path = write(name, rows=LABELS)
    labels = load_labels(path, id="ui", name=["name_en", "name_de"], synonyms="synonyms")
    assert [label.synonyms for label in labels] == [("Mouse", "House Mouse", "Mouse"), ()]
    assert labels.texts == ["Mice", "Ratten"]
    labels = load_labels(path, id="ui", name="name_de", description="note", synonyms=["name_en", "synonyms"])
    assert [label.synonyms for label in labels] == [("Mice", "Mouse", "House Mouse", "Mouse"), ()]
    assert labels.texts == ["Mäuse: Small.", "Ratten"]
    with pytest.raises(ValueError, match="no column 'others', only "):
        load_labels(path, id="ui", name="name_de", synonyms="others")


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_table_with_label_fields_loads_as_the_saved_label_set(tmp_path, suffix):
    labels = LabelSet(
        [
            Label(
                "D3", "Mice", "mouse", "english", seen=True, count=7, threshold=0.5, synonyms=("House; Mouse", "b\\")
            ),
            Label("D5", "Rats"),
            Label("D7", "Stars", count=3),
        ]
    )
    path = tmp_path / f"labels.{suffix}"
    if suffix == "csv":
        save_labels(labels, path)
    else:
        labels.save(path)
    assert load_labels(path) == labels
    packed = tmp_path / f"packed.{suffix}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert load_labels(packed) == labels


def test_columns_of_an_unrelated_table_are_not_taken_for_label_fields(write):
    path = write("a.csv", "id,name,count,source,synonyms\nD3,Mice,many,here,mouse\n")
    assert load_labels(path) == LabelSet([Label("D3", "Mice")])
    with pytest.raises(ValueError, match=r"b\.csv: line 2: count must be a number, got 'many'"):
        load_labels(write("b.csv", "id,name,count\nD3,Mice,many\n"))
    with pytest.raises(ValueError, match=r"b\.csv: line 2: seen must be true or false, got 'yes'"):
        load_labels(write("b.csv", "id,name,seen\nD3,Mice,yes\n"))


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_column_of_descriptions_is_read_whatever_other_columns_exist(write, name):
    row = {"id": "D3", "name": "Mice", "description": "small", "note": "fast", "url": "a.org/D3"}
    path = write(name, rows=[row, {**row, "id": "D5", "name": "Rats", "description": ""}])
    assert load_labels(path) == LabelSet([Label("D3", "Mice", "small"), Label("D5", "Rats")])
    assert load_labels(path, synonyms="note").texts == ["Mice: small", "Rats"]
    assert load_labels(path, description="note").texts == ["Mice: fast", "Rats: fast"]
    assert load_labels(path, synonyms="description").texts == ["Mice", "Rats"]


def test_missing_cells_of_optional_fields_are_fine(write):
    path = write("a.csv", "\ufeffid,name,count,threshold\nD3,Mice,,\n")
    assert load_labels(path) == LabelSet([Label("D3", "Mice")])


def test_semicolons_separate_synonyms_unless_escaped(write):
    path = write("a.csv", 'id,name,synonyms\n1,a,"b; c, d ;; e\\;f;g\\\\;h\\i"\n2,b,\n')
    assert [label.synonyms for label in load_labels(path)] == [("b", "c, d", "e;f", "g\\", "h\\i"), ()]


def test_labels_with_the_same_name_are_distinguished_by_synonyms_or_ids(write):
    rows = [
        ("D3", "Mercury", "Merkur"),
        ("D5", "Mercury", "Quecksilber"),
        ("D7", "Venus", "Venus"),
        ("D11", "Venus", ""),
    ]
    path = write("a.csv", rows=[dict(zip(("id", "en", "de"), row, strict=True)) for row in rows])
    report = ReadReport()
    labels = load_labels(path, name=["en", "de"], report=report)
    assert labels.texts == ["Mercury: Merkur", "Mercury: Quecksilber", "Venus: D7", "Venus: D11"]
    assert report.records == 4
    assert not report.left_out
    assert report.homonyms == 4


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"id": "D3", "name": "Rats"}', "the id 'D3' is already used in line 1"),
        ('{"id": "", "name": "Rats"}', "id must not be empty"),
        ('{"name": "Rats"}', "id must not be empty, got None"),
        ('{"id": "D5", "name": " "}', "the label 'D5' has no name"),
        ('{"id": "D5", "name": 7}', "name must be text, got 7"),
        ('{"id": "D5", "name": "Rats", "more": {}}', "more must be text, got {}"),
        ('{"id": "D5", "name": "Rats", "more": ["a", 7]}', "more must be text, got 7"),
        ("no JSON", "not JSON"),
    ],
)
def test_malformed_labels_are_named_or_skipped(write, row, message):
    path = write("a.jsonl", f'{{"id": "D3", "name": "Mice", "more": "x"}}\n{row}\n')
    with pytest.raises(ValueError, match=rf"a\.jsonl: line 2: {message}"):
        load_labels(path, description="more")
    report = ReadReport("skip")
    assert load_labels(path, description="more", report=report) == LabelSet([Label("D3", "Mice", "x")])
    assert sum(report.left_out.values()) == report.records == 1


def test_label_tables_without_an_id_column_or_labels_are_refused(write):
    path = write("a.csv", "ui,name\nD3,Mice\n")
    with pytest.raises(ValueError, match=r"a\.csv: no column 'id', only ui, name"):
        load_labels(path)
    with pytest.raises(ValueError, match=r"a\.csv: no labels"):
        load_labels(write("a.csv", "id,name\n"))
    write("b.csv")
    with pytest.raises(ValueError, match="expected a single label file, got 2"):
        load_labels(path.parent)
    with pytest.raises(FileNotFoundError):
        load_labels(path.with_name("absent.csv"))


@pytest.mark.slow
def test_a_library_catalogue_and_its_homonymous_subjects_are_read(shared_data):
    report = ReadReport()
    labels = load_labels(shared_data / "tibkat" / "gnd_labels.jsonl.gz", name=["name_en", "name_de"], report=report)
    assert len(labels) == report.records == 26_250
    assert report.homonyms > 500
    assert labels[labels.column("gnd:1021591971")].name == "Plug-in hybrid"
    path = shared_data / "tibkat" / "dev.en.jsonl.gz"
    dataset, report = load_table(path, ["title", "abstract"], "subjects", id="id", streaming=True)
    gold = [row["labels"] for row in dataset]
    assert len(gold) == report.records == 4025
    assert sum(map(len, gold)) / len(gold) == pytest.approx(3, abs=0.5)
    assert sum(label in labels for row in gold for label in row) > 0.95 * sum(map(len, gold))
