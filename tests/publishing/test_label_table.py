"""Labels on a card, and the table of all labels."""

import codecs
import csv

from hf_gile import Label
from hf_gile.publishing.card_sections import shown_labels, write_label_table

LABELS = [Label(f"L{n:02}", f"name {n}", seen=n < 41, count=max(0, 41 - n)) for n in range(53)]


def by_heading(groups):
    return {heading: [label.id for label in group] for heading, group in groups}


def test_frequent_medium_rare_and_unseen_labels_are_shown():
    groups = by_heading(shown_labels(LABELS, each=3))
    assert groups == {
        "Frequent": ["L00", "L01", "L02"],
        "In the middle": ["L19", "L20", "L21"],
        "Rare": ["L38", "L39", "L40"],
        "Never trained on": ["L41", "L42", "L43"],
    }


def test_labels_with_similar_counts_are_not_divided():
    labels = [Label(f"L{n:02}", f"name {n}", seen=True, count=6 - n % 4) for n in range(20)]
    [(heading, group)] = shown_labels(labels, each=3)
    assert (heading, len(group)) == ("", 9)
    [(heading, group), (unseen, _)] = shown_labels([*labels, *LABELS[-9:]], each=3)
    assert (heading, len(group), unseen) == ("Trained on", 9, "Never trained on")


def test_labels_with_documents_in_the_test_are_preferred():
    supports = {f"L{n:02}": 2 for n in range(0, 53, 2)}
    groups = shown_labels(LABELS, supports, each=3)
    tested = [label for heading, group in groups for label in group if heading != "Never trained on"]
    assert all(supports.get(label.id) for label in tested)
    assert by_heading(groups)["Never trained on"] == ["L42", "L44", "L46"]


def test_the_label_file_has_every_label_with_its_metrics(tmp_path):
    labels = [Label("a", 'A, "quoted"\nname', "x;y", seen=True, count=3), Label("b", "B", language="de")]
    figures = {"a": {"threshold": 0.25, "support": 2, "precision": 1.0, "recall": 0.5, "f1": 0.6667}}
    write_label_table(tmp_path / "labels.csv", labels, {"a": 0.2, "b": None}, figures)
    with (tmp_path / "labels.csv").open(encoding="utf-8-sig", newline="") as file:
        first, second = csv.DictReader(file)
    assert first == {
        "id": "a", "name": 'A, "quoted"\nname', "description": "x;y", "language": "", "seen": "true", "count": "3",
        "threshold": "0.25", "support": "2", "precision": "1.0", "recall": "0.5", "f1": "0.6667",
    }  # fmt: skip
    assert (second["id"], second["seen"], second["threshold"], second["f1"]) == ("b", "false", "", "")
    assert (tmp_path / "labels.csv").read_bytes().startswith(codecs.BOM_UTF8)  # for spreadsheets
    assert [path.name for path in tmp_path.iterdir()] == ["labels.csv"]
