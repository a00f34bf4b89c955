"""The examples of docs/publishing.md run."""

import re
from pathlib import Path

import pytest
from datasets import Dataset

from hf_gile.publishing import CardInfo, read_card_fields

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "publishing.md").read_text()


@pytest.fixture
def names(make_model):
    """Returns the variables used by the examples of the page."""
    model, processor = make_model(problem_type="multi_label_classification")
    labels = model.label_set.with_counts({"Iron": 2, "Infant": 1})
    model.set_labels(labels, processor)
    gold = [["Iron"], ["Infant", "Iron"]]
    rows = Dataset.from_dict({"text": ["Iron in blood.", "Milk for infants."], "labels": gold})
    return {"model": model, "processor": processor, "labels": labels, "rows": rows}


def test_the_publishing_example_runs(names, hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n((?:(?!```).)*?push_folder\((?:(?!```).)*?)```", PAGE, re.DOTALL)
    assert "dry_run=True" in code
    code = code.replace("user/gile-notes", "ada/gile-notes").replace("dry_run=True", "private=True")
    exec(compile(code, "docs/publishing.md", "exec"), names)
    assert {file.status for file in names["published"].files} == {"new"}
    assert names["model"].config.thresholds
    files = hub.repositories["ada/gile-notes"].files()
    assert hub.repositories["ada/gile-notes"].private
    assert {"README.md", "labels.jsonl", "results.json", "model.safetensors", "index/label_index.json"} <= set(files)
    assert b'model="ada/gile-notes"' in files["README.md"]


def test_the_documented_card_fields_are_valid(tmp_path):
    (fields,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "card.yaml").write_text(fields)
    info = CardInfo(**read_card_fields(tmp_path / "card.yaml"))
    assert info.repo_id == "user/gile-notes"
