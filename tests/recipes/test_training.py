"""Settings of recipes from files and flags, their final output files, and what they write on cards."""

import json
import math
import os
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import yaml

from hf_gile.training.reporting import saved_settings, write_results
from hf_gile_cli.flags import card_info

RECIPES = Path(__file__).parents[2] / "recipes"


@dataclass
class Recipe:
    data: str = field(metadata={"help": "Where."})
    units: list[str] = field(default_factory=lambda: ["linear"], metadata={"help": "Which."})
    share: float | None = field(default=None, metadata={"help": "How much."})
    is_fast: bool = field(default=False, metadata={"help": "How."})


@pytest.fixture
def read(parse):
    return partial(parse, Recipe, learning_rate=0.25)


def test_flags_override_the_file_and_the_file_overrides_defaults(read):
    config = "data: there\nunits: [gile, linear]\nlearning_rate: 5e-3\nper_device_train_batch_size: 7\nis_fast: true\n"
    recipe, args = read("--per_device_train_batch_size", "11", config=config)
    assert recipe == Recipe("there", ["gile", "linear"], None, True)
    assert (args.learning_rate, args.per_device_train_batch_size, args.save_total_limit) == (5e-3, 11, 1)
    recipe, args = read("--data", "here", "--units", "gile")
    assert recipe == Recipe("here", ["gile"])
    assert args.learning_rate == 0.25


def test_saved_settings_restore_the_same_settings(read, tmp_path):
    first, args = read("--data", "ünder", "--share", "0.5", "--units", "a", "b", "--num_train_epochs", "3")
    with saved_settings(first, args):
        pass
    saved = (tmp_path / "out" / "settings.yaml").read_text(encoding="utf-8")
    reloaded, reloaded_args = read("--overwrite_output_dir", config=saved)
    with saved_settings(reloaded, reloaded_args):
        assert not (tmp_path / "out" / "settings.yaml").exists()  # if the run ends here
    assert reloaded == first
    names = ("num_train_epochs", "learning_rate", "eval_strategy", "max_grad_norm", "use_cpu", "output_dir")
    assert [getattr(reloaded_args, name) for name in names] == [getattr(args, name) for name in names]
    assert yaml.safe_load((tmp_path / "out" / "settings.yaml").read_text(encoding="utf-8")) == yaml.safe_load(saved)


@pytest.mark.parametrize("name", ["results.json", "auto/checkpoint-7/x"])
def test_an_output_dir_with_a_run_is_refused(read, write, tmp_path, capsys, name):
    file = write(f"out/{name}", "an earlier run")
    with pytest.raises(SystemExit):
        read("--data", "here")
    message = capsys.readouterr().err
    assert "holds a run" in message
    assert "--resume_from_checkpoint true" in message
    assert "--overwrite_output_dir" in message
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == [file]
    read("--data", "here", "--resume_from_checkpoint", "true")
    assert file.exists()
    read("--data", "here", "--overwrite-output-dir")
    assert file.exists() == ("checkpoint" not in name)  # the model stays until the new one is saved


def test_secrets_are_not_saved(read, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "")
    address = "https://ada:lovelace@example.org/a.csv"
    recipe, args = read("--hub_token", "analytical", config=f"data: {address}\n")
    with saved_settings(recipe, args):
        pass
    assert args.hub_token is None  # copied to every checkpoint
    assert os.environ["HF_TOKEN"] == "analytical"
    saved = yaml.safe_load((tmp_path / "out" / "settings.yaml").read_text(encoding="utf-8"))
    assert saved["data"] == "https://<secret>@example.org/a.csv"
    assert "hub_token" not in saved


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("data: there\nlerning_rate: 1\n", "unknown setting 'lerning_rate'; did you mean --learning_rate"),
        ("data: there\nshare: much\n", "share: could not convert string to float: 'much'"),
        ("- hub_token: engine\n", "got [{'hub_token': <secret>}]"),
        ("units: gile", "the following arguments are required: --data"),
    ],
)
def test_an_invalid_settings_file_is_named(read, capsys, config, message):
    with pytest.raises(SystemExit):
        read(config=config)
    assert message in " ".join(capsys.readouterr().err.split())


def test_results_are_valid_json_with_null_for_nan(tmp_path):
    history = [{"step": 5, "eval_accuracy": np.float64("nan")}, {"step": 10, "eval_accuracy": 0.5}]
    results = {"gile": {"losses": [(5, 3.0)], "history": history, "test": {"test_accuracy": math.nan}}}
    write_results(tmp_path, results)
    text = (tmp_path / "results.json").read_text()
    assert "NaN" not in text
    without_nan = [{"step": 5, "eval_accuracy": None}, history[1]]
    expected = {"losses": [[5, 3.0]], "history": without_nan, "test": {"test_accuracy": None}}
    assert json.loads(text)["gile"] == expected


@pytest.mark.parametrize("script", ["train_table.py", "../recipes/train_table.py", str(RECIPES / "train_table.py")])
def test_the_command_on_a_card_contains_no_local_paths(monkeypatch, script):
    monkeypatch.chdir(RECIPES)
    for output in (["--output_dir", "/home/ada/out"], ["--output_dir=/home/ada/out"]):
        monkeypatch.setattr(sys, "argv", [script, "--text", "title and text", *output, "--seed", "3"])
        assert card_info(None).training_command == "python recipes/train_table.py --text 'title and text' --seed 3"


def test_a_card_file_overrides_the_facts_of_the_recipe(write):
    path = str(write("card.yaml", "dataset_name: Notes\nlicense: mit\n"))
    info = card_info(path, dataset_name="News", tags=["news"], training_command="python x.py")
    assert (info.dataset_name, info.license, info.tags) == ("Notes", "mit", ["news"])
    assert info.training_command == "python x.py"
