"""The language_models package is small, travels by itself, and shares nothing with other packages."""

import ast
import sys
from pathlib import Path

import pytest

import hf_gile

ROOT = Path(hf_gile.__file__).parent
ROOM = ROOT / "language_models"
TRAVELLING = [path for path in ROOM.glob("*.py") if path.name != "__init__.py"]
KNOWN = {"torch", "transformers", "huggingface_hub", *sys.stdlib_module_names}


def imports_of(path):
    """Yields all names that a file imports, with a dot before those of its package."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from ("." * node.level + f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("path", TRAVELLING, ids=lambda path: path.name)
def test_files_import_only_siblings_torch_and_transformers(path):
    siblings = tuple(f".{other.stem}." for other in TRAVELLING)
    names = [name for name in imports_of(path) if not name.startswith(siblings)]
    others = [name for name in names if name.split(".")[0] not in KNOWN]
    assert not others


def test_no_other_package_imports_language_models():
    importing = [path for path in ROOT.rglob("*.py") if "language_models" in " ".join(imports_of(path))]
    assert {path.parent for path in importing} <= {ROOM}
