import json

import pytest

pytestmark = pytest.mark.usefixtures("datasets_cache")

ROWS = [
    ("Breast milk is food. It lowers risk.", ["Milk", "Infant"]),
    ("The heart\x1b[2J pumps 70 times.", ["Heart\x1b[2J", "Milk", "Blood"]),
    ("Nothing is said.", []),
]


@pytest.fixture
def table(write):
    rows = [*ROWS, *[("More milk.", ["Milk"])] * 9]
    return write("rows.jsonl", "".join(json.dumps({"body": text, "tags": gold}) + "\n" for text, gold in rows))


def test_a_collection_is_counted(run, table):
    figures = json.loads(run("describe", table, "--text", "body", "--labels", "tags", "--json").stdout)
    assert figures == {
        "documents": 12,
        "documents_without_labels": 1,
        "sentences": 13,
        "words": 34,
        "distinct_words": 16,
        "words_per_document": 34 / 12,
        "labels": 4,
        "labels_per_document": {"mean": 14 / 12, "median": 1, "max": 3},
        "labels_by_documents": {"1": 3, "2-9": 0, "10-99": 1, "100+": 0},
        "most_frequent_labels": {"Milk": 11, "Infant": 1, "Heart\x1b[2J": 1, "Blood": 1},
    }


def test_the_table_is_readable_and_hides_control_characters(run, table):
    lines = run("describe", table, "--text", "body", "--labels", "tags").stdout.splitlines()
    assert "          12  documents" in lines
    assert "        1.17  labels per document, mean" in lines
    assert "           3  labels of 1 document" in lines
    assert "           1  labels of 10-99 documents" in lines
    assert "          11  Milk" in lines
    assert "           1  Heart\\u001b[2J" in lines


def test_label_frequencies_are_plotted_on_request(run, table, tmp_path):
    pytest.importorskip("matplotlib")
    run("describe", table, "--text", "body", "--labels", "tags", "--plot", tmp_path / "new" / "labels.png")
    assert (tmp_path / "new" / "labels.png").read_bytes().startswith(b"\x89PNG")
    run("describe", table, "--text", "body", "--labels", "tags", "--plot", tmp_path / "labels.pdf")
    assert (tmp_path / "labels.pdf").read_bytes().startswith(b"%PDF")
