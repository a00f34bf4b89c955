"""Resource files are located in a checkout and included in the wheel; settings in YAML are read safely."""

import re
from pathlib import Path

import pytest

from hf_gile.resources import resource
from hf_gile.yaml_files import read_yaml

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


INVALID = {
    "nested too deeply": b"[" * 100_000,
    "byte 4 is not UTF-8": b"a: \xe4",
    "is not YAML: .*unhashable": b"{[1]: 2}",
    "is not YAML: could not determine a constructor": b"!!python/object/apply:os.system [touch mark]",
    "longer than 1,048,576 bytes": b"#" * (2 << 20),
    r"is not YAML: line 2: aliases are not allowed, replace \*a by": b"a: &a [lol]\nb: [*a, *a]\n",
}


@pytest.mark.parametrize("message", INVALID)
def test_invalid_yaml_gets_a_short_message(write, message):
    with pytest.raises(ValueError, match=rf"settings\.yaml.*{message}") as error:
        read_yaml(write("settings.yaml", INVALID[message]))
    assert len(str(error.value)) < 1000
