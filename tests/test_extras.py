"""The extras of pyproject.toml, and the errors and pages that name them."""

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def names_in(text):
    yield from re.findall(r'(?:needs|missing)_extra\("([\w-]+)"', text)
    for names in re.findall(r"(?:hf-gile|'\.)\[([\w,-]+)\]", text):
        yield from names.split(",")


def test_every_extra_is_explained_in_the_readme():
    assert len(EXTRAS) <= 10
    explained = (ROOT / "README.md").read_text().split("## Extras")[1]
    assert set(re.findall(r"^- `([\w-]+)`:", explained, re.MULTILINE)) == set(EXTRAS)


def test_every_extra_named_in_errors_and_pages_exists():
    files = [ROOT / "README.md", ROOT / ".ci" / "run", ROOT / "pyproject.toml"]
    for folder in ("docs", "recipes", "benchmarks", "model_cards", "hf_gile", "hf_gile_cli"):
        files += [path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md", ".jinja")]
    named = {name: path for path in files for name in names_in(path.read_text(encoding="utf-8"))}
    assert {"train", "data", "export", "cli", "serve", "docs", "dev"} <= named.keys()
    assert {name: path for name, path in named.items() if name not in EXTRAS} == {}


def test_the_lowest_versions_are_those_that_are_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = {need for needs in (project["dependencies"], *EXTRAS.values()) for need in needs if ">=" in need}
    tested = dict(re.findall(r"^([\w-]+)==([\d.]+)$", (ROOT / "constraints-lowest.txt").read_text(), re.MULTILINE))
    lowest = dict(re.fullmatch(r"([\w-]+)(?:\[.+\])?>=([\d.]+)", requirement).groups() for requirement in required)
    for name in lowest.keys() & tested.keys():
        assert re.fullmatch(rf"{re.escape(lowest[name])}(\.0)*", tested[name]), name


def test_actions_are_pinned_by_hash():
    workflows = (ROOT / ".github" / "workflows").glob("*.yml")
    uses = {use for path in workflows for use in re.findall(r"uses: (\S+)", path.read_text())}
    uses.remove("./.github/workflows/ci.yml")
    assert uses
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) for action in uses)


def required_by(requirements):
    """Returns the names of all installed distributions that requirements need, with those that they need."""
    pending = [Requirement(requirement) for requirement in requirements]
    visited = set()
    while pending:
        requirement = pending.pop()
        extras = requirement.extras or {""}
        if requirement.name == "hf-gile":
            pending += [Requirement(text) for extra in requirement.extras for text in EXTRAS[extra]]
        elif (requirement.name, *sorted(extras)) not in visited:
            visited.add((requirement.name, *sorted(extras)))
            try:
                needed = [Requirement(text) for text in metadata.requires(requirement.name) or []]
            except metadata.PackageNotFoundError:
                continue
            for need in needed:
                if not need.marker or any(need.marker.evaluate({"extra": extra}) for extra in extras):
                    pending.append(need)
    return {name for name, *_ in visited}


def is_gpl(name):
    fields = metadata.metadata(name)
    licences = [fields.get("License-Expression") or "", *fields.get_all("Classifier", [])]
    if not licences[0]:
        licences.append((fields.get("License") or "").partition("\n")[0])
    return any(re.search(r"\bA?GPL|GNU (Affero )?General Public", text) for text in licences)


def installed(names):
    present = {re.sub(r"[-_.]+", "-", found.name).lower() for found in metadata.distributions()}
    return [name for name in names if re.sub(r"[-_.]+", "-", name).lower() in present]


def test_only_the_extra_that_says_so_requires_code_under_the_gpl():
    for extra in EXTRAS.keys() - {"medline-gpl"}:
        assert not any(map(is_gpl, installed(required_by(EXTRAS[extra])))), extra
    assert not any("pubmed-parser" in required_by(EXTRAS[extra]) for extra in EXTRAS.keys() - {"medline-gpl"})


@pytest.mark.skipif(sys.platform == "win32", reason="a bash script")
@pytest.mark.parametrize(
    ("tag", "heading", "owner", "message"),
    [
        ("v0.2.0", "## 0.2.0 (2027-01-31)", "someone", ""),
        ("v0.2.1", "## 0.2.0 (2027-01-31)", "someone", "version"),
        ("v0.2.0", "## 0.2.0 (unreleased)", "someone", "CHANGELOG.md"),
    ],
)
def test_a_release_needs_a_version_a_date_and_an_address(tmp_path, tag, heading, owner, message):
    (tmp_path / "hf_gile").mkdir()
    (tmp_path / "hf_gile" / "__init__.py").write_text('__version__ = "0.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n{heading}\n")
    (tmp_path / "pyproject.toml").write_text(f'Repository = "https://github.com/{owner}/hf_gile"\n')
    command = ["bash", str(ROOT / ".ci" / "check_release"), tag]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode == 0) == (not message)
    assert message in done.stderr
