"""Command-line flags of recipes: errors, spellings, help."""

import os
import re
import shutil
from dataclasses import fields

import pytest
import train_bioasq
import train_table
import train_units
from transformers import TrainingArguments

from hf_gile_cli.flag_names import unknown_flag
from hf_gile_cli.flags import FlagParser

OF_AUTO = "--train_files notes.csv --units auto"
OF_ONE_LABEL = "--train_files notes.csv --problem_type single_label_classification"
ERRORS_OF_USE = [
    ("table", "--label tags", r"error: --label: unknown flag; did you mean --labels \(Column with the label ids"),
    ("table", "--epochs 3", r"did you mean --num_train_epochs \("),
    ("table", "--zzz", "error: --zzz: unknown flag; --help shows the flags"),
    ("table", "notes.csv", "error: 'notes.csv' does not belong to a flag"),
    ("table", "--seed x", "invalid int value: 'x'"),
    ("table", "--eval_strategy no", "error: --load_best_model_at_end requires"),
    ("table", "", "no training documents: pass --train_files"),
    ("table", "--train_files absent.csv", "train_files: nothing matches absent.csv"),
    ("table", "--train_files notes.csv --dataset x", "pass either --dataset or files"),
    ("table", "--train_files notes.csv --format xml", "format must be one of table, annif, got 'xml'"),
    ("table", "--train_files notes.csv --label_file absent.csv", "label_file: no file absent.csv"),
    ("table", "--train_files notes.csv --text_encoder absent", "text_encoder: cannot load absent"),
    ("table", "--train_files notes.csv --held_out 2", "held_out must be a fraction"),
    ("table", "--train_files notes.csv --metric_for_best_model acuracy", r"metric_for_best_model: .* mean \w*accuracy"),
    ("table", "--train_files notes.csv --text_encoder static --lexical false", "neither start_from nor lexical false"),
    ("units", "--train_files notes.csv --units gile nosuch", "units must be one of linear, gile, .*, got 'nosuch'"),
    ("units", "--train_files notes.csv --text_encoder_type wam", "text_encoder_type must be .*; did you mean wan"),
    ("units", "--train_files notes.csv --text_encoder_options {", "text_encoder_options must be JSON"),
    ("units", "--train_files notes.csv --start_from encoder", "start_from: .* is a bert, not a GILE model"),
    ("units", "--train_files notes.csv --word_vectors absent.txt", "word_vectors: no file absent.txt"),
    ("units", f"{OF_AUTO} --text_encoder encoder --lora_rank 8", "auto does not support lora_rank: choose a unit"),
    ("units", "--train_files notes.csv --hierarchical", "hierarchical needs a pretrained encoder: set --text_encoder"),
    ("units", "--train_files notes.csv --label_texts titles", "label_texts must be one of name, synonyms, definitions"),
    ("units", "--train_files notes.csv --lora_rank 2", "lora_rank needs a pretrained encoder"),
    ("units", f"{OF_ONE_LABEL} --calibration spline", "must be platt or none"),
    ("bioasq", "--units gile wsabie --text_encoder x", "unit wsabie supports word models only"),
    ("dw", "--data . --sharing all", "sharing must be one of none, encoders, attention, both, got 'all'"),
    ("dw", "--data . --languages germn", "languages must be one of english, german, got 'germn'; did you mean german"),
    ("dw", "--data absent", "data: no file absent/train"),
    ("nmt", "--data . --layers jiont512", "did you mean joint"),
    ("nmt", "--data . --layers tiedx2", "only joint and output support it"),
    ("nmt", "--data . --loss chunked", "remove it from --layers"),
    ("xmc", "--data absent", r"data: no folder absent \(in "),
]
LACKS = "two.csv lacks 1 label id .*'iron' .*its ids are like 'milk'.*notes.csv:2"
ERRORS_OF_DATA = [
    ("table", "--train_files notes.csv --label_file two.csv", LACKS),
    ("table", "--train_files same.csv", "all documents have the same label, 'iron', so there is nothing to learn"),
    ("nmt", "--data .", "no file train.de"),
    ("xmc", "--data . --encoding 'no such'", "encoding must be"),
    ("xmc", "--data .", "no trn.json or trn_X.txt or "),
]
ERRORS = [(2, *row) for row in ERRORS_OF_USE] + [(1, *row) for row in ERRORS_OF_DATA]


@pytest.mark.parametrize(("code", "recipe", "flags", "message"), ERRORS)
def test_an_error_names_the_flag_and_the_remedy(run_recipe, save_text_encoder, tmp_path, code, recipe, flags, message):
    if " encoder" in flags:
        save_text_encoder(texts=["a"])
    for name, labels in (("notes", ("iron", "milk")), ("same", ("iron",))):
        rows = "".join(f"a {row},{label}\n" for row in range(40) for label in labels)
        (tmp_path / f"{name}.csv").write_text(f"text,labels\n{rows}")
    (tmp_path / "two.csv").write_text("id,name\nmilk,Milk\nheart,Heart\n")
    for part in ("train", "dev", "test"):
        (tmp_path / part).mkdir()
    for language in ("english", "german"):
        (tmp_path / "train" / f"{language}.json").touch()
    done = run_recipe(f"train_{recipe}", f"--use_cpu --output_dir out {flags}", fails=True)
    assert done.code == code
    assert re.search(message, done.stderr.splitlines()[-1])
    assert "Traceback" not in done.stderr
    assert not [*(tmp_path / "out").rglob("*")]


def test_all_flags_are_known_before_torch_is_imported():
    assert not unknown_flag(FlagParser(train_table.Recipe)._option_string_actions)


def test_a_flag_may_have_dashes_or_underscores(parse):
    config = "learning-rate: 0.5\nseparator: ;\n"
    recipe, args = parse(train_table.Recipe, "--label-file", "a.csv", "--train-files=b.csv", config=config)
    assert (recipe.label_file, recipe.train_files, recipe.separator) == ("a.csv", ["b.csv"], ";")
    assert args.learning_rate == 0.5


@pytest.mark.parametrize(("module", "columns"), [(train_table, 80), (train_units, 80), (train_bioasq, 200)])
def test_help_has_a_line_per_setting_and_fits_on_two_screens(module, columns, monkeypatch):
    monkeypatch.setattr(shutil, "get_terminal_size", lambda *_: os.terminal_size((columns, 24)))
    lines = FlagParser(module.Recipe).short_help().splitlines()
    for field in fields(module.Recipe):
        assert sum(line.startswith(f"  --{field.name}") and line.split()[0] == f"--{field.name}" for line in lines) == 1
    assert len(lines) < 125
    assert all(len(line) <= min(columns, 120) for line in lines)
    assert any(line.startswith("  --overwrite_output_dir  ") for line in lines)  # takes no value


@pytest.mark.parametrize("figure", ["validation_unseen_average_precision", "loss"])
def test_the_metric_for_the_best_epoch_may_be_any_figure(figure, tmp_path):
    (tmp_path / "a.csv").write_text("text,labels\n")
    recipe = train_table.Recipe(train_files=[str(tmp_path / "a.csv")])
    train_table.check_recipe(recipe, TrainingArguments(str(tmp_path), use_cpu=True, metric_for_best_model=figure))
