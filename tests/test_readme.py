"""The README is executed."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=["pipeline", "own data", "without the pipeline"])
def test_readme_code_runs(block, tmp_path, monkeypatch, make_model):
    monkeypatch.chdir(tmp_path)
    model, processor = make_model(problem_type="multi_label_classification")
    model.save_pretrained("runs/bioasq/gile/model")
    processor.save_pretrained("runs/bioasq/gile/model")
    block = block.replace('TrainingArguments("runs/mine",', 'TrainingArguments("runs/mine", use_cpu=True,')
    exec(compile(block, "README.md", "exec"), {})


def test_readme_names_files_and_names_that_exist():
    import hf_gile.models
    import hf_gile.models.output_layers_gile as output_layers
    import hf_gile.models.text_encoders_gile as text_encoders

    names = re.findall(r"`([A-Z]\w+)`", README.split("## Paper and code")[1].split("## Extras")[0])
    known = {*dir(hf_gile.models), *dir(output_layers), *dir(text_encoders), "LabelMetrics", "LabelSampler"}
    assert names
    assert set(names) <= known
    root = Path(__file__).parents[1]
    for path in re.findall(r"recipes/\w+\.py", README):
        assert (root / path).is_file()
