import gzip
import importlib
import json
import shlex
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import pytest
from matplotlib.figure import Figure
from topics import NAMES, WORDS, write_documents

from hf_gile_cli.flags import parse_settings

RECIPES = Path(__file__).parents[2] / "recipes"

SAVE = Figure.savefig


@dataclass
class Done:
    """A recipe that has ended, and the folder that it ran in."""

    code: int
    stdout: str
    stderr: str
    folder: Path

    @property
    def results(self):
        return json.loads((self.folder / "out" / "results.json").read_text())


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
    """Runs a recipe in this process and the folder of the test, since importing torch takes longer than training."""

    def run(name: str, flags: str, fails: bool = False) -> Done:
        monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
        capfd.readouterr()
        code = 0
        with monkeypatch.context() as patch:
            patch.chdir(tmp_path)
            patch.setattr(sys, "argv", [str(RECIPES / f"{name}.py"), *shlex.split(flags)])
            patch.setattr(Figure, "savefig", save_no_picture)
            try:
                importlib.import_module(name).main()
            except SystemExit as error:
                code = error.code or 0
                if isinstance(code, str):
                    sys.stderr.write(f"{code}\n")
                    code = 1
            except Exception:
                code = 1
                traceback.print_exc()
        done = Done(code, *capfd.readouterr(), tmp_path)
        assert (code != 0) == fails, done.stderr[-3000:]
        return done

    return run


@pytest.fixture
def table_files(tmp_path):
    """Writes documents of topics and their labels, of which one is unseen; returns the flags that name the files."""
    write_documents(tmp_path / "train.jsonl", 60)
    write_documents(tmp_path / "dev.jsonl", 100, seed=2)
    write_documents(tmp_path / "test.jsonl", 30, list(WORDS), seed=3)
    lines = [f"{label},{name},{WORDS[label]},{WORDS[label].split()[-1]}\n" for label, name in NAMES.items()]
    (tmp_path / "labels.csv").write_text("".join(["id,name,about,other\n", *lines]))
    files = "--train_files train.jsonl --validation_files dev.jsonl --test_files test.jsonl --label_file labels.csv"
    return f"{files} --output_dir out --use_cpu"


@pytest.fixture
def topic_encoder(save_text_encoder):
    """The folder of a random encoder that knows all words of the topics."""
    return save_text_encoder(texts=[*WORDS.values(), *NAMES.values(), "query blood"])


@pytest.fixture
def write(write):
    """Writes a file of text, bytes, or objects as JSON lines or JSON; compresses it if its name says so."""

    def write_file(name, content):
        if ".jsonl" in name and isinstance(content, list):
            content = "".join(json.dumps(row) + "\n" for row in content)
        elif isinstance(content, dict | list):
            content = json.dumps(content)
        data = content.encode() if isinstance(content, str) else content
        return write(name, gzip.compress(data) if name.endswith(".gz") else data)

    return write_file


@pytest.fixture
def parse(monkeypatch, tmp_path):
    """Parses a command line of a recipe, and a file of settings."""

    def parse_line(recipe, *words, config=None, **defaults):
        if config is not None:
            (tmp_path / "mine.yaml").write_text(config)
            words = ["--config", tmp_path / "mine.yaml", *words]
        arguments = ["--use_cpu", "--output_dir", tmp_path / "out", *words]
        monkeypatch.setattr(sys, "argv", ["recipe.py", *map(str, arguments)])
        return parse_settings(recipe, defaults)

    return parse_line
