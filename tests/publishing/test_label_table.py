"""Labels on a card, and the table of all labels."""

import codecs
import csv

from hf_gile import Label
from hf_gile.publishing.card_sections import write_label_table


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
