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


def test_the_lowest_versions_are_those_that_are_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = {
        requirement
        for requirements in (project["dependencies"], *EXTRAS.values())
        for requirement in requirements
        if ">=" in requirement
    }
    tested = dict(re.findall(r"^([\w-]+)==([\d.]+)$", (ROOT / "constraints-lowest.txt").read_text(), re.MULTILINE))
    lowest = dict(re.fullmatch(r"([\w-]+)(?:\[.+\])?>=([\d.]+)", requirement).groups() for requirement in required)
    assert {
        name: version
        for name, version in lowest.items()
        if name in tested and not re.fullmatch(rf"{re.escape(version)}(\.0)*", tested[name])
    } == {}


def test_actions_are_pinned_by_hash():
    uses = re.findall(r"uses: (\S+)", (ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert uses
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) for action in uses)
