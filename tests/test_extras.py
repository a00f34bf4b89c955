"""The extras of pyproject.toml, and the errors and pages that name them."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def names_in(text):
    yield from re.findall(r'needs_extra\("(\w+)"', text)
    for names in re.findall(r"(?:hf-gile|'\.)\[([\w,]+)\]", text):
        yield from names.split(",")


def test_every_extra_is_explained_in_the_readme():
    assert len(EXTRAS) <= 9
    explained = (ROOT / "README.md").read_text().split("## Extras")[1]
    assert set(re.findall(r"^- `(\w+)`:", explained, re.MULTILINE)) == set(EXTRAS)


def test_every_extra_named_in_errors_and_pages_exists():
    files = [ROOT / "README.md", ROOT / ".ci" / "run", ROOT / "pyproject.toml"]
    for folder in ("docs", "recipes", "benchmarks", "model_cards", "hf_gile", "hf_gile_cli"):
        files += [path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md", ".jinja")]
    named = {name: path for path in files for name in names_in(path.read_text(encoding="utf-8"))}
    assert {"train", "data", "export", "cli", "serve", "docs", "dev"} <= named.keys()
    assert {name: path for name, path in named.items() if name not in EXTRAS} == {}
