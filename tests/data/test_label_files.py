import csv
import time

import pytest
from table_source import TableSource

from hf_gile import Label, LabelSet
from hf_gile.data import load_labels, save_labels
from hf_gile.publishing.card_sections import write_label_table

SKOS = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
<http://a.org/1> a skos:Concept ; skos:prefLabel "Iron"@en, "Eisen"@de ; skos:altLabel "Ferrum"@en ."""


def test_a_vocabulary_is_read_in_the_requested_language_whatever_its_name(write, report):
    pytest.importorskip("rdflib")
    path = write("terms.csv", SKOS)
    labels = load_labels(path, languages=["de", "en"], report=report)
    assert [(label.id, label.name) for label in labels] == [("http://a.org/1", "Eisen")]
    assert report.records == 1
    assert load_labels(path).names == ["Iron"]


def test_flags_of_columns_win_over_mesh(write):
    row = {"ui": "D1", "name": "Iron", "name_de": "Eisen", "definition": "A metal.", "note": "Fe", "synonyms": ["Fe"]}
    path = write("mesh.jsonl.gz", rows=[row])
    assert load_labels(path).texts == ["Iron: A metal"]
    assert load_labels(path, description=["none"]).texts == ["Iron"]
    assert load_labels(path, description=["entry_terms"]).texts == ["Iron: Fe"]
    assert load_labels(path, name=["name_de"]).texts == ["Eisen: A metal."]
    labels = load_labels(path, description=["note"], synonyms=["synonyms"])
    assert labels == LabelSet([Label("D1", "Iron", "Fe", synonyms=("Fe",))])
    assert load_labels(path, id="name").ids == ["Iron"]


def test_columns_of_objects_with_the_address_of_a_context_can_be_chosen(write):
    pytest.importorskip("rdflib")
    row = {"uri": "u:1", "@context": "https://a.org/context.json", "prefLabel": {"en": "Iron", "de": "Eisen"}}
    path = write("terms.jsonl", rows=[row, {**row, "uri": "u:2", "prefLabel": {"en": "Tin"}, "status": "retired"}])
    labels = load_labels(path, id="uri", name="prefLabel")
    assert (labels.ids, labels.names) == (["u:1", "u:2"], ["Iron", "Tin"])
    with pytest.raises(ValueError, match=r"@context is the URL .*as in --label_id uri --label_name prefLabel"):
        load_labels(path)


def test_a_long_line_is_a_label_in_linear_time(write):
    began = time.process_time()
    for name in ("x" * 200_000, '"' + "," * 200_000, "1: " * 100_000 + "1"):
        assert load_labels(write("labels.txt", f"{name}\nIron\n")).names == [name.strip(), "Iron"]
    assert time.process_time() - began < 10


def test_a_number_of_too_many_digits_is_a_text(write):
    digits = "1" * 5000
    labels = load_labels(write("labels.csv", f"id,name,synonyms\n1,Iron,[{digits}]\n"), synonyms=["synonyms"])
    assert labels[0].synonyms == (digits,)


def test_a_file_without_labels_says_what_was_left_out(write):
    file = write("labels.jsonl", '{"id": 1, "name": {"de": "Eisen"}}\n')
    with pytest.raises(ValueError, match=r"no labels.*left out: without a name in en \(1\)"):
        load_labels(file)


def test_columns_of_a_file_without_columns_are_refused(write):
    mesh = write("mesh.bin", "*NEWRECORD\nRECTYPE = D\nMH = Iron\nUI = D1\n")
    assert load_labels(mesh).ids == ["D1"]
    for path, kind in ((write("terms.ttl", SKOS), "RDF"), (mesh, "MeSH")):
        with pytest.raises(ValueError, match=rf"{path.name} is {kind}, not a table with columns to choose"):
            load_labels(path, name=["name_de"])


def test_numbers_name_the_columns_of_a_file_without_a_header(write):
    labels = load_labels(write("terms.csv", "1,Iron\n2,Tin\n"), id="1", name=["2"])
    assert (labels.ids, labels.names) == (["1", "2"], ["Iron", "Tin"])


