"""Model cards written by recipes."""

import sys
from pathlib import Path

import pytest

from hf_gile_cli.flags import card_info

RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.mark.parametrize("script", ["train_table.py", "../recipes/train_table.py", str(RECIPES / "train_table.py")])
def test_the_command_on_a_card_contains_no_local_paths(monkeypatch, script):
    monkeypatch.chdir(RECIPES)
    for output in (["--output_dir", "/home/ada/out"], ["--output_dir=/home/ada/out"]):
        monkeypatch.setattr(sys, "argv", [script, "--text", "title and text", *output, "--seed", "3"])
        assert card_info(None).training_command == "python recipes/train_table.py --text 'title and text' --seed 3"


def test_a_card_file_overrides_the_facts_of_the_recipe(tmp_path):
    (tmp_path / "card.yaml").write_text("dataset_name: Notes\nlicense: mit\n")
    info = card_info(str(tmp_path / "card.yaml"), dataset_name="News", tags=["news"], training_command="python x.py")
    assert (info.dataset_name, info.license, info.tags) == ("Notes", "mit", ["news"])
    assert info.training_command == "python x.py"
