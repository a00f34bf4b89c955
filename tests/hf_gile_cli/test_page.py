"""docs/cli.md is executed: each of its commands, in order, in a folder with the files that it names."""

import csv
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hf_gile.training import encoders
from hf_gile_cli.app import app

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
COMMANDS = [
    line
    for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if "hf-gile " in line
]
TRAINING = [line for line in COMMANDS if re.match("hf-gile (demo|train (?!.*--where))", line)]
RECORDS = [
    {"id": "a", "title": "Milk.", "abstract": "Breast milk for infants.", "subjects": ["Milk, Human", "Infant"]},
    {"id": "b", "title": "Heart.", "abstract": "The failing heart pumps less blood.", "subjects": ["Heart Failure"]},
    {"id": "c", "title": "Iron.", "abstract": "Rats were fed a diet low in iron.", "subjects": ["Iron", "Blood"]},
]


@pytest.fixture
def folder(tmp_path, saved_model, monkeypatch):
    for name in ("records", "validation", "test"):
        rows = [row | {"id": f"{row['id']}{copy}"} for copy in range(6) for row in RECORDS]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "notes.txt").write_text("Rats were fed.\nBreast milk.\n")
    with (tmp_path / "notes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", "tags"])
        writer.writerows(
            [number, f"{row['abstract']}", "; ".join(row["subjects"])] for number in range(60) for row in RECORDS
        )
    (tmp_path / "subjects.csv").write_text("id,name_en\nx1,Rats\nx2,Feeding\n")
    (tmp_path / "card.yaml").write_text("summary: On milk and iron.\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_line(run, line):
    """Runs a command as a shell would: `echo` or `cat` before a pipe, `>` into a file."""
    words, target, given = shlex.split(line), None, None
    if ">" in words:
        words, target = words[: words.index(">")], words[-1]
    if "|" in words:
        before, words = words[: words.index("|")], words[words.index("|") + 1 :]
        given = f"{before[1]}\n" if before[0] == "echo" else Path(before[1]).read_text()
    assert words[0] == "hf-gile"
    result = run(*words[1:], input=given)
    if target is not None:
        Path(target).write_text(result.stdout)
    return result


def test_every_command_of_the_page_runs(run, folder, monkeypatch, shared_data, save_text_encoder):
    datasets = pytest.importorskip("datasets")
    pytest.importorskip("h5py")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", folder / "cache")
    encoder = encoders.FoundEncoder("sentence-transformers/all-MiniLM-L6-v2", save_text_encoder(folder / "encoder"))
    monkeypatch.setattr(encoders, "_found", lambda name, packaged: encoder)
    monkeypatch.setattr("uvicorn.run", lambda app, **settings: None)
    (checkpoint,) = (shared_data / "published_checkpoints" / "gile").glob("*en-de*")
    for name in ("weights.h5", "args.json"):
        shutil.copy(checkpoint / name, folder)
    said = {line: run_line(run, line) for line in COMMANDS if line not in TRAINING}
    assert len((folder / "scored.jsonl").read_text().splitlines()) == 2
    assert "+ D000086382" in said[next(line for line in said if "labels add" in line)].stdout
    assert (
        "model-index" in (folder / "model" / "README.md").read_text() or (folder / "model" / "results.json").is_file()
    )
    assert "On milk and iron." in (folder / "model" / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in TRAINING if "demo" not in line])  # which test_train.py runs
def test_every_training_command_of_the_page_runs(folder, line):
    command = [sys.executable, "-m", "hf_gile_cli", *shlex.split(line)[1:], "--num_train_epochs", "1"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_page_shows_every_command():
    import typer

    labels = typer.main.get_command(app).commands["labels"].commands
    groups = {"labels": [name for name, command in labels.items() if not command.hidden]}
    names = [*typer.main.get_command(app).commands]
    for name in names:
        for own in groups.get(name, [""]):
            words = f"hf-gile {name} {own}".strip()
            assert any(re.search(rf"\b{re.escape(words)}\b", line) for line in COMMANDS), words
