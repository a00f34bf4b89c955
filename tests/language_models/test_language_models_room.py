"""The language_models package is small, travels by itself, and shares nothing with other packages."""

import ast
import sys
from pathlib import Path

import pytest

import hf_gile

ROOT = Path(hf_gile.__file__).parent
KNOWN = {"torch", "transformers", "huggingface_hub", *sys.stdlib_module_names}
ROOM = ROOT / "language_models"
TRAVELLING = [path for path in ROOM.glob("*.py") if path.name != "__init__.py"]


@pytest.mark.parametrize("path", TRAVELLING, ids=lambda path: path.name)
def test_files_import_only_siblings_torch_and_transformers(path):
    siblings = {path.stem for path in TRAVELLING}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            assert (node.level, node.module in siblings) == (1, True), node.lineno
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            for name in names:
                assert name.split(".")[0] in KNOWN, f"{path.name}: {name}"


def test_no_other_package_imports_language_models():
    for path in ROOT.rglob("*.py"):
        if ROOM in path.parents:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert "language_models" not in ast.unparse(node), f"{path}:{node.lineno}"
