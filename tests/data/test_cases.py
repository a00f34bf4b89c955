"""The public sample files of real data, each against what EXPECTED.tsv calls right."""

import csv

import pytest
from papers.medline import read_medline
from table_source import TableSource

from hf_gile import LabelScoringPipeline
from hf_gile.data import load_labels

REFUSED = {
    "02_joined_rich_semicolon.csv": ({"labels": ["tags"]}, "pass --separator ';'"),
    "03_multi_hot.jsonl": ({}, "lists of zeros and ones, .* with a column a label"),
}
TABLES = {
    "01_python_lists.csv": ({"labels": ["tags"]}, {5}),
    "04_one_hot_columns.csv": ({"text": ["comment"], "labels": ["rude", "threat", "off topic"]}, {0, 1, 2, 3}),
    "08_excel_semicolon.csv": ({"labels": ["tags"]}, {1}),
    "13_rows_without_labels.jsonl": ({}, {0, 1}),
}
LABELS = {
    "05_labels_with_objects.json": ["stars", "dwarf stars", "giant stars"],
    "06_untyped_concepts.ttl": ["heart", "heart valve"],
    "07_rdfs_label.ttl": ["heart", "lung"],
    "09_labels.txt": ["delivery", "invoice, late", "password"],
    "10_turtle_named_rdf.rdf": ["heart"],
}
OTHERS = {"11_not_available.xml", "12_zero_shot_keyword.py"}


@pytest.fixture
def case(shared_data, tmp_path, monkeypatch):
    """Returns the path of a sample file."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    if not (shared_data / "cases").is_dir():
        pytest.skip(f"no sample files in {shared_data / 'cases'}")
    return lambda name: shared_data / "cases" / name


def test_every_sample_is_tested(case):
    with case("EXPECTED.tsv").open(encoding="utf-8", newline="") as file:
        names = {row["file"] for row in csv.DictReader(file, delimiter="\t")}
    assert names == REFUSED.keys() | TABLES.keys() | LABELS.keys() | OTHERS


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_read(case, name):
    settings, sizes = TABLES[name]
    said = []
    parts, labels, _ = TableSource([str(case(name))], **settings).read_all(said.append)
    gold = [row["labels"] for part in parts.values() for row in part]
    assert set(map(len, gold)) == sizes
    assert len(labels) < len(gold) / 2 or name.startswith("01")
    assert not any("[" in label for label in labels.names)
    if name.startswith("13"):
        assert "180 records from 1 file, 120 of them without labels" in said[0]


@pytest.mark.parametrize("name", REFUSED)
def test_tables_that_could_be_read_in_two_ways_are_refused(case, name):
    settings, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        TableSource([str(case(name))], **settings).read_all(print)


@pytest.mark.parametrize("name", LABELS)
def test_labels_are_read(case, name):
    assert sorted(load_labels(case(name)).names) == sorted(LABELS[name])


def test_a_placeholder_is_no_title(case):
    assert next(iter(read_medline(case("11_not_available.xml"))))["title"] in ("", "Neue Dichtungen für Pumpen")


def test_the_argument_of_the_built_in_pipeline_is_known(case, make_model):
    assert "sequences=" in case("12_zero_shot_keyword.py").read_text()
    model, processor = make_model(problem_type="multi_label_classification")
    pipe = LabelScoringPipeline(model=model, processor=processor)
    answer = pipe(sequences="The pump leaks.", candidate_labels=["pump", "invoice"])
    assert sorted(answer["labels"]) == ["invoice", "pump"]
