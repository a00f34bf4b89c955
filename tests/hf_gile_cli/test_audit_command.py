import json

import pytest

pytestmark = pytest.mark.usefixtures("datasets_cache")

ROWS = [
    ("Breast milk lowers the risk of infection.", ["Milk, Human", "Infant"]),
    ("The failing heart pumps less blood.", ["Heart Failure", "Blood"]),
]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"id": text[:6], "body": text, "tags": gold}) + "\n" for text, gold in ROWS))
    return path


def test_a_collection_is_audited_into_a_folder(run, saved_model, table, tmp_path):
    columns = ["--text", "body", "--labels", "tags", "--id", "id"]
    result = run("audit", saved_model, table, *columns, "--output", tmp_path / "found", "--most", 2, "--compare", table)
    assert "2 headings probably wrong, 2 probably missing, in" in result.stderr
    assert {path.name for path in (tmp_path / "found").iterdir()} == {
        "wrong.csv",
        "missing.csv",
        "documents.csv",
        "drift.csv",
        "audit.html",
        "label_studio.json",
        "label_studio.xml",
    }
    assert "Breast" in (tmp_path / "found" / "documents.csv").read_text()


def test_a_file_as_output_folder_is_refused(run, saved_model, table):
    said = run("audit", saved_model, table, "--output", table, ends=2).stderr
    assert "is not a folder" in said
