"""Files and names in the README and other pages exist."""

import importlib
import pkgutil
import re

import pytest
from pages import ROOT

import hf_gile.data


def test_the_readme_is_short_and_names_existing_files():
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) <= 130
    for path in re.findall(r"(?:recipes|docs|benchmarks)/\w+\.\w+", readme):
        assert (ROOT / path).is_file(), path


def test_the_page_on_data_names_every_reader():
    page = re.sub(r"recipes/\S+|pyarrow\S+", "", (ROOT / "docs" / "data.md").read_text())
    named = set(re.findall(r"\b(?:load|read|write|mesh|table|zero_shot)_\w+\b", page))
    named -= {"load_dataset", "zero_shot_unseen"}
    named -= {"load_records", "load_dw", "read_medline", "mesh_ids"}  # in recipes/papers
    assert named <= set(hf_gile.data.__all__), named - set(hf_gile.data.__all__)
    assert {name for name in hf_gile.data.__all__ if name.startswith("load_")} <= named


def test_every_public_name_is_in_the_reference():
    described = set()
    for page in (ROOT / "docs" / "reference").glob("*.md"):
        for target in re.findall(r"^::: (\S+)", page.read_text(), re.MULTILINE):
            described |= names_under(target)
    for path in (ROOT / "hf_gile").rglob("__init__.py"):
        module = importlib.import_module(".".join(path.parent.relative_to(ROOT).parts))
        for name in getattr(module, "__all__", []):
            assert id(getattr(module, name)) in described, f"{module.__name__}.{name}"


def names_under(target):
    """Returns the ids of what the reference shows for a target: an object, or the public names of a package."""
    shown = pkgutil.resolve_name(target)
    names = getattr(shown, "__all__", None)
    return {id(shown)} if names is None else {id(getattr(shown, name)) for name in names}


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: page.name
)
def test_links_of_a_page_have_existing_targets(page):
    for target, _, heading in re.findall(r"\]\((?!https?:)([^)#]*)(#([^)]*))?\)", page.read_text()):
        file = (page.parent / target) if target else page
        assert file.exists(), target
        slugs = [
            re.sub(r"[^\w\- ]", "", line.lstrip("# ")).lower().replace(" ", "-")
            for line in (file.read_text().splitlines() if heading else ())
            if line.startswith("#")
        ]
        assert not heading or heading in slugs, f"{target}#{heading}"
