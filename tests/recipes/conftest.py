import importlib
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import pytest
from matplotlib.figure import Figure

RECIPES = Path(__file__).parents[2] / "recipes"

SAVE = Figure.savefig


@dataclass
class Done:
    """Result of a run, with the fields of `subprocess.CompletedProcess`."""

    returncode: int
    stdout: str
    stderr: str


def save_no_picture(figure: Figure, target: Any, **_: Any) -> None:
    """Saves empty figures, since drawing takes longer than training, and other tests check figures."""
    SAVE(Figure(figsize=(1, 1)), target)


@pytest.fixture(autouse=True)
def no_encoder(monkeypatch):
    """Hides installed pretrained encoders, so that tests only use encoders that they create."""
    monkeypatch.setattr("hf_gile.training.fit.text_encoders", lambda texts: [])


@pytest.fixture(autouse=True)
def _short_fits(monkeypatch):
    """Reduces convex fits to two folds and one L2 each; tests of the fits use all candidates."""
    for name, few in {
        "head.L2_OF_ROWS": (0.1,),
        "head.L2_OF_BILINEAR": (0.1,),
        "head.L2_OF_WORDS": (0.5,),
        "head.WEIGHTS_OF_PARTS": (0.5,),
        "head.FOLDS": 2,
        "documents.FOLDS": 2,
    }.items():
        monkeypatch.setattr(f"hf_gile.training.convex.{name}", few)


@pytest.fixture
def run_recipe(monkeypatch, capfd, tmp_path):
    """Runs a recipe in this process in a folder, since importing torch takes longer than training."""

    def run(name: str, arguments: Sequence[str], folder: Path = tmp_path) -> Done:
        monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
        capfd.readouterr()
        with monkeypatch.context() as patch:
            patch.chdir(folder)
            patch.setattr(sys, "argv", [str(RECIPES / f"{name}.py"), *map(str, arguments)])
            patch.setattr(Figure, "savefig", save_no_picture)
            try:
                importlib.import_module(name).main()
                code = 0
            except SystemExit as error:
                code = error.code if isinstance(error.code, int) else 1
                sys.stderr.write(f"{error.code}\n")
            except Exception:
                code = 1
                traceback.print_exc()
        return Done(code, *capfd.readouterr())

    return run
