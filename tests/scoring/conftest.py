import json

import pytest


@pytest.fixture
def saved(tmp_path, make_model):
    """The folder of a saved model of five labels."""
    model, processor = make_model(problem_type="multi_label_classification")
    for part in (model, processor):
        part.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def write_rows(write):
    """Writes rows as JSON lines; those that are text as they are."""

    def write_lines(rows, name="texts.jsonl"):
        return write(name, "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))

    return write_lines