@pytest.mark.parametrize("first", [0, 1])
def test_lines_with_their_numbers_and_names_are_ids_and_names(write, first):
    labels = load_labels(write("mapping.txt", f"{first}\tred mice\n{first + 1}\trats\n"))
    assert (labels.ids, labels.names) == ([str(first), str(first + 1)], ["red mice", "rats"])


@pytest.mark.parametrize("name", ["a.nt", "a.owl"])
def test_damaged_rdf_is_no_text_of_labels(write, name):
    pytest.importorskip("rdflib")
    with pytest.raises(ValueError, match=rf"{name}: (read as|expected RDF|0 concepts)"):
        load_labels(write(name, "<http://a.org/b c> <http://a.org/1> 'Iron' .\n"))


@pytest.mark.parametrize("name", ["a.txt", "a.xml"])
def test_the_content_determines_the_kind_of_a_label_file(write, name):
    pytest.importorskip("rdflib")
    kinds = {
        "mesh": '<?xml version="1.0"?><DescriptorRecordSet><DescriptorRecord><DescriptorUI>D1</DescriptorUI>'
        "<DescriptorName><String>Iron</String></DescriptorName></DescriptorRecord></DescriptorRecordSet>",
        "rdf": SKOS,
        "json": '[{"id": "D1", "name": "Iron"}]',
        "jsonl": '{"id": "D1", "name": "Iron"}\n{"id": "D2", "name": "Tin"}\n',
        "json-ld": '[{"@id": "http://a.org/1", "@type": "http://www.w3.org/2004/02/skos/core#Concept",'
        '"http://www.w3.org/2004/02/skos/core#prefLabel": "Iron"}]',
    }
    for kind, content in kinds.items():
        assert load_labels(write(name, content))[0].name == "Iron", kind


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<!DOCTYPE html><html></html>", "is a web page"),
        ('<?xml version="1.0"?><PubmedArticleSet></PubmedArticleSet>', "has documents of MEDLINE, not labels"),
        ("", "empty file"),
    ],
)
@pytest.mark.parametrize("name", ["a.ttl", "a.txt"])
def test_files_without_labels_are_refused_with_what_they_are(write, name, content, message):
    with pytest.raises(ValueError, match=rf"{name}:? .*{message}"):
        load_labels(write(name, content))


def test_gold_that_the_vocabulary_left_out_is_told_from_missing_gold(write):
    pytest.importorskip("rdflib")
    terms = """<http://a.org/2> a skos:Concept ; skos:prefLabel "Zinn"@de .
    <http://a.org/3> a skos:Concept ; skos:prefLabel "Tin"@en ; <http://www.w3.org/2002/07/owl#deprecated> true ."""
    label_file = str(write("terms.ttl", f"{SKOS}\n{terms}"))
    rows = [{"text": f"text {row}", "labels": [f"http://a.org/{row % 4 + 1}"]} for row in range(60)]
    source = TableSource(train_files=[str(write("notes.jsonl", rows=rows))], label_file=label_file)
    with pytest.raises(ValueError, match=r"terms\.ttl") as raised:
        source.read_all(lambda line: None)
    for part in (
        "terms.ttl has 1 label id of the documents, such as 'http://a.org/2', first in document",
        "but left out as without a name in en",
        "such as 'http://a.org/3'",
        "but left out as deprecated",
        "terms.ttl lacks 1 label id of the documents, such as 'http://a.org/4' (its ids are like 'http://a.org/1')",
        "choose other languages with --label_language",
        "or drop them with --on_unknown_label drop",
    ):
        assert part in str(raised.value)


@pytest.mark.parametrize(
    ("numbers", "is_refused"),
    [([0, 1, 2] * 20, True), ([0, 1, 2, 3] * 20, False), ([0, 1] * 20, False), ([*[0, 1] * 20, 2], False)],
)
def test_names_of_classes_with_one_line_too_many_may_have_a_title(write, numbers, is_refused):
    rows = [{"text": f"text {row}", "label": number} for row, number in enumerate(numbers)]
    label_file = str(write("names.txt", "animal\nmice\nrats\ncats\n"))
    source = TableSource([str(write("notes.jsonl", rows=rows))], label_file=label_file)
    if is_refused:
        message = r"names\.txt has 4 labels, .* classes 0 to 2: is its first line, 'animal', a title"
        with pytest.raises(ValueError, match=message):
            source.read_all(print)
    else:
        assert source.read_all(print)[1].names[0] == "animal"


