"""Resource files are located in a checkout and included in the wheel."""

import re
from pathlib import Path

import pytest

from hf_gile.resources import resource

ROOT = Path(__file__).parents[1]
_TEMPLATE = r'"(model_cards/[^"]+\.jinja)"'


def test_resource_returns_the_path_of_a_recipe():
    assert resource("recipes/train_table.py") == ROOT / "recipes" / "train_table.py"


@pytest.mark.parametrize("name", ["recipes/absent.py", "docs/data.md", "../etc/passwd"])
def test_a_missing_resource_is_named(name):
    with pytest.raises(FileNotFoundError, match=f"no file '{name}' in recipes or model_cards"):
        resource(name)


def test_the_wheel_contains_every_template():
    carried = (ROOT / "pyproject.toml").read_text().split("force-include")[1]
    names = {name for code in (ROOT / "hf_gile").rglob("*.py") for name in re.findall(_TEMPLATE, code.read_text())}
    assert names
    for name in names:
        assert resource(name).is_file()
        assert f'"{name}" = "hf_gile/publishing/{name}"' in carried
