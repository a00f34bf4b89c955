"""Documented commands use existing flags; tests of single pages run the quick ones."""

import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
import train_bioasq
import train_dw
import train_nmt
import train_table
import train_units
from transformers import TrainingArguments

ROOT = Path(__file__).parents[2]
RECIPES = {
    "train_table": train_table,
    "train_units": train_units,
    "train_bioasq": train_bioasq,
    "train_dw": train_dw,
    "train_nmt": train_nmt,
}
OF_ALL = {field.name for field in fields(TrainingArguments)} | {"config", "recipe", "where"}
COMMANDS = [
    pytest.param(words, id=f"{page.name}: {line[:60]}")
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for block in re.findall(r"```bash\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
    if "--" in (words := line.split(" #")[0]) and re.search(r"hf-gile train |recipes/train_\w+\.py", words)
]


@pytest.mark.parametrize("line", COMMANDS)
def test_documented_commands_use_existing_flags(line):
    recipe = re.search(r"recipes/(train_\w+)\.py|--recipe (\w+)", line)
    module = RECIPES[(recipe[1] or f"train_{recipe[2]}") if recipe else "train_table"]
    known = OF_ALL | {field.name for field in fields(module.Recipe)}
    after = re.split(r"hf-gile train|recipes/train_\w+\.py", line)[1]
    flags = {word[2:].split("=")[0].replace("-", "_") for word in shlex.split(after) if word.startswith("--")}
    assert flags <= known, flags - known