SINGLE = ["mice", "rats", "red cats"]
JOINED = ["mice, rats", "rats, mice", "red cats, rats", "mice"]


def write_notes(write, part, names):
    rows = [{"text": f"{part} {row}", "labels": [name]} for row, name in enumerate(names)]
    return str(write(f"{part}.jsonl", rows=rows))


@pytest.mark.parametrize("test", [JOINED, ["['mice']", "['rats']"], ["3", "4"], ["mice;rats", "rats;mice"]])
@pytest.mark.parametrize("is_late", [False, True])
def test_labels_in_another_form_than_the_first_are_refused(write, test, is_late):
    first = write_notes(write, "train", SINGLE * (700 if is_late else 20))
    second = write_notes(write, "test", test * 10)
    files = {"train_files": [first, second]} if is_late else {"train_files": [first], "test_files": [second]}
    message = r"labels, such as .* in document 'test\.jsonl:\d+', have another form than 'mice'"
    with pytest.raises(ValueError, match=message):
        TableSource(**files).read_all(print)
    labels = TableSource(**files, separator="none").read_all(print)[1]
    assert set(labels.names) == {*SINGLE, *test}


@pytest.mark.parametrize("unseen", [["Smith, John", "Doe, Jane"], ["Food, drink and mice", "red rats"], ["cats/mice"]])
def test_unseen_labels_may_have_signs_in_their_names(write, unseen):
    files = [write_notes(write, "train", SINGLE * 20)], [], [write_notes(write, "test", unseen * 20)]
    assert set(unseen) < set(TableSource(*files).read_all(print)[1].names)


def test_a_label_set_saved_as_csv_loads_unchanged(tmp_path):
    heart = Label("D6", "Heart Failure", 'the heart "fails", often', "en", True, 42, 0.25)
    milk = Label("D8", "Milk, Human", synonyms=("Mother's Milk; human", "a\\b;", "\\", 'say "milk" now'))
    labels = LabelSet([heart, milk])
    save_labels(labels, tmp_path / "labels.csv")
    assert load_labels(tmp_path / "labels.csv") == labels
    with pytest.raises(ValueError, match=r"labels\.tsv: labels can be saved to \.csv and \.jsonl files"):
        save_labels(labels, tmp_path / "labels.tsv")


FORMULAS = ("=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "'=1+1", "''=x", "＝1+1", "=a;b", '=HYPERLINK("x")')  # noqa: RUF001
NO_FORMULAS = ("'Ewa", "-2.5", "+3", "a=b", "Task-1", "'", "3-D")


def test_formulas_in_labels_are_disarmed_and_load_unchanged(tmp_path):
    texts = [*FORMULAS, *NO_FORMULAS]
    labels = LabelSet(
        Label(f"{text}{number}", text, text, text, synonyms=(text, "other"), broader=(text,))
        for number, text in enumerate(texts)
    )
    save_labels(labels, tmp_path / "labels.csv")
    with (tmp_path / "labels.csv").open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    assert [row[1] for row in rows] == [*("'" + text for text in FORMULAS), *NO_FORMULAS]
    assert all(not cell.startswith(("=", "@", "\t", "\r")) for row in rows for cell in row)
    assert load_labels(tmp_path / "labels.csv") == labels


def test_the_label_table_of_a_card_disarms_formulas_and_loads_unchanged(tmp_path):
    labels = [Label(f"L{number}", text, text) for number, text in enumerate([*FORMULAS, *NO_FORMULAS])]
    write_label_table(tmp_path / "labels.csv", labels, {}, {})
    loaded = load_labels(tmp_path / "labels.csv")
    assert [(label.name, label.description) for label in loaded] == [(label.name,) * 2 for label in labels]
    assert "\nL0,'=1+1," in (tmp_path / "labels.csv").read_text(encoding="utf-8")


def test_an_apostrophe_in_a_table_of_others_is_kept(write):
    assert load_labels(write("labels.csv", "id,name\nA,'-ful\n")).names == ["'-ful"]
