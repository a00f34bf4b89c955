"""Command-line flags of recipes: errors, spellings, help."""

import os
import shutil
import sys
from dataclasses import fields

import pytest
import train_bioasq
import train_table
import train_units
from transformers import TrainingArguments

from hf_gile_cli.flag_names import unknown_flag
from hf_gile_cli.flags import FlagParser, parse_settings


@pytest.fixture
def parse(monkeypatch, tmp_path):
    """Parses a command line of the recipe for tables."""

    def parse_line(*words, check=None, recipe=train_table.Recipe):
        arguments = ["--use_cpu", "--output_dir", str(tmp_path / "out"), *map(str, words)]
        monkeypatch.setattr(sys, "argv", ["train_table.py", *arguments])
        return parse_settings(recipe, {}, check)

    return parse_line


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ["--label", "tags"],
            "error: --label: unknown flag; did you mean --labels (Column with the label ids",
        ),
        (["--epochs", "3"], "did you mean --num_train_epochs ("),
        (["--zzz"], "error: --zzz: unknown flag; --help shows the flags"),
        (["notes.csv"], "error: 'notes.csv' does not belong to a flag"),
        (["--seed", "x"], "invalid int value: 'x'"),
        (["--eval_strategy", "no"], "error: --load_best_model_at_end requires"),
    ],
)
def test_the_error_for_a_wrong_flag_names_the_right_flag(parse, capsys, flags, message):
    with pytest.raises(SystemExit) as ended:
        parse(*flags)
    assert ended.value.code == 2
    result = capsys.readouterr().err
    assert message in result
    assert result.count("\n") == 1


def test_all_flags_are_known_before_torch_is_imported():
    assert not unknown_flag(FlagParser(train_table.Recipe)._option_string_actions)


def test_a_flag_may_have_dashes_or_underscores(parse, tmp_path):
    recipe, args = parse("--label-file", "a.csv", "--train-files=b.csv", "--learning-rate", "0.5")
    assert (recipe.label_file, recipe.train_files, args.learning_rate) == ("a.csv", ["b.csv"], 0.5)
    (tmp_path / "mine.yaml").write_text("label-file: a.csv\nlearning-rate: 0.5\n")
    recipe, args = parse("--config", tmp_path / "mine.yaml")
    assert (recipe.label_file, args.learning_rate) == ("a.csv", 0.5)


@pytest.mark.parametrize(("module", "columns"), [(train_table, 80), (train_units, 80), (train_bioasq, 200)])
def test_help_has_a_line_per_setting_and_fits_on_two_screens(module, columns, monkeypatch):
    monkeypatch.setattr(shutil, "get_terminal_size", lambda *_: os.terminal_size((columns, 24)))
    lines = FlagParser(module.Recipe).short_help().splitlines()
    for field in fields(module.Recipe):
        assert sum(line.startswith(f"  --{field.name}") and line.split()[0] == f"--{field.name}" for line in lines) == 1
    assert len(lines) < 125
    assert all(len(line) <= min(columns, 120) for line in lines)
    assert any(line.startswith("  --overwrite_output_dir  ") for line in lines)  # takes no value


WRONG = [
    ({"units": ["gile", "nosuch"]}, "units must be one of linear, gile, .*, got 'nosuch'"),
    ({"text_encoder_type": "wam"}, "text_encoder_type must be one of .*; did you mean wan"),
    ({"text_encoder": "absent/folder/of/mine"}, "text_encoder: cannot load absent/folder/of/mine"),
    ({"start_from": "ENCODER"}, "start_from: .* is a bert, not a GILE model"),
    ({"text_encoder_options": "{"}, "text_encoder_options must be JSON"),
    ({"word_vectors": "absent.txt"}, "word_vectors: no file absent.txt"),
    ({"train_files": ["absent.csv"]}, "train_files: nothing matches absent.csv"),
    ({"label_file": "absent.csv"}, "label_file: no file absent.csv"),
    ({"held_out": 2.0}, "held_out must be a fraction"),
    ({"train_files": []}, "no training documents"),
]


@pytest.mark.parametrize(("settings", "message"), WRONG, ids=[str(settings)[:50] for settings, _ in WRONG])
def test_files_and_columns_are_checked_before_reading_data(settings, message, save_text_encoder, tmp_path):
    (tmp_path / "a.csv").write_text("text,labels\n")
    settings = {"train_files": [str(tmp_path / "a.csv")], **settings}
    settings = {name: save_text_encoder(texts=["a"]) if x == "ENCODER" else x for name, x in settings.items()}
    with pytest.raises((ValueError, OSError), match=message):
        train_table.check_recipe(train_units.Recipe(**settings), TrainingArguments(str(tmp_path), use_cpu=True))


@pytest.mark.parametrize(
    ("figure", "known"),
    [("validation_unseen_average_precision", True), ("loss", True), ("acuracy", False)],
)
def test_the_metric_for_the_best_epoch_must_exist(figure, known, tmp_path):
    (tmp_path / "a.csv").write_text("text,labels\n")
    recipe = train_table.Recipe(train_files=[str(tmp_path / "a.csv")])
    args = TrainingArguments(str(tmp_path), use_cpu=True, metric_for_best_model=figure)
    if known:
        train_table.check_recipe(recipe, args)
    else:
        with pytest.raises(ValueError, match=r"metric_for_best_model: .* did you mean \w*accuracy"):
            train_table.check_recipe(recipe, args)
