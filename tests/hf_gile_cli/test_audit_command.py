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
    columns += ["--most", 2, "--compare", table, "--json"]
    result = run("audit", saved_model, table, *columns, "--output", tmp_path / "audit")
    assert json.loads(result.stdout) == {"wrong": 2, "missing": 2, "documents": 2}
    assert "2 least probable assigned labels, 2 most probable missing labels, in" in result.stderr
    assert {path.name for path in (tmp_path / "audit").iterdir()} == {
        "wrong.csv",
        "missing.csv",
        "documents.csv",
        "drift.csv",
        "label_studio.json",
        "label_studio.xml",
    }
    assert "Breast" in (tmp_path / "audit" / "documents.csv").read_text()
