import json

import pytest

from hf_gile import Label, LabelSet
from hf_gile.data import ReadReport, is_mesh, load_labels, read_label_file, save_labels

SKOS = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
<http://a.org/1> a skos:Concept ; skos:prefLabel "Iron"@en, "Eisen"@de ; skos:altLabel "Ferrum"@en ."""


def test_a_table_with_custom_columns_is_read(tmp_path):
    (tmp_path / "terms.csv").write_text("code,en,de,about\nx1,,Eisen,a metal\nx2,Milk,Milch,\n")
    labels = read_label_file(tmp_path / "terms.csv", id="code", name=["en", "de"], describe=["about"])
    assert [(label.id, label.text) for label in labels] == [("x1", "Eisen: a metal"), ("x2", "Milk")]


def test_a_skos_vocabulary_is_read_in_the_requested_language(tmp_path):
    pytest.importorskip("rdflib")
    (tmp_path / "terms.ttl").write_text(SKOS)
    report = ReadReport()
    labels = read_label_file(tmp_path / "terms.ttl", languages=["de", "en"], report=report)
    assert [(label.id, label.name) for label in labels] == [("http://a.org/1", "Eisen")]
    assert report.records == 1


def test_json_lines_with_a_ui_field_are_read_as_mesh(tmp_path):
    mesh, table, broken = (tmp_path / f"{name}.jsonl" for name in ("mesh", "table", "broken"))
    mesh.write_text(json.dumps({"ui": "D1", "name": "Iron"}) + "\n")
    table.write_text(json.dumps({"id": "D1", "name": "Iron"}) + "\n")
    broken.write_text("D1\n")
    assert [is_mesh(path) for path in (mesh, table, broken)] == [True, False, False]
    assert read_label_file(table).names == ["Iron"]


def test_a_label_set_saved_as_csv_loads_unchanged(tmp_path):
    labels = LabelSet(
        [
            Label("D6", "Heart Failure", 'the heart "fails", often', "en", True, 42, 0.25),
            Label("D8", "Milk, Human", synonyms=("Mother's Milk; human", "a\\b;", "\\", 'say "milk" now')),
            Label("D7", "Eisen", "Fe; Metall", "de", count=1),
        ]
    )
    save_labels(labels, tmp_path / "labels.csv")
    assert load_labels(tmp_path / "labels.csv") == labels
    with pytest.raises(ValueError, match=r"labels\.tsv: labels can be saved to \.csv and \.jsonl files"):
        save_labels(labels, tmp_path / "labels.tsv")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no label file at .*absent.ttl"):
        read_label_file(tmp_path / "absent.ttl")
